/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/tests/create_rig.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/geometry.h"

struct create_plan crig_plan_out;

struct create_params crig_params(enum raid_level level, uint32_t slots, uint64_t dev_sectors)
{
	struct create_params p = {
		.level = level,
		.version = SB_V1_2,
		.name = "host:test",
		.assume_clean = true,
		.ctime_s = 1700000000,
		.slots = slots,
	};

	memset(p.set_uuid, 0x5a, sizeof p.set_uuid);
	for (uint32_t k = 0; k < slots && k < RAID_SLOTS_MAX; k++) {
		p.dev[k].dev_sectors = dev_sectors;
		p.dev[k].logical_block = 512;
		memset(p.dev[k].device_uuid, 0xa0 + (int)k, sizeof p.dev[k].device_uuid);
	}
	return p;
}

void crig_plan(const struct create_params *p)
{
	char why[RAID_WHY_BYTES] = "";

	if (create_plan(p, &crig_plan_out, why)) {
		fail_msg("refused: %s", why);
	}
}

void crig_refused(int err, const struct create_params *p, const char *word)
{
	char why[RAID_WHY_BYTES] = "";

	assert_int_equal(create_plan(p, &crig_plan_out, why), err);
	if (!strstr(why, word)) {
		fail_msg("'%s' does not speak of '%s'", why, word);
	}
}

static uint32_t read_numbers(const char *text, uint64_t *out)
{
	uint32_t n = 0;
	char *end;

	do {
		out[n++] = strtoull(text, &end, 10);
		assert_true(end > text && n < RAID_SLOTS_MAX);
		text = end + 1;
	} while (*end == ',');
	if (*end == 'x') {
		assert_in_range(out[0], 2, RAID_SLOTS_MAX);
		n = (uint32_t)out[0];
		for (uint32_t i = 0; i < n; i++) {
			out[i] = strtoull(text, &end, 10);
		}
	}
	assert_int_equal(*end, 0);
	return n;
}

void crig_read_row(const char *line, struct crig_row *r)
{
	char level[16], layout[32], chunk[16], metadata[8], devices[128], sizes[128];
	uint64_t size_kib, data_offset, dev[RAID_SLOTS_MAX];
	int n = sscanf(line,
		       "%15s %31s %15s %7s %" SCNu64 " %" SCNu64 " %127s = %" SCNu64 " %" SCNu64
		       " %" SCNx32 " %" SCNx32 " %" SCNu64 " %d@%d %127s",
		       level, layout, chunk, metadata, &size_kib, &data_offset, devices, &r->array,
		       &r->component, &r->features, &r->layout, &r->data_offset, &r->bblog_size,
		       &r->bblog_offset, sizes);
	enum raid_level number;

	r->bitmap_offset = 0;
	assert_int_equal(n, 15);
	assert_int_equal(geo_level_parse(level, &number), 0);
	r->p = crig_params(number, read_numbers(devices, dev), 0);
	for (uint32_t k = 0; k < r->p.slots; k++) {
		r->p.dev[k].dev_sectors = dev[k];
		r->p.dev[k].missing = !dev[k];
	}
	assert_int_equal(read_numbers(sizes, r->data_size), r->p.slots);
	r->p.version = metadata[2] == '0' ? SB_V1_0 : metadata[2] == '1' ? SB_V1_1 : SB_V1_2;
	r->p.have_layout = layout[0] != '-';
	if (r->p.have_layout) {
		assert_int_equal(geo_layout_parse(number, layout, &r->p.layout), 0);
	}
	r->p.chunk_sectors = chunk[0] == '-' ? 0 : (uint32_t)strtoul(chunk, NULL, 10) * 2;
	r->p.size_sectors = size_kib * 2;
	r->p.data_offset_sectors = data_offset;
	if (strchr(line, '|')) {
		n = sscanf(strchr(line, '|'), "| %" SCNu64 " = %d %" SCNu32 " %" SCNu64, &size_kib,
			   &r->bitmap_offset, &r->bitmap_chunk_bytes, &r->bitmap_sync_sectors);
		assert_int_equal(n, 4);
		r->p.bitmap = true;
		r->p.bitmap_chunk_bytes = (uint32_t)size_kib << 10;
	}
}

void crig_check_sb(const struct crig_row *r, uint32_t slot)
{
	const struct sb *sb = &crig_plan_out.sb[slot];
	uint64_t dev = r->p.dev[slot].dev_sectors;
	uint64_t at = r->p.version == SB_V1_0	? (dev - 16) / 8 * 8
		      : r->p.version == SB_V1_1 ? 0
						: 8;

	assert_int_equal(sb->version, r->p.version);
	assert_int_equal(sb->feature_map, r->features);
	assert_int_equal(sb->level, r->p.level);
	assert_int_equal(sb->layout, r->layout);
	assert_int_equal(sb->size, r->component);
	assert_int_equal(sb->chunksize, r->p.chunk_sectors);
	assert_int_equal(sb->raid_disks, r->p.slots);
	assert_int_equal(sb->data_offset, r->data_offset);
	assert_int_equal(sb->data_size, r->data_size[slot]);
	assert_int_equal(sb->super_offset, at);
	assert_int_equal(sb->bitmap_offset, r->bitmap_offset);
	assert_int_equal(sb->bblog_size, r->bblog_size);
	assert_int_equal(sb->bblog_offset, r->bblog_offset);
	assert_int_equal(sb->dev_number, slot);
	assert_int_equal(sb->events, 0);
	assert_true(sb->resync_offset == SB_IN_SYNC);
	assert_int_equal(sb->max_dev, 128);
	for (uint32_t k = 0; k < SB_ROLES_MAX; k++) {
		bool used = k < r->p.slots && !r->p.dev[k].missing;

		assert_int_equal(sb->dev_roles[k], used ? k : SB_ROLE_SPARE);
	}
}
