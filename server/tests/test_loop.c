/* SPDX-License-Identifier: BSD-3-Clause */
/* Real loops, real files, raw NBD. Each test that has a rig of its own runs on one loop and, where
 * sessions may live elsewhere than the array, on two. */
#include "server/tests/loop_rig.h"

static void check_round_trip(int fd, uint64_t addr, uint32_t n, uint8_t seed)
{
	uint8_t *out = malloc(n), *in = malloc(n);

	pattern(out, n, seed);
	client_write(fd, 0, addr, out, n);
	client_read(fd, addr, in, n);
	assert_memory_equal(in, out, n);
	free(out);
	free(in);
}

/* Small, odd, beyond the shared buffers, beyond a fragment (gathered). */
static void test_what_is_written_is_read(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		struct rig *r = rig_start((struct rig_options){.loops = loops});
		int fd = rig_connect(r, loops - 1, false);

		check_round_trip(fd, 0, 512, 1);
		check_round_trip(fd, 4095, 3, 2);
		check_round_trip(fd, 12345, 100000, 3);
		check_round_trip(fd, (1 << 20) - 512, 1 << 20, 4);
		check_round_trip(fd, 777, 5 << 20, 5);
		check_round_trip(fd, r->export.size - 1, 1, 6);
		client_flush(fd);
		close(fd);
		rig_stop(r);
	}
}

static void test_structured_chunks(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, true);
	enum { N = 5 << 20 };
	uint8_t *out = malloc(N), *in = calloc(1, N), head[NBD_CHUNK_HEADER_BYTES + 8];
	uint32_t got = 0;
	bool done = false;

	pattern(out, N, 9);
	client_write(fd, 0, 1000, out, N);
	client_request(fd, NBD_CMD_READ, 0, 5, 1000, N, NULL);
	while (!done) {
		uint32_t len;
		uint64_t addr;

		client_recv(fd, head, sizeof head);
		assert_int_equal(get_be32(head), NBD_STRUCTURED_REPLY_MAGIC);
		assert_int_equal(get_be16(head + 6), NBD_REPLY_TYPE_OFFSET_DATA);
		assert_int_equal(get_be64(head + 8), 5);
		len = get_be32(head + 16) - 8;
		addr = get_be64(head + 20);
		assert_true(addr >= 1000 && addr + len <= 1000 + N && len <= 1 << 20);
		client_recv(fd, in + (addr - 1000), len);
		got += len;
		done = get_be16(head + 4) & NBD_REPLY_FLAG_DONE;
	}
	assert_int_equal(got, N);
	assert_memory_equal(in, out, N);
	close(fd);
	free(out);
	free(in);
	rig_stop(r);
}

/* The handshake's last segment brought eight requests along. */
static void test_requests_that_came_with_the_handshake(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		struct rig *r = rig_start((struct rig_options){.loops = loops});
		uint8_t bytes[8 * NBD_REQUEST_BYTES];
		bool seen[8] = {false};
		int fd;

		for (int i = 0; i < 8; i++) {
			uint8_t *h = bytes + i * NBD_REQUEST_BYTES;

			memset(h, 0, NBD_REQUEST_BYTES);
			put_be32(h, NBD_REQUEST_MAGIC);
			put_be16(h + 6, NBD_CMD_READ);
			put_be64(h + 8, i);
			put_be32(h + 24, 512);
		}
		fd = rig_connect_extra(r, loops - 1, false, bytes, sizeof bytes);
		for (int i = 0; i < 8; i++) {
			uint8_t reply[NBD_SIMPLE_REPLY_BYTES + 512];

			client_recv(fd, reply, sizeof reply);
			assert_true(get_be64(reply + 8) < 8 && !seen[get_be64(reply + 8)]);
			seen[get_be64(reply + 8)] = true;
		}
		close(fd);
		rig_stop(r);
	}
}

