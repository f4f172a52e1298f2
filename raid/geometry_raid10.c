/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 10 (md-format §9.7): near copies side by side, each of them again far copies away.
 *
 * Positions: number the chunk places of the rows that hold first far copies from left to right, row
 * by row. Chunk c has near copy i at position c * near + i; position p is row p / slots, slot
 * p % slots. Far copy f of a position lies on the slot reached by f steps of far_next[], stride
 * rows (offset layout: one row) further down per step.
 *
 * Invariants of an initialised geometry: far_next is a permutation and far_prev its inverse; the
 * copies of every chunk are on different slots; no place holds two chunks; the last row lies inside
 * the component size.
 */
#include "raid/geometry_impl.h"

#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"

enum {
	LAYOUT_OFFSET = 0x10000,
	LAYOUT_SETS_SHIFT = 17,
	SETS_NONE = 0,
	SETS_BY_FAR = 1,    /* slots / far in a set */
	SETS_BY_COPIES = 2, /* copies in a set */
};

static int parse_layout(struct geometry *g, char why[RAID_WHY_BYTES])
{
	uint32_t layout = g->p.layout;

	g->near = layout & 0xff;
	g->far = layout >> 8 & 0xff;
	g->offset_layout = layout & LAYOUT_OFFSET;
	g->copies = g->near * g->far;
	if (g->copies < 2 || g->copies > g->p.slots) {
		return why_set(why, -EINVAL,
			       "layout 0x%x makes %u copies: at least 2 are needed, and %u slots "
			       "hold no more than %u",
			       layout, g->copies, g->p.slots, g->p.slots);
	}
	if (g->copies > RAID_COPIES_MAX) {
		return why_set(why, -ENOTSUP, "%u copies: this version handles at most %d",
			       g->copies, RAID_COPIES_MAX);
	}
	switch (layout >> LAYOUT_SETS_SHIFT) {
	case SETS_NONE:
		g->far_set_slots = g->p.slots;
		return 0;
	case SETS_BY_FAR:
		g->far_set_slots = g->p.slots / g->far;
		return 0;
	case SETS_BY_COPIES:
		g->far_set_slots = g->copies;
		return 0;
	default:
		return why_set(why, -EINVAL, "unknown raid10 layout 0x%x", layout);
	}
}

/* Where the next far copy goes: near slots on, round inside the far set. If the sets do not divide
 * the slots, the last set takes the rest too. */
static uint32_t next_far_slot(const struct geometry *g, uint32_t slot)
{
	uint32_t size = g->far_set_slots, rest = g->p.slots % size;
	uint32_t last = (g->p.slots / size - 1) * size, to = slot + g->near;

	if (rest && to > last) {
		return (to - last) % (size + rest) + last;
	}
	return to % size + slot / size * size;
}

/* Not every layout that the bits can say keeps copies apart; md itself would mix blocks up there.
 */
static bool copies_are_apart(const struct geometry *g)
{
	uint8_t slot[RAID_COPIES_MAX];

	for (uint32_t i = 0; i < geo_raid10_groups(g); i++) {
		uint64_t seen = 0;

		geo_raid10_group(g, i, slot);
		for (uint32_t j = 0; j < g->copies; j++) {
			if (seen >> slot[j] & 1) {
				return false;
			}
			seen |= (uint64_t)1 << slot[j];
		}
	}
	/* A chunk that wraps to the next row would meet the offset copies of the row it left. */
	return !(g->offset_layout && g->far > 1 && g->p.slots % g->near);
}

static bool make_far_steps(struct geometry *g)
{
	uint64_t seen = 0;

	for (uint32_t k = 0; k < g->p.slots; k++) {
		uint32_t to = g->far > 1 ? next_far_slot(g, k) : k;

		if (to >= g->p.slots || (seen >> to & 1)) {
			return false;
		}
		seen |= (uint64_t)1 << to;
		g->far_next[k] = (uint8_t)to;
		g->far_prev[to] = (uint8_t)k;
	}
	return true;
}

