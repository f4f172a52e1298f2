/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's contract with the outside: the daemon's loop and the simulator drive an array with
 * exactly these calls. None of them blocks, calls the OS, reads a clock or calls back.
 *
 *   in:    raid_submit  raid_release  raid_complete  raid_control     only record
 *   work:  raid_step(now)      once per turn after all its inputs, and when raid_deadline() passed
 *   out:   raid_next_io  raid_next_cancel  raid_next_done  raid_next_free  raid_next_cmd
 *          raid_next_event                                  pulled until dry after each step
 *
 * The same inputs in the same order give the same outputs: every decision is replayable.
 * Memory is taken in raid_create(); afterwards nothing allocates and nothing fails for want of it:
 * a request that finds no room waits inside. The submitter bounds how many there are by credits
 * (struct raid_limits), which come back with raid_next_free()/raid_release().
 */
#ifndef RAID_RAID_H
#define RAID_RAID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raid/base/list.h"
#include "raid/io.h"
#include "raid/types.h"

struct assembly; /* raid/assemble.h */
struct raid_array;

/* ---- time ---------------------------------------------------------------------------------- */

struct raid_now {
	uint64_t mono_ns; /* never goes back */
	uint64_t wall_s;  /* seconds since 1970, for ctime and utime only */
};

/* ---- requests ------------------------------------------------------------------------------ */

enum raid_op {
	RAID_OP_READ,
	RAID_OP_WRITE,
	RAID_OP_FLUSH, /* rule 2: covers every write acknowledged before this FLUSH was submitted */
	RAID_OP_TRIM,  /* may do less than asked, copies stay equal */
	RAID_OP_ZERO,  /* range reads as zeroes afterwards */
	RAID_OP_CACHE, /* a hint; succeeds */
};

enum raid_req_flag {
	RAID_REQ_FUA = 1 << 0,	     /* durable on all copies before done; READ: no effect */
	RAID_REQ_NO_HOLE = 1 << 1,   /* ZERO: keep the range allocated */
	RAID_REQ_FAST_ZERO = 1 << 2, /* ZERO: -ENOTSUP at once unless faster than writing zeroes */
	RAID_REQ_MORE = 1 << 3,	     /* the stream already holds a further request header */
};

/*
 * One fragment of a client's request. The submitter owns the struct, but between raid_submit() and
 * raid_next_free() (READ: raid_release()) the engine alone reads and writes it.
 *
 *   READ:   submit -> next_done (data, done_len valid if res is 0) -> raid_release. Data lives in
 * the engine until the release; a READ is never returned by next_free. others: submit -> next_done
 * (res) -> next_free. Free comes when the last io that names the payload is back: in the same turn
 * as done, or long after it if a member hangs. Never before done.
 */
struct raid_req {
	/* set by the submitter */
	enum raid_op op;
	uint32_t flags; /* enum raid_req_flag */
	uint64_t addr;	/* bytes in the array, any alignment; 0 for FLUSH */
	uint64_t len;	/* bytes, at most what raid_split() said, never past the end of the array */
	uint64_t stream; /* identity of the session, for merging and read balancing */
	void *payload; /* WRITE: len bytes, address ≡ addr modulo RAID_PAGE_BYTES; may not change */
	void *user;    /* the submitter's */

	/* set by the engine, valid from next_done */
	int res;	  /* 0 or -errno */
	const void *data; /* READ: len bytes, address ≡ addr modulo RAID_PAGE_BYTES */

	/* the engine's, opaque to the submitter */
	struct list link;
	void *frag;
	uint64_t seq;
	uint64_t start_ns;
};

/*
 * How much of a request [addr, addr+len) its first fragment takes: 1..len bytes. The submitter cuts
 * requests with it, in address order, and submits the fragments in that order.
 */
uint64_t raid_split(const struct raid_array *a, enum raid_op op, uint64_t addr, uint64_t len);

/* ---- create -------------------------------------------------------------------------------- */

/* What the backend knows of an opened member. */
struct raid_member_props {
	uint64_t size_bytes;
	uint32_t logical_block; /* bytes, power of two, 512..4096 */
	uint32_t mem_align;	/* buffers' alignment for direct I/O, power of two, ≤ 4096; 1 if
				   buffered */
	uint32_t max_io_bytes;	/* largest io the engine may emit; 0 = no limit */
	bool can_punch;		/* DISCARD works and reads zeroes afterwards */
	bool can_zero;		/* ZERO works without sending zeroes */
	bool rotational;
	bool volatile_cache; /* completed writes may be lost until FLUSH */
	bool read_only;	     /* opened read-only: the array must be read-only too */
};

