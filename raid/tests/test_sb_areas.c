/* SPDX-License-Identifier: BSD-3-Clause */
/* Room on a member between superblock, data, logs and its end. */
#include "raid/sb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/tests/sb_vector.h"

/* The vector: superblock in sectors 8..15, log in 24..31, data from 2048 to 131072. */
static void assert_room(const struct sb *sb, int64_t offset, enum sb_area area, uint64_t room,
			const char *next)
{
	const char *name;

	assert_int_equal(sb_room(sb, SBV_DEV_SECTORS, offset, area, &name), room);
	assert_string_equal(name, next);
	assert_int_equal(sb_room(sb, SBV_DEV_SECTORS, offset, area, NULL), room);
}

static void between(void **state)
{
	struct sb sb = sbv_vector(0);

	assert_room(&sb, 8, SB_AREA_BITMAP, 8, "the bad-block log");
	assert_room(&sb, 15, SB_AREA_BITMAP, 1, "the bad-block log");
	assert_room(&sb, 16, SB_AREA_BITMAP, 0, "the bad-block log");
	assert_room(&sb, 23, SB_AREA_BITMAP, 0, "the bad-block log");
	assert_room(&sb, 24, SB_AREA_BITMAP, 2048 - 32, "the data");
	assert_room(&sb, 16, SB_AREA_BBLOG, 2048 - 24, "the data");
	assert_room(&sb, 0, SB_AREA_BITMAP, 0, "the superblock");
	assert_room(&sb, -8, SB_AREA_BITMAP, 8, "the superblock");
	assert_int_equal(sb_room(&sb, SBV_DEV_SECTORS, -9, SB_AREA_BITMAP, NULL), 0);
	assert_room(&sb, 2040, SB_AREA_BITMAP, 0, "the data");
	assert_room(&sb, SBV_DEV_SECTORS - 9, SB_AREA_BITMAP, 0, "the data");
	assert_room(&sb, SBV_DEV_SECTORS - 8, SB_AREA_BITMAP, 0, "the end of the device");
	assert_room(&sb, INT64_MAX / 2, SB_AREA_BITMAP, 0, "the end of the device");
	sb.data_size = 1000;
	assert_room(&sb, 3040, SB_AREA_BITMAP, SBV_DEV_SECTORS - 3048, "the end of the device");
}

static void what_takes_room(void **state)
{
	struct sb sb = sbv_vector(0);

	sb.bblog_size = 0;
	assert_room(&sb, 8, SB_AREA_BITMAP, 2032, "the data");
	sb.bblog_size = 9; /* impossible: none */
	assert_room(&sb, 8, SB_AREA_BITMAP, 2032, "the data");
	sb.bblog_size = 8;
	sb.bblog_offset = INT32_MIN;
	assert_room(&sb, 8, SB_AREA_BITMAP, 2032, "the data");
	sb.bblog_offset = 16;
	sb.feature_map = SB_FEATURE_NEW_OFFSET;
	sb.new_offset = -1024;
	assert_room(&sb, 24, SB_AREA_BITMAP, 1024 - 32, "the reshaped data");
	sb.feature_map = SB_FEATURE_PPL;
	sb.ppl_offset = 100;
	sb.ppl_size = 50;
	assert_room(&sb, 24, SB_AREA_BITMAP, 76, "the partial parity log");
	assert_room(&sb, 24, SB_AREA_PPL, 2048 - 32, "the data");
	assert_room(&sb, 120, SB_AREA_BITMAP, 0, "the partial parity log");
}

static void at_the_end(void **state)
{
	struct sb sb = sbv_vector(0);

	sb.version = SB_V1_0;
	sb.super_offset = 131056;
	sb.data_offset = 0;
	sb.data_size = 131032;
	sb.bblog_offset = -8;
	assert_room(&sb, -16, SB_AREA_BITMAP, 8, "the bad-block log");
	assert_room(&sb, -25, SB_AREA_BITMAP, 0, "the data");
	assert_room(&sb, -24, SB_AREA_BITMAP, 16, "the bad-block log");
	assert_room(&sb, 8, SB_AREA_BITMAP, 8, "the end of the device");
	/* 0.90: the 64 KiB from the superblock on are the array's, no more. */
	sb.version = SB_V0_90;
	sb.super_offset = 130816;
	sb.data_size = 130816;
	sb.bblog_size = 0;
	assert_room(&sb, 8, SB_AREA_BITMAP, 120, "the end of the device");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between),
		cmocka_unit_test(what_takes_room),
		cmocka_unit_test(at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
