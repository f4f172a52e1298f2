/* SPDX-License-Identifier: BSD-3-Clause */
/* From paths to an array instance: what is locked, found, refused, given back. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "raid/base/bytes.h"
#include "server/array_open.h"

enum { MEMBER_SECTORS = 8192, DATA_AT = 2048, MEMBER_BYTES = MEMBER_SECTORS * 512 };

static char dir[256];
static char why[RAID_WHY_BYTES];

static const char *path_of(const char *name)
{
	static char path[8][512];
	static unsigned int next;
	char *p = path[next++ % 8];

	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static void write_at(const char *path, uint64_t at, const void *buf, size_t n)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, buf, n, (off_t)at), n);
	close(fd);
}

static const char *make_file(const char *name, uint64_t bytes)
{
	const char *path = path_of(name);

	unlink(path);
	write_at(path, 0, "", 0);
	assert_int_equal(truncate(path, (off_t)bytes), 0);
	return path;
}

/* The superblock of slot k of a clean array of two. */
static struct sb member_sb(int32_t level, enum sb_version version, uint32_t k)
{
	struct sb sb = {
		.version = version,
		.set_name = "host:test",
		.ctime_s = 1700000000,
		.level = level,
		.chunksize = level == RAID_LEVEL_1 ? 0 : 128,
		.raid_disks = 2,
		.data_offset = version == SB_V1_0 ? 0 : DATA_AT,
		.super_offset = version == SB_V1_0 ? MEMBER_SECTORS - 16 : 8,
		.dev_number = k,
		.utime_s = 1700000001,
		.events = 17,
		.resync_offset = SB_IN_SYNC,
		.max_dev = 128,
	};

	sb.data_size = MEMBER_SECTORS - DATA_AT;
	sb.size = level == RAID_LEVEL_1 ? sb.data_size : 0;
	memset(sb.set_uuid, 0x11, sizeof sb.set_uuid);
	memset(sb.device_uuid, (int)(0xa0 + k), sizeof sb.device_uuid);
	memset(sb.dev_roles, 0xff, sizeof sb.dev_roles);
	sb.dev_roles[0] = 0;
	sb.dev_roles[1] = 1;
	return sb;
}

static void put_sb(const char *path, const struct sb *sb)
{
	uint8_t buf[SB_BYTES_MAX];
	uint32_t len = sb_encode(sb, 512, buf);

	write_at(path, sb->super_offset * 512, buf, len);
}

static const char *make_member(const char *name, int32_t level, enum sb_version version, uint32_t k)
{
	const char *path = make_file(name, MEMBER_BYTES);
	struct sb sb = member_sb(level, version, k);

	put_sb(path, &sb);
	return path;
}

static struct array_spec spec_of(const char **paths, uint32_t n)
{
	struct array_spec spec = {.name = "t", .path = paths, .paths = n};

	return spec;
}

static bool is_locked(const char *path)
{
	struct device_options opt = {.read_only = false};
	struct member_dev dev;
	char ignored[RAID_WHY_BYTES];

	if (device_open(path, &opt, &dev, ignored) == -EBUSY) {
		return true;
	}
	device_close(&dev);
	return false;
}

static int setup(void **state)
{
	snprintf(dir, sizeof dir, "%s/test-array-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = {"a", "b", "c", "link"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		unlink(path_of(names[i]));
	}
	return rmdir(dir);
}

/* ---- arrays with superblocks ---------------------------------------------------------------- */

static void test_complete_mirror(void **state)
{
	const char *paths[] = {make_member("b", 1, SB_V1_2, 1), make_member("a", 1, SB_V1_2, 0)};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_string_equal(ai->name, "t");
	assert_int_equal(ai->members, 2);
	assert_false(ai->read_only);
	assert_int_equal(ai->assembly->decision, ASM_START);
	assert_int_equal(ai->assembly->degraded, 0);
	assert_int_equal(ai->assembly->geometry.array_sectors, MEMBER_SECTORS - DATA_AT);
	assert_int_equal(ai->assembly->member[0].slot, 1);
	assert_string_equal(ai->member[0].path, paths[0]);
	assert_string_equal(ai->assembly->note, "");
	assert_true(is_locked(paths[0]));
	assert_true(is_locked(paths[1]));
	array_close(ai);
	assert_false(is_locked(paths[0]));
}

static void test_absent_member_of_a_mirror(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_2, 0), path_of("nowhere")};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->degraded, 1);
	assert_int_equal(ai->member[1].fd, -1);
	assert_non_null(strstr(ai->assembly->note, paths[1]));
	array_close(ai);
}

