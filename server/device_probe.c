/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an opened member can do: size, alignment, direct I/O, hole punching. Every probe leaves the
 * member as it is; on one that is opened read-only nothing but reads is tried.
 */
#include "server/device_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "raid/base/bytes.h"
#include "raid/why.h"

bool device_sysfs(unsigned int maj, unsigned int min, const char *rel, char *buf, size_t size)
{
	static const char *const up[] = {"", "../"};
	char path[PATH_MAX];

	for (unsigned int i = 0; i < 2; i++) {
		FILE *f;
		bool ok;

		snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s%s", maj, min, up[i], rel);
		f = fopen(path, "re");
		if (!f) {
			continue;
		}
		ok = fgets(buf, (int)size, f) != NULL;
		fclose(f);
		if (ok) {
			buf[strcspn(buf, "\n")] = '\0';
			return true;
		}
	}
	return false;
}

static bool sysfs_nonzero(dev_t dev, const char *rel)
{
	char text[64];

	return device_sysfs(major(dev), minor(dev), rel, text, sizeof text) &&
	       strtoull(text, NULL, 10) > 0;
}

/* ---- direct I/O ----------------------------------------------------------------------------- */

static bool try_read(int fd, uint32_t len, uint64_t at)
{
	void *buf;
	bool ok;

	if (posix_memalign(&buf, RAID_PAGE_BYTES, len)) {
		return false;
	}
	ok = pread(fd, buf, len, (off_t)at) >= 0;
	free(buf);
	return ok;
}

/* Offset and buffer alignment that direct I/O on this file wants; 0 if it has none. */
static void file_alignment(int fd, uint32_t *offset_align, uint32_t *mem_align)
{
	*offset_align = *mem_align = 0;
#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
	    (sx.stx_mask & STATX_DIOALIGN)) {
		*offset_align = sx.stx_dio_offset_align;
		*mem_align = sx.stx_dio_mem_align;
		return;
	}
#endif
	/* an older kernel does not say: the smallest that works, with a buffer that always does */
	for (uint32_t n = RAID_SECTOR_BYTES; n <= RAID_PAGE_BYTES; n <<= 1) {
		if (try_read(fd, n, n)) {
			*offset_align = *mem_align = n;
			return;
		}
	}
}

/* The alignments when O_DIRECT is on; false if it cannot be used for this member. */
static bool direct_alignment(struct member_dev *dev, bool block)
{
	uint32_t offset_align = 0, mem_align = 0;
	uint64_t used = round_down_u64(dev->props.size_bytes, RAID_SECTOR_BYTES);

	file_alignment(dev->fd, &offset_align, &mem_align);
	if (block) {
		offset_align = dev->props.logical_block;
		mem_align = mem_align ? mem_align : offset_align;
	}
	if (!is_pow2_u64(offset_align) || !is_pow2_u64(mem_align) ||
	    offset_align > RAID_PAGE_BYTES || mem_align > RAID_PAGE_BYTES) {
		return false;
	}
	offset_align = (uint32_t)max_u64(offset_align, RAID_SECTOR_BYTES);
	if (used % offset_align) {
		return false; /* the last sectors of such a file can only be reached buffered */
	}
	if (!try_read(dev->fd, RAID_PAGE_BYTES, 0)) {
		return false;
	}
	dev->props.logical_block = offset_align;
	dev->props.mem_align = mem_align;
	return true;
}

static bool memory_backed(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* Decide between direct and buffered, and set the descriptor's flags accordingly. */
static int choose_direct(struct member_dev *dev, bool block, enum device_direct want,
			 char why[RAID_WHY_BYTES])
{
	int flags = fcntl(dev->fd, F_GETFL);
	int cause = EINVAL;

	if (flags < 0) {
		return why_set(why, -errno, "%s: %s", dev->path, strerror(errno));
	}
	flags &= ~(O_NONBLOCK | O_DIRECT);
	if (want == DEVICE_DIRECT_ON ||
	    (want == DEVICE_DIRECT_AUTO && (block || !memory_backed(dev->fd)))) {
		if (fcntl(dev->fd, F_SETFL, flags | O_DIRECT) < 0) {
			cause = errno;
		} else if (direct_alignment(dev, block)) {
			dev->direct = true;
		}
		if (dev->direct) {
			return 0;
		}
		if (want == DEVICE_DIRECT_ON) {
			return why_set(why, -cause,
				       "%s cannot be used with direct I/O (its file system "
				       "does not support it, or its size is no multiple of "
				       "the block size); use direct=auto or off",
				       dev->path);
		}
	}
	if (fcntl(dev->fd, F_SETFL, flags) < 0) {
		return why_set(why, -errno, "%s: %s", dev->path, strerror(errno));
	}
	return 0;
}

/* ---- holes ---------------------------------------------------------------------------------- */

/* Punching beyond the end with the size kept changes nothing and tells whether it is supported. */
static bool file_can_punch(const struct member_dev *dev)
{
	uint64_t beyond = round_up_u64(dev->props.size_bytes, 1 << 20) + (1 << 20);

	return fallocate(dev->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)beyond,
			 RAID_PAGE_BYTES) == 0;
}

