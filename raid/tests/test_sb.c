/* SPDX-License-Identifier: BSD-3-Clause */
/* The superblock format against the vectors of md-format §17, its own inverse, and hostile values.
 */
#include "raid/sb.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

enum { DEV_SECTORS = 131072 };

static const struct sb_location at_1_2 = {SB_V1_2, 8};

static struct sb vector(uint32_t k)
{
	struct sb sb = {
		.version = SB_V1_2,
		.feature_map = SB_FEATURE_BITMAP,
		.set_name = "host:t5",
		.ctime_s = 1700000000,
		.level = RAID_LEVEL_5,
		.layout = 2,
		.size = 129024,
		.chunksize = 128,
		.raid_disks = 4,
		.bitmap_offset = 8,
		.data_offset = 2048,
		.data_size = 129024,
		.super_offset = 8,
		.dev_number = k,
		.devflags = k == 3 ? SB_DEV_FAIL_FAST : 0,
		.bblog_size = 8,
		.bblog_offset = 16,
		.utime_s = 1700000001,
		.events = 17,
		.resync_offset = SB_IN_SYNC,
		.max_dev = 128,
	};
	uint32_t i;

	for (i = 0; i < 16; i++) {
		sb.set_uuid[i] = (uint8_t)(0x10 + i);
		sb.device_uuid[i] = (uint8_t)(0xA0 + k);
	}
	for (i = 0; i < SB_ROLES_MAX; i++) {
		sb.dev_roles[i] = i < 4 ? (uint16_t)i : SB_ROLE_SPARE;
	}
	return sb;
}

/* Encode, change bytes as the caller likes, fix the checksum, decode. */
static void encode(const struct sb *sb, uint8_t buf[SB_BYTES_MAX])
{
	sb_encode(sb, 512, buf);
}

static void seal(uint8_t buf[SB_BYTES_MAX])
{
	uint32_t max_dev = get_le32(buf + 220);

	put_le32(buf + 216, sb_checksum(buf, max_dev <= SB_ROLES_MAX ? max_dev : 0));
}

static int decode(const uint8_t *buf, char why[RAID_WHY_BYTES])
{
	struct sb out;

	return sb_decode(buf, at_1_2, DEV_SECTORS, &out, why);
}

static void assert_refused(const uint8_t *buf, int err, const char *word)
{
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(buf, why), err);
	assert_non_null(strstr(why, word));
	assert_null(strchr(why, '\n'));
}

static void vector_checksums(void **state)
{
	static const uint32_t csum[] = {0xcf6eecbb, 0xd372f0c0, 0xd776f4c5, 0xdb7af8cc};
	uint8_t buf[SB_BYTES_MAX];
	uint32_t k;

	for (k = 0; k < 4; k++) {
		struct sb sb = vector(k);

		assert_int_equal(sb_encode(&sb, 512, buf), 512);
		assert_int_equal(get_le32(buf + 216), csum[k]);
		assert_int_equal(sb_checksum(buf, 128), csum[k]);
	}
}

static void vector_bytes(void **state)
{
	struct sb sb = vector(3);
	uint8_t buf[SB_BYTES_MAX];

	encode(&sb, buf);
	assert_int_equal(get_le32(buf), 0xA92B4EFC);
	assert_int_equal(get_le32(buf + 4), 1);
	assert_int_equal(buf[16], 0x10);
	assert_string_equal((char *)buf + 32, "host:t5");
	assert_int_equal(get_le64(buf + 64), 1700000000);
	assert_int_equal(get_le64(buf + 144), 8);
	assert_int_equal(get_le32(buf + 160), 3);
	assert_int_equal(buf[184], 2);
	assert_int_equal(get_le16(buf + 256 + 6), 3);
	assert_int_equal(get_le16(buf + 256 + 8), 0xFFFF);
}

