/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The write-intent bitmap of a running array (md-format §11.2, rule 3): which chunks may differ
 * between members. Part of the core; private to the engine's files.
 *
 *   intent.c        asks of the shard, what is known of every chunk, what others ask about chunks
 *   intent_pages.c  pages on their way to the members
 *   intent_sweep.c  when a bit may be cleared
 *   intent_cmd.c    memory; loading, adding and removing a bitmap
 *
 * Three sets of bits, one bit per chunk:
 *
 *   set      what every page says that is written from now on
 *   durable  set on every member that holds the bitmap, and not about to be cleared on any
 *   needed   members may differ, nothing vouches for the chunk: a resync must see to it
 *
 * durable and needed are subsets of set; a write goes out only while its bits are durable. Beside
 * them a count per chunk: 0 not set; 1, 2 set and nobody writes; above 2 so many less 2 write. A
 * sweep every daemon_sleep takes 2 to 1 and 1 to 0 (intent_sweep.c).
 *
 * A page is copied into a buffer of its own for every member before it goes out; what changes
 * meanwhile is written after it. A member that comes to hold a slot later gets every page once
 * before it is *whole*; until then its header says that the bitmap there is stale.
 */
#ifndef RAID_INTENT_H
#define RAID_INTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/bitmap_fmt.h"
#include "raid/iop.h"
#include "raid/raid.h"
#include "raid/view.h"

struct core;

enum {
	INTENT_LANES = 4, /* pages on their way at a time */
	INTENT_COUNT_IDLE = 2,
	INTENT_COUNT_MAX = 0x7fff,
	INTENT_AGAIN = 0x8000, /* needed anew while it was being resynced */
};

enum intent_state {
	INTENT_NONE,	  /* no bitmap: what is asked is granted at once */
	INTENT_READ_ONLY, /* it says where members may differ, nothing is written */
	INTENT_ADDING,	  /* pages are being written; the superblocks do not name it yet */
	INTENT_ON,
	INTENT_REMOVING, /* kept up until the superblocks no longer name it */
};

enum intent_sweep_state {
	SWEEP_IDLE,
	SWEEP_FLUSH,  /* what the bits guard must be durable on all members */
	SWEEP_META,   /* a superblock update is under way: which events do all have? */
	SWEEP_HEADER, /* events_cleared goes out */
	SWEEP_PAGES,  /* counts are taken down, page by page */
};

/* A page on its way to all members that hold the bitmap. */
struct intent_lane {
	bool busy, fill;
	uint32_t page;
	uint32_t out;	     /* members it has not come back from */
	uint64_t header_seq; /* page 0: which header it carries */
	uint8_t *image;	     /* BM_PAGE_BYTES, as it went out; of page 0 the bits only */
};

struct intent_io {
	struct slot *slot; /* .of is the struct intent_lane */
	uint8_t *page;	   /* BM_PAGE_BYTES, the member's own copy */
	bool waited;	   /* the lane counts on it */
	bool retried;
};

struct intent_member {
	bool whole; /* every page on it is ours */
	struct intent_io io[INTENT_LANES];
};

struct intent {
	enum intent_state state;
	void *memory; /* all below; freed when no io names it any more */
	uint64_t memory_bytes;
	struct slot_pool pool;
	uint32_t places;  /* members there can be */
	uint32_t members; /* of them in member[]; 0 without memory */
	struct intent_member *member;

	struct bm_header header;
	uint64_t header_seq, header_durable; /* counts changes of the header */
	uint64_t events_seq;		     /* … when it got the newest events */
	int32_t offset_sectors;
	uint64_t bits;
	uint32_t pages;
	uint64_t *set, *durable, *needed;
	uint16_t *count;
	uint64_t set_count, needed_count;

	/* Pages: one bit each. */
	uint64_t *urgent;  /* somebody waits for it */
	uint64_t *changed; /* to be written */
	uint64_t *in_lane;
	uint32_t pick_from;
	uint32_t fill_next; /* next page to be written because a member is not whole */
	struct intent_lane lane[INTENT_LANES];
	uint32_t out;

	/* Chunks with set bit, count 1 or 2, not needed: per page and all; those with count 1. */
	uint32_t *page_idle;
	uint64_t idle_count, ripe_count;

	bool active;   /* something was or is to be written: pages may go out */
	bool stopping; /* the last sweep takes all that may be cleared */
	bool swept;    /* … and has done so */
	enum intent_sweep_state sweep;
	uint32_t sweep_page;
	uint64_t sweep_round, sweep_seq;
	uint64_t sweep_at_ns;

