/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do copies agree, does parity fit? Decided from the disks alone, over the members that are trusted
 * with their slots.
 */
#include <string.h>

#include "raid/sim/column.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* What a slot has at maddr; NULL: nobody is trusted with it, or it cannot be read. */
const uint8_t *groups_held(const struct world *w, uint32_t slot, uint64_t maddr, enum image image)
{
	uint32_t d = w->holder[slot];
	const struct disk *disk;

	if (d == LAYOUT_NONE ||
	    (maddr - w->layout.data_from[slot]) / RAID_SECTOR_BYTES >= w->held_sectors[slot]) {
		return NULL;
	}
	disk = &w->disk[d];
	if (w->listed[d][maddr / RAID_SECTOR_BYTES] ||
	    disk_is_bad(disk, maddr, RAID_SECTOR_BYTES)) {
		return NULL;
	}
	return (image == IMAGE_NOW ? disk->now : disk->durable) + maddr;
}

static bool copies_agree(const struct world *w, uint64_t s, enum image image)
{
	const struct layout *l = &w->layout;
	const uint8_t *first = NULL;

	for (uint32_t i = 0; i < l->copies; i++) {
		const struct layout_place *p = &l->copy[s * l->copies + i];
		const uint8_t *here = groups_held(w, p->slot, p->maddr, image);

		if (first && here && memcmp(first, here, RAID_SECTOR_BYTES) != 0) {
			return false;
		}
		first = first ? first : here;
	}
	return true;
}

/* Returns whether all fits together. Parity: made gets the data blocks that are missing, unless
 * too much is missing (*lost). */
bool groups_judge(struct world *w, uint64_t group, enum image image,
		  uint8_t made[][RAID_SECTOR_BYTES], bool *lost)
{
	const struct layout *l = &w->layout;
	struct column c = {.row = NULL};
	enum column_verdict v;

	w->oracle.verified++;
	*lost = false;
	if (!l->parity) {
		return copies_agree(w, group, image);
	}
	c.row = layout_row(l, group);
	for (uint32_t d = 0; d < l->row_data; d++) {
		uint32_t slot = c.row->slot[d];

		c.data[d] = groups_held(w, slot, layout_column_maddr(l, slot, group), image);
	}
	c.p = groups_held(w, c.row->p, layout_column_maddr(l, c.row->p, group), image);
	if (l->parity == 2) {
		c.q = groups_held(w, c.row->q, layout_column_maddr(l, c.row->q, group), image);
	}
	v = column_solve(&c, made);
	*lost = v == COLUMN_LOST;
	return v != COLUMN_WRONG;
}

/* Nothing is under way to any array sector of the group. */
bool groups_quiet(const struct world *w, uint64_t group)
{
	uint32_t s[LAYOUT_SLOTS_MAX], n = layout_group_sectors(&w->layout, group, s);

	for (uint32_t i = 0; i < n; i++) {
		if (!oracle_is_quiet(&w->oracle, s[i])) {
			return false;
		}
	}
	return true;
}

/* Each of its array sectors can hold one thing only, durably. */
bool groups_certain(const struct world *w, uint64_t group)
{
	uint32_t s[LAYOUT_SLOTS_MAX], n = layout_group_sectors(&w->layout, group, s);

	for (uint32_t i = 0; i < n; i++) {
		if (!oracle_is_certain(&w->oracle, s[i])) {
			return false;
		}
	}
	return true;
}

/* Some disk of the group would not be trusted after a power cut: what it holds does not matter. */
static bool somebody_is_out(struct world *w)
{
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		if (w->holder[k] != LAYOUT_NONE && world_is_good(w, w->holder[k]) &&
		    (watch_gave_up(w, w->holder[k]) || !session_would_trust(w, w->holder[k]))) {
			return true;
		}
	}
	return false;
}

/* The group fits together, and what redundancy says of its missing sectors is possible. */
void groups_expect(struct world *w, uint64_t group, enum image image, const char *when)
{
	const struct layout *l = &w->layout;
	uint8_t made[RAID_SLOTS_MAX][RAID_SECTOR_BYTES];
	uint32_t s[LAYOUT_SLOTS_MAX];
	bool lost;

	if (w->stale[group]) {
		return;
	}
	if (!groups_judge(w, group, image, made, &lost) && !somebody_is_out(w)) {
		sim_fail("%s and %s %llu%s", when,
			 l->parity ? "parity does not fit in column"
				   : "the copies differ of array sector",
			 ULL(group), image == IMAGE_DURABLE ? " after a power cut" : "");
	}
	for (uint32_t d = 0; l->parity && !lost && d < l->row_data; d++) {
		uint32_t slot = layout_row(l, group)->slot[d];

		layout_group_sectors(l, group, s);
		if (!groups_held(w, slot, layout_column_maddr(l, slot, group), image) &&
		    !oracle_may_hold(&w->oracle, s[d], made[d]) && !somebody_is_out(w)) {
			sim_fail("%s and redundancy gives array sector %u of the missing slot %u a "
				 "content that it cannot have",
				 when, s[d], slot);
		}
	}
}

/* All groups of [from, to) that are quiet; of the durable images those that are certain. */
void groups_expect_all(struct world *w, uint64_t from, uint64_t to, enum image image,
		       const char *when)
{
	if (w->may_fail && (w->array || w->assembly->resync_offset != SB_IN_SYNC)) {
		return; /* writes that failed on some members leave what a resync has to mend */
	}
	for (uint64_t g = from; g < to; g++) {
		if (image == IMAGE_NOW ? groups_quiet(w, g) : groups_certain(w, g)) {
			groups_expect(w, g, image, when);
		}
	}
}
