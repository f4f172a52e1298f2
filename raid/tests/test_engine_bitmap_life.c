/* SPDX-License-Identifier: BSD-3-Clause */
/* How a bitmap comes and goes: loaded after a crash, stale, added and removed under writes, every
 * place and block size; and what lies on the members at any moment. */
#include "raid/base/bytes.h"
#include "raid/tests/bitmap_rig.h"

static const struct rig_shape mirror = {.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096};
enum { CHUNKS = 4096 * 512 / CHUNK };
static uint8_t back[1 << 20];

static int hold_data_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && is_data(io) ? RIG_HOLD : 0;
}

static void fill(uint8_t with)
{
	memset(data, with, sizeof data);
}

/* A power cut in the middle of a write of chunk 3: only member 0 has it. */
static struct rig *half_written(bool sync)
{
	struct rig *r = swept(&mirror), *x;
	struct rig_req *q;

	fill(0x11);
	assert_int_equal(rig_write(r, 0, 64 * CHUNK, data), 0);
	pass_s(r, 12);
	fill(0x22);
	r->arg[0] = 1;
	r->fault = hold_data_of;
	q = rig_submit(r, RAID_OP_WRITE, 3 * CHUNK, CHUNK, 0, data);
	rig_run(r);
	assert_int_equal(count_io(r, is_data), 1);
	x = crash(r, 0);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	rig_free(r);
	assert_int_equal(x->as->bitmap.state, ASM_BITMAP_CURRENT);
	assert_int_equal(x->as->resync_offset, 0);
	x->shape.sync = sync;
	rig_start(x);
	return x;
}

static void test_only_set_chunks_are_doubtful(void **state)
{
	struct rig *r = half_written(false);
	uint64_t before;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(rig_read(r, 3 * CHUNK, CHUNK, back), 0);
		assert_int_equal(back[0], 0x22);
	}
	assert_int_equal(status(r).member[1].reads, 0); /* always the same copy */
	before = status(r).member[0].reads;
	for (uint32_t i = 0; i < 20; i++) {
		struct rig_req *a = rig_submit(r, RAID_OP_READ, 30 * CHUNK, CHUNK, 0, NULL);
		struct rig_req *b = rig_submit(r, RAID_OP_READ, 40 * CHUNK, CHUNK, 0, NULL);

		rig_run(r);
		assert_int_equal(rig_finish(r, a) + rig_finish(r, b), 0);
	}
	assert_true(status(r).member[1].reads >= 10 && status(r).member[0].reads > before);
	/* It stays dirty, and so does the chunk, however long it takes. */
	pass_s(r, 20);
	assert_int_equal(rig_write(r, 50 * CHUNK, CHUNK, data), 0);
	pass_s(r, 20);
	assert_true(bit_on(r, 0, 3) && bit_on(r, 1, 3));
	assert_int_equal(bits_on(r, 0), 1);
	assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
	assert_true(bit_on(r, 1, 3));
	assert_true(rig_sb(r, 0).resync_offset == 0);
	rig_free(r);
}

static void test_only_set_chunks_are_resynced(void **state)
{
	struct rig *r = half_written(true);

	(void)state;
	pass_s(r, 3);
	assert_false(status(r).needs_resync);
	assert_true(status(r).member[0].read_bytes <= 2 * CHUNK);
	rig_copies_equal(r, NULL);
	pass_s(r, 14);
	assert_int_equal(bits_on(r, 0) + bits_on(r, 1), 0);
	assert_true(rig_sb(r, 0).resync_offset == SB_IN_SYNC);
	rig_free(r);
}

/* Clean and complete: set bits mean nothing; but only an array that is written writes. */
static void test_clean_start_sweeps(void **state)
{
	struct rig *r = swept(&mirror), *x;

	(void)state;
	assert_int_equal(rig_write(r, 0, 9 * CHUNK, data), 0);
	pass_s(r, 1);
	x = crash(r, 0);
	rig_free(r);
	assert_true(x->as->resync_offset == SB_IN_SYNC);
	rig_start(x);
	assert_int_equal(status(x).bitmap.dirty, 9);
	pass_s(x, 20);
	assert_int_equal(x->sb_writes + x->data_writes, 0);
	assert_int_equal(rig_write(x, 100 * CHUNK, CHUNK, data), 0);
	pass_s(x, 12);
	assert_int_equal(bits_on(x, 0) + bits_on(x, 1), 0);
	rig_free(x);
}

