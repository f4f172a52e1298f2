/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes and flushes on members that fail or hang, one behaviour a test: deadlines, last copies,
 * the order of writes, flush rounds, edges. */
#include "raid/array.h"
#include "raid/tests/engine_faults.h"

static void test_no_deadline_on_last_copy(void **state)
{
	struct rig_shape one = mirror;
	struct rig_req *rd, *wr;
	struct rig *r;

	(void)state;
	one.missing = 2;
	r = filled(&one);
	r->arg[0] = 0;
	r->fault = hold_all_of;
	rd = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);
	wr = rig_submit(r, RAID_OP_WRITE, 8192, 4096, 0, data);
	rig_advance_ms(r, 1000000);
	assert_int_equal(rd->state + wr->state, 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, rd), 0);
	assert_int_equal(rig_finish(r, wr), 0);
	rig_free(r);
}

static void test_write_deadline(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 4096, 4096, 0, data);

	(void)state;
	r->arg[0] = 1;
	r->fault = hold_all_of;
	rig_run(r);
	rig_advance_ms(r, 29999);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 1);
	rig_run(r);
	assert_int_equal(q->state, 1); /* answered, but the hung io still names the payload */
	assert_int_equal(q->req.res, 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_GONE), 0);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0); /* does not wait for it */
	assert_int_equal(rig_sb(r, 0).resync_offset, SB_IN_SYNC);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(q->state, 3);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_GONE), 1);
	rig_free(r);
}

static void test_last_copy_is_never_failed(void **state)
{
	struct rig_shape one = mirror;
	struct rig *r;

	(void)state;
	one.missing = 1;
	r = filled(&one);
	r->arg[0] = 0;
	r->arg[1] = RAID_IO_WRITE;
	r->arg[2] = (uint64_t)-ENOSPC;
	r->fault = fail_op_of;
	assert_int_equal(rig_write(r, 0, 65536, data), -ENOSPC);
	assert_int_equal(rig_count(r, RAID_EV_LAST_COPY_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	r->fault = NULL;
	assert_int_equal(rig_write(r, 0, 65536, data), 0);
	rig_free(r);
}

static void test_flush_rounds(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct rig_req *f1, *f2, *f3;

	(void)state;
	assert_int_equal(rig_op(r, RAID_OP_FLUSH, 0, 0, 0), 0);
	assert_int_equal(r->flushes, 0); /* nothing written yet */
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	f1 = rig_submit(r, RAID_OP_FLUSH, 0, 0, 0, NULL);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	rig_complete(r, 0, 0);
	/* A write is acknowledged during the round: the next FLUSH needs another. */
	{
		struct rig_req *w = rig_submit(r, RAID_OP_WRITE, 8192, 512, 0, data);

		rig_step(r);
		assert_int_equal(r->ios, 3); /* writes do not wait for flushes */
		rig_complete(r, 1, 0);
		rig_complete(r, 1, 0);
		rig_step(r);
		assert_int_equal(rig_finish(r, w), 0);
	}
	f2 = rig_submit(r, RAID_OP_FLUSH, 0, 0, 0, NULL);
	f3 = rig_submit(r, RAID_OP_FLUSH, 0, 0, 0, NULL);
	rig_step(r);
	assert_int_equal(r->ios, 1);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(f1->state, 3);
	assert_int_equal(f2->state, 0);
	assert_int_equal(r->ios, 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, f1) | rig_finish(r, f2) | rig_finish(r, f3), 0);
	assert_int_equal(r->flushes, 4);
	rig_free(r);
}

static void test_flush_does_not_wait_for_writes(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *w = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	struct rig_req *f;

	(void)state;
	r->arg[0] = 1;
	r->arg[1] = RAID_IO_WRITE;
	r->arg[2] = RIG_HOLD;
	r->fault = fail_op_of;
	rig_run(r);
	f = rig_submit(r, RAID_OP_FLUSH, 0, 0, 0, NULL);
	rig_run(r);
	assert_int_equal(w->state, 0);
	assert_int_equal(rig_finish(r, f), 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, w), 0);
	rig_free(r);
}

static void test_failed_flush_fails_the_member(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 0;
	r->arg[1] = RAID_IO_FLUSH;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_op(r, RAID_OP_FLUSH, 0, 0, 0), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_sb(r, 1).dev_roles[0], SB_ROLE_FAULTY);
	rig_free(r);
}

static void test_flush_lost(void **state)
{
	struct rig_shape one = mirror;
	struct raid_status st;
	struct rig *r;

	(void)state;
	one.missing = 2;
	r = filled(&one);
	r->arg[0] = 0;
	r->arg[1] = RAID_IO_FLUSH;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_op(r, RAID_OP_FLUSH, 0, 0, 0), -EIO);
	r->fault = NULL;
	assert_int_equal(rig_op(r, RAID_OP_FLUSH, 0, 0, 0), -EIO);
	assert_int_equal(rig_write_flags(r, 0, 4096, RAID_REQ_FUA, data), -EIO);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	rig_advance_ms(r, 1000);
	raid_get_status(r->a, &st);
	assert_true(st.flush_lost);
	assert_int_equal(rig_count(r, RAID_EV_CLEAN), 0);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), -EIO);
	assert_true(rig_sb(r, 0).resync_offset == 0);
	rig_free(r);
}

