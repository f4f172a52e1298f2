/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layout of a new array, field by field what mdadm 4.2 writes (md-format §6), so that either side
 * can take over the other's arrays and leave the same room for what comes later: a bitmap, a
 * reshape. Only the default chunk is our own.
 *
 * All numbers are sectors. Order of work: data offset (from the first device), component size (from
 * the smallest), who is to be built from whom, one superblock per member, then the bitmap between
 * superblock and bad-block log.
 *
 * The first parity of levels 4 and 5 is made by rebuilding the last slot from the others, reading
 * n-1 devices and writing one in sequence, where a resync would read all and write what differs. A
 * level 6 that lacks one device is built the same way. As with mdadm the device that is built gets
 * the number after all others, as a spare would that takes the slot.
 */
#include "raid/create.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/create_impl.h"
#include "raid/geometry.h"
#include "raid/why.h"

enum {
	RAID1_UNIT = 128, /* RAID 1 has no chunk; its size is rounded to this */
	DATA_MIN = 10,	  /* less is not a valid data_size */
	BBLOG_SECTORS = 8,
	MAX_DEV = 128,		 /* fills one sector; more than RAID_MEMBERS_MAX needs */
	HEADROOM_MAX = 262144,	 /* 128 MiB before the data, for a later reshape */
	DATA_OFFSET_UNIT = 2048, /* 1 MiB */
	DATA_OFFSET_FIXED = 24,	 /* superblock area and bad-block log, in mdadm's reckoning */
	SB_SECTORS = 8,
};

STATIC_CHECK((int)MAX_DEV >= (int)RAID_MEMBERS_MAX, "a number for every device");

const char *create_place_name(const struct create_params *p, uint32_t k, char buf[24])
{
	snprintf(buf, 24, k < p->slots ? "slot %u" : "spare %u", k < p->slots ? k : k - p->slots);
	return buf;
}

/* ---- sizes --------------------------------------------------------------------------------- */

static int choose_data_offset(struct create_work *plan)
{
	const struct create_params *p = plan->p;
	uint64_t dev, headroom = HEADROOM_MAX;
	uint32_t first = 0;

	if (p->version == SB_V1_0) {
		if (p->data_offset_sectors) {
			return why_set(plan->why, -EINVAL,
				       "metadata 1.0 has its data at the begin of the device: it "
				       "takes no data offset");
		}
		return 0;
	}
	if (p->data_offset_sectors) {
		uint64_t min = sb_super_offset(p->version, 0) + SB_SECTORS;

		if (p->data_offset_sectors < min || p->data_offset_sectors % SB_SECTORS) {
			return why_set(
				plan->why, -EINVAL,
				"data offset of %llu sectors: a multiple of 8 from %llu on is "
				"needed",
				(unsigned long long)p->data_offset_sectors,
				(unsigned long long)min);
		}
		plan->data_offset = p->data_offset_sectors;
		return 0;
	}
	while (p->dev[first].missing) {
		first++;
	}
	dev = p->dev[first].dev_sectors;
	/* No more than a thousandth of the device, but two chunks. */
	while (headroom * 1024 > dev && headroom / 2 >= 2 * (uint64_t)plan->chunk) {
		headroom /= 2;
	}
	plan->data_offset = round_up_u64(DATA_OFFSET_FIXED + bm_reserve_sectors(dev) + headroom,
					 DATA_OFFSET_UNIT);
	return 0;
}

/* Sectors for data on a device, before any rounding; 0 if the metadata leaves none. */
static uint64_t available(const struct create_work *plan, uint32_t slot)
{
	uint64_t dev = plan->p->dev[slot].dev_sectors, reserve = BBLOG_SECTORS;

	if (plan->p->version != SB_V1_0) {
		return dev > plan->data_offset ? dev - plan->data_offset : 0;
	}
	if (create_has_component(plan->p)) {
		reserve += bm_reserve_sectors(dev);
	}
	dev = sb_super_offset(plan->p->version, dev);
	return dev > reserve ? dev - reserve : 0;
}

