/* SPDX-License-Identifier: BSD-3-Clause */
/* One story for each bug that other RAID implementations had to learn from. */
#include <errno.h>
#include <string.h>

#include "raid/sim/story.h"

enum { KIB = 1024 };

static void dies(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == w->script_arg) {
		f->fate = FLIGHT_FAIL;
		f->err = -EIO;
	}
}

/* The survivors wrote one event more and the machine died: the failed disk, one behind, is within
 * the grace of md's rule, and only the freshest table tells that it is not to be trusted. */
static void faulty_disk_one_event_behind(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	for (int with_crash = 0; with_crash < 2; with_crash++) {
		story_world(w, &p);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == 0);
		w->script = dies;
		w->script_arg = 1;
		story_lossy(w, 1);
		EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == 0);
		if (with_crash) {
			story_crash(w);
		} else {
			story_stop(w);
		}
		w->script = NULL;
		EXPECT(story_in_sync(w, 0) && !story_in_sync(w, 1));
		story_start(w);
		story_verify(w);
		if (!with_crash) {
			story_stop(w);
			world_free(w);
		}
	}
}

/* Three mirrors go one after the other; the first that went must not win. */
static void mirrors_removed_one_after_the_other(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 3);

	story_world(w, &p);
	for (uint32_t gone = 2; gone > 0; gone--) {
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == 0);
		w->script = dies;
		w->script_arg = gone;
		story_lossy(w, gone);
		EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == 0);
		story_crash(w);
		w->script = NULL;
	}
	/* The order in which disks are offered is drawn anew each time. */
	for (int i = 0; i < 20; i++) {
		EXPECT(story_in_sync(w, 0) && !story_in_sync(w, 1) && !story_in_sync(w, 2));
	}
	story_start(w);
	story_verify(w);
}

/* A member that was absent while the others went on comes back. */
static void absent_member_comes_back_stale(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	story_world(w, &p);
	story_start_without(w, 1);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 4 * KIB) == 0);
	story_crash(w);
	EXPECT(story_in_sync(w, 0) && !story_in_sync(w, 1));
	story_start(w);
	story_verify(w);
	EXPECT(w->ios_of[1][RAID_IO_READ] == 0 && w->ios_of[1][RAID_IO_WRITE] == 0);
}

static void every_zone(struct world *w)
{
	uint64_t size = w->layout.sectors * RAID_SECTOR_BYTES;

	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, size) == 0);
	for (uint64_t addr = 0; addr + 24 * KIB < size; addr += 20 * KIB + 512) {
		EXPECT(story_do(w, RAID_OP_TRIM, 0, addr, 6 * KIB) == 0);
		EXPECT(story_do(w, RAID_OP_ZERO, 0, addr + 8 * KIB, 5 * KIB + 512) == 0);
	}
	story_settle(w);
	story_verify(w);
}

/* RAID 0 with zones: trims went through another map than writes. */
static void raid0_zones_trim_through_the_same_map(struct world *w)
{
	for (uint32_t layout = 1; layout <= 2; layout++) {
		struct plan p = story_plan(RAID_LEVEL_0, 3);

		p.layout = layout;
		p.disk[1].size_bytes *= 2;
		p.disk[2].size_bytes *= 3;
		story_world(w, &p);
		story_start(w);
		every_zone(w);
		if (layout == 1) {
			story_stop(w);
			world_free(w);
		}
	}
}

/* RAID 10: a discard wiped neighbours. Every alignment and span around chunk borders. */
static void raid10_trim_spares_its_neighbours(struct world *w)
{
	static const uint32_t layouts[] = {0x102, 0x201, 0x10201, 0x103, 0x10301};

	for (uint32_t k = 0; k < 5; k++) {
		struct plan p = story_plan(RAID_LEVEL_10, 5);
		uint64_t from = 14 * RAID_SECTOR_BYTES;

		p.layout = layouts[k];
		p.chunk_sectors = 8;
		story_world(w, &p);
		story_start(w);
		for (uint64_t a = 0; a < 4; a++) {
			for (uint64_t len = 1; len < 40; len += 3) {
				enum raid_op op = len % 2 ? RAID_OP_TRIM : RAID_OP_ZERO;

				EXPECT(story_do(w, op, 0, from + a * 512, len * 512) == 0);
				EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
			}
		}
		story_settle(w);
		story_verify(w);
		if (k < 4) {
			story_stop(w);
			world_free(w);
		}
	}
}

