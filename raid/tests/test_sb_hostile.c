/* SPDX-License-Identifier: BSD-3-Clause */
/* What sb_decode() must turn down: damage, and values that pass the checksum and cannot be. */
#include "raid/tests/sb_vector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

static void not_a_superblock(void **state)
{
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX] = {0};
	char why[RAID_WHY_BYTES];

	assert_int_equal(sbv_decode(buf, why), -ENOENT);
	sbv_encode(&sb, buf);
	put_le32(buf, 0xA92B4EFD);
	sbv_seal(buf);
	assert_int_equal(sbv_decode(buf, why), -ENOENT);
	sbv_encode(&sb, buf);
	put_le32(buf + 4, 2);
	sbv_seal(buf);
	assert_int_equal(sbv_decode(buf, why), -ENOENT);
}

/* A superblock seen through the wrong partition, or at another version's place. */
static void super_offset_must_be_where_it_was_read(void **state)
{
	struct sb sb = sbv_vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sbv_encode(&sb, buf);
	assert_int_equal(
		sb_decode(buf, (struct sb_location){SB_V1_1, 0}, SBV_DEV_SECTORS, &out, why),
		-ENOENT);
	assert_int_equal(
		sb_decode(buf, (struct sb_location){SB_V1_0, 131056}, SBV_DEV_SECTORS, &out, why),
		-ENOENT);
	sb.super_offset = 9;
	sbv_encode(&sb, buf);
	assert_int_equal(sbv_decode(buf, why), -ENOENT);
}

/* Any flipped bit that the checksum covers is noticed. */
static void every_flipped_bit_is_damage(void **state)
{
	struct sb sb = sbv_vector(1);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t bit;

	sbv_encode(&sb, buf);
	for (bit = 8 * 8; bit < 512 * 8; bit++) {
		int err;

		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		err = sbv_decode(buf, why);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (bit / 64 == 144 / 8) {
			assert_int_equal(err, -ENOENT);
		} else {
			assert_int_equal(err, -EBADMSG);
			assert_non_null(strstr(why, "damaged"));
		}
	}
}

static void refuses_a_table_longer_than_the_superblock(void **state)
{
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];

	sbv_encode(&sb, buf);
	put_le32(buf + 220, SB_ROLES_MAX + 1);
	sbv_refused(buf, -EBADMSG, "1921");
	put_le32(buf + 220, UINT32_MAX);
	sbv_refused(buf, -EBADMSG, "roles");
}

static void refuses_reserved_bytes(void **state)
{
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];

	sbv_encode(&sb, buf);
	put_le32(buf + 12, 1);
	sbv_seal(buf);
	sbv_refused(buf, -EUCLEAN, "not zero");
	sbv_encode(&sb, buf);
	buf[255] = 1;
	sbv_seal(buf);
	sbv_refused(buf, -EUCLEAN, "not zero");
}

/* §19.9. */
static void logical_block_size(void **state)
{
	static const uint32_t good[] = {0, 512, 1024, 4096}, bad[] = {1, 256, 513, 8192, 1u << 31};
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < 4; i++) {
		struct sb out;

		sb.logical_block_size = good[i];
		sbv_encode(&sb, buf);
		assert_int_equal(sb_decode(buf, sbv_at, SBV_DEV_SECTORS, &out, why), 0);
		assert_int_equal(out.logical_block_size, good[i]);
	}
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		sb.logical_block_size = bad[i];
		sbv_encode(&sb, buf);
		sbv_refused(buf, -EUCLEAN, "block size");
	}
}

static void hands_on_unknown_features(void **state)
{
	struct sb sb = sbv_vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sb.feature_map = 0x80000000;
	sbv_encode(&sb, buf);
	assert_int_equal(sb_decode(buf, sbv_at, SBV_DEV_SECTORS, &out, why), 0);
	assert_int_equal(out.feature_map, 0x80000000);
}

static void refuses_features_that_exclude_each_other(void **state)
{
	static const uint32_t bad[] = {0x400 | 0x800, 0x400 | 0x1, 0x800 | 0x1,
				       0x400 | 0x200, 0x200 | 0x1, 0x1000};
	uint8_t buf[SB_BYTES_MAX];
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct sb sb = sbv_vector(0);

		sb.feature_map = bad[i];
		sb.ppl_offset = 8;
		sb.ppl_size = 8;
		sbv_encode(&sb, buf);
		sbv_refused(buf, -EUCLEAN, "superblock");
	}
}

/* A value that the decoder must refuse, and a word that its explanation must have. */
struct hostile {
	const char *name;
	uint32_t off, width;
	uint64_t value;
	const char *word;
};

static const struct hostile hostile[] = {
	{"data at 0", 128, 8, 0, "begins inside"},
	{"data over the superblock", 128, 8, 8, "begins inside"},
	{"data past the device", 128, 8, 131073, "too small"},
	{"data past everything", 128, 8, UINT64_MAX, "too small"},
	{"data_offset + data_size wraps", 136, 8, UINT64_MAX - 2000, "too small"},
	{"one sector too many", 136, 8, 129025, "too small"},
	{"no data", 136, 8, 0, "room for data"},
	{"nine sectors", 136, 8, 9, "room for data"},
	{"size in bytes would not fit", 80, 8, 1ULL << 54, "component size"},
	{"size all ones", 80, 8, UINT64_MAX, "component size"},
	{"no slots", 92, 4, 0, "slots"},
	{"too many slots", 92, 4, 1921, "slots"},
	{"slots all ones", 92, 4, UINT32_MAX, "slots"},
	{"bitmap before the device", 96, 4, (uint32_t)-9, "bitmap"},
	{"bitmap on the superblock", 96, 4, 0, "bitmap"},
	{"bitmap at the superblock's end", 96, 4, 7, "the superblock"},
	{"bitmap on the log", 96, 4, 16, "the bad-block log"},
	{"bitmap at the log's end", 96, 4, 23, "the bad-block log"},
	{"bitmap on the data", 96, 4, 2040, "the data"},
	{"bitmap far away", 96, 4, INT32_MAX, "bitmap"},
	{"bitmap far before", 96, 4, (uint32_t)INT32_MIN, "bitmap"},
};

