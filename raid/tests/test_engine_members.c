/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members that come and go: spares that take over, replacements, devices that return; what each
 * superblock says at every moment. The tests play the sync machine: they copy and say
 * member_synced().
 */
#include "raid/array.h"
#include "raid/tests/engine_faults.h"

static const struct rig_shape with_spare = {
	.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096, .spares = 1};

static enum raid_member_state state_of(struct rig *r, uint32_t i)
{
	struct raid_status st;

	raid_get_status(r->a, &st);
	return st.member[i].state;
}

static int32_t slot_of(struct rig *r, uint32_t i)
{
	struct raid_status st;

	raid_get_status(r->a, &st);
	return st.member[i].slot;
}

/* What the sync machine would have done by the end. */
static void fill(struct rig *r, uint32_t from, uint32_t to)
{
	memcpy(r->disk[to] + DATA0, r->disk[from] + DATA0, r->shape.sectors * 512);
	member_synced(&r->a->core, to);
	rig_run(r);
}

static int hold_superblocks(struct rig *r, struct raid_io *io)
{
	(void)r;
	return rig_is_sb(io) ? RIG_HOLD : 0;
}

static uint32_t held(struct rig *r, uint32_t member)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->ios; i++) {
		n += r->io[i]->member == member;
	}
	return n;
}

/* ---- spares ---------------------------------------------------------------------------------- */

static void test_spare_takes_over(void **state)
{
	struct rig *r = filled(&with_spare);
	struct sb sb;

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REBUILDING);
	assert_int_equal(slot_of(r, 2), 1);
	sb = rig_sb(r, 2);
	assert_int_equal(sb.feature_map & (SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT),
			 SB_FEATURE_RECOVERY_OFFSET);
	assert_int_equal(sb.recovery_offset, 0);
	assert_int_equal(sb_own_role(&sb), 1);
	assert_int_equal(sb.data_offset, RIG_DATA_SECTOR);
	sb = rig_sb(r, 0);
	assert_int_equal(sb.feature_map & SB_FEATURE_RECOVERY_OFFSET, 0);
	assert_int_equal(sb.dev_roles[1], SB_ROLE_FAULTY);
	assert_int_equal(sb.dev_roles[2], 1);

	/* Every write goes to it as well, and no read comes from it. */
	assert_int_equal(rig_write(r, 8192, 65536, data), 0);
	assert_memory_equal(r->disk[2] + DATA0 + 8192, data, 65536);
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data, 8192);

	r->a->core.view.slot[1].good_below = 1 << 20;
	member_recovered(&r->a->core, 2, 1 << 20);
	rig_run(r);
	assert_int_equal(rig_sb(r, 2).recovery_offset, 2048);
	fill(r, 0, 2);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	assert_int_equal(rig_count(r, RAID_EV_SPARE_ACTIVE), 1);
	sb = rig_sb(r, 2);
	assert_int_equal(sb.feature_map & SB_FEATURE_RECOVERY_OFFSET, 0);
	assert_int_equal(rig_sb(r, 0).events, sb.events);

	/* It is a full member: the other may fail. */
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
	assert_int_equal(rig_read(r, 8192, 65536, back), 0);
	assert_memory_equal(back, data, 65536);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 2), -EBUSY);
	rig_free(r);
}

/* Not before it is durable who left the slot. */
static void test_spare_waits_for_the_record(void **state)
{
	struct rig *r = filled(&with_spare);
	struct raid_cmd cmd = {.op = RAID_CMD_FAIL, .member = 1};

	(void)state;
	r->fault = hold_superblocks;
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_LEAVING);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_SPARE);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REBUILDING);
	rig_free(r);
}

static void test_smallest_spare_that_fits(void **state)
{
	struct rig_shape shape = with_spare;
	struct rig *r;

	(void)state;
	shape.spares = 3;
	r = rig_prepare(&shape);
	r->props[2].size_bytes -= 1 << 20; /* too small */
	r->props[4].size_bytes -= 2048;
	rig_create(r);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_SPARE);
	assert_int_equal(state_of(r, 3), RAID_MEMBER_SPARE);
	assert_int_equal(state_of(r, 4), RAID_MEMBER_REBUILDING);
	rig_free(r);
}

