/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A new array on new disks: laid out by create_plan(), written by sb_encode(), filled with data
 * that the oracle knows.
 */
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/create.h"
#include "raid/sim/column.h"
#include "raid/sim/world.h"

enum { LISTED_RANGES_MAX = 4 };

static void plan_array(struct world *w, struct create_plan *out)
{
	const struct plan *p = &w->plan;
	struct create_params *cp = calloc(1, sizeof *cp);
	char why[RAID_WHY_BYTES];

	CHECK(cp);
	cp->level = p->level;
	cp->have_layout = p->level != RAID_LEVEL_1 && p->level != RAID_LEVEL_LINEAR &&
			  p->level != RAID_LEVEL_4;
	cp->layout = p->layout;
	cp->chunk_sectors = p->chunk_sectors;
	cp->version = p->version;
	memcpy(cp->name, "sim:array", sizeof "sim:array");
	cp->data_offset_sectors = p->data_offset_sectors;
	cp->assume_clean = p->assume_clean;
	prng_fill(&w->rng, cp->set_uuid, sizeof cp->set_uuid);
	cp->ctime_s = w->wall_s;
	cp->bitmap = p->bitmap;
	cp->bitmap_chunk_bytes = p->bitmap_chunk_bytes;
	cp->slots = p->slots;
	cp->spares = p->spares;
	for (uint32_t i = 0; i < p->slots + p->spares; i++) {
		cp->dev[i].dev_sectors = w->disk[i].p.size_bytes / RAID_SECTOR_BYTES;
		cp->dev[i].logical_block = w->disk[i].p.block;
		cp->dev[i].devflags = i % 2 ? p->devflags : 0;
		prng_fill(&w->rng, cp->dev[i].device_uuid, 16);
	}
	if (create_plan(cp, out, why) != 0) {
		sim_fail("create_plan refused: %s", why);
	}
	free(cp);
}

/* Give every member another number than its slot, as arrays have that lived a while. */
static void shuffle_numbers(struct world *w, struct create_plan *cp)
{
	uint32_t n = w->plan.slots, number[PLAN_DISKS_MAX];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = (uint32_t)prng_below(&w->rng, i + 1);

		number[i] = number[j];
		number[j] = i + 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		memset(cp->sb[i].dev_roles, 0xff, sizeof cp->sb[i].dev_roles);
		cp->sb[i].dev_number = number[i];
		for (uint32_t k = 0; k < n; k++) {
			cp->sb[i].dev_roles[number[k]] = (uint16_t)k;
		}
	}
}

static void write_bad_list(struct world *w, uint32_t i, struct sb *sb)
{
	struct disk *d = &w->disk[i];
	uint8_t log[SB_BYTES_MAX];
	uint64_t at = sb->data_offset, end = sb->data_offset + sb->size;
	uint32_t n = 0;

	if (sb->bblog_offset == 0) {
		return;
	}
	memset(log, 0xff, sizeof log);
	while (n < LISTED_RANGES_MAX) {
		uint64_t len = prng_range(&w->rng, 1, 40);

		at += prng_below(&w->rng, sb->size / 2);
		if (at + len > end) {
			break;
		}
		put_le64(log + 8 * n, at << 10 | len);
		memset(w->listed[i] + at, 1, len);
		at += len + 1;
		n++;
	}
	if (n == 0) {
		return;
	}
	disk_poke(d, (uint64_t)((int64_t)sb->super_offset + sb->bblog_offset) * RAID_SECTOR_BYTES,
		  log, min_u64(sizeof log, (uint64_t)sb->bblog_size * RAID_SECTOR_BYTES));
	sb->feature_map |= SB_FEATURE_BAD_BLOCKS;
	w->listed_disk = i;
}

static void write_bitmap(struct world *w, uint32_t i, const struct create_plan *cp)
{
	uint64_t bytes = (uint64_t)cp->bitmap_sectors * RAID_SECTOR_BYTES;
	uint8_t *area = malloc(bytes);
	const struct sb *sb = &cp->sb[i];

	CHECK(area);
	create_bitmap_bytes(cp, 0, area, (uint32_t)bytes);
	disk_poke(&w->disk[i],
		  (uint64_t)((int64_t)sb->super_offset + sb->bitmap_offset) * RAID_SECTOR_BYTES,
		  area, bytes);
	free(area);
}

