/* SPDX-License-Identifier: BSD-3-Clause */
/* Stories of members that come and go: spares, rebuilds, replacements, returns. */
#include <errno.h>
#include <string.h>

#include "raid/sim/story.h"

enum { KIB = 1024 };

static void lose(struct world *w, uint32_t disk)
{
	story_lossy(w, disk);
	EXPECT(story_command(w, RAID_CMD_FAIL, disk) == 0);
}

/* A slow rebuild, so that clients meet it. */
static struct plan slow_plan(enum raid_level level, uint32_t slots)
{
	struct plan p = story_plan(level, slots);

	for (uint32_t i = 0; i < slots; i++) {
		p.disk[i].size_bytes += 512 * KIB;
	}
	p.limits.sync_min_bps = p.limits.sync_max_bps = 800000;
	p.limits.safe_mode_ms = 20;
	return p;
}

static void write_while_it_runs(struct world *w, uint32_t times)
{
	uint64_t size = w->layout.sectors * RAID_SECTOR_BYTES;

	for (uint32_t i = 0; i < times && world_is_missing(w); i++) {
		uint64_t at = (uint64_t)i * 104729 * 512 % (size - 20 * KIB);

		EXPECT(story_do(w, RAID_OP_WRITE, 0, at, 512 + i * 331 % (20 * KIB)) == 0);
		story_pass(w, 10 * SIM_MS);
	}
}

/* Writes were under way to where a recovery began, and were lost: a member goes and comes back,
 * again and again, under load; then all that is left is what was rebuilt. */
static void writes_while_a_member_comes_back(struct world *w)
{
	static const enum raid_level level[] = {RAID_LEVEL_1, RAID_LEVEL_5, RAID_LEVEL_10};

	for (uint32_t i = 0; i < 6; i++) {
		struct plan p = slow_plan(level[i % 3], level[i % 3] == RAID_LEVEL_1 ? 2 : 4);

		p.bitmap = i >= 3;
		p.bitmap_chunk_bytes = 8 * KIB;
		story_world(w, &p);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 60 * KIB) == 0);
		for (uint32_t round = 0; round < 4; round++) {
			lose(w, 1);
			EXPECT(story_do(w, RAID_OP_WRITE, 0, round * 9 * KIB, 12 * KIB) == 0);
			EXPECT(story_command(w, RAID_CMD_REMOVE, 1) == 0);
			story_submit(w, 1, RAID_OP_WRITE, 0, round * 5 * KIB, 40 * KIB);
			EXPECT(story_add(w, 1) == 0);
			write_while_it_runs(w, 200);
			story_whole(w);
			EXPECT(world_is_good(w, 1));
		}
		lose(w, 0);
		story_settle(w);
		story_verify(w);
		if (i < 5) {
			story_stop(w);
			world_free(w);
		}
	}
}

/* With a bitmap a member that was away gets what it missed, not more. */
static void only_what_was_missed_is_copied(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 2);
	uint64_t before;

	p.bitmap = true;
	p.bitmap_chunk_bytes = 4 * KIB;
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 8 * KIB) == 0);
	story_whole(w);
	story_pass(w, 60 * SIM_S);
	lose(w, 1);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 64 * KIB, 4 * KIB) == 0);
	EXPECT(story_command(w, RAID_CMD_REMOVE, 1) == 0);
	before = w->written_of[1];
	EXPECT(story_add(w, 1) == 0);
	story_whole(w);
	EXPECT(world_is_good(w, 1));
	EXPECT(w->written_of[1] - before <= 16 * KIB);
	lose(w, 0);
	story_verify(w);
}

/* The source of a replacement fails at every moment of it. */
static void source_fails_during_a_replace(struct world *w)
{
	static const enum raid_level level[] = {RAID_LEVEL_10, RAID_LEVEL_1, RAID_LEVEL_5,
						RAID_LEVEL_6};

	for (uint32_t i = 0; i < 32; i++) {
		struct plan p = slow_plan(level[i % 4], 4);

		story_more_disks(&p, 1, 0);
		story_world(w, &p);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 100 * KIB) == 0);
		EXPECT(story_command(w, RAID_CMD_REPLACE, 2) == 0);
		for (uint32_t k = 0; k < i / 4 * 8; k++) {
			EXPECT(story_do(w, RAID_OP_WRITE, 0, k % 24 * 5 * KIB, 3 * KIB) == 0);
			story_pass(w, 10 * SIM_MS);
		}
		story_lossy(w, 2);
		story_command(w, RAID_CMD_FAIL, 2); /* it may have left already */
		write_while_it_runs(w, 40);
		story_whole(w);
		EXPECT(w->holder[2] == 4);
		story_settle(w);
		story_verify(w);
		if (i < 31) {
			story_stop(w);
			world_free(w);
		}
	}
}

