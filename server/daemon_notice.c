/* SPDX-License-Identifier: BSD-3-Clause */
/* Two rings under one mutex; the lock is held for a copy, never across a callback. */
#include "server/daemon_notice.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "raid/base/check.h"

enum { EVENTS_MAX = 256, WHY_BYTES = 96 };

struct end_notice {
	uint64_t session;
	char why[WHY_BYTES];
};

struct event_notice {
	const struct array_instance *ai;
	struct raid_event event;
};

struct notices {
	struct notices_config config;
	int doorbell_fd;
	struct event *doorbell;

	pthread_mutex_t lock; /* of all below */
	struct end_notice *end;
	uint32_t end_head, end_count;
	struct event_notice event[EVENTS_MAX];
	uint32_t event_head, event_count;
	uint64_t dropped;
};

static void ring(struct notices *n)
{
	CHECK(eventfd_write(n->doorbell_fd, 1) == 0);
}

void notices_session_end(void *notices, uint64_t session, const char *why)
{
	struct notices *n = notices;
	struct end_notice *slot;

	pthread_mutex_lock(&n->lock);
	CHECK(n->end_count < n->config.sessions_max);
	slot = &n->end[(n->end_head + n->end_count++) % n->config.sessions_max];
	slot->session = session;
	snprintf(slot->why, sizeof slot->why, "%s", why);
	pthread_mutex_unlock(&n->lock);
	ring(n);
}

void notices_raid_event(void *notices, const struct array_instance *ai, const struct raid_event *ev)
{
	struct notices *n = notices;

	pthread_mutex_lock(&n->lock);
	if (n->event_count == EVENTS_MAX) {
		n->dropped++;
	} else {
		struct event_notice *slot =
			&n->event[(n->event_head + n->event_count++) % EVENTS_MAX];

		slot->ai = ai;
		slot->event = *ev;
	}
	pthread_mutex_unlock(&n->lock);
	ring(n);
}

static bool take_end(struct notices *n, struct end_notice *out)
{
	bool have;

	pthread_mutex_lock(&n->lock);
	have = n->end_count > 0;
	if (have) {
		*out = n->end[n->end_head];
		n->end_head = (n->end_head + 1) % n->config.sessions_max;
		n->end_count--;
	}
	pthread_mutex_unlock(&n->lock);
	return have;
}

static bool take_event(struct notices *n, struct event_notice *out, uint64_t *dropped)
{
	bool have;

	pthread_mutex_lock(&n->lock);
	have = n->event_count > 0;
	if (have) {
		*out = n->event[n->event_head];
		n->event_head = (n->event_head + 1) % EVENTS_MAX;
		n->event_count--;
	}
	*dropped = n->dropped;
	n->dropped = 0;
	pthread_mutex_unlock(&n->lock);
	return have;
}

void notices_deliver(struct notices *n)
{
	const struct notices_config *c = &n->config;
	struct event_notice event;
	struct end_notice end;
	uint64_t dropped;

	while (take_event(n, &event, &dropped)) {
		c->raid_event(c->ctx, event.ai, &event.event);
		if (dropped) {
			c->dropped(c->ctx, dropped);
		}
	}
	while (take_end(n, &end)) {
		c->session_ended(c->ctx, end.session, end.why);
	}
}

static void on_doorbell(evutil_socket_t fd, short what, void *arg)
{
	eventfd_t count;

	eventfd_read(fd, &count);
	notices_deliver(arg);
}

struct notices *notices_create(const struct notices_config *config)
{
	struct notices *n = calloc(1, sizeof *n);

	if (!n) {
		return NULL;
	}
	n->config = *config;
	pthread_mutex_init(&n->lock, NULL);
	n->end = calloc(config->sessions_max, sizeof *n->end);
	n->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->doorbell = n->doorbell_fd < 0 ? NULL
					 : event_new(config->base, n->doorbell_fd,
						     EV_READ | EV_PERSIST, on_doorbell, n);
	if (!n->end || !n->doorbell || event_add(n->doorbell, NULL) < 0) {
		notices_free(n);
		return NULL;
	}
	return n;
}

void notices_free(struct notices *n)
{
	if (n) {
		if (n->doorbell) {
			event_free(n->doorbell);
		}
		if (n->doorbell_fd >= 0) {
			close(n->doorbell_fd);
		}
		pthread_mutex_destroy(&n->lock);
		free(n->end);
		free(n);
	}
}
