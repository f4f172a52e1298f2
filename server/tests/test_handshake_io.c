/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake's I/O over socket pairs and pipes: exactly one outcome for every session, whatever
 * the peer does, and the bytes behind the handshake come along.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "raid/base/bytes.h"
#include "server/handshake_io.h"
#include "server/wire.h"

enum { PATIENCE_S = 30 };

static struct assembly assembly;
static struct array_instance array = {.assembly = &assembly};
static struct export_table table;
static struct handshake_io io;
static const struct access_peer who = {.kind = ACCESS_UNIX};
static struct handoff got;
static char closed_why[128];
static unsigned ready_count, closed_count;

static void on_ready(void *ctx, const struct handoff *h)
{
	(void)ctx;
	ready_count++;
	got = *h;
}

static void on_closed(void *ctx, uint64_t session, const char *why, const char *wanted)
{
	(void)ctx;
	(void)session;
	(void)wanted;
	closed_count++;
	snprintf(closed_why, sizeof closed_why, "%s", why);
}

static int setup(void **state)
{
	(void)state;
	memset(&io, 0, sizeof io);
	memset(&got, 0, sizeof got);
	ready_count = closed_count = 0;
	closed_why[0] = '\0';
	assert_int_equal(exports_add(&table, export_create("data", NULL, &array, false), false), 0);
	io.base = event_base_new();
	assert_non_null(io.base);
	io.handshake.exports = &table;
	io.handshake.list = true;
	io.deadline_ms = PATIENCE_S * 1000;
	io.ready = on_ready;
	io.closed = on_closed;
	handshake_io_init(&io);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (ready_count) {
		close(got.in_fd);
		free(got.extra);
	}
	assert_true(list_empty(&io.sessions));
	event_base_free(io.base);
	exports_release(&table);
	return 0;
}

/* Turn the base until the session has its outcome. */
static void turn_until_over(void)
{
	const struct timeval limit = {.tv_sec = PATIENCE_S};

	while (!ready_count && !closed_count) {
		event_base_loopexit(io.base, &limit);
		event_base_loop(io.base, EVLOOP_ONCE);
	}
	assert_int_equal(ready_count + closed_count, 1);
}

static void turn_a_little(void)
{
	for (int i = 0; i < 50; i++) {
		event_base_loop(io.base, EVLOOP_NONBLOCK);
	}
}

/* The client's end of a new session. */
static int start(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(handshake_io_start(&io, fds[0], fds[0], true, 7, "peer", &who), 0);
	assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
	return fds[1];
}

static size_t put_option(uint8_t *p, uint32_t option, const void *data, uint32_t len)
{
	put_be64(p, NBD_IHAVEOPT);
	put_be32(p + 8, option);
	put_be32(p + 12, len);
	memcpy(p + 16, data, len);
	return 16 + len;
}

