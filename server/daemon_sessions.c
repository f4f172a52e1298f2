/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A record lives from sessions_start() to exactly one of handshake_io's closed() or the loop's end
 * notice; both come on the control plane's thread, so nothing here is locked. The limit counts
 * records, so a slot is free again after every kind of end.
 */
#include "server/daemon_sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "raid/base/check.h"
#include "server/export.h"
#include "server/log.h"
#include "server/loop.h"

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static struct session_record *find(struct sessions *s, uint64_t number)
{
	struct session_record *r;

	list_for_each_entry (r, &s->all, link) {
		if (r->number == number) {
			return r;
		}
	}
	CHECK(!"a session that ends has been started and has not ended yet");
	return NULL;
}

static void forget(struct sessions *s, struct session_record *r)
{
	list_del(&r->link);
	s->count--;
	if (r->serving) {
		s->on_loop[r->loop]--;
	}
	free(r->export_name);
	free(r);
	if (s->ended) {
		s->ended(s->ctx);
	}
}

/* The array's own loop unless another has fewer sessions. */
static uint32_t place(const struct sessions *s, const struct export *e)
{
	uint32_t best = 0;

	for (uint32_t i = 0; i < s->loop_count; i++) {
		if (s->loops[i] == e->array->loop) {
			best = i;
		}
	}
	for (uint32_t i = 0; i < s->loop_count; i++) {
		if (s->on_loop[i] < s->on_loop[best]) {
			best = i;
		}
	}
	return best;
}

static bool export_is_full(void *ctx, const struct export *e)
{
	struct sessions *s = ctx;
	struct session_record *r;
	uint32_t count = 0;

	if (!e->sessions_max) {
		return false;
	}
	list_for_each_entry (r, &s->all, link) {
		count += r->serving && r->export == e;
	}
	return count >= e->sessions_max;
}

static void refuse_handoff(struct sessions *s, struct session_record *r, const struct handoff *h)
{
	log_limited(LOG_LEVEL_INFO,
		    "no session session=%llu peer=%s why=\"the export has its sessions\"",
		    (unsigned long long)r->number, r->peer);
	close(h->in_fd);
	if (h->out_fd != h->in_fd) {
		close(h->out_fd);
	}
	free(h->extra);
	forget(s, r);
}

static void on_ready(void *ctx, const struct handoff *h)
{
	struct sessions *s = ctx;
	struct session_record *r = find(s, h->session);

	/* Two may have been told yes while both were still being answered. */
	if (export_is_full(s, h->export)) {
		refuse_handoff(s, r, h);
		return;
	}
	r->serving = true;
	r->export = h->export;
	r->loop = place(s, h->export);
	r->export_name = strdup(h->export->name);
	s->on_loop[r->loop]++;
	log_debug("session begins session=%llu peer=%s loop=%u structured=%d",
		  (unsigned long long)r->number, r->peer, r->loop, h->structured);
	loop_handoff(s->loops[r->loop], h);
}

static void on_closed(void *ctx, uint64_t number, const char *why, const char *wanted)
{
	struct sessions *s = ctx;
	struct session_record *r = find(s, number);

	log_limited(LOG_LEVEL_INFO, "no session session=%llu peer=%s why=\"%s\"%s%s",
		    (unsigned long long)number, r->peer, why, wanted[0] ? " export=" : "", wanted);
	forget(s, r);
}

void sessions_ended(struct sessions *s, uint64_t number, const char *why)
{
	struct session_record *r = find(s, number);
	const char *name = r->export_name ? r->export_name : "";
	char quoted[96];

	log_limited(LOG_LEVEL_INFO,
		    "session ended session=%llu peer=%s export=%s seconds=%.1f why=\"%s\"",
		    (unsigned long long)number, r->peer,
		    log_quote(name, strlen(name), quoted, sizeof quoted),
		    (double)(mono_ns() - r->since_ns) / 1e9, why);
	forget(s, r);
}

void sessions_start(struct sessions *s, int in_fd, int out_fd, bool socket, const char *peer,
		    const struct access_peer *who)
{
	struct session_record *r = s->count < s->max ? calloc(1, sizeof *r) : NULL;

	if (!r) {
		log_limited(LOG_LEVEL_WARNING, "connection refused: %u sessions peer=%s limit=%u",
			    s->count, peer, s->max);
		close(in_fd);
		if (out_fd != in_fd) {
			close(out_fd);
		}
		return;
	}
	r->number = ++s->last_number;
	r->since_ns = mono_ns();
	snprintf(r->peer, sizeof r->peer, "%s", peer);
	list_append(&s->all, &r->link);
	s->count++;
	if (handshake_io_start(&s->io, in_fd, out_fd, socket, r->number, peer, who)) {
		log_limited(LOG_LEVEL_ERROR, "connection refused: out of memory peer=%s", peer);
		forget(s, r);
	}
}

int sessions_init(struct sessions *s)
{
	list_init(&s->all);
	s->on_loop = calloc(s->loop_count, sizeof *s->on_loop);
	s->io.ready = on_ready;
	s->io.closed = on_closed;
	s->io.ctx = s;
	s->io.handshake.full = export_is_full;
	s->io.handshake.ctx = s;
	handshake_io_init(&s->io);
	return s->on_loop ? 0 : -ENOMEM;
}

void sessions_release(struct sessions *s)
{
	free(s->on_loop);
	s->on_loop = NULL;
}
