/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metadata 0.90 mapped into struct sb, so that nothing above knows two formats (md-format §16).
 *
 * What the old format lacks is filled in by rule: data begins at sector 0 and ends at the
 * superblock, there is no device uuid (zeroes), no recovery offset (a half-built member is a
 * spare), no record of a RAID 0 layout. The role table is built from the disk descriptors.
 */
#include "raid/sb_v090.h"

#include <errno.h>
#include <stdio.h>

#include "raid/base/bytes.h"

/* Indexes of 32-bit words. */
enum {
	W_MAGIC = 0,
	W_MAJOR = 1,
	W_MINOR = 2,
	W_UUID0 = 5,
	W_CTIME = 6,
	W_LEVEL = 7,
	W_SIZE_KIB = 8,
	W_RAID_DISKS = 10,
	W_UUID1 = 13,
	W_UTIME = 32,
	W_STATE = 33,
	W_CHECKSUM = 38,
	W_EVENTS = 39, /* 64 bits, in the host's order like everything else */
	W_CHECKPOINT_EVENTS = 41,
	W_RECOVERY_CHECKPOINT = 43,
	W_RESHAPE_POSITION = 44,
	W_NEW_LEVEL = 46,
	W_DELTA_DISKS = 47,
	W_NEW_LAYOUT = 48,
	W_NEW_CHUNK_BYTES = 49,
	W_LAYOUT = 64,
	W_CHUNK_BYTES = 65,
	W_DISKS = 128,
	W_THIS_DISK = 992,
	WORDS = 1024,

	DISK_WORDS = 32,
	DISK_NUMBER = 0,
	DISK_SLOT = 3,
	DISK_STATE = 4,
	DISKS = 27,
};

enum { MINOR_PLAIN = 90, MINOR_RESHAPE = 91 };

enum { STATE_CLEAN = 1 << 0, STATE_BITMAP = 1 << 8 };

enum {
	DISK_FAULTY = 1 << 0,
	DISK_ACTIVE = 1 << 1,
	DISK_SYNC = 1 << 2,
	DISK_WRITE_MOSTLY = 1 << 9,
	DISK_FAIL_FAST = 1 << 10,
};

enum { BITMAP_OFFSET_SECTORS = 8 };

struct words {
	const uint8_t *buf;
	bool big_endian;
};

static uint32_t word(const struct words *w, uint32_t i)
{
	const uint8_t *p = w->buf + 4 * i;

	return w->big_endian ? get_be32(p) : get_le32(p);
}

static uint64_t word64(const struct words *w, uint32_t i)
{
	const uint8_t *p = w->buf + 4 * i;

	return w->big_endian ? get_be64(p) : get_le64(p);
}

static uint32_t checksum(const struct words *w)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < WORDS; i++) {
		if (i != W_CHECKSUM) {
			sum += word(w, i);
		}
	}
	return (uint32_t)sum + (uint32_t)(sum >> 32);
}

static uint16_t disk_role(const struct words *w, uint32_t disk)
{
	uint32_t at = W_DISKS + DISK_WORDS * disk;
	uint32_t state = word(w, at + DISK_STATE);
	uint32_t slot = word(w, at + DISK_SLOT);

	if (state & DISK_FAULTY) {
		return SB_ROLE_FAULTY;
	}
	if ((state & DISK_ACTIVE) && (state & DISK_SYNC) && slot <= SB_ROLE_MAX) {
		return (uint16_t)slot;
	}
	return SB_ROLE_SPARE;
}

static uint64_t resync_offset(const struct words *w)
{
	if (word(w, W_STATE) & STATE_CLEAN) {
		return SB_IN_SYNC;
	}
	if (word64(w, W_EVENTS) == word64(w, W_CHECKPOINT_EVENTS)) {
		return word(w, W_RECOVERY_CHECKPOINT);
	}
	return 0;
}

