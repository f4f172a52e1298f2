/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The md superblock: v1.0, 1.1, 1.2 read and written, v0.90 read (md-format §2..§5, §16).
 * Pure: bytes in memory to a struct and back; nothing here decides what a member is good for
 * (assemble.h does) and nothing reads a device.
 *
 * A superblock comes from a disk and may say anything: sb_decode() validates every field it
 * hands on, so that arithmetic on a decoded superblock cannot overflow or leave the device.
 */
#ifndef RAID_SB_H
#define RAID_SB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raid/types.h"

enum {
	SB_MAGIC = 0xA92B4EFC,
	SB_BYTES_MAX = 4096,
	SB_HEAD_BYTES = 256, /* the role table follows */
	SB_ROLES_MAX = 1920,
	SB_LOCATIONS_MAX = 4,
};

/* feature_map bits (md-format §4). */
enum sb_feature {
	SB_FEATURE_BITMAP = 0x1,
	SB_FEATURE_RECOVERY_OFFSET = 0x2,
	SB_FEATURE_RESHAPE = 0x4,
	SB_FEATURE_BAD_BLOCKS = 0x8,
	SB_FEATURE_REPLACEMENT = 0x10,
	SB_FEATURE_RESHAPE_BACKWARDS = 0x20,
	SB_FEATURE_NEW_OFFSET = 0x40,
	SB_FEATURE_RECOVERY_BITMAP = 0x80,
	SB_FEATURE_CLUSTERED = 0x100,
	SB_FEATURE_JOURNAL = 0x200,
	SB_FEATURE_PPL = 0x400,
	SB_FEATURE_MULTIPLE_PPLS = 0x800,
	SB_FEATURE_RAID0_LAYOUT = 0x1000,
	SB_FEATURE_ALL = 0x1fff,
};

enum sb_role {
	SB_ROLE_MAX = 0xFEFF, /* highest slot number */
	SB_ROLE_JOURNAL = 0xFFFD,
	SB_ROLE_FAULTY = 0xFFFE,
	SB_ROLE_SPARE = 0xFFFF, /* spare or unused */
};

enum sb_version { SB_V1_0 = 0, SB_V1_1 = 1, SB_V1_2 = 2, SB_V0_90 = 90 };

enum sb_devflag { SB_DEV_WRITE_MOSTLY = 1, SB_DEV_FAIL_FAST = 2 };

#define SB_IN_SYNC UINT64_MAX /* resync_offset: clean */

/* All fields of md-format §3 in host order, units as there (sectors). */
struct sb {
	enum sb_version version;
	uint32_t feature_map;
	uint8_t set_uuid[16];
	char set_name[33]; /* NUL terminated; bytes as on disk */
	uint64_t ctime_s;  /* low 40 bits */
	uint32_t ctime_us; /* high 24 bits */
	int32_t level;
	uint32_t layout;
	uint64_t size;
	uint32_t chunksize;
	uint32_t raid_disks;
	int32_t bitmap_offset; /* with SB_FEATURE_BITMAP */
	int16_t ppl_offset;    /* with SB_FEATURE_PPL or MULTIPLE_PPLS */
	uint16_t ppl_size;
	uint32_t new_level;
	uint64_t reshape_position;
	int32_t delta_disks;
	uint32_t new_layout;
	uint32_t new_chunk;
	int32_t new_offset;
	uint64_t data_offset;
	uint64_t data_size;
	uint64_t super_offset;
	uint64_t recovery_offset; /* journal device: journal_tail */
	uint32_t dev_number;
	uint32_t cnt_corrected_read;
	uint8_t device_uuid[16];
	uint8_t devflags;
	uint8_t bblog_shift;
	uint16_t bblog_size;
	int32_t bblog_offset;
	uint64_t utime_s;
	uint32_t utime_us;
	uint64_t events;
	uint64_t resync_offset;
	uint32_t sb_csum; /* as read */
	uint32_t max_dev;
	uint32_t logical_block_size; /* byte 224: 0, or 512..4096, kept as read */
	uint16_t dev_roles[SB_ROLES_MAX];
};

