/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata 0.90 (md-format §16), in both byte orders: each test runs for either. */
#include "raid/sb.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

enum { DEV_SECTORS = 131072, WORDS = 1024, CHECKSUM = 38, DISKS = 128, THIS = 992 };

static const struct sb_location at = {SB_V0_90, 130944};

static uint8_t buf[SB_BYTES_MAX];
static bool big;
static struct sb sb;
static char why[RAID_WHY_BYTES];

static void put(uint32_t word, uint32_t v)
{
	if (big) {
		put_be32(buf + 4 * word, v);
	} else {
		put_le32(buf + 4 * word, v);
	}
}

static void put64(uint32_t word, uint64_t v)
{
	if (big) {
		put_be64(buf + 4 * word, v);
	} else {
		put_le64(buf + 4 * word, v);
	}
}

static void seal(void)
{
	uint64_t sum = 0;
	uint32_t i;

	put(CHECKSUM, 0);
	for (i = 0; i < WORDS; i++) {
		sum += big ? get_be32(buf + 4 * i) : get_le32(buf + 4 * i);
	}
	put(CHECKSUM, (uint32_t)sum + (uint32_t)(sum >> 32));
}

static void put_disk(uint32_t at_word, uint32_t number, uint32_t slot, uint32_t state)
{
	put(at_word, number);
	put(at_word + 3, slot);
	put(at_word + 4, state);
}

/* A healthy raid5 of three, seen on its disk 1. */
static void make(void **state)
{
	uint32_t k;

	big = *(const bool *)*state;
	memset(buf, 0, sizeof buf);
	put(0, SB_MAGIC);
	put(2, 90);
	put(5, 0x01234567);
	put(6, 1700000000);
	put(7, 5);
	put(8, 65472);
	put(9, 3);
	put(10, 3);
	put(13, 0x89abcdef);
	put(14, 0x11223344);
	put(15, 0x55667788);
	put(32, 1700000001);
	put(33, 1);
	put64(39, 0x0000000300000004);
	put(64, 2);
	put(65, 65536);
	for (k = 0; k < 3; k++) {
		put_disk(DISKS + 32 * k, k, k, 6);
	}
	put_disk(THIS, 1, 1, 6);
	seal();
}

static int decode(void)
{
	return sb_decode(buf, at, DEV_SECTORS, &sb, why);
}

static void fields(void **state)
{
	char uuid[37];

	make(state);
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.version, SB_V0_90);
	assert_string_equal(sb_uuid_text(sb.set_uuid, uuid), "01234567:89abcdef:11223344:55667788");
	assert_int_equal(sb.feature_map, 0);
	assert_int_equal(sb.ctime_s, 1700000000);
	assert_int_equal(sb.utime_s, 1700000001);
	assert_int_equal(sb.level, 5);
	assert_int_equal(sb.layout, 2);
	assert_int_equal(sb.size, 130944);
	assert_int_equal(sb.chunksize, 128);
	assert_int_equal(sb.raid_disks, 3);
	assert_int_equal(sb.data_offset, 0);
	assert_int_equal(sb.data_size, 130944);
	assert_int_equal(sb.super_offset, 130944);
	assert_int_equal(sb.events, 0x0000000300000004);
	assert_int_equal(sb.resync_offset, SB_IN_SYNC);
	assert_int_equal(sb.dev_number, 1);
	assert_int_equal(sb.max_dev, 27);
	assert_int_equal(sb_own_role(&sb), 1);
	assert_int_equal(sb.dev_roles[2], 2);
	assert_int_equal(sb.dev_roles[3], SB_ROLE_SPARE);
	assert_int_equal(sb.dev_roles[27], SB_ROLE_SPARE);
	assert_string_equal(sb.set_name, "");
}

static void levels_without_a_component_have_no_size(void **state)
{
	static const int32_t level[] = {-1, 0};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		make(state);
		put(7, (uint32_t)level[i]);
		seal();
		assert_int_equal(decode(), 0);
		assert_int_equal(sb.level, level[i]);
		assert_int_equal(sb.size, 0);
		assert_int_equal(sb.data_size, 130944);
	}
}

static void resync_checkpoint(void **state)
{
	make(state);
	put(33, 0);
	put64(41, 0x0000000300000004);
	put(43, 12345);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.resync_offset, 12345);
	put64(41, 0x0000000400000003); /* of another update */
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.resync_offset, 0);
	put(33, 1);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.resync_offset, SB_IN_SYNC);
}

