/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl examine: show what members say, in mdadm's fields. Looks only: takes no lock, so that
 * members of a running array can be shown too, and writes nothing.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ctl_common.h"

uint64_t ctl_array_bytes(const struct sb *sb)
{
	uint64_t disks = sb->raid_disks, copies = 1;

	switch (sb->level) {
	case RAID_LEVEL_1:
		disks = 1;
		break;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
		disks -= disks > 0;
		break;
	case RAID_LEVEL_6:
		disks -= disks > 1 ? 2 : disks;
		break;
	case RAID_LEVEL_10:
		copies = (uint64_t)(sb->layout & 0xff) * (sb->layout >> 8 & 0xff);
		break;
	default:
		return 0;
	}
	return copies ? sb->size * disks / copies * RAID_SECTOR_BYTES : 0;
}

const char *ctl_array_state(const struct sb *sb, char buf[SB_ROLES_MAX + 1])
{
	uint32_t slots = sb->raid_disks, n = 0;

	if (sb->feature_map & SB_FEATURE_RESHAPE && sb->delta_disks < 0) {
		slots += (uint32_t)-sb->delta_disks;
	}
	for (; n < slots && n < SB_ROLES_MAX; n++) {
		uint32_t holders = 0;

		for (uint32_t i = 0; i < sb->max_dev && i < SB_ROLES_MAX; i++) {
			holders += sb->dev_roles[i] == n;
		}
		buf[n] = holders == 0 ? '.' : holders == 1 ? 'A' : holders == 2 ? 'R' : '?';
	}
	buf[n] = '\0';
	return buf;
}

const char *ctl_layout_text(const struct sb *sb, char buf[32])
{
	buf[0] = '\0';
	if (sb->level == RAID_LEVEL_0 && !(sb->feature_map & SB_FEATURE_RAID0_LAYOUT)) {
		return buf;
	}
	return geo_layout_name((enum raid_level)sb->level, sb->layout, buf);
}

void ctl_examine_export(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	char text[64], uuid[37];

	printf("MD_LEVEL=%s\n", geo_level_name((enum raid_level)sb->level));
	printf("MD_DEVICES=%u\n", sb->raid_disks);
	if (sb->version != SB_V0_90) {
		if (sb->set_name[0]) {
			printf("MD_NAME=");
			for (const char *p = sb->set_name; *p; p++) {
				/* read by scripts: nothing that a shell would act on */
				putchar(strchr("\"'`$\\ \t\n;&|<>*?()", *p) ? '_' : *p);
			}
			putchar('\n');
		}
		if (ctl_array_bytes(sb) || sb->level > 0) {
			printf("MD_ARRAY_SIZE=%s\n", ctl_size_brief(ctl_array_bytes(sb), text));
		}
	}
	printf("MD_UUID=%s\n", sb_uuid_text(sb->set_uuid, uuid));
	printf("MD_UPDATE_TIME=%llu\n", (unsigned long long)sb->utime_s);
	if (sb->version != SB_V0_90) {
		printf("MD_DEV_UUID=%s\n", sb_uuid_text(sb->device_uuid, uuid));
	}
	printf("MD_EVENTS=%llu\n", (unsigned long long)sb->events);
}

enum format { TEXT, JSON, EXPORT };

static void show(const struct ctl_examined *e, enum format format, json_t *list)
{
	switch (format) {
	case JSON:
		json_array_append_new(list, ctl_examine_json(e));
		break;
	case EXPORT:
		ctl_examine_export(e);
		break;
	case TEXT:
		if (e->found->loc.version == SB_V0_90) {
			ctl_examine_v090(e);
		} else {
			ctl_examine_v1(e);
		}
		break;
	}
}

/* Name on stderr why there is nothing to show. */
static int nothing(const char *path, const char *why, enum format format, json_t *list)
{
	if (format == JSON) {
		json_array_append_new(
			list, json_pack("{s:o, s:s}", "path", ctl_json_text(path), "error", why));
	}
	fprintf(stderr, "nbd-raidctl: %s: %s\n", path, why);
	return CTL_REFUSED;
}

