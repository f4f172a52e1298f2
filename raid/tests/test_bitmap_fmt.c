/* SPDX-License-Identifier: BSD-3-Clause */
/* The write-intent bitmap's bytes (md-format §11.1, §11.4, §17.7): header, bits, what is refused.
 */
#include "raid/bitmap_fmt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "raid/base/bytes.h"
#include "raid/tests/sb_vector.h"

enum { SYNC = 129024, CHUNK = 65536, BITS = 1008, AREA = 4096 };

static uint8_t area[AREA];
static struct bm_expect expect;
static char why[RAID_WHY_BYTES];

/* The bitmap of the array of sb_vector: bits 0, 1, 9, 100. */
static struct bm_header vector_header(void)
{
	struct bm_header h = {
		.version = BM_V4,
		.events = 17,
		.events_cleared = 15,
		.sync_size_sectors = SYNC,
		.chunk_bytes = CHUNK,
		.daemon_sleep_s = 5,
	};
	struct sb sb = sbv_vector(0);

	memcpy(h.uuid, sb.set_uuid, sizeof h.uuid);
	return h;
}

static void make(void)
{
	static const uint64_t set[] = {0, 1, 9, 100};
	struct bm_header h = vector_header();
	struct sb sb = sbv_vector(0);

	memset(area, 0, sizeof area);
	bm_encode(&h, area);
	for (uint32_t i = 0; i < sizeof set / sizeof *set; i++) {
		bm_area_put(area, set[i], true);
	}
	bm_expect_of(&sb, SBV_DEV_SECTORS, 0, &expect);
}

static int decode(struct bm_header *h)
{
	return bm_decode(area, sizeof area, &expect, h, why);
}

static void vector(void **state)
{
	uint64_t words[BITS / 64 + 1];
	struct bm_header h, want = vector_header();

	make();
	assert_int_equal(area[256], 3);
	assert_int_equal(area[257], 2);
	assert_int_equal(area[256 + 12], 0x10);
	assert_int_equal(get_le32(area), 0x6D746962);
	assert_int_equal(decode(&h), 0);
	assert_memory_equal(&h, &want, sizeof h);
	assert_int_equal(bm_bits(h.sync_size_sectors, h.chunk_bytes), BITS);
	bm_unpack(area + BM_HEADER_BYTES, BITS, words);
	assert_int_equal(bm_count(words, BITS), 4);
	assert_int_equal(bm_next(words, BITS, 0), 0);
	assert_int_equal(bm_next(words, BITS, 2), 9);
	assert_int_equal(bm_next(words, BITS, 10), 100);
	assert_int_equal(bm_next(words, BITS, 101), BITS);
	assert_int_equal(bm_next(words, BITS, BITS), BITS);
}

static void expects_what_the_superblock_says(void **state)
{
	struct sb sb = sbv_vector(0);

	bm_expect_of(&sb, SBV_DEV_SECTORS, 0, &expect);
	assert_int_equal(expect.at_sector, 16);
	assert_int_equal(expect.room_sectors, 8); /* the log follows at 24 */
	assert_int_equal(expect.sync_size_sectors, SYNC);
	assert_int_equal(expect.array_chunk_sectors, 128);
	sb.bblog_size = 0;
	sb.size = SYNC + 127; /* the geometry uses whole chunks */
	bm_expect_of(&sb, SBV_DEV_SECTORS, 0, &expect);
	assert_int_equal(expect.room_sectors, 2048 - 16);
	assert_int_equal(expect.sync_size_sectors, SYNC);
	sb.level = RAID_LEVEL_10;
	bm_expect_of(&sb, SBV_DEV_SECTORS, 777216, &expect);
	assert_int_equal(expect.sync_size_sectors, 777216);
	assert_int_equal(expect.array_chunk_sectors, 0);
	sb.level = RAID_LEVEL_1;
	bm_expect_of(&sb, SBV_DEV_SECTORS, 777216, &expect);
	assert_int_equal(expect.sync_size_sectors, SYNC + 127);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void refuses_field_by_field(void **state)
{
	static const struct {
		const char *name;
		uint32_t off, width;
		uint64_t value;
		int err;
		const char *word;
	} bad[] = {
		{"no magic", 0, 4, 0, -EUCLEAN, "there is none at sector 16"},
		{"magic off by one", 0, 4, 0x6D746963, -EUCLEAN, "there is none"},
		{"version 0", 4, 4, 0, -ENOTSUP, "version 0"},
		{"version 2", 4, 4, 2, -ENOTSUP, "version 2"},
		{"version 7", 4, 4, 7, -ENOTSUP, "version 7"},
		{"version all ones", 4, 4, UINT32_MAX, -ENOTSUP, "version 4294967295"},
		{"uuid, first byte", 8, 4, 0x13121111, -EUCLEAN, "another array"},
		{"uuid, last byte", 20, 4, 0x1e1e1d1c, -EUCLEAN, "another array"},
		{"covers nothing", 40, 8, 0, -EUCLEAN, "covers 0 sectors"},
		{"covers less", 40, 8, SYNC - 1, -EUCLEAN, "covers"},
		{"covers a chunk more", 40, 8, SYNC + 128, -EUCLEAN, "covers"},
		{"covers all", 40, 8, UINT64_MAX, -EUCLEAN, "covers"},
		{"chunk 0", 52, 4, 0, -EUCLEAN, "power of two"},
		{"chunk 256", 52, 4, 256, -EUCLEAN, "power of two"},
		{"chunk 1.5 times 64 KiB", 52, 4, 98304, -EUCLEAN, "power of two"},
		{"chunk all ones", 52, 4, UINT32_MAX, -EUCLEAN, "power of two"},
		{"longer than its room", 52, 4, 512, -EUCLEAN, "room for 8"},
		{"no flush period", 56, 4, 0, -EUCLEAN, "flush period"},
		{"write-behind", 60, 4, 16384, -EUCLEAN, "write-behind"},
	};

	for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct bm_header h;

		make();
		if (bad[i].width == 8) {
			put_le64(area + bad[i].off, bad[i].value);
		} else {
			put_le32(area + bad[i].off, (uint32_t)bad[i].value);
		}
		print_message("%s\n", bad[i].name);
		assert_int_equal(decode(&h), bad[i].err);
		assert_non_null(strstr(why, bad[i].word));
		assert_null(strchr(why, '\n'));
		assert_int_equal(h.version == 0, bad[i].err == -ENOTSUP || bad[i].off == 0);
	}
}

