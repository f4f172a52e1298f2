/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands about members. A command is looked at once, when it comes (member_control()), and
 * refused or begun; then it waits until superblocks say what it did, REMOVE also until the device's
 * ios are back (member_cmds_run()).
 *
 * A device that was away comes back to its slot if that is empty. With a bitmap that still marks
 * all it missed only that is copied (feature 0x80), provided that it knows all of today's members:
 * one that ran on without some of them holds changes that no bitmap here marks. Otherwise it is
 * rebuilt from its start. A device with more events than the array is neither taken back nor
 * overwritten.
 */
#include <errno.h>
#include <string.h>

#include "raid/assemble.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"
#include "raid/why.h"

static void refuse(struct core *c, struct raid_cmd *cmd, int res)
{
	if (cmd->op == RAID_CMD_ADD && res && cmd->member != UINT32_MAX && res != -EEXIST) {
		member_place_free(c, cmd->member);
		cmd->member = UINT32_MAX;
	}
	core_answer(c, cmd, res);
}

static int writable(const struct core *c, char why[RAID_WHY_BYTES])
{
	if (c->view.read_only) {
		return why_set(why, -EROFS,
			       "the array is read-only: nothing can be recorded on its members");
	}
	if (c->view.broken) {
		return why_set(why, -EIO, "the array takes no more writes; restart it");
	}
	return 0;
}

static bool is_attached(const struct member *m)
{
	return m->has_sb && (member_gets_writes(m) || m->state == RAID_MEMBER_SPARE);
}

/* ---- FAIL, REMOVE, REPLACE ----------------------------------------------------------------- */

static int begin_fail(struct core *c, struct raid_cmd *cmd)
{
	enum raid_member_state state =
		cmd->member < c->members ? c->member[cmd->member].state : RAID_MEMBER_ABSENT;
	int err;

	if (state == RAID_MEMBER_ABSENT) {
		return why_set(cmd->why, -EINVAL, "not a member of the array");
	}
	if (state == RAID_MEMBER_LEAVING || state == RAID_MEMBER_FAULTY) {
		return 0;
	}
	err = writable(c, cmd->why);
	if (err) {
		return err;
	}
	if (state == RAID_MEMBER_IN_SYNC && c->view.any_bad &&
	    bad_needs(c, (uint32_t)c->member[cmd->member].slot)) {
		return why_set(cmd->why, -EBUSY,
			       "other members list bad blocks that only it holds; write or repair "
			       "those first");
	}
	if (member_fail(c, cmd->member, (struct raid_event){.why = "failed by hand"}) ==
	    MEMBER_FAIL_LAST) {
		return why_set(
			cmd->why, -EBUSY,
			c->geo.parity && c->view.unsynced_from != UINT64_MAX
				? "parity may be stale, so what it holds could not be computed "
				  "from the others: resync first"
				: "it holds the last copy of some data; the array would be lost");
	}
	return 0;
}

static int begin_remove(struct core *c, struct raid_cmd *cmd)
{
	struct member *m = cmd->member < c->members ? &c->member[cmd->member] : NULL;
	int err;

	if (!m || !m->taken) {
		return why_set(cmd->why, -ENOENT, "no device has this place");
	}
	if (m->removing) {
		return why_set(cmd->why, -EBUSY, "it is being removed");
	}
	switch (m->state) {
	case RAID_MEMBER_ABSENT:
	case RAID_MEMBER_FAULTY:
		m->removing = true;
		c->meta.changes++; /* its number is free again */
		return 0;
	case RAID_MEMBER_SPARE:
		err = writable(c, cmd->why);
		if (!err) {
			MARK(member_remove_spare);
			m->removing = true;
			member_retire(c, cmd->member);
			c->meta.changes++;
		}
		return err;
	case RAID_MEMBER_LEAVING:
		return why_set(cmd->why, -EBUSY,
			       "it has failed, but %u of its ios are still out; wait until they "
			       "are back",
			       c->iop->member[cmd->member].in_flight);
	default:
		return why_set(cmd->why, -EBUSY, "it is in use; fail it first");
	}
}

/* ---- ADD ----------------------------------------------------------------------------------- */

/* A place whose device is the same; UINT32_MAX: none. */
static uint32_t same_device(const struct core *c, const struct raid_cmd *cmd, bool ours)
{
	const uint8_t *uuid = cmd->candidate->sb.device_uuid;

	for (uint32_t i = 0; ours && i < c->members; i++) {
		const struct member *m = &c->member[i];

		if (i != cmd->member && m->taken && m->has_sb &&
		    !memcmp(m->sb->device_uuid, uuid, 16)) {
			return i;
		}
	}
	return UINT32_MAX;
}

/* Is every member of today known to it as one? Of one that it dropped, or that came later, it holds
 * nothing back that our bitmap would know of. */
