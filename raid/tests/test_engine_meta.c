/* SPDX-License-Identifier: BSD-3-Clause */
/* What the superblocks say and when: dirty before data, failures before acknowledgements, clean
 * after a flush, two waves, degraded starts, stop. */
#include "raid/tests/engine_rig.h"

static const struct rig_shape mirror = {.level = RAID_LEVEL_1, .slots = 2, .sectors = 2048};
static uint8_t data[1 << 20];

static uint32_t count_io(const struct rig *r, bool (*is)(const struct raid_io *))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->ios; i++) {
		n += is(r->io[i]);
	}
	return n;
}

static bool is_flush(const struct raid_io *io)
{
	return io->op == RAID_IO_FLUSH;
}

static int fail_writes_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && rig_is_data_write(io) ? -EIO : 0;
}

static int fail_superblocks_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && rig_is_sb(io) ? -EIO : 0;
}

static int hold_superblocks_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && rig_is_sb(io) ? RIG_HOLD : 0;
}

static void test_dirty_before_data(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 4096, 4096, 0, data);

	(void)state;
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(count_io(r, rig_is_sb), 2);
	assert_true(r->io[0]->fua && r->io[1]->fua);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1); /* still no data: one member would come back as clean */
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(count_io(r, rig_is_data_write), 2);
	assert_true(rig_sb(r, 0).resync_offset == 0 && rig_sb(r, 1).resync_offset == 0);
	assert_int_equal(rig_sb(r, 0).events, 11);
	assert_true(rig_sb(r, 0).utime_us != 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_count(r, RAID_EV_DIRTY), 1);
	/* Not again for the next write. */
	assert_int_equal(rig_write(r, 0, 512, data), 0);
	assert_int_equal(r->sb_writes, 2);
	rig_free(r);
}

static void test_clean_after_idle_and_flush(void **state)
{
	struct rig *r = rig_new(&mirror);

	(void)state;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(raid_deadline(r->a), r->now.mono_ns + 200000000);
	r->now.mono_ns += 199999999;
	rig_step(r);
	assert_int_equal(r->ios, 0);
	r->now.mono_ns += 1;
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(count_io(r, is_flush), 2); /* clean vouches for durable data */
	rig_complete(r, 0, 0);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(count_io(r, rig_is_sb), 2);
	rig_run(r);
	assert_int_equal(rig_count(r, RAID_EV_CLEAN), 1);
	assert_true(rig_sb(r, 1).resync_offset == SB_IN_SYNC);
	assert_int_equal(rig_sb(r, 1).events, 12);
	assert_true(raid_deadline(r->a) == RAID_NEVER);
	rig_free(r);
}

static void test_write_during_clean_update(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct rig_req *q;

	(void)state;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	r->arg[0] = 0;
	r->fault = hold_superblocks_of;
	rig_advance_ms(r, 200);
	assert_int_equal(r->ios, 1); /* clean is on its way */
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_run(r);
	assert_int_equal(count_io(r, rig_is_data_write), 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_true(rig_sb(r, 0).resync_offset == 0);
	rig_free(r);
}

static void test_ack_after_failure_is_recorded(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct rig_req *q;

	(void)state;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	q = rig_submit(r, RAID_OP_WRITE, 4096, 4096, 0, data);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	rig_complete(r, 1, -EIO);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1); /* tried once more */
	assert_int_equal(r->io[0]->member, 1);
	rig_complete(r, 0, -EIO);
	rig_step(r);
	assert_int_equal(q->state, 0);
	assert_int_equal(r->ios, 1);
	assert_true(rig_is_sb(r->io[0]) && r->io[0]->member == 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(q->state, 3);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_GONE), 1);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	assert_int_equal(rig_sb(r, 0).events, 12);
	assert_int_equal(rig_sb(r, 1).events, 11); /* its own is not touched any more */
	rig_free(r);
}

static void test_retry_succeeds(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct rig_req *q;

	(void)state;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	memset(data, 0x5a, 65536);
	q = rig_submit(r, RAID_OP_WRITE, 0, 65536, 0, data);
	rig_step(r);
	rig_complete(r, 1, -EIO);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(r->io[1]->len, 4096);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	assert_int_equal(rig_count(r, RAID_EV_WRITE_ERROR), 1);
	rig_copies_equal(r, NULL);
	rig_free(r);
}

