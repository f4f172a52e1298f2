/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random geometries against an oracle written straight from the text of md-format §9: it walks the
 * array chunk by chunk and lists where each copy goes, with none of geometry.c's shortcuts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/geometry.h"

#define SECTOR ((uint64_t)RAID_SECTOR_BYTES)

enum {
	UNITS_MAX = 4096, /* chunks (linear, RAID 1: sectors) of an array, at most */
	ROWS_MAX = 512,	  /* … of a member */
	GEOMETRIES = 3000,
};

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % below;
}

/* ---- the oracle ---------------------------------------------------------------------------- */

struct place {
	uint32_t slot;
	uint64_t row; /* in units */
};

struct oracle {
	uint64_t unit_sectors; /* chunk; 1 for linear and RAID 1 */
	uint32_t units, copies;
	uint64_t sectors; /* of the array; it may end inside the last units */
	struct place at[UNITS_MAX][RAID_COPIES_MAX];

	/* what lies in a place: unit + 1, 0 if nothing */
	uint32_t owner[RAID_SLOTS_MAX][ROWS_MAX];
	bool sound; /* no place twice, copies of a unit on different slots */
};

static struct oracle o;

static void put(uint32_t unit, uint32_t copy, uint32_t slot, uint64_t row)
{
	assert_true(unit < UNITS_MAX && row < ROWS_MAX);
	o.at[unit][copy] = (struct place){slot, row};
	o.sound &= !o.owner[slot][row];
	for (uint32_t i = 0; i < copy; i++) {
		o.sound &= o.at[unit][i].slot != slot;
	}
	o.owner[slot][row] = unit + 1;
}

static void oracle_linear(const struct geo_params *p)
{
	o.unit_sectors = 1;
	o.copies = 1;
	for (uint32_t k = 0; k < p->slots; k++) {
		uint64_t sectors = p->slot[k].data_sectors;

		if (p->chunk_sectors) {
			sectors = sectors / p->chunk_sectors * p->chunk_sectors;
		}
		for (uint64_t s = 0; s < sectors; s++) {
			put(o.units++, 0, k, s);
		}
	}
}

static void oracle_raid1(const struct geo_params *p)
{
	o.unit_sectors = 1;
	o.copies = p->slots;
	for (o.units = 0; o.units < p->component_sectors; o.units++) {
		for (uint32_t k = 0; k < p->slots; k++) {
			put(o.units, k, k, o.units);
		}
	}
}

/* Row by row: the members long enough take part; where their number changes a zone begins. */
static void oracle_raid0(const struct geo_params *p)
{
	uint32_t zone_first = 0, zone_members = 0;

	o.unit_sectors = p->chunk_sectors;
	o.copies = 1;
	for (uint64_t row = 0; row < ROWS_MAX; row++) {
		uint32_t member[RAID_SLOTS_MAX], members = 0;

		for (uint32_t k = 0; k < p->slots; k++) {
			if (p->slot[k].data_sectors / p->chunk_sectors > row) {
				member[members++] = k;
			}
		}
		if (members != zone_members) {
			zone_first = o.units;
			zone_members = members;
		}
		for (uint32_t i = 0; i < members; i++, o.units++) {
			uint32_t number =
				p->layout == GEO_RAID0_ORIGINAL ? o.units : o.units - zone_first;

			put(o.units, 0, member[number % members], row);
		}
	}
}

static uint32_t oracle_far_step(const struct geo_params *p, uint32_t d)
{
	uint32_t n = p->slots, nc = p->layout & 255, fc = p->layout >> 8 & 255, F = n, q, L;

	if (p->layout & 0x20000) {
		F = n / fc;
	} else if (p->layout & 0x40000) {
		F = nc * fc;
	}
	q = d / F;
	L = (n / F - 1) * F;
	if (n % F && d + nc > L) {
		return (d + nc - L) % (F + n % F) + L;
	}
	return (d + nc) % F + q * F;
}