static void take_reshape(const struct words *w, struct sb *out)
{
	if (word(w, W_MINOR) != MINOR_RESHAPE) {
		return;
	}
	out->feature_map |= SB_FEATURE_RESHAPE;
	out->reshape_position = word64(w, W_RESHAPE_POSITION);
	out->new_level = word(w, W_NEW_LEVEL);
	out->delta_disks = (int32_t)word(w, W_DELTA_DISKS);
	out->new_layout = word(w, W_NEW_LAYOUT);
	out->new_chunk = word(w, W_NEW_CHUNK_BYTES) / RAID_SECTOR_BYTES;
}

static void take_disks(const struct words *w, struct sb *out)
{
	uint32_t state = word(w, W_THIS_DISK + DISK_STATE), i;

	out->dev_number = word(w, W_THIS_DISK + DISK_NUMBER);
	if (state & DISK_WRITE_MOSTLY) {
		out->devflags |= SB_DEV_WRITE_MOSTLY;
	}
	if (state & DISK_FAIL_FAST) {
		out->devflags |= SB_DEV_FAIL_FAST;
	}
	out->max_dev = DISKS;
	for (i = 0; i < SB_ROLES_MAX; i++) {
		out->dev_roles[i] = i < DISKS ? disk_role(w, i) : SB_ROLE_SPARE;
	}
}

static void take_fields(const struct words *w, struct sb_location loc, struct sb *out)
{
	uint32_t i;

	out->version = SB_V0_90;
	/* The id is four numbers, printed as such by mdadm: most significant byte first. */
	put_be32(out->set_uuid, word(w, W_UUID0));
	for (i = 0; i < 3; i++) {
		put_be32(out->set_uuid + 4 * (i + 1), word(w, W_UUID1 + i));
	}
	out->ctime_s = word(w, W_CTIME);
	out->level = (int32_t)word(w, W_LEVEL);
	out->layout = word(w, W_LAYOUT);
	/* As in v1: levels without a common component size have none. */
	out->size = out->level > 0 ? 2 * (uint64_t)word(w, W_SIZE_KIB) : 0;
	out->chunksize = word(w, W_CHUNK_BYTES) / RAID_SECTOR_BYTES;
	out->raid_disks = word(w, W_RAID_DISKS);
	if (word(w, W_STATE) & STATE_BITMAP) {
		out->feature_map |= SB_FEATURE_BITMAP;
		out->bitmap_offset = BITMAP_OFFSET_SECTORS;
	}
	out->data_size = loc.sector;
	out->super_offset = loc.sector;
	out->utime_s = word(w, W_UTIME);
	out->events = word64(w, W_EVENTS);
	out->resync_offset = resync_offset(w);
	out->sb_csum = word(w, W_CHECKSUM);
	take_reshape(w, out);
	take_disks(w, out);
}

int sb_v090_decode(const uint8_t *buf, struct sb_location loc, struct sb *out,
		   char why[RAID_WHY_BYTES])
{
	struct words w = {buf, false};
	uint32_t minor;

	if (word(&w, W_MAGIC) != SB_MAGIC) {
		w.big_endian = true;
	}
	minor = word(&w, W_MINOR);
	if (word(&w, W_MAGIC) != SB_MAGIC || word(&w, W_MAJOR) != 0) {
		return -ENOENT;
	}
	if (word(&w, W_CHECKSUM) != checksum(&w)) {
		snprintf(why, RAID_WHY_BYTES,
			 "0.90 superblock at sector %llu is damaged: checksum is %08x, should be "
			 "%08x",
			 (unsigned long long)loc.sector, word(&w, W_CHECKSUM), checksum(&w));
		return -EBADMSG;
	}
	if (minor != MINOR_PLAIN && minor != MINOR_RESHAPE) {
		snprintf(why, RAID_WHY_BYTES,
			 "superblock has version 0.%u; of the old ones only 0.90 can be read",
			 minor);
		return -EUCLEAN;
	}
	if (word(&w, W_CHUNK_BYTES) % RAID_SECTOR_BYTES) {
		snprintf(why, RAID_WHY_BYTES,
			 "0.90 superblock has a chunk of %u bytes, not a multiple of 512",
			 word(&w, W_CHUNK_BYTES));
		return -EUCLEAN;
	}
	take_fields(&w, loc, out);
	return 0;
}
