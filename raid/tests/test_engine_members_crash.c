/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A power cut at every point of a replace, a rebuild and a failure in between: what assembly makes
 * of the superblocks that lie on the members then. After every io that is done, and for every one
 * that is out and may have been done, the array must start with its data.
 */
#include "raid/array.h"
#include "raid/tests/engine_faults.h"

enum { PATTERN = 0x5a };

static struct asm_candidate cand[8];
static char name[8][16];
static struct assembly as;

static void decide(struct rig *r)
{
	struct sb_location loc = {.version = SB_V1_2, .sector = RIG_SB_SECTOR};
	const struct asm_options opt = {0};

	for (uint32_t i = 0; i < r->as->members; i++) {
		memset(&cand[i], 0, sizeof cand[i]);
		snprintf(name[i], sizeof name[i], "disk%u", i);
		cand[i].name = name[i];
		cand[i].dev_sectors = r->disk_bytes / 512;
		cand[i].load_err = sb_decode(r->disk[i] + RIG_SB_SECTOR * 512, loc,
					     r->disk_bytes / 512, &cand[i].sb, cand[i].why);
	}
	asm_decide(cand, r->as->members, &opt, &as);
}

/* Whoever assembly trusts holds the data. */
static void check_image(struct rig *r)
{
	uint32_t trusted = 0;

	decide(r);
	if (as.decision != ASM_START) {
		fail_msg("does not start: %s", as.why);
	}
	for (uint32_t i = 0; i < as.members; i++) {
		if (as.member[i].verdict == ASM_IN_SYNC) {
			trusted++;
			assert_int_equal(r->disk[i][DATA0], PATTERN);
			assert_int_equal(r->disk[i][DATA0 + 65536], PATTERN);
		}
	}
	assert_true(trusted > 0);
}

/* The same, had any one of the writes that are out been done. */
static void check_cut(struct rig *r)
{
	check_image(r);
	for (uint32_t i = 0; i < r->ios; i++) {
		struct raid_io *io = r->io[i];
		uint8_t *at = r->disk[io->member] + io->maddr, before[4096];

		if (!rig_is_sb(io)) {
			continue;
		}
		assert_true(io->len <= sizeof before);
		memcpy(before, at, io->len);
		memcpy(at, io->iov[0].iov_base, io->len);
		check_image(r);
		memcpy(at, before, io->len);
	}
}

/* Let everything happen, one io at a time, newest or oldest first. Returns how many there were. */
static uint32_t run_cut(struct rig *r, bool newest, uint32_t most)
{
	uint32_t n = 0;

	rig_step(r);
	while (r->ios && n < most) {
		check_cut(r);
		rig_complete(r, newest ? r->ios - 1 : 0, 0);
		rig_step(r);
		n++;
	}
	check_cut(r);
	return n;
}

static void fill_pattern(struct rig *r)
{
	memset(data, PATTERN, sizeof data);
	assert_int_equal(rig_write(r, 0, sizeof data, data), 0);
	rig_advance_ms(r, 1000); /* clean */
}

static struct rig *made(uint32_t slots, uint32_t missing, uint32_t spares)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	shape.slots = slots;
	shape.missing = missing;
	shape.spares = spares;
	r = rig_new(&shape);
	fill_pattern(r);
	return r;
}

static void command(struct rig *r, struct raid_cmd *cmd, enum raid_cmd_op op, uint32_t member)
{
	*cmd = (struct raid_cmd){.op = op, .member = member, .with = UINT32_MAX};
	raid_control(r->a, cmd);
}

static void copy(struct rig *r, uint32_t from, uint32_t to)
{
	memcpy(r->disk[to] + DATA0, r->disk[from] + DATA0, r->shape.sectors * 512);
	member_synced(&r->a->core, to);
}

static enum raid_member_state state_of(struct rig *r, uint32_t i)
{
	struct raid_status st;

	raid_get_status(r->a, &st);
	return st.member[i].state;
}

/* Replacing the only member that has data left: either it or its replacement is whole at any time.
 */
