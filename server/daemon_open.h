/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an array's configuration to an opened array: which devices to offer. Blocks; nothing is
 * written, and nothing of the daemon's tables is touched.
 */
#ifndef SERVER_DAEMON_OPEN_H
#define SERVER_DAEMON_OPEN_H

#include "server/array_open.h"
#include "server/config.h"

enum { OPEN_LOCK_WAIT_MS = 10000 };

/*
 * Open the members that are named, or found by the array's UUID, and those of its spares that carry
 * its superblock: one of them may hold a slot by now. 0 or -errno with why.
 */
int arrays_open_one(const struct config_array *a, struct array_instance **out,
		    char why[RAID_WHY_BYTES]);

#endif
