/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The v1.x superblock: places, checksum, decode, encode (md-format §2, §3, §5).
 *
 * Decoding checks in this order: is it ours at all (magic, version, place), is it whole
 * (checksum), can it be true (everything else). What passes keeps these promises: max_dev ≤
 * SB_ROLES_MAX; data lies inside the device and clear of the superblock; sizes stay below 2^54
 * sectors; the areas that the feature bits in force point at (bitmap, PPL, bad-block log) begin
 * inside the device. Unknown feature bits are handed on: assemble.c names them.
 */
#include "raid/sb.h"

#include <errno.h>
#include <stdio.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/sb_v090.h"

/* Byte offsets. */
enum {
	O_MAGIC = 0,
	O_MAJOR = 4,
	O_FEATURES = 8,
	O_PAD0 = 12,
	O_SET_UUID = 16,
	O_SET_NAME = 32,
	O_CTIME = 64,
	O_LEVEL = 72,
	O_LAYOUT = 76,
	O_SIZE = 80,
	O_CHUNKSIZE = 88,
	O_RAID_DISKS = 92,
	O_BITMAP_OFFSET = 96,
	O_PPL_OFFSET = 96,
	O_PPL_SIZE = 98,
	O_NEW_LEVEL = 100,
	O_RESHAPE_POSITION = 104,
	O_DELTA_DISKS = 112,
	O_NEW_LAYOUT = 116,
	O_NEW_CHUNK = 120,
	O_NEW_OFFSET = 124,
	O_DATA_OFFSET = 128,
	O_DATA_SIZE = 136,
	O_SUPER_OFFSET = 144,
	O_RECOVERY_OFFSET = 152,
	O_DEV_NUMBER = 160,
	O_CNT_CORRECTED_READ = 164,
	O_DEVICE_UUID = 168,
	O_DEVFLAGS = 184,
	O_BBLOG_SHIFT = 185,
	O_BBLOG_SIZE = 186,
	O_BBLOG_OFFSET = 188,
	O_UTIME = 192,
	O_EVENTS = 200,
	O_RESYNC_OFFSET = 208,
	O_CSUM = 216,
	O_MAX_DEV = 220,
	O_LOGICAL_BLOCK = 224,
	O_PAD3 = 228,
	O_ROLES = 256,

	NAME_BYTES = 32,
};

enum {
	MIN_DEV_SECTORS = 24,
	MIN_DATA_SECTORS = 10,
	V090_RESERVED_SECTORS = 128,
	V1_2_SECTOR = 8,
	V1_0_END_SECTORS = 16,
	BBLOG_SECTORS_MAX = 8,
};

#define SIZE_MAX_SECTORS ((uint64_t)1 << 54) /* in bytes it still fits 63 bits */

#define PPL_FEATURES (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS)

static uint64_t v1_0_sector(uint64_t dev_sectors)
{
	return round_down_u64(dev_sectors - V1_0_END_SECTORS, 8);
}

uint32_t sb_locations(uint64_t dev_sectors, struct sb_location out[SB_LOCATIONS_MAX])
{
	uint32_t n = 0;

	if (dev_sectors < MIN_DEV_SECTORS) {
		return 0;
	}
	out[n++] = (struct sb_location){SB_V1_2, V1_2_SECTOR};
	out[n++] = (struct sb_location){SB_V1_1, 0};
	out[n++] = (struct sb_location){SB_V1_0, v1_0_sector(dev_sectors)};
	if (dev_sectors >= V090_RESERVED_SECTORS) {
		out[n++] = (struct sb_location){SB_V0_90,
						round_down_u64(dev_sectors, V090_RESERVED_SECTORS) -
							V090_RESERVED_SECTORS};
	}
	return n;
}

bool sb_grown_location(const struct sb *other, uint64_t dev_sectors, struct sb_location *out)
{
	if (other->version != SB_V1_0 || dev_sectors < MIN_DEV_SECTORS) {
		return false;
	}
	if (other->super_offset >= v1_0_sector(dev_sectors)) {
		return false;
	}
	*out = (struct sb_location){SB_V1_0, other->super_offset};
	return true;
}

static uint32_t sb_bytes(uint32_t max_dev)
{
	return O_ROLES + 2 * max_dev;
}

