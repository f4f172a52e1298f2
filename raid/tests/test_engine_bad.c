/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad-block logs: what is listed when, in which order it is durable, who is failed instead. */
#include "raid/array.h"
#include "raid/tests/engine_faults.h"

enum { LOG_OFFSET = 8, LOG_MADDR = (RIG_SB_SECTOR + LOG_OFFSET) * 512 };

static struct rig *with_logs(uint32_t slots, uint32_t spares)
{
	struct rig_shape shape = {
		.level = RAID_LEVEL_1, .slots = slots, .sectors = 4096, .spares = spares};
	struct rig *r = rig_prepare(&shape);

	for (uint32_t i = 0; i < r->as->members; i++) {
		r->as->member[i].sb.bblog_offset = LOG_OFFSET;
		r->as->member[i].sb.bblog_size = 8;
	}
	for (uint32_t i = 0; i < sizeof data; i++) {
		data[i] = (uint8_t)(i * 7 + i / 509);
	}
	return r;
}

static struct rig *started(uint32_t slots, uint32_t spares)
{
	struct rig *r = with_logs(slots, spares);

	rig_create(r);
	assert_int_equal(rig_write(r, 0, sizeof data, data), 0);
	return r;
}

/* Writes of member arg[0] that touch the byte arg[1] fail. */
static int bad_spot(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && io->op == RAID_IO_WRITE && r->arg[1] - io->maddr < io->len
		       ? -EIO
		       : 0;
}

static bool is_log(const struct raid_io *io)
{
	return io->op == RAID_IO_WRITE && io->maddr >= LOG_MADDR && io->maddr < LOG_MADDR + 4096;
}

/* The same, and the log waits. */
static int bad_spot_log_held(struct rig *r, struct raid_io *io)
{
	return is_log(io) ? RIG_HOLD : bad_spot(r, io);
}

static int bad_spot_sb_held(struct rig *r, struct raid_io *io)
{
	return rig_is_sb(io) ? RIG_HOLD : bad_spot(r, io);
}

static int bad_spot_log_fails(struct rig *r, struct raid_io *io)
{
	return is_log(io) ? -EIO : bad_spot(r, io);
}

/* The log that lies on a member. */
static struct bb_list log_of(struct rig *r, uint32_t i)
{
	static struct bb_list list;
	char why[RAID_WHY_BYTES];

	assert_int_equal(
		bb_decode(r->disk[i] + LOG_MADDR, 4096, 0, r->disk_bytes / 512, &list, why), 0);
	return list;
}

static enum raid_member_state state_of(struct rig *r, uint32_t i)
{
	struct raid_status st;

	raid_get_status(r->a, &st);
	return st.member[i].state;
}

/* With a spare a failed write is listed, durably before it is acknowledged, and the member
 * replaced.
 */
static void test_listed_with_a_spare(void **state)
{
	struct rig *r = started(2, 1);
	struct rig_req *q;
	struct bb_list list;

	(void)state;
	r->arg[0] = 1;
	r->arg[1] = DATA0 + 3 * 4096;
	r->fault = bad_spot_log_held;
	q = rig_submit(r, RAID_OP_WRITE, 8192, 16384, 0, data);
	rig_run(r);
	assert_int_equal(q->state, 0); /* the log is not there */
	r->fault = bad_spot_sb_held;
	rig_run(r);
	list = log_of(r, 1);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.range[0].maddr, DATA0 + 3 * 4096);
	assert_int_equal(list.range[0].len, 4096);
	assert_int_equal(q->state, 0); /* nor do superblocks announce it */
	r->fault = bad_spot;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_sb(r, 1).feature_map & SB_FEATURE_BAD_BLOCKS, SB_FEATURE_BAD_BLOCKS);
	assert_int_equal(rig_sb(r, 0).feature_map & SB_FEATURE_BAD_BLOCKS, 0);
	assert_int_equal(rig_sb(r, 2).feature_map & SB_FEATURE_BAD_BLOCKS, 0);
	assert_int_equal(rig_count(r, RAID_EV_BAD_BLOCK), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REPLACEMENT);
	/* Nobody reads it there. */
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(rig_read(r, 12288, 4096, back), 0);
		assert_memory_equal(back, data + 4096, 4096);
	}
	rig_free(r);
}

/* Without one the member is failed at once. */
static void test_failed_without_a_spare(void **state)
{
	struct rig *r = started(2, 0);

	(void)state;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	r->fault = bad_spot;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_count(r, RAID_EV_BAD_BLOCK), 0);
	rig_free(r);
}

/* A log that cannot be written fails the member. */
static void test_log_fails(void **state)
{
	struct rig *r = started(2, 1);

	(void)state;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	r->fault = bad_spot_log_fails;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_sb(r, 0).dev_roles[1], SB_ROLE_FAULTY);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REBUILDING);
	rig_free(r);
}