/* Least data a device must hold for the array to have any. */
static uint64_t least_data(const struct create_work *plan)
{
	switch (plan->p->level) {
	case RAID_LEVEL_1:
		return plan->p->size_sectors ? plan->p->size_sectors : RAID1_UNIT;
	case RAID_LEVEL_LINEAR:
	case RAID_LEVEL_0:
		return max_u64(plan->chunk, DATA_MIN);
	default:
		return max_u64(plan->p->size_sectors, plan->chunk);
	}
}

static int choose_sizes(struct create_work *plan)
{
	const struct create_params *p = plan->p;
	uint64_t least = least_data(plan), smallest = UINT64_MAX;

	for (uint32_t k = 0; k < create_devices(p); k++) {
		char place[24];
		uint64_t room;

		if (p->dev[k].missing) {
			continue;
		}
		room = available(plan, k);
		if (room < least) {
			return why_set(plan->why, -ENOSPC,
				       "%s: a device of %llu sectors is too small: beside the "
				       "metadata %llu are left for data, %llu are needed",
				       create_place_name(p, k, place),
				       (unsigned long long)p->dev[k].dev_sectors,
				       (unsigned long long)room, (unsigned long long)least);
		}
		smallest = min_u64(smallest, room);
	}
	if (!create_has_component(p)) {
		return 0;
	}
	plan->component = p->size_sectors ? p->size_sectors : smallest;
	if (p->level != RAID_LEVEL_1) {
		plan->component = round_down_u64(plan->component, plan->chunk);
	} else if (!p->size_sectors) {
		plan->component = round_down_u64(plan->component, RAID1_UNIT);
	}
	if (plan->component < (p->level == RAID_LEVEL_1 ? DATA_MIN : plan->chunk)) {
		return why_set(plan->why, -EINVAL, "a size of %llu sectors is too small",
			       (unsigned long long)p->size_sectors);
	}
	return 0;
}

/* data_size: up to the end of the device, or (1.0) to what is reserved before the superblock. */
static void choose_data_sizes(struct create_work *plan)
{
	const struct create_params *p = plan->p;

	for (uint32_t k = 0; k < create_devices(p); k++) {
		uint64_t dev = p->dev[k].dev_sectors;

		if (p->dev[k].missing) {
			continue;
		}
		plan->data_size[k] = p->version == SB_V1_0
					     ? sb_super_offset(p->version, dev) - BBLOG_SECTORS -
						       bm_reserve_sectors(plan->component)
					     : dev - plan->data_offset;
	}
}

/* ---- the first agreement -------------------------------------------------------------------- */

static void choose_sync(struct create_work *plan)
{
	const struct create_params *p = plan->p;
	uint32_t missing = 0, spare_parity, k;

	plan->sync = CREATE_IN_SYNC;
	if (!create_has_component(p) || p->assume_clean || p->zeroed) {
		return;
	}
	if (!create_has_parity(p)) {
		plan->sync = CREATE_RESYNC;
		return;
	}
	for (k = 0; k < p->slots; k++) {
		missing += p->dev[k].missing;
	}
	spare_parity = (p->level == RAID_LEVEL_6 ? 2u : 1u) - missing;
	if (!missing && p->level == RAID_LEVEL_6) {
		plan->sync = CREATE_RESYNC;
	} else if (spare_parity == 1) {
		plan->sync = CREATE_BUILD;
		plan->build_slot = p->slots - 1;
		plan->build_slot -= p->dev[plan->build_slot].missing;
	}
}

static bool is_built(const struct create_work *plan, uint32_t k)
{
	return plan->sync == CREATE_BUILD && k == plan->build_slot;
}

