/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 4, 5 and 6 while nothing goes wrong but what was wrong from the start: all levels and
 * layouts, random requests, every set of missing members that leaves the array alive. What every
 * member must hold is computed anew by a plain oracle at the end.
 */
#include "raid/tests/engine_storm.h"

static void storms(struct rig_shape shape)
{
	static uint64_t seed;

	for (int i = 0; i < 5; i++) {
		struct rig_shape s = shape;

		s.min_limits = i == 1;
		s.no_punch = i == 2;
		s.max_io = i == 2 ? 16384 : i == 3 ? 4096 : 0;
		s.lbs[0] = i >= 3 ? 4096 : 0;
		s.lbs[1] = s.lbs[2] = i == 4 ? 4096 : 0;
		storm(&s, ++seed);
	}
}

static struct rig_shape shape(enum raid_level level, uint32_t layout, uint32_t slots,
			      uint32_t chunk_sectors)
{
	return (struct rig_shape){.level = level,
				  .layout = layout,
				  .chunk_sectors = chunk_sectors,
				  .slots = slots,
				  .sectors = chunk_sectors > 64 ? 2048 : 768};
}

static void test_raid4(void **state)
{
	(void)state;
	storms(shape(RAID_LEVEL_4, 0, 4, 64));
}

static void test_raid5_layouts(void **state)
{
	(void)state;
	for (uint32_t layout = 0; layout <= 5; layout++) {
		storms(shape(RAID_LEVEL_5, layout, 4, 64));
	}
}

static void test_raid5_chunks(void **state)
{
	static const uint32_t chunks[] = {8, 128, 256, 1024};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		storms(shape(RAID_LEVEL_5, 2, 3, chunks[i]));
	}
	storms(shape(RAID_LEVEL_5, 2, 2, 16));
	storms(shape(RAID_LEVEL_5, 2, 9, 16));
}

static void test_raid6_layouts(void **state)
{
	static const uint32_t layouts[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};

	(void)state;
	for (uint32_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
		storms(shape(RAID_LEVEL_6, layouts[i], 5, 32));
	}
}

static void test_raid6_chunks(void **state)
{
	static const uint32_t chunks[] = {8, 128, 256};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		storms(shape(RAID_LEVEL_6, 2, 4, chunks[i]));
	}
}

/* One storm with each of these slots missing. */
static void without(struct rig_shape s, uint32_t missing, uint64_t seed)
{
	s.missing = missing;
	s.min_limits = seed % 3 == 0;
	s.max_io = seed % 4 == 1 ? 8192 : 0;
	storm(&s, 1000 + seed);
}

static void test_raid5_degraded(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		without(shape(RAID_LEVEL_4, 0, 4, 64), 1u << k, k);
		for (uint32_t layout = 0; layout <= 5; layout++) {
			without(shape(RAID_LEVEL_5, layout, 4, 32), 1u << k, k + layout);
		}
		without(shape(RAID_LEVEL_5, 2, 4, 256), 1u << k, k);
	}
	without(shape(RAID_LEVEL_5, 2, 2, 16), 1, 1);
	without(shape(RAID_LEVEL_5, 2, 2, 16), 2, 2);
}

static void test_raid6_degraded(void **state)
{
	static const uint32_t layouts[] = {2, 0, 5, 8, 9, 10, 18, 20};

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		for (uint32_t k = 0; k <= i; k++) {
			for (uint32_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
				without(shape(RAID_LEVEL_6, layouts[l], 5, 16), 1u << i | 1u << k,
					i + k + l);
			}
			without(shape(RAID_LEVEL_6, 2, 5, 256), 1u << i | 1u << k, i + k);
		}
	}
}

/* ---- gathering ----------------------------------------------------------------------------- */

enum { CHUNK = 16384 };

static struct rig *dirty_raid5(void)
{
	struct rig_shape s = shape(RAID_LEVEL_5, 2, 4, 32);
	struct rig *r = rig_new(&s);
	uint8_t byte = 1;

	/* Superblocks and bitmap are out of the way. */
	assert_int_equal(rig_write(r, raid_size(r->a) - 1, 1, &byte), 0);
	return r;
}

static struct rig_req *write_chunk(struct rig *r, uint64_t addr, uint32_t flags)
{
	static uint8_t data[CHUNK];

	memset(data, (int)(1 + addr / CHUNK), sizeof data);
	return rig_submit(r, RAID_OP_WRITE, addr, CHUNK, flags, data);
}

/* The row goes out as a whole, without a read. */
static void whole_row(struct rig *r, struct rig_req *q[3])
{
	assert_int_equal(r->ios, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(r->io[i]->op, RAID_IO_WRITE);
		assert_int_equal(r->io[i]->len, CHUNK);
	}
	rig_run(r);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rig_finish(r, q[i]), 0);
	}
	rig_free(r);
}

static void test_one_turn_merges(void **state)
{
	struct rig *r = dirty_raid5();
	struct rig_req *q[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		q[i] = write_chunk(r, (5 - i) * CHUNK, 0);
	}
	rig_step(r);
	whole_row(r, q);
}

