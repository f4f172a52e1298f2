/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/story.h"

#include <stdio.h>
#include <string.h>

#include "raid/sim/scenarios.h"

struct plan story_plan(enum raid_level level, uint32_t slots)
{
	struct raid_limits limits = RAID_LIMITS_DEFAULT;
	struct plan p = {
		.profile = PLAN_FAULTS,
		.level = level,
		.slots = slots,
		.disks = slots,
		.version = SB_V1_2,
		.data_offset_sectors = 64,
		.assume_clean = true,
		.clients = 4,
		.depth = 64,
		.latency_ns = 100 * SIM_US,
		.pause_ns = SIM_MS,
		.batch_max = 16,
	};

	if (level != RAID_LEVEL_1 && level != RAID_LEVEL_LINEAR) {
		p.chunk_sectors = 16;
		p.layout = level == RAID_LEVEL_10 ? 0x102 : level == RAID_LEVEL_4 ? 0 : 2;
	}
	p.limits = limits;
	p.limits.frags = 64;
	p.limits.buffer_bytes = 4 << 20;
	for (uint32_t i = 0; i < slots; i++) {
		p.disk[i] = (struct disk_params){
			.size_bytes = (256 + 64 + 40) * RAID_SECTOR_BYTES,
			.block = 512,
			.mem_align = 512,
			.volatile_cache = true,
			.can_punch = true,
			.can_zero = true,
		};
	}
	return p;
}

void story_more_disks(struct plan *p, uint32_t spares, uint32_t blanks)
{
	p->spares = spares;
	p->blanks = blanks;
	while (p->disks < p->slots + spares + blanks) {
		p->disk[p->disks] = p->disk[0];
		p->disks++;
	}
}

void story_world(struct world *w, const struct plan *plan)
{
	plan_describe(plan, w->trace.plan, sizeof w->trace.plan);
	world_init(w, plan, 1);
}

static void start(struct world *w, const bool offered[PLAN_DISKS_MAX])
{
	session_begin(w, offered, false);
	memset(w->faults, 0, sizeof w->faults);
	w->may_fail = w->faults_on = false;
	oracle_exempt_all(&w->oracle);
}

void story_start(struct world *w)
{
	story_start_without(w, LAYOUT_NONE);
}

void story_start_without(struct world *w, uint32_t disk)
{
	bool offered[PLAN_DISKS_MAX] = {false};

	for (uint32_t i = 0; i < w->plan.disks; i++) {
		offered[i] = i != disk && w->has_sb[i];
	}
	start(w, offered);
}

uint64_t story_submit(struct world *w, uint32_t client, enum raid_op op, uint32_t flags,
		      uint64_t addr, uint64_t len)
{
	struct op *last = workload_submit(w, client, op, flags, addr, len);
	uint64_t id = last->id;

	EXPECT(id < ANSWERS_MAX);
	clock_schedule(&w->clock, w->clock.now_ns, EV_WAKE, NULL);
	return id;
}

void story_await(struct world *w, uint64_t id)
{
	uint64_t end = w->clock.now_ns + 60 * SIM_S;

	while (!w->answer[id].given) {
		if (clock_next_ns(&w->clock) == UINT64_MAX &&
		    raid_deadline(w->array) == RAID_NEVER) {
			sim_fail("request %llu waits for nothing", (unsigned long long)id);
		}
		if (w->clock.now_ns > end) {
			sim_fail("request %llu is not answered", (unsigned long long)id);
		}
		world_turn(w);
	}
}

int story_do(struct world *w, enum raid_op op, uint32_t flags, uint64_t addr, uint64_t len)
{
	uint64_t id = story_submit(w, 0, op, flags, addr, len);

	story_await(w, id);
	return w->answer[id].res;
}

void story_pass(struct world *w, uint64_t ns)
{
	uint64_t end = w->clock.now_ns + ns;

	clock_schedule(&w->clock, end, EV_WAKE, NULL);
	while (w->clock.now_ns < end) {
		world_turn(w);
	}
}

void story_settle(struct world *w)
{
	world_release_hung(w);
	world_run_until_idle(w, 600 * SIM_S);
	while (!list_empty(&w->flights)) {
		world_turn(w);
	}
}

