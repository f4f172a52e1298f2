/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The disks against the oracle: what is on the medium now, and what a power cut would leave.
 */
#include <stdlib.h>
#include <string.h>

#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* The superblock that a power cut leaves on this disk at least, or NULL. */
const struct sb *verify_durable_sb(struct world *w, uint32_t disk)
{
	struct role *r = &w->role[disk];
	const struct disk *d = &w->disk[disk];
	struct sb_location loc = {w->plan.version, r->sb_maddr / RAID_SECTOR_BYTES};
	char why[RAID_WHY_BYTES];

	if (r->decoded_at != d->watch_changes) {
		r->decoded_at = d->watch_changes;
		r->sb_valid = sb_decode(d->durable + r->sb_maddr, loc,
					d->p.size_bytes / RAID_SECTOR_BYTES, &r->sb, why) == 0;
	}
	return r->sb_valid ? &r->sb : NULL;
}

/* Every place that somebody is trusted with holds something the oracle allows; so does every place
 * that only redundancy can give, unless the group does not fit together yet. */
void verify_disks(struct world *w, const char *when)
{
	const struct layout *l = &w->layout;

	for (uint64_t s = 0; s < l->sectors; s++) {
		for (uint32_t i = 0; i < l->copies; i++) {
			const struct layout_place *p = &l->copy[s * l->copies + i];
			const uint8_t *here = groups_held(w, p->slot, p->maddr, IMAGE_NOW);

			if (here && !oracle_may_hold(&w->oracle, s, here)) {
				sim_fail("%s: array sector %llu on disk %u at byte %llu holds what "
					 "it cannot hold",
					 when, ULL(s), w->holder[p->slot], ULL(p->maddr));
			}
		}
	}
	if (l->parity) {
		groups_expect_all(w, 0, l->groups, IMAGE_NOW, when);
	}
}

static void verify_place(struct world *w, uint32_t slot, uint64_t maddr, enum image image,
			 const char *when)
{
	const struct layout *l = &w->layout;
	uint64_t group = layout_group(l, slot, maddr);
	const uint8_t *here = groups_held(w, slot, maddr, image);
	uint32_t s = layout_sector(l, slot, maddr);

	if (s != LAYOUT_NONE && here && !oracle_may_hold(&w->oracle, s, here)) {
		sim_fail(
			"%s and disk %u holds at byte %llu, array sector %u, what it cannot hold%s",
			when, w->holder[slot], ULL(maddr), s,
			image == IMAGE_DURABLE ? " after a power cut" : "");
	}
	if (group != UINT64_MAX && !w->may_fail && !w->needs_resync &&
	    (image == IMAGE_NOW ? groups_quiet(w, group) : groups_certain(w, group))) {
		groups_expect(w, group, image, when);
	}
}

/* A disk that is rebuilt, up to `to` sectors of its data: all of that is right. */
void verify_filled(struct world *w, uint32_t disk, uint64_t to, enum image image, const char *when)
{
	const struct layout *l = &w->layout;
	uint32_t slot = w->role[disk].slot, before = w->holder[slot];
	uint64_t held = w->held_sectors[slot], from = l->data_from[slot];

	w->holder[slot] = disk;
	w->held_sectors[slot] = to;
	for (uint64_t at = from; at < l->data_to[slot] && (at - from) / RAID_SECTOR_BYTES < to;
	     at += RAID_SECTOR_BYTES) {
		verify_place(w, slot, at, image, when);
	}
	w->holder[slot] = before;
	w->held_sectors[slot] = held;
}

static void check_copies(struct world *w, uint64_t s, uint64_t seq, bool durable, const char *what)
{
	const struct layout *l = &w->layout;

	for (uint32_t i = 0; i < l->copies; i++) {
		const struct layout_place *p = &l->copy[s * l->copies + i];
		uint32_t d = w->holder[p->slot];
		const uint8_t *image;

		if (d == LAYOUT_NONE || w->listed[d][p->maddr / RAID_SECTOR_BYTES]) {
			continue;
		}
		image = durable ? w->disk[d].durable : w->disk[d].now;
		w->oracle.verified++;
		if (oracle_holds_since(&w->oracle, s, seq, image + p->maddr)) {
			continue;
		}
		if (session_would_trust(w, d)) {
			sim_fail("%s, disk %u does not hold array sector %llu%s, and the durable "
				 "superblocks do not say so",
				 what, d, ULL(s), durable ? " durably" : "");
		}
	}
}

/* Rule 1: whoever would be trusted after a power cut has it, and redundancy knows it too. TRIM may
 * do anything, but the same to all copies. */
void verify_acked(struct world *w, const struct op *op, bool durable)
{
	const struct raid_req *req = &op->req;
	uint64_t end = (req->addr + req->len + RAID_SECTOR_BYTES - 1) / RAID_SECTOR_BYTES;
	bool trim = req->op == RAID_OP_TRIM;

	for (uint64_t s = req->addr / RAID_SECTOR_BYTES; s < end; s++) {
		if (!trim) {
			check_copies(w, s, op->seq, false, "a write was acknowledged");
		}
		if (!trim && durable) {
			check_copies(w, s, op->seq, true, "a write with FUA was acknowledged");
		}
		if ((trim || w->layout.parity) && w->layout.groups > 0 && !w->needs_resync) {
			uint64_t g = layout_group_of(&w->layout, s);

			groups_expect_all(w, g, g + 1, IMAGE_NOW,
					  trim ? "a TRIM was acknowledged"
					       : "a write was acknowledged");
		}
	}
}

/* Rule 2: what was acknowledged before the FLUSH arrived is durable wherever it would be trusted.
 */
void verify_flushed(struct world *w, uint64_t begun)
{
	for (size_t k = 0; k < w->oracle.pending_count; k++) {
		const struct oracle_pending *p = &w->oracle.pending[k];
		uint64_t end = (p->addr + p->len + RAID_SECTOR_BYTES - 1) / RAID_SECTOR_BYTES;

		if (p->acked_at >= begun || p->maybe) {
			continue;
		}
		for (uint64_t s = p->addr / RAID_SECTOR_BYTES; s < end; s++) {
			check_copies(w, s, p->seq, true, "a FLUSH was acknowledged");
		}
	}
}

static void check_stopped(struct world *w, uint32_t d)
{
	const struct sb *sb;

	if (!list_empty(&w->disk[d].cache)) {
		sim_fail("after STOP data is only in the cache of disk %u", d);
	}
	if (!w->assembly->metadata) {
		return;
	}
	sb = verify_durable_sb(w, d);
	if (!sb) {
		sim_fail("after STOP disk %u has no superblock", d);
	}
	/* A member that was behind all the time may still say what it said; so do all of an array
	 * that was started by force and never written. */
	if (w->forced && sb->events == w->assembly->events) {
		return;
	}
	if (world_is_redundant(w) && (sb->resync_offset == SB_IN_SYNC) == w->needs_resync &&
	    !(w->role[d].lagging && sb->events < w->assembly->events)) {
		sim_fail("after STOP disk %u says %s", d, w->needs_resync ? "clean" : "dirty");
	}
}

/* After STOP: nothing is left in a cache, and the superblocks tell the truth. */
void verify_stopped(struct world *w)
{
	roles_refresh(w);
	if (w->read_only || w->may_fail) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (world_is_good(w, d)) {
			check_stopped(w, d);
		}
	}
	if (!w->needs_resync) {
		for (uint64_t g = 0; g < w->layout.groups; g++) {
			groups_expect(w, g, IMAGE_DURABLE, "the array was stopped clean");
		}
	}
}
