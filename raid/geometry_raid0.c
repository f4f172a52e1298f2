/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 0 (md-format §9.2): chunks dealt out over the members row by row; where members are of
 * different sizes, in zones of ever fewer members.
 *
 * Invariants of an initialised geometry: zones follow one another without gap in chunks and in
 * rows; the members of a zone are among those of the zone before it; with more than one zone that
 * leaves a choice, the layout is one of the two known ones.
 */
#include "raid/geometry_impl.h"

#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"

static uint64_t rows_of(const struct geometry *g, uint32_t slot)
{
	return g->p.slot[slot].data_sectors / g->p.chunk_sectors;
}

/* Fill the zone that begins at first_row. False: no member is longer than that. */
static bool make_zone(const struct geometry *g, uint64_t first_row, uint64_t first_chunk,
		      struct geo_zone *z)
{
	*z = (struct geo_zone){
		.first_chunk = first_chunk,
		.first_row = first_row,
		.end_row = UINT64_MAX,
	};
	for (uint32_t k = 0; k < g->p.slots; k++) {
		uint64_t rows = rows_of(g, k);

		if (rows > first_row) {
			z->slot[z->members++] = (uint8_t)k;
			z->end_row = min_u64(z->end_row, rows);
		}
	}
	return z->members > 0;
}

/*
 * md clears the bits of chunk - 1 in what a member holds. For a chunk that is a power of two that
 * changes nothing; for others it gives up part of the last rows. It has to be the same here, or
 * what lies at the end of our array would be missing from the kernel's.
 */
static uint64_t exported_sectors(const struct geometry *g)
{
	uint64_t sectors = 0;

	for (uint32_t k = 0; k < g->p.slots; k++) {
		sectors += rows_of(g, k) * g->p.chunk_sectors & ~(uint64_t)(g->p.chunk_sectors - 1);
	}
	return sectors;
}

static bool layout_matters(const struct geometry *g)
{
	/* In zone 0 both layouts agree, and in a zone of one member; such a zone is the last. */
	return g->zones > 1 && g->zone[1].members > 1;
}

int geo_raid0_init(struct geometry *g, char why[RAID_WHY_BYTES])
{
	uint64_t row = 0, chunk = 0;

	if (g->p.chunk_sectors < RAID_PAGE_BYTES / RAID_SECTOR_BYTES) {
		return why_set(why, -EINVAL, "chunk of %u sectors: at least 4 KiB is needed",
			       g->p.chunk_sectors);
	}
	g->copies = 1;
	g->chunk_bytes = (uint64_t)g->p.chunk_sectors * RAID_SECTOR_BYTES;
	g->chunk_shift = is_pow2_u64(g->chunk_bytes) ? (uint8_t)__builtin_ctzll(g->chunk_bytes) : 0;
	for (uint32_t k = 0; k < g->p.slots; k++) {
		if (!rows_of(g, k)) {
			return why_set(why, -EINVAL,
				       "slot %u: %llu sectors are less than one chunk of %u", k,
				       (unsigned long long)g->p.slot[k].data_sectors,
				       g->p.chunk_sectors);
		}
	}
	while (g->zones < RAID_ZONES_MAX && make_zone(g, row, chunk, &g->zone[g->zones])) {
		const struct geo_zone *z = &g->zone[g->zones++];

		row = z->end_row;
		chunk += (z->end_row - z->first_row) * z->members;
	}
	g->array_sectors = exported_sectors(g);
	if (layout_matters(g) && g->p.layout != GEO_RAID0_ORIGINAL &&
	    g->p.layout != GEO_RAID0_ALTERNATE) {
		return why_set(why, -EUCLEAN,
			       "raid0 over members of different sizes whose layout is %s: say "
			       "'original' (written by Linux before 3.14) or 'alternate'",
			       g->p.layout ? "unknown" : "not recorded");
	}
	return 0;
}

/* The zone that holds a chunk: the last one that begins at or before it. */
static const struct geo_zone *zone_of_chunk(const struct geometry *g, uint64_t chunk)
{
	uint32_t lo = 0, hi = g->zones;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (g->zone[mid].first_chunk <= chunk) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return &g->zone[lo];
}

void geo_raid0_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out)
{
	uint64_t inside, chunk = geo_chunk_of(g, addr, &inside), row;
	uint32_t slot;

	if (g->zones == 1) {
		row = chunk / g->p.slots;
		slot = (uint32_t)(chunk % g->p.slots);
	} else {
		const struct geo_zone *z = zone_of_chunk(g, chunk);
		uint64_t in_zone = chunk - z->first_chunk;
		uint64_t turn = g->p.layout == GEO_RAID0_ORIGINAL ? chunk : in_zone;

		row = z->first_row + in_zone / z->members;
		slot = z->slot[turn % z->members];
	}
	out->len = min_u64(len, g->chunk_bytes - inside);
	out->copies = 1;
	out->copy[0].slot = slot;
	out->copy[0].maddr = geo_data_start(g, slot) + row * g->chunk_bytes + inside;
}

/* Array address of the place of a slot in a row it takes part in. */
static uint64_t addr_of_place(const struct geometry *g, uint32_t slot, uint64_t row)
{
	const struct geo_zone *z = g->zone;
	uint32_t at = 0, turn;
	uint64_t first;

	while (z->end_row <= row) {
		z++;
	}
	while (z->slot[at] != slot) {
		at++;
	}
	/* The row's chunks are first … first + members - 1; the slot has the one whose turn it is.
	 */
	first = z->first_chunk + (row - z->first_row) * z->members;
	turn = g->p.layout == GEO_RAID0_ORIGINAL ? (uint32_t)(first % z->members) : 0;
	return (first + (at + z->members - turn) % z->members) * g->chunk_bytes;
}

bool geo_raid0_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr, uint64_t *addr)
{
	uint64_t inside, row = geo_chunk_of(g, data_addr, &inside);

	if (row >= rows_of(g, slot)) {
		return false;
	}
	*addr = addr_of_place(g, slot, row) + inside;
	return *addr < g->array_sectors * RAID_SECTOR_BYTES;
}

uint64_t geo_raid0_used_sectors(const struct geometry *g, uint32_t slot)
{
	uint64_t row = rows_of(g, slot);

	/* The part that is given up is less than a chunk for each member: few rows to go back. */
	while (row--) {
		uint64_t sector = addr_of_place(g, slot, row) / RAID_SECTOR_BYTES;

		if (sector < g->array_sectors) {
			return row * g->p.chunk_sectors +
			       min_u64(g->p.chunk_sectors, g->array_sectors - sector);
		}
	}
	return 0;
}
