/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an administrator does with the disks between sessions: rewrite a torn superblock, insist on
 * an array that is dirty and degraded, or let another md implementation bring everything in order.
 */
#include <stdlib.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/bitmap_fmt.h"
#include "raid/sim/column.h"
#include "raid/sim/world.h"

void offline_write_sb(struct world *w, uint32_t disk, const struct sb *sb)
{
	uint8_t buf[SB_BYTES_MAX];
	uint32_t len = sb_encode(sb, w->disk[disk].p.block, buf);

	disk_poke(&w->disk[disk], sb->super_offset * RAID_SECTOR_BYTES, buf, len);
	w->own[disk] = *sb;
	w->has_sb[disk] = true;
	w->number[disk] = sb->dev_number;
}

/* ---- a torn superblock ----------------------------------------------------------------------- */

/* Bytes of the superblock that was being written: a table of roles that was full has grown. */
static uint32_t sb_bytes(const struct sb *before, const struct sb *freshest)
{
	uint32_t max_dev =
		before->max_dev > freshest->max_dev ? before->max_dev : freshest->max_dev;

	return 256 + 2 * max_dev;
}

/* A superblock that the power cut tore is written anew from another member's, as an administrator
 * would: its table says who the disk is. What the table does not name stays lost. */
void offline_repair_torn(struct world *w)
{
	bool all[PLAN_DISKS_MAX];
	struct assembly *as = calloc(1, sizeof *as);
	struct sb sb;

	CHECK(as);
	memset(all, true, sizeof all);
	session_judge(w, all, as);
	for (uint32_t m = 0; m < as->members; m++) {
		uint32_t d = w->disk_of[m];
		const struct sb own = w->own[d];

		if (as->member[m].verdict != ASM_UNREADABLE || !w->has_sb[d]) {
			continue;
		}
		if (w->disk[d].p.block >= sb_bytes(&own, &as->member[as->freshest].sb)) {
			sim_fail(
				"the superblock of disk %u is unreadable although it is one block: "
				"%s",
				d, as->member[m].why);
		}
		sb = as->member[as->freshest].sb;
		if (as->member[as->freshest].verdict != ASM_IN_SYNC) {
			sim_fail("a power cut tore all superblocks");
		}
		if (sb.dev_roles[own.dev_number] > SB_ROLE_MAX) {
			continue;
		}
		sb.dev_number = own.dev_number;
		sb.data_offset = own.data_offset;
		sb.data_size = own.data_size;
		sb.super_offset = own.super_offset;
		sb.bblog_offset = own.bblog_offset;
		sb.feature_map = own.feature_map;
		memcpy(sb.device_uuid, own.device_uuid, sizeof sb.device_uuid);
		offline_write_sb(w, d, &sb);
		trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "torn superblock repaired", d, 0,
			  0, 0, 0);
	}
	free(as);
}

/* ---- dirty and degraded ---------------------------------------------------------------------- */

static void poke_parity(struct world *w, const struct column *c, uint64_t group)
{
	const struct layout *l = &w->layout;
	uint8_t p[RAID_SECTOR_BYTES], q[RAID_SECTOR_BYTES];

	column_parity(c, p, l->parity == 2 ? q : NULL);
	if (w->holder[c->row->p] != LAYOUT_NONE) {
		disk_poke(&w->disk[w->holder[c->row->p]], layout_column_maddr(l, c->row->p, group),
			  p, sizeof p);
	}
	if (l->parity == 2 && w->holder[c->row->q] != LAYOUT_NONE) {
		disk_poke(&w->disk[w->holder[c->row->q]], layout_column_maddr(l, c->row->q, group),
			  q, sizeof q);
	}
}

/*
 * The write hole, for as long as there is no log for it: a parity array that was dirty and degraded
 * when the power went is started by force (mdadm --assemble --force). In a column that was being
 * written, and nowhere else, a missing block may then be anything: what redundancy makes of it now
 * is what it is from here on, and parity is rewritten to fit. Everywhere else it must be right.
 */
