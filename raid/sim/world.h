/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world: one array under test, its disks, its clients and virtual time. It drives the engine by
 * the contract of raid/raid.h alone, and every byte an engine learns about the past comes from the
 * simulated disks through sb_decode(), asm_decide() and raid_create().
 *
 *   setup.c     makes the disks and a new array on them
 *   session.c   power on (load, assemble, create), power cut, orderly stop
 *   offline.c   what an administrator does between sessions
 *   roles.c     which disk holds which slot
 *   world.c     the turn: inputs, step, outputs
 *   watch.c     what must hold for every io the engine emits and every answer it gives
 *   watch_sb.c  … for every superblock
 *   groups.c    do copies agree, does parity fit?
 *   marks of the bitmap and of resync: bits.c
 *   verify.c    compares the disks with the oracle
 *   faults.c    what goes wrong, within a budget
 *   admin.c     commands while clients work; scrub.c: damage that a scrub must find
 *   workload.c  what clients ask
 *
 * Words: a *disk* is one of the world's, for its whole life; a *member* is an index of the running
 * array, valid for one session. They differ: disks are offered in any order, or not at all. A
 * *slot* is a place of the geometry; which disk holds it changes as disks fail and spares take
 * over.
 */
#ifndef RAID_SIM_WORLD_H
#define RAID_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/assemble.h"
#include "raid/base/list.h"
#include "raid/raid.h"
#include "raid/sim/clock.h"
#include "raid/sim/disk.h"
#include "raid/sim/layout.h"
#include "raid/sim/oracle.h"
#include "raid/sim/plan.h"
#include "raid/sim/prng.h"
#include "raid/sim/trace.h"

/* A client's fragment. */
struct op {
	struct list link;
	struct raid_req req;
	uint64_t id;
	uint64_t seq; /* oracle's handle of a write; FLUSH: when it began */
	struct oracle_read read;
	uint8_t *block; /* allocation that holds the payload */
	size_t block_bytes;
	uint64_t hash; /* of the payload */
	uint32_t client;
	bool last;	 /* of its request: the client goes on when it is done */
	bool after_lost; /* submitted after the engine said that a flush was lost */
	bool done;
};

enum flight_fate {
	FLIGHT_OK,
	FLIGHT_FAIL, /* err; done in part */
	FLIGHT_HANG, /* not scheduled: comes back when the world says so */
};

/* An io that is out. */
struct flight {
	struct list link;
	struct raid_io *io;
	uint64_t id;
	uint32_t disk;
	uint64_t cover;
	uint64_t hash; /* of what a WRITE carries */
	enum flight_fate fate;
	int err;
	bool late; /* a hung io that has been told to come back */
};

struct disk_faults {
	bool lossy; /* the array must survive without this disk */
	uint32_t read_fail_in, write_fail_in, flush_fail_in, hang_in, odd_in;
	uint64_t dead_at_ns, full_at_ns, hang_at_ns;
	uint64_t hang_for_ns; /* 0: until the world lets go */
	uint32_t slow;	      /* factor */
	uint32_t soft_left;   /* errors a good disk may still have */
	bool failed_by_hand;
};

/* Per disk, valid in a session. */
struct role {
	uint32_t member; /* LAYOUT_NONE: not attached */
	uint32_t slot;	 /* whose data it holds or is getting; LAYOUT_NONE: none */
	bool in_sync;	 /* trusted with all of it: by the assembly, or rebuilt since */
	bool filling;	 /* being rebuilt */
	bool twin;	 /* being filled, to replace the disk that holds the slot */
	bool spare;
	bool added;	    /* in this session */
	bool fresh;	    /* … and has got no superblock yet */
	bool failed;	    /* the engine said so */
	bool retired;	    /* another has taken its slot */
	bool lagging;	    /* one event behind when the session began */
	uint64_t recovered; /* filling: sectors that were good when the session began */
	uint64_t sb_maddr;
	/* durable superblock as last decoded, and for which watch_changes */
	uint64_t decoded_at;
	struct sb sb;
	bool sb_valid;
	uint64_t distrusted_at; /* state of all durable superblocks when it was last not trusted */
};

/* The write-intent bitmap as superblocks describe it. */
struct bits {
	bool on;
	int64_t offset_sectors; /* from the superblock */
	uint32_t chunk_bytes;
	uint64_t count;
};

struct client {
	uint64_t id;
	uint32_t busy; /* requests not answered */
	uint32_t left; /* requests still to be made */
	bool paused;
};

/* What scenarios want to know of a request. */
struct answer {
	bool given, freed;
	int res;
	uint64_t at_ns;
};

enum { EVENT_TYPES = RAID_EV_ROW_INCONSISTENT + 1, ANSWERS_MAX = 4096, DAMAGES_MAX = 8 };

/* What scrub.c did to a disk, and what the scrub said of it. */
struct damage {
	uint64_t group;
	uint32_t slot;
	bool found, named;
};

