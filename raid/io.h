/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One I/O to one member, as data: the whole interface between the engine and what moves bytes
 * (the io_uring backend of the daemon, the simulated disks of raid-sim).
 *
 * Ownership: from raid_next_io() to raid_complete() the struct and every byte its iovec names
 * belong to the backend, whatever happens meanwhile (deadline, member failure, stop). Exactly one
 * completion per io, in any order.
 *
 * Result: 0 or -errno, all or nothing. The backend finishes short transfers itself; a read that
 * meets the end of a file is -EIO. After an error on a write any part of it may have reached the
 * medium.
 */
#ifndef RAID_IO_H
#define RAID_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "raid/base/list.h"

enum raid_io_op {
	RAID_IO_READ,
	RAID_IO_WRITE,
	RAID_IO_FLUSH,	 /* covers the writes completed before it was issued; no range, no iovec */
	RAID_IO_DISCARD, /* punch a hole, size kept: the range reads as zeroes afterwards */
	RAID_IO_ZERO,	 /* write zeroes, keep the range allocated (NO_HOLE); no iovec */
};

struct raid_io {
	struct list link; /* free for the backend's use between next_io and complete */
	enum raid_io_op op;
	bool fua; /* WRITE only: durable before the completion (RWF_DSYNC) */
	/* The engine gave up waiting and would like the io back: see raid_next_cancel(). */
	bool cancelled;
	uint32_t member; /* index of the member as given to raid_create() */
	uint64_t maddr;	 /* bytes, multiple of the member's logical block */
	uint64_t len;	 /* bytes, multiple of the member's logical block; 0 for FLUSH */
	const struct iovec
		*iov; /* READ, WRITE: lengths add up to len; addresses aligned as mem_align */
	uint32_t iovcnt;
	uint64_t backend[2]; /* scratch of the backend: start time, retry offset … */
};

#endif
