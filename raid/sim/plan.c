/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/plan.h"

#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/geometry.h"
#include "raid/sim/clock.h"

static const char *const profile_name[PLAN_PROFILES] = {
	[PLAN_ANY] = "any",	    [PLAN_CALM] = "calm",     [PLAN_FAULTS] = "faults",
	[PLAN_MINIMAL] = "minimal", [PLAN_BEYOND] = "beyond",
};

const char *plan_profile_name(enum plan_profile p)
{
	return profile_name[p];
}

enum plan_profile plan_profile_parse(const char *name)
{
	int p = 0;

	while (p < PLAN_PROFILES && strcmp(name, profile_name[p]) != 0) {
		p++;
	}
	return (enum plan_profile)p;
}

static enum plan_profile draw_profile(struct prng *rng)
{
	static const uint32_t weights[PLAN_PROFILES] = {
		[PLAN_CALM] = 15,
		[PLAN_FAULTS] = 50,
		[PLAN_MINIMAL] = 20,
		[PLAN_BEYOND] = 15,
	};

	return (enum plan_profile)prng_weighted(rng, weights, PLAN_PROFILES);
}

static bool is_legal(const struct plan *p)
{
	struct geo_params params = {
		.level = p->level,
		.layout = p->layout,
		.chunk_sectors = p->chunk_sectors,
		.slots = p->slots,
		.component_sectors = 1 << 20,
	};
	char why[RAID_WHY_BYTES];
	struct geometry g;

	return geo_init(&g, &params, why) == 0;
}

static void draw_raid10(struct plan *p, struct prng *rng)
{
	p->slots = (uint32_t)prng_range(rng, 2, 6);
	do {
		uint32_t near = (uint32_t)prng_range(rng, 1, 3);
		uint32_t far = (uint32_t)prng_range(rng, 1, 3);
		uint32_t offset = far > 1 ? (uint32_t)prng_below(rng, 2) : 0;

		p->layout = near | far << 8 | offset << 16;
	} while (p->layout == 0x101 || !is_legal(p));
}

static void draw_parity(struct plan *p, struct prng *rng, uint32_t chunk)
{
	static const uint32_t layouts6[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};
	uint32_t kind = (uint32_t)prng_below(rng, 10);

	p->level = kind == 0 ? RAID_LEVEL_4 : kind < 6 ? RAID_LEVEL_5 : RAID_LEVEL_6;
	p->chunk_sectors = chunk;
	do {
		p->slots = (uint32_t)(p->level == RAID_LEVEL_6 ? prng_range(rng, 3, 7)
							       : prng_range(rng, 2, 6));
		p->layout = p->level == RAID_LEVEL_4   ? 0
			    : p->level == RAID_LEVEL_5 ? (uint32_t)prng_below(rng, 6)
						       : layouts6[prng_below(rng, 14)];
		p->layout = prng_one_in(rng, 2) && p->level != RAID_LEVEL_4 ? 2 : p->layout;
	} while (!is_legal(p));
}

static void draw_shape(struct plan *p, struct prng *rng)
{
	static const uint32_t weights[] = {4, 8, 20, 20, 48};
	static const uint32_t chunks[] = {8, 16, 32, 128};
	static const enum sb_version versions[] = {SB_V1_0, SB_V1_1, SB_V1_2, SB_V1_2};
	uint32_t chunk = chunks[prng_below(rng, 4)];

	p->version = versions[prng_below(rng, 4)];
	switch (prng_weighted(rng, weights, 5)) {
	case 0:
		p->level = RAID_LEVEL_LINEAR;
		p->slots = (uint32_t)prng_range(rng, 1, 4);
		p->chunk_sectors = prng_one_in(rng, 2) ? chunk : 0;
		break;
	case 1:
		p->level = RAID_LEVEL_0;
		p->slots = (uint32_t)prng_range(rng, 2, 5);
		p->chunk_sectors = prng_one_in(rng, 4) ? 24 : chunk;
		p->layout = (uint32_t)prng_range(rng, GEO_RAID0_ORIGINAL, GEO_RAID0_ALTERNATE);
		break;
	case 2:
		p->level = RAID_LEVEL_1;
		p->slots = (uint32_t)(prng_one_in(rng, 12) ? prng_range(rng, 5, 8)
							   : prng_range(rng, 2, 4));
		break;
	case 3:
		p->level = RAID_LEVEL_10;
		p->chunk_sectors = chunk;
		draw_raid10(p, rng);
		break;
	default:
		draw_parity(p, rng, chunk);
		break;
	}
	p->assume_clean = !prng_one_in(rng, 7);
	p->shuffle_dev_numbers = prng_one_in(rng, 3);
	p->max_dev = prng_one_in(rng, 8) ? 384 : 0;
	if (p->level < RAID_LEVEL_1) {
		return;
	}
	p->bitmap = prng_one_in(rng, 2);
	p->tight_table = !p->max_dev && prng_one_in(rng, 4);
	p->devflags = prng_one_in(rng, 6) ? (uint8_t)prng_range(rng, 1, 3) : 0;
	p->bitmap_chunk_bytes = prng_one_in(rng, 4) ? 0 : (uint32_t)(4096 << prng_below(rng, 5));
	if (!p->max_dev && prng_one_in(rng, 2)) {
		p->spares = prng_one_in(rng, 3) ? (uint32_t)prng_range(rng, 1, 2) : 0;
		p->blanks = (uint32_t)prng_below(rng, 3);
	}
}