struct world_stats {
	uint64_t seeds, sessions, crashes, forced, stops, requests, ios, steps, client_errors,
		members_failed, syncs, commands, damages;
	uint64_t verified;
};

struct world {
	/* outlive a run */
	struct world_stats stats;
	struct trace trace;
	struct prng rng;
	struct asm_candidate *candidate;
	struct assembly *assembly;
	struct asm_candidate *added; /* by an ADD under way */

	/* from here on: of one run, zeroed by world_init() */
	struct plan plan;
	struct clock clock;
	struct disk disk[PLAN_DISKS_MAX];
	struct geometry geometry; /* with all members present */
	struct layout layout;
	struct oracle oracle;
	uint8_t *listed[PLAN_DISKS_MAX];     /* per device sector: in the bad-block log … */
	uint8_t *was_listed[PLAN_DISKS_MAX]; /* … at any time of the session: on disk it may be */
	uint8_t *stale; /* per group: it did not fit together when the session began, and no resync
			   has ended since */
	uint8_t *troubled;    /* per array sector: an error there this session */
	uint8_t *immune;      /* per group, or array sector without groups: no more soft errors */
	uint32_t listed_disk; /* LAYOUT_NONE: no bad-block log in use */
	struct disk_faults faults[PLAN_DISKS_MAX];
	bool faults_on;
	bool may_fail;	 /* beyond the budget: clients may get errors */
	bool flush_lost; /* the engine said that a flush is lost: none may succeed any more */
	uint64_t wall_s;
	struct sb own[PLAN_DISKS_MAX];	 /* its superblock as last seen between sessions … */
	bool has_sb[PLAN_DISKS_MAX];	 /* … if it has one */
	uint32_t number[PLAN_DISKS_MAX]; /* its dev_number; LAYOUT_NONE: not known yet */
	bool read_from[PLAN_DISKS_MAX];	 /* in sync in the last session: where reads came from */

	/* the session */
	struct raid_array *array;
	bool read_only, zombie, stopped;
	bool forced; /* dirty and degraded: assembled by force, as the owner wanted */
	uint32_t candidates;
	uint32_t disk_of[RAID_MEMBERS_MAX]; /* by member */
	struct role role[PLAN_DISKS_MAX];
	uint32_t holder[LAYOUT_SLOTS_MAX];	 /* the disk that is trusted with a slot */
	uint64_t held_sectors[LAYOUT_SLOTS_MAX]; /* how far */
	bool was_held[LAYOUT_SLOTS_MAX];	 /* in this session, if only for a while */
	bool needs_resync; /* the engine has not said yet that everything agrees */
	struct bits bits;
	struct {
		enum raid_sync_action action; /* IDLE: none runs */
		uint64_t mismatches;
		uint64_t finished[RAID_SYNC_REPLACE + 1];
	} sync;
	struct damage damage[DAMAGES_MAX];
	uint32_t damages;
	struct list flights, ops;
	uint64_t next_io, next_req;
	uint64_t session;  /* counts from 1 */
	uint32_t live_ops; /* fragments submitted, not freed or released */
	struct client client[8];
	struct list backlog; /* fragments that wait for credits */
	struct raid_cmd cmd;
	bool cmd_out;
	uint32_t cmd_disk;
	uint32_t actions_left;	 /* commands that admin.c still wants to give */
	uint64_t events_written; /* highest in a superblock that was issued, over all sessions */
	uint64_t last_clean_checked; /* events of the last clean superblock that was judged */
	struct sb last_sb;	     /* the superblock it stood in */
	uint64_t idle_steps;	     /* in a row that did nothing, close together */
	uint64_t last_step_ns;
	struct list graveyard; /* freed payloads, poisoned */
	uint32_t buried;
	/* scenarios */
	void (*script)(struct world *w, struct flight *f, uint64_t *latency_ns); /* fates */
	uint32_t script_arg;
	uint64_t ios_of[PLAN_DISKS_MAX][RAID_IO_ZERO + 1]; /* issued in this session */
	uint64_t written_of[PLAN_DISKS_MAX];		   /* bytes */
	uint32_t events_of[PLAN_DISKS_MAX][EVENT_TYPES];   /* seen in this session */
	struct answer answer[ANSWERS_MAX];		   /* by op id */
};

enum world_event { EV_IO, EV_CLIENT, EV_RELEASE, EV_HAND_FAIL, EV_ADMIN, EV_WAKE };

static inline bool world_is_redundant(const struct world *w)
{
	return w->layout.groups > 0;
}

/* Trusted with all of its slot, and not failed or replaced since. */
static inline bool world_is_good(const struct world *w, uint32_t disk)
{
	const struct role *r = &w->role[disk];

	return r->in_sync && !r->failed && !r->retired;
}

/* setup.c */
void world_init(struct world *w, const struct plan *plan, uint64_t seed);
void world_free(struct world *w);