static void test_many_in_flight(void **state)
{
	enum { DEPTH = 600, BYTES = 4096 }; /* beyond the session's depth */
	for (uint32_t loops = 1; loops <= 2; loops++) {
		struct rig *r = rig_start((struct rig_options){.loops = loops});
		int fd = rig_connect(r, loops - 1, false);
		uint8_t *reply = malloc(NBD_SIMPLE_REPLY_BYTES + BYTES), data[BYTES];
		bool *seen = calloc(DEPTH, 1);

		for (uint64_t i = 0; i < DEPTH; i++) {
			memset(data, (int)i, sizeof data);
			client_write(fd, 0, i * BYTES, data, BYTES);
		}
		for (uint64_t i = 0; i < DEPTH; i++) {
			client_request(fd, NBD_CMD_READ, 0, i, i * BYTES, BYTES, NULL);
		}
		for (int i = 0; i < DEPTH; i++) {
			uint64_t cookie;

			client_recv(fd, reply, NBD_SIMPLE_REPLY_BYTES + BYTES);
			cookie = get_be64(reply + 8);
			assert_true(cookie < DEPTH && !seen[cookie]);
			seen[cookie] = true;
			assert_int_equal(get_be32(reply + 4), 0);
			memset(data, (int)cookie, sizeof data);
			assert_memory_equal(reply + NBD_SIMPLE_REPLY_BYTES, data, BYTES);
		}
		free(seen);
		free(reply);
		close(fd);
		rig_stop(r);
	}
}

static void test_trim_and_zeroes(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, false);
	uint8_t data[8192], zero[8192] = {0};

	pattern(data, sizeof data, 1);
	client_write(fd, 0, 0, data, sizeof data);
	client_request(fd, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 1, 0, 4096, NULL);
	assert_int_equal(client_reply(fd, 1), 0);
	client_read(fd, 0, data, sizeof data);
	assert_memory_equal(data, zero, 4096);
	client_request(fd, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FUA, 1, 0, RIG_BYTES / 2, NULL);
	assert_int_equal(client_reply(fd, 1), 0);
	client_read(fd, 0, data, sizeof data);
	assert_memory_equal(data, zero, sizeof zero);
	client_request(fd, NBD_CMD_TRIM, 0, 2, 0, RIG_BYTES / 2, NULL);
	assert_int_equal(client_reply(fd, 2), 0);
	client_request(fd, NBD_CMD_CACHE, 0, 3, 0, RIG_BYTES / 2, NULL);
	assert_int_equal(client_reply(fd, 3), 0);
	close(fd);
	rig_stop(r);
}

static void test_read_only(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1, .read_only = true});
	int fd = rig_connect(r, 0, false);
	uint8_t data[4096] = {0};

	client_request(fd, NBD_CMD_WRITE, 0, 1, 0, sizeof data, data);
	assert_int_equal(client_reply(fd, 1), NBD_EPERM);
	client_read(fd, 0, data, sizeof data);
	client_flush(fd);
	close(fd);
	rig_stop(r);
}

/* ---- the ways a session ends --------------------------------------------------------------- */

static void test_disc_answers_what_is_in_flight(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, false);
	uint8_t data[512];

	for (int i = 0; i < 16; i++) {
		client_request(fd, NBD_CMD_READ, 0, 4, i * 4096, sizeof data, NULL);
	}
	client_request(fd, NBD_CMD_DISC, 0, 0, 0, 0, NULL);
	client_request(fd, NBD_CMD_READ, 0, 99, 0, 512, NULL); /* ignored, and no reset */
	for (int i = 0; i < 16; i++) {
		assert_int_equal(client_reply(fd, 4), 0);
		client_recv(fd, data, sizeof data);
	}
	client_expect_end(fd);
	close(fd);
	rig_wait_ended(r, 1);
	assert_string_equal(r->why, "the client disconnected");
	rig_stop(r);
}

static void test_half_close_delivers_replies(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, false);
	uint8_t *data = malloc(4 << 20);

	client_request(fd, NBD_CMD_READ, 0, 1, 0, 4 << 20, NULL);
	shutdown(fd, SHUT_WR);
	assert_int_equal(client_reply(fd, 1), 0);
	client_recv(fd, data, 4 << 20);
	client_expect_end(fd);
	close(fd);
	rig_wait_ended(r, 1);
	free(data);
	rig_stop(r);
}

static void test_client_vanishes(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		struct rig *r = rig_start((struct rig_options){.loops = loops});
		int other = rig_connect(r, loops - 1, false);
		uint8_t *data = calloc(1, 1 << 20);
		int fd;

		/* inside a payload */
		fd = rig_connect(r, loops - 1, false);
		client_request(fd, NBD_CMD_WRITE, 0, 1, 0, 8 << 20, NULL);
		client_send(fd, data, 1 << 20);
		close(fd);
		/* before the replies of large reads */
		fd = rig_connect(r, loops - 1, true);
		for (int i = 0; i < 8; i++) {
			client_request(fd, NBD_CMD_READ, 0, 1, 0, 8 << 20, NULL);
		}
		client_recv(fd, data, 1000);
		close(fd);
		/* inside a header, and at once */
		fd = rig_connect(r, loops - 1, false);
		client_send(fd, data, 5);
		close(fd);
		close(rig_connect(r, loops - 1, false));
		rig_wait_ended(r, 4);
		check_round_trip(other, 0, 4096, 3);
		close(other);
		free(data);
		rig_stop(r);
	}
}

