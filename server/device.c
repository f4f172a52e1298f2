/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening, locking and plain transfers of a member.
 *
 * The lock is on the open file description that all I/O uses, so it is there for exactly as long
 * as anything can still be written, also after a kill -9: an io_uring worker's reference keeps it.
 *   block device, read-write: O_EXCL (keeps out md, mounts, dm) and flock LOCK_EX (udev and our
 *       read-only starts respect it)
 *   block device, read-only:  O_EXCL and LOCK_SH; a second reader finds O_EXCL taken and goes on
 *       with LOCK_SH alone, but only if it is another flock holder that has it
 *   file: flock LOCK_EX, read-only LOCK_SH
 * What is found on the device, or in /sys and /proc, is an answer or an error, never a CHECK.
 */
#include "server/device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"
#include "server/device_internal.h"

enum { LOCK_POLL_MS = 50 };

static uint64_t mono_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* O_EXCL is taken: may we read beside the one who has it? Only beside another shared lock. */
static int open_beside_reader(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		return -errno;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 || flock(fd, LOCK_SH | LOCK_NB) < 0) {
		close(fd); /* nobody holds a flock: the holder is no reader of ours */
		return -EBUSY;
	}
	return fd;
}

/* One attempt. Returns the descriptor, -EBUSY if another holds the lock, or another -errno. */
static int open_locked(const char *path, bool block, const struct device_options *opt)
{
	bool read_only = opt->read_only || opt->unlocked;
	int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK |
		    (block && !opt->unlocked ? O_EXCL : 0);
	int fd = open(path, flags);
	int err;

	if (fd < 0 && errno == EBUSY && read_only) {
		return open_beside_reader(path);
	}
	if (fd < 0) {
		return -errno;
	}
	if (opt->unlocked) {
		return fd;
	}
	if (flock(fd, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
		err = errno == EWOULDBLOCK ? EBUSY : errno;
		close(fd);
		return -err;
	}
	return fd;
}

static int busy(const char *path, const struct stat *st, uint32_t waited_ms,
		char why[RAID_WHY_BYTES])
{
	char holder[RAID_WHY_BYTES];

	if (device_holder(path, st, holder)) {
		return why_set(why, -EBUSY, "%s %s", path, holder);
	}
	return why_set(why, -EBUSY,
		       "%s is locked by another program (waited %u ms); stop the nbd-raidd or "
		       "tool that uses it (`fuser -v %s` names it)",
		       path, waited_ms, path);
}

/* Poll for the lock until lock_wait_ms have passed. Returns the descriptor or -errno with why. */
static int wait_for_lock(const char *path, const struct stat *st, const struct device_options *opt,
			 char why[RAID_WHY_BYTES])
{
	uint64_t end_ms = mono_ms() + opt->lock_wait_ms;
	char holder[RAID_WHY_BYTES];

	for (;;) {
		int fd = open_locked(path, S_ISBLK(st->st_mode), opt);

		if (fd >= 0) {
			return fd;
		}
		if (fd != -EBUSY) {
			return why_set(why, fd, "cannot open %s: %s", path, strerror(-fd));
		}
		/* md, a mount or the like does not go away by itself */
		if (mono_ms() >= end_ms || device_holder(path, st, holder)) {
			return busy(path, st, opt->lock_wait_ms, why);
		}
		poll(NULL, 0, LOCK_POLL_MS);
	}
}

bool device_same(const char *path_a, const char *path_b)
{
	struct stat a, b;

	if (stat(path_a, &a) < 0 || stat(path_b, &b) < 0) {
		return false;
	}
	return (a.st_dev == b.st_dev && a.st_ino == b.st_ino) ||
	       (S_ISBLK(a.st_mode) && S_ISBLK(b.st_mode) && a.st_rdev == b.st_rdev);
}

bool device_is(const struct member_dev *dev, const char *path)
{
	struct stat a, b;

	if (dev->fd < 0 || fstat(dev->fd, &a) < 0 || stat(path, &b) < 0) {
		return !strcmp(dev->path, path);
	}
	return (a.st_dev == b.st_dev && a.st_ino == b.st_ino) ||
	       (S_ISBLK(a.st_mode) && S_ISBLK(b.st_mode) && a.st_rdev == b.st_rdev);
}

/* The name may have been given to another file while we waited for the lock. */
static bool same_file(const char *path, const struct stat *st)
{
	struct stat now;

	return stat(path, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino;
}

int device_open(const char *path, const struct device_options *opt, struct member_dev *out,
		char why[RAID_WHY_BYTES])
{
	struct stat st;
	char holder[RAID_WHY_BYTES];
	int rc;

	memset(out, 0, sizeof *out);
	out->fd = -1;
	if (stat(path, &st) < 0) {
		rc = errno;
		return why_set(why, -rc, "cannot open %s: %s", path, strerror(rc));
	}
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
		return why_set(why, -ENOTBLK, "%s is neither a block device nor a file", path);
	}
	rc = wait_for_lock(path, &st, opt, why);
	if (rc < 0) {
		return rc;
	}
	out->fd = rc;
	if (fstat(out->fd, &st) < 0 || !same_file(path, &st)) {
		device_close(out);
		return why_set(why, -ESTALE, "%s was replaced while it was opened; try again",
			       path);
	}
	/* a file may be read beside a loop device, nothing else is shared with other users */
	if (!opt->unlocked && (S_ISBLK(st.st_mode) || !opt->read_only) &&
	    device_holder(path, &st, holder)) {
		device_close(out);
		return why_set(why, -EBUSY, "%s %s", path, holder);
	}
	out->path = strdup(path);
	if (!out->path) {
		device_close(out);
		return why_set(why, -ENOMEM, "out of memory");
	}
	rc = device_probe(out, &st, opt, why);
	if (rc < 0) {
		device_close(out);
	}
	return rc;
}

void device_close(struct member_dev *dev)
{
	if (dev->fd >= 0) {
		close(dev->fd);
	}
	free(dev->path);
	dev->fd = -1;
	dev->path = NULL;
}

/* ---- transfers ------------------------------------------------------------------------------ */

static int read_full(int fd, uint8_t *buf, uint64_t at, uint64_t want, uint64_t needed)
{
	uint64_t got = 0;

	while (got < needed) {
		ssize_t n = pread(fd, buf + got, want - got, (off_t)(at + got));

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -errno;
		}
		if (n == 0) {
			return -EIO; /* end of file: it is shorter than it was */
		}
		got += (uint64_t)n;
	}
	return 0;
}

