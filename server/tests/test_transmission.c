/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol's rules for the transmission phase, one test each: bytes in, bytes out, over a fake
 * engine. Names follow the rule they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <cmocka.h>

#include "server/tests/tx_world.h"

enum { SIZE = 4 << 20, COOKIE = 0x5eed };

/* ---- reading what came out ----------------------------------------------------------------- */

struct reader {
	const struct world *w;
	size_t at;
};

static uint32_t next_simple(struct reader *r, uint64_t cookie)
{
	const uint8_t *p = r->w->out + r->at;

	assert_true(r->w->out_len - r->at >= NBD_SIMPLE_REPLY_BYTES);
	assert_int_equal(get_be32(p), NBD_SIMPLE_REPLY_MAGIC);
	assert_int_equal(get_be64(p + 8), cookie);
	r->at += NBD_SIMPLE_REPLY_BYTES;
	return get_be32(p + 4);
}

struct chunk {
	uint16_t flags, type;
	uint64_t cookie;
	uint32_t len, error;
	uint64_t addr;
	const uint8_t *data;
};

static struct chunk next_chunk(struct reader *r)
{
	const uint8_t *p = r->w->out + r->at;
	struct chunk c = {0};

	assert_true(r->w->out_len - r->at >= NBD_CHUNK_HEADER_BYTES);
	assert_int_equal(get_be32(p), NBD_STRUCTURED_REPLY_MAGIC);
	c.flags = get_be16(p + 4);
	c.type = get_be16(p + 6);
	c.cookie = get_be64(p + 8);
	c.len = get_be32(p + 16);
	p += NBD_CHUNK_HEADER_BYTES;
	assert_true(r->w->out_len - r->at >= NBD_CHUNK_HEADER_BYTES + (uint64_t)c.len);
	if (c.type == NBD_REPLY_TYPE_OFFSET_DATA) {
		assert_true(c.len > 8);
		c.addr = get_be64(p);
		c.data = p + 8;
	} else if (c.type == NBD_REPLY_TYPE_ERROR) {
		c.error = get_be32(p);
		assert_int_equal(get_be16(p + 4), c.len - 6);
		assert_true(c.len > 6); /* it says why */
	} else {
		assert_int_equal(c.type, NBD_REPLY_TYPE_NONE);
		assert_int_equal(c.len, 0);
		assert_true(c.flags & NBD_REPLY_FLAG_DONE);
	}
	r->at += NBD_CHUNK_HEADER_BYTES + c.len;
	return c;
}

static void expect_end(const struct reader *r)
{
	assert_int_equal(r->at, r->w->out_len);
}

/* ---- shorthand ----------------------------------------------------------------------------- */

static void pattern(uint8_t *buf, size_t n, uint8_t seed)
{
	for (size_t i = 0; i < n; i++) {
		buf[i] = (uint8_t)(seed + i * 7 + i / 251);
	}
}

static void send_request(struct world *w, uint16_t cmd, uint16_t flags, uint64_t cookie,
			 uint64_t addr, uint32_t len)
{
	uint8_t head[NBD_REQUEST_BYTES];

	world_feed(w, head, world_header(head, cmd, flags, cookie, addr, len));
}

/* One request of a fresh session; its simple error or, with structured replies, chunk error. */
static uint32_t one(uint16_t tflags, bool structured, uint16_t cmd, uint16_t flags, uint64_t addr,
		    uint32_t len, uint32_t payload)
{
	struct world *w = world_new(SIZE, tflags, structured);
	uint8_t *bytes = calloc(1, payload + 1);
	struct reader r = {w, 0};
	uint32_t error;

	send_request(w, cmd, flags, COOKIE, addr, len);
	world_feed(w, bytes, payload);
	world_settle(w);
	if (structured && get_be32(w->out) == NBD_STRUCTURED_REPLY_MAGIC) {
		struct chunk c = next_chunk(&r);

		assert_int_equal(c.cookie, COOKIE);
		error = c.error;
	} else {
		error = next_simple(&r, COOKIE);
		if (cmd == NBD_CMD_READ && !error) {
			r.at += len;
		}
	}
	expect_end(&r);
	/* Whatever it was, the session is in step: the next request parses. */
	send_request(w, NBD_CMD_FLUSH, 0, COOKIE + 1, 0, 0);
	world_settle(w);
	assert_int_equal(next_simple(&r, COOKIE + 1), 0);
	expect_end(&r);
	free(bytes);
	world_free(w);
	return error;
}

