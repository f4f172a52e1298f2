/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each member is (md-format §7, §19.1–3).
 *
 * One member speaks for the array: of those that claim a slot, one with the most events. A member
 * may be one event behind, for a crash can come between two superblock writes; then its role is
 * what the freshest says, because the missing update may be the one that failed it. Anything older
 * missed writes and is not used.
 *
 * "a drops b" means that a's table no longer gives b's dev_number a slot: a ran on without b.
 * Two members that drop each other have different data under one uuid. They are never merged: the
 * side with more events is taken, and with equal events there is no right side.
 *
 * A member that is not in sync itself (feature 0x2) neither drops nor can be dropped: its slot was
 * given to it a moment ago, and the others' older tables cannot know.
 */
#include "raid/assemble_impl.h"

#include <inttypes.h>
#include <string.h>

#include "raid/base/bytes.h"

static bool is_slot(uint16_t role)
{
	return role <= SB_ROLE_MAX;
}

static bool recovering(const struct sb *sb)
{
	return sb->feature_map & SB_FEATURE_RECOVERY_OFFSET;
}

/* Claims a slot of the array it describes. */
static bool claims_slot(const struct sb *sb)
{
	return sb_own_role(sb) < sb->raid_disks && is_slot(sb_own_role(sb));
}

/* Its superblock was written with every update, so its events mean something. */
static bool can_speak(const struct sb *sb)
{
	return claims_slot(sb) || sb_own_role(sb) == SB_ROLE_JOURNAL;
}

static uint16_t table_role(const struct sb *of, uint32_t dev_number)
{
	return dev_number < of->max_dev ? of->dev_roles[dev_number] : SB_ROLE_SPARE;
}

static bool drops(const struct sb *a, const struct sb *b)
{
	if (!claims_slot(a) || !claims_slot(b) || recovering(a) || recovering(b)) {
		return false;
	}
	return !is_slot(table_role(a, b->dev_number));
}

/* ---- the freshest --------------------------------------------------------------------------- */

static bool most_events(const struct asm_work *w, uint64_t *events)
{
	bool any = false;
	uint32_t i;

	*events = 0;
	for (i = 0; i < w->out->members; i++) {
		if (w->in_set[i] && can_speak(asm_sb(w, i))) {
			any = true;
			*events = asm_sb(w, i)->events > *events ? asm_sb(w, i)->events : *events;
		}
	}
	return any;
}

/* Does another member with as many events drop it? */
static bool dropped_by_equal(const struct asm_work *w, uint32_t i)
{
	uint32_t k;

	for (k = 0; k < w->out->members; k++) {
		if (k != i && w->in_set[k] && asm_sb(w, k)->events == asm_sb(w, i)->events &&
		    drops(asm_sb(w, k), asm_sb(w, i))) {
			return true;
		}
	}
	return false;
}

/* Lower is better, among members with the most events. */
static uint32_t speaker_rank(const struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i);

	if (!claims_slot(sb) || recovering(sb)) {
		return 2;
	}
	return w->authority[i] ? 0 : 1;
}

bool asm_find_freshest(struct asm_work *w)
{
	uint64_t events;
	bool found = false;
	uint32_t i, f = 0;

	if (!most_events(w, &events)) {
		for (i = 0; i < w->out->members; i++) {
			if (w->in_set[i]) {
				asm_set_verdict(w, i, ASM_SPARE,
						"a spare; no member that holds data is here");
			}
		}
		asm_refuse(w, "only spares here, and no member that holds data: find the others");
		return false;
	}
	for (i = 0; i < w->out->members; i++) {
		if (!w->in_set[i] || !can_speak(asm_sb(w, i)) || asm_sb(w, i)->events != events) {
			continue;
		}
		w->authority[i] = claims_slot(asm_sb(w, i)) && !recovering(asm_sb(w, i)) &&
				  !dropped_by_equal(w, i);
		if (!found || speaker_rank(w, i) < speaker_rank(w, f) ||
		    (speaker_rank(w, i) == speaker_rank(w, f) &&
		     asm_sb(w, i)->dev_number < asm_sb(w, f)->dev_number)) {
			f = i;
			found = true;
		}
	}
	w->authority[f] = true;
	w->fresh = f;
	w->out->freshest = f;
	w->out->events = events;
	return true;
}

