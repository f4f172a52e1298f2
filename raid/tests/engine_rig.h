/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rig for scenario tests of the engine: members are byte arrays, ios wait in the order in which
 * they were emitted until the test completes them one by one or lets them run. Every step is
 * followed by raid_check().
 */
#ifndef RAID_TESTS_ENGINE_RIG_H
#define RAID_TESTS_ENGINE_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/assemble.h"
#include "raid/raid.h"
#include "raid/sb.h"

enum { RIG_IOS = 8192, RIG_EVENTS = 1024, RIG_SB_SECTOR = 8, RIG_DATA_SECTOR = 64 };

struct rig;
/* What becomes of an io: 0 done, -errno failed (nothing of it happened), RIG_HOLD not yet. */
typedef int rig_fault(struct rig *r, struct raid_io *io);
enum { RIG_HOLD = 1 };

struct rig_shape {
	enum raid_level level;
	uint32_t layout, chunk_sectors, slots;
	uint64_t sectors; /* of each member's data area */
	uint64_t more;	  /* member i has i * more sectors more (linear, RAID 0) */
	uint32_t lbs[8];  /* logical blocks, 0 = 512 */
	uint32_t missing; /* bit mask of slots without a member */
	uint32_t spares;
	uint32_t max_dev; /* 0: 128 */
	uint32_t max_io;  /* bytes, 0: no limit */
	uint64_t resync;  /* resync_offset; 0 is written as RIG_DIRTY here */
	bool build;	  /* no superblocks */
	bool read_only, no_punch, no_zero, min_limits;
	bool sync; /* resync and rebuild begin by themselves */
	uint32_t frags;
};

#define RIG_DIRTY UINT64_MAX - 1

struct rig {
	struct rig_shape shape;
	struct assembly *as;
	struct raid_member_props props[RAID_MEMBERS_MAX];
	struct raid_array *a;
	struct raid_now now;
	uint8_t *disk[RAID_MEMBERS_MAX];
	uint64_t disk_bytes;
	rig_fault *fault;
	uint64_t arg[4]; /* for the fault function */
	struct raid_io *io[RIG_IOS];
	uint32_t ios, flushes, data_writes, sb_writes;
	uint32_t done, freed, cancels; /* requests so far */
	struct raid_cmd *cmd;
	struct raid_event event[RIG_EVENTS];
	uint32_t events;
	bool failed[RAID_MEMBERS_MAX]; /* the engine said so */
};

static inline void rig_member(struct rig *r, uint32_t i, int32_t slot)
{
	const struct rig_shape *sh = &r->shape;
	struct asm_member *m = &r->as->member[i];
	uint32_t max_dev = sh->max_dev ? sh->max_dev : 128;
	uint32_t lbs = i < 8 && sh->lbs[i] ? sh->lbs[i] : 512;

	m->verdict = slot >= 0 ? ASM_IN_SYNC : ASM_SPARE;
	m->slot = slot;
	m->dev_sectors = r->disk_bytes / 512;
	r->props[i] = (struct raid_member_props){
		.size_bytes = r->disk_bytes,
		.logical_block = lbs,
		.mem_align = lbs,
		.max_io_bytes = sh->max_io,
		.can_punch = !sh->no_punch,
		.can_zero = !sh->no_zero,
		.volatile_cache = true,
	};
	r->disk[i] = calloc(1, r->disk_bytes);
	m->sb = (struct sb){
		.version = SB_V1_2,
		.level = sh->level,
		.layout = sh->layout,
		.size = sh->sectors,
		.chunksize = sh->chunk_sectors,
		.raid_disks = sh->slots,
		.data_offset = RIG_DATA_SECTOR,
		.data_size = sh->sectors + i * sh->more,
		.super_offset = RIG_SB_SECTOR,
		.dev_number = i,
		.device_uuid = {(uint8_t)(i + 1)},
		.events = 10,
		.resync_offset = r->as->resync_offset,
		.max_dev = max_dev,
	};
	memset(m->sb.dev_roles, 0xff, sizeof m->sb.dev_roles);
}

