/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Member devices as the OS shows them: open, lock, measure, look for superblocks and signatures.
 * Control plane and nbd-raidctl only: these calls block. Nothing here decides about arrays.
 */
#ifndef SERVER_DEVICE_H
#define SERVER_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/assemble.h"
#include "server/export.h"

enum device_direct { DEVICE_DIRECT_AUTO, DEVICE_DIRECT_ON, DEVICE_DIRECT_OFF };

struct device_options {
	bool read_only; /* open read-only, lock shared; nothing is ever written */
	/* Only look (examine): opened read-only without any lock, while others may write it. Never
	 * for an array that is to run. */
	bool unlocked;
	enum device_direct direct;
	uint32_t lock_wait_ms; /* how long a lock held by another may be waited for (daemon: 10000)
				*/
	bool volatile_cache;   /* test members: see member_dev */
};

/*
 * Open and lock (O_EXCL on block devices, flock on files, shared if read-only, on the descriptor
 * the I/O will use), fill props. Returns 0 or -errno; why names the path, the cause and what to do:
 * a device held by md is reported with the md device and its `mdadm --stop` line.
 */
int device_open(const char *path, const struct device_options *opt, struct member_dev *out,
		char why[RAID_WHY_BYTES]);
void device_close(struct member_dev *dev); /* also after a failed open */

/* Do two paths name the same device or file? A second open would wait for our own lock. */
bool device_same(const char *path_a, const char *path_b);

/*
 * Read what asm_decide() wants to know: superblock at each location (most recent ctime wins when
 * several are valid), bad-block log, begin of the bitmap. Fills cand whole, errors included;
 * cand->name is dev->path.
 */
void device_candidate(const struct member_dev *dev, struct asm_candidate *cand);

/*
 * The bits of an ASM_BITMAP_CURRENT, packed as on disk without the header: device_bitmap_bytes() of
 * them, from its member. 0 or -errno.
 */
int device_read_bitmap(const struct member_dev *dev, const struct asm_bitmap *bitmap,
		       uint8_t *bits);
uint64_t device_bitmap_bytes(const struct asm_bitmap *bitmap);

/*
 * Is this what device_open() says of a device that is not there or does not answer (against one
 * that others hold, or that we may not open)? A redundant array starts without such a member; then
 * device_absent_candidate() stands for it: unreadable, with rc and why from device_open().
 */
bool device_is_absent(int rc);
void device_absent_candidate(const char *path, int rc, const char why[RAID_WHY_BYTES],
			     struct asm_candidate *cand);

/* Give candidates without superblock a second look at the place a sibling's data_size implies
 * (grown files). */
void device_grown_candidates(const struct member_dev *dev, uint32_t count,
			     struct asm_candidate *cand);

/*
 * The block devices of this machine that carry a superblock of the array, by their names under
 * /dev, in no order; looked at without a lock. *paths is malloc'ed, as is each of them: give it to
 * device_scan_free(). 0, or -errno with the reason in why (none found: -ENOENT).
 */
int device_scan(const uint8_t uuid[16], char ***paths, uint32_t *count, char why[RAID_WHY_BYTES]);
void device_scan_free(char **paths, uint32_t count);

/* Of which array does a device carry a superblock? Looked at without a lock. False: of none. */
bool device_set_uuid(const char *path, uint8_t uuid[16]);

/*
 * Is the device now at path the one that was opened as dev? A path may name another device by now;
 * if there is none, or dev is not open, the path itself tells.
 */
bool device_is(const struct member_dev *dev, const char *path);

/* Erase md superblocks of all versions, wherever they are on a member that is locked for writing,
 * and flush. 0 or -errno. */
int device_wipe_superblocks(const struct member_dev *dev);

/* Whole transfers at a byte offset through a bounce buffer of the right alignment. 0 or -errno. */
int device_read(const struct member_dev *dev, uint64_t maddr, void *buf, uint32_t len);
int device_write(const struct member_dev *dev, uint64_t maddr, const void *buf, uint32_t len);
int device_flush(const struct member_dev *dev);

/* A file system, partition table, LVM, other RAID … signature (libblkid). Returns true with its
 * name in what. */
bool device_signature(const struct member_dev *dev, char what[RAID_WHY_BYTES]);

#endif
