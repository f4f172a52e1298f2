/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arbitrary bytes on the control socket of a daemon that is not serving (so that no command opens
 * anything): every line gets one answer, a JSON object with "ok", and the connection ends.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "raid/base/check.h"
#include "server/admin.h"
#include "server/daemon_internal.h"
#include "server/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

enum { INPUT_MAX = 16 << 10 }; /* fits the socket's buffer, and so do the answers */

static void check_answers(const char *text, size_t len)
{
	while (len) {
		const char *end = memchr(text, '\n', len);
		json_t *answer;

		CHECK(end);
		answer = json_loadb(text, (size_t)(end - text), 0, NULL);
		CHECK(json_is_boolean(json_object_get(answer, "ok")));
		json_decref(answer);
		len -= (size_t)(end - text) + 1;
		text = end + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char answers[1 << 20];
	struct cmdline cmd = {.single = false};
	struct daemon d = {.cmd = &cmd, .state = DAEMON_STARTING};
	size_t have = 0;
	int fds[2];
	ssize_t n;

	log_init(LOG_LEVEL_ERROR);
	if (size > INPUT_MAX) {
		return 0;
	}
	list_init(&d.sessions.all);
	d.base = event_base_new();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	d.admin = admin_create(&d);
	CHECK(d.base && d.admin);
	CHECK(send(fds[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
	shutdown(fds[1], SHUT_WR);
	admin_connect(d.admin, fds[0], "fuzz");
	do {
		event_base_loop(d.base, EVLOOP_NONBLOCK);
		n = recv(fds[1], answers + have, sizeof answers - have, MSG_DONTWAIT);
		have += n > 0 ? (size_t)n : 0;
	} while (n);
	check_answers(answers, have);
	admin_release(d.admin);
	event_base_free(d.base);
	close(fds[1]);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	static const char *const texts[] = {
		"{\"command\":\"status\"}\n{\"command\":\"ping\"}\n{\"command\":\"version\"}\n",
		"{\"command\":\"stop\",\"array\":\"x\"}\n{\"command\":\"stop\",\"array\":\"all\"}"
		"\n",
		"{\"command\":\"fail\",\"array\":\"x\",\"member\":\"/"
		"m\"}\n{\"command\":\"check\"}\n",
		"{\"command\":\"assemble\",\"name\":\"x\",\"members\":[\"/a\"],\"force\":true}\n",
		"\n[]\n\"\\u0000\"\n{\"command\":null}\nno end",
	};
	size_t len;

	if (i >= sizeof texts / sizeof texts[0]) {
		return 0;
	}
	len = strlen(texts[i]);
	CHECK(len <= size);
	memcpy(buf, texts[i], len);
	return len;
}