static void roles_from_disk_states(void **state)
{
	static const struct {
		uint32_t state;
		uint16_t role;
	} want[] = {
		{6, 2},
		{6 | 1 << 9, 2},
		{0, SB_ROLE_SPARE},
		{1, SB_ROLE_FAULTY},
		{9, SB_ROLE_FAULTY},
		{7, SB_ROLE_FAULTY},
		{8, SB_ROLE_SPARE},
		{2, SB_ROLE_SPARE}, /* half built: starts over */
		{4, SB_ROLE_SPARE},
	};
	uint32_t i;

	for (i = 0; i < sizeof want / sizeof want[0]; i++) {
		make(state);
		put_disk(DISKS + 32 * 2, 2, 2, want[i].state);
		seal();
		assert_int_equal(decode(), 0);
		assert_int_equal(sb.dev_roles[2], want[i].role);
		assert_int_equal(sb.dev_roles[0], 0);
	}
}

static void slots_that_cannot_be_are_no_roles(void **state)
{
	make(state);
	put_disk(DISKS, 0, 0xFFFD, 6); /* would read as a journal */
	put_disk(DISKS + 32, 1, 0x10000, 6);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.dev_roles[0], SB_ROLE_SPARE);
	assert_int_equal(sb.dev_roles[1], SB_ROLE_SPARE);
}

static void flags_of_the_own_disk(void **state)
{
	make(state);
	put_disk(THIS, 1, 1, 6 | 1 << 9 | 1 << 10);
	put_disk(DISKS, 0, 0, 6 | 1 << 9);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.devflags, SB_DEV_WRITE_MOSTLY | SB_DEV_FAIL_FAST);
	put_disk(THIS, 1, 1, 6);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.devflags, 0);
}

static void own_number_beyond_the_table(void **state)
{
	static const uint32_t number[] = {27, UINT32_MAX};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		make(state);
		put_disk(THIS, number[i], 0, 6);
		seal();
		assert_int_equal(decode(), 0);
		assert_int_equal(sb_own_role(&sb), SB_ROLE_SPARE);
	}
}

static void bitmap(void **state)
{
	make(state);
	put(33, 1 | 1 << 8);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.feature_map, SB_FEATURE_BITMAP);
	assert_int_equal(sb.bitmap_offset, 8);
	assert_int_equal(sb.resync_offset, SB_IN_SYNC);
}

static void minor_91_is_a_reshape(void **state)
{
	make(state);
	put(2, 91);
	put64(44, 0x1122334455667788);
	put(46, 6);
	put(47, 1);
	put(48, 18);
	put(49, 4096);
	seal();
	assert_int_equal(decode(), 0);
	assert_int_equal(sb.feature_map, SB_FEATURE_RESHAPE);
	assert_int_equal(sb.reshape_position, 0x1122334455667788);
	assert_int_equal(sb.new_level, 6);
	assert_int_equal(sb.delta_disks, 1);
	assert_int_equal(sb.new_layout, 18);
	assert_int_equal(sb.new_chunk, 8);
	put(47, 3);
	seal();
	assert_int_equal(decode(), -EUCLEAN);
}

static void not_this_version(void **state)
{
	make(state);
	put(1, 1);
	seal();
	assert_int_equal(decode(), -ENOENT);
	make(state);
	put(0, 0xA92B4EFD);
	seal();
	assert_int_equal(decode(), -ENOENT);
	make(state);
	put(2, 92);
	seal();
	assert_int_equal(decode(), -EUCLEAN);
	assert_non_null(strstr(why, "0.92"));
}

static void damage(void **state)
{
	uint32_t byte;

	for (byte = 8; byte < SB_BYTES_MAX; byte += 13) {
		make(state);
		buf[byte] ^= 0x40;
		assert_int_equal(decode(), -EBADMSG);
		assert_non_null(strstr(why, "damaged"));
	}
}

static void impossible_values(void **state)
{
	make(state);
	put(65, 65537);
	seal();
	assert_int_equal(decode(), -EUCLEAN);
	make(state);
	put(10, 0);
	seal();
	assert_int_equal(decode(), -EUCLEAN);
	make(state);
	put(10, UINT32_MAX);
	seal();
	assert_int_equal(decode(), -EUCLEAN);
}

int main(void)
{
	static bool order[] = {false, true};
#define BOTH(f)                                                                                    \
	{#f " (little-endian)", f, NULL, NULL, &order[0]},                                         \
	{                                                                                          \
#f " (big-endian)", f, NULL, NULL, &order[1]                                       \
	}
	const struct CMUnitTest tests[] = {
		BOTH(fields),
		BOTH(levels_without_a_component_have_no_size),
		BOTH(resync_checkpoint),
		BOTH(roles_from_disk_states),
		BOTH(slots_that_cannot_be_are_no_roles),
		BOTH(flags_of_the_own_disk),
		BOTH(own_number_beyond_the_table),
		BOTH(bitmap),
		BOTH(minor_91_is_a_reshape),
		BOTH(not_this_version),
		BOTH(damage),
		BOTH(impossible_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
