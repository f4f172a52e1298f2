/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O half of an array: fragments from admission to answer. Private to the engine's files.
 *
 *   admit.c   admission (one FIFO)
 *   frag.c    the states of a fragment, answers
 *   plan.c    how requests are cut, and which ios carry a fragment out
 *   choose.c  which copy a read takes
 *   retry.c   ios that failed: again, block by block, from another copy; verdicts
 *   late.c    reads past their deadline: answered through other buffers
 *   repair.c  rewriting unreadable blocks
 *
 * These files include view.h and never array.h: what they know of the members is the view, what
 * they want decided goes through ask.
 */
#ifndef RAID_SHARD_H
#define RAID_SHARD_H

#include "raid/base/arena.h"
#include "raid/events.h"
#include "raid/iop.h"
#include "raid/raid.h"
#include "raid/range.h"
#include "raid/view.h"

enum {
	SHARD_CELLS_MAX = 32,  /* chunks (or largest ios) of one fragment */
	SHARD_IOVS = 24,       /* iovecs of one io of a striped level */
	SHARD_JOBS = 8,	       /* repairs at a time */
	SHARD_SHED_MAX = 64,   /* fragments' old buffers that hung ios hold */
	SHARD_KITS_MAX = 2,    /* second chances that nothing else can take */
	SHARD_BLOCK = 4096,    /* what an io is cut into after an error */
	SHARD_STREAM = 65536,  /* a READ shorter than this stays with its stream's disk */
	SHARD_SPREAD = 262144, /* a READ this long may be spread over idle mirrors */
};

/*
 * States of a fragment (frag.c: frag_set_state() checks the table):
 *
 *   FREE        in the pool
 *   WAIT_RANGE  WRITE, TRIM, ZERO: admitted, holds all it needs; an earlier write overlaps
 *   WAIT_INTENT range granted; its bits in the bitmap are not durable yet
 *   WAIT_DIRTY  superblocks do not say dirty yet
 *   STRIPE      levels 4, 5, 6: part of a stripe, whose states count (stripe.h)
 *   EDGES       blocks that the payload covers only in part are being read
 *   DATA        ios of the current window are out
 *   WAIT_SHED   a READ hung; waits for another buffer to start again with
 *   WAIT_FLUSH  FUA of TRIM and ZERO: in a flush round
 *   WAIT_META   done but for the superblocks that must say who missed it (rule 1)
 *   ANSWERED    done was given. READ: until its release. Others: until their last io is back
 *   SHED        no request: keeps a buffer until the hung ios that name it are back
 */
enum frag_state {
	FRAG_FREE,
	FRAG_WAIT_RANGE,
	FRAG_WAIT_INTENT,
	FRAG_WAIT_DIRTY,
	FRAG_STRIPE,
	FRAG_EDGES,
	FRAG_DATA,
	FRAG_WAIT_SHED,
	FRAG_WAIT_FLUSH,
	FRAG_WAIT_META,
	FRAG_ANSWERED,
	FRAG_SHED,
	FRAG_STATES,
};

/* What a window of a fragment does. */
enum frag_kind { FRAG_READ, FRAG_WRITE, FRAG_ZERO_WRITE, FRAG_ZERO_IO, FRAG_DISCARD };

/* What the bitmap knows of it. */
enum frag_intent { FRAG_INTENT_FREE, FRAG_INTENT_ASKED, FRAG_INTENT_HELD, FRAG_INTENT_ENDING };

struct kit;
struct sync_job; /* sync_job.h */
struct stripe;

struct frag {
	struct list link;   /* list of its state */
	struct list active; /* shard.active while not FREE */
	struct raid_req *req;
	enum frag_state state;
	enum frag_kind kind;
	bool delivered; /* next_done gave the request away */
	uint32_t sheds; /* hung copies it has turned away from */
	bool restart;	/* READ: the member left meanwhile; read the window again */
	bool redo_zero; /* a DISCARD or ZERO io failed: write zeroes instead */
	bool did_some;	/* … while another had succeeded */
	bool bounce;	/* WRITE: buf holds a copy of the payload */
	bool missed;	/* copies may differ now */
	int err;
	uint64_t lo, hi;	 /* the request widened to whole units */
	uint64_t window, cursor; /* the window in work is [window, cursor) */
	struct range range;
	struct ask_flush rider;
	enum frag_intent intent_state;
	struct ask_intent intent;
	void *buf; /* READ data; WRITE edges: head at 0, tail at 4096 */
	struct kit *kit;
	struct list slots; /* slot.link: every io held for it */
	uint32_t out;	   /* ios on that list */
	uint32_t pending;  /* of them, counted */
	uint32_t reserved; /* slots promised by its pool */

