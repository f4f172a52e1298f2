/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Geometries out of arbitrary bytes: what geo_init() takes must map every address, back and forth,
 * inside the members.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/geometry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

enum { HEAD_BYTES = 24, SLOT_BYTES = 16 };

static void read_params(const uint8_t *data, size_t size, struct geo_params *p)
{
	memset(p, 0, sizeof *p);
	p->level = (enum raid_level)(int32_t)get_le32(data);
	p->layout = get_le32(data + 4);
	p->chunk_sectors = get_le32(data + 8);
	p->slots = get_le32(data + 12);
	p->component_sectors = get_le64(data + 16);
	data += HEAD_BYTES;
	size -= HEAD_BYTES;
	/* The last slot given stands for all that follow. */
	for (uint32_t k = 0; k < RAID_SLOTS_MAX; k++) {
		if (size >= SLOT_BYTES) {
			p->slot[k].data_offset_sectors = get_le64(data);
			p->slot[k].data_sectors = get_le64(data + 8);
			data += SLOT_BYTES;
			size -= SLOT_BYTES;
		} else if (k) {
			p->slot[k] = p->slot[k - 1];
		}
	}
}

static void check_addr(const struct geometry *g, uint64_t addr)
{
	struct geo_piece piece;
	uint64_t left = g->array_sectors * RAID_SECTOR_BYTES - addr;

	geo_map(g, addr, left, &piece);
	CHECK(piece.addr == addr && piece.len && piece.len <= left && piece.copies == g->copies);
	for (uint32_t i = 0; i < piece.copies; i++) {
		const struct geo_copy *c = &piece.copy[i];
		uint64_t start, end = c->maddr + piece.len, back;
		uint32_t copy;

		CHECK(c->slot < g->p.slots);
		start = g->p.slot[c->slot].data_offset_sectors * RAID_SECTOR_BYTES;
		CHECK(c->maddr >= start && end > c->maddr);
		CHECK(end - start <= geo_used_sectors(g, c->slot) * RAID_SECTOR_BYTES);
		CHECK(geo_unmap(g, c->slot, c->maddr, &back, &copy) && back == addr && copy == i);
		CHECK(geo_unmap(g, c->slot, end - 1, &back, &copy));
		CHECK(back == addr + piece.len - 1 && copy == i);
	}
}

/* P, Q and data take each slot of a row once, and each exponent at most once. */
static void check_row(const struct geometry *g, uint64_t row)
{
	uint64_t slots = 0, exps = 0;
	struct geo_row r;

	geo_row_map(g, row, &r);
	CHECK(r.data == g->row_data && r.p < g->p.slots && r.exps <= g->p.slots);
	slots |= (uint64_t)1 << r.p;
	if (g->parity == 2) {
		CHECK(r.q < g->p.slots && r.q != r.p);
		slots |= (uint64_t)1 << r.q;
	}
	for (uint32_t d = 0; d < r.data; d++) {
		uint32_t data;

		CHECK(geo_row_role(g, row, r.slot[d], &data) == GEO_ROLE_DATA && data == d);
		CHECK(r.exp[d] < r.exps && !(exps >> r.exp[d] & 1));
		slots |= (uint64_t)1 << r.slot[d];
		exps |= (uint64_t)1 << r.exp[d];
	}
	CHECK((uint32_t)__builtin_popcountll(slots) == g->p.slots);
}

/* Where all can be reached, a slot is the last of something exactly if it cannot be spared. */
static void check_losses(const struct geometry *g, bool present[RAID_SLOTS_MAX])
{
	if (!geo_enough(g, present)) {
		return;
	}
	for (uint32_t k = 0; k < g->p.slots; k++) {
		bool last = geo_slot_is_last(g, present, k);

		if (present[k]) {
			present[k] = false;
			CHECK(geo_enough(g, present) == !last);
			present[k] = true;
		} else {
			CHECK(!last);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool present[RAID_SLOTS_MAX] = {false};
	char why[RAID_WHY_BYTES] = "", name[GEO_LAYOUT_NAME_BYTES];
	struct geo_params p;
	struct geometry g;
	uint64_t bytes, random = 88172645463325252u;

	if (size < HEAD_BYTES) {
		return 0;
	}
	read_params(data, size, &p);
	geo_layout_name(p.level, p.layout, name);
	if (geo_init(&g, &p, why)) {
		CHECK(why[0]);
		return 0;
	}
	bytes = g.array_sectors * RAID_SECTOR_BYTES;
	check_addr(&g, 0);
	check_addr(&g, bytes - 1);
	for (uint32_t i = 0; i < 32; i++) {
		uint64_t addr, maddr;
		uint32_t slot, copy;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		check_addr(&g, random % bytes);
		if (g.parity) {
			check_row(&g, random % g.rows);
		}
		slot = (uint32_t)random % p.slots;
		maddr = i & 1 ? random : random % (bytes * 2);
		if (geo_unmap(&g, slot, maddr, &addr, &copy)) {
			CHECK(addr < bytes && copy < g.copies);
		}
		present[slot] = true;
	}
	check_losses(&g, present);
	memset(present, true, p.slots);
	check_losses(&g, present);
	return 0;
}

/* Valid geometries to start from: layout, chunk, slots, component, data of slot 0 and of the rest.
 */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	static const struct {
		int32_t level;
		uint32_t layout, chunk, slots;
		uint64_t component, first, rest;
	} seeds[] = {
		{RAID_LEVEL_LINEAR, 0, 0, 3, 0, 1000, 500},
		{RAID_LEVEL_LINEAR, 0, 128, 3, 0, 1000, 500},
		{RAID_LEVEL_0, 0, 128, 4, 0, 10000, 10000},
		{RAID_LEVEL_0, 1, 40, 4, 0, 20000, 10000},
		{RAID_LEVEL_0, 2, 128, 4, 0, 10000, 20000},
		{RAID_LEVEL_1, 0, 0, 2, 9999, 10000, 12000},
		{RAID_LEVEL_10, 0x102, 128, 5, 9999, 10000, 12000},
		{RAID_LEVEL_10, 0x201, 128, 4, 9999, 10000, 12000},
		{RAID_LEVEL_10, 0x10301, 8, 7, 9999, 10000, 12000},
		{RAID_LEVEL_10, 0x40202, 128, 9, 9999, 10000, 12000},
		{RAID_LEVEL_10, 0x20201, 128, 4, 9999, 10000, 12000},
		{RAID_LEVEL_4, 0, 128, 3, 9999, 10000, 12000},
		{RAID_LEVEL_5, 2, 128, 2, 9999, 10000, 12000},
		{RAID_LEVEL_5, 1, 8, 7, 9999, 10000, 12000},
		{RAID_LEVEL_6, 2, 128, 4, 9999, 10000, 12000},
		{RAID_LEVEL_6, 10, 128, 6, 9999, 10000, 12000},
		{RAID_LEVEL_6, 18, 8, 5, 9999, 10000, 12000},
	};

	if (i >= sizeof seeds / sizeof *seeds || size < HEAD_BYTES + 2 * SLOT_BYTES) {
		return 0;
	}
	put_le32(buf, (uint32_t)seeds[i].level);
	put_le32(buf + 4, seeds[i].layout);
	put_le32(buf + 8, seeds[i].chunk);
	put_le32(buf + 12, seeds[i].slots);
	put_le64(buf + 16, seeds[i].component);
	put_le64(buf + 24, 2048);
	put_le64(buf + 32, seeds[i].first);
	put_le64(buf + 40, 4096);
	put_le64(buf + 48, seeds[i].rest);
	return HEAD_BYTES + 2 * SLOT_BYTES;
}
