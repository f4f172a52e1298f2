/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The orderly end. The transitions named in daemon_internal.h from SERVING on are made here, by
 * daemon_stop(), loops_drained() and daemon_arrays_changed(); each step begins when the one before
 * has ended, and one timer bounds them all.
 */
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "server/background.h"
#include "server/daemon_internal.h"
#include "server/daemon_job.h"
#include "server/daemon_notice.h"
#include "server/log.h"
#include "server/loop.h"

struct drain {
	struct daemon *d;
	struct loop *loop;
};

static void drain_work(void *arg)
{
	struct drain *w = arg;

	loop_drain(w->loop, w->d->cmd->config.limits.drain_ms);
}

static void array_stopped(void *ctx, int err, const char *why)
{
}

void daemon_arrays_changed(struct daemon *d)
{
	char why[RAID_WHY_BYTES];

	if (d->state != DAEMON_CLOSING) {
		return;
	}
	for (uint32_t i = 0; i < d->arrays.count; i++) {
		struct served *s = d->arrays.item[i];

		/* A busy one comes back here when its command has ended. */
		if (s->state == SERVED_RUNNING && arrays_stop(d, s, array_stopped, NULL, why)) {
			log_error("array=%s is not stopped: %s", s->ai->name, why);
			d->status = 1;
			event_base_loopbreak(d->base);
			return;
		}
	}
	if (!d->arrays.count && !d->arrays.starting) {
		d->state = DAEMON_ENDED;
		event_base_loopbreak(d->base);
	}
}

static void give_up(struct daemon *d)
{
	if (arrays_log_hung(&d->arrays)) {
		d->status = 1;
	}
	event_base_loopbreak(d->base);
}

static void on_patience_over(evutil_socket_t fd, short what, void *arg)
{
	give_up(arg);
}

struct event *daemon_patience(struct daemon *d)
{
	return evtimer_new(d->base, on_patience_over, d);
}

/*
 * A member that holds the last copy of something and does not answer is waited for by sessions and
 * arrays alike, without end. A slow flush must not leave an array dirty, though: without hurry the
 * engine's own time limit comes on top.
 */
static void limit_patience(struct daemon *d)
{
	const struct config_limits *l = &d->cmd->config.limits;
	uint64_t ms = (uint64_t)l->drain_ms + (d->hurried ? 0 : l->raid.write_deadline_ms);
	const struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = ms % 1000 * 1000};

	event_add(d->patience, &tv);
}

static void loops_drained(struct daemon *d)
{
	notices_deliver(d->notices);
	d->state = DAEMON_CLOSING;
	handshake_io_cut(&d->sessions.io, "the server is stopping");
	limit_patience(d);
	daemon_arrays_changed(d);
}

static void drain_done(void *arg)
{
	struct drain *w = arg;
	struct daemon *d = w->d;

	free(w);
	if (!--d->loops_draining) {
		loops_drained(d);
	}
}

void daemon_stop(struct daemon *d, const char *why)
{
	if (d->state != DAEMON_SERVING) {
		return;
	}
	log_info("stopping: %s sessions=%u", why, d->sessions.count);
	background_notify("STOPPING=1");
	d->state = DAEMON_DRAINING;
	listen_release(&d->listeners);
	handshake_io_stop(&d->sessions.io);
	captive_terminate(&d->captive);
	limit_patience(d);
	for (uint32_t i = 0; i < d->loop_count; i++) {
		struct drain *w = malloc(sizeof *w);

		if (w) {
			*w = (struct drain){.d = d, .loop = d->loops[i]};
		}
		if (!w || job_start(d->base, drain_work, drain_done, w)) {
			/* Without a thread to wait in: cut instead of draining. */
			log_error("out of memory: sessions are cut");
			free(w);
			loop_drain(d->loops[i], 0);
			continue;
		}
		d->loops_draining++;
	}
	if (!d->loops_draining) {
		loops_drained(d);
	}
}

void daemon_hurry(struct daemon *d)
{
	if (d->hurried) {
		give_up(d);
		return;
	}
	log_warning("stopping in a hurry: sessions are cut");
	d->hurried = true;
	limit_patience(d);
	for (uint32_t i = 0; i < d->loop_count; i++) {
		loop_hurry(d->loops[i]);
	}
}
