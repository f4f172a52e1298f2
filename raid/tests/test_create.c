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
#include "raid/tests/create_rig.h"
#include "raid/tests/mdadm_create.h"

static void test_arrays_of_mdadm(void **state)
{
	for (size_t i = 0; i < sizeof mdadm_arrays / sizeof *mdadm_arrays; i++) {
		struct crig_row r;
		char why[RAID_WHY_BYTES];

		crig_read_row(mdadm_arrays[i], &r);
		if (create_plan(&r.p, &crig_plan_out, why)) {
			fail_msg("%s: refused: %s", mdadm_arrays[i], why);
		}
		if (crig_plan_out.array_sectors != r.array ||
		    crig_plan_out.sb[0].data_offset > r.data_offset) {
			print_message("%s\n", mdadm_arrays[i]);
		}
		assert_int_equal(crig_plan_out.array_sectors, r.array);
		assert_int_equal(crig_plan_out.component_sectors, r.component);
		for (uint32_t k = 0; k < r.p.slots; k++) {
			if (!r.p.dev[k].missing) {
				crig_check_sb(&r, k);
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
		struct create_params p = crig_params(RAID_LEVEL_1, 2, cases[i].dev_sectors);

		for (int v = SB_V1_1; v <= SB_V1_2; v++) {
			p.version = (enum sb_version)v;
			p.level = RAID_LEVEL_1;
			p.chunk_sectors = 0;
			crig_plan(&p);
			assert_int_equal(crig_plan_out.sb[1].data_offset, cases[i].raid1);
			p.level = RAID_LEVEL_10;
			p.chunk_sectors = 1024;
			crig_plan(&p);
			assert_int_equal(crig_plan_out.sb[1].data_offset, cases[i].chunk_512k);
			p.level = RAID_LEVEL_0;
			crig_plan(&p);
			assert_int_equal(crig_plan_out.sb[1].data_offset, cases[i].chunk_512k);
		}
	}
}

static void test_identity_and_defaults(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_10, 4, 100 * MIB);
	const struct sb *sb = &crig_plan_out.sb[2];

	p.assume_clean = false;
	crig_plan(&p);
	assert_int_equal(sb->chunksize, 128);
	assert_int_equal(sb->layout, 0x102);
	assert_int_equal(sb->resync_offset, 0);
	assert_string_equal(sb->set_name, "host:test");
	assert_int_equal(sb->ctime_s, 1700000000);
	assert_int_equal(sb->utime_s, 1700000000);
	assert_memory_equal(sb->set_uuid, p.set_uuid, 16);
	assert_memory_equal(sb->device_uuid, p.dev[2].device_uuid, 16);
	assert_int_equal(crig_plan_out.array_sectors, 2 * crig_plan_out.component_sectors);

	p.level = RAID_LEVEL_1;
	crig_plan(&p);
	assert_int_equal(sb->resync_offset, 0);
	assert_int_equal(sb->chunksize, 0);

	/* Nothing to resync: always clean. */
	p.level = RAID_LEVEL_0;
	crig_plan(&p);
	assert_true(sb->resync_offset == SB_IN_SYNC);
	assert_int_equal(sb->chunksize, 128);
	assert_int_equal(sb->layout, GEO_RAID0_ORIGINAL);
	assert_int_equal(sb->feature_map, 0);
	p.level = RAID_LEVEL_LINEAR;
	crig_plan(&p);
	assert_true(sb->resync_offset == SB_IN_SYNC);
	assert_int_equal(sb->chunksize, 0);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void test_refused_slots(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_1, 2, 10 * MIB);

	p.slots = 0;
	crig_refused(-EINVAL, &p, "0 slots");
	p.slots = 65;
	crig_refused(-EINVAL, &p, "65 slots");
	p = crig_params(RAID_LEVEL_1, 33, 10 * MIB);
	crig_refused(-ENOTSUP, &p, "33 mirrors");
	p = crig_params(RAID_LEVEL_10, 1, 10 * MIB);
	crig_refused(-EINVAL, &p, "2 copies");
	p = crig_params(RAID_LEVEL_10, 2, 10 * MIB);
	p.have_layout = true;
	p.layout = 0x103;
	crig_refused(-EINVAL, &p, "3 copies");
	p.layout = 0x101;
	crig_refused(-EINVAL, &p, "1 copies");

	p = crig_params(RAID_LEVEL_1, 2, 10 * MIB);
	p.dev[0].missing = p.dev[1].missing = true;
	crig_refused(-EINVAL, &p, "all devices are missing");
	p = crig_params(RAID_LEVEL_0, 2, 10 * MIB);
	p.dev[0].missing = true;
	crig_refused(-EINVAL, &p, "none may be missing");
	p.level = RAID_LEVEL_LINEAR;
	crig_refused(-EINVAL, &p, "none may be missing");
	p = crig_params(RAID_LEVEL_10, 4, 10 * MIB);
	p.dev[0].missing = p.dev[1].missing = true;
	crig_refused(-EINVAL, &p, "too many missing");
	p.dev[1].missing = false;
	p.dev[3].missing = true;
	crig_plan(&p);
	p.dev[2].logical_block = 8192;
	crig_refused(-EINVAL, &p, "slot 2");
	p.dev[2].logical_block = 0;
	crig_refused(-EINVAL, &p, "slot 2");
}

static void test_refused_wishes(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_1, 2, 10 * MIB);

	p.version = SB_V0_90;
	crig_refused(-ENOTSUP, &p, "0.90");
	p.version = SB_V1_0;
	p.data_offset_sectors = 2048;
	crig_refused(-EINVAL, &p, "data offset");
	p.version = SB_V1_1;
	p.data_offset_sectors = 2044;
	crig_refused(-EINVAL, &p, "2044");
	p.version = SB_V1_2;
	p.data_offset_sectors = 8;
	crig_refused(-EINVAL, &p, "from 16 on");
	p.data_offset_sectors = 0;
	p.have_layout = true;
	crig_refused(-EINVAL, &p, "no layouts");
	p.have_layout = false;
	p.chunk_sectors = 128;
	crig_refused(-EINVAL, &p, "no chunk");

	p = crig_params(RAID_LEVEL_0, 2, 10 * MIB);
	p.size_sectors = 1000;
	crig_refused(-EINVAL, &p, "takes no size");
	p.size_sectors = 0;
	p.chunk_sectors = 4;
	crig_refused(-EINVAL, &p, "2048 bytes");
	p.chunk_sectors = 9;
	crig_plan(&p);
	p.dev[1].logical_block = 4096;
	crig_refused(-EINVAL, &p, "logical block of slot 1");
	p = crig_params(RAID_LEVEL_10, 2, 10 * MIB);
	p.chunk_sectors = 24;
	crig_refused(-EINVAL, &p, "power of two");
	p.chunk_sectors = 0;
	p.have_layout = true;
	p.layout = 0x80102;
	crig_refused(-EINVAL, &p, "layout");

	/* The layout of a new array is always known where it matters. */
	p = crig_params(RAID_LEVEL_0, 3, 10 * MIB);
	p.dev[0].dev_sectors = 9 * MIB;
	p.have_layout = true;
	p.layout = GEO_RAID0_UNKNOWN;
	crig_refused(-EINVAL, &p, "layout");
}