static void replace_alone(bool newest)
{
	struct rig_shape shape = mirror;
	struct raid_cmd cmd;
	struct rig *r;

	shape.slots = 3;
	shape.spares = 1;
	r = rig_prepare(&shape);
	rig_create(r);
	fill_pattern(r);
	command(r, &cmd, RAID_CMD_REPLACE, 0);
	rig_run(r);
	assert_int_equal(cmd.res, 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 2), 0);
	memset(r->disk[1] + RIG_SB_SECTOR * 512, 0, 4096);
	memset(r->disk[2] + RIG_SB_SECTOR * 512, 0, 4096);
	check_image(r);
	copy(r, 0, 3);
	run_cut(r, newest, UINT32_MAX);
	assert_int_equal(state_of(r, 3), RAID_MEMBER_IN_SYNC);
	memset(r->disk[0] + DATA0, 0xee, r->shape.sectors * 512);
	check_image(r); /* nobody trusts the source any more */
	rig_free(r);
}

static void test_replace_alone(void **state)
{
	(void)state;
	replace_alone(false);
	replace_alone(true);
}

static void test_rebuild(void **state)
{
	struct raid_cmd cmd;

	(void)state;
	for (int newest = 0; newest < 2; newest++) {
		struct rig *r = made(2, 0, 1);

		command(r, &cmd, RAID_CMD_FAIL, 1);
		run_cut(r, newest, UINT32_MAX);
		assert_int_equal(cmd.res, 0);
		/* Whatever the failed one holds from now on is old. */
		memset(r->disk[1] + DATA0, 0xee, r->shape.sectors * 512);
		check_image(r);
		copy(r, 0, 2);
		run_cut(r, newest, UINT32_MAX);
		assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
		rig_free(r);
	}
}

/* The source fails after each step of a replace, from the copying to the end. */
static void test_source_fails_at_each_step(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < 13; at++) {
		struct rig *r = made(2, 0, 1);
		struct raid_cmd cmd;

		command(r, &cmd, RAID_CMD_REPLACE, 0);
		if (at < 4) {
			run_cut(r, false, at);
		} else {
			rig_run(r);
			copy(r, 0, 2);
			run_cut(r, false, at - 4);
		}
		member_fail(&r->a->core, 0, (struct raid_event){.why = "test"});
		/* What it holds may be old as soon as that is durable: a write goes on without. */
		run_cut(r, false, UINT32_MAX);
		memset(r->disk[0] + DATA0, 0xee, r->shape.sectors * 512);
		check_image(r);
		assert_true(state_of(r, 2) == RAID_MEMBER_REBUILDING ||
			    state_of(r, 2) == RAID_MEMBER_IN_SYNC);
		assert_int_equal(rig_write(r, 0, 65536 * 2, data), 0);
		assert_int_equal(r->disk[2][DATA0], PATTERN);
		check_image(r);
		rig_free(r);
	}
}

/* The replacement fails after each step: the source serves on. (Not a cut at every point: one right
 * after it failed in the middle of the last update leaves a doubt that assembly refuses.) */
static void test_replacement_fails_at_each_step(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < 10; at++) {
		struct rig *r = made(2, 0, 1);
		struct raid_cmd cmd;

		command(r, &cmd, RAID_CMD_REPLACE, 0);
		rig_run(r);
		copy(r, 0, 2);
		run_cut(r, false, at);
		member_fail(&r->a->core, 2, (struct raid_event){.why = "test"});
		rig_run(r);
		memset(r->disk[2] + DATA0, 0xee, r->shape.sectors * 512);
		check_image(r);
		assert_int_equal(rig_read(r, 0, 65536, back), 0);
		assert_int_equal(back[0], PATTERN);
		rig_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace_alone),
		cmocka_unit_test(test_rebuild),
		cmocka_unit_test(test_source_fails_at_each_step),
		cmocka_unit_test(test_replacement_fails_at_each_step),
	};

	return cmocka_run_group_tests_name("engine_members_crash", tests, NULL, NULL);
}
