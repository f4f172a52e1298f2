/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sync machine: resync, rebuild, replace, check and repair (DESIGN: resync). Part of the core;
 * decides what is to be done, in which order and how fast, and what superblocks say about it. What
 * moves bytes is the shard (sync_op.h). One thing at a time, the most urgent first:
 *
 *   rebuild   a member holds a slot and is not filled yet
 *   replace   a replacement is not filled yet
 *   resync    copies may differ, parity may be stale
 *   check, repair   as asked for; interrupted by any of the above it goes on afterwards
 *
 *   resync.c        the machine
 *   resync_next.c   what is to be done
 *   resync_mark.c   checkpoints
 *
 * Addresses are those of struct sync_op. Everything below *low* is done; orders are out, or are to
 * be given again, between low and *pos*.
 */
#ifndef RAID_RESYNC_H
#define RAID_RESYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/raid.h"
#include "raid/sync_op.h"
#include "raid/sync_rate.h"

struct core;

#define RESYNC_MARK_NS 30000000000ull /* a checkpoint is made as often */

enum resync_state {
	RESYNC_OFF,   /* never: no redundancy, or nothing may be written */
	RESYNC_IDLE,  /* nothing to do */
	RESYNC_OPEN,  /* waits for the first superblocks of this run */
	RESYNC_RUN,   /* gives orders */
	RESYNC_DRAIN, /* gives no more; waits for those that are out */
	RESYNC_SEAL,  /* the last checkpoint is being made durable */
};

/* Why a run ends. */
enum resync_end {
	RESYNC_END_DONE,
	RESYNC_END_CANCELLED, /* by command */
	RESYNC_END_YIELD,     /* something more urgent, or it begins again */
	RESYNC_END_STOP,      /* the array stops */
	RESYNC_END_GONE,      /* no target is left */
	RESYNC_END_ERROR,     /* cannot go on; not again until members change or by command */
};

/* A checkpoint on its way. */
enum resync_mark {
	MARK_NONE,
	MARK_FLUSH, /* what lies below it must be durable */
	MARK_META,  /* superblocks must say so */
};

struct resync {
	enum resync_state state;
	enum resync_end end;
	enum raid_sync_action action;
	enum sync_kind kind;
	uint64_t step; /* bytes of one order, of one member */
	uint64_t first, low, pos, limit;
	uint64_t noted; /* RESYNC: up to here the bitmap knows */
	bool target[VIEW_SLOTS];
	uint32_t target_member[VIEW_SLOTS];
	uint64_t generation; /* of the members it knows */

	uint32_t orders, out;
	struct sync_op op[SYNC_ORDERS_MAX];
	struct list idle; /* sync_op.link */
	/* Orders to be given again, and not before when. */
	uint32_t redos;
	struct {
		uint64_t lo, hi;
	} redo[SYNC_ORDERS_MAX];
	uint64_t redo_at_ns;
	uint32_t redo_tries; /* in a row */

	enum resync_mark mark;
	bool mark_last; /* nothing comes after it */
	uint64_t mark_low, marked_low, mark_round, mark_changes;
	uint64_t mark_at_ns; /* when the next is due */

	bool stopping, frozen;
	bool stuck;   /* some of it could not be brought in order, or looked at */
	bool blocked; /* no resync or rebuild as long as members are as they were */
	uint64_t blocked_generation;
	uint64_t differ_from; /* UINT64_MAX; else copies differ again from there on */

	enum raid_sync_action wanted; /* IDLE, CHECK, REPAIR */
	struct raid_cmd *ending;      /* IDLE: waits for the end */
	uint64_t scrub_pos;	      /* where an interrupted scrub goes on */
	uint64_t mismatch_sectors;
	uint32_t findings; /* of the last or running scrub; the first ones: */
	struct raid_finding finding[RAID_FINDINGS_MAX];
	uint32_t fifths; /* of the way, as told by events */
	struct sync_rate rate;
};

/* ---- for the drive ------------------------------------------------------------------------- */
void resync_init(struct core *c, uint32_t orders, uint64_t step);
bool resync_run(struct core *c);
uint64_t resync_deadline(const struct core *c);
/* Sets cmd->res; or returns true: it is answered when what runs has come to its end. */
bool resync_command(struct core *c, struct raid_cmd *cmd);
/* The array is going to stop: a last checkpoint. */
void resync_stop(struct core *c);
bool resync_stopped(const struct core *c);
void resync_speed(struct core *c, uint64_t min_bps, uint64_t max_bps);
void resync_status(const struct core *c, struct raid_status *out);
const char *resync_check(const struct core *c);

/* Copies differ from this address on, where the resync may have been already. */
void resync_differ(struct core *c, uint64_t addr);

/* ---- among its files ----------------------------------------------------------------------- */

struct resync_plan {
	enum raid_sync_action action;
	enum sync_kind kind;
	uint64_t from, limit;
	bool target[VIEW_SLOTS];
};

/* The most urgent thing to do; false: nothing. */
bool resync_next(const struct core *c, struct resync_plan *out);
/* Is there something to do, though it cannot be done now? */
bool resync_waits(const struct core *c);
uint64_t resync_limit(const struct core *c, enum sync_kind kind);
/* The first part from *lo on that needs something, as the bitmap knows; false: none up to *hi. */
bool resync_needed(const struct core *c, uint64_t *lo, uint64_t *hi);
/* Are orders whole steps (resync.c)? */
bool resync_in_steps(const struct core *c);
/* … as far as an order must go: whole pages, or whole steps. */
void resync_widen(const struct core *c, uint64_t *lo, uint64_t *hi);
/* How far an order from lo may go. */
uint64_t resync_order_end(const struct core *c, uint64_t lo);
/* Bytes of one member in so many bytes of an order. */
uint64_t resync_member_bytes(const struct core *c, uint64_t bytes);
bool resync_is_parity(const struct core *c);

bool resync_mark_run(struct core *c);
bool resync_mark_due(const struct core *c);
void resync_mark_begin(struct core *c, bool last);

#endif