static void test_refused_sizes(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_1, 2, 10 * MIB);

	p.dev[1].dev_sectors = 23;
	crig_refused(-ENOSPC, &p, "slot 1");
	p.dev[1].dev_sectors = MIB;
	crig_refused(-ENOSPC, &p, "slot 1");
	p.dev[1].dev_sectors = MIB + 127;
	crig_refused(-ENOSPC, &p, "127 are left for data, 128 are needed");
	p.dev[1].dev_sectors = MIB + 128;
	crig_plan(&p);
	assert_int_equal(crig_plan_out.array_sectors, 128);
	p.size_sectors = 129;
	crig_refused(-ENOSPC, &p, "129 are needed");
	p.size_sectors = 9;
	crig_refused(-EINVAL, &p, "9 sectors");
	p.version = SB_V1_0;
	p.size_sectors = 0;
	p.dev[0].dev_sectors = 24;
	crig_refused(-ENOSPC, &p, "slot 0");

	p = crig_params(RAID_LEVEL_10, 2, 10 * MIB);
	p.size_sectors = 100;
	crig_refused(-EINVAL, &p, "100 sectors");
	p.have_layout = true;
	p.layout = 0x201;
	p.size_sectors = 200;
	crig_refused(-EINVAL, &p, "too small");
	p = crig_params(RAID_LEVEL_0, 2, MIB + 127);
	crig_refused(-ENOSPC, &p, "slot 0");
	p = crig_params(RAID_LEVEL_LINEAR, 2, MIB + 9);
	crig_refused(-ENOSPC, &p, "10 are needed");
	p = crig_params(RAID_LEVEL_1, 2, UINT64_MAX);
	crig_refused(-EINVAL, &p, "impossible");
}

/* ---- what we write -------------------------------------------------------------------------- */

/* A new superblock reads back as what it was, by our own decoder. */
static void test_decodes(void **state)
{
	for (size_t i = 0; i < sizeof mdadm_arrays / sizeof *mdadm_arrays; i++) {
		struct crig_row r;
		static struct sb back;
		uint8_t buf[SB_BYTES_MAX];
		char why[RAID_WHY_BYTES] = "";

		crig_read_row(mdadm_arrays[i], &r);
		crig_plan(&r.p);
		for (uint32_t k = 0; k < r.p.slots; k++) {
			struct sb_location loc = {r.p.version, crig_plan_out.sb[k].super_offset};

			if (r.p.dev[k].missing) {
				continue;
			}
			sb_encode(&crig_plan_out.sb[k], 512, buf);
			if (sb_decode(buf, loc, r.p.dev[k].dev_sectors, &back, why)) {
				fail_msg("%s: %s", mdadm_arrays[i], why);
			}
			crig_plan_out.sb[k].sb_csum = back.sb_csum;
			assert_memory_equal(&back, &crig_plan_out.sb[k], sizeof back);
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
	crig_plan(p);
	n = sb_encode(&crig_plan_out.sb[0], 512, buf);
	assert_int_equal(ftruncate(fd, (off_t)(p->dev[0].dev_sectors * RAID_SECTOR_BYTES)), 0);
	assert_int_equal(
		pwrite(fd, buf, n, (off_t)(crig_plan_out.sb[0].super_offset * RAID_SECTOR_BYTES)),
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
			struct create_params p = crig_params(levels[i].level, 4, 20 * MIB + 5);

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
