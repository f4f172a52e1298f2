/* SPDX-License-Identifier: BSD-3-Clause */
/* The sync machine on rows: parity made anew, checked, repaired; members rebuilt and replaced from
 * what is left, all beside writes. What every member must hold is computed anew by a plain oracle.
 */
#include "raid/tests/engine_storm.h"
#include "raid/tests/engine_sync.h"

enum { DATA0 = RIG_DATA_SECTOR * 512, BAD = DATA0 + 65536 };

static const struct {
	enum raid_level level;
	uint32_t layout, slots, chunk_sectors;
} shapes[] = {
	{RAID_LEVEL_4, 0, 3, 16},  {RAID_LEVEL_5, 2, 2, 16},  {RAID_LEVEL_5, 0, 3, 8},
	{RAID_LEVEL_5, 2, 4, 128}, {RAID_LEVEL_5, 3, 5, 32},  {RAID_LEVEL_6, 2, 4, 16},
	{RAID_LEVEL_6, 0, 5, 128}, {RAID_LEVEL_6, 9, 5, 16},  {RAID_LEVEL_6, 10, 6, 8},
	{RAID_LEVEL_6, 18, 5, 16}, {RAID_LEVEL_6, 17, 4, 64},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0], FIRST_RAID6 = 5 };

static struct rig_shape shape_of(uint32_t i, uint32_t spares)
{
	return (struct rig_shape){
		.level = shapes[i].level,
		.layout = shapes[i].layout,
		.slots = shapes[i].slots,
		.chunk_sectors = shapes[i].chunk_sectors,
		.sectors = 2048,
		.spares = spares,
		.sync = true,
		.resync = RIG_DIRTY,
	};
}

/* Do all members hold what belongs to what is read? */
static void rows_hold(struct rig *r)
{
	uint8_t *model = malloc(raid_size(r->a));

	assert_int_equal(rig_read(r, 0, raid_size(r->a), model), 0);
	rig_rows_hold(r, model);
	free(model);
}

static struct rig *in_sync(const struct rig_shape *shape, uint64_t seed)
{
	struct rig *r = sync_prepare(shape, seed);

	sync_wait(r);
	assert_false(sync_status(r).needs_resync);
	sync_keep(r);
	r->events = 0;
	return r;
}

/* All members as they were when they were in sync. */
static void as_before(struct rig *r)
{
	for (uint32_t k = 0; k < r->shape.slots; k++) {
		uint32_t m = 0;

		while (r->as->member[m].slot != (int)k) {
			m++;
		}
		assert_memory_equal(r->disk[m] + DATA0, sync_before[k] + DATA0,
				    r->as->geometry.p.component_sectors * 512);
	}
}

static enum raid_member_state state_of(struct rig *r, uint32_t i)
{
	return sync_status(r).member[i].state;
}

/* ---- resync, check, repair ------------------------------------------------------------------- */

static void test_resync(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct rig_shape shape = shape_of(i, 0);
		struct rig *r = sync_prepare(&shape, i);
		struct geo_row row;

		assert_int_equal(sync_status(r).sync.action, RAID_SYNC_RESYNC);
		assert_int_equal(sync_status(r).sync.total,
				 r->as->geometry.p.component_sectors * 512);
		sync_wait(r);
		assert_false(sync_status(r).needs_resync);
		assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
		assert_int_equal(sync_status(r).sync.mismatch_sectors, 0);
		rows_hold(r);
		for (uint64_t n = 0; n < 2048 / shape.chunk_sectors; n++) {
			geo_row_map(&r->as->geometry, n, &row);
			for (uint32_t d = 0; d < row.data; d++) {
				uint64_t at = geo_row_maddr(&r->as->geometry, n, row.slot[d]);

				assert_memory_equal(r->disk[row.slot[d]] + at,
						    sync_before[row.slot[d]] + at,
						    shape.chunk_sectors * 512);
			}
		}
		sync_free(r);
	}
}

/* One block is wrong: with P and Q its slot is named, whatever it holds. */
static void test_check_names_the_slot(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct rig_shape shape = shape_of(i, 0);

		for (uint32_t k = 0; k < shape.slots; k++) {
			struct rig *r = in_sync(&shape, i);
			bool named = i >= FIRST_RAID6;

			for (uint32_t b = 0; b < 700; b++) {
				r->disk[k][BAD + 100 + b] ^= (uint8_t)(b * 3 + 1);
			}
			r->data_writes = 0;
			assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
			sync_wait(r);
			assert_int_equal(sync_status(r).sync.mismatch_sectors, 2);
			assert_int_equal(rig_count(r, RAID_EV_MISMATCH), 1);
			assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->maddr, BAD - DATA0);
			assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->len, 4096);
			assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->member,
					 named ? k : UINT32_MAX);
			assert_int_equal(r->data_writes, 0);
			assert_int_equal(sync_command(r, RAID_SYNC_REPAIR), 0);
			sync_wait(r);
			if (named) {
				as_before(r);
			}
			rows_hold(r);
			assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
			sync_wait(r);
			assert_int_equal(sync_status(r).sync.mismatch_sectors, 0);
			sync_free(r);
		}
	}
}