	/* struct ask_intent: not durable yet; a count was at its limit */
	struct list waiting, full;
	uint32_t generation; /* of this bitmap, as ask_intent.counted says; 0 is never used */
	uint32_t granted;    /* asks granted and not ended */
	uint32_t uncounted;  /* of those, granted before there was this bitmap */

	struct raid_cmd *cmd; /* ADD, REMOVE under way */
	uint64_t cmd_changes; /* meta.changes that it waits for; 0: not yet */
};

/* ---- for the drive ------------------------------------------------------------------------- */

void intent_init(struct intent *n);
bool intent_run(struct core *c);
void intent_emit(struct core *c); /* once a step, when nothing else moves */
void intent_io_done(struct core *c, struct slot *s);
void intent_member_left(struct core *c, uint32_t m);
uint64_t intent_deadline(const struct core *c);
/* The array is going to stop: clear what may be cleared. */
void intent_stop(struct core *c);
bool intent_stopped(const struct core *c);
void intent_destroy(struct intent *n);

/* ---- for superblock updates (meta.c) ------------------------------------------------------- */

/* events of the update that is about to be written: the header must have them first. */
void intent_events(struct core *c, uint64_t events);
bool intent_events_durable(const struct core *c);
/* Do superblocks that are decided now name it? feature_map and bitmap_offset of an image. */
bool intent_named(const struct core *c);
void intent_in_superblock(const struct core *c, bool named, const struct raid_member_props *props,
			  struct sb *sb);

/* ---- for the sync machine ------------------------------------------------------------------ */

/*
 * Addresses: bytes as in view.unsynced_from. Without a bitmap everything is needed and set.
 * The first run within [from, end) of what needs a resync; false: there is none.
 */
bool intent_next_needed(const struct core *c, uint64_t from, uint64_t end, uint64_t *lo,
			uint64_t *hi);
/* … of chunks whose bit is set: what a member that was away may have missed. */
bool intent_next_set(const struct core *c, uint64_t from, uint64_t end, uint64_t *lo, uint64_t *hi);
bool intent_is_set(const struct core *c, uint64_t lo, uint64_t hi);
/*
 * All of [lo, hi) was brought in order in this pass: chunks that lie in it whole need no resync any
 * more. (It need not be durable: no bit is cleared before a flush.) Returns the end of the last
 * whole chunk: the lo of the next call, so that no chunk is reported twice.
 */
uint64_t intent_synced(struct core *c, uint64_t lo, uint64_t hi);
/* In-sync members may differ in [lo, hi): a resync is needed there. */
void intent_mark_needed(struct core *c, uint64_t lo, uint64_t hi);
/* Bytes of the chunks that are needed, for progress. */
uint64_t intent_needed_bytes(const struct core *c);

/* ---- for members --------------------------------------------------------------------------- */

/* A member holds a slot now: it gets all pages. Before it counts as in sync it must be whole. */
void intent_member_joined(struct core *c, uint32_t m);
bool intent_member_whole(const struct core *c, uint32_t m);
/* Has a member that last knew events missed only chunks whose bits are set? */
bool intent_covers(const struct core *c, uint64_t events);
/* Is there room for the bitmap on a device with this superblock? 0, or -ENOSPC with the reason. */
int intent_fits(const struct core *c, const struct sb *sb, const struct raid_member_props *props,
		char why[RAID_WHY_BYTES]);

/* ---- for shape, status, checks ------------------------------------------------------------- */

uint64_t intent_memory(const struct assembly *as, uint32_t members);
int intent_create(struct core *c, const struct raid_config *cfg, uint32_t members,
		  char why[RAID_WHY_BYTES]);
/* 0: under way, answered later; else the answer. */
int intent_cmd_add(struct core *c, struct raid_cmd *cmd);
int intent_cmd_remove(struct core *c, struct raid_cmd *cmd);
bool intent_cmd_run(struct core *c);
bool intent_durable(const struct core *c, const struct ask_intent *a);
uint32_t intent_in_flight(const struct core *c, uint32_t m);
const char *intent_check(const struct core *c);

/* ---- among the files of intent ------------------------------------------------------------- */

bool intent_kept_up(const struct core *c);
/* Every state of a chunk changes here: sums stay right. */
void intent_chunk(struct intent *n, uint64_t bit, bool set, uint16_t count, bool needed);
void intent_change_page(struct intent *n, uint64_t page);
void intent_header_changed(struct intent *n);
void intent_fill(struct core *c); /* some member is not whole */
bool intent_filling(const struct core *c);
bool intent_pages_settled(const struct core *c);
void intent_grant(struct core *c);
bool intent_sweep_run(struct core *c);

#endif
