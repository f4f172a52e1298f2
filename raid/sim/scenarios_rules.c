/* SPDX-License-Identifier: BSD-3-Clause */
/* One story for each promise of the engine (raid/README, the rules). */
#include <errno.h>
#include <string.h>

#include "raid/sim/story.h"

enum { KIB = 1024 };

static void fail_with(struct flight *f, int err)
{
	f->fate = FLIGHT_FAIL;
	f->err = err;
}

/* ---- rule 1: acknowledged only when every trusted copy has it ----------------------------------
 */

/* Data writes to disk script_arg fail; every superblock takes a second. */
static void data_fails_sb_slow(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (story_is_sb(w, f)) {
		*latency_ns = SIM_S;
	} else if (f->disk == w->script_arg && f->io->op == RAID_IO_WRITE) {
		fail_with(f, -EIO);
	}
}

static void ack_waits_for_survivors_superblocks(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 3);
	uint64_t id, before;

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	w->script = data_fails_sb_slow;
	w->script_arg = 2;
	story_lossy(w, 2);
	before = w->clock.now_ns;
	id = story_submit(w, 0, RAID_OP_WRITE, 0, 8 * KIB, 4 * KIB);
	story_await(w, id);
	EXPECT(w->answer[id].res == 0);
	EXPECT(w->answer[id].at_ns - before >= SIM_S);
	EXPECT(!session_would_trust(w, 2));
	story_crash(w);
	EXPECT(!story_in_sync(w, 2) && story_in_sync(w, 0) && story_in_sync(w, 1));
	w->script = NULL;
	story_start(w);
	story_verify(w);
}

/* Disk 2 fails data, disk 1 fails the superblock that says so. */
static void sb_of_survivor_fails(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->io->op == RAID_IO_WRITE && (f->disk == 2 || (f->disk == 1 && story_is_sb(w, f)))) {
		fail_with(f, -EIO);
	}
}

static void survivor_without_superblock_fails_too(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 3);

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	w->script = sb_of_survivor_fails;
	story_lossy(w, 1);
	story_lossy(w, 2);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 8 * KIB, 4 * KIB) == 0);
	story_crash(w);
	EXPECT(story_in_sync(w, 0) && !story_in_sync(w, 1) && !story_in_sync(w, 2));
	w->script = NULL;
	story_start(w);
	story_verify(w);
}

/* ---- rule 2: FLUSH -----------------------------------------------------------------------------
 */

static void flush_covers_every_connection(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id[3];

	story_world(w, &p);
	story_start(w);
	for (uint32_t c = 0; c < 3; c++) {
		id[c] = story_submit(w, c, RAID_OP_WRITE, 0, c * 16 * KIB, 4 * KIB);
	}
	for (uint32_t c = 0; c < 3; c++) {
		story_await(w, id[c]);
	}
	id[0] = story_submit(w, 3, RAID_OP_FLUSH, 0, 0, 0);
	story_await(w, id[0]);
	EXPECT(w->answer[id[0]].res == 0);
	EXPECT(list_empty(&w->disk[0].cache) && list_empty(&w->disk[1].cache));
	story_crash(w);
	story_start(w);
	story_verify(w);
}

static void flush_slow(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->io->op == RAID_IO_FLUSH) {
		*latency_ns = 50 * SIM_MS;
	}
}

static void flush_during_a_round_waits_for_the_next(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t first, second;

	p.limits.safe_mode_ms = 100000;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	w->script = flush_slow;
	first = story_submit(w, 0, RAID_OP_FLUSH, 0, 0, 0);
	story_pass(w, 10 * SIM_MS);
	EXPECT(!w->answer[first].given);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 8 * KIB, 4 * KIB) == 0);
	EXPECT(!w->answer[first].given);
	second = story_submit(w, 1, RAID_OP_FLUSH, 0, 0, 0);
	story_await(w, first);
	EXPECT(!w->answer[second].given);
	story_await(w, second);
	EXPECT(w->ios_of[0][RAID_IO_FLUSH] >= 2 && w->ios_of[1][RAID_IO_FLUSH] >= 2);
	story_crash(w);
	w->script = NULL;
	story_start(w);
	story_verify(w);
}

/* Data writes to disk 1 hang. */
static void data_hangs(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == 1 && f->io->op == RAID_IO_WRITE && !story_is_sb(w, f)) {
		f->fate = FLIGHT_HANG;
	}
}

