/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands while clients work: devices come and go, are replaced, scrubbed, and get a bitmap or
 * lose it. One command is out at a time. Most refusals are legal; what a refusal may not do is
 * change anything, and what success promises is checked by everybody else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/sim/world.h"

static void next_act(struct world *w)
{
	clock_schedule(&w->clock, w->clock.now_ns + prng_log_range(&w->rng, SIM_MS / 10, 2 * SIM_S),
		       EV_ADMIN, NULL);
}

void admin_begin(struct world *w)
{
	if (w->read_only || w->plan.actions == 0) {
		return;
	}
	w->actions_left = (uint32_t)prng_below(&w->rng, w->plan.actions + 1);
	next_act(w);
}

/* Any disk of which test() holds, drawn; LAYOUT_NONE if there is none. */
static uint32_t draw_disk(struct world *w, bool (*test)(const struct world *w, uint32_t d))
{
	uint32_t start = (uint32_t)prng_below(&w->rng, w->plan.disks);

	for (uint32_t i = 0; i < w->plan.disks; i++) {
		uint32_t d = (start + i) % w->plan.disks;

		if (test(w, d)) {
			return d;
		}
	}
	return LAYOUT_NONE;
}

static bool is_detached(const struct world *w, uint32_t d)
{
	return w->role[d].member == LAYOUT_NONE;
}

static bool is_useless(const struct world *w, uint32_t d)
{
	const struct role *r = &w->role[d];

	return r->member != LAYOUT_NONE &&
	       (r->failed || r->retired || r->spare || (!r->in_sync && !r->filling && !r->twin));
}

static bool may_be_failed(const struct world *w, uint32_t d)
{
	const struct role *r = &w->role[d];

	return r->member != LAYOUT_NONE && !r->failed &&
	       (r->filling || r->twin || (r->in_sync && w->faults[d].lossy));
}

/* ---- ADD ---------------------------------------------------------------------------------------
 */

static uint64_t sb_place(const struct world *w, uint32_t disk)
{
	uint64_t sectors = w->disk[disk].p.size_bytes / RAID_SECTOR_BYTES;

	switch (w->plan.version) {
	case SB_V1_0:
		return ((sectors - 16) & ~UINT64_C(7)) * RAID_SECTOR_BYTES;
	case SB_V1_1:
		return 0;
	default:
		return SB_BYTES_MAX;
	}
}

/* Attach a disk. Returns false if the engine has no place for it. */
bool admin_add(struct world *w, uint32_t disk, bool readd_only)
{
	struct role *r = &w->role[disk];
	struct raid_cmd *cmd = &w->cmd;

	CHECK(!w->cmd_out && r->member == LAYOUT_NONE);
	session_load_disk(w, disk, w->disk[disk].now, w->added);
	memset(cmd, 0, sizeof *cmd);
	cmd->op = RAID_CMD_ADD;
	cmd->candidate = w->added;
	cmd->readd_only = readd_only;
	prng_fill(&w->rng, cmd->device_uuid, sizeof cmd->device_uuid);
	session_props(w, disk, false, &cmd->props);
	memset(r, 0, sizeof *r);
	r->member = r->slot = LAYOUT_NONE;
	w->cmd_disk = disk;
	world_command(w);
	if (cmd->member == UINT32_MAX) {
		return false;
	}
	if (cmd->member >= RAID_MEMBERS_MAX || w->disk_of[cmd->member] != LAYOUT_NONE) {
		sim_fail("ADD gives the place of member %u to another", cmd->member);
	}
	w->disk_of[cmd->member] = disk;
	r->member = cmd->member;
	r->added = r->fresh = true;
	r->sb_maddr = sb_place(w, disk);
	w->disk[disk].watch_maddr = r->sb_maddr;
	r->decoded_at = UINT64_MAX;
	w->number[disk] = LAYOUT_NONE;
	return true;
}

static void detach(struct world *w, uint32_t disk)
{
	struct role *r = &w->role[disk];
	const struct flight *f;

	list_for_each_entry (f, &w->flights, link) {
		if (f->disk == disk) {
			sim_fail("disk %u is taken out while io %llu is out", disk,
				 (unsigned long long)f->id);
		}
	}
	if (r->member != LAYOUT_NONE) {
		w->disk_of[r->member] = LAYOUT_NONE;
	}
	memset(r, 0, sizeof *r);
	r->member = r->slot = LAYOUT_NONE;
	r->sb_maddr = UINT64_MAX;
	w->disk[disk].watch_maddr = UINT64_MAX;
	roles_changed(w);
}

