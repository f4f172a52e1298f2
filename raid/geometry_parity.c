/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAID 4, 5, 6 (md-format §9.4–9.6): where P, Q and the data of a row are, and which power of g a
 * block has in Q.
 *
 * All layouts are one construction. P's slot moves over a *ring* of slots, Q beside it or on the
 * slot that the ring leaves out. Data fills the slots of the ring that are left: from slot 0 on
 * (asymmetric), or going round from behind P (symmetric). Q counts powers going round all slots
 * from behind itself (md), or by slot number (DDF).
 */
#include "raid/geometry_impl.h"

#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"

/* P's slot in row s, in a ring of n. */
enum p_rule {
	P_LEFT,	     /* n - 1 - s mod n */
	P_LEFT_NEXT, /* the same, one row on */
	P_RIGHT,     /* s mod n */
	P_FIRST,     /* 0 */
	P_LAST,	     /* n - 1 */
};

enum q_rule {
	Q_NONE,
	Q_AFTER,  /* the slot after P */
	Q_BEFORE, /* the slot before P */
	Q_LAST,	  /* the last slot; the ring is what is before it */
};

struct layout {
	enum p_rule p;
	enum q_rule q;
	bool symmetric, ddf;
};

struct numbered {
	uint32_t number;
	struct layout layout;
};

static const struct numbered raid5_layouts[] = {
	{0, {P_LEFT, Q_NONE, false, false}},  {1, {P_RIGHT, Q_NONE, false, false}},
	{2, {P_LEFT, Q_NONE, true, false}},   {3, {P_RIGHT, Q_NONE, true, false}},
	{4, {P_FIRST, Q_NONE, false, false}}, {5, {P_LAST, Q_NONE, false, false}},
};

/* md's RAID 4 does not look at the field: 0 as mdadm makes it, 5 if it was a RAID 0 before. */
static const struct numbered raid4_layouts[] = {
	{0, {P_LAST, Q_NONE, false, false}},
	{5, {P_LAST, Q_NONE, false, false}},
};

static const struct numbered raid6_layouts[] = {
	{0, {P_LEFT, Q_AFTER, false, false}},	  {1, {P_RIGHT, Q_AFTER, false, false}},
	{2, {P_LEFT, Q_AFTER, true, false}},	  {3, {P_RIGHT, Q_AFTER, true, false}},
	{4, {P_FIRST, Q_AFTER, false, false}},	  {5, {P_LAST, Q_LAST, false, false}},
	{8, {P_RIGHT, Q_AFTER, false, true}},	  /* ddf-zero-restart */
	{9, {P_LEFT_NEXT, Q_AFTER, false, true}}, /* ddf-N-restart */
	{10, {P_LEFT, Q_BEFORE, true, true}},	  /* ddf-N-continue */
	{16, {P_LEFT, Q_LAST, false, false}},	  {17, {P_RIGHT, Q_LAST, false, false}},
	{18, {P_LEFT, Q_LAST, true, false}},	  {19, {P_RIGHT, Q_LAST, true, false}},
	{20, {P_FIRST, Q_LAST, false, false}},
};

#define FIND(table, number) find_layout(table, sizeof(table) / sizeof *(table), number)

static const struct layout *find_layout(const struct numbered *l, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++) {
		if (l[i].number == number) {
			return &l[i].layout;
		}
	}
	return NULL;
}

static const struct layout *layout_of(const struct geometry *g)
{
	switch (g->p.level) {
	case RAID_LEVEL_4:
		return FIND(raid4_layouts, g->p.layout);
	case RAID_LEVEL_5:
		return FIND(raid5_layouts, g->p.layout);
	default:
		return FIND(raid6_layouts, g->p.layout);
	}
}

int geo_parity_init(struct geometry *g, char why[RAID_WHY_BYTES])
{
	const char *level = geo_level_name(g->p.level);
	uint32_t least;

	g->copies = 1;
	g->parity = g->p.level == RAID_LEVEL_6 ? 2 : 1;
	least = 2 * g->parity; /* md's rule */
	if (g->p.slots < least) {
		return why_set(why, -EINVAL, "%s of %u slots: at least %u are needed", level,
			       g->p.slots, least);
	}
	if (!layout_of(g)) {
		return why_set(why, -EINVAL, "unknown %s layout 0x%x", level, g->p.layout);
	}
	if (g->p.chunk_sectors < RAID_PAGE_BYTES / RAID_SECTOR_BYTES ||
	    !is_pow2_u64(g->p.chunk_sectors)) {
		return why_set(why, -EINVAL,
			       "chunk of %u sectors: a power of two of at least 4 KiB is needed",
			       g->p.chunk_sectors);
	}
	g->chunk_bytes = (uint64_t)g->p.chunk_sectors * RAID_SECTOR_BYTES;
	g->chunk_shift = (uint8_t)__builtin_ctzll(g->chunk_bytes);
	g->row_data = g->p.slots - g->parity;
	g->row_bytes = g->row_data * g->chunk_bytes;
	g->rows = g->p.component_sectors / g->p.chunk_sectors;
	if (!g->rows) {
		return why_set(why, -EINVAL,
			       "component size of %llu sectors is less than a chunk of %u",
			       (unsigned long long)g->p.component_sectors, g->p.chunk_sectors);
	}
	/* At most 2^53 sectors times 63: no overflow. */
	g->array_sectors = g->rows * g->row_data * g->p.chunk_sectors;
	return 0;
}

