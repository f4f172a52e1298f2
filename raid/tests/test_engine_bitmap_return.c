/* SPDX-License-Identifier: BSD-3-Clause */
/* A member that was away comes back: only what the bitmap marks is copied to it, and from then on
 * it holds the bitmap like the others. */
#include "raid/tests/bitmap_rig.h"

static const struct rig_shape mirror = {
	.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096, .sync = true};
static const struct rig_shape ten = {.level = RAID_LEVEL_10,
				     .layout = 0x102,
				     .chunk_sectors = 16,
				     .slots = 4,
				     .sectors = 2048,
				     .sync = true};
static uint8_t back[1 << 20];

/* Add member 1 again, as it was when it left. Returns its place. */
static uint32_t add_again(struct rig *r, struct raid_cmd *cmd)
{
	static struct asm_candidate cand;
	struct sb_location loc = {.version = SB_V1_2, .sector = RIG_SB_SECTOR};
	uint8_t *disk = r->disk[1];

	cand = (struct asm_candidate){.name = "/dev/again", .dev_sectors = r->disk_bytes / 512};
	cand.load_err =
		sb_decode(disk + RIG_SB_SECTOR * 512, loc, cand.dev_sectors, &cand.sb, cand.why);
	*cmd = (struct raid_cmd){.op = RAID_CMD_ADD, .candidate = &cand, .readd_only = true};
	cmd->props = r->props[1];
	raid_control(r->a, cmd);
	assert_int_not_equal(cmd->member, UINT32_MAX);
	r->disk[1] = NULL;
	r->disk[cmd->member] = disk;
	r->props[cmd->member] = cmd->props;
	return cmd->member;
}

static struct rig *away(const struct rig_shape *shape)
{
	struct rig *r = swept(shape);

	memset(data, 0x11, sizeof data);
	assert_int_equal(rig_write(r, 0, 100 * CHUNK, data), 0);
	pass_s(r, 12);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	memset(data, 0x22, sizeof data);
	assert_int_equal(rig_write(r, 3 * CHUNK, 2 * CHUNK, data), 0);
	assert_int_equal(rig_write(r, 40 * CHUNK, CHUNK, data), 0);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 1), 0);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0), 3);
	return r;
}

/* Its place may be one that the rig does not free. */
static void end(struct rig *r, uint32_t m)
{
	uint8_t *disk = m < r->as->members ? NULL : r->disk[m];

	rig_free(r);
	free(disk);
}

static uint64_t read_bytes(struct rig *r, uint32_t but)
{
	struct raid_status st = status(r);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < st.members; i++) {
		bytes += i == but ? 0 : st.member[i].read_bytes;
	}
	return bytes;
}

static void check_return(const struct rig_shape *shape, uint64_t most_read)
{
	struct rig *r = away(shape);
	struct raid_cmd cmd;
	uint64_t before = read_bytes(r, UINT32_MAX);
	uint32_t m = add_again(r, &cmd);

	rig_run(r);
	pass_s(r, 2);
	assert_int_equal(cmd.res, 0);
	assert_int_equal(status(r).member[m].state, RAID_MEMBER_IN_SYNC);
	assert_true(read_bytes(r, UINT32_MAX) - before <= most_read);
	for (uint32_t i = 0; i < 101; i++) {
		/* What each copy says, by failing nobody: both are compared below. */
		assert_int_equal(rig_read(r, (uint64_t)i * CHUNK, CHUNK, back), 0);
		assert_int_equal(back[0], i == 3 || i == 4 || i == 40 ? 0x22 : i < 100 ? 0x11 : 0);
	}
	rig_copies_equal(r, NULL);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0) + bits_on(r, m), 0);
	assert_int_equal(header_on(r, m).state, 0);
	assert_true(header_on(r, m).events == rig_sb(r, m).events);
	assert_int_equal(rig_sb(r, m).feature_map, SB_FEATURE_BITMAP);
	end(r, m);
}

static void test_mirror(void **state)
{
	(void)state;
	check_return(&mirror, 3 * CHUNK);
}

static void test_level_10(void **state)
{
	(void)state;
	check_return(&ten, UINT64_MAX); /* orders are larger than this array */
}

/* Its own old bitmap is not to be believed before every page of it is new. */
static void test_pages_before_it_counts(void **state)
{
	struct rig *r = away(&mirror);
	struct raid_cmd cmd;
	uint32_t m = add_again(r, &cmd);
	bool seen = false;

	(void)state;
	for (uint32_t turn = 0; turn < 200; turn++) {
		rig_step(r);
		for (uint32_t i = 0; i < r->ios;) {
			if (is_page(r->io[i]) && r->io[i]->member == m) {
				i++;
			} else {
				rig_complete(r, i, 0);
			}
		}
		r->now.mono_ns += 10000000;
		seen |= count_io(r, is_page) > 0;
	}
	assert_true(seen);
	assert_int_equal(status(r).member[m].state, RAID_MEMBER_REBUILDING);
	pass_s(r, 2);
	assert_int_equal(status(r).member[m].state, RAID_MEMBER_IN_SYNC);
	end(r, m);
}

