/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address map: common limits, linear, RAID 1, and the way to the levels that have a file of
 * their own. Pure arithmetic on a struct geometry; the I/O path calls geo_map() for every request.
 */
#include "raid/geometry.h"

#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/geometry_impl.h"
#include "raid/why.h"

/* ---- linear -------------------------------------------------------------------------------- */

static int linear_init(struct geometry *g, char why[RAID_WHY_BYTES])
{
	uint64_t total = 0;

	g->copies = 1;
	for (uint32_t k = 0; k < g->p.slots; k++) {
		uint64_t sectors = g->p.slot[k].data_sectors;

		if (g->p.chunk_sectors) {
			sectors = round_down_u64(sectors, g->p.chunk_sectors);
		}
		if (!sectors) {
			return why_set(
				why, -EINVAL,
				"slot %u has no room for data: %llu sectors, rounding unit %u", k,
				(unsigned long long)g->p.slot[k].data_sectors, g->p.chunk_sectors);
		}
		g->start_sector[k] = total;
		total += sectors;
	}
	g->start_sector[g->p.slots] = total;
	g->array_sectors = total;
	return 0;
}

/* The slot that holds an array sector: the last one that begins at or before it. */
static uint32_t linear_slot(const struct geometry *g, uint64_t sector)
{
	uint32_t lo = 0, hi = g->p.slots;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (g->start_sector[mid] <= sector) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return lo;
}

static void linear_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out)
{
	uint32_t slot = linear_slot(g, addr / RAID_SECTOR_BYTES);
	uint64_t start = g->start_sector[slot] * RAID_SECTOR_BYTES;
	uint64_t end = g->start_sector[slot + 1] * RAID_SECTOR_BYTES;

	out->len = min_u64(len, end - addr);
	out->copies = 1;
	out->copy[0].slot = slot;
	out->copy[0].maddr = geo_data_start(g, slot) + (addr - start);
}

static bool linear_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr,
			 uint64_t *addr)
{
	uint64_t start = g->start_sector[slot], end = g->start_sector[slot + 1];

	if (data_addr / RAID_SECTOR_BYTES >= end - start) {
		return false;
	}
	*addr = start * RAID_SECTOR_BYTES + data_addr;
	return true;
}

/* ---- RAID 1 -------------------------------------------------------------------------------- */

static int raid1_init(struct geometry *g, char why[RAID_WHY_BYTES])
{
	if (g->p.slots > RAID_COPIES_MAX) {
		return why_set(why, -ENOTSUP, "%u mirrors: this version handles at most %d",
			       g->p.slots, RAID_COPIES_MAX);
	}
	g->copies = g->p.slots;
	g->array_sectors = g->p.component_sectors;
	return 0;
}

static void raid1_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out)
{
	out->len = len;
	out->copies = g->copies;
	for (uint32_t k = 0; k < g->copies; k++) {
		out->copy[k].slot = k;
		out->copy[k].maddr = geo_data_start(g, k) + addr;
	}
}

/* ---- all levels ---------------------------------------------------------------------------- */

/* Levels whose members all contribute component_sectors. */
static bool has_component(enum raid_level level)
{
	return level != RAID_LEVEL_LINEAR && level != RAID_LEVEL_0;
}

/* Whatever the level: every number small enough that nothing below can overflow, every data area
 * as large as the geometry says. */
static int check_limits(const struct geo_params *p, char why[RAID_WHY_BYTES])
{
	bool component = has_component(p->level);

	if (!p->slots) {
		return why_set(why, -EINVAL, "an array of no slots");
	}
	if (p->slots > RAID_SLOTS_MAX) {
		return why_set(why, -ENOTSUP, "%u slots: this version handles at most %d", p->slots,
			       RAID_SLOTS_MAX);
	}
	if (component && (!p->component_sectors || p->component_sectors > GEO_SECTORS_MAX)) {
		return why_set(why, -EINVAL, "impossible component size of %llu sectors",
			       (unsigned long long)p->component_sectors);
	}
	for (uint32_t k = 0; k < p->slots; k++) {
		uint64_t offset = p->slot[k].data_offset_sectors, size = p->slot[k].data_sectors;
		bool missing = component && !size;

		if (offset > GEO_SECTORS_MAX || size > GEO_SECTORS_MAX) {
			return why_set(why, -EINVAL,
				       "slot %u: impossible data area of %llu sectors at %llu", k,
				       (unsigned long long)size, (unsigned long long)offset);
		}
		if (component && !missing && size < p->component_sectors) {
			return why_set(why, -EINVAL,
				       "slot %u: data area of %llu sectors is smaller than the "
				       "component size of %llu",
				       k, (unsigned long long)size,
				       (unsigned long long)p->component_sectors);
		}
	}
	return 0;
}

