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

/* Up to the first newline; allocated. NULL if it does not come. */
static char *receive_line(int fd)
{
	size_t have = 0, room = 1 << 16;
	char *buf = malloc(room);

	while (buf) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;
		char *end;

		if (have + 1 == room) {
			char *more = room < ANSWER_MAX_BYTES ? realloc(buf, room * 2) : NULL;

			if (!more) {
				break;
			}
			buf = more;
			room *= 2;
		}
		if (poll(&p, 1, ANSWER_WAIT_MS) <= 0) {
			break;
		}
		n = recv(fd, buf + have, room - have - 1, 0);
		if (n <= 0) {
			break;
		}
		end = memchr(buf + have, '\n', (size_t)n);
		have += (size_t)n;
		if (end) {
			*end = '\0';
			return buf;
		}
	}
	free(buf);
	return NULL;
}

json_t *ctl_ask(const char *control_path, json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT), *whole = NULL, *line = NULL;
	json_t *answer = NULL;
	json_error_t error;
	int fd;

	json_decref(request);
	if (!text || asprintf(&whole, "%s\n", text) < 0) {
		free(text);
		ctl_refused("out of memory");
		return NULL;
	}
	fd = connect_to(control_path);
	if (fd >= 0) {
		/* in one piece: a daemon may answer and close as soon as it has the line */
		if (send_line(fd, whole)) {
			line = receive_line(fd);
		}
		answer = line ? json_loads(line, 0, &error) : NULL;
		if (!json_is_object(answer)) {
			ctl_refused("nbd-raidd at %s gave no answer", control_path);
			json_decref(answer);
			answer = NULL;
		}
		close(fd);
	}
	free(line);
	free(whole);
	free(text);
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
