/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A storm of random requests of any alignment, many in flight, completions in random order, against
 * a model of the array; the members are looked at when all is quiet.
 */
#ifndef RAID_TESTS_ENGINE_STORM_H
#define RAID_TESTS_ENGINE_STORM_H

#include "raid/tests/engine_rig.h"

/* What multiplying by 2 and adding makes of Q, byte by byte. */
static inline uint8_t rig_times2(uint8_t v)
{
	return (uint8_t)(v << 1 ^ (v & 0x80 ? 0x1d : 0));
}

/* Every member of a parity array holds what it must when the array holds this. */
static inline void rig_rows_hold(struct rig *r, const uint8_t *model)
{
	const struct geometry *g = &r->as->geometry;
	uint32_t chunk = g->p.chunk_sectors * 512;
	uint64_t rows = g->parity ? raid_size(r->a) / chunk / g->row_data : 0;
	uint8_t *want[RAID_SLOTS_MAX];

	for (uint32_t k = 0; k < g->p.slots && rows; k++) {
		want[k] = malloc(chunk);
	}
	for (uint64_t row = 0; row < rows; row++) {
		struct geo_row m;

		geo_row_map(g, row, &m);
		memset(want[m.p], 0, chunk);
		if (g->parity > 1) {
			memset(want[m.q], 0, chunk);
		}
		for (uint32_t d = 0; d < m.data; d++) {
			memcpy(want[m.slot[d]], model + (row * m.data + d) * chunk, chunk);
			for (uint32_t i = 0; i < chunk; i++) {
				uint8_t v = want[m.slot[d]][i];

				want[m.p][i] ^= v;
				for (uint32_t e = 0; e < m.exp[d] && g->parity > 1; e++) {
					v = rig_times2(v);
				}
				if (g->parity > 1) {
					want[m.q][i] ^= v;
				}
			}
		}
		for (uint32_t i = 0; i < r->as->members; i++) {
			int slot = r->as->member[i].slot;

			if (slot >= 0 && !r->failed[i] &&
			    memcmp(r->disk[i] + geo_row_maddr(g, row, (uint32_t)slot), want[slot],
				   chunk) != 0) {
				fail_msg("member %u of row %llu is wrong (slot %d, P %u, Q %d)", i,
					 (unsigned long long)row, slot, m.p, (int)m.q);
			}
		}
	}
	for (uint32_t k = 0; k < g->p.slots && rows; k++) {
		free(want[k]);
	}
}

static uint64_t rnd_state;

static inline uint64_t rnd(uint64_t n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % n;
}

enum { IN_FLIGHT = 24 };

/* A random range of a random size class. */
static inline void range(uint64_t size, uint64_t *addr, uint64_t *len)
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

static inline bool overlaps(const struct open *o, uint64_t addr, uint64_t len)
{
	return o->q && o->q->req.addr < addr + len && addr < o->q->req.addr + o->q->req.len;
}

static inline void start(struct rig *r, struct open open[], struct open *o, uint8_t *model,
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

static inline void end(struct rig *r, struct open *o, uint8_t *model)
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

static inline void storm_with(const struct rig_shape *shape, uint64_t seed, rig_fault *fault)
{
	struct rig *r = rig_new(shape);
	uint64_t size = raid_size(r->a);
	uint8_t *model = calloc(1, size), *noise = malloc(2 << 20), *back = malloc(size);
	struct open open[IN_FLIGHT] = {0};
	uint32_t limit = shape->frags ? shape->frags : shape->min_limits ? 4 : IN_FLIGHT;

	r->fault = fault;
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
			i = (uint32_t)rnd(r->ios);
			rig_complete(r, i, r->fault ? r->fault(r, r->io[i]) : 0);
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
	rig_rows_hold(r, model);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	if (shape->level >= RAID_LEVEL_1 && !shape->build && !r->failed[0]) {
		assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	}
	assert_int_equal(r->ios, 0);
	rig_free(r);
	free(model);
	free(noise);
	free(back);
}

static inline void storm(const struct rig_shape *shape, uint64_t seed)
{
	storm_with(shape, seed, NULL);
}

#endif
