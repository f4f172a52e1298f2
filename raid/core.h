/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The deciding half of an array: who is a member, what the superblocks say, flush rounds. One per
 * array. Private to the engine's files; what the other half may see is view.h.
 *
 *   member.c        states of members, failing one, read-error rate
 *   member_place.c  who has which slot: the view, what fits, superblocks of new members
 *   member_spare.c  spares that take over, replacements, the end of a rebuild
 *   member_cmd.c    ADD, REMOVE, FAIL, REPLACE
 *   bad_log.c       blocks that a member does not hold
 *   meta.c    superblock updates
 *   flush.c   flush rounds
 *   intent*.c the write-intent bitmap
 *   resync*.c the sync machine (resync.h)
 */
#ifndef RAID_CORE_H
#define RAID_CORE_H

#include "raid/events.h"
#include "raid/intent.h"
#include "raid/iop.h"
#include "raid/raid.h"
#include "raid/resync.h"
#include "raid/sb.h"
#include "raid/view.h"

enum bad_log_state { BAD_QUIET, BAD_WRITING }; /* bad_log.c */

struct bad_log {
	enum bad_log_state state;
	struct slot *slot;
	uint8_t *page, *disk; /* as it is to be; as it lies on the member, if that is known */
	uint8_t *block;	      /* on its way; aligned for any member */
	bool disk_known;
	bool announced; /* its superblock is to say that there is a log */
	bool unusable;	/* it could not be written, and the member could not be failed */
	bool out, retried, from_end;
	uint32_t next;		    /* block to be looked at */
	uint32_t count, disk_count; /* entries of page, disk */
	uint64_t seq;		    /* counts changes of the list; … that the log has, gets */
	uint64_t durable, writing;
	uint64_t change; /* meta.changes that announced it, or took that back */
	uint64_t round;	 /* flush round that makes durable what went off the list */
};

/* How a member that has been filled becomes a full one (member_spare.c). */
enum member_finish {
	FINISH_NOT,	   /* still being filled */
	FINISH_BITMAP,	   /* all is there and durable but the bitmap */
	FINISH_SYNCED,	   /* … that too; the next superblock says so */
	FINISH_SYNCED_OUT, /* … the running update says so */
	FINISH_TAKES, /* REPLACEMENT: its superblock says so; the next update gives it the slot */
	FINISH_TAKES_OUT, /* … the running update does */
};

struct member {
	enum raid_member_state state;
	bool taken;    /* the place is somebody's, whatever his state */
	bool removing; /* a REMOVE waits */
	bool added;    /* by an ADD that is not durable yet */
	int32_t slot;  /* in the geometry while IN_SYNC, and the one it had; -1: none */
	bool has_sb;
	bool recorded; /* LEAVING, FAULTY: the survivors' superblocks say so, as far as they can */
	struct raid_member_props props;
	struct sb *sb;	     /* as read; fields of its own go back as they were */
	struct bb_list *bad; /* empty: nothing listed */
	struct bad_log log;
	bool want_replacement; /* a write failed: copy it while it can still be read */
	/* REBUILDING, REPLACEMENT */
	enum member_finish finish;
	bool guided;		   /* only what the bitmap marks has to be copied (feature 0x80) */
	uint64_t recovery_sectors; /* what its next superblock calls good; durable on it already */
	/* why it failed */
	struct raid_event cause;
	/* read errors repaired */
	uint64_t corrected_sectors; /* not yet in its superblock */
	uint64_t corrected_total;   /* sectors of this run */
	uint64_t window_start_ns;
	uint32_t window_errors;
	/* private ios */
	struct slot *sb_slot, *flush_slot;
	uint8_t *sb_page;
	uint64_t sb_events, sb_writing; /* its superblock has, gets */
	bool sb_out;			/* its io of the running update is waited for */
	bool sb_retried;
	uint8_t wave;  /* meta: 0 not in the running update or done, else the wave it is in */
	bool in_round; /* flush: its FLUSH of the running round is out */
};

