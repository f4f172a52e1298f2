/* SPDX-License-Identifier: BSD-3-Clause */
/* The write-intent bitmap of a running array: bits before data, cleared late, what freezes it. */
#include "raid/tests/bitmap_rig.h"

static const struct rig_shape mirror = {.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096};
enum { CHUNKS = 4096 * 512 / CHUNK };

static void test_add(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct raid_status st;

	(void)state;
	st = status(r);
	assert_false(st.bitmap.present);
	assert_int_equal(add_bitmap(r, CHUNK), 0);
	st = status(r);
	assert_true(st.bitmap.present);
	assert_int_equal(st.bitmap.chunk_bytes, CHUNK);
	assert_int_equal(st.bitmap.chunks, CHUNKS);
	assert_int_equal(st.bitmap.dirty, CHUNKS);
	for (uint32_t i = 0; i < 2; i++) {
		struct bm_header h = header_on(r, i);

		assert_int_equal(bits_on(r, i), CHUNKS);
		assert_int_equal(h.state, 0);
		assert_int_equal(h.events, 11);
		assert_int_equal(h.daemon_sleep_s, 5);
		assert_int_equal(rig_sb(r, i).bitmap_offset, 8);
		assert_true(rig_sb(r, i).resync_offset == SB_IN_SYNC);
	}
	assert_int_equal(add_bitmap(r, CHUNK), -EEXIST);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0) + bits_on(r, 1), 0);
	assert_true(raid_deadline(r->a) == RAID_NEVER);
	rig_free(r);
}

static void test_bit_before_data(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 5 * CHUNK, 2 * CHUNK, 0, data);

	(void)state;
	rig_step(r);
	/* One page per member has the events of the superblock to come, and the bits. */
	assert_int_equal(r->ios, 2);
	assert_int_equal(count_io(r, is_page), 2);
	assert_true(r->io[0]->fua && r->io[1]->fua);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1); /* the other member's is still out */
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(count_io(r, rig_is_sb), 2);
	assert_int_equal(r->ios, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(bit_on(r, i, 5) && bit_on(r, i, 6));
		assert_int_equal(bits_on(r, i), 2);
		assert_int_equal(header_on(r, i).events, rig_sb(r, i).events + 1);
	}
	let(r, rig_is_sb);
	assert_int_equal(count_io(r, is_data), 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	/* The same chunks again: nothing but data. */
	q = rig_submit(r, RAID_OP_WRITE, 6 * CHUNK, 512, 0, data);
	rig_step(r);
	assert_int_equal(count_io(r, is_data), 2);
	assert_int_equal(r->ios, 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

static void test_asks_of_a_step_share_a_page(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q[40];

	(void)state;
	for (uint32_t i = 0; i < 40; i++) {
		q[i] = rig_submit(r, RAID_OP_WRITE, i * 7ull * CHUNK, CHUNK, 0, data);
	}
	rig_step(r);
	assert_int_equal(r->ios, 2);
	let(r, is_page);
	for (uint32_t i = 0; i < 40; i++) {
		assert_true(bit_on(r, 0, i * 7) && bit_on(r, 1, i * 7));
	}
	rig_run(r);
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(rig_finish(r, q[i]), 0);
	}
	rig_free(r);
}

/* What goes out is a copy; what changes meanwhile is written after it. */
static void test_page_in_flight_is_left_alone(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q[2];
	uint8_t before[4096];

	(void)state;
	assert_int_equal(rig_write(r, 0, CHUNK, data), 0); /* superblocks say dirty */
	q[0] = rig_submit(r, RAID_OP_WRITE, 10 * CHUNK, CHUNK, 0, data);
	rig_step(r);
	assert_int_equal(count_io(r, is_page), 2);
	memcpy(before, r->io[0]->iov[0].iov_base, r->io[0]->len);
	q[1] = rig_submit(r, RAID_OP_WRITE, 20 * CHUNK, CHUNK, 0, data);
	rig_step(r);
	assert_int_equal(r->ios, 2); /* no second io for a page that is out */
	assert_memory_equal(before, r->io[0]->iov[0].iov_base, r->io[0]->len);
	assert_ptr_not_equal(r->io[0]->iov[0].iov_base, r->io[1]->iov[0].iov_base);
	let(r, is_page);
	assert_int_equal(count_io(r, is_data), 2); /* of the first */
	assert_int_equal(count_io(r, is_page), 2);
	assert_true(bit_on(r, 0, 10) && !bit_on(r, 0, 20));
	let(r, is_page);
	assert_true(bit_on(r, 1, 10) && bit_on(r, 1, 20));
	assert_int_equal(count_io(r, is_data), 4);
	rig_run(r);
	assert_int_equal(rig_finish(r, q[0]), 0);
	assert_int_equal(rig_finish(r, q[1]), 0);
	rig_free(r);
}

static void test_cleared_after_two_sweeps(void **state)
{
	struct rig *r = swept(&mirror);
	uint64_t start;

	(void)state;
	assert_int_equal(rig_write(r, 3 * CHUNK, CHUNK, data), 0);
	start = r->now.mono_ns;
	rig_advance_ms(r, 300); /* clean */
	assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	assert_int_equal(raid_deadline(r->a), start + 5000000000);
	rig_advance_ms(r, 4700);
	assert_true(bit_on(r, 0, 3));
	assert_int_equal(raid_deadline(r->a), start + 10000000000);
	rig_advance_ms(r, 4999);
	assert_true(bit_on(r, 0, 3) && bit_on(r, 1, 3));
	rig_advance_ms(r, 1);
	assert_false(bit_on(r, 0, 3) || bit_on(r, 1, 3));
	assert_true(raid_deadline(r->a) == RAID_NEVER);
	rig_free(r);
}

/* A chunk that is written again and again keeps its bit; one write in flight does, for ever. */
static void test_writes_keep_the_bit(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q;

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(rig_write(r, 3 * CHUNK, 512, data), 0);
		pass_s(r, 4);
		assert_true(bit_on(r, 0, 3));
	}
	q = rig_submit(r, RAID_OP_WRITE, 3 * CHUNK, 512, 0, data);
	rig_step(r);
	while (count_io(r, is_data) < 2) {
		let(r, is_page);
		let(r, rig_is_sb);
	}
	for (uint32_t i = 0; i < 25; i++) {
		r->now.mono_ns += 1000000000;
		rig_step(r);
		assert_int_equal(count_io(r, is_page), 0);
	}
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	pass_s(r, 11);
	assert_false(bit_on(r, 0, 3));
	rig_free(r);
}

