/* SPDX-License-Identifier: BSD-3-Clause */
/* Beside the rig: members with content of their own, and a clock that follows the sync machine. */
#ifndef RAID_TESTS_ENGINE_SYNC_H
#define RAID_TESTS_ENGINE_SYNC_H

#include "raid/tests/engine_rig.h"

static inline uint64_t sync_random(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint8_t *sync_before[RAID_MEMBERS_MAX]; /* the members as they were at the start */

static inline void sync_keep(struct rig *r)
{
	for (uint32_t i = 0; i < r->as->members; i++) {
		free(sync_before[i]);
		sync_before[i] = malloc(r->disk_bytes);
		memcpy(sync_before[i], r->disk[i], r->disk_bytes);
	}
}

/* An array whose members' data are random, every one its own. */
static inline struct rig *sync_fill(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = rig_prepare(shape);

	for (uint32_t i = 0; i < r->as->members; i++) {
		for (uint64_t at = RIG_DATA_SECTOR * 512; at < r->disk_bytes; at += 8) {
			uint64_t v = sync_random(&seed);

			memcpy(r->disk[i] + at, &v, 8);
		}
	}
	sync_keep(r);
	return r;
}

/* … running until it would wait. */
static inline struct rig *sync_prepare(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = sync_fill(shape, seed);

	rig_create(r);
	rig_step(r);
	return r;
}

/* … with bad-block lists: sector 1 from at on the first member, 2 on the second, 4 on both. */
static inline struct rig *sync_prepare_listed(const struct rig_shape *shape, uint64_t seed,
					      uint64_t at)
{
	struct rig *r = sync_fill(shape, seed);

	r->as->member[0].bad =
		(struct bb_list){.count = 2, .range = {{at + 512, 512}, {at + 2048, 512}}};
	r->as->member[1].bad =
		(struct bb_list){.count = 2, .range = {{at + 1024, 512}, {at + 2048, 512}}};
	rig_create(r);
	rig_step(r);
	return r;
}

static inline void sync_free(struct rig *r)
{
	for (uint32_t i = 0; i < r->as->members; i++) {
		free(sync_before[i]);
		sync_before[i] = NULL;
	}
	rig_free(r);
}

static inline struct raid_status sync_status(const struct rig *r)
{
	static struct raid_status st;

	raid_get_status(r->a, &st);
	return st;
}

/* Let ios run and time pass until nothing more is going to happen. */
static inline void sync_wait(struct rig *r)
{
	for (uint32_t i = 0; i < 100000; i++) {
		rig_run(r);
		if (raid_deadline(r->a) == RAID_NEVER) {
			return;
		}
		if (raid_deadline(r->a) > r->now.mono_ns) {
			r->now.mono_ns = raid_deadline(r->a);
		}
	}
	fail_msg("the sync machine does not come to an end");
}

/* Does every block hold what its copy on the lowest slot held at the start? */
static inline bool sync_first_copies(struct rig *r)
{
	const struct geometry *g = &r->as->geometry;
	uint64_t size = raid_size(r->a);
	struct geo_piece p;

	for (uint64_t addr = 0; addr < size; addr += p.len) {
		uint32_t first = 0;

		geo_map(g, addr, size - addr, &p);
		for (uint32_t i = 1; i < p.copies; i++) {
			first = p.copy[i].slot < p.copy[first].slot ? i : first;
		}
		for (uint32_t i = 0; i < p.copies; i++) {
			if (memcmp(r->disk[p.copy[i].slot] + p.copy[i].maddr,
				   sync_before[p.copy[first].slot] + p.copy[first].maddr, p.len)) {
				return false;
			}
		}
	}
	return true;
}

static inline int sync_command(struct rig *r, enum raid_sync_action action)
{
	static struct raid_cmd cmd;

	cmd = (struct raid_cmd){.op = RAID_CMD_SYNC, .sync = action};
	r->cmd = NULL;
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_ptr_equal(r->cmd, &cmd);
	return cmd.res;
}

static inline void sync_speed(struct rig *r, uint64_t min_bps, uint64_t max_bps)
{
	static struct raid_cmd cmd;

	cmd = (struct raid_cmd){.op = RAID_CMD_SYNC_SPEED, .min_bps = min_bps, .max_bps = max_bps};
	raid_control(r->a, &cmd);
	rig_step(r);
	assert_int_equal(sync_status(r).sync.max_bps, max_bps);
}

/* One step of time. */
static inline void sync_advance(struct rig *r)
{
	rig_run(r);
	assert_true(raid_deadline(r->a) != RAID_NEVER);
	if (raid_deadline(r->a) > r->now.mono_ns) {
		r->now.mono_ns = raid_deadline(r->a);
	}
	rig_run(r);
}

static inline const struct raid_event *sync_event(const struct rig *r, enum raid_event_type type)
{
	for (uint32_t i = 0; i < r->events; i++) {
		if (r->event[i].type == type) {
			return &r->event[i];
		}
	}
	fail_msg("no event %s", raid_event_name(type));
	return NULL;
}

/* The rig's own list: member i has the slot now, whoever had it has none. */
static inline void sync_takes_slot(struct rig *r, uint32_t i, int32_t slot)
{
	for (uint32_t o = 0; o < r->as->members; o++) {
		r->as->member[o].slot = r->as->member[o].slot == slot ? -1 : r->as->member[o].slot;
	}
	r->as->member[i].slot = slot;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Reads from arg[0] on stay out. */
static inline int sync_hold_reads(struct rig *r, struct raid_io *io)
{
	return io->op == RAID_IO_READ && io->maddr >= r->arg[0] ? RIG_HOLD : 0;
}

static inline int sync_hang_reads_of(struct rig *r, struct raid_io *io)
{
	return io->op == RAID_IO_READ && io->member == r->arg[0] ? RIG_HOLD : 0;
}

static inline int sync_hold_flushes(struct rig *r, struct raid_io *io)
{
	(void)r;
	return io->op == RAID_IO_FLUSH ? RIG_HOLD : 0;
}

static inline int sync_fail_writes_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && rig_is_data_write(io) ? -EIO : 0;
}

/* Data writes of arg[0] fail; reads stay out. */
static inline int sync_fail_one_write(struct rig *r, struct raid_io *io)
{
	return io->op == RAID_IO_READ ? RIG_HOLD : sync_fail_writes_of(r, io);
}

/* ---- requests at random beside it ------------------------------------------------------------ */

enum { STORM_REQS = 8, STORM_BLOCK = 512 };

struct sync_storm {
	uint64_t seed;
	uint8_t *model; /* per sector: what was written last, 0: nothing yet */
	struct rig_req *req[STORM_REQS];
	uint8_t value;
};

static inline int sync_some(struct rig *r, struct raid_io *io)
{
	(void)io;
	return sync_random(&r->arg[3]) % 3 ? RIG_HOLD : 0;
}

static inline void storm_begin_one(struct rig *r, struct sync_storm *st, uint32_t i)
{
	uint64_t sectors = raid_size(r->a) / 512, at = sync_random(&st->seed) % sectors;
	uint64_t len = 1 + sync_random(&st->seed) % (sync_random(&st->seed) % 4 ? 16 : 512);
	static uint8_t data[1 << 18];

	len = at + len > sectors ? sectors - at : len;
	for (uint32_t o = 0; o < STORM_REQS; o++) {
		const struct rig_req *q = st->req[o];

		if (q && q->req.addr < (at + len) * 512 && at * 512 < q->req.addr + q->req.len) {
			return; /* the model knows one order only */
		}
	}
	len = raid_split(r->a, RAID_OP_WRITE, at * 512, len * 512) / 512;
	if (!len) {
		return;
	}
	st->value = (uint8_t)(st->value % 255 + 1);
	memset(data, st->value, len * 512);
	memset(st->model + at, st->value, len);
	st->req[i] = rig_submit(r, RAID_OP_WRITE, at * 512, len * 512, 0, data);
}

static inline void sync_storm(struct rig *r, struct sync_storm *st, uint32_t turns)
{
	if (!st->model) {
		st->model = calloc(1, raid_size(r->a) / 512);
		r->arg[3] = st->seed;
		if (st->seed % 2) { /* many orders at a time, though there are requests */
			sync_speed(r, 1000000000, 0);
		}
	}
	r->fault = sync_some;
	for (uint32_t t = 0; t < turns; t++) {
		uint32_t i = (uint32_t)(sync_random(&st->seed) % STORM_REQS);

		if (st->req[i] && st->req[i]->state == 3) {
			assert_int_equal(rig_finish(r, st->req[i]), 0);
			st->req[i] = NULL;
		}
		if (!st->req[i]) {
			storm_begin_one(r, st, i);
		}
		r->now.mono_ns += sync_random(&st->seed) % 3000000;
		rig_step(r);
		for (uint32_t n = 0; n < r->ios;) {
			if (sync_some(r, r->io[n]) == RIG_HOLD) {
				n++;
			} else {
				rig_complete(r, n, 0);
			}
		}
	}
}

/* All is answered; every copy that is in sync holds what was written, all are equal. */
static inline void sync_storm_end(struct rig *r, struct sync_storm *st)
{
	uint64_t sectors = raid_size(r->a) / 512;
	uint8_t *data = malloc(sectors * 512), want[512];
	struct raid_status status = sync_status(r);
	bool skip[RAID_MEMBERS_MAX];

	for (uint32_t i = 0; i < STORM_REQS; i++) {
		if (st->req[i]) {
			assert_int_equal(rig_finish(r, st->req[i]), 0);
		}
	}
	for (uint32_t i = 0; i < r->as->members; i++) {
		skip[i] = status.member[i].state != RAID_MEMBER_IN_SYNC;
	}
	assert_int_equal(rig_read(r, 0, sectors * 512, data), 0);
	for (uint64_t s = 0; s < sectors; s++) {
		if (st->model[s]) {
			memset(want, st->model[s], 512);
			assert_memory_equal(data + s * 512, want, 512);
		}
	}
	if (r->as->geometry.copies > 1) {
		rig_copies_equal(r, skip);
	}
	free(data);
	free(st->model);
}

#endif