static void test_broken_protocol_ends_only_its_session(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int other = rig_connect(r, 0, false), fd = rig_connect(r, 0, false);
	uint8_t junk[NBD_REQUEST_BYTES] = {1, 2, 3};

	client_send(fd, junk, sizeof junk);
	client_expect_end(fd);
	rig_wait_ended(r, 1);
	assert_non_null(strstr(r->why, "magic"));
	check_round_trip(other, 0, 4096, 3);
	close(fd);
	close(other);
	rig_stop(r);
}

/* The lowest free descriptor: the same before and after when none has leaked. */
static int lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void test_many_short_sessions_leave_nothing(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 2});
	int before = lowest_free_fd();

	for (uint32_t i = 0; i < 1000; i++) {
		close(rig_connect(r, i % 2, false));
		if (i % 50 == 49) {
			rig_wait_ended(r, i + 1);
		}
	}
	assert_int_equal(lowest_free_fd(), before);
	rig_stop(r);
}

/* ---- draining ------------------------------------------------------------------------------ */

struct drainer {
	struct rig *rig;
	uint32_t ms;
};

static void *drain(void *arg)
{
	struct drainer *d = arg;

	loop_drain(d->rig->loops[0], d->ms);
	return NULL;
}

static void test_drain_ends_idle_sessions_and_finishes_the_rest(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int idle = rig_connect(r, 0, false), busy = rig_connect(r, 0, false);
	struct drainer d = {r, RIG_WAIT_S * 1000};
	uint8_t data[4096];
	pthread_t thread;

	check_round_trip(idle, 0, 512, 1);
	pattern(data, sizeof data, 5);
	client_request(busy, NBD_CMD_WRITE, 0, 9, 8192, sizeof data, NULL);
	client_send(busy, data, 100);
	check_round_trip(idle, 0, 512, 2); /* so busy's header has been seen, more or less */
	assert_int_equal(pthread_create(&thread, NULL, drain, &d), 0);
	client_expect_end(idle);
	close(idle);
	client_send(busy, data + 100, sizeof data - 100);
	assert_int_equal(client_reply(busy, 9), 0);
	client_expect_end(busy);
	close(busy);
	pthread_join(thread, NULL);
	assert_int_equal(r->ended, 2);
	rig_stop(r);
}

static void test_drain_cuts_at_its_deadline(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, false);
	uint8_t data[64 << 10] = {0};

	client_request(fd, NBD_CMD_WRITE, 0, 9, 0, 1 << 20, NULL);
	client_send(fd, data, sizeof data);
	loop_drain(r->loops[0], 50);
	rig_wait_ended(r, 1);
	close(fd);
	rig_stop(r);
}

static void test_hurry_cuts_a_running_drain(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, false);
	struct drainer d = {r, 3600 * 1000};
	uint8_t data[64 << 10] = {0};
	pthread_t thread;

	client_request(fd, NBD_CMD_WRITE, 0, 9, 0, 1 << 20, NULL);
	client_send(fd, data, sizeof data);
	assert_int_equal(pthread_create(&thread, NULL, drain, &d), 0);
	loop_hurry(r->loops[0]);
	pthread_join(thread, NULL);
	close(fd);
	rig_stop(r);
}

/* ---- sharing ------------------------------------------------------------------------------- */

static void test_client_that_never_reads_holds_nobody(void **state)
{
	for (uint32_t loops = 1; loops <= 2; loops++) {
		struct rig *r = rig_start((struct rig_options){.loops = loops});
		int deaf[4], other = rig_connect(r, loops - 1, false);

		for (int i = 0; i < 4; i++) {
			deaf[i] = rig_connect(r, loops - 1, i % 2);
			for (int k = 0; k < 64; k++) {
				client_request(deaf[i], NBD_CMD_READ, 0, k, 0, 32 << 20, NULL);
			}
		}
		for (int i = 0; i < 32; i++) {
			check_round_trip(other, i * 4096, 128 << 10, (uint8_t)i);
		}
		for (int i = 0; i < 4; i++) {
			close(deaf[i]);
		}
		rig_wait_ended(r, 4);
		close(other);
		rig_stop(r);
	}
}

