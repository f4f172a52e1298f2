/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of one seed: power on, work, power cut, several times over; then the liveness phase.
 */
#include <stdio.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* Slots that must still be held after the power comes back. Not that of a member that began the
 * session an event behind: it may be two behind after the next crash, and md's rule drops it: no
 * data is at risk. Not that of one whose replacement was about to take over, by name; but somebody
 * must hold it. */
static void note_good(struct world *w, bool must[LAYOUT_SLOTS_MAX])
{
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		w->read_from[d] = world_is_good(w, d);
	}
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		uint32_t d = w->holder[k];

		must[k] = d != LAYOUT_NONE && world_is_good(w, d) && !w->faults[d].lossy &&
			  !w->role[d].lagging;
	}
}

static bool decide(struct world *w, struct assembly *as)
{
	struct asm_options opt = {.force_write = true};
	bool all[PLAN_DISKS_MAX];

	memset(all, true, sizeof all);
	session_judge(w, all, as);
	w->forced = false;
	if (as->decision == ASM_START) {
		return true;
	}
	/* Dirty and degraded: the owner insists, as long as nothing else is wrong. */
	if (!w->layout.parity || !geo_enough(&w->geometry, as->present) || as->degraded == 0) {
		return false;
	}
	asm_decide(w->candidate, w->candidates, &opt, as);
	w->forced = as->decision == ASM_START;
	return w->forced;
}

/* Judge what the last session left behind, with all disks on the table. Returns false if the array
 * is lost, which only faults beyond the budget may bring about. */
static bool judge(struct world *w, const bool must[LAYOUT_SLOTS_MAX])
{
	struct assembly *as = w->assembly;

	for (uint32_t i = 0; i < w->plan.disks; i++) {
		memset(w->disk[i].bad, 0, w->disk[i].blocks);
	}
	offline_repair_torn(w);
	if (!decide(w, as)) {
		if (!w->may_fail) {
			sim_fail("the array is lost: %s", as->why);
		}
		return false;
	}
	roles_assembled(w, as);
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		if (must[k] && (w->holder[k] == LAYOUT_NONE || !world_is_good(w, w->holder[k]))) {
			sim_fail("slot %u, which had a good member, is lost after the restart", k);
		}
	}
	if (w->forced) {
		offline_forced(w);
	}
	bits_check_crash(w, as);
	verify_disks(w, "after the session");
	return true;
}

/* Which disks are there this time. One that is left out is lost as soon as the others go on. */
static void choose_offered(struct world *w, bool offered[PLAN_DISKS_MAX])
{
	bool left[RAID_SLOTS_MAX] = {false};
	uint32_t i = (uint32_t)prng_below(&w->rng, w->plan.disks);

	memset(offered, 0, PLAN_DISKS_MAX);
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		offered[d] = w->has_sb[d];
	}
	if (w->plan.profile == PLAN_CALM || !prng_one_in(&w->rng, 5)) {
		return;
	}
	/* Whoever takes away the only member that knows the latest has to be told the truth by
	 * hand afterwards. And a dirty array of parity does not start without a member. */
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (w->role[d].in_sync && w->role[d].lagging) {
			return;
		}
	}
	if (w->layout.parity && w->assembly->resync_offset != SB_IN_SYNC) {
		return;
	}
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		uint32_t d = w->holder[k];

		left[k] = d != LAYOUT_NONE && world_is_good(w, d) && d != i && d != w->listed_disk;
	}
	if (w->role[i].in_sync) {
		offered[i] = !geo_enough(&w->geometry, left);
	}
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
	admin_begin(w);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		w->read_from[i] = w->role[i].in_sync;
	}
	if (memcmp(before, w->read_from, sizeof before) != 0) {
		oracle_exempt_all(&w->oracle);
	}
	faults_begin(w);
}

/* One session. Returns whether the array is still there afterwards. */
static bool session(struct world *w)
{
	bool offered[PLAN_DISKS_MAX], must[LAYOUT_SLOTS_MAX];
	bool read_only = prng_one_in(&w->rng, 16);

	choose_offered(w, offered);
	begin(w, offered, read_only);
	workload_begin(w, (uint32_t)prng_log_range(&w->rng, 4, 400));
	if (work(w) || prng_one_in(&w->rng, 3)) {
		note_good(w, must);
		session_crash(w);
	} else {
		stop(w);
		note_good(w, must);
	}
	return judge(w, must);
}

static void wait_for_sync(struct world *w)
{
	uint64_t end = w->clock.now_ns + 4000 * SIM_S;
	const char *what;

	if (w->plan.limits.sync_frozen) {
		return;
	}
	/* Nothing is resynced before somebody writes. */
	workload_submit(w, 0, RAID_OP_WRITE, 0, 0, RAID_PAGE_BYTES);
	world_run_until_idle(w, 2000 * SIM_S);
	while ((what = world_is_missing(w)) && w->clock.now_ns < end) {
		if (raid_deadline(w->array) == RAID_NEVER &&
		    clock_next_ns(&w->clock) == UINT64_MAX) {
			break;
		}
		world_turn(w);
	}
	roles_refresh(w);
	if (what && !w->may_fail) {
		sim_fail("no disk fails any more, and %s", what);
	}
}

/* Faults stop, and everything must come to its end: what has to be resynced or rebuilt is, silent
 * damage is found, the array reads back whole and stops clean. */
static void liveness(struct world *w)
{
	bool offered[PLAN_DISKS_MAX] = {false}, must[LAYOUT_SLOTS_MAX];

	memcpy(offered, w->has_sb, sizeof offered);
	begin(w, offered, false);
	workload_begin(w, (uint32_t)prng_log_range(&w->rng, 4, 100));
	work(w);
	come_to_rest(w);
	wait_for_sync(w);
	read_everything(w);
	scrub(w);
	read_everything(w);
	stop(w);
	note_good(w, must);
	judge(w, must);
}

void run_seed(struct world *w, uint64_t seed, enum plan_profile profile, bool verbose)
{
	struct plan plan;

	trace_begin(&w->trace, seed, plan_profile_name(profile), verbose);
	prng_seed(&w->rng, seed);
	plan_draw(&plan, profile, &w->rng);
	plan_describe(&plan, w->trace.plan, sizeof w->trace.plan);
	if (verbose) {
		printf("plan: %s\n", w->trace.plan);
	}
	world_init(w, &plan, seed);
	for (uint32_t d = 0; d < plan.disks; d++) {
		w->read_from[d] = w->role[d].in_sync;
	}
	for (uint32_t round = 0; round < plan.rounds; round++) {
		if (!session(w)) {
			break;
		}
		if (prng_one_in(&w->rng, 4)) {
			offline_resync(w);
		}
		if (round + 1 == plan.rounds) {
			liveness(w);
		}
	}
	w->stats.seeds++;
	w->stats.verified += w->oracle.verified;
	world_free(w);
}