uint32_t sb_checksum(const uint8_t *buf, uint32_t max_dev)
{
	uint32_t bytes = sb_bytes(max_dev), i;
	uint64_t sum = 0;

	CHECK(max_dev <= SB_ROLES_MAX);
	for (i = 0; i + 4 <= bytes; i += 4) {
		if (i != O_CSUM) {
			sum += get_le32(buf + i);
		}
	}
	if (i < bytes) {
		sum += get_le16(buf + i);
	}
	return (uint32_t)sum + (uint32_t)(sum >> 32);
}

static void take_array_fields(const uint8_t *buf, struct sb *out)
{
	uint64_t ctime = get_le64(buf + O_CTIME);

	out->feature_map = get_le32(buf + O_FEATURES);
	memcpy(out->set_uuid, buf + O_SET_UUID, sizeof out->set_uuid);
	memcpy(out->set_name, buf + O_SET_NAME, NAME_BYTES);
	out->set_name[NAME_BYTES] = '\0';
	out->ctime_s = ctime & ((1ULL << 40) - 1);
	out->ctime_us = (uint32_t)(ctime >> 40);
	out->level = (int32_t)get_le32(buf + O_LEVEL);
	out->layout = get_le32(buf + O_LAYOUT);
	out->size = get_le64(buf + O_SIZE);
	out->chunksize = get_le32(buf + O_CHUNKSIZE);
	out->raid_disks = get_le32(buf + O_RAID_DISKS);
	if (out->feature_map & PPL_FEATURES) {
		out->ppl_offset = (int16_t)get_le16(buf + O_PPL_OFFSET);
		out->ppl_size = get_le16(buf + O_PPL_SIZE);
	} else {
		out->bitmap_offset = (int32_t)get_le32(buf + O_BITMAP_OFFSET);
	}
	out->new_level = get_le32(buf + O_NEW_LEVEL);
	out->reshape_position = get_le64(buf + O_RESHAPE_POSITION);
	out->delta_disks = (int32_t)get_le32(buf + O_DELTA_DISKS);
	out->new_layout = get_le32(buf + O_NEW_LAYOUT);
	out->new_chunk = get_le32(buf + O_NEW_CHUNK);
	out->new_offset = (int32_t)get_le32(buf + O_NEW_OFFSET);
}

static void take_member_fields(const uint8_t *buf, struct sb *out)
{
	uint64_t utime = get_le64(buf + O_UTIME);
	uint32_t i;

	out->data_offset = get_le64(buf + O_DATA_OFFSET);
	out->data_size = get_le64(buf + O_DATA_SIZE);
	out->super_offset = get_le64(buf + O_SUPER_OFFSET);
	out->recovery_offset = get_le64(buf + O_RECOVERY_OFFSET);
	out->dev_number = get_le32(buf + O_DEV_NUMBER);
	out->cnt_corrected_read = get_le32(buf + O_CNT_CORRECTED_READ);
	memcpy(out->device_uuid, buf + O_DEVICE_UUID, sizeof out->device_uuid);
	out->devflags = buf[O_DEVFLAGS];
	out->bblog_shift = buf[O_BBLOG_SHIFT];
	out->bblog_size = get_le16(buf + O_BBLOG_SIZE);
	out->bblog_offset = (int32_t)get_le32(buf + O_BBLOG_OFFSET);
	out->utime_s = utime & ((1ULL << 40) - 1);
	out->utime_us = (uint32_t)(utime >> 40);
	out->events = get_le64(buf + O_EVENTS);
	out->resync_offset = get_le64(buf + O_RESYNC_OFFSET);
	out->sb_csum = get_le32(buf + O_CSUM);
	out->max_dev = get_le32(buf + O_MAX_DEV);
	out->logical_block_size = get_le32(buf + O_LOGICAL_BLOCK);
	for (i = 0; i < SB_ROLES_MAX; i++) {
		out->dev_roles[i] =
			i < out->max_dev ? get_le16(buf + O_ROLES + 2 * i) : SB_ROLE_SPARE;
	}
}

static int impossible(char why[RAID_WHY_BYTES], const char *what, long long value)
{
	snprintf(why, RAID_WHY_BYTES,
		 "superblock is not one this version can use: %s (%lld); mdadm --examine shows it "
		 "all",
		 what, value);
	return -EUCLEAN;
}

