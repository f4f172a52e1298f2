/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the control socket. One request is worked on per connection; the next line is read
 * after its answer, so that answers come in order and a peer cannot pile up work. A connection that
 * ends with a call outstanding leaves the call behind, which then answers nobody.
 */
#include "server/admin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "raid/base/list.h"
#include "server/daemon_internal.h"
#include "server/log.h"

struct admin {
	struct daemon *d;
	struct list connections;
	uint32_t count;
};

struct connection {
	struct list link;
	struct admin *admin;
	struct bufferevent *bev;
	struct admin_call *call; /* being worked on */
	bool closing;		 /* the peer has closed its side */
	bool stream;		 /* takes events, gives no more requests */
};

struct admin_call {
	struct connection *connection; /* NULL: it is gone */
};

static void connection_free(struct connection *c)
{
	if (c->call) {
		c->call->connection = NULL;
	}
	bufferevent_free(c->bev);
	list_del(&c->link);
	c->admin->count--;
	free(c);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void send_line(struct connection *c, json_t *answer)
{
	char *text = answer ? json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

	if (text) {
		bufferevent_write(c->bev, text, strlen(text));
		bufferevent_write(c->bev, "\n", 1);
	} else {
		static const char failed[] = "{\"ok\":false,\"error\":\"out of memory\"}\n";

		bufferevent_write(c->bev, failed, sizeof failed - 1);
	}
	free(text);
}

void admin_answer(struct admin_call *call, json_t *answer)
{
	struct connection *c = call->connection;

	if (c) {
		send_line(c, answer);
		c->call = NULL;
		bufferevent_enable(c->bev, EV_READ);
	}
	free(call);
	json_decref(answer);
	/* The next request is taken up by the write callback, not from within this one. */
}

void admin_answer_stream(struct admin_call *call, json_t *answer)
{
	struct connection *c = call->connection;

	admin_answer(call, answer);
	if (c) {
		c->stream = true;
	}
}

void admin_publish(struct admin *a, json_t *event)
{
	struct connection *c, *next;

	if (a) {
		list_for_each_entry_safe (c, next, &a->connections, link) {
			if (!c->stream) {
				continue;
			}
			send_line(c, event);
			if (evbuffer_get_length(bufferevent_get_output(c->bev)) >
			    ADMIN_STREAM_MAX_BYTES) {
				log_limited(LOG_LEVEL_WARNING,
					    "control socket: a monitor does not take its events");
				connection_free(c);
			}
		}
	}
	json_decref(event);
}

json_t *admin_ok(void)
{
	return json_pack("{s:b}", "ok", 1);
}

json_t *admin_text(const char *text)
{
	json_t *out = json_string(text);
	char quoted[512];

	return out ? out : json_string(log_quote(text, strlen(text), quoted, sizeof quoted));
}

void admin_refuse(struct admin_call *call, const char *fmt, ...)
{
	char text[RAID_WHY_BYTES + 64];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	admin_answer(call, json_pack("{s:b, s:o}", "ok", 0, "error", admin_text(text)));
}

/* ---- requests ------------------------------------------------------------------------------ */

static void take_line(struct connection *c, const char *line, size_t len)
{
	struct admin_call *call = calloc(1, sizeof *call);
	json_error_t error;
	json_t *request;

	if (!call) {
		send_line(c, NULL);
		return;
	}
	call->connection = c;
	c->call = call;
	request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	if (!request) {
		admin_refuse(call, "not JSON: %s", error.text);
	} else {
		admin_command(c->admin->d, call, request);
	}
	json_decref(request);
}

static void read_lines(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);

	if (c->stream) {
		evbuffer_drain(in, evbuffer_get_length(in));
		return;
	}
	if (!c->call) {
		size_t len;
		char *line = evbuffer_readln(in, &len, EVBUFFER_EOL_LF);

		if (line) {
			take_line(c, line, len);
			free(line);
		} else if (evbuffer_get_length(in) >= ADMIN_LINE_MAX_BYTES) {
			log_limited(LOG_LEVEL_WARNING,
				    "control socket: a line of more than %d bytes",
				    ADMIN_LINE_MAX_BYTES);
			connection_free(c);
			return;
		}
	}
	if (c->call) {
		bufferevent_disable(c->bev, EV_READ);
	}
}

static void on_read(struct bufferevent *bev, void *ctx)
{
	read_lines(ctx);
}

/* Everything answered so far has left. */
static void on_written(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	struct evbuffer *in = bufferevent_get_input(bev);

	if (c->closing && !c->call &&
	    evbuffer_search_eol(in, NULL, NULL, EVBUFFER_EOL_LF).pos < 0) {
		connection_free(c);
		return;
	}
	read_lines(c);
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
	struct connection *c = ctx;

	/* A peer that has sent its requests and closed its side still gets the answers. */
	if (what & BEV_EVENT_EOF && !c->stream &&
	    (c->call || evbuffer_get_length(bufferevent_get_output(bev)))) {
		c->closing = true;
		return;
	}
	connection_free(c);
}

void admin_connect(struct admin *a, int fd, const char *peer)
{
	struct connection *c = a->count < ADMIN_CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;

	if (!c || evutil_make_socket_nonblocking(fd) < 0) {
		log_limited(LOG_LEVEL_WARNING, "control socket: connection refused peer=%s", peer);
		free(c);
		close(fd);
		return;
	}
	c->admin = a;
	c->bev = bufferevent_socket_new(a->d->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev) {
		free(c);
		close(fd);
		return;
	}
	list_append(&a->connections, &c->link);
	a->count++;
	bufferevent_setwatermark(c->bev, EV_READ, 0, ADMIN_LINE_MAX_BYTES);
	bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

static void on_accepted(void *ctx, int fd, const char *peer)
{
	admin_connect(ctx, fd, peer);
}

struct admin *admin_create(struct daemon *d)
{
	struct admin *a = calloc(1, sizeof *a);

	if (!a) {
		return NULL;
	}
	a->d = d;
	list_init(&a->connections);
	if (listen_start(&d->control, d->base, on_accepted, a)) {
		free(a);
		return NULL;
	}
	return a;
}

void admin_release(struct admin *a)
{
	struct connection *c, *next;

	if (!a) {
		return;
	}
	list_for_each_entry_safe (c, next, &a->connections, link) {
		evbuffer_write(bufferevent_get_output(c->bev), bufferevent_getfd(c->bev));
		connection_free(c);
	}
	free(a);
}
