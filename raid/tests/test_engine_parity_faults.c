/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 5 and 6 while members fail: unreadable blocks, failed and hung ios, at the redundancy limit
 * and below it.
 */
#include "raid/tests/engine_parity.h"

/* ---- unreadable blocks --------------------------------------------------------------------- */

static void test_bad_block_is_rewritten(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < 4; m++) {
		struct rig *r = filled(&raid5);

		r->fault = bad_blocks;
		r->arg[0] = 1u << m;
		r->arg[1] = DATA0 + 3 * CHUNK + 5000;
		/* A read of parity happens only in writes. */
		assert_int_equal(rewrite(r, 3 * 3 * CHUNK + 4096, 100, 9), 0);
		assert_int_equal(rig_read(r, 0, raid_size(r->a), back), 0);
		assert_memory_equal(back, data, raid_size(r->a));
		assert_int_equal(r->arg[0], 0);
		assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 1);
		assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
		assert_int_equal(rig_count(r, RAID_EV_LAST_COPY_ERROR), 0);
		holds(r);
		rig_free(r);
	}
}

static void test_two_bad_blocks(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < 5; m++) {
		struct rig *r = filled(&raid6);

		r->fault = bad_blocks;
		r->arg[0] = 1u << m | 1u << (m + 1) % 5;
		r->arg[1] = DATA0 + 2 * CHUNK;
		assert_int_equal(rig_read(r, 0, raid_size(r->a), back), 0);
		assert_memory_equal(back, data, raid_size(r->a));
		assert_int_equal(rig_count(r, RAID_EV_LAST_COPY_ERROR), 0);
		r->fault = NULL;
		holds(r);
		rig_free(r);
	}
}

/* Nothing is left to compute it from: the client gets an error, everything else is there. */
static void test_bad_block_while_degraded(void **state)
{
	struct rig_shape s = raid5;
	struct rig *r;

	(void)state;
	s.missing = 1 << 3;
	r = filled(&s);
	r->fault = bad_blocks;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	assert_int_equal(rig_read(r, 0, 4096, back), -EIO);
	assert_true(rig_count(r, RAID_EV_LAST_COPY_ERROR) > 0);
	assert_int_equal(rig_read(r, 4096, 4096, back), 0);
	assert_memory_equal(back, data + 4096, 4096);
	r->fault = NULL;
	holds(r);
	rig_free(r);
}

/* ---- parity that may be stale (rule 5) ----------------------------------------------------- */

static int count_reads(struct rig *r, struct raid_io *io)
{
	r->arg[2] += io->op == RAID_IO_READ && io->member == r->arg[0];
	return bad_blocks(r, io) && r->arg[3] ? -EIO : 0;
}

static void test_stale_parity_is_not_read(void **state)
{
	struct rig_shape s = raid5;
	struct rig *r;

	(void)state;
	s.resync = RIG_DIRTY;
	s.read_only = false;
	r = filled(&s);
	r->fault = count_reads;
	r->arg[0] = 3; /* P of row 0 */
	assert_int_equal(rewrite(r, 100, 200, 77), 0);
	assert_int_equal(r->arg[2], 0);
	r->fault = bad_blocks;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	assert_int_equal(rig_read(r, 0, 512, back), -EIO);
	r->fault = NULL;
	holds(r);
	rig_free(r);
}

/* ---- writes that fail ---------------------------------------------------------------------- */

/* Data writes of member arg[0] fail arg[1] times. */
static int fail_writes(struct rig *r, struct raid_io *io)
{
	if (io->member == r->arg[0] && rig_is_data_write(io) && r->arg[1]) {
		r->arg[1]--;
		return -EIO;
	}
	return 0;
}