/* Where a superblock of a device of dev_sectors may lie, most usual first. Returns how many. */
struct sb_location {
	enum sb_version version;
	uint64_t sector; /* read SB_BYTES_MAX bytes here */
};
uint32_t sb_locations(uint64_t dev_sectors, struct sb_location out[SB_LOCATIONS_MAX]);

/*
 * Decode SB_BYTES_MAX bytes read at loc of a device of dev_sectors.
 * Returns 0; -ENOENT: no superblock here (no magic, other version, super_offset names another
 * place); -EBADMSG: there is one, and its checksum is wrong; -EUCLEAN: checksum right, contents
 * impossible or beyond what this version knows. why explains the last two. Unknown feature bits are
 * no error here: they are handed on, and asm_decide() refuses the array by their name.
 */
int sb_decode(const uint8_t *buf, struct sb_location loc, uint64_t dev_sectors, struct sb *out,
	      char why[RAID_WHY_BYTES]);

/*
 * A file that grew has its 1.0 superblock where it used to end. Given the first bytes nothing can
 * tell; given a superblock of any member of the array, sb_grown_location() says where this member's
 * own would be (data_size implies it). Returns false if there is no such place on the device.
 */
bool sb_grown_location(const struct sb *other, uint64_t dev_sectors, struct sb_location *out);

/* Encode a v1.x superblock; checksum set. Returns its length rounded up to block (a member's
 * logical block, 512..4096); the rest of buf is zero. */
uint32_t sb_encode(const struct sb *sb, uint32_t block, uint8_t buf[SB_BYTES_MAX]);

/* md-format §5 over an encoded superblock. */
uint32_t sb_checksum(const uint8_t *buf, uint32_t max_dev);

/* What takes room beside the data and can be placed. */
enum sb_area { SB_AREA_BITMAP, SB_AREA_PPL, SB_AREA_BBLOG };

/*
 * Sectors that area could have at super_offset + offset: up to what comes next on the device
 * (superblock, data, another area, the end), 0 if the place is taken or not on the device. A
 * bitmap's length is not in the superblock: it is in nobody's way here. next, if not NULL, is told
 * what ends the room, in words. For superblocks whose data lies on the device (sb_decode() checks
 * that).
 */
uint64_t sb_room(const struct sb *sb, uint64_t dev_sectors, int64_t offset, enum sb_area area,
		 const char **next);

/* What a member says of itself: dev_roles[dev_number], SB_ROLE_SPARE if dev_number ≥ max_dev. */
uint16_t sb_own_role(const struct sb *sb);

/*
 * Sectors of its data, from data_offset on, that a member in a slot holds already: all of
 * data_size, or with SB_FEATURE_RECOVERY_OFFSET up to that. A mark beyond the data says nothing: 0.
 * With SB_FEATURE_RECOVERY_BITMAP the rest, too, is good where the bitmap has no bit.
 */
uint64_t sb_recovered_sectors(const struct sb *sb);

/* Where the superblock of a device goes (not 0.90), in sectors. */
uint64_t sb_super_offset(enum sb_version version, uint64_t dev_sectors);

/* 1.0, 1.1, 1.2, 0.90 */
const char *sb_version_name(enum sb_version version);

/* Name of the lowest bit of a feature mask in mdadm's words ("bitmap", "reshape", …). */
const char *sb_feature_name(uint32_t mask);

/* xxxxxxxx:xxxxxxxx:xxxxxxxx:xxxxxxxx; parse accepts that and the dashed form, returns 0 or
 * -EINVAL. */
const char *sb_uuid_text(const uint8_t uuid[16], char buf[37]);
int sb_uuid_parse(const char *text, uint8_t uuid[16]);

#endif
