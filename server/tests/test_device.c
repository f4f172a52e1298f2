/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, locking, measuring and plain transfers of file members. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "raid/base/bytes.h"
#include "server/device.h"

#define MIB (1u << 20)

static char dir[256];
static char why[RAID_WHY_BYTES];

static const char *path_of(const char *name)
{
	static char path[4][512];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static const char *make_file(const char *name, uint64_t bytes)
{
	const char *path = path_of(name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
	return path;
}

static void poke(const char *path, uint64_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
	close(fd);
}

static int open_as(const char *path, bool read_only, enum device_direct direct,
		   struct member_dev *dev)
{
	struct device_options opt = {.read_only = read_only, .direct = direct};

	return device_open(path, &opt, dev, why);
}

static int setup(void **state)
{
	snprintf(dir, sizeof dir, "%s/test-device-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = {"a", "b", "fifo"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		unlink(path_of(names[i]));
	}
	return rmdir(dir);
}

static void test_properties_of_a_file(void **state)
{
	const char *path = make_file("a", 3 * MIB + 700);
	struct member_dev dev;

	assert_int_equal(open_as(path, false, DEVICE_DIRECT_OFF, &dev), 0);
	assert_string_equal(dev.path, path);
	assert_false(dev.direct);
	assert_int_equal(dev.props.size_bytes, 3 * MIB + 700);
	assert_int_equal(dev.props.logical_block, 512);
	assert_int_equal(dev.props.mem_align, 1);
	assert_true(dev.props.volatile_cache);
	assert_false(dev.props.read_only);
	device_close(&dev);

	assert_int_equal(open_as(path, true, DEVICE_DIRECT_OFF, &dev), 0);
	assert_true(dev.props.read_only);
	assert_false(dev.props.can_punch);
	assert_false(dev.props.can_zero);
	device_close(&dev);
}

/* Whatever direct=auto finds, what it says about alignment must be true of real transfers. */
static void test_auto_alignment_is_honest(void **state)
{
	const char *path = make_file("a", MIB);
	struct member_dev dev;
	void *mem = NULL;

	assert_int_equal(open_as(path, false, DEVICE_DIRECT_AUTO, &dev), 0);
	assert_int_equal(!!(fcntl(dev.fd, F_GETFL) & O_DIRECT), dev.direct);
	assert_int_equal(posix_memalign(&mem, 4096, 2 * 4096), 0);
	memset(mem, 7, 2 * 4096);
	assert_int_equal(pwrite(dev.fd, (char *)mem + dev.props.mem_align, dev.props.logical_block,
				(off_t)dev.props.logical_block),
			 dev.props.logical_block);
	assert_int_equal(pread(dev.fd, (char *)mem + dev.props.mem_align, dev.props.logical_block,
			       (off_t)(MIB - dev.props.logical_block)),
			 dev.props.logical_block);
	free(mem);
	device_close(&dev);
}

static void test_opening_changes_nothing(void **state)
{
	const char *path = make_file("a", 2 * MIB);
	struct stat before, after;
	struct member_dev dev;

	poke(path, MIB, "x", 1);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(open_as(path, false, DEVICE_DIRECT_AUTO, &dev), 0);
	device_close(&dev);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(before.st_blocks, after.st_blocks);
}

static void test_writer_excludes_everyone(void **state)
{
	const char *path = make_file("a", MIB);
	struct member_dev one, two;

	assert_int_equal(open_as(path, false, DEVICE_DIRECT_OFF, &one), 0);
	assert_int_equal(open_as(path, false, DEVICE_DIRECT_OFF, &two), -EBUSY);
	assert_non_null(strstr(why, path));
	assert_non_null(strstr(why, "locked by another program"));
	assert_int_equal(two.fd, -1);
	assert_int_equal(open_as(path, true, DEVICE_DIRECT_OFF, &two), -EBUSY);
	device_close(&one);
	assert_int_equal(open_as(path, false, DEVICE_DIRECT_OFF, &two), 0);
	device_close(&two);
}

static void test_readers_share(void **state)
{
	const char *path = make_file("a", MIB);
	struct member_dev one, two, three;

	assert_int_equal(open_as(path, true, DEVICE_DIRECT_OFF, &one), 0);
	assert_int_equal(open_as(path, true, DEVICE_DIRECT_OFF, &two), 0);
	assert_int_equal(open_as(path, false, DEVICE_DIRECT_OFF, &three), -EBUSY);
	device_close(&one);
	device_close(&two);
}

static struct member_dev held;

static void let_go(int sig)
{
	close(held.fd);
}

static void test_lock_is_waited_for(void **state)
{
	const char *path = make_file("a", MIB);
	struct device_options opt = {.direct = DEVICE_DIRECT_OFF, .lock_wait_ms = 20000};
	struct itimerval soon = {.it_value = {.tv_usec = 120000}};
	struct member_dev dev;

	assert_int_equal(open_as(path, false, DEVICE_DIRECT_OFF, &held), 0);
	signal(SIGALRM, let_go);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(device_open(path, &opt, &dev, why), 0);
	signal(SIGALRM, SIG_DFL);
	device_close(&dev);
	held.fd = -1;
	device_close(&held);
}

static void test_what_is_no_member(void **state)
{
	struct member_dev dev;

	assert_int_equal(open_as(path_of("b"), false, DEVICE_DIRECT_OFF, &dev), -ENOENT);
	assert_non_null(strstr(why, "No such file"));
	assert_int_equal(open_as(dir, true, DEVICE_DIRECT_OFF, &dev), -ENOTBLK);
	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	assert_int_equal(open_as(path_of("fifo"), false, DEVICE_DIRECT_OFF, &dev), -ENOTBLK);
	assert_int_equal(open_as("/dev/null", false, DEVICE_DIRECT_OFF, &dev), -ENOTBLK);
}

static void test_transfers_at_any_offset(void **state)
{
	static const enum device_direct modes[] = {DEVICE_DIRECT_OFF, DEVICE_DIRECT_AUTO};
	static const struct {
		uint32_t at, len;
	} ranges[] = {{0, 512}, {1, 1}, {511, 2}, {4095, 4098}, {MIB - 7, 7}, {MIB, 0}};

	for (size_t m = 0; m < 2; m++) {
		uint8_t model[MIB], got[8192], put[8192];
		struct member_dev dev;

		memset(model, 0, sizeof model);
		assert_int_equal(open_as(make_file("a", MIB), false, modes[m], &dev), 0);
		for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
			memset(put, (int)(i + 1), sizeof put);
			memcpy(model + ranges[i].at, put, ranges[i].len);
			assert_int_equal(device_write(&dev, ranges[i].at, put, ranges[i].len), 0);
		}
		assert_int_equal(device_flush(&dev), 0);
		for (uint32_t at = 0; at < MIB; at += sizeof got) {
			assert_int_equal(device_read(&dev, at, got, sizeof got), 0);
			assert_memory_equal(got, model + at, sizeof got);
		}
		assert_int_equal(device_read(&dev, MIB - 7, got, 8), -EINVAL);
		assert_int_equal(device_write(&dev, UINT64_MAX - 3, put, 8), -EINVAL);
		device_close(&dev);
	}
}

static void test_file_cut_short_is_an_io_error(void **state)
{
	const char *path = make_file("a", MIB);
	struct member_dev dev;
	uint8_t buf[4096];

	assert_int_equal(open_as(path, false, DEVICE_DIRECT_AUTO, &dev), 0);
	assert_int_equal(truncate(path, MIB / 2), 0);
	assert_int_equal(device_read(&dev, MIB / 2 - 4096, buf, sizeof buf), 0);
	assert_int_equal(device_read(&dev, MIB / 2 - 100, buf, sizeof buf), -EIO);
	device_close(&dev);
}

static void test_signatures(void **state)
{
	const char *path = make_file("a", 4 * MIB);
	struct member_dev dev;
	uint8_t swap[4096] = {0}, mbr[512] = {0};
	char what[RAID_WHY_BYTES];

	assert_int_equal(open_as(path, true, DEVICE_DIRECT_AUTO, &dev), 0);
	assert_false(device_signature(&dev, what));
	device_close(&dev);

	put_le32(swap + 1024, 1);    /* version */
	put_le32(swap + 1028, 1023); /* last page */
	memcpy(swap + 4086, "SWAPSPACE2", 10);
	poke(path, 0, swap, sizeof swap);
	assert_int_equal(open_as(path, true, DEVICE_DIRECT_AUTO, &dev), 0);
	assert_true(device_signature(&dev, what));
	assert_string_equal(what, "swap");
	device_close(&dev);

	path = make_file("a", 4 * MIB);
	mbr[446 + 4] = 0x83;
	put_le32(mbr + 446 + 8, 2048);
	put_le32(mbr + 446 + 12, 2048);
	put_le16(mbr + 510, 0xaa55);
	poke(path, 0, mbr, sizeof mbr);
	assert_int_equal(open_as(path, true, DEVICE_DIRECT_AUTO, &dev), 0);
	assert_true(device_signature(&dev, what));
	assert_string_equal(what, "dos partition table");
	device_close(&dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_properties_of_a_file),
		cmocka_unit_test(test_auto_alignment_is_honest),
		cmocka_unit_test(test_opening_changes_nothing),
		cmocka_unit_test(test_writer_excludes_everyone),
		cmocka_unit_test(test_readers_share),
		cmocka_unit_test(test_lock_is_waited_for),
		cmocka_unit_test(test_what_is_no_member),
		cmocka_unit_test(test_transfers_at_any_offset),
		cmocka_unit_test(test_file_cut_short_is_an_io_error),
		cmocka_unit_test(test_signatures),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