/* Zeroing a range would allocate, so it is tried on a nameless file beside the member. */
static bool file_can_zero(const struct member_dev *dev)
{
	char dir[PATH_MAX];
	bool ok;
	int fd;

	if (!realpath(dev->path, dir)) {
		return false;
	}
	fd = open(dirname(dir), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		return false;
	}
	ok = ftruncate(fd, RAID_PAGE_BYTES) == 0 &&
	     fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, RAID_PAGE_BYTES) == 0;
	close(fd);
	return ok;
}

/* ---- kinds ---------------------------------------------------------------------------------- */

static int probe_block(struct member_dev *dev, const struct stat *st, char why[RAID_WHY_BYTES])
{
	struct raid_member_props *p = &dev->props;
	int logical = 0, read_only = 0;
	char cache[32];

	if (ioctl(dev->fd, BLKGETSIZE64, &p->size_bytes) < 0 ||
	    ioctl(dev->fd, BLKSSZGET, &logical) < 0 || ioctl(dev->fd, BLKROGET, &read_only) < 0) {
		return why_set(why, -errno, "%s does not tell its size: %s", dev->path,
			       strerror(errno));
	}
	if (logical < RAID_SECTOR_BYTES || logical > RAID_PAGE_BYTES ||
	    !is_pow2_u64((uint64_t)logical)) {
		return why_set(why, -ENOTSUP,
			       "%s has logical blocks of %d bytes; 512 to 4096 are supported",
			       dev->path, logical);
	}
	if (read_only && !p->read_only) {
		return why_set(why, -EROFS, "%s is a read-only device; use --readonly", dev->path);
	}
	p->logical_block = (uint32_t)logical;
	p->rotational = sysfs_nonzero(st->st_rdev, "queue/rotational");
	/* with this limit the kernel lets the device zero, else it would write zeroes itself */
	p->can_zero = p->can_punch = sysfs_nonzero(st->st_rdev, "queue/write_zeroes_max_bytes");
	p->volatile_cache = !(device_sysfs(major(st->st_rdev), minor(st->st_rdev),
					   "queue/write_cache", cache, sizeof cache) &&
			      strcmp(cache, "write through") == 0);
	return 0;
}

static void probe_file(struct member_dev *dev, const struct stat *st)
{
	struct raid_member_props *p = &dev->props;

	p->size_bytes = (uint64_t)st->st_size;
	p->logical_block = RAID_SECTOR_BYTES;
	p->rotational = sysfs_nonzero(st->st_dev, "queue/rotational");
	p->volatile_cache = true;
	if (!p->read_only) {
		p->can_punch = file_can_punch(dev);
		p->can_zero = file_can_zero(dev);
	}
}

int device_probe(struct member_dev *dev, const struct stat *st, const struct device_options *opt,
		 char why[RAID_WHY_BYTES])
{
	bool block = S_ISBLK(st->st_mode);
	int rc = 0;

	dev->volatile_cache = opt->volatile_cache;
	dev->props.read_only = opt->read_only || opt->unlocked;
	dev->props.mem_align = 1;
	if (block) {
		rc = probe_block(dev, st, why);
	} else {
		probe_file(dev, st);
	}
	if (rc == 0) {
		rc = choose_direct(dev, block, opt->direct, why);
	}
	if (dev->props.read_only) {
		dev->props.can_punch = dev->props.can_zero = false;
	}
	if (!dev->direct || opt->volatile_cache) {
		dev->props.volatile_cache = true;
	}
	return rc;
}