/* ---- the others --------------------------------------------------------------------------------
 */

static void control_on(struct world *w, enum raid_cmd_op op, uint32_t disk)
{
	if (disk != LAYOUT_NONE) {
		world_control(w, op, disk);
	}
}

static void fail_by_hand(struct world *w)
{
	uint32_t d = draw_disk(w, may_be_failed);

	if (d != LAYOUT_NONE) {
		w->faults[d].lossy = true; /* nobody needs what is being filled */
		world_control(w, RAID_CMD_FAIL, d);
	}
}

void admin_sync(struct world *w, enum raid_sync_action action)
{
	CHECK(!w->cmd_out);
	memset(&w->cmd, 0, sizeof w->cmd);
	w->cmd.op = RAID_CMD_SYNC;
	w->cmd.sync = action;
	w->cmd_disk = LAYOUT_NONE;
	world_command(w);
}

static void sync_speed(struct world *w)
{
	memset(&w->cmd, 0, sizeof w->cmd);
	w->cmd.op = RAID_CMD_SYNC_SPEED;
	w->cmd.min_bps = prng_log_range(&w->rng, 1000, 100000000);
	w->cmd.max_bps = prng_one_in(&w->rng, 3)
				 ? 0
				 : w->cmd.min_bps + prng_log_range(&w->rng, 1, 200000000);
	w->cmd_disk = LAYOUT_NONE;
	world_command(w);
}

static void bitmap(struct world *w)
{
	memset(&w->cmd, 0, sizeof w->cmd);
	w->cmd.op = w->bits.on ? RAID_CMD_BITMAP_REMOVE : RAID_CMD_BITMAP_ADD;
	w->cmd.bitmap_chunk_bytes =
		prng_one_in(&w->rng, 3) ? 0 : (uint32_t)(4096 << prng_below(&w->rng, 5));
	w->bits.on = false; /* until it is known what the disks have */
	w->cmd_disk = LAYOUT_NONE;
	world_command(w);
}

static void act(struct world *w)
{
	uint32_t d;

	switch (prng_below(&w->rng, 12)) {
	case 0:
	case 1:
	case 2:
		d = draw_disk(w, is_detached);
		if (d != LAYOUT_NONE) {
			admin_add(w, d, prng_one_in(&w->rng, 4));
		}
		break;
	case 3:
	case 4:
		control_on(w, RAID_CMD_REMOVE, draw_disk(w, is_useless));
		break;
	case 5:
		fail_by_hand(w);
		break;
	case 6:
	case 7:
		control_on(w, RAID_CMD_REPLACE, draw_disk(w, world_is_good));
		break;
	case 8:
	case 9:
		admin_sync(w, (enum raid_sync_action)prng_below(&w->rng, RAID_SYNC_REPAIR + 1));
		break;
	case 10:
		sync_speed(w);
		break;
	default:
		bitmap(w);
		break;
	}
}

void admin_act(struct world *w)
{
	if (w->actions_left == 0) {
		return;
	}
	if (!w->cmd_out && !w->stopped) {
		w->actions_left--;
		act(w);
	}
	if (w->actions_left > 0) {
		next_act(w);
	}
}

/* ---- answers -----------------------------------------------------------------------------------
 */

/* What the superblocks say of the bitmap now, durably. */
static void reload_bits(struct world *w)
{
	bool all[PLAN_DISKS_MAX];
	struct assembly *as = calloc(1, sizeof *as);
	struct asm_options opt = {0};

	CHECK(as);
	memset(all, true, sizeof all);
	asm_decide(w->candidate, session_load(w, all, true, LAYOUT_NONE), &opt, as);
	bits_load(w, as);
	if (w->cmd.res == 0 && w->bits.on != (w->cmd.op == RAID_CMD_BITMAP_ADD) && !w->may_fail) {
		sim_fail("the bitmap was %s, and the superblocks do not say so",
			 w->bits.on ? "removed" : "added");
	}
	free(as);
}

void admin_done(struct world *w, const struct raid_cmd *cmd)
{
	switch (cmd->op) {
	case RAID_CMD_ADD:
		roles_refresh(w);
		if (cmd->res != 0) {
			detach(w, w->cmd_disk);
		}
		break;
	case RAID_CMD_REMOVE:
		if (cmd->res == 0) {
			detach(w, w->cmd_disk);
		}
		break;
	case RAID_CMD_BITMAP_ADD:
	case RAID_CMD_BITMAP_REMOVE:
		reload_bits(w);
		break;
	default:
		break;
	}
}
