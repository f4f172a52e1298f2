/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that wait for several requests, over TCP: whatever the client does next, nothing is held
 * back for longer than a moment. */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "server/batch.h"
#include "server/tests/loop_rig.h"

enum { DEPTH = 16, BYTES = 512, BLOCKS = 64 };

/* The server's end comes from accept(), as in the daemon. */
static int connect_tcp(struct rig *r, uint32_t loop)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	struct timeval limit = {.tv_sec = RIG_WAIT_S};
	struct handoff h = {.socket = true, .export = &r->export};
	socklen_t len = sizeof addr;
	int one = 1;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	h.in_fd = h.out_fd = accept(listener, NULL, NULL);
	assert_true(h.in_fd >= 0);
	close(listener);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(h.in_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	h.session = ++r->next_session;
	loop_handoff(r->loops[loop], &h);
	return fd;
}

static void ask(int fd, uint64_t i)
{
	client_request(fd, NBD_CMD_READ, 0, i, i % BLOCKS * BYTES, BYTES, NULL);
}

/* Replies may come in any order. */
static void take(int fd)
{
	uint8_t reply[NBD_SIMPLE_REPLY_BYTES + BYTES], expected[BYTES];

	client_recv(fd, reply, sizeof reply);
	assert_int_equal(get_be32(reply + 4), 0);
	memset(expected, (int)(get_be64(reply + 8) % BLOCKS), sizeof expected);
	assert_memory_equal(reply + NBD_SIMPLE_REPLY_BYTES, expected, BYTES);
}

/* DEPTH requests always in flight, each asked for alone: afterwards receives wait for several. */
static void keep_many_in_flight(int fd)
{
	enum { TURNS = 8 * BATCH_TRIES_MIN * BATCH_MAX };

	for (uint64_t i = 0; i < TURNS + DEPTH; i++) {
		if (i >= DEPTH) {
			take(fd);
		}
		if (i < TURNS) {
			ask(fd, i);
		}
	}
}

static struct rig *filled_rig(uint32_t loops, int *fd)
{
	struct rig *r = rig_start((struct rig_options){.loops = loops});

	*fd = connect_tcp(r, loops - 1);
	for (int i = 0; i < BLOCKS; i++) {
		uint8_t data[BYTES];

		memset(data, i, sizeof data);
		client_write(*fd, 0, (uint64_t)i * BYTES, data, BYTES);
	}
	keep_many_in_flight(*fd);
	return r;
}

static void test_then_one_at_a_time(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		int fd;
		struct rig *r = filled_rig(loops, &fd);

		for (uint64_t i = 0; i < 1000; i++) {
			ask(fd, i);
			take(fd);
		}
		close(fd);
		rig_stop(r);
	}
}

/* Headers and payloads in pieces smaller than what a receive waits for. */
static void test_then_payloads_in_pieces(void **state)
{
	enum { N = 40000, PIECE = 1999 };
	static uint8_t message[NBD_REQUEST_BYTES + N], back[N];

	for (uint32_t loops = 1; loops <= 2; loops++) {
		int fd;
		struct rig *r = filled_rig(loops, &fd);

		put_be32(message, NBD_REQUEST_MAGIC);
		put_be16(message + 4, 0);
		put_be16(message + 6, NBD_CMD_WRITE);
		put_be64(message + 8, 5);
		put_be64(message + 16, 1 << 20);
		put_be32(message + 24, N);
		pattern(message + NBD_REQUEST_BYTES, N, (uint8_t)loops);
		client_send(fd, message, 3);
		for (size_t at = 3; at < sizeof message; at += PIECE) {
			client_send(fd, message + at, min_u64(PIECE, sizeof message - at));
		}
		assert_int_equal(client_reply(fd, 5), 0);
		client_read(fd, 1 << 20, back, N);
		assert_memory_equal(back, message + NBD_REQUEST_BYTES, N);
		close(fd);
		rig_stop(r);
	}
}

static void test_then_goodbye(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		int fd;
		struct rig *r = filled_rig(loops, &fd);

		ask(fd, 1);
		client_request(fd, NBD_CMD_DISC, 0, 0, 0, 0, NULL);
		take(fd);
		client_expect_end(fd);
		rig_wait_ended(r, 1);
		close(fd);
		rig_stop(r);
	}
}

static void test_then_half_a_header_and_the_end(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		int fd;
		struct rig *r = filled_rig(loops, &fd);

		ask(fd, 2);
		client_send(fd, "half", 4);
		shutdown(fd, SHUT_WR);
		take(fd);
		client_expect_end(fd);
		rig_wait_ended(r, 1);
		close(fd);
		rig_stop(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_then_one_at_a_time),
		cmocka_unit_test(test_then_payloads_in_pieces),
		cmocka_unit_test(test_then_goodbye),
		cmocka_unit_test(test_then_half_a_header_and_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