static void test_spare_with_larger_blocks_stays(void **state)
{
	struct raid_cmd cmd = {.op = RAID_CMD_REPLACE, .member = 0, .with = UINT32_MAX};
	struct rig_shape shape = with_spare;
	struct rig *r;

	(void)state;
	shape.lbs[2] = 4096;
	r = rig_prepare(&shape);
	r->props[2].mem_align = 512;
	rig_create(r);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_SPARE);
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_int_equal(cmd.res, -ENODEV);
	assert_non_null(strstr(cmd.why, "blocks of 4096 bytes"));
	rig_free(r);
}

/* A target that fails is recorded like any member before a write that it missed is acknowledged:
 * below its recovery_offset it would be trusted. The next spare begins. */
static void test_target_fails(void **state)
{
	struct rig_shape shape = with_spare;
	struct rig *r;

	(void)state;
	shape.spares = 2;
	r = filled(&shape);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	r->arg[0] = 2;
	r->arg[1] = RAID_IO_WRITE;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_sb(r, 0).dev_roles[2], SB_ROLE_FAULTY);
	assert_int_equal(state_of(r, 3), RAID_MEMBER_REBUILDING);
	assert_int_equal(rig_sb(r, 0).dev_roles[3], 1);
	rig_free(r);
}

/* The rebuilt part of a member is read when no other copy has the block, the rest never. */
static void test_rebuilt_part_in_need(void **state)
{
	struct rig *r = filled(&with_spare);

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	memcpy(r->disk[2] + DATA0, r->disk[0] + DATA0, 65536);
	r->a->core.view.slot[1].good_below = 65536;
	r->arg[0] = 0;
	r->arg[1] = RAID_IO_READ;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	assert_int_equal(rig_read(r, 4096, 8192, back), 0);
	assert_memory_equal(back, data + 4096, 8192);
	assert_int_equal(rig_read(r, 65536, 4096, back), -EIO);
	rig_free(r);
}

/* ---- replacements ---------------------------------------------------------------------------- */

static struct rig *replacing(void)
{
	struct rig *r = filled(&with_spare);
	static struct raid_cmd cmd;

	cmd = (struct raid_cmd){.op = RAID_CMD_REPLACE, .member = 0, .with = UINT32_MAX};
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_ptr_equal(r->cmd, &cmd);
	assert_int_equal(cmd.res, 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REPLACEMENT);
	return r;
}

static void test_replace(void **state)
{
	struct rig *r = replacing();
	const uint32_t both = SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT;
	struct sb sb = rig_sb(r, 2);

	(void)state;
	assert_int_equal(sb.feature_map & both, both);
	assert_int_equal(sb_own_role(&sb), 0);
	sb = rig_sb(r, 1);
	assert_int_equal(sb.dev_roles[0], 0);
	assert_int_equal(sb.dev_roles[2], 0);

	/* Writes go to three, reads come from two. */
	assert_int_equal(rig_write(r, 4096, 65536, data), 0);
	assert_memory_equal(r->disk[2] + DATA0 + 4096, data, 65536);
	memset(r->disk[2] + DATA0 + 131072, 0xee, 4096);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(rig_read(r, 131072, 4096, back), 0);
		assert_memory_equal(back, data + 131072, 4096);
	}
	fill(r, 0, 2);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	assert_int_equal(slot_of(r, 2), 0);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_count(r, RAID_EV_SPARE_ACTIVE), 1);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 0);
	sb = rig_sb(r, 2);
	assert_int_equal(sb.feature_map & both, 0);
	assert_int_equal(sb.dev_roles[0], SB_ROLE_FAULTY);
	assert_int_equal(rig_sb(r, 1).dev_roles[0], SB_ROLE_FAULTY);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 0), 0);
	assert_int_equal(rig_sb(r, 1).dev_roles[0], SB_ROLE_SPARE);
	rig_free(r);
}