static void flush_does_not_wait_for_writes(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t stuck, flush, before;

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	w->script = data_hangs;
	story_lossy(w, 1);
	stuck = story_submit(w, 0, RAID_OP_WRITE, 0, 8 * KIB, 4 * KIB);
	story_pass(w, 10 * SIM_MS);
	before = w->clock.now_ns;
	flush = story_submit(w, 1, RAID_OP_FLUSH, 0, 0, 0);
	story_await(w, flush);
	EXPECT(w->answer[flush].res == 0 && w->answer[flush].at_ns - before < SIM_S);
	EXPECT(!w->answer[stuck].given);
	story_await(w, stuck);
	EXPECT(w->answer[stuck].res == 0);
}

static void flush_fails(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == w->script_arg && f->io->op == RAID_IO_FLUSH) {
		fail_with(f, -EIO);
	}
}

static void failed_flush_is_not_retried(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	p.limits.safe_mode_ms = 100000;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	w->script = flush_fails;
	w->script_arg = 1;
	story_lossy(w, 1);
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == 0);
	EXPECT(w->ios_of[1][RAID_IO_FLUSH] == 1);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_FAILED] == 1);
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == 0);
	EXPECT(w->ios_of[1][RAID_IO_FLUSH] == 1);
	story_crash(w);
	EXPECT(!story_in_sync(w, 1));
	w->script = NULL;
	story_start(w);
	story_verify(w);
}

static void lost_flush_stays_lost(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_0, 2);

	story_world(w, &p);
	story_start(w);
	w->may_fail = true;
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 32 * KIB) == 0);
	w->script = flush_fails;
	w->script_arg = 0;
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == -EIO);
	w->script = NULL;
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == -EIO);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == -EIO);
	EXPECT(story_do(w, RAID_OP_READ, 0, 0, 32 * KIB) == 0);
	story_crash(w);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == 0);
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == 0);
	story_verify(w);
}

/* ---- rule 3: dirty first, clean last -----------------------------------------------------------
 */

static void dirty_is_durable_before_data(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id;

	p.limits.safe_mode_ms = 200;
	story_world(w, &p);
	story_start(w);
	w->script = data_fails_sb_slow;
	w->script_arg = LAYOUT_NONE;
	id = story_submit(w, 0, RAID_OP_WRITE, 0, 0, 4 * KIB);
	story_pass(w, SIM_S / 2);
	EXPECT(w->ios_of[0][RAID_IO_WRITE] == 1 && w->ios_of[1][RAID_IO_WRITE] == 1);
	story_await(w, id);
	EXPECT(verify_durable_sb(w, 0)->resync_offset == 0);
	w->script = NULL;
	story_pass(w, SIM_S);
	EXPECT(verify_durable_sb(w, 0)->resync_offset == SB_IN_SYNC);
	EXPECT(verify_durable_sb(w, 1)->resync_offset == SB_IN_SYNC);
}

static void an_array_found_dirty_is_never_written_clean(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_10, 4);
	struct raid_status st;

	p.limits.safe_mode_ms = 10;
	p.limits.sync_frozen = true;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
	story_crash(w);
	story_start(w);
	raid_get_status(w->array, &st);
	EXPECT(st.needs_resync);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
	story_pass(w, SIM_S);
	EXPECT(verify_durable_sb(w, 0)->resync_offset == 0);
	story_stop(w);
	EXPECT(w->assembly->resync_offset == 0);
	offline_resync(w);
	story_start(w);
	raid_get_status(w->array, &st);
	EXPECT(!st.needs_resync && st.state == RAID_ARRAY_CLEAN);
}

/* ---- rule 4: which copy is read ----------------------------------------------------------------
 */

static void copies_that_differ_are_read_from_one_place(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 3);

	p.assume_clean = false;
	p.limits.sync_frozen = true;
	story_world(w, &p);
	story_start(w);
	for (int i = 0; i < 8; i++) {
		story_verify(w);
	}
	EXPECT(w->ios_of[0][RAID_IO_READ] > 0);
	EXPECT(w->ios_of[1][RAID_IO_READ] == 0 && w->ios_of[2][RAID_IO_READ] == 0);
}

static void chosen_copy_unreadable_moves_for_good(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t maddr;

	p.assume_clean = false;
	story_world(w, &p);
	story_start(w);
	maddr = w->layout.data_from[0] + 8 * KIB;
	w->disk[0].bad[maddr / 512] = DISK_BAD_READ;
	for (int i = 0; i < 4; i++) {
		EXPECT(story_do(w, RAID_OP_READ, 0, 8 * KIB, 4 * KIB) == 0);
	}
	story_settle(w);
	EXPECT(!w->disk[0].bad[maddr / 512]);
	EXPECT(!memcmp(w->disk[0].now + maddr, w->disk[1].now + maddr, 512));
	story_verify(w);
}

/* ---- rules 7 and 8 -----------------------------------------------------------------------------
 */