/* Checksums of role tables that leave two bytes over. */
static void checksum_odd_table(void **state)
{
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];
	uint32_t before;

	sb.max_dev = 5;
	encode(&sb, buf);
	before = sb_checksum(buf, 5);
	put_le16(buf + 256 + 8, 0xFFFE);
	assert_int_equal(sb_checksum(buf, 5), before - 1);
	put_le16(buf + 256 + 10, 7); /* behind the table: not covered */
	assert_int_equal(sb_checksum(buf, 5), before - 1);
}

/* md-format §17.6. */
static void locations(void **state)
{
	struct sb_location loc[SB_LOCATIONS_MAX];

	assert_int_equal(sb_locations(131072, loc), 4);
	assert_int_equal(loc[0].version, SB_V1_2);
	assert_int_equal(loc[0].sector, 8);
	assert_int_equal(loc[1].version, SB_V1_1);
	assert_int_equal(loc[1].sector, 0);
	assert_int_equal(loc[2].version, SB_V1_0);
	assert_int_equal(loc[2].sector, 131056);
	assert_int_equal(loc[3].version, SB_V0_90);
	assert_int_equal(loc[3].sector, 130944);
	assert_int_equal(sb_locations(1953525168, loc), 4);
	assert_int_equal(loc[2].sector, 1953525152);
	assert_int_equal(loc[3].sector, 1953524992);
	assert_int_equal(sb_locations(131079, loc), 4);
	assert_int_equal(loc[2].sector, 131056);
}

static void locations_of_tiny_devices(void **state)
{
	struct sb_location loc[SB_LOCATIONS_MAX];
	uint64_t dev;
	uint32_t n, i;

	assert_int_equal(sb_locations(0, loc), 0);
	assert_int_equal(sb_locations(23, loc), 0);
	for (dev = 24; dev < 600; dev++) {
		n = sb_locations(dev, loc);
		assert_int_equal(n, dev < 128 ? 3 : 4);
		for (i = 0; i < n; i++) {
			assert_true(loc[i].sector + SB_BYTES_MAX / 512 <= dev);
		}
	}
}

static void assert_same(const struct sb *a, const struct sb *b)
{
	uint8_t x[SB_BYTES_MAX], y[SB_BYTES_MAX];

	encode(a, x);
	encode(b, y);
	assert_memory_equal(x, y, SB_BYTES_MAX);
}

/* Every field gets a value of its own that differs from zero in every byte. */
static struct sb odd_values(void)
{
	struct sb sb = vector(2);
	uint32_t i;

	sb.feature_map |= SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_RESHAPE | SB_FEATURE_NEW_OFFSET |
			  SB_FEATURE_BAD_BLOCKS | SB_FEATURE_REPLACEMENT | SB_FEATURE_CLUSTERED;
	memcpy(sb.set_name, "0123456789abcdef0123456789abcdeX", 32);
	sb.ctime_s = 0xA1B2C3D4E5;
	sb.ctime_us = 0x112233;
	sb.level = RAID_LEVEL_LINEAR;
	sb.layout = 0x01020304;
	sb.size = 0x0011223344556677;
	sb.chunksize = 0x05060708;
	sb.raid_disks = 0x0123;
	sb.bitmap_offset = -7;
	sb.new_level = 0x11121314;
	sb.reshape_position = 0x2122232425262728;
	sb.delta_disks = -3;
	sb.new_layout = 0x31323334;
	sb.new_chunk = 0x41424344;
	sb.new_offset = -8;
	sb.data_offset = 0x2345;
	sb.data_size = 0x1A8BC;
	sb.recovery_offset = 0x5152535455565758;
	sb.cnt_corrected_read = 0x61626364;
	sb.devflags = SB_DEV_WRITE_MOSTLY | SB_DEV_FAIL_FAST;
	sb.bblog_shift = 3;
	sb.bblog_size = 7;
	sb.bblog_offset = -8;
	sb.utime_s = 0x7172737475;
	sb.utime_us = 0x817263;
	sb.events = 0x9192939495969798;
	sb.resync_offset = 0xA1A2A3A4A5A6A7A8;
	sb.max_dev = 131;
	sb.logical_block_size = 2048;
	for (i = 0; i < 131; i++) {
		sb.dev_roles[i] = (uint16_t)(0x8001 + i);
	}
	return sb;
}