/* ---- members that contradict it ------------------------------------------------------------- */

static uint32_t effective_layout(const struct sb *sb)
{
	if (sb->level == RAID_LEVEL_0 && !(sb->feature_map & SB_FEATURE_RAID0_LAYOUT)) {
		return 0;
	}
	return sb->layout;
}

/* The name of a field in which two superblocks cannot differ, or NULL. */
static const char *contradiction(const struct sb *fresh, const struct sb *sb)
{
	if (sb->version != fresh->version) {
		return "metadata version";
	}
	if (sb->level != fresh->level) {
		return "level";
	}
	if (effective_layout(sb) != effective_layout(fresh)) {
		return "layout";
	}
	if (sb->chunksize != fresh->chunksize) {
		return "chunk size";
	}
	if (sb->events != fresh->events) {
		return NULL; /* it may have missed a change of these */
	}
	if (sb->raid_disks != fresh->raid_disks) {
		return "number of slots";
	}
	if (sb->size != fresh->size) {
		return "component size";
	}
	return sb->ctime_s != fresh->ctime_s ? "creation time" : NULL;
}

static void find_strays(struct asm_work *w)
{
	const struct sb *fresh = asm_sb(w, w->fresh);
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		const char *what = w->in_set[i] ? contradiction(fresh, asm_sb(w, i)) : NULL;

		if (!what) {
			continue;
		}
		w->in_set[i] = false;
		w->authority[i] = false;
		asm_set_verdict(w, i, ASM_STRAY, "contradicts %s: another %s",
				asm_name(w, w->fresh), what);
		if (can_speak(asm_sb(w, i)) && asm_sb(w, i)->events == fresh->events) {
			asm_doubt(w,
				  "%s and %s contradict each other (%s) and are equally fresh; "
				  "leave one of them out",
				  asm_name(w, w->fresh), asm_name(w, i), what);
		}
	}
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static bool dropped_by_authority(const struct asm_work *w, uint32_t i)
{
	uint32_t k;

	for (k = 0; k < w->out->members; k++) {
		if (k != i && w->authority[k] &&
		    !is_slot(table_role(asm_sb(w, k), asm_sb(w, i)->dev_number))) {
			return true;
		}
	}
	return false;
}

static void split(struct asm_work *w, uint32_t i, uint64_t behind, bool dropped)
{
	const char *fresh = asm_name(w, w->fresh), *self = asm_name(w, i);

	asm_set_verdict(w, i, ASM_SPLIT,
			"ran on without %s, which has events %" PRIu64 " (here %" PRIu64
			"): their data differ",
			fresh, w->out->events, asm_sb(w, i)->events);
	if (!behind) {
		asm_doubt(
			w,
			"split brain: %s and %s each ran without the other and are equally fresh; "
			"choose one half and give only its members",
			fresh, self);
	} else if (behind == 1 && !dropped) {
		asm_doubt(w,
			  "%s says that %s failed, which has one event more and does not know; "
			  "choose one of them and leave the other out",
			  self, fresh);
	}
}

