/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bad-block log of a member (md-format §14): decode into a sorted list of byte ranges and look
 * ranges up. Pure. Sectors in the log are absolute on the device; here they are bytes.
 */
#ifndef RAID_BADBLOCKS_FMT_H
#define RAID_BADBLOCKS_FMT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/types.h"

enum { BB_ENTRIES_MAX = 512 };

struct bb_range {
	uint64_t maddr, len; /* bytes on the device, data_offset included */
};

struct bb_list {
	uint32_t count;
	struct bb_range range[BB_ENTRIES_MAX]; /* sorted, not overlapping */
};

/* Decode a log of log_bytes (≤ 4096) with unit 1 << shift sectors on a device of dev_sectors.
 * Returns 0 or -EUCLEAN (out of order, overlapping, beyond the device) with the reason in why. */
int bb_decode(const uint8_t *log, uint32_t log_bytes, uint8_t shift, uint64_t dev_sectors,
	      struct bb_list *out, char why[RAID_WHY_BYTES]);

/* First listed range that overlaps [maddr, maddr+len), clipped to it. Returns false if there is
 * none. */
bool bb_find(const struct bb_list *list, uint64_t maddr, uint64_t len, struct bb_range *hit);

#endif