static void every_field_round_trips(void **state)
{
	struct sb in = odd_values(), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	assert_int_equal(sb_encode(&in, 512, buf), 1024);
	assert_int_equal(sb_decode(buf, at_1_2, DEV_SECTORS, &out, why), 0);
	assert_string_equal(why, "");
	assert_int_equal(out.version, SB_V1_2);
	assert_int_equal(out.feature_map, in.feature_map);
	assert_memory_equal(out.set_uuid, in.set_uuid, 16);
	assert_string_equal(out.set_name, "0123456789abcdef0123456789abcdeX");
	assert_int_equal(out.ctime_s, in.ctime_s);
	assert_int_equal(out.ctime_us, in.ctime_us);
	assert_int_equal(out.level, -1);
	assert_int_equal(out.layout, in.layout);
	assert_int_equal(out.size, in.size);
	assert_int_equal(out.chunksize, in.chunksize);
	assert_int_equal(out.raid_disks, in.raid_disks);
	assert_int_equal(out.bitmap_offset, -7);
	assert_int_equal(out.new_level, in.new_level);
	assert_int_equal(out.reshape_position, in.reshape_position);
	assert_int_equal(out.delta_disks, -3);
	assert_int_equal(out.new_layout, in.new_layout);
	assert_int_equal(out.new_chunk, in.new_chunk);
	assert_int_equal(out.new_offset, -8);
	assert_int_equal(out.data_offset, in.data_offset);
	assert_int_equal(out.data_size, in.data_size);
	assert_int_equal(out.super_offset, 8);
	assert_int_equal(out.recovery_offset, in.recovery_offset);
	assert_int_equal(out.dev_number, 2);
	assert_int_equal(out.cnt_corrected_read, in.cnt_corrected_read);
	assert_memory_equal(out.device_uuid, in.device_uuid, 16);
	assert_int_equal(out.devflags, 3);
	assert_int_equal(out.bblog_shift, 3);
	assert_int_equal(out.bblog_size, 7);
	assert_int_equal(out.bblog_offset, -8);
	assert_int_equal(out.utime_s, in.utime_s);
	assert_int_equal(out.utime_us, in.utime_us);
	assert_int_equal(out.events, in.events);
	assert_int_equal(out.resync_offset, in.resync_offset);
	assert_int_equal(out.sb_csum, get_le32(buf + 216));
	assert_int_equal(out.max_dev, 131);
	assert_int_equal(out.logical_block_size, 2048);
	assert_int_equal(out.dev_roles[130], 0x8001 + 130);
	assert_int_equal(out.dev_roles[131], SB_ROLE_SPARE);
	assert_same(&in, &out);
}

/* The two bytes at 96 mean something else with a partial parity log: signed 16 bits (§19.4). */
static void ppl_fields_share_the_bitmap_s_place(void **state)
{
	static const uint32_t bits[] = {SB_FEATURE_PPL, SB_FEATURE_MULTIPLE_PPLS};
	struct sb in = vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < 2; i++) {
		in.version = SB_V1_0;
		in.super_offset = 131056;
		in.feature_map = bits[i];
		in.ppl_offset = -2056;
		in.ppl_size = 2048;
		in.data_offset = 0;
		encode(&in, buf);
		assert_int_equal(get_le32(buf + 96), 2048 << 16 | 0xf7f8);
		assert_int_equal(sb_decode(buf, (struct sb_location){SB_V1_0, 131056}, DEV_SECTORS,
					   &out, why),
				 0);
		assert_int_equal(out.ppl_offset, -2056);
		assert_int_equal(out.ppl_size, 2048);
		assert_int_equal(out.bitmap_offset, 0);
	}
}

