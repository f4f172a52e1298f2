/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the user asks of a new array: can it be, and what is meant where nothing is said? Whether
 * the wishes go together, the geometry says later.
 */
#include "raid/create_impl.h"

#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/geometry.h"
#include "raid/why.h"

enum {
	DEFAULT_CHUNK = 128, /* what NBD clients send fills whole rows; mdadm's is 1024 */
	CHUNK_MIN = 8,
	DEVICE_MIN = 24,
	RAID10_NEAR_2 = 0x102,
	PARITY_LEFT_SYMMETRIC = 2,
};

static int check_device(const struct create_params *p, uint32_t k, char *why)
{
	uint32_t block = p->dev[k].logical_block;
	char place[24];

	if (block < 512 || block > 4096 || !is_pow2_u64(block)) {
		return why_set(why, -EINVAL,
			       "%s: a logical block of %u bytes cannot be used: 512 to 4096",
			       create_place_name(p, k, place), block);
	}
	if (p->dev[k].dev_sectors < DEVICE_MIN) {
		return why_set(why, -ENOSPC, "%s: a device of %llu sectors is too small",
			       create_place_name(p, k, place),
			       (unsigned long long)p->dev[k].dev_sectors);
	}
	if (p->dev[k].devflags && !create_has_component(p)) {
		return why_set(why, -EINVAL,
			       "%s: write-mostly and failfast need a level with redundancy",
			       create_place_name(p, k, place));
	}
	return 0;
}

static int check_devices(const struct create_params *p, char *why)
{
	uint32_t present = 0;
	int err;

	if (!p->slots || p->slots > RAID_SLOTS_MAX) {
		return why_set(why, -EINVAL, "%u slots: 1 to %d are possible", p->slots,
			       RAID_SLOTS_MAX);
	}
	if (p->spares >= RAID_MEMBERS_MAX - p->slots) {
		return why_set(why, -EINVAL, "%u spares beside %u slots: %u are possible",
			       p->spares, p->slots, RAID_MEMBERS_MAX - p->slots - 1);
	}
	if (p->spares && !create_has_component(p)) {
		return why_set(why, -EINVAL, "%s has no redundancy: a spare could not help it",
			       geo_level_name(p->level));
	}
	for (uint32_t k = 0; k < create_devices(p); k++) {
		if (p->dev[k].missing) {
			continue;
		}
		present += k < p->slots;
		err = check_device(p, k, why);
		if (err) {
			return err;
		}
	}
	if (!present) {
		return why_set(why, -EINVAL, "all devices are missing: at least one is needed");
	}
	if (!create_has_component(p) && present < p->slots) {
		return why_set(why, -EINVAL, "%s cannot do without a device: none may be missing",
			       geo_level_name(p->level));
	}
	return 0;
}

static int choose_chunk(struct create_work *plan)
{
	const struct create_params *p = plan->p;
	bool optional = p->level == RAID_LEVEL_LINEAR;

	if (p->level == RAID_LEVEL_1) {
		if (p->chunk_sectors) {
			return why_set(plan->why, -EINVAL, "raid1 has no chunk");
		}
		return 0;
	}
	plan->chunk = p->chunk_sectors || optional ? p->chunk_sectors : DEFAULT_CHUNK;
	if (plan->chunk && plan->chunk < CHUNK_MIN) {
		return why_set(plan->why, -EINVAL, "chunk of %u bytes: at least 4 KiB is needed",
			       plan->chunk * RAID_SECTOR_BYTES);
	}
	for (uint32_t k = 0; k < create_devices(p); k++) {
		uint32_t block = p->dev[k].logical_block;
		char place[24];

		if (!p->dev[k].missing && (uint64_t)plan->chunk * RAID_SECTOR_BYTES % block) {
			return why_set(plan->why, -EINVAL,
				       "chunk of %llu bytes is no multiple of the logical block of "
				       "%s, %u bytes",
				       (unsigned long long)plan->chunk * RAID_SECTOR_BYTES,
				       create_place_name(p, k, place), block);
		}
	}
	return 0;
}

static int choose_layout(struct create_work *plan)
{
	const struct create_params *p = plan->p;

	switch (p->level) {
	case RAID_LEVEL_0:
		plan->layout = p->have_layout ? p->layout : GEO_RAID0_ORIGINAL;
		return 0;
	case RAID_LEVEL_10:
		plan->layout = p->have_layout ? p->layout : RAID10_NEAR_2;
		return 0;
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		plan->layout = p->have_layout ? p->layout : PARITY_LEFT_SYMMETRIC;
		return 0;
	default:
		if (p->have_layout) {
			return why_set(plan->why, -EINVAL, "%s has no layouts",
				       geo_level_name(p->level));
		}
		return 0;
	}
}

int create_check_wishes(struct create_work *plan)
{
	const struct create_params *p = plan->p;
	int err;

	if (p->version != SB_V1_0 && p->version != SB_V1_1 && p->version != SB_V1_2) {
		return why_set(plan->why, -ENOTSUP,
			       "metadata 0.90 is only read: make the array with 1.0, 1.1 or 1.2");
	}
	if (p->size_sectors && !create_has_component(p)) {
		return why_set(plan->why, -EINVAL, "%s uses each device whole: it takes no size",
			       geo_level_name(p->level));
	}
	if (p->bitmap && !create_has_component(p)) {
		return why_set(plan->why, -EINVAL,
			       "%s has no copies that a bitmap could keep equal",
			       geo_level_name(p->level));
	}
	err = check_devices(p, plan->why);
	if (!err) {
		err = choose_chunk(plan);
	}
	if (!err) {
		err = choose_layout(plan);
	}
	return err;
}
