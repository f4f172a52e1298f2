/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of one seed: power on, work, power cut, several times over; then the liveness phase.
 */
#include <stdio.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* Members that must still be in sync after the power comes back. One that began the session an
 * event behind may be two behind after the next crash, and md's rule drops it: no data is at risk.
 */
static void note_good(const struct world *w, bool must[PLAN_DISKS_MAX])
{
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		must[i] = world_is_good(w, i) && !w->faults[i].lossy && !w->role[i].lagging;
	}
}

/* Judge what the last session left behind, with all disks on the table. Returns false if the array
 * is lost, which only faults beyond the budget may bring about. */
static bool judge(struct world *w, const bool must[PLAN_DISKS_MAX], bool in_sync[PLAN_DISKS_MAX])
{
	bool all[PLAN_DISKS_MAX];
	struct assembly *as = w->assembly;

	memset(all, true, sizeof all);
	memset(in_sync, 0, PLAN_DISKS_MAX);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		memset(w->disk[i].bad, 0, w->disk[i].blocks);
	}
	session_repair_torn(w);
	session_judge(w, all, as);
	if (as->decision != ASM_START) {
		if (!w->may_fail) {
			sim_fail("the array is lost: %s", as->why);
		}
		return false;
	}
	for (uint32_t m = 0; m < as->members; m++) {
		uint32_t d = w->disk_of[m];

		in_sync[d] = as->member[m].verdict == ASM_IN_SYNC;
		w->role[d].in_sync = in_sync[d];
		w->role[d].failed = false;
		w->role[d].lagging = as->member[m].sb.events < as->events;
		if (must[d] && !in_sync[d]) {
			sim_fail("disk %u, a good member, is lost after the restart: %s (%s)", d,
				 asm_verdict_name(as->member[m].verdict), as->member[m].why);
		}
	}
	verify_disks(w, "after the session");
	return true;
}

/* Which disks are there this time. One that is left out is lost as soon as the others go on. */
static void choose_offered(struct world *w, const bool in_sync[PLAN_DISKS_MAX],
			   bool offered[PLAN_DISKS_MAX])
{
	bool left[RAID_SLOTS_MAX] = {false};
	uint32_t i = (uint32_t)prng_below(&w->rng, w->plan.disks);

	memset(offered, 0, PLAN_DISKS_MAX);
	memset(offered, true, w->plan.disks);
	if (w->plan.profile == PLAN_CALM || !prng_one_in(&w->rng, 5)) {
		return;
	}
	/* Whoever takes away the only member that knows the latest has to be told the truth by
	 * hand afterwards. */
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		if (in_sync[k] && w->role[k].lagging) {
			return;
		}
	}
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		left[k] = in_sync[k] && k != i && k != w->listed_disk;
	}
	offered[i] = i < w->plan.slots && !geo_enough(&w->geometry, left);
}

/* Run until the power fails or nothing is left to do; returns whether it failed. */
static bool work(struct world *w)
{
	uint64_t steps = prng_log_range(&w->rng, 4, 4000), end = w->stats.steps + steps;

	while (w->stats.steps < end) {
		if (world_is_idle(w) && prng_one_in(&w->rng, 20)) {
			return false;
		}
		if (clock_next_ns(&w->clock) == UINT64_MAX &&
		    raid_deadline(w->array) == RAID_NEVER) {
			return !world_is_idle(w);
		}
		world_turn(w);
	}
	return true;
}

static void come_to_rest(struct world *w)
{
	faults_stop(w);
	world_run_until_idle(w, 2000 * SIM_S);
	while (!list_empty(&w->flights)) {
		world_turn(w);
	}
}

static void read_everything(struct world *w)
{
	uint64_t size = w->layout.sectors * RAID_SECTOR_BYTES;

	workload_submit(w, 0, RAID_OP_READ, 0, 0, size);
	world_run_until_idle(w, 2000 * SIM_S);
}

/* Everything is answered, but what hangs goes on hanging. */
static void come_to_answers(struct world *w)
{
	uint64_t end = w->clock.now_ns + 2000 * SIM_S;

	w->faults_on = false;
	while (!world_is_answered(w)) {
		if (w->clock.now_ns > end) {
			sim_fail("requests are not answered although redundancy is left");
		}
		world_turn(w);
	}
}

static void stop(struct world *w)
{
	if (w->may_fail || prng_one_in(&w->rng, 2)) {
		come_to_rest(w);
	} else {
		come_to_answers(w);
	}
	session_stop(w);
	session_end(w);
}

/* Power on. What reads have returned binds only as long as they come from the same members. */
static void begin(struct world *w, const bool offered[PLAN_DISKS_MAX], bool read_only)
{
	bool before[PLAN_DISKS_MAX];

	memcpy(before, w->read_from, sizeof before);
	session_begin(w, offered, read_only);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		w->read_from[i] = w->role[i].in_sync;
	}
	if (memcmp(before, w->read_from, sizeof before) != 0) {
		oracle_exempt_all(&w->oracle);
	}
	faults_begin(w);
}

/* One session. Returns whether the array is still there afterwards. */
static bool session(struct world *w, bool in_sync[PLAN_DISKS_MAX])
{
	bool offered[PLAN_DISKS_MAX], must[PLAN_DISKS_MAX];
	bool read_only = prng_one_in(&w->rng, 16);

	choose_offered(w, in_sync, offered);
	begin(w, offered, read_only);
	workload_begin(w, (uint32_t)prng_log_range(&w->rng, 4, 400));
	if (work(w) || prng_one_in(&w->rng, 3)) {
		note_good(w, must);
		session_crash(w);
	} else {
		stop(w);
		note_good(w, must);
	}
	return judge(w, must, in_sync);
}

/* Faults stop, and everything must come to its end: the array reads back whole and stops clean. */
static void liveness(struct world *w)
{
	bool all[PLAN_DISKS_MAX] = {false}, in_sync[PLAN_DISKS_MAX], must[PLAN_DISKS_MAX];

	memset(all, true, w->plan.disks);
	begin(w, all, false);
	workload_begin(w, (uint32_t)prng_log_range(&w->rng, 4, 100));
	work(w);
	come_to_rest(w);
	read_everything(w);
	stop(w);
	note_good(w, must);
	judge(w, must, in_sync);
}

void run_seed(struct world *w, uint64_t seed, enum plan_profile profile, bool verbose)
{
	bool in_sync[PLAN_DISKS_MAX];
	struct plan plan;

	trace_begin(&w->trace, seed, plan_profile_name(profile), verbose);
	prng_seed(&w->rng, seed);
	plan_draw(&plan, profile, &w->rng);
	plan_describe(&plan, w->trace.plan, sizeof w->trace.plan);
	if (verbose) {
		printf("plan: %s\n", w->trace.plan);
	}
	world_init(w, &plan, seed);
	memset(in_sync, 0, sizeof in_sync);
	memset(in_sync, true, plan.slots);
	memcpy(w->read_from, in_sync, sizeof in_sync);
	for (uint32_t round = 0; round < plan.rounds; round++) {
		if (!session(w, in_sync)) {
			break;
		}
		if (prng_one_in(&w->rng, 3)) {
			session_offline_resync(w);
			memset(in_sync, true, plan.slots);
		}
		if (round + 1 == plan.rounds) {
			liveness(w);
		}
	}
	w->stats.seeds++;
	w->stats.verified += w->oracle.verified;
	world_free(w);
}