static void slot_verdict(struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i), *fresh = asm_sb(w, w->fresh);
	uint64_t behind = w->out->events - sb->events;
	uint16_t role = table_role(fresh, sb->dev_number);
	bool dropped = dropped_by_authority(w, i);

	w->out->member[i].slot = sb_own_role(sb);
	if (i != w->fresh && drops(sb, fresh)) {
		split(w, i, behind, dropped);
	} else if (behind > 1) {
		asm_set_verdict(w, i, ASM_STALE,
				"%" PRIu64 " events behind: it missed writes; once the array runs, "
				"add it again as a new member",
				behind);
	} else if (i != w->fresh && dropped) {
		asm_set_verdict(w, i, ASM_FAULTY,
				"failed or removed, says %s; once the array runs, add it again as "
				"a new member",
				asm_name(w, w->fresh));
	} else if (i != w->fresh && role != sb_own_role(sb)) {
		asm_set_verdict(w, i, ASM_STRAY, "claims slot %u, but %s gives it slot %u",
				sb_own_role(sb), asm_name(w, w->fresh), role);
	} else if (sb->feature_map & SB_FEATURE_REPLACEMENT) {
		asm_set_verdict(w, i, ASM_REPLACEMENT,
				"replaces the member of slot %u, copied up "
				"to sector %" PRIu64 " of its data so far",
				sb_own_role(sb), recovering(sb) ? sb->recovery_offset : sb->size);
	} else if (recovering(sb)) {
		asm_set_verdict(w, i, ASM_RECOVERING,
				"rebuilt up to sector %" PRIu64 " of its data so far",
				sb->recovery_offset);
	} else {
		w->out->member[i].verdict = ASM_IN_SYNC;
	}
}

/* Spares never win; but one that has seen more than every member with data, and has seen the
 * freshest of them dropped, proves that the members that matter are not here. */
static void spare_verdict(struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i), *fresh = asm_sb(w, w->fresh);

	asm_set_verdict(w, i, ASM_SPARE, "a spare");
	if (sb->events > fresh->events && claims_slot(fresh) && !recovering(fresh) &&
	    !is_slot(table_role(sb, fresh->dev_number))) {
		asm_doubt(w,
			  "spare %s saw %s fail (events %" PRIu64 " against %" PRIu64
			  "): the newer members are missing, find them",
			  asm_name(w, i), asm_name(w, w->fresh), sb->events, fresh->events);
	}
}

static void give_verdict(struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i);
	uint16_t own = sb_own_role(sb);

	if (own == SB_ROLE_SPARE) {
		spare_verdict(w, i);
	} else if (own == SB_ROLE_FAULTY) {
		asm_set_verdict(w, i, ASM_FAULTY, "its own superblock says that it failed");
	} else if (own == SB_ROLE_JOURNAL) {
		if (w->out->events - sb->events > 1) {
			asm_set_verdict(w, i, ASM_STALE, "a journal %" PRIu64 " events behind",
					w->out->events - sb->events);
		} else {
			asm_set_verdict(w, i, ASM_JOURNAL, "write journal");
		}
	} else if (!claims_slot(sb) || own >= asm_sb(w, w->fresh)->raid_disks) {
		asm_set_verdict(w, i, ASM_STRAY, "claims slot %u of an array with %u slots", own,
				asm_sb(w, w->fresh)->raid_disks);
	} else {
		slot_verdict(w, i);
	}
}

/* ---- duplicates ----------------------------------------------------------------------------- */

static bool holds_data(const struct asm_work *w, uint32_t i)
{
	enum asm_verdict v = w->out->member[i].verdict;

	return w->in_set[i] && (v == ASM_IN_SYNC || v == ASM_RECOVERING || v == ASM_REPLACEMENT);
}

static bool same_device(const struct sb *a, const struct sb *b)
{
	if (a->dev_number == b->dev_number && a->dev_number < a->max_dev) {
		return true;
	}
	return a->version != SB_V0_90 && !memcmp(a->device_uuid, b->device_uuid, 16);
}

static void check_pair(struct asm_work *w, uint32_t i, uint32_t k)
{
	const struct asm_member *a = &w->out->member[i], *b = &w->out->member[k];
	bool replacing = a->verdict == ASM_REPLACEMENT || b->verdict == ASM_REPLACEMENT;

	if (same_device(&a->sb, &b->sb)) {
		asm_doubt(w, "%s and %s are copies of the same member; leave one of them out",
			  asm_name(w, i), asm_name(w, k));
	} else if (a->slot != b->slot || (replacing && a->verdict != b->verdict)) {
		return;
	} else {
		asm_doubt(w, "%s and %s both claim slot %d; leave one of them out", asm_name(w, i),
			  asm_name(w, k), a->slot);
	}
	asm_set_verdict(w, k, ASM_STRAY, "holds the same place as %s", asm_name(w, i));
}

