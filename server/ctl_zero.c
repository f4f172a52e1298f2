/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl zero-superblock: erase every md superblock of the members named, damaged ones too.
 * All members are opened, locked and looked at before the first is written.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ctl_common.h"

static int zero_one(const struct member_dev *dev, bool json, json_t *list)
{
	struct ctl_found found[SB_LOCATIONS_MAX];
	uint32_t count = ctl_find_superblocks(dev, found), erased = 0;
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (found[i].err == 0 || found[i].err == -EBADMSG || found[i].err == -EUCLEAN) {
			rc = ctl_wipe(dev, found[i].loc);
			erased += rc == 0;
		}
	}
	if (rc == 0 && erased) {
		rc = device_flush(dev);
	}
	if (rc < 0) {
		return ctl_refused("%s: cannot write: %s", dev->path, strerror(-rc));
	}
	if (json) {
		json_array_append_new(list,
				      json_pack("{s:o, s:i}", "path", ctl_json_text(dev->path),
						"erased", (int)erased));
	} else if (erased) {
		printf("%s: %u superblock%s erased\n", dev->path, erased, erased == 1 ? "" : "s");
	} else {
		printf("%s: no md superblock\n", dev->path);
	}
	return CTL_OK;
}

int ctl_zero_superblock(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};
	struct device_options opt = {.lock_wait_ms = CTL_LOCK_WAIT_MS};
	char why[RAID_WHY_BYTES];
	struct member_dev *dev;
	int c, n, opened, rc = CTL_OK;
	bool json = false;
	json_t *list;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "j", options, NULL)) != -1) {
		if (c == '?') {
			return ctl_bad_option("zero-superblock", argv);
		}
		json = true;
	}
	n = argc - optind;
	if (n == 0) {
		return ctl_usage("zero-superblock", "name at least one member");
	}
	dev = calloc((size_t)n, sizeof *dev);
	if (!dev) {
		return ctl_refused("out of memory");
	}
	list = json_array();
	for (opened = 0; opened < n && rc == CTL_OK; opened++) {
		if (device_open(argv[optind + opened], &opt, &dev[opened], why) < 0) {
			rc = ctl_refused("%s", why);
		}
	}
	for (int i = 0; i < opened && rc == CTL_OK; i++) {
		rc = zero_one(&dev[i], json, list);
	}
	for (int i = 0; i < opened; i++) {
		device_close(&dev[i]);
	}
	free(dev);
	if (json && rc == CTL_OK) {
		ctl_print_json(json_pack("{s:O}", "members", list));
	}
	json_decref(list);
	return rc;
}