static int check_reserved(const uint8_t *buf, char why[RAID_WHY_BYTES])
{
	uint32_t block = get_le32(buf + O_LOGICAL_BLOCK), i;

	if (get_le32(buf + O_PAD0)) {
		return impossible(why, "bytes 12..15 are not zero", get_le32(buf + O_PAD0));
	}
	if (block && (block < 512 || block > 4096 || !is_pow2_u64(block))) {
		return impossible(why, "its logical block size", block);
	}
	for (i = O_PAD3; i < O_ROLES; i++) {
		if (buf[i]) {
			return impossible(why, "a reserved byte is not zero, at", i);
		}
	}
	return 0;
}

static int check_features(const struct sb *sb, char why[RAID_WHY_BYTES])
{
	uint32_t f = sb->feature_map;

	if ((f & SB_FEATURE_PPL) && (f & SB_FEATURE_MULTIPLE_PPLS)) {
		return impossible(why, "two kinds of partial parity log at once, features", f);
	}
	if ((f & PPL_FEATURES) && (f & (SB_FEATURE_BITMAP | SB_FEATURE_JOURNAL))) {
		return impossible(why, "partial parity log with bitmap or journal, features", f);
	}
	if ((f & SB_FEATURE_JOURNAL) && (f & SB_FEATURE_BITMAP)) {
		return impossible(why, "journal with bitmap, features", f);
	}
	if ((f & SB_FEATURE_RAID0_LAYOUT) && sb->level != RAID_LEVEL_0) {
		return impossible(why, "a RAID 0 layout on level", sb->level);
	}
	return 0;
}

/* Is [super_offset + offset, + sectors) on the device? All terms are far below 2^63. */
static bool on_device(const struct sb *sb, uint64_t dev_sectors, int32_t offset, uint32_t sectors)
{
	int64_t at = (int64_t)sb->super_offset + offset;

	return offset != 0 && at >= 0 && (uint64_t)at + sectors <= dev_sectors;
}

static int check_areas(const struct sb *sb, uint64_t dev_sectors, char why[RAID_WHY_BYTES])
{
	const char *what;

	if ((sb->feature_map & SB_FEATURE_BITMAP) &&
	    !on_device(sb, dev_sectors, sb->bitmap_offset, 1)) {
		return impossible(why, "its bitmap is not on the device, offset",
				  sb->bitmap_offset);
	}
	if ((sb->feature_map & SB_FEATURE_BITMAP) &&
	    !sb_room(sb, dev_sectors, sb->bitmap_offset, SB_AREA_BITMAP, &what)) {
		snprintf(why, RAID_WHY_BYTES,
			 "superblock is damaged: it places the bitmap (offset %d sectors) on %s",
			 sb->bitmap_offset, what);
		return -EUCLEAN;
	}
	if ((sb->feature_map & PPL_FEATURES) &&
	    !on_device(sb, dev_sectors, sb->ppl_offset, sb->ppl_size)) {
		return impossible(why, "its partial parity log is not on the device, offset",
				  sb->ppl_offset);
	}
	if (sb->feature_map & SB_FEATURE_BAD_BLOCKS) {
		if (!sb->bblog_size || sb->bblog_size > BBLOG_SECTORS_MAX) {
			return impossible(why, "the size of its bad-block log", sb->bblog_size);
		}
		if (!on_device(sb, dev_sectors, sb->bblog_offset, sb->bblog_size)) {
			return impossible(why, "its bad-block log is not on the device, offset",
					  sb->bblog_offset);
		}
		if (sb_room(sb, dev_sectors, sb->bblog_offset, SB_AREA_BBLOG, &what) <
		    sb->bblog_size) {
			snprintf(why, RAID_WHY_BYTES,
				 "superblock is damaged: it places the bad-block log (offset %d "
				 "sectors) on %s",
				 sb->bblog_offset, what);
			return -EUCLEAN;
		}
	}
	return 0;
}

