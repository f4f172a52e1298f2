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

/* ---- blocks that cannot be read -------------------------------------------------------------- */

/* arg: member, maddr of a block that cannot be read until it is written, written. */
static int bad_block(struct rig *r, struct raid_io *io)
{
	uint64_t end = io->maddr + io->len;

	if (io->member != r->arg[0] || io->maddr >= r->arg[1] + 4096 || end <= r->arg[1]) {
		return 0;
	}
	if (io->op == RAID_IO_WRITE) {
		r->arg[2] = 1;
	}
	return io->op == RAID_IO_READ && !r->arg[2] ? -EIO : 0;
}

/* The first copy of a block is unreadable: the next becomes what all copies hold. */
static void test_resync_takes_the_next_copy(void **state)
{
	uint64_t at = RIG_DATA_SECTOR * 512 + 409600;
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.slots = 3;
	r = sync_prepare(&shape, 5);
	/* Nobody votes: readers may have seen the first. */
	memcpy(r->disk[2] + at - 4096, r->disk[1] + at - 4096, 4096);
	r->fault = bad_block;
	r->arg[1] = at;
	sync_wait(r);
	rig_copies_equal(r, NULL);
	assert_memory_equal(r->disk[2] + at, sync_before[1] + at, 4096);
	assert_memory_equal(r->disk[2] + at - 4096, sync_before[0] + at - 4096, 4096);
	assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
	assert_int_equal(sync_status(r).member[0].corrected, 8);
	assert_true(rig_sb(r, 1).resync_offset == SB_IN_SYNC);
	sync_free(r);
}

/* A member that takes the rewritten block and gives something else back is failed. */
static int rotten_block(struct rig *r, struct raid_io *io)
{
	int res = bad_block(r, io);

	if (r->arg[2] && io->op == RAID_IO_READ && io->member == r->arg[0] &&
	    io->maddr == r->arg[1] && io->len == 4096) {
		r->disk[io->member][io->maddr] ^= 1;
	}
	return res;
}

static void test_block_that_cannot_be_kept(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.resync = 0;
	r = rig_new(&shape);
	r->fault = rotten_block;
	r->arg[1] = RIG_DATA_SECTOR * 512 + 409600;
	assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
	sync_wait(r);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 0);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_FINISHED), 1);
	rig_free(r);
}

/*
 * Listed sectors are taken from another copy, those beside them from the first as ever; what all
 * copies list is left alone.
 */
static void test_listed_sectors(void **state)
{
	uint64_t at = RIG_DATA_SECTOR * 512 + 16384;
	struct rig *r = sync_prepare_listed(&mirror, 8, at);

	(void)state;
	sync_wait(r);
	/* Sector 1 is listed on the first, sector 2 on the second, sector 4 on both. */
	for (uint32_t s = 0; s < 8; s++) {
		uint32_t from = s == 1;

		if (s != 4) {
			assert_memory_equal(r->disk[0] + at + s * 512,
					    sync_before[from] + at + s * 512, 512);
			assert_memory_equal(r->disk[1] + at + s * 512,
					    sync_before[from] + at + s * 512, 512);
		} else {
			assert_memory_equal(r->disk[1] + at + s * 512,
					    sync_before[1] + at + s * 512, 512);
		}
	}
	assert_false(sync_status(r).needs_resync);
	sync_free(r);
}

static bool overlap(const struct iovec *a, const struct iovec *b)
{
	const uint8_t *x = a->iov_base, *y = b->iov_base;

	return x < y + b->iov_len && y < x + a->iov_len;
}

static void assert_buffers_apart(const struct rig *r)
{
	for (uint32_t i = 0; i < r->ios; i++) {
		for (uint32_t k = 0; k < i; k++) {
			assert_false(overlap(&r->io[i]->iov[0], &r->io[k]->iov[0]));
		}
	}
}

/* More parts than an order has io slots: it goes on where they ran out, and reads none twice. */
static void test_more_parts_than_slots(void **state)
{
	const uint64_t at = RIG_DATA_SECTOR * 512 + 16384;
	struct rig *r = sync_fill(&mirror, 9);
	struct bb_list *bad = &r->as->member[0].bad;
	uint32_t most = 0;

	(void)state;
	for (uint32_t s = 1; s < 64; s += 2) {
		bad->range[bad->count++] = (struct bb_range){at + s * 512, 512};
	}
	rig_create(r);
	rig_step(r);
	for (uint32_t i = 0; i < 1000 && sync_status(r).needs_resync; i++) {
		if (r->ios) {
			rig_complete(r, r->ios - 1, 0);
		} else {
			rig_advance_ms(r, 1000);
		}
		rig_step(r);
		assert_buffers_apart(r);
		most = r->ios > most ? r->ios : most;
	}
	assert_true(most > 4);
	sync_wait(r);
	assert_false(sync_status(r).needs_resync);
	assert_memory_equal(r->disk[0] + at, r->disk[1] + at, 32768);
	sync_free(r);
}