static void test_write_error_is_retried(void **state)
{
	struct rig *r = filled(&raid5);

	(void)state;
	r->fault = fail_writes;
	r->arg[0] = 1;
	r->arg[1] = 1;
	assert_int_equal(rewrite(r, 0, 3 * CHUNK, 1), 0);
	assert_int_equal(rig_count(r, RAID_EV_WRITE_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	holds(r);
	rig_free(r);
}

static void test_write_error_fails_the_member(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < 4; m++) {
		struct rig *r = filled(&raid5);

		r->fault = fail_writes;
		r->arg[0] = m;
		r->arg[1] = 1000;
		assert_int_equal(rewrite(r, 0, 3 * CHUNK, 1), 0);
		assert_int_equal(rewrite(r, 3 * CHUNK + 4096, 5 * CHUNK, 2), 0);
		assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
		holds(r);
		rig_free(r);
	}
}

/* ---- rule 6: half-written rows are put back ------------------------------------------------ */

/* Writes of member arg[0] that touch the block arg[1] fail; with arg[2] reads after them too. */
static int broken_block(struct rig *r, struct raid_io *io)
{
	bool hit = io->member == r->arg[0] && touches(io, r->arg[1]) && !rig_is_sb(io);

	r->arg[2] -= hit && io->op != RAID_IO_READ && r->arg[2] > 1;
	return hit && (io->op != RAID_IO_READ || r->arg[2] == 1) ? -EIO : 0;
}

static void put_back(const struct rig_shape *shape, uint32_t missing, uint32_t broken,
		     uint64_t addr, uint64_t len)
{
	struct rig_shape s = *shape;
	uint32_t m = 0;
	struct rig *r;
	int res;

	s.missing = missing;
	r = filled(&s);
	while (r->as->member[m].slot != (int)broken) {
		m++;
	}
	r->fault = broken_block;
	r->arg[0] = m;
	r->arg[1] = DATA0;
	res = rewrite(r, addr, len, 33);
	assert_true(res == 0 || res == -EIO);
	assert_int_equal(rig_count(r, RAID_EV_ROW_INCONSISTENT), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	r->fault = NULL;
	old_or_new(r, addr, len, 33);
	holds(r);
	assert_int_equal(rewrite(r, addr, len, 44), 0);
	holds(r);
	rig_free(r);
}

static void test_put_back(void **state)
{
	(void)state;
	for (uint32_t gone = 0; gone < 4; gone++) {
		for (uint32_t broken = 0; broken < 4; broken++) {
			if (gone != broken) {
				put_back(&raid5, 1u << gone, broken, 0, 3 * CHUNK);
				put_back(&raid5, 1u << gone, broken, 100, CHUNK);
				put_back(&raid5, 1u << gone, broken, CHUNK, 4096);
			}
		}
	}
	for (uint32_t a = 0; a < 5; a++) {
		for (uint32_t b = 0; b < 5; b++) {
			for (uint32_t broken = 0; broken < 5; broken++) {
				if (a < b && broken != a && broken != b) {
					put_back(&raid6, 1u << a | 1u << b, broken, 0, 3 * CHUNK);
					put_back(&raid6, 1u << a | 1u << b, broken, 70, 5000);
				}
			}
		}
	}
}

/* Neither written nor read any more: the row is named and nothing is written after that. */
static void test_row_inconsistent(void **state)
{
	struct rig_shape s = raid5;
	struct rig *r;

	(void)state;
	s.missing = 1 << 3;
	r = filled(&s);
	r->fault = broken_block;
	r->arg[0] = 0;
	r->arg[1] = DATA0 + CHUNK;
	/* P of row 1 is on slot 2, its data on 3, 0, 1: what is on 3 would be lost with this. */
	r->arg[2] = 2;
	assert_int_equal(rewrite(r, 4 * CHUNK, 4096, 5), -EIO);
	assert_int_equal(rig_count(r, RAID_EV_ROW_INCONSISTENT), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_ONLY), 1);
	r->fault = NULL;
	assert_int_equal(rewrite(r, 20 * CHUNK, 512, 5), -EIO);
	rig_free(r);
}

static int broken_block_held_superblocks(struct rig *r, struct raid_io *io)
{
	return rig_is_sb(io) ? RIG_HOLD : broken_block(r, io);
}

/* Superblocks are kept all the same: who fails then has failed when they say so, not before. */
static void test_row_inconsistent_during_an_update(void **state)
{
	static struct raid_cmd cmd;
	struct rig_shape s = raid5;
	struct rig *r;

	(void)state;
	s.missing = 1 << 3;
	s.spares = 1; /* takes the slot, and is not filled */
	r = filled(&s);
	r->fault = broken_block_held_superblocks;
	r->arg[0] = 0;
	r->arg[1] = DATA0 + CHUNK;
	r->arg[2] = 2;
	cmd = (struct raid_cmd){.op = RAID_CMD_FAIL, .member = 3};
	raid_control(r->a, &cmd);
	rig_step(r);
	assert_int_equal(rewrite(r, 4 * CHUNK, 4096, 5), -EIO);
	assert_int_equal(rig_count(r, RAID_EV_READ_ONLY), 1);
	assert_true(r->ios > 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	assert_null(r->cmd);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_ptr_equal(r->cmd, &cmd);
	assert_int_equal(cmd.res, 0);
	assert_int_equal(rig_sb(r, 0).dev_roles[3], SB_ROLE_FAULTY);
	rig_free(r);
}

/* ---- what hangs ---------------------------------------------------------------------------- */

static int hold_reads(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && io->op == RAID_IO_READ ? RIG_HOLD : 0;
}

static int hold_writes(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && rig_is_data_write(io) ? RIG_HOLD : 0;
}

static void test_hung_read_is_answered(void **state)
{
	struct rig *r = filled(&raid5);
	struct rig_req *q;

	(void)state;
	r->fault = hold_reads;
	r->arg[0] = 0;
	q = rig_submit(r, RAID_OP_READ, 0, CHUNK, 0, NULL);
	rig_run(r);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 10001);
	assert_int_equal(q->state, 1);
	assert_memory_equal(q->req.data, data, CHUNK);
	assert_int_equal(rig_finish(r, q), 0);
	/* Meanwhile it is read around at once. */
	assert_int_equal(rig_read(r, 0, raid_size(r->a), back), 0);
	assert_memory_equal(back, data, raid_size(r->a));
	r->fault = NULL;
	rig_run(r);
	holds(r);
	rig_free(r);
}

/* The old block of a write hangs: it goes on without. */
static void test_hung_read_of_a_write(void **state)
{
	struct rig *r = filled(&raid5);
	struct rig_req *q;

	(void)state;
	r->fault = hold_reads;
	r->arg[0] = 0;
	memset(back, 0x5a, 5000);
	q = rig_submit(r, RAID_OP_WRITE, 10, 5000, 0, back);
	memcpy(data + 10, back, 5000);
	rig_run(r);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 10001);
	assert_int_equal(q->state, 3);
	assert_int_equal(rig_finish(r, q), 0);
	r->fault = NULL;
	rig_run(r);
	holds(r);
	rig_free(r);
}

