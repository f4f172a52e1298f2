/* SPDX-License-Identifier: BSD-3-Clause */
/* New arrays against those that mdadm 4.2 makes, refusals, and what mdadm says of ours. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "raid/create.h"
#include "raid/geometry.h"
#include "raid/tests/mdadm_create.h"

enum { MIB = 2048 }; /* sectors */

static struct create_plan plan; /* large */

static struct create_params params_of(enum raid_level level, uint32_t slots, uint64_t dev_sectors)
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

static void plan_ok(const struct create_params *p)
{
	char why[RAID_WHY_BYTES] = "";

	if (create_plan(p, &plan, why)) {
		fail_msg("refused: %s", why);
	}
}

static void refused(int err, const struct create_params *p, const char *word)
{
	char why[RAID_WHY_BYTES] = "";

	assert_int_equal(create_plan(p, &plan, why), err);
	if (!strstr(why, word)) {
		fail_msg("'%s' does not speak of '%s'", why, word);
	}
}

/* ---- arrays of mdadm ----------------------------------------------------------------------- */

struct row {
	struct create_params p;
	uint64_t array, component, data_offset, data_size[RAID_SLOTS_MAX];
	uint32_t features, layout;
	int bblog_size, bblog_offset;
};

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

static void read_row(const char *line, struct row *r)
{
	char level[16], layout[16], chunk[16], metadata[8], devices[128], sizes[128];
	uint64_t size_kib, data_offset, dev[RAID_SLOTS_MAX];
	int n = sscanf(line,
		       "%15s %15s %15s %7s %" SCNu64 " %" SCNu64 " %127s = %" SCNu64 " %" SCNu64
		       " %" SCNx32 " %" SCNx32 " %" SCNu64 " %d@%d %127s",
		       level, layout, chunk, metadata, &size_kib, &data_offset, devices, &r->array,
		       &r->component, &r->features, &r->layout, &r->data_offset, &r->bblog_size,
		       &r->bblog_offset, sizes);
	enum raid_level number;

	assert_int_equal(n, 15);
	assert_int_equal(geo_level_parse(level, &number), 0);
	r->p = params_of(number, read_numbers(devices, dev), 0);
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
}

