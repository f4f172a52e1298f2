/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world: one array under test, its disks, its clients and virtual time. It drives the engine by
 * the contract of raid/raid.h alone, and every byte an engine learns about the past comes from the
 * simulated disks through sb_decode(), asm_decide() and raid_create().
 *
 *   setup.c     makes the disks and a new array on them
 *   session.c   power on (load, assemble, create), power cut, orderly stop, offline resync
 *   world.c     the turn: inputs, step, outputs
 *   watch.c     what must hold for every io the engine emits and every answer it gives
 *   verify.c    compares the disks with the oracle
 *   faults.c    what goes wrong, within a budget
 *   workload.c  what clients ask
 *
 * Words: a *disk* is one of the world's, for its whole life; a *member* is an index of the running
 * array, valid for one session. They differ: disks are offered in any order, or not at all.
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
#include "raid/sim/oracle.h"
#include "raid/sim/plan.h"
#include "raid/sim/prng.h"
#include "raid/sim/trace.h"

enum { LAYOUT_NONE = UINT32_MAX };

/* Where every sector lies, both ways. */
struct layout {
	uint64_t sectors;
	uint32_t copies;
	struct {
		uint32_t disk;
		uint64_t maddr;
	} * copy;			  /* [sector * copies + i] */
	uint32_t *sector[PLAN_DISKS_MAX]; /* by device sector: array sector, or LAYOUT_NONE */
};

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
	uint32_t member; /* LAYOUT_NONE: not offered this time */
	bool in_sync;	 /* by the assembly, and not failed since */
	bool failed;	 /* the engine said so */
	bool lagging;	 /* one event behind when the session began */
	uint64_t sb_maddr, data_from, data_to;
	/* durable superblock as last decoded, and for which watch_changes */
	uint64_t decoded_at;
	struct sb sb;
	bool sb_valid;
	uint64_t distrusted_at; /* state of all durable superblocks when it was last not trusted */
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

enum { EVENT_TYPES = RAID_EV_ROW_INCONSISTENT + 1, ANSWERS_MAX = 4096 };

struct world_stats {
	uint64_t seeds, sessions, crashes, stops, requests, ios, steps, client_errors,
		members_failed;
	uint64_t verified;
};

struct world {
	/* outlive a run */
	struct world_stats stats;
	struct trace trace;
	struct prng rng;
	struct asm_candidate *candidate;
	struct assembly *assembly;

	/* from here on: of one run, zeroed by world_init() */
	struct plan plan;
	struct clock clock;
	struct disk disk[PLAN_DISKS_MAX];
	struct geometry geometry; /* with all members present */
	struct layout layout;
	struct oracle oracle;
	uint8_t *listed[PLAN_DISKS_MAX]; /* per device sector: in the bad-block log */
	uint8_t *troubled;		 /* per array sector: an error there this session */
	uint8_t *immune;		 /* per array sector: no more soft errors this session */
	uint32_t listed_disk;		 /* LAYOUT_NONE: no bad-block log in use */
	struct disk_faults faults[PLAN_DISKS_MAX];
	bool faults_on;
	bool may_fail;	 /* beyond the budget: clients may get errors */
	bool flush_lost; /* the engine said that a flush is lost: none may succeed any more */
	uint64_t wall_s;
	struct sb birth[PLAN_DISKS_MAX]; /* superblocks as created */
	bool read_from[PLAN_DISKS_MAX];	 /* in sync in the last session: where reads came from */

	/* the session */
	struct raid_array *array;
	bool read_only, zombie, stopped;
	uint32_t candidates;
	uint32_t disk_of[PLAN_DISKS_MAX]; /* by member */
	struct role role[PLAN_DISKS_MAX];
	struct list flights, ops;
	uint64_t next_io, next_req;
	uint64_t session;  /* counts from 1 */
	uint32_t live_ops; /* fragments submitted, not freed or released */
	struct client client[8];
	struct list backlog; /* fragments that wait for credits */
	struct raid_cmd cmd;
	bool cmd_out;
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
	uint32_t events_of[PLAN_DISKS_MAX][EVENT_TYPES];   /* seen in this session */
	struct answer answer[ANSWERS_MAX];		   /* by op id */
};

enum world_event { EV_IO, EV_CLIENT, EV_RELEASE, EV_HAND_FAIL, EV_WAKE };

static inline bool world_is_redundant(const struct world *w)
{
	return w->layout.copies > 1;
}

/* Counts as a copy: taken for good by the assembly and not failed since. */
static inline bool world_is_good(const struct world *w, uint32_t disk)
{
	return w->role[disk].in_sync && !w->role[disk].failed;
}

/* setup.c */
void world_init(struct world *w, const struct plan *plan, uint64_t seed);
void world_free(struct world *w);

/* session.c */
uint32_t session_load(struct world *w, const bool offered[PLAN_DISKS_MAX], bool durable_only,
		      uint32_t except);
void session_judge(struct world *w, const bool offered[PLAN_DISKS_MAX], struct assembly *out);
void session_begin(struct world *w, const bool offered[PLAN_DISKS_MAX], bool read_only);
void session_begin_built(struct world *w);
void session_crash(struct world *w);
void session_stop(struct world *w);
void session_end(struct world *w);
void session_offline_resync(struct world *w);
void session_repair_torn(struct world *w);
/* Would an assembly trust this disk if the power went now and every cache lost everything? */
bool session_would_trust(struct world *w, uint32_t disk);

/* world.c */
void world_turn(struct world *w);
/* Every request is answered, every answer to a READ released; payloads may be out. */
bool world_is_answered(const struct world *w);
bool world_is_idle(const struct world *w);
void world_run_until_idle(struct world *w, uint64_t limit_ns);
void world_finish_flight(struct world *w, struct flight *f, int res);
void world_exempt(struct world *w, uint32_t disk, uint64_t maddr, uint64_t len);
void world_release_hung(struct world *w);
void world_control(struct world *w, enum raid_cmd_op op, uint32_t disk);

/* watch.c */
void watch_io(struct world *w, struct flight *f);
void watch_complete(struct world *w, struct flight *f);
void watch_done(struct world *w, struct op *op);
void watch_event(struct world *w, const struct raid_event *ev, uint32_t disk);
uint64_t watch_hash(const struct raid_io *io);

/* verify.c */
void verify_disks(struct world *w, const char *when);
void verify_copies_equal(struct world *w, const char *when);
const struct sb *verify_durable_sb(struct world *w, uint32_t disk);
void verify_acked(struct world *w, const struct op *op, bool durable);
void verify_flushed(struct world *w, uint64_t begun);
void verify_stopped(struct world *w);

/* faults.c */
void faults_begin(struct world *w);
void faults_stop(struct world *w);
void faults_read_error(struct world *w, uint32_t disk);
void faults_draw(struct world *w, struct flight *f, uint64_t *latency_ns);

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
