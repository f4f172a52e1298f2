/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One block of memory handed out piece by piece. Without a base nothing is handed out, only
 * counted: so the same code that lays memory out says first how much it wants.
 */
#ifndef RAID_BASE_CARVE_H
#define RAID_BASE_CARVE_H

#include "raid/base/bytes.h"

struct carver {
	uint8_t *base;
	uint64_t used;
};

static inline void *carve(struct carver *c, uint64_t bytes, uint64_t align)
{
	uint64_t at = round_up_u64(c->used, align);

	c->used = at + bytes;
	return c->base ? c->base + at : NULL;
}

#endif
