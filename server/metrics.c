/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * evhttp neither counts its connections nor says when one ends. So each gets a bufferevent to which
 * we hold a reference too, and a timer looks which of them evhttp has freed. (A client does not
 * wait for that: evhttp shuts the sending side when it ends a connection.)
 */
#include "server/metrics.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

#include "raid/sb.h"
#include "server/daemon_internal.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/metrics_text.h"

enum { SWEEP_MS = 50 };

struct connection {
	struct bufferevent *bev; /* a reference */
	uint64_t until_ns;
};

struct metrics_server {
	struct daemon *d;
	struct evhttp *http;
	struct evconnlistener **listener; /* evhttp's; as many as d->metrics_listeners */
	struct connection connection[METRICS_CONNECTIONS_MAX];
	uint32_t count;
	struct event *sweep;   /* pending while there are connections */
	struct evbuffer *text; /* the last answer */
	uint64_t text_ns;      /* made then; 0: none */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* ---- gathering ----------------------------------------------------------------------------- */

static void gather_array(const struct served *s, struct metrics_array *out)
{
	const struct array_instance *ai = s->ai;
	const struct assembly *as = ai->assembly;
	uint32_t n = 0;

	out->name = ai->name;
	out->level = geo_level_name(as->geometry.p.level);
	if (as->metadata) {
		sb_uuid_text(as->member[as->freshest].sb.set_uuid, out->uuid);
	}
	out->read_only = ai->read_only;
	out->stopping = s->state == SERVED_STOPPING;
	out->size_bytes = as->geometry.array_sectors * RAID_SECTOR_BYTES;
	loop_array_status(s->ai, &out->status);
	/* Places that nobody has are left out. */
	for (uint32_t i = 0; i < out->status.members && i < ai->members; i++) {
		if (ai->member[i].path) {
			out->spares += out->status.member[i].state == RAID_MEMBER_SPARE;
			out->status.member[n] = out->status.member[i];
			out->member[n++] = ai->member[i].path;
		}
	}
	out->status.members = n;
}

static int gather(const struct daemon *d, struct metrics *m)
{
	m->loop = calloc(d->loop_count, sizeof *m->loop);
	m->array = calloc(d->arrays.count + 1, sizeof *m->array);
	m->export = calloc(d->exports.count + 1, sizeof *m->export);
	if (!m->loop || !m->array || !m->export) {
		return -ENOMEM;
	}
	m->version = NBD_RAIDD_VERSION;
	m->uptime_s = (double)(time(NULL) - d->started_s);
	m->stopping = d->state != DAEMON_SERVING;
	m->connections = d->sessions.count;
	for (; m->loops < d->loop_count; m->loops++) {
		loop_get_stats(d->loops[m->loops], &m->loop[m->loops]);
	}
	for (uint32_t i = 0; i < d->arrays.count; i++) {
		/* One that is being closed may be gone from its loop at any moment. */
		if (d->arrays.item[i]->state != SERVED_CLOSING) {
			gather_array(d->arrays.item[i], &m->array[m->arrays++]);
		}
	}
	for (; m->exports < d->exports.count; m->exports++) {
		const struct export *e = d->exports.item[m->exports];

		m->export[m->exports] = (struct metrics_export){
			.name = e->name,
			.array = e->array->name,
			.size_bytes = e->size,
			.read_only = e->read_only,
		};
	}
	return 0;
}

/* server->text is what there is to say now. */
static int refresh(struct metrics_server *ms)
{
	uint64_t now = now_ns();
	struct metrics m = {0};
	int err;

	if (ms->text_ns && now - ms->text_ns < METRICS_FRESH_MS * UINT64_C(1000000)) {
		return 0;
	}
	ms->text_ns = 0;
	evbuffer_drain(ms->text, evbuffer_get_length(ms->text));
	err = gather(ms->d, &m);
	if (!err) {
		err = metrics_text(ms->text, &m);
	}
	free(m.loop);
	free(m.array);
	free(m.export);
	if (!err) {
		ms->text_ns = now;
	}
	return err;
}

static void on_request(struct evhttp_request *request, void *arg)
{
	struct metrics_server *ms = arg;
	struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
	struct evbuffer *body = evbuffer_new();

	if (!body || refresh(ms) ||
	    evbuffer_add(body, evbuffer_pullup(ms->text, -1), evbuffer_get_length(ms->text)) < 0 ||
	    evhttp_add_header(headers, "Content-Type", METRICS_CONTENT_TYPE) < 0) {
		evhttp_send_error(request, HTTP_INTERNAL, "out of memory");
	} else {
		evhttp_send_reply(request, HTTP_OK, NULL, body);
	}
	if (body) {
		evbuffer_free(body);
	}
}

/* ---- connections --------------------------------------------------------------------------- */

static void accept_more(struct metrics_server *ms, bool more)
{
	for (uint32_t i = 0; i < ms->d->metrics_listeners.count; i++) {
		if (more) {
			evconnlistener_enable(ms->listener[i]);
		} else {
			evconnlistener_disable(ms->listener[i]);
		}
	}
}

/* evhttp has let go of it: what it frees has no callbacks any more. */
static bool has_ended(struct bufferevent *bev)
{
	bufferevent_event_cb on_event;

	bufferevent_getcb(bev, NULL, NULL, &on_event, NULL);
	return !on_event;
}

/* Forget connections that have ended, end those that have lasted too long. */
static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval again = {.tv_usec = SWEEP_MS * 1000};
	struct metrics_server *ms = arg;
	uint64_t now = now_ns();
	const bool full = ms->count == METRICS_CONNECTIONS_MAX;

