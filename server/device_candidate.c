/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the metadata of a member for asm_decide(). Reads only; every failure becomes the
 * candidate's load_err and why.
 */
#include "server/device_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/why.h"

static uint64_t location_bytes(struct sb_location loc)
{
	return loc.sector * RAID_SECTOR_BYTES;
}

static int read_location(const struct member_dev *dev, struct sb_location loc, uint64_t dev_sectors,
			 struct sb *sb, char why[RAID_WHY_BYTES])
{
	uint8_t buf[SB_BYTES_MAX];
	int rc = device_read(dev, location_bytes(loc), buf, sizeof buf);

	if (rc < 0) {
		return why_set(why, rc, "cannot read sector %llu: %s",
			       (unsigned long long)loc.sector, strerror(-rc));
	}
	return sb_decode(buf, loc, dev_sectors, sb, why);
}

static bool newer(const struct sb *a, const struct sb *b)
{
	return a->ctime_s > b->ctime_s || (a->ctime_s == b->ctime_s && a->ctime_us > b->ctime_us);
}

/* A member whose bad-block log cannot be read could hand out listed blocks: not used at all. */
static void load_bad_blocks(const struct member_dev *dev, struct asm_candidate *cand)
{
	const struct sb *sb = &cand->sb;
	uint8_t log[BB_ENTRIES_MAX * 8];
	uint64_t len = (uint64_t)sb->bblog_size * RAID_SECTOR_BYTES;
	int64_t sector = (int64_t)sb->super_offset + sb->bblog_offset;
	int rc;

	memset(&cand->bad, 0, sizeof cand->bad);
	if (!(sb->feature_map & SB_FEATURE_BAD_BLOCKS)) {
		return;
	}
	if (!len || len > sizeof log || sector < 0 || (uint64_t)sector >= cand->dev_sectors) {
		cand->load_err = why_set(cand->why, -EUCLEAN,
					 "bad blocks are recorded, but the superblock gives "
					 "their log an impossible place (%lld, %u sectors)",
					 (long long)sector, sb->bblog_size);
		return;
	}
	rc = device_read(dev, (uint64_t)sector * RAID_SECTOR_BYTES, log, (uint32_t)len);
	if (rc < 0) {
		cand->load_err =
			why_set(cand->why, rc, "cannot read the bad-block log: %s", strerror(-rc));
	} else {
		cand->load_err = bb_decode(log, (uint32_t)len, sb->bblog_shift, cand->dev_sectors,
					   &cand->bad, cand->why);
	}
}

/* Whether the array can do without this copy, asm_decide() says. */
static void load_bitmap_header(const struct member_dev *dev, struct asm_candidate *cand)
{
	const struct sb *sb = &cand->sb;
	int64_t sector = (int64_t)sb->super_offset + sb->bitmap_offset;

	memset(&cand->bitmap, 0, sizeof cand->bitmap);
	if (!(sb->feature_map & SB_FEATURE_BITMAP)) {
		return;
	}
	cand->bitmap.err = sector < 0
				   ? -EUCLEAN
				   : device_read(dev, (uint64_t)sector * RAID_SECTOR_BYTES,
						 cand->bitmap.header, sizeof cand->bitmap.header);
}

static void load_areas(const struct member_dev *dev, struct asm_candidate *cand)
{
	load_bad_blocks(dev, cand);
	load_bitmap_header(dev, cand);
}

int device_read_bitmap(const struct member_dev *dev, const struct asm_bitmap *bitmap, uint8_t *bits)
{
	uint64_t maddr = bitmap->at_sector * RAID_SECTOR_BYTES + BM_HEADER_BYTES;
	uint64_t len = device_bitmap_bytes(bitmap), at, n;
	int rc = 0;

	for (at = 0; at < len && rc == 0; at += n) {
		n = min_u64(len - at, 64 << 10);
		rc = device_read(dev, maddr + at, bits + at, (uint32_t)n);
	}
	return rc;
}

uint64_t device_bitmap_bytes(const struct asm_bitmap *bitmap)
{
	return bm_area_bytes(bitmap->bits) - BM_HEADER_BYTES;
}

