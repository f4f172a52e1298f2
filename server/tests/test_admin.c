/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket's lines: order, limits, peers that leave. A daemon without arrays stands
 * behind it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "server/admin.h"
#include "server/daemon_internal.h"

static struct daemon d;
static struct cmdline cmd;
static char answer[256 << 10];

static int setup(void **state)
{
	(void)state;
	memset(&d, 0, sizeof d);
	d.cmd = &cmd;
	d.base = event_base_new();
	d.state = DAEMON_SERVING;
	list_init(&d.sessions.all);
	d.admin = admin_create(&d);
	assert_non_null(d.admin);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	admin_release(d.admin);
	event_base_free(d.base);
	return 0;
}

static int connect_client(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	admin_connect(d.admin, fds[0], "test");
	return fds[1];
}

static void turn(void)
{
	for (int i = 0; i < 100; i++) {
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	}
}

static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What has come back so far; sets *closed if the server has closed. */
static const char *get(int fd, bool *closed)
{
	size_t at = 0;
	ssize_t n;

	do {
		turn();
		n = recv(fd, answer + at, sizeof answer - 1 - at, MSG_DONTWAIT);
		at += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	*closed = n == 0 || errno == ECONNRESET;
	answer[at] = '\0';
	return answer;
}

static void answers_come_in_order(void **state)
{
	int fd = connect_client();
	bool closed;

	(void)state;
	put(fd, "{\"command\":\"ping\"}\n{\"command\":\"frob\"}\n\n{\"command\":\"version\"}\n");
	assert_string_equal(get(fd, &closed),
			    "{\"ok\":true}\n"
			    "{\"ok\":false,\"error\":\"unknown command 'frob'\"}\n"
			    "{\"ok\":false,\"error\":\"not JSON: '[' or '{' expected near end of "
			    "file\"}\n"
			    "{\"ok\":true,\"version\":\"" NBD_RAIDD_VERSION "\"}\n");
	assert_false(closed);
	close(fd);
	turn();
}

static void byte_by_byte(void **state)
{
	static const char text[] = "{\"command\":\"ping\"}\n";
	int fd = connect_client();
	bool closed;

	(void)state;
	for (size_t i = 0; i + 1 < sizeof text; i++) {
		const char one[2] = {text[i], '\0'};

		put(fd, one);
		turn();
	}
	assert_string_equal(get(fd, &closed), "{\"ok\":true}\n");
	close(fd);
	turn();
}

static void peer_that_closes_its_side_gets_its_answers(void **state)
{
	int fd = connect_client();
	bool closed;

	(void)state;
	put(fd, "{\"command\":\"ping\"}\n{\"command\":\"ping\"}\nunfinished");
	shutdown(fd, SHUT_WR);
	assert_string_equal(get(fd, &closed), "{\"ok\":true}\n{\"ok\":true}\n");
	assert_true(closed);
	close(fd);
}

static void what_is_missing_is_named(void **state)
{
	static const struct {
		const char *request, *expected;
	} cases[] = {
		{"{}", "\\\"command\\\" is missing"},
		{"[]", "\\\"command\\\" is missing"},
		{"{\"command\":7}", "\\\"command\\\" is missing"},
		{"{\"command\":\"stop\"}", "\\\"array\\\" is missing: the name of an array"},
		{"{\"command\":\"stop\",\"array\":\"x\"}", "no array is named 'x'"},
		{"{\"command\":\"fail\",\"array\":\"x\"}", "no array is named 'x'"},
		{"{\"command\":\"self-check\",\"array\":\"x\"}", "no array is named 'x'"},
		{"{\"command\":\"assemble\"}", "\\\"name\\\" is missing or no name"},
		{"{\"command\":\"assemble\",\"name\":\"x\"}",
		 "\\\"members\\\" is missing: a list of paths"},
		{"{\"command\":\"assemble\",\"name\":\"x\",\"members\":[]}",
		 "\\\"members\\\" is missing: a list of paths"},
		{"{\"command\":\"assemble\",\"name\":\"x\",\"members\":[1]}",
		 "\\\"members\\\" is missing: a list of paths"},
		{"{\"command\":\"assemble\",\"name\":\"x\",\"members\":[\"/a\"],\"uuid\":\"1\"}",
		 "'1' is not a UUID of 32 hexadecimal digits"},
	};
	int fd = connect_client();
	char expected[256];
	bool closed;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		put(fd, cases[i].request);
		put(fd, "\n");
		snprintf(expected, sizeof expected, "{\"ok\":false,\"error\":\"%s\"}\n",
			 cases[i].expected);
		assert_string_equal(get(fd, &closed), expected);
	}
	close(fd);
	turn();
}

