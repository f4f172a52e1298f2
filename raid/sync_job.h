/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shard's half of the sync machine: a job carries out one order (sync_op.h). Private to the
 * shard's files.
 *
 *   sync_job.c     states, locks, passes of ios
 *   sync_done.c    what comes back: errors, verdicts, lateness
 *   sync_mirror.c  levels 1 and 10: which copy is read where, what is compared
 *   sync_parity.c  levels 4, 5 and 6: the same for rows
 *
 * What a job works on lies in *lanes*, equally long buffers cut into blocks of 4 KiB:
 *
 *   levels 1, 10   RESYNC, CHECK, REPAIR: lane i is copy i (as geo_map() counts) of the order's
 *                  array bytes. REBUILD, COPY: lane i is the i-th target's part of the component
 *   levels 4, 5, 6 lane i is slot i's part of the component
 *
 * Sets of blocks, a bit each for every lane, say what is to be done:
 *
 *   WANT   to be read or written in this pass     AGAIN  failed; alone in the next pass
 *   LOST   the lane does not hold it: not to be read, or could not be
 *   FIX    could not be read though it should have been: to be rewritten and read back
 *
 * A job owns its memory and its ios; no request ever waits for them, nor it for theirs. It holds
 * one range, taken when it holds nothing else and given back last.
 */
#ifndef RAID_SYNC_JOB_H
#define RAID_SYNC_JOB_H

#include "raid/shard.h"
#include "raid/sync_op.h"

enum { SYNC_BLOCK = SHARD_BLOCK, SYNC_JOBS_MAX = SYNC_ORDERS_MAX };

enum sync_job_state {
	SYNC_FREE,
	SYNC_LOCK,   /* waits for its rows */
	SYNC_READ,   /* reads are out */
	SYNC_DIRTY,  /* superblocks must say dirty before a member in sync is written */
	SYNC_WRITE,  /* writes are out */
	SYNC_VERIFY, /* rewritten blocks are read back, one after the other */
	SYNC_ANSWER, /* answered; holds its rows until the core has seen it */
	SYNC_HUNG,   /* no rows; its memory waits for ios of members that do not answer */
};

enum sync_set { SYNC_WANT, SYNC_AGAIN, SYNC_LOST, SYNC_FIX, SYNC_SETS };

struct sync_job {
	struct list link; /* shard.sync_dirty */
	enum sync_job_state state;
	struct sync_op *op;
	struct range range;
	struct slot_pool pool;
	struct list slots; /* slot.link */
	uint32_t out;	   /* ios on that list */
	uint32_t pending;  /* of them, waited for */
	uint64_t generation;
	bool single;  /* this pass goes block by block */
	bool changed; /* members changed: the answer is -EAGAIN */
	bool wide;    /* parity, COPY: the other lanes are read where the source could not be */
	bool counted; /* among shard.ask.writes_active */
	int err;

	uint32_t lanes, blocks, words; /* words of a lane in a set */
	uint32_t at;		       /* WANT has nothing before this block */
	uint64_t part;		       /* of the next block of WANT this much is out already */
	uint32_t lane_gslot[RAID_SLOTS_MAX]; /* level 1, 10: the targets */
	uint8_t *memory, *scratch;
	uint64_t memory_bytes;
	uint64_t *bits;
	uint32_t bits_words;
};

/* Where a block of a lane lies; all further blocks up to len are contiguous. */
struct sync_place {
	uint32_t gslot;
	uint64_t maddr;
};

/* ---- sync_memory.c ---- */
struct sync_shape {
	uint64_t step, job_bytes; /* of each member, of all slots */
	uint32_t orders, ios, iovs, words;
};

void sync_shape_of(const struct geometry *g, uint64_t buffer_bytes, struct sync_shape *s);
uint64_t sync_memory_bytes(const struct sync_shape *s);
void sync_create(struct shard *sh, const struct sync_shape *s, uint8_t *memory);

