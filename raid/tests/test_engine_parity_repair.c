/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parity levels: blocks that are found unreadable and rewritten, while other members hang or
 * change.
 */
#include "raid/tests/engine_parity.h"

/* Reads of member 1 in row 8 hang; those of the first block of member 0 fail until it is written.
 */
static int late_and_bad(struct rig *r, struct raid_io *io)
{
	bool far = io->member == 1 && touches(io, DATA0 + 8 * CHUNK);

	if (io->op == RAID_IO_READ && far && r->arg[2]) {
		return RIG_HOLD;
	}
	return bad_blocks(r, io);
}

/*
 * A READ is computed around a member that hangs; a block that it reads only for that is unreadable,
 * so the member that hangs is read after all. The bad block was not asked for: what is written over
 * it must have been computed first.
 */
static void test_block_read_on_the_way(void **state)
{
	struct rig *r = filled(&raid5);
	struct rig_req *q;

	(void)state;
	r->fault = late_and_bad;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	r->arg[2] = 1;
	q = rig_submit(r, RAID_OP_READ, 25 * CHUNK, 4096, 0, NULL);
	rig_run(r);
	rig_advance_ms(r, 10001);
	assert_int_equal(rig_finish(r, q), 0);

	/* Of row 0 the end of the first block and the beginning of the second. */
	assert_int_equal(rig_read(r, CHUNK - 4096, 8192, back), 0);
	assert_memory_equal(back, data + CHUNK - 4096, 8192);
	assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
	assert_int_equal(r->arg[0], 0);
	r->arg[2] = 0;
	rig_run(r);
	r->fault = NULL;
	holds(r);
	rig_free(r);
}

/* The first block of member 0 is bad; writes to it hang. Reads of member 4 in arg[3]. */
static int held_rewrite(struct rig *r, struct raid_io *io)
{
	r->arg[3] += io->op == RAID_IO_READ && io->member == 4;
	if (r->arg[2] && io->member == 0 && rig_is_data_write(io) && touches(io, DATA0)) {
		return RIG_HOLD;
	}
	return bad_blocks(r, io);
}

/*
 * A member fails while a block that it could not read is being rewritten, and its replacement takes
 * the slot: reading the block back there would judge the wrong member.
 */
static void test_replacement_is_not_verified(void **state)
{
	struct raid_cmd cmd = {.op = RAID_CMD_REPLACE, .member = 0, .with = UINT32_MAX};
	struct rig_shape s = raid5;
	struct rig_req *q;
	struct rig *r;

	(void)state;
	s.spares = 1;
	r = filled(&s);
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_int_equal(cmd.res, 0);
	r->fault = held_rewrite;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	r->arg[2] = 1;
	q = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);
	rig_run(r);
	assert_memory_equal(q->req.data, data, 4096);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
	assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 0);
	assert_int_equal(r->arg[3], 0);
	r->arg[2] = 0;
	rig_run(r);
	assert_int_equal(rig_read(r, 0, raid_size(r->a), back), 0);
	assert_memory_equal(back, data, raid_size(r->a));
	assert_int_equal(r->arg[3], 0);
	rig_free(r);
}

/* Reads of member 0 hang, those of the first block of member 1 fail. */
static int late_beside_bad(struct rig *r, struct raid_io *io)
{
	return io->member == 0 && io->op == RAID_IO_READ && r->arg[2] ? RIG_HOLD
								      : bad_blocks(r, io);
}

/* A block hangs that cannot be had without: it is waited for, and not asked for again and again,
 * each time with memory of its own. */
static void test_hung_beside_bad(void **state)
{
	struct rig *r = filled(&raid5);
	struct rig_req *q;

	(void)state;
	r->fault = late_beside_bad;
	r->arg[0] = 1 << 1;
	r->arg[1] = DATA0;
	r->arg[2] = 1;
	q = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);
	rig_run(r);
	for (uint32_t i = 0; i < 10; i++) {
		rig_advance_ms(r, 10001);
	}
	assert_int_equal(q->state, 0);
	assert_int_equal(r->ios, 2); /* as planned, and for the row */
	r->arg[2] = 0;
	rig_run(r);
	assert_memory_equal(q->req.data, data, 4096);
	assert_int_equal(rig_finish(r, q), 0);
	r->fault = NULL;
	holds(r);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block_read_on_the_way),
		cmocka_unit_test(test_replacement_is_not_verified),
		cmocka_unit_test(test_hung_beside_bad),
	};

	return cmocka_run_group_tests_name("engine_parity_repair", tests, NULL, NULL);
}