/* In two updates: first it says that it is complete, then the others drop the source. */
static void test_replace_says_complete_first(void **state)
{
	struct rig *r = replacing();
	uint64_t events = rig_sb(r, 1).events;
	struct sb sb;

	(void)state;
	memcpy(r->disk[2] + DATA0, r->disk[0] + DATA0, 4096 * 512);
	member_synced(&r->a->core, 2);
	rig_step(r);
	while (rig_sb(r, 1).events == events || rig_sb(r, 0).events == events) {
		assert_true(r->ios > 0);
		rig_complete(r, 0, 0);
		rig_step(r);
	}
	assert_int_equal(rig_sb(r, 1).dev_roles[0], 0); /* the source still counts */
	sb = rig_sb(r, 2);
	assert_int_equal(sb.feature_map & SB_FEATURE_RECOVERY_OFFSET, SB_FEATURE_RECOVERY_OFFSET);
	while (rig_sb(r, 1).dev_roles[0] == 0) {
		assert_true(r->ios > 0);
		rig_complete(r, 0, 0);
		rig_step(r);
		sb = rig_sb(r, 2);
	}
	assert_int_equal(sb.feature_map & (SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT),
			 SB_FEATURE_REPLACEMENT);
	rig_run(r);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	rig_free(r);
}

/* The source fails while a write is out to it and to its replacement: the replacement has the slot
 * in the same step, and its part of the write counts (raid-lessons: the replacement race). */
static void test_source_fails_during_replace(void **state)
{
	struct rig *r = replacing();
	struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data + 4096);

	(void)state;
	r->fault = hold_all_of;
	r->arg[0] = 2;
	rig_run(r);
	assert_int_equal(q->state & 1, 0);
	/* Let the source's next write fail. */
	r->arg[1] = 0;
	assert_int_equal(member_fail(&r->a->core, 0, (struct raid_event){.why = "test"}),
			 MEMBER_FAIL_DONE);
	rig_run(r);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REBUILDING);
	assert_int_equal(slot_of(r, 2), 0);
	assert_int_equal(q->state & 1, 0); /* its own write is still out */
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_memory_equal(r->disk[2] + DATA0, data + 4096, 4096);
	assert_int_equal(rig_sb(r, 1).dev_roles[0], SB_ROLE_FAULTY);
	assert_int_equal(rig_sb(r, 1).dev_roles[2], 0);
	assert_int_equal(rig_sb(r, 2).feature_map & SB_FEATURE_REPLACEMENT, 0);
	assert_int_equal(rig_sb(r, 2).feature_map & SB_FEATURE_RECOVERY_OFFSET,
			 SB_FEATURE_RECOVERY_OFFSET);
	fill(r, 1, 2);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	rig_free(r);
}

/* … and a write to the replacement that fails afterwards is judged as one of the slot. */
static void test_twin_write_fails_after_it_took_the_slot(void **state)
{
	struct rig *r = replacing();
	struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 0, 8192, 0, data + 4096);

	(void)state;
	r->fault = hold_all_of;
	r->arg[0] = 2;
	rig_run(r);
	assert_int_equal(member_fail(&r->a->core, 0, (struct raid_event){.why = "test"}),
			 MEMBER_FAIL_DONE);
	rig_run(r);
	r->arg[1] = RAID_IO_WRITE;
	r->arg[2] = (uint64_t)-EIO;
	r->fault = fail_op_of;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_sb(r, 1).dev_roles[2], SB_ROLE_FAULTY);
	rig_free(r);
}

/* The replacement fails: the source goes on, nothing else changes. */
static void test_replacement_fails(void **state)
{
	struct rig *r = replacing();

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 2), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_FAULTY);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_IN_SYNC);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	rig_free(r);
}

