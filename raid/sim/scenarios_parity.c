/* SPDX-License-Identifier: BSD-3-Clause */
/* Stories of levels 4, 5 and 6: bugs that other RAID implementations had to learn from. */
#include <errno.h>
#include <string.h>

#include "raid/sim/story.h"

enum { KIB = 1024 };

static void end_one(struct world *w)
{
	story_stop(w);
	world_free(w);
}

/* Every write that is not a whole row, at every edge. */
static void write_all_over(struct world *w)
{
	uint64_t size = w->layout.sectors * RAID_SECTOR_BYTES;

	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, size) == 0);
	for (uint64_t at = 0; at + 40 * KIB < size; at += 20 * KIB + 512) {
		EXPECT(story_do(w, RAID_OP_WRITE, 0, at + 300, 3 * KIB) == 0);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, at + 7 * KIB, 11 * KIB) == 0);
		EXPECT(story_do(w, RAID_OP_ZERO, 0, at + 512, 1536) == 0);
		EXPECT(story_do(w, RAID_OP_TRIM, 0, at + 20 * KIB, 9 * KIB) == 0);
	}
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == 0);
}

static void fail_disks(struct world *w, uint32_t a, uint32_t b)
{
	story_lossy(w, a);
	EXPECT(story_command(w, RAID_CMD_FAIL, a) == 0);
	if (b != a) {
		story_lossy(w, b);
		EXPECT(story_command(w, RAID_CMD_FAIL, b) == 0);
	}
}

/* RAID 6 with one or two disks lost, any of them: writes of parts of a block once went round for
 * ever. */
static void raid6_degraded_partial_writes_end(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_6, 5);

	for (uint32_t a = 0; a < 5; a++) {
		for (uint32_t b = a; b < 5; b++) {
			story_world(w, &p);
			story_start(w);
			fail_disks(w, a, b);
			write_all_over(w);
			story_settle(w);
			story_verify(w);
			if (a != 4) {
				end_one(w);
			}
		}
	}
}

static void raid5_degraded_partial_writes_end(struct world *w)
{
	for (uint32_t layout = 0; layout < 6; layout++) {
		struct plan p = story_plan(RAID_LEVEL_5, 4);

		p.layout = layout;
		story_world(w, &p);
		story_start(w);
		fail_disks(w, layout % 4, layout % 4);
		write_all_over(w);
		story_settle(w);
		story_verify(w);
		if (layout < 5) {
			end_one(w);
		}
	}
}

/* A resync runs: writes on both sides of it, and on it, choose one way to compute parity. */
static void writes_on_both_sides_of_a_resync(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_6, 5);
	uint64_t row = 3 * 8 * KIB, size;

	p.assume_clean = false;
	p.limits.sync_min_bps = p.limits.sync_max_bps = 200000;
	story_world(w, &p);
	size = w->layout.sectors * RAID_SECTOR_BYTES;
	story_start(w);
	for (int i = 0; w->needs_resync && i < 400; i++) {
		uint64_t at = (uint64_t)i * 7919 * 512 % (size - row);

		EXPECT(story_do(w, RAID_OP_WRITE, 0, at, 512 + (uint64_t)i * 97 % row) == 0);
		story_pass(w, 20 * SIM_MS);
	}
	story_whole(w);
	fail_disks(w, 1, 3);
	story_verify(w);
}

/* As long as parity may be stale no member can be spared, whoever asks. */
static void no_member_is_dropped_while_parity_is_stale(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_6, 5);

	p.assume_clean = false;
	p.limits.sync_frozen = true;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 5 * KIB) == 0);
	EXPECT(story_command(w, RAID_CMD_FAIL, 2) == -EBUSY);
	story_verify(w);
	story_stop(w);
	world_free(w);
	p.limits.sync_frozen = false;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 5 * KIB) == 0);
	story_whole(w);
	fail_disks(w, 2, 2);
	story_verify(w);
}

/* Dirty and degraded: refused; insisted upon, only what was being written is in doubt. */
static void dirty_and_degraded_waits_for_its_owner(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_5, 4);
	struct asm_options force = {.force_write = true};
	bool all[PLAN_DISKS_MAX];

	story_world(w, &p);
	story_start(w);
	fail_disks(w, 2, 2);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 60 * KIB) == 0);
	story_submit(w, 0, RAID_OP_WRITE, 0, 64 * KIB, 5 * KIB);
	story_pass(w, 100 * SIM_US);
	session_crash(w);
	memset(all, true, sizeof all);
	session_judge(w, all, w->assembly);
	EXPECT(w->assembly->decision == ASM_REFUSE && w->assembly->why[0]);
	asm_decide(w->candidate, w->candidates, &force, w->assembly);
	EXPECT(w->assembly->decision == ASM_START && w->assembly->note[0]);
	roles_assembled(w, w->assembly);
	offline_forced(w);
	verify_disks(w, "by force");
	w->forced = true;
	story_start(w);
	story_verify(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	story_stop(w);
	w->forced = false;
	EXPECT(w->assembly->decision == ASM_START);
	story_start(w);
	story_verify(w);
}

/* Reads of disk script_arg fail, and writes hang a while. */
static void damages_of(struct world *w, uint32_t n)
{
	scrub(w);
	EXPECT(w->stats.damages >= n);
}