static inline void rig_create(struct rig *r)
{
	const struct rig_shape *sh = &r->shape;
	struct raid_config cfg = {
		.assembly = r->as,
		.props = r->props,
		.limits = RAID_LIMITS_DEFAULT,
		.read_only = sh->read_only,
		.seed = 42,
		.now = r->now,
	};
	char why[RAID_WHY_BYTES];

	cfg.limits.frags = 64;
	cfg.limits.buffer_bytes = 8 << 20;
	if (sh->min_limits) {
		raid_limits_min(r->as, &cfg.limits);
	}
	if (sh->frags) {
		cfg.limits.frags = sh->frags;
	}
	cfg.limits.sync_frozen = !sh->sync;
	if (raid_create(&cfg, &r->a, why)) {
		fail_msg("raid_create: %s", why);
	}
}

static inline struct rig *rig_prepare(const struct rig_shape *shape)
{
	struct rig *r = calloc(1, sizeof *r);
	struct geo_params p = {
		.level = shape->level,
		.layout = shape->layout,
		.chunk_sectors = shape->chunk_sectors,
		.slots = shape->slots,
		.component_sectors = shape->sectors,
	};
	char why[RAID_WHY_BYTES];

	r->shape = *shape;
	r->as = calloc(1, sizeof *r->as);
	r->now = (struct raid_now){.mono_ns = 1000000000, .wall_s = 1700000000};
	r->disk_bytes =
		(RIG_DATA_SECTOR + shape->sectors + shape->slots * shape->more + 8) / 8 * 4096;
	for (uint32_t k = 0; k < shape->slots; k++) {
		p.slot[k].data_offset_sectors = RIG_DATA_SECTOR;
		p.slot[k].data_sectors = shape->sectors + k * shape->more;
	}
	if (geo_init(&r->as->geometry, &p, why)) {
		fail_msg("geo_init: %s", why);
	}
	r->as->decision = ASM_START;
	r->as->metadata = !shape->build;
	r->as->events = 10;
	r->as->resync_offset = shape->resync == 0	      ? SB_IN_SYNC
			       : shape->resync == (RIG_DIRTY) ? 0
							      : shape->resync;
	for (uint32_t k = 0; k < shape->slots; k++) {
		if (k >= 32 || !(shape->missing >> k & 1)) {
			r->as->present[k] = true;
			rig_member(r, r->as->members++, (int32_t)k);
		}
	}
	for (uint32_t k = 0; k < shape->spares; k++) {
		rig_member(r, r->as->members++, -1);
	}
	return r;
}

static inline struct rig *rig_new(const struct rig_shape *shape)
{
	struct rig *r = rig_prepare(shape);

	rig_create(r);
	return r;
}

static inline void rig_step(struct rig *r)
{
	struct raid_req *req;
	struct raid_cmd *cmd;
	struct raid_io *io;
	const char *wrong;

	raid_step(r->a, r->now);
	wrong = raid_check(r->a);
	if (wrong) {
		fail_msg("raid_check: %s", wrong);
	}
	while ((io = raid_next_io(r->a))) {
		assert_true(r->ios < RIG_IOS);
		r->io[r->ios++] = io;
	}
	while (raid_next_cancel(r->a)) {
		r->cancels++;
	}
	while ((req = raid_next_done(r->a))) {
		r->done++;
		*(int *)req->user = 1;
	}
	while ((req = raid_next_free(r->a))) {
		r->freed++;
		*(int *)req->user |= 2;
	}
	while ((cmd = raid_next_cmd(r->a))) {
		r->cmd = cmd;
	}
	while (r->events < RIG_EVENTS && raid_next_event(r->a, &r->event[r->events])) {
		if (r->event[r->events].type == RAID_EV_MEMBER_FAILED) {
			r->failed[r->event[r->events].member] = true;
		}
		r->events++;
	}
}