/* Payloads that never end hold slots; when others wait for slots too long they are cut. */
static void test_stalled_payloads_are_cut_when_others_starve(void **state)
{
	enum { STALLED = 16 };
	struct rig *r = rig_start(
		(struct rig_options){.loops = 1, .payload_bytes = 8 << 20, .stall_ms = 200});
	int fd[STALLED], other = rig_connect(r, 0, false);
	uint8_t data[64 << 10] = {0};

	for (int i = 0; i < STALLED; i++) {
		fd[i] = rig_connect(r, 0, false);
		client_request(fd[i], NBD_CMD_WRITE, 0, i, 0, 1 << 20, NULL);
		client_send(fd[i], data, sizeof data);
	}
	check_round_trip(other, 0, 2 << 20, 1);
	check_round_trip(other, 0, 2 << 20, 2);
	for (int i = 0; i < STALLED; i++) {
		close(fd[i]);
	}
	rig_wait_ended(r, STALLED);
	close(other);
	rig_stop(r);
}

/* More sessions with something to say than there are buffers to hear it. */
static void test_more_sessions_than_receive_buffers(void **state)
{
	enum { SESSIONS = 400, ROUNDS = 5 };
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	uint8_t data[512];
	int fd[SESSIONS];

	for (int i = 0; i < SESSIONS; i++) {
		fd[i] = rig_connect(r, 0, false);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < SESSIONS; i++) {
			client_request(fd[i], NBD_CMD_READ, 0, i, i * 512, sizeof data, NULL);
		}
		for (int i = 0; i < SESSIONS; i++) {
			assert_int_equal(client_reply(fd[i], i), 0);
			client_recv(fd[i], data, sizeof data);
		}
	}
	for (int i = 0; i < SESSIONS; i++) {
		close(fd[i]);
	}
	rig_wait_ended(r, SESSIONS);
	rig_stop(r);
}

/* Several writers at once, on both loops, each over its own part; then all read back. */
struct writer {
	int fd;
	uint64_t base;
	uint8_t seed;
};

static void *write_and_read(void *arg)
{
	struct writer *w = arg;

	for (int i = 0; i < 40; i++) {
		check_round_trip(w->fd, w->base + i * 7000, 1 + i * 4999, (uint8_t)(w->seed + i));
	}
	client_flush(w->fd);
	return NULL;
}

static void test_sessions_on_several_loops(void **state)
{
	enum { WRITERS = 6 };
	struct rig *r = rig_start((struct rig_options){.loops = 2});
	struct writer w[WRITERS];
	pthread_t thread[WRITERS];

	for (int i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){rig_connect(r, i % 2, false), i * UINT64_C(6000000),
				       (uint8_t)(i * 40)};
		assert_int_equal(pthread_create(&thread[i], NULL, write_and_read, &w[i]), 0);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(thread[i], NULL);
		close(w[i].fd);
	}
	rig_wait_ended(r, WRITERS);
	rig_stop(r);
}

/* ---- other transports, members, commands --------------------------------------------------- */

static void test_pipes(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	struct handoff h = {.export = &r->export, .session = 1};
	uint8_t *data = malloc(300000), reply[NBD_SIMPLE_REPLY_BYTES];
	int to[2], from[2];
	uint8_t head[NBD_REQUEST_BYTES] = {0};

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	h.in_fd = to[0];
	h.out_fd = from[1];
	loop_handoff(r->loops[0], &h);
	pattern(data, 300000, 1);
	put_be32(head, NBD_REQUEST_MAGIC);
	put_be16(head + 6, NBD_CMD_WRITE);
	put_be32(head + 24, 300000);
	assert_int_equal(write(to[1], head, sizeof head), sizeof head);
	for (size_t at = 0; at < 300000;) {
		ssize_t n = write(to[1], data + at, 300000 - at);

		assert_true(n > 0);
		at += n;
	}
	client_recv(from[0], reply, sizeof reply);
	assert_int_equal(get_be32(reply + 4), 0);
	put_be16(head + 6, NBD_CMD_READ);
	assert_int_equal(write(to[1], head, sizeof head), sizeof head);
	client_recv(from[0], reply, sizeof reply);
	memset(data, 0, 300000);
	client_recv(from[0], data, 300000);
	assert_int_equal(data[299999], (uint8_t)(1 + 299999 * 13 + 299999 / 239));
	close(to[1]);
	client_expect_end(from[0]);
	close(from[0]);
	free(data);
	rig_wait_ended(r, 1);
	rig_stop(r);
}

