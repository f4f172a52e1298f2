/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that fail, hang or lie, one behaviour a test: read repair, deadlines, last copies, bad
 * blocks, the order of writes, flush rounds. */
#include "raid/tests/engine_rig.h"

enum { DATA0 = RIG_DATA_SECTOR * 512 };

static const struct rig_shape mirror = {.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096};
static uint8_t data[1 << 20], back[1 << 20];

static struct rig *filled(const struct rig_shape *shape)
{
	struct rig *r = rig_new(shape);

	for (uint32_t i = 0; i < sizeof data; i++) {
		data[i] = (uint8_t)(i * 7 + i / 509);
	}
	assert_int_equal(rig_write(r, 0, sizeof data, data), 0);
	return r;
}

/* Reads of member arg[0] that touch the byte arg[1] fail until it is written again. */
static int bad_block(struct rig *r, struct raid_io *io)
{
	bool hit = io->member == r->arg[0] && r->arg[1] - io->maddr < io->len;

	if (hit && rig_is_data_write(io)) {
		r->arg[1] = UINT64_MAX;
	}
	return hit && io->op == RAID_IO_READ ? -EIO : 0;
}

static int all_fail(struct rig *r, struct raid_io *io)
{
	(void)r;
	(void)io;
	return -EIO;
}

static int hold_reads_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && io->op == RAID_IO_READ ? RIG_HOLD : 0;
}

static int hold_all_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] ? RIG_HOLD : 0;
}

static int fail_op_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && io->op == r->arg[1] && !rig_is_sb(io) ? (int)r->arg[2]
										: 0;
}

/* Read until the wanted member has been asked. */
static int read_from(struct rig *r, uint32_t member, uint64_t addr, uint64_t len)
{
	struct raid_status st;
	int res = 0;

	for (int i = 0; i < 8 && !res; i++) {
		uint64_t before;

		raid_get_status(r->a, &st);
		before = st.member[member].reads;
		/* Take the head of the other member near, so that the choice falls on this one. */
		res = rig_read(r, addr, len, back);
		assert_true(res || !memcmp(back, data + addr, len));
		raid_get_status(r->a, &st);
		if (st.member[member].reads != before) {
			break;
		}
		rig_read(r, (addr + len * (uint64_t)(i + 3)) % 524288, 4096, back);
	}
	return res;
}

static void test_read_repair(void **state)
{
	struct rig *r = filled(&mirror);
	struct raid_status st;

	(void)state;
	r->arg[0] = 0;
	r->arg[1] = DATA0 + 20 * 4096 + 700;
	r->fault = bad_block;
	memset(r->disk[0] + DATA0 + 20 * 4096, 0xee, 4096);
	assert_int_equal(rig_read(r, 65536, 131072, back), 0);
	assert_memory_equal(back, data + 65536, 131072);
	assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
	assert_int_equal(r->event[r->events - 1].len, 4096);
	assert_memory_equal(r->disk[0] + DATA0, data, sizeof data);
	raid_get_status(r->a, &st);
	assert_int_equal(st.member[0].corrected, 8);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(rig_sb(r, 0).cnt_corrected_read, 8);
	assert_int_equal(rig_sb(r, 1).cnt_corrected_read, 0);
	rig_free(r);
}

static void test_repair_of_clean_array_says_dirty_first(void **state)
{
	struct rig *r = filled(&mirror);
	uint32_t sb;

	(void)state;
	rig_advance_ms(r, 300);
	assert_int_equal(rig_count(r, RAID_EV_CLEAN), 1);
	sb = r->sb_writes;
	r->arg[0] = 0;
	r->arg[1] = DATA0;
	r->fault = bad_block;
	assert_int_equal(read_from(r, 0, 0, 4096), 0);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
	assert_int_equal(r->sb_writes, sb + 2);
	rig_free(r);
}

static void test_repair_that_does_not_hold_fails_the_member(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 0;
	r->arg[1] = RAID_IO_READ;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_read(r, 0, 262144, back), 0);
	assert_memory_equal(back, data, 262144);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 0);
	rig_free(r);
}