static int write_full(int fd, const uint8_t *buf, uint64_t at, uint64_t len)
{
	uint64_t put = 0;

	while (put < len) {
		ssize_t n = pwrite(fd, buf + put, len - put, (off_t)(at + put));

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		put += (uint64_t)n;
	}
	return 0;
}

/* What must be transferred to cover [maddr, maddr+len), and a buffer for it. */
struct bounce {
	uint64_t start, end;
	uint8_t *buf;
};

static int bounce_init(struct bounce *b, const struct member_dev *dev, uint64_t maddr, uint32_t len)
{
	uint64_t unit = dev->direct ? dev->props.logical_block : 1;
	void *mem;

	if (maddr > dev->props.size_bytes || len > dev->props.size_bytes - maddr) {
		return -EINVAL;
	}
	b->start = round_down_u64(maddr, unit);
	b->end = round_up_u64(maddr + len, unit);
	if (posix_memalign(&mem, RAID_PAGE_BYTES, max_u64(b->end - b->start, 1))) {
		return -ENOMEM;
	}
	b->buf = mem;
	return 0;
}

int device_read(const struct member_dev *dev, uint64_t maddr, void *buf, uint32_t len)
{
	struct bounce b;
	int rc = bounce_init(&b, dev, maddr, len);

	if (rc < 0) {
		return rc;
	}
	rc = read_full(dev->fd, b.buf, b.start, b.end - b.start, maddr + len - b.start);
	if (rc == 0) {
		memcpy(buf, b.buf + (maddr - b.start), len);
	}
	free(b.buf);
	return rc;
}

int device_write(const struct member_dev *dev, uint64_t maddr, const void *buf, uint32_t len)
{
	struct bounce b;
	int rc;

	CHECK(!dev->props.read_only);
	rc = bounce_init(&b, dev, maddr, len);
	if (rc < 0) {
		return rc;
	}
	if (b.start != maddr || b.end != maddr + len) {
		rc = read_full(dev->fd, b.buf, b.start, b.end - b.start, b.end - b.start);
	}
	if (rc == 0) {
		memcpy(b.buf + (maddr - b.start), buf, len);
		rc = write_full(dev->fd, b.buf, b.start, b.end - b.start);
	}
	free(b.buf);
	return rc;
}

int device_flush(const struct member_dev *dev)
{
	return fdatasync(dev->fd) < 0 ? -errno : 0;
}