static void oracle_raid10(const struct geo_params *p)
{
	uint64_t n = p->slots, nc = p->layout & 255, fc = p->layout >> 8 & 255;
	uint64_t S = p->component_sectors / p->chunk_sectors;
	uint64_t A = S / fc * n / nc, U = (A * nc * fc + n - 1) / n;
	bool offset = p->layout & 0x10000;
	uint64_t stride = offset ? 1 : U / fc;

	o.unit_sectors = p->chunk_sectors;
	o.copies = (uint32_t)(nc * fc);
	for (uint64_t c = 0; c < A; c++) {
		uint64_t t = c * nc, row = t / n, dev = t % n;
		uint32_t copy = 0;

		if (offset) {
			row *= fc;
		}
		for (uint64_t i = 0; i < nc; i++) {
			uint64_t r = row;
			uint32_t d = (uint32_t)dev;

			put((uint32_t)c, copy++, d, r);
			for (uint64_t f = 1; f < fc; f++) {
				d = oracle_far_step(p, d);
				r += stride;
				put((uint32_t)c, copy++, d, r);
			}
			if (++dev == n) {
				dev = 0;
				row++;
			}
		}
	}
	o.units = (uint32_t)A;
}

static void oracle_fill(const struct geo_params *p)
{
	o.units = 0;
	o.sound = true;
	memset(o.owner, 0, sizeof o.owner);
	switch (p->level) {
	case RAID_LEVEL_LINEAR:
		oracle_linear(p);
		break;
	case RAID_LEVEL_0:
		oracle_raid0(p);
		break;
	case RAID_LEVEL_1:
		oracle_raid1(p);
		break;
	default:
		oracle_raid10(p);
		break;
	}
	o.sectors = o.units * o.unit_sectors;
	if (p->level == RAID_LEVEL_0) {
		/* What a real md exports, also for chunks that are no power of two. */
		o.sectors = 0;
		for (uint32_t k = 0; k < p->slots; k++) {
			uint64_t held = p->slot[k].data_sectors;

			held -= held % p->chunk_sectors;
			o.sectors += held & ~(uint64_t)(p->chunk_sectors - 1);
		}
	}
}

/* ---- drawing geometries -------------------------------------------------------------------- */

static void draw_members(struct geo_params *p, uint64_t component)
{
	for (uint32_t k = 0; k < p->slots; k++) {
		p->slot[k].data_offset_sectors = draw(3) ? 2048 : draw(100000);
		p->slot[k].data_sectors = component + draw(3) * draw(50);
	}
}

static struct geo_params draw_raid0(void)
{
	struct geo_params p = {
		.level = RAID_LEVEL_0,
		.layout = 1 + draw(2),
		.chunk_sectors = draw(2) ? 8u << draw(4) : 8 + draw(40),
		.slots = 1 + draw(draw(4) ? 6 : RAID_SLOTS_MAX),
	};
	uint32_t sizes = 1 + draw(4), size[4];

	for (uint32_t i = 0; i < 4; i++) {
		size[i] = 1 + draw(40);
	}
	draw_members(&p, 0);
	for (uint32_t k = 0; k < p.slots; k++) {
		p.slot[k].data_sectors =
			size[draw(sizes)] * (uint64_t)p.chunk_sectors + draw(p.chunk_sectors);
	}
	return p;
}

static struct geo_params draw_linear(void)
{
	struct geo_params p = {
		.level = RAID_LEVEL_LINEAR,
		.chunk_sectors = draw(2) ? 0 : 1 + draw(20),
		.slots = 1 + draw(8),
	};

	draw_members(&p, 0);
	for (uint32_t k = 0; k < p.slots; k++) {
		p.slot[k].data_sectors = 20 + draw(200);
	}
	return p;
}

static struct geo_params draw_raid1(void)
{
	struct geo_params p = {
		.level = RAID_LEVEL_1,
		.slots = 1 + draw(draw(4) ? 4 : RAID_COPIES_MAX),
		.component_sectors = 1 + draw(300),
	};

	draw_members(&p, p.component_sectors);
	return p;
}

static struct geo_params draw_raid10(void)
{
	struct geo_params p = {.level = RAID_LEVEL_10, .chunk_sectors = 8u << draw(4)};
	uint32_t nc, fc;