static void test_survivor_superblock_fails_too(void **state)
{
	struct rig_shape three = mirror;
	struct rig *r;
	struct rig_req *q;

	(void)state;
	three.slots = 3;
	r = rig_new(&three);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	r->arg[0] = 0;
	r->fault = fail_writes_of;
	rig_step(r);
	for (uint32_t i = 3; i-- > 0;) {
		rig_complete(r, i, r->io[i]->member ? 0 : -EIO);
	}
	rig_step(r);
	rig_complete(r, 0, -EIO);
	r->arg[0] = 1;
	r->fault = fail_superblocks_of;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 2);
	assert_int_equal(rig_count(r, RAID_EV_SB_ERROR), 1);
	assert_int_equal(rig_sb(r, 2).dev_roles[0], SB_ROLE_FAULTY);
	assert_int_equal(rig_sb(r, 2).dev_roles[1], SB_ROLE_FAULTY);
	rig_free(r);
}

static void test_survivor_superblock_hangs(void **state)
{
	struct rig_shape three = mirror;
	struct rig *r;

	(void)state;
	three.slots = 3;
	r = rig_new(&three);
	r->arg[0] = 1;
	r->fault = hold_superblocks_of;
	{
		struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);

		rig_run(r);
		assert_int_equal(q->state, 0);
		rig_advance_ms(r, 29999);
		assert_int_equal(q->state, 0);
		rig_advance_ms(r, 1);
		assert_int_equal(rig_finish(r, q), 0);
	}
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_GONE), 0); /* its io is still out */
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_GONE), 1);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	rig_free(r);
}

static void test_last_superblock_breaks_the_array(void **state)
{
	struct rig_shape one = mirror;
	struct raid_status st;
	struct rig *r;

	(void)state;
	one.missing = 2;
	r = rig_new(&one);
	r->arg[0] = 0;
	r->fault = fail_superblocks_of;
	assert_int_equal(rig_write(r, 0, 4096, data), -EIO);
	assert_int_equal(r->data_writes, 0);
	assert_int_equal(rig_count(r, RAID_EV_READ_ONLY), 1);
	raid_get_status(r->a, &st);
	assert_int_equal(st.state, RAID_ARRAY_READ_ONLY);
	assert_int_equal(rig_read(r, 0, 4096, data), 0);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), -EIO);
	rig_free(r);
}

static void test_two_waves(void **state)
{
	struct rig_shape wide = mirror;
	struct rig_req *q;
	struct rig *r;

	(void)state;
	wide.slots = 4;
	wide.max_dev = 384; /* 1024 bytes: two blocks */
	r = rig_new(&wide);
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(r->io[0]->len, 1024);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 2); /* the others */
	assert_int_equal(count_io(r, rig_is_sb), 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(r->sb_writes, 4);
	rig_free(r);
}

static void test_degraded_start(void **state)
{
	struct rig_shape degraded = mirror;
	struct rig *r;

	(void)state;
	degraded.slots = 3;
	degraded.missing = 2;
	degraded.spares = 1;
	r = rig_prepare(&degraded);
	for (uint32_t i = 0; i < r->as->members; i++) {
		r->as->member[i].sb.dev_roles[7] = 1; /* the absent one still has its slot */
	}
	rig_create(r);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct sb sb = rig_sb(r, i);

		assert_int_equal(sb.dev_roles[7], SB_ROLE_SPARE);
		assert_int_equal(sb.dev_roles[0], 0);
		assert_int_equal(sb.dev_roles[1], 2);
		assert_int_equal(sb.dev_roles[2], 1); /* the spare takes the slot at once */
		assert_int_equal(sb.events, 11);
		assert_int_equal(sb.dev_number, i);
	}
	rig_free(r);
}

static void test_dirty_stays_dirty(void **state)
{
	struct rig_shape dirty = mirror;
	struct raid_status st;
	struct rig *r;

	(void)state;
	dirty.resync = RIG_DIRTY;
	r = rig_new(&dirty);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	rig_advance_ms(r, 1000);
	raid_get_status(r->a, &st);
	assert_true(st.needs_resync);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_true(rig_sb(r, 0).resync_offset == 0);
	assert_int_equal(rig_count(r, RAID_EV_CLEAN), 0);
	assert_true(r->flushes >= 2);
	rig_free(r);
}

static void test_checkpoint_comes_back(void **state)
{
	struct rig_shape half = mirror;
	struct rig *r;

	(void)state;
	half.resync = 512;
	r = rig_new(&half);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_true(rig_sb(r, 0).resync_offset == 0); /* while writes may be under way */
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_true(rig_sb(r, 0).resync_offset == 512);
	rig_free(r);
}

static void test_stop_of_unwritten(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct raid_status st;

	(void)state;
	assert_int_equal(rig_read(r, 0, 4096, data), 0);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(r->sb_writes, 0);
	assert_int_equal(r->flushes, 0);
	raid_get_status(r->a, &st);
	assert_int_equal(st.state, RAID_ARRAY_STOPPED);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), -ESHUTDOWN);
	rig_free(r);
}

