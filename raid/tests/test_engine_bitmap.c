/* SPDX-License-Identifier: BSD-3-Clause */
/* The write-intent bitmap of a running array: bits before data, cleared late, what freezes it. */
#include "raid/tests/bitmap_rig.h"

static const struct rig_shape mirror = {.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096};
enum { CHUNKS = 4096 * 512 / CHUNK };

/* With a bitmap all of whose bits have been cleared. */
static struct rig *swept(const struct rig_shape *shape)
{
	struct rig *r = rig_new(shape);

	assert_int_equal(add_bitmap(r, CHUNK), 0);
	pass_s(r, 12);
	for (uint32_t i = 0; i < r->as->members; i++) {
		assert_int_equal(bits_on(r, i), 0);
	}
	return r;
}

static void test_add(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct raid_status st;

	(void)state;
	st = status(r);
	assert_false(st.bitmap.present);
	assert_int_equal(add_bitmap(r, CHUNK), 0);
	st = status(r);
	assert_true(st.bitmap.present);
	assert_int_equal(st.bitmap.chunk_bytes, CHUNK);
	assert_int_equal(st.bitmap.chunks, CHUNKS);
	assert_int_equal(st.bitmap.dirty, CHUNKS);
	for (uint32_t i = 0; i < 2; i++) {
		struct bm_header h = header_on(r, i);

		assert_int_equal(bits_on(r, i), CHUNKS);
		assert_int_equal(h.state, 0);
		assert_int_equal(h.events, 11);
		assert_int_equal(h.daemon_sleep_s, 5);
		assert_int_equal(rig_sb(r, i).bitmap_offset, 8);
		assert_true(rig_sb(r, i).resync_offset == SB_IN_SYNC);
	}
	assert_int_equal(add_bitmap(r, CHUNK), -EEXIST);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0) + bits_on(r, 1), 0);
	assert_true(raid_deadline(r->a) == RAID_NEVER);
	rig_free(r);
}

static void test_bit_before_data(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q = rig_submit(r, RAID_OP_WRITE, 5 * CHUNK, 2 * CHUNK, 0, data);

	(void)state;
	rig_step(r);
	/* One page per member has the events of the superblock to come, and the bits. */
	assert_int_equal(r->ios, 2);
	assert_int_equal(count_io(r, is_page), 2);
	assert_true(r->io[0]->fua && r->io[1]->fua);
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(r->ios, 1); /* the other member's is still out */
	rig_complete(r, 0, 0);
	rig_step(r);
	assert_int_equal(count_io(r, rig_is_sb), 2);
	assert_int_equal(r->ios, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(bit_on(r, i, 5) && bit_on(r, i, 6));
		assert_int_equal(bits_on(r, i), 2);
		assert_int_equal(header_on(r, i).events, rig_sb(r, i).events + 1);
	}
	let(r, rig_is_sb);
	assert_int_equal(count_io(r, is_data), 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	/* The same chunks again: nothing but data. */
	q = rig_submit(r, RAID_OP_WRITE, 6 * CHUNK, 512, 0, data);
	rig_step(r);
	assert_int_equal(count_io(r, is_data), 2);
	assert_int_equal(r->ios, 2);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_bit_before_data),
	};

	return cmocka_run_group_tests_name("engine_bitmap", tests, NULL, NULL);
}
