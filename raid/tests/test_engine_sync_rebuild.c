/* SPDX-License-Identifier: BSD-3-Clause */
/* Rebuild and replace of copies: what gets where, beside writes, and what is left of it after a
 * crash, an unreadable source, a source that fails. */
#include "raid/tests/engine_sync.h"
#include "raid/tests/bitmap_rig.h"

enum { DATA0 = RIG_DATA_SECTOR * 512 };

static const struct rig_shape mirror = {.level = RAID_LEVEL_1,
					.slots = 2,
					.sectors = 4096,
					.spares = 1,
					.sync = true,
					.resync = RIG_DIRTY};

static enum raid_member_state state_of(struct rig *r, uint32_t i)
{
	return sync_status(r).member[i].state;
}

/* An array in sync with random content; the content of each member is kept. */
static struct rig *in_sync(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = sync_prepare(shape, seed);

	sync_wait(r);
	sync_keep(r);
	r->events = 0;
	return r;
}

static struct rig_shape shape_of(uint32_t i)
{
	static const uint32_t layouts[] = {0x102, 0x201, 0x10201, 0x103, 0x202};
	struct rig_shape shape = mirror;

	if (i) {
		shape.level = RAID_LEVEL_10;
		shape.layout = layouts[i - 1];
		shape.chunk_sectors = 16;
		shape.slots = i == 4 ? 5 : 4;
	}
	return shape;
}

static void test_spare_is_filled(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct rig_shape shape = shape_of(i);
		struct rig *r = in_sync(&shape, i);
		uint32_t spare = shape.slots, failed = i % 2;

		assert_int_equal(rig_command(r, RAID_CMD_FAIL, failed), 0);
		sync_wait(r);
		assert_int_equal(state_of(r, spare), RAID_MEMBER_IN_SYNC);
		assert_int_equal(rig_count(r, RAID_EV_SPARE_ACTIVE), 1);
		assert_int_equal(sync_event(r, RAID_EV_SYNC_STARTED)->member, spare);
		assert_string_equal(sync_event(r, RAID_EV_SYNC_STARTED)->why, "rebuild");
		assert_int_equal(sync_event(r, RAID_EV_SYNC_FINISHED)->err, 0);
		assert_int_equal(sync_status(r).member[spare].reads, 0);
		sync_takes_slot(r, spare, (int32_t)failed);
		rig_copies_equal(r, NULL);
		assert_memory_equal(r->disk[spare] + DATA0, sync_before[failed] + DATA0,
				    i == 0 || i == 1 ? 4096 * 512 : 8192);
		assert_int_equal(rig_sb(r, spare).feature_map & SB_FEATURE_RECOVERY_OFFSET, 0);
		sync_free(r);
	}
}

/* Two spares at once; then what was filled is all that is left. */
static void test_two_spares(void **state)
{
	struct rig_shape shape = shape_of(1);
	struct rig *r;

	(void)state;
	shape.spares = 2;
	r = in_sync(&shape, 4);
	r->fault = sync_hold_reads;
	rig_command(r, RAID_CMD_FAIL, 0);
	rig_command(r, RAID_CMD_FAIL, 2);
	r->fault = NULL;
	sync_wait(r);
	assert_int_equal(sync_status(r).in_sync, 4);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 3), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 4), -EBUSY);
	sync_free(r);
}

/* Writes all the while; then the source fails, and all that was written is there. */
static void test_storm(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct rig_shape shape = shape_of((uint32_t)(seed % 6));
		struct sync_storm st = {.seed = seed};
		struct raid_cmd cmd = {.op = RAID_CMD_FAIL, .member = seed % 2};
		struct raid_cmd rep = {.op = RAID_CMD_REPLACE, .member = 0, .with = UINT32_MAX};
		struct rig *r;

		shape.min_limits = seed % 5 == 0;
		r = in_sync(&shape, seed);
		sync_storm(r, &st, 50);
		raid_control(r->a, seed % 4 ? &cmd : &rep);
		sync_storm(r, &st, 200);
		r->fault = NULL;
		sync_wait(r);
		assert_int_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
		sync_takes_slot(r, shape.slots, seed % 4 ? (int32_t)(seed % 2) : 0);
		if (shape.level == RAID_LEVEL_1) {
			assert_int_equal(rig_command(r, RAID_CMD_FAIL,
						     seed % 4 ? 1 - (uint32_t)(seed % 2) : 1),
					 0);
		}
		sync_storm_end(r, &st);
		sync_free(r);
	}
}

/* ---- replace --------------------------------------------------------------------------------- */

/* arg[0]: member, arg[1]: maddr of a block that cannot be read. */
static int unreadable(struct rig *r, struct raid_io *io)
{
	return io->op == RAID_IO_READ && io->member == r->arg[0] && io->maddr < r->arg[1] + 4096 &&
			       io->maddr + io->len > r->arg[1]
		       ? -EIO
		       : 0;
}

static int replace(struct rig *r, uint32_t member)
{
	static struct raid_cmd cmd;

	cmd = (struct raid_cmd){.op = RAID_CMD_REPLACE, .member = member, .with = UINT32_MAX};
	r->cmd = NULL;
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_ptr_equal(r->cmd, &cmd);
	return cmd.res;
}