static void file_read(const struct rig *r, void *buf, size_t n)
{
	int fd = open(r->path[0], O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, buf, n, 0), n);
	close(fd);
}

static void test_volatile_member_keeps_writes_until_flush(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1, .volatile_cache = true});
	int fd = rig_connect(r, 0, false);
	uint8_t data[4096], file[4096], zero[4096] = {0};

	pattern(data, sizeof data, 7);
	client_write(fd, 0, 0, data, sizeof data);
	client_read(fd, 0, file, sizeof file);
	assert_memory_equal(file, data, sizeof data); /* a read sees it */
	file_read(r, file, sizeof file);
	assert_memory_equal(file, zero, sizeof file); /* the medium does not */
	client_write(fd, NBD_CMD_FLAG_FUA, 512, data, 512);
	file_read(r, file, sizeof file);
	assert_memory_equal(file, zero, 512); /* FUA covers only itself */
	assert_memory_equal(file + 512, data, 512);
	client_flush(fd);
	file_read(r, file, sizeof file);
	assert_memory_equal(file, data, 512);
	assert_memory_equal(file + 1024, data + 1024, sizeof file - 1024);
	close(fd);
	rig_stop(r);
}

/* A file member that shrinks is an I/O error, not a short reply. */
static void test_end_of_file_is_an_error(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 1});
	int fd = rig_connect(r, 0, false);
	uint8_t data[512];

	assert_int_equal(truncate(r->path[0], 1 << 20), 0);
	client_request(fd, NBD_CMD_READ, 0, 1, 2 << 20, 4096, NULL);
	assert_int_equal(client_reply(fd, 1), NBD_EIO);
	client_read(fd, 0, data, sizeof data);
	close(fd);
	rig_stop(r);
}

static void test_status_check_and_stats(void **state)
{
	struct rig *r = rig_start((struct rig_options){.loops = 2});
	int fd = rig_connect(r, 1, false);
	struct raid_status *status = malloc(sizeof *status);
	struct loop_stats stats;

	check_round_trip(fd, 0, 8192, 1);
	assert_null(loop_array_check(r->ai));
	loop_array_status(r->ai, status);
	client_request(fd, NBD_CMD_DISC, 0, 0, 0, 0, NULL);
	client_expect_end(fd);
	rig_wait_ended(r, 1);
	loop_drain(r->loops[1], 0);
	loop_get_stats(r->loops[1], &stats);
	assert_int_equal(stats.requests, 2);
	assert_int_equal(stats.read_bytes, 8192);
	assert_int_equal(stats.write_bytes, 8192);
	assert_int_equal(stats.sessions_total, 1);
	assert_int_equal(stats.sessions, 0);
	free(status);
	close(fd);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_structured_chunks),
		cmocka_unit_test(test_requests_that_came_with_the_handshake),
		cmocka_unit_test(test_many_in_flight),
		cmocka_unit_test(test_trim_and_zeroes),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_disc_answers_what_is_in_flight),
		cmocka_unit_test(test_half_close_delivers_replies),
		cmocka_unit_test(test_client_vanishes),
		cmocka_unit_test(test_broken_protocol_ends_only_its_session),
		cmocka_unit_test(test_many_short_sessions_leave_nothing),
		cmocka_unit_test(test_drain_ends_idle_sessions_and_finishes_the_rest),
		cmocka_unit_test(test_drain_cuts_at_its_deadline),
		cmocka_unit_test(test_hurry_cuts_a_running_drain),
		cmocka_unit_test(test_client_that_never_reads_holds_nobody),
		cmocka_unit_test(test_stalled_payloads_are_cut_when_others_starve),
		cmocka_unit_test(test_more_sessions_than_receive_buffers),
		cmocka_unit_test(test_sessions_on_several_loops),
		cmocka_unit_test(test_pipes),
		cmocka_unit_test(test_volatile_member_keeps_writes_until_flush),
		cmocka_unit_test(test_end_of_file_is_an_error),
		cmocka_unit_test(test_status_check_and_stats),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