static void test_read_errors_by_rate(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 0;
	r->fault = bad_block;
	for (uint64_t i = 0; i < 60 && !rig_count(r, RAID_EV_MEMBER_FAILED); i++) {
		r->arg[1] = DATA0 + i * 4096;
		assert_int_equal(read_from(r, 0, i * 4096, 4096), 0);
	}
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 21);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	rig_free(r);
}

static void test_unreadable_everywhere(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->fault = all_fail;
	assert_int_equal(rig_read(r, 0, 4096, back), -EIO);
	assert_int_equal(rig_count(r, RAID_EV_LAST_COPY_ERROR), 1);
	r->fault = NULL;
	assert_int_equal(rig_read(r, 0, 4096, back), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	rig_free(r);
}

static void test_read_deadline(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_READ, 512, 65536, 0, NULL);
	const void *hung_buffer;
	uint8_t *held;

	(void)state;
	rig_step(r);
	assert_int_equal(r->ios, 1);
	r->arg[0] = r->io[0]->member;
	r->fault = hold_reads_of;
	hung_buffer = r->io[0]->iov[0].iov_base;
	rig_advance_ms(r, 9999);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 1);
	assert_int_equal(q->state, 1);
	assert_int_equal(q->req.res, 0);
	assert_ptr_not_equal(q->req.data, hung_buffer);
	assert_memory_equal(q->req.data, data + 512, 65536);
	assert_int_equal(r->cancels, 1);
	assert_int_equal(rig_count(r, RAID_EV_DEADLINE), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	/* The member that hangs is avoided, and its late answer touches nobody's data. */
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rig_read(r, 4096 * (uint64_t)i, 4096, back), 0);
	}
	held = malloc(65536);
	memcpy(held, q->req.data, 65536);
	memset(r->disk[r->arg[0]], 0x33, 300000);
	r->fault = NULL;
	rig_run(r);
	assert_memory_equal(q->req.data, held, 65536);
	free(held);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

static void test_read_deadline_with_minimal_memory(void **state)
{
	struct rig_shape min = mirror;
	struct rig *r;

	(void)state;
	min.min_limits = true;
	r = filled(&min);
	for (uint64_t round = 0; round < 3; round++) {
		struct rig_req *q = rig_submit(r, RAID_OP_READ, 0, 1 << 20, 0, NULL);

		rig_step(r);
		r->arg[0] = 0;
		r->fault = hold_all_of;
		rig_run(r);
		rig_advance_ms(r, 10000);
		assert_int_equal(q->state, 1);
		assert_memory_equal(q->req.data, data, 1 << 20);
		assert_int_equal(rig_finish(r, q), 0);
	}
	rig_free(r);
}

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

static void test_unsynced_reads_use_the_first(void **state)
{
	struct rig_shape dirty = mirror;
	struct rig *r;

	(void)state;
	dirty.resync = RIG_DIRTY;
	r = rig_new(&dirty);
	memset(r->disk[0] + DATA0, 1, 1 << 20);
	memset(r->disk[1] + DATA0, 2, 1 << 20);
	for (uint64_t i = 0; i < 16; i++) {
		assert_int_equal(rig_read(r, i * 65536, 65536, back), 0);
		assert_true(back[0] == 1 && back[65535] == 1);
	}
	/* Its block fails: the other copy becomes the chosen one before anybody hears of it. */
	r->arg[0] = 0;
	r->arg[1] = DATA0 + 4096;
	r->fault = bad_block;
	assert_int_equal(rig_read(r, 4096, 4096, back), 0);
	assert_int_equal(back[0], 2);
	assert_int_equal(r->disk[0][DATA0 + 4096], 2);
	assert_int_equal(r->disk[0][DATA0 + 8192], 1);
	rig_free(r);
}

static void test_unsynced_read_hangs(void **state)
{
	struct rig_shape dirty = mirror;
	struct rig_req *q;
	struct rig *r;

	(void)state;
	dirty.resync = RIG_DIRTY;
	r = rig_new(&dirty);
	memset(r->disk[1] + DATA0, 2, 1 << 20);
	q = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);
	r->arg[0] = 0;
	r->fault = hold_all_of;
	rig_run(r);
	rig_advance_ms(r, 10000);
	/* Reading the other copy makes it the truth: the first must go. */
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(q->state, 1);
	assert_int_equal(*(const uint8_t *)q->req.data, 2);
	assert_int_equal(rig_sb(r, 1).dev_roles[0], SB_ROLE_FAULTY);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

