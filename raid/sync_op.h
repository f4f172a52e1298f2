/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work order of the sync machine (core, resync.c) to the shard: bring [lo, hi) in order, or look
 * whether it is. The shard locks the rows, reads, compares or computes, writes, and answers; it
 * decides nothing about what comes next. Orders are independent of each other and may end in any
 * order.
 *
 *   core  --ask.sync-->       shard   the order
 *   shard --ask.synced-->     core    the answer; the rows are still locked
 *   core  --ask.sync_seen-->  shard   the view says so now: unlock. (Earlier a write could slip in
 *                                     that does not know yet that a target holds these rows.)
 *   shard --ask.sync_idle-->  core    the struct may be used again; late if a member hangs
 *
 * Addresses: bytes of the component (counted from data_offset); for RESYNC, CHECK and REPAIR of
 * level 10 bytes of the array. Whole units of the view; rows of parity levels whole in 4 KiB.
 */
#ifndef RAID_SYNC_OP_H
#define RAID_SYNC_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/base/list.h"
#include "raid/view.h"

enum sync_kind {
	SYNC_RESYNC,  /* copies: the first in-sync slot's over the others; parity: computed anew */
	SYNC_REBUILD, /* the targets' blocks from redundancy */
	SYNC_COPY,    /* a replacement's blocks from the member it replaces, else from redundancy */
	SYNC_CHECK,   /* compare only */
	SYNC_REPAIR,  /* compare, and make good what differs */
};

enum { SYNC_FOUND_MAX = 8, SYNC_LOST_MAX = 64, SYNC_ORDERS_MAX = 16 };

enum sync_order {
	SYNC_ORDER_FREE,
	SYNC_ORDER_OUT,	 /* on its way; what it covers is not done */
	SYNC_ORDER_SEEN, /* answered and looked at; the shard still has it */
};

struct sync_op {
	struct list link;
	uint32_t index; /* which of the shard's jobs carries it out */
	enum sync_kind kind;
	uint64_t lo, hi;
	bool target[VIEW_SLOTS]; /* REBUILD, COPY */

	/* the answer; res 0: done. -EAGAIN: members changed meanwhile, nothing can be said.
	 * -EIO: a block could not be written to a member that may not be failed, or more was lost
	 * than lost[] holds. */
	int res;
	uint64_t mismatch_sectors; /* CHECK, REPAIR, RESYNC: sectors of the component that differed
				    */
	uint32_t found_count;	   /* of found[]; beyond its end only counted */
	struct {
		uint64_t at;  /* as lo */
		uint32_t len; /* bytes */
		int32_t slot; /* the one that is wrong, where redundancy tells; else -1 */
	} found[SYNC_FOUND_MAX];
	/* Blocks that nothing vouches for, for the bad-block log of their member: of a target, they
	 * had no source; RESYNC of parity: an unreadable block and the parity that may be stale. */
	uint32_t lost_count;
	struct {
		uint32_t gslot;
		uint64_t maddr;
		uint32_t len;
	} lost[SYNC_LOST_MAX];
	uint64_t generation; /* of the members it was given for */
	uint64_t started_ns;

	enum sync_order state; /* the core's */
};

#endif
