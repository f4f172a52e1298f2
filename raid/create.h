/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lay out a new array: from what the user asks and how large the devices are to one superblock per
 * member (md-format §6). Pure: the caller reads sizes, supplies uuids and time, and writes the
 * bytes.
 */
#ifndef RAID_CREATE_H
#define RAID_CREATE_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/bitmap_fmt.h"
#include "raid/sb.h"
#include "raid/types.h"

struct create_params {
	enum raid_level level;
	bool have_layout;
	uint32_t layout;
	uint32_t chunk_sectors;	      /* 0: default (64 KiB for levels that have one) */
	enum sb_version version;      /* 1.0, 1.1, 1.2 */
	char name[33];		      /* set_name as it shall stand, homehost included if wanted */
	uint64_t size_sectors;	      /* wanted component size, 0: as large as fits */
	uint64_t data_offset_sectors; /* 0: as mdadm picks */
	bool assume_clean;	      /* copies and parity are right as they are, says the user */
	bool zeroed;		      /* … for all that is there reads as zeroes */
	bool bitmap;		      /* redundant levels: with a write-intent bitmap … */
	uint32_t bitmap_chunk_bytes;  /* … of this chunk; 0: chosen */
	uint8_t set_uuid[16];
	uint64_t ctime_s;
	uint32_t slots, spares; /* together less than RAID_MEMBERS_MAX */
	struct {
		bool missing;
		uint64_t dev_sectors;
		uint32_t logical_block;
		uint8_t device_uuid[16];
		uint8_t devflags; /* enum sb_devflag */
	} dev[RAID_MEMBERS_MAX];  /* those of the slots, then the spares; a spare is never missing
				   */
};

/* How the members come to agree with each other. */
enum create_sync {
	CREATE_IN_SYNC, /* they do, or there is nothing that could disagree */
	CREATE_RESYNC,	/* resync_offset is 0: copies or parity are made equal */
	CREATE_BUILD,	/* one slot is rebuilt from the others */
};

struct create_plan {
	uint64_t array_sectors;
	uint64_t component_sectors;	/* 0 for linear and RAID 0 */
	struct sb sb[RAID_MEMBERS_MAX]; /* as dev[], for those that are not missing */
	enum create_sync sync;
	uint32_t build_slot; /* CREATE_BUILD */
	/* With params.bitmap: what to write at super_offset + bitmap_offset of every slot's member,
	 * header first, all bits set or none; before the superblock, which says that it is there.
	 */
	struct bm_header bitmap;
	uint32_t bitmap_sectors; /* 0: none */
	bool bitmap_ones;
};

/*
 * Returns 0; -EINVAL (impossible wish), -ENOSPC (a device too small), -ENOTSUP; why says which and
 * why. One slot is legal for linear, RAID 0 and 1: whether that is meant, the caller asks. Slots
 * are counted from 0 in why: slot k is the k-th device on the command line.
 */
int create_plan(const struct create_params *p, struct create_plan *out, char why[RAID_WHY_BYTES]);

/* The bytes at byte `at` of the bitmap area of the plan, len of them. */
void create_bitmap_bytes(const struct create_plan *plan, uint64_t at, uint8_t *buf, uint32_t len);

#endif