static void takes_what_is_at_the_limits(void **state)
{
	static const struct {
		uint32_t off;
		uint32_t value;
	} good[] = {
		{52, 1u << 31}, {52, 8192},	  {56, 1},   {56, UINT32_MAX}, {60, 16383},
		{64, 1},	{64, UINT32_MAX}, {48, ~6u}, {4, 3},	       {40, SYNC + 127},
	};

	for (uint32_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct bm_header h;

		make();
		put_le32(area + good[i].off, good[i].value);
		assert_int_equal(decode(&h), 0);
		assert_string_equal(why, "");
		assert_int_equal(h.sync_size_sectors, SYNC);
	}
}

/* The area must lie free, and so must the whole of its last page. */
static void room(void **state)
{
	struct bm_header h;

	make();
	expect.room_sectors = 7;
	assert_int_equal(decode(&h), -ENOTSUP);
	assert_non_null(strstr(why, "last page"));
	assert_int_equal(h.version, BM_V4);
	expect.room_sectors = 0;
	assert_int_equal(decode(&h), -EUCLEAN);
	/* 129024 sectors by 4 KiB are 16128 bits, 2272 bytes, 5 sectors. */
	put_le32(area + 52, 4096);
	expect.room_sectors = 8;
	assert_int_equal(decode(&h), 0);
	put_le32(area + 64, 5);
	assert_int_equal(decode(&h), 0);
	put_le32(area + 64, 4);
	assert_int_equal(decode(&h), -EUCLEAN);
	assert_non_null(strstr(why, "room for 4"));
}

static void more_than_memory_is_given_is_not_kept_up(void **state)
{
	struct bm_header h;

	make();
	expect.sync_size_sectors = (uint64_t)8 * BM_AREA_MAX_BYTES;
	expect.room_sectors = UINT32_MAX;
	put_le64(area + 40, expect.sync_size_sectors);
	put_le32(area + 52, 512);
	assert_int_equal(decode(&h), -ENOTSUP);
	assert_non_null(strstr(why, "larger chunk"));
	put_le32(area + 52, 1024);
	assert_int_equal(decode(&h), 0);
	/* As absurd as it gets: nothing overflows. */
	expect.sync_size_sectors = UINT64_MAX;
	put_le64(area + 40, UINT64_MAX);
	put_le32(area + 52, 512);
	expect.room_sectors = UINT64_MAX >> 9;
	assert_int_equal(decode(&h), -ENOTSUP);
	expect.room_sectors = UINT64_MAX >> 13;
	assert_int_equal(decode(&h), -EUCLEAN);
}

