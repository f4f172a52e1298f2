/* SPDX-License-Identifier: BSD-3-Clause */
/* Members marked failfast: the first error fails them, a quarter of the deadline sheds them, and
 * both never when they are needed. */
#include "raid/tests/engine_faults.h"

static struct rig *fast(uint32_t slots, uint32_t missing)
{
	struct rig_shape shape = mirror;
	struct rig *r;

	shape.slots = slots;
	shape.missing = missing;
	r = rig_prepare(&shape);
	r->as->member[0].sb.devflags = SB_DEV_FAIL_FAST;
	rig_create(r);
	for (uint32_t i = 0; i < sizeof data; i++) {
		data[i] = (uint8_t)(i * 7 + i / 509);
	}
	assert_int_equal(rig_write(r, 0, sizeof data, data), 0);
	return r;
}

static enum raid_member_state state_of(struct rig *r, uint32_t i)
{
	struct raid_status st;

	raid_get_status(r->a, &st);
	return st.member[i].state;
}

/* Once: the io that arg[1] names fails, later ones do not. */
static int fail_once(struct rig *r, struct raid_io *io)
{
	if (io->member != 0 || io->op != r->arg[1] || rig_is_sb(io) || r->arg[2]) {
		return 0;
	}
	r->arg[2] = 1;
	return -EIO;
}

static void test_first_write_error(void **state)
{
	struct rig *r = fast(2, 0);

	(void)state;
	r->arg[1] = RAID_IO_WRITE;
	r->fault = fail_once;
	assert_int_equal(rig_write(r, 0, 65536, data), 0);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_sb(r, 1).dev_roles[0], SB_ROLE_FAULTY);
	rig_free(r);
}

static void test_first_read_error(void **state)
{
	struct rig *r = fast(2, 0);

	(void)state;
	r->arg[1] = RAID_IO_READ;
	r->fault = fail_once;
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(rig_read(r, 65536 * i, 65536, back), 0);
		assert_memory_equal(back, data + 65536 * i, 65536);
	}
	assert_int_equal(r->arg[2], 1);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_FAULTY);
	assert_int_equal(rig_count(r, RAID_EV_READ_REPAIRED), 0);
	rig_free(r);
}

/* Alone it gets its second chance like any other. */
static void test_needed(void **state)
{
	struct rig *r = fast(2, 2);

	(void)state;
	r->arg[1] = RAID_IO_WRITE;
	r->fault = fail_once;
	assert_int_equal(rig_write(r, 0, 65536, data + 4096), 0);
	assert_int_equal(r->arg[2], 1);
	r->arg[1] = RAID_IO_READ;
	r->arg[2] = 0;
	assert_int_equal(rig_read(r, 0, 65536, back), 0);
	assert_memory_equal(back, data + 4096, 65536);
	assert_int_equal(r->arg[2], 1);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_IN_SYNC);
	rig_free(r);
}

static void test_shorter_deadline(void **state)
{
	struct rig *r = fast(2, 0);
	struct rig_req *q;

	(void)state;
	r->fault = hold_reads_of;
	r->arg[0] = 0;
	do {
		q = rig_submit(r, RAID_OP_READ, 8192, 4096, 0, NULL);
		rig_run(r);
		if (q->state) {
			rig_finish(r, q);
			rig_read(r, 524288, 4096, back);
			q = NULL;
		}
	} while (!q);
	rig_advance_ms(r, 2499);
	assert_int_equal(q->state, 0);
	rig_advance_ms(r, 2);
	assert_int_equal(q->state, 1);
	assert_memory_equal(q->req.data, data + 8192, 4096);
	assert_int_equal(rig_finish(r, q), 0);
	assert_int_equal(state_of(r, 0), RAID_MEMBER_IN_SYNC);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_write_error),
		cmocka_unit_test(test_first_read_error),
		cmocka_unit_test(test_needed),
		cmocka_unit_test(test_shorter_deadline),
	};

	return cmocka_run_group_tests_name("engine_failfast", tests, NULL, NULL);
}
