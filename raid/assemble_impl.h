/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of assemble.c share: the state of one decision. Private to assemble*.c.
 *
 * assemble.c loads the candidates and keeps the order; assemble_roles.c says what each member is
 * (freshest, split, stale, duplicates); assemble_start.c says whether the array may start with
 * them, assemble_force.c what a forced start makes of those that are doubtful, assemble_bitmap.c
 * what the bitmap is good for. All of it is a function of the candidates: no order of them changes
 * the outcome but for ties between equals, which the lower dev_number wins.
 */
#ifndef RAID_ASSEMBLE_IMPL_H
#define RAID_ASSEMBLE_IMPL_H

#include "raid/assemble.h"

struct asm_work {
	const struct asm_candidate *cand;
	const struct asm_options *opt;
	struct assembly *out;
	uint32_t fresh;			  /* index of the freshest member, once found */
	bool in_set[RAID_MEMBERS_MAX];	  /* readable, of the wanted array, not a stray */
	bool authority[RAID_MEMBERS_MAX]; /* its role table counts as much as the freshest's */
	bool forced;			  /* doubt is allowed: want_readonly and force */
	bool forced_write;		  /* force_write without want_readonly */
	bool took_old;			  /* members were forced that missed writes … */
	uint64_t old_events;		  /* … the oldest of them having these events */
	const char *bitmap_kind;	  /* ASM_BITMAP_KEPT: what it is */
};

/* Refuse, unless refused already: the first reason is the one to tell. */
__attribute__((format(printf, 2, 3))) void asm_refuse(struct asm_work *w, const char *fmt, ...);

/* Refuse what is only doubtful; a forced start goes on with the doubt in its note. */
__attribute__((format(printf, 2, 3))) void asm_doubt(struct asm_work *w, const char *fmt, ...);

/* Add to the note. */
__attribute__((format(printf, 2, 3))) void asm_note(struct asm_work *w, const char *fmt, ...);

__attribute__((format(printf, 4, 5))) void asm_set_verdict(struct asm_work *w, uint32_t i,
							   enum asm_verdict verdict,
							   const char *fmt, ...);

const char *asm_name(const struct asm_work *w, uint32_t i);

static inline const struct sb *asm_sb(const struct asm_work *w, uint32_t i)
{
	return &w->out->member[i].sb;
}

/* assemble_roles.c: choose the freshest member (false: nobody can speak for the array), then give
 * every member of the set its verdict. */
bool asm_find_freshest(struct asm_work *w);
void asm_give_verdicts(struct asm_work *w);

/* assemble_start.c: geometry, present slots, start rules. */
void asm_start_rules(struct asm_work *w);
void asm_count_slots(struct asm_work *w);
/* Returns what geo_init() does. */
int asm_make_geometry(struct asm_work *w, char why[RAID_WHY_BYTES]);
/* Has it room for the component, and for a superblock as long as the freshest's? */
bool asm_fits(const struct asm_work *w, uint32_t i);
bool asm_table_fits(const struct asm_work *w, uint32_t i);

#define ASM_RESHAPE_FEATURES                                                                       \
	(SB_FEATURE_RESHAPE | SB_FEATURE_RESHAPE_BACKWARDS | SB_FEATURE_NEW_OFFSET)

/* assemble_force.c: add doubtful members until every block can be reached; false if that cannot be,
 * or is not allowed. Then what a dirty and degraded parity array may do. */
bool asm_force_members(struct asm_work *w);
void asm_dirty_degraded(struct asm_work *w);

/* assemble_bitmap.c */
void asm_find_bitmap(struct asm_work *w);

static inline bool asm_has_component(const struct sb *sb)
{
	return sb->level != RAID_LEVEL_LINEAR && sb->level != RAID_LEVEL_0;
}

static inline bool asm_has_parity(const struct sb *sb)
{
	return sb->level >= RAID_LEVEL_4 && sb->level <= RAID_LEVEL_6;
}

/* The member is part of the array and kept up to date. */
static inline bool asm_is_used(enum asm_verdict v)
{
	return v == ASM_IN_SYNC || v == ASM_RECOVERING || v == ASM_REPLACEMENT || v == ASM_JOURNAL;
}

#endif