static void clustered_and_lockless_are_named(void **state)
{
	struct bm_header h;

	make();
	put_le32(area + 4, 5);
	assert_int_equal(decode(&h), -EUCLEAN);
	assert_non_null(strstr(why, "nodes"));
	put_le32(area + 68, 2);
	memcpy(area + 72, "a cluster", 9);
	assert_int_equal(decode(&h), -EUCLEAN); /* two areas do not fit */
	expect.room_sectors = 16;
	assert_int_equal(decode(&h), -ENOTSUP);
	assert_non_null(strstr(why, "version 5"));
	assert_int_equal(h.version, BM_CLUSTERED);
	assert_int_equal(h.nodes, 2);
	assert_string_equal(h.cluster_name, "a cluster");
	put_le32(area + 68, UINT32_MAX);
	assert_int_equal(decode(&h), -EUCLEAN);

	make();
	put_le32(area + 4, 6);
	assert_int_equal(decode(&h), -ENOTSUP);
	assert_non_null(strstr(why, "version 6"));
	assert_int_equal(h.version, BM_LOCKLESS);
	put_le32(area + 52, 16384); /* 4032 bytes of states and 1024 */
	assert_int_equal(decode(&h), -EUCLEAN);
}

/* ---- header -------------------------------------------------------------------------------- */

static void header_round_trip(void **state)
{
	struct bm_header h = vector_header(), back;
	uint8_t buf[BM_HEADER_BYTES], again[BM_HEADER_BYTES];

	make();
	h.version = BM_CLUSTERED;
	h.events = UINT64_MAX - 1;
	h.events_cleared = 0x0102030405060708;
	h.state = BM_STATE_STALE | 0x40000000;
	h.write_behind = 256;
	h.daemon_sleep_s = 77;
	h.reserved_sectors = 256;
	h.nodes = 4;
	memset(h.cluster_name, 'x', BM_CLUSTER_NAME_BYTES);
	expect.room_sectors = 4096;
	memset(buf, 0xff, sizeof buf);
	bm_encode(&h, buf);
	assert_int_equal(bm_decode(buf, sizeof buf, &expect, &back, why), -ENOTSUP);
	assert_memory_equal(&back, &h, sizeof h);
	bm_encode(&back, again);
	assert_memory_equal(buf, again, sizeof buf);
	for (uint32_t i = 136; i < BM_HEADER_BYTES; i++) {
		assert_int_equal(buf[i], 0);
	}
}

static void which_bits_can_be_believed(void **state)
{
	struct bm_header h = vector_header(); /* events 17, cleared at 15 */

	assert_true(bm_is_current(&h, 17));
	assert_true(bm_is_current(&h, 16)); /* bitmap first, then superblocks */
	assert_false(bm_is_current(&h, 18));
	h.state = BM_STATE_STALE;
	assert_false(bm_is_current(&h, 17));
	h.state = BM_STATE_WRITE_ERROR;
	assert_false(bm_is_current(&h, 17));
	assert_true(bm_covers(&h, 15));
	assert_true(bm_covers(&h, 16));
	assert_false(bm_covers(&h, 14));
}

/* ---- bits ---------------------------------------------------------------------------------- */

static void sizes(void **state)
{
	assert_int_equal(bm_bits(SYNC, CHUNK), 1008);
	assert_int_equal(bm_bits(SYNC + 1, CHUNK), 1009);
	assert_int_equal(bm_bits(1, 1u << 31), 1);
	assert_int_equal(bm_bits(UINT64_MAX, 512), UINT64_MAX);
	assert_int_equal(bm_area_bytes(1008), 256 + 126);
	assert_int_equal(bm_area_bytes(1009), 256 + 127);
	assert_int_equal(bm_area_pages(8 * 3840), 1);
	assert_int_equal(bm_area_pages(8 * 3840 + 1), 2);
	assert_int_equal(bm_area_pages(131070), 5); /* 8 TiB by 64 MiB */
	assert_int_equal(bm_byte_of(100), 268);
	assert_int_equal(bm_page_of(8 * 3840 - 1), 0);
	assert_int_equal(bm_page_of(8 * 3840), 1);
	assert_int_equal(bm_bit_of(127, CHUNK), 0);
	assert_int_equal(bm_bit_of(128, CHUNK), 1);
}

/* Every bit is in exactly one page's range. */
static void pages_hold_all_bits_once(void **state)
{
	static const uint64_t counts[] = {1, 8 * 3840, 8 * 3840 + 1, 8 * (3840 + 4096), 131070};

	for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		uint64_t bits = counts[i], next = 0, from, to;

		for (uint64_t page = 0; page < bm_area_pages(bits); page++) {
			bm_page_bits(page, bits, &from, &to);
			assert_int_equal(from, next);
			assert_true(to > from);
			assert_int_equal(bm_page_of(from), page);
			assert_int_equal(bm_page_of(to - 1), page);
			next = to;
		}
		assert_int_equal(next, bits);
		bm_page_bits(bm_area_pages(bits), bits, &from, &to);
		assert_int_equal(from, to);
	}
}

