/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client for the handshake tests: puts bytes of options together, plays them to the machine, and
 * takes apart what came back. Every play runs twice, with the bytes in one piece and one at a time:
 * both must give the same output. Included by one test program each; the state is its own.
 */
#ifndef SERVER_TESTS_HANDSHAKE_PLAY_H
#define SERVER_TESTS_HANDSHAKE_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/base/bytes.h"
#include "server/exports.h"
#include "server/handshake.h"
#include "server/wire.h"

enum { IN_BYTES = 4 << 20, FIXED = NBD_FLAG_FIXED_NEWSTYLE, NO_ZEROES = NBD_FLAG_NO_ZEROES };

static struct assembly assembly;
static struct array_instance array = {.assembly = &assembly};
static struct export_table table;
static struct handshake_config config = {.exports = &table, .list = true};

/* What the client sends, and what came back. */
static uint8_t in[IN_BYTES];
static size_t in_len;
static uint8_t *out;
static size_t out_len, at, used;
static struct handshake hs;
static struct access_peer peer = {.kind = ACCESS_INET, .addr = {[15] = 1}}; /* ::1 */

/* ---- the client's side --------------------------------------------------------------------- */

static inline void put_bytes(const void *bytes, size_t n)
{
	assert_true(in_len + n <= sizeof in);
	memcpy(in + in_len, bytes, n);
	in_len += n;
}

static inline void put_flags(uint32_t flags)
{
	in_len = 0;
	put_be32(in, flags);
	in_len = 4;
}

static inline void put_option(uint32_t option, const void *data, uint32_t len)
{
	uint8_t head[NBD_OPTION_HEADER_BYTES];

	put_be64(head, NBD_IHAVEOPT);
	put_be32(head + 8, option);
	put_be32(head + 12, len);
	put_bytes(head, sizeof head);
	if (data) {
		put_bytes(data, len);
	}
}

static inline void put_zeroes_option(uint32_t option, uint32_t len)
{
	put_option(option, NULL, len);
	assert_true(in_len + len <= sizeof in);
	memset(in + in_len, 0, len);
	in_len += len;
}

/* INFO or GO for a name, asking for count types starting at type. */
static inline void put_info(uint32_t option, const char *name, size_t name_len, uint16_t count,
			    const uint16_t *types)
{
	uint8_t data[8192];

	put_be32(data, (uint32_t)name_len);
	memcpy(data + 4, name, name_len);
	put_be16(data + 4 + name_len, count);
	for (uint16_t i = 0; i < count; i++) {
		put_be16(data + 6 + name_len + 2 * i, types[i]);
	}
	put_option(option, data, (uint32_t)(6 + name_len + 2 * count));
}

static inline void put_go(const char *name)
{
	put_info(NBD_OPT_GO, name, strlen(name), 0, NULL);
}

static inline void run(size_t piece)
{
	uint8_t *all = NULL;
	size_t all_len = 0;

	handshake_release(&hs);
	handshake_init(&hs, &config, &peer);
	for (used = 0;;) {
		size_t n, took = 0;
		const void *bytes = handshake_output(&hs, &n);

		all = realloc(all, all_len + n + 1);
		assert_non_null(all);
		memcpy(all + all_len, bytes, n);
		all_len += n;
		handshake_sent(&hs, n);
		if (handshake_next(&hs) == HANDSHAKE_WAIT && used < in_len) {
			took = handshake_input(&hs, in + used, min_u64(piece, in_len - used));
			used += took;
		}
		if (!took) {
			break;
		}
	}
	free(out);
	out = all;
	out_len = all_len;
}