static uint32_t simple(uint16_t cmd, uint16_t flags, uint64_t addr, uint32_t len)
{
	return one(WORLD_FLAGS, false, cmd, flags, addr, len, cmd == NBD_CMD_WRITE ? len : 0);
}

/* ---- the rules ----------------------------------------------------------------------------- */

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

/* rule 26 */
static void test_past_the_end(void **state)
{
	assert_int_equal(simple(NBD_CMD_WRITE, 0, SIZE, 1), NBD_ENOSPC);
	assert_int_equal(simple(NBD_CMD_WRITE, 0, SIZE - 1, 2), NBD_ENOSPC);
	assert_int_equal(simple(NBD_CMD_WRITE_ZEROES, 0, SIZE - 4096, 8192), NBD_ENOSPC);
	assert_int_equal(simple(NBD_CMD_READ, 0, SIZE - 1, 2), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_TRIM, 0, SIZE, 512), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_CACHE, 0, SIZE + 5, 512), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_READ, 0, UINT64_MAX - 511, 1024), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_WRITE, 0, UINT64_MAX, 1), NBD_ENOSPC);
	assert_int_equal(simple(NBD_CMD_READ, 0, SIZE - 2, 2), 0);
}

/* rules 27, 29 */
static void test_read_only(void **state)
{
	uint16_t ro = WORLD_FLAGS | NBD_FLAG_READ_ONLY;

	assert_int_equal(one(ro, false, NBD_CMD_WRITE, 0, 0, 512, 512), NBD_EPERM);
	assert_int_equal(one(ro, false, NBD_CMD_WRITE, 0, SIZE, 512, 512), NBD_EPERM);
	assert_int_equal(one(ro, true, NBD_CMD_TRIM, 0, 0, 512, 0), NBD_EPERM);
	assert_int_equal(one(ro, false, NBD_CMD_WRITE_ZEROES, 0, 0, 512, 0), NBD_EPERM);
	assert_int_equal(one(ro, false, NBD_CMD_FLUSH, 0, 0, 0, 0), 0);
	assert_int_equal(one(ro, false, NBD_CMD_READ, 0, 0, 512, 0), 0);
}

/* rule 28 */
static void test_oversized_payload_is_eaten(void **state)
{
	static const uint32_t len = (64 << 20) + 1;

	assert_int_equal(simple(NBD_CMD_READ, 0, 0, len), NBD_EINVAL);
	assert_int_equal(one(WORLD_FLAGS, true, NBD_CMD_READ, 0, 0, len, 0), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_WRITE, 0, 0, len), NBD_EINVAL);
}

/* rule 28, last clause */
static void test_absurd_write_drops_the_session(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);

	send_request(w, NBD_CMD_WRITE, 0, 1, 0, (128 << 20) + 1);
	world_settle(w);
	assert_int_equal(w->t.state, TX_DEAD);
	assert_int_equal(w->t.end, TX_END_TOO_BIG);
	assert_int_equal(w->out_len, 0);
	world_free(w);
}

/* rule 30: any alignment is served */
static void test_odd_alignment(void **state)
{
	assert_int_equal(simple(NBD_CMD_READ, 0, 1, 1), 0);
	assert_int_equal(simple(NBD_CMD_WRITE, 0, 4095, 3), 0);
	assert_int_equal(simple(NBD_CMD_TRIM, 0, 7, 1), 0);
}