/* Flush, header with events_cleared, then the page; each durable before the next. */
static void test_clearing_in_order(void **state)
{
	struct rig *r = swept(&mirror);
	struct bm_header h;

	(void)state;
	assert_int_equal(rig_write(r, 3 * CHUNK, CHUNK, data), 0);
	pass_s(r, 9);
	rig_advance_ms(r, 900);
	assert_int_equal(rig_write(r, 900 * 512, 512, data), 0); /* not flushed */
	r->now.mono_ns += 100000000;
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(r->io[0]->op, RAID_IO_FLUSH);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(count_io(r, is_page), 2);
	assert_int_equal(let(r, is_page), 2);
	h = header_on(r, 0);
	assert_true(h.events_cleared == rig_sb(r, 0).events && bit_on(r, 0, 3));
	assert_true(bit_on(r, 1, 3));
	assert_int_equal(let(r, is_page), 2);
	assert_false(bit_on(r, 0, 3) || bit_on(r, 1, 3));
	rig_run(r);
	rig_free(r);
}

/* A write while its bit is being cleared sets it again, and waits for that. */
static void test_write_meets_clearing(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q;

	(void)state;
	assert_int_equal(rig_write(r, 3 * CHUNK, CHUNK, data), 0);
	pass_s(r, 9);
	r->now.mono_ns += 1000000000;
	rig_step(r);
	assert_int_equal(let(r, is_flush), 2);
	assert_int_equal(let(r, is_page), 2); /* events_cleared */
	assert_int_equal(count_io(r, is_page), 2);
	q = rig_submit(r, RAID_OP_WRITE, 3 * CHUNK, 512, 0, data);
	rig_step(r);
	let(r, rig_is_sb);
	assert_int_equal(count_io(r, is_data), 0);
	let(r, is_page); /* cleared */
	assert_false(bit_on(r, 0, 3));
	assert_int_equal(count_io(r, is_data), 0);
	let(r, is_page); /* set, with the events of the superblock to come */
	assert_true(bit_on(r, 0, 3) && bit_on(r, 1, 3));
	let(r, rig_is_sb);
	assert_int_equal(count_io(r, is_data), 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

static int hold_flushes(struct rig *r, struct raid_io *io)
{
	(void)r;
	return is_flush(io) ? RIG_HOLD : 0;
}

/* The sweep wants a round after the one that runs; the superblocks, which wait for that one to say
 * clean, must not take it away. */
static void test_sweep_during_a_flush(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q;

	(void)state;
	assert_int_equal(rig_write(r, 3 * CHUNK, CHUNK, data), 0);
	r->fault = hold_flushes;
	q = rig_submit(r, RAID_OP_FLUSH, 0, 0, 0, NULL);
	rig_run(r);
	pass_s(r, 11);
	assert_true(bit_on(r, 0, 3));
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	pass_s(r, 1);
	assert_false(bit_on(r, 0, 3) || bit_on(r, 1, 3));
	rig_free(r);
}

static void test_stop_clears(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig *x;

	(void)state;
	assert_int_equal(rig_write(r, 3 * CHUNK, 9 * CHUNK, data), 0);
	assert_int_equal(bits_on(r, 1), 9);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(bits_on(r, i), 0);
		assert_int_equal(header_on(r, i).events, rig_sb(r, i).events);
		assert_true(rig_sb(r, i).resync_offset == SB_IN_SYNC);
	}
	x = crash(r, 0);
	assert_int_equal(x->as->bitmap.state, ASM_BITMAP_CURRENT);
	assert_true(x->as->resync_offset == SB_IN_SYNC);
	rig_discard(x);
	rig_free(r);
}

static int fail_pages_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && is_page(io) ? -EIO : 0;
}

