/* SPDX-License-Identifier: BSD-3-Clause */
/* raid_io over a real ring and a temporary file: exactly one result for each io, whatever the
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/member_io.h"

enum { FILE_BYTES = 1 << 20, IOS = 100 };

struct rig {
	struct ring *ring;
	struct member_io members;
	struct member_port port;
	struct member_dev dev;
	char path[64];
	uint8_t *buf;
};

static struct rig *rig_new(void)
{
	struct rig *r = calloc(1, sizeof *r);
	char why[RAID_WHY_BYTES];

	assert_int_equal(ring_create(&r->ring, why), 0);
	assert_int_equal(ring_enable(r->ring, why), 0);
	assert_int_equal(member_io_init(&r->members, r->ring), 0);
	snprintf(r->path, sizeof r->path, "/tmp/test_member_io.XXXXXX");
	r->dev.fd = mkstemp(r->path);
	assert_true(r->dev.fd >= 0);
	assert_int_equal(ftruncate(r->dev.fd, FILE_BYTES), 0);
	assert_int_equal(member_port_init(&r->port, &r->dev, r), 0);
	r->buf = aligned_alloc(4096, FILE_BYTES);
	return r;
}

static void rig_free(struct rig *r)
{
	assert_int_equal(r->members.used, 0);
	member_port_free(&r->port);
	member_io_free(&r->members);
	ring_destroy(r->ring);
	close(r->dev.fd);
	unlink(r->path);
	free(r->buf);
	free(r);
}

/* The next result; fails the test when none comes. */
static struct member_result next(struct rig *r)
{
	struct member_result result;
	struct ring_event ev;

	for (int turns = 0; turns < 10000; turns++) {
		if (member_io_next(&r->members, &result)) {
			return result;
		}
		while (ring_reap(r->ring, &ev, 1)) {
			if (ev.user.kind == RING_MEMBER &&
			    member_io_event(&r->members, &ev, &result)) {
				return result;
			}
		}
		member_io_end_turn(&r->members);
		assert_int_equal(ring_wait(r->ring, 1000000), 0);
	}
	fail_msg("no result came");
	return (struct member_result){0};
}

static int run(struct rig *r, struct raid_io *io)
{
	struct member_result result;

	list_init(&io->link);
	member_io_start(&r->members, &r->port, io);
	result = next(r);
	assert_ptr_equal(result.io, io);
	assert_ptr_equal(result.port, &r->port);
	return result.res;
}

static void test_several_vectors(void **state)
{
	struct rig *r = rig_new();
	struct iovec iov[3] = {{r->buf, 512}, {r->buf + 8192, 4096}, {r->buf + 4096, 512}};
	struct raid_io io = {
		.op = RAID_IO_WRITE, .maddr = 1024, .len = 5120, .iov = iov, .iovcnt = 3};
	uint8_t file[5120];

	for (int i = 0; i < 16384; i++) {
		r->buf[i] = (uint8_t)(i * 7);
	}
	assert_int_equal(run(r, &io), 0);
	assert_int_equal(pread(r->dev.fd, file, sizeof file, 1024), sizeof file);
	assert_memory_equal(file, r->buf, 512);
	assert_memory_equal(file + 512, r->buf + 8192, 4096);
	assert_memory_equal(file + 4608, r->buf + 4096, 512);
	memset(r->buf, 0, 16384);
	io.op = RAID_IO_READ;
	assert_int_equal(run(r, &io), 0);
	assert_memory_equal(r->buf + 8192, file + 512, 4096);
	rig_free(r);
}