static void length_is_padded_to_the_logical_block(void **state)
{
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];

	assert_int_equal(sb_encode(&sb, 512, buf), 512);
	assert_int_equal(sb_encode(&sb, 1024, buf), 1024);
	assert_int_equal(sb_encode(&sb, 4096, buf), 4096);
	assert_int_equal(buf[4095], 0);
	sb.max_dev = 129;
	assert_int_equal(sb_encode(&sb, 512, buf), 1024);
	sb.max_dev = SB_ROLES_MAX;
	assert_int_equal(sb_encode(&sb, 512, buf), 4096);
}

static void full_role_table(void **state)
{
	struct sb in = vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	in.max_dev = SB_ROLES_MAX;
	in.dev_number = SB_ROLES_MAX - 1;
	in.dev_roles[SB_ROLES_MAX - 1] = 3;
	encode(&in, buf);
	assert_int_equal(sb_decode(buf, at_1_2, DEV_SECTORS, &out, why), 0);
	assert_int_equal(sb_own_role(&out), 3);
}

/* §19.1: dev_number is an index into the table, not the slot. */
static void own_role(void **state)
{
	struct sb sb = vector(0);

	sb.dev_number = 4;
	sb.dev_roles[3] = SB_ROLE_SPARE;
	sb.dev_roles[4] = 3;
	assert_int_equal(sb_own_role(&sb), 3);
	sb.dev_number = 3;
	assert_int_equal(sb_own_role(&sb), SB_ROLE_SPARE);
	sb.dev_number = 128;
	assert_int_equal(sb_own_role(&sb), SB_ROLE_SPARE);
	sb.dev_number = UINT32_MAX;
	assert_int_equal(sb_own_role(&sb), SB_ROLE_SPARE);
}

static void not_a_superblock(void **state)
{
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX] = {0};
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(buf, why), -ENOENT);
	encode(&sb, buf);
	put_le32(buf, 0xA92B4EFD);
	seal(buf);
	assert_int_equal(decode(buf, why), -ENOENT);
	encode(&sb, buf);
	put_le32(buf + 4, 2);
	seal(buf);
	assert_int_equal(decode(buf, why), -ENOENT);
}

/* A superblock seen through the wrong partition, or at another version's place. */
static void super_offset_must_be_where_it_was_read(void **state)
{
	struct sb sb = vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	encode(&sb, buf);
	assert_int_equal(sb_decode(buf, (struct sb_location){SB_V1_1, 0}, DEV_SECTORS, &out, why),
			 -ENOENT);
	assert_int_equal(
		sb_decode(buf, (struct sb_location){SB_V1_0, 131056}, DEV_SECTORS, &out, why),
		-ENOENT);
	sb.super_offset = 9;
	encode(&sb, buf);
	assert_int_equal(decode(buf, why), -ENOENT);
}

/* Any flipped bit that the checksum covers is noticed. */
static void every_flipped_bit_is_damage(void **state)
{
	struct sb sb = vector(1);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t bit;

	encode(&sb, buf);
	for (bit = 8 * 8; bit < 512 * 8; bit++) {
		int err;

		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		err = decode(buf, why);
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
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];

	encode(&sb, buf);
	put_le32(buf + 220, SB_ROLES_MAX + 1);
	assert_refused(buf, -EBADMSG, "1921");
	put_le32(buf + 220, UINT32_MAX);
	assert_refused(buf, -EBADMSG, "roles");
}

static void refuses_reserved_bytes(void **state)
{
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];

	encode(&sb, buf);
	put_le32(buf + 12, 1);
	seal(buf);
	assert_refused(buf, -EUCLEAN, "not zero");
	encode(&sb, buf);
	buf[255] = 1;
	seal(buf);
	assert_refused(buf, -EUCLEAN, "not zero");
}

