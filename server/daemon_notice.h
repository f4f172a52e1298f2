/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the loops' threads tell the control plane: ended sessions and events of arrays. A loop only
 * copies into a fixed ring under a short lock and rings a doorbell; nothing of it allocates or
 * waits. Ends of sessions are never lost (a session's slot is given again only after its end has
 * been delivered); events of arrays beyond the ring are dropped and counted.
 */
#ifndef SERVER_DAEMON_NOTICE_H
#define SERVER_DAEMON_NOTICE_H

#include <stdint.h>

#include "raid/raid.h"

struct array_instance;
struct event_base;
struct notices;

struct notices_config {
	struct event_base *base;
	uint32_t sessions_max; /* alive at once */
	/* On the base's thread. */
	void (*session_ended)(void *ctx, uint64_t session, const char *why);
	void (*raid_event)(void *ctx, const struct array_instance *ai, const struct raid_event *ev);
	void (*dropped)(void *ctx, uint64_t events);
	void *ctx;
};

/* NULL: no memory or descriptors. */
struct notices *notices_create(const struct notices_config *config);
void notices_free(struct notices *n);

/* Any thread; fit loop_config with the notices as ctx. */
void notices_session_end(void *notices, uint64_t session, const char *why);
void notices_raid_event(void *notices, const struct array_instance *ai,
			const struct raid_event *ev);

/* Deliver now what is there; on the base's thread, before what the events point to goes away. */
void notices_deliver(struct notices *n);

#endif
