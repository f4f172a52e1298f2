/* SPDX-License-Identifier: BSD-3-Clause */
/* Geometry of linear and RAID 0, 1, 10 against the worked tables of md-format §9, sizes that a real
 * md gave, refusals, names. Random geometries are in test_geometry_random.c, parity levels in
 * test_geometry_parity.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/geometry.h"

#define SECTOR ((uint64_t)RAID_SECTOR_BYTES)

enum { CHUNK = 128, OFFSET = 2048 };

/* Members whose data begins at different places, so that a mixed-up slot shows. */
static uint64_t offset_of(uint32_t slot)
{
	return OFFSET + 8 * slot;
}

static uint64_t place(uint32_t slot, uint64_t row)
{
	return (offset_of(slot) + row * CHUNK) * SECTOR;
}

static struct geo_params params_of(enum raid_level level, uint32_t layout, uint32_t slots,
				   uint64_t component)
{
	struct geo_params p = {
		.level = level,
		.layout = layout,
		.chunk_sectors = level == RAID_LEVEL_1 || level == RAID_LEVEL_LINEAR ? 0 : CHUNK,
		.slots = slots,
		.component_sectors = component,
	};

	for (uint32_t k = 0; k < slots && k < RAID_SLOTS_MAX; k++) {
		p.slot[k].data_offset_sectors = offset_of(k);
		p.slot[k].data_sectors = component;
	}
	return p;
}

static void init_ok(struct geometry *g, const struct geo_params *p)
{
	char why[RAID_WHY_BYTES] = "";

	if (geo_init(g, p, why)) {
		fail_msg("refused: %s", why);
	}
}

/* ---- tables ---------------------------------------------------------------------------------
 * Rows are parted by '/', numbers are chunks, '.' is a place that holds none. */

struct table {
	const char *name;
	enum raid_level level;
	uint32_t layout, slots, chunks;
	uint64_t component; /* in rows; RAID 0 takes the rows of each slot from the table */
	const char *cells;
};

enum { ROWS_MAX = 8, NO_CHUNK = -1 };

static uint32_t read_cells(const struct table *t, int cell[ROWS_MAX][RAID_SLOTS_MAX])
{
	const char *at = t->cells;
	uint32_t row = 0, slot = 0;

	while (*at) {
		char *end;

		if (*at == '/') {
			assert_int_equal(slot, t->slots);
			row++;
			slot = 0;
			at++;
		} else if (*at == ' ') {
			at++;
		} else if (*at == '.') {
			cell[row][slot++] = NO_CHUNK;
			at++;
		} else {
			cell[row][slot++] = (int)strtol(at, &end, 10);
			assert_true(end > at);
			at = end;
		}
	}
	assert_int_equal(slot, t->slots);
	return row + 1;
}

static void check_table(const struct table *t)
{
	int cell[ROWS_MAX][RAID_SLOTS_MAX];
	uint32_t rows = read_cells(t, cell), seen = 0;
	struct geo_params p = params_of(t->level, t->layout, t->slots, t->component * CHUNK);
	struct geometry g;

	if (t->level == RAID_LEVEL_0) {
		for (uint32_t k = 0; k < t->slots; k++) {
			uint32_t length = 0;

			for (uint32_t r = 0; r < rows; r++) {
				length += cell[r][k] != NO_CHUNK;
			}
			p.slot[k].data_sectors = length * CHUNK + 7; /* less than a chunk more */
		}
	}
	print_message("           %s\n", t->name);
	init_ok(&g, &p);
	assert_int_equal(g.array_sectors, t->chunks * CHUNK);

	for (uint32_t slot = 0; slot < t->slots; slot++) {
		uint64_t used = 0;

		/* A row more than the table has, and more than the member. */
		for (uint32_t r = 0; r <= rows; r++) {
			int want = r < rows ? cell[r][slot] : NO_CHUNK;
			uint64_t addr = 0;
			uint32_t copy = 0;
			struct geo_piece piece;
			bool is = geo_unmap(&g, slot, place(slot, r) + 1000, &addr, &copy);

			assert_int_equal(is, want != NO_CHUNK);
			if (!is) {
				continue;
			}
			seen++;
			used = (r + 1) * CHUNK;
			assert_int_equal(addr, (uint64_t)want * CHUNK * SECTOR + 1000);
			geo_map(&g, addr, g.array_sectors * SECTOR - addr, &piece);
			assert_int_equal(piece.addr, addr);
			assert_int_equal(piece.len, CHUNK * SECTOR - 1000);
			assert_int_equal(piece.copies, g.copies);
			assert_int_equal(piece.copy[copy].slot, slot);
			assert_int_equal(piece.copy[copy].maddr, place(slot, r) + 1000);
		}
		assert_int_equal(geo_used_sectors(&g, slot), used);
	}
	assert_int_equal(seen, t->chunks * g.copies);
}