struct raid_limits {
	uint32_t frags; /* fragments that may be submitted and not yet freed/released (default 1024)
			 */
	uint64_t buffer_bytes; /* engine buffers: READ data, edges, repair (default 64 MiB, power of
				  two) */
	uint32_t safe_mode_ms; /* idle time before clean is written (default 200) */
	uint32_t read_deadline_ms;  /* a READ is answered from another copy after this (default
				       10000); a quarter of it on members marked failfast */
	uint32_t write_deadline_ms; /* a member that holds a WRITE or FLUSH longer is failed
				       (default 30000) */
	uint32_t
		read_errors_max; /* repaired read errors before a member is failed … (default 20) */
	uint32_t read_errors_window_s; /* … within this time (default 3600) */
	uint32_t merge_hold_us; /* parity: a partial row may wait for its neighbour (default 200) */
	uint32_t members_extra; /* places for devices attached later (default 16) */
	uint64_t sync_min_bps,
		sync_max_bps;	 /* a second and member (default 1 MB, 200 MB; 0: none) */
	uint32_t sync_target_ms; /* what a foreground request may take while a sync runs (20) */
	bool sync_frozen;	 /* no resync or rebuild begins by itself */
};

#define RAID_LIMITS_DEFAULT                                                                        \
	{                                                                                          \
		.frags = 1024, .buffer_bytes = 64u << 20, .safe_mode_ms = 200,                     \
		.read_deadline_ms = 10000, .write_deadline_ms = 30000, .read_errors_max = 20,      \
		.read_errors_window_s = 3600, .merge_hold_us = 200, .members_extra = 16,           \
		.sync_min_bps = 1000000, .sync_max_bps = 200000000, .sync_target_ms = 20,          \
	}

/* The smallest limits an array of this shape runs with: what the simulator's minimal profile uses.
 */
void raid_limits_min(const struct assembly *as, struct raid_limits *out);

struct raid_config {
	const struct assembly
		*assembly; /* copied; decision must be ASM_START or ASM_START_READONLY */
	/* props[i] belongs to assembly->member[i]; raid_io.member is that i. Copied. */
	const struct raid_member_props *props;
	struct raid_limits limits;
	bool read_only; /* nothing is ever written to any member; WRITE, TRIM, ZERO give -EROFS */
	uint64_t seed;	/* drives every random choice (utime microseconds) */
	/* assembly->bitmap exists: its bits as read, packed as on disk, bm_bytes() of them; NULL:
	 * all are taken as set. Copied. */
	const uint8_t *bitmap_bits;
	struct raid_now now;
};

/*
 * Take all memory and make the array ready to step. Writes nothing yet: superblock changes that the
 * start itself needs (an absent member's role, rule 9 of md-format §8) go out durable before the
 * first data write. Returns 0, -ENOMEM or -EINVAL with the reason in why.
 */
int raid_create(const struct raid_config *config, struct raid_array **out,
		char why[RAID_WHY_BYTES]);

/* Give all memory back. Legal only when no io is out and every request has been freed/released. */
void raid_destroy(struct raid_array *a);

/* Bytes of memory raid_create() takes for this configuration. */
uint64_t raid_memory(const struct raid_config *config);

/* Exported size in bytes; constant for the life of the array. */
uint64_t raid_size(const struct raid_array *a);

/* Chunk in bytes for levels that have one, else 0; row in bytes (data of one stripe), else 0. */
uint32_t raid_chunk_bytes(const struct raid_array *a);
uint64_t raid_row_bytes(const struct raid_array *a);

/* ---- commands ------------------------------------------------------------------------------ */