static void test_read_only_leaves_it(void **state)
{
	struct rig *r = half_written(false), *x;

	(void)state;
	x = crash(r, 0);
	rig_free(r);
	for (uint32_t i = 0; i < 2; i++) {
		x->props[i].read_only = true;
	}
	{
		struct raid_config cfg = {
			.assembly = x->as,
			.props = x->props,
			.limits = RAID_LIMITS_DEFAULT,
			.read_only = true,
			.bitmap_bits = x->disk[0] + BM_AT + BM_HEADER_BYTES,
			.now = x->now,
		};
		char why[RAID_WHY_BYTES];

		assert_int_equal(raid_create(&cfg, &x->a, why), 0);
	}
	assert_int_equal(rig_read(x, 3 * CHUNK, CHUNK, back), 0);
	assert_int_equal(back[0], 0x22);
	assert_int_equal(add_bitmap(x, 0), -EROFS);
	assert_int_equal(rig_command(x, RAID_CMD_BITMAP_REMOVE, 0), -EROFS);
	pass_s(x, 12);
	assert_int_equal(x->sb_writes + x->data_writes + x->flushes, 0);
	rig_free(x);
}

/* Two pages; until both are on the members the header says that it is stale. */
static void test_stale_is_written_anew(void **state)
{
	struct rig_shape two = mirror;
	struct rig_req *q;
	struct rig *r, *x;

	(void)state;
	two.sectors = 32768;
	r = rig_named(&two, 512, ASM_BITMAP_STALE);
	rig_start(r);
	assert_int_equal(status(r).bitmap.dirty, 32768);
	q = rig_submit(r, RAID_OP_WRITE, 0, 512, 0, data);
	rig_step(r);
	assert_int_equal(count_io(r, is_page), 4);
	assert_int_equal(r->ios, 4);
	/* The first page only. */
	for (uint32_t i = r->ios; i-- > 0;) {
		if (r->io[i]->maddr == BM_AT) {
			rig_complete(r, i, 0);
		}
	}
	rig_step(r);
	let(r, rig_is_sb);
	x = crash(r, 0);
	assert_int_equal(x->as->bitmap.state, ASM_BITMAP_STALE);
	rig_discard(x);
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	x = crash(r, 0);
	assert_int_equal(x->as->bitmap.state, ASM_BITMAP_CURRENT);
	rig_discard(x);
	assert_int_equal(bits_on(r, 0), 32768);
	assert_int_equal(bits_on(r, 1), 32768);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0) + bits_on(r, 1), 0);
	rig_free(r);
}

/* One member's superblock does not name it yet: that one gets every page. */
static void test_member_without_a_copy(void **state)
{
	struct rig *r = rig_named(&mirror, CHUNK, ASM_BITMAP_CURRENT);

	(void)state;
	r->as->member[1].sb.feature_map = 0;
	memset(r->disk[1] + BM_AT, 0xa5, 4096);
	rig_start(r);
	assert_int_equal(rig_write(r, 5 * CHUNK, CHUNK, data), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(bits_on(r, i), 1);
		assert_int_equal(header_on(r, i).state, 0);
	}
	rig_free(r);
}

/* Writes under way when it is added are not counted: no bit is cleared before they have ended. */
static void test_add_under_writes(void **state)
{
	struct rig *r = rig_new(&mirror);
	struct rig_req *q;

	(void)state;
	r->arg[0] = 1;
	r->fault = hold_data_of;
	q = rig_submit(r, RAID_OP_WRITE, 7 * CHUNK, CHUNK, 0, data);
	rig_run(r);
	assert_int_equal(add_bitmap(r, CHUNK), 0);
	pass_s(r, 20); /* not longer than a write may take */
	assert_int_equal(bits_on(r, 0), CHUNKS);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q), 0);
	pass_s(r, 9);
	assert_true(bit_on(r, 0, 7));
	pass_s(r, 3);
	assert_int_equal(bits_on(r, 0) + bits_on(r, 1), 0);
	rig_free(r);
}

/* Superblocks name it only when every page is there. */
static void test_add_in_order(void **state)
{
	struct raid_cmd cmd = {.op = RAID_CMD_BITMAP_ADD, .bitmap_chunk_bytes = CHUNK};
	struct rig *r = rig_new(&mirror);

	(void)state;
	assert_int_equal(rig_write(r, 0, 512, data), 0);
	pass_s(r, 1);
	r->cmd = NULL;
	raid_control(r->a, &cmd);
	rig_step(r);
	assert_int_equal(r->ios, 2);
	assert_int_equal(let(r, is_page), 2);
	assert_int_equal(count_io(r, rig_is_sb), 0);
	while (count_io(r, is_page)) {
		assert_null(r->cmd);
		assert_int_equal(rig_sb(r, 0).feature_map, 0);
		let(r, is_page);
	}
	assert_int_equal(count_io(r, rig_is_sb), 2);
	assert_int_equal(bits_on(r, 1), CHUNKS);
	let(r, rig_is_sb);
	assert_ptr_equal(r->cmd, &cmd);
	assert_int_equal(cmd.res, 0);
	rig_free(r);
}

