/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * May the array start with the members it has, and how (md-format §4, §7.7–9)?
 *
 * In this order, the first reason being the one told: what this version cannot run at all (level,
 * unknown features, reshape), members too small, slots missing, impossible geometry, and last what
 * it only reads (features it does not keep up to date, metadata 0.90, far sets).
 *
 * What a forced start does with the doubtful ones: assemble_force.c.
 */
#include "raid/assemble_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"

/* Events only rise, so a run needs room for them; who wrote such a number is no md. */
#define EVENTS_MAX (UINT64_MAX >> 1)

/* What the kernel maintains on writes and this version does not. */
#define READ_ONLY_FEATURES                                                                         \
	(SB_FEATURE_CLUSTERED | SB_FEATURE_JOURNAL | SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS)

/* ---- what cannot run at all ----------------------------------------------------------------- */

static void check_level(struct asm_work *w)
{
	const struct sb *sb = asm_sb(w, w->fresh);

	switch (sb->level) {
	case RAID_LEVEL_LINEAR:
	case RAID_LEVEL_0:
	case RAID_LEVEL_1:
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
	case RAID_LEVEL_10:
		break;
	default:
		asm_refuse(w,
			   "level %" PRId32 " is not one this version knows; mdadm --assemble may",
			   sb->level);
	}
	if (sb->raid_disks > RAID_SLOTS_MAX) {
		asm_refuse(w, "%u slots; this version runs at most %d, mdadm --assemble runs more",
			   sb->raid_disks, RAID_SLOTS_MAX);
	}
}

static void check_features(struct asm_work *w)
{
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		const struct asm_member *m = &w->out->member[i];
		uint32_t unknown = m->sb.feature_map & ~(uint32_t)SB_FEATURE_ALL;

		if (!w->in_set[i] || (!asm_is_used(m->verdict) && m->verdict != ASM_SPARE)) {
			continue;
		}
		if (asm_is_used(m->verdict)) {
			w->out->features |= m->sb.feature_map;
		}
		if (unknown) {
			asm_refuse(w,
				   "%s uses features 0x%x, which this version does not know; use a "
				   "newer one, or mdadm --assemble",
				   asm_name(w, i), unknown);
		}
		if (m->sb.feature_map & ASM_RESHAPE_FEATURES) {
			asm_refuse(w,
				   "a reshape is under way (%s); let mdadm --assemble finish it, "
				   "then start the array here",
				   asm_name(w, i));
		}
	}
}

/* ---- slots and geometry --------------------------------------------------------------------- */

bool asm_fits(const struct asm_work *w, uint32_t i)
{
	const struct sb *fresh = asm_sb(w, w->fresh);

	return !asm_has_component(fresh) || asm_sb(w, i)->data_size >= fresh->size;
}

/* Updates write the freshest's role table to all; it may be longer than the member's own is. */
bool asm_table_fits(const struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i);
	uint64_t bytes = SB_HEAD_BYTES + 2 * (uint64_t)asm_sb(w, w->fresh)->max_dev;

	return sb->version == SB_V0_90 || sb->version == SB_V1_0 ||
	       sb->data_offset * RAID_SECTOR_BYTES >= sb->super_offset * RAID_SECTOR_BYTES + bytes;
}

static void check_tables(struct asm_work *w)
{
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		enum asm_verdict v = w->out->member[i].verdict;

		if (w->in_set[i] && (asm_is_used(v) || v == ASM_SPARE) && !asm_table_fits(w, i)) {
			asm_set_verdict(w, i, ASM_STRAY,
					"no room before its data for a superblock of %" PRIu32
					" roles",
					asm_sb(w, w->fresh)->max_dev);
		}
	}
}

static void check_sizes(struct asm_work *w)
{
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		enum asm_verdict v = w->out->member[i].verdict;

		if (!w->in_set[i] || !asm_is_used(v) || v == ASM_JOURNAL || asm_fits(w, i)) {
			continue;
		}
		asm_set_verdict(w, i, ASM_STRAY,
				"too small: room for %" PRIu64 " sectors, the array uses %" PRIu64,
				asm_sb(w, i)->data_size, asm_sb(w, w->fresh)->size);
	}
}