/* A short transfer is continued, inside a vector and at a border of two; then the file ends. */
static void test_short_read_is_continued_to_the_end_of_file(void **state)
{
	struct rig *r = rig_new();
	struct iovec iov[2] = {{r->buf, 8192}, {r->buf + 8192, 8192}};
	struct raid_io io = {.op = RAID_IO_READ,
			     .maddr = FILE_BYTES - 16384,
			     .len = 16384,
			     .iov = iov,
			     .iovcnt = 2};

	assert_int_equal(run(r, &io), 0);
	assert_int_equal(ftruncate(r->dev.fd, FILE_BYTES - 4096), 0);
	assert_int_equal(run(r, &io), -EIO);
	assert_int_equal(ftruncate(r->dev.fd, FILE_BYTES - 8192), 0);
	assert_int_equal(run(r, &io), -EIO);
	io.maddr = FILE_BYTES * 2;
	assert_int_equal(run(r, &io), -EIO);
	rig_free(r);
}

/* A write behind the end would make the file long again, with zeroes for what is lost. */
static void test_a_file_that_shrank_is_not_made_longer(void **state)
{
	struct rig *r = rig_new();
	struct iovec iov = {r->buf, 4096};
	struct raid_io io = {.op = RAID_IO_READ,
			     .maddr = FILE_BYTES - 4096,
			     .len = 4096,
			     .iov = &iov,
			     .iovcnt = 1};
	struct stat st;

	assert_int_equal(ftruncate(r->dev.fd, FILE_BYTES / 2), 0);
	assert_int_equal(run(r, &io), -EIO);
	io.op = RAID_IO_WRITE;
	assert_int_equal(run(r, &io), -EIO);
	io.op = RAID_IO_ZERO;
	assert_int_equal(run(r, &io), -EIO);
	assert_int_equal(fstat(r->dev.fd, &st), 0);
	assert_int_equal(st.st_size, FILE_BYTES / 2);
	io.op = RAID_IO_READ;
	io.maddr = 0;
	assert_int_equal(run(r, &io), 0);
	rig_free(r);
}

static void test_flush_zero_and_discard(void **state)
{
	struct rig *r = rig_new();
	struct iovec iov = {r->buf, 65536};
	struct raid_io write = {
		.op = RAID_IO_WRITE, .len = 65536, .iov = &iov, .iovcnt = 1, .fua = true};
	struct raid_io other = {.op = RAID_IO_FLUSH};
	uint8_t file[65536], zero[8192] = {0};
	struct stat st;

	memset(r->buf, 0x5a, 65536);
	assert_int_equal(run(r, &write), 0);
	assert_int_equal(run(r, &other), 0);
	other = (struct raid_io){.op = RAID_IO_ZERO, .maddr = 4096, .len = 8192};
	assert_int_equal(run(r, &other), 0);
	other = (struct raid_io){.op = RAID_IO_DISCARD, .maddr = 32768, .len = 8192};
	assert_int_equal(run(r, &other), 0);
	assert_int_equal(pread(r->dev.fd, file, sizeof file, 0), sizeof file);
	assert_memory_equal(file, r->buf, 4096);
	assert_memory_equal(file + 4096, zero, sizeof zero);
	assert_memory_equal(file + 12288, r->buf, 32768 - 12288);
	assert_memory_equal(file + 32768, zero, sizeof zero);
	assert_int_equal(fstat(r->dev.fd, &st), 0);
	assert_int_equal(st.st_size, FILE_BYTES);
	rig_free(r);
}

/* More than may occupy workers: the rest waits its turn, all are answered, reads pass them. */
static void test_workers_are_capped(void **state)
{
	struct rig *r = rig_new();
	struct iovec iov = {r->buf, 4096};
	struct raid_io *ios = calloc(IOS, sizeof *ios);
	bool seen[IOS] = {false};

	memset(r->buf, 1, 4096);
	for (int i = 0; i < IOS; i++) {
		ios[i] = (struct raid_io){.op = i % 10 == 9 ? RAID_IO_READ : RAID_IO_WRITE,
					  .maddr = i * 4096,
					  .len = 4096,
					  .iov = &iov,
					  .iovcnt = 1};
		list_init(&ios[i].link);
		member_io_start(&r->members, &r->port, &ios[i]);
		assert_true(r->port.workers <= MEMBER_WORKERS_MAX);
	}
	member_io_end_turn(&r->members);
	assert_int_equal(r->members.used, MEMBER_WORKERS_MAX + IOS / 10);
	for (int i = 0; i < IOS; i++) {
		struct member_result result = next(r);
		ptrdiff_t at = result.io - ios;

		assert_int_equal(result.res, 0);
		assert_true(at >= 0 && at < IOS && !seen[at]);
		seen[at] = true;
		assert_true(r->port.workers <= MEMBER_WORKERS_MAX);
	}
	free(ios);
	rig_free(r);
}

