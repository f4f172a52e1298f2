/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive side and the life of a transmission: segmentation, bounds, the ways it ends. */
#include "server/tests/tx_reader.h"

static void test_read_returns_what_was_written(void **state)
{
	for (int structured = 0; structured < 2; structured++) {
		struct world *w = world_new(SIZE, WORLD_FLAGS, structured);
		struct reader r = {w, 0};
		uint8_t bytes[5000];

		pattern(bytes, sizeof bytes, 3);
		send_request(w, NBD_CMD_WRITE, 0, 1, 777, sizeof bytes);
		world_feed(w, bytes, sizeof bytes);
		world_settle(w);
		send_request(w, NBD_CMD_READ, 0, 2, 777, sizeof bytes);
		world_settle(w);
		assert_int_equal(next_simple(&r, 1), 0);
		if (structured) {
			struct chunk c = next_chunk(&r);

			assert_int_equal(c.flags, NBD_REPLY_FLAG_DONE);
			assert_int_equal(c.addr, 777);
			assert_memory_equal(c.data, bytes, sizeof bytes);
		} else {
			assert_int_equal(next_simple(&r, 2), 0);
			assert_memory_equal(w->out + r.at, bytes, sizeof bytes);
			r.at += sizeof bytes;
		}
		expect_end(&r);
		world_free(w);
	}
}

/* rule 52: of a dead session's WRITE only what was whole is submitted */
static void test_dead_session_submits_nothing_incomplete(void **state)
{
	for (int how = 0; how < 2; how++) {
		struct world *w = world_new(SIZE, WORLD_FLAGS, false);
		uint8_t *bytes = calloc(1, 100000);

		w->fragment_bytes = 64 << 10;
		send_request(w, NBD_CMD_WRITE, 0, 1, 0, 192 << 10);
		world_feed(w, bytes, 100000);
		assert_int_equal(w->submitted, 1);
		if (how) {
			tx_abort(&w->t);
		} else {
			tx_eof(&w->t);
			assert_int_equal(w->t.end, TX_END_EOF_INSIDE);
		}
		world_settle(w);
		assert_int_equal(w->submitted, 1);
		assert_int_equal(w->out_len, 0);
		assert_true(tx_ended(&w->t));
		free(bytes);
		world_free(w);
	}
}

/* rule 55 */
static void test_disc_with_requests_in_flight(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};

	for (int i = 0; i < 16; i++) {
		send_request(w, NBD_CMD_READ, 0, i, i * 4096, 512);
	}
	send_request(w, NBD_CMD_DISC, 0, 99, 0, 0);
	world_feed(w, "ignored", 7);
	assert_int_equal(w->stash_len, 0);
	assert_false(tx_answered(&w->t));
	world_settle(w);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(next_simple(&r, i), 0);
		r.at += 512;
	}
	expect_end(&r);
	assert_true(tx_ended(&w->t));
	assert_int_equal(w->t.end, TX_END_DISC);
	world_free(w);
}

/* rule 56 */
static void test_half_close_delivers_replies(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};

	send_request(w, NBD_CMD_READ, 0, 1, 0, 512);
	tx_eof(&w->t);
	assert_int_equal(w->t.end, TX_END_EOF);
	world_settle(w);
	assert_int_equal(next_simple(&r, 1), 0);
	assert_true(tx_ended(&w->t));
	world_free(w);
}

/* rule 58 */
static void test_client_that_never_reads_is_bounded(void **state)
{
	struct world *w = world_new(UINT64_C(1) << 30, WORLD_FLAGS, true);
	struct transmission other;
	uint8_t head[NBD_REQUEST_BYTES];

	for (int i = 0; i < 64; i++) {
		send_request(w, NBD_CMD_READ, 0, i, 0, 32 << 20);
	}
	for (int i = 0; i < 100; i++) {
		while (w->queued) {
			world_answer(w, 0);
		}
		tx_resume(&w->t, UINT64_MAX);
		world_collect(w, &w->t);
	}
	assert_true(w->t.held_read <= w->target.read_bytes.total / 3);
	assert_true(w->t.request_count <= w->t.depth_max);
	assert_int_equal(tx_want(&w->t, NULL), TX_WANT_NOTHING); /* its socket is not read */
	world_session(w, &other, SIZE, WORLD_FLAGS, false, 32);
	for (int i = 0; i < 8; i++) {
		tx_feed(&other, head, world_header(head, NBD_CMD_READ, 0, i, 0, 128 << 10));
	}
	assert_int_equal(other.held_frags, 8);
	tx_abort(&other);
	world_free(w);
}

/* DRAIN: no new request, the WRITE on its way may finish. */
static void test_drain(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};
	uint8_t bytes[512] = {1};

	send_request(w, NBD_CMD_WRITE, 0, 1, 0, 512);
	world_feed(w, bytes, 100);
	tx_drain(&w->t);
	assert_false(tx_answered(&w->t));
	world_feed(w, bytes + 100, 412);
	send_request(w, NBD_CMD_READ, 0, 2, 0, 512);
	world_settle(w);
	assert_int_equal(next_simple(&r, 1), 0);
	expect_end(&r);
	assert_true(tx_ended(&w->t));
	assert_int_equal(w->t.end, TX_END_DRAIN);
	world_free(w);
}