/* One changed sector: found, named where redundancy tells, made good; and a check says 0 then. */
static void silent_damage_is_found(struct world *w)
{
	static const struct {
		enum raid_level level;
		uint32_t slots;
	} shape[] = {{RAID_LEVEL_6, 6}, {RAID_LEVEL_6, 4}, {RAID_LEVEL_5, 4},
		     {RAID_LEVEL_4, 4}, {RAID_LEVEL_1, 3}, {RAID_LEVEL_10, 4}};

	for (uint32_t i = 0; i < 6; i++) {
		struct plan p = story_plan(shape[i].level, shape[i].slots);

		story_world(w, &p);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 100 * KIB) == 0);
		story_settle(w);
		w->stats.damages = 0;
		damages_of(w, 0);
		story_verify(w);
		if (i < 5) {
			end_one(w);
		}
	}
}

/* The mismatch count is about scrubs: a first resync of random parity counts for nothing. */
static void first_resync_is_no_mismatch(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_6, 5);
	struct raid_status st;

	p.assume_clean = false;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	story_whole(w);
	raid_get_status(w->array, &st);
	EXPECT(st.sync.mismatch_sectors == 0);
	story_settle(w);
	EXPECT(story_sync(w, RAID_SYNC_CHECK) == 0);
	story_whole(w);
	raid_get_status(w->array, &st);
	EXPECT(st.sync.mismatch_sectors == 0);
	story_verify(w);
}

static void read_hangs(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == 1 && f->io->op == RAID_IO_READ) {
		*latency_ns = 180 * SIM_S;
	}
}

/* A disk that retries for minutes: redundancy answers, the array keeps the disk. */
static void hanging_read_is_answered_by_parity(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_5, 4);
	uint64_t size, before;

	p.limits.read_deadline_ms = 2000;
	story_world(w, &p);
	size = w->layout.sectors * RAID_SECTOR_BYTES;
	story_start(w);
	w->script = read_hangs;
	before = w->clock.now_ns;
	for (uint64_t at = 0; at + 4 * KIB < size; at += 24 * KIB) {
		EXPECT(story_do(w, RAID_OP_READ, 0, at, 4 * KIB) == 0);
	}
	EXPECT(w->clock.now_ns - before < 40 * SIM_S);
	w->script = NULL;
	story_pass(w, 200 * SIM_S);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_FAILED] == 0);
	story_verify(w);
}

/* Data and parity of one row hang on the way; the power goes: every order of what arrived. */
static void slow_on_some(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->io->op == RAID_IO_WRITE && !story_is_sb(w, f) && f->disk % 2 == w->script_arg) {
		*latency_ns = SIM_S;
	}
}

/* Power cuts in the middle of a row's writes, all disks there: the resync makes it right. */
static void half_written_rows_are_resynced(struct world *w)
{
	for (uint32_t i = 0; i < 6; i++) {
		struct plan p = story_plan(i % 2 ? RAID_LEVEL_6 : RAID_LEVEL_5, 4 + i % 3);

		p.bitmap = i >= 3;
		p.bitmap_chunk_bytes = 4 * KIB;
		story_world(w, &p);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 100 * KIB) == 0);
		w->script = slow_on_some;
		w->script_arg = i % 2;
		story_submit(w, 0, RAID_OP_WRITE, 0, 3 * KIB, 50 * KIB);
		story_pass(w, 20 * SIM_MS);
		w->script = NULL;
		story_crash(w);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, 8 * KIB, 1 * KIB) == 0);
		story_whole(w);
		fail_disks(w, i % 4, i % 4);
		story_verify(w);
		if (i < 5) {
			end_one(w);
		}
	}
}

/* At the limit of redundancy the disk that gets new data dies: old parity and data come back. */
static void second_data_write_fails(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == 1 && f->io->op == RAID_IO_WRITE && !story_is_sb(w, f)) {
		f->fate = FLIGHT_FAIL;
		f->err = -EIO;
	}
}

static void half_written_row_is_put_back(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_5, 4);

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 200 * KIB) == 0);
	fail_disks(w, 2, 2);
	w->may_fail = true;
	w->script = second_data_write_fails;
	for (uint64_t at = 0; at < 150 * KIB; at += 10 * KIB + 512) {
		story_do(w, RAID_OP_WRITE, 0, at, 6 * KIB);
	}
	story_settle(w);
	w->script = NULL;
	story_verify(w);
	story_verify(w);
}

const struct scenario scenarios_of_parity[] = {
	{"raid6-degraded-partial-writes-end", raid6_degraded_partial_writes_end},
	{"raid5-degraded-partial-writes-end", raid5_degraded_partial_writes_end},
	{"writes-on-both-sides-of-a-resync", writes_on_both_sides_of_a_resync},
	{"no-member-is-dropped-while-parity-is-stale", no_member_is_dropped_while_parity_is_stale},
	{"dirty-and-degraded-waits-for-its-owner", dirty_and_degraded_waits_for_its_owner},
	{"silent-damage-is-found", silent_damage_is_found},
	{"first-resync-is-no-mismatch", first_resync_is_no_mismatch},
	{"hanging-read-is-answered-by-parity", hanging_read_is_answered_by_parity},
	{"half-written-rows-are-resynced", half_written_rows_are_resynced},
	{"half-written-row-is-put-back", half_written_row_is_put_back},
	{NULL, NULL},
};
