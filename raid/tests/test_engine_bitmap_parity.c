/* SPDX-License-Identifier: BSD-3-Clause */
/* The bitmap of RAID 5 and 6: a chunk is a range of the component, so a row's bit stands for its
 * data and its parity; at any moment a row whose parity does not fit has its bit on every member.
 */
#include "raid/tests/bitmap_rig.h"

static const struct rig_shape raid5 = {
	.level = RAID_LEVEL_5, .layout = 2, .chunk_sectors = 16, .slots = 4, .sectors = 1024};
enum { ROW_CHUNK = 16 * 512, ROWS = 1024 / 16, CHUNKS = 1024 * 512 / CHUNK };

static void test_bits_of_a_row(void **state)
{
	struct rig *r = swept(&raid5);
	struct rig_req *q;

	(void)state;
	/* Row 10 is chunks 20 and 21 of the component. */
	q = rig_submit(r, RAID_OP_WRITE, 10 * 3 * ROW_CHUNK, ROW_CHUNK, 0, data);
	rig_step(r);
	assert_int_equal(count_io(r, is_page), 4);
	assert_int_equal(r->ios, 4);
	let(r, is_page);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(bit_on(r, i, 20) && bit_on(r, i, 21));
		assert_int_equal(bits_on(r, i), 2);
		assert_int_equal(header_on(r, i).sync_size_sectors, 1024);
	}
	assert_int_equal(count_io(r, is_data), 0);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0) + bits_on(r, 3), 0);
	rig_free(r);
}

/* Writes of member 0 to the second row fail, and after the first of them reads, too. */
static int broken_block(struct rig *r, struct raid_io *io)
{
	bool hit = io->member == 0 && io->op != RAID_IO_FLUSH && io->maddr < r->arg[0] + 512 &&
		   io->maddr + io->len > r->arg[0];

	r->arg[1] += hit && io->op != RAID_IO_READ;
	return hit && (io->op != RAID_IO_READ || r->arg[1]) ? -EIO : 0;
}

static int fail_flush_of_spare(struct rig *r, struct raid_io *io)
{
	(void)r;
	return io->member == 3 && is_flush(io) ? -EIO : 0;
}

/* A row cannot be put back: no more writes, but superblocks and bitmap are kept, and STOP ends. */
static void test_stop_after_a_lost_row(void **state)
{
	struct rig_shape degraded = raid5;
	uint64_t events;
	struct rig *r;

	(void)state;
	degraded.missing = 1 << 3;
	degraded.spares = 1; /* takes the slot, and is not filled */
	r = rig_new(&degraded);
	assert_int_equal(rig_write(r, 0, 8 * 3 * ROW_CHUNK, data), 0);
	assert_int_equal(add_bitmap(r, CHUNK), 0);
	r->arg[0] = DATA_AT + ROW_CHUNK;
	r->fault = broken_block;
	assert_int_equal(rig_write(r, 4 * ROW_CHUNK, 4096, data), -EIO);
	assert_int_equal(rig_count(r, RAID_EV_ROW_INCONSISTENT), 1);
	events = rig_sb(r, 0).events;
	r->fault = fail_flush_of_spare;
	rig_op(r, RAID_OP_FLUSH, 0, 0, 0);
	assert_int_equal(rig_count(r, RAID_EV_MEMBER_FAILED), 1);
	assert_int_equal(rig_sb(r, 0).dev_roles[3], SB_ROLE_FAULTY);
	assert_true(rig_sb(r, 0).events > events);
	assert_int_equal(header_on(r, 0).events, rig_sb(r, 0).events);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), -EIO);
	assert_true(bit_on(r, 0, 2));
	rig_free(r);
}

static uint64_t random_state;

static uint32_t pick(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

static void check_rows(struct rig *r)
{
	for (uint64_t k = 0; k < CHUNKS; k++) {
		uint64_t at = DATA_AT + k * CHUNK;

		for (uint32_t b = 0; b < CHUNK; b += 8) {
			uint64_t sum = 0, word;

			for (uint32_t i = 0; i < 4; i++) {
				memcpy(&word, r->disk[i] + at + b, 8);
				sum ^= word;
			}
			for (uint32_t i = 0; sum && i < 4; i++) {
				if (!bit_on(r, i, k)) {
					fail_msg("chunk %u: parity is stale, member %u has no bit",
						 (uint32_t)k, i);
				}
			}
			b = sum ? CHUNK : b;
		}
	}
}

static void test_stale_parity_has_bits(void **state)
{
	struct rig_req *q[8] = {0};

	(void)state;
	for (uint32_t seed = 1; seed <= 4; seed++) {
		struct rig *r = swept(&raid5);

		random_state = seed;
		for (uint32_t turn = 0; turn < 2500; turn++) {
			uint32_t i = pick(8);

			if (q[i] && q[i]->state == 3) {
				assert_int_equal(rig_finish(r, q[i]), 0);
				q[i] = NULL;
			}
			if (!q[i] && !pick(3)) {
				uint64_t addr = pick(3 * ROWS) * (uint64_t)ROW_CHUNK;

				memset(data, (int)pick(256), ROW_CHUNK);
				q[i] = rig_submit(r, RAID_OP_WRITE, addr, 512 * (1 + pick(16)), 0,
						  data);
			} else if (!pick(6)) {
				r->now.mono_ns += pick(700) * 1000000ull;
			} else if (r->ios) {
				rig_complete(r, pick(r->ios), 0);
				check_rows(r);
			}
			rig_step(r);
		}
		rig_run(r);
		for (uint32_t i = 0; i < 8; i++) {
			assert_true(!q[i] || rig_finish(r, q[i]) == 0);
			q[i] = NULL;
		}
		pass_s(r, 12);
		assert_int_equal(bits_on(r, 0), 0);
		rig_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits_of_a_row),
		cmocka_unit_test(test_stop_after_a_lost_row),
		cmocka_unit_test(test_stale_parity_has_bits),
	};

	return cmocka_run_group_tests_name("engine_bitmap_parity", tests, NULL, NULL);
}
