/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of create.c share. Private to create*.c. All numbers are sectors. */
#ifndef RAID_CREATE_IMPL_H
#define RAID_CREATE_IMPL_H

#include "raid/create.h"

/* What has been decided so far. */
struct create_work {
	const struct create_params *p;
	uint32_t chunk, layout;
	uint64_t data_offset;
	uint64_t component; /* 0 for linear and RAID 0 */
	uint64_t data_size[RAID_MEMBERS_MAX];
	enum create_sync sync;
	uint32_t build_slot;
	char *why;
};

static inline bool create_has_parity(const struct create_params *p)
{
	return p->level == RAID_LEVEL_4 || p->level == RAID_LEVEL_5 || p->level == RAID_LEVEL_6;
}

static inline bool create_has_component(const struct create_params *p)
{
	return p->level == RAID_LEVEL_1 || p->level == RAID_LEVEL_10 || create_has_parity(p);
}

static inline uint32_t create_devices(const struct create_params *p)
{
	return p->slots + p->spares;
}

/* "slot 2" or "spare 0": as the user counts. */
const char *create_place_name(const struct create_params *p, uint32_t k, char buf[24]);

/* create_wishes.c: decides chunk and layout. 0 or -errno with the reason in why. */
int create_check_wishes(struct create_work *plan);

#endif