static void overlapping_writes_in_order(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	p.disk[1].block = 4096;
	p.disk[1].size_bytes = 360 * KIB / 2 / 4 * 4;
	story_world(w, &p);
	story_start(w);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 12; i++) {
			story_submit(w, i % 4, RAID_OP_WRITE, 0, 100 * i, 1000);
		}
		story_settle(w);
		story_verify(w);
	}
}

static void read_error_is_repaired(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_10, 4);
	uint64_t maddr;
	uint32_t d;

	story_world(w, &p);
	story_start(w);
	for (uint32_t i = 0; i < 2; i++) {
		d = w->layout.copy[i].slot;
		maddr = w->layout.copy[i].maddr;
		w->disk[d].bad[maddr / 512] = DISK_BAD_READ;
		for (int k = 0; k < 8; k++) {
			EXPECT(story_do(w, RAID_OP_READ, 0, 0, 4 * KIB) == 0);
			story_settle(w);
		}
		EXPECT(w->events_of[d][RAID_EV_READ_REPAIRED] <= 1);
		w->disk[d].bad[maddr / 512] = 0;
	}
	EXPECT(w->events_of[w->layout.copy[0].slot][RAID_EV_READ_REPAIRED] +
		       w->events_of[w->layout.copy[1].slot][RAID_EV_READ_REPAIRED] >
	       0);
	story_verify(w);
}

static uint64_t meeting_ns;

/* A FLUSH of disk 0 fails at the moment at which the repair's write comes back. */
static void flush_fails_with_repair(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk != 0) {
		return;
	}
	if (f->io->op == RAID_IO_FLUSH) {
		meeting_ns = w->clock.now_ns + 10 * SIM_MS;
		*latency_ns = 10 * SIM_MS;
		fail_with(f, -EIO);
	} else if (f->io->op == RAID_IO_WRITE && w->clock.now_ns < meeting_ns) {
		*latency_ns = meeting_ns - w->clock.now_ns;
	}
}

static void member_fails_while_it_is_repaired(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	p.limits.safe_mode_ms = 100000;
	for (int i = 0; i < 16; i++) {
		uint64_t id;

		story_world(w, &p);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, 64 * KIB, 4 * KIB) == 0);
		story_lossy(w, 0);
		w->script = flush_fails_with_repair;
		w->disk[0].bad[(w->layout.data_from[0] + 4 * KIB) / 512] = DISK_BAD_READ;
		id = story_submit(w, 1, RAID_OP_FLUSH, 0, 0, 0);
		for (int k = 0; k < 4; k++) {
			EXPECT(story_do(w, RAID_OP_READ, 0, 4 * KIB, 4 * KIB) == 0);
		}
		story_await(w, id);
		EXPECT(w->answer[id].res == 0);
		EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] == 1);
		story_settle(w);
		story_verify(w);
		story_stop(w);
		if (i < 15) {
			world_free(w);
		}
	}
}

static void write_is_retried_once(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == 1 && f->io->op == RAID_IO_WRITE && !story_is_sb(w, f) && w->script_arg > 0) {
		w->script_arg--;
		fail_with(f, -EIO);
	}
}

static void one_write_error_costs_no_member(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	story_world(w, &p);
	story_start(w);
	w->script = write_is_retried_once;
	w->script_arg = 1;
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 4 * KIB, 4 * KIB) == 0);
	EXPECT(w->events_of[1][RAID_EV_WRITE_ERROR] >= 1);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_FAILED] == 0);
	story_settle(w);
	story_verify(w);
}

static void disk_full(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == 0 && f->io->op == RAID_IO_WRITE && !story_is_sb(w, f)) {
		fail_with(f, -ENOSPC);
	}
}

static void no_space_counts_as_a_write_error(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	story_world(w, &p);
	story_start(w);
	w->script = disk_full;
	story_lossy(w, 0);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 4 * KIB, 4 * KIB) == 0);
	EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] == 1);
	story_settle(w);
	story_verify(w);
}

static void last_copy_is_never_failed(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	int res;

	story_world(w, &p);
	story_start_without(w, 1);
	w->may_fail = true;
	w->script = disk_full;
	res = story_do(w, RAID_OP_WRITE, 0, 4 * KIB, 4 * KIB);
	EXPECT(res == -ENOSPC || res == -EIO);
	EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] == 0);
	w->script = NULL;
	story_settle(w);
	world_control(w, RAID_CMD_FAIL, 0);
	while (w->cmd_out) {
		story_pass(w, SIM_MS);
	}
	EXPECT(w->cmd.res == -EBUSY);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 4 * KIB, 4 * KIB) == 0);
	story_verify(w);
}

/* ---- rule 9 and the contract -------------------------------------------------------------------
 */