void device_candidate(const struct member_dev *dev, struct asm_candidate *cand)
{
	struct sb_location loc[SB_LOCATIONS_MAX];
	uint32_t count;
	bool have = false;

	memset(cand, 0, sizeof *cand);
	cand->name = dev->path;
	cand->dev_sectors = dev->props.size_bytes / RAID_SECTOR_BYTES;
	cand->load_err = why_set(cand->why, -ENOENT, "no md superblock");
	count = sb_locations(cand->dev_sectors, loc);
	for (uint32_t i = 0; i < count; i++) {
		char why[RAID_WHY_BYTES] = "";
		struct sb sb;
		int rc = read_location(dev, loc[i], cand->dev_sectors, &sb, why);

		if (rc == 0 && (!have || newer(&sb, &cand->sb))) {
			cand->sb = sb;
			cand->load_err = 0;
			cand->why[0] = '\0';
			have = true;
		} else if (rc != 0 && rc != -ENOENT && cand->load_err == -ENOENT) {
			cand->load_err = rc;
			memcpy(cand->why, why, sizeof why);
		}
	}
	if (have) {
		load_areas(dev, cand);
	}
}

int device_wipe_superblocks(const struct member_dev *dev)
{
	static const uint8_t zeroes[SB_BYTES_MAX];
	uint64_t dev_sectors = dev->props.size_bytes / RAID_SECTOR_BYTES;
	struct sb_location loc[SB_LOCATIONS_MAX];
	uint32_t count = sb_locations(dev_sectors, loc);
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		char why[RAID_WHY_BYTES];
		struct sb sb;

		rc = read_location(dev, loc[i], dev_sectors, &sb, why);
		if (rc == -ENOENT) {
			rc = 0; /* nothing that looks like one; damaged ones go too */
		} else if (rc != -EIO && rc != -ENOMEM) {
			rc = device_write(dev, location_bytes(loc[i]), zeroes, sizeof zeroes);
		}
	}
	return rc ? rc : device_flush(dev);
}

bool device_is_absent(int rc)
{
	return rc == -ENOENT || rc == -ENXIO || rc == -ENODEV || rc == -EIO;
}

void device_absent_candidate(const char *path, int rc, const char why[RAID_WHY_BYTES],
			     struct asm_candidate *cand)
{
	memset(cand, 0, sizeof *cand);
	cand->name = path;
	cand->load_err = rc == -ENOENT ? -ENODEV : rc; /* ENOENT means no superblock */
	snprintf(cand->why, sizeof cand->why, "%s", why);
}

/* Sectors a device must have at least to hold the member as a sibling describes it. */
static uint64_t wanted_sectors(const struct sb *sibling)
{
	uint64_t data = sibling->size ? sibling->size : sibling->data_size;

	return sibling->data_offset + data;
}

static bool look_where_it_was(const struct member_dev *dev, const struct sb *sibling,
			      struct asm_candidate *cand)
{
	struct sb_location loc, end[SB_LOCATIONS_MAX];
	char why[RAID_WHY_BYTES];
	struct sb sb;
	uint32_t count;

	if (!sb_grown_location(sibling, cand->dev_sectors, &loc) ||
	    read_location(dev, loc, cand->dev_sectors, &sb, why) != 0 ||
	    memcmp(sb.set_uuid, sibling->set_uuid, sizeof sb.set_uuid) != 0) {
		return false;
	}
	count = sb_locations(cand->dev_sectors, end);
	for (uint32_t i = 0; i < count; i++) {
		if (end[i].version == loc.version && end[i].sector > loc.sector) {
			cand->grown_bytes = (end[i].sector - loc.sector) * RAID_SECTOR_BYTES;
		}
	}
	cand->sb = sb;
	cand->load_err = 0;
	cand->why[0] = '\0';
	load_areas(dev, cand);
	return true;
}

void device_grown_candidates(const struct member_dev *dev, uint32_t count,
			     struct asm_candidate *cand)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < count && cand[i].load_err == -ENOENT; k++) {
			const struct sb *sibling = &cand[k].sb;

			if (cand[k].load_err || cand[k].grown_bytes ||
			    sibling->version != SB_V1_0) {
				continue;
			}
			if (look_where_it_was(&dev[i], sibling, &cand[i])) {
				break;
			}
			if (cand[i].dev_sectors < wanted_sectors(sibling)) {
				snprintf(cand[i].why, sizeof cand[i].why,
					 "no md superblock; it is %llu bytes long, a member like "
					 "%.80s needs more than %llu: was it cut short?",
					 (unsigned long long)dev[i].props.size_bytes, cand[k].name,
					 (unsigned long long)wanted_sectors(sibling) *
						 RAID_SECTOR_BYTES);
			}
		}
	}
}
