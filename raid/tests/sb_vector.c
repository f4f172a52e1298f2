/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/tests/sb_vector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

const struct sb_location sbv_at = {SB_V1_2, 8};

struct sb sbv_vector(uint32_t k)
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

void sbv_encode(const struct sb *sb, uint8_t buf[SB_BYTES_MAX])
{
	sb_encode(sb, 512, buf);
}

void sbv_seal(uint8_t buf[SB_BYTES_MAX])
{
	uint32_t max_dev = get_le32(buf + 220);

	put_le32(buf + 216, sb_checksum(buf, max_dev <= SB_ROLES_MAX ? max_dev : 0));
}

int sbv_decode(const uint8_t *buf, char why[RAID_WHY_BYTES])
{
	struct sb out;

	return sb_decode(buf, sbv_at, SBV_DEV_SECTORS, &out, why);
}

void sbv_refused(const uint8_t *buf, int err, const char *word)
{
	char why[RAID_WHY_BYTES];

	assert_int_equal(sbv_decode(buf, why), err);
	assert_non_null(strstr(why, word));
	assert_null(strchr(why, '\n'));
}