enum meta_state {
	META_OFF,    /* linear, RAID 0, no superblocks, read-only: nothing is ever written */
	META_IDLE,   /* the superblocks say what they should */
	META_BITMAP, /* the bitmap's header gets the events of an update first */
	META_WAVE0,  /* members that are behind are brought to the events of the others */
	META_WAVE1,  /* an update is being written */
	META_WAVE2,  /* … to the second half of the members, or to the spares */
	META_BROKEN, /* a superblock of a member that cannot be failed could not be written */
};

struct meta {
	enum meta_state state;
	uint64_t events;
	uint64_t resync_offset; /* written when clean: SB_IN_SYNC, or how far copies are equal */
	uint32_t freshest;	/* member whose superblock speaks for the array */
	uint32_t max_dev;
	/* What the newest superblocks say: those with events, on some members at least. */
	uint64_t said_resync;
	uint16_t said_roles[SB_ROLES_MAX];
	bool clean_now; /* do not wait for the idle time */
	/* Failures so far, and how many of them the superblocks name durably. */
	uint64_t failures, failures_durable;
	/* Likewise for every other change of what they say. */
	uint64_t changes, changes_durable, update_changes;
	bool said_bitmap; /* the newest ones name a bitmap */
	/* the running update */
	bool to_dirty;
	bool clean_update; /* it turns dirty into clean */
	uint64_t update_failures;
	uint32_t out;
	uint64_t updates; /* completed */
	struct prng {
		uint64_t state;
	} prng;
};

struct flush {
	struct list next, round; /* raid_req.link: FLUSH requests */
	struct list round_asks;	 /* struct ask_flush of the shard */
	struct list wait_meta;	 /* flushed, but a failure must be recorded first */
	bool wanted;		 /* the core itself wants a round */
	bool running;
	uint32_t out;
	uint64_t rounds;
};

struct core {
	struct raid_now now;
	struct raid_limits limits;
	struct geometry geo;
	struct view view;
	struct ask ask;
	struct iop *iop;
	struct events *events;
	struct list *done;	  /* requests for raid_next_done() */
	struct list *cmds_done;	  /* commands for raid_next_cmd() */
	struct list cmds_waiting; /* struct raid_cmd: until superblocks say so, or ios are back */
	bool present[RAID_SLOTS_MAX]; /* slot has an in-sync member */
	uint32_t members;	      /* places in use: the highest index + 1 */
	uint32_t places;	      /* of member[] */
	uint32_t leaving;
	bool stopping;	       /* nothing new is begun */
	bool spares_changed;   /* a slot became empty, or a spare came */
	bool finish_waits;     /* a member is FINISH_BITMAP */
	bool bad_busy;	       /* some log is on its way, or is waited for */
	struct list bad_wait;  /* struct slot by .ask: until a log is durable */
	uint64_t max_io_bytes; /* ios may be as long: what a new member must take */
	struct member *member;
	struct meta meta;
	struct flush flush;
	struct intent intent;
	struct resync resync;
};

/* Answer a command. */
static inline void core_answer(struct core *c, struct raid_cmd *cmd, int res)
{
	cmd->res = res;
	list_append(c->cmds_done, &cmd->link);
}

/* ---- member.c ---- */
enum member_fail_result { MEMBER_FAIL_DONE, MEMBER_FAIL_LAST };

/* Fail a member, unless it is the last copy of anything. cause goes into the event. */
enum member_fail_result member_fail(struct core *c, uint32_t m, struct raid_event cause);
void member_all_recorded(struct core *c); /* the superblocks say so now */
bool member_run(struct core *c);
void member_late_writes(struct core *c);
bool member_unflushed(const struct core *c);
bool member_gets_writes(const struct member *m); /* holds a slot or replaces its holder */
void member_set_state(struct member *m, enum raid_member_state to);
void member_retire(struct core *c, uint32_t m); /* LEAVING, without having failed */