static int answer_to_command(struct world *w)
{
	uint64_t end = w->clock.now_ns + 600 * SIM_S;

	while (w->cmd_out) {
		EXPECT(w->clock.now_ns < end);
		world_turn(w);
	}
	return w->cmd.res;
}

int story_command(struct world *w, enum raid_cmd_op op, uint32_t disk)
{
	world_control(w, op, disk);
	clock_schedule(&w->clock, w->clock.now_ns, EV_WAKE, NULL);
	return answer_to_command(w);
}

int story_sync(struct world *w, enum raid_sync_action action)
{
	admin_sync(w, action);
	clock_schedule(&w->clock, w->clock.now_ns, EV_WAKE, NULL);
	return answer_to_command(w);
}

int story_add(struct world *w, uint32_t disk)
{
	EXPECT(admin_add(w, disk, false));
	clock_schedule(&w->clock, w->clock.now_ns, EV_WAKE, NULL);
	return answer_to_command(w);
}

void story_whole(struct world *w)
{
	uint64_t end = w->clock.now_ns + 3600 * SIM_S;
	const char *what;

	while ((what = world_is_missing(w))) {
		if (w->clock.now_ns > end) {
			sim_fail("%s after an hour", what);
		}
		world_turn(w);
	}
	roles_refresh(w);
	EXPECT(!w->needs_resync);
}

void story_lossy(struct world *w, uint32_t disk)
{
	w->faults[disk].lossy = true;
}

bool story_in_sync(struct world *w, uint32_t disk)
{
	bool all[PLAN_DISKS_MAX];

	memset(all, true, sizeof all);
	session_judge(w, all, w->assembly);
	for (uint32_t m = 0; m < w->assembly->members; m++) {
		if (w->disk_of[m] == disk) {
			return w->assembly->member[m].verdict == ASM_IN_SYNC;
		}
	}
	return false;
}

void story_verify(struct world *w)
{
	workload_submit(w, 0, RAID_OP_READ, 0, 0, w->layout.sectors * RAID_SECTOR_BYTES);
	world_run_until_idle(w, 600 * SIM_S);
	verify_disks(w, "now");
}

static void judge(struct world *w)
{
	bool all[PLAN_DISKS_MAX];

	memset(all, true, sizeof all);
	session_judge(w, all, w->assembly);
	roles_assembled(w, w->assembly);
	bits_check_crash(w, w->assembly);
	verify_disks(w, "after the session");
}

void story_crash(struct world *w)
{
	session_crash(w);
	judge(w);
}

void story_stop(struct world *w)
{
	story_settle(w);
	session_stop(w);
	session_end(w);
	judge(w);
}

bool story_is_sb(const struct world *w, const struct flight *f)
{
	return f->io->op == RAID_IO_WRITE && f->io->maddr == w->role[f->disk].sb_maddr;
}

static void tell(struct world *w, const struct scenario *s, enum scenarios_output output)
{
	trace_begin(&w->trace, 1, "faults", output == SCENARIOS_VERBOSE);
	w->trace.scenario = s->name;
	prng_seed(&w->rng, 1);
	trace_rearm_watchdog();
	s->run(w);
	if (w->array) {
		story_stop(w);
	}
	world_free(w);
	if (output != SCENARIOS_QUIET) {
		printf("ok %s\n", s->name);
	}
}

int scenarios_run(const char *name, enum scenarios_output output)
{
	static const struct scenario *const all[] = {scenarios_of_rules, scenarios_of_lessons,
						     scenarios_of_parity, scenarios_of_members};
	static struct world w;
	int count = 0;

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
		for (const struct scenario *s = all[k]; s->name; s++) {
			if (!name || !strcmp(name, s->name)) {
				tell(&w, s, output);
				count++;
			}
		}
	}
	if (count == 0) {
		fprintf(stderr, "raid-sim: there is no scenario %s\n", name);
		return 2;
	}
	if (output != SCENARIOS_QUIET) {
		printf("raid-sim: %d scenarios\n", count);
	}
	return 0;
}
