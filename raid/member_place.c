/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places for members, and what a device must be to take one.
 *
 * A place is an index of struct core.member, of raid_io.member and of the caller's devices. Those
 * of the assembly come first, limits.members_extra more are for devices that come later; a place is
 * used again once its device was removed and no io of it is out.
 *
 * Whoever holds slot k, or is to take it over, has the geometry's data offset of slot k: so a
 * block's address on a member never changes while ios are out. A spare has no data: it gets its
 * data offset with its slot. An empty slot has that of the member that speaks for the array.
 */
#include <errno.h>
#include <string.h>

#include "raid/assemble.h"
#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"
#include "raid/why.h"

/* ---- the view ------------------------------------------------------------------------------ */

static void note_bad(struct core *c)
{
	c->view.any_bad = false;
	for (uint32_t g = 0; g < VIEW_SLOTS; g++) {
		c->view.any_bad |= c->view.slot[g].bad != NULL;
	}
}

static uint32_t gslot_of(const struct member *m)
{
	return (uint32_t)m->slot + (m->state == RAID_MEMBER_REPLACEMENT ? VIEW_TWIN : 0);
}

void member_view(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];
	uint32_t g = gslot_of(m), slot = (uint32_t)m->slot;
	uint64_t offset = c->geo.p.slot[slot].data_offset_sectors * RAID_SECTOR_BYTES;
	uint64_t used = geo_used_sectors(&c->geo, slot) * RAID_SECTOR_BYTES;
	bool in_sync = m->state == RAID_MEMBER_IN_SYNC;

	CHECK(member_gets_writes(m) &&
	      (!m->has_sb || m->sb->data_offset * RAID_SECTOR_BYTES == offset));
	c->view.slot[g] = (struct view_slot){
		.in_sync = in_sync,
		.writes = true,
		.good_below = in_sync ? UINT64_MAX : m->recovery_sectors * RAID_SECTOR_BYTES,
		.write_mostly = m->has_sb && m->sb->devflags & SB_DEV_WRITE_MOSTLY,
		.failfast = m->has_sb && m->sb->devflags & SB_DEV_FAIL_FAST,
		.rotational = m->props.rotational,
		.can_punch = m->props.can_punch,
		.can_zero = m->props.can_zero,
		.member = i,
		.max_io_bytes = m->props.max_io_bytes ? (uint32_t)round_down_u64(
								m->props.max_io_bytes, c->view.unit)
						      : UINT32_MAX,
		.end_maddr = round_up_u64(offset + used, m->props.logical_block),
		.bad = m->bad->count ? m->bad : NULL,
	};
	c->iop->member[i].failfast = c->view.slot[g].failfast;
	if (g < VIEW_TWIN) {
		c->present[g] = in_sync;
	}
	note_bad(c);
	c->view.members_generation++;
	c->view.generation++;
}

void member_view_bad(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];

	if (member_gets_writes(m)) {
		c->view.slot[gslot_of(m)].bad = m->bad->count ? m->bad : NULL;
		note_bad(c);
		c->view.generation++;
	}
}

void member_unview(struct core *c, uint32_t i)
{
	const struct member *m = &c->member[i];
	uint32_t g;

	if (!member_gets_writes(m)) {
		return;
	}
	g = gslot_of(m);
	CHECK(c->view.slot[g].member == i);
	c->view.slot[g] = (struct view_slot){.member = UINT32_MAX};
	if (g < VIEW_TWIN) {
		c->present[g] = false;
	}
	note_bad(c);
	c->view.members_generation++;
	c->view.generation++;
}

/* ---- what fits ----------------------------------------------------------------------------- */

/* First sector behind what data may use. */
static uint64_t data_end(const struct sb *sb, const struct raid_member_props *p)
{
	int64_t room = 0;

	if (sb->version != SB_V1_0) {
		return p->size_bytes / RAID_SECTOR_BYTES;
	}
	/* Before the superblock lie the bitmap and the bad-block log. */
	if (sb->feature_map & SB_FEATURE_BITMAP && sb->bitmap_offset < 0) {
		room = -(int64_t)sb->bitmap_offset;
	}
	if (sb->bblog_size && sb->bblog_offset < 0 && -(int64_t)sb->bblog_offset > room) {
		room = -(int64_t)sb->bblog_offset;
	}
	return sb->super_offset - min_u64((uint64_t)room, sb->super_offset);
}

