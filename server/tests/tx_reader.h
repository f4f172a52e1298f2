/* SPDX-License-Identifier: BSD-3-Clause */
/* What the transmission tests share beside the world: reading the replies it wrote, with cmocka. */
#ifndef SERVER_TESTS_TX_READER_H
#define SERVER_TESTS_TX_READER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <cmocka.h>

#include "server/tests/tx_world.h"

enum { SIZE = 4 << 20, COOKIE = 0x5eed };

/* ---- reading what came out ----------------------------------------------------------------- */

struct reader {
	const struct world *w;
	size_t at;
};

static inline uint32_t next_simple(struct reader *r, uint64_t cookie)
{
	const uint8_t *p = r->w->out + r->at;

	assert_true(r->w->out_len - r->at >= NBD_SIMPLE_REPLY_BYTES);
	assert_int_equal(get_be32(p), NBD_SIMPLE_REPLY_MAGIC);
	assert_int_equal(get_be64(p + 8), cookie);
	r->at += NBD_SIMPLE_REPLY_BYTES;
	return get_be32(p + 4);
}

struct chunk {
	uint16_t flags, type;
	uint64_t cookie;
	uint32_t len, error;
	uint64_t addr;
	const uint8_t *data;
};

static inline struct chunk next_chunk(struct reader *r)
{
	const uint8_t *p = r->w->out + r->at;
	struct chunk c = {0};

	assert_true(r->w->out_len - r->at >= NBD_CHUNK_HEADER_BYTES);
	assert_int_equal(get_be32(p), NBD_STRUCTURED_REPLY_MAGIC);
	c.flags = get_be16(p + 4);
	c.type = get_be16(p + 6);
	c.cookie = get_be64(p + 8);
	c.len = get_be32(p + 16);
	p += NBD_CHUNK_HEADER_BYTES;
	assert_true(r->w->out_len - r->at >= NBD_CHUNK_HEADER_BYTES + (uint64_t)c.len);
	if (c.type == NBD_REPLY_TYPE_OFFSET_DATA) {
		assert_true(c.len > 8);
		c.addr = get_be64(p);
		c.data = p + 8;
	} else if (c.type == NBD_REPLY_TYPE_ERROR) {
		c.error = get_be32(p);
		assert_int_equal(get_be16(p + 4), c.len - 6);
		assert_true(c.len > 6); /* it says why */
	} else {
		assert_int_equal(c.type, NBD_REPLY_TYPE_NONE);
		assert_int_equal(c.len, 0);
		assert_true(c.flags & NBD_REPLY_FLAG_DONE);
	}
	r->at += NBD_CHUNK_HEADER_BYTES + c.len;
	return c;
}

static inline void expect_end(const struct reader *r)
{
	assert_int_equal(r->at, r->w->out_len);
}

/* ---- shorthand ----------------------------------------------------------------------------- */

static inline void pattern(uint8_t *buf, size_t n, uint8_t seed)
{
	for (size_t i = 0; i < n; i++) {
		buf[i] = (uint8_t)(seed + i * 7 + i / 251);
	}
}

static inline void send_request(struct world *w, uint16_t cmd, uint16_t flags, uint64_t cookie,
				uint64_t addr, uint32_t len)
{
	uint8_t head[NBD_REQUEST_BYTES];

	world_feed(w, head, world_header(head, cmd, flags, cookie, addr, len));
}

#endif