static void test_bad_block_list(void **state)
{
	struct rig *r = rig_prepare(&mirror);
	struct bb_list *bad0 = &r->as->member[0].bad, *bad1 = &r->as->member[1].bad;

	(void)state;
	*bad0 = (struct bb_list){.count = 1, .range = {{DATA0 + 8192, 1024}}};
	*bad1 = (struct bb_list){.count = 2, .range = {{DATA0 + 4096, 512}, {DATA0 + 65536, 4096}}};
	rig_create(r);
	for (uint32_t i = 0; i < sizeof data; i++) {
		data[i] = (uint8_t)(i * 5 + i / 511);
	}
	memcpy(r->disk[0] + DATA0, data, sizeof data);
	memcpy(r->disk[1] + DATA0, data, sizeof data);
	memset(r->disk[0] + DATA0 + 8192, 0xbb, 1024);
	memset(r->disk[1] + DATA0 + 4096, 0xbb, 512);
	memset(r->disk[1] + DATA0 + 65536, 0xbb, 4096);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rig_read(r, 0, 131072, back), 0);
		assert_memory_equal(back, data, 131072);
	}
	assert_int_equal(rig_count(r, RAID_EV_READ_ERROR), 0);
	/* Writing there is allowed; the block stays listed. */
	memset(data + 8192, 9, 512);
	assert_int_equal(rig_write(r, 8192, 512, data + 8192), 0);
	memset(r->disk[0] + DATA0 + 8192, 0xbb, 1024);
	assert_int_equal(rig_read(r, 8192, 512, back), 0);
	assert_memory_equal(back, data + 8192, 512);
	rig_free(r);
}

static void test_listed_on_every_copy(void **state)
{
	struct rig *r = rig_prepare(&mirror);
	struct bb_list bad = {.count = 1, .range = {{DATA0 + 8192, 512}}};

	(void)state;
	r->as->member[0].bad = r->as->member[1].bad = bad;
	rig_create(r);
	assert_int_equal(rig_read(r, 8192, 512, back), -EIO);
	assert_int_equal(rig_write(r, 8192, 512, data), -EIO);
	assert_int_equal(rig_write(r, 4096, 65536, data), -EIO);
	assert_int_equal(rig_write(r, 8192 + 100, 10, data), -EIO);
	assert_int_equal(rig_write(r, 8704, 512, data), 0);
	assert_int_equal(rig_read(r, 0, 8192, back), 0);
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

static void test_large_reads_use_both_mirrors(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_READ, 0, 1 << 20, 0, NULL);

	(void)state;
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_not_equal(r->io[0]->member, r->io[1]->member);
	rig_run(r);
	assert_memory_equal(q->req.data, data, 1 << 20);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_repair),
		cmocka_unit_test(test_repair_of_clean_array_says_dirty_first),
		cmocka_unit_test(test_repair_that_does_not_hold_fails_the_member),
		cmocka_unit_test(test_read_errors_by_rate),
		cmocka_unit_test(test_unreadable_everywhere),
		cmocka_unit_test(test_read_deadline),
		cmocka_unit_test(test_read_deadline_with_minimal_memory),
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
		cmocka_unit_test(test_unsynced_reads_use_the_first),
		cmocka_unit_test(test_unsynced_read_hangs),
		cmocka_unit_test(test_bad_block_list),
		cmocka_unit_test(test_listed_on_every_copy),
		cmocka_unit_test(test_zero_unsupported_is_written),
		cmocka_unit_test(test_trim_that_fails_leaves_copies_equal),
		cmocka_unit_test(test_fast_zero),
		cmocka_unit_test(test_raid10_copies_fail_apart),
		cmocka_unit_test(test_large_reads_use_both_mirrors),
	};

	return cmocka_run_group_tests_name("engine_faults", tests, NULL, NULL);
}