static void write_metadata(struct world *w)
{
	struct create_plan *cp = calloc(1, sizeof *cp);
	uint32_t n = w->plan.slots + w->plan.spares, most = 0;

	CHECK(cp);
	plan_array(w, cp);
	if (w->plan.shuffle_dev_numbers && cp->sync != CREATE_BUILD && w->plan.spares == 0) {
		shuffle_numbers(w, cp);
	}
	for (uint32_t i = 0; i < n && w->plan.max_dev; i++) {
		memset(cp->sb[i].dev_roles + cp->sb[i].max_dev, 0xff,
		       (w->plan.max_dev - cp->sb[i].max_dev) * sizeof(uint16_t));
		cp->sb[i].max_dev = w->plan.max_dev;
	}
	for (uint32_t i = 0; i < n && w->plan.tight_table; i++) {
		for (uint32_t k = 0; k < n; k++) {
			most = cp->sb[k].dev_number > most ? cp->sb[k].dev_number : most;
		}
		cp->sb[i].max_dev = most + 1;
	}
	w->listed_disk = LAYOUT_NONE;
	if (w->plan.bad_list) {
		uint32_t i = (uint32_t)prng_below(&w->rng, w->plan.slots);

		write_bad_list(w, i, &cp->sb[i]);
	}
	cp->bitmap.daemon_sleep_s = 1;
	for (uint32_t i = 0; i < n; i++) {
		if (cp->bitmap_sectors > 0 && i < w->plan.slots) {
			write_bitmap(w, i, cp);
		}
		offline_write_sb(w, i, &cp->sb[i]);
	}
	free(cp);
}

static void poke_slot(struct world *w, uint32_t slot, uint64_t maddr, const uint8_t *data)
{
	uint8_t wrong[RAID_SECTOR_BYTES];
	uint32_t d = w->holder[slot];

	if (d == LAYOUT_NONE) {
		return;
	}
	if (w->listed[d][maddr / RAID_SECTOR_BYTES] ||
	    (maddr - w->layout.data_from[slot]) / RAID_SECTOR_BYTES >= w->held_sectors[slot]) {
		memset(wrong, 0xBB, sizeof wrong); /* stale, or not built yet */
		data = wrong;
	}
	disk_poke(&w->disk[d], maddr, data, RAID_SECTOR_BYTES);
}

/* Copies are equal if the array was created so, else each has its own bytes. */
static void fill_copies(struct world *w)
{
	const struct layout *l = &w->layout;
	bool equal = w->plan.assume_clean || l->copies == 1;
	uint8_t data[RAID_SECTOR_BYTES];

	for (uint64_t s = 0; s < l->sectors; s++) {
		for (uint32_t i = 0; i < l->copies; i++) {
			const struct layout_place *p = &l->copy[s * l->copies + i];

			if (i == 0 || !equal) {
				prng_fill(&w->rng, data, sizeof data);
				oracle_add_initial(&w->oracle, s, data);
			}
			poke_slot(w, p->slot, p->maddr, data);
		}
	}
}

/* A slot that is to be built holds nothing yet: its data are what parity says, so parity is right.
 * If parity itself is to be computed it may be anything. */
static void fill_column(struct world *w, uint64_t g)
{
	const struct layout *l = &w->layout;
	uint8_t data[RAID_SLOTS_MAX][RAID_SECTOR_BYTES], p[RAID_SECTOR_BYTES], q[RAID_SECTOR_BYTES];
	struct column c = {.row = layout_row(l, g)};
	uint32_t s[LAYOUT_SLOTS_MAX];

	layout_group_sectors(l, g, s);
	for (uint32_t d = 0; d < l->row_data; d++) {
		uint32_t slot = c.row->slot[d];

		prng_fill(&w->rng, data[d], RAID_SECTOR_BYTES);
		c.data[d] = data[d];
		oracle_add_initial(&w->oracle, s[d], data[d]);
		poke_slot(w, slot, layout_column_maddr(l, slot, g), data[d]);
	}
	column_parity(&c, p, l->parity == 2 ? q : NULL);
	if (w->needs_resync) {
		prng_fill(&w->rng, p, 64);
		prng_fill(&w->rng, q, 64);
	}
	poke_slot(w, c.row->p, layout_column_maddr(l, c.row->p, g), p);
	if (l->parity == 2) {
		poke_slot(w, c.row->q, layout_column_maddr(l, c.row->q, g), q);
	}
}

