/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunk and place of a new bitmap (md-format §6), and the bitmaps that a real Linux md wrote: they
 * decode, hold the bits they should, and lie where a new one would be placed.
 */
#include "raid/bitmap_fmt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"
#include "raid/tests/golden.h"
#include "raid/tests/sb_vector.h"

#define GIB ((uint64_t)2 << 20) /* in sectors */

static char why[RAID_WHY_BYTES];
static struct sb sb;
static struct bm_ask ask;
static struct bm_plan plan;

static void reserve(void **state)
{
	assert_int_equal(bm_reserve_sectors(127), 0);
	assert_int_equal(bm_reserve_sectors(128), 8);
	assert_int_equal(bm_reserve_sectors(8 * GIB + 8), 8);
	assert_int_equal(bm_reserve_sectors(8 * GIB + 9), 128);
	assert_int_equal(bm_reserve_sectors(200 * GIB + 127), 128);
	assert_int_equal(bm_reserve_sectors(200 * GIB + 128), 256);
}

static void default_chunk(void **state)
{
	static const struct {
		uint64_t sync, room;
		uint32_t chunk;
	} want[] = {
		{1, 8, 64 << 20},
		{1024 * GIB, 256, 64 << 20},	  /* 16384 bits */
		{8192 * GIB, 256, 64 << 20},	  /* 131072 bits, 5 pages */
		{65536 * GIB, 256, 128 << 20},	  /* 1048576 bits do not fit beside the header */
		{65536 * GIB, 100000, 128 << 20}, /* no more than 128 KiB by itself */
		{8192 * GIB, 8, 512 << 20},	  /* 30720 bits at most */
		{1024 * GIB, 8, 64 << 20},
		{61440ull * GIB, 8, 2048u << 20},
	};
	uint32_t chunk;

	for (uint32_t i = 0; i < sizeof want / sizeof *want; i++) {
		assert_int_equal(bm_choose_chunk(want[i].sync, want[i].room, 0, &chunk, why), 0);
		assert_int_equal(chunk, want[i].chunk);
		assert_true(bm_area_bytes(bm_bits(want[i].sync, chunk)) <= 512 * want[i].room);
	}
	assert_int_equal(bm_choose_chunk(61441ull * GIB, 8, 0, &chunk, why), -ENOSPC);
	assert_int_equal(bm_choose_chunk(1, 7, 0, &chunk, why), -ENOSPC);
}

static void wanted_chunk(void **state)
{
	uint32_t chunk;

	assert_int_equal(bm_choose_chunk(GIB, 4096, 4096, &chunk, why), 0);
	assert_int_equal(chunk, 4096);
	assert_int_equal(bm_choose_chunk(GIB, 64, 4096, &chunk, why), -ENOSPC);
	assert_non_null(strstr(why, "262144 bits"));
	assert_int_equal(bm_choose_chunk(GIB, 64, 2048, &chunk, why), -EINVAL);
	assert_int_equal(bm_choose_chunk(GIB, 64, 5000, &chunk, why), -EINVAL);
	assert_int_equal(bm_choose_chunk(UINT64_MAX >> 10, UINT32_MAX, 4096, &chunk, why), -ENOSPC);
}

/* An array of level 1 with one member to look at. */
static void one_member(enum sb_version version, uint64_t dev, uint64_t data_offset, int32_t bblog)
{
	sb = sbv_vector(0);
	sb.feature_map = 0;
	sb.bitmap_offset = 0;
	sb.level = RAID_LEVEL_1;
	sb.version = version;
	sb.super_offset = version == SB_V1_0   ? (dev - 16) & ~(uint64_t)7
			  : version == SB_V1_1 ? 0
					       : 8;
	sb.data_offset = data_offset;
	sb.data_size = version == SB_V1_0 ? sb.super_offset - 16 : dev - data_offset;
	sb.size = sb.data_size & ~(uint64_t)127;
	sb.bblog_offset = bblog;
	sb.bblog_size = bblog ? 8 : 0;
	ask = (struct bm_ask){
		.sync_size_sectors = sb.size,
		.members = 1,
		.sb = {&sb},
		.dev_sectors = {dev},
	};
}

static void assert_plan(int32_t offset, uint32_t chunk, uint32_t area_sectors)
{
	int err = bm_place(&ask, &plan, why);

	if (err) {
		fail_msg("%s", why);
	}
	assert_int_equal(plan.offset_sectors, offset);
	assert_int_equal(plan.chunk_bytes, chunk);
	assert_int_equal(plan.area_sectors, area_sectors);
	assert_int_equal(plan.bits, bm_bits(ask.sync_size_sectors, chunk));
	assert_true(plan.area_sectors <= plan.room_sectors);
}

static void refused(int err, const char *word)
{
	assert_int_equal(bm_place(&ask, &plan, why), err);
	if (!strstr(why, word)) {
		fail_msg("no '%s' in: %s", word, why);
	}
}

