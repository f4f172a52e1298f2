/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What passes between the two halves of an array (core: member, meta, flush; shard: fragments,
 * ranges, reads and writes). Neither calls the other:
 *
 *   view  the core writes it while the shard does not run; the shard only reads.
 *   ask   the shard queues what it wants decided, the core takes it and answers by items.
 *
 * So a later version can give an array several shards, each on its own core of the machine, without
 * touching their files.
 */
#ifndef RAID_VIEW_H
#define RAID_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/badblocks_fmt.h"
#include "raid/base/list.h"
#include "raid/geometry.h"
#include "raid/types.h"

struct view_slot {
	bool in_sync; /* read from it, write to it */
	bool write_mostly;
	bool rotational;
	bool can_punch, can_zero;
	uint32_t member;	   /* raid_io.member */
	uint32_t max_io_bytes;	   /* multiple of view.unit; UINT32_MAX: no limit */
	uint64_t end_maddr;	   /* no io goes beyond: end of the data in whole logical blocks */
	const struct bb_list *bad; /* NULL: nothing listed */
};

struct view {
	uint64_t generation;	     /* rises with every change */
	uint64_t members_generation; /* … of slot[].in_sync */
	const struct geometry *geo;
	uint64_t size_bytes;
	/* All ios are multiples of it, in array addresses (linear: counted from the member's
	 * start): the largest logical block or memory alignment of any member. */
	uint32_t unit;
	bool redundant;
	bool read_only;		/* nothing is written, ever */
	bool broken;		/* no more writes: superblocks can no longer be kept */
	bool flush_lost;	/* FLUSH and FUA answer -EIO */
	bool write_open;	/* superblocks say dirty: data may be written */
	bool fail_pending;	/* a member failed and the survivors do not say so durably yet */
	bool any_bad;		/* some member lists bad blocks */
	uint64_t unsynced_from; /* array byte from which copies may differ */
	struct view_slot slot[RAID_SLOTS_MAX];
};

/* Repaired read errors of one slot since the core last looked. */
struct ask_repaired {
	uint32_t errors, sectors;
};

/* Part of what wants a flush before it goes on. */
struct ask_flush {
	struct list link;
	int res; /* the answer */
};

struct ask {
	/* struct slot by .ask: a member did not do this io. Answer: verdict set, on judged. */
	struct list failed, judged;
	/* struct ask_flush: flush, then go on. Answer: on flushed, with res. */
	struct list flush, flushed;
	bool need_dirty;	/* writes wait for view.write_open */
	uint32_t writes_active; /* fragments and repairs that write or are going to */
	uint64_t idle_since_ns; /* when writes_active last became 0 */
	uint64_t differ_from; /* a write failed on some copies: from this array byte they differ */
	bool repaired_any;
	struct ask_repaired repaired[RAID_SLOTS_MAX];
};

#endif
