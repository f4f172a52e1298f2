/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/layout.h"

#include <stdlib.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/sim/trace.h"

#define ULL(x) ((unsigned long long)(x))

static void place(struct layout *l, uint64_t s, uint32_t i, uint32_t slot, uint64_t maddr)
{
	uint64_t at = maddr / RAID_SECTOR_BYTES;

	l->copy[s * l->copies + i] = (struct layout_place){slot, maddr};
	if (at >= l->dev_sectors[slot] || l->sector[slot][at] != LAYOUT_NONE) {
		sim_fail("the map puts two sectors into one place, or one outside a member: array "
			 "sector %llu",
			 ULL(s));
	}
	l->sector[slot][at] = (uint32_t)s;
}

static void fill(struct layout *l, const struct geometry *g)
{
	uint64_t len;

	for (uint64_t addr = 0; addr < l->sectors * RAID_SECTOR_BYTES; addr += len) {
		struct geo_piece piece;

		geo_map(g, addr, l->sectors * RAID_SECTOR_BYTES - addr, &piece);
		len = piece.len;
		CHECK(len > 0 && len % RAID_SECTOR_BYTES == 0 && piece.copies == l->copies);
		for (uint64_t at = 0; at < len; at += RAID_SECTOR_BYTES) {
			for (uint32_t i = 0; i < piece.copies; i++) {
				place(l, (addr + at) / RAID_SECTOR_BYTES, i, piece.copy[i].slot,
				      piece.copy[i].maddr + at);
			}
		}
	}
}

/* The map must put data where the rows say that data lies, and parity nowhere else. */
static void check_rows(const struct layout *l)
{
	for (uint64_t c = 0; c < l->groups; c++) {
		const struct geo_row *row = layout_row(l, c);
		uint32_t s[LAYOUT_SLOTS_MAX], n = layout_group_sectors(l, c, s);

		for (uint32_t d = 0; d < n; d++) {
			if (layout_sector(l, row->slot[d],
					  layout_column_maddr(l, row->slot[d], c)) != s[d]) {
				sim_fail("block %u of the row of column %llu is not where the map "
					 "has it",
					 d, ULL(c));
			}
		}
		if (layout_sector(l, row->p, layout_column_maddr(l, row->p, c)) != LAYOUT_NONE ||
		    (l->parity == 2 &&
		     layout_sector(l, row->q, layout_column_maddr(l, row->q, c)) != LAYOUT_NONE)) {
			sim_fail("parity of column %llu lies where data lies", ULL(c));
		}
	}
}

void layout_init(struct layout *l, const struct geometry *g, const uint64_t *dev_sectors)
{
	l->sectors = g->array_sectors;
	l->copies = g->copies;
	l->slots = g->p.slots;
	l->parity = g->parity;
	CHECK(l->slots <= LAYOUT_SLOTS_MAX);
	l->copy = calloc(l->sectors * l->copies, sizeof *l->copy);
	CHECK(l->copy);
	for (uint32_t k = 0; k < l->slots; k++) {
		l->dev_sectors[k] = dev_sectors[k];
		l->sector[k] = malloc(dev_sectors[k] * sizeof(uint32_t));
		CHECK(l->sector[k]);
		memset(l->sector[k], 0xff, dev_sectors[k] * sizeof(uint32_t));
		l->data_from[k] = g->p.slot[k].data_offset_sectors * RAID_SECTOR_BYTES;
		l->data_to[k] = l->data_from[k] + geo_used_sectors(g, k) * RAID_SECTOR_BYTES;
	}
	fill(l, g);
	if (l->parity) {
		l->row_data = g->row_data;
		l->chunk_sectors = g->p.chunk_sectors;
		l->groups = g->rows * l->chunk_sectors;
		l->row = calloc(g->rows, sizeof *l->row);
		CHECK(l->row);
		for (uint64_t r = 0; r < g->rows; r++) {
			geo_row_map(g, r, &l->row[r]);
		}
		check_rows(l);
	} else if (l->copies > 1) {
		l->groups = l->sectors;
	}
}

void layout_free(struct layout *l)
{
	for (uint32_t k = 0; k < l->slots; k++) {
		free(l->sector[k]);
	}
	free(l->copy);
	free(l->row);
}

uint32_t layout_sector(const struct layout *l, uint32_t slot, uint64_t maddr)
{
	uint64_t at = maddr / RAID_SECTOR_BYTES;

	return slot < l->slots && at < l->dev_sectors[slot] ? l->sector[slot][at] : LAYOUT_NONE;
}

uint64_t layout_group(const struct layout *l, uint32_t slot, uint64_t maddr)
{
	uint32_t s;

	if (slot >= l->slots || l->groups == 0) {
		return UINT64_MAX;
	}
	if (l->parity) {
		uint64_t end = l->data_from[slot] + l->groups * RAID_SECTOR_BYTES;

		return maddr >= l->data_from[slot] && maddr < end
			       ? (maddr - l->data_from[slot]) / RAID_SECTOR_BYTES
			       : UINT64_MAX;
	}
	s = layout_sector(l, slot, maddr);
	return s == LAYOUT_NONE ? UINT64_MAX : s;
}

const struct geo_row *layout_row(const struct layout *l, uint64_t column)
{
	return &l->row[column / l->chunk_sectors];
}

uint32_t layout_group_sectors(const struct layout *l, uint64_t group,
			      uint32_t out[LAYOUT_SLOTS_MAX])
{
	uint64_t row, inside;

	if (!l->parity) {
		out[0] = (uint32_t)group;
		return 1;
	}
	row = group / l->chunk_sectors;
	inside = group % l->chunk_sectors;
	for (uint32_t d = 0; d < l->row_data; d++) {
		out[d] = (uint32_t)((row * l->row_data + d) * l->chunk_sectors + inside);
	}
	return l->row_data;
}

uint64_t layout_group_of(const struct layout *l, uint64_t sector)
{
	uint64_t chunk;

	if (!l->parity) {
		return sector;
	}
	chunk = sector / l->chunk_sectors;
	return chunk / l->row_data * l->chunk_sectors + sector % l->chunk_sectors;
}
