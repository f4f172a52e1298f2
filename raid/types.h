/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identifiers and limits shared by the whole engine. No functions.
 *
 * Words: a *member* is a device of an array; its *slot* is its position in the geometry (md: role);
 * its *dev_number* is its permanent index in the superblock's role table. An array of n slots can
 * have fewer members (degraded) or more (spares). "addr" is a byte address in the array, "maddr" a
 * byte address on a member device counted from its first byte (data_offset included).
 * Metadata counts sectors of 512 bytes whatever the device says; the I/O path counts bytes.
 */
#ifndef RAID_TYPES_H
#define RAID_TYPES_H

#include <stdint.h>

enum {
	RAID_SECTOR_BYTES = 512,
	RAID_PAGE_BYTES = 4096,
	RAID_SLOTS_MAX = 64,	/* slots of one array */
	RAID_MEMBERS_MAX = 128, /* devices attached to one array: slots, spares, replacements */
	RAID_COPIES_MAX = 32,	/* copies of one block (RAID 1 of 32) */
	RAID_ZONES_MAX = RAID_SLOTS_MAX, /* zones of a RAID 0 with unequal members */
	RAID_FRAGMENT_BYTES =
		1 << 20, /* largest READ or WRITE fragment of the levels without rows */
	RAID_FRAGMENT_ZERO_BYTES = 64 << 20, /* largest TRIM or ZERO fragment */
	RAID_WHY_BYTES = 256,		     /* room for an explanation to the user, NUL included */
};

#define RAID_NEVER UINT64_MAX /* a time that does not come */

/* As in the superblock (md-format: level is signed). */
enum raid_level {
	RAID_LEVEL_LINEAR = -1,
	RAID_LEVEL_0 = 0,
	RAID_LEVEL_1 = 1,
	RAID_LEVEL_4 = 4,
	RAID_LEVEL_5 = 5,
	RAID_LEVEL_6 = 6,
	RAID_LEVEL_10 = 10,
};

#endif