static void draw_disks(struct plan *p, struct prng *rng)
{
	static const uint64_t offsets[] = {32, 64, 64, 128, 256};
	bool equal = prng_one_in(rng, 2), redundant = p->level >= RAID_LEVEL_1;
	/* A chunk for every far copy at least. */
	uint64_t least = (p->level == RAID_LEVEL_10 ? 1 + (p->layout >> 8 & 0xff) : 2) *
			 (uint64_t)p->chunk_sectors;
	uint32_t blocks = (uint32_t)prng_below(rng, 4); /* 0, 1: 512; 2: 4096; 3: mixed */
	bool all_volatile = !prng_one_in(rng, 6);
	uint64_t sectors = prng_log_range(rng, 128, redundant ? 1500 : 3000);

	p->data_offset_sectors = p->version == SB_V1_0 ? 0 : offsets[prng_below(rng, 5)];
	p->disks = p->slots + p->spares + p->blanks;
	if (p->bitmap && p->data_offset_sectors == 32) {
		p->data_offset_sectors = 64;
	}
	for (uint32_t i = 0; i < p->disks; i++) {
		struct disk_params *d = &p->disk[i];
		uint64_t own = equal ? sectors : sectors + prng_below(rng, sectors + 1);

		own = round_up_u64(max_u64(own, least), 8);
		own += i >= p->slots ? sectors + 64 : 0; /* whoever joins later is large enough */
		/* A spare with larger blocks than the others is of no use. */
		d->block = blocks == 2 || (blocks == 3 && i < p->slots && prng_one_in(rng, 2))
				   ? 4096
				   : 512;
		d->size_bytes = (own + p->data_offset_sectors + 72) * RAID_SECTOR_BYTES;
		if (d->block == 512 && prng_one_in(rng, 3)) {
			d->size_bytes += prng_below(rng, 8) * RAID_SECTOR_BYTES;
		}
		d->size_bytes = round_down_u64(d->size_bytes, d->block);
		d->mem_align = prng_one_in(rng, 3) ? 1 : prng_one_in(rng, 2) ? 512 : 4096;
		if (i >= p->slots) {
			d->mem_align = p->disk[0].mem_align;
		}
		d->max_io_bytes = prng_one_in(rng, 2) ? 0 : (uint32_t)(4096 << prng_below(rng, 6));
		d->volatile_cache = all_volatile || prng_one_in(rng, 2);
		d->can_punch = !prng_one_in(rng, 4);
		d->can_zero = !prng_one_in(rng, 3);
		d->rotational = prng_one_in(rng, 3);
	}
	p->bad_list = redundant && p->assume_clean &&
		      (p->level == RAID_LEVEL_1 || p->level == RAID_LEVEL_10) &&
		      prng_one_in(rng, p->profile == PLAN_BEYOND ? 3 : 10);
}