void asm_count_slots(struct asm_work *w)
{
	struct assembly *out = w->out;
	uint32_t slots = asm_sb(w, w->fresh)->raid_disks, i;

	memset(out->present, 0, sizeof out->present);
	for (i = 0; i < out->members; i++) {
		const struct asm_member *m = &out->member[i];

		if (w->in_set[i] && m->verdict == ASM_IN_SYNC && m->slot < RAID_SLOTS_MAX) {
			out->present[m->slot] = true;
		}
	}
	out->degraded = 0;
	for (i = 0; i < slots && i < RAID_SLOTS_MAX; i++) {
		out->degraded += !out->present[i];
	}
}

static uint32_t array_layout(const struct asm_work *w)
{
	const struct sb *sb = asm_sb(w, w->fresh);

	if (sb->level != RAID_LEVEL_0 || (sb->feature_map & SB_FEATURE_RAID0_LAYOUT)) {
		return sb->layout;
	}
	return w->opt->raid0_layout;
}

int asm_make_geometry(struct asm_work *w, char why[RAID_WHY_BYTES])
{
	const struct sb *sb = asm_sb(w, w->fresh);
	struct geo_params p = {
		.level = (enum raid_level)sb->level,
		.layout = array_layout(w),
		.chunk_sectors = sb->chunksize,
		.slots = sb->raid_disks,
		.component_sectors = sb->size,
	};
	uint32_t i;

	if (sb->level == RAID_LEVEL_1) {
		p.chunk_sectors = 0;
	}
	for (i = 0; i < w->out->members; i++) {
		const struct asm_member *m = &w->out->member[i];

		if (w->in_set[i] && (m->verdict == ASM_IN_SYNC || m->verdict == ASM_RECOVERING)) {
			p.slot[m->slot].data_offset_sectors = m->sb.data_offset;
			p.slot[m->slot].data_sectors = m->sb.data_size;
		}
	}
	return geo_init(&w->out->geometry, &p, why);
}

/* "1, 2" */
static void list_missing(const struct assembly *out, uint32_t slots, char text[64])
{
	uint32_t i, at = 0;

	text[0] = '\0';
	for (i = 0; i < slots && at + 8 < 64; i++) {
		if (!out->present[i]) {
			at += (uint32_t)snprintf(text + at, 64 - at, at ? ", %u" : "%u", i);
		}
	}
}

/* The reason why a member that claims a missing slot is not used, as " (name: why)". */
static void missing_reason(const struct asm_work *w, char text[RAID_WHY_BYTES])
{
	uint32_t i;

	text[0] = '\0';
	for (i = 0; i < w->out->members; i++) {
		const struct asm_member *m = &w->out->member[i];

		if (m->verdict == ASM_IN_SYNC || m->verdict == ASM_SPARE ||
		    m->verdict == ASM_FOREIGN || m->verdict == ASM_JOURNAL) {
			continue;
		}
		if (m->slot < 0 || (m->slot < RAID_SLOTS_MAX && !w->out->present[m->slot])) {
			snprintf(text, RAID_WHY_BYTES, " (%s is not used: %s)", asm_name(w, i),
				 m->why);
			return;
		}
	}
}

static void refuse_missing(struct asm_work *w)
{
	uint32_t slots = asm_sb(w, w->fresh)->raid_disks;
	char missing[64], reason[RAID_WHY_BYTES];

	list_missing(w->out, slots, missing);
	missing_reason(w, reason);
	asm_refuse(w, "too few members: slot %s of %u missing; name the devices that hold it%s",
		   missing, slots, reason);
}

/* ---- the rules in order --------------------------------------------------------------------- */

static void check_geometry(struct asm_work *w)
{
	const struct sb *sb = asm_sb(w, w->fresh);
	char why[RAID_WHY_BYTES];
	bool enough;
	int err;

	if (!asm_has_component(sb) && w->out->degraded) {
		if (!asm_force_members(w)) {
			refuse_missing(w);
		}
		if (w->out->decision == ASM_REFUSE) {
			return;
		}
	}
	err = asm_make_geometry(w, why);
	if (err == -EUCLEAN && sb->level == RAID_LEVEL_0) {
		asm_refuse(w, "members of different sizes and no layout recorded: say which with "
			      "raid0-layout=original (made before Linux 3.14) or "
			      "raid0-layout=alternate (3.14 and later)");
	}
	if (err) {
		asm_refuse(w, "%s: %s", asm_name(w, w->fresh), why);
		return;
	}
	enough = geo_enough(&w->out->geometry, w->out->present);
	if (!enough && !asm_force_members(w)) {
		refuse_missing(w);
	}
}