/* So does one that is full. */
static void test_log_full(void **state)
{
	struct rig *r = with_logs(2, 1);
	struct bb_list *bad = &r->as->member[1].bad;

	(void)state;
	r->as->member[1].sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	for (uint32_t i = 0; i < BB_ENTRIES_MAX; i++) {
		bad->range[bad->count++] = (struct bb_range){DATA0 + 4 * i * 512, 512};
	}
	rig_create(r);
	r->arg[0] = 1;
	r->arg[1] = DATA0 + 4090 * 512;
	r->fault = bad_spot;
	assert_int_equal(rig_write(r, 4090 * 512, 512, data), 0);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_FAULTY);
	rig_free(r);
}

/* The good write of one takes a block off its list in the step in which it goes on the other's. */
static void test_list_changes_sides(void **state)
{
	struct rig *r = started(2, 2);

	(void)state;
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	r->fault = bad_spot;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(log_of(r, 1).count, 1);
	r->arg[0] = 0;
	assert_int_equal(rig_write(r, 0, 4096, data + 4096), 0);
	assert_int_equal(log_of(r, 1).count, 0);
	assert_int_equal(log_of(r, 0).count, 1);
	assert_int_equal(rig_read(r, 0, 4096, back), 0);
	assert_memory_equal(back, data + 4096, 4096);
	rig_free(r);
}

/* A block that the other copy lists is the last copy: the client gets the error, nobody is failed.
 */
static int both_spots(struct rig *r, struct raid_io *io)
{
	return io->member < 2 && io->op == RAID_IO_WRITE && r->arg[1] - io->maddr < io->len ? -EIO
											    : 0;
}

static void test_both_fail(void **state)
{
	struct rig *r = started(2, 1);

	(void)state;
	r->arg[1] = DATA0;
	r->fault = both_spots;
	assert_int_equal(rig_write(r, 0, 4096, data), -EIO);
	assert_int_equal(rig_count(r, RAID_EV_LAST_COPY_ERROR), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	/* Elsewhere the array goes on. */
	assert_int_equal(rig_write(r, 65536, 4096, data), 0);
	rig_free(r);
}

static int hold_flushes(struct rig *r, struct raid_io *io)
{
	(void)r;
	return io->op == RAID_IO_FLUSH ? RIG_HOLD : 0;
}

/* A good write takes a block off, durably before it is acknowledged, and not before the write
 * itself is durable; the last one takes the announcement back. */
static void test_cleared_by_a_good_write(void **state)
{
	struct rig *r = with_logs(2, 0);
	struct bb_shape shape = {.entries = 512, .dev_sectors = r->disk_bytes / 512};
	struct bb_list *bad = &r->as->member[0].bad;
	struct rig_req *q;

	(void)state;
	r->as->member[0].sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	bad->range[bad->count++] = (struct bb_range){DATA0 + 4096, 4096};
	bb_encode(bad, &shape, r->disk[0] + LOG_MADDR);
	rig_create(r);
	r->fault = hold_flushes;
	q = rig_submit(r, RAID_OP_WRITE, 0, 16384, 0, data);
	rig_run(r);
	assert_int_equal(r->ios, 2); /* both flushes, and no log */
	assert_int_equal(log_of(r, 0).count, 1);
	r->fault = bad_spot_log_held;
	r->arg[0] = 7;
	rig_run(r);
	assert_int_equal(q->state, 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(log_of(r, 0).count, 0);
	assert_int_equal(rig_sb(r, 0).feature_map & SB_FEATURE_BAD_BLOCKS, 0);
	rig_free(r);
}

/* Of a block that all copies list a write is kept: it is good again. */
static void test_all_listed_is_written(void **state)
{
	struct rig *r = with_logs(2, 0);

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct bb_list *bad = &r->as->member[i].bad;

		r->as->member[i].sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
		bad->range[bad->count++] = (struct bb_range){DATA0, 4096};
	}
	rig_create(r);
	assert_int_equal(rig_read(r, 0, 4096, back), -EIO);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(rig_read(r, 0, 4096, back), 0);
	assert_memory_equal(back, data, 4096);
	rig_free(r);
}

/* A member is not failed by hand while it alone has what others list. */
static void test_hand_keeps_what_others_lack(void **state)
{
	struct rig *r = with_logs(2, 0);
	struct bb_list *bad = &r->as->member[0].bad;

	(void)state;
	r->as->member[0].sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	bad->range[bad->count++] = (struct bb_range){DATA0 + 4096, 512};
	rig_create(r);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), -EBUSY);
	assert_non_null(strstr(r->cmd->why, "bad blocks"));
	assert_int_equal(rig_write(r, 4096, 4096, data), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	rig_free(r);
}

/* Entries that move up are written from the end: a crash in between repeats one, never loses one.
 */