	/* levels 4, 5, 6 */
	struct list in_stripe; /* WRITE …: stripe.frags; READ: stripes.read_wait */
	struct stripe *stripe; /* WRITE …: its payload is named by, counts as an io */
	uint32_t parts;	       /* READ: stripes at work for it, and one for being on read_wait */
	uint64_t part;	       /* READ: from here on parts have no stripe yet */
	uint64_t part_mask;    /* … and which of them want one, one bit for each cell */
};

enum { STREAMS = 16 };

/* Where streams of writes went on to: who may wait for a neighbour. */
struct stream {
	uint64_t id, next;
	uint32_t in_flight;
};

/* Levels 4, 5, 6 (stripe.h). */
struct stripes {
	uint32_t parity;	    /* blocks of it in a row; 0: another level */
	uint32_t chunk, cell, subs; /* bytes, bytes, sub-rows of a cell */
	uint32_t total, most;	    /* in the pool, at work at a time; hung ios hold the others */
	uint32_t at_work;
	uint64_t hold_ns;
	struct list free, active;
	struct list gathering;	/* in the order in which they began */
	struct list dirty;	/* wait for the superblocks */
	struct list read_wait;	/* frag.in_stripe: READs with parts that need a stripe */
	struct list block_wait; /* slot.link: blocks that could not be read */
	struct stream stream[STREAMS];
};

/* A second chance: a buffer and ios that nothing but a READ past its deadline can take. */
struct kit {
	struct frag *user;
	void *buf; /* RAID_FRAGMENT_BYTES + 2 pages */
	struct slot_pool pool;
};

/* repair.c */
enum job_state {
	JOB_FREE,
	JOB_LOCK,
	JOB_DIRTY,
	JOB_READ,
	JOB_WRITE,
	JOB_VERIFY,
	JOB_JUDGE,
	JOB_HUNG
};

struct job {
	struct list link;
	enum job_state state;
	uint64_t addr, len; /* one block, within one piece */
	uint32_t bad;	    /* copies to rewrite */
	uint32_t tried;	    /* copies that could not be read for it */
	uint32_t check;	    /* those of bad that have not been tried again */
	uint32_t copy;	    /* the copy in work */
	bool retried;
	struct slot *waiter; /* the read that is answered only when this is durable */
	struct slot *slot;
	struct slot_pool pool; /* its own slot */
	struct range range;
	void *good, *again; /* a block each */
};

struct shard {
	const struct view *view;
	struct ask *ask;
	struct iop *iop;
	struct events *events;
	struct arena *arena;
	struct list *done; /* requests for raid_next_done() */
	struct list *free; /* … raid_next_free() */

	uint64_t members_generation; /* of the view acted upon */
	uint32_t cell_bytes;	     /* a fragment is at most cells_max of these */
	uint32_t cells_max;
	uint32_t ios_max; /* ios of one window at most */
	bool ios_exact;	  /* no member limits its ios: a run is one io */
	bool shifted;	  /* linear: a member does not start at a multiple of the unit */
	const uint8_t *zeroes;

	struct list fifo; /* raid_req.link: not admitted */
	struct list active;
	struct list frags_free;
	struct list wait_dirty, wait_shed, wait_meta;
	uint32_t frags_free_count, frags_active, shed;
	struct slot_pool pool;
	struct range_table ranges; /* array bytes */
	struct range_table rows;   /* 4, 5, 6: bytes of the component */

	uint32_t late[RAID_MEMBERS_MAX]; /* ios of a member past their deadline and still out */
	bool no_punch[RAID_MEMBERS_MAX], no_zero[RAID_MEMBERS_MAX]; /* found out by trying */

	uint32_t kits;
	struct kit kit[SHARD_KITS_MAX];
	uint32_t jobs_busy;
	struct job job[SHARD_JOBS];
	struct list jobs_free, jobs_dirty;
	struct list job_wait; /* slot.link: reads that need a repair and found no free job */
	struct stripes stripes;

	uint32_t sync_jobs, sync_busy;
	struct sync_job *sync_job;
	struct list sync_dirty; /* sync_job.link: wait for view.write_open */

	uint32_t frags_high;
};

/* Does the member of this slot keep a READ waiting that is past its deadline? */
static inline bool shard_late(const struct shard *sh, uint32_t gslot)
{
	const struct view_slot *vs = &sh->view->slot[gslot];

	return vs->writes && sh->late[vs->member];
}