/* ---- one row ------------------------------------------------------------------------------- */

/* Where P and Q of a row are, and how data goes round them. */
struct turn {
	uint32_t slots, ring, p, q;
	bool symmetric, ddf;
};

static uint32_t p_slot(enum p_rule rule, uint64_t row, uint32_t ring)
{
	switch (rule) {
	case P_LEFT:
		return ring - 1 - (uint32_t)(row % ring);
	case P_LEFT_NEXT:
		return ring - 1 - (uint32_t)((row + 1) % ring);
	case P_RIGHT:
		return (uint32_t)(row % ring);
	case P_FIRST:
		return 0;
	default:
		return ring - 1;
	}
}

static struct turn turn_of(const struct geometry *g, uint64_t row)
{
	const struct layout *l = layout_of(g);
	struct turn t = {
		.slots = g->p.slots,
		.ring = g->p.slots - (l->q == Q_LAST),
		.symmetric = l->symmetric,
		.ddf = l->ddf,
	};

	t.p = p_slot(l->p, row, t.ring);
	switch (l->q) {
	case Q_NONE:
		t.q = GEO_NO_SLOT;
		break;
	case Q_AFTER:
		t.q = (t.p + 1) % t.ring;
		break;
	case Q_BEFORE:
		t.q = (t.p + t.ring - 1) % t.ring;
		break;
	case Q_LAST:
		t.q = t.ring;
		break;
	}
	return t;
}

/* How far a slot is behind another, going round n of them. */
static uint32_t steps(uint32_t from, uint32_t to, uint32_t n)
{
	return (to + n - from) % n;
}

static uint32_t data_slot(const struct turn *t, uint32_t data)
{
	uint32_t low = t->p < t->q ? t->p : t->q, high = t->p < t->q ? t->q : t->p;

	if (t->symmetric) {
		uint32_t first = t->p + 1;

		return (first + (first % t->ring == t->q) + data) % t->ring;
	}
	data += data >= low;
	return data + (data >= high);
}

/* The inverse, for a slot that is neither P nor Q. */
static uint32_t data_of_slot(const struct turn *t, uint32_t slot)
{
	return t->symmetric ? steps(data_slot(t, 0), slot, t->ring)
			    : slot - (slot > t->p) - (slot > t->q);
}

static uint32_t exponent(const struct turn *t, uint32_t data, uint32_t slot)
{
	uint32_t first, met;

	if (t->q == GEO_NO_SLOT) {
		return data;
	}
	if (t->ddf) {
		return slot;
	}
	first = (t->q + 1) % t->slots;
	met = steps(first, slot, t->slots);
	return met - (steps(first, t->p, t->slots) < met);
}

void geo_row_map(const struct geometry *g, uint64_t row, struct geo_row *out)
{
	struct turn t;

	CHECK(g->parity && row < g->rows);
	t = turn_of(g, row);
	out->data = g->row_data;
	out->p = t.p;
	out->q = t.q;
	out->exps = 0;
	for (uint32_t d = 0; d < out->data; d++) {
		out->slot[d] = (uint8_t)data_slot(&t, d);
		out->exp[d] = (uint8_t)exponent(&t, d, out->slot[d]);
		if (out->exp[d] >= out->exps) {
			out->exps = out->exp[d] + 1u;
		}
	}
}

enum geo_role geo_row_role(const struct geometry *g, uint64_t row, uint32_t slot, uint32_t *data)
{
	struct turn t;

	CHECK(g->parity && row < g->rows && slot < g->p.slots);
	t = turn_of(g, row);
	if (slot == t.p) {
		return GEO_ROLE_P;
	}
	if (slot == t.q) {
		return GEO_ROLE_Q;
	}
	*data = data_of_slot(&t, slot);
	return GEO_ROLE_DATA;
}

uint64_t geo_row_of(const struct geometry *g, uint64_t addr, uint64_t *inside)
{
	*inside = addr % g->row_bytes;
	return addr / g->row_bytes;
}

uint64_t geo_row_maddr(const struct geometry *g, uint64_t row, uint32_t slot)
{
	return geo_data_start(g, slot) + row * g->chunk_bytes;
}

bool geo_row_of_maddr(const struct geometry *g, uint32_t slot, uint64_t maddr, uint64_t *row,
		      uint64_t *inside)
{
	uint64_t start = geo_data_start(g, slot);

	if (maddr < start) {
		return false;
	}
	*row = geo_chunk_of(g, maddr - start, inside);
	return *row < g->rows;
}

/* ---- the map ------------------------------------------------------------------------------- */

void geo_parity_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out)
{
	uint64_t inside, chunk = geo_chunk_of(g, addr, &inside), row = chunk / g->row_data;
	struct turn t = turn_of(g, row);
	uint32_t slot = data_slot(&t, (uint32_t)(chunk % g->row_data));

	out->len = min_u64(len, g->chunk_bytes - inside);
	out->copies = 1;
	out->copy[0].slot = slot;
	out->copy[0].maddr = geo_row_maddr(g, row, slot) + inside;
}

bool geo_parity_unmap(const struct geometry *g, uint32_t slot, uint64_t data_addr, uint64_t *addr)
{
	uint64_t inside, row = geo_chunk_of(g, data_addr, &inside);
	uint32_t data;

	if (row >= g->rows || geo_row_role(g, row, slot, &data) != GEO_ROLE_DATA) {
		return false;
	}
	*addr = row * g->row_bytes + data * g->chunk_bytes + inside;
	return true;
}
