/* SPDX-License-Identifier: BSD-3-Clause */
/* The sync machine on copies: resync, check, repair, their order with writes, checkpoints. */
#include "raid/tests/engine_sync.h"

static const struct rig_shape mirror = {
	.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096, .sync = true, .resync = RIG_DIRTY};
static const struct rig_shape ten = {.level = RAID_LEVEL_10,
				     .layout = 0x102,
				     .chunk_sectors = 16,
				     .slots = 4,
				     .sectors = 4096,
				     .sync = true,
				     .resync = RIG_DIRTY};

/* After an unclean stop the first slot goes over the others; superblocks say so in the end. */
static void test_resync(void **state)
{
	const uint32_t layouts[] = {0x102, 0x201, 0x10201, 0x103, 0x202};

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct rig_shape shape = i ? ten : mirror;
		struct rig *r;

		shape.layout = i ? layouts[i - 1] : 0;
		shape.slots = i == 4 ? 5 : shape.slots;
		shape.lbs[1] = i % 2 ? 4096 : 512;
		r = sync_prepare(&shape, 77 + i);
		assert_int_equal(sync_status(r).sync.action, RAID_SYNC_RESYNC);
		sync_wait(r);
		rig_copies_equal(r, NULL);
		assert_true(sync_first_copies(r));
		assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
		assert_false(sync_status(r).needs_resync);
		assert_int_equal(sync_status(r).sync.mismatch_sectors, 0);
		assert_int_equal(rig_count(r, RAID_EV_SYNC_STARTED), 1);
		assert_int_equal(rig_count(r, RAID_EV_SYNC_FINISHED), 1);
		assert_int_equal(rig_count(r, RAID_EV_SYNC_PROGRESS), 4);
		assert_int_equal(rig_count(r, RAID_EV_DIRTY), 0);
		sync_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resync),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