/* §19.9. */
static void logical_block_size(void **state)
{
	static const uint32_t good[] = {0, 512, 1024, 4096}, bad[] = {1, 256, 513, 8192, 1u << 31};
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < 4; i++) {
		struct sb out;

		sb.logical_block_size = good[i];
		encode(&sb, buf);
		assert_int_equal(sb_decode(buf, at_1_2, DEV_SECTORS, &out, why), 0);
		assert_int_equal(out.logical_block_size, good[i]);
	}
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		sb.logical_block_size = bad[i];
		encode(&sb, buf);
		assert_refused(buf, -EUCLEAN, "block size");
	}
}

static void hands_on_unknown_features(void **state)
{
	struct sb sb = vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sb.feature_map = 0x80000000;
	encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at_1_2, DEV_SECTORS, &out, why), 0);
	assert_int_equal(out.feature_map, 0x80000000);
}

static void refuses_features_that_exclude_each_other(void **state)
{
	static const uint32_t bad[] = {0x400 | 0x800, 0x400 | 0x1, 0x800 | 0x1,
				       0x400 | 0x200, 0x200 | 0x1, 0x1000};
	uint8_t buf[SB_BYTES_MAX];
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct sb sb = vector(0);

		sb.feature_map = bad[i];
		sb.ppl_offset = 8;
		sb.ppl_size = 8;
		encode(&sb, buf);
		assert_refused(buf, -EUCLEAN, "superblock");
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
	{"bitmap far away", 96, 4, INT32_MAX, "bitmap"},
	{"bitmap far before", 96, 4, (uint32_t)INT32_MIN, "bitmap"},
};

static void refuses_hostile_values(void **state)
{
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];
	uint32_t i;

	for (i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
		const struct hostile *h = &hostile[i];

		encode(&sb, buf);
		if (h->width == 8) {
			put_le64(buf + h->off, h->value);
		} else {
			put_le32(buf + h->off, (uint32_t)h->value);
		}
		seal(buf);
		print_message("%s\n", h->name);
		assert_refused(buf, -EUCLEAN, h->word);
	}
}

static void refuses_a_bad_block_log_off_the_device(void **state)
{
	static const struct {
		uint16_t size;
		int32_t offset;
	} bad[] = {{0, 16}, {9, 16}, {8, 0}, {8, -9}, {8, 131072 - 8 - 7}, {8, INT32_MAX}};
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		sb.bblog_size = bad[i].size;
		sb.bblog_offset = bad[i].offset;
		sb.feature_map = 0;
		encode(&sb, buf);
		assert_int_equal(decode(buf, why), 0); /* without the feature: not looked at */
		sb.feature_map = SB_FEATURE_BAD_BLOCKS;
		encode(&sb, buf);
		assert_refused(buf, -EUCLEAN, "bad-block log");
	}
}

static void refuses_an_impossible_reshape(void **state)
{
	struct sb sb = vector(0);
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sb.feature_map = SB_FEATURE_RESHAPE | SB_FEATURE_NEW_OFFSET;
	sb.delta_disks = 4;
	encode(&sb, buf);
	assert_refused(buf, -EUCLEAN, "before the reshape");
	sb.delta_disks = INT32_MIN;
	encode(&sb, buf);
	assert_refused(buf, -EUCLEAN, "before the reshape");
	sb.delta_disks = 1;
	sb.new_offset = -2040;
	encode(&sb, buf);
	assert_refused(buf, -EUCLEAN, "moves the data");
	sb.new_offset = -2039;
	encode(&sb, buf);
	assert_int_equal(decode(buf, why), 0);
}

/* 1.0: data ends at the superblock. */
static void data_of_1_0_ends_at_the_superblock(void **state)
{
	struct sb_location at = {SB_V1_0, 131056};
	struct sb sb = vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	sb.version = SB_V1_0;
	sb.super_offset = 131056;
	sb.bitmap_offset = -16;
	sb.data_offset = 0;
	sb.data_size = 131056;
	encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at, DEV_SECTORS, &out, why), 0);
	assert_int_equal(out.version, SB_V1_0);
	sb.data_size = 131057;
	encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at, DEV_SECTORS, &out, why), -EUCLEAN);
	sb.data_offset = 8;
	sb.data_size = 131056;
	encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at, DEV_SECTORS, &out, why), -EUCLEAN);
}