	do {
		p.slots = 2 + draw(draw(8) ? 9 : RAID_SLOTS_MAX - 1);
		nc = 1 + draw(4);
		fc = 1 + draw(4);
	} while (nc * fc < 2 || nc * fc > p.slots);
	p.layout = nc | fc << 8 | (draw(3) ? 0 : 0x10000);
	p.layout |= draw(3) ? 0 : 0x20000u << draw(2);
	p.component_sectors = (uint64_t)p.chunk_sectors * (fc + draw(40)) + draw(p.chunk_sectors);
	draw_members(&p, p.component_sectors);
	return p;
}

/* ---- checks -------------------------------------------------------------------------------- */

static uint64_t maddr_of(const struct geometry *g, struct place at, uint64_t inside)
{
	return (g->p.slot[at.slot].data_offset_sectors + at.row * o.unit_sectors) * SECTOR + inside;
}

static void check_byte(const struct geometry *g, const struct geo_piece *piece, uint64_t addr)
{
	uint64_t unit = addr / (o.unit_sectors * SECTOR);
	uint64_t inside = addr % (o.unit_sectors * SECTOR);

	assert_int_equal(piece->copies, o.copies);
	for (uint32_t i = 0; i < o.copies; i++) {
		struct place at = o.at[unit][i];

		assert_int_equal(piece->copy[i].slot, at.slot);
		assert_int_equal(piece->copy[i].maddr + (addr - piece->addr),
				 maddr_of(g, at, inside));
	}
}

/* Random requests, cut into pieces as the engine does: every piece is right at both ends, ends no
 * earlier than it must, and the pieces tile the request. */
static void check_requests(const struct geometry *g)
{
	uint64_t bytes = g->array_sectors * SECTOR;

	for (uint32_t i = 0; i < 8; i++) {
		uint64_t addr = ((uint64_t)draw(UINT32_MAX) << 16 | draw(65536)) % bytes;
		uint64_t left = 1 + draw(UINT32_MAX) % (bytes - addr);

		while (left) {
			struct geo_piece piece;
			uint64_t end;

			geo_map(g, addr, left, &piece);
			assert_int_equal(piece.addr, addr);
			assert_true(piece.len >= 1 && piece.len <= left);
			check_byte(g, &piece, addr);
			check_byte(g, &piece, addr + piece.len - 1);
			end = addr + piece.len;
			if (g->chunk_bytes && piece.len < left) {
				assert_int_equal(end % g->chunk_bytes, 0);
			}
			if (g->chunk_bytes) {
				assert_true(piece.len <= g->chunk_bytes - addr % g->chunk_bytes);
			}
			addr = end;
			left -= piece.len;
		}
	}
}

/* Every place of every member: unmap says what the oracle put there, and used_sectors ends it. */
static void check_places(const struct geometry *g)
{
	for (uint32_t slot = 0; slot < g->p.slots; slot++) {
		uint64_t used = 0;

		for (uint64_t row = 0; row < ROWS_MAX; row++) {
			uint64_t inside = draw((uint32_t)(o.unit_sectors * SECTOR)), addr, first;
			uint64_t maddr = maddr_of(g, (struct place){slot, row}, inside);
			uint32_t unit = o.owner[slot][row] - 1, copy;
			bool is = geo_unmap(g, slot, maddr, &addr, &copy);

			first = unit * o.unit_sectors;
			if (!o.owner[slot][row] || first * SECTOR + inside >= o.sectors * SECTOR) {
				assert_false(is);
			} else {
				assert_true(is);
				assert_int_equal(addr, first * SECTOR + inside);
				assert_true(copy < o.copies);
				assert_int_equal(o.at[unit][copy].slot, slot);
				assert_int_equal(o.at[unit][copy].row, row);
			}
			if (o.owner[slot][row] && first < o.sectors) {
				uint64_t left = o.sectors - first;

				used = row * o.unit_sectors +
				       (left < o.unit_sectors ? left : o.unit_sectors);
			}
		}
		assert_int_equal(geo_used_sectors(g, slot), used);
		assert_true(used <= g->p.slot[slot].data_sectors);
	}
}

/* Does what a slot holds count at all? md starts linear and RAID 0 with all members only. */
static bool needs_all(const struct geometry *g)
{
	return g->p.level == RAID_LEVEL_LINEAR || g->p.level == RAID_LEVEL_0;
}