/* ---- check and repair ------------------------------------------------------------------------ */

static void test_check_and_repair(void **state)
{
	uint64_t at = RIG_DATA_SECTOR * 512 + 65536 + 512;
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.resync = 0;
	for (uint32_t slots = 2; slots < 4; slots++) {
		shape.slots = slots;
		r = rig_new(&shape);
		r->disk[0][at] ^= 1; /* a sector */
		r->disk[0][at + 8192] ^= 1;
		r->disk[0][at + 8192 + 512] ^= 1; /* two */
		r->data_writes = r->sb_writes = 0;
		assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
		sync_wait(r);
		assert_int_equal(sync_status(r).sync.mismatch_sectors, 3);
		assert_int_equal(r->data_writes, 0);
		assert_int_equal(r->sb_writes, 0);
		assert_int_equal(rig_count(r, RAID_EV_MISMATCH), 2);
		assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->maddr, 65536);
		assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->len, 4096);
		assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->member,
				 slots == 3 ? 0 : UINT32_MAX);
		assert_int_equal(sync_event(r, RAID_EV_SYNC_FINISHED)->len, 3);
		assert_int_equal(sync_status(r).sync.findings, 2);
		assert_int_equal(sync_status(r).sync.finding[1].at, 65536 + 8192);
		assert_int_equal(sync_status(r).sync.finding[1].len, 4096);
		assert_int_equal(sync_status(r).sync.finding[1].member,
				 slots == 3 ? 0 : UINT32_MAX);

		assert_int_equal(sync_command(r, RAID_SYNC_REPAIR), 0);
		sync_wait(r);
		rig_copies_equal(r, NULL);
		/* Two of three win; of two the first does. */
		assert_int_equal(r->disk[1][at], slots == 2);
		assert_int_equal(rig_count(r, RAID_EV_DIRTY), 1);
		assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
		sync_wait(r);
		assert_int_equal(sync_status(r).sync.mismatch_sectors, 0);
		assert_int_equal(sync_status(r).sync.findings, 0);
		rig_free(r);
	}
}

static void test_commands(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.resync = 0;
	r = rig_new(&shape);
	r->fault = sync_hold_reads;
	assert_int_equal(sync_command(r, RAID_SYNC_RESYNC), -EINVAL);
	assert_int_equal(sync_command(r, RAID_SYNC_IDLE), 0);
	assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
	assert_int_equal(sync_status(r).sync.action, RAID_SYNC_CHECK);
	assert_int_equal(sync_command(r, RAID_SYNC_REPAIR), -EBUSY);
	r->fault = NULL;
	assert_int_equal(sync_command(r, RAID_SYNC_IDLE), 0);
	assert_int_equal(sync_status(r).sync.action, RAID_SYNC_IDLE);
	assert_int_equal(sync_event(r, RAID_EV_SYNC_FINISHED)->err, -ECANCELED);
	sync_wait(r);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_STARTED), 1);
	rig_free(r);

	shape.read_only = true;
	shape.resync = RIG_DIRTY;
	r = rig_new(&shape);
	assert_int_equal(sync_command(r, RAID_SYNC_CHECK), -EROFS);
	assert_true(sync_status(r).sync.waiting);
	sync_wait(r);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_STARTED), 0);
	rig_free(r);

	r = rig_new(&(struct rig_shape){
		.level = RAID_LEVEL_0, .slots = 2, .sectors = 2048, .chunk_sectors = 8});
	assert_int_equal(sync_command(r, RAID_SYNC_CHECK), -EINVAL);
	rig_free(r);
}

/* A check that a resync interrupts goes on where it was. */
static void test_check_goes_on(void **state)
{
	struct rig_shape shape = ten;
	struct rig *r;
	uint8_t *data = calloc(1, 8192);

	(void)state;
	shape.resync = 0;
	shape.layout = 0x10201;
	shape.missing = 2;
	r = rig_new(&shape);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	r->fault = sync_hold_reads;
	r->arg[0] = RIG_DATA_SECTOR * 512 + 1048576;
	assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
	assert_int_equal(sync_status(r).sync.action, RAID_SYNC_CHECK);
	/* A write that fails on a member that must stay. */
	r->fault = sync_fail_one_write;
	r->arg[0] = 1;
	assert_int_equal(rig_write(r, 16384, 8192, data), -EIO);
	assert_true(sync_status(r).needs_resync);
	r->fault = NULL;
	sync_wait(r);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_STARTED), 3);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_FINISHED), 3);
	for (uint32_t i = 0, n = 0; i < r->events; i++) {
		static const char *const why[] = {"check", "resync", "check"};
		static const int err[] = {-ECANCELED, 0, 0};

		if (r->event[i].type == RAID_EV_SYNC_FINISHED) {
			assert_string_equal(r->event[i].why, why[n]);
			assert_int_equal(r->event[i].err, err[n++]);
		}
	}
	assert_false(sync_status(r).needs_resync);
	rig_free(r);
	free(data);
}