/*
 * What a log holds that is not applied may be nowhere else. The superblock does not say whether a
 * journal is empty; a partial parity log matters only where something is to be reconstructed.
 */
static void check_logs(struct asm_work *w)
{
	if (!asm_has_parity(asm_sb(w, w->fresh))) {
		return;
	}
	if (w->out->features & SB_FEATURE_JOURNAL) {
		asm_doubt(w, "the array has a write journal, which this version does not replay: "
			     "the last writes may be in it only; let mdadm --assemble run the "
			     "array");
	}
	if (w->out->features & (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS) && w->out->degraded &&
	    w->out->resync_offset != SB_IN_SYNC) {
		asm_doubt(w,
			  "dirty and degraded, and its partial parity log is not applied by this "
			  "version: what the missing member held may come out wrong; let mdadm "
			  "--assemble run the array");
	}
}

static void add_reason(char list[RAID_WHY_BYTES], const char *what)
{
	size_t at = strlen(list);

	snprintf(list + at, RAID_WHY_BYTES - at, "%s%s", at ? ", " : "", what);
}

static void check_read_only(struct asm_work *w)
{
	const struct geometry *g = &w->out->geometry;
	uint32_t bits = w->out->features & READ_ONLY_FEATURES;
	char list[RAID_WHY_BYTES] = "";

	if (asm_sb(w, w->fresh)->version == SB_V0_90) {
		add_reason(list, "metadata 0.90");
	}
	if (w->out->events > EVENTS_MAX) {
		add_reason(list, "an event count that is almost used up");
	}
	if (g->p.level == RAID_LEVEL_10 && g->far_set_slots != g->p.slots) {
		add_reason(list, "raid10 far sets");
	}
	if (w->out->bitmap.state == ASM_BITMAP_KEPT) {
		add_reason(list, w->bitmap_kind);
	}
	for (; bits; bits &= bits - 1) {
		add_reason(list, sb_feature_name(bits));
	}
	if (!list[0]) {
		return;
	}
	w->out->decision = ASM_START_READONLY;
	snprintf(w->out->why, RAID_WHY_BYTES,
		 "array uses %.100s, which this version reads but does not write: start it with "
		 "--readonly, or let mdadm run it",
		 list);
}

/* Of members equally fresh any may be the one written before the crash: dirty wins. */
static void take_resync_offset(struct asm_work *w)
{
	uint32_t i;

	w->out->resync_offset = asm_sb(w, w->fresh)->resync_offset;
	for (i = 0; i < w->out->members; i++) {
		const struct asm_member *m = &w->out->member[i];

		if (w->in_set[i] && m->verdict == ASM_IN_SYNC && m->sb.events == w->out->events) {
			w->out->resync_offset = min_u64(w->out->resync_offset, m->sb.resync_offset);
		}
	}
}

static void note_grown(struct asm_work *w)
{
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		if (w->in_set[i] && w->cand[i].grown_bytes) {
			asm_note(w,
				 "%s grew by %" PRIu64 " bytes since its superblock was written; "
				 "mdadm does not find it until it has its old size again",
				 asm_name(w, i), w->cand[i].grown_bytes);
		}
	}
}

void asm_start_rules(struct asm_work *w)
{
	check_level(w);
	check_sizes(w);
	check_tables(w);
	check_features(w);
	take_resync_offset(w);
	asm_count_slots(w);
	note_grown(w);
	if (w->out->decision == ASM_REFUSE) {
		return;
	}
	check_geometry(w);
	if (w->out->decision == ASM_REFUSE) {
		return;
	}
	asm_find_bitmap(w);
	check_logs(w);
	asm_dirty_degraded(w);
	if (w->out->decision != ASM_REFUSE) {
		check_read_only(w);
	}
}