static void status_of_a_daemon_without_arrays(void **state)
{
	int fd = connect_client();
	bool closed;

	(void)state;
	put(fd, "{\"command\":\"status\"}\n{\"command\":\"self-check\"}\n");
	get(fd, &closed);
	assert_non_null(strstr(answer, "\"arrays\":[],\"exports\":[],\"sessions\":[]"));
	assert_non_null(strstr(answer, "\n{\"ok\":true}\n"));
	close(fd);
	turn();
}

/* From the answer on the connection has events, whatever the peer still says; others have none. */
static void streams_take_events(void **state)
{
	int fd = connect_client(), other = connect_client();
	const char *event;
	bool closed;

	(void)state;
	put(fd, "{\"command\":\"monitor\"}\n");
	put(other, "{\"command\":\"monitor\",\"once\":true}\n");
	assert_string_equal(get(fd, &closed), "{\"ok\":true,\"events\":[]}\n");
	assert_string_equal(get(other, &closed), "{\"ok\":true,\"events\":[]}\n");
	admin_monitor_say(&d, "MoveSpare", "to", "from");
	put(fd, "{\"command\":\"ping\"}\n");
	event = get(fd, &closed);
	assert_ptr_equal(
		strstr(event, "{\"event\":\"MoveSpare\",\"array\":\"to\",\"member\":\"from\","),
		event);
	assert_null(strstr(event, "ok"));
	assert_string_equal(get(other, &closed), "");
	put(other, "{\"command\":\"ping\"}\n");
	assert_string_equal(get(other, &closed), "{\"ok\":true}\n");
	close(fd);
	turn();
	admin_monitor_say(&d, "MoveSpare", "to", "from");
	close(other);
	turn();
}

/* What it does not take is not kept without end. */
static void stream_that_reads_nothing_is_cut(void **state)
{
	int fd = connect_client();
	bool closed;

	(void)state;
	put(fd, "{\"command\":\"monitor\"}\n");
	get(fd, &closed);
	for (int i = 0; i < 40000; i++) {
		admin_monitor_say(&d, "TestMessage", "an array of some name", NULL);
	}
	do {
		get(fd, &closed);
	} while (!closed);
	close(fd);
	turn();
}

static void endless_line_is_cut(void **state)
{
	static char text[ADMIN_LINE_MAX_BYTES + 1];
	int fd = connect_client();
	bool closed = false;

	(void)state;
	memset(text, 'x', sizeof text - 1);
	for (int i = 0; i < 4 && !closed; i++) {
		(void)!send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		assert_string_equal(get(fd, &closed), "");
	}
	assert_true(closed);
	close(fd);
}

static void connections_are_limited_and_slots_come_back(void **state)
{
	int fd[ADMIN_CONNECTIONS_MAX], more;
	bool closed;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < ADMIN_CONNECTIONS_MAX; i++) {
			fd[i] = connect_client();
		}
		more = connect_client();
		get(more, &closed);
		assert_true(closed);
		close(more);
		for (int i = 0; i < ADMIN_CONNECTIONS_MAX; i++) {
			put(fd[i], "{\"command\":\"ping\"}\n");
			assert_string_equal(get(fd[i], &closed), "{\"ok\":true}\n");
			close(fd[i]);
		}
		turn();
	}
}

/* A call outlives its connection; its answer then goes nowhere. */
static void peer_that_leaves_before_its_answer(void **state)
{
	int fd = connect_client();

	(void)state;
	put(fd, "{\"command\":\"ping\"}\n{\"command\":\"status\"}\n");
	close(fd);
	turn();
	fd = connect_client();
	put(fd, "{\"command\":\"ping\"}\n");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answers_come_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(byte_by_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(peer_that_closes_its_side_gets_its_answers, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_missing_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(status_of_a_daemon_without_arrays, setup, teardown),
		cmocka_unit_test_setup_teardown(streams_take_events, setup, teardown),
		cmocka_unit_test_setup_teardown(stream_that_reads_nothing_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(endless_line_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(connections_are_limited_and_slots_come_back, setup,
						teardown),
		cmocka_unit_test_setup_teardown(peer_that_leaves_before_its_answer, setup,
						teardown),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