/* A listed block is never read; a good write takes it off the list. */
static void bad_block_list_is_honoured(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint32_t listed;
	uint64_t size;

	p.bad_list = true;
	story_world(w, &p);
	listed = w->listed_disk;
	EXPECT(listed != LAYOUT_NONE);
	for (int i = 0; i < 2; i++) {
		story_start(w);
		story_verify(w);
		for (uint32_t m = 0; m < w->assembly->members; m++) {
			EXPECT((w->assembly->member[m].bad.count > 0) ==
			       (i == 0 && w->disk_of[m] == listed));
		}
		size = raid_size(w->array);
		for (uint64_t at = 0; at < size; at += 100 * KIB) {
			EXPECT(story_do(w, RAID_OP_WRITE, 0, at,
					size - at < 100 * KIB ? size - at : 100 * KIB) == 0);
		}
		story_settle(w);
		story_verify(w);
		story_stop(w);
	}
}

static void read_hangs(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->io->op == RAID_IO_READ && w->script_arg > 0) {
		w->script_arg--;
		*latency_ns = 180 * SIM_S;
	}
}

/* A disk that retries for minutes: the client gets its answer, the array keeps the disk. */
static void hanging_read_costs_no_member(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id, before;

	p.limits.read_deadline_ms = 7000;
	story_world(w, &p);
	story_start(w);
	w->script = read_hangs;
	w->script_arg = 1;
	before = w->clock.now_ns;
	id = story_submit(w, 0, RAID_OP_READ, 0, 4 * KIB, 4 * KIB);
	story_await(w, id);
	EXPECT(w->answer[id].res == 0 && w->answer[id].at_ns - before < 8 * SIM_S);
	story_pass(w, 200 * SIM_S);
	EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] + w->events_of[1][RAID_EV_MEMBER_FAILED] ==
	       0);
	story_verify(w);
}

static void reads_hang_long(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->io->op == RAID_IO_READ && f->disk >= w->script_arg) {
		*latency_ns = 30 * SIM_S;
	}
}

/* Both mirrors hang: there is nobody to turn to, and nobody to blame. */
static void both_mirrors_hang(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id[8];

	p.limits.read_deadline_ms = 2000;
	story_world(w, &p);
	story_start(w);
	w->script = reads_hang_long;
	w->script_arg = 0;
	for (uint32_t i = 0; i < 8; i++) {
		id[i] = story_submit(w, i % 4, RAID_OP_READ, 0, i * 8 * KIB, 4 * KIB);
	}
	story_pass(w, 100 * SIM_S);
	for (uint32_t i = 0; i < 8; i++) {
		EXPECT(w->answer[id[i]].given && w->answer[id[i]].res == 0);
	}
	EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] + w->events_of[1][RAID_EV_MEMBER_FAILED] ==
	       0);
	w->script = NULL;
	story_verify(w);
}

/* Disk 0 answers just after the deadline, disk 1 just before it. */
static void around_the_deadline(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->io->op == RAID_IO_READ) {
		*latency_ns = f->disk == 0 ? 2500 * SIM_MS : 1990 * SIM_MS;
	}
}

/* All buffers are taken when reads want to turn away from a hung disk: they wait, and what comes
 * first, a buffer or the disk, serves them. */
static void hung_reads_find_no_room(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id[32];

	p.limits.read_deadline_ms = 2000;
	p.limits.buffer_bytes = 1 << 20;
	story_world(w, &p);
	story_start(w);
	w->script = around_the_deadline;
	for (uint32_t i = 0; i < 32; i++) {
		id[i] = story_submit(w, i % 4, RAID_OP_READ, 0, i % 2 * 64 * KIB, 64 * KIB);
	}
	for (uint32_t i = 0; i < 32; i++) {
		story_await(w, id[i]);
		EXPECT(w->answer[id[i]].res == 0);
	}
	story_settle(w);
	EXPECT(w->events_of[0][RAID_EV_DEADLINE] > 0);
	EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] == 0);
	story_verify(w);
}

/* The source of a repair hangs: reads of the bad block still get their answer from it, late. */
static void source_of_a_repair_hangs(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t id[4];

	for (uint32_t unsynced = 0; unsynced < 2; unsynced++) {
		p.limits.read_deadline_ms = 2000;
		p.assume_clean = !unsynced;
		story_world(w, &p);
		story_start(w);
		w->disk[0].bad[(w->layout.data_from[0] + 8 * KIB) / 512] = DISK_BAD_READ;
		w->script = reads_hang_long;
		w->script_arg = 1;
		for (uint32_t i = 0; i < 4; i++) {
			id[i] = story_submit(w, i, RAID_OP_READ, 0, 8 * KIB, 4 * KIB);
		}
		story_pass(w, 100 * SIM_S);
		for (uint32_t i = 0; i < 4; i++) {
			EXPECT(w->answer[id[i]].given && w->answer[id[i]].res == 0);
		}
		w->script = NULL;
		story_settle(w);
		story_verify(w);
		if (!unsynced) {
			story_stop(w);
			world_free(w);
		}
	}
}