static void read_only_writes_nothing(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	bool all[PLAN_DISKS_MAX];
	uint64_t before;

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 16 * KIB) == 0);
	story_crash(w);
	memset(all, true, sizeof all);
	before = w->disk[0].seq + w->disk[1].seq;
	session_begin(w, all, true);
	EXPECT(story_do(w, RAID_OP_READ, 0, 0, 16 * KIB) == 0);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == -EROFS);
	EXPECT(story_do(w, RAID_OP_TRIM, 0, 0, 4 * KIB) == -EROFS);
	EXPECT(story_do(w, RAID_OP_ZERO, 0, 0, 4 * KIB) == -EROFS);
	EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == 0);
	story_stop(w);
	EXPECT(before == w->disk[0].seq + w->disk[1].seq);
}

static void hung_write_keeps_its_buffer(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id;

	p.limits.write_deadline_ms = 1000;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	w->script = data_hangs;
	story_lossy(w, 1);
	id = story_submit(w, 0, RAID_OP_WRITE, 0, 8 * KIB, 4 * KIB);
	story_await(w, id);
	EXPECT(w->answer[id].res == 0 && !w->answer[id].freed);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_FAILED] == 1);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_GONE] == 0);
	story_settle(w);
	EXPECT(w->answer[id].freed);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_GONE] == 1);
	story_verify(w);
}

static void failed_by_hand(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_10, 4);

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
	story_lossy(w, 2);
	world_control(w, RAID_CMD_FAIL, 2);
	while (w->cmd_out) {
		story_pass(w, SIM_MS);
	}
	EXPECT(w->cmd.res == 0);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 64 * KIB) == 0);
	story_crash(w);
	EXPECT(!story_in_sync(w, 2));
	story_start(w);
	story_verify(w);
}

static void members_without_superblocks(struct world *w)
{
	static const enum raid_level levels[] = {RAID_LEVEL_1, RAID_LEVEL_10, RAID_LEVEL_0,
						 RAID_LEVEL_LINEAR};

	for (uint32_t k = 0; k < 4; k++) {
		struct plan p = story_plan(levels[k], 4);

		story_world(w, &p);
		session_begin_built(w);
		for (uint64_t addr = 0; addr < 100 * KIB; addr += 10 * KIB) {
			EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, addr, 5000) == 0);
		}
		if (levels[k] >= RAID_LEVEL_1) {
			w->script = data_hangs;
			story_lossy(w, 1);
			EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 100 * KIB) == 0);
			EXPECT(w->events_of[1][RAID_EV_MEMBER_FAILED] == 1);
			w->script = NULL;
		}
		EXPECT(story_do(w, RAID_OP_FLUSH, 0, 0, 0) == 0);
		story_settle(w);
		story_verify(w);
		session_stop(w);
		session_end(w);
		verify_disks(w, "built from members without superblocks");
		if (k < 3) {
			world_free(w);
		}
	}
}

const struct scenario scenarios_of_rules[] = {
	{"ack-waits-for-survivors-superblocks", ack_waits_for_survivors_superblocks},
	{"survivor-without-superblock-fails-too", survivor_without_superblock_fails_too},
	{"flush-covers-every-connection", flush_covers_every_connection},
	{"flush-during-a-round-waits-for-the-next", flush_during_a_round_waits_for_the_next},
	{"flush-does-not-wait-for-writes", flush_does_not_wait_for_writes},
	{"failed-flush-is-not-retried", failed_flush_is_not_retried},
	{"lost-flush-stays-lost", lost_flush_stays_lost},
	{"dirty-is-durable-before-data", dirty_is_durable_before_data},
	{"an-array-found-dirty-is-never-written-clean",
	 an_array_found_dirty_is_never_written_clean},
	{"copies-that-differ-are-read-from-one-place", copies_that_differ_are_read_from_one_place},
	{"chosen-copy-unreadable-moves-for-good", chosen_copy_unreadable_moves_for_good},
	{"overlapping-writes-in-order", overlapping_writes_in_order},
	{"read-error-is-repaired", read_error_is_repaired},
	{"member-fails-while-it-is-repaired", member_fails_while_it_is_repaired},
	{"one-write-error-costs-no-member", one_write_error_costs_no_member},
	{"no-space-counts-as-a-write-error", no_space_counts_as_a_write_error},
	{"last-copy-is-never-failed", last_copy_is_never_failed},
	{"read-only-writes-nothing", read_only_writes_nothing},
	{"hung-write-keeps-its-buffer", hung_write_keeps_its_buffer},
	{"failed-by-hand", failed_by_hand},
	{"members-without-superblocks", members_without_superblocks},
	{NULL, NULL},
};