static void test_remove_under_writes(void **state)
{
	struct rig *r = swept(&mirror);
	struct rig_req *q[2];

	(void)state;
	r->arg[0] = 1;
	r->fault = hold_data_of;
	q[0] = rig_submit(r, RAID_OP_WRITE, 7 * CHUNK, CHUNK, 0, data);
	rig_run(r);
	assert_int_equal(rig_command(r, RAID_CMD_BITMAP_REMOVE, 0), 0);
	assert_false(status(r).bitmap.present);
	assert_int_equal(rig_command(r, RAID_CMD_BITMAP_REMOVE, 0), -ENOENT);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(rig_sb(r, i).feature_map, 0);
		assert_true(bit_on(r, i, 7)); /* kept up to the end */
	}
	q[1] = rig_submit(r, RAID_OP_WRITE, 9 * CHUNK, CHUNK, 0, data);
	rig_run(r);
	assert_int_equal(count_io(r, is_data), 2);
	/* And a new one, while the first write, counted in the old, is still out. */
	assert_int_equal(add_bitmap(r, 2 * CHUNK), 0);
	assert_int_equal(status(r).bitmap.chunks, CHUNKS / 2);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0), CHUNKS / 2);
	r->fault = NULL;
	rig_run(r);
	assert_int_equal(rig_finish(r, q[0]), 0);
	assert_int_equal(rig_finish(r, q[1]), 0);
	pass_s(r, 12);
	assert_int_equal(bits_on(r, 0), 0);
	rig_free(r);
}

static void test_remove_needs_it_no_more(void **state)
{
	struct rig *r = half_written(false);

	(void)state;
	assert_int_equal(rig_command(r, RAID_CMD_BITMAP_REMOVE, 0), -EBUSY);
	assert_true(status(r).bitmap.present);
	rig_free(r);
}

static void test_no_bitmap_for_striped(void **state)
{
	struct rig *r = rig_new(&(struct rig_shape){
		.level = RAID_LEVEL_0, .chunk_sectors = 128, .slots = 2, .sectors = 2048});

	(void)state;
	assert_int_equal(add_bitmap(r, 0), -EINVAL);
	rig_free(r);
	r = rig_new(&mirror);
	assert_int_equal(add_bitmap(r, 3000), -EINVAL);
	assert_int_equal(add_bitmap(r, 0), 0);
	assert_int_equal(status(r).bitmap.chunk_bytes, 64 << 20);
	assert_int_equal(status(r).bitmap.chunks, 1);
	rig_free(r);
}

/* Level 10 counts in addresses of the array. */
static void test_level_10(void **state)
{
	const struct rig_shape ten = {.level = RAID_LEVEL_10,
				      .layout = 0x102,
				      .chunk_sectors = 16,
				      .slots = 4,
				      .sectors = 2048};
	struct rig *r = swept(&ten);

	(void)state;
	assert_int_equal(status(r).bitmap.chunks, 2 * 2048 * 512 / CHUNK);
	assert_int_equal(rig_write(r, 400 * CHUNK, CHUNK, data), 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(bit_on(r, i, 400));
		assert_int_equal(bits_on(r, i), 1);
		assert_int_equal(header_on(r, i).sync_size_sectors, 4096);
	}
	rig_free(r);
}

struct place {
	enum sb_version version;
	uint64_t super_offset;
	uint32_t lbs;
	int32_t offset;
};

static void check_place(const struct place *p)
{
	struct rig_shape shape = mirror;
	struct rig *r, *x;

	shape.more = 64;
	shape.lbs[0] = p->lbs;
	r = rig_prepare(&shape);
	for (uint32_t i = 0; i < 2; i++) {
		struct sb *sb = &r->as->member[i].sb;

		sb->version = p->version;
		sb->super_offset = p->version == SB_V1_0 ? (r->disk_bytes / 512 - 16) & ~(uint64_t)7
							 : p->super_offset;
	}
	rig_create(r);
	swept_with(r, CHUNK);
	fill(0x77);
	assert_int_equal(rig_write(r, 11 * CHUNK, CHUNK, data), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct bm_expect expect;

		assert_int_equal(sb_on(r, i, &expect).bitmap_offset, p->offset);
		assert_int_equal(bits_on(r, i), 1);
		assert_true(bit_on(r, i, 11));
	}
	x = crash(r, 0);
	assert_int_equal(x->as->bitmap.state, ASM_BITMAP_CURRENT);
	rig_discard(x);
	assert_int_equal(rig_read(r, 11 * CHUNK, CHUNK, back), 0);
	assert_memory_equal(back, data, CHUNK);
	rig_free(r);
}

