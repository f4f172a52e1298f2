/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of the golden RAID 4, 5, 6 arrays: what a real md wrote is found through the map, what
 * its members lack comes from P and Q, and both are what md computed. Then, where the redundancy is
 * good, each block and each pair of blocks of every row is taken away and computed from the rest.
 * Without the engine and without the decision to start: geometry and parity alone.
 */
#include "raid/tests/golden.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/parity.h"

enum { PAGE = RAID_PAGE_BYTES };

static struct golden golden;
static struct asm_candidate cand[RAID_SLOTS_MAX];
static struct geometry geometry;
static uint8_t *content;

/* A page of a row: block[slot], and which of them a member gives. */
static _Alignas(PAGE) uint8_t block[RAID_SLOTS_MAX][PAGE], result[2][PAGE];
static bool given[RAID_SLOTS_MAX];
static struct geo_row row;
static uint64_t pages_checked;

static bool is_parity(void)
{
	return golden.level >= RAID_LEVEL_4 && golden.level <= RAID_LEVEL_6;
}

/* What lies in a log and not in its place yet; what lies in two geometries. */
static bool elsewhere(void)
{
	bool dirty = false, log = false;

	for (uint32_t i = 0; i < golden.members; i++) {
		const struct golden_member *m = &golden.member[i];

		if (m->reshape) {
			return true;
		}
		log |= m->part == GOLDEN_JOURNAL || (cand[i].sb.feature_map & SB_FEATURE_PPL) ||
		       (cand[i].sb.feature_map & SB_FEATURE_MULTIPLE_PPLS);
		dirty |= m->resync_offset != SB_IN_SYNC;
	}
	/* A journal has its own mind about what is dirty. */
	return log && (dirty || strstr(golden.name, "journal"));
}

static void load_array(void)
{
	struct geo_params p = {
		.level = (enum raid_level)golden.level,
		.layout = golden.layout,
		.chunk_sectors = golden.chunk_bytes / RAID_SECTOR_BYTES,
		.slots = golden.raid_disks,
	};
	char why[RAID_WHY_BYTES];
	uint32_t missing = golden.raid_disks;

	for (uint32_t i = 0; i < golden.members; i++) {
		const struct sb *sb = &cand[i].sb;

		if (golden.member[i].part == GOLDEN_IN_SYNC) {
			uint16_t slot = sb_own_role(sb);

			assert_in_range(slot, 0, golden.raid_disks - 1);
			p.slot[slot].data_offset_sectors = sb->data_offset;
			p.slot[slot].data_sectors = sb->data_size;
			p.component_sectors = sb->size;
			missing--;
		}
	}
	if (geo_init(&geometry, &p, why)) {
		fail_msg("%s", why);
	}
	assert_int_equal(missing, golden.degraded);
	assert_int_equal(geometry.array_sectors * RAID_SECTOR_BYTES, golden.array_bytes);
}

/* Rows from here on may have P and Q that do not fit their data. */
static uint64_t trusted_rows(void)
{
	uint64_t sectors = SB_IN_SYNC;

	for (uint32_t i = 0; i < golden.members; i++) {
		if (golden.member[i].part == GOLDEN_IN_SYNC && cand[i].sb.resync_offset < sectors) {
			sectors = cand[i].sb.resync_offset;
		}
	}
	return sectors == SB_IN_SYNC ? geometry.rows : sectors / geometry.p.chunk_sectors;
}

/* ---- one page of a row ---------------------------------------------------------------------- */

static void read_page(uint64_t at_row, uint64_t inside)
{
	geo_row_map(&geometry, at_row, &row);
	memset(given, false, sizeof given);
	for (uint32_t i = 0; i < golden.members; i++) {
		const struct golden_member *m = &golden.member[i];
		struct bb_range hit;
		uint64_t maddr;
		uint16_t slot;

		if (m->part != GOLDEN_IN_SYNC) {
			continue;
		}
		slot = sb_own_role(&cand[i].sb);
		maddr = geo_row_maddr(&geometry, at_row, slot) + inside;
		assert_true(maddr + PAGE <= m->bytes);
		given[slot] = !bb_find(&cand[i].bad, maddr, PAGE, &hit);
		if (given[slot]) {
			memcpy(block[slot], m->image + maddr, PAGE);
		}
	}
}

/* The exponent of what a slot holds, PARITY_P or PARITY_Q. */
static uint32_t what_of(uint64_t at_row, uint32_t slot)
{
	uint32_t data;

	switch (geo_row_role(&geometry, at_row, slot, &data)) {
	case GEO_ROLE_P:
		return PARITY_P;
	case GEO_ROLE_Q:
		return PARITY_Q;
	default:
		return row.exp[data];
	}
}

