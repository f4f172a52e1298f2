/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the array's write-intent bitmap is good for (md-format §11.2): whose copy is read, whether
 * its zeroes can be believed, and which members that were away it can bring back.
 *
 * The freshest superblock says whether there is a bitmap and where; every member in a slot has it
 * there. Every in-sync member's copy is as good as another's, if it is as new: one with the events
 * of the superblock is taken. Without such a copy all chunks count as changed, and a new bitmap is
 * written; that costs a longer resync and loses nothing.
 */
#include "raid/assemble_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"

/* It stays as it is; kind says what it is, the note what is wrong with it. */
static void kept(struct asm_work *w, const char *kind, const char *why)
{
	w->out->bitmap.state = ASM_BITMAP_KEPT;
	w->bitmap_kind = kind;
	asm_note(w, "%s", why);
}

static const char *kind_of(enum bm_version version)
{
	switch (version) {
	case BM_CLUSTERED:
		return "a clustered bitmap";
	case BM_LOCKLESS:
		return "a lockless bitmap (version 6)";
	default:
		return "a bitmap that cannot be kept up here";
	}
}

/* The place of the array's bitmap on a member, also on one whose own superblock has none yet. */
static void expect_on(const struct asm_work *w, uint32_t i, struct bm_expect *out)
{
	struct sb sb = *asm_sb(w, i);

	sb.feature_map |= SB_FEATURE_BITMAP;
	sb.bitmap_offset = w->out->bitmap.offset_sectors;
	sb.size = asm_sb(w, w->fresh)->size;
	bm_expect_of(&sb, w->out->member[i].dev_sectors, w->out->geometry.array_sectors, out);
}

static bool has_copy(const struct asm_work *w, uint32_t i)
{
	const struct sb *sb = asm_sb(w, i);

	return w->in_set[i] && w->out->member[i].verdict == ASM_IN_SYNC &&
	       sb->feature_map & SB_FEATURE_BITMAP &&
	       sb->bitmap_offset == w->out->bitmap.offset_sectors;
}

/* Look at the copy of member i. Returns false if the search is over. */
static bool look_at(struct asm_work *w, uint32_t i, char first_why[RAID_WHY_BYTES])
{
	const struct asm_candidate *c = &w->cand[w->out->member[i].candidate];
	struct asm_bitmap *b = &w->out->bitmap;
	char why[RAID_WHY_BYTES] = "";
	struct bm_expect expect = {0};
	struct bm_header header = {0};
	int err = c->bitmap.err;

	expect_on(w, i, &expect);
	if (err) {
		snprintf(why, sizeof why, "bitmap: cannot be read (error %d)", -err);
	} else {
		err = bm_decode(c->bitmap.header, BM_HEADER_BYTES, &expect, &header, why);
	}
	if (err == -ENOTSUP) {
		kept(w, kind_of(header.version), why);
		return false;
	}
	if (err) {
		if (!first_why[0]) {
			snprintf(first_why, RAID_WHY_BYTES, "%.100s: %.150s", asm_name(w, i), why);
		}
		return true;
	}
	if (b->state == ASM_BITMAP_NONE) {
		b->state = ASM_BITMAP_STALE;
		b->header = header;
	}
	if (!bm_is_current(&header, w->out->events)) {
		return true;
	}
	b->state = ASM_BITMAP_CURRENT;
	b->header = header;
	b->member = i;
	b->at_sector = expect.at_sector;
	return false;
}

/* No copy makes sense: a new one as large as there is room on every member. */
static void make_new(struct asm_work *w, const char *first_why)
{
	struct asm_bitmap *b = &w->out->bitmap;
	char why[RAID_WHY_BYTES] = "";
	struct bm_expect expect = {0};
	uint64_t room = UINT64_MAX;
	uint32_t i, chunk;

	for (i = 0; i < w->out->members; i++) {
		if (w->in_set[i] && w->out->member[i].verdict == ASM_IN_SYNC) {
			expect_on(w, i, &expect);
			room = min_u64(room, expect.room_sectors);
		}
	}
	if (bm_choose_chunk(expect.sync_size_sectors, room, 0, &chunk, why)) {
		kept(w, kind_of(BM_V4), first_why[0] ? first_why : why);
		return;
	}
	b->state = ASM_BITMAP_STALE;
	b->header = (struct bm_header){
		.version = BM_V4,
		.sync_size_sectors = expect.sync_size_sectors,
		.chunk_bytes = chunk,
		.daemon_sleep_s = BM_DAEMON_SLEEP_DEFAULT_S,
	};
	memcpy(b->header.uuid, expect.set_uuid, sizeof b->header.uuid);
	asm_note(w, "%s", first_why[0] ? first_why : "no member in sync has the bitmap");
}

