/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake's I/O. Descriptors stay blocking (the data plane's ring wants them so): sockets are
 * used with MSG_DONTWAIT, anything else is read when readable and written in pieces that fit a pipe
 * that polls writable. A session is fed only while nothing waits to be sent, so a peer that does
 * not read makes nothing grow.
 */
#include "server/handshake_io.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { READ_BYTES = 16 << 10 };

struct session {
	struct list link; /* handshake_io.sessions */
	struct handshake_io *io;
	struct handshake machine;
	int in_fd, out_fd;
	bool socket;
	uint64_t number;
	char peer[64];
	struct evbuffer *in; /* read and not used yet */
	struct event *readable, *writable, *deadline;
};

static void session_free(struct session *s)
{
	struct event *events[] = {s->readable, s->writable, s->deadline};

	for (size_t i = 0; i < 3; i++) {
		if (events[i]) {
			event_free(events[i]);
		}
	}
	if (s->in) {
		evbuffer_free(s->in);
	}
	handshake_release(&s->machine);
	list_del(&s->link);
	free(s);
}

static void close_fds(const struct session *s)
{
	close(s->in_fd);
	if (s->out_fd != s->in_fd) {
		close(s->out_fd);
	}
}

static void end(struct session *s, const char *why)
{
	struct handshake_io *io = s->io;
	uint64_t number = s->number;
	char wanted[sizeof s->machine.wanted];

	memcpy(wanted, s->machine.wanted, sizeof wanted);
	close_fds(s);
	session_free(s);
	io->closed(io->ctx, number, why, wanted);
}

static void hand_over(struct session *s)
{
	struct handshake_io *io = s->io;
	struct handoff h = {
		.in_fd = s->in_fd,
		.out_fd = s->out_fd,
		.socket = s->socket,
		.export = s->machine.chosen,
		.structured = s->machine.structured,
		.session = s->number,
		.extra_len = evbuffer_get_length(s->in),
	};

	memcpy(h.peer, s->peer, sizeof h.peer);
	if (h.extra_len) {
		h.extra = malloc(h.extra_len);
		if (!h.extra) {
			end(s, "out of memory");
			return;
		}
		evbuffer_remove(s->in, h.extra, h.extra_len);
	}
	session_free(s);
	io->ready(io->ctx, &h);
}

/* 0: all is out; -EAGAIN: the rest must wait; else the connection is broken. */
static int flush(struct session *s)
{
	for (;;) {
		size_t n;
		const void *bytes = handshake_output(&s->machine, &n);
		ssize_t sent;

		if (!n) {
			return 0;
		}
		if (s->socket) {
			sent = send(s->out_fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		} else {
			sent = write(s->out_fd, bytes, min_u64(n, PIPE_BUF));
		}
		if (sent < 0 && errno == EINTR) {
			continue;
		}
		if (sent < 0) {
			return -errno;
		}
		handshake_sent(&s->machine, (size_t)sent);
		if (!s->socket) {
			return (size_t)sent < n ? -EAGAIN : 0;
		}
	}
}

/* Give the machine what has been read; false: it needs more. */
static bool feed(struct session *s)
{
	size_t n = evbuffer_get_length(s->in), used;

	if (!n) {
		return false;
	}
	used = handshake_input(&s->machine, evbuffer_pullup(s->in, -1), n);
	evbuffer_drain(s->in, used);
	return used > 0;
}

/* As far as it goes without waiting; s may be gone afterwards. */
static void advance(struct session *s)
{
	for (;;) {
		int err = flush(s);

		if (err == -EAGAIN) {
			event_del(s->readable);
			event_add(s->writable, NULL);
			return;
		}
		if (err) {
			end(s, "the client is gone");
			return;
		}
		switch (handshake_next(&s->machine)) {
		case HANDSHAKE_SERVE:
			hand_over(s);
			return;
		case HANDSHAKE_CLOSE:
			end(s, s->machine.why);
			return;
		case HANDSHAKE_WAIT:
			break;
		}
		if (!feed(s)) {
			event_add(s->readable, NULL);
			return;
		}
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct session *s = arg;
	char bytes[READ_BYTES];
	ssize_t n = s->socket ? recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)
			      : read(fd, bytes, sizeof bytes);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (n <= 0 || evbuffer_add(s->in, bytes, (size_t)n) < 0) {
		end(s, n == 0 ? "the client closed in the handshake" : "the client is gone");
		return;
	}
	advance(s);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	advance(arg);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	end(arg, "the handshake took too long");
}

void handshake_io_init(struct handshake_io *io)
{
	list_init(&io->sessions);
}

int handshake_io_start(struct handshake_io *io, int in_fd, int out_fd, bool socket,
		       uint64_t session, const char *peer, const struct access_peer *who)
{
	const struct timeval limit = {.tv_sec = io->deadline_ms / 1000,
				      .tv_usec = io->deadline_ms % 1000 * 1000};
	struct session *s = calloc(1, sizeof *s);

	if (!s) {
		close(in_fd);
		if (out_fd != in_fd) {
			close(out_fd);
		}
		return -ENOMEM;
	}
	s->io = io;
	s->in_fd = in_fd;
	s->out_fd = out_fd;
	s->socket = socket;
	s->number = session;
	snprintf(s->peer, sizeof s->peer, "%s", peer);
	handshake_init(&s->machine, &io->handshake, who);
	list_append(&io->sessions, &s->link);
	s->in = evbuffer_new();
	s->readable = event_new(io->base, in_fd, EV_READ | EV_PERSIST, on_readable, s);
	s->writable = event_new(io->base, out_fd, EV_WRITE, on_writable, s);
	s->deadline = evtimer_new(io->base, on_deadline, s);
	/* The greeting leaves from the loop, so that neither callback comes from within this call.
	 */
	if (!s->in || !s->readable || !s->writable || !s->deadline ||
	    event_add(s->deadline, &limit) < 0 || event_add(s->writable, NULL) < 0) {
		close_fds(s);
		session_free(s);
		return -ENOMEM;
	}
	if (io->stopping) {
		handshake_stop(&s->machine);
	}
	return 0;
}

void handshake_io_stop(struct handshake_io *io)
{
	struct session *s;

	io->stopping = true;
	list_for_each_entry (s, &io->sessions, link) {
		handshake_stop(&s->machine);
	}
}

void handshake_io_forget(struct handshake_io *io, const struct export *e)
{
	struct session *s, *next;

	list_for_each_entry_safe (s, next, &io->sessions, link) {
		if (s->machine.state == HANDSHAKE_READY && s->machine.chosen == e) {
			end(s, "the export is gone");
		}
	}
}

void handshake_io_cut(struct handshake_io *io, const char *why)
{
	struct session *s, *next;

	list_for_each_entry_safe (s, next, &io->sessions, link) {
		end(s, why);
	}
}