static void test_replace_is_idempotent(void **state)
{
	struct rig *r = replacing();

	(void)state;
	r->fault = NULL;
	{
		struct raid_cmd cmd = {.op = RAID_CMD_REPLACE, .member = 0, .with = 2};

		raid_control(r->a, &cmd);
		rig_run(r);
		assert_int_equal(cmd.res, 0);
		cmd = (struct raid_cmd){.op = RAID_CMD_REPLACE, .member = 1, .with = UINT32_MAX};
		raid_control(r->a, &cmd);
		rig_run(r);
		assert_int_equal(cmd.res, -ENODEV);
		assert_non_null(strstr(cmd.why, "no spare"));
	}
	rig_free(r);
}

/* ---- ADD and REMOVE -------------------------------------------------------------------------- */

static struct asm_candidate cand;

/* Offer the device at index i (a byte array of its own) to the array. */
static int add(struct rig *r, const uint8_t *image, uint64_t bytes, bool readd, uint32_t *member)
{
	struct sb_location loc = {.version = SB_V1_2, .sector = RIG_SB_SECTOR};
	static struct raid_cmd cmd;
	uint32_t i;

	cand = (struct asm_candidate){.name = "/dev/new", .dev_sectors = bytes / 512};
	cand.load_err =
		image ? sb_decode(image + RIG_SB_SECTOR * 512, loc, bytes / 512, &cand.sb, cand.why)
		      : -ENOENT;
	cmd = (struct raid_cmd){
		.op = RAID_CMD_ADD,
		.candidate = &cand,
		.props = r->props[0],
		.readd_only = readd,
		.device_uuid = {0xd1, 0xd2},
		.write_mostly = true,
	};
	cmd.props.size_bytes = bytes;
	raid_control(r->a, &cmd);
	i = cmd.member;
	if (i != UINT32_MAX) {
		assert_null(r->disk[i]);
		r->disk[i] = calloc(1, bytes);
		r->props[i] = cmd.props;
		if (image) {
			memcpy(r->disk[i], image, bytes);
		}
	}
	rig_run(r);
	assert_ptr_equal(r->cmd, &cmd);
	if (cmd.res && i != UINT32_MAX) {
		free(r->disk[i]);
		r->disk[i] = NULL;
	}
	*member = cmd.member;
	return cmd.res;
}

static void take_out(struct rig *r, uint32_t i)
{
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, i), 0);
	free(r->disk[i]);
	r->disk[i] = NULL;
}

static void free_all(struct rig *r)
{
	r->fault = NULL;
	rig_run(r);
	for (uint32_t i = r->as->members; i < RAID_MEMBERS_MAX; i++) {
		free(r->disk[i]);
	}
	rig_free(r);
}

static void test_add_spare(void **state)
{
	struct rig *r = filled(&mirror);
	struct sb sb;
	uint32_t i;

	(void)state;
	assert_int_equal(add(r, NULL, r->disk_bytes, false, &i), 0);
	assert_int_equal(i, 2);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_SPARE);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_ADDED), 1);
	sb = rig_sb(r, 2);
	assert_int_equal(sb_own_role(&sb), SB_ROLE_SPARE);
	assert_int_equal(sb.device_uuid[0], 0xd1);
	assert_int_equal(sb.devflags, SB_DEV_WRITE_MOSTLY);
	assert_int_equal(sb.dev_number, 2);
	assert_int_equal(sb.data_offset, RIG_DATA_SECTOR);
	assert_int_equal(sb.events, rig_sb(r, 0).events);
	/* Again: it is there. */
	assert_int_equal(add(r, r->disk[2], r->disk_bytes, false, &i), -EEXIST);
	assert_int_equal(i, 2);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_REBUILDING);
	fill(r, 1, 2);
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data, 65536);
	/* The place of the failed one is used again, and so is its number. */
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 2), -EBUSY);
	take_out(r, 0);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 0), -ENOENT);
	assert_int_equal(add(r, NULL, r->disk_bytes, false, &i), 0);
	assert_int_equal(i, 0);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_SPARE);
	assert_int_equal(rig_sb(r, 1).dev_roles[2], 0);
	free_all(r);
}