static inline void rig_transfer(struct rig *r, struct raid_io *io)
{
	uint64_t at = io->maddr;
	uint32_t lbs = r->props[io->member].logical_block;

	assert_int_equal(io->maddr % lbs, 0);
	assert_int_equal(io->len % lbs, 0);
	assert_true(io->maddr + io->len <= r->disk_bytes);
	if (r->shape.max_io && io->maddr >= RIG_DATA_SECTOR * 512) {
		assert_true(io->len <= r->shape.max_io);
	}
	if (io->op == RAID_IO_DISCARD || io->op == RAID_IO_ZERO) {
		memset(r->disk[io->member] + at, 0, io->len);
		return;
	}
	for (uint32_t i = 0; i < io->iovcnt; i++) {
		assert_int_equal((uintptr_t)io->iov[i].iov_base % r->props[io->member].mem_align,
				 0);
		assert_int_equal(io->iov[i].iov_len % lbs, 0);
		if (io->op == RAID_IO_READ) {
			memcpy(io->iov[i].iov_base, r->disk[io->member] + at, io->iov[i].iov_len);
		} else if (io->op == RAID_IO_WRITE) {
			memcpy(r->disk[io->member] + at, io->iov[i].iov_base, io->iov[i].iov_len);
		}
		at += io->iov[i].iov_len;
	}
	assert_int_equal(at - io->maddr, io->op == RAID_IO_FLUSH ? 0 : io->len);
}

static inline bool rig_is_sb(const struct raid_io *io)
{
	return io->op == RAID_IO_WRITE && io->maddr == RIG_SB_SECTOR * 512;
}

static inline bool rig_is_data_write(const struct raid_io *io)
{
	return io->op != RAID_IO_READ && io->op != RAID_IO_FLUSH && !rig_is_sb(io);
}

/* Complete the i-th waiting io, without a step. */
static inline void rig_complete(struct rig *r, uint32_t i, int res)
{
	struct raid_io *io = r->io[i];

	if (!res) {
		rig_transfer(r, io);
		r->flushes += io->op == RAID_IO_FLUSH;
		r->sb_writes += rig_is_sb(io);
		r->data_writes += rig_is_data_write(io);
	}
	memmove(&r->io[i], &r->io[i + 1], (--r->ios - i) * sizeof r->io[0]);
	raid_complete(r->a, io, res);
}

/* Step and complete what the fault function lets through, until nothing moves. */
static inline void rig_run(struct rig *r)
{
	bool moved = true;

	rig_step(r);
	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < r->ios;) {
			int res = r->fault ? r->fault(r, r->io[i]) : 0;

			if (res == RIG_HOLD) {
				i++;
				continue;
			}
			rig_complete(r, i, res);
			moved = true;
		}
		rig_step(r);
	}
}

static inline void rig_advance_ms(struct rig *r, uint64_t ms)
{
	r->now.mono_ns += ms * 1000000;
	rig_run(r);
}

/* A request with a state of its own: 0 out, 1 done, 3 done and free. */
struct rig_req {
	struct raid_req req;
	int state;
	uint8_t *memory;
};

static inline struct rig_req *rig_submit(struct rig *r, enum raid_op op, uint64_t addr,
					 uint64_t len, uint32_t flags, const void *data)
{
	struct rig_req *q = calloc(1, sizeof *q);

	q->req = (struct raid_req){
		.op = op, .addr = addr, .len = len, .flags = flags, .user = &q->state};
	if (op == RAID_OP_WRITE) {
		q->memory = aligned_alloc(4096, (len + 3 * 4096) / 4096 * 4096);
		q->req.payload = q->memory + addr % 4096;
		memcpy(q->req.payload, data, len);
	}
	if (op != RAID_OP_FLUSH) {
		assert_int_equal(raid_split(r->a, op, addr, len), len);
	}
	raid_submit(r->a, &q->req);
	return q;
}

static inline int rig_finish(struct rig *r, struct rig_req *q)
{
	int res = q->req.res;

	assert_true(q->state & 1);
	if (q->req.op == RAID_OP_READ) {
		raid_release(r->a, &q->req);
		rig_step(r);
	} else {
		assert_int_equal(q->state & 2, 2);
	}
	free(q->memory);
	free(q);
	return res;
}