static bool oracle_enough(const bool present[RAID_SLOTS_MAX])
{
	for (uint32_t unit = 0; unit < o.units; unit++) {
		bool any = false;

		for (uint32_t i = 0; i < o.copies; i++) {
			any |= present[o.at[unit][i].slot];
		}
		if (!any) {
			return false;
		}
	}
	return true;
}

static bool oracle_is_last(const bool present[RAID_SLOTS_MAX], uint32_t slot)
{
	for (uint32_t unit = 0; unit < o.units; unit++) {
		uint32_t others = 0;
		bool here = false;

		for (uint32_t i = 0; i < o.copies; i++) {
			uint32_t s = o.at[unit][i].slot;

			here |= s == slot;
			others += s != slot && present[s];
		}
		if (here && present[slot] && !others) {
			return true;
		}
	}
	return false;
}

static void check_losses(const struct geometry *g)
{
	uint32_t sets = g->p.slots <= 5 ? 1u << g->p.slots : 24;

	for (uint32_t set = 0; set < sets; set++) {
		bool present[RAID_SLOTS_MAX] = {false};
		uint32_t slot = draw(g->p.slots);

		for (uint32_t k = 0; k < g->p.slots; k++) {
			present[k] = g->p.slots <= 5 ? set >> k & 1 : draw(4) > 0;
		}
		if (needs_all(g)) {
			bool all = true;

			for (uint32_t k = 0; k < g->p.slots; k++) {
				all &= present[k];
			}
			assert_int_equal(geo_enough(g, present), all);
			assert_int_equal(geo_slot_is_last(g, present, slot), present[slot]);
			continue;
		}
		assert_int_equal(geo_enough(g, present), oracle_enough(present));
		assert_int_equal(geo_slot_is_last(g, present, slot), oracle_is_last(present, slot));
	}
}

static void run(struct geo_params (*draw_params)(void))
{
	for (uint32_t i = 0; i < GEOMETRIES; i++) {
		uint64_t start = seed;
		struct geo_params p = draw_params();
		struct geometry g;
		char why[RAID_WHY_BYTES] = "";
		int err;

		oracle_fill(&p);
		err = geo_init(&g, &p, why);
		if (err) {
			/* Only layouts that mix blocks, in a large array at least. */
			p.component_sectors = (uint64_t)p.chunk_sectors * 60;
			oracle_fill(&p);
			if (p.level != RAID_LEVEL_10 ? o.sectors : o.sound) {
				fail_msg("seed %llu: refused: %s", (unsigned long long)start, why);
			}
			continue;
		}
		assert_true(o.sound);
		assert_int_equal(g.array_sectors, o.sectors);
		check_requests(&g);
		check_places(&g);
		check_losses(&g);
	}
}

static void test_linear(void **state)
{
	seed = 1;
	run(draw_linear);
}

static void test_raid0(void **state)
{
	seed = 2;
	run(draw_raid0);
}

static void test_raid1(void **state)
{
	seed = 3;
	run(draw_raid1);
}

static void test_raid10(void **state)
{
	seed = 4;
	run(draw_raid10);
}

/* RAID 10: what the bits can say is taken exactly if it keeps all copies apart in a large array. */
static void test_raid10_layouts_that_mix_blocks(void **state)
{
	uint32_t taken = 0, refused = 0;

	for (uint32_t slots = 2; slots <= 9; slots++) {
		for (uint32_t nf = 0; nf < 16; nf++) {
			uint32_t nc = 1 + nf % 4, fc = 1 + nf / 4;

			if (nc * fc < 2 || nc * fc > slots) {
				continue;
			}
			for (uint32_t bits = 0; bits < 6; bits++) {
				struct geo_params p = {
					.level = RAID_LEVEL_10,
					.layout = nc | fc << 8 | bits << 16,
					.chunk_sectors = 8,
					.slots = slots,
					.component_sectors = 8 * 40,
				};
				struct geometry g;
				char why[RAID_WHY_BYTES];

				oracle_fill(&p);
				assert_int_equal(geo_init(&g, &p, why) == 0, o.sound);
				taken += o.sound;
				refused += !o.sound;
			}
		}
	}
	assert_true(taken > 100 && refused > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear),
		cmocka_unit_test(test_raid0),
		cmocka_unit_test(test_raid1),
		cmocka_unit_test(test_raid10),
		cmocka_unit_test(test_raid10_layouts_that_mix_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
