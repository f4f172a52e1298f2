/* SPDX-License-Identifier: BSD-3-Clause */
/* What happened, for the log: a ring of fixed size. Full, it drops the oldest and counts. */
#ifndef RAID_EVENTS_H
#define RAID_EVENTS_H

#include "raid/raid.h"

enum { EVENTS_MAX = 256 };

struct events {
	uint32_t first, count;
	uint64_t dropped;
	struct raid_event ring[EVENTS_MAX];
};

static inline void events_add(struct events *e, struct raid_event ev)
{
	if (e->count == EVENTS_MAX) {
		e->first = (e->first + 1) % EVENTS_MAX;
		e->count--;
		e->dropped++;
	}
	e->ring[(e->first + e->count++) % EVENTS_MAX] = ev;
}

#endif