static const struct table raid0_tables[] = {
	{"three equal members", RAID_LEVEL_0, GEO_RAID0_UNKNOWN, 3, 6, 0, "0 1 2 / 3 4 5"},
	{"layout 1", RAID_LEVEL_0, GEO_RAID0_ORIGINAL, 4, 13, 0,
	 "0 1 2 3 / 4 5 6 7 / . 9 10 8 / . 12 . 11"},
	{"layout 2", RAID_LEVEL_0, GEO_RAID0_ALTERNATE, 4, 13, 0,
	 "0 1 2 3 / 4 5 6 7 / . 8 9 10 / . 11 . 12"},
	{"second zone of one, layout not recorded", RAID_LEVEL_0, GEO_RAID0_UNKNOWN, 3, 8, 0,
	 "0 1 2 / 3 4 5 / . 6 . / . 7 ."},
	{"second zone of one, layout 1", RAID_LEVEL_0, GEO_RAID0_ORIGINAL, 3, 8, 0,
	 "0 1 2 / 3 4 5 / . 6 . / . 7 ."},
};

static const struct table raid10_tables[] = {
	{"n2, 4 disks", RAID_LEVEL_10, 0x102, 4, 12, 6,
	 "0 0 1 1 / 2 2 3 3 / 4 4 5 5 / 6 6 7 7 / 8 8 9 9 / 10 10 11 11"},
	{"n2, 5 disks", RAID_LEVEL_10, 0x102, 5, 15, 6,
	 "0 0 1 1 2 / 2 3 3 4 4 / 5 5 6 6 7 / 7 8 8 9 9 / 10 10 11 11 12 / 12 13 13 14 14"},
	{"f2, 4 disks", RAID_LEVEL_10, 0x201, 4, 12, 6,
	 "0 1 2 3 / 4 5 6 7 / 8 9 10 11 / 3 0 1 2 / 7 4 5 6 / 11 8 9 10"},
	{"f2, 5 disks", RAID_LEVEL_10, 0x201, 5, 15, 6,
	 "0 1 2 3 4 / 5 6 7 8 9 / 10 11 12 13 14 / 4 0 1 2 3 / 9 5 6 7 8 / 14 10 11 12 13"},
	{"o2, 4 disks", RAID_LEVEL_10, 0x10201, 4, 12, 6,
	 "0 1 2 3 / 3 0 1 2 / 4 5 6 7 / 7 4 5 6 / 8 9 10 11 / 11 8 9 10"},
	{"o2, 5 disks", RAID_LEVEL_10, 0x10201, 5, 15, 6,
	 "0 1 2 3 4 / 4 0 1 2 3 / 5 6 7 8 9 / 9 5 6 7 8 / 10 11 12 13 14 / 14 10 11 12 13"},
	{"f2 with far sets 0x40201, 4 disks", RAID_LEVEL_10, 0x40201, 4, 12, 6,
	 "0 1 2 3 / 4 5 6 7 / 8 9 10 11 / 1 0 3 2 / 5 4 7 6 / 9 8 11 10"},
	{"f2 with far sets 0x40201, 5 disks", RAID_LEVEL_10, 0x40201, 5, 15, 6,
	 "0 1 2 3 4 / 5 6 7 8 9 / 10 11 12 13 14 / 1 0 4 2 3 / 6 5 9 7 8 / 11 10 14 12 13"},
	{"n3, 4 disks", RAID_LEVEL_10, 0x103, 4, 5, 4, "0 0 0 1 / 1 1 2 2 / 2 3 3 3 / 4 4 4 ."},
	{"n2f2, 4 disks", RAID_LEVEL_10, 0x202, 4, 4, 4, "0 0 1 1 / 2 2 3 3 / 1 1 0 0 / 3 3 2 2"},
	/* The stride comes from the rows that are used, not from those that are there. */
	{"f2, 4 disks, 5 rows", RAID_LEVEL_10, 0x201, 4, 8, 5,
	 "0 1 2 3 / 4 5 6 7 / 3 0 1 2 / 7 4 5 6 / . . . ."},
	{"o2, 4 disks, 5 rows", RAID_LEVEL_10, 0x10201, 4, 8, 5,
	 "0 1 2 3 / 3 0 1 2 / 4 5 6 7 / 7 4 5 6 / . . . ."},
};