void offline_forced(struct world *w)
{
	const struct layout *l = &w->layout;
	uint8_t made[RAID_SLOTS_MAX][RAID_SECTOR_BYTES];
	uint32_t s[LAYOUT_SLOTS_MAX];

	for (uint64_t g = 0; g < l->groups; g++) {
		struct column c = {.row = layout_row(l, g)};
		bool lost;

		if (groups_certain(w, g)) {
			continue; /* verify_disks() looks at it */
		}
		groups_judge(w, g, IMAGE_NOW, made, &lost);
		if (lost) {
			continue;
		}
		layout_group_sectors(l, g, s);
		for (uint32_t d = 0; d < l->row_data; d++) {
			uint32_t slot = c.row->slot[d];

			c.data[d] =
				groups_held(w, slot, layout_column_maddr(l, slot, g), IMAGE_NOW);
			if (!c.data[d]) {
				c.data[d] = made[d];
				oracle_set(&w->oracle, s[d], made[d]);
			}
		}
		poke_parity(w, &c, g);
	}
	w->stats.forced++;
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "started by force", 0, 0, 0, 0, 0);
}

/* ---- everything in order --------------------------------------------------------------------- */

/* The disk that will hold each slot: whoever holds it, else one that holds none. */
static void choose_disks(const struct world *w, uint32_t disk[LAYOUT_SLOTS_MAX])
{
	bool taken[PLAN_DISKS_MAX] = {false};

	for (uint32_t k = 0; k < w->plan.slots; k++) {
		disk[k] = w->holder[k];
		if (disk[k] != LAYOUT_NONE) {
			taken[disk[k]] = true;
		}
	}
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		for (uint32_t d = 0; d < w->plan.disks && disk[k] == LAYOUT_NONE; d++) {
			if (!taken[d] && w->has_sb[d]) {
				taken[d] = true;
				disk[k] = d;
			}
		}
	}
}

static void copy_chosen(struct world *w, const uint32_t disk[LAYOUT_SLOTS_MAX], uint64_t s)
{
	const struct layout *l = &w->layout;
	const uint8_t *found = NULL;
	uint8_t data[RAID_SECTOR_BYTES] = {0}; /* beyond the budget the last copy may be listed */

	for (uint32_t i = 0; i < l->copies && !found; i++) {
		const struct layout_place *p = &l->copy[s * l->copies + i];

		found = groups_held(w, p->slot, p->maddr, IMAGE_NOW);
	}
	if (found) {
		memcpy(data, found, sizeof data);
	}
	for (uint32_t i = 0; i < l->copies; i++) {
		const struct layout_place *p = &l->copy[s * l->copies + i];

		disk_poke(&w->disk[disk[p->slot]], p->maddr, data, sizeof data);
	}
	oracle_set(&w->oracle, s, data);
}

static void fill_column(struct world *w, const uint32_t disk[LAYOUT_SLOTS_MAX], uint64_t group)
{
	const struct layout *l = &w->layout;
	uint8_t made[RAID_SLOTS_MAX][RAID_SECTOR_BYTES], p[RAID_SECTOR_BYTES], q[RAID_SECTOR_BYTES];
	struct column c = {.row = layout_row(l, group)};
	uint32_t s[LAYOUT_SLOTS_MAX];
	bool lost;

	memset(made, 0, sizeof made);
	groups_judge(w, group, IMAGE_NOW, made, &lost);
	layout_group_sectors(l, group, s);
	for (uint32_t d = 0; d < l->row_data; d++) {
		uint32_t slot = c.row->slot[d];
		uint64_t maddr = layout_column_maddr(l, slot, group);
		const uint8_t *held = groups_held(w, slot, maddr, IMAGE_NOW);

		if (held) {
			memcpy(made[d], held, RAID_SECTOR_BYTES);
		}
		c.data[d] = made[d];
		disk_poke(&w->disk[disk[slot]], maddr, made[d], RAID_SECTOR_BYTES);
		oracle_set(&w->oracle, s[d], made[d]);
	}
	column_parity(&c, p, l->parity == 2 ? q : NULL);
	disk_poke(&w->disk[disk[c.row->p]], layout_column_maddr(l, c.row->p, group), p, sizeof p);
	if (l->parity == 2) {
		disk_poke(&w->disk[disk[c.row->q]], layout_column_maddr(l, c.row->q, group), q,
			  sizeof q);
	}
}

