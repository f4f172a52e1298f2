/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 4, 5, 6: the worked tables of md-format §9.4–9.6 with their Q orders, all layouts and widths
 * against the formulas of that text, sizes that a real md gave, losses, refusals.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/geometry.h"

#define SECTOR ((uint64_t)RAID_SECTOR_BYTES)

enum { CHUNK = 128, CHUNK_BYTES = CHUNK * RAID_SECTOR_BYTES };

/* Members whose data begins at different places, so that a mixed-up slot shows. */
static uint64_t offset_of(uint32_t slot)
{
	return 2048 + 8 * slot;
}

static uint64_t place(uint32_t slot, uint64_t row)
{
	return offset_of(slot) * SECTOR + row * CHUNK_BYTES;
}

static struct geo_params params_of(enum raid_level level, uint32_t layout, uint32_t slots,
				   uint64_t component)
{
	struct geo_params p = {
		.level = level,
		.layout = layout,
		.chunk_sectors = CHUNK,
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

/* ---- what a row must be -------------------------------------------------------------------- */

enum { IS_P = -1, IS_Q = -2, NONE = -3 };

struct want {
	int cell[RAID_SLOTS_MAX];  /* data block of the row, IS_P, IS_Q */
	int order[RAID_SLOTS_MAX]; /* data block by exponent, NONE if there is none */
	uint32_t orders;
};

static void check_cell(const struct geometry *g, uint64_t row, uint32_t slot, const struct want *w,
		       const struct geo_row *got)
{
	uint64_t maddr = place(slot, row) + 1000, addr, inside, at_row;
	uint32_t data = UINT32_MAX, copy = 7;
	enum geo_role role = geo_row_role(g, row, slot, &data);
	bool mapped = geo_unmap(g, slot, maddr, &addr, &copy);
	struct geo_piece piece;

	assert_int_equal(geo_row_maddr(g, row, slot), place(slot, row));
	assert_true(geo_row_of_maddr(g, slot, maddr, &at_row, &inside));
	assert_int_equal(at_row, row);
	assert_int_equal(inside, 1000);
	assert_int_equal(mapped, w->cell[slot] >= 0);
	if (w->cell[slot] < 0) {
		assert_int_equal(role, w->cell[slot] == IS_P ? GEO_ROLE_P : GEO_ROLE_Q);
		assert_int_equal(w->cell[slot] == IS_P ? got->p : got->q, slot);
		return;
	}
	assert_int_equal(role, GEO_ROLE_DATA);
	assert_int_equal(data, w->cell[slot]);
	assert_int_equal(got->slot[data], slot);
	assert_int_equal(addr, (row * g->row_data + data) * CHUNK_BYTES + 1000);
	assert_int_equal(copy, 0);
	assert_int_equal(geo_row_of(g, addr, &inside), row);
	assert_int_equal(inside, data * CHUNK_BYTES + 1000);
	geo_map(g, addr, g->array_sectors * SECTOR - addr, &piece);
	assert_int_equal(piece.addr, addr);
	assert_int_equal(piece.len, CHUNK_BYTES - 1000);
	assert_int_equal(piece.copies, 1);
	assert_int_equal(piece.copy[0].slot, slot);
	assert_int_equal(piece.copy[0].maddr, maddr);
}

static void check_row(const struct geometry *g, uint64_t row, const struct want *w)
{
	struct geo_row got;
	uint32_t blocks = 0;

	geo_row_map(g, row, &got);
	assert_int_equal(got.data, g->p.slots - g->parity);
	for (uint32_t k = 0; k < g->p.slots; k++) {
		check_cell(g, row, k, w, &got);
	}
	if (g->parity == 1) {
		assert_int_equal(got.q, GEO_NO_SLOT);
	}
	assert_int_equal(got.exps, w->orders);
	for (uint32_t e = 0; e < w->orders; e++) {
		if (w->order[e] != NONE) {
			assert_int_equal(got.exp[w->order[e]], e);
			blocks++;
		}
	}
	assert_int_equal(blocks, got.data);
}

static void check_ends(const struct geometry *g, uint64_t rows)
{
	uint64_t addr, row, inside;
	uint32_t copy;

	assert_int_equal(g->rows, rows);
	assert_int_equal(g->copies, 1);
	assert_int_equal(g->row_bytes, (uint64_t)g->row_data * CHUNK_BYTES);
	assert_int_equal(g->array_sectors, rows * g->row_data * CHUNK);
	for (uint32_t k = 0; k < g->p.slots; k++) {
		assert_int_equal(geo_used_sectors(g, k), rows * CHUNK);
		assert_false(geo_unmap(g, k, place(k, rows), &addr, &copy));
		assert_false(geo_unmap(g, k, place(k, 0) - 1, &addr, &copy));
		assert_false(geo_row_of_maddr(g, k, place(k, rows), &row, &inside));
		assert_false(geo_row_of_maddr(g, k, place(k, 0) - 1, &row, &inside));
	}
}

/* ---- tables ---------------------------------------------------------------------------------
 * Rows are parted by '/'. order: which chunk has g^0, g^1 … in Q, '.' where none has it. */

struct table {
	const char *name;
	enum raid_level level;
	uint32_t layout, slots;
	const char *cells, *order;
};

/* The next word up to '/' or the end; false if there is none. */
static bool next_word(const char **at, int *out)
{
	char *end;

	while (**at == ' ') {
		++*at;
	}
	switch (**at) {
	case '/':
	case '\0':
		return false;
	case 'P':
		*out = IS_P;
		++*at;
		return true;
	case 'Q':
		*out = IS_Q;
		++*at;
		return true;
	case '.':
		*out = NONE;
		++*at;
		return true;
	default:
		*out = (int)strtol(*at, &end, 10);
		assert_true(end > *at);
		*at = end;
		return true;
	}
}

static void check_table(const struct table *t)
{
	uint32_t data = t->slots - (t->level == RAID_LEVEL_6 ? 2 : 1), rows = 1;
	const char *cells = t->cells, *order = t->order;
	struct geo_params p;
	struct geometry g;

	print_message("           %s\n", t->name);
	for (const char *c = cells; *c; c++) {
		rows += *c == '/';
	}
	p = params_of(t->level, t->layout, t->slots, rows * CHUNK + 9); /* less than a row more */
	init_ok(&g, &p);
	check_ends(&g, rows);
	for (uint32_t row = 0; row < rows; row++) {
		struct want w = {.orders = 0};
		int word;

		for (uint32_t k = 0; k < t->slots; k++) {
			assert_true(next_word(&cells, &word));
			w.cell[k] = word < 0 ? word : word - (int)(row * data);
		}
		while (order && next_word(&order, &word)) {
			w.order[w.orders++] = word < 0 ? word : word - (int)(row * data);
		}
		for (; !order && w.orders < data; w.orders++) {
			w.order[w.orders] = (int)w.orders;
		}
		check_row(&g, row, &w);
		assert_false(next_word(&cells, &word));
		cells += *cells == '/';
		order += order && *order == '/';
	}
	assert_int_equal(*cells, '\0');
}

static const struct table raid5_tables[] = {
	{"raid4", RAID_LEVEL_4, 0, 4, "0 1 2 P / 3 4 5 P / 6 7 8 P / 9 10 11 P", NULL},
	{"raid4 that was a raid0", RAID_LEVEL_4, 5, 4, "0 1 2 P / 3 4 5 P", NULL},
	{"left-asymmetric", RAID_LEVEL_5, 0, 4,
	 "0 1 2 P / 3 4 P 5 / 6 P 7 8 / P 9 10 11 / 12 13 14 P", NULL},
	{"right-asymmetric", RAID_LEVEL_5, 1, 4,
	 "P 0 1 2 / 3 P 4 5 / 6 7 P 8 / 9 10 11 P / P 12 13 14", NULL},
	{"left-symmetric", RAID_LEVEL_5, 2, 4,
	 "0 1 2 P / 4 5 P 3 / 8 P 6 7 / P 9 10 11 / 12 13 14 P", NULL},
	{"right-symmetric", RAID_LEVEL_5, 3, 4,
	 "P 0 1 2 / 5 P 3 4 / 7 8 P 6 / 9 10 11 P / P 12 13 14", NULL},
	{"parity-first", RAID_LEVEL_5, 4, 4, "P 0 1 2 / P 3 4 5 / P 6 7 8 / P 9 10 11", NULL},
	{"parity-last", RAID_LEVEL_5, 5, 4, "0 1 2 P / 3 4 5 P / 6 7 8 P / 9 10 11 P", NULL},
	{"left-symmetric, 2 disks", RAID_LEVEL_5, 2, 2, "0 P / P 1 / 2 P / P 3", NULL},
	{"right-asymmetric, 2 disks", RAID_LEVEL_5, 1, 2, "P 0 / 1 P / P 2 / 3 P", NULL},
};

static const struct table raid6_tables[] = {
	{"0 left-asymmetric", RAID_LEVEL_6, 0, 5,
	 "Q 0 1 2 P / 3 4 5 P Q / 6 7 P Q 8 / 9 P Q 10 11 / P Q 12 13 14",
	 "0 1 2 / 3 4 5 / 8 6 7 / 10 11 9 / 12 13 14"},
	{"1 right-asymmetric", RAID_LEVEL_6, 1, 5,
	 "P Q 0 1 2 / 3 P Q 4 5 / 6 7 P Q 8 / 9 10 11 P Q / Q 12 13 14 P",
	 "0 1 2 / 4 5 3 / 8 6 7 / 9 10 11 / 12 13 14"},
	{"2 left-symmetric", RAID_LEVEL_6, 2, 5,
	 "Q 0 1 2 P / 3 4 5 P Q / 7 8 P Q 6 / 11 P Q 9 10 / P Q 12 13 14",
	 "0 1 2 / 3 4 5 / 6 7 8 / 9 10 11 / 12 13 14"},
	{"3 right-symmetric", RAID_LEVEL_6, 3, 5,
	 "P Q 0 1 2 / 5 P Q 3 4 / 7 8 P Q 6 / 9 10 11 P Q / Q 12 13 14 P",
	 "0 1 2 / 3 4 5 / 6 7 8 / 9 10 11 / 12 13 14"},
	{"4 parity-first", RAID_LEVEL_6, 4, 5, "P Q 0 1 2 / P Q 3 4 5 / P Q 6 7 8",
	 "0 1 2 / 3 4 5 / 6 7 8"},
	{"5 parity-last", RAID_LEVEL_6, 5, 5, "0 1 2 P Q / 3 4 5 P Q / 6 7 8 P Q",
	 "0 1 2 / 3 4 5 / 6 7 8"},
	{"8 ddf-zero-restart", RAID_LEVEL_6, 8, 5,
	 "P Q 0 1 2 / 3 P Q 4 5 / 6 7 P Q 8 / 9 10 11 P Q / Q 12 13 14 P",
	 ". . 0 1 2 / 3 . . 4 5 / 6 7 . . 8 / 9 10 11 / . 12 13 14"},
	{"9 ddf-N-restart", RAID_LEVEL_6, 9, 5,
	 "0 1 2 P Q / 3 4 P Q 5 / 6 P Q 7 8 / P Q 9 10 11 / Q 12 13 14 P",
	 "0 1 2 / 3 4 . . 5 / 6 . . 7 8 / . . 9 10 11 / . 12 13 14"},
	{"10 ddf-N-continue", RAID_LEVEL_6, 10, 5,
	 "0 1 2 Q P / 4 5 Q P 3 / 8 Q P 6 7 / Q P 9 10 11 / P 12 13 14 Q",
	 "0 1 2 / 4 5 . . 3 / 8 . . 6 7 / . . 9 10 11 / . 12 13 14"},
	{"16 left-asymmetric-6", RAID_LEVEL_6, 16, 5,
	 "0 1 2 P Q / 3 4 P 5 Q / 6 P 7 8 Q / P 9 10 11 Q", "0 1 2 / 3 4 5 / 6 7 8 / 9 10 11"},
	{"17 right-asymmetric-6", RAID_LEVEL_6, 17, 5,
	 "P 0 1 2 Q / 3 P 4 5 Q / 6 7 P 8 Q / 9 10 11 P Q", "0 1 2 / 3 4 5 / 6 7 8 / 9 10 11"},
	{"18 left-symmetric-6", RAID_LEVEL_6, 18, 5,
	 "0 1 2 P Q / 4 5 P 3 Q / 8 P 6 7 Q / P 9 10 11 Q", "0 1 2 / 4 5 3 / 8 6 7 / 9 10 11"},
	{"19 right-symmetric-6", RAID_LEVEL_6, 19, 5,
	 "P 0 1 2 Q / 5 P 3 4 Q / 7 8 P 6 Q / 9 10 11 P Q", "0 1 2 / 5 3 4 / 7 8 6 / 9 10 11"},
	{"20 parity-first-6", RAID_LEVEL_6, 20, 5, "P 0 1 2 Q / P 3 4 5 Q / P 6 7 8 Q",
	 "0 1 2 / 3 4 5 / 6 7 8"},
	{"2 left-symmetric, 4 disks", RAID_LEVEL_6, 2, 4,
	 "Q 0 1 P / 2 3 P Q / 5 P Q 4 / P Q 6 7 / Q 8 9 P / 10 11 P Q",
	 "0 1 / 2 3 / 4 5 / 6 7 / 8 9 / 10 11"},
};

static void test_raid5_tables(void **state)
{
	for (size_t i = 0; i < sizeof raid5_tables / sizeof *raid5_tables; i++) {
		check_table(&raid5_tables[i]);
	}
}

static void test_raid6_tables(void **state)
{
	for (size_t i = 0; i < sizeof raid6_tables / sizeof *raid6_tables; i++) {
		check_table(&raid6_tables[i]);
	}
}

/* ---- the formulas of §9.5 and §9.6 ---------------------------------------------------------- */

static int oracle_raid5(uint32_t layout, int n, int64_t s, int d, int *p)
{
	switch (layout) {
	case 0:
	case 2:
		*p = n - 1 - (int)(s % n);
		break;
	case 1:
	case 3:
		*p = (int)(s % n);
		break;
	default:
		*p = layout == 4 ? 0 : n - 1;
		return layout == 4 ? d + 1 : d;
	}
	return layout < 2 ? (d >= *p ? d + 1 : d) : (*p + 1 + d) % n;
}

static int asymmetric(int n, int p, int d)
{
	return p == n - 1 ? d + 1 : d >= p ? d + 2 : d;
}

static int oracle_raid6(uint32_t layout, int n, int64_t s, int d, int *p, int *q)
{
	switch (layout) {
	case 0:
		*p = n - 1 - (int)(s % n);
		*q = (*p + 1) % n;
		return asymmetric(n, *p, d);
	case 1:
	case 8:
		*p = (int)(s % n);
		*q = (*p + 1) % n;
		return asymmetric(n, *p, d);
	case 2:
	case 3:
		*p = layout == 2 ? n - 1 - (int)(s % n) : (int)(s % n);
		*q = (*p + 1) % n;
		return (*p + 2 + d) % n;
	case 4:
		*p = 0;
		*q = 1;
		return d + 2;
	case 5:
		*p = n - 2;
		*q = n - 1;
		return d;
	case 9:
		*p = n - 1 - (int)((s + 1) % n);
		*q = (*p + 1) % n;
		return asymmetric(n, *p, d);
	case 10:
		*p = n - 1 - (int)(s % n);
		*q = (*p + n - 1) % n;
		return (*p + 1 + d) % n;
	default:
		*q = n - 1;
		return oracle_raid5(layout - 16, n - 1, s, d, p);
	}
}

static void oracle_row(enum raid_level level, uint32_t layout, int n, int64_t s, struct want *w)
{
	int data = n - (level == RAID_LEVEL_6 ? 2 : 1), p = 0, q = 0;

	for (int d = 0; d < data; d++) {
		int slot = level == RAID_LEVEL_6 ? oracle_raid6(layout, n, s, d, &p, &q)
						 : oracle_raid5(layout, n, s, d, &p);

		w->cell[slot] = d;
	}
	w->cell[p] = IS_P;
	w->orders = 0;
	if (level != RAID_LEVEL_6) {
		for (; w->orders < (uint32_t)data; w->orders++) {
			w->order[w->orders] = (int)w->orders;
		}
		return;
	}
	w->cell[q] = IS_Q;
	if (layout >= 8 && layout <= 10) {
		for (int k = 0; k < n; k++) {
			w->order[k] = w->cell[k] >= 0 ? w->cell[k] : NONE;
			w->orders = w->cell[k] >= 0 ? (uint32_t)k + 1 : w->orders;
		}
		return;
	}
	for (int k = (q + 1) % n; k != q; k = (k + 1) % n) {
		if (k != p) {
			w->order[w->orders++] = w->cell[k];
		}
	}
}

/* Every width, rows up to where the pattern has come round twice, and the last of a huge member. */
static void check_formulas(enum raid_level level, uint32_t layout)
{
	uint32_t least = level == RAID_LEVEL_6 ? 4 : 2;

	for (uint32_t n = least; n <= RAID_SLOTS_MAX; n += n < 9 ? 1 : 11) {
		uint64_t rows = n % 2 ? 1000000007 : 2 * n;
		struct geo_params p = params_of(level, layout, n, rows * CHUNK);
		struct geometry g;
		struct want w;

		init_ok(&g, &p);
		check_ends(&g, rows);
		for (uint64_t row = 0; row < 2 * n; row++) {
			oracle_row(level, layout, (int)n, (int64_t)row, &w);
			check_row(&g, row, &w);
		}
		oracle_row(level, layout, (int)n, (int64_t)rows - 1, &w);
		check_row(&g, rows - 1, &w);
	}
}

static void test_formulas(void **state)
{
	static const uint32_t raid6[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};

	for (uint32_t layout = 0; layout < 6; layout++) {
		check_formulas(RAID_LEVEL_5, layout);
	}
	for (size_t i = 0; i < sizeof raid6 / sizeof *raid6; i++) {
		check_formulas(RAID_LEVEL_6, raid6[i]);
	}
}

/* ---- sizes, losses, refusals ---------------------------------------------------------------- */

/* Arrays of a real md (Linux 6.1, mdadm 4.2): component and array size in sectors. */
static const struct {
	enum raid_level level;
	uint32_t layout, chunk_bytes, slots;
	uint64_t component, array;
} md_sizes[] = {
	{RAID_LEVEL_4, 0, 4096, 4, 10112, 30336},   {RAID_LEVEL_4, 0, 65536, 3, 14336, 28672},
	{RAID_LEVEL_4, 0, 65536, 4, 8192, 24576},   {RAID_LEVEL_5, 0, 65536, 4, 12288, 36864},
	{RAID_LEVEL_5, 0, 524288, 5, 11264, 45056}, {RAID_LEVEL_5, 1, 4096, 5, 12256, 49024},
	{RAID_LEVEL_5, 1, 65536, 3, 12288, 24576},  {RAID_LEVEL_5, 2, 4096, 4, 12288, 36864},
	{RAID_LEVEL_5, 2, 65536, 3, 640, 1280},	    {RAID_LEVEL_5, 2, 65536, 4, 6144, 18432},
	{RAID_LEVEL_5, 2, 131072, 3, 14336, 28672}, {RAID_LEVEL_5, 2, 524288, 3, 13312, 26624},
	{RAID_LEVEL_5, 3, 65536, 4, 12288, 36864},  {RAID_LEVEL_5, 3, 524288, 5, 10240, 40960},
	{RAID_LEVEL_5, 4, 4096, 5, 10240, 40960},   {RAID_LEVEL_5, 4, 65536, 3, 12288, 24576},
	{RAID_LEVEL_5, 5, 4096, 4, 14304, 42912},   {RAID_LEVEL_5, 5, 65536, 4, 8192, 24576},
	{RAID_LEVEL_5, 5, 524288, 3, 12288, 24576}, {RAID_LEVEL_6, 0, 65536, 4, 8192, 16384},
	{RAID_LEVEL_6, 1, 4096, 5, 8192, 24576},    {RAID_LEVEL_6, 2, 65536, 4, 4096, 8192},
	{RAID_LEVEL_6, 2, 65536, 5, 640, 1920},	    {RAID_LEVEL_6, 2, 131072, 4, 22528, 45056},
	{RAID_LEVEL_6, 2, 524288, 6, 10240, 40960}, {RAID_LEVEL_6, 3, 16384, 4, 8192, 16384},
	{RAID_LEVEL_6, 4, 65536, 5, 8192, 24576},   {RAID_LEVEL_6, 5, 4096, 6, 8192, 32768},
	{RAID_LEVEL_6, 8, 16384, 5, 6144, 18432},   {RAID_LEVEL_6, 8, 524288, 4, 10240, 20480},
	{RAID_LEVEL_6, 9, 16384, 5, 8192, 24576},   {RAID_LEVEL_6, 10, 65536, 4, 6144, 12288},
	{RAID_LEVEL_6, 10, 65536, 6, 8192, 32768},  {RAID_LEVEL_6, 16, 4096, 4, 8192, 16384},
	{RAID_LEVEL_6, 17, 16384, 6, 6144, 24576},  {RAID_LEVEL_6, 17, 524288, 5, 11264, 33792},
	{RAID_LEVEL_6, 18, 16384, 6, 10208, 40832}, {RAID_LEVEL_6, 19, 65536, 4, 10112, 20224},
	{RAID_LEVEL_6, 20, 4096, 5, 10208, 30624},
};

static void test_sizes_of_a_real_md(void **state)
{
	for (size_t i = 0; i < sizeof md_sizes / sizeof *md_sizes; i++) {
		struct geo_params p = params_of(md_sizes[i].level, md_sizes[i].layout,
						md_sizes[i].slots, md_sizes[i].component);
		struct geometry g;

		p.chunk_sectors = md_sizes[i].chunk_bytes / RAID_SECTOR_BYTES;
		init_ok(&g, &p);
		assert_int_equal(g.array_sectors, md_sizes[i].array);
	}
}

static void check_losses(enum raid_level level, uint32_t slots, uint32_t spare)
{
	struct geo_params p = params_of(level, level == RAID_LEVEL_4 ? 0 : 2, slots, 6 * CHUNK);
	bool present[RAID_SLOTS_MAX];
	struct geometry g;

	init_ok(&g, &p);
	assert_int_equal(g.parity, spare);
	for (uint32_t mask = 0; mask < 1u << slots; mask++) {
		uint32_t lost = slots - (uint32_t)__builtin_popcount(mask);

		for (uint32_t k = 0; k < slots; k++) {
			present[k] = mask >> k & 1;
		}
		assert_int_equal(geo_enough(&g, present), lost <= spare);
		for (uint32_t k = 0; k < slots; k++) {
			assert_int_equal(geo_slot_is_last(&g, present, k),
					 present[k] && lost >= spare);
		}
	}
}

static void test_losses(void **state)
{
	check_losses(RAID_LEVEL_4, 3, 1);
	check_losses(RAID_LEVEL_5, 2, 1);
	check_losses(RAID_LEVEL_5, 5, 1);
	check_losses(RAID_LEVEL_6, 4, 2);
	check_losses(RAID_LEVEL_6, 6, 2);
}

static void refused(const struct geo_params *p, const char *word)
{
	char why[RAID_WHY_BYTES] = "";
	struct geometry g;

	assert_int_equal(geo_init(&g, p, why), -EINVAL);
	if (!strstr(why, word)) {
		fail_msg("'%s' does not speak of '%s'", why, word);
	}
}

static void test_refusals(void **state)
{
	static const struct {
		enum raid_level level;
		uint32_t layout;
	} unknown[] = {
		{RAID_LEVEL_4, 2},  {RAID_LEVEL_5, 6},		{RAID_LEVEL_5, 16},
		{RAID_LEVEL_6, 6},  {RAID_LEVEL_6, 7},		{RAID_LEVEL_6, 11},
		{RAID_LEVEL_6, 15}, {RAID_LEVEL_6, 21},		{RAID_LEVEL_6, 22},
		{RAID_LEVEL_6, 32}, {RAID_LEVEL_6, UINT32_MAX},
	};
	struct geo_params p;

	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
		p = params_of(unknown[i].level, unknown[i].layout, 5, 6 * CHUNK);
		refused(&p, "layout");
	}
	p = params_of(RAID_LEVEL_5, 2, 1, 6 * CHUNK);
	refused(&p, "at least 2");
	p = params_of(RAID_LEVEL_4, 0, 1, 6 * CHUNK);
	refused(&p, "at least 2");
	p = params_of(RAID_LEVEL_6, 2, 3, 6 * CHUNK);
	refused(&p, "at least 4");
	p = params_of(RAID_LEVEL_6, 2, 4, CHUNK - 1);
	refused(&p, "less than a chunk");
	p = params_of(RAID_LEVEL_5, 2, 4, 6 * CHUNK);
	p.chunk_sectors = 96;
	refused(&p, "power of two");
	p.chunk_sectors = 4;
	refused(&p, "4 KiB");
	p.chunk_sectors = 0;
	refused(&p, "power of two");
	p = params_of(RAID_LEVEL_5, 2, 64, (uint64_t)1 << 53);
	refused(&p, "array size");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raid5_tables), cmocka_unit_test(test_raid6_tables),
		cmocka_unit_test(test_formulas),     cmocka_unit_test(test_sizes_of_a_real_md),
		cmocka_unit_test(test_losses),	     cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests_name("geometry of parity levels", tests, NULL, NULL);
}