/* ---- beside other requests ------------------------------------------------------------------- */

static void test_writes_and_steps_take_turns(void **state)
{
	struct rig *r = sync_prepare(&mirror, 9);
	struct rig_req *q;
	uint8_t *data = malloc(65536);

	(void)state;
	memset(data, 0xa5, 65536);
	r->fault = sync_hold_reads;
	rig_run(r);
	assert_true(r->ios > 0);
	/* Rows in work are locked, others are not. */
	q = rig_submit(r, RAID_OP_WRITE, 4096, 65536, 0, data);
	rig_run(r);
	assert_int_equal(q->state, 0);
	assert_int_equal(rig_write(r, raid_size(r->a) - 65536, 65536, data), 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	sync_wait(r);
	rig_copies_equal(r, NULL);
	assert_memory_equal(r->disk[1] + RIG_DATA_SECTOR * 512 + 4096, data, 65536);
	assert_memory_equal(r->disk[0] + RIG_DATA_SECTOR * 512 + raid_size(r->a) - 65536, data,
			    65536);
	sync_free(r);
	free(data);
}

/* Members that fail, ios in any order, writes everywhere: what was written is there. */
static void storm(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = sync_prepare(shape, seed);
	struct sync_storm st = {.seed = seed};
	struct raid_cmd cmd;

	sync_storm(r, &st, 300);
	if (seed % 3 == 0 && shape->slots > 2) {
		cmd = (struct raid_cmd){.op = RAID_CMD_FAIL, .member = seed % shape->slots};
		raid_control(r->a, &cmd);
	}
	sync_storm(r, &st, 300);
	r->fault = NULL;
	sync_wait(r);
	sync_storm_end(r, &st);
	assert_false(sync_status(r).needs_resync);
	sync_free(r);
}

static void test_storm(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct rig_shape shape = seed % 2 ? mirror : ten;

		shape.slots = seed % 2 ? 2 + seed % 3 : 4;
		shape.layout = seed % 2 ? 0 : seed % 4 ? 0x102 : 0x10201;
		shape.min_limits = seed % 5 == 0;
		storm(&shape, seed);
	}
}

static void test_hung_member(void **state)
{
	struct rig *r = sync_prepare(&mirror, 3);
	struct rig_req *q;
	uint8_t data[4096] = {1};

	(void)state;
	r->fault = sync_hang_reads_of;
	r->arg[0] = 1;
	rig_run(r);
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_run(r);
	assert_int_equal(q->state, 0);
	/* Its rows do not wait longer than a read may. */
	rig_advance_ms(r, 10000);
	assert_int_equal(rig_finish(r, q), 0);
	rig_advance_ms(r, 60000);
	assert_true(rig_count(r, RAID_EV_DEADLINE) > 0);
	assert_true(sync_status(r).needs_resync);
	r->fault = NULL;
	sync_wait(r);
	assert_false(sync_status(r).needs_resync);
	rig_copies_equal(r, NULL);
	sync_free(r);
}

static void test_member_fails(void **state)
{
	struct rig_shape shape = mirror;
	bool skip[3] = {false, false, true};
	struct rig *r;

	(void)state;
	shape.slots = 3;
	r = sync_prepare(&shape, 12);
	r->fault = sync_fail_writes_of;
	r->arg[0] = 2;
	sync_wait(r);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	rig_copies_equal(r, skip);
	assert_false(sync_status(r).needs_resync);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_FINISHED), 1);
	sync_free(r);
}

/* ---- how far and how fast -------------------------------------------------------------------- */