static void test_fua(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *q;
	uint32_t before;

	(void)state;
	q = rig_submit(r, RAID_OP_WRITE, 100, 1000, RAID_REQ_FUA, data);
	rig_step(r);
	while (r->ios && r->io[0]->op == RAID_IO_READ) {
		rig_complete(r, 0, 0);
		rig_step(r);
	}
	assert_int_equal(r->ios, 2);
	assert_true(r->io[0]->fua && r->io[1]->fua);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	before = r->flushes;
	assert_int_equal(rig_op(r, RAID_OP_TRIM, 0, 65536, RAID_REQ_FUA), 0);
	assert_int_equal(r->flushes, before + 2);
	rig_free(r);
}

static void test_overlap_order(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *a, *b, *c, *d;

	(void)state;
	memset(back, 1, 8192);
	a = rig_submit(r, RAID_OP_WRITE, 0, 8192, 0, back);
	memset(back, 2, 8192);
	b = rig_submit(r, RAID_OP_WRITE, 4096, 4096, 0, back);
	memset(back, 3, 8192);
	c = rig_submit(r, RAID_OP_WRITE, 4096 + 100, 8, 0, back);
	d = rig_submit(r, RAID_OP_WRITE, 16384, 512, 0, back);
	rig_step(r);
	assert_int_equal(r->ios, 4); /* a and d on two members; b and c wait */
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 3);
	rig_run(r);
	assert_int_equal(rig_finish(r, a) | rig_finish(r, b) | rig_finish(r, c) | rig_finish(r, d),
			 0);
	for (int m = 0; m < 2; m++) {
		const uint8_t *p = r->disk[m] + DATA0;

		assert_true(p[4095] == 1 && p[4096] == 2 && p[4196] == 3 && p[4204] == 2);
	}
	rig_free(r);
}

static void test_unaligned_edges_come_from_one_copy(void **state)
{
	struct rig_shape big = mirror;
	struct rig *r;

	(void)state;
	big.lbs[0] = 4096;
	r = filled(&big);
	/* The copies differ beside the write (silent damage): afterwards they must not. */
	memset(r->disk[1] + DATA0 + 8192, 0x77, 4096);
	assert_int_equal(rig_write(r, 8192 + 10, 100, data), 0);
	assert_memory_equal(r->disk[0] + DATA0 + 8192, r->disk[1] + DATA0 + 8192, 4096);
	rig_free(r);
}

static void test_unreadable_edge(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 0;
	r->arg[1] = DATA0 + 4096;
	r->fault = bad_block;
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(rig_write(r, 4096 + 10 * i, 5, data + 4096 + 10 * i), 0);
	}
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data, 65536);
	rig_copies_equal(r, NULL);
	rig_free(r);
}

static int unsupported(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && (io->op == RAID_IO_DISCARD || io->op == RAID_IO_ZERO)
		       ? -EOPNOTSUPP
		       : 0;
}

static void test_zero_unsupported_is_written(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 1;
	r->fault = unsupported;
	memset(data + 1000, 0, 700000);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 1000, 700000, 0), 0);
	assert_int_equal(rig_read(r, 0, 1 << 20, back), 0);
	assert_memory_equal(back, data, 1 << 20);
	rig_copies_equal(r, NULL);
	/* Remembered: not tried again, and no longer fast. */
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, 4096, RAID_REQ_FAST_ZERO), 0); /* by ZERO */
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, 4096, RAID_REQ_FAST_ZERO), -ENOTSUP);
	assert_int_equal(rig_op(r, RAID_OP_TRIM, 8192, 4096, 0), 0);
	rig_copies_equal(r, NULL);
	rig_free(r);
}

static void test_trim_that_fails_leaves_copies_equal(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 1;
	r->arg[1] = RAID_IO_DISCARD;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_op(r, RAID_OP_TRIM, 0, 131072, 0), 0);
	rig_copies_equal(r, NULL);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	rig_free(r);
}

static void test_fast_zero(void **state)
{
	struct rig_shape slow = mirror;
	struct rig *r = rig_new(&slow);

	(void)state;
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, 65536, RAID_REQ_FAST_ZERO), 0);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 5, 65536, RAID_REQ_FAST_ZERO), -ENOTSUP);
	rig_free(r);
	slow.no_punch = slow.no_zero = true;
	r = rig_new(&slow);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, 65536, RAID_REQ_FAST_ZERO), -ENOTSUP);
	rig_free(r);
}