/* Two blocks of a row are wrong: nobody is named; parity follows the data. */
static void test_two_wrong(void **state)
{
	struct rig_shape shape = shape_of(FIRST_RAID6 + 1, 0);
	struct rig *r = in_sync(&shape, 3);

	(void)state;
	for (uint32_t b = 0; b < 4096; b++) {
		r->disk[0][BAD + b] ^= (uint8_t)(b * 3 + 1);
		r->disk[1][BAD + b] ^= (uint8_t)(b * 5 + 1);
	}
	assert_int_equal(sync_command(r, RAID_SYNC_REPAIR), 0);
	sync_wait(r);
	assert_int_equal(sync_event(r, RAID_EV_MISMATCH)->member, UINT32_MAX);
	rows_hold(r);
	sync_free(r);
}

/* arg[0]: member whose block at BAD cannot be read until it is written; arg[1]: not even then. */
static int unreadable(struct rig *r, struct raid_io *io)
{
	if (io->member != r->arg[0] || io->maddr >= BAD + 4096 || io->maddr + io->len <= BAD) {
		return 0;
	}
	if (io->op == RAID_IO_WRITE && !r->arg[1]) {
		r->arg[0] = UINT64_MAX;
	}
	return io->op == RAID_IO_READ ? -EIO : 0;
}

static void test_check_rewrites_unreadable(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct rig_shape shape = shape_of(i, 0);

		for (uint32_t k = 0; k < shape.slots; k++) {
			struct rig *r = in_sync(&shape, i);

			memset(r->disk[k] + BAD, 0xee, 4096);
			r->fault = unreadable;
			r->arg[0] = k;
			assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
			sync_wait(r);
			assert_int_equal(sync_status(r).sync.mismatch_sectors, 0);
			assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 1);
			as_before(r);
			sync_free(r);
		}
	}
}

/* Nothing vouches for a block that cannot be read while parity may be stale: it must not come to
 * be computed from that parity (rule 5). The rest is brought in order. */
static void test_stale_and_unreadable(void **state)
{
	struct rig_shape shape = shape_of(2, 0);
	uint32_t data = 0;
	struct geo_row row;
	struct rig *r = sync_prepare(&shape, 3);
	uint8_t buf[4096];

	(void)state;
	geo_row_map(&r->as->geometry, (BAD - DATA0) / 4096, &row);
	r->fault = unreadable;
	r->arg[0] = row.slot[data];
	r->arg[1] = 1;
	sync_wait(r);
	assert_true(sync_status(r).needs_resync);
	assert_int_equal(sync_event(r, RAID_EV_SYNC_FINISHED)->err, -EIO);
	assert_int_equal(rig_count(r, RAID_EV_SYNC_STARTED), 1);
	assert_int_equal(rig_read(r, (BAD - DATA0) * 2, 4096, buf), -EIO);
	/* Once it is readable again: on request. */
	r->fault = NULL;
	assert_int_equal(sync_command(r, RAID_SYNC_IDLE), 0);
	sync_wait(r);
	assert_false(sync_status(r).needs_resync);
	rows_hold(r);
	sync_free(r);
}

/* … not by a check or repair either, which would rewrite it, nor for a replacement. */
static void test_stale_gives_no_data(void **state)
{
	(void)state;
	for (uint32_t i = 2; i <= FIRST_RAID6 + 1; i++) {
		struct rig_shape shape = shape_of(i, 1);
		struct raid_cmd cmd = {.op = RAID_CMD_REPLACE, .with = UINT32_MAX};
		struct rig *r = sync_prepare(&shape, i);
		struct geo_row row;
		uint32_t k;

		geo_row_map(&r->as->geometry, (BAD - DATA0) / (512 * shape.chunk_sectors), &row);
		cmd.member = k = row.slot[1];
		r->fault = unreadable;
		r->arg[0] = k;
		r->arg[1] = 1;
		sync_wait(r);
		assert_true(sync_status(r).needs_resync);
		r->arg[1] = 0;
		assert_int_equal(sync_command(r, RAID_SYNC_CHECK), 0);
		sync_wait(r);
		assert_int_equal(sync_command(r, RAID_SYNC_REPAIR), 0);
		sync_wait(r);
		assert_int_equal(r->arg[0], k);
		assert_memory_equal(r->disk[k] + BAD, sync_before[k] + BAD, 4096);
		raid_control(r->a, &cmd);
		sync_wait(r);
		assert_int_equal(cmd.res, 0);
		assert_int_not_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
		assert_int_equal(state_of(r, k), RAID_MEMBER_IN_SYNC);
		sync_free(r);
	}
}