/* The eight requests of test_any_segmentation. */
static size_t eight_requests(uint8_t *s)
{
	size_t n = 0;

	n += world_header(s + n, NBD_CMD_WRITE, 0, 1, 100, 300);
	pattern(s + n, 300, 11);
	n += 300;
	n += world_header(s + n, NBD_CMD_READ, 0, 2, 0, 64);
	n += world_header(s + n, NBD_CMD_WRITE, NBD_CMD_FLAG_NO_HOLE, 3, 0, 40); /* refused */
	pattern(s + n, 40, 77);
	n += 40;
	n += world_header(s + n, NBD_CMD_FLUSH, 0, 4, 0, 0);
	n += world_header(s + n, NBD_CMD_TRIM, 0, 5, 8192, 512);
	n += world_header(s + n, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FUA, 6, 8192, 512);
	n += world_header(s + n, NBD_CMD_CACHE, 0, 7, 0, 512);
	n += world_header(s + n, NBD_CMD_READ, 0, 8, SIZE, 512); /* past the end */
	return n;
}

static void expect_eight(struct world *w)
{
	uint32_t error[9];
	bool seen[9] = {false};

	for (size_t at = 0; at < w->out_len;) {
		uint64_t cookie = get_be64(w->out + at + 8);

		assert_true(cookie >= 1 && cookie <= 8 && !seen[cookie]);
		seen[cookie] = true;
		error[cookie] = get_be32(w->out + at + 4);
		at += NBD_SIMPLE_REPLY_BYTES + (cookie == 2 ? 64 : 0);
	}
	for (int i = 1; i <= 8; i++) {
		assert_true(seen[i]);
		assert_int_equal(error[i], i == 3 || i == 8 ? NBD_EINVAL : 0);
	}
}

static void test_any_segmentation(void **state)
{
	uint8_t stream[1024];
	size_t n = eight_requests(stream);

	for (size_t split = 0; split <= n; split++) {
		struct world *w = world_new(SIZE, WORLD_FLAGS, false);

		world_feed(w, stream, split);
		world_feed(w, stream + split, n - split);
		world_settle(w);
		expect_eight(w);
		assert_memory_equal(w->disk + 100, stream + NBD_REQUEST_BYTES, 300);
		if (split == n) {
			/* All in one segment: every submitted one but the last two (CACHE, which
			 * the refused READ follows; none after) saw a further header. */
			assert_int_equal(w->more_seen, w->submitted);
		}
		world_free(w);
	}
}

static void test_byte_by_byte(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	uint8_t stream[1024];
	size_t n = eight_requests(stream);

	for (size_t i = 0; i < n; i++) {
		world_feed(w, stream + i, 1);
	}
	assert_int_equal(w->more_seen, 0);
	world_settle(w);
	expect_eight(w);
	world_free(w);
}

/* A big payload lands in the slot, not through the shared buffers. */
static void test_large_payload_is_received_in_place(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};
	struct iovec slot;
	uint8_t *bytes = malloc(1 << 20);

	pattern(bytes, 1 << 20, 21);
	send_request(w, NBD_CMD_WRITE, 0, 1, 512, 1 << 20);
	world_feed(w, bytes, 5000);
	assert_int_equal(tx_want(&w->t, &slot), TX_WANT_SLOT);
	assert_int_equal((uintptr_t)slot.iov_base % 4096, (512 + 5000) % 4096);
	assert_int_equal(slot.iov_len, (1 << 20) - 512 - 5000); /* to the fragment's end */
	memcpy(slot.iov_base, bytes + 5000, slot.iov_len);
	tx_slot_filled(&w->t, slot.iov_len);
	world_collect(w, &w->t);
	assert_int_equal(tx_want(&w->t, &slot), TX_WANT_BYTES); /* 512 are left */
	world_feed(w, bytes + (1 << 20) - 512, 512);
	world_settle(w);
	assert_int_equal(next_simple(&r, 1), 0);
	assert_memory_equal(w->disk + 512, bytes, 1 << 20);
	free(bytes);
	world_free(w);
}

/* A session beyond its depth is not read until a reply has left. */
static void test_depth_stops_reading(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};

	for (int i = 0; i < 40; i++) {
		send_request(w, NBD_CMD_READ, 0, i, 0, 512);
	}
	assert_int_equal(w->queued, 32);
	assert_int_equal(tx_want(&w->t, NULL), TX_WANT_NOTHING);
	assert_false(w->t.starved); /* its own doing */
	world_settle(w);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(next_simple(&r, i), 0);
		r.at += 512;
	}
	expect_end(&r);
	world_free(w);
}

/* Served by bytes: a turn submits a quantum, not more. */
static void test_quantum(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);

	tx_resume(&w->t, 2 * 4096);
	for (int i = 0; i < 4; i++) {
		send_request(w, NBD_CMD_READ, 0, i, 0, 4096);
	}
	assert_int_equal(w->queued, 2);
	assert_true(w->t.starved);
	tx_resume(&w->t, 4096);
	world_collect(w, &w->t);
	assert_int_equal(w->queued, 3);
	world_settle(w);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_returns_what_was_written),
		cmocka_unit_test(test_dead_session_submits_nothing_incomplete),
		cmocka_unit_test(test_disc_with_requests_in_flight),
		cmocka_unit_test(test_half_close_delivers_replies),
		cmocka_unit_test(test_client_that_never_reads_is_bounded),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_any_segmentation),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_large_payload_is_received_in_place),
		cmocka_unit_test(test_depth_stops_reading),
		cmocka_unit_test(test_quantum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
