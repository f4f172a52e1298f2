/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every golden array comes to the state and the bytes that its array.json says: superblocks as read
 * and written again, the decision, each member's part, the size, and the content read through the
 * map, the bad-block lists and rule 4. One test an array, named like it. $GOLDEN_DIR names another
 * collection. Logs are not applied yet: an array whose content may be in one is refused.
 */
#include "raid/tests/golden.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

static struct golden golden;
static struct asm_candidate cand[RAID_SLOTS_MAX];
static struct assembly assembly;

/* ---- superblocks --------------------------------------------------------------------------------
 */

static const char *version_text(enum sb_version v)
{
	static const char *const text[] = {"1.0", "1.1", "1.2"};

	return v == SB_V0_90 ? "0.90" : text[v];
}

static void check_fields(const struct golden_member *m, const struct sb *sb)
{
	char uuid[37];

	assert_string_equal(sb_uuid_text(sb->set_uuid, uuid), golden.uuid);
	if (m->device_uuid[0]) {
		assert_string_equal(sb_uuid_text(sb->device_uuid, uuid), m->device_uuid);
	}
	assert_string_equal(version_text(sb->version), m->metadata);
	assert_int_equal(sb->level, golden.level);
	assert_int_equal(sb->chunksize, golden.chunk_bytes / 512);
	assert_int_equal(sb->raid_disks, golden.raid_disks);
	assert_int_equal(sb->dev_number, m->dev_number);
	assert_int_equal(sb_own_role(sb), m->role_own);
	assert_int_equal(sb->events, m->events);
	assert_int_equal(512 * sb->super_offset, m->super_offset_bytes);
	assert_int_equal(512 * sb->data_offset, m->data_offset_bytes);
	if (m->have_data_size) {
		assert_int_equal(512 * sb->data_size, m->data_size_bytes);
	}
	assert_int_equal(sb->resync_offset, m->resync_offset);
	if (m->recovery_offset) {
		assert_int_equal(sb->recovery_offset, m->recovery_offset);
	}
	assert_int_equal(!!(sb->feature_map & SB_FEATURE_BAD_BLOCKS), m->bad_blocks);
	assert_int_equal(!!(sb->feature_map & SB_FEATURE_RESHAPE), m->reshape);
}

/* Written again it is the same, byte for byte. */
static void check_encoding(const struct golden_member *m, const struct sb *sb)
{
	uint8_t buf[SB_BYTES_MAX];

	if (sb->version != SB_V0_90) {
		uint32_t len = sb_encode(sb, 512, buf);

		assert_memory_equal(buf, m->image + 512 * sb->super_offset, len);
	}
}

static void load_members(void)
{
	uint32_t i;

	for (i = 0; i < golden.members; i++) {
		golden_candidate(&golden.member[i], &cand[i]);
		if (!golden.member[i].csum_ok) {
			assert_int_equal(cand[i].load_err, -EBADMSG);
			continue;
		}
		if (cand[i].load_err) {
			fail_msg("%s: %s", cand[i].name, cand[i].why);
		}
		check_fields(&golden.member[i], &cand[i].sb);
		check_encoding(&golden.member[i], &cand[i].sb);
	}
}

/* ---- the decision
 * --------------------------------------------------------------------------------- */

static void check_part(uint32_t i)
{
	static const enum asm_verdict want[] = {
		[GOLDEN_IN_SYNC] = ASM_IN_SYNC,	      [GOLDEN_SPARE] = ASM_SPARE,
		[GOLDEN_REBUILDING] = ASM_RECOVERING, [GOLDEN_REPLACEMENT] = ASM_REPLACEMENT,
		[GOLDEN_JOURNAL] = ASM_JOURNAL,
	};
	enum golden_part part = golden.member[i].part;
	enum asm_verdict got = assembly.member[i].verdict;

	if (part == GOLDEN_IGNORED) {
		assert_true(got == ASM_STALE || got == ASM_FAULTY || got == ASM_SPLIT ||
			    got == ASM_UNREADABLE);
	} else if (got != want[part]) {
		fail_msg("%s is %s, not %s: %s", cand[i].name, asm_verdict_name(got),
			 asm_verdict_name(want[part]), assembly.member[i].why);
	}
}

/* For an array that may not start, array.json need not say which slots are missing. */
static void check_slots(void)
{
	uint32_t i, missing = 0;

	for (i = 0; i < golden.raid_disks; i++) {
		missing += golden.missing[i];
	}
	for (i = 0; i < golden.raid_disks && (golden.assemble || missing); i++) {
		assert_int_equal(assembly.present[i], !golden.missing[i]);
	}
	if (golden.degraded >= 0) {
		assert_int_equal(assembly.degraded, golden.degraded);
	}
}

static bool has_parity(void)
{
	return golden.level >= RAID_LEVEL_4 && golden.level <= RAID_LEVEL_6;
}

static enum asm_decision expected_decision(void)
{
	bool only_read = false, dirty = false;
	uint32_t i;