static void test_raid0_tables(void **state)
{
	for (size_t i = 0; i < sizeof raid0_tables / sizeof *raid0_tables; i++) {
		check_table(&raid0_tables[i]);
	}
}

static void test_raid10_tables(void **state)
{
	for (size_t i = 0; i < sizeof raid10_tables / sizeof *raid10_tables; i++) {
		check_table(&raid10_tables[i]);
	}
}

static void test_linear_example(void **state)
{
	struct geo_params p = params_of(RAID_LEVEL_LINEAR, 0, 3, 0);
	struct geometry g;
	struct geo_piece piece;
	uint64_t addr;
	uint32_t copy;

	p.slot[0].data_sectors = 1000;
	p.slot[1].data_sectors = 500;
	p.slot[2].data_sectors = 2000;
	init_ok(&g, &p);
	assert_int_equal(g.array_sectors, 3500);
	geo_map(&g, 1200 * SECTOR, 2000 * SECTOR, &piece);
	assert_int_equal(piece.copy[0].slot, 1);
	assert_int_equal(piece.copy[0].maddr, (offset_of(1) + 200) * SECTOR);
	assert_int_equal(piece.len, 300 * SECTOR);
	assert_true(geo_unmap(&g, 2, offset_of(2) * SECTOR + 5, &addr, &copy));
	assert_int_equal(addr, 1500 * SECTOR + 5);
	assert_false(geo_unmap(&g, 1, (offset_of(1) + 500) * SECTOR, &addr, &copy));
	assert_false(geo_unmap(&g, 1, offset_of(1) * SECTOR - 1, &addr, &copy));

	p.chunk_sectors = 128; /* rounding: 896, 384, 1920 */
	init_ok(&g, &p);
	assert_int_equal(g.array_sectors, 3200);
	assert_int_equal(geo_used_sectors(&g, 1), 384);
	geo_map(&g, 895 * SECTOR, 4 * SECTOR, &piece);
	assert_int_equal(piece.len, SECTOR);
	geo_map(&g, 896 * SECTOR, 4 * SECTOR, &piece);
	assert_int_equal(piece.copy[0].slot, 1);
	assert_int_equal(piece.copy[0].maddr, offset_of(1) * SECTOR);
}

