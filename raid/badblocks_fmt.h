/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bad-block log of a member (md-format §14): decode into a sorted list of byte ranges, look
 * ranges up, add and take away, encode. Pure. Sectors in the log are absolute on the device; here
 * they are bytes.
 *
 * The log counts in units of 1 << shift sectors. What is listed is listed in whole units: adding
 * widens to them, taking away leaves those that were not written whole. What touches what is added
 * is merged with it, into entries of at most 512 units.
 */
#ifndef RAID_BADBLOCKS_FMT_H
#define RAID_BADBLOCKS_FMT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/sb.h"
#include "raid/types.h"

enum { BB_ENTRIES_MAX = 512, BB_LOG_BYTES = 4096, BB_ENTRY_UNITS_MAX = 512 };

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

/* What a member's log can hold. */
struct bb_shape {
	uint8_t shift;
	uint32_t entries; /* ≤ BB_ENTRIES_MAX */
	uint64_t dev_sectors;
};

/*
 * Of a superblock that sb_decode() has passed. False: the member has no log, or what its superblock
 * calls one lies on something else: a block that cannot be kept good fails the member. A log that
 * was never in force (SB_FEATURE_BAD_BLOCKS) begins with shift 0; its owner writes that to the
 * superblock with the first entry.
 */
bool bb_shape_of(const struct sb *sb, uint64_t dev_sectors, struct bb_shape *out);

/* What an operation did to the list: the log, and SB_FEATURE_BAD_BLOCKS if the list became or
 * ceased to be empty, are to be written. */
enum bb_change { BB_SAME, BB_GREW, BB_SHRANK };

/* [maddr, maddr + len) can no longer be read, or is known to be old. Returns an enum bb_change;
 * -ENOSPC: the log is full (or its units do not reach so far), the list is as it was: fail the
 * member. */
int bb_add(struct bb_list *list, const struct bb_shape *shape, uint64_t maddr, uint64_t len);

/*
 * [maddr, maddr + len) was written well. Returns an enum bb_change; -ENOSPC: an entry would have to
 * be cut in two and the log is full; the list is as it was and says too much.
 */
int bb_remove(struct bb_list *list, const struct bb_shape *shape, uint64_t maddr, uint64_t len);

/* All BB_LOG_BYTES of log are written; the first 8 * entries of them are the member's. */
void bb_encode(const struct bb_list *list, const struct bb_shape *shape, uint8_t log[BB_LOG_BYTES]);

#endif