/* ---- sync_job.c ---- */
bool sync_run(struct shard *sh);
void sync_granted(struct shard *sh, struct sync_job *j);
void sync_issue(struct shard *sh, struct sync_job *j);
void sync_advance(struct shard *sh, struct sync_job *j); /* goes on if nothing is waited for */
void sync_put_slot(struct sync_job *j, struct slot *s);
void sync_uncount(struct sync_job *j, struct slot *s);
void sync_drop(struct shard *sh, struct sync_job *j); /* the job is free again */
bool sync_find_fix(const struct sync_job *j, uint32_t *lane, uint32_t *block);
uint64_t sync_io_len(const struct shard *sh, const struct sync_job *j, uint32_t block,
		     const struct sync_place *at);
bool sync_is_parity(const struct shard *sh);

/* ---- sync_done.c ---- */
void sync_io_done(struct shard *sh, struct sync_job *j, struct slot *s);
void sync_judged(struct shard *sh, struct sync_job *j, struct slot *s);
void sync_late(struct shard *sh, struct sync_job *j, struct slot *s);
void sync_members_changed(struct shard *sh);

uint32_t sync_block_len(const struct sync_job *j, uint32_t block);
void sync_found(struct sync_job *j, uint32_t block, uint32_t sectors, int32_t slot);
void sync_lost(struct sync_job *j, uint32_t gslot, uint64_t maddr, uint32_t len);

static inline uint8_t *sync_lane(const struct sync_job *j, uint32_t lane, uint32_t block)
{
	return j->memory + ((uint64_t)lane * j->blocks + block) * SYNC_BLOCK;
}

static inline uint64_t *sync_word(const struct sync_job *j, enum sync_set set, uint32_t lane,
				  uint32_t block)
{
	return &j->bits[((uint32_t)set * j->lanes + lane) * j->words + block / 64];
}

static inline bool sync_has(const struct sync_job *j, enum sync_set set, uint32_t lane,
			    uint32_t block)
{
	return *sync_word(j, set, lane, block) >> block % 64 & 1;
}

static inline void sync_add(struct sync_job *j, enum sync_set set, uint32_t lane, uint32_t block)
{
	*sync_word(j, set, lane, block) |= 1ull << block % 64;
}

static inline void sync_del(struct sync_job *j, enum sync_set set, uint32_t lane, uint32_t block)
{
	*sync_word(j, set, lane, block) &= ~(1ull << block % 64);
}

/* ---- sync_mirror.c, sync_parity.c: the same for their levels ---- */

/* The bytes that are locked, and how many lanes the order needs. */
void sync_mirror_shape(const struct shard *sh, struct sync_job *j, uint64_t *lock_lo,
		       uint64_t *lock_hi);
/* What is to be read into WANT; what cannot be into LOST. */
void sync_mirror_plan(struct shard *sh, struct sync_job *j);
/* Where a block is read from or written to. tried: copies that did not give it. */
bool sync_mirror_place(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		       uint32_t block, bool write, uint32_t tried, struct sync_place *out);
/* A copy of a block could not be read: add it to tried; whether another may be asked. */
bool sync_mirror_next(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		      uint32_t block, uint32_t gslot, uint32_t *tried);
/* All reads are back: what is to be written into WANT. Returns true if more is to be read. */
bool sync_mirror_decide(struct shard *sh, struct sync_job *j);

/* Are parts of a block listed as bad? Then only the others are read, or written. */
bool sync_mirror_in_parts(const struct shard *sh, const struct sync_job *j, uint32_t block);
/* The next such part from *hi on; false: there is none. */
bool sync_mirror_part(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		      uint32_t block, uint64_t *lo, uint64_t *hi);

void sync_parity_shape(const struct shard *sh, struct sync_job *j, uint64_t *lock_lo,
		       uint64_t *lock_hi);
void sync_parity_plan(struct shard *sh, struct sync_job *j);
bool sync_parity_place(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		       uint32_t block, bool write, struct sync_place *out);
bool sync_parity_decide(struct shard *sh, struct sync_job *j);

#endif