/* roles.c */
void roles_assembled(struct world *w, const struct assembly *as);
void roles_refresh(struct world *w); /* the engine's members have changed */
void roles_changed(struct world *w); /* who holds which slot now */

/* groups.c */
enum image { IMAGE_NOW, IMAGE_DURABLE };
const uint8_t *groups_held(const struct world *w, uint32_t slot, uint64_t maddr, enum image image);
bool groups_judge(struct world *w, uint64_t group, enum image image,
		  uint8_t made[][RAID_SECTOR_BYTES], bool *lost);
bool groups_quiet(const struct world *w, uint64_t group);
bool groups_certain(const struct world *w, uint64_t group);
void groups_expect(struct world *w, uint64_t group, enum image image, const char *when);
void groups_expect_all(struct world *w, uint64_t from, uint64_t to, enum image image,
		       const char *when);

/* bits.c */
void bits_load(struct world *w, const struct assembly *as);
const uint8_t *bits_bytes(const struct world *w, const struct assembly *as);
void bits_check_write(struct world *w, const struct flight *f);
void bits_check_crash(struct world *w, const struct assembly *as);

/* session.c */
void session_load_disk(struct world *w, uint32_t i, const uint8_t *bytes, struct asm_candidate *c);
uint32_t session_load(struct world *w, const bool offered[PLAN_DISKS_MAX], bool durable_only,
		      uint32_t except);
void session_judge(struct world *w, const bool offered[PLAN_DISKS_MAX], struct assembly *out);
void session_begin(struct world *w, const bool offered[PLAN_DISKS_MAX], bool read_only);
void session_begin_built(struct world *w);
void session_crash(struct world *w);
void session_stop(struct world *w);
void session_end(struct world *w);
void session_props(const struct world *w, uint32_t disk, bool read_only,
		   struct raid_member_props *out);
/* Would an assembly trust this disk if the power went now and every cache lost everything? */
bool session_would_trust(struct world *w, uint32_t disk);

/* offline.c */
void offline_resync(struct world *w);
void offline_repair_torn(struct world *w);
void offline_forced(struct world *w);
void offline_write_sb(struct world *w, uint32_t disk, const struct sb *sb);

/* world.c */
void world_turn(struct world *w);
/* Every request is answered, every answer to a READ released; payloads may be out. */
bool world_is_answered(const struct world *w);
bool world_is_idle(const struct world *w);
const char *world_is_missing(struct world *w);
void world_run_until_idle(struct world *w, uint64_t limit_ns);
void world_finish_flight(struct world *w, struct flight *f, int res);
void world_exempt(struct world *w, uint32_t disk, uint64_t maddr, uint64_t len);
void world_release_hung(struct world *w);
void world_control(struct world *w, enum raid_cmd_op op, uint32_t disk);
void world_command(struct world *w);

/* watch.c */
void watch_io(struct world *w, struct flight *f);
void watch_complete(struct world *w, struct flight *f);
void watch_done(struct world *w, struct op *op);
void watch_event(struct world *w, const struct raid_event *ev, uint32_t disk);
uint64_t watch_hash(const struct raid_io *io);

/* watch_sb.c */
void watch_superblock(struct world *w, const struct flight *f);
bool watch_gave_up(const struct world *w, uint32_t disk);

/* verify.c */
void verify_disks(struct world *w, const char *when);
void verify_filled(struct world *w, uint32_t disk, uint64_t to, enum image image, const char *when);
const struct sb *verify_durable_sb(struct world *w, uint32_t disk);
void verify_acked(struct world *w, const struct op *op, bool durable);
void verify_flushed(struct world *w, uint64_t begun);
void verify_stopped(struct world *w);

/* faults.c */
void faults_begin(struct world *w);
void faults_stop(struct world *w);
void faults_read_error(struct world *w, uint32_t disk);
void faults_draw(struct world *w, struct flight *f, uint64_t *latency_ns);
/* Redundancy is back: more may go wrong. */
void faults_again(struct world *w);

/* admin.c */
void admin_begin(struct world *w);
void admin_act(struct world *w);
bool admin_add(struct world *w, uint32_t disk, bool readd_only);
void admin_sync(struct world *w, enum raid_sync_action action);
void admin_done(struct world *w, const struct raid_cmd *cmd);

/* scrub.c */
void scrub(struct world *w);
void scrub_mismatch(struct world *w, const struct raid_event *ev);

/* workload.c */
void workload_begin(struct world *w, uint32_t requests);
void workload_client(struct world *w, struct client *c);
void workload_pump(struct world *w);
struct op *workload_submit(struct world *w, uint32_t client, enum raid_op op, uint32_t flags,
			   uint64_t addr, uint64_t len);
void workload_done(struct world *w, struct op *op);
void workload_free(struct world *w, struct op *op);
bool workload_drop_all(struct world *w);

/* run.c */
void run_seed(struct world *w, uint64_t seed, enum plan_profile profile, bool verbose);

#endif
