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

/*
 * slot[k] is the member that holds slot k of the geometry, slot[VIEW_TWIN + k] the replacement that
 * is being filled from it. struct slot.gslot counts the same way. Both have the geometry's data
 * offset of slot k, which never changes: the same maddr on either.
 */
enum { VIEW_TWIN = RAID_SLOTS_MAX, VIEW_SLOTS = 2 * RAID_SLOTS_MAX };

enum { VIEW_TWINS_MAX = 2 }; /* replacements at a time: what ios are reserved for */

struct view_slot {
	bool in_sync; /* every block of it is good: read from it, write to it */
	bool writes;  /* it gets the slot's writes: in sync, being rebuilt, or a replacement */
	/* Being rebuilt: its blocks below this are good (bytes from data_offset, as far as all
	 * earlier ones are done). in_sync: UINT64_MAX; nobody: 0. See view_good(). */
	uint64_t good_below;
	bool filling; /* the sync machine is at it: view.sync_done_mask counts for it */
	bool write_mostly;
	bool failfast; /* the first error is the last, unless nobody else has the block */
	bool rotational;
	bool can_punch, can_zero;
	uint32_t member;	   /* raid_io.member */
	uint32_t max_io_bytes;	   /* multiple of view.unit; UINT32_MAX: no limit */
	uint64_t end_maddr;	   /* no io goes beyond: end of the data in whole logical blocks */
	const struct bb_list *bad; /* NULL: nothing listed */
};

struct view {
	uint64_t generation;	     /* rises with every change */
	uint64_t members_generation; /* … of slot[].in_sync, writes, member */
	const struct geometry *geo;
	uint64_t size_bytes;
	/* All ios are multiples of it, in array addresses (linear: counted from the member's
	 * start): the largest logical block or memory alignment of any member. */
	uint32_t unit;
	bool redundant;
	bool read_only;	   /* nothing is written, ever */
	bool broken;	   /* no more writes: superblocks can no longer be kept */
	bool flush_lost;   /* FLUSH and FUA answer -EIO */
	bool write_open;   /* superblocks say dirty: data may be written */
	bool fail_pending; /* a member failed and the survivors do not say so durably yet */
	bool any_bad;	   /* some member lists bad blocks */
	/* From here on copies may differ, or parity be stale: array bytes for levels 1 and 10,
	 * bytes of the component for 4, 5 and 6. With a bitmap only where it says so:
	 * view_unsynced(). */
	uint64_t unsynced_from;
	/* One bit per chunk of 1 << chunk_shift bytes: those that need a resync. NULL: no bitmap,
	 * all from unsynced_from on. */
	const uint64_t *unsynced_chunks;
	uint64_t chunks;
	uint32_t chunk_shift;
	/* Rebuild of parity levels: steps of sync_step bytes are done in any order; bit i: step i
	 * from sync_low on is done, on those members that are being filled just now. */
	uint64_t sync_done_mask, sync_low;
	uint32_t sync_step;
	struct view_slot slot[VIEW_SLOTS];
};

/*
 * Is [lo, hi) (bytes from data_offset) good on this member? Rebuilt steps beyond good_below count
 * when they are whole in the mask.
 */
static inline bool view_good(const struct view *v, uint32_t gslot, uint64_t lo, uint64_t hi)
{
	const struct view_slot *s = &v->slot[gslot];

	if (hi <= s->good_below) {
		return true;
	}
	if (!s->filling || s->in_sync) {
		return s->in_sync;
	}
	for (uint64_t at = lo > s->good_below ? lo : s->good_below; at < hi;) {
		uint64_t step = (at - v->sync_low) / v->sync_step;

		if (step >= 64 || !(v->sync_done_mask >> step & 1)) {
			return false;
		}
		at = v->sync_low + (step + 1) * v->sync_step;
	}
	return true;
}

