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
	bool assume_clean;	      /* redundant levels: resync_offset MAX instead of 0 */
	uint8_t set_uuid[16];
	uint64_t ctime_s;
	uint32_t slots;
	struct {
		bool missing;
		uint64_t dev_sectors;
		uint32_t logical_block;
		uint8_t device_uuid[16];
	} slot[RAID_SLOTS_MAX];
};

struct create_plan {
	uint64_t array_sectors;
	uint64_t component_sectors;   /* 0 for linear and RAID 0 */
	struct sb sb[RAID_SLOTS_MAX]; /* for the slots that are not missing */
};

/*
 * Returns 0; -EINVAL (impossible wish), -ENOSPC (a device too small), -ENOTSUP; why says which and
 * why. One slot is legal for linear, RAID 0 and 1: whether that is meant, the caller asks. Slots
 * are counted from 0 in why: slot k is the k-th device on the command line.
 */
int create_plan(const struct create_params *p, struct create_plan *out, char why[RAID_WHY_BYTES]);

#endif
