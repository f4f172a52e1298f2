/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which disk holds which slot. Between sessions the assembly says so; in a session the engine's
 * status does, and whoever it calls in sync is judged by what is on the disk.
 */
#include <string.h>

#include "raid/base/check.h"
#include "raid/sim/world.h"

void roles_changed(struct world *w)
{
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		w->holder[k] = LAYOUT_NONE;
		w->held_sectors[k] = 0;
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		const struct role *r = &w->role[d];

		if (world_is_good(w, d)) {
			if (w->holder[r->slot] != LAYOUT_NONE) {
				sim_fail("disks %u and %u both hold slot %u", w->holder[r->slot], d,
					 r->slot);
			}
			w->holder[r->slot] = d;
			w->held_sectors[r->slot] = UINT64_MAX;
		}
	}
}

/* Between sessions a disk that was being rebuilt is trusted as far as its superblock says. */
static void add_halves(struct world *w, const struct assembly *as)
{
	for (uint32_t m = 0; m < as->members; m++) {
		const struct role *r = &w->role[w->disk_of[m]];

		if (as->member[m].verdict == ASM_RECOVERING && w->holder[r->slot] == LAYOUT_NONE) {
			w->holder[r->slot] = w->disk_of[m];
			w->held_sectors[r->slot] = r->recovered;
		}
	}
}

static void assembled(struct world *w, uint32_t m, const struct asm_member *am)
{
	struct role *r = &w->role[w->disk_of[m]];

	r->member = m;
	r->in_sync = am->verdict == ASM_IN_SYNC;
	r->filling = am->verdict == ASM_RECOVERING;
	r->twin = am->verdict == ASM_REPLACEMENT;
	r->spare = am->verdict == ASM_SPARE;
	if (r->in_sync || r->filling || r->twin) {
		CHECK(am->slot >= 0);
		r->slot = (uint32_t)am->slot;
		r->recovered = am->recovery_offset;
	}
}

/* What the bad-block logs say. */
static void load_listed(struct world *w, const struct assembly *as)
{
	for (uint32_t m = 0; m < as->members; m++) {
		const struct bb_list *bad = &as->member[m].bad;
		uint32_t d = w->disk_of[m];

		memset(w->listed[d], 0, w->disk[d].p.size_bytes / RAID_SECTOR_BYTES);
		for (uint32_t i = 0; i < bad->count; i++) {
			memset(w->listed[d] + bad->range[i].maddr / RAID_SECTOR_BYTES, 1,
			       bad->range[i].len / RAID_SECTOR_BYTES);
		}
		memcpy(w->was_listed[d], w->listed[d], w->disk[d].p.size_bytes / RAID_SECTOR_BYTES);
	}
}

void roles_assembled(struct world *w, const struct assembly *as)
{
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		memset(&w->role[d], 0, sizeof w->role[d]);
		w->role[d].member = w->role[d].slot = LAYOUT_NONE;
		w->role[d].sb_maddr = UINT64_MAX;
		w->disk[d].watch_maddr = UINT64_MAX;
	}
	for (uint32_t m = 0; m < as->members; m++) {
		const struct asm_member *am = &as->member[m];
		uint32_t d = w->disk_of[m];
		struct role *r = &w->role[d];

		assembled(w, m, am);
		if (as->metadata) {
			w->has_sb[d] = am->verdict != ASM_UNREADABLE;
			w->number[d] = w->has_sb[d] ? am->sb.dev_number : LAYOUT_NONE;
			w->own[d] = am->sb;
		}
		r->lagging = r->in_sync && am->sb.events < as->events;
		if (as->metadata && (r->in_sync || r->filling || r->twin || r->spare)) {
			r->sb_maddr = am->sb.super_offset * RAID_SECTOR_BYTES;
			w->disk[d].watch_maddr = r->sb_maddr;
			r->decoded_at = UINT64_MAX;
		}
	}
	load_listed(w, as);
	roles_changed(w);
	add_halves(w, as);
}

/* A disk has become a full member: it must hold what it should. */
static void promoted(struct world *w, uint32_t d, uint32_t slot)
{
	struct role *r = &w->role[d];

	r->slot = slot;
	r->in_sync = true;
	r->filling = r->twin = r->spare = r->failed = r->retired = false;
	for (uint32_t o = 0; o < w->plan.disks; o++) {
		if (o != d && w->role[o].slot == slot && world_is_good(w, o)) {
			w->role[o].retired = true;
		}
	}
	roles_changed(w);
	oracle_exempt_all(&w->oracle);
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "in sync now: disk, slot", d, slot, 0, 0,
		  0);
	verify_filled(w, d, UINT64_MAX, IMAGE_NOW, "a disk was taken for good");
}

void roles_refresh(struct world *w)
{
	static struct raid_status st;

	raid_get_status(w->array, &st);
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		struct role *r = &w->role[d];
		const struct raid_member_status *ms;

		if (r->member == LAYOUT_NONE) {
			continue;
		}
		ms = &st.member[r->member];
		switch (ms->state) {
		case RAID_MEMBER_IN_SYNC:
			if (!r->in_sync) {
				promoted(w, d, (uint32_t)ms->slot);
			}
			break;
		case RAID_MEMBER_REBUILDING:
		case RAID_MEMBER_REPLACEMENT:
			r->slot = (uint32_t)ms->slot;
			w->was_held[r->slot] = true;
			r->filling = ms->state == RAID_MEMBER_REBUILDING;
			r->twin = !r->filling;
			r->in_sync = r->spare = r->failed = r->retired = false;
			break;
		case RAID_MEMBER_SPARE:
			r->spare = true;
			r->in_sync = r->filling = r->twin = r->failed = r->retired = false;
			r->slot = LAYOUT_NONE;
			break;
		case RAID_MEMBER_LEAVING:
		case RAID_MEMBER_FAULTY:
			/* It failed before it was seen in its place; superblocks that say so are
			 * still to come. */
			if (r->added && r->slot == LAYOUT_NONE && !r->failed && ms->slot >= 0) {
				r->slot = (uint32_t)ms->slot;
				r->filling = true;
			}
			break;
		default:
			break;
		}
	}
	if (w->needs_resync && !st.needs_resync && w->sync.action != RAID_SYNC_RESYNC) {
		w->needs_resync = false;
		memset(w->stale, 0, w->layout.groups);
		groups_expect_all(w, 0, w->layout.groups, IMAGE_NOW, "the resync is over");
	}
	roles_changed(w);
}
