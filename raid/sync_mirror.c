/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders of the sync machine on copies (levels 1 and 10).
 *
 * RESYNC   copies may differ: the first in-sync slot, which all reads follow (rule 4), goes over
 *          the others where they differ; a block that cannot be read there takes the next copy, and
 *          is rewritten, so that what readers see does not change afterwards
 * CHECK    compares; with three copies and more most of them say which is wrong
 * REPAIR   and makes the others equal to those; where nobody has a majority to the first slot
 * REBUILD  a target's part of the component from any copy a read could take
 * COPY     the same, from the member that is to be replaced as long as it can be read
 *
 * What a member's bad-block list names is never a source. Sectors beside it in the same block are:
 * readers follow them too. RESYNC and REPAIR write what is listed like all that differs.
 */
#include "raid/sync_job.h"

#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"

static bool onto_targets(const struct sync_job *j)
{
	return j->op->kind == SYNC_REBUILD || j->op->kind == SYNC_COPY;
}

static uint64_t block_at(const struct sync_job *j, uint32_t block)
{
	return j->op->lo + (uint64_t)block * SYNC_BLOCK;
}

/* The copies of a block of an array order. */
static void map(const struct shard *sh, const struct sync_job *j, uint32_t block,
		struct geo_piece *p)
{
	geo_map(sh->view->geo, block_at(j, block), sync_block_len(j, block), p);
}

/* The copies of a block of a target. Returns false if the array has nothing there. */
static bool map_target(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		       uint32_t block, uint32_t *own, struct geo_piece *p)
{
	const struct geometry *g = sh->view->geo;
	uint32_t slot = j->lane_gslot[lane] % VIEW_TWIN;
	uint64_t addr, maddr = g->p.slot[slot].data_offset_sectors * RAID_SECTOR_BYTES +
			       block_at(j, block);

	if (!geo_unmap(g, slot, maddr, &addr, own)) {
		return false;
	}
	geo_map(g, addr, min_u64(sync_block_len(j, block), sh->view->size_bytes - addr), p);
	return true;
}

static bool listed(const struct shard *sh, const struct geo_copy *c, uint64_t len)
{
	const struct view_slot *vs = &sh->view->slot[c->slot];
	struct bb_range hit;

	return vs->bad && bb_find(vs->bad, c->maddr, len, &hit);
}

/* ---- the rows -------------------------------------------------------------------------------- */

void sync_mirror_shape(const struct shard *sh, struct sync_job *j, uint64_t *lock_lo,
		       uint64_t *lock_hi)
{
	struct geo_piece p;
	uint32_t own;

	*lock_lo = j->op->lo;
	*lock_hi = j->op->hi;
	j->lanes = sh->view->geo->copies;
	if (!onto_targets(j)) {
		return;
	}
	j->lanes = 0;
	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		if (j->op->target[k]) {
			CHECK(j->lanes < RAID_SLOTS_MAX);
			j->lane_gslot[j->lanes++] = k;
		}
	}
	/* The array bytes that a part of the component holds: adjacent rows. */
	*lock_lo = UINT64_MAX;
	*lock_hi = 0;
	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		for (uint32_t b = 0; b < j->blocks; b++) {
			if (map_target(sh, j, lane, b, &own, &p)) {
				*lock_lo = min_u64(*lock_lo, p.addr);
				*lock_hi = max_u64(*lock_hi, p.addr + p.len);
			}
		}
	}
}

void sync_mirror_plan(struct shard *sh, struct sync_job *j)
{
	for (uint32_t b = 0; b < j->blocks; b++) {
		uint32_t good = 0, own;
		struct geo_piece p;

		if (onto_targets(j)) {
			for (uint32_t lane = 0; lane < j->lanes; lane++) {
				if (map_target(sh, j, lane, b, &own, &p)) {
					sync_add(j, SYNC_WANT, lane, b);
				}
			}
			continue;
		}
		map(sh, j, b, &p);
		for (uint32_t i = 0; i < p.copies; i++) {
			if (sh->view->slot[p.copy[i].slot].in_sync) {
				sync_add(j, SYNC_WANT, i, b);
				good++;
			} else {
				sync_add(j, SYNC_LOST, i, b);
			}
		}
		for (uint32_t i = 0; good < 2 && i < p.copies; i++) {
			sync_del(j, SYNC_WANT, i, b); /* nothing to compare it with */
			sync_add(j, SYNC_LOST, i, b);
		}
	}
}

