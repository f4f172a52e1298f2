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
#include "raid/sim/world.h"

enum { LISTED_RANGES_MAX = 4 };

static void write_superblock(struct world *w, uint32_t i, const struct sb *sb)
{
	uint8_t buf[SB_BYTES_MAX];
	uint32_t len = sb_encode(sb, w->disk[i].p.block, buf);

	disk_poke(&w->disk[i], sb->super_offset * RAID_SECTOR_BYTES, buf, len);
}

static void plan_array(struct world *w, struct create_plan *out)
{
	const struct plan *p = &w->plan;
	struct create_params *cp = calloc(1, sizeof *cp);
	char why[RAID_WHY_BYTES];

	CHECK(cp);
	cp->level = p->level;
	cp->have_layout = p->level == RAID_LEVEL_0 || p->level == RAID_LEVEL_10;
	cp->layout = p->layout;
	cp->chunk_sectors = p->chunk_sectors;
	cp->version = p->version;
	memcpy(cp->name, "sim:array", sizeof "sim:array");
	cp->data_offset_sectors = p->data_offset_sectors;
	cp->assume_clean = p->assume_clean;
	prng_fill(&w->rng, cp->set_uuid, sizeof cp->set_uuid);
	cp->ctime_s = w->wall_s;
	cp->slots = p->slots;
	for (uint32_t i = 0; i < p->slots; i++) {
		cp->dev[i].dev_sectors = w->disk[i].p.size_bytes / RAID_SECTOR_BYTES;
		cp->dev[i].logical_block = w->disk[i].p.block;
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

static void write_metadata(struct world *w)
{
	struct create_plan *cp = calloc(1, sizeof *cp);
	uint32_t n = w->plan.slots;

	CHECK(cp);
	plan_array(w, cp);
	if (w->plan.shuffle_dev_numbers) {
		shuffle_numbers(w, cp);
	}
	for (uint32_t i = 0; i < n && w->plan.max_dev; i++) {
		memset(cp->sb[i].dev_roles + cp->sb[i].max_dev, 0xff,
		       (w->plan.max_dev - cp->sb[i].max_dev) * sizeof(uint16_t));
		cp->sb[i].max_dev = w->plan.max_dev;
	}
	w->listed_disk = LAYOUT_NONE;
	if (w->plan.bad_list) {
		uint32_t i = (uint32_t)prng_below(&w->rng, n);

		write_bad_list(w, i, &cp->sb[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		w->birth[i] = cp->sb[i];
		write_superblock(w, i, &cp->sb[i]);
	}
	if (w->plan.spare) {
		struct sb spare = cp->sb[0];

		spare.dev_number = n + 2;
		spare.dev_roles[spare.dev_number] = SB_ROLE_SPARE;
		spare.feature_map &= ~(uint32_t)SB_FEATURE_BAD_BLOCKS;
		prng_fill(&w->rng, spare.device_uuid, sizeof spare.device_uuid);
		spare.data_size = 0;
		if (spare.version == SB_V1_0) {
			spare.super_offset =
				(w->disk[n].p.size_bytes / RAID_SECTOR_BYTES - 16) & ~UINT64_C(7);
			spare.data_size = spare.super_offset - 16;
		} else {
			spare.data_size =
				w->disk[n].p.size_bytes / RAID_SECTOR_BYTES - spare.data_offset;
		}
		write_superblock(w, n, &spare);
	}
	free(cp);
}

static void init_layout(struct world *w, const struct assembly *as)
{
	const struct geometry *g = &as->geometry;
	struct layout *l = &w->layout;
	uint64_t len;

	l->sectors = g->array_sectors;
	l->copies = g->copies;
	l->copy = calloc(l->sectors * l->copies, sizeof *l->copy);
	CHECK(l->copy);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		uint64_t n = w->disk[i].p.size_bytes / RAID_SECTOR_BYTES;

		l->sector[i] = malloc(n * sizeof(uint32_t));
		CHECK(l->sector[i]);
		memset(l->sector[i], 0xff, n * sizeof(uint32_t));
	}
	for (uint64_t addr = 0; addr < l->sectors * RAID_SECTOR_BYTES; addr += len) {
		struct geo_piece piece;

		geo_map(g, addr, l->sectors * RAID_SECTOR_BYTES - addr, &piece);
		len = piece.len;
		CHECK(len > 0 && len % RAID_SECTOR_BYTES == 0 && piece.copies == l->copies);
		for (uint64_t at = 0; at < len; at += RAID_SECTOR_BYTES) {
			uint64_t s = (addr + at) / RAID_SECTOR_BYTES;

			for (uint32_t i = 0; i < piece.copies; i++) {
				uint32_t d = piece.copy[i].slot;
				uint64_t maddr = piece.copy[i].maddr + at;

				l->copy[s * l->copies + i].disk = d;
				l->copy[s * l->copies + i].maddr = maddr;
				if (maddr + RAID_SECTOR_BYTES > w->disk[d].p.size_bytes ||
				    l->sector[d][maddr / RAID_SECTOR_BYTES] != LAYOUT_NONE) {
					sim_fail("the map puts two sectors into one place, or one "
						 "outside a member: array sector %llu",
						 (unsigned long long)s);
				}
				l->sector[d][maddr / RAID_SECTOR_BYTES] = (uint32_t)s;
			}
		}
	}
}

/* Copies are equal if the array was created so, else each has its own bytes. */
static void fill_data(struct world *w)
{
	const struct layout *l = &w->layout;
	bool equal = w->plan.assume_clean || l->copies == 1;
	uint8_t data[RAID_SECTOR_BYTES];

	oracle_init(&w->oracle, l->sectors);
	for (uint64_t s = 0; s < l->sectors; s++) {
		for (uint32_t i = 0; i < l->copies; i++) {
			uint32_t d = l->copy[s * l->copies + i].disk;
			uint64_t maddr = l->copy[s * l->copies + i].maddr;

			if (i == 0 || !equal) {
				prng_fill(&w->rng, data, sizeof data);
				oracle_add_initial(&w->oracle, s, data);
			}
			disk_poke(&w->disk[d], maddr, data, sizeof data);
			if (w->listed[d][maddr / RAID_SECTOR_BYTES]) {
				uint8_t stale[RAID_SECTOR_BYTES];

				memset(stale, 0xBB, sizeof stale);
				disk_poke(&w->disk[d], maddr, stale, sizeof stale);
			}
		}
	}
}

void world_init(struct world *w, const struct plan *plan, uint64_t seed)
{
	bool all[PLAN_DISKS_MAX];
	struct assembly *as = calloc(1, sizeof *as);

	CHECK(as);
	if (!w->candidate) {
		w->candidate = calloc(PLAN_DISKS_MAX, sizeof *w->candidate);
		w->assembly = calloc(1, sizeof *w->assembly);
		CHECK(w->candidate && w->assembly);
	}
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
	for (uint32_t i = 0; i < plan->disks; i++) {
		disk_init(&w->disk[i], &plan->disk[i]);
		w->listed[i] = calloc(plan->disk[i].size_bytes / RAID_SECTOR_BYTES, 1);
		CHECK(w->listed[i]);
		all[i] = true;
	}
	write_metadata(w);
	session_judge(w, all, as);
	if (as->decision != ASM_START) {
		sim_fail("a new array does not assemble: %s", as->why);
	}
	w->geometry = as->geometry;
	init_layout(w, as);
	fill_data(w);
	w->immune = calloc(w->layout.sectors, 1);
	w->troubled = calloc(w->layout.sectors, 1);
	CHECK(w->immune && w->troubled);
	free(as);
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
		free(w->layout.sector[i]);
	}
	free(w->layout.copy);
	free(w->immune);
	free(w->troubled);
	oracle_free(&w->oracle);
	clock_free(&w->clock);
}