static void test_raid1(void **state)
{
	struct geo_params p = params_of(RAID_LEVEL_1, 0, 3, 12345);
	struct geometry g;
	struct geo_piece piece;
	uint64_t addr;
	uint32_t copy;

	init_ok(&g, &p);
	assert_int_equal(g.array_sectors, 12345);
	assert_int_equal(g.copies, 3);
	geo_map(&g, 77, 12345 * SECTOR - 77, &piece);
	assert_int_equal(piece.len, 12345 * SECTOR - 77);
	assert_int_equal(piece.copies, 3);
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(piece.copy[k].slot, k);
		assert_int_equal(piece.copy[k].maddr, offset_of(k) * SECTOR + 77);
		assert_true(geo_unmap(&g, k, piece.copy[k].maddr, &addr, &copy));
		assert_int_equal(addr, 77);
		assert_int_equal(copy, k);
	}
	assert_false(geo_unmap(&g, 0, (offset_of(0) + 12345) * SECTOR, &addr, &copy));

	p.slots = 1; /* as mdadm --force makes one */
	init_ok(&g, &p);
	assert_int_equal(g.copies, 1);
}

/* ---- sizes ----------------------------------------------------------------------------------
 * Arrays of a real md (Linux 6.1, mdadm 4.2): component and array size in sectors. */

static const struct {
	uint32_t layout, chunk_bytes, slots;
	uint64_t component, array;
} md_sizes[] = {
	{0x201, 65536, 2, 7936, 7936},	    {0x201, 65536, 3, 8192, 12288},
	{0x201, 65536, 3, 7936, 11904},	    {0x201, 524288, 4, 10240, 20480},
	{0x201, 4096, 5, 7952, 19880},	    {0x301, 65536, 4, 7680, 10240},
	{0x102, 65536, 2, 7936, 7936},	    {0x102, 4096, 3, 9968, 14952},
	{0x102, 524288, 4, 10240, 20480},   {0x102, 65536, 4, 8192, 16384},
	{0x102, 65536, 4, 4096, 8192},	    {0x102, 65536, 4, 6144, 12288},
	{0x102, 65536, 4, 8576, 17152},	    {0x102, 65536, 5, 7936, 19840},
	{0x103, 65536, 3, 7936, 7936},	    {0x103, 4096, 4, 7952, 10600},
	{0x103, 65536, 5, 7936, 13184},	    {0x10201, 4096, 2, 7952, 7952},
	{0x10201, 65536, 3, 7936, 11904},   {0x10201, 65536, 4, 7936, 15872},
	{0x10201, 524288, 5, 10240, 25600}, {0x10201, 65536, 5, 8192, 20480},
	{0x10301, 65536, 5, 7680, 12800},
};

static void test_sizes_of_a_real_md(void **state)
{
	for (size_t i = 0; i < sizeof md_sizes / sizeof *md_sizes; i++) {
		struct geo_params p = params_of(RAID_LEVEL_10, md_sizes[i].layout,
						md_sizes[i].slots, md_sizes[i].component);
		struct geometry g;

		p.chunk_sectors = md_sizes[i].chunk_bytes / RAID_SECTOR_BYTES;
		init_ok(&g, &p);
		assert_int_equal(g.array_sectors, md_sizes[i].array);
	}
}

/* ---- how many may be lost ------------------------------------------------------------------ */

static bool enough_without(const struct geometry *g, uint32_t a, uint32_t b)
{
	bool present[RAID_SLOTS_MAX] = {false};

	for (uint32_t k = 0; k < g->p.slots; k++) {
		present[k] = k != a && k != b;
	}
	return geo_enough(g, present);
}