	for (uint32_t i = ms->count; i-- > 0;) {
		struct connection *c = &ms->connection[i];

		if (has_ended(c->bev)) {
			bufferevent_decref(c->bev);
			*c = ms->connection[--ms->count];
		} else if (now > c->until_ns) {
			/* evhttp sees the end of the stream. */
			shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
		}
	}
	if (full && ms->count < METRICS_CONNECTIONS_MAX) {
		accept_more(ms, true);
	}
	if (ms->count) {
		event_add(ms->sweep, &again);
	}
}

/*
 * evhttp has accepted and wants what it shall read and write with. Beyond the limit nothing is
 * accepted; without memory evhttp makes one itself, or gives up.
 */
static struct bufferevent *on_accepted(struct event_base *base, void *arg)
{
	const struct timeval soon = {.tv_usec = SWEEP_MS * 1000};
	struct metrics_server *ms = arg;
	struct bufferevent *bev = ms->count < METRICS_CONNECTIONS_MAX
					  ? bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE)
					  : NULL;

	if (!bev) {
		return NULL;
	}
	bufferevent_incref(bev);
	ms->connection[ms->count++] = (struct connection){
		.bev = bev,
		.until_ns = now_ns() + METRICS_LIFE_S * UINT64_C(1000000000),
	};
	if (ms->count == METRICS_CONNECTIONS_MAX) {
		accept_more(ms, false);
	}
	if (!event_pending(ms->sweep, EV_TIMEOUT, NULL)) {
		event_add(ms->sweep, &soon);
	}
	return bev;
}

/* ---- start and end ------------------------------------------------------------------------- */

static int start_listeners(struct metrics_server *ms)
{
	struct listen_set *set = &ms->d->metrics_listeners;

	ms->listener = calloc(set->count, sizeof(struct evconnlistener *));
	for (uint32_t i = 0; i < set->count; i++) {
		/* The descriptor stays the set's, which also knows how to bind and listen. */
		struct evconnlistener *l =
			ms->listener
				? evconnlistener_new(ms->d->base, NULL, NULL, LEV_OPT_CLOSE_ON_EXEC,
						     0, listen_fd(set, i))
				: NULL;

		if (!l || !evhttp_bind_listener(ms->http, l)) {
			return -ENOMEM;
		}
		ms->listener[i] = l;
	}
	return 0;
}

struct metrics_server *metrics_start(struct daemon *d)
{
	struct metrics_server *ms = calloc(1, sizeof *ms);

	if (!ms) {
		return NULL;
	}
	ms->d = d;
	ms->text = evbuffer_new();
	ms->sweep = evtimer_new(d->base, on_sweep, ms);
	ms->http = ms->text && ms->sweep ? evhttp_new(d->base) : NULL;
	if (!ms->http) {
		metrics_release(ms);
		return NULL;
	}
	evhttp_set_allowed_methods(ms->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(ms->http, METRICS_HEAD_MAX_BYTES);
	evhttp_set_max_body_size(ms->http, 0);
	evhttp_set_timeout(ms->http, METRICS_IDLE_S);
	evhttp_set_bevcb(ms->http, on_accepted, ms);
	if (evhttp_set_cb(ms->http, "/metrics", on_request, ms) || start_listeners(ms)) {
		metrics_release(ms);
		return NULL;
	}
	return ms;
}

void metrics_release(struct metrics_server *ms)
{
	if (!ms) {
		return;
	}
	if (ms->http) {
		evhttp_free(ms->http); /* its listeners go with it */
	}
	for (uint32_t i = 0; i < ms->count; i++) {
		bufferevent_decref(ms->connection[i].bev);
	}
	if (ms->sweep) {
		event_free(ms->sweep);
	}
	if (ms->text) {
		evbuffer_free(ms->text);
	}
	free(ms->listener);
	free(ms);
}