static void test_absent_member_that_is_needed(void **state)
{
	const char *paths[] = {make_member("a", 0, SB_V1_2, 0), path_of("nowhere")};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	assert_true(array_open(&spec, &ai, why) < 0);
	assert_null(ai);
	assert_non_null(strstr(why, paths[1]));
	paths[0] = paths[1];
	spec.paths = 1;
	assert_true(array_open(&spec, &ai, why) < 0);
	assert_non_null(strstr(why, "No such file"));
}

static void test_held_member_is_an_error(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_2, 0), make_member("b", 1, SB_V1_2, 1)};
	struct array_spec spec = spec_of(paths, 2);
	struct device_options opt = {.read_only = true};
	struct array_instance *ai;
	struct member_dev reader;

	assert_int_equal(device_open(paths[1], &opt, &reader, why), 0);
	assert_int_equal(array_open(&spec, &ai, why), -EBUSY);
	assert_false(is_locked(paths[0]));
	spec.read_only = true;
	assert_int_equal(array_open(&spec, &ai, why), 0);
	array_close(ai);
	device_close(&reader);
}

static void test_same_device_twice(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_2, 0), path_of("link")};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	assert_int_equal(symlink(paths[0], paths[1]), 0);
	assert_int_equal(array_open(&spec, &ai, why), -EINVAL);
	assert_non_null(strstr(why, "same device"));
	unlink(paths[1]);
}

static void put_bitmap(const char *path, const struct sb *sb, uint64_t events)
{
	struct bm_header h = {
		.version = BM_V4,
		.events = events,
		.sync_size_sectors = sb->size,
		.chunk_bytes = 65536,
		.daemon_sleep_s = 5,
	};
	uint8_t area[BM_PAGE_BYTES] = {0};
	int fd = open(path, O_WRONLY);

	memcpy(h.uuid, sb->set_uuid, sizeof h.uuid);
	bm_encode(&h, area);
	area[BM_HEADER_BYTES] = 0x81;
	area[BM_HEADER_BYTES + 1] = 0x02;
	assert_int_equal(pwrite(fd, area, sizeof area, 16 * 512), sizeof area);
	close(fd);
}

/* The bits come from a copy that is as new as the superblock, or count as all set. */
static void test_bitmap_is_read(void **state)
{
	const char *paths[] = {make_file("a", MEMBER_BYTES), make_file("b", MEMBER_BYTES)};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	for (uint32_t k = 0; k < 2; k++) {
		struct sb sb = member_sb(1, SB_V1_2, k);

		sb.feature_map = SB_FEATURE_BITMAP;
		sb.bitmap_offset = 8;
		put_sb(paths[k], &sb);
		put_bitmap(paths[k], &sb, k ? sb.events : sb.events - 5);
	}
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->bitmap.state, ASM_BITMAP_CURRENT);
	assert_int_equal(ai->assembly->bitmap.member, 1);
	assert_non_null(ai->bitmap_bits);
	assert_int_equal(ai->bitmap_bits[0], 0x81);
	assert_int_equal(ai->bitmap_bits[1], 0x02);
	array_close(ai);

	for (uint32_t k = 0; k < 2; k++) {
		struct sb sb = member_sb(1, SB_V1_2, k);

		put_bitmap(paths[k], &sb, sb.events - 1);
	}
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->bitmap.state, ASM_BITMAP_STALE);
	assert_null(ai->bitmap_bits);
	array_close(ai);
}

static void test_unsupported_feature_is_read_only(void **state)
{
	const char *paths[] = {make_file("a", MEMBER_BYTES), make_file("b", MEMBER_BYTES)};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	for (uint32_t k = 0; k < 2; k++) {
		struct sb sb = member_sb(1, SB_V1_2, k);

		sb.feature_map = SB_FEATURE_CLUSTERED;
		put_sb(paths[k], &sb);
	}
	assert_int_equal(array_open(&spec, &ai, why), -EROFS);
	assert_null(ai);
	assert_non_null(strstr(why, "cluster"));
	assert_non_null(strstr(why, "--readonly"));
	spec.read_only = true;
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_true(ai->read_only);
	assert_int_equal(fcntl(ai->member[0].fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	array_close(ai);
}

static void test_foreign_member_is_given_back(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_2, 0), make_member("b", 1, SB_V1_2, 1),
			       make_file("c", MEMBER_BYTES)};
	struct array_spec spec = spec_of(paths, 3);
	struct sb other = member_sb(1, SB_V1_2, 0);
	struct array_instance *ai;

	memset(other.set_uuid, 0x22, sizeof other.set_uuid);
	put_sb(paths[2], &other);
	assert_true(array_open(&spec, &ai, why) < 0);
	spec.have_uuid = true;
	memset(spec.uuid, 0x11, sizeof spec.uuid);
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->member[2].verdict, ASM_FOREIGN);
	assert_int_equal(ai->member[2].fd, -1);
	assert_false(is_locked(paths[2]));
	assert_true(is_locked(paths[1]));
	array_close(ai);
}

