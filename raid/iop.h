/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port to the members: every io the engine emits leaves and comes back through here.
 *
 * A slot is one struct raid_io and what the engine remembers of it. Slots are taken from pools
 * that are filled once. A slot is
 *
 *   FREE --slot_take--> HELD --iop_emit--> OUT --iop_next_completed--> HELD --slot_put--> FREE
 *
 * FREE  on its pool's free list.            HELD  its owner's; no byte of it is the backend's.
 * OUT   the backend's, with every byte its iovec names; counted in the member's in_flight; on the
 *       list of its deadline class unless the owner stopped waiting.
 *
 * Deadlines cost nothing per io: a class has one length of time, so the list of a class is in the
 * order of its deadlines.
 */
#ifndef RAID_IOP_H
#define RAID_IOP_H

#include "raid/base/list.h"
#include "raid/io.h"
#include "raid/types.h"

enum iop_class { IOP_READS, IOP_FAST_READS, IOP_WRITES, IOP_CLASSES };

enum { IOP_FAST = 4 }; /* a member marked failfast is given this part of the time for READs */

enum slot_state { SLOT_FREE, SLOT_HELD, SLOT_OUT };

enum slot_owner {
	SLOT_DATA,
	SLOT_JOB,
	SLOT_STRIPE,
	SLOT_META,
	SLOT_FLUSH,
	SLOT_INTENT,
	SLOT_SYNC,
	SLOT_BAD,
};

/* How an io is being carried out: retry.c. */
enum slot_phase {
	SLOT_WHOLE,  /* as planned */
	SLOT_PIECES, /* after an error: block by block on its own member */
	SLOT_OTHER,  /* READ: one block that failed, from another copy */
};

/* What the core decided about a member that an io failed on. */
enum slot_verdict {
	SLOT_NO_VERDICT,
	SLOT_MEMBER_FAILED,
	SLOT_LAST_COPY,
	SLOT_LISTED,  /* WRITE: the member stays, it is durable that it lacks these blocks */
	SLOT_CLEARED, /* WRITE, good: it is durable that the member no longer lacks them */
};

struct slot_pool {
	struct list free;
	uint32_t total, free_count;
	uint32_t reserved; /* of the free ones, promised to fragments that have been admitted */
};

struct slot {
	struct raid_io io;  /* first: raid_complete() gets it back */
	struct list timed;  /* iop.timed[class] while a deadline runs */
	struct list link;   /* the owner's list; a free slot's pool */
	struct list ask;    /* ask.failed or ask.judged; iop.cancel for OUT */
	struct list cancel; /* iop.cancel */
	struct slot_pool *pool;
	enum slot_state state;
	enum slot_owner owner;
	enum slot_verdict verdict;
	uint64_t issued_ns;
	int res;
	bool late;	  /* READ: passed its deadline and is still out */
	uint64_t bad_seq; /* waits for this change of a bad-block log */
	uint32_t gslot;	  /* slot in the geometry that io.member holds; UINT32_MAX: none */
	void *of;	  /* DATA: frag; JOB: job; STRIPE: stripe; SYNC: sync_job */

	/* STRIPE only: its place there (struct stripe.todo) and sub-rows */
	uint8_t key, sub, subs;

	bool counted; /* DATA, STRIPE, SYNC: the outcome of its owner waits for it */

	/* DATA, STRIPE */
	enum slot_phase phase;

	/* DATA only; STRIPE: off counts the sub-rows that are done */
	bool retried;			    /* DISCARD, ZERO: emitted a second time */
	uint32_t whole_gslot, whole_member; /* PIECES, OTHER: the io as planned */
	uint64_t whole_maddr, whole_len;
	uint32_t whole_iovcnt;
	uint64_t off;	    /* the block in work */
	uint32_t piece_len; /* its length */
	uint64_t fine_end;  /* up to here unit by unit: no copy has a whole block */
	uint32_t tried;	    /* copies of that block that did not give it, as geo_map() counts */
	uint32_t bad;	    /* those of them that reported an error: to be repaired */
	struct iovec piece_iov;
	uint32_t iov_cap;
	struct iovec *iov;
};

struct iop_member {
	uint32_t in_flight;
	bool failfast;
	bool unflushed; /* a write came back since the last FLUSH was issued */
	uint64_t reads, writes, read_bytes, write_bytes;
	uint64_t read_errors, write_errors;
	uint64_t head; /* where the last READ ended: read balancing */
};

struct iop {
	uint64_t now_ns;
	uint64_t deadline_ns[IOP_CLASSES];
	struct list queued;    /* io.link: for raid_next_io() */
	struct list completed; /* io.link: recorded, not yet looked at */
	struct list cancel;
	struct list timed[IOP_CLASSES];
	uint32_t out;
	struct iop_member member[RAID_MEMBERS_MAX];
};

void iop_init(struct iop *p, uint64_t read_deadline_ns, uint64_t write_deadline_ns);

void slot_pool_init(struct slot_pool *pool);

/* Give a pool a new slot with room for iov_cap iovecs. */
void slot_pool_add(struct slot_pool *pool, struct slot *s, struct iovec *iov, uint32_t iov_cap);

/* Take a slot; the pool must have one. Owner and of are set, the io is blank. */
struct slot *slot_take(struct slot_pool *pool, enum slot_owner owner, void *of);
void slot_put(struct slot *s);

/* Hand a HELD slot's io to the backend. */
void iop_emit(struct iop *p, struct slot *s);

/* raid_complete(): record. */
void iop_completed(struct iop *p, struct raid_io *io, int res);

/* The next recorded completion in order, as a HELD slot with res set; NULL when dry. */
struct slot *iop_next_completed(struct iop *p);

/* The first io of a class whose deadline has passed, or NULL. The caller then waits again for a
 * whole deadline or stops waiting. */
struct slot *iop_expired(struct iop *p, enum iop_class class);
void iop_wait_again(struct iop *p, struct slot *s);
void iop_stop_waiting(struct slot *s);

/* Ask the backend for an io that is out. */
void iop_cancel(struct iop *p, struct slot *s);

/* The earliest deadline, RAID_NEVER if none. */
uint64_t iop_deadline(const struct iop *p);

#endif