/* Both ways; afterwards at is behind the greeting. */
static inline void play(enum handshake_next expected)
{
	uint8_t *whole;
	size_t whole_len, whole_used;

	run(in_len);
	whole = out;
	whole_len = out_len;
	whole_used = used;
	assert_int_equal(handshake_next(&hs), expected);
	out = NULL;
	run(1);
	assert_int_equal(handshake_next(&hs), expected);
	assert_int_equal(out_len, whole_len);
	assert_memory_equal(out, whole, out_len);
	assert_int_equal(used, whole_used);
	free(whole);
	assert_true(out_len >= NBD_GREETING_BYTES);
	at = NBD_GREETING_BYTES;
}

/* ---- what came back ------------------------------------------------------------------------ */

/* Next option reply; its data is at out + at - *len. */
static inline uint32_t get_reply(uint32_t option, uint32_t *len)
{
	const uint8_t *p = out + at;
	uint32_t type;

	assert_true(out_len - at >= NBD_OPTION_REPLY_HEADER_BYTES);
	assert_true(get_be64(p) == NBD_REP_MAGIC);
	assert_int_equal(get_be32(p + 8), option);
	type = get_be32(p + 12);
	*len = get_be32(p + 16);
	at += NBD_OPTION_REPLY_HEADER_BYTES;
	assert_true(*len <= out_len - at);
	at += *len;
	return type;
}

static inline void expect_reply(uint32_t option, uint32_t type)
{
	uint32_t len;

	assert_int_equal(get_reply(option, &len), type);
	assert_true(len <= NBD_NAME_MAX);
	if (type == NBD_REP_ACK) {
		assert_int_equal(len, 0);
	}
}

static inline void expect_end(void)
{
	assert_int_equal(at, out_len);
}

/* The INFO replies of INFO or GO up to its ACK. */
struct infos {
	bool have_export, have_name, have_description, have_sizes;
	uint64_t size;
	uint16_t flags;
	uint32_t min, preferred, max;
	char name[NBD_NAME_MAX + 1], description[NBD_NAME_MAX + 1];
};

static inline void expect_infos(uint32_t option, struct infos *i)
{
	memset(i, 0, sizeof *i);
	for (;;) {
		uint32_t len, type = get_reply(option, &len);
		const uint8_t *p = out + at - len;

		if (type == NBD_REP_ACK) {
			break;
		}
		assert_int_equal(type, NBD_REP_INFO);
		switch (get_be16(p)) {
		case NBD_INFO_EXPORT:
			assert_int_equal(len, 12);
			i->have_export = true;
			i->size = get_be64(p + 2);
			i->flags = get_be16(p + 10);
			break;
		case NBD_INFO_NAME:
			i->have_name = true;
			memcpy(i->name, p + 2, len - 2);
			break;
		case NBD_INFO_DESCRIPTION:
			i->have_description = true;
			memcpy(i->description, p + 2, len - 2);
			break;
		case NBD_INFO_BLOCK_SIZE:
			assert_int_equal(len, 14);
			i->have_sizes = true;
			i->min = get_be32(p + 2);
			i->preferred = get_be32(p + 6);
			i->max = get_be32(p + 10);
			break;
		default:
			fail();
		}
	}
	assert_true(i->have_export);
	assert_true(i->have_sizes);
}

static inline void expect_go(void)
{
	struct infos i;

	expect_infos(NBD_OPT_GO, &i);
	expect_end();
}

static inline void add(const char *name, bool is_default)
{
	struct export *e = export_create(name, NULL, &array, false);

	assert_non_null(e);
	assert_int_equal(exports_add(&table, e, is_default), 0);
}

static inline int setup(void **state)
{
	(void)state;
	memset(&assembly, 0, sizeof assembly);
	assembly.geometry.p.level = RAID_LEVEL_10;
	assembly.geometry.p.slots = 4;
	assembly.geometry.p.chunk_sectors = 128;
	assembly.geometry.array_sectors = 2049;
	exports_release(&table);
	add("data", false);
	add("other", false);
	config.list = true;
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	exports_release(&table);
	handshake_release(&hs);
	free(out);
	out = NULL;
	return 0;
}

#endif