/* Compute the blocks of these slots (the same twice: one) from all others. */
static void recover(uint64_t at_row, uint32_t a, uint32_t b, void *to_a, void *to_b)
{
	const struct parity_lost lost[2] = {{what_of(at_row, a), to_a}, {what_of(at_row, b), to_b}};
	const void *src[PARITY_SOURCES_MAX] = {NULL};
	bool no_p = row.p == a || row.p == b;
	bool no_q = row.q == GEO_NO_SLOT || row.q == a || row.q == b;

	for (uint32_t d = 0; d < row.data; d++) {
		if (row.slot[d] != a && row.slot[d] != b) {
			src[row.exp[d]] = block[row.slot[d]];
		}
	}
	parity_recover(lost, a == b ? 1 : 2, no_p ? NULL : block[row.p], no_q ? NULL : block[row.q],
		       src, row.exps, PAGE);
}

/* Fill in what no member gives; returns how many blocks that were. */
static uint32_t fill_in(uint64_t at_row)
{
	uint32_t lost[2] = {0}, count = 0;

	for (uint32_t k = 0; k < golden.raid_disks; k++) {
		if (!given[k]) {
			assert_true(count < geometry.parity);
			lost[count++] = k;
		}
	}
	if (count) {
		uint32_t last = lost[count - 1];

		recover(at_row, lost[0], last, block[lost[0]], block[last]);
	}
	return count;
}

static void check_data(uint64_t at_row, uint64_t inside)
{
	for (uint32_t d = 0; d < row.data; d++) {
		uint64_t addr =
			at_row * geometry.row_bytes + d * (uint64_t)golden.chunk_bytes + inside;
		struct geo_piece piece;

		geo_map(&geometry, addr, PAGE, &piece);
		assert_int_equal(piece.len, PAGE);
		assert_int_equal(piece.copy[0].slot, row.slot[d]);
		assert_int_equal(piece.copy[0].maddr,
				 geo_row_maddr(&geometry, at_row, row.slot[d]) + inside);
		if (memcmp(block[row.slot[d]], content + addr, PAGE)) {
			fail_msg("%s: wrong bytes in the page at %" PRIu64 ", block %u of row "
				 "%" PRIu64 ", slot %u%s",
				 golden.name, addr, d, at_row, row.slot[d],
				 given[row.slot[d]] ? "" : ", recovered");
		}
	}
}

/* All blocks are there and fit together: whatever is taken away comes back. */
static void check_losses(uint64_t at_row)
{
	const void *src[PARITY_SOURCES_MAX] = {NULL};
	uint32_t exponent;

	for (uint32_t d = 0; d < row.data; d++) {
		src[row.exp[d]] = block[row.slot[d]];
	}
	assert_int_equal(parity_locate(block[row.p], row.q == GEO_NO_SLOT ? NULL : block[row.q],
				       src, row.exps, &exponent),
			 PARITY_FINE);
	for (uint32_t a = 0; a < golden.raid_disks; a++) {
		uint32_t end = geometry.parity == 2 ? golden.raid_disks : a + 1;

		for (uint32_t b = a; b < end; b++) {
			recover(at_row, a, b, result[0], result[1]);
			assert_memory_equal(result[0], block[a], PAGE);
			if (a != b) {
				assert_memory_equal(result[1], block[b], PAGE);
			}
		}
	}
	pages_checked++;
}

static void run(void **state)
{
	uint64_t trusted;

	golden_load(*state, &golden);
	for (uint32_t i = 0; i < golden.members; i++) {
		golden_candidate(&golden.member[i], &cand[i]);
	}
	if (!is_parity() || !golden.assemble || elsewhere()) {
		golden_free(&golden);
		skip();
	}
	load_array();
	content = golden_content(&golden);
	trusted = trusted_rows();
	for (uint64_t at_row = 0; at_row < geometry.rows; at_row++) {
		for (uint64_t inside = 0; inside < golden.chunk_bytes; inside += PAGE) {
			uint32_t lost;

			read_page(at_row, inside);
			lost = fill_in(at_row);
			check_data(at_row, inside);
			if (!lost && at_row < trusted) {
				check_losses(at_row);
			}
		}
	}
	free(content);
	golden_free(&golden);
}

int main(void)
{
	int failed = golden_run("golden parity", run);

	/* Another collection need not have such arrays; ours has. */
	if (!pages_checked && !getenv("GOLDEN_DIR")) {
		fprintf(stderr, "no complete row in any array of %s\n", golden_top());
		return 1;
	}
	return failed;
}