enum raid_cmd_op {
	/* Stop: legal when every READ is released and every other request done (what a hung member
	 * still holds of those need not be freed). Flushes, writes clean superblocks (unless resync
	 * is needed). Afterwards nothing may be submitted; the array emits no further io once done.
	 */
	RAID_CMD_STOP,
	/* Mark a member faulty by hand; refused with -EBUSY when it holds the last copy of
	   anything. Answered when superblocks say so, also if it has failed before. */
	RAID_CMD_FAIL,
	/* Take a FAULTY or SPARE member, or what the assembly did not use, out of the array:
	 * afterwards its place may be used again and its device closed. -EBUSY while it is needed
	 * or its ios are out. */
	RAID_CMD_REMOVE,
	/*
	 * Attach a device. If its superblock says that it is a member of this array that was away
	 * and its slot is empty, it comes back (with a bitmap only what it missed is copied);
	 * otherwise it becomes a spare, and a slot that is empty is rebuilt onto it at once.
	 * readd_only: the former, or -ENOENT. raid_control() sets member to the index that its ios
	 * will have: the caller maps the device there before the next step. UINT32_MAX: no place
	 * is free. After a failure the place is free again. -EEXIST: it is attached, as member.
	 * -ESTALE: its data are newer than the array's.
	 */
	RAID_CMD_ADD,
	/* Copy a member to a spare while it serves; then the spare takes its slot. with: which
	   spare, UINT32_MAX: the smallest that fits. */
	RAID_CMD_REPLACE,
	/* Begin, or end, work on the whole array: sync says what. -EBUSY while other work runs. */
	RAID_CMD_SYNC,
	RAID_CMD_SYNC_SPEED, /* min_bps, max_bps, from now on; nothing is restarted */
	RAID_CMD_BITMAP_ADD, /* bitmap_chunk_bytes, 0: as create chooses */
	RAID_CMD_BITMAP_REMOVE,
};

enum raid_sync_action {
	RAID_SYNC_IDLE, /* CMD_SYNC: end a check or repair; a resync or rebuild begins again */
	RAID_SYNC_CHECK,
	RAID_SYNC_REPAIR,
	RAID_SYNC_RESYNC,  /* after an unclean stop, or of a new array */
	RAID_SYNC_REBUILD, /* onto members that are not in sync */
	RAID_SYNC_REPLACE, /* onto replacements */
};

struct asm_candidate; /* raid/assemble.h */

struct raid_cmd {
	enum raid_cmd_op op;
	uint32_t member; /* FAIL, REMOVE, REPLACE; ADD: set by raid_control() */
	void *user;
	const struct asm_candidate *candidate; /* ADD: what was read from the device; until done */
	struct raid_member_props props;	       /* ADD */
	bool readd_only;		       /* ADD */
	bool write_mostly, failfast;	       /* ADD: flags of a new member */
	uint8_t device_uuid[16];	       /* ADD: for a device that has none; random */
	uint32_t with;			       /* REPLACE */
	enum raid_sync_action sync;	       /* SYNC: IDLE, CHECK or REPAIR */
	uint64_t min_bps, max_bps;	       /* SYNC_SPEED: bytes a second and member */
	uint32_t bitmap_chunk_bytes;	       /* BITMAP_ADD */

	int res; /* valid from raid_next_cmd */
	char why[RAID_WHY_BYTES];

	/* the engine's between raid_control and raid_next_cmd */
	struct list link;
	uint64_t update; /* count of changes that must be on superblocks */
};

/* ---- events -------------------------------------------------------------------------------- */

enum raid_event_type {
	RAID_EV_DIRTY, /* first write after clean: superblocks now say so */
	RAID_EV_CLEAN,
	RAID_EV_MEMBER_FAILED, /* member, op, maddr and err of the cause; survivors' superblocks say
				  so */
	RAID_EV_MEMBER_GONE,   /* its last io came back (or never was out): the device may be closed
				*/
	RAID_EV_READ_ERROR, /* an unreadable block (maddr, len, err); answered from another copy */
	RAID_EV_READ_REPAIRED,	 /* … rewritten and read back */
	RAID_EV_WRITE_ERROR,	 /* err, before the retry */
	RAID_EV_LAST_COPY_ERROR, /* an error the client gets because no other copy exists */
	RAID_EV_DEADLINE,	 /* a member did not answer in time; len is the wait in ms */
	RAID_EV_FLUSH_LOST,   /* a flush failed on a last copy: FLUSH and FUA answer EIO from now on
			       */
	RAID_EV_SB_ERROR,     /* a superblock could not be written */
	RAID_EV_READ_ONLY,    /* the array takes no more writes; text in why */
	RAID_EV_MEMBER_ADDED, /* a device became a spare or came back */
	RAID_EV_MEMBER_REMOVED,
	RAID_EV_SPARE_ACTIVE,  /* a rebuild onto member is done: it is in sync */
	RAID_EV_SYNC_STARTED,  /* why: the action's name; member: the target, if it is one */
	RAID_EV_SYNC_PROGRESS, /* every 20 %: len is the percentage */
	RAID_EV_SYNC_FINISHED, /* len: mismatched sectors; err: -ECANCELED if it was ended */
	RAID_EV_MISMATCH,     /* maddr, len: where (bytes of the component; level 10: of the array);
				 member: the wrong one, where redundancy tells */
	RAID_EV_BAD_BLOCK,    /* maddr, len of member went into its bad-block log */
	RAID_EV_BITMAP_ERROR, /* a bitmap page could not be written; the member is failed */
	RAID_EV_ROW_INCONSISTENT, /* rule 6: a row could not be put back; addr of the row in maddr
				   */
};