static void test_pairs_that_may_be_lost(void **state)
{
	struct geo_params p = params_of(RAID_LEVEL_10, 0x102, 4, 6 * CHUNK);
	bool present[RAID_SLOTS_MAX] = {true, false, true, true};
	struct geometry g;

	/* n2, 4 disks: pairs are 0-1 and 2-3. */
	init_ok(&g, &p);
	assert_false(enough_without(&g, 0, 1));
	assert_false(enough_without(&g, 2, 3));
	assert_true(enough_without(&g, 0, 2));
	assert_true(enough_without(&g, 1, 2));
	assert_true(geo_slot_is_last(&g, present, 0));
	assert_false(geo_slot_is_last(&g, present, 1));
	assert_false(geo_slot_is_last(&g, present, 2));

	/* n2, 5 disks: neighbours overlap all round. */
	p = params_of(RAID_LEVEL_10, 0x102, 5, 6 * CHUNK);
	init_ok(&g, &p);
	for (uint32_t k = 0; k < 5; k++) {
		assert_false(enough_without(&g, k, (k + 1) % 5));
		assert_true(enough_without(&g, k, (k + 2) % 5));
	}

	/* The same with room for one chunk only: slots 2 to 4 hold nothing. */
	p = params_of(RAID_LEVEL_10, 0x104, 5, CHUNK);
	init_ok(&g, &p);
	assert_int_equal(g.array_sectors, CHUNK);
	present[0] = present[1] = present[3] = false;
	present[2] = present[4] = true;
	assert_true(geo_enough(&g, present));
	assert_true(geo_slot_is_last(&g, present, 2));
	assert_false(geo_slot_is_last(&g, present, 4));
	assert_int_equal(geo_used_sectors(&g, 4), 0);

	/* linear and RAID 0 need all. */
	p = params_of(RAID_LEVEL_0, 0, 3, 6 * CHUNK);
	init_ok(&g, &p);
	assert_true(enough_without(&g, 9, 9));
	assert_false(enough_without(&g, 1, 9));
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void refused(int err, const struct geo_params *p, const char *word)
{
	char why[RAID_WHY_BYTES] = "";
	struct geometry g;

	assert_int_equal(geo_init(&g, p, why), err);
	if (!strstr(why, word)) {
		fail_msg("'%s' does not speak of '%s'", why, word);
	}
}

static void test_impossible_values(void **state)
{
	struct geo_params p = params_of(RAID_LEVEL_1, 0, 2, 1000);

	p.slots = 0;
	refused(-EINVAL, &p, "slots");
	p.slots = 65;
	refused(-ENOTSUP, &p, "65 slots");
	p.slots = UINT32_MAX;
	refused(-ENOTSUP, &p, "slots");
	p.slots = 33;
	refused(-ENOTSUP, &p, "33 mirrors");
	p.slots = 2;
	p.component_sectors = 0;
	refused(-EINVAL, &p, "component size");
	p.component_sectors = UINT64_MAX;
	refused(-EINVAL, &p, "component size");
	p.component_sectors = 1001;
	refused(-EINVAL, &p, "slot 0: data area of 1000 sectors");
	p.component_sectors = 1000;
	p.slot[1].data_offset_sectors = UINT64_MAX - 10;
	refused(-EINVAL, &p, "slot 1");
	p.slot[1].data_offset_sectors = 0;
	p.slot[1].data_sectors = UINT64_MAX;
	refused(-EINVAL, &p, "slot 1");

	p = params_of(RAID_LEVEL_LINEAR, 0, 2, 1000);
	p.slot[1].data_sectors = 0;
	refused(-EINVAL, &p, "slot 1");
	p.slot[1].data_sectors = 1000;
	p.chunk_sectors = 1001;
	refused(-EINVAL, &p, "rounding unit 1001");
}

static void test_impossible_raid0(void **state)
{
	struct geo_params p = params_of(RAID_LEVEL_0, 0, 3, 4 * CHUNK);

	p.chunk_sectors = 0;
	refused(-EINVAL, &p, "chunk");
	p.chunk_sectors = 7;
	refused(-EINVAL, &p, "4 KiB");
	p.chunk_sectors = UINT32_MAX;
	refused(-EINVAL, &p, "less than one chunk");
	p.chunk_sectors = CHUNK;
	p.slot[2].data_sectors = CHUNK - 1;
	refused(-EINVAL, &p, "slot 2");
	p.slot[2].data_sectors = CHUNK; /* zones: row 0 on three, rows 1..3 on two */
	refused(-EUCLEAN, &p, "not recorded");
	p.layout = 3;
	refused(-EUCLEAN, &p, "unknown");
	for (uint32_t k = 0; k < 3; k++) {
		p.slot[k].data_sectors = (uint64_t)1 << 53;
	}
	p.layout = 0;
	refused(-EINVAL, &p, "array size");
}

static void test_impossible_raid10(void **state)
{
	static const struct {
		uint32_t layout, slots;
		int err;
		const char *word;
	} cases[] = {
		{0x000, 4, -EINVAL, "copies"},	     {0x100, 4, -EINVAL, "copies"},
		{0x002, 4, -EINVAL, "copies"},	     {0x101, 4, -EINVAL, "1 copies"},
		{0x105, 4, -EINVAL, "5 copies"},     {0x302, 5, -EINVAL, "6 copies"},
		{0xffff, 64, -EINVAL, "copies"},     {0x121, 64, -ENOTSUP, "33 copies"},
		{0x60201, 4, -EINVAL, "unknown"},    {0x80201, 4, -EINVAL, "unknown"},
		{0xfff00201, 4, -EINVAL, "unknown"}, {0x20301, 4, -EINVAL, "one place"},
		{0x10202, 5, -EINVAL, "one place"},
	};
	struct geo_params p;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		p = params_of(RAID_LEVEL_10, cases[i].layout, cases[i].slots, 64 * CHUNK);
		refused(cases[i].err, &p, cases[i].word);
	}
	p = params_of(RAID_LEVEL_10, 0x201, 4, 2 * CHUNK - 1);
	refused(-EINVAL, &p, "too small");
	p = params_of(RAID_LEVEL_10, 0x102, 4, 64 * CHUNK);
	p.chunk_sectors = 96;
	refused(-EINVAL, &p, "power of two");
	p.chunk_sectors = 4;
	refused(-EINVAL, &p, "4 KiB");
	p.chunk_sectors = (uint32_t)1 << 31;
	refused(-EINVAL, &p, "too small");
}

