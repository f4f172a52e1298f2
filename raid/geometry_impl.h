/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to geometry*.c: the levels behind geometry.h. Each init is called with g->p set and its
 * common limits checked (geo_init); it derives the rest of g or explains why not. Each map and
 * unmap is called with addresses inside the array and the member.
 */
#ifndef RAID_GEOMETRY_IMPL_H
#define RAID_GEOMETRY_IMPL_H

#include "raid/geometry.h"

/* Largest sector count handled anywhere: bytes stay far below 2^63, so that sums cannot wrap. */
#define GEO_SECTORS_MAX ((uint64_t)1 << 53)

/* Chunk number of an array address, and the address inside the chunk. */
static inline uint64_t geo_chunk_of(const struct geometry *g, uint64_t addr, uint64_t *inside)
{
	uint64_t chunk;

	if (g->chunk_shift) {
		chunk = addr >> g->chunk_shift;
		*inside = addr & (g->chunk_bytes - 1);
	} else {
		chunk = addr / g->chunk_bytes;
		*inside = addr % g->chunk_bytes;
	}
	return chunk;
}

/* First byte of the data area of a slot's member. */
static inline uint64_t geo_data_start(const struct geometry *g, uint32_t slot)
{
	return g->p.slot[slot].data_offset_sectors * RAID_SECTOR_BYTES;
}

int geo_raid0_init(struct geometry *g, char why[RAID_WHY_BYTES]);
void geo_raid0_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out);
bool geo_raid0_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr, uint64_t *addr);
uint64_t geo_raid0_used_sectors(const struct geometry *g, uint32_t slot);

int geo_raid10_init(struct geometry *g, char why[RAID_WHY_BYTES]);
void geo_raid10_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out);
bool geo_raid10_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr, uint64_t *addr,
		      uint32_t *copy);
uint64_t geo_raid10_used_sectors(const struct geometry *g, uint32_t slot);

int geo_parity_init(struct geometry *g, char why[RAID_WHY_BYTES]);
void geo_parity_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out);
bool geo_parity_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr, uint64_t *addr);

/* RAID 10: how many different groups of slots hold the copies of a chunk; the slots of group i. */
uint32_t geo_raid10_groups(const struct geometry *g);
void geo_raid10_group(const struct geometry *g, uint32_t i, uint8_t slot[RAID_COPIES_MAX]);

#endif