int geo_init(struct geometry *g, const struct geo_params *p, char why[RAID_WHY_BYTES])
{
	int err;

	*g = (struct geometry){.p = *p};
	err = check_limits(p, why);
	if (err) {
		return err;
	}
	switch (p->level) {
	case RAID_LEVEL_LINEAR:
		err = linear_init(g, why);
		break;
	case RAID_LEVEL_0:
		err = geo_raid0_init(g, why);
		break;
	case RAID_LEVEL_1:
		err = raid1_init(g, why);
		break;
	case RAID_LEVEL_10:
		err = geo_raid10_init(g, why);
		break;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		err = geo_parity_init(g, why);
		break;
	default:
		return why_set(why, -ENOTSUP, "unknown raid level %d", (int)p->level);
	}
	if (!err && (!g->array_sectors || g->array_sectors > GEO_SECTORS_MAX)) {
		return why_set(why, -EINVAL, "impossible array size of %llu sectors",
			       (unsigned long long)g->array_sectors);
	}
	return err;
}

void geo_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out)
{
	uint64_t bytes = g->array_sectors * RAID_SECTOR_BYTES;

	CHECK(len && addr < bytes && len <= bytes - addr);
	out->addr = addr;
	switch (g->p.level) {
	case RAID_LEVEL_LINEAR:
		linear_map(g, addr, len, out);
		break;
	case RAID_LEVEL_0:
		geo_raid0_map(g, addr, len, out);
		break;
	case RAID_LEVEL_1:
		raid1_map(g, addr, len, out);
		break;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		geo_parity_map(g, addr, len, out);
		break;
	default:
		geo_raid10_map(g, addr, len, out);
		break;
	}
}

bool geo_unmap(const struct geometry *g, uint32_t slot, uint64_t maddr, uint64_t *addr,
	       uint32_t *copy)
{
	uint64_t start;

	CHECK(slot < g->p.slots);
	start = geo_data_start(g, slot);
	if (maddr < start) {
		return false;
	}
	*copy = 0;
	switch (g->p.level) {
	case RAID_LEVEL_LINEAR:
		return linear_unmap(g, slot, maddr - start, addr);
	case RAID_LEVEL_0:
		return geo_raid0_unmap(g, slot, maddr - start, addr);
	case RAID_LEVEL_1:
		*addr = maddr - start;
		*copy = slot;
		return *addr / RAID_SECTOR_BYTES < g->array_sectors;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		return geo_parity_unmap(g, slot, maddr - start, addr);
	default:
		return geo_raid10_unmap(g, slot, maddr - start, addr, copy);
	}
}

/* Members of a group of copies that are present. */
static uint32_t group_present(const struct geometry *g, uint32_t group,
			      const bool present[RAID_SLOTS_MAX], uint32_t slot, bool *has_slot)
{
	uint8_t in[RAID_COPIES_MAX];
	uint32_t count = 0;

	*has_slot = false;
	geo_raid10_group(g, group, in);
	for (uint32_t i = 0; i < g->copies; i++) {
		count += present[in[i]];
		*has_slot |= in[i] == slot;
	}
	return count;
}

static uint32_t slots_present(const struct geometry *g, const bool present[RAID_SLOTS_MAX])
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < g->p.slots; k++) {
		count += present[k];
	}
	return count;
}

bool geo_enough(const struct geometry *g, const bool present[RAID_SLOTS_MAX])
{
	bool has_slot;

	switch (g->p.level) {
	case RAID_LEVEL_LINEAR:
	case RAID_LEVEL_0:
		return slots_present(g, present) == g->p.slots;
	case RAID_LEVEL_1:
		return slots_present(g, present) > 0;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		return slots_present(g, present) >= g->row_data;
	default:
		for (uint32_t i = 0; i < geo_raid10_groups(g); i++) {
			if (!group_present(g, i, present, 0, &has_slot)) {
				return false;
			}
		}
		return true;
	}
}

bool geo_slot_is_last(const struct geometry *g, const bool present[RAID_SLOTS_MAX], uint32_t slot)
{
	bool has_slot;

	CHECK(slot < g->p.slots);
	if (!present[slot]) {
		return false;
	}
	switch (g->p.level) {
	case RAID_LEVEL_LINEAR:
	case RAID_LEVEL_0:
		return true;
	case RAID_LEVEL_1:
		return slots_present(g, present) == 1;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		return slots_present(g, present) <= g->row_data;
	default:
		for (uint32_t i = 0; i < geo_raid10_groups(g); i++) {
			if (group_present(g, i, present, slot, &has_slot) == 1 && has_slot) {
				return true;
			}
		}
		return false;
	}
}

uint64_t geo_used_sectors(const struct geometry *g, uint32_t slot)
{
	CHECK(slot < g->p.slots);
	switch (g->p.level) {
	case RAID_LEVEL_LINEAR:
		return g->start_sector[slot + 1] - g->start_sector[slot];
	case RAID_LEVEL_0:
		return geo_raid0_used_sectors(g, slot);
	case RAID_LEVEL_1:
		return g->array_sectors;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		return g->rows * g->p.chunk_sectors;
	default:
		return geo_raid10_used_sectors(g, slot);
	}
}