static void draw_load(struct plan *p, struct prng *rng)
{
	struct raid_limits defaults = RAID_LIMITS_DEFAULT;

	p->limits = defaults;
	p->limits.frags = (uint32_t)prng_log_range(rng, 4, 256);
	p->limits.buffer_bytes = (uint64_t)1 << prng_range(rng, 20, 23);
	p->limits.safe_mode_ms = (uint32_t)prng_log_range(rng, 1, 300);
	p->limits.read_deadline_ms = (uint32_t)prng_log_range(rng, 300, 10000);
	p->limits.write_deadline_ms = (uint32_t)prng_log_range(rng, 500, 30000);
	p->limits.read_errors_max = (uint32_t)prng_range(rng, 10, 20);
	p->minimal_limits = p->profile == PLAN_MINIMAL;

	p->rounds = (uint32_t)prng_range(rng, 4, 16);
	p->clients = (uint32_t)prng_range(rng, 1, 5);
	p->depth = (uint32_t)prng_log_range(rng, 1, 16);
	p->weight[RAID_OP_READ] = (uint32_t)prng_range(rng, 10, 100);
	p->weight[RAID_OP_WRITE] = (uint32_t)prng_range(rng, 10, 100);
	p->weight[RAID_OP_FLUSH] = (uint32_t)prng_range(rng, 1, 25);
	p->weight[RAID_OP_TRIM] = (uint32_t)prng_range(rng, 0, 10);
	p->weight[RAID_OP_ZERO] = (uint32_t)prng_range(rng, 0, 10);
	p->weight[RAID_OP_CACHE] = 1;
	p->request_bytes_max = prng_log_range(rng, 4096, 1 << 20);
	p->unaligned_in = (uint32_t)prng_log_range(rng, 1, 16);
	p->hot_in = (uint32_t)prng_log_range(rng, 1, 8);
	p->fua_in = (uint32_t)prng_log_range(rng, 2, 32);
	p->latency_ns = prng_log_range(rng, 10 * 1000, 4 * 1000 * 1000);
	p->batch_max = (uint32_t)prng_log_range(rng, 1, 64);
	p->pause_ns = SIM_MS;
	if (prng_one_in(rng, 5)) { /* long enough for the bitmap to be swept meanwhile */
		p->pause_ns = SIM_S / 2;
		p->limits.safe_mode_ms = 5000;
		p->weight[RAID_OP_FLUSH] = prng_one_in(rng, 2);
		p->fua_in = 100;
	}
	p->actions = p->level >= RAID_LEVEL_1 && !prng_one_in(rng, 3)
			     ? (uint32_t)prng_log_range(rng, 1, 12)
			     : 0;
}

void plan_draw(struct plan *p, enum plan_profile profile, struct prng *rng)
{
	memset(p, 0, sizeof *p);
	p->profile = draw_profile(rng);
	if (profile != PLAN_ANY) {
		p->profile = profile;
	}
	draw_shape(p, rng);
	draw_disks(p, rng);
	draw_load(p, rng);
}

void plan_describe(const struct plan *p, char *out, size_t room)
{
	char layout[32];
	int n = snprintf(
		out, room,
		"%s: %s layout %s (0x%x) chunk %u slots %u metadata 1.%d offset %u%s%s%s%s "
		"spares %u blanks %u bitmap %d/%u; frags %u "
		"buffers %llu safe %u ms deadlines %u/%u ms; %u clients x %u; disks",
		plan_profile_name(p->profile), geo_level_name(p->level),
		geo_layout_name(p->level, p->layout, layout), p->layout, p->chunk_sectors, p->slots,
		(int)p->version, (unsigned)p->data_offset_sectors,
		p->assume_clean ? "" : " unsynced", p->max_dev ? " long-sb" : "",
		p->bad_list ? " bad-list" : "", p->shuffle_dev_numbers ? " shuffled" : "",
		p->spares, p->blanks, p->bitmap, p->bitmap_chunk_bytes, p->limits.frags,
		(unsigned long long)p->limits.buffer_bytes, p->limits.safe_mode_ms,
		p->limits.read_deadline_ms, p->limits.write_deadline_ms, p->clients, p->depth);

	for (uint32_t i = 0; i < p->disks && n > 0 && (size_t)n < room; i++) {
		const struct disk_params *d = &p->disk[i];

		n += snprintf(out + n, room - (size_t)n, " %lluK/%u%s%s%s",
			      (unsigned long long)d->size_bytes / 1024, d->block,
			      d->volatile_cache ? "v" : "", d->can_punch ? "p" : "",
			      d->can_zero ? "z" : "");
	}
}