/* ---- admit.c ---- */
void shard_submit(struct shard *sh, struct raid_req *req); /* READ, WRITE, TRIM, ZERO */
bool admit_run(struct shard *sh);
bool frag_provide(struct shard *sh, struct frag *f);

/* ---- frag.c ---- */
void shard_io_done(struct shard *sh, struct slot *s);
bool shard_run(struct shard *sh); /* everything that can move; returns whether anything did */
void frag_set_state(struct frag *f, enum frag_state to);
void frag_slot_done(struct shard *sh, struct frag *f, struct slot *s); /* outcome in f->err */
void frag_slot_put(struct shard *sh, struct frag *f, struct slot *s);
void frag_uncount(struct shard *sh, struct frag *f, struct slot *s);
void frag_advance(struct shard *sh, struct frag *f); /* pending is 0 */
void frag_start_read(struct shard *sh, struct frag *f);
struct frag *frag_alloc(struct shard *sh);
void frag_free(struct shard *sh, struct frag *f);
void frag_start_write(struct shard *sh, struct frag *f); /* its range is granted */
void frag_unreserve(struct shard *sh, struct frag *f);
void frag_drop_buffer(struct shard *sh, struct frag *f);
void frag_maybe_free(struct shard *sh, struct frag *f);
void frag_stripe_done(struct shard *sh, struct frag *f); /* a write; outcome in f->err */
void shard_answer(struct shard *sh, struct raid_req *req, int res);
void shard_writes_add(struct shard *sh);
void shard_writes_del(struct shard *sh);

/* ---- plan.c ---- */
uint64_t plan_split(const struct shard *sh, enum raid_op op, uint64_t addr, uint64_t len);
uint64_t plan_base(const struct shard *sh, uint64_t addr);
void plan_bounds(const struct shard *sh, uint64_t addr, uint64_t len, uint64_t *lo, uint64_t *hi);
uint32_t plan_ios(const struct shard *sh, const struct frag *f);
uint64_t plan_buffer_bytes(const struct shard *sh, const struct frag *f);
bool plan_read(struct shard *sh, struct frag *f); /* false: nothing readable at f->cursor */
bool plan_edges(struct shard *sh, struct frag *f);
void plan_window(struct shard *sh, struct frag *f);
void plan_merge(struct shard *sh, struct frag *f); /* payload into the edge blocks */
bool plan_zero_direct(const struct shard *sh, const struct raid_req *req, enum frag_kind *kind);
uint8_t *plan_read_pointer(const struct shard *sh, const struct frag *f, uint64_t addr);
struct slot *frag_take_slot(struct shard *sh, struct frag *f);
bool plan_add_read(struct shard *sh, struct frag *f, uint32_t gslot, uint64_t maddr, uint64_t len,
		   uint8_t *to); /* false: no slot for it in this window */
void plan_emit(struct shard *sh, struct frag *f, uint64_t end); /* … up to f->cursor */

/* ---- choose.c ---- */
int choose_copy(const struct shard *sh, const struct geo_piece *p, uint32_t tried, uint64_t *len);
bool choose_unsynced(const struct shard *sh, const struct geo_piece *p);

/* ---- retry.c ---- */
/* Tell of an io that failed, and count it for its member. */
void shard_report(struct shard *sh, const struct slot *s, enum raid_event_type type, int err);
void retry_read_done(struct shard *sh, struct frag *f, struct slot *s);
void retry_write_done(struct shard *sh, struct frag *f, struct slot *s);
void retry_judged(struct shard *sh, struct frag *f, struct slot *s);
void retry_repaired(struct shard *sh, struct slot *s, uint32_t bad); /* bad: not yet */
void retry_other_done(struct shard *sh, struct slot *s);
void retry_stripe_done(struct shard *sh, struct slot *s, int err);

/* ---- late.c ---- */
enum other { OTHER_NONE, OTHER_LATE, OTHER_READY };
void late_reads(struct shard *sh);
void late_judged(struct shard *sh, struct slot *s);
bool late_try(struct shard *sh); /* give waiting fragments their second chance */

/* ---- repair.c ---- */
void repair_init(struct shard *sh);
bool repair_start(struct shard *sh, uint64_t addr, uint64_t len, uint32_t bad, struct slot *waiter);
void repair_granted(struct shard *sh, struct job *j);
bool repair_run(struct shard *sh); /* jobs that waited for dirty, reads that waited for a job */
void repair_io_done(struct shard *sh, struct job *j, struct slot *s);
void repair_judged(struct shard *sh, struct job *j, struct slot *s);
void repair_members_changed(struct shard *sh);
void repair_late(struct shard *sh, struct job *j, struct slot *s);

#endif