static void refuses_hostile_values(void **state)
{
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];
	uint32_t i;

	for (i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
		const struct hostile *h = &hostile[i];

		sbv_encode(&sb, buf);
		if (h->width == 8) {
			put_le64(buf + h->off, h->value);
		} else {
			put_le32(buf + h->off, (uint32_t)h->value);
		}
		sbv_seal(buf);
		print_message("%s\n", h->name);
		sbv_refused(buf, -EUCLEAN, h->word);
	}
}

static void refuses_a_bad_block_log_off_the_device(void **state)
{
	static const struct {
		uint16_t size;
		int32_t offset;
	} bad[] = {{0, 16},	   {9, 16}, {8, 0},  {8, -9},	{8, 131072 - 8 - 7},
		   {8, INT32_MAX}, {8, 7},  {8, -7}, {8, 2033}, {8, 131072 - 16}};
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		sb.bblog_size = bad[i].size;
		sb.bblog_offset = bad[i].offset;
		sb.feature_map = 0;
		sbv_encode(&sb, buf);
		assert_int_equal(sbv_decode(buf, why), 0); /* without the feature: not looked at */
		sb.feature_map = SB_FEATURE_BAD_BLOCKS;
		sbv_encode(&sb, buf);
		sbv_refused(buf, -EUCLEAN, "bad-block log");
	}
}

static void refuses_a_partial_parity_log_off_the_device(void **state)
{
	static const struct {
		int16_t offset;
		uint16_t size;
	} bad[] = {{0, 8}, {-9, 8}, {INT16_MIN, 8}, {8, 60000}};
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];
	uint32_t i;

	sb.feature_map = SB_FEATURE_PPL;
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct sb out;
		char why[RAID_WHY_BYTES];

		sb.ppl_offset = bad[i].offset;
		sb.ppl_size = bad[i].size;
		sb.data_size = 16;
		sbv_encode(&sb, buf);
		assert_int_equal(sb_decode(buf, sbv_at, 50000, &out, why), -EUCLEAN);
		assert_non_null(strstr(why, "partial parity log"));
	}
}

static void refuses_an_impossible_reshape(void **state)
{
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sb.feature_map = SB_FEATURE_RESHAPE | SB_FEATURE_NEW_OFFSET;
	sb.delta_disks = 4;
	sbv_encode(&sb, buf);
	sbv_refused(buf, -EUCLEAN, "before the reshape");
	sb.delta_disks = INT32_MIN;
	sbv_encode(&sb, buf);
	sbv_refused(buf, -EUCLEAN, "before the reshape");
	sb.delta_disks = 1;
	sb.new_offset = -2040;
	sbv_encode(&sb, buf);
	sbv_refused(buf, -EUCLEAN, "moves the data");
	sb.new_offset = -2039;
	sbv_encode(&sb, buf);
	assert_int_equal(sbv_decode(buf, why), 0);
}

/* 1.0: data ends at the superblock. */
static void data_of_1_0_ends_at_the_superblock(void **state)
{
	struct sb_location at = {SB_V1_0, 131056};
	struct sb sb = sbv_vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sb.version = SB_V1_0;
	sb.super_offset = 131056;
	sb.feature_map = 0;
	sb.data_offset = 0;
	sb.data_size = 131056;
	sbv_encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at, SBV_DEV_SECTORS, &out, why), 0);
	assert_int_equal(out.version, SB_V1_0);
	sb.data_size = 131057;
	sbv_encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at, SBV_DEV_SECTORS, &out, why), -EUCLEAN);
	sb.data_offset = 8;
	sb.data_size = 131056;
	sbv_encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at, SBV_DEV_SECTORS, &out, why), -EUCLEAN);
}

/* A file member that shrank says both sizes. */
static void shrunk_device_is_named(void **state)
{
	struct sb sb = sbv_vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sbv_encode(&sb, buf);
	assert_int_equal(sb_decode(buf, sbv_at, 100000, &out, why), -EUCLEAN);
	assert_non_null(strstr(why, "100000"));
	assert_non_null(strstr(why, "129024"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_a_superblock),
		cmocka_unit_test(super_offset_must_be_where_it_was_read),
		cmocka_unit_test(every_flipped_bit_is_damage),
		cmocka_unit_test(refuses_a_table_longer_than_the_superblock),
		cmocka_unit_test(refuses_reserved_bytes),
		cmocka_unit_test(logical_block_size),
		cmocka_unit_test(hands_on_unknown_features),
		cmocka_unit_test(refuses_features_that_exclude_each_other),
		cmocka_unit_test(refuses_hostile_values),
		cmocka_unit_test(refuses_a_bad_block_log_off_the_device),
		cmocka_unit_test(refuses_a_partial_parity_log_off_the_device),
		cmocka_unit_test(refuses_an_impossible_reshape),
		cmocka_unit_test(data_of_1_0_ends_at_the_superblock),
		cmocka_unit_test(shrunk_device_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