/* A rebuild that a power cut or a stop ends goes on where its last checkpoint was. */
static void a_rebuild_survives_restarts(struct world *w)
{
	struct plan p = slow_plan(RAID_LEVEL_5, 4);

	story_more_disks(&p, 1, 0);
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, RAID_REQ_FUA, 0, 100 * KIB) == 0);
	lose(w, 1);
	story_pass(w, 200 * SIM_MS);
	story_settle(w);
	for (int i = 0; i < 3; i++) {
		story_stop(w);
		EXPECT(w->role[4].filling);
		story_start(w);
		EXPECT(story_do(w, RAID_OP_WRITE, 0, 30 * KIB, 5 * KIB) == 0);
		story_pass(w, 150 * SIM_MS);
	}
	story_whole(w);
	EXPECT(w->holder[1] == 4);
	story_settle(w);
	lose(w, 0);
	story_verify(w);
}

/* Lists of bad blocks belong to a disk: a rebuild copies none, and a member that comes back has
 * none once it is rebuilt. */
static void a_bad_block_list_is_not_copied(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_1, 3);
	uint32_t listed, other;

	p.bad_list = true;
	story_more_disks(&p, 1, 0);
	story_world(w, &p);
	listed = w->listed_disk;
	EXPECT(listed != LAYOUT_NONE);
	other = (listed + 1) % 3;
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	lose(w, other);
	story_whole(w);
	EXPECT(w->holder[other] == 3);
	story_verify(w);
	story_stop(w);
	for (uint32_t m = 0; m < w->assembly->members; m++) {
		EXPECT(w->disk_of[m] != 3 || w->assembly->member[m].bad.count == 0);
	}
}

/* Firmware wipes a superblock: one member is lost, nothing else, and it is rebuilt. */
static void a_wiped_superblock_costs_one_member(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_5, 4);
	uint8_t nothing[SB_BYTES_MAX] = {0};

	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
	story_stop(w);
	disk_poke(&w->disk[2], SB_BYTES_MAX, nothing, sizeof nothing);
	EXPECT(!story_in_sync(w, 2) && story_in_sync(w, 0) && story_in_sync(w, 3));
	w->has_sb[2] = false;
	story_start(w);
	story_verify(w);
	EXPECT(story_add(w, 2) == 0);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	story_whole(w);
	EXPECT(w->holder[2] == 2);
	lose(w, 0);
	story_verify(w);
}

/* New limits take hold at once, and nothing begins again because of them. */
static void speed_changes_keep_what_is_done(struct world *w)
{
	struct plan p = slow_plan(RAID_LEVEL_1, 2);
	struct raid_status st;
	uint64_t done;

	p.limits.sync_min_bps = p.limits.sync_max_bps = 100000;
	story_more_disks(&p, 1, 0);
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 4 * KIB) == 0);
	lose(w, 1);
	story_pass(w, 2 * SIM_S);
	raid_get_status(w->array, &st);
	done = st.sync.done;
	EXPECT(st.sync.action == RAID_SYNC_REBUILD && done > 0 && done < st.sync.total);
	memset(&w->cmd, 0, sizeof w->cmd);
	w->cmd.op = RAID_CMD_SYNC_SPEED;
	w->cmd.min_bps = w->cmd.max_bps = 100000000;
	world_command(w);
	story_pass(w, SIM_MS);
	raid_get_status(w->array, &st);
	EXPECT(st.sync.action != RAID_SYNC_REBUILD || st.sync.done >= done);
	story_pass(w, 3 * SIM_S);
	EXPECT(!world_is_missing(w) && w->holder[1] == 2);
	story_verify(w);
}

/* Five spares cannot bring back an array that lost too much. */
static void spares_do_not_replace_data(struct world *w)
{
	struct plan p = story_plan(RAID_LEVEL_5, 3);
	bool offered[PLAN_DISKS_MAX] = {true, false, false, true, true};

	story_more_disks(&p, 2, 0);
	story_world(w, &p);
	story_start(w);
	EXPECT(story_do(w, RAID_OP_WRITE, 0, 0, 64 * KIB) == 0);
	story_stop(w);
	session_judge(w, offered, w->assembly);
	EXPECT(w->assembly->decision == ASM_REFUSE);
}

const struct scenario scenarios_of_members[] = {
	{"writes-while-a-member-comes-back", writes_while_a_member_comes_back},
	{"only-what-was-missed-is-copied", only_what_was_missed_is_copied},
	{"source-fails-during-a-replace", source_fails_during_a_replace},
	{"a-rebuild-survives-restarts", a_rebuild_survives_restarts},
	{"a-bad-block-list-is-not-copied", a_bad_block_list_is_not_copied},
	{"a-wiped-superblock-costs-one-member", a_wiped_superblock_costs_one_member},
	{"speed-changes-keep-what-is-done", speed_changes_keep_what_is_done},
	{"spares-do-not-replace-data", spares_do_not_replace_data},
	{NULL, NULL},
};