static void test_unknown_levels(void **state)
{
	struct geo_params p = params_of((enum raid_level) - 4, 2, 4, 64 * CHUNK);

	refused(-ENOTSUP, &p, "level -4");
	p.level = (enum raid_level)INT32_MAX;
	refused(-ENOTSUP, &p, "level");
}

/* ---- names --------------------------------------------------------------------------------- */

static void test_level_names(void **state)
{
	static const struct {
		const char *text;
		int level;
	} cases[] = {
		{"linear", -1}, {"raid0", 0},  {"0", 0},     {"stripe", 0},  {"raid1", 1},
		{"1", 1},	{"mirror", 1}, {"raid4", 4}, {"4", 4},	     {"raid5", 5},
		{"5", 5},	{"raid6", 6},  {"6", 6},     {"raid10", 10}, {"10", 10},
	};
	enum raid_level level;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(geo_level_parse(cases[i].text, &level), 0);
		assert_int_equal(level, cases[i].level);
		assert_int_equal(geo_level_parse(geo_level_name(level), &level), 0);
		assert_int_equal(level, cases[i].level);
	}
	assert_int_equal(geo_level_parse("raid", &level), -EINVAL);
	assert_int_equal(geo_level_parse("", &level), -EINVAL);
	assert_int_equal(geo_level_parse("3", &level), -EINVAL);
	assert_string_equal(geo_level_name((enum raid_level)7), "unknown");
}