static void write_bits(struct world *w, uint32_t disk, const struct sb *sb,
		       const struct bm_header *old)
{
	struct bm_header header = *old;
	uint64_t maddr =
		(uint64_t)((int64_t)sb->super_offset + sb->bitmap_offset) * RAID_SECTOR_BYTES;
	uint8_t page[BM_PAGE_BYTES] = {0};
	uint64_t left = bm_area_bytes(bm_bits(header.sync_size_sectors, header.chunk_bytes));

	header.events = header.events_cleared = sb->events;
	header.state = 0;
	bm_encode(&header, page);
	for (; left > 0; maddr += sizeof page) {
		disk_poke(&w->disk[disk], maddr, page, sizeof page);
		memset(page, 0, sizeof page);
		left -= left < sizeof page ? left : sizeof page;
	}
}

/* What is the disk's own business. */
static void own_fields(const struct world *w, uint32_t disk, struct sb *sb)
{
	const struct sb *own = &w->own[disk];

	sb->data_offset = own->data_offset;
	sb->data_size = own->data_size;
	sb->super_offset = own->super_offset;
	sb->bblog_offset = own->bblog_offset;
	sb->bblog_size = own->bblog_size;
	memcpy(sb->device_uuid, own->device_uuid, sizeof sb->device_uuid);
}

static void write_superblocks(struct world *w, const uint32_t disk[LAYOUT_SLOTS_MAX],
			      const struct assembly *as)
{
	struct sb sb = as->member[as->freshest].sb;
	uint8_t nothing[SB_BYTES_MAX] = {0};
	bool used[PLAN_DISKS_MAX] = {false};

	memset(sb.dev_roles, 0xff, sizeof sb.dev_roles);
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		sb.dev_roles[k] = (uint16_t)k;
		used[disk[k]] = true;
	}
	sb.events += 2;
	sb.resync_offset = SB_IN_SYNC;
	sb.feature_map &= ~(uint32_t)(SB_FEATURE_BAD_BLOCKS | SB_FEATURE_RECOVERY_OFFSET |
				      SB_FEATURE_REPLACEMENT | SB_FEATURE_RECOVERY_BITMAP);
	sb.recovery_offset = 0;
	sb.devflags = 0;
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		memset(w->listed[d], 0, w->disk[d].p.size_bytes / RAID_SECTOR_BYTES);
		if (!used[d] && w->has_sb[d]) {
			disk_poke(&w->disk[d], w->own[d].super_offset * RAID_SECTOR_BYTES, nothing,
				  w->disk[d].p.block);
			w->has_sb[d] = false;
			w->number[d] = LAYOUT_NONE;
		}
	}
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		sb.dev_number = k;
		own_fields(w, disk[k], &sb);
		if (sb.feature_map & SB_FEATURE_BITMAP) {
			write_bits(w, disk[k], &sb, &as->bitmap.header);
		}
		offline_write_sb(w, disk[k], &sb);
	}
	w->events_written = sb.events;
	w->last_sb = sb;
}

/* Has every disk that would be needed been a member, so that it is known where its data lie? */
static bool disks_are_known(const struct world *w, const uint32_t disk[LAYOUT_SLOTS_MAX])
{
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		if (disk[k] == LAYOUT_NONE || !w->has_sb[disk[k]]) {
			return false;
		}
	}
	return true;
}

/*
 * What another md implementation does with the same disks meanwhile: failed members are replaced
 * and everything is resynced; afterwards all copies are equal and the array is clean and whole.
 * Disks that are left over are wiped.
 */
void offline_resync(struct world *w)
{
	uint32_t disk[LAYOUT_SLOTS_MAX];
	bool all[PLAN_DISKS_MAX];
	struct assembly *as = calloc(1, sizeof *as);

	CHECK(as);
	memset(all, true, sizeof all);
	session_judge(w, all, as);
	choose_disks(w, disk);
	if (!disks_are_known(w, disk) || as->bitmap.state == ASM_BITMAP_KEPT) {
		free(as);
		return;
	}
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		memset(w->disk[i].bad, 0, w->disk[i].blocks);
	}
	for (uint64_t s = 0; s < w->layout.sectors && !w->layout.parity; s++) {
		copy_chosen(w, disk, s);
	}
	for (uint64_t g = 0; g < w->layout.groups && w->layout.parity; g++) {
		fill_column(w, disk, g);
	}
	write_superblocks(w, disk, as);
	w->listed_disk = LAYOUT_NONE;
	w->forced = false;
	if (w->layout.groups > 0) {
		memset(w->stale, 0, w->layout.groups);
	}
	session_judge(w, all, as);
	roles_assembled(w, as);
	oracle_exempt_all(&w->oracle);
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "resynced offline", w->events_written, 0,
		  0, 0, 0);
	free(as);
}