/* A file member that shrank says both sizes. */
static void shrunk_device_is_named(void **state)
{
	struct sb sb = vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	encode(&sb, buf);
	assert_int_equal(sb_decode(buf, at_1_2, 100000, &out, why), -EUCLEAN);
	assert_non_null(strstr(why, "100000"));
	assert_non_null(strstr(why, "129024"));
}

static void grown_location(void **state)
{
	struct sb other = vector(0);
	struct sb_location loc;

	assert_false(sb_grown_location(&other, 200000, &loc));
	other.version = SB_V1_0;
	other.super_offset = 131056;
	assert_true(sb_grown_location(&other, 200000, &loc));
	assert_int_equal(loc.version, SB_V1_0);
	assert_int_equal(loc.sector, 131056);
	assert_false(sb_grown_location(&other, 131072, &loc)); /* its usual place */
	assert_false(sb_grown_location(&other, 131000, &loc)); /* shorter, not longer */
	assert_false(sb_grown_location(&other, 0, &loc));
}

static void uuid_text_and_back(void **state)
{
	static const char text[] = "10111213:14151617:18191a1b:1c1d1e1f";
	struct sb sb = vector(0);
	uint8_t uuid[16];
	char buf[37];

	assert_string_equal(sb_uuid_text(sb.set_uuid, buf), text);
	assert_int_equal(sb_uuid_parse(text, uuid), 0);
	assert_memory_equal(uuid, sb.set_uuid, 16);
	memset(uuid, 0, 16);
	assert_int_equal(sb_uuid_parse("10111213-1415-1617-1819-1A1B1c1d1e1F", uuid), 0);
	assert_memory_equal(uuid, sb.set_uuid, 16);
	assert_int_equal(sb_uuid_parse("", uuid), -EINVAL);
	assert_int_equal(sb_uuid_parse("10111213:14151617:18191a1b:1c1d1e1", uuid), -EINVAL);
	assert_int_equal(sb_uuid_parse("10111213:14151617:18191a1b:1c1d1e1f0", uuid), -EINVAL);
	assert_int_equal(sb_uuid_parse("10111213:14151617:18191a1b:1c1d1e1g", uuid), -EINVAL);
	assert_int_equal(sb_uuid_parse("10111213:14151617-18191a1b:1c1d1e1f", uuid), -EINVAL);
}

static void feature_names(void **state)
{
	assert_string_equal(sb_feature_name(0x1), "bitmap");
	assert_string_equal(sb_feature_name(0x4), "reshape");
	assert_string_equal(sb_feature_name(0x8), "bad-blocks");
	assert_string_equal(sb_feature_name(0x1000), "raid0-layout");
	assert_string_equal(sb_feature_name(0x14), "reshape");
	assert_string_equal(sb_feature_name(0x2000), "unknown");
	assert_string_equal(sb_feature_name(0), "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_checksums),
		cmocka_unit_test(vector_bytes),
		cmocka_unit_test(checksum_odd_table),
		cmocka_unit_test(locations),
		cmocka_unit_test(locations_of_tiny_devices),
		cmocka_unit_test(every_field_round_trips),
		cmocka_unit_test(ppl_fields_share_the_bitmap_s_place),
		cmocka_unit_test(length_is_padded_to_the_logical_block),
		cmocka_unit_test(full_role_table),
		cmocka_unit_test(own_role),
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
		cmocka_unit_test(refuses_an_impossible_reshape),
		cmocka_unit_test(data_of_1_0_ends_at_the_superblock),
		cmocka_unit_test(shrunk_device_is_named),
		cmocka_unit_test(grown_location),
		cmocka_unit_test(uuid_text_and_back),
		cmocka_unit_test(feature_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