static void test_layout_names(void **state)
{
	static const struct {
		enum raid_level level;
		uint32_t layout;
		const char *name, *also;
	} cases[] = {
		{RAID_LEVEL_0, 0, "unknown", "dangerous"},
		{RAID_LEVEL_0, 1, "original", NULL},
		{RAID_LEVEL_0, 2, "alternate", NULL},
		{RAID_LEVEL_5, 2, "left-symmetric", "ls"},
		{RAID_LEVEL_5, 5, "parity-last", NULL},
		{RAID_LEVEL_6, 2, "left-symmetric", "ls"},
		{RAID_LEVEL_6, 10, "ddf-N-continue", NULL},
		{RAID_LEVEL_6, 20, "parity-first-6", NULL},
		{RAID_LEVEL_10, 0x102, "near=2", "n2"},
		{RAID_LEVEL_10, 0x103, "near=3", "near3"},
		{RAID_LEVEL_10, 0x101, "near=1", "n1"},
		{RAID_LEVEL_10, 0x201, "far=2", "f2"},
		{RAID_LEVEL_10, 0x10201, "offset=2", "o2"},
		{RAID_LEVEL_10, 0x10301, "offset=3", "o3"},
		{RAID_LEVEL_10, 0x202, "near=2, far=2", "n2,f2"},
		{RAID_LEVEL_10, 0x10202, "near=2, offset=2", "o2, n2"},
		{RAID_LEVEL_10, 0x40201, "far=2, sets", "sets,f2"},
		{RAID_LEVEL_10, 0x20201, "far=2, old-sets", "f2,old-sets"},
		{RAID_LEVEL_10, 0x50201, "offset=2, sets", "o2,sets"},
		{RAID_LEVEL_10, 0x3ffff, "near=255, offset=255, old-sets", NULL},
	};
	char buf[GEO_LAYOUT_NAME_BYTES];
	uint32_t layout;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_string_equal(geo_layout_name(cases[i].level, cases[i].layout, buf),
				    cases[i].name);
		assert_int_equal(geo_layout_parse(cases[i].level, buf, &layout), 0);
		assert_int_equal(layout, cases[i].layout);
		if (cases[i].also) {
			assert_int_equal(geo_layout_parse(cases[i].level, cases[i].also, &layout),
					 0);
			assert_int_equal(layout, cases[i].layout);
		}
	}
	assert_string_equal(geo_layout_name(RAID_LEVEL_1, 0, buf), "");
	assert_string_equal(geo_layout_name(RAID_LEVEL_6, 11, buf), "0xb");
	assert_string_equal(geo_layout_name(RAID_LEVEL_10, 0x80102, buf), "0x80102");
	assert_string_equal(geo_layout_name(RAID_LEVEL_10, 2, buf), "0x2");
}

static void test_layout_names_refused(void **state)
{
	static const struct {
		enum raid_level level;
		const char *text;
	} bad[] = {
		{RAID_LEVEL_0, "n2"},
		{RAID_LEVEL_0, ""},
		{RAID_LEVEL_1, "n2"},
		{RAID_LEVEL_1, ""},
		{RAID_LEVEL_LINEAR, ""},
		{RAID_LEVEL_4, "ls"},
		{RAID_LEVEL_10, ""},
		{RAID_LEVEL_10, "n"},
		{RAID_LEVEL_10, "n0"},
		{RAID_LEVEL_10, "n256"},
		{RAID_LEVEL_10, "n-2"},
		{RAID_LEVEL_10, "n2x"},
		{RAID_LEVEL_10, "n2,"},
		{RAID_LEVEL_10, "n2,n2"},
		{RAID_LEVEL_10, "f2,o2"},
		{RAID_LEVEL_10, "sets"},
		{RAID_LEVEL_10, "near="},
		{RAID_LEVEL_10, "far=2;"},
		{RAID_LEVEL_10, "f2,sets,old-sets"},
		{RAID_LEVEL_10, "n99999999999999999999"},
		{RAID_LEVEL_5, "ddf-N-restart"},
	};
	uint32_t layout;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(geo_layout_parse(bad[i].level, bad[i].text, &layout), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear_example),
		cmocka_unit_test(test_raid0_tables),
		cmocka_unit_test(test_raid1),
		cmocka_unit_test(test_raid10_tables),
		cmocka_unit_test(test_sizes_of_a_real_md),
		cmocka_unit_test(test_pairs_that_may_be_lost),
		cmocka_unit_test(test_impossible_values),
		cmocka_unit_test(test_impossible_raid0),
		cmocka_unit_test(test_impossible_raid10),
		cmocka_unit_test(test_unknown_levels),
		cmocka_unit_test(test_level_names),
		cmocka_unit_test(test_layout_names),
		cmocka_unit_test(test_layout_names_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
