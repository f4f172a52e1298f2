/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a forced start does with what is doubtful (md-format §7.8, §7.9; DESIGN §7).
 *
 * Read-only it fills missing slots with members that are old or half rebuilt, best first, and
 * reconstructs through parity that may be stale. Nothing is written, so nothing is lost by looking.
 *
 * Read-write it does as mdadm does: members that are old but whole count as good again, and a dirty
 * and degraded parity array counts as clean. Beyond that, copies or parity that a member which
 * missed writes makes unequal are resynced, so that later reads agree with each other.
 *
 * Either way the note says which bytes are doubtful, and never is a member of the other half of a
 * split taken.
 */
#include "raid/assemble_impl.h"

#include <inttypes.h>
#include <stdio.h>

#include "raid/base/bytes.h"

static bool same_shape(const struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i);

	return asm_fits(w, i) && asm_table_fits(w, i) &&
	       !(sb->feature_map & ~(uint32_t)SB_FEATURE_ALL) &&
	       !(sb->feature_map & ASM_RESHAPE_FEATURES);
}

/* Lower is better; 0 cannot be used at all. Old but whole comes before half rebuilt. */
static uint32_t doubtful_rank(const struct asm_work *w, uint32_t i)
{
	const struct asm_member *m = &w->out->member[i];
	bool half = m->sb.feature_map & SB_FEATURE_RECOVERY_OFFSET;

	if (!w->in_set[i] || m->slot < 0 || w->out->present[m->slot] || !same_shape(w, i)) {
		return 0;
	}
	if (w->forced_write && half) {
		return 0;
	}
	switch (m->verdict) {
	case ASM_STALE:
	case ASM_FAULTY:
		return half ? 3 : 1;
	case ASM_RECOVERING:
	case ASM_REPLACEMENT:
		return 2;
	default:
		return 0;
	}
}

static bool best_doubtful(const struct asm_work *w, uint32_t *best)
{
	uint32_t i, rank, best_rank = 0;

	*best = 0;
	for (i = 0; i < w->out->members; i++) {
		rank = doubtful_rank(w, i);
		if (!rank || (best_rank && rank > best_rank)) {
			continue;
		}
		if (!best_rank || rank < best_rank ||
		    asm_sb(w, i)->events > asm_sb(w, *best)->events) {
			best_rank = rank;
			*best = i;
		}
	}
	return best_rank != 0;
}

/* Which part of the array only the member of this slot answers for, after "doubtful: ". */
static void describe_part(const struct asm_work *w, int32_t slot, char text[128])
{
	const struct geometry *g = &w->out->geometry;

	switch (g->p.level) {
	case RAID_LEVEL_LINEAR:
		snprintf(text, 128, "bytes %" PRIu64 " to %" PRIu64,
			 g->start_sector[slot] * RAID_SECTOR_BYTES,
			 g->start_sector[slot + 1] * RAID_SECTOR_BYTES - 1);
		break;
	case RAID_LEVEL_1:
		snprintf(text, 128, "all bytes");
		break;
	default:
		snprintf(text, 128, "the %" PRIu64 "-byte chunks on slot %" PRId32,
			 (uint64_t)g->p.chunk_sectors * RAID_SECTOR_BYTES, slot);
	}
}

static void note_doubtful(struct asm_work *w, uint32_t i)
{
	const struct asm_member *m = &w->out->member[i];
	const struct sb *sb = &m->sb;
	char part[128];

	describe_part(w, m->slot, part);
	if (sb->events + 1 < w->out->events) {
		asm_note(w,
			 "doubtful: %s may be old, from %s (slot %" PRId32 ", %" PRIu64
			 " events behind)",
			 part, asm_name(w, i), m->slot, w->out->events - sb->events);
	} else if (!(sb->feature_map & SB_FEATURE_RECOVERY_OFFSET)) {
		asm_note(w, "doubtful: %s may be old, from %s (slot %" PRId32 ", failed)", part,
			 asm_name(w, i), m->slot);
	}
	if (sb->feature_map & SB_FEATURE_RECOVERY_OFFSET) {
		asm_note(w,
			 "doubtful: %s are not the array's where %s was not rebuilt, from its data "
			 "byte %" PRIu64 " on",
			 part, asm_name(w, i), sb_recovered_sectors(sb) * RAID_SECTOR_BYTES);
	}
}

/* Taken as good: what it missed is forgotten, so what others have that it has not must be made
 * equal again. Which of the copies is the right one nobody knows any more. */
static void took(struct asm_work *w, uint32_t i)
{
	struct asm_member *m = &w->out->member[i];

	w->out->features |= m->sb.feature_map;
	note_doubtful(w, i);
	if (!w->forced_write) {
		return;
	}
	w->old_events = w->took_old ? min_u64(w->old_events, m->sb.events) : m->sb.events;
	w->took_old = true;
	m->why[0] = '\0';
	if (!asm_has_parity(&m->sb) || !w->out->degraded) {
		w->out->resync_offset = 0;
	}
}

bool asm_force_members(struct asm_work *w)
{
	bool component = asm_has_component(asm_sb(w, w->fresh));
	enum asm_verdict before[RAID_MEMBERS_MAX];
	bool taken[RAID_MEMBERS_MAX] = {false}, enough = false;
	char why[RAID_WHY_BYTES];
	uint32_t i;

	if (!w->forced && !(w->forced_write && component)) {
		return false;
	}
	while (!enough && best_doubtful(w, &i)) {
		taken[i] = true;
		before[i] = w->out->member[i].verdict;
		w->out->member[i].verdict = ASM_IN_SYNC;
		asm_count_slots(w);
		enough = (component || !w->out->degraded) && !asm_make_geometry(w, why) &&
			 geo_enough(&w->out->geometry, w->out->present);
	}
	for (i = 0; i < w->out->members; i++) {
		if (taken[i] && !enough) {
			w->out->member[i].verdict = before[i];
		}
	}
	asm_count_slots(w);
	for (i = 0; i < w->out->members; i++) {
		if (taken[i] && enough) {
			took(w, i);
		}
	}
	return enough;
}

/* ---- dirty and degraded --------------------------------------------------------------------- */

/*
 * Parity may not match the data where a write was under way when the array stopped, and what a
 * missing member held is known by parity only. Forced, it is reconstructed all the same.
 */
void asm_dirty_degraded(struct asm_work *w)
{
	struct assembly *out = w->out;
	uint64_t from = out->resync_offset;

	if (!asm_has_parity(asm_sb(w, w->fresh)) || !out->degraded || from == SB_IN_SYNC) {
		return;
	}
	if (!w->forced && !w->forced_write) {
		asm_refuse(
			w,
			"dirty and degraded: writes were under way when it stopped, so parity may "
			"not give back what the missing member held; find that member, or look "
			"with --readonly --force; --force alone makes it clean as it is");
		return;
	}
	asm_note(w,
		 "doubtful: what the missing members held, in rows from their data byte %" PRIu64
		 " on%s, where parity may not match what was being written when the array stopped",
		 from * RAID_SECTOR_BYTES,
		 out->bitmap.state == ASM_BITMAP_CURRENT ? " that the bitmap marks" : "");
	out->resync_offset = SB_IN_SYNC;
}