/* Bits were cleared since it left: then all of it is copied. */
static void test_too_long_away(void **state)
{
	struct rig *r = away(&mirror);
	uint8_t *old = malloc(r->disk_bytes);
	struct raid_cmd cmd;
	uint64_t before;
	uint32_t m;

	(void)state;
	memcpy(old, r->disk[1], r->disk_bytes);
	m = add_again(r, &cmd);
	pass_s(r, 3);
	assert_int_equal(rig_write(r, 70 * CHUNK, CHUNK, data), 0);
	pass_s(r, 13);
	assert_int_equal(bits_on(r, 0), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, m), 0);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, m), 0);
	memcpy(r->disk[m], old, r->disk_bytes); /* a copy of it from then */
	free(old);
	r->disk[1] = r->disk[m];
	if (m != 1) {
		r->disk[m] = NULL;
	}
	before = read_bytes(r, UINT32_MAX);
	m = add_again(r, &cmd);
	pass_s(r, 3);
	assert_int_equal(status(r).member[m].state, RAID_MEMBER_IN_SYNC);
	assert_true(read_bytes(r, UINT32_MAX) - before >= 4096 * 512);
	rig_copies_equal(r, NULL);
	end(r, m);
}

/* ---- beside writes ------------------------------------------------------------------------- */

static const struct rig_shape five = {.level = RAID_LEVEL_5,
				      .layout = 2,
				      .chunk_sectors = 16,
				      .slots = 4,
				      .sectors = 8192,
				      .sync = true};
enum { ROW = 16 * 512, STEP = 8192 * 512 / 16 };

static void check_rows(struct rig *r)
{
	for (uint64_t at = DATA_AT; at < DATA_AT + 8192 * 512; at += 8) {
		uint64_t sum = 0, word;

		for (uint32_t i = 0; i < RAID_MEMBERS_MAX; i++) {
			if (r->disk[i]) {
				memcpy(&word, r->disk[i] + at, 8);
				sum ^= word;
			}
		}
		if (sum) {
			fail_msg("a row does not fit at %llu", (unsigned long long)(at - DATA_AT));
		}
	}
}

static int hold_first_order(struct rig *r, struct raid_io *io)
{
	(void)r;
	return io->op == RAID_IO_READ && io->maddr == DATA_AT ? RIG_HOLD : 0;
}

/*
 * While the first order is out, what is behind it is done: passed over, or the short end of what
 * is marked. A write there must reach the member; nobody looks at these rows again.
 */
static void test_write_behind_the_first_order(void **state)
{
	static const struct {
		uint64_t marked, at;
	} rows[] = {
		{ROW, 2 * ROW},	       {ROW, STEP - ROW},	    {ROW, STEP},
		{ROW, 5 * STEP + ROW}, {STEP + 2 * ROW, STEP},	    {STEP + 2 * ROW, STEP + ROW},
		{STEP + ROW, STEP},    {STEP + ROW, STEP + 3 * ROW}};

	(void)state;
	for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct rig *r = swept(&five);
		struct raid_cmd cmd;
		struct rig_req *q;
		uint32_t m;

		assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
		memset(data, 0x33, sizeof data);
		assert_int_equal(rig_write(r, 0, rows[i].marked * 3, data), 0);
		assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 1), 0);
		r->fault = hold_first_order;
		m = add_again(r, &cmd);
		rig_run(r);
		pass_s(r, 1);
		assert_int_equal(status(r).member[m].state, RAID_MEMBER_REBUILDING);
		assert_true(r->ios > 0);
		memset(data, 0x44, sizeof data);
		q = rig_submit(r, RAID_OP_WRITE, rows[i].at * 3, ROW * 3, 0, data);
		rig_run(r);
		r->fault = NULL;
		rig_run(r);
		assert_int_equal(rig_finish(r, q), 0);
		pass_s(r, 2);
		assert_int_equal(status(r).member[m].state, RAID_MEMBER_IN_SYNC);
		check_rows(r);
		end(r, m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mirror),
		cmocka_unit_test(test_level_10),
		cmocka_unit_test(test_pages_before_it_counts),
		cmocka_unit_test(test_too_long_away),
		cmocka_unit_test(test_write_behind_the_first_order),
	};

	return cmocka_run_group_tests_name("engine_bitmap_return", tests, NULL, NULL);
}