/* Flags, STRUCTURED_REPLY, GO. */
static size_t put_script(uint8_t *p)
{
	size_t at = 4;

	put_be32(p, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	at += put_option(p + at, NBD_OPT_STRUCTURED_REPLY, "", 0);
	return at + put_option(p + at, NBD_OPT_GO, "\0\0\0\4data\0\0", 10);
}

static void requests_in_the_same_segment_come_along(void **state)
{
	uint8_t bytes[512];
	size_t handshake = put_script(bytes), total = handshake + 8 * NBD_REQUEST_BYTES;
	int fd = start();

	(void)state;
	for (size_t i = handshake; i < total; i++) {
		bytes[i] = (uint8_t)i;
	}
	assert_int_equal(send(fd, bytes, total, 0), total);
	turn_until_over();
	assert_int_equal(ready_count, 1);
	assert_ptr_equal(got.export, table.item[0]);
	assert_true(got.structured && got.socket);
	assert_int_equal(got.session, 7);
	assert_string_equal(got.peer, "peer");
	assert_int_equal(got.extra_len, 8 * NBD_REQUEST_BYTES);
	assert_memory_equal(got.extra, bytes + handshake, got.extra_len);
	close(fd);
}

/* Cut at every byte: what came early is extra, the rest is still in the socket. */
static void split_at_every_byte(void **state)
{
	uint8_t bytes[512], rest[512];
	size_t handshake = put_script(bytes), total = handshake + 2 * NBD_REQUEST_BYTES;

	for (size_t i = handshake; i < total; i++) {
		bytes[i] = (uint8_t)(i * 3);
	}
	for (size_t cut = 1; cut < total; cut++) {
		int fd = start();
		size_t have;
		ssize_t n;

		assert_int_equal(send(fd, bytes, cut, 0), cut);
		turn_a_little();
		assert_int_equal(send(fd, bytes + cut, total - cut, 0), total - cut);
		turn_until_over();
		have = got.extra_len;
		assert_true(have <= sizeof rest);
		if (have) {
			memcpy(rest, got.extra, have);
		}
		n = have < 2 * NBD_REQUEST_BYTES
			    ? recv(got.in_fd, rest + have, sizeof rest - have, MSG_DONTWAIT)
			    : 0;
		assert_int_equal(have + (size_t)n, 2 * NBD_REQUEST_BYTES);
		assert_memory_equal(rest, bytes + handshake, 2 * NBD_REQUEST_BYTES);
		close(fd);
		teardown(state);
		setup(state);
	}
}

static void pipes_serve_as_well(void **state)
{
	uint8_t bytes[512];
	size_t n = put_script(bytes);
	int to[2], from[2];

	(void)state;
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	assert_int_equal(handshake_io_start(&io, to[0], from[1], false, 1, "stdin", &who), 0);
	assert_int_equal(write(to[1], bytes, n), n);
	turn_until_over();
	assert_int_equal(ready_count, 1);
	assert_int_equal(got.in_fd, to[0]);
	assert_int_equal(got.out_fd, from[1]);
	assert_false(got.socket);
	close(got.out_fd);
	close(to[1]);
	close(from[0]);
}

/* Rule 12: a byte now and then does not move the deadline. */
static void slow_client_is_cut_at_the_deadline(void **state)
{
	int fd;
	uint8_t byte = 0;

	(void)state;
	io.deadline_ms = 50;
	fd = start();
	for (int i = 0; i < 100000 && !closed_count; i++) {
		send(fd, &byte, i < 3, MSG_NOSIGNAL | MSG_DONTWAIT);
		event_base_loop(io.base, EVLOOP_ONCE);
	}
	assert_string_equal(closed_why, "the handshake took too long");
	close(fd);
}

static void silent_client_is_cut_at_the_deadline(void **state)
{
	int fd;

	(void)state;
	io.deadline_ms = 20;
	fd = start();
	turn_until_over();
	assert_string_equal(closed_why, "the handshake took too long");
	close(fd);
}

/* Rules 5 and 59: a port probe; a client that goes without reading. */
static void client_that_closes_at_once(void **state)
{
	(void)state;
	close(start());
	turn_until_over();
	assert_int_equal(closed_count, 1);
}

/* Rule 11: what is not read is not answered: the server's memory does not grow with requests. */
static void client_that_never_reads_is_not_served_further(void **state)
{
	static uint8_t lists[60 * NBD_OPTION_HEADER_BYTES + 4];
	struct export *e;
	char *text = malloc(60001);
	int fd, size = 4096;
	size_t at = 4;

	(void)state;
	assert_non_null(text);
	memset(text, 't', 60000);
	text[60000] = '\0';
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof name, "e%d", i);
		e = export_create(name, text, &array, false);
		assert_int_equal(exports_add(&table, e, false), 0);
	}
	free(text);
	io.deadline_ms = 200;
	fd = start();
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	put_be32(lists, NBD_FLAG_FIXED_NEWSTYLE);
	for (int i = 0; i < 60; i++) {
		at += put_option(lists + at, NBD_OPT_LIST, "", 0);
	}
	assert_int_equal(send(fd, lists, at, 0), at);
	turn_until_over();
	assert_string_equal(closed_why, "the handshake took too long");
	close(fd);
}

static void stopping_server_answers_then_closes(void **state)
{
	uint8_t bytes[512], reply[512];
	size_t n = put_script(bytes);
	ssize_t have;
	int fd = start();

	(void)state;
	assert_int_equal(send(fd, bytes, 4, 0), 4);
	turn_a_little();
	handshake_io_stop(&io);
	assert_int_equal(send(fd, bytes + 4, n - 4, 0), n - 4);
	turn_until_over();
	assert_string_equal(closed_why, "the server is stopping");
	have = recv(fd, reply, sizeof reply, 0);
	assert_true(have > NBD_GREETING_BYTES + 16);
	assert_true(get_be32(reply + NBD_GREETING_BYTES + 12) == NBD_REP_ERR_SHUTDOWN);
	close(fd);
}

static void cut_closes_what_is_left(void **state)
{
	int fd = start(), second = start();

	(void)state;
	turn_a_little();
	handshake_io_cut(&io, "enough");
	assert_int_equal(closed_count, 2);
	assert_string_equal(closed_why, "enough");
	close(fd);
	close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_in_the_same_segment_come_along, setup,
						teardown),
		cmocka_unit_test_setup_teardown(split_at_every_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(pipes_serve_as_well, setup, teardown),
		cmocka_unit_test_setup_teardown(slow_client_is_cut_at_the_deadline, setup,
						teardown),
		cmocka_unit_test_setup_teardown(silent_client_is_cut_at_the_deadline, setup,
						teardown),
		cmocka_unit_test_setup_teardown(client_that_closes_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(client_that_never_reads_is_not_served_further,
						setup, teardown),
		cmocka_unit_test_setup_teardown(stopping_server_answers_then_closes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(cut_closes_what_is_left, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