/* A disk with more bad blocks than the limit is failed, and only then. */
static void a_member_fails_by_the_rate_of_its_errors(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	p.limits.read_errors_max = 10;
	p.assume_clean = false; /* all reads go to disk 0 */
	story_world(w, &p);
	story_start(w);
	for (uint64_t i = 0; i < 20; i++) {
		w->disk[0].bad[(w->layout.data_from[0] + i * 4 * KIB) / 512] = DISK_BAD_READ;
		if (i == 10) {
			EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] == 0);
			story_lossy(w, 0);
		}
		EXPECT(story_do(w, RAID_OP_READ, 0, i * 4 * KIB, 4 * KIB) == 0);
		story_settle(w);
	}
	EXPECT(w->events_of[0][RAID_EV_MEMBER_FAILED] == 1);
	story_verify(w);
}

/* The only copy left lists the block: an error, not stale data, until it is written. */
static void listed_on_the_last_copy(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t bad = 0;

	p.bad_list = true;
	story_world(w, &p);
	EXPECT(w->listed_disk != LAYOUT_NONE);
	story_start_without(w, 1 - w->listed_disk);
	w->may_fail = true;
	while (!w->listed[w->listed_disk][w->layout.data_from[0] / 512 + bad]) {
		bad++;
	}
	EXPECT(story_do(w, RAID_OP_READ, 0, bad * 512, 512) == -EIO);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, bad * 512, 512) == 0);
	EXPECT(story_do(w, RAID_OP_READ, 0, bad * 512, 512) == 0);
}

/* Below its minimum an array does not come up, whatever empty disks are offered. */
static void below_minimum_stays_down(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_10, 4);
	bool offered[PLAN_DISKS_MAX] = {true, true, true, true};
	uint8_t empty[SB_BYTES_MAX] = {0};

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
	story_stop(w);
	offered[0] = offered[1] = false;
	session_judge(w, offered, w->assembly);
	EXPECT(w->assembly->decision == ASM_REFUSE);
	disk_poke(&w->disk[0], SB_BYTES_MAX, empty, sizeof empty);
	disk_poke(&w->disk[1], SB_BYTES_MAX, empty, sizeof empty);
	offered[0] = offered[1] = true;
	session_judge(w, offered, w->assembly);
	EXPECT(w->assembly->decision == ASM_REFUSE);
}

/* A member with larger blocks: the array's size and its 512-byte writes stay what they were. */
static void larger_blocks_are_emulated(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	p.disk[1].block = 4096;
	p.disk[1].size_bytes = 180 * KIB;
	story_world(w, &p);
	for (int i = 0; i < 2; i++) {
		story_start(w);
		for (uint64_t addr = 0; addr < 20 * KIB; addr += 1536) {
			EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, addr, 512) == 0);
			EXPECT(story_do(w, RAID_OP_ZERO, 0, addr + 512, 100) == 0);
		}
		story_crash(w);
	}
	story_start(w);
	story_verify(w);
}

/* Beyond `script_arg` bytes the disk is not there any more. */
static void shrunk(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	if (f->disk == 1 && f->io->maddr + f->io->len > w->script_arg) {
		f->fate = FLIGHT_FAIL;
		f->err = -EIO;
	}
}

static void file_that_shrinks_fails_as_a_member(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);

	story_world(w, &p);
	story_start(w);
	w->script = shrunk;
	w->script_arg = 100 * KIB;
	story_lossy(w, 1);
	story_verify(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 80 * KIB, 8 * KIB) == 0);
	EXPECT(w->events_of[1][RAID_EV_MEMBER_FAILED] == 1);
	story_settle(w);
	story_verify(w);
}

const struct scenario scenarios_of_lessons[] = {
	{"faulty-disk-one-event-behind", faulty_disk_one_event_behind},
	{"mirrors-removed-one-after-the-other", mirrors_removed_one_after_the_other},
	{"absent-member-comes-back-stale", absent_member_comes_back_stale},
	{"raid0-zones-trim-through-the-same-map", raid0_zones_trim_through_the_same_map},
	{"raid10-trim-spares-its-neighbours", raid10_trim_spares_its_neighbours},
	{"bad-block-list-is-honoured", bad_block_list_is_honoured},
	{"hanging-read-costs-no-member", hanging_read_costs_no_member},
	{"both-mirrors-hang", both_mirrors_hang},
	{"hung-reads-find-no-room", hung_reads_find_no_room},
	{"source-of-a-repair-hangs", source_of_a_repair_hangs},
	{"a-member-fails-by-the-rate-of-its-errors", a_member_fails_by_the_rate_of_its_errors},
	{"listed-on-the-last-copy", listed_on_the_last_copy},
	{"below-minimum-stays-down", below_minimum_stays_down},
	{"larger-blocks-are-emulated", larger_blocks_are_emulated},
	{"file-that-shrinks-fails-as-a-member", file_that_shrinks_fails_as_a_member},
	{NULL, NULL},
};
