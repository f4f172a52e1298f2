/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of parity levels: what writes them, and what reads blocks that only redundancy can give.
 * Part of the shard; private to its files.
 *
 *   stripe.c       states, who joins whom, order
 *   stripe_plan.c  the one decision: which blocks are read, which written (pure)
 *   stripe_calc.c  parity and reconstruction (pure, over the stripe's buffers)
 *   stripe_rows.c  what a stripe covers, what is decided about it, what it computes
 *   stripe_io.c    ios out and back, errors, retries, deadlines, verdicts
 *   stripe_undo.c  putting a row back (rule 6)
 *   stripe_read.c  READs that need rows
 *   stripe_memory.c, stripe_check.c
 *
 * A *cell* is min(chunk, 64 KiB) of a row on all members. A stripe is one batch of work on one
 * cell: parts of fragments that are written together, or a part of a READ whose blocks cannot be
 * read where they lie. It is taken from a fixed pool and holds all it will ever need: buffers for
 * every slot of the cell, twice (as read, to be written), and ios. A fragment of a WRITE, TRIM or
 * ZERO lies within one cell (plan_split), so it needs one stripe: it joins the one that gathers for
 * its cell, or takes a free one, or waits in the FIFO holding nothing.
 *
 * Order (rule 7): a stripe locks the bytes of the component that it touches in shard.rows when it
 * stops gathering. A write to bytes that the gathering stripe has already is not taken in: the
 * stripe stops gathering and the write starts the next one. The sync machine's orders lock their
 * rows in the same table.
 *
 * All decisions are made per 4 KiB of the cell (a *sub-row*), from one snapshot of the view; if
 * members change while blocks are read, everything is decided again before anything is written.
 *
 * Blocks of a row are counted by *index*: data blocks in the order of addresses, then P, then Q.
 * What is known of them is kept as masks, a bit for each sub-row.
 */
#ifndef RAID_STRIPE_H
#define RAID_STRIPE_H

#include "raid/geometry.h"
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

/* ---- the machine --------------------------------------------------------------------------- */

/*
 * States of a stripe (stripe.c: stripe_set_state() checks the table):
 *
 *   FREE      in the pool
 *   GATHER    takes fragments in; still on shard.stripes.gathering
 *   LOCK      waits for its place among the rows
 *   INTENT    its bits in the bitmap are not durable yet
 *   DIRTY     superblocks do not say dirty yet
 *   READ      blocks that are needed are being read (none: passes through)
 *   WRITE     blocks are being written
 *   VERIFY    rewritten blocks that had been unreadable are read back
 *   UNDO      a write failed at the redundancy limit: old blocks go back
 *   LINGER    everything is answered; ios that hang still name its memory, or the bitmap has not
 *             heard yet
 *   HUSK      nothing of it is left but a kit that hung reads still name
 */
enum stripe_state {
	ST_FREE,
	ST_GATHER,
	ST_LOCK,
	ST_INTENT,
	ST_DIRTY,
	ST_READ,
	ST_WRITE,
	ST_VERIFY,
	ST_UNDO,
	ST_LINGER,
	ST_HUSK,
	ST_STATES,
};

/* A bit for each sub-row of the cell. */
typedef uint16_t stripe_mask;

/* Memory and ios; a stripe whose reads hang leaves its kit to a husk and takes the husk's. */
struct stripe_kit {
	uint8_t *old; /* a cell for each index: as read, or computed */
	uint8_t *now; /* … to be written, where it is not the payload itself */
	struct slot_pool pool;
};

struct stripe {
	struct list link;   /* of its state */
	struct list active; /* shard.stripes.active while not FREE */
	enum stripe_state state;
	struct stripe_kit *kit;
	struct list slots; /* slot.link: ios held or out */
	uint32_t out;	   /* … how many */
	uint32_t pending;  /* of them, waited for */

	/* the cell */
	uint64_t row_no;
	uint32_t inside; /* where it begins in its chunks */
	struct geo_row row;
	uint32_t blocks;    /* data + parity */
	stripe_mask rows;   /* touched in any block */
	struct range range; /* bytes of the component */
	enum frag_intent intent_state;
	struct ask_intent intent;

	/* whom it serves: fragments that write … */
	struct list frags; /* frag.in_stripe */
	uint32_t frag_count;
	uint64_t gather_ns;
	bool hold; /* its last fragment belongs to a stream that goes on in this row */
	bool fua;
	enum raid_io_op op; /* WRITE; DISCARD, ZERO: the whole row */
	/* … or a part of a READ, or a block that a READ could not get */
	bool read_only;
	bool writes; /* counts among those that write */
	struct frag *reader;
	struct slot *waiter;
	uint64_t read_addr, read_len;

	/* decided */
	uint64_t members_generation; /* of the view it was decided on */
	bool again;		     /* a read failed: decide again */
	uint8_t method[STRIPE_SUBS_MAX];
	stripe_mask lost; /* cannot be done */
	stripe_mask undo; /* a write failed where the member cannot be failed */

	/* by index */
	stripe_mask touched[RAID_SLOTS_MAX]; /* WRITE: data; READ: wanted */
	stripe_mask full[RAID_SLOTS_MAX];    /* given as a whole */
	stripe_mask bad[RAID_SLOTS_MAX];     /* could not be read */
	stripe_mask need[RAID_SLOTS_MAX];    /* to be read */
	stripe_mask have[RAID_SLOTS_MAX];    /* in old */
	stripe_mask write[RAID_SLOTS_MAX];   /* to be written */
	stripe_mask fix[RAID_SLOTS_MAX];     /* of those: had been unreadable, are read back */
	stripe_mask todo[VIEW_SLOTS]; /* not given to an io yet; by index + VIEW_TWIN: twin's */
	uint8_t busy[VIEW_SLOTS];     /* ios out on it, by the same */

	uint16_t *covered;    /* [index * subs + sub] bytes given */
	const uint8_t **from; /* … what is to be written there; NULL: what is there stays */
};

/* stripe.c */
void stripe_set_state(struct stripe *st, enum stripe_state to);
bool stripe_join(struct shard *sh, struct frag *f); /* false: no stripe is free */
bool stripe_run(struct shard *sh);		    /* whatever can move; whether anything did */
void stripe_close_all(struct shard *sh);	    /* a FLUSH came: nobody waits any longer */
uint64_t stripe_deadline(const struct shard *sh);
void stripe_granted(struct shard *sh, struct stripe *st);
struct stripe *stripe_take(struct shard *sh);
void stripe_begin(struct shard *sh, struct stripe *st);	  /* all it covers is known: lock */
void stripe_advance(struct shard *sh, struct stripe *st); /* pending is 0 */
void stripe_maybe_free(struct shard *sh, struct stripe *st);
void stripe_fail_frags(struct shard *sh, struct stripe *st, stripe_mask rows, int err);
void stripe_intent(struct shard *sh, struct stripe *st); /* the core has answered */

/* stripe_check.c */
const char *stripe_check(struct shard *sh, uint32_t in_flight[], uint32_t *writes,
			 uint32_t *ranges);
uint32_t stripe_waiters(const struct shard *sh, const struct frag *f);

/* stripe_memory.c */
struct stripe_shape {
	uint32_t parity; /* 0: a level without stripes */
	uint32_t slots, chunk, cell, subs;
	uint32_t most, total; /* as in struct stripes */
	uint32_t ios;	      /* of each */
	uint64_t hold_ns;
};

void stripe_shape_of(const struct geometry *g, uint32_t chunk_bytes,
		     const struct raid_limits *limits, struct stripe_shape *s);
uint64_t stripe_memory_bytes(const struct stripe_shape *s);
void stripe_create(struct shard *sh, const struct stripe_shape *s, uint8_t *memory);

/* stripe_rows.c */
bool stripe_whole_row(const struct shard *sh, uint64_t addr, uint64_t len);
uint64_t stripe_cell_end(const struct shard *sh, uint64_t addr); /* array address */
void stripe_place(struct shard *sh, struct stripe *st, uint64_t addr);
bool stripe_same_cell(const struct shard *sh, const struct stripe *st, uint64_t addr);
void stripe_want(struct shard *sh, struct stripe *st, uint64_t addr, uint64_t len);
void stripe_cover(struct shard *sh, struct stripe *st, const struct frag *f);
void stripe_cover_again(struct shard *sh, struct stripe *st);
bool stripe_full(const struct shard *sh, const struct stripe *st);
void stripe_decide_all(struct shard *sh, struct stripe *st);
bool stripe_can_do_without(const struct shard *sh, const struct stripe *st, const struct slot *s);
stripe_mask stripe_rows_of(const struct shard *sh, const struct stripe *st, uint64_t addr,
			   uint64_t len);
void stripe_copy_out(const struct shard *sh, const struct stripe *st, uint8_t *to);
void stripe_compute(struct shard *sh, struct stripe *st);
uint32_t stripe_gslot(const struct stripe *st, uint32_t index);
uint64_t stripe_maddr(const struct shard *sh, const struct stripe *st, uint32_t index,
		      uint32_t sub);
uint8_t *stripe_old(const struct shard *sh, const struct stripe *st, uint32_t index, uint32_t sub);
uint8_t *stripe_now(const struct shard *sh, const struct stripe *st, uint32_t index, uint32_t sub);

/* stripe_io.c */
bool stripe_emit_reads(struct shard *sh, struct stripe *st); /* false: nothing to be read */
void stripe_emit_writes(struct shard *sh, struct stripe *st);
bool stripe_emit_verify(struct shard *sh, struct stripe *st); /* false: nothing to be verified */
bool stripe_emit_undo(struct shard *sh, struct stripe *st);   /* false: nothing to be put back */
void stripe_io_done(struct shard *sh, struct stripe *st, struct slot *s);
void stripe_judged(struct shard *sh, struct stripe *st, struct slot *s);
void stripe_late(struct shard *sh, struct stripe *st, struct slot *s);
void stripe_members_changed(struct shard *sh);

/* stripe_undo.c */
void stripe_undo(struct shard *sh, struct stripe *st);
void stripe_undone(struct shard *sh, struct stripe *st);

/* stripe_read.c */
bool stripe_plan_read(struct shard *sh, struct frag *f);    /* in place of plan_read() */
bool stripe_read_run(struct shard *sh);			    /* READs that wait for a stripe */
void stripe_read_done(struct shard *sh, struct stripe *st); /* its blocks are there, or lost */
void stripe_wait_block(struct shard *sh, struct slot *s);
enum other stripe_other(struct shard *sh, const struct slot *s); /* could its row do without it? */

#endif
