/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads from members that fail, hang or are not to be trusted, one behaviour a test. */
#include "raid/tests/engine_faults.h"

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

static int hold_reads(struct rig *r, struct raid_io *io)
{
	(void)r;
	return io->op == RAID_IO_READ ? RIG_HOLD : 0;
}

/* One request, two late reads: where copies are equal its buffers are given up at once; where they
 * may differ the member is judged first, and by then nobody waits for that read any more. */
static void test_hung_across_the_resync_mark(void **state)
{
	struct rig_shape half = mirror;
	struct rig_req *q;
	struct rig *r;

	(void)state;
	half.resync = 65536 / 512;
	half.max_io = 65536;
	r = rig_new(&half);
	for (uint32_t i = 0; i < 2; i++) {
		memset(r->disk[i] + DATA0, 7, 1 << 20);
	}
	q = rig_submit(r, RAID_OP_READ, 0, 2 * 65536, 0, NULL);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(r->io[1]->member, 0);
	r->fault = hold_reads;
	rig_advance_ms(r, 10000);
	assert_int_equal(rig_count(r, RAID_EV_DEADLINE), 2);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(q->state, 1);
	assert_int_equal(q->req.res, 0);
	assert_int_equal(((const uint8_t *)q->req.data)[2 * 65536 - 1], 7);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
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

/* Hung ios hold nearly all memory: one second chance at a time, and an answer that comes late but
 * before that is taken. */
static void test_late_answers_while_memory_lacks(void **state)
{
	struct rig_shape min = mirror;
	struct rig_req *q[4];
	struct rig *r;
	uint32_t done = 0;

	(void)state;
	min.min_limits = true;
	r = filled(&min);
	r->fault = hold_reads_of;
	r->arg[0] = 0;
	/* They fill the memory; half of them go to the member that hangs. */
	for (uint64_t i = 0; i < 4; i++) {
		q[i] = rig_submit(r, RAID_OP_READ, i * 262144, 253952, 0, NULL);
	}
	rig_step(r);
	r->fault = NULL;
	for (uint32_t i = 0; i < r->ios;) {
		if (r->io[i]->member == 1) {
			rig_complete(r, i, 0);
		} else {
			i++;
		}
	}
	r->fault = hold_reads_of;
	rig_run(r);
	rig_advance_ms(r, 10000);
	for (int i = 0; i < 4; i++) {
		done += q[i]->state;
	}
	assert_in_range(done, 2, 3); /* those of member 1, one through the kit */
	r->fault = NULL;
	rig_run(r);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(q[i]->state, 1);
		assert_memory_equal(q[i]->req.data, data + i * 262144, 253952);
		assert_int_equal(rig_finish(r, q[i]), 0);
	}
	rig_free(r);
}

static void test_large_reads_use_all_of_raid10(void **state)
{
	struct rig *r = filled(&(struct rig_shape){.level = RAID_LEVEL_10,
						   .layout = 0x102,
						   .chunk_sectors = 128,
						   .slots = 4,
						   .sectors = 4096});
	struct rig_req *q = rig_submit(r, RAID_OP_READ, 0, 1 << 20, 0, NULL);
	uint32_t members = 0;

	(void)state;
	rig_step(r);
	assert_int_equal(r->ios, 4);
	for (uint32_t i = 0; i < r->ios; i++) {
		members |= 1u << r->io[i]->member;
		assert_int_equal(r->io[i]->len, 262144);
	}
	assert_int_equal(members, 15);
	rig_run(r);
	assert_memory_equal(q->req.data, data, 1 << 20);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

/* Reads of member arg[0] that touch arg[1], and of member arg[2] that touch arg[3], fail until it
 * is written. */
static int two_bad_sectors(struct rig *r, struct raid_io *io)
{
	for (int i = 0; i < 4; i += 2) {
		if (io->member != r->arg[i] || r->arg[i + 1] - io->maddr >= io->len) {
			continue;
		}
		if (io->op == RAID_IO_READ) {
			return -EIO;
		}
		r->arg[i + 1] = UINT64_MAX;
	}
	return 0;
}

static void test_each_copy_lacks_another_sector(void **state)
{
	struct rig *r = filled(&mirror);

	(void)state;
	r->arg[0] = 0;
	r->arg[1] = DATA0 + 8192 + 512;
	r->arg[2] = 1;
	r->arg[3] = DATA0 + 8192 + 2048;
	r->fault = two_bad_sectors;
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data, 65536);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	rig_free(r);
}

static void test_one_bad_block_counts_once(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *q[8];
	struct raid_status st;

	(void)state;
	r->arg[0] = 0;
	r->arg[1] = DATA0;
	r->fault = bad_block;
	for (int i = 0; i < 8; i++) {
		q[i] = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);
	}
	rig_run(r);
	for (int i = 0; i < 8; i++) {
		assert_memory_equal(q[i]->req.data, data, 4096);
		assert_int_equal(rig_finish(r, q[i]), 0);
	}
	raid_get_status(r->a, &st);
	assert_int_equal(st.member[0].corrected, 8);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
	rig_free(r);
}

static void test_released_read_is_not_touched(void **state)
{
	struct rig *r = filled(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);

	(void)state;
	rig_run(r);
	assert_int_equal(q->state, 1);
	raid_release(r->a, &q->req);
	memset(&q->req, 0xa5, sizeof q->req);
	rig_step(r);
	assert_int_equal(((uint8_t *)&q->req)[0], 0xa5);
	free(q);
	/* Without a step in between too. */
	q = rig_submit(r, RAID_OP_READ, 0, 4096, 0, NULL);
	rig_run(r);
	raid_release(r->a, &q->req);
	free(q);
	raid_destroy(r->a);
	rig_create(r);
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
		cmocka_unit_test(test_unsynced_reads_use_the_first),
		cmocka_unit_test(test_unsynced_read_hangs),
		cmocka_unit_test(test_hung_across_the_resync_mark),
		cmocka_unit_test(test_bad_block_list),
		cmocka_unit_test(test_listed_on_every_copy),
		cmocka_unit_test(test_large_reads_use_both_mirrors),
		cmocka_unit_test(test_each_copy_lacks_another_sector),
		cmocka_unit_test(test_one_bad_block_counts_once),
		cmocka_unit_test(test_released_read_is_not_touched),
		cmocka_unit_test(test_large_reads_use_all_of_raid10),
		cmocka_unit_test(test_late_answers_while_memory_lacks),
	};

	return cmocka_run_group_tests_name("engine_reads", tests, NULL, NULL);
}