static void test_hung_write_fails_the_member(void **state)
{
	struct rig *r = filled(&raid5);
	struct rig_req *q;

	(void)state;
	r->fault = hold_writes;
	r->arg[0] = 0;
	memset(back, 0x5a, 3 * CHUNK);
	q = rig_submit(r, RAID_OP_WRITE, 0, 3 * CHUNK, 0, back);
	memcpy(data, back, 3 * CHUNK);
	rig_run(r);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 30001);
	assert_int_equal(q->state, 1); /* done, but its payload is still named */
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	/* Others find stripes all the same. */
	assert_int_equal(rewrite(r, 0, 6 * CHUNK, 6), 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(q->state, 3);
	assert_int_equal(rig_finish(r, q), 0);
	r->failed[0] = true;
	holds(r);
	rig_free(r);
}

/* Reads of member 0 wait for arg[0] to become 0; counts those of member 4 while the write is out.
 */
static int hold_then_watch(struct rig *r, struct raid_io *io)
{
	const struct rig_req *q = (const struct rig_req *)(uintptr_t)r->arg[3];

	r->arg[2] += io->member == 4 && io->op == RAID_IO_READ && !(q->state & 1);
	return r->arg[0] && io->member == 0 && io->op == RAID_IO_READ ? RIG_HOLD : 0;
}

/* A stripe has reads out and more to come when the member fails; with a spare another one holds
 * the slot at once, and has nothing that could be read. */
static void test_member_fails_while_reads_wait(void **state)
{
	(void)state;
	for (uint32_t spares = 0; spares <= 1; spares++) {
		struct rig_shape s = {.level = RAID_LEVEL_5,
				      .layout = 2,
				      .chunk_sectors = 128,
				      .slots = 4,
				      .sectors = 1024,
				      .max_io = 4096,
				      .spares = spares};
		struct rig *r = filled(&s);
		struct rig_req *q;

		memset(back, 0x77, 60000);
		q = rig_submit(r, RAID_OP_WRITE, 100, 60000, 0, back);
		memcpy(data + 100, back, 60000);
		r->arg[0] = 1;
		r->arg[3] = (uintptr_t)q;
		r->fault = hold_then_watch;
		rig_run(r);
		assert_int_equal(q->state, 0);
		assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
		r->arg[0] = 0;
		rig_run(r);
		assert_int_equal(r->arg[2], 0);
		assert_int_equal(rig_finish(r, q), 0);
		r->fault = NULL;
		rig_advance_ms(r, 100);
		holds(r);
		rig_free(r);
	}
}

/* ---- all at once --------------------------------------------------------------------------- */

static int some_reads_fail(struct rig *r, struct raid_io *io)
{
	return io->member < r->as->geometry.parity && io->op == RAID_IO_READ && rnd(6) == 0 ? -EIO
											    : 0;
}

static int some_writes_fail(struct rig *r, struct raid_io *io)
{
	if (io->member >= r->as->geometry.parity || rnd(8)) {
		return 0;
	}
	return rig_is_data_write(io) || io->op == RAID_IO_READ ? -EIO : 0;
}

static void test_storms(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct rig_shape s = seed & 1 ? raid5 : raid6;

		s.chunk_sectors = seed % 3 == 0 ? 256 : 32;
		s.min_limits = seed % 4 == 0;
		storm_with(&s, seed, some_reads_fail);
		storm_with(&s, seed + 50, some_writes_fail);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_block_is_rewritten),
		cmocka_unit_test(test_two_bad_blocks),
		cmocka_unit_test(test_bad_block_while_degraded),
		cmocka_unit_test(test_stale_parity_is_not_read),
		cmocka_unit_test(test_write_error_is_retried),
		cmocka_unit_test(test_write_error_fails_the_member),
		cmocka_unit_test(test_put_back),
		cmocka_unit_test(test_row_inconsistent),
		cmocka_unit_test(test_row_inconsistent_during_an_update),
		cmocka_unit_test(test_hung_read_is_answered),
		cmocka_unit_test(test_hung_read_of_a_write),
		cmocka_unit_test(test_hung_write_fails_the_member),
		cmocka_unit_test(test_member_fails_while_reads_wait),
		cmocka_unit_test(test_storms),
	};

	return cmocka_run_group_tests_name("engine_parity_faults", tests, NULL, NULL);
}