/* ---- rebuild, replace ------------------------------------------------------------------------ */

static void test_rebuild(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct rig_shape shape = shape_of(i, 1);

		for (uint32_t k = 0; k < shape.slots; k++) {
			struct rig *r = in_sync(&shape, i);

			assert_int_equal(rig_command(r, RAID_CMD_FAIL, k), 0);
			sync_wait(r);
			assert_int_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
			assert_int_equal(sync_status(r).member[shape.slots].reads, 0);
			sync_takes_slot(r, shape.slots, (int32_t)k);
			as_before(r);
			sync_free(r);
		}
	}
}

static void test_two_rebuilt(void **state)
{
	(void)state;
	for (uint32_t i = FIRST_RAID6; i < SHAPES; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			struct rig_shape shape = shape_of(i, 2);
			uint32_t other = k + 1 + i % 2, m = shape.slots;
			struct rig *r = in_sync(&shape, i);

			r->fault = sync_hold_reads;
			rig_command(r, RAID_CMD_FAIL, k);
			rig_command(r, RAID_CMD_FAIL, other);
			r->fault = NULL;
			sync_wait(r);
			assert_int_equal(sync_status(r).in_sync, shape.slots);
			sync_takes_slot(r, m, sync_status(r).member[m].slot);
			sync_takes_slot(r, m + 1, sync_status(r).member[m + 1].slot);
			as_before(r);
			sync_free(r);
		}
	}
}

/* An unreadable source: RAID 6 has another, RAID 5 must not call the spare good. */
static void test_rebuild_from_unreadable(void **state)
{
	(void)state;
	for (uint32_t i = 3; i <= FIRST_RAID6; i += 2) {
		struct rig_shape shape = shape_of(i, 1);
		struct rig *r = in_sync(&shape, i);

		r->fault = unreadable;
		r->arg[0] = 1;
		r->arg[1] = 1;
		rig_command(r, RAID_CMD_FAIL, 0);
		sync_wait(r);
		if (i == FIRST_RAID6) {
			assert_int_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
			sync_takes_slot(r, shape.slots, 0);
			as_before(r);
		} else {
			assert_int_not_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
		}
		assert_int_equal(state_of(r, 1), RAID_MEMBER_IN_SYNC);
		sync_free(r);
	}
}

static void test_replace(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct rig_shape shape = shape_of(i, 1);
		struct raid_cmd cmd = {.op = RAID_CMD_REPLACE, .member = 1, .with = UINT32_MAX};
		struct rig *r = in_sync(&shape, i);

		/* One block must come from the others. */
		r->fault = unreadable;
		r->arg[0] = 1;
		r->arg[1] = 1;
		raid_control(r->a, &cmd);
		sync_wait(r);
		assert_int_equal(cmd.res, 0);
		assert_int_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
		assert_int_equal(state_of(r, 1), RAID_MEMBER_FAULTY);
		sync_takes_slot(r, shape.slots, 1);
		as_before(r);
		sync_free(r);
	}
}

/* ---- beside writes --------------------------------------------------------------------------- */

/* Writes during resync, then during a rebuild or replacement; then another member fails, and what
 * was written is there, from what has been rebuilt. */
static void test_storm(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 33; seed++) {
		struct rig_shape shape = shape_of((uint32_t)(seed % SHAPES), 1);
		uint32_t first = (uint32_t)(seed % shape.slots);
		struct raid_cmd cmd = {.op = seed % 3 ? RAID_CMD_FAIL : RAID_CMD_REPLACE,
				       .member = first,
				       .with = UINT32_MAX};
		struct sync_storm st = {.seed = seed};
		struct rig *r;

		shape.min_limits = seed % 5 == 0;
		r = sync_prepare(&shape, seed);
		sync_storm(r, &st, 200);
		r->fault = NULL;
		sync_wait(r);
		assert_false(sync_status(r).needs_resync);
		raid_control(r->a, &cmd);
		sync_storm(r, &st, 300);
		r->fault = NULL;
		sync_wait(r);
		assert_int_equal(cmd.res, 0);
		assert_int_equal(state_of(r, shape.slots), RAID_MEMBER_IN_SYNC);
		sync_takes_slot(r, shape.slots, (int32_t)first);
		rows_hold(r);
		assert_int_equal(rig_command(r, RAID_CMD_FAIL, (first + 1) % shape.slots), 0);
		sync_storm_end(r, &st);
		sync_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resync),
		cmocka_unit_test(test_check_names_the_slot),
		cmocka_unit_test(test_two_wrong),
		cmocka_unit_test(test_check_rewrites_unreadable),
		cmocka_unit_test(test_stale_and_unreadable),
		cmocka_unit_test(test_stale_gives_no_data),
		cmocka_unit_test(test_rebuild),
		cmocka_unit_test(test_two_rebuilt),
		cmocka_unit_test(test_rebuild_from_unreadable),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