/* Write or read any range, cut as the engine wants it; the ios run. */
static inline int rig_write_flags(struct rig *r, uint64_t addr, uint64_t len, uint32_t flags,
				  const uint8_t *data)
{
	int res = 0;

	while (len && !res) {
		uint64_t n = raid_split(r->a, RAID_OP_WRITE, addr, len);
		struct rig_req *q = rig_submit(r, RAID_OP_WRITE, addr, n, flags, data);

		rig_run(r);
		res = rig_finish(r, q);
		addr += n;
		data += n;
		len -= n;
	}
	return res;
}

static inline int rig_write(struct rig *r, uint64_t addr, uint64_t len, const uint8_t *data)
{
	return rig_write_flags(r, addr, len, 0, data);
}

static inline int rig_read(struct rig *r, uint64_t addr, uint64_t len, uint8_t *data)
{
	int res = 0;

	while (len && !res) {
		uint64_t n = raid_split(r->a, RAID_OP_READ, addr, len);
		struct rig_req *q = rig_submit(r, RAID_OP_READ, addr, n, 0, NULL);

		rig_run(r);
		assert_true(q->state & 1);
		if (!q->req.res) {
			assert_int_equal((uintptr_t)q->req.data % 4096, addr % 4096);
			memcpy(data, q->req.data, n);
		}
		res = rig_finish(r, q);
		addr += n;
		data += n;
		len -= n;
	}
	return res;
}

static inline int rig_op(struct rig *r, enum raid_op op, uint64_t addr, uint64_t len,
			 uint32_t flags)
{
	struct rig_req *q = rig_submit(r, op, addr, len, flags, NULL);

	rig_run(r);
	return rig_finish(r, q);
}

static inline int rig_command(struct rig *r, enum raid_cmd_op op, uint32_t member)
{
	static struct raid_cmd cmd;

	cmd = (struct raid_cmd){.op = op, .member = member};
	r->cmd = NULL;
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_ptr_equal(r->cmd, &cmd);
	return cmd.res;
}

static inline uint32_t rig_count(const struct rig *r, enum raid_event_type type)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->events; i++) {
		n += r->event[i].type == type;
	}
	return n;
}

/* The superblock that lies on a member now. */
static inline struct sb rig_sb(struct rig *r, uint32_t member)
{
	struct sb_location loc = {.version = SB_V1_2, .sector = RIG_SB_SECTOR};
	char why[RAID_WHY_BYTES];
	struct sb sb;
	int err = sb_decode(r->disk[member] + RIG_SB_SECTOR * 512, loc, r->disk_bytes / 512, &sb,
			    why);

	if (err) {
		fail_msg("superblock of member %u: %d %s", member, err, why);
	}
	return sb;
}

/* All in-sync copies of every byte of the array are the same. */
static inline void rig_copies_equal(struct rig *r, const bool skip[])
{
	const struct geometry *g = &r->as->geometry;
	uint64_t size = raid_size(r->a);
	struct geo_piece p;

	for (uint64_t addr = 0; addr < size; addr += p.len) {
		int first = -1;

		geo_map(g, addr, size - addr, &p);
		for (uint32_t i = 0; i < p.copies; i++) {
			uint32_t m = 0;

			while (m < r->as->members && r->as->member[m].slot != (int)p.copy[i].slot) {
				m++;
			}
			if (m == r->as->members || (skip && skip[m])) {
				continue;
			}
			if (first >= 0 &&
			    memcmp(r->disk[m] + p.copy[i].maddr,
				   r->disk[first >> 8] + p.copy[first & 255].maddr, p.len) != 0) {
				fail_msg("copies differ at %llu", (unsigned long long)addr);
			}
			first = first < 0 ? (int)(m << 8 | i) : first;
		}
	}
}

static inline void rig_free(struct rig *r)
{
	r->fault = NULL;
	if (r->a) {
		rig_run(r);
		raid_destroy(r->a);
	}
	for (uint32_t i = 0; i < r->as->members; i++) {
		free(r->disk[i]);
	}
	free(r->as);
	free(r);
}

#endif