static void test_order_of_log_blocks(void **state)
{
	struct rig *r = with_logs(2, 1);
	struct bb_list *bad = &r->as->member[1].bad, list;
	struct bb_shape shape = {.entries = 512, .dev_sectors = r->disk_bytes / 512};
	char why[RAID_WHY_BYTES];
	uint32_t blocks = 0;
	struct rig_req *q;

	(void)state;
	r->as->member[1].sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	for (uint32_t i = 0; i < 150; i++) {
		bad->range[bad->count++] = (struct bb_range){DATA0 + (40 + 4 * i) * 512, 512};
	}
	bb_encode(bad, &shape, r->disk[1] + LOG_MADDR);
	rig_create(r);
	r->arg[0] = 1;
	r->arg[1] = DATA0;
	r->fault = bad_spot_log_held;
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_run(r);
	while (!q->state) {
		uint32_t at = 0;

		while (at < r->ios && !is_log(r->io[at])) {
			at++;
		}
		if (at == r->ios) {
			break;
		}
		assert_int_equal(r->io[at]->len, 512);
		rig_complete(r, at, 0);
		blocks++;
		if (!bb_decode(r->disk[1] + LOG_MADDR, 4096, 0, r->disk_bytes / 512, &list, why)) {
			assert_true(list.count >= 150); /* readable: nothing is missing */
		}
		rig_run(r);
	}
	assert_int_equal(blocks, 3);
	assert_int_equal(log_of(r, 1).count, 151);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

/* Reads of member 0 wait from the second on; its writes of the byte arg[1] fail. */
static int first_read_fails(struct rig *r, struct raid_io *io)
{
	if (io->member == 0 && io->op == RAID_IO_READ) {
		return r->arg[2]++ ? RIG_HOLD : -EIO;
	}
	return bad_spot(r, io);
}

static int watch_the_spot(struct rig *r, struct raid_io *io)
{
	r->arg[3] += io->member == 0 && io->op == RAID_IO_READ && r->arg[1] - io->maddr < io->len;
	return 0;
}

/* A READ that goes on block by block looks at the list again before each block. */
static void test_listed_between_two_blocks(void **state)
{
	struct rig *r = with_logs(2, 1);
	struct rig_req *q;

	(void)state;
	r->as->member[1].sb.devflags = SB_DEV_WRITE_MOSTLY;
	rig_create(r);
	assert_int_equal(rig_write(r, 0, sizeof data, data), 0);
	r->arg[0] = 0;
	r->arg[1] = DATA0 + 4096;
	r->fault = first_read_fails;
	q = rig_submit(r, RAID_OP_READ, 0, 16384, 0, NULL);
	rig_run(r);
	assert_int_equal(q->state, 0); /* its first block is out */
	assert_int_equal(rig_write(r, 4096, 4096, data + 65536), 0);
	assert_int_equal(log_of(r, 0).count, 1);
	r->fault = watch_the_spot;
	rig_run(r);
	assert_int_equal(q->state, 1);
	assert_memory_equal((const uint8_t *)q->req.data + 4096, data + 65536, 4096);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(r->arg[3], 0);
	rig_free(r);
}

/* Levels with parity list a failed write, too. */
static void test_parity_lists(void **state)
{
	struct rig_shape shape = {.level = RAID_LEVEL_5,
				  .layout = 2,
				  .chunk_sectors = 16,
				  .slots = 4,
				  .sectors = 1024,
				  .spares = 1};
	struct rig *r = rig_prepare(&shape);

	(void)state;
	for (uint32_t i = 0; i < r->as->members; i++) {
		r->as->member[i].sb.bblog_offset = LOG_OFFSET;
		r->as->member[i].sb.bblog_size = 8;
	}
	rig_create(r);
	assert_int_equal(rig_write(r, 0, 262144, data), 0);
	r->arg[0] = 1;
	r->arg[1] = DATA0 + 4096;
	r->fault = bad_spot;
	assert_int_equal(rig_write(r, 0, 65536, data + 65536), 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	assert_int_equal(log_of(r, 1).count, 1);
	assert_int_equal(state_of(r, 4), RAID_MEMBER_REPLACEMENT);
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data + 65536, 65536);
	r->fault = NULL;
	assert_int_equal(rig_write(r, 0, 65536, data), 0);
	assert_int_equal(log_of(r, 1).count, 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_listed_with_a_spare),
		cmocka_unit_test(test_failed_without_a_spare),
		cmocka_unit_test(test_log_fails),
		cmocka_unit_test(test_log_full),
		cmocka_unit_test(test_list_changes_sides),
		cmocka_unit_test(test_both_fail),
		cmocka_unit_test(test_cleared_by_a_good_write),
		cmocka_unit_test(test_all_listed_is_written),
		cmocka_unit_test(test_hand_keeps_what_others_lack),
		cmocka_unit_test(test_order_of_log_blocks),
		cmocka_unit_test(test_listed_between_two_blocks),
		cmocka_unit_test(test_parity_lists),
	};

	return cmocka_run_group_tests_name("engine_bad", tests, NULL, NULL);
}
