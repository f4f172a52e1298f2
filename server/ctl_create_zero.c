/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * create --write-zeroes: make the data of all members zero, so that copies and parity are equal
 * from the start. By the device itself where it can, which takes seconds, else by writing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "server/ctl_create.h"

enum { PIECE_BYTES = 1 << 20 };

/* Holes of a file read as zeroes too; those that must not be sparse are filled again. */
static int zero_by_device(const struct create_args *a, const struct create_member *m, off_t at,
			  off_t len)
{
	if (fallocate(m->dev.fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, at, len) == 0) {
		return 0;
	}
	if (!m->regular ||
	    fallocate(m->dev.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len) < 0) {
		return -errno;
	}
	return a->sparse || fallocate(m->dev.fd, 0, at, len) == 0 ? 0 : -errno;
}

static int zero_by_writing(const struct create_member *m, uint64_t at, uint64_t end)
{
	void *zeroes = calloc(1, PIECE_BYTES);
	int rc = zeroes ? 0 : -ENOMEM;

	while (rc == 0 && at < end) {
		uint32_t n = (uint32_t)min_u64(end - at, PIECE_BYTES);

		rc = device_write(&m->dev, at, zeroes, n);
		at += n;
	}
	free(zeroes);
	return rc;
}

int create_zero_data(struct create_args *a)
{
	for (uint32_t i = 0; i < a->params.slots; i++) {
		const struct create_member *m = &a->member[i];
		const struct sb *sb = &a->plan.sb[i];
		uint64_t at = sb->data_offset * RAID_SECTOR_BYTES;
		uint64_t len = (sb->size ? sb->size : sb->data_size) * RAID_SECTOR_BYTES;
		int rc;

		if (!m->path || m->made) {
			continue;
		}
		rc = zero_by_device(a, m, (off_t)at, (off_t)len);
		if (rc == -EOPNOTSUPP || rc == -ENODEV) {
			rc = zero_by_writing(m, at, at + len);
		}
		if (rc == 0) {
			rc = device_flush(&m->dev);
		}
		if (rc < 0) {
			return ctl_refused("cannot zero the data of %s: %s", m->path,
					   strerror(-rc));
		}
	}
	return CTL_OK;
}