/* The geometry has the last word on whether the wishes go together, and knows the array's size. */
static int check_geometry(const struct create_work *plan, uint64_t *array_sectors)
{
	const struct create_params *p = plan->p;
	struct geo_params gp = {
		.level = p->level,
		.layout = plan->layout,
		.chunk_sectors = plan->chunk,
		.slots = p->slots,
		.component_sectors = plan->component,
	};
	bool present[RAID_SLOTS_MAX] = {false};
	struct geometry g;
	int err;

	for (uint32_t k = 0; k < p->slots; k++) {
		present[k] = !p->dev[k].missing && !is_built(plan, k);
		if (!p->dev[k].missing) {
			gp.slot[k].data_offset_sectors = plan->data_offset;
			gp.slot[k].data_sectors = plan->data_size[k];
		}
	}
	err = geo_init(&g, &gp, plan->why);
	if (err) {
		return err == -ENOTSUP ? err : -EINVAL;
	}
	if (!geo_enough(&g, present)) {
		return why_set(plan->why, -EINVAL,
			       "too many missing: the devices given do not hold a copy of every "
			       "block");
	}
	*array_sectors = g.array_sectors;
	return 0;
}

/* ---- superblocks --------------------------------------------------------------------------- */

/* bitmap_sectors: what it takes, or what is kept free for one. */
static void place_bblog(const struct create_work *plan, uint64_t bitmap_sectors, struct sb *sb)
{
	uint64_t after_bitmap = SB_SECTORS + bitmap_sectors;
	uint64_t room = sb->data_offset - sb->super_offset; /* 1.1 and 1.2 */

	sb->bblog_size = BBLOG_SECTORS;
	if (plan->p->version == SB_V1_0) {
		sb->bblog_offset = -BBLOG_SECTORS;
	} else if (room >= after_bitmap + BBLOG_SECTORS) {
		sb->bblog_offset = (int32_t)after_bitmap;
	} else if (room >= SB_SECTORS + BBLOG_SECTORS) {
		sb->bblog_offset = (int32_t)room - BBLOG_SECTORS;
	} else {
		sb->bblog_size = 0;
	}
}

/* Record the layout where data sizes differ at all, as mdadm does; older kernels know nothing of
 * the feature and refuse an array that has it. */
static bool record_raid0_layout(const struct create_work *plan)
{
	if (plan->p->level != RAID_LEVEL_0 || plan->layout == GEO_RAID0_UNKNOWN) {
		return false;
	}
	for (uint32_t k = 1; k < plan->p->slots; k++) {
		if (plan->data_size[k] != plan->data_size[0]) {
			return true;
		}
	}
	return false;
}

/* Permanent numbers: in order, but the one that is built comes last. */
static uint32_t dev_number(const struct create_work *plan, uint32_t k)
{
	return is_built(plan, k) ? create_devices(plan->p) : k;
}

static void fill_sb(const struct create_work *plan, uint32_t k, struct sb *sb)
{
	const struct create_params *p = plan->p;

	sb->version = p->version;
	sb->feature_map = record_raid0_layout(plan) ? SB_FEATURE_RAID0_LAYOUT : 0;
	memcpy(sb->set_uuid, p->set_uuid, sizeof sb->set_uuid);
	snprintf(sb->set_name, sizeof sb->set_name, "%s", p->name);
	sb->ctime_s = sb->utime_s = p->ctime_s;
	sb->level = p->level;
	sb->layout = plan->layout;
	sb->size = plan->component;
	sb->chunksize = plan->chunk;
	sb->raid_disks = p->slots;
	sb->data_offset = plan->data_offset;
	sb->data_size = plan->data_size[k];
	sb->super_offset = sb_super_offset(p->version, p->dev[k].dev_sectors);
	sb->dev_number = dev_number(plan, k);
	memcpy(sb->device_uuid, p->dev[k].device_uuid, sizeof sb->device_uuid);
	sb->devflags = p->dev[k].devflags;
	if (is_built(plan, k)) {
		sb->feature_map |= SB_FEATURE_RECOVERY_OFFSET; /* from 0 on */
	}
	sb->resync_offset = plan->sync == CREATE_RESYNC ? 0 : SB_IN_SYNC;
	sb->max_dev = MAX_DEV;
	for (uint32_t i = 0; i < SB_ROLES_MAX; i++) {
		sb->dev_roles[i] = SB_ROLE_SPARE;
	}
	for (uint32_t i = 0; i < p->slots; i++) {
		if (!p->dev[i].missing) {
			sb->dev_roles[dev_number(plan, i)] = (uint16_t)i;
		}
	}
}

