/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a seed draws before anything runs: the shape of the array, its disks, the engine's limits,
 * the workload and how much goes wrong. Scenarios fill one by hand.
 */
#ifndef RAID_SIM_PLAN_H
#define RAID_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/raid.h"
#include "raid/sb.h"
#include "raid/sim/disk.h"
#include "raid/sim/prng.h"

enum { PLAN_DISKS_MAX = 12, PLAN_OPS = 6 };

enum plan_profile {
	PLAN_ANY,     /* draw one of the others */
	PLAN_CALM,    /* crashes, no faults */
	PLAN_FAULTS,  /* faults that redundancy must survive: no client sees an error */
	PLAN_MINIMAL, /* the same with every pool of the engine at its minimum */
	PLAN_BEYOND,  /* more faults than redundancy can survive: errors, never wrong data */
	PLAN_PROFILES,
};

const char *plan_profile_name(enum plan_profile p);
/* Returns PLAN_PROFILES if there is none of that name. */
enum plan_profile plan_profile_parse(const char *name);

struct plan {
	enum plan_profile profile;

	enum raid_level level;
	uint32_t layout, chunk_sectors, slots;
	enum sb_version version;
	uint64_t data_offset_sectors; /* 0: whatever create picks */
	bool assume_clean;
	bool shuffle_dev_numbers; /* dev_number is not the slot */
	uint32_t max_dev;	  /* 0: as created; else a longer role table */
	bool tight_table;	  /* … one with no free number */
	uint8_t devflags;	  /* of every second member: enum sb_devflag */
	uint32_t spares;	  /* disks that are spares from the start */
	uint32_t blanks;	  /* disks that nobody has used yet */
	bool bad_list;		  /* a member has ranges in its bad-block log */
	bool bitmap;
	uint32_t bitmap_chunk_bytes;

	uint32_t disks; /* slots first, then spares, then blanks */
	struct disk_params disk[PLAN_DISKS_MAX];

	struct raid_limits limits;
	bool minimal_limits; /* frags and buffer_bytes from raid_limits_min() */

	uint32_t rounds; /* power-ons before the last one, the liveness phase */
	uint32_t clients, depth;
	uint32_t weight[PLAN_OPS]; /* by enum raid_op */
	uint64_t request_bytes_max;
	uint32_t unaligned_in, hot_in, fua_in; /* one in … */
	uint64_t latency_ns;
	uint64_t pause_ns;  /* between a client's requests, at most */
	uint32_t batch_max; /* inputs per step */
	uint32_t actions;   /* commands of an administrator in a session, at most */
};

void plan_draw(struct plan *p, enum plan_profile profile, struct prng *rng);

/* One line for people. */
void plan_describe(const struct plan *p, char *out, size_t room);

#endif
