/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrays tell while they run: into the log, to those who monitor, to the spares. */
#ifndef SERVER_DAEMON_EVENTS_H
#define SERVER_DAEMON_EVENTS_H

#include <stdint.h>

#include "raid/raid.h"

struct array_instance;

/* Callbacks of daemon_notice, on the base's thread; ctx is the daemon. */
void events_raid(void *ctx, const struct array_instance *ai, const struct raid_event *ev);
void events_dropped(void *ctx, uint64_t events);

#endif
