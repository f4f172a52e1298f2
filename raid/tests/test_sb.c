/* SPDX-License-Identifier: BSD-3-Clause */
/* The v1.x superblock against the vectors of md-format §17, and its own inverse. */
#include "raid/tests/sb_vector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

static void vector_checksums(void **state)
{
	static const uint32_t csum[] = {0xcf6eecbb, 0xd372f0c0, 0xd776f4c5, 0xdb7af8cc};
	uint8_t buf[SB_BYTES_MAX];
	uint32_t k;

	for (k = 0; k < 4; k++) {
		struct sb sb = sbv_vector(k);

		assert_int_equal(sb_encode(&sb, 512, buf), 512);
		assert_int_equal(get_le32(buf + 216), csum[k]);
		assert_int_equal(sb_checksum(buf, 128), csum[k]);
	}
}

static void vector_bytes(void **state)
{
	struct sb sb = sbv_vector(3);
	uint8_t buf[SB_BYTES_MAX];

	sbv_encode(&sb, buf);
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
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX];
	uint32_t before;

	sb.max_dev = 5;
	sbv_encode(&sb, buf);
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

	sbv_encode(a, x);
	sbv_encode(b, y);
	assert_memory_equal(x, y, SB_BYTES_MAX);
}

/* Every field gets a value of its own that differs from zero in every byte. */
static struct sb odd_values(void)
{
	struct sb sb = sbv_vector(2);
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
	sb.bitmap_offset = -1; /* the one sector that the log leaves free */
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
	assert_int_equal(sb_decode(buf, sbv_at, SBV_DEV_SECTORS, &out, why), 0);
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
	assert_int_equal(out.bitmap_offset, -1);
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
	struct sb in = sbv_vector(0), out;
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
		sbv_encode(&in, buf);
		assert_int_equal(get_le32(buf + 96), 2048 << 16 | 0xf7f8);
		assert_int_equal(sb_decode(buf, (struct sb_location){SB_V1_0, 131056},
					   SBV_DEV_SECTORS, &out, why),
				 0);
		assert_int_equal(out.ppl_offset, -2056);
		assert_int_equal(out.ppl_size, 2048);
		assert_int_equal(out.bitmap_offset, 0);
	}
}

static void length_is_padded_to_the_logical_block(void **state)
{
	struct sb sb = sbv_vector(0);
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
	struct sb in = sbv_vector(0), out;
	uint8_t buf[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];

	in.max_dev = SB_ROLES_MAX;
	in.dev_number = SB_ROLES_MAX - 1;
	in.dev_roles[SB_ROLES_MAX - 1] = 3;
	sbv_encode(&in, buf);
	assert_int_equal(sb_decode(buf, sbv_at, SBV_DEV_SECTORS, &out, why), 0);
	assert_int_equal(sb_own_role(&out), 3);
}

/* §19.1: dev_number is an index into the table, not the slot. */
static void own_role(void **state)
{
	struct sb sb = sbv_vector(0);

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

static void grown_location(void **state)
{
	struct sb other = sbv_vector(0);
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
	struct sb sb = sbv_vector(0);
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

/* What a member under way says of itself: every feature that is maintained, through bytes. */
static void members_under_way(void **state)
{
	static const struct {
		uint32_t features;
		uint64_t recovery_offset, recovered;
	} marks[] = {
		{0, 5000, 129024}, /* without the feature the field is old */
		{SB_FEATURE_RECOVERY_OFFSET, 0, 0},
		{SB_FEATURE_RECOVERY_OFFSET, 5000, 5000},
		{SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_RECOVERY_BITMAP, 5000, 5000},
		{SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT, 5000, 5000},
		{SB_FEATURE_REPLACEMENT, 0, 129024}, /* copied, waits for its turn */
		{SB_FEATURE_RECOVERY_OFFSET, 129024, 129024},
		{SB_FEATURE_RECOVERY_OFFSET, 129025, 0},
		{SB_FEATURE_RECOVERY_OFFSET, UINT64_MAX, 0},
	};

	for (uint32_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		struct sb in = sbv_vector(3), out;
		uint8_t buf[SB_BYTES_MAX];
		char why[RAID_WHY_BYTES];

		in.feature_map |= marks[i].features | SB_FEATURE_BAD_BLOCKS;
		in.recovery_offset = marks[i].recovery_offset;
		in.devflags = SB_DEV_WRITE_MOSTLY | SB_DEV_FAIL_FAST;
		in.cnt_corrected_read = UINT32_MAX;
		sb_encode(&in, 4096, buf);
		assert_int_equal(sb_decode(buf, sbv_at, SBV_DEV_SECTORS, &out, why), 0);
		assert_int_equal(out.feature_map, in.feature_map);
		assert_int_equal(out.recovery_offset, in.recovery_offset);
		assert_int_equal(out.devflags, in.devflags);
		assert_int_equal(out.cnt_corrected_read, UINT32_MAX);
		assert_int_equal(sb_recovered_sectors(&out), marks[i].recovered);
	}
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
		cmocka_unit_test(members_under_way),
		cmocka_unit_test(ppl_fields_share_the_bitmap_s_place),
		cmocka_unit_test(length_is_padded_to_the_logical_block),
		cmocka_unit_test(full_role_table),
		cmocka_unit_test(own_role),
		cmocka_unit_test(grown_location),
		cmocka_unit_test(uuid_text_and_back),
		cmocka_unit_test(feature_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