static void test_add_too_small(void **state)
{
	struct rig *r = filled(&mirror);
	uint32_t i;

	(void)state;
	assert_int_equal(add(r, NULL, r->disk_bytes - (1 << 20), false, &i), -ENOSPC);
	assert_int_equal(i, UINT32_MAX);
	assert_non_null(strstr(r->cmd->why, "needs 2097152"));
	assert_int_equal(state_of(r, 2), RAID_MEMBER_ABSENT);
	free_all(r);
}

/* A member that was away has its slot back, from the start: nothing says what it missed. */
static void test_return(void **state)
{
	struct rig *r = filled(&mirror);
	uint8_t *away = calloc(1, r->disk_bytes);
	struct sb sb;
	uint32_t i;

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	memcpy(away, r->disk[1], r->disk_bytes);
	assert_int_equal(add(r, away, r->disk_bytes, true, &i), -EBUSY); /* still attached */
	take_out(r, 1);
	assert_int_equal(rig_write(r, 0, 4096, data + 4096), 0);
	assert_int_equal(add(r, NULL, r->disk_bytes, true, &i), -ENOENT);
	assert_int_equal(add(r, away, r->disk_bytes, true, &i), 0);
	assert_int_equal(i, 1);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_REBUILDING);
	sb = rig_sb(r, 1);
	assert_int_equal(sb.dev_number, 1);
	assert_int_equal(sb_own_role(&sb), 1);
	assert_int_equal(sb.recovery_offset, 0);
	assert_int_equal(sb.feature_map & SB_FEATURE_RECOVERY_OFFSET, SB_FEATURE_RECOVERY_OFFSET);
	fill(r, 0, 1);
	rig_copies_equal(r, NULL);
	free(away);
	free_all(r);
}

/* One that ran on alone is neither taken back nor overwritten. */
static void test_newer_device_refused(void **state)
{
	struct rig *r = filled(&mirror);
	uint8_t *away = calloc(1, r->disk_bytes);
	struct sb sb;
	uint32_t i;

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	memcpy(away, r->disk[1], r->disk_bytes);
	take_out(r, 1);
	sb = rig_sb(r, 0);
	sb.dev_number = 1;
	sb.dev_roles[0] = SB_ROLE_FAULTY;
	sb.dev_roles[1] = 1;
	sb.device_uuid[0] = 0x77;
	sb.events += 100;
	sb_encode(&sb, 512, away + RIG_SB_SECTOR * 512);
	assert_int_equal(add(r, away, r->disk_bytes, false, &i), -ESTALE);
	assert_non_null(strstr(r->cmd->why, "newer"));
	free(away);
	free_all(r);
}

static int fail_superblocks(struct rig *r, struct raid_io *io)
{
	return rig_is_sb(io) && io->member == r->arg[0] ? -EIO : 0;
}

/* Superblocks can no longer say it: the device goes again, its place is free. */
static void test_add_given_up(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r;
	uint32_t i;

	(void)state;
	shape.missing = 2;
	r = filled(&shape);
	r->arg[0] = 0;
	r->fault = fail_superblocks;
	assert_int_equal(add(r, NULL, r->disk_bytes, false, &i), -EIO);
	assert_int_equal(i, UINT32_MAX);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_ABSENT);
	free_all(r);
}

/* Who fails when nothing can be recorded any more is over all the same once its ios are back. */
static void test_fails_when_broken(void **state)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	(void)state;
	shape.missing = 2;
	shape.spares = 1;
	r = filled(&shape);
	rig_advance_ms(r, 1000);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_REBUILDING);
	r->arg[0] = 0;
	r->fault = fail_superblocks;
	assert_int_equal(rig_write(r, 0, 4096, data), -EIO); /* cannot be called dirty */
	assert_int_equal(member_fail(&r->a->core, 1, (struct raid_event){.why = "test"}),
			 MEMBER_FAIL_DONE);
	rig_run(r);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_GONE), 1);
	rig_free(r);
}

