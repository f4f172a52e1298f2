/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 4, 5 and 6 while nothing goes wrong but what was wrong from the start: all levels and
 * layouts, random requests, every set of missing members that leaves the array alive. What every
 * member must hold is computed anew by a plain oracle at the end.
 */
#include "raid/tests/engine_storm.h"

static void storms(struct rig_shape shape)
{
	static uint64_t seed;

	for (int i = 0; i < 5; i++) {
		struct rig_shape s = shape;

		s.min_limits = i == 1;
		s.no_punch = i == 2;
		s.max_io = i == 2 ? 16384 : i == 3 ? 4096 : 0;
		s.lbs[0] = i >= 3 ? 4096 : 0;
		s.lbs[1] = s.lbs[2] = i == 4 ? 4096 : 0;
		storm(&s, ++seed);
	}
}

static struct rig_shape shape(enum raid_level level, uint32_t layout, uint32_t slots,
			      uint32_t chunk_sectors)
{
	return (struct rig_shape){.level = level,
				  .layout = layout,
				  .chunk_sectors = chunk_sectors,
				  .slots = slots,
				  .sectors = chunk_sectors > 64 ? 2048 : 768};
}

static void test_raid4(void **state)
{
	(void)state;
	storms(shape(RAID_LEVEL_4, 0, 4, 64));
}

static void test_raid5_layouts(void **state)
{
	(void)state;
	for (uint32_t layout = 0; layout <= 5; layout++) {
		storms(shape(RAID_LEVEL_5, layout, 4, 64));
	}
}

static void test_raid5_chunks(void **state)
{
	static const uint32_t chunks[] = {8, 128, 256, 1024};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		storms(shape(RAID_LEVEL_5, 2, 3, chunks[i]));
	}
	storms(shape(RAID_LEVEL_5, 2, 2, 16));
	storms(shape(RAID_LEVEL_5, 2, 9, 16));
}

static void test_raid6_layouts(void **state)
{
	static const uint32_t layouts[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};

	(void)state;
	for (uint32_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
		storms(shape(RAID_LEVEL_6, layouts[i], 5, 32));
	}
}

static void test_raid6_chunks(void **state)
{
	static const uint32_t chunks[] = {8, 128, 256};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		storms(shape(RAID_LEVEL_6, 2, 4, chunks[i]));
	}
}

/* One storm with each of these slots missing. */
static void without(struct rig_shape s, uint32_t missing, uint64_t seed)
{
	s.missing = missing;
	s.min_limits = seed % 3 == 0;
	s.max_io = seed % 4 == 1 ? 8192 : 0;
	storm(&s, 1000 + seed);
}

static void test_raid5_degraded(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		without(shape(RAID_LEVEL_4, 0, 4, 64), 1u << k, k);
		for (uint32_t layout = 0; layout <= 5; layout++) {
			without(shape(RAID_LEVEL_5, layout, 4, 32), 1u << k, k + layout);
		}
		without(shape(RAID_LEVEL_5, 2, 4, 256), 1u << k, k);
	}
	without(shape(RAID_LEVEL_5, 2, 2, 16), 1, 1);
	without(shape(RAID_LEVEL_5, 2, 2, 16), 2, 2);
}

static void test_raid6_degraded(void **state)
{
	static const uint32_t layouts[] = {2, 0, 5, 8, 9, 10, 18, 20};

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		for (uint32_t k = 0; k <= i; k++) {
			for (uint32_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
				without(shape(RAID_LEVEL_6, layouts[l], 5, 16), 1u << i | 1u << k,
					i + k + l);
			}
			without(shape(RAID_LEVEL_6, 2, 5, 256), 1u << i | 1u << k, i + k);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raid4),	       cmocka_unit_test(test_raid5_layouts),
		cmocka_unit_test(test_raid5_chunks),   cmocka_unit_test(test_raid6_layouts),
		cmocka_unit_test(test_raid6_chunks),   cmocka_unit_test(test_raid5_degraded),
		cmocka_unit_test(test_raid6_degraded),
	};

	return cmocka_run_group_tests_name("engine_parity", tests, NULL, NULL);
}