/* Where data may begin and must end; the superblock never lies in between. */
static int check_data(const struct sb *sb, struct sb_location loc, uint64_t dev_sectors,
		      char why[RAID_WHY_BYTES])
{
	uint64_t end = dev_sectors, begin = 0;
	int64_t moved;

	if (loc.version == SB_V1_0) {
		end = loc.sector;
	} else {
		begin = loc.sector + round_up_u64(sb_bytes(sb->max_dev), 512) / 512;
	}
	if (sb->data_size < MIN_DATA_SECTORS) {
		return impossible(why, "room for data, in sectors", (long long)sb->data_size);
	}
	if (sb->data_offset < begin) {
		return impossible(why, "data begins inside the superblock, at sector",
				  (long long)sb->data_offset);
	}
	if (sb->data_offset > end || sb->data_size > end - sb->data_offset) {
		snprintf(why, RAID_WHY_BYTES,
			 "device is too small: %llu sectors, but its superblock places data up to "
			 "sector %llu + %llu; has it shrunk?",
			 (unsigned long long)dev_sectors, (unsigned long long)sb->data_offset,
			 (unsigned long long)sb->data_size);
		return -EUCLEAN;
	}
	moved = (int64_t)sb->data_offset + sb->new_offset;
	if ((sb->feature_map & SB_FEATURE_NEW_OFFSET) &&
	    (moved < (int64_t)begin || (uint64_t)moved > end)) {
		return impossible(why, "reshape moves the data to sector", moved);
	}
	return 0;
}

static int check_array(const struct sb *sb, char why[RAID_WHY_BYTES])
{
	int64_t old_disks = (int64_t)sb->raid_disks - sb->delta_disks;

	if (!sb->raid_disks || sb->raid_disks > SB_ROLES_MAX) {
		return impossible(why, "number of slots", sb->raid_disks);
	}
	if (sb->size >= SIZE_MAX_SECTORS) {
		return impossible(why, "component size in sectors", (long long)sb->size);
	}
	if ((sb->feature_map & SB_FEATURE_RESHAPE) && (old_disks < 1 || old_disks > SB_ROLES_MAX)) {
		return impossible(why, "number of slots before the reshape", old_disks);
	}
	return 0;
}

static int v1_decode(const uint8_t *buf, struct sb_location loc, uint64_t dev_sectors,
		     struct sb *out, char why[RAID_WHY_BYTES])
{
	uint32_t max_dev = get_le32(buf + O_MAX_DEV);
	int err;

	if (get_le32(buf + O_MAGIC) != SB_MAGIC || get_le32(buf + O_MAJOR) != 1 ||
	    get_le64(buf + O_SUPER_OFFSET) != loc.sector) {
		return -ENOENT;
	}
	if (max_dev > SB_ROLES_MAX) {
		snprintf(why, RAID_WHY_BYTES,
			 "superblock at sector %llu is damaged: it claims a table of %u roles, %u "
			 "are possible",
			 (unsigned long long)loc.sector, max_dev, SB_ROLES_MAX);
		return -EBADMSG;
	}
	if (get_le32(buf + O_CSUM) != sb_checksum(buf, max_dev)) {
		snprintf(why, RAID_WHY_BYTES,
			 "superblock at sector %llu is damaged: checksum is %08x, should be %08x",
			 (unsigned long long)loc.sector, get_le32(buf + O_CSUM),
			 sb_checksum(buf, max_dev));
		return -EBADMSG;
	}
	out->version = loc.version;
	take_array_fields(buf, out);
	take_member_fields(buf, out);
	err = check_reserved(buf, why);
	if (!err) {
		err = check_array(out, why);
	}
	if (!err) {
		err = check_features(out, why);
	}
	if (!err) {
		err = check_data(out, loc, dev_sectors, why);
	}
	if (!err) {
		err = check_areas(out, dev_sectors, why);
	}
	return err;
}

int sb_decode(const uint8_t *buf, struct sb_location loc, uint64_t dev_sectors, struct sb *out,
	      char why[RAID_WHY_BYTES])
{
	memset(out, 0, sizeof *out);
	why[0] = '\0';
	if (loc.version == SB_V0_90) {
		int err = sb_v090_decode(buf, loc, out, why);

		return err ? err : check_array(out, why);
	}
	return v1_decode(buf, loc, dev_sectors, out, why);
}

