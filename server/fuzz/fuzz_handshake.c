/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arbitrary bytes as a client's handshake. The first byte chooses the server's configuration and in
 * what pieces the bytes arrive; the same bytes in one piece must end the same way.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/exports.h"
#include "server/handshake.h"
#include "server/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

/* What the machine may owe at most after one option: the exports' texts are short here. */
enum { OUTPUT_MAX = 8192 };

struct outcome {
	enum handshake_next next;
	size_t used, sent;
	uint64_t hash; /* of everything sent */
	bool structured;
	const struct export *chosen;
};

static void drain(struct handshake *h, struct outcome *o)
{
	size_t n;
	const uint8_t *bytes = handshake_output(h, &n);

	CHECK(n <= OUTPUT_MAX);
	for (size_t i = 0; i < n; i++) {
		o->hash = (o->hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	}
	o->sent += n;
	handshake_sent(h, n);
}

static struct outcome play(const struct handshake_config *config, const uint8_t *data, size_t size,
			   size_t piece, size_t stop_at)
{
	const struct access_peer peer = {.kind = ACCESS_UNIX, .uid = 1};
	struct handshake h;
	struct outcome o = {0};

	handshake_init(&h, config, &peer);
	drain(&h, &o);
	while (o.used < size && handshake_next(&h) == HANDSHAKE_WAIT) {
		size_t n = min_u64(piece, size - o.used);
		size_t used = handshake_input(&h, data + o.used, n);

		CHECK(used <= n && used > 0);
		o.used += used;
		drain(&h, &o);
		if (o.used >= stop_at) {
			handshake_stop(&h);
		}
	}
	o.next = handshake_next(&h);
	o.structured = h.structured;
	o.chosen = h.chosen;
	CHECK(o.next != HANDSHAKE_SERVE || o.chosen);
	CHECK(o.next != HANDSHAKE_CLOSE || h.why);
	handshake_release(&h);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct assembly assembly; /* zeroes: an array of no size will do */
	struct array_instance ai = {.assembly = &assembly};
	struct export_table table = {0};
	struct handshake_config config = {.exports = &table};
	struct outcome whole, pieces;
	uint8_t choice;

	if (size) {
		choice = *data++;
		size--;
		config.list = choice & 1;
		CHECK(!exports_add(&table, export_create("data", NULL, &ai, false), choice & 2));
		CHECK(!exports_add(&table, export_create("other", "text", &ai, true), false));
		if (choice & 16) {
			const struct access_rule rule = {.kind = ACCESS_UNIX, .uid = choice & 1};

			CHECK(!export_restrict(table.item[1], &rule, 1));
		}
		whole = play(&config, data, size, size, SIZE_MAX);
		pieces = play(&config, data, size, 1 + (choice >> 3), SIZE_MAX);
		CHECK(whole.next == pieces.next && whole.used == pieces.used);
		CHECK(whole.sent == pieces.sent && whole.hash == pieces.hash);
		CHECK(whole.structured == pieces.structured && whole.chosen == pieces.chosen);
		if (choice & 4) {
			play(&config, data, size, 7, size / 2);
		}
	}
	exports_release(&table);
	return 0;
}

static size_t put_option(uint8_t *p, uint32_t option, const void *data, uint32_t len)
{
	put_be64(p, NBD_IHAVEOPT);
	put_be32(p + 8, option);
	put_be32(p + 12, len);
	memcpy(p + 16, data, len);
	return 16 + len;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	static const struct {
		uint32_t option;
		const char *data;
		uint32_t len;
	} options[] = {
		{NBD_OPT_EXPORT_NAME, "data", 4},
		{NBD_OPT_GO, "\0\0\0\4data\0\3\0\1\0\2\0\3", 16},
		{NBD_OPT_GO, "\0\0\0\0\0\0", 6},
		{NBD_OPT_INFO, "\0\0\0\5other\0\0", 11},
		{NBD_OPT_LIST, "", 0},
		{NBD_OPT_ABORT, "", 0},
		{NBD_OPT_STARTTLS, "", 0},
		{NBD_OPT_SET_META_CONTEXT, "\0\0\0\4data\0\0\0\1\0\0\0\5base:", 21},
	};
	const size_t count = sizeof options / sizeof options[0];
	size_t at = 5;

	if (i >= 4 * count || size < 512) {
		return 0;
	}
	buf[0] = (uint8_t)(i * 37);
	put_be32(buf + 1, i / count);
	at += put_option(buf + at, NBD_OPT_STRUCTURED_REPLY, "", 0);
	at += put_option(buf + at, options[i % count].option, options[i % count].data,
			 options[i % count].len);
	at += put_option(buf + at, options[1].option, options[1].data, options[1].len);
	memset(buf + at, 0x25, NBD_REQUEST_BYTES); /* requests behind it */
	return at + NBD_REQUEST_BYTES;
}
