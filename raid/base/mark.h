/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage marks: MARK(name) says "the simulator must get here".
 *
 * Built with -DRAID_MARKS (raid-sim) each mark owns a counter in a linker section, so that the
 * soak can list every mark of the program, reached or not, and fail on an unreached one. In
 * other builds a mark is nothing. Put one on every transition of a machine and on every branch
 * that handles a fault; name it file_what, e.g. MARK(meta_restart_on_member_loss).
 */
#ifndef RAID_BASE_MARK_H
#define RAID_BASE_MARK_H

#include <stdint.h>

struct mark {
	const char *name;
	uint64_t count;
};

#ifdef RAID_MARKS
#define MARK(id)                                                                                   \
	do {                                                                                       \
		static struct mark mark_##id                                                       \
			__attribute__((used, section("raid_marks"), aligned(16))) = {#id, 0};      \
		mark_##id.count++;                                                                 \
	} while (0)
#else
#define MARK(id)                                                                                   \
	do {                                                                                       \
	} while (0)
#endif

#endif
