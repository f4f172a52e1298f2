/* SPDX-License-Identifier: BSD-3-Clause */
/* The form and order of replies, and READs that must be whole. */
#include "server/tests/tx_reader.h"

/* rule 38 */
static void test_structured_read_is_answered_by_chunks_even_early(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, true);
	struct reader r = {w, 0};
	struct chunk c;

	send_request(w, NBD_CMD_READ, 0, 9, SIZE, 512);
	world_settle(w);
	c = next_chunk(&r);
	assert_int_equal(c.type, NBD_REPLY_TYPE_ERROR);
	assert_int_equal(c.flags, NBD_REPLY_FLAG_DONE);
	assert_int_equal(c.error, NBD_EINVAL);
	assert_int_equal(c.cookie, 9);
	expect_end(&r);
	world_free(w);
}

/* rule 39, in any order of completion */
static void test_chunks_cover_the_read_once(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, true);
	struct reader r = {w, 0};
	uint64_t covered = 0;
	bool done = false;

	w->fragment_bytes = 64 << 10;
	pattern(w->disk, SIZE, 1);
	send_request(w, NBD_CMD_READ, 0, 9, 1000, 700000);
	while (w->queued) {
		world_answer(w, w->queued - 1);
	}
	world_settle(w);
	while (!done) {
		struct chunk c = next_chunk(&r);

		assert_int_equal(c.type, NBD_REPLY_TYPE_OFFSET_DATA);
		assert_true(c.addr >= 1000 && c.addr + c.len - 8 <= 1000 + 700000);
		assert_memory_equal(c.data, w->disk + c.addr, c.len - 8);
		covered += c.len - 8;
		done = c.flags & NBD_REPLY_FLAG_DONE;
	}
	assert_int_equal(covered, 700000); /* addresses differ: they are fragments */
	expect_end(&r);
	world_free(w);
}

/* rules 40, 42 */
static void test_late_error_is_a_last_chunk(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, true);
	struct reader r = {w, 0};
	struct chunk c;

	w->fragment_bytes = 64 << 10;
	send_request(w, NBD_CMD_READ, 0, 9, 0, 192 << 10);
	world_answer(w, 0);
	world_send(w); /* the first chunk has left */
	w->fail = -EIO;
	world_answer(w, 0);
	w->fail = 0;
	world_settle(w);
	assert_int_equal(next_chunk(&r).flags, 0);
	assert_int_equal(next_chunk(&r).flags, 0);
	c = next_chunk(&r);
	assert_int_equal(c.error, NBD_EIO);
	assert_int_equal(c.flags, NBD_REPLY_FLAG_DONE);
	expect_end(&r);
	world_free(w);
}

/* A simple reply's head never precedes what may still fail. */
static void test_simple_read_of_many_fragments_fails_whole(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};

	w->fragment_bytes = 64 << 10;
	send_request(w, NBD_CMD_READ, 0, 9, 0, 192 << 10);
	world_answer(w, 0);
	world_send(w);
	assert_int_equal(w->out_len, 0);
	w->fail = -EIO;
	world_settle(w);
	assert_int_equal(next_simple(&r, 9), NBD_EIO);
	expect_end(&r);
	world_free(w);
}

/* rule 41 */
static void test_df_gives_one_chunk(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, true);
	struct reader r = {w, 0};
	struct chunk c;

	w->fragment_bytes = 16 << 10;
	pattern(w->disk, SIZE, 9);
	send_request(w, NBD_CMD_READ, NBD_CMD_FLAG_DF, 9, 100, 1 << 20);
	world_settle(w);
	c = next_chunk(&r);
	assert_int_equal(c.flags, NBD_REPLY_FLAG_DONE);
	assert_int_equal(c.len, 8 + (1 << 20));
	assert_memory_equal(c.data, w->disk + 100, 1 << 20);
	expect_end(&r);
	world_free(w);
}

