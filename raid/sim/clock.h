/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual time and what is due: a heap of events ordered by time, then by the order in which they
 * were scheduled, so that a run never depends on anything but its seed.
 */
#ifndef RAID_SIM_CLOCK_H
#define RAID_SIM_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S  UINT64_C(1000000000)

struct clock_event {
	uint64_t at_ns;
	uint64_t order;
	int kind;
	void *object;
};

struct clock {
	uint64_t now_ns;
	uint64_t scheduled;
	size_t count, room;
	struct clock_event *heap;
};

void clock_init(struct clock *c);
void clock_free(struct clock *c);
void clock_schedule(struct clock *c, uint64_t at_ns, int kind, void *object);

/* Time of the first event, UINT64_MAX if there is none. */
uint64_t clock_next_ns(const struct clock *c);
bool clock_pop(struct clock *c, struct clock_event *out);

/* Drop every event: their objects are gone. Time goes on from where it is. */
void clock_clear(struct clock *c);

#endif
