/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of parity levels: what writes them, and what reads blocks that only redundancy can give.
 * Part of the shard; private to its files.
 *
 *   stripe.c       states, who joins whom, order
 *   stripe_plan.c  the one decision: which blocks are read, which written (pure)
 *   stripe_calc.c  parity, reconstruction, edges (pure, over the stripe's buffers)
 *   stripe_io.c    ios out and back, errors, retries, deadlines, putting a row back (rule 6)
 *
 * A *cell* is min(chunk, 64 KiB) of a row on all members. A stripe is one batch of work on one
 * cell: parts of fragments that are written together, or a part of a READ whose blocks cannot be
 * read where they lie. It is taken from a fixed pool and holds all it will ever need: buffers for
 * every slot of the cell, twice (as read, to be written), and ios. A fragment of a WRITE, TRIM or
 * ZERO lies within one cell (plan_split), so it needs one stripe: it joins the one that gathers for
 * its cell, or takes a free one, or waits in the FIFO holding nothing.
 *
 * Order (rule 7): a stripe locks the byte range of the component that it touches in shard.rows, in
 * the order in which stripes stopped gathering... a later write to the same bytes never joins: the
 * gathering stripe is closed and the write starts the next one. The sync machine's orders lock
 * their rows in the same table.
 *
 * All decisions are made per 4 KiB of the cell (a sub-row), from one snapshot of the view; if
 * members change meanwhile, ios that are out are waited for or disowned, and what has not been
 * written is decided again.
 */
#ifndef RAID_STRIPE_H
#define RAID_STRIPE_H

#include "raid/shard.h"

enum {
	STRIPE_CELL_MAX = 65536,
	STRIPE_SUB = 4096,
	STRIPE_SUBS_MAX = STRIPE_CELL_MAX / STRIPE_SUB,
};

/* How a sub-row is written. */
enum stripe_method {
	STRIPE_NONE,	  /* nothing of it is touched */
	STRIPE_FULL,	  /* every data block is given: no read */
	STRIPE_RMW,	  /* old data of what is touched and old parity; parity by difference */
	STRIPE_RCW,	  /* the data blocks that are not (wholly) given; parity anew */
	STRIPE_RECOVER,	  /* everything that can be read; the rest by parity; parity anew */
	STRIPE_DATA_ONLY, /* no member takes parity: data only */
	STRIPE_LOST,	  /* cannot be done: too much is missing, or parity is stale (rule 5) */
};

/* What the decision sees of one slot in one sub-row. */
enum stripe_cover { COVER_NONE, COVER_PART, COVER_FULL };

struct stripe_sub_in {
	uint32_t data;	 /* data slots of the row */
	uint32_t parity; /* 1, 2 */
	/* index 0..data-1: data blocks in address order; data: P; data + 1: Q */
	enum stripe_cover cover[RAID_SLOTS_MAX]; /* of data blocks */
	bool readable[RAID_SLOTS_MAX]; /* good, not listed as bad, has not failed a read */
	bool writable[RAID_SLOTS_MAX]; /* a member is there that gets writes */
	bool stale;		       /* parity may be stale */
	bool keep_old;	/* at the redundancy limit: old blocks must be at hand (rule 6) */
	bool read_only; /* a READ: recover the blocks of want, write nothing */
	bool want[RAID_SLOTS_MAX]; /* READ: these */
};

struct stripe_sub_out {
	enum stripe_method method;
	bool read[RAID_SLOTS_MAX];  /* into the old buffers */
	bool write[RAID_SLOTS_MAX]; /* data blocks that are touched, parity that is computed */
	uint32_t reads;
};

/* The one decision (DESIGN §5; raid-lessons §6): fewest reads among what is allowed; a tie goes to
 * RMW for P only, to RCW for P and Q. */
void stripe_decide(const struct stripe_sub_in *in, struct stripe_sub_out *out);

/*
 * The blocks of one sub-row, or of several that are alike. Indexes as in stripe_sub_in. Buffers are
 * PARITY_ALIGN_BYTES aligned, len a multiple of it.
 */
struct stripe_calc {
	const struct geo_row *row; /* exponents */
	uint32_t parity;
	uint32_t len;
	void *old[RAID_SLOTS_MAX];	 /* as read, or to be computed */
	const void *now[RAID_SLOTS_MAX]; /* data blocks as they will be; NULL: as they are */
	void *made[2];			 /* new P, Q; NULL: not wanted */
};

/*
 * Compute into old[] the data blocks that were not read: all data blocks with have[] false, at most
 * as many as there are parity blocks with have[] true.
 */
void stripe_recover(const struct stripe_calc *c, const bool have[RAID_SLOTS_MAX]);

/*
 * Make the parity that made[] wants. RMW: from old parity (old[data], old[data + 1]) and the
 * difference of the blocks that have a now[]. Others: from all data blocks, now[] before old[].
 */
void stripe_parity(const struct stripe_calc *c, enum stripe_method method);

#endif