int member_usable(const struct core *c, const struct raid_member_props *p, const char *name,
		  char why[RAID_WHY_BYTES])
{
	if (p->read_only) {
		return why_set(why, -EROFS, "%.64s is opened read-only", name);
	}
	if (!is_pow2_u64(p->logical_block) || p->logical_block < RAID_SECTOR_BYTES ||
	    !is_pow2_u64(p->mem_align)) {
		return why_set(why, -EINVAL, "%.64s: block size %u, memory alignment %u", name,
			       p->logical_block, p->mem_align);
	}
	if (p->logical_block > c->view.unit || p->mem_align > c->view.unit) {
		return why_set(why, -EINVAL,
			       "%.64s has blocks of %u bytes, the array is served in blocks of %u: "
			       "use a device with smaller blocks, or restart the array with it",
			       name, (uint32_t)max_u64(p->logical_block, p->mem_align),
			       c->view.unit);
	}
	if (p->max_io_bytes && p->max_io_bytes < c->max_io_bytes) {
		return why_set(why, -EINVAL,
			       "%.64s takes ios of at most %u bytes, the array uses %llu: restart "
			       "the array with it",
			       name, p->max_io_bytes, (unsigned long long)c->max_io_bytes);
	}
	return 0;
}

int member_fits(const struct core *c, uint32_t i, uint32_t slot, char why[RAID_WHY_BYTES])
{
	const struct member *m = &c->member[i];
	uint64_t offset = c->geo.p.slot[slot].data_offset_sectors;
	uint64_t need = offset + geo_used_sectors(&c->geo, slot);
	uint64_t end = data_end(m->sb, &m->props), front = 0;
	struct sb sb = *m->sb;
	char name[RAID_WHY_BYTES];
	int err;

	why_set(name, 0, "member %u", i);
	err = member_usable(c, &m->props, name, why);
	if (err) {
		return err;
	}
	need = round_up_u64(need * RAID_SECTOR_BYTES, m->props.logical_block) / RAID_SECTOR_BYTES;
	if (need > end) {
		return why_set(why, -ENOSPC,
			       "member %u is too small: %llu bytes for data, slot %u needs %llu", i,
			       (unsigned long long)(end > offset ? end - offset : 0) *
				       RAID_SECTOR_BYTES,
			       slot, (unsigned long long)(need - offset) * RAID_SECTOR_BYTES);
	}
	if (offset * RAID_SECTOR_BYTES % m->props.logical_block) {
		return why_set(why, -EINVAL,
			       "member %u has blocks of %u bytes, data begins at sector %llu", i,
			       m->props.logical_block, (unsigned long long)offset);
	}
	if (m->sb->version != SB_V1_0) {
		front = m->sb->super_offset + SB_BYTES_MAX / RAID_SECTOR_BYTES;
		if (m->sb->bblog_size && m->sb->bblog_offset > 0) {
			front = max_u64(front, m->sb->super_offset + (uint64_t)m->sb->bblog_offset +
						       m->sb->bblog_size);
		}
	}
	sb.data_offset = offset;
	sb.data_size = end - offset;
	err = intent_fits(c, &sb, &m->props, why);
	if (err) {
		return err;
	}
	if (front > offset) {
		return why_set(
			why, -ENOSPC,
			"member %u: its metadata ends at sector %llu, slot %u begins at %llu", i,
			(unsigned long long)front, slot, (unsigned long long)offset);
	}
	return 0;
}

void member_take_slot(struct core *c, uint32_t i, uint32_t slot, enum raid_member_state state)
{
	struct member *m = &c->member[i];

	member_set_state(m, state);
	m->slot = (int32_t)slot;
	m->finish = FINISH_NOT;
	m->recovery_sectors = 0;
	m->guided = false;
	m->sb->data_offset = c->geo.p.slot[slot].data_offset_sectors;
	m->sb->data_size = data_end(m->sb, &m->props) - m->sb->data_offset;
	bad_forget(m); /* what it says is no more than a hint: every block is written now */
	member_view(c, i);
	intent_member_joined(c, i);
	c->meta.changes++;
}

/* ---- superblocks of new members ------------------------------------------------------------ */

bool member_number_used(const struct core *c, uint32_t number, uint32_t self)
{
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];

		if (i != self && m->taken && m->has_sb && m->sb->dev_number == number) {
			return true;
		}
	}
	return c->meta.said_roles[number] <= SB_ROLE_MAX;
}