/* As NOTES of the golden arrays have it: log at +16 up to 1 T, +48 with 8 T. */
static void created_1_2(void **state)
{
	one_member(SB_V1_2, 131072, 2048, 0);
	ask.creating = true;
	assert_plan(8, 64 << 20, 8);
	assert_int_equal(plan.room_sectors, 8);
	ask.chunk_bytes = 4096; /* by hand: all that is free but the log */
	assert_plan(8, 4096, 8);
	assert_int_equal(plan.room_sectors, 2048 - 16 - 8);
	one_member(SB_V1_2, 8192 * GIB, 264192, 0);
	ask.creating = true;
	assert_plan(8, 64 << 20, 40);
	one_member(SB_V1_2, 1024 * GIB, 264192, 0);
	ask.creating = true;
	assert_plan(8, 64 << 20, 8);
}

static void added_1_2(void **state)
{
	/* The log where create left it: behind the place that it kept. */
	one_member(SB_V1_2, 131072, 2048, 16);
	assert_plan(8, 64 << 20, 8);
	/* RAID 1 of 8 T without bitmap: +264. */
	one_member(SB_V1_2, 8192 * GIB, 264192, 264);
	assert_plan(8, 64 << 20, 40);
	assert_int_equal(plan.room_sectors, 256);
	/* A smaller chunk than fits before the log goes behind it. */
	ask.chunk_bytes = 1 << 20;
	assert_plan(272, 1 << 20, 2056);
	/* A log right behind the superblock. */
	one_member(SB_V1_2, 131072, 2048, 8);
	assert_plan(16, 64 << 20, 8);
	one_member(SB_V1_1, 131072, 2048, 8);
	assert_plan(16, 64 << 20, 8);
	/* The log far away, the data near. */
	one_member(SB_V1_2, 131072, 24, 0);
	assert_plan(8, 64 << 20, 8);
}

static void no_room_1_2(void **state)
{
	one_member(SB_V1_2, 131072, 16, 0);
	refused(-ENOSPC, "0 sectors are free between the superblock and the data");
	one_member(SB_V1_2, 131072, 24, 8);
	refused(-ENOSPC, "the bad-block log");
	one_member(SB_V1_2, 131072, 23, 0);
	refused(-ENOSPC, "7 sectors");
	one_member(SB_V1_2, 131072, 2048, 16);
	ask.chunk_bytes = 8192;
	ask.sync_size_sectors = 8192 * GIB;
	refused(-ENOSPC, "larger bitmap chunk");
	ask.chunk_bytes = 8191;
	refused(-EINVAL, "power of two");
}

static void created_and_added_1_0(void **state)
{
	one_member(SB_V1_0, 131072, 0, 0);
	ask.creating = true;
	assert_plan(-16, 64 << 20, 8);
	one_member(SB_V1_0, 131072, 0, -8);
	assert_plan(-16, 64 << 20, 8);
	/* With 8 T five pages, as mdadm has it. */
	one_member(SB_V1_0, 8192 * GIB, 0, -8);
	sb.data_size = sb.super_offset - 264;
	assert_plan(-48, 64 << 20, 40);
	/* Data up to the log: behind the superblock 4 KiB are always left. */
	sb.data_size = sb.super_offset - 8;
	ask.sync_size_sectors = 100 * GIB;
	assert_plan(8, 64 << 20, 8);
	ask.chunk_bytes = 4 << 20; /* 25600 bits: still one page */
	assert_plan(8, 4 << 20, 8);
	ask.chunk_bytes = 2 << 20;
	refused(-ENOSPC, "between data and superblock");
	/* A log at the far end of what an offset can name. */
	one_member(SB_V1_0, 4096 * GIB, 0, INT32_MIN);
	sb.data_size = 1024;
	ask.sync_size_sectors = 1024;
	assert_plan(8, 64 << 20, 8);
	/* A log that is farther off: the bitmap ends before it. */
	one_member(SB_V1_0, 131072, 0, -20);
	sb.data_size -= 64;
	assert_plan(-32, 64 << 20, 8);
}

/* All members take the same offset: the tightest decides. */
static void the_tightest_member_decides(void **state)
{
	struct sb second;

	one_member(SB_V1_2, 131072, 2048, 16);
	second = sb;
	second.bblog_offset = 8;
	ask.members = 2;
	ask.sb[1] = &second;
	ask.dev_sectors[1] = 131072;
	assert_plan(24, 64 << 20, 8);
	second.data_offset = 24;
	refused(-ENOSPC, "no room");
}

static void takes_no_bitmap(void **state)
{
	one_member(SB_V1_2, 131072, 2048, 16);
	sb.level = RAID_LEVEL_0;
	refused(-EINVAL, "raid0");
	sb.level = RAID_LEVEL_LINEAR;
	refused(-EINVAL, "linear");
	sb.level = RAID_LEVEL_5;
	sb.feature_map = SB_FEATURE_MULTIPLE_PPLS;
	refused(-EINVAL, "partial parity log");
	sb.feature_map = SB_FEATURE_JOURNAL;
	refused(-EINVAL, "journal");
	sb.feature_map = SB_FEATURE_RESHAPE;
	refused(-EINVAL, "reshaped");
	sb.feature_map = 0;
	sb.version = SB_V0_90;
	refused(-EINVAL, "0.90");
}