/* ---- what a candidate is -------------------------------------------------------------------- */

static struct asm_candidate *candidate_of(const char *path)
{
	static struct asm_candidate cand;
	struct device_options opt = {.unlocked = true};
	struct member_dev dev;

	assert_int_equal(device_open(path, &opt, &dev, why), 0);
	device_candidate(&dev, &cand);
	device_close(&dev);
	return &cand;
}

static void test_newest_of_several_superblocks(void **state)
{
	const char *path = make_member("a", 1, SB_V1_2, 0);
	struct sb stale = member_sb(1, SB_V1_0, 1);

	stale.ctime_s--;
	put_sb(path, &stale);
	assert_int_equal(candidate_of(path)->load_err, 0);
	assert_int_equal(candidate_of(path)->sb.version, SB_V1_2);
	stale.ctime_s += 2;
	put_sb(path, &stale);
	assert_int_equal(candidate_of(path)->sb.version, SB_V1_0);
}

static void test_damaged_superblock(void **state)
{
	const char *path = make_member("a", 1, SB_V1_2, 0);

	write_at(path, 4096 + 200, "\1", 1); /* events */
	assert_int_equal(candidate_of(path)->load_err, -EBADMSG);
	assert_int_equal(candidate_of(make_file("b", MEMBER_BYTES))->load_err, -ENOENT);
	assert_int_equal(candidate_of(make_file("b", 100))->load_err, -ENOENT);
}

static void test_bad_blocks_are_read(void **state)
{
	const char *path = make_file("a", MEMBER_BYTES);
	struct sb sb = member_sb(1, SB_V1_2, 0);
	uint8_t log[4096];

	sb.feature_map = SB_FEATURE_BAD_BLOCKS;
	sb.bblog_offset = 16;
	sb.bblog_size = 8;
	put_sb(path, &sb);
	memset(log, 0xff, sizeof log);
	put_le64(log, (uint64_t)3000 << 10 | 8);
	write_at(path, (8 + 16) * 512, log, sizeof log);
	assert_int_equal(candidate_of(path)->load_err, 0);
	assert_int_equal(candidate_of(path)->bad.count, 1);
	assert_int_equal(candidate_of(path)->bad.range[0].maddr, 3000 * 512);

	/* a log that makes no sense must not become "no bad blocks" */
	put_le64(log + 8, (uint64_t)2000 << 10 | 8);
	write_at(path, (8 + 16) * 512, log, sizeof log);
	assert_int_equal(candidate_of(path)->load_err, -EUCLEAN);
}

static void test_grown_file_is_found_and_told(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_0, 0), make_member("b", 1, SB_V1_0, 1)};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;
	struct sb sb;

	for (uint32_t k = 0; k < 2; k++) {
		sb = member_sb(1, SB_V1_0, k);
		sb.data_size = sb.super_offset; /* as mdadm: up to what lies before it */
		put_sb(paths[k], &sb);
	}
	assert_int_equal(truncate(paths[1], MEMBER_BYTES + (1 << 20)), 0);
	assert_int_equal(candidate_of(paths[1])->load_err, -ENOENT);
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->degraded, 0);
	assert_non_null(strstr(ai->assembly->note, paths[1]));
	assert_non_null(strstr(ai->assembly->note, "1048576"));
	array_close(ai);
}

static void test_file_cut_short_names_sizes(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_0, 0), make_member("b", 1, SB_V1_0, 1)};
	struct array_spec spec = spec_of(paths, 2);
	struct array_instance *ai;

	assert_int_equal(truncate(paths[1], MEMBER_BYTES / 2), 0);
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->degraded, 1);
	assert_int_equal(ai->assembly->member[1].verdict, ASM_UNREADABLE);
	assert_non_null(strstr(ai->assembly->member[1].why, "2097152 bytes"));
	array_close(ai);
}