/* rule 31 */
static void test_length_zero(void **state)
{
	static const uint16_t cmds[] = {NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_TRIM, NBD_CMD_CACHE,
					NBD_CMD_WRITE_ZEROES};

	for (size_t i = 0; i < sizeof cmds / sizeof cmds[0]; i++) {
		assert_int_equal(simple(cmds[i], 0, 0, 0), 0);
		assert_int_equal(simple(cmds[i], 0, SIZE, 0), 0);
		assert_int_equal(one(WORLD_FLAGS, true, cmds[i], 0, 4096, 0, 0), 0);
	}
	assert_int_equal(one(WORLD_FLAGS, true, NBD_CMD_BLOCK_STATUS, 0, 0, 0, 0), NBD_EINVAL);
}

/* rule 32 */
static void test_unknown_commands_and_flags(void **state)
{
	assert_int_equal(simple(NBD_CMD_BLOCK_STATUS, 0, 0, 4096), NBD_EINVAL);
	assert_int_equal(simple(8, 0, 0, 4096), NBD_EINVAL);
	assert_int_equal(simple(0xffff, 0, 0, 4096), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_READ, NBD_CMD_FLAG_REQ_ONE, 0, 512), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_READ, NBD_CMD_FLAG_DF, 0, 512), NBD_EINVAL);
	assert_int_equal(one(WORLD_FLAGS, true, NBD_CMD_READ, NBD_CMD_FLAG_DF, 0, 512, 0), 0);
	assert_int_equal(simple(NBD_CMD_WRITE, NBD_CMD_FLAG_NO_HOLE, 0, 512), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_WRITE, 1 << 15, 0, 512), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_TRIM, NBD_CMD_FLAG_FAST_ZERO, 0, 512), NBD_EINVAL);
	assert_int_equal(simple(NBD_CMD_FLUSH, 0, 0, 512), NBD_EINVAL);
}

/* rule 33 */
static void test_fua(void **state)
{
	static const uint16_t cmds[] = {NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_TRIM, NBD_CMD_CACHE,
					NBD_CMD_WRITE_ZEROES};
	uint16_t without = WORLD_FLAGS & ~NBD_FLAG_SEND_FUA;
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);

	for (size_t i = 0; i < sizeof cmds / sizeof cmds[0]; i++) {
		uint32_t payload = cmds[i] == NBD_CMD_WRITE ? 512 : 0;

		assert_int_equal(simple(cmds[i], NBD_CMD_FLAG_FUA, 0, 512), 0);
		assert_int_equal(one(without, false, cmds[i], NBD_CMD_FLAG_FUA, 0, 512, payload),
				 NBD_EINVAL);
	}
	assert_int_equal(simple(NBD_CMD_FLUSH, NBD_CMD_FLAG_FUA, 0, 0), 0);
	send_request(w, NBD_CMD_WRITE_ZEROES,
		     NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO, 1, 0, 512);
	assert_int_equal(w->flags_seen, RAID_REQ_FUA | RAID_REQ_NO_HOLE | RAID_REQ_FAST_ZERO);
	world_free(w);
}

/* Not offered is not served. */
static void test_commands_not_offered(void **state)
{
	uint16_t bare = NBD_FLAG_HAS_FLAGS;

	assert_int_equal(one(bare | NBD_FLAG_SEND_FLUSH, false, NBD_CMD_TRIM, 0, 0, 512, 0),
			 NBD_EINVAL);
	assert_int_equal(one(bare | NBD_FLAG_SEND_FLUSH, false, NBD_CMD_WRITE_ZEROES, 0, 0, 512, 0),
			 NBD_EINVAL);
	assert_int_equal(one(bare | NBD_FLAG_SEND_FLUSH, false, NBD_CMD_CACHE, 0, 0, 512, 0),
			 NBD_EINVAL);
}