static void test_places(void **state)
{
	static const struct place place[] = {
		{SB_V1_2, 8, 512, 8},  {SB_V1_2, 8, 4096, 8},  {SB_V1_1, 0, 512, 8},
		{SB_V1_1, 0, 4096, 8}, {SB_V1_0, 0, 512, -16}, {SB_V1_0, 0, 4096, -16},
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof place / sizeof place[0]; i++) {
		check_place(&place[i]);
	}
}

/* ---- at any moment -------------------------------------------------------------------------- */

static uint64_t random_state;

static uint32_t pick(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

/* Where members that count differ, each of them says so. */
static void check_members(struct rig *r)
{
	struct raid_status st = status(r);
	uint32_t first = UINT32_MAX;

	for (uint32_t i = 0; i < r->as->members; i++) {
		if (st.member[i].state != RAID_MEMBER_IN_SYNC) {
			continue;
		}
		first = first == UINT32_MAX ? i : first;
		for (uint64_t k = 0; k < st.bitmap.chunks; k++) {
			uint64_t at = DATA_AT + k * CHUNK;

			if (memcmp(r->disk[first] + at, r->disk[i] + at, CHUNK) != 0 &&
			    (!bit_on(r, first, k) || !bit_on(r, i, k))) {
				fail_msg("chunk %u differs on %u and has no bit", (uint32_t)k, i);
			}
		}
	}
}

static void random_turn(struct rig *r, struct rig_req *q[], uint32_t n)
{
	uint32_t i = pick(n);

	switch (pick(8)) {
	case 0:
	case 1:
		if (q[i] && q[i]->state == 3) {
			assert_int_equal(rig_finish(r, q[i]), 0);
			q[i] = NULL;
		}
		if (!q[i]) {
			fill((uint8_t)pick(256));
			q[i] = rig_submit(r, RAID_OP_WRITE, pick(CHUNKS - 4) * (uint64_t)CHUNK,
					  512 * (1 + pick(24)), 0, data);
		}
		break;
	case 2:
		r->now.mono_ns += pick(600) * 1000000ull;
		break;
	default:
		if (r->ios) {
			rig_complete(r, pick(r->ios), 0);
			check_members(r);
		}
		break;
	}
	if (pick(3)) {
		rig_step(r);
	}
}

static void test_differences_have_bits(void **state)
{
	struct rig_shape three = mirror;
	struct rig_req *q[12] = {0};
	struct rig *r;

	(void)state;
	three.slots = 3;
	for (uint32_t seed = 1; seed <= 6; seed++) {
		random_state = seed;
		r = swept(&three);
		for (uint32_t turn = 0; turn < 3000; turn++) {
			random_turn(r, q, 12);
			if (turn == 2000 && seed % 2) {
				rig_step(r);
				assert_true(rig_command(r, RAID_CMD_FAIL, 1) == 0);
			}
		}
		rig_run(r);
		for (uint32_t i = 0; i < 12; i++) {
			if (q[i]) {
				assert_int_equal(rig_finish(r, q[i]), 0);
				q[i] = NULL;
			}
		}
		pass_s(r, 12);
		assert_true((bits_on(r, 0) == 0) == (seed % 2 == 0));
		assert_int_equal(rig_command(r, RAID_CMD_STOP, 0), 0);
		rig_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_set_chunks_are_doubtful),
		cmocka_unit_test(test_only_set_chunks_are_resynced),
		cmocka_unit_test(test_clean_start_sweeps),
		cmocka_unit_test(test_read_only_leaves_it),
		cmocka_unit_test(test_stale_is_written_anew),
		cmocka_unit_test(test_member_without_a_copy),
		cmocka_unit_test(test_add_under_writes),
		cmocka_unit_test(test_add_in_order),
		cmocka_unit_test(test_remove_under_writes),
		cmocka_unit_test(test_remove_needs_it_no_more),
		cmocka_unit_test(test_no_bitmap_for_striped),
		cmocka_unit_test(test_level_10),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_differences_have_bits),
	};

	return cmocka_run_group_tests_name("engine_bitmap_life", tests, NULL, NULL);
}