static void test_replace(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct rig_shape shape = shape_of(i);
		struct rig *r = in_sync(&shape, 40 + i);
		uint32_t spare = shape.slots;

		r->fault = unreadable;
		r->arg[0] = 1;
		r->arg[1] = DATA0 + 409600;
		assert_int_equal(replace(r, 1), 0);
		sync_wait(r);
		assert_int_equal(state_of(r, spare), RAID_MEMBER_IN_SYNC);
		assert_int_equal(state_of(r, 1), RAID_MEMBER_FAULTY);
		assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 1);
		assert_string_equal(sync_event(r, RAID_EV_SYNC_STARTED)->why, "replace");
		sync_takes_slot(r, spare, 1);
		rig_copies_equal(r, NULL);
		sync_free(r);
	}
}

/* The source fails half way: the replacement goes on as one that is rebuilt. */
static void test_source_fails(void **state)
{
	struct rig *r = in_sync(&mirror, 50);
	uint64_t read;

	(void)state;
	r->fault = sync_hold_reads;
	r->arg[0] = DATA0 + 1048576;
	assert_int_equal(replace(r, 1), 0);
	for (uint32_t i = 0; i < 100; i++) {
		rig_advance_ms(r, 1);
	}
	assert_int_equal(sync_status(r).sync.action, RAID_SYNC_REPLACE);
	assert_int_equal(sync_status(r).sync.done, 1048576);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	read = sync_status(r).member[0].read_bytes;
	r->fault = NULL;
	sync_wait(r);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	/* It did not begin again. */
	assert_true(sync_status(r).member[0].read_bytes - read <= 1048576);
	sync_takes_slot(r, 2, 1);
	rig_copies_equal(r, NULL);
	sync_free(r);
}

static void test_block_without_source(void **state)
{
	struct rig *r = in_sync(&mirror, 51);

	(void)state;
	r->fault = unreadable;
	r->arg[1] = DATA0 + 409600;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	sync_wait(r);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_IN_SYNC);
	assert_int_not_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	assert_int_equal(rig_count(r, RAID_EV_SPARE_ACTIVE), 0);
	sync_free(r);
}

/* What is filled from the only copy does not differ from it: it is read once. */
static void test_only_copy(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.missing = 2;
	r = sync_prepare(&shape, 52);
	sync_wait(r);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_IN_SYNC);
	assert_false(sync_status(r).needs_resync);
	assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	assert_true(sync_status(r).member[0].read_bytes <= 4096 * 512);
	assert_int_equal(sync_status(r).member[1].reads, 0);
	assert_memory_equal(r->disk[1] + DATA0, sync_before[0] + DATA0, 4096 * 512);
	sync_free(r);
}

/* ---- after a restart ------------------------------------------------------------------------- */

static void test_goes_on_after_restart(void **state)
{
	struct rig_shape shape = mirror;
	uint64_t offset;
	struct rig *r, *x;

	(void)state;
	shape.min_limits = true;
	r = in_sync(&shape, 60);
	sync_speed(r, 32768, 32768); /* a minute */
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	while (!rig_sb(r, 2).recovery_offset || r->now.mono_ns < 45000000000) {
		sync_advance(r);
		assert_true(r->now.mono_ns < 70000000000);
	}
	offset = rig_sb(r, 2).recovery_offset;
	assert_int_equal(rig_sb(r, 2).feature_map & SB_FEATURE_RECOVERY_OFFSET,
			 SB_FEATURE_RECOVERY_OFFSET);
	assert_memory_equal(r->disk[2] + DATA0, r->disk[0] + DATA0, offset * 512);
	x = crash(r, 2);
	memset(x->disk[1] + DATA0 + offset * 512, 0xee, (4096 - offset) * 512);
	rig_start(x);
	rig_step(x);
	assert_int_equal(sync_status(x).sync.done, offset / 8 * 4096);
	sync_wait(x);
	assert_int_equal(sync_status(x).in_sync, 2);
	assert_memory_equal(x->disk[1] + DATA0, x->disk[0] + DATA0, 4096 * 512);
	assert_true(sync_status(x).member[0].read_bytes <= (4096 - offset + 8) * 512);
	rig_free(x);
	sync_free(r);
}

/* A target fails in the step in which its order ends: nothing of the slot counts as good then. */
static void test_target_fails_as_an_order_ends(void **state)
{
	static struct raid_cmd cmd[2];
	struct rig *r = in_sync(&mirror, 7);

	(void)state;
	cmd[0] = (struct raid_cmd){.op = RAID_CMD_FAIL, .member = 1};
	raid_control(r->a, &cmd[0]);
	rig_step(r);
	while (!r->ios || r->io[0]->member != 2 || r->io[0]->maddr < DATA0) {
		if (r->ios) {
			rig_complete(r, 0, 0);
		} else {
			r->now.mono_ns += 1000000;
		}
		rig_step(r);
	}
	while (r->ios) {
		rig_complete(r, 0, 0);
	}
	cmd[1] = (struct raid_cmd){.op = RAID_CMD_FAIL, .member = 2};
	raid_control(r->a, &cmd[1]);
	rig_step(r); /* raid_check() looks */
	rig_run(r);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_FAULTY);
	sync_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spare_is_filled),
		cmocka_unit_test(test_two_spares),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_source_fails),
		cmocka_unit_test(test_block_without_source),
		cmocka_unit_test(test_only_copy),
		cmocka_unit_test(test_goes_on_after_restart),
		cmocka_unit_test(test_target_fails_as_an_order_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