static void check_sb(const struct row *r, uint32_t slot)
{
	const struct sb *sb = &plan.sb[slot];
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

static void test_arrays_of_mdadm(void **state)
{
	for (size_t i = 0; i < sizeof mdadm_arrays / sizeof *mdadm_arrays; i++) {
		struct row r;
		char why[RAID_WHY_BYTES];

		read_row(mdadm_arrays[i], &r);
		if (create_plan(&r.p, &plan, why)) {
			fail_msg("%s: refused: %s", mdadm_arrays[i], why);
		}
		if (plan.array_sectors != r.array || plan.sb[0].data_offset > r.data_offset) {
			print_message("%s\n", mdadm_arrays[i]);
		}
		assert_int_equal(plan.array_sectors, r.array);
		assert_int_equal(plan.component_sectors, r.component);
		for (uint32_t k = 0; k < r.p.slots; k++) {
			if (!r.p.dev[k].missing) {
				check_sb(&r, k);
			}
		}
	}
}

/* md-format §6 gives a formula; the reference arrays' notes give a table. Both must hold. */
static void test_data_offset_table(void **state)
{
	static const struct {
		uint64_t dev_sectors, chunk_512k, raid1;
	} cases[] = {
		{8 * MIB, 4096, 2048},
		{64 * MIB, 4096, 2048},
		{512 * MIB, 4096, 2048},
		{1024 * MIB, 4096, 4096},
		{4096ull * MIB, 10240, 10240},
		{8192ull * MIB, 18432, 18432},
		{16384ull * MIB, 34816, 34816},
		{20480ull * MIB, 34816, 34816},
		{102400ull * MIB, 133120, 133120},
		{262144ull * MIB, 264192, 264192},
		{1ull << 31, 264192, 264192},
		{1ull << 35, 264192, 264192},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct create_params p = params_of(RAID_LEVEL_1, 2, cases[i].dev_sectors);

		for (int v = SB_V1_1; v <= SB_V1_2; v++) {
			p.version = (enum sb_version)v;
			p.level = RAID_LEVEL_1;
			p.chunk_sectors = 0;
			plan_ok(&p);
			assert_int_equal(plan.sb[1].data_offset, cases[i].raid1);
			p.level = RAID_LEVEL_10;
			p.chunk_sectors = 1024;
			plan_ok(&p);
			assert_int_equal(plan.sb[1].data_offset, cases[i].chunk_512k);
			p.level = RAID_LEVEL_0;
			plan_ok(&p);
			assert_int_equal(plan.sb[1].data_offset, cases[i].chunk_512k);
		}
	}
}

static void test_identity_and_defaults(void **state)
{
	struct create_params p = params_of(RAID_LEVEL_10, 4, 100 * MIB);
	const struct sb *sb = &plan.sb[2];

	p.assume_clean = false;
	plan_ok(&p);
	assert_int_equal(sb->chunksize, 128);
	assert_int_equal(sb->layout, 0x102);
	assert_int_equal(sb->resync_offset, 0);
	assert_string_equal(sb->set_name, "host:test");
	assert_int_equal(sb->ctime_s, 1700000000);
	assert_int_equal(sb->utime_s, 1700000000);
	assert_memory_equal(sb->set_uuid, p.set_uuid, 16);
	assert_memory_equal(sb->device_uuid, p.dev[2].device_uuid, 16);
	assert_int_equal(plan.array_sectors, 2 * plan.component_sectors);

	p.level = RAID_LEVEL_1;
	plan_ok(&p);
	assert_int_equal(sb->resync_offset, 0);
	assert_int_equal(sb->chunksize, 0);

	/* Nothing to resync: always clean. */
	p.level = RAID_LEVEL_0;
	plan_ok(&p);
	assert_true(sb->resync_offset == SB_IN_SYNC);
	assert_int_equal(sb->chunksize, 128);
	assert_int_equal(sb->layout, GEO_RAID0_ORIGINAL);
	assert_int_equal(sb->feature_map, 0);
	p.level = RAID_LEVEL_LINEAR;
	plan_ok(&p);
	assert_true(sb->resync_offset == SB_IN_SYNC);
	assert_int_equal(sb->chunksize, 0);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void test_refused_slots(void **state)
{
	struct create_params p = params_of(RAID_LEVEL_1, 2, 10 * MIB);

	p.slots = 0;
	refused(-EINVAL, &p, "0 slots");
	p.slots = 65;
	refused(-EINVAL, &p, "65 slots");
	p = params_of(RAID_LEVEL_1, 33, 10 * MIB);
	refused(-ENOTSUP, &p, "33 mirrors");
	p = params_of(RAID_LEVEL_10, 1, 10 * MIB);
	refused(-EINVAL, &p, "2 copies");
	p = params_of(RAID_LEVEL_10, 2, 10 * MIB);
	p.have_layout = true;
	p.layout = 0x103;
	refused(-EINVAL, &p, "3 copies");
	p.layout = 0x101;
	refused(-EINVAL, &p, "1 copies");

	p = params_of(RAID_LEVEL_1, 2, 10 * MIB);
	p.dev[0].missing = p.dev[1].missing = true;
	refused(-EINVAL, &p, "all devices are missing");
	p = params_of(RAID_LEVEL_0, 2, 10 * MIB);
	p.dev[0].missing = true;
	refused(-EINVAL, &p, "none may be missing");
	p.level = RAID_LEVEL_LINEAR;
	refused(-EINVAL, &p, "none may be missing");
	p = params_of(RAID_LEVEL_10, 4, 10 * MIB);
	p.dev[0].missing = p.dev[1].missing = true;
	refused(-EINVAL, &p, "too many missing");
	p.dev[1].missing = false;
	p.dev[3].missing = true;
	plan_ok(&p);
	p.dev[2].logical_block = 8192;
	refused(-EINVAL, &p, "slot 2");
	p.dev[2].logical_block = 0;
	refused(-EINVAL, &p, "slot 2");
}

static void test_refused_wishes(void **state)
{
	struct create_params p = params_of(RAID_LEVEL_1, 2, 10 * MIB);

	p.version = SB_V0_90;
	refused(-ENOTSUP, &p, "0.90");
	p.version = SB_V1_0;
	p.data_offset_sectors = 2048;
	refused(-EINVAL, &p, "data offset");
	p.version = SB_V1_1;
	p.data_offset_sectors = 2044;
	refused(-EINVAL, &p, "2044");
	p.version = SB_V1_2;
	p.data_offset_sectors = 8;
	refused(-EINVAL, &p, "from 16 on");
	p.data_offset_sectors = 0;
	p.have_layout = true;
	refused(-EINVAL, &p, "no layouts");
	p.have_layout = false;
	p.chunk_sectors = 128;
	refused(-EINVAL, &p, "no chunk");

	p = params_of(RAID_LEVEL_0, 2, 10 * MIB);
	p.size_sectors = 1000;
	refused(-EINVAL, &p, "takes no size");
	p.size_sectors = 0;
	p.chunk_sectors = 4;
	refused(-EINVAL, &p, "2048 bytes");
	p.chunk_sectors = 9;
	plan_ok(&p);
	p.dev[1].logical_block = 4096;
	refused(-EINVAL, &p, "logical block of slot 1");
	p = params_of(RAID_LEVEL_10, 2, 10 * MIB);
	p.chunk_sectors = 24;
	refused(-EINVAL, &p, "power of two");
	p.chunk_sectors = 0;
	p.have_layout = true;
	p.layout = 0x80102;
	refused(-EINVAL, &p, "layout");

	/* The layout of a new array is always known where it matters. */
	p = params_of(RAID_LEVEL_0, 3, 10 * MIB);
	p.dev[0].dev_sectors = 9 * MIB;
	p.have_layout = true;
	p.layout = GEO_RAID0_UNKNOWN;
	refused(-EINVAL, &p, "layout");
}

static void test_refused_sizes(void **state)
{
	struct create_params p = params_of(RAID_LEVEL_1, 2, 10 * MIB);

	p.dev[1].dev_sectors = 23;
	refused(-ENOSPC, &p, "slot 1");
	p.dev[1].dev_sectors = MIB;
	refused(-ENOSPC, &p, "slot 1");
	p.dev[1].dev_sectors = MIB + 127;
	refused(-ENOSPC, &p, "127 are left for data, 128 are needed");
	p.dev[1].dev_sectors = MIB + 128;
	plan_ok(&p);
	assert_int_equal(plan.array_sectors, 128);
	p.size_sectors = 129;
	refused(-ENOSPC, &p, "129 are needed");
	p.size_sectors = 9;
	refused(-EINVAL, &p, "9 sectors");
	p.version = SB_V1_0;
	p.size_sectors = 0;
	p.dev[0].dev_sectors = 24;
	refused(-ENOSPC, &p, "slot 0");

	p = params_of(RAID_LEVEL_10, 2, 10 * MIB);
	p.size_sectors = 100;
	refused(-EINVAL, &p, "100 sectors");
	p.have_layout = true;
	p.layout = 0x201;
	p.size_sectors = 200;
	refused(-EINVAL, &p, "too small");
	p = params_of(RAID_LEVEL_0, 2, MIB + 127);
	refused(-ENOSPC, &p, "slot 0");
	p = params_of(RAID_LEVEL_LINEAR, 2, MIB + 9);
	refused(-ENOSPC, &p, "10 are needed");
	p = params_of(RAID_LEVEL_1, 2, UINT64_MAX);
	refused(-EINVAL, &p, "impossible");
}

/* ---- what we write -------------------------------------------------------------------------- */

/* A new superblock reads back as what it was, by our own decoder. */
static void test_decodes(void **state)
{
	for (size_t i = 0; i < sizeof mdadm_arrays / sizeof *mdadm_arrays; i++) {
		struct row r;
		static struct sb back;
		uint8_t buf[SB_BYTES_MAX];
		char why[RAID_WHY_BYTES] = "";

		read_row(mdadm_arrays[i], &r);
		plan_ok(&r.p);
		for (uint32_t k = 0; k < r.p.slots; k++) {
			struct sb_location loc = {r.p.version, plan.sb[k].super_offset};

			if (r.p.dev[k].missing) {
				continue;
			}
			sb_encode(&plan.sb[k], 512, buf);
			if (sb_decode(buf, loc, r.p.dev[k].dev_sectors, &back, why)) {
				fail_msg("%s: %s", mdadm_arrays[i], why);
			}
			plan.sb[k].sb_csum = back.sb_csum;
			assert_memory_equal(&back, &plan.sb[k], sizeof back);
		}
	}
}

/* mdadm itself calls the superblock correct and reads our words out of it. */
static void check_examine(const struct create_params *p, const char *level, const char *version)
{
	char path[] = "/tmp/test-create.XXXXXX", command[128], text[4096];
	int fd = mkstemp(path);
	uint8_t buf[SB_BYTES_MAX];
	uint32_t n;
	FILE *out;

	assert_true(fd >= 0);
	plan_ok(p);
	n = sb_encode(&plan.sb[0], 512, buf);
	assert_int_equal(ftruncate(fd, (off_t)(p->dev[0].dev_sectors * RAID_SECTOR_BYTES)), 0);
	assert_int_equal(pwrite(fd, buf, n, (off_t)(plan.sb[0].super_offset * RAID_SECTOR_BYTES)),
			 n);
	assert_int_equal(fsync(fd), 0);
	close(fd);
	snprintf(command, sizeof command, "/sbin/mdadm --examine %s 2>&1", path);
	out = popen(command, "r");
	assert_non_null(out);
	text[fread(text, 1, sizeof text - 1, out)] = 0;
	assert_int_equal(pclose(out), 0);
	unlink(path);
	if (!strstr(text, " - correct") || !strstr(text, level) || !strstr(text, version) ||
	    !strstr(text, "Name : host:test") || !strstr(text, "Active device 0")) {
		fail_msg("mdadm says:\n%s", text);
	}
}

static void test_mdadm_examines(void **state)
{
	static const struct {
		enum raid_level level;
		const char *name;
	} levels[] = {
		{RAID_LEVEL_LINEAR, "Raid Level : linear"},
		{RAID_LEVEL_0, "Raid Level : raid0"},
		{RAID_LEVEL_1, "Raid Level : raid1"},
		{RAID_LEVEL_10, "Raid Level : raid10"},
	};
	static const char *const versions[] = {"Version : 1.0", "Version : 1.1", "Version : 1.2"};

	if (access("/sbin/mdadm", X_OK)) {
		print_message("skipped: mdadm is not installed\n");
		skip();
	}
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		for (int v = SB_V1_0; v <= SB_V1_2; v++) {
			struct create_params p = params_of(levels[i].level, 4, 20 * MIB + 5);

			p.version = (enum sb_version)v;
			p.dev[3].dev_sectors += 3 * MIB;
			check_examine(&p, levels[i].name, versions[v]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrays_of_mdadm),
		cmocka_unit_test(test_data_offset_table),
		cmocka_unit_test(test_identity_and_defaults),
		cmocka_unit_test(test_refused_slots),
		cmocka_unit_test(test_refused_wishes),
		cmocka_unit_test(test_refused_sizes),
		cmocka_unit_test(test_decodes),
		cmocka_unit_test(test_mdadm_examines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