static int hold_pages_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && is_page(io) ? RIG_HOLD : 0;
}

static void test_failed_page_fails_the_member(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q;

	(void)state;
	q = rig_submit(r, RAID_OP_WRITE, 3 * CHUNK, CHUNK, 0, data);
	rig_step(r);
	rig_complete(r, 1, -EIO);
	rig_step(r);
	assert_int_equal(r->ios, 2); /* once more */
	r->arg[0] = 1;
	r->fault = fail_pages_of;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_count(r, RAID_EV_BITMAP_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	assert_true(bit_on(r, 0, 3));
	rig_free(r);
}

static void test_failed_page_of_the_last_copy(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q;

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	r->arg[0] = 0;
	r->fault = fail_pages_of;
	q = rig_submit(r, RAID_OP_WRITE, 3 * CHUNK, CHUNK, 0, data);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), -EIO);
	assert_int_equal(rig_count(r, RAID_EV_READ_ONLY), 1);
	assert_int_equal(status(r).state, RAID_ARRAY_READ_ONLY);
	assert_int_equal(rig_read(r, 0, CHUNK, data), 0);
	assert_int_equal(rig_write(r, 0, CHUNK, data), -EIO);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), -EIO);
	rig_free(r);
}

static void test_hung_page(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q;

	(void)state;
	r->arg[0] = 1;
	r->fault = hold_pages_of;
	q = rig_submit(r, RAID_OP_WRITE, 3 * CHUNK, CHUNK, 0, data);
	rig_run(r);
	rig_advance_ms(r, 29999);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 1);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	/* Its page is still out; the others' pages go on. */
	assert_int_equal(count_io(r, is_page), 1);
	assert_int_equal(rig_write(r, 33 * CHUNK, CHUNK, data), 0);
	assert_true(bit_on(r, 0, 33));
	/* Nor does its memory go while the io is out. */
	assert_int_equal(rig_command(r, RAID_CMD_BITMAP_REMOVE, 0), 0);
	assert_int_equal(add_bitmap(r, CHUNK), -EBUSY);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(add_bitmap(r, CHUNK), 0);
	rig_free(r);
}

static void test_degraded_freezes(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig *x;
	uint64_t cleared;

	(void)state;
	assert_int_equal(rig_write(r, 3 * CHUNK, CHUNK, data), 0);
	pass_s(r, 3);
	cleared = header_on(r, 0).events_cleared;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(rig_write(r, 50 * CHUNK, CHUNK, data), 0);
	pass_s(r, 30);
	assert_true(bit_on(r, 0, 3) && bit_on(r, 0, 50));
	assert_int_equal(header_on(r, 0).events_cleared, cleared);
	assert_true(raid_deadline(r->a) == RAID_NEVER);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_int_equal(bits_on(r, 0), 2);
	/* What the other missed is in the bits: it may come back by them. */
	x = crash(r, 0);
	assert_int_equal(x->as->bitmap.state, ASM_BITMAP_CURRENT);
	assert_true(x->as->member[1].readd_bitmap);
	rig_start(x);
	assert_int_equal(rig_write(x, 77 * CHUNK, CHUNK, data), 0);
	pass_s(x, 12);
	assert_int_equal(bits_on(x, 0), 3);
	rig_free(x);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_bit_before_data),
		cmocka_unit_test(test_asks_of_a_step_share_a_page),
		cmocka_unit_test(test_page_in_flight_is_left_alone),
		cmocka_unit_test(test_cleared_after_two_sweeps),
		cmocka_unit_test(test_writes_keep_the_bit),
		cmocka_unit_test(test_clearing_in_order),
		cmocka_unit_test(test_write_meets_clearing),
		cmocka_unit_test(test_sweep_during_a_flush),
		cmocka_unit_test(test_stop_clears),
		cmocka_unit_test(test_failed_page_fails_the_member),
		cmocka_unit_test(test_failed_page_of_the_last_copy),
		cmocka_unit_test(test_hung_page),
		cmocka_unit_test(test_degraded_freezes),
	};

	return cmocka_run_group_tests_name("engine_bitmap", tests, NULL, NULL);
}
