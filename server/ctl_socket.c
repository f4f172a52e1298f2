/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Talking to the daemon: one JSON object a line each way over its unix control socket. The answer
 * is bounded in size and time; the daemon is not trusted to be sane.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/ctl_common.h"

enum { ANSWER_MAX_BYTES = 16 << 20, ANSWER_WAIT_MS = 180000 };

static int connect_to(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof sa.sun_path) {
		ctl_refused("the path of the control socket is too long: %s", path);
		return -1;
	}
	memcpy(sa.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0) {
		ctl_refused("no nbd-raidd answers at %s (%s); is it running, with this --control?",
			    path, strerror(errno));
		if (fd >= 0) {
			close(fd);
		}
		return -1;
	}
	return fd;
}

static bool send_line(int fd, const char *line)
{
	size_t left = strlen(line);

	while (left) {
		ssize_t n = send(fd, line, left, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return false;
		}
		line += n;
		left -= (size_t)n;
	}
	return true;
}

struct ctl_stream {
	int fd;
	char *buf;
	size_t have, room;
	size_t taken; /* of have: the line given out last */
};

/* Up to the next newline, valid until the next call. NULL if it does not come. */
static const char *receive_line(struct ctl_stream *s, int wait_ms)
{
	size_t seen = 0;

	s->have -= s->taken;
	memmove(s->buf, s->buf + s->taken, s->have);
	s->taken = 0;
	for (;;) {
		char *end = memchr(s->buf + seen, '\n', s->have - seen);
		struct pollfd p = {.fd = s->fd, .events = POLLIN};
		ssize_t n;

		if (end) {
			*end = '\0';
			s->taken = (size_t)(end - s->buf) + 1;
			return s->buf;
		}
		seen = s->have;
		if (s->have == s->room) {
			char *more =
				s->room < ANSWER_MAX_BYTES ? realloc(s->buf, s->room * 2) : NULL;

			if (!more) {
				return NULL;
			}
			s->buf = more;
			s->room *= 2;
		}
		if (poll(&p, 1, wait_ms) <= 0) {
			return NULL;
		}
		n = recv(s->fd, s->buf + s->have, s->room - s->have, 0);
		if (n <= 0) {
			return NULL;
		}
		s->have += (size_t)n;
	}
}

void ctl_close(struct ctl_stream *s)
{
	if (s) {
		if (s->fd >= 0) {
			close(s->fd);
		}
		free(s->buf);
		free(s);
	}
}

struct ctl_stream *ctl_open(const char *control_path, json_t *request)
{
	struct ctl_stream *s = calloc(1, sizeof *s);
	char *text = json_dumps(request, JSON_COMPACT), *whole = NULL;

	json_decref(request);
	if (s) {
		s->fd = -1;
		s->room = 1 << 16;
		s->buf = malloc(s->room);
	}
	if (!s || !s->buf || !text || asprintf(&whole, "%s\n", text) < 0) {
		free(text);
		ctl_close(s);
		ctl_refused("out of memory");
		return NULL;
	}
	s->fd = connect_to(control_path);
	if (s->fd < 0) {
		ctl_close(s);
		s = NULL;
	} else if (!send_line(s->fd, whole)) { /* in one piece: a daemon may answer and close as
						  soon as it has the line */
		shutdown(s->fd, SHUT_WR);      /* what it has said already may still be read */
	}
	free(whole);
	free(text);
	return s;
}

json_t *ctl_next(struct ctl_stream *s, int wait_ms)
{
	const char *line = receive_line(s, wait_ms);
	json_error_t error;

	return line ? json_loads(line, 0, &error) : NULL;
}

json_t *ctl_ask(const char *control_path, json_t *request)
{
	struct ctl_stream *s = ctl_open(control_path, request);
	json_t *answer;

	if (!s) {
		return NULL;
	}
	answer = ctl_next(s, ANSWER_WAIT_MS);
	ctl_close(s);
	if (!json_is_object(answer)) {
		ctl_refused("nbd-raidd at %s gave no answer", control_path);
		json_decref(answer);
		answer = NULL;
	}
	return answer;
}

json_t *ctl_ask_status(const char *control_path)
{
	json_t *answer = ctl_ask(control_path, json_pack("{s:s}", "command", "status"));

	if (answer && !ctl_answer_ok(answer)) {
		json_decref(answer);
		answer = NULL;
	}
	return answer;
}

bool ctl_answer_ok(const json_t *answer)
{
	const char *error = json_string_value(json_object_get(answer, "error"));

	if (json_is_true(json_object_get(answer, "ok"))) {
		return true;
	}
	ctl_refused("%s", error ? error : "nbd-raidd does not say why");
	return false;
}