/* ---- bad_log.c ---- */
void bad_load(struct member *m);   /* as the assembly found it */
void bad_forget(struct member *m); /* the device holds no data yet */
/* List a range; -ENOSPC: no log, or it is full. Readers see it at once; it is durable when
 * bad_settled(). bad_add_wait(): the same for a write that failed, judged when it is durable. */
int bad_add(struct core *c, uint32_t m, uint64_t maddr, uint64_t len);
int bad_add_wait(struct core *c, struct slot *s);
bool bad_settled(const struct core *c);
/* Can every block of a range of a slot be had without this and another slot? */
bool bad_others_have(const struct core *c, uint32_t slot, uint32_t except, uint64_t maddr,
		     uint64_t len);
bool bad_needs(const struct core *c, uint32_t slot); /* … the last copy of what others list */
void bad_io_done(struct core *c, struct slot *s);
void bad_member_left(struct core *c, uint32_t m);
bool bad_run(struct core *c);

/* ---- member_place.c ---- */
void member_view_bad(struct core *c, uint32_t m); /* its list is, or is no longer, empty */
void member_view(struct core *c, uint32_t m);	  /* its place in the view, as its state says */
void member_unview(struct core *c, uint32_t m);	  /* it has none any more */
int member_fits(const struct core *c, uint32_t m, uint32_t slot, char why[RAID_WHY_BYTES]);
int member_usable(const struct core *c, const struct raid_member_props *p, const char *name,
		  char why[RAID_WHY_BYTES]);
void member_take_slot(struct core *c, uint32_t m, uint32_t slot, enum raid_member_state state);
int member_new_sb(struct core *c, uint32_t m, const struct raid_cmd *cmd, char why[RAID_WHY_BYTES]);
uint32_t member_place(struct core *c); /* a free place, taken now; UINT32_MAX: none */
void member_place_free(struct core *c, uint32_t m);
bool member_number_used(const struct core *c, uint32_t number, uint32_t except);

/* ---- member_spare.c ---- */
bool member_spares_run(struct core *c);
uint32_t member_best_spare(const struct core *c, uint32_t slot, char why[RAID_WHY_BYTES]);
int member_replace(struct core *c, uint32_t m, uint32_t with, char why[RAID_WHY_BYTES]);
void member_source_left(struct core *c, uint32_t slot);
/* The update being made gives the member's slot to its replacement. */
bool member_is_replaced(const struct core *c, const struct member *m);

/*
 * For the sync machine. member_recovered(): so much of a member being filled, from the start of its
 * data, is good and durable; its superblock will say so. member_synced(): all of it is. The view
 * follows when superblocks say so: REBUILDING becomes IN_SYNC, REPLACEMENT too, and the member it
 * replaces leaves.
 */
void member_recovered(struct core *c, uint32_t m, uint64_t bytes);
void member_synced(struct core *c, uint32_t m);
/* meta.c: an update is decided, is durable. */
void member_update_begins(struct core *c);
void member_update_durable(struct core *c);

/* ---- member_cmd.c ---- */
void member_control(struct core *c, struct raid_cmd *cmd);
bool member_cmds_run(struct core *c);
void member_cmds_stop(struct core *c);

/* ---- meta.c ---- */
bool meta_run(struct core *c);
void meta_want(struct core *c); /* superblocks are to say what the core says now */
void meta_io_done(struct core *c, struct slot *s);
void meta_member_left(struct core *c, uint32_t m);
uint64_t meta_deadline(const struct core *c);
bool meta_settled(const struct core *c); /* nothing under way, nothing to be written */
/* What the superblocks must say can no longer be written: the array takes no more writes. */
void meta_break(struct core *c, uint32_t m, int err, const char *why);

/* ---- flush.c ---- */
void flush_init(struct flush *f);
void flush_submit(struct core *c, struct raid_req *req);
bool flush_run(struct core *c);
void flush_io_done(struct core *c, struct slot *s);
void flush_member_left(struct core *c, uint32_t m);

#endif