struct raid_event {
	enum raid_event_type type;
	uint32_t member; /* UINT32_MAX if none */
	enum raid_io_op op;
	uint64_t maddr, len; /* bytes on the member */
	int err;	     /* -errno, 0 if none */
	const char *why;     /* static text or NULL */
};

const char *raid_event_name(enum raid_event_type type);

/* ---- the drive ----------------------------------------------------------------------------- */

void raid_submit(struct raid_array *a, struct raid_req *req);
void raid_release(struct raid_array *a, struct raid_req *read_req);
void raid_complete(struct raid_array *a, struct raid_io *io, int res);
void raid_control(struct raid_array *a, struct raid_cmd *cmd);

void raid_step(struct raid_array *a, struct raid_now now);

struct raid_io *raid_next_io(struct raid_array *a); /* NULL when dry */
struct raid_io *raid_next_cancel(
	struct raid_array *a); /* an io that is out; best effort, may be ignored */
struct raid_req *raid_next_done(struct raid_array *a);
struct raid_req *raid_next_free(struct raid_array *a);
struct raid_cmd *raid_next_cmd(struct raid_array *a);
bool raid_next_event(struct raid_array *a,
		     struct raid_event *out); /* a full ring drops the oldest and counts */

/* When raid_step() must be called next even without input, in mono_ns; RAID_NEVER if not at all. */
uint64_t raid_deadline(const struct raid_array *a);

/* Verify every invariant. Returns NULL, or a static description of the one that does not hold. */
const char *raid_check(const struct raid_array *a);

/* ---- status -------------------------------------------------------------------------------- */

enum raid_member_state {
	RAID_MEMBER_ABSENT,
	RAID_MEMBER_IN_SYNC,
	RAID_MEMBER_SPARE,
	RAID_MEMBER_REBUILDING,	 /* holds a slot, good up to its recovery_offset */
	RAID_MEMBER_REPLACEMENT, /* is being filled from the member of its slot */
	RAID_MEMBER_LEAVING,	 /* failed; some of its ios are still out */
	RAID_MEMBER_FAULTY,
};

enum raid_array_state {
	RAID_ARRAY_CLEAN,
	RAID_ARRAY_DIRTY,     /* superblocks say that writes may be under way */
	RAID_ARRAY_READ_ONLY, /* started so, or no longer able to keep its promises */
	RAID_ARRAY_STOPPED,
};

struct raid_member_status {
	enum raid_member_state state;
	int32_t slot; /* -1: none */
	uint64_t reads, writes, read_bytes, write_bytes, read_errors, write_errors, corrected;
	uint32_t in_flight;
	uint32_t bad_blocks;	  /* entries of its bad-block log */
	uint64_t recovery_offset; /* bytes that are good; UINT64_MAX: all */
};

enum { RAID_FINDINGS_MAX = 64 };

/* Where a check or repair found copies, or data and parity, to differ. */
struct raid_finding {
	uint64_t at, len; /* as in RAID_EV_MISMATCH */
	uint32_t member;  /* the wrong one, where redundancy tells; else UINT32_MAX */
};

struct raid_status {
	enum raid_array_state state;
	uint32_t slots, in_sync, members;
	bool needs_resync; /* copies may differ from resync_offset on; never written clean */
	bool flush_lost;
	uint64_t resync_offset; /* sectors as in the superblock; UINT64_MAX = all in sync */
	uint64_t events;
	uint32_t frags, frags_max; /* now, high-water mark */
	uint64_t buffer_bytes_used, buffer_bytes_max;
	uint64_t sb_updates, flush_rounds, events_dropped;
	struct {
		enum raid_sync_action action; /* IDLE: nothing runs */
		bool waiting; /* there is something to do, but nobody writes yet, or no member */
		uint64_t done, total; /* bytes of the component (level 10 resync: of the array) */
		uint64_t bps, eta_s;  /* now; UINT64_MAX: not known */
		uint64_t mismatch_sectors; /* of the last or running check or repair */
		uint32_t findings;	   /* of it; the first are in finding[] */
		struct raid_finding finding[RAID_FINDINGS_MAX];
		uint64_t min_bps, max_bps;
	} sync;
	struct {
		bool present;
		uint32_t chunk_bytes;
		uint64_t chunks, dirty;
	} bitmap;
	struct raid_member_status member[RAID_MEMBERS_MAX];
};

void raid_get_status(const struct raid_array *a, struct raid_status *out);

#endif
