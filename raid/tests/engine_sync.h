/* SPDX-License-Identifier: BSD-3-Clause */
/* Beside the rig: members with content of their own, and a clock that follows the sync machine. */
#ifndef RAID_TESTS_ENGINE_SYNC_H
#define RAID_TESTS_ENGINE_SYNC_H

#include "raid/tests/engine_rig.h"

struct sync_prng {
	uint64_t state;
};

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

/* An array whose members' data are random, every one its own. Runs until it would wait. */
static inline struct rig *sync_prepare(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = rig_prepare(shape);

	for (uint32_t i = 0; i < r->as->members; i++) {
		for (uint64_t at = RIG_DATA_SECTOR * 512; at < r->disk_bytes; at += 8) {
			uint64_t v = sync_random(&seed);

			memcpy(r->disk[i] + at, &v, 8);
		}
	}
	sync_keep(r);
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

#endif