/* ---- the bitmap ----------------------------------------------------------------------------- */

static int plan_bitmap(const struct create_work *plan, struct create_plan *out)
{
	const struct create_params *p = plan->p;
	struct bm_ask ask = {
		.sync_size_sectors =
			p->level == RAID_LEVEL_10 ? out->array_sectors : plan->component,
		.chunk_bytes = p->bitmap_chunk_bytes,
		.creating = true,
	};
	struct bm_plan bm;
	int err;

	for (uint32_t k = 0; k < create_devices(p); k++) {
		if (!p->dev[k].missing) {
			ask.sb[ask.members] = &out->sb[k];
			ask.dev_sectors[ask.members++] = p->dev[k].dev_sectors;
		}
	}
	err = bm_place(&ask, &bm, plan->why);
	if (err) {
		return err;
	}
	bm_header_new(&ask, &bm, &out->bitmap);
	out->bitmap_sectors = bm.area_sectors;
	out->bitmap_ones = !p->zeroed;
	for (uint32_t k = 0; k < create_devices(p); k++) {
		struct sb *sb = &out->sb[k];

		if (p->dev[k].missing) {
			continue;
		}
		sb->feature_map |= SB_FEATURE_BITMAP;
		sb->bitmap_offset = bm.offset_sectors;
		if (bm.offset_sectors < 0) { /* the data may go on up to it */
			sb->data_size = sb->super_offset - (uint64_t) - (int64_t)bm.offset_sectors;
		}
	}
	return 0;
}

void create_bitmap_bytes(const struct create_plan *plan, uint64_t at, uint8_t *buf, uint32_t len)
{
	uint8_t header[BM_HEADER_BYTES];

	CHECK(at + len <= (uint64_t)plan->bitmap_sectors * RAID_SECTOR_BYTES);
	memset(buf, plan->bitmap_ones ? 0xff : 0, len);
	if (at < sizeof header) {
		bm_encode(&plan->bitmap, header);
		memcpy(buf, header + at, min_u64(len, sizeof header - at));
	}
}

/* --------------------------------------------------------------------------------------------- */

static void place_bblogs(const struct create_work *plan, struct create_plan *out)
{
	uint64_t bitmap =
		plan->p->bitmap ? out->bitmap_sectors : bm_reserve_sectors(plan->component);

	for (uint32_t k = 0; k < create_devices(plan->p); k++) {
		if (!plan->p->dev[k].missing) {
			place_bblog(plan, bitmap, &out->sb[k]);
		}
	}
}

int create_plan(const struct create_params *p, struct create_plan *out, char why[RAID_WHY_BYTES])
{
	struct create_work plan = {.p = p, .why = why};
	int err;

	memset(out, 0, sizeof *out);
	err = create_check_wishes(&plan);
	if (!err) {
		err = choose_data_offset(&plan);
	}
	if (!err) {
		err = choose_sizes(&plan);
	}
	if (err) {
		return err;
	}
	choose_data_sizes(&plan);
	choose_sync(&plan);
	err = check_geometry(&plan, &out->array_sectors);
	if (err) {
		return err;
	}
	out->component_sectors = plan.component;
	out->sync = plan.sync;
	out->build_slot = plan.build_slot;
	for (uint32_t k = 0; k < create_devices(p); k++) {
		if (!p->dev[k].missing) {
			fill_sb(&plan, k, &out->sb[k]);
		}
	}
	if (p->bitmap) {
		err = plan_bitmap(&plan, out);
		if (err) {
			return err;
		}
	}
	place_bblogs(&plan, out);
	return 0;
}
