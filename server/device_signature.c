/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Foreign signatures on a member, by libblkid. Only names what is there.
 */
#include "server/device_internal.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Append one name to a comma separated list, once. */
static void add_name(char what[RAID_WHY_BYTES], const char *name, const char *suffix)
{
	char item[96];
	size_t used = strlen(what);

	snprintf(item, sizeof item, "%.60s%s", name, suffix);
	if (strstr(what, item)) {
		return;
	}
	snprintf(what + used, RAID_WHY_BYTES - used, "%s%s", used ? ", " : "", item);
}

bool device_signature(const struct member_dev *dev, char what[RAID_WHY_BYTES])
{
	char self[64];
	const char *value;
	blkid_probe pr;
	int fd;

	what[0] = '\0';
	/* libblkid reads unaligned, so it gets a description of its own without O_DIRECT */
	snprintf(self, sizeof self, "/proc/self/fd/%d", dev->fd);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	pr = fd < 0 ? NULL : blkid_new_probe();
	if (!pr || blkid_probe_set_device(pr, fd, 0, 0) != 0) {
		/* what cannot be looked at may carry anything */
		add_name(what, "something that cannot be examined", "");
	} else {
		blkid_probe_enable_superblocks(pr, 1);
		blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE);
		blkid_probe_enable_partitions(pr, 1);
		while (blkid_do_probe(pr) == 0) {
			if (blkid_probe_lookup_value(pr, "TYPE", &value, NULL) == 0) {
				add_name(what, value, "");
			}
			if (blkid_probe_lookup_value(pr, "PTTYPE", &value, NULL) == 0) {
				add_name(what, value, " partition table");
			}
		}
	}
	blkid_free_probe(pr);
	if (fd >= 0) {
		close(fd);
	}
	return what[0] != '\0';
}