bool sync_mirror_place(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		       uint32_t block, bool write, uint32_t tried, struct sync_place *out)
{
	struct geo_piece p;
	uint32_t own = 0;
	uint64_t len;
	int i = (int)lane;

	if (!onto_targets(j)) {
		map(sh, j, block, &p);
	} else if (!map_target(sh, j, lane, block, &own, &p)) {
		return false;
	} else if (write) {
		out->gslot = j->lane_gslot[lane];
		out->maddr = p.copy[own].maddr;
		return true;
	} else if (j->op->kind == SYNC_COPY && !(tried >> own & 1) &&
		   sh->view->slot[p.copy[own].slot].in_sync && !listed(sh, &p.copy[own], p.len)) {
		i = (int)own;
	} else {
		/* Not from the target itself, though it may hold the block already. */
		tried |= j->op->kind == SYNC_REBUILD ? 1u << own : 0;
		do {
			i = choose_copy(sh, &p, tried, &len);
			if (i < 0) {
				return false;
			}
			tried |= 1u << i;
		} while (listed(sh, &p.copy[i], p.len)); /* has a part: perhaps another has all */
	}
	out->gslot = p.copy[i].slot;
	out->maddr = p.copy[i].maddr;
	return true;
}

bool sync_mirror_next(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		      uint32_t block, uint32_t gslot, uint32_t *tried)
{
	struct geo_piece p;
	uint32_t own;

	if (!onto_targets(j) || !map_target(sh, j, lane, block, &own, &p)) {
		return false;
	}
	for (uint32_t i = 0; i < p.copies; i++) {
		if (p.copy[i].slot == gslot) {
			*tried |= 1u << i;
		}
	}
	return true;
}

/* ---- what was read --------------------------------------------------------------------------- */

static uint32_t differing_sectors(const uint8_t *a, const uint8_t *b, uint32_t len)
{
	uint32_t n = 0;

	for (uint32_t off = 0; off < len; off += RAID_SECTOR_BYTES) {
		n += memcmp(a + off, b + off, min_u64(len - off, RAID_SECTOR_BYTES)) != 0;
	}
	return n;
}

/* The copy that most copies agree with, if that is more than half; else the first slot. */
static int source_of(const struct sync_job *j, const struct geo_piece *p, uint32_t block,
		     bool *majority)
{
	uint32_t good = 0, most = 0;
	int first = -1, best = -1;

	for (uint32_t i = 0; i < p->copies; i++) {
		uint32_t votes = 0;

		if (sync_has(j, SYNC_LOST, i, block)) {
			continue;
		}
		good++;
		if (first < 0 || p->copy[i].slot < p->copy[first].slot) {
			first = (int)i;
		}
		for (uint32_t o = 0; j->op->kind != SYNC_RESYNC && o < p->copies; o++) {
			votes += !sync_has(j, SYNC_LOST, o, block) &&
				 !memcmp(sync_lane(j, i, block), sync_lane(j, o, block), p->len);
		}
		if (votes > most) {
			most = votes;
			best = (int)i;
		}
	}
	*majority = good > 2 && most * 2 > good;
	return *majority ? best : first;
}

/* What a copy should hold goes into its lane, to be written from there. */
static void overwrite(struct sync_job *j, uint32_t lane, uint32_t block, int source, uint64_t len)
{
	memcpy(sync_lane(j, lane, block), sync_lane(j, (uint32_t)source, block), len);
	sync_add(j, SYNC_WANT, lane, block);
}

static bool any_listed(const struct shard *sh, const struct sync_job *j, const struct geo_piece *p,
		       uint32_t block)
{
	for (uint32_t i = 0; sh->view->any_bad && i < p->copies; i++) {
		if (!sync_has(j, SYNC_LOST, i, block) && listed(sh, &p->copy[i], p->len)) {
			return true;
		}
	}
	return false;
}

/* The first slot that vouches for a unit of a block, or -1. */
static int unit_source(const struct shard *sh, const struct sync_job *j, const struct geo_piece *p,
		       uint32_t block, uint64_t off, uint64_t len)
{
	int first = -1;

	for (uint32_t i = 0; i < p->copies; i++) {
		struct geo_copy c = {p->copy[i].slot, p->copy[i].maddr + off};

		if (!sync_has(j, SYNC_LOST, i, block) && !listed(sh, &c, len) &&
		    (first < 0 || c.slot < p->copy[first].slot)) {
			first = (int)i;
		}
	}
	return first;
}

/* What a member lists is not read from it. What all copies list stays listed: nothing may be
 * written over it, or it would pass for good. */
static bool part_goes(const struct shard *sh, const struct sync_job *j, const struct geo_piece *p,
		      uint32_t lane, uint32_t block, uint64_t off)
{
	struct geo_copy c = {p->copy[lane].slot, p->copy[lane].maddr + off};
	uint64_t len = min_u64(sh->view->unit, p->len - off);

	return j->state == SYNC_WRITE ? unit_source(sh, j, p, block, off, len) >= 0
				      : !listed(sh, &c, len);
}

