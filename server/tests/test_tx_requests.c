/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests are legal, and what the others are answered: one test a rule. */
#include "server/tests/tx_reader.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