/* ---- arrays without superblocks ------------------------------------------------------------- */

static struct array_spec build_of(const char **paths, uint32_t n, enum raid_level level)
{
	struct array_spec spec = spec_of(paths, n);

	spec.build = true;
	spec.level = level;
	return spec;
}

static void test_build_one_plain_file(void **state)
{
	const char *paths[] = {make_file("a", 1000 * 512 + 77)};
	struct array_spec spec = build_of(paths, 1, RAID_LEVEL_LINEAR);
	struct array_instance *ai;

	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_false(ai->read_only);
	assert_false(ai->assembly->metadata);
	assert_int_equal(ai->assembly->geometry.array_sectors, 1000);
	assert_non_null(strstr(ai->assembly->note, "last 77 bytes"));
	array_close(ai);
}

static void test_build_sizes(void **state)
{
	const char *paths[] = {make_file("a", 1 << 20), make_file("b", 2 << 20)};
	struct array_spec spec = build_of(paths, 2, RAID_LEVEL_1);
	struct array_instance *ai;

	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->geometry.array_sectors, 2048);
	array_close(ai);

	spec = build_of(paths, 2, RAID_LEVEL_LINEAR);
	spec.offset_bytes = 512 << 10;
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->geometry.array_sectors, 1024 + 3072);
	assert_int_equal(ai->assembly->geometry.p.slot[1].data_offset_sectors, 1024);
	array_close(ai);

	spec = build_of(paths, 2, RAID_LEVEL_10);
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_int_equal(ai->assembly->geometry.near, 2);
	assert_int_equal(ai->assembly->geometry.p.chunk_sectors, 128);
	array_close(ai);

	spec.offset_bytes = 100;
	assert_int_equal(array_open(&spec, &ai, why), -EINVAL);
	spec.offset_bytes = 1 << 20;
	assert_int_equal(array_open(&spec, &ai, why), -ENOSPC);
	spec.offset_bytes = UINT64_MAX - 511;
	assert_int_equal(array_open(&spec, &ai, why), -ENOSPC);
}

static void test_build_never_takes_what_is_not_there(void **state)
{
	const char *paths[] = {make_file("a", 1 << 20), path_of("nowhere")};
	struct array_spec spec = build_of(paths, 2, RAID_LEVEL_1);
	struct array_instance *ai;

	assert_int_equal(array_open(&spec, &ai, why), -ENOENT);
}

static void test_build_over_a_superblock(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_2, 0)};
	struct array_spec spec = build_of(paths, 1, RAID_LEVEL_LINEAR);
	struct array_instance *ai;

	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_true(ai->read_only);
	assert_true(ai->member[0].props.read_only);
	assert_int_equal(fcntl(ai->member[0].fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_non_null(strstr(ai->assembly->note, "superblock"));
	assert_non_null(strstr(ai->assembly->note, "--force"));
	array_close(ai);

	spec.force = true;
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_false(ai->read_only);
	array_close(ai);
}

static void test_build_over_a_damaged_superblock(void **state)
{
	const char *paths[] = {make_member("a", 1, SB_V1_2, 0)};
	struct array_spec spec = build_of(paths, 1, RAID_LEVEL_LINEAR);
	struct array_instance *ai;

	write_at(paths[0], 4096 + 200, "\1", 1);
	assert_int_equal(array_open(&spec, &ai, why), 0);
	assert_true(ai->read_only);
	array_close(ai);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_complete_mirror),
		cmocka_unit_test(test_absent_member_of_a_mirror),
		cmocka_unit_test(test_absent_member_that_is_needed),
		cmocka_unit_test(test_held_member_is_an_error),
		cmocka_unit_test(test_same_device_twice),
		cmocka_unit_test(test_bitmap_is_read),
		cmocka_unit_test(test_unsupported_feature_is_read_only),
		cmocka_unit_test(test_foreign_member_is_given_back),
		cmocka_unit_test(test_newest_of_several_superblocks),
		cmocka_unit_test(test_damaged_superblock),
		cmocka_unit_test(test_bad_blocks_are_read),
		cmocka_unit_test(test_grown_file_is_found_and_told),
		cmocka_unit_test(test_file_cut_short_names_sizes),
		cmocka_unit_test(test_build_one_plain_file),
		cmocka_unit_test(test_build_sizes),
		cmocka_unit_test(test_build_never_takes_what_is_not_there),
		cmocka_unit_test(test_build_over_a_superblock),
		cmocka_unit_test(test_build_over_a_damaged_superblock),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