static void test_checkpoints(void **state)
{
	struct rig_shape shape = mirror;
	uint64_t offset, step = 65536;
	struct rig *r;

	(void)state;
	shape.sectors = 8192;
	shape.min_limits = true; /* two orders at a time */
	r = sync_prepare(&shape, 4);
	sync_speed(r, 65536, 65536); /* a minute and a bit */
	while (r->now.mono_ns < 40000000000 || !rig_sb(r, 0).resync_offset) {
		sync_advance(r);
		assert_true(r->now.mono_ns < 60000000000);
	}
	offset = rig_sb(r, 0).resync_offset;
	assert_true(offset > 20 * step / 512 && offset < 45 * step / 512);
	assert_true(rig_sb(r, 1).resync_offset == offset);
	assert_true(r->flushes > 0);
	/* Faster, without beginning again. */
	sync_speed(r, 0, 0);
	r->fault = sync_hold_reads;
	r->arg[0] = RIG_DATA_SECTOR * 512 + 3 * 1048576;
	rig_run(r);
	rig_advance_ms(r, 1000);
	r->fault = NULL;
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_STARTED), 1);
	assert_int_equal(sync_event(r, RAID_EV_SYNC_FINISHED)->err, -ECANCELED);
	assert_true(rig_sb(r, 1).resync_offset > offset);
	offset = rig_sb(r, 1).resync_offset;
	assert_true(offset >= 3 * 2048 && offset < 8192);
	assert_memory_equal(r->disk[1] + RIG_DATA_SECTOR * 512,
			    sync_before[0] + RIG_DATA_SECTOR * 512, offset * 512);
	sync_free(r);

	shape.resync = offset; /* the next run begins there */
	r = sync_prepare(&shape, 4);
	r->fault = sync_hold_reads;
	rig_run(r);
	assert_true(r->ios >= 2);
	for (uint32_t i = 0; i < r->ios; i++) {
		assert_true(r->io[i]->maddr >= (RIG_DATA_SECTOR + offset) * 512);
	}
	r->fault = NULL;
	sync_wait(r);
	assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	assert_memory_equal(r->disk[1] + RIG_DATA_SECTOR * 512,
			    sync_before[1] + RIG_DATA_SECTOR * 512, offset * 512);
	sync_free(r);
}

static int hold_a_step(struct rig *r, struct raid_io *io)
{
	(void)r;
	return io->op == RAID_IO_READ && io->maddr == RIG_DATA_SECTOR * 512 + 524288 ? RIG_HOLD : 0;
}

/* What a checkpoint promises is durable first. */
static void test_flush_before_checkpoint(void **state)
{
	struct rig *r = sync_prepare(&mirror, 4);
	uint32_t sb = 0;

	(void)state;
	r->fault = sync_hold_flushes;
	for (uint32_t i = 0; i < 200; i++) {
		rig_advance_ms(r, 1);
	}
	assert_int_equal(r->ios, 2);
	assert_true(r->io[0]->op == RAID_IO_FLUSH && r->io[1]->op == RAID_IO_FLUSH);
	assert_true(rig_sb(r, 0).resync_offset == 0);
	sb = r->sb_writes;
	assert_int_equal(rig_count(r, RAID_EV_SYNC_FINISHED), 0);
	r->fault = NULL;
	sync_wait(r);
	assert_true(r->sb_writes > sb);
	assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	sync_free(r);
}

/* Steps that are done behind one that is not do not count yet. */
static void test_low_water(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r = sync_prepare(&shape, 4);

	(void)state;
	r->fault = hold_a_step;
	rig_run(r);
	for (uint32_t i = 0; i < 100; i++) {
		rig_advance_ms(r, 1);
	}
	assert_int_equal(sync_status(r).sync.done, 524288);
	assert_true(sync_status(r).member[0].read_bytes > 1048576);
	assert_int_equal(r->ios, 2);
	r->fault = NULL;
	sync_wait(r);
	rig_copies_equal(r, NULL);
	sync_free(r);
}

/* An absent member must lose its role before anything changes. */
static void test_superblocks_first(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.slots = 3;
	shape.missing = 4;
	r = sync_prepare(&shape, 4);
	assert_int_equal(r->ios, 2);
	assert_true(rig_is_sb(r->io[0]) && rig_is_sb(r->io[1]));
	sync_wait(r);
	assert_int_equal(rig_sb(r, 0).dev_roles[2], SB_ROLE_SPARE);
	sync_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resync),
		cmocka_unit_test(test_resync_takes_the_next_copy),
		cmocka_unit_test(test_block_that_cannot_be_kept),
		cmocka_unit_test(test_listed_sectors),
		cmocka_unit_test(test_more_parts_than_slots),
		cmocka_unit_test(test_check_and_repair),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_check_goes_on),
		cmocka_unit_test(test_writes_and_steps_take_turns),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_hung_member),
		cmocka_unit_test(test_member_fails),
		cmocka_unit_test(test_checkpoints),
		cmocka_unit_test(test_flush_before_checkpoint),
		cmocka_unit_test(test_low_water),
		cmocka_unit_test(test_superblocks_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