static bool knows_all(const struct core *c, const struct sb *sb)
{
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];

		if (m->state == RAID_MEMBER_IN_SYNC &&
		    (m->sb->dev_number >= sb->max_dev ||
		     sb->dev_roles[m->sb->dev_number] != m->slot)) {
			return false;
		}
	}
	return true;
}

/* May the device come back to its slot? 0, or why not. */
static int can_return(const struct core *c, const struct raid_cmd *cmd, bool ours,
		      char why[RAID_WHY_BYTES])
{
	const struct sb *sb = &cmd->candidate->sb, *fresh = c->member[c->meta.freshest].sb;
	uint16_t role;

	if (!ours) {
		return why_set(why, -ENOENT, "%.64s is not a former member of this array",
			       cmd->candidate->name);
	}
	role = sb_own_role(sb);
	if (role >= c->geo.p.slots || sb->version != fresh->version ||
	    sb->raid_disks != fresh->raid_disks || sb->size != fresh->size ||
	    sb->level != fresh->level || sb->layout != fresh->layout ||
	    sb->chunksize != fresh->chunksize) {
		return why_set(why, -ENOENT, "%.64s held no slot of the array as it is now",
			       cmd->candidate->name);
	}
	if (c->view.slot[role].writes) {
		return why_set(why, -ENOENT, "slot %u, which %.64s held, is taken by member %u",
			       role, cmd->candidate->name, c->view.slot[role].member);
	}
	if (sb->data_offset != c->geo.p.slot[role].data_offset_sectors) {
		return why_set(why, -ENOENT, "data of %.64s begins at sector %llu, slot %u at %llu",
			       cmd->candidate->name, (unsigned long long)sb->data_offset, role,
			       (unsigned long long)c->geo.p.slot[role].data_offset_sectors);
	}
	return 0;
}

/* It is in place: either back in its slot, or a spare. */
static void attach(struct core *c, struct raid_cmd *cmd)
{
	struct member *m = &c->member[cmd->member];

	m->props = cmd->props;
	m->has_sb = true;
	m->recorded = true;
	m->added = true;
	m->sb_slot->io.maddr = m->sb->super_offset * RAID_SECTOR_BYTES;
	bad_forget(m);
	c->iop->member[cmd->member] = (struct iop_member){0};
	c->spares_changed = true;
	c->meta.changes++;
}

static int come_back(struct core *c, struct raid_cmd *cmd)
{
	struct member *m = &c->member[cmd->member];
	const struct sb *sb = &cmd->candidate->sb;
	uint32_t slot = sb_own_role(sb);
	bool half = sb->feature_map & (SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT);
	bool guided = !half && knows_all(c, sb) && intent_covers(c, sb->events);
	int err = member_new_sb(c, cmd->member, cmd, cmd->why);

	if (err) {
		return err;
	}
	if (sb->dev_number < c->meta.max_dev &&
	    !member_number_used(c, sb->dev_number, cmd->member)) {
		m->sb->dev_number = sb->dev_number;
	}
	m->sb->devflags = sb->devflags;
	m->sb->super_offset = sb->super_offset;
	m->sb->bblog_offset = sb->bblog_offset;
	m->sb->bblog_size = sb->bblog_size;
	m->sb->bblog_shift = sb->bblog_shift;
	m->sb->cnt_corrected_read = sb->cnt_corrected_read;
	m->props = cmd->props;
	m->has_sb = true;
	err = member_fits(c, cmd->member, slot, cmd->why);
	if (err) {
		return err;
	}
	attach(c, cmd);
	member_take_slot(c, cmd->member, slot, RAID_MEMBER_REBUILDING);
	m->guided = guided;
	if (guided) {
		MARK(member_returns_guided);
	} else {
		MARK(member_returns);
	}
	return 0;
}

static int become_spare(struct core *c, struct raid_cmd *cmd)
{
	struct member *m = &c->member[cmd->member];
	int err = member_new_sb(c, cmd->member, cmd, cmd->why);

	if (err) {
		return err;
	}
	m->props = cmd->props;
	m->slot = -1;
	/* Useless for one slot, it may suit another; useless for all, it is refused. */
	err = -ENOSPC;
	for (uint32_t k = 0; k < c->geo.p.slots && err; k++) {
		err = member_fits(c, cmd->member, k, cmd->why);
	}
	if (err) {
		return err;
	}
	MARK(member_add_spare);
	attach(c, cmd);
	member_set_state(m, RAID_MEMBER_SPARE);
	return 0;
}