/*
 * A member without a superblock where one belongs: a 1.0 member that grew has it where it used to
 * end, which another member of the same command line tells. Fills *found and returns true if so.
 */
static bool grew(const struct member_dev *dev, char **paths, struct asm_candidate *cand,
		 struct ctl_found *found)
{
	struct device_options opt = {.unlocked = true};
	struct asm_candidate *pair = calloc(2, sizeof *pair);
	struct member_dev devs[2] = {*dev};
	char why[RAID_WHY_BYTES];

	for (; pair && *paths && !cand->grown_bytes; paths++) {
		if (strcmp(*paths, dev->path) == 0 ||
		    device_open(*paths, &opt, &devs[1], why) < 0) {
			continue;
		}
		pair[0] = *cand;
		device_candidate(&devs[1], &pair[1]);
		device_grown_candidates(devs, 2, pair);
		if (!pair[0].load_err) {
			*cand = pair[0];
		}
		device_close(&devs[1]);
	}
	free(pair);
	if (!cand->grown_bytes) {
		return false;
	}
	memset(found, 0, sizeof *found);
	found->sb = cand->sb;
	found->loc = (struct sb_location){SB_V1_0, cand->sb.super_offset};
	found->err = device_read(dev, found->loc.sector * RAID_SECTOR_BYTES, found->raw,
				 sizeof found->raw);
	fprintf(stderr,
		"nbd-raidctl: %s grew by %llu bytes since it became a member: its superblock is "
		"that far before the place where it belongs\n",
		dev->path, (unsigned long long)cand->grown_bytes);
	return true;
}

static int examine_one(const char *path, char **all, enum format format, json_t *list)
{
	struct device_options opt = {.unlocked = true};
	struct ctl_found found[SB_LOCATIONS_MAX];
	struct asm_candidate *cand = calloc(1, sizeof *cand);
	struct member_dev dev;
	char why[RAID_WHY_BYTES];
	const struct ctl_found *best;
	uint32_t count;
	int rc = CTL_OK;

	if (!cand) {
		return nothing(path, "out of memory", format, list);
	}
	if (device_open(path, &opt, &dev, why) < 0) {
		free(cand);
		return nothing(path, why, format, list);
	}
	count = ctl_find_superblocks(&dev, found);
	best = ctl_best_superblock(found, count);
	device_candidate(&dev, cand);
	if (!best && grew(&dev, all, cand, &found[0])) {
		best = &found[0];
	}
	if (!best) {
		rc = nothing(path, "no md superblock", format, list);
	} else if (best->err && best->err != -EBADMSG) {
		rc = nothing(path, best->why, format, list);
	} else {
		struct ctl_examined e = {.dev = &dev, .found = best, .cand = cand};

		show(&e, format, list);
		for (uint32_t i = 0; i < count; i++) {
			if (&found[i] != best && format != JSON) {
				fprintf(stderr,
					"nbd-raidctl: %s also has a%s superblock of version %s; "
					"`nbd-raidctl zero-superblock` removes them all\n",
					path, found[i].err ? " damaged" : "n older",
					sb_version_name(found[i].loc.version));
			}
		}
	}
	device_close(&dev);
	free(cand);
	return rc;
}

int ctl_examine(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"export", no_argument, NULL, 'Y'},
						{NULL, 0, NULL, 0}};
	enum format format = TEXT;
	json_t *list;
	int c, rc = CTL_OK;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "jY", options, NULL)) != -1) {
		if (c == '?') {
			return ctl_bad_option("examine", argv);
		}
		format = c == 'j' ? JSON : EXPORT;
	}
	if (optind == argc) {
		return ctl_usage("examine", "name at least one member");
	}
	list = json_array();
	for (int i = optind; i < argc; i++) {
		int one = examine_one(argv[i], argv + optind, format, list);

		rc = one ? one : rc;
	}
	if (format == JSON) {
		ctl_print_json(json_pack("{s:o}", "members", list));
	} else {
		json_decref(list);
	}
	return rc;
}