static void put_array_fields(uint8_t *buf, const struct sb *sb)
{
	put_le32(buf + O_MAGIC, SB_MAGIC);
	put_le32(buf + O_MAJOR, 1);
	put_le32(buf + O_FEATURES, sb->feature_map);
	memcpy(buf + O_SET_UUID, sb->set_uuid, sizeof sb->set_uuid);
	memcpy(buf + O_SET_NAME, sb->set_name, NAME_BYTES);
	put_le64(buf + O_CTIME, sb->ctime_s | (uint64_t)sb->ctime_us << 40);
	put_le32(buf + O_LEVEL, (uint32_t)sb->level);
	put_le32(buf + O_LAYOUT, sb->layout);
	put_le64(buf + O_SIZE, sb->size);
	put_le32(buf + O_CHUNKSIZE, sb->chunksize);
	put_le32(buf + O_RAID_DISKS, sb->raid_disks);
	if (sb->feature_map & PPL_FEATURES) {
		put_le16(buf + O_PPL_OFFSET, (uint16_t)sb->ppl_offset);
		put_le16(buf + O_PPL_SIZE, sb->ppl_size);
	} else {
		put_le32(buf + O_BITMAP_OFFSET, (uint32_t)sb->bitmap_offset);
	}
	put_le32(buf + O_NEW_LEVEL, sb->new_level);
	put_le64(buf + O_RESHAPE_POSITION, sb->reshape_position);
	put_le32(buf + O_DELTA_DISKS, (uint32_t)sb->delta_disks);
	put_le32(buf + O_NEW_LAYOUT, sb->new_layout);
	put_le32(buf + O_NEW_CHUNK, sb->new_chunk);
	put_le32(buf + O_NEW_OFFSET, (uint32_t)sb->new_offset);
}

static void put_member_fields(uint8_t *buf, const struct sb *sb)
{
	uint32_t i;

	put_le64(buf + O_DATA_OFFSET, sb->data_offset);
	put_le64(buf + O_DATA_SIZE, sb->data_size);
	put_le64(buf + O_SUPER_OFFSET, sb->super_offset);
	put_le64(buf + O_RECOVERY_OFFSET, sb->recovery_offset);
	put_le32(buf + O_DEV_NUMBER, sb->dev_number);
	put_le32(buf + O_CNT_CORRECTED_READ, sb->cnt_corrected_read);
	memcpy(buf + O_DEVICE_UUID, sb->device_uuid, sizeof sb->device_uuid);
	buf[O_DEVFLAGS] = sb->devflags;
	buf[O_BBLOG_SHIFT] = sb->bblog_shift;
	put_le16(buf + O_BBLOG_SIZE, sb->bblog_size);
	put_le32(buf + O_BBLOG_OFFSET, (uint32_t)sb->bblog_offset);
	put_le64(buf + O_UTIME, sb->utime_s | (uint64_t)sb->utime_us << 40);
	put_le64(buf + O_EVENTS, sb->events);
	put_le64(buf + O_RESYNC_OFFSET, sb->resync_offset);
	put_le32(buf + O_MAX_DEV, sb->max_dev);
	put_le32(buf + O_LOGICAL_BLOCK, sb->logical_block_size);
	for (i = 0; i < sb->max_dev; i++) {
		put_le16(buf + O_ROLES + 2 * i, sb->dev_roles[i]);
	}
}

uint32_t sb_encode(const struct sb *sb, uint32_t block, uint8_t buf[SB_BYTES_MAX])
{
	CHECK(sb->version <= SB_V1_2);
	CHECK(sb->max_dev <= SB_ROLES_MAX);
	CHECK(is_pow2_u64(block) && block >= 512 && block <= SB_BYTES_MAX);
	CHECK(sb->ctime_s >> 40 == 0 && sb->utime_s >> 40 == 0);
	CHECK(sb->ctime_us >> 24 == 0 && sb->utime_us >> 24 == 0);

	memset(buf, 0, SB_BYTES_MAX);
	put_array_fields(buf, sb);
	put_member_fields(buf, sb);
	put_le32(buf + O_CSUM, sb_checksum(buf, sb->max_dev));
	return (uint32_t)round_up_u64(sb_bytes(sb->max_dev), block);
}

uint16_t sb_own_role(const struct sb *sb)
{
	return sb->dev_number < sb->max_dev ? sb->dev_roles[sb->dev_number] : SB_ROLE_SPARE;
}

uint64_t sb_recovered_sectors(const struct sb *sb)
{
	if (!(sb->feature_map & SB_FEATURE_RECOVERY_OFFSET)) {
		return sb->data_size;
	}
	return sb->recovery_offset <= sb->data_size ? sb->recovery_offset : 0;
}