/* Room for a longer role table on everybody? It grows by whole sectors. */
static bool table_can_grow(const struct core *c, uint32_t to)
{
	uint64_t sectors = (SB_HEAD_BYTES + 2ull * to + RAID_SECTOR_BYTES - 1) / RAID_SECTOR_BYTES;

	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];

		if ((member_gets_writes(m) || m->state == RAID_MEMBER_SPARE) &&
		    m->sb->version != SB_V1_0 &&
		    m->sb->data_offset < m->sb->super_offset + sectors) {
			return false;
		}
	}
	return to <= SB_ROLES_MAX;
}

/* A number that nobody has: new ones come behind the slots, as mdadm gives them. */
static uint32_t free_number(struct core *c, uint32_t self)
{
	struct meta *meta = &c->meta;
	uint32_t slots = c->geo.p.slots;

	for (uint32_t k = 0; k < meta->max_dev; k++) {
		uint32_t number = (slots + k) % meta->max_dev;

		if (!member_number_used(c, number, self)) {
			return number;
		}
	}
	if (table_can_grow(c, meta->max_dev + RAID_SECTOR_BYTES / 2)) {
		MARK(member_table_grows);
		meta->max_dev += RAID_SECTOR_BYTES / 2;
		return meta->max_dev - RAID_SECTOR_BYTES / 2;
	}
	return UINT32_MAX;
}

/* The superblock of a spare: the array's, with a place and a name of its own. */
int member_new_sb(struct core *c, uint32_t i, const struct raid_cmd *cmd, char why[RAID_WHY_BYTES])
{
	struct member *m = &c->member[i];
	const struct sb *fresh = c->member[c->meta.freshest].sb, *old = &cmd->candidate->sb;
	uint64_t sectors = cmd->props.size_bytes / RAID_SECTOR_BYTES;
	bool known = !cmd->candidate->load_err && !memcmp(old->set_uuid, fresh->set_uuid, 16);
	uint32_t number = free_number(c, i);

	if (number == UINT32_MAX) {
		return why_set(why, -ENOSPC, "the superblocks have no room for another device");
	}
	if (sectors < 24) {
		return why_set(why, -ENOSPC, "a device of %llu sectors is too small",
			       (unsigned long long)sectors);
	}
	*m->sb = *fresh;
	m->sb->feature_map &= ~(uint32_t)(SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_BAD_BLOCKS |
					  SB_FEATURE_REPLACEMENT | SB_FEATURE_RECOVERY_BITMAP);
	m->sb->super_offset = sb_super_offset(fresh->version, sectors);
	m->sb->dev_number = number;
	m->sb->recovery_offset = 0;
	m->sb->cnt_corrected_read = 0;
	m->sb->devflags = (uint8_t)((cmd->write_mostly ? SB_DEV_WRITE_MOSTLY : 0) |
				    (cmd->failfast ? SB_DEV_FAIL_FAST : 0));
	memcpy(m->sb->device_uuid, known ? old->device_uuid : cmd->device_uuid, 16);
	m->sb->data_size = 0; /* as for a spare; with its slot it gets data */
	if (data_end(m->sb, &cmd->props) > m->sb->data_offset) {
		m->sb->data_size = data_end(m->sb, &cmd->props) - m->sb->data_offset;
	}
	return 0;
}

/* ---- places -------------------------------------------------------------------------------- */

uint32_t member_place(struct core *c)
{
	for (uint32_t i = 0; i < c->places; i++) {
		struct member *m = &c->member[i];

		if (!m->taken && !c->iop->member[i].in_flight) {
			m->taken = true;
			c->members = i < c->members ? c->members : i + 1;
			return i;
		}
	}
	return UINT32_MAX;
}

/* The array is described by the superblock of a member: not by one that goes. */
static void new_speaker(struct core *c, uint32_t gone)
{
	const struct sb *old = c->member[gone].sb;

	for (uint32_t i = 0; c->meta.freshest == gone && i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->state == RAID_MEMBER_IN_SYNC && m->has_sb && i != gone) {
			m->sb->size = old->size;
			m->sb->raid_disks = old->raid_disks;
			memcpy(m->sb->set_name, old->set_name, sizeof old->set_name);
			c->meta.freshest = i;
		}
	}
}

void member_place_free(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];

	CHECK(!c->iop->member[i].in_flight);
	new_speaker(c, i);
	member_set_state(m, RAID_MEMBER_ABSENT);
	m->taken = false;
	m->removing = false;
	m->has_sb = false;
	m->slot = -1;
	m->want_replacement = false;
	bad_forget(m);
	m->corrected_sectors = m->corrected_total = 0;
	m->window_errors = 0;
	m->sb_events = 0;
	c->iop->member[i] = (struct iop_member){0};
}
