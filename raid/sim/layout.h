/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where every sector of the array lies, both ways, by slot; and what must agree with what.
 *
 * A *group* is the smallest set of places that redundancy ties together: the copies of an array
 * sector (levels 1 and 10), or a *column*, one sector of every slot of a row (levels 4, 5, 6).
 * Groups are numbered in the address space of resync and bitmap: array sectors for 10, sectors of
 * the component for the others. Levels without redundancy have none.
 */
#ifndef RAID_SIM_LAYOUT_H
#define RAID_SIM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/geometry.h"

enum { LAYOUT_NONE = UINT32_MAX, LAYOUT_SLOTS_MAX = 10 };

struct layout_place {
	uint32_t slot;
	uint64_t maddr;
};

struct layout {
	uint64_t sectors; /* of the array */
	uint32_t slots, copies, parity, row_data;
	uint64_t chunk_sectors; /* parity levels */
	uint64_t groups;
	struct layout_place *copy;	    /* [sector * copies + i] */
	uint32_t *sector[LAYOUT_SLOTS_MAX]; /* by device sector: array sector, or LAYOUT_NONE */
	uint64_t dev_sectors[LAYOUT_SLOTS_MAX];
	uint64_t data_from[LAYOUT_SLOTS_MAX], data_to[LAYOUT_SLOTS_MAX];
	struct geo_row *row;
};

/* dev_sectors: of the device in each slot, an upper bound for what a slot uses. */
void layout_init(struct layout *l, const struct geometry *g, const uint64_t *dev_sectors);
void layout_free(struct layout *l);

/* Array sector at a place, LAYOUT_NONE if it holds none (metadata, parity, nothing). */
uint32_t layout_sector(const struct layout *l, uint32_t slot, uint64_t maddr);

/* The group of a place; UINT64_MAX if it belongs to none. */
uint64_t layout_group(const struct layout *l, uint32_t slot, uint64_t maddr);

/* Array sectors of a group: how many, and which. */
uint32_t layout_group_sectors(const struct layout *l, uint64_t group,
			      uint32_t out[LAYOUT_SLOTS_MAX]);

/* Group of an array sector. */
uint64_t layout_group_of(const struct layout *l, uint64_t sector);

/* Row of a column, of parity levels. */
const struct geo_row *layout_row(const struct layout *l, uint64_t column);

/* Where a column lies on a slot. */
static inline uint64_t layout_column_maddr(const struct layout *l, uint32_t slot, uint64_t column)
{
	return l->data_from[slot] + column * RAID_SECTOR_BYTES;
}

#endif