	if (!golden.assemble) {
		return ASM_REFUSE;
	}
	for (i = 0; i < golden.members; i++) {
		const struct golden_member *m = &golden.member[i];

		if (m->part == GOLDEN_IGNORED || m->part == GOLDEN_SPARE) {
			continue;
		}
		dirty |= m->resync_offset != SB_IN_SYNC;
		if (m->reshape || m->journal || (m->ppl && dirty && golden.degraded)) {
			return ASM_REFUSE;
		}
		only_read |= m->only_read;
	}
	/* 0.90 is the array's, whatever parts its members have. */
	only_read |= !strcmp(golden.member[0].metadata, "0.90");
	return only_read ? ASM_START_READONLY : ASM_START;
}

static void check_bitmap(void)
{
	const struct asm_bitmap *b = &assembly.bitmap;
	uint64_t i, set = 0;

	assert_int_equal(b->state, golden.bitmap ? ASM_BITMAP_CURRENT : ASM_BITMAP_NONE);
	if (!golden.bitmap) {
		return;
	}
	assert_int_equal(b->header.chunk_bytes, golden.bitmap_chunk_bytes);
	assert_int_equal(b->bits, golden.bitmap_bits);
	assert_int_equal(assembly.member[b->member].verdict, ASM_IN_SYNC);
	for (i = 0; i < b->bits; i++) {
		set += bm_area_get(golden.member[b->member].image + 512 * b->at_sector, i);
	}
	assert_int_equal(set, golden.bitmap_dirty_bits);
}

/* What is refused because it is dirty and degraded, or has too few members, force starts if md's
 * does: with it, the former only. */
static void check_force(void)
{
	struct asm_options opt = {.force_write = true};
	bool dirty = strstr(golden.name, "-dirty-absent") && !golden.member[0].ppl;

	if (golden.assemble || !has_parity()) {
		return;
	}
	asm_decide(cand, golden.members, &opt, &assembly);
	assert_int_equal(assembly.decision, dirty ? ASM_START : ASM_REFUSE);
	assert_int_equal(dirty, !!assembly.note[0]);
	if (dirty) {
		assert_true(assembly.resync_offset == SB_IN_SYNC);
	}
}

static void check_decision(void)
{
	struct asm_options opt = {.want_readonly = true};
	uint32_t i;

	check_force();
	asm_decide(cand, golden.members, &opt, &assembly);
	if (assembly.decision != expected_decision()) {
		fail_msg("decision %d, not %d: %s", assembly.decision, expected_decision(),
			 assembly.why);
	}
	for (i = 0; i < golden.members; i++) {
		check_part(i);
	}
	check_slots();
	if (assembly.decision != ASM_START) {
		assert_true(assembly.why[0]);
		print_message("  %s\n", assembly.why);
	}
	if (assembly.decision != ASM_REFUSE) {
		check_bitmap();
	}
}

/* ---- the bytes
 * ------------------------------------------------------------------------------------ */

static const struct asm_member *member_of(uint32_t slot)
{
	uint32_t i;

	for (i = 0; i < assembly.members; i++) {
		if (assembly.member[i].slot == (int32_t)slot &&
		    assembly.member[i].verdict == ASM_IN_SYNC) {
			return &assembly.member[i];
		}
	}
	return NULL;
}

/* The bytes of one copy against those wanted, if any; how many of them, from addr on, are not
 * listed as bad, or with *bad how many are. */
static uint64_t check_copy(const struct asm_member *m, uint64_t maddr, uint64_t len,
			   const uint8_t *want, bool *bad)
{
	const struct golden_member *gm = &golden.member[m->candidate];
	struct bb_range hit;

	assert_true(maddr + len <= gm->bytes);
	*bad = false;
	if (bb_find(&m->bad, maddr, len, &hit)) {
		*bad = hit.maddr == maddr;
		len = *bad ? hit.len : hit.maddr - maddr;
	}
	if (!*bad && want && memcmp(gm->image + maddr, want, len)) {
		fail_msg("%s differs in the %" PRIu64 " bytes at %" PRIu64, gm->file, len, maddr);
	}
	return len;
}

/* A copy that has a higher slot counts only if the array is clean: rule 4. */
static bool must_agree(const struct geo_piece *piece, uint32_t copy)
{
	uint32_t i;

	if (assembly.resync_offset == SB_IN_SYNC) {
		return true;
	}
	for (i = 0; i < piece->copies; i++) {
		if (piece->copy[i].slot < piece->copy[copy].slot &&
		    assembly.present[piece->copy[i].slot]) {
			return false;
		}
	}
	return true;
}

