/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of assemble share: a healthy array of which one thing is changed, and the
 * questions asked of the outcome. */
#ifndef RAID_TESTS_ASM_RIG_H
#define RAID_TESTS_ASM_RIG_H

#include "raid/assemble.h"

enum {
	RIG_MEMBERS = 8,
	RIG_DEV_SECTORS = 10240,
	RIG_DATA_OFFSET = 2048,
	RIG_DATA_SECTORS = 8192,
	RIG_EVENTS = 20,
};

struct rig {
	struct asm_candidate cand[RIG_MEMBERS]; /* named m0, m1, … */
	uint32_t count;				/* of them take part */
	struct asm_options opt;
	struct assembly out;
};

extern struct rig rig;

/* A healthy array of n slots; dev_number k has slot k. rig_raid10() is near=2. */
void rig_make(int32_t level, uint32_t layout, uint32_t n);
void rig_raid1(uint32_t n);
void rig_raid10(uint32_t n);

/* The table of a no longer gives b a slot: after a failure 0xFFFE, after a removal 0xFFFF. */
void rig_drop(uint32_t a, uint32_t b, uint16_t role);
void rig_leave_out(uint32_t i);
void rig_shuffle(uint32_t seed);

/* Fills rig.out; what holds for every decision is asserted here. rig_force(): read-only, forced. */
void rig_decide(void);
void rig_force(void);

void rig_verdict(uint32_t i, enum asm_verdict v);
void rig_starts(uint32_t degraded);
void rig_refused(const char *word);
void rig_read_only(const char *word);

#endif