static void new_header_decodes(void **state)
{
	uint8_t buf[BM_HEADER_BYTES];
	struct bm_header h, back;
	struct bm_expect expect;

	one_member(SB_V1_2, 131072, 2048, 16);
	assert_plan(8, 64 << 20, 8);
	bm_header_new(&ask, &plan, &h);
	bm_encode(&h, buf);
	sb.feature_map = SB_FEATURE_BITMAP;
	sb.bitmap_offset = plan.offset_sectors;
	bm_expect_of(&sb, 131072, 0, &expect);
	assert_int_equal(bm_decode(buf, sizeof buf, &expect, &back, why), 0);
	assert_memory_equal(&h, &back, sizeof h);
	assert_true(bm_is_current(&back, sb.events));
}

/* ---- golden arrays ------------------------------------------------------------------------- */

static struct golden golden;
static struct asm_candidate cand;

/* Written by the newest member, so as array.json has it; and where bm_place() would put it. */
static void check_bits(const struct golden_member *m, const struct bm_header *h,
		       const struct bm_expect *expect)
{
	uint64_t bits = bm_bits(h->sync_size_sectors, h->chunk_bytes);
	uint64_t *words = calloc(bm_words(bits), sizeof *words), first, last = 0;
	uint8_t *back;

	assert_non_null(words);
	assert_int_equal(h->version, BM_V4);
	assert_int_equal(h->chunk_bytes, golden.bitmap_chunk_bytes);
	assert_int_equal(bits, golden.bitmap_bits);
	assert_int_equal(h->events, golden.bitmap_events);
	assert_int_equal(h->events_cleared, golden.bitmap_events_cleared);
	assert_int_equal(h->sync_size_sectors, golden.bitmap_sync_sectors);
	assert_int_equal(512 * expect->at_sector, golden.bitmap_offset_bytes);
	bm_unpack(m->image + 512 * expect->at_sector + BM_HEADER_BYTES, bits, words);
	assert_int_equal(bm_count(words, bits), golden.bitmap_dirty_bits);
	first = bm_next(words, bits, 0);
	for (uint64_t i = first; i < bits; i = bm_next(words, bits, i + 1)) {
		last = i;
	}
	if (golden.bitmap_dirty_bits) {
		assert_int_equal(first, golden.bitmap_first);
		assert_int_equal(last, golden.bitmap_last);
	}
	back = calloc(1, bm_area_bytes(bits));
	assert_non_null(back);
	bm_encode(h, back);
	bm_pack(words, bits, back + BM_HEADER_BYTES);
	assert_memory_equal(back, m->image + 512 * expect->at_sector, 256 + bits / 8);
	free(back);
	free(words);
}

static void check_place(void)
{
	cand.sb.feature_map &= ~(uint32_t)SB_FEATURE_BITMAP;
	ask = (struct bm_ask){
		.sync_size_sectors = golden.bitmap_sync_sectors,
		.chunk_bytes = golden.bitmap_chunk_bytes,
		.members = 1,
		.sb = {&cand.sb},
		.dev_sectors = {cand.dev_sectors},
	};
	if (cand.sb.version != SB_V0_90) {
		assert_plan(cand.sb.bitmap_offset, golden.bitmap_chunk_bytes, 8);
	}
}

static void check_member(const struct golden_member *m, bool freshest)
{
	struct bm_expect expect;
	struct bm_header h;
	int err;

	golden_candidate(m, &cand);
	assert_int_equal(cand.load_err, 0);
	assert_true(cand.sb.feature_map & SB_FEATURE_BITMAP);
	bm_expect_of(&cand.sb, cand.dev_sectors, golden.array_bytes / 512, &expect);
	err = bm_decode(m->image + 512 * expect.at_sector, BM_HEADER_BYTES, &expect, &h, why);
	if (err) {
		fail_msg("%s %s: %s", golden.name, m->file, why);
	}
	assert_true(bm_is_current(&h, cand.sb.events));
	if (freshest) {
		check_bits(m, &h, &expect);
	}
	check_place();
}

static void golden_bitmaps(void **state)
{
	char **folders;
	uint32_t n = golden_list(golden_top(), &folders), seen = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t events = 0;

		golden_load(folders[i], &golden);
		for (uint32_t k = 0; golden.bitmap && k < golden.members; k++) {
			events = max_u64(events, golden.member[k].events);
		}
		for (uint32_t k = 0; golden.bitmap && k < golden.members; k++) {
			check_member(&golden.member[k], golden.member[k].events == events);
		}
		seen += golden.bitmap;
		golden_free(&golden);
		free(folders[i]);
	}
	free(folders);
	assert_true(seen >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserve),
		cmocka_unit_test(default_chunk),
		cmocka_unit_test(wanted_chunk),
		cmocka_unit_test(created_1_2),
		cmocka_unit_test(added_1_2),
		cmocka_unit_test(no_room_1_2),
		cmocka_unit_test(created_and_added_1_0),
		cmocka_unit_test(the_tightest_member_decides),
		cmocka_unit_test(takes_no_bitmap),
		cmocka_unit_test(new_header_decodes),
		cmocka_unit_test(golden_bitmaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