bool sync_mirror_part(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		      uint32_t block, uint64_t *lo, uint64_t *hi)
{
	struct geo_piece p;
	uint64_t off = *hi;

	map(sh, j, block, &p);
	while (off < p.len && !part_goes(sh, j, &p, lane, block, off)) {
		off += sh->view->unit;
	}
	*lo = off;
	while (off < p.len && part_goes(sh, j, &p, lane, block, off)) {
		off += sh->view->unit;
	}
	*hi = off;
	return *lo < p.len;
}

bool sync_mirror_in_parts(const struct shard *sh, const struct sync_job *j, uint32_t block)
{
	struct geo_piece p;

	if (!sh->view->any_bad || onto_targets(j)) {
		return false;
	}
	map(sh, j, block, &p);
	return any_listed(sh, j, &p, block);
}

/* A block that some copy lists in part: unit by unit, as reads take it. */
static void compare_listed(struct shard *sh, struct sync_job *j, const struct geo_piece *p,
			   uint32_t block)
{
	uint64_t unit = sh->view->unit, len;
	bool change[RAID_COPIES_MAX] = {0}, whole = true;
	uint32_t sectors = 0;

	MARK(sync_mirror_listed);
	for (uint64_t off = 0; off < p->len; off += len) {
		int source;

		len = min_u64(unit, p->len - off);
		source = unit_source(sh, j, p, block, off, len);
		whole &= source >= 0;
		for (uint32_t i = 0; source >= 0 && i < p->copies; i++) {
			uint8_t *to = sync_lane(j, i, block) + off;
			const uint8_t *from = sync_lane(j, (uint32_t)source, block) + off;
			struct geo_copy c = {p->copy[i].slot, p->copy[i].maddr + off};

			if (sync_has(j, SYNC_LOST, i, block)) {
				memcpy(to, from, len);
			} else if (listed(sh, &c, len)) {
				change[i] = true;
				memcpy(to, from, len);
			} else if (memcmp(to, from, len) != 0) {
				change[i] = true;
				sectors += (uint32_t)(len / RAID_SECTOR_BYTES);
				memcpy(to, from, len);
			}
		}
	}
	for (uint32_t i = 0; i < p->copies; i++) {
		bool fix = whole && sync_has(j, SYNC_FIX, i, block);

		if (fix || (change[i] && j->op->kind != SYNC_CHECK)) {
			sync_add(j, SYNC_WANT, i, block);
		}
		if (!fix) {
			sync_del(j, SYNC_FIX, i, block);
		}
	}
	if (sectors) {
		sync_found(j, block, sectors, -1);
	}
}

static void compare(struct shard *sh, struct sync_job *j, uint32_t block)
{
	uint32_t differ = 0, sectors = 0;
	struct geo_piece p;
	bool majority;
	int source, wrong = -1;

	map(sh, j, block, &p);
	if (any_listed(sh, j, &p, block)) {
		compare_listed(sh, j, &p, block);
		return;
	}
	source = source_of(j, &p, block, &majority);
	for (uint32_t i = 0; source < 0 && j->op->kind == SYNC_RESYNC && i < p.copies; i++) {
		if (sync_has(j, SYNC_FIX, i, block)) {
			sync_lost(j, p.copy[i].slot, p.copy[i].maddr, (uint32_t)p.len);
		}
	}
	for (uint32_t i = 0; i < p.copies; i++) {
		uint32_t n;

		if (source < 0 || sync_has(j, SYNC_LOST, i, block)) {
			if (source >= 0 && sync_has(j, SYNC_FIX, i, block)) {
				overwrite(j, i, block, source, p.len);
			} else {
				sync_del(j, SYNC_FIX, i, block);
			}
			continue;
		}
		n = differing_sectors(sync_lane(j, i, block), sync_lane(j, (uint32_t)source, block),
				      (uint32_t)p.len);
		if (!n) {
			continue;
		}
		differ++;
		sectors = (uint32_t)max_u64(sectors, n);
		wrong = (int)p.copy[i].slot;
		if (j->op->kind != SYNC_CHECK) {
			overwrite(j, i, block, source, p.len);
		}
	}
	if (differ) {
		sync_found(j, block, sectors, majority && differ == 1 ? wrong : -1);
	}
}

/* A target's blocks that came go to it; the others have no source. */
static void carry_over(struct shard *sh, struct sync_job *j, uint32_t block)
{
	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		struct geo_piece p;
		uint32_t own;

		if (!map_target(sh, j, lane, block, &own, &p)) {
			continue;
		}
		if (sync_has(j, SYNC_LOST, lane, block)) {
			sync_lost(j, j->lane_gslot[lane], p.copy[own].maddr, (uint32_t)p.len);
		} else {
			sync_add(j, SYNC_WANT, lane, block);
		}
	}
}

bool sync_mirror_decide(struct shard *sh, struct sync_job *j)
{
	for (uint32_t b = 0; b < j->blocks; b++) {
		if (onto_targets(j)) {
			carry_over(sh, j, b);
		} else {
			compare(sh, j, b);
		}
	}
	return false;
}
