/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The happy paths of the engine on every level, against a model: random requests of any alignment,
 * many in flight, completions in random order. Members with blocks of 512 and 4096 bytes, mixed,
 * odd sizes, io limits, minimal pools.
 */
#include "raid/tests/engine_rig.h"

static uint64_t rnd_state;

static uint64_t rnd(uint64_t n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % n;
}

enum { IN_FLIGHT = 24 };

/* A random range of a random size class. */
static void range(uint64_t size, uint64_t *addr, uint64_t *len)
{
	static const uint64_t most[] = {100, 600, 5000, 70000, 300000, 1 << 20};
	uint64_t n = most[rnd(6)];

	*len = 1 + rnd(n < size ? n : size);
	*addr = rnd(size - *len + 1);
	if (rnd(2)) {
		*addr &= ~(uint64_t)511;
		*len = (*len + 511) & ~(uint64_t)511;
		if (*addr + *len > size) {
			*len = size - *addr;
		}
	}
}

struct open {
	struct rig_req *q;
	uint8_t *expect; /* READ: what must come, when no write overlaps it */
};

static bool overlaps(const struct open *o, uint64_t addr, uint64_t len)
{
	return o->q && o->q->req.addr < addr + len && addr < o->q->req.addr + o->q->req.len;
}

static void start(struct rig *r, struct open open[], struct open *o, uint8_t *model,
		  const uint8_t *noise)
{
	static const enum raid_op ops[] = {RAID_OP_READ,  RAID_OP_READ,	 RAID_OP_WRITE,
					   RAID_OP_WRITE, RAID_OP_WRITE, RAID_OP_ZERO,
					   RAID_OP_TRIM};
	/* The answer to a TRIM is read at once: that needs room beside what others hold. */
	enum raid_op op = ops[rnd(r->shape.min_limits ? 6 : 7)];
	uint32_t flags = rnd(8) ? 0 : RAID_REQ_FUA;
	const uint8_t *data = noise + rnd(4096);
	uint64_t addr, len;

	range(raid_size(r->a), &addr, &len);
	len = raid_split(r->a, op, addr, len);
	/* Keep apart what has no defined outcome: reads during writes, and trims. */
	for (int i = 0; i < IN_FLIGHT; i++) {
		if (overlaps(&open[i], addr, len) &&
		    (op == RAID_OP_READ || op == RAID_OP_TRIM ||
		     open[i].q->req.op == RAID_OP_READ || open[i].q->req.op == RAID_OP_TRIM)) {
			return;
		}
	}
	flags |= op == RAID_OP_ZERO && rnd(2) ? RAID_REQ_NO_HOLE : 0;
	o->q = rig_submit(r, op, addr, len, flags, data);
	o->expect = NULL;
	if (op == RAID_OP_READ) {
		o->expect = malloc(len);
		memcpy(o->expect, model + addr, len);
	} else if (op == RAID_OP_WRITE) {
		memcpy(model + addr, data, len);
	} else if (op == RAID_OP_ZERO) {
		memset(model + addr, 0, len);
	}
}

static void end(struct rig *r, struct open *o, uint8_t *model)
{
	struct raid_req *q = &o->q->req;

	assert_int_equal(q->res, 0);
	if (q->op == RAID_OP_READ) {
		assert_int_equal((uintptr_t)q->data % 4096, q->addr % 4096);
		assert_memory_equal(q->data, o->expect, q->len);
		free(o->expect);
	} else if (q->op == RAID_OP_TRIM) {
		/* Zeroes or as it was; ask the array. */
		uint64_t addr = q->addr, len = q->len;

		rig_finish(r, o->q);
		o->q = NULL;
		assert_int_equal(rig_read(r, addr, len, model + addr), 0);
		return;
	}
	rig_finish(r, o->q);
	o->q = NULL;
}

static void storm(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = rig_new(shape);
	uint64_t size = raid_size(r->a);
	uint8_t *model = calloc(1, size), *noise = malloc(2 << 20), *back = malloc(size);
	struct open open[IN_FLIGHT] = {0};
	uint32_t limit = shape->frags ? shape->frags : shape->min_limits ? 4 : IN_FLIGHT;

	rnd_state = seed * 0x9e3779b97f4a7c15 + 1;
	for (int i = 0; i < 2 << 20; i++) {
		noise[i] = (uint8_t)rnd(251);
	}
	for (int turn = 0; turn < 1500; turn++) {
		uint32_t i = (uint32_t)rnd(limit);

		if (!open[i].q) {
			start(r, open, &open[i], model, noise);
		}
		if (rnd(3) == 0) {
			rig_step(r);
		}
		if (r->ios && rnd(4)) {
			rig_complete(r, (uint32_t)rnd(r->ios), 0);
		}
		if (rnd(50) == 0) {
			r->now.mono_ns += rnd(300000000);
		}
		for (i = 0; i < limit; i++) {
			if (open[i].q && open[i].q->state & 1 &&
			    (open[i].q->req.op == RAID_OP_READ || open[i].q->state == 3)) {
				end(r, &open[i], model);
			}
		}
	}
	/* With little memory some come only when others have been released. */
	for (uint32_t n = 0; n < limit; n++) {
		rig_run(r);
		for (uint32_t i = 0; i < limit; i++) {
			if (open[i].q && open[i].q->state & 1) {
				end(r, &open[i], model);
			}
		}
	}
	for (uint32_t i = 0; i < limit; i++) {
		assert_null(open[i].q);
	}
	assert_int_equal(rig_read(r, 0, size, back), 0);
	assert_memory_equal(back, model, size);
	rig_copies_equal(r, NULL);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	if (shape->level >= RAID_LEVEL_1 && !shape->build) {
		assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	}
	assert_int_equal(r->ios, 0);
	rig_free(r);
	free(model);
	free(noise);
	free(back);
}