/* It is written to every member in a slot, and a spare may be one soon. */
static void check_room(struct asm_work *w)
{
	uint64_t sectors = bm_area_pages(w->out->bitmap.bits) * (BM_PAGE_BYTES / RAID_SECTOR_BYTES);
	struct bm_expect expect = {0};
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		enum asm_verdict v = w->out->member[i].verdict;

		if (!w->in_set[i] || v == ASM_JOURNAL || (!asm_is_used(v) && v != ASM_SPARE)) {
			continue;
		}
		expect_on(w, i, &expect);
		if (expect.room_sectors >= sectors) {
			continue;
		}
		if (v == ASM_IN_SYNC) {
			snprintf(why, sizeof why,
				 "%.100s has no room for the bitmap of %llu sectors",
				 asm_name(w, i), (unsigned long long)sectors);
			kept(w, kind_of(BM_V4), why);
			return;
		}
		asm_set_verdict(w, i, ASM_STRAY,
				"no room beside its data for the array's bitmap of %llu sectors",
				(unsigned long long)sectors);
	}
}

/* A member that was away can come back cheaply if the bits of all it missed are still set: it was
 * complete when it left, and nothing was cleared since. */
static bool can_come_back(const struct asm_work *w, uint32_t i)
{
	const struct asm_member *m = &w->out->member[i];
	const struct sb *fresh = asm_sb(w, w->fresh);

	return w->in_set[i] && (m->verdict == ASM_STALE || m->verdict == ASM_FAULTY) &&
	       m->slot >= 0 && m->slot < RAID_SLOTS_MAX && !w->out->present[m->slot] &&
	       sb_own_role(&m->sb) == m->slot && m->sb.raid_disks == fresh->raid_disks &&
	       m->sb.size == fresh->size && asm_fits(w, i) &&
	       !(m->sb.feature_map &
		 (SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT | ASM_RESHAPE_FEATURES)) &&
	       bm_covers(&w->out->bitmap.header, m->sb.events);
}

static void judge_members(struct asm_work *w)
{
	bool current = w->out->bitmap.state == ASM_BITMAP_CURRENT;
	uint32_t i;

	for (i = 0; i < w->out->members; i++) {
		struct asm_member *m = &w->out->member[i];

		m->recovery_bitmap = current && m->verdict == ASM_RECOVERING &&
				     m->sb.feature_map & SB_FEATURE_RECOVERY_BITMAP;
		m->readd_bitmap = current && can_come_back(w, i);
		if (m->readd_bitmap) {
			asm_set_verdict(w, i, m->verdict,
					"%s, %llu events behind: re-add it once the array runs, "
					"then what the bitmap marks is copied to it",
					m->verdict == ASM_STALE ? "was away" : "failed or removed",
					(unsigned long long)(w->out->events - m->sb.events));
		}
	}
}

void asm_find_bitmap(struct asm_work *w)
{
	const struct sb *fresh = asm_sb(w, w->fresh);
	struct asm_bitmap *b = &w->out->bitmap;
	char first_why[RAID_WHY_BYTES] = "";
	bool more = true;
	uint32_t i, slot;

	if (fresh->feature_map & SB_FEATURE_BITMAP && w->out->geometry.copies < 2 &&
	    !w->out->geometry.parity) {
		kept(w, kind_of(BM_V4), "a bitmap says nothing about an array without redundancy");
	} else if (fresh->feature_map & SB_FEATURE_BITMAP) {
		b->offset_sectors = fresh->bitmap_offset;
		for (slot = 0; slot < fresh->raid_disks && more; slot++) {
			for (i = 0; i < w->out->members && more; i++) {
				if (w->out->member[i].slot == (int32_t)slot && has_copy(w, i)) {
					more = look_at(w, i, first_why);
				}
			}
		}
		if (b->state == ASM_BITMAP_NONE) {
			make_new(w, first_why);
		}
	}
	if (b->state == ASM_BITMAP_CURRENT || b->state == ASM_BITMAP_STALE) {
		b->bits = bm_bits(b->header.sync_size_sectors, b->header.chunk_bytes);
		check_room(w);
	}
	if (b->state == ASM_BITMAP_CURRENT && w->took_old &&
	    !bm_covers(&b->header, w->old_events)) {
		b->state = ASM_BITMAP_STALE;
	}
	judge_members(w);
}
