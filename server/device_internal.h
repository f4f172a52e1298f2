/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by device*.c only. */
#ifndef SERVER_DEVICE_INTERNAL_H
#define SERVER_DEVICE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "server/device.h"

/* Fill dev->props and decide dev->direct; dev->fd is open and locked. 0 or -errno with why. */
int device_probe(struct member_dev *dev, const struct stat *st, const struct device_options *opt,
		 char why[RAID_WHY_BYTES]);

/*
 * Who in this system uses the device or file: an md array, device mapper, a mount, swap, a loop
 * device. Returns false if nobody is found; the text says what to do about it.
 */
bool device_holder(const char *path, const struct stat *st, char text[RAID_WHY_BYTES]);

/* First line of /sys/dev/block/MAJ:MIN/REL, also tried one directory up (partitions). */
bool device_sysfs(unsigned int maj, unsigned int min, const char *rel, char *buf, size_t size);

#endif