/* A number given to another since this spare was last seen: with that number it would next be told
 * that it holds the other's slot. */
static void check_spare(struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i);
	uint32_t k;

	for (k = 0; k < w->out->members; k++) {
		bool before = k < i && w->out->member[k].verdict == ASM_SPARE;

		if (k != i && w->in_set[k] && (holds_data(w, k) || before) &&
		    same_device(asm_sb(w, k), sb)) {
			asm_set_verdict(w, i, ASM_STRAY,
					"its place as device %" PRIu32 " was given to %s; to use "
					"it again, zero its superblock and add it",
					sb->dev_number, asm_name(w, k));
			return;
		}
	}
}

static void find_duplicates(struct asm_work *w)
{
	uint32_t i, k;

	for (i = 0; i < w->out->members; i++) {
		for (k = i + 1; k < w->out->members; k++) {
			if (holds_data(w, i) && holds_data(w, k)) {
				check_pair(w, i, k);
			}
		}
	}
	for (i = 0; i < w->out->members; i++) {
		if (w->in_set[i] && w->out->member[i].verdict == ASM_SPARE) {
			check_spare(w, i);
		}
	}
}

static bool slot_has(const struct asm_work *w, int32_t slot, enum asm_verdict v)
{
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		const struct asm_member *m = &w->out->member[i];

		if (w->in_set[i] && m->slot == slot && m->verdict == v) {
			return true;
		}
	}
	return false;
}

/*
 * Without the member that it replaces a replacement is the member of its slot: a good one if it is
 * complete, else one that is being rebuilt. A complete one also beats a member that is itself being
 * rebuilt, which is then not needed; one that is not complete is no use beside such a member.
 */
static void promote_replacements(struct asm_work *w)
{
	uint32_t i, k;

	for (i = 0; i < w->out->members; i++) {
		struct asm_member *m = &w->out->member[i];

		if (!w->in_set[i] || m->verdict != ASM_REPLACEMENT ||
		    slot_has(w, m->slot, ASM_IN_SYNC)) {
			continue;
		}
		if (!recovering(&m->sb)) {
			m->verdict = ASM_IN_SYNC;
			m->why[0] = '\0';
		} else if (slot_has(w, m->slot, ASM_RECOVERING)) {
			asm_set_verdict(w, i, ASM_STALE,
					"replaces a member that is not complete itself; once the "
					"array runs, add it again as a new member");
			continue;
		} else {
			asm_set_verdict(
				w, i, ASM_RECOVERING,
				"takes the place of the member it was to replace, copied up "
				"to sector %" PRIu64 " of its data so far",
				m->sb.recovery_offset);
			continue;
		}
		for (k = 0; k < w->out->members; k++) {
			if (w->in_set[k] && w->out->member[k].slot == m->slot &&
			    w->out->member[k].verdict == ASM_RECOVERING) {
				asm_set_verdict(w, k, ASM_STALE,
						"%s has replaced it; once the array runs, add it "
						"again as a new member",
						asm_name(w, i));
			}
		}
	}
}

/* How far those that are not complete are (md-format §7, §19.2). */
static void take_recovery(struct asm_work *w)
{
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		struct asm_member *m = &w->out->member[i];

		if (!w->in_set[i] || !recovering(&m->sb) ||
		    (m->verdict != ASM_RECOVERING && m->verdict != ASM_REPLACEMENT)) {
			continue;
		}
		m->recovery_offset = min_u64(sb_recovered_sectors(&m->sb), m->sb.size);
	}
}

void asm_give_verdicts(struct asm_work *w)
{
	uint32_t i;

	find_strays(w);
	for (i = 0; i < w->out->members; i++) {
		if (w->in_set[i]) {
			give_verdict(w, i);
		}
	}
	find_duplicates(w);
	promote_replacements(w);
	take_recovery(w);
}
