/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The happy paths of the engine on every level, against a model: random requests of any alignment,
 * many in flight, completions in random order. Members with blocks of 512 and 4096 bytes, mixed,
 * odd sizes, io limits, minimal pools.
 */
#include "raid/tests/engine_storm.h"

static void storms(struct rig_shape shape)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct rig_shape s = shape;

		storm(&s, seed);
		s.min_limits = true;
		storm(&s, seed + 100);
		s.min_limits = false;
		s.no_punch = true;
		s.no_zero = seed & 1;
		s.max_io = 16384;
		storm(&s, seed + 200);
		s.no_punch = s.no_zero = false;
		s.max_io = 0;
		s.lbs[0] = 4096;
		storm(&s, seed + 300);
		s.lbs[1] = s.lbs[2] = s.lbs[3] = s.lbs[4] = 4096;
		storm(&s, seed + 400);
	}
}

static void test_linear(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_LINEAR, .slots = 3, .sectors = 4096, .more = 512});
}

static void test_linear_odd(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_LINEAR, .slots = 3, .sectors = 3001, .more = 203});
}

static void test_raid0(void **state)
{
	(void)state;
	storms((struct rig_shape){.level = RAID_LEVEL_0,
				  .layout = GEO_RAID0_ALTERNATE,
				  .chunk_sectors = 128,
				  .slots = 4,
				  .sectors = 2048,
				  .more = 300});
}

static void test_raid0_small_chunk(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_0, .chunk_sectors = 8, .slots = 3, .sectors = 2048});
}

static void test_raid1(void **state)
{
	(void)state;
	storms((struct rig_shape){.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096});
}

static void test_raid1_odd(void **state)
{
	(void)state;
	storms((struct rig_shape){.level = RAID_LEVEL_1, .slots = 3, .sectors = 4001});
}

static void test_raid1_built(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_1, .slots = 3, .sectors = 4096, .build = true});
}

static void raid10(uint32_t layout, uint32_t slots)
{
	storms((struct rig_shape){.level = RAID_LEVEL_10,
				  .layout = layout,
				  .chunk_sectors = 64,
				  .slots = slots,
				  .sectors = 2080});
}

static void test_raid10_near(void **state)
{
	(void)state;
	raid10(0x102, 4);
	raid10(0x102, 5);
	raid10(0x103, 4);
}

static void test_raid10_far(void **state)
{
	(void)state;
	raid10(0x201, 4);
	raid10(0x202, 5);
}

static void test_raid10_offset(void **state)
{
	(void)state;
	raid10(0x10201, 4);
	raid10(0x10301, 5);
}

/* Many members, and one request at a time. */
static void test_extremes(void **state)
{
	struct rig_shape shapes[] = {
		{.level = RAID_LEVEL_1, .slots = 20, .sectors = 1024},
		{.level = RAID_LEVEL_0, .chunk_sectors = 8, .slots = 48, .sectors = 128},
		{.level = RAID_LEVEL_10,
		 .layout = 0x404,
		 .chunk_sectors = 8,
		 .slots = 18,
		 .sectors = 256},
		{.level = RAID_LEVEL_LINEAR, .slots = 40, .sectors = 41, .more = 3},
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		storm(&shapes[i], i);
		shapes[i].frags = 1;
		shapes[i].min_limits = true;
		storm(&shapes[i], 50 + i);
		shapes[i].frags = 0;
		shapes[i].lbs[2] = 4096;
		shapes[i].max_io = 4096;
		storm(&shapes[i], 90 + i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear),	    cmocka_unit_test(test_linear_odd),
		cmocka_unit_test(test_raid0),	    cmocka_unit_test(test_raid0_small_chunk),
		cmocka_unit_test(test_raid1),	    cmocka_unit_test(test_raid1_odd),
		cmocka_unit_test(test_raid1_built), cmocka_unit_test(test_raid10_near),
		cmocka_unit_test(test_raid10_far),  cmocka_unit_test(test_raid10_offset),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests_name("engine_paths", tests, NULL, NULL);
}