/* rules 34, 35: errors of the array reach the client as NBD's, and the session lives */
static void test_errno_map(void **state)
{
	static const struct {
		int err;
		uint16_t flags;
		uint32_t wire;
	} map[] = {
		{-EIO, 0, NBD_EIO},	   {-ENOSPC, 0, NBD_ENOSPC},
		{-EDQUOT, 0, NBD_ENOSPC},  {-EFBIG, 0, NBD_ENOSPC},
		{-EROFS, 0, NBD_EPERM},	   {-ENODEV, 0, NBD_EIO},
		{-ENOMEM, 0, NBD_EIO},	   {-ENOTSUP, NBD_CMD_FLAG_FAST_ZERO, NBD_ENOTSUP},
		{-ENOTSUP, 0, NBD_EINVAL}, {-ESHUTDOWN, 0, NBD_ESHUTDOWN},
	};

	for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
		struct world *w = world_new(SIZE, WORLD_FLAGS, false);
		struct reader r = {w, 0};

		w->fail = map[i].err;
		send_request(w, NBD_CMD_WRITE_ZEROES, map[i].flags, 1, 0, 512);
		world_settle(w);
		assert_int_equal(next_simple(&r, 1), map[i].wire);
		w->fail = 0;
		send_request(w, NBD_CMD_FLUSH, 0, 2, 0, 0);
		world_settle(w);
		assert_int_equal(next_simple(&r, 2), 0);
		world_free(w);
	}
}

/* rule 36 */
static void test_bad_magic_drops_and_writes_nothing_more(void **state)
{
	struct world *w = world_new(SIZE, WORLD_FLAGS, false);
	uint8_t bytes[2 * NBD_REQUEST_BYTES];

	world_header(bytes, NBD_CMD_READ, 0, 1, 0, 512);
	memset(bytes + NBD_REQUEST_BYTES, 0x41, NBD_REQUEST_BYTES);
	world_feed(w, bytes, sizeof bytes);
	world_settle(w);
	assert_int_equal(w->t.end, TX_END_MAGIC);
	assert_int_equal(w->out_len, 0);
	world_free(w);
}

/* rule 37 */
static void test_huge_trim_is_cut_and_others_go_on(void **state)
{
	struct world *w = world_new(UINT64_C(1) << 40, WORLD_FLAGS, false);
	struct reader r = {w, 0};
	uint32_t fragments = 1;

	send_request(w, NBD_CMD_TRIM, 0, 1, 12345, UINT32_MAX);
	assert_int_equal(w->queued, TX_ZERO_OUT_MAX);
	send_request(w, NBD_CMD_READ, 0, 2, 0, 512);
	assert_int_equal(w->queued, TX_ZERO_OUT_MAX + 1);
	world_answer(w, TX_ZERO_OUT_MAX); /* the read, first */
	world_send(w);
	assert_int_equal(next_simple(&r, 2), 0);
	r.at += 512;
	for (; w->queued; fragments++) {
		assert_true(w->queued <= TX_ZERO_OUT_MAX);
		assert_true(w->queue[0]->raid.len <= RAID_FRAGMENT_ZERO_BYTES);
		world_answer(w, 0);
		tx_resume(&w->t, UINT64_MAX);
		world_collect(w, &w->t);
	}
	assert_true(fragments > 64);
	world_send(w);
	assert_int_equal(next_simple(&r, 1), 0);
	expect_end(&r);
	world_free(w);
}

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
		cmocka_unit_test(test_past_the_end),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_oversized_payload_is_eaten),
		cmocka_unit_test(test_absurd_write_drops_the_session),
		cmocka_unit_test(test_odd_alignment),
		cmocka_unit_test(test_length_zero),
		cmocka_unit_test(test_unknown_commands_and_flags),
		cmocka_unit_test(test_fua),
		cmocka_unit_test(test_commands_not_offered),
		cmocka_unit_test(test_errno_map),
		cmocka_unit_test(test_bad_magic_drops_and_writes_nothing_more),
		cmocka_unit_test(test_huge_trim_is_cut_and_others_go_on),
		cmocka_unit_test(test_structured_read_is_answered_by_chunks_even_early),
		cmocka_unit_test(test_chunks_cover_the_read_once),
		cmocka_unit_test(test_late_error_is_a_last_chunk),
		cmocka_unit_test(test_simple_read_of_many_fragments_fails_whole),
		cmocka_unit_test(test_df_gives_one_chunk),
		cmocka_unit_test(test_gathered_reads_queue_for_the_large_budget),
		cmocka_unit_test(test_cookies_are_opaque_and_may_repeat),
		cmocka_unit_test(test_replies_leave_in_the_order_of_completion),
		cmocka_unit_test(test_short_sends_keep_messages_whole),
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