static void storms(struct rig_shape shape)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct rig_shape s = shape;

		storm(&s, seed);
		s.min_limits = true;
		storm(&s, seed + 100);
		s.min_limits = false;
		s.no_punch = true;
		s.no_zero = seed & 1;
		s.max_io = 16384;
		storm(&s, seed + 200);
		s.no_punch = s.no_zero = false;
		s.max_io = 0;
		s.lbs[0] = 4096;
		storm(&s, seed + 300);
		s.lbs[1] = s.lbs[2] = s.lbs[3] = s.lbs[4] = 4096;
		storm(&s, seed + 400);
	}
}

static void test_linear(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_LINEAR, .slots = 3, .sectors = 4096, .more = 512});
}

static void test_linear_odd(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_LINEAR, .slots = 3, .sectors = 3001, .more = 203});
}

static void test_raid0(void **state)
{
	(void)state;
	storms((struct rig_shape){.level = RAID_LEVEL_0,
				  .layout = GEO_RAID0_ALTERNATE,
				  .chunk_sectors = 128,
				  .slots = 4,
				  .sectors = 2048,
				  .more = 300});
}

static void test_raid0_small_chunk(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_0, .chunk_sectors = 8, .slots = 3, .sectors = 2048});
}

static void test_raid1(void **state)
{
	(void)state;
	storms((struct rig_shape){.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096});
}

static void test_raid1_odd(void **state)
{
	(void)state;
	storms((struct rig_shape){.level = RAID_LEVEL_1, .slots = 3, .sectors = 4001});
}

static void test_raid1_built(void **state)
{
	(void)state;
	storms((struct rig_shape){
		.level = RAID_LEVEL_1, .slots = 3, .sectors = 4096, .build = true});
}

static void raid10(uint32_t layout, uint32_t slots)
{
	storms((struct rig_shape){.level = RAID_LEVEL_10,
				  .layout = layout,
				  .chunk_sectors = 64,
				  .slots = slots,
				  .sectors = 2080});
}

static void test_raid10_near(void **state)
{
	(void)state;
	raid10(0x102, 4);
	raid10(0x102, 5);
	raid10(0x103, 4);
}

static void test_raid10_far(void **state)
{
	(void)state;
	raid10(0x201, 4);
	raid10(0x202, 5);
}

static void test_raid10_offset(void **state)
{
	(void)state;
	raid10(0x10201, 4);
	raid10(0x10301, 5);
}

/* Many members, and one request at a time. */
static void test_extremes(void **state)
{
	struct rig_shape shapes[] = {
		{.level = RAID_LEVEL_1, .slots = 20, .sectors = 1024},
		{.level = RAID_LEVEL_0, .chunk_sectors = 8, .slots = 48, .sectors = 128},
		{.level = RAID_LEVEL_10,
		 .layout = 0x404,
		 .chunk_sectors = 8,
		 .slots = 18,
		 .sectors = 256},
		{.level = RAID_LEVEL_LINEAR, .slots = 40, .sectors = 41, .more = 3},
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		storm(&shapes[i], i);
		shapes[i].frags = 1;
		shapes[i].min_limits = true;
		storm(&shapes[i], 50 + i);
		shapes[i].frags = 0;
		shapes[i].lbs[2] = 4096;
		shapes[i].max_io = 4096;
		storm(&shapes[i], 90 + i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear),	    cmocka_unit_test(test_linear_odd),
		cmocka_unit_test(test_raid0),	    cmocka_unit_test(test_raid0_small_chunk),
		cmocka_unit_test(test_raid1),	    cmocka_unit_test(test_raid1_odd),
		cmocka_unit_test(test_raid1_built), cmocka_unit_test(test_raid10_near),
		cmocka_unit_test(test_raid10_far),  cmocka_unit_test(test_raid10_offset),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests_name("engine_paths", tests, NULL, NULL);
}