static void fill_data(struct world *w)
{
	oracle_init(&w->oracle, w->layout.sectors);
	if (!w->layout.parity) {
		fill_copies(w);
	}
	for (uint64_t g = 0; g < w->layout.groups && w->layout.parity; g++) {
		fill_column(w, g);
	}
}

static void init_disks(struct world *w)
{
	const struct plan *plan = &w->plan;

	for (uint32_t i = 0; i < plan->disks; i++) {
		disk_init(&w->disk[i], &plan->disk[i]);
		w->listed[i] = calloc(plan->disk[i].size_bytes / RAID_SECTOR_BYTES, 1);
		w->was_listed[i] = calloc(plan->disk[i].size_bytes / RAID_SECTOR_BYTES, 1);
		CHECK(w->listed[i] && w->was_listed[i]);
		w->number[i] = LAYOUT_NONE;
		if (i >= plan->slots) {
			/* What spares hold is not what anybody wants to read. */
			memset(w->disk[i].now, 0x5A, plan->disk[i].size_bytes);
			memset(w->disk[i].durable, 0x5A, plan->disk[i].size_bytes);
		}
	}
}

void world_init(struct world *w, const struct plan *plan, uint64_t seed)
{
	bool all[PLAN_DISKS_MAX];
	uint64_t dev_sectors[LAYOUT_SLOTS_MAX];
	struct assembly *as;

	if (!w->candidate) {
		w->candidate = calloc(RAID_MEMBERS_MAX, sizeof *w->candidate);
		w->assembly = calloc(1, sizeof *w->assembly);
		w->added = calloc(1, sizeof *w->added);
		CHECK(w->candidate && w->assembly && w->added);
	}
	as = w->assembly;
	memset((char *)w + offsetof(struct world, plan), 0,
	       sizeof *w - offsetof(struct world, plan));
	w->plan = *plan;
	clock_init(&w->clock);
	w->clock.now_ns = prng_below(&w->rng, 1000 * SIM_S);
	w->wall_s = 1700000000 + prng_below(&w->rng, 1000000);
	list_init(&w->flights);
	list_init(&w->ops);
	list_init(&w->backlog);
	list_init(&w->graveyard);
	memset(all, true, sizeof all);
	init_disks(w);
	write_metadata(w);
	session_judge(w, all, as);
	if (as->decision != ASM_START) {
		sim_fail("a new array does not assemble: %s", as->why);
	}
	w->geometry = as->geometry;
	for (uint32_t k = 0; k < plan->slots; k++) {
		dev_sectors[k] = plan->disk[k].size_bytes / RAID_SECTOR_BYTES;
		w->geometry.p.slot[k].data_offset_sectors = w->own[k].data_offset;
	}
	layout_init(&w->layout, &w->geometry, dev_sectors);
	w->immune = calloc(w->layout.sectors + w->layout.groups, 1);
	w->troubled = calloc(w->layout.sectors, 1);
	w->stale = calloc(w->layout.groups + 1, 1);
	CHECK(w->immune && w->troubled && w->stale);
	roles_assembled(w, as);
	w->needs_resync = as->resync_offset != SB_IN_SYNC;
	fill_data(w);
	if (w->layout.groups > 0) {
		bits_check_crash(w, as);
	}
}

void world_free(struct world *w)
{
	struct list *n;

	CHECK(!w->array && list_empty(&w->flights) && list_empty(&w->ops));
	while ((n = list_pop(&w->graveyard))) {
		struct op *op = container_of(n, struct op, link);

		free(op->block);
		free(op);
	}
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		disk_free(&w->disk[i]);
		free(w->listed[i]);
		free(w->was_listed[i]);
	}
	layout_free(&w->layout);
	free(w->immune);
	free(w->troubled);
	free(w->stale);
	oracle_free(&w->oracle);
	clock_free(&w->clock);
}