/* May copies differ, or parity be stale, anywhere in [lo, hi)? Bytes as of unsynced_from. */
static inline bool view_unsynced(const struct view *v, uint64_t lo, uint64_t hi)
{
	lo = lo > v->unsynced_from ? lo : v->unsynced_from;
	if (lo >= hi || !v->unsynced_chunks) {
		return lo < hi;
	}
	for (uint64_t i = lo >> v->chunk_shift; i <= (hi - 1) >> v->chunk_shift; i++) {
		if (i < v->chunks && v->unsynced_chunks[i / 64] >> i % 64 & 1) {
			return true;
		}
	}
	return false;
}

/*
 * An io knows the slot it was meant for and the member it went to. Does that member still give, or
 * get, the slot's data? It may have left, and another may have the slot; or, being a twin, it may
 * have got the slot itself: then the shard renames its ios before it looks (frag.c).
 */
static inline bool view_gives(const struct view *v, uint32_t gslot, uint32_t member)
{
	return v->slot[gslot].in_sync && v->slot[gslot].member == member;
}

static inline bool view_gets(const struct view *v, uint32_t gslot, uint32_t member)
{
	return v->slot[gslot].writes && v->slot[gslot].member == member;
}

/* Are these bytes of a member good, though it is only being rebuilt? maddr as geo_map() gives. */
static inline bool view_rebuilt(const struct view *v, uint32_t gslot, uint64_t maddr, uint64_t len)
{
	const struct view_slot *s = &v->slot[gslot];
	uint64_t lo;

	if (gslot >= VIEW_TWIN || s->in_sync || !s->writes) {
		return false;
	}
	lo = maddr - v->geo->p.slot[gslot].data_offset_sectors * RAID_SECTOR_BYTES;
	return view_good(v, gslot, lo, lo + len);
}

/* Has a good write reached blocks that the member lists as bad? Then: ask.wrote_bad. */
static inline bool view_wrote_bad(const struct view *v, uint32_t gslot, uint64_t maddr,
				  uint64_t len)
{
	struct bb_range hit;

	return v->slot[gslot].bad && bb_find(v->slot[gslot].bad, maddr, len, &hit);
}

/*
 * A write and the bitmap (rule 3; md-format §11.2). BEGIN: before data goes anywhere; answered on
 * intent_granted when the bits of [lo, hi) are durable, or the array takes no more writes
 * (view.broken). Answers need not come in the order of the questions. END, with the same lo and hi:
 * the write is over; missed: members that are in sync may differ now (not: one was failed for it).
 * Units as of view.unsynced_from, widened by the core to chunks. Without a bitmap the core grants
 * at once. The struct is the core's from BEGIN to granted, and from END until it comes back on
 * intent_ended.
 */
struct ask_intent {
	struct list link;
	uint64_t lo, hi;
	bool end;
	bool missed;
	bool of_stripe;	  /* the asker's: what it is part of */
	uint32_t counted; /* the core's: the bitmap that counts this write, 0: none */
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
	/* struct slot by .ask: a good WRITE of blocks that the member lists as bad. Answer: on
	 * judged, when they are durably off the list. view_wrote_bad() */
	struct list wrote_bad;
	/* struct ask_flush: flush, then go on. Answer: on flushed, with res. */
	struct list flush, flushed;
	/* struct ask_intent; answers on granted and ended */
	struct list intent, intent_granted, intent_ended;
	/* struct sync_op: the core's work orders to the shard, and what came of them (sync_op.h) */
	struct list sync, synced, sync_seen, sync_idle;
	bool need_dirty;	/* writes wait for view.write_open */
	uint32_t writes_active; /* fragments and repairs that write or are going to */
	uint64_t idle_since_ns; /* when writes_active last became 0 */
	uint64_t differ_from; /* a write failed on some copies: from this array byte they differ */
	bool repaired_any;
	bool row_inconsistent; /* rule 6: no more writes */
	struct ask_repaired repaired[VIEW_SLOTS];
};

#endif