static int begin_add(struct core *c, struct raid_cmd *cmd)
{
	const struct asm_candidate *cand = cmd->candidate;
	const struct sb *fresh = c->member[c->meta.freshest].sb;
	char no_return[RAID_WHY_BYTES];
	bool ours;
	uint32_t same;
	int err = writable(c, cmd->why);

	if (err) {
		return err;
	}
	if (c->meta.state == META_OFF) {
		return why_set(cmd->why, -ENOTSUP,
			       "this array has no spares: it has no redundancy or no superblocks");
	}
	if (cmd->member == UINT32_MAX) {
		return why_set(cmd->why, -ENOSPC, "all %u places for devices are taken", c->places);
	}
	err = member_usable(c, &cmd->props, cand->name, cmd->why);
	if (err) {
		return err;
	}
	ours = !cand->load_err && !memcmp(cand->sb.set_uuid, fresh->set_uuid, 16);
	same = same_device(c, cmd, ours);
	if (same != UINT32_MAX && is_attached(&c->member[same])) {
		member_place_free(c, cmd->member);
		cmd->member = same;
		return why_set(cmd->why, -EEXIST, "it is member %u already", same);
	}
	if (same != UINT32_MAX) {
		return why_set(cmd->why, -EBUSY, "it is member %u, which failed: remove that first",
			       same);
	}
	if (ours && sb_own_role(&cand->sb) <= SB_ROLE_MAX && cand->sb.events > c->meta.events) {
		return why_set(cmd->why, -ESTALE,
			       "%.64s ran on without this array (events %llu, here %llu): its data "
			       "are newer; to use it all the same, zero its superblock first",
			       cand->name, (unsigned long long)cand->sb.events,
			       (unsigned long long)c->meta.events);
	}
	err = can_return(c, cmd, ours, no_return);
	if (!err) {
		return come_back(c, cmd);
	}
	if (cmd->readd_only) {
		return why_set(cmd->why, err, "%s", no_return);
	}
	return become_spare(c, cmd);
}

/* ---- all ----------------------------------------------------------------------------------- */

void member_control(struct core *c, struct raid_cmd *cmd)
{
	int err;

	switch (cmd->op) {
	case RAID_CMD_FAIL:
		err = begin_fail(c, cmd);
		break;
	case RAID_CMD_REMOVE:
		err = begin_remove(c, cmd);
		break;
	case RAID_CMD_REPLACE:
		err = writable(c, cmd->why);
		err = err ? err : member_replace(c, cmd->member, cmd->with, cmd->why);
		break;
	default:
		CHECK(cmd->op == RAID_CMD_ADD);
		err = begin_add(c, cmd);
		break;
	}
	if (err) {
		refuse(c, cmd, err);
	} else {
		cmd->update = c->meta.changes;
		list_append(&c->cmds_waiting, &cmd->link);
	}
}

/* The device is out. */
static void removed(struct core *c, struct raid_cmd *cmd)
{
	MARK(member_removed);
	member_place_free(c, cmd->member);
	events_add(c->events,
		   (struct raid_event){.type = RAID_EV_MEMBER_REMOVED, .member = cmd->member});
}

/* Superblocks can no longer say it. Then a device is not added either: it goes again. */
static bool give_up(struct core *c, struct raid_cmd *cmd, int *res)
{
	const struct member *m;

	if (cmd->op == RAID_CMD_FAIL) {
		return true;
	}
	*res = why_set(cmd->why, -EIO, "superblocks could not be written");
	if (cmd->op != RAID_CMD_ADD) {
		return true;
	}
	m = &c->member[cmd->member];
	if (is_attached(m)) {
		MARK(member_add_given_up);
		member_retire(c, cmd->member);
	}
	if (m->state == RAID_MEMBER_LEAVING || c->iop->member[cmd->member].in_flight) {
		return false;
	}
	member_place_free(c, cmd->member);
	cmd->member = UINT32_MAX;
	return true;
}

/* Returns whether the command is over; res is its answer. */
static bool is_over(struct core *c, struct raid_cmd *cmd, int *res)
{
	const struct meta *meta = &c->meta;
	const struct member *m = &c->member[cmd->member];

	*res = 0;
	if (c->meta.state == META_BROKEN) { /* view.broken alone: superblocks are still kept */
		return give_up(c, cmd, res);
	}
	if (meta->failures != meta->failures_durable || meta->changes_durable < cmd->update) {
		return false;
	}
	if (cmd->op == RAID_CMD_REMOVE) {
		if (m->state == RAID_MEMBER_LEAVING || c->iop->member[cmd->member].in_flight) {
			return false;
		}
		removed(c, cmd);
	}
	return true;
}

bool member_cmds_run(struct core *c)
{
	struct raid_cmd *cmd, *tmp;
	uint32_t leaving = c->leaving;
	bool moved = false;
	int res;

	list_for_each_entry_safe (cmd, tmp, &c->cmds_waiting, link) {
		if (is_over(c, cmd, &res)) {
			moved = true;
			list_del(&cmd->link);
			core_answer(c, cmd, res);
		}
	}
	return moved || c->leaving != leaving;
}

/* The array has stopped: what still waits will not be done. */
void member_cmds_stop(struct core *c)
{
	struct list *l;

	while ((l = list_pop(&c->cmds_waiting))) {
		struct raid_cmd *cmd = container_of(l, struct raid_cmd, link);

		core_answer(c, cmd, why_set(cmd->why, -ESHUTDOWN, "the array has stopped"));
	}
}