static void test_raid10_copies_fail_apart(void **state)
{
	struct rig *r = filled(&(struct rig_shape){.level = RAID_LEVEL_10,
						   .layout = 0x102,
						   .chunk_sectors = 128,
						   .slots = 4,
						   .sectors = 4096});

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), -EBUSY);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 3), 0);
	assert_int_equal(rig_read(r, 0, 1 << 20, back), 0);
	assert_memory_equal(back, data, 1 << 20);
	memset(data, 0x11, 200000);
	assert_int_equal(rig_write(r, 0, 200000, data), 0);
	assert_int_equal(rig_read(r, 0, 1 << 20, back), 0);
	assert_memory_equal(back, data, 1 << 20);
	rig_free(r);
}

/* Once: the repair of the edge must not wait for the write that waits for it. */
static void test_unreadable_edge_where_copies_may_differ(void **state)
{
	struct rig_shape dirty = mirror;
	struct rig *r;

	(void)state;
	dirty.resync = RIG_DIRTY;
	r = filled(&dirty);
	r->arg[0] = 0;
	r->arg[1] = DATA0 + 4096;
	r->fault = bad_block;
	assert_int_equal(rig_write(r, 4096 + 10, 5, data + 4096 + 10), 0);
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data, 65536);
	rig_copies_equal(r, NULL);
	rig_free(r);
}

/* A member that cannot be failed misses a write: the copies differ, and that is not forgotten. */
static void test_write_error_on_a_member_that_must_stay(void **state)
{
	struct rig *r = filled(&(struct rig_shape){.level = RAID_LEVEL_10,
						   .layout = 0x102,
						   .chunk_sectors = 128,
						   .slots = 3,
						   .sectors = 4096});
	struct raid_status st;

	(void)state;
	/* Chunks lie on 0+1, 2+0, 1+2, …: without 2, both others hold last copies. */
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 2), 0);
	r->arg[0] = 1;
	r->arg[1] = RAID_IO_WRITE;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_write(r, 4096, 4096, data + 8192), -EIO);
	r->fault = NULL;
	raid_get_status(r->a, &st);
	assert_true(st.needs_resync);
	assert_int_equal(st.resync_offset, 8);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(rig_read(r, 4096, 4096, back), 0);
		assert_memory_equal(back, data + 8192, 4096); /* always the first */
	}
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_true(rig_sb(r, 0).resync_offset == 8);
	rig_free(r);
}

static const struct rig_shape with_spare = {
	.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096, .spares = 1};

/* FLUSH covers the target: what it was sent below its recovery_offset must outlive a power cut. */
static void test_flush_covers_the_target(void **state)
{
	struct rig *r = filled(&with_spare);
	uint32_t before;

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	before = r->flushes;
	assert_int_equal(rig_op(r, RAID_OP_FLUSH, 0, 0, 0), 0);
	assert_int_equal(r->flushes, before + 2);
	rig_free(r);
}

/* A write fails on the only copy but reaches the member that is filled from it: what was copied
 * there already is not copied again, so the two differ. */
static void test_write_reaches_only_the_target(void **state)
{
	struct rig *r = filled(&with_spare);
	struct raid_status st;

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	memcpy(r->disk[2] + DATA0, r->disk[0] + DATA0, 65536);
	r->a->core.view.slot[1].good_below = 65536;
	r->arg[0] = 0;
	r->arg[1] = RAID_IO_WRITE;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_write(r, 4096, 4096, data + 8192), -EIO);
	r->fault = NULL;
	assert_memory_not_equal(r->disk[0] + DATA0 + 4096, r->disk[2] + DATA0 + 4096, 4096);
	member_synced(&r->a->core, 2);
	rig_run(r);
	raid_get_status(r->a, &st);
	assert_int_equal(st.member[2].state, RAID_MEMBER_IN_SYNC);
	assert_true(st.needs_resync);
	assert_int_equal(st.resync_offset, 8);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(rig_sb(r, 0).resync_offset, 8);
	assert_int_equal(rig_sb(r, 2).resync_offset, 8);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_deadline_on_last_copy),
		cmocka_unit_test(test_write_deadline),
		cmocka_unit_test(test_last_copy_is_never_failed),
		cmocka_unit_test(test_flush_rounds),
		cmocka_unit_test(test_flush_does_not_wait_for_writes),
		cmocka_unit_test(test_failed_flush_fails_the_member),
		cmocka_unit_test(test_flush_lost),
		cmocka_unit_test(test_fua),
		cmocka_unit_test(test_overlap_order),
		cmocka_unit_test(test_unaligned_edges_come_from_one_copy),
		cmocka_unit_test(test_unreadable_edge),
		cmocka_unit_test(test_zero_unsupported_is_written),
		cmocka_unit_test(test_trim_that_fails_leaves_copies_equal),
		cmocka_unit_test(test_fast_zero),
		cmocka_unit_test(test_raid10_copies_fail_apart),
		cmocka_unit_test(test_unreadable_edge_where_copies_may_differ),
		cmocka_unit_test(test_write_error_on_a_member_that_must_stay),
		cmocka_unit_test(test_flush_covers_the_target),
		cmocka_unit_test(test_write_reaches_only_the_target),
	};

	return cmocka_run_group_tests_name("engine_faults", tests, NULL, NULL);
}
