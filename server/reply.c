/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/reply.h"

#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/wire.h"

STATIC_CHECK(NBD_CHUNK_HEADER_BYTES + 8 <= REPLY_HEAD_BYTES_MAX, "a chunk's head fits");

void reply_init(struct reply_queue *q)
{
	list_init(&q->msgs);
	q->first_sent = 0;
	q->bytes = 0;
}

static void set(struct reply_msg *m, uint8_t head_len, const void *data, uint32_t len)
{
	CHECK(head_len <= REPLY_HEAD_BYTES_MAX);
	CHECK(data || !len);
	m->head_len = head_len;
	m->data = data;
	m->data_len = len;
}

void reply_simple(struct reply_msg *m, uint64_t cookie, uint32_t error, const void *data,
		  uint32_t len)
{
	CHECK(!error || !len);
	put_be32(m->head, NBD_SIMPLE_REPLY_MAGIC);
	put_be32(m->head + 4, error);
	put_be64(m->head + 8, cookie);
	set(m, NBD_SIMPLE_REPLY_BYTES, data, len);
}

static void chunk_header(struct reply_msg *m, uint64_t cookie, bool done, uint16_t type,
			 uint32_t len)
{
	put_be32(m->head, NBD_STRUCTURED_REPLY_MAGIC);
	put_be16(m->head + 4, done ? NBD_REPLY_FLAG_DONE : 0);
	put_be16(m->head + 6, type);
	put_be64(m->head + 8, cookie);
	put_be32(m->head + 16, len);
}

void reply_chunk_data(struct reply_msg *m, uint64_t cookie, bool done, uint64_t addr,
		      const void *data, uint32_t len)
{
	CHECK(len > 0);
	chunk_header(m, cookie, done, NBD_REPLY_TYPE_OFFSET_DATA, 8 + len);
	put_be64(m->head + NBD_CHUNK_HEADER_BYTES, addr);
	set(m, NBD_CHUNK_HEADER_BYTES + 8, data, len);
}

void reply_chunk_none(struct reply_msg *m, uint64_t cookie)
{
	chunk_header(m, cookie, true, NBD_REPLY_TYPE_NONE, 0);
	set(m, NBD_CHUNK_HEADER_BYTES, NULL, 0);
}

void reply_chunk_error(struct reply_msg *m, uint64_t cookie, uint32_t error, const char *text)
{
	uint16_t text_len = strlen(text);

	CHECK(error);
	chunk_header(m, cookie, true, NBD_REPLY_TYPE_ERROR, 6 + text_len);
	put_be32(m->head + NBD_CHUNK_HEADER_BYTES, error);
	put_be16(m->head + NBD_CHUNK_HEADER_BYTES + 4, text_len);
	set(m, NBD_CHUNK_HEADER_BYTES + 6, text, text_len);
}

static size_t msg_bytes(const struct reply_msg *m)
{
	return (size_t)m->head_len + m->data_len;
}

void reply_push(struct reply_queue *q, struct reply_msg *m)
{
	list_append(&q->msgs, &m->link);
	q->bytes += msg_bytes(m);
}

uint32_t reply_vec(const struct reply_queue *q, struct iovec *iov, uint32_t iov_max,
		   uint64_t bytes_max)
{
	const struct reply_msg *m;
	size_t skip = q->first_sent;
	uint64_t bytes = 0;
	uint32_t n = 0;

	list_for_each_entry (m, &q->msgs, link) {
		if (bytes >= bytes_max || n + 2 > iov_max) {
			break;
		}
		if (skip < m->head_len) {
			iov[n++] = (struct iovec){(void *)(m->head + skip), m->head_len - skip};
			skip = 0;
		} else {
			skip -= m->head_len;
		}
		if (m->data_len) {
			iov[n++] = (struct iovec){(char *)m->data + skip, m->data_len - skip};
		}
		skip = 0;
		bytes += msg_bytes(m);
	}
	return n;
}

struct reply_msg *reply_sent(struct reply_queue *q, size_t *n)
{
	struct reply_msg *m = list_first_entry(&q->msgs, struct reply_msg, link);
	size_t left;

	if (!m) {
		CHECK(*n == 0);
		return NULL;
	}
	left = msg_bytes(m) - q->first_sent;
	if (*n < left) {
		q->first_sent += *n;
		q->bytes -= *n;
		*n = 0;
		return NULL;
	}
	*n -= left;
	q->bytes -= left;
	q->first_sent = 0;
	list_del(&m->link);
	return m;
}

struct reply_msg *reply_discard(struct reply_queue *q)
{
	struct reply_msg *m = list_first_entry(&q->msgs, struct reply_msg, link);

	if (!m) {
		return NULL;
	}
	q->bytes -= msg_bytes(m) - q->first_sent;
	q->first_sent = 0;
	list_del(&m->link);
	return m;
}