/* REMOVE while an io hangs: refused until it is back, for its memory is still the device's. */
static void test_remove_waits_for_ios(void **state)
{
	struct rig *r = filled(&with_spare);
	struct rig_req *q;

	(void)state;
	r->fault = hold_all_of;
	r->arg[0] = 1;
	q = rig_submit(r, RAID_OP_WRITE, 0, 4096, 0, data);
	rig_run(r);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 1), 0);
	assert_int_equal(q->state & 1, 1);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 1), -EBUSY);
	assert_int_equal(held(r, 1), 1);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 1), 0);
	rig_free(r);
}

static void test_remove_spare(void **state)
{
	struct rig *r = filled(&with_spare);

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 2), 0);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_ABSENT);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_REMOVED), 1);
	assert_int_equal(rig_command(r, RAID_CMD_REMOVE, 0), -EBUSY);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), 0);
	assert_int_equal(rig_write(r, 0, 4096, data), 0);
	rig_free(r);
}

/* ---- assemblies ------------------------------------------------------------------------------ */

static void test_starts_recovering(void **state)
{
	struct rig *r = rig_prepare(&mirror);
	struct raid_status st;

	(void)state;
	r->as->member[1].verdict = ASM_RECOVERING;
	r->as->member[1].recovery_offset = 1024;
	r->as->present[1] = false;
	r->as->geometry.p.slot[1].data_offset_sectors = 0;
	rig_create(r);
	assert_int_equal(state_of(r, 1), RAID_MEMBER_REBUILDING);
	raid_get_status(r->a, &st);
	assert_int_equal(st.member[1].recovery_offset, 1024 * 512);
	assert_int_equal(rig_write(r, 0, 65536, data), 0);
	assert_memory_equal(r->disk[1] + DATA0, r->disk[0] + DATA0, 65536);
	assert_int_equal(rig_sb(r, 1).recovery_offset, 1024);
	assert_int_equal(rig_command(r, RAID_CMD_FAIL, 0), -EBUSY);
	rig_free(r);
}

/* A replacement that was complete when the array went down takes the slot at once. */
static void test_starts_with_complete_replacement(void **state)
{
	struct rig *r = rig_prepare(&with_spare);

	(void)state;
	r->as->member[2].verdict = ASM_REPLACEMENT;
	r->as->member[2].slot = 0;
	r->as->member[2].recovery_offset = SB_IN_SYNC;
	rig_create(r);
	rig_run(r);
	assert_int_equal(state_of(r, 2), RAID_MEMBER_IN_SYNC);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_FAULTY);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spare_takes_over),
		cmocka_unit_test(test_spare_waits_for_the_record),
		cmocka_unit_test(test_smallest_spare_that_fits),
		cmocka_unit_test(test_spare_with_larger_blocks_stays),
		cmocka_unit_test(test_target_fails),
		cmocka_unit_test(test_rebuilt_part_in_need),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_replace_says_complete_first),
		cmocka_unit_test(test_source_fails_during_replace),
		cmocka_unit_test(test_twin_write_fails_after_it_took_the_slot),
		cmocka_unit_test(test_replacement_fails),
		cmocka_unit_test(test_replace_is_idempotent),
		cmocka_unit_test(test_add_spare),
		cmocka_unit_test(test_add_too_small),
		cmocka_unit_test(test_return),
		cmocka_unit_test(test_newer_device_refused),
		cmocka_unit_test(test_add_given_up),
		cmocka_unit_test(test_fails_when_broken),
		cmocka_unit_test(test_remove_waits_for_ios),
		cmocka_unit_test(test_remove_spare),
		cmocka_unit_test(test_starts_recovering),
		cmocka_unit_test(test_starts_with_complete_replacement),
	};

	return cmocka_run_group_tests_name("engine_members", tests, NULL, NULL);
}