static void test_read_only_writes_nothing(void **state)
{
	struct rig_shape ro = mirror;
	struct rig *r;

	(void)state;
	ro.read_only = true;
	ro.resync = RIG_DIRTY;
	r = rig_new(&ro);
	assert_int_equal(rig_read(r, 0, 4096, data), 0);
	assert_int_equal(rig_write(r, 0, 4096, data), -EROFS);
	assert_int_equal(rig_op(r, RAID_OP_TRIM, 0, 4096, 0), -EROFS);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, 4096, 0), -EROFS);
	assert_int_equal(rig_op(r, RAID_OP_FLUSH, 0, 0, 0), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), -EROFS);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(r->data_writes + r->sb_writes + r->flushes, 0);
	rig_free(r);
}

static void test_striped_never_writes_superblocks(void **state)
{
	struct rig *r = rig_new(&(struct rig_shape){
		.level = RAID_LEVEL_0, .chunk_sectors = 128, .slots = 3, .sectors = 2048});

	(void)state;
	assert_int_equal(rig_write(r, 1000, 300000, data), 0);
	rig_advance_ms(r, 1000);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), -EBUSY);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(r->sb_writes, 0);
	assert_int_equal(r->flushes, 3);
	rig_free(r);
}

static void test_fail_by_hand(void **state)
{
	struct rig *r = rig_new(&mirror);

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0); /* it is what was asked for */
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 2), -EINVAL);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), -EBUSY);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(r->data_writes, 1);
	rig_free(r);
}

static void test_spare_is_dropped(void **state)
{
	struct rig_shape spare = mirror;
	struct rig *r;

	(void)state;
	spare.spares = 1;
	r = rig_new(&spare);
	r->arg[0] = 2;
	r->fault = fail_superblocks_of;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_sb(r, 0).dev_roles[2], SB_ROLE_FAULTY);
	rig_free(r);
}

static void test_laggards_are_brought_up_first(void **state)
{
	struct rig_shape four = mirror;
	struct rig_req *q;
	struct rig *r;

	(void)state;
	four.slots = 4;
	r = rig_prepare(&four);
	/* A crash in the middle of an update: two members have it. */
	r->as->events = 11;
	r->as->freshest = 2;
	r->as->member[2].sb.events = r->as->member[3].sb.events = 11;
	r->as->member[2].sb.dev_roles[9] = 17;
	rig_create(r);
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_true(r->io[0]->member == 0 && r->io[1]->member == 1);
	rig_complete(r, 0, 0);
	rig_complete(r, 0, 0);
	assert_int_equal(rig_sb(r, 0).events, 11);
	assert_int_equal(rig_sb(r, 1).dev_roles[9], 17); /* exactly what the newest says */
	rig_step(r);
	assert_int_equal(count_io(r, rig_is_sb), 4);
	rig_run(r);
	assert_int_equal(rig_sb(r, 3).events, 12);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

static void test_spares_come_last(void **state)
{
	struct rig_shape spare = mirror;
	struct rig_req *q;
	struct rig *r;

	(void)state;
	spare.spares = 1;
	r = rig_new(&spare);
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_true(r->io[0]->member < 2 && r->io[1]->member < 2);
	rig_complete(r, 0, 0);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1);
	assert_int_equal(r->io[0]->member, 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dirty_before_data),
		cmocka_unit_test(test_clean_after_idle_and_flush),
		cmocka_unit_test(test_write_during_clean_update),
		cmocka_unit_test(test_ack_after_failure_is_recorded),
		cmocka_unit_test(test_retry_succeeds),
		cmocka_unit_test(test_survivor_superblock_fails_too),
		cmocka_unit_test(test_survivor_superblock_hangs),
		cmocka_unit_test(test_last_superblock_breaks_the_array),
		cmocka_unit_test(test_two_waves),
		cmocka_unit_test(test_degraded_start),
		cmocka_unit_test(test_dirty_stays_dirty),
		cmocka_unit_test(test_checkpoint_comes_back),
		cmocka_unit_test(test_stop_of_unwritten),
		cmocka_unit_test(test_read_only_writes_nothing),
		cmocka_unit_test(test_striped_never_writes_superblocks),
		cmocka_unit_test(test_fail_by_hand),
		cmocka_unit_test(test_spare_is_dropped),
		cmocka_unit_test(test_laggards_are_brought_up_first),
		cmocka_unit_test(test_spares_come_last),
	};

	return cmocka_run_group_tests_name("engine_meta", tests, NULL, NULL);
}