static void packs_and_unpacks_every_length(void **state)
{
	uint64_t words[5], random = 88172645463325252u;

	for (uint64_t bits = 1; bits <= 257; bits++) {
		uint8_t back[AREA];
		uint64_t n = 0;

		memset(area, 0xff, sizeof area); /* behind the last chunk, too */
		for (uint64_t i = 0; i < bits; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			bm_area_put(area, i, random & 1);
			n += random & 1;
		}
		memset(words, 0xa5, sizeof words);
		bm_unpack(area + BM_HEADER_BYTES, bits, words);
		assert_int_equal(bm_count(words, bits), n);
		for (uint64_t i = 0, next = 0; i < bits; i++) {
			assert_int_equal(bm_get(words, i), bm_area_get(area, i));
			if (bm_get(words, i)) {
				assert_int_equal(bm_next(words, bits, next), i);
				next = i + 1;
			}
		}
		memset(back, 0xff, sizeof back);
		bm_pack(words, bits, back + BM_HEADER_BYTES);
		for (uint64_t i = 0; i < 8 * (bm_area_bytes(bits) - 256); i++) {
			assert_int_equal(bm_area_get(back, i), i < bits && bm_area_get(area, i));
		}
		assert_int_equal(back[255], 0xff);
		assert_int_equal(back[bm_area_bytes(bits)], 0xff);
	}
}

static void fill_stops_at_the_last_chunk(void **state)
{
	uint64_t words[3];

	for (uint64_t bits = 1; bits <= 192; bits++) {
		bm_fill(words, bits, true);
		assert_int_equal(bm_count(words, bits), bits);
		bm_put(words, bits - 1, false);
		assert_int_equal(bm_count(words, bits), bits - 1);
		bm_put(words, bits - 1, true);
		bm_fill(words, bits, false);
		assert_int_equal(bm_next(words, bits, 0), bits);
	}
}

static void lockless_states_become_bits(void **state)
{
	static const uint8_t states[] = {0, 1, 2, 3, 4, 5, 255, 1};
	uint64_t word;

	memset(area, 1, sizeof area);
	memcpy(area + 1024, states, sizeof states);
	bm_lockless_unpack(area, 8, false, &word);
	assert_int_equal(word, 0x7c);
	bm_lockless_unpack(area, 8, true, &word);
	assert_int_equal(word, 0x7d);
	assert_int_equal(bm_lockless_area_bytes(8), 1032);
}

/* mdadm -X takes the area as a file. */
static void mdadm_reads_it(void **state)
{
	char path[] = "/tmp/test-bitmap.XXXXXX", command[128], text[4096];
	int fd;
	FILE *out;

	if (access("/sbin/mdadm", X_OK)) {
		print_message("skipped: mdadm is not installed\n");
		skip();
	}
	make();
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, area, sizeof area), sizeof area);
	assert_int_equal(fsync(fd), 0);
	close(fd);
	snprintf(command, sizeof command, "/sbin/mdadm -X %s 2>&1", path);
	out = popen(command, "r");
	assert_non_null(out);
	text[fread(text, 1, sizeof text - 1, out)] = 0;
	assert_int_equal(pclose(out), 0);
	unlink(path);
	if (!strstr(text, "1008 bits (chunks), 4 dirty") || !strstr(text, "Events : 17") ||
	    !strstr(text, "Events Cleared : 15") || !strstr(text, "10111213:14151617") ||
	    !strstr(text, "Chunksize : 64 KB") || !strstr(text, "5s flush period")) {
		fail_msg("mdadm says:\n%s", text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector),
		cmocka_unit_test(expects_what_the_superblock_says),
		cmocka_unit_test(refuses_field_by_field),
		cmocka_unit_test(takes_what_is_at_the_limits),
		cmocka_unit_test(room),
		cmocka_unit_test(more_than_memory_is_given_is_not_kept_up),
		cmocka_unit_test(clustered_and_lockless_are_named),
		cmocka_unit_test(header_round_trip),
		cmocka_unit_test(which_bits_can_be_believed),
		cmocka_unit_test(sizes),
		cmocka_unit_test(pages_hold_all_bits_once),
		cmocka_unit_test(packs_and_unpacks_every_length),
		cmocka_unit_test(fill_stops_at_the_last_chunk),
		cmocka_unit_test(lockless_states_become_bits),
		cmocka_unit_test(mdadm_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