/* Buffered reads wait for the end of a turn, and no more of them go than it may hand over. */
static void test_cached_reads_are_bounded_by_turn(void **state)
{
	enum { IO_BYTES = MEMBER_TURN_BYTES / 2, READS = 5 };
	struct rig *r = rig_new();
	uint8_t *buf = calloc(1, IO_BYTES);
	struct iovec iov = {buf, IO_BYTES};
	struct raid_io ios[READS];

	for (int i = 0; i < READS; i++) {
		ios[i] = (struct raid_io){
			.op = RAID_IO_READ, .len = IO_BYTES, .iov = &iov, .iovcnt = 1};
		list_init(&ios[i].link);
		member_io_start(&r->members, &r->port, &ios[i]);
	}
	assert_int_equal(r->members.used, 0);
	member_io_end_turn(&r->members);
	assert_int_equal(r->members.used, 2);
	assert_false(list_empty(&r->members.later));
	member_io_cancel(&r->members, &ios[READS - 1]); /* never started: gone at once */
	for (int i = 0; i < READS; i++) {
		struct member_result result = next(r);

		assert_int_equal(result.res, result.io == &ios[READS - 1] ? -ECANCELED : 0);
	}
	assert_true(list_empty(&r->members.later));
	free(buf);
	rig_free(r);
}

static void test_cancel(void **state)
{
	struct rig *r = rig_new();
	struct iovec iov = {r->buf, 4096};
	struct raid_io ios[MEMBER_WORKERS_MAX + 2];
	int cancelled = 0;

	for (int i = 0; i < MEMBER_WORKERS_MAX + 2; i++) {
		ios[i] = (struct raid_io){
			.op = RAID_IO_WRITE, .len = 4096, .iov = &iov, .iovcnt = 1};
		list_init(&ios[i].link);
		member_io_start(&r->members, &r->port, &ios[i]);
	}
	member_io_cancel(&r->members, &ios[MEMBER_WORKERS_MAX + 1]); /* waits for a worker */
	member_io_cancel(&r->members, &ios[MEMBER_WORKERS_MAX + 1]); /* twice is once */
	member_io_cancel(&r->members, &ios[0]); /* queued for the kernel: either way is right */
	for (int i = 0; i < MEMBER_WORKERS_MAX + 2; i++) {
		struct member_result result = next(r);

		assert_true(result.res == 0 || result.res == -ECANCELED || result.res == -EINTR);
		cancelled += result.io == &ios[MEMBER_WORKERS_MAX + 1] && result.res == -ECANCELED;
	}
	assert_int_equal(cancelled, 1);
	rig_free(r);
}

/* A member that is not part of the array has no descriptor and takes no io. */
static void test_port_without_descriptor(void **state)
{
	struct member_dev dev = {.fd = -1};
	struct member_port port;

	assert_int_equal(member_port_init(&port, &dev, NULL), 0);
	assert_int_equal(port.fd, -1);
	member_port_free(&port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_several_vectors),
		cmocka_unit_test(test_short_read_is_continued_to_the_end_of_file),
		cmocka_unit_test(test_a_file_that_shrank_is_not_made_longer),
		cmocka_unit_test(test_flush_zero_and_discard),
		cmocka_unit_test(test_workers_are_capped),
		cmocka_unit_test(test_cached_reads_are_bounded_by_turn),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_port_without_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