/* Returns how many bytes at addr were looked at; *lost: no copy of them can be read. */
static uint64_t check_piece(const struct geo_piece *piece, const uint8_t *content, bool *lost)
{
	uint64_t len = piece->len;
	uint32_t i, readable = 0;

	/* Cut to a run in which each copy is all good or all bad. */
	for (i = 0; i < piece->copies; i++) {
		const struct asm_member *m = member_of(piece->copy[i].slot);
		bool bad;

		if (m) {
			len = check_copy(m, piece->copy[i].maddr, len, NULL, &bad);
		}
	}
	for (i = 0; i < piece->copies; i++) {
		const struct asm_member *m = member_of(piece->copy[i].slot);
		uint64_t got;
		bool bad;

		if (!m) {
			continue;
		}
		got = check_copy(m, piece->copy[i].maddr, len,
				 must_agree(piece, i) ? content + piece->addr : NULL, &bad);
		assert_int_equal(got, len);
		readable += !bad;
	}
	*lost = !readable;
	return len;
}

static bool expected_lost(uint64_t addr, uint64_t len)
{
	uint32_t i;

	for (i = 0; i < golden.unreadables; i++) {
		const struct golden_range *r = &golden.unreadable[i];

		if (addr >= r->addr && addr + len <= r->addr + r->len) {
			return true;
		}
	}
	return false;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* All of one member's chunk but what is listed as bad. */
static void check_chunk(uint32_t slot, uint64_t maddr, const uint8_t *want)
{
	const struct asm_member *m = member_of(slot);
	uint64_t at = 0;

	while (m && at < golden.chunk_bytes) {
		bool bad;

		at += check_copy(m, maddr + at, golden.chunk_bytes - at, want + at, &bad);
	}
}

/* sum += 2^exp * block in GF(2^8) of polynomial 0x11d, byte by byte. */
static void add_block(uint8_t *sum, const uint8_t *block, uint32_t exp)
{
	uint32_t i, k;

	for (i = 0; i < golden.chunk_bytes; i++) {
		uint8_t x = block[i];

		for (k = 0; k < exp; k++) {
			x = (uint8_t)(x << 1 ^ (x & 0x80 ? 0x1d : 0));
		}
		sum[i] ^= x;
	}
}

/* Data where the map says; parity what the content makes it, where it is known to be right. */
static void check_row(uint64_t row, const uint8_t *content)
{
	const struct geometry *g = &assembly.geometry;
	uint64_t sector = row * golden.chunk_bytes / 512;
	uint8_t *p = calloc(1, golden.chunk_bytes), *q = calloc(1, golden.chunk_bytes);
	struct geo_row r;
	uint32_t d;

	assert_non_null(p);
	assert_non_null(q);
	geo_row_map(g, row, &r);
	for (d = 0; d < r.data; d++) {
		const uint8_t *block =
			content + row * r.data * golden.chunk_bytes + d * golden.chunk_bytes;

		check_chunk(r.slot[d], geo_row_maddr(g, row, r.slot[d]), block);
		add_block(p, block, 0);
		add_block(q, block, r.exp[d]);
	}
	if (assembly.resync_offset == SB_IN_SYNC || sector < assembly.resync_offset) {
		check_chunk(r.p, geo_row_maddr(g, row, r.p), p);
		if (r.q != GEO_NO_SLOT) {
			check_chunk(r.q, geo_row_maddr(g, row, r.q), q);
		}
	}
	free(p);
	free(q);
}

static void check_rows(void)
{
	uint64_t row_bytes, rows, row;
	struct geo_row r;
	uint8_t *content = golden_content(&golden);

	geo_row_map(&assembly.geometry, 0, &r);
	row_bytes = (uint64_t)r.data * golden.chunk_bytes;
	rows = golden.array_bytes / row_bytes;
	assert_int_equal(assembly.geometry.array_sectors * 512, golden.array_bytes);
	assert_int_equal(rows * row_bytes, golden.content_bytes);
	for (row = 0; row < rows; row++) {
		check_row(row, content);
	}
	free(content);
}

static void check_content(void)
{
	uint64_t bytes = assembly.geometry.array_sectors * 512, addr = 0, lost_bytes = 0, want = 0;
	uint8_t *content = golden_content(&golden);
	uint32_t i;

	assert_int_equal(bytes, golden.array_bytes);
	assert_int_equal(bytes, golden.content_bytes);
	while (addr < bytes) {
		struct geo_piece piece;
		uint64_t len;
		bool lost;

		geo_map(&assembly.geometry, addr, bytes - addr, &piece);
		len = check_piece(&piece, content, &lost);
		if (lost) {
			assert_true(expected_lost(addr, len));
			lost_bytes += len;
		}
		addr += len;
	}
	for (i = 0; i < golden.unreadables; i++) {
		want += golden.unreadable[i].len;
	}
	assert_int_equal(lost_bytes, want);
	free(content);
}

/* ---- one array
 * --------------------------------------------------------------------------------------- */

static void array(void **state)
{
	golden_load(*state, &golden);
	load_members();
	check_decision();
	if (assembly.decision != ASM_REFUSE && has_parity()) {
		check_rows();
	} else if (assembly.decision != ASM_REFUSE) {
		check_content();
	}
	golden_free(&golden);
}

int main(void)
{
	return golden_run("golden", array);
}