/* The large budget: one a session, first come first served, nothing held by those who wait. */
static void test_gathered_reads_queue_for_the_large_budget(void **state)
{
	struct world *w = world_new(UINT64_C(1) << 30, WORLD_FLAGS, false);
	struct transmission other;
	struct reader r = {w, 0};
	uint8_t head[NBD_REQUEST_BYTES];

	world_session(w, &other, UINT64_C(1) << 30, WORLD_FLAGS, false, 8);
	send_request(w, NBD_CMD_READ, 0, 1, 0, 64 << 20); /* all of it */
	send_request(w, NBD_CMD_READ, 0, 2, 0, 2 << 20);
	assert_int_equal(w->bufs.large.used_bytes, 64 << 20);
	tx_feed(&other, head, world_header(head, NBD_CMD_READ, 0, 7, 0, 3 << 20));
	world_collect(w, &other);
	assert_true(other.starved);
	assert_int_equal(other.held_frags, 0);
	send_request(w, NBD_CMD_READ, 0, 3, 0, 4096); /* small ones pass */
	while (w->t.large) {
		while (w->queued) {
			world_answer(w, 0);
		}
		tx_resume(&w->t, UINT64_MAX);
		world_collect(w, &w->t);
		if (!w->queued) {
			world_send(w);
			break;
		}
	}
	assert_int_equal(next_simple(&r, 3), 0);
	r.at += 4096;
	assert_int_equal(next_simple(&r, 1), 0);
	/* The other session asked before our second read. */
	tx_resume(&w->t, UINT64_MAX);
	assert_true(w->t.starved);
	assert_false(tx_resume(&other, UINT64_MAX));
	assert_non_null(other.large);
	assert_false(tx_resume(&w->t, UINT64_MAX));
	assert_non_null(w->t.large);
	tx_abort(&other);
	tx_discard(&other);
	world_settle(w);
	assert_true(tx_ended(&other));
	r.at += 64 << 20;
	assert_int_equal(next_simple(&r, 2), 0);
	world_free(w);
}

/* rule 43 */
static void test_cookies_are_opaque_and_may_repeat(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};

	send_request(w, NBD_CMD_FLUSH, 0, UINT64_MAX, 0, 0);
	send_request(w, NBD_CMD_FLUSH, 0, UINT64_MAX, 0, 0);
	send_request(w, NBD_CMD_FLUSH, 0, 0, 0, 0);
	world_settle(w);
	assert_int_equal(next_simple(&r, UINT64_MAX), 0);
	assert_int_equal(next_simple(&r, UINT64_MAX), 0);
	assert_int_equal(next_simple(&r, 0), 0);
	expect_end(&r);
	world_free(w);
}

/* rule 44 */
static void test_replies_leave_in_the_order_of_completion(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	struct reader r = {w, 0};

	send_request(w, NBD_CMD_READ, 0, 1, 0, 512);
	send_request(w, NBD_CMD_READ, 0, 2, 4096, 512);
	world_answer(w, 1);
	world_send(w);
	assert_int_equal(next_simple(&r, 2), 0);
	r.at += 512;
	world_settle(w);
	assert_int_equal(next_simple(&r, 1), 0);
	world_free(w);
}

/* rule 45: a send that takes a few bytes at a time never mixes messages */
static void test_short_sends_keep_messages_whole(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, true);
	struct reader r = {w, 0};
	struct iovec iov[3];

	w->fragment_bytes = 4096;
	pattern(w->disk, 32768, 5);
	send_request(w, NBD_CMD_READ, 0, 1, 0, 16384);
	send_request(w, NBD_CMD_READ, 0, 2, 16384, 16384);
	while (w->queued) {
		world_answer(w, w->queued / 2);
	}
	for (size_t step = 1; tx_send_vec(&w->t, iov, 3, 1 << 20); step = step % 97 + 1) {
		size_t n = min_u64(step, iov[0].iov_len);

		w->out = realloc(w->out, w->out_len + n);
		memcpy(w->out + w->out_len, iov[0].iov_base, n);
		w->out_len += n;
		tx_sent(&w->t, n);
		world_collect(w, &w->t);
	}
	for (int done = 0; done < 2;) {
		struct chunk c = next_chunk(&r);

		assert_memory_equal(c.data, w->disk + c.addr, c.len - 8);
		done += c.flags & NBD_REPLY_FLAG_DONE;
	}
	expect_end(&r);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_structured_read_is_answered_by_chunks_even_early),
		cmocka_unit_test(test_chunks_cover_the_read_once),
		cmocka_unit_test(test_late_error_is_a_last_chunk),
		cmocka_unit_test(test_simple_read_of_many_fragments_fails_whole),
		cmocka_unit_test(test_df_gives_one_chunk),
		cmocka_unit_test(test_gathered_reads_queue_for_the_large_budget),
		cmocka_unit_test(test_cookies_are_opaque_and_may_repeat),
		cmocka_unit_test(test_replies_leave_in_the_order_of_completion),
		cmocka_unit_test(test_short_sends_keep_messages_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