int geo_raid10_init(struct geometry *g, char why[RAID_WHY_BYTES])
{
	uint64_t rows;
	int err;

	if (g->p.chunk_sectors < RAID_PAGE_BYTES / RAID_SECTOR_BYTES ||
	    !is_pow2_u64(g->p.chunk_sectors)) {
		return why_set(why, -EINVAL,
			       "chunk of %u sectors: a power of two of at least 4 KiB is needed",
			       g->p.chunk_sectors);
	}
	g->chunk_bytes = (uint64_t)g->p.chunk_sectors * RAID_SECTOR_BYTES;
	g->chunk_shift = (uint8_t)__builtin_ctzll(g->chunk_bytes);
	err = parse_layout(g, why);
	if (err) {
		return err;
	}
	/* Rows for the first far copies; as many again for each further one. At most
	 * GEO_SECTORS_MAX / 8 rows times 64 slots: no overflow. */
	rows = g->p.component_sectors / g->p.chunk_sectors / g->far;
	g->chunks = rows * g->p.slots / g->near;
	g->stride_rows = g->offset_layout ? 1 : rows;
	g->array_sectors = g->chunks * g->p.chunk_sectors;
	if (!g->chunks) {
		return why_set(why, -EINVAL,
			       "component size of %llu sectors is too small for %u far copies of a "
			       "chunk of %u",
			       (unsigned long long)g->p.component_sectors, g->far,
			       g->p.chunk_sectors);
	}
	if (!make_far_steps(g) || !copies_are_apart(g)) {
		return why_set(why, -EINVAL,
			       "layout 0x%x over %u slots puts two blocks into one place",
			       g->p.layout, g->p.slots);
	}
	return 0;
}

void geo_raid10_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out)
{
	uint64_t inside, chunk = geo_chunk_of(g, addr, &inside);
	uint64_t position = chunk * g->near, row = position / g->p.slots;
	uint32_t first = (uint32_t)(position % g->p.slots);
	struct geo_copy *copy = out->copy;

	out->len = min_u64(len, g->chunk_bytes - inside);
	out->copies = g->copies;
	if (g->offset_layout) {
		row *= g->far;
	}
	for (uint32_t i = 0; i < g->near; i++) {
		uint32_t slot = first;
		uint64_t at = row * g->chunk_bytes + inside;

		for (uint32_t f = 0; f < g->far; f++) {
			copy->slot = slot;
			copy->maddr = geo_data_start(g, slot) + at;
			copy++;
			slot = g->far_next[slot];
			at += g->stride_rows * g->chunk_bytes;
		}
		/* Not reached with an offset layout: see copies_are_apart(). */
		if (++first == g->p.slots) {
			first = 0;
			row++;
		}
	}
}

bool geo_raid10_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr, uint64_t *addr,
		      uint32_t *copy)
{
	uint64_t inside, row = geo_chunk_of(g, data_addr, &inside), far, position;

	if (g->offset_layout) {
		far = row % g->far;
		row = row / g->far;
	} else {
		far = row / g->stride_rows;
		row = row % g->stride_rows;
	}
	if (far >= g->far || row >= g->p.component_sectors / g->p.chunk_sectors / g->far) {
		return false;
	}
	for (uint64_t f = 0; f < far; f++) {
		slot = g->far_prev[slot];
	}
	position = row * g->p.slots + slot;
	if (position / g->near >= g->chunks) {
		return false;
	}
	*addr = position / g->near * g->chunk_bytes + inside;
	*copy = (uint32_t)(position % g->near * g->far + far);
	return true;
}

uint64_t geo_raid10_used_sectors(const struct geometry *g, uint32_t slot)
{
	uint64_t positions = g->chunks * g->near, used = 0;

	for (uint32_t f = 0; f < g->far; f++) {
		if (slot < positions) {
			uint64_t row = (positions - 1 - slot) / g->p.slots;

			row = g->offset_layout ? row * g->far + f : row + f * g->stride_rows;
			used = max_u64(used, row + 1);
		}
		slot = g->far_prev[slot];
	}
	return used * g->p.chunk_sectors;
}

uint32_t geo_raid10_groups(const struct geometry *g)
{
	/* The slots of a chunk depend on chunk * near modulo slots: they repeat after slots chunks
	 * at the latest. */
	return (uint32_t)min_u64(g->chunks, g->p.slots);
}

void geo_raid10_group(const struct geometry *g, uint32_t i, uint8_t slot[RAID_COPIES_MAX])
{
	for (uint32_t n = 0; n < g->near; n++) {
		uint32_t at = (i * g->near + n) % g->p.slots;

		for (uint32_t f = 0; f < g->far; f++) {
			*slot++ = (uint8_t)at;
			at = g->far_next[at];
		}
	}
}