static void test_stream_waits_for_its_row(void **state)
{
	struct rig *r = dirty_raid5();
	struct rig_req *q[3];

	(void)state;
	q[0] = write_chunk(r, 0, 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q[0]), 0);
	q[0] = write_chunk(r, CHUNK, RAID_REQ_MORE);
	rig_step(r);
	assert_int_equal(r->ios, 0);
	assert_true(raid_deadline(r->a) == r->now.mono_ns + 200000);
	q[1] = write_chunk(r, 2 * CHUNK, 0);
	rig_step(r);
	assert_true(r->ios > 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q[0]), 0);
	assert_int_equal(rig_finish(r, q[1]), 0);
	q[0] = write_chunk(r, 3 * CHUNK, RAID_REQ_MORE);
	rig_step(r);
	q[1] = write_chunk(r, 4 * CHUNK, RAID_REQ_MORE);
	rig_step(r);
	assert_int_equal(r->ios, 0);
	q[2] = write_chunk(r, 5 * CHUNK, RAID_REQ_MORE);
	rig_step(r);
	whole_row(r, q);
}

/* Nothing waits for long, nor past a FLUSH, nor if it is FUA, nor if nothing else is to come. */
static void test_no_longer_than_allowed(void **state)
{
	struct rig *r = dirty_raid5();
	struct rig_req *q, *flush;

	(void)state;
	q = write_chunk(r, 0, 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	q = write_chunk(r, CHUNK, RAID_REQ_MORE);
	rig_step(r);
	assert_int_equal(r->ios, 0);
	r->now.mono_ns += 200000;
	rig_step(r);
	assert_true(r->ios > 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	q = write_chunk(r, 2 * CHUNK, RAID_REQ_MORE);
	rig_run(r); /* the last chunk of its row */
	assert_int_equal(rig_finish(r, q), 0);
	q = write_chunk(r, 3 * CHUNK, RAID_REQ_MORE);
	rig_step(r);
	assert_int_equal(r->ios, 0);
	flush = rig_submit(r, RAID_OP_FLUSH, 0, 0, 0, NULL);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_finish(r, flush), 0);
	q = write_chunk(r, 4 * CHUNK, RAID_REQ_MORE | RAID_REQ_FUA);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	q = write_chunk(r, 6 * CHUNK, RAID_REQ_MORE); /* not where the stream was */
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	q = write_chunk(r, 7 * CHUNK, 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

/* What overlaps goes one after the other, in the order in which it came. */
static void test_overlap_keeps_order(void **state)
{
	struct rig *r = dirty_raid5();
	struct rig_req *q[4];
	uint8_t data[5000], back[5000];

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		memset(data, (int)(10 + i), sizeof data);
		q[i] = rig_submit(r, RAID_OP_WRITE, 1000 + i, sizeof data, RAID_REQ_MORE, data);
	}
	rig_run(r);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(rig_finish(r, q[i]), 0);
	}
	assert_int_equal(rig_read(r, 1000, sizeof back, back), 0);
	assert_int_equal(back[0], 10);
	assert_int_equal(back[1], 11);
	assert_int_equal(back[2], 12);
	for (uint32_t i = 3; i < sizeof back; i++) {
		assert_int_equal(back[i], 13);
	}
	rig_free(r);
}

/* A whole row of zeroes is left to the members, a part of one is written. */
static void test_trim_and_zero(void **state)
{
	struct rig *r = dirty_raid5();
	struct rig_req *q;

	(void)state;
	q = rig_submit(r, RAID_OP_TRIM, 0, 3 * CHUNK, 0, NULL);
	rig_step(r);
	assert_int_equal(r->ios, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(r->io[i]->op, RAID_IO_DISCARD);
	}
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	q = rig_submit(r, RAID_OP_TRIM, 0, 2 * CHUNK, 0, NULL);
	rig_step(r);
	assert_int_equal(r->ios, 0);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, 3 * CHUNK, RAID_REQ_FAST_ZERO), 0);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, CHUNK, RAID_REQ_FAST_ZERO), -ENOTSUP);
	assert_int_equal(rig_op(r, RAID_OP_ZERO, 0, CHUNK, 0), 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raid4),
		cmocka_unit_test(test_raid5_layouts),
		cmocka_unit_test(test_raid5_chunks),
		cmocka_unit_test(test_raid6_layouts),
		cmocka_unit_test(test_raid6_chunks),
		cmocka_unit_test(test_raid5_degraded),
		cmocka_unit_test(test_raid6_degraded),
		cmocka_unit_test(test_one_turn_merges),
		cmocka_unit_test(test_stream_waits_for_its_row),
		cmocka_unit_test(test_no_longer_than_allowed),
		cmocka_unit_test(test_overlap_keeps_order),
		cmocka_unit_test(test_trim_and_zero),
	};

	return cmocka_run_group_tests_name("engine_parity", tests, NULL, NULL);
}
