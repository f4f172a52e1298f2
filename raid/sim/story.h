/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words to tell a scenario in. A scenario builds a world, starts sessions in it and says which io
 * meets which fate; all checks of the simulator run beside it, and EXPECT() says what the story
 * itself wants.
 */
#ifndef RAID_SIM_STORY_H
#define RAID_SIM_STORY_H

#include "raid/sim/world.h"

struct scenario {
	const char *name;
	void (*run)(struct world *w);
};

extern const struct scenario scenarios_of_rules[];
extern const struct scenario scenarios_of_lessons[];
extern const struct scenario scenarios_of_parity[];
extern const struct scenario scenarios_of_members[];

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			sim_fail("%s:%d: expected: %s", __FILE__, __LINE__, #cond);                \
		}                                                                                  \
	} while (0)

/* Disks of 128 KiB of data, 512-byte blocks, volatile caches, metadata 1.2, no faults. */
struct plan story_plan(enum raid_level level, uint32_t slots);
/* More disks like the others: spares of the array, and blank ones. */
void story_more_disks(struct plan *p, uint32_t spares, uint32_t blanks);
void story_world(struct world *w, const struct plan *plan);
/* Start with all disks but those named, which ends with LAYOUT_NONE. */
void story_start(struct world *w);
void story_start_without(struct world *w, uint32_t disk);

/* Submit; returns the id of the request's only fragment. */
uint64_t story_submit(struct world *w, uint32_t client, enum raid_op op, uint32_t flags,
		      uint64_t addr, uint64_t len);
/* Submit and wait; returns the result. */
int story_do(struct world *w, enum raid_op op, uint32_t flags, uint64_t addr, uint64_t len);
/* Turn until the request is answered, or fail after a minute of virtual time. */
void story_await(struct world *w, uint64_t id);
void story_pass(struct world *w, uint64_t ns);
/* Nothing out, everything given back. */
void story_settle(struct world *w);

/* Give a command and wait; returns its result. disk: LAYOUT_NONE if it names none. */
int story_command(struct world *w, enum raid_cmd_op op, uint32_t disk);
int story_sync(struct world *w, enum raid_sync_action action);
int story_add(struct world *w, uint32_t disk);
/* Turn until nothing needs a resync or rebuild and none runs, or fail after an hour. */
void story_whole(struct world *w);

/* The disk may be lost: a failure of it is part of the story. */
void story_lossy(struct world *w, uint32_t disk);
/* Is the disk trusted when all disks are offered now? */
bool story_in_sync(struct world *w, uint32_t disk);
/* All sectors read back through the array, all copies compared with the oracle. */
void story_verify(struct world *w);
/* Power cut, judge, all copies compared with the oracle. */
void story_crash(struct world *w);
void story_stop(struct world *w);

/* Is this io a write of a superblock? */
bool story_is_sb(const struct world *w, const struct flight *f);

#endif
