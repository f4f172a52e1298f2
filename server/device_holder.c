/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a device is busy: who holds it, in words that say what to do. Reads /sys and /proc only;
 * finding nobody proves nothing (the lock itself is in device.c).
 */
#include "server/device_internal.h"

#include <dirent.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* A device stacked upon this one: md arrays get the mdadm line, mapped devices their name. */
static bool say_holder(const char *name, char text[RAID_WHY_BYTES])
{
	char path[PATH_MAX], dm[128] = "";
	FILE *f;

	if (strncmp(name, "md", 2) == 0) {
		snprintf(text, RAID_WHY_BYTES,
			 "is held by the kernel's md array /dev/%s; stop it first: "
			 "`mdadm --stop /dev/%s` (`nbd-raidctl claim` keeps udev from taking it)",
			 name, name);
		return true;
	}
	snprintf(path, sizeof path, "/sys/block/%s/dm/name", name);
	f = fopen(path, "re");
	if (f) {
		if (fgets(dm, sizeof dm, f)) {
			dm[strcspn(dm, "\n")] = '\0';
		}
		fclose(f);
	}
	if (dm[0]) {
		snprintf(text, RAID_WHY_BYTES,
			 "is held by /dev/%s (device mapper \"%s\"); remove that first", name, dm);
	} else {
		snprintf(text, RAID_WHY_BYTES, "is held by /dev/%s; stop that first", name);
	}
	return true;
}

static bool holders_in(const char *dir, char text[RAID_WHY_BYTES])
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool found = false;

	if (!d) {
		return false;
	}
	while (!found && (e = readdir(d))) {
		if (e->d_name[0] != '.') {
			found = say_holder(e->d_name, text);
		}
	}
	closedir(d);
	return found;
}

/* Holders of the device itself and of its partitions. */
static bool stacked(dev_t dev, char text[RAID_WHY_BYTES])
{
	char base[64], path[PATH_MAX];
	DIR *d;
	struct dirent *e;
	bool found;

	snprintf(base, sizeof base, "/sys/dev/block/%u:%u", major(dev), minor(dev));
	snprintf(path, sizeof path, "%s/holders", base);
	found = holders_in(path, text);
	d = found ? NULL : opendir(base);
	while (d && !found && (e = readdir(d))) {
		if (e->d_name[0] == '.') {
			continue;
		}
		snprintf(path, sizeof path, "%s/%s/partition", base, e->d_name);
		FILE *f = fopen(path, "re");
		if (!f) {
			continue;
		}
		fclose(f);
		snprintf(path, sizeof path, "%s/%s/holders", base, e->d_name);
		found = holders_in(path, text);
	}
	if (d) {
		closedir(d);
	}
	return found;
}

/* dev, or a partition of it. */
static bool same_disk(dev_t used, dev_t dev)
{
	char path[PATH_MAX], real[PATH_MAX], whole[PATH_MAX];

	if (used == dev) {
		return true;
	}
	snprintf(path, sizeof path, "/sys/dev/block/%u:%u/..", major(used), minor(used));
	if (!realpath(path, real)) {
		return false;
	}
	snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(dev), minor(dev));
	return realpath(path, whole) && strcmp(real, whole) == 0;
}

static bool mounted(dev_t dev, char text[RAID_WHY_BYTES])
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	struct stat st;
	bool found = false;

	while (f && !found && (m = getmntent(f))) {
		if (m->mnt_fsname[0] != '/' || stat(m->mnt_fsname, &st) < 0 ||
		    !S_ISBLK(st.st_mode)) {
			continue;
		}
		found = same_disk(st.st_rdev, dev);
		if (found) {
			snprintf(text, RAID_WHY_BYTES,
				 "is mounted on %.120s (as %.60s); unmount it first", m->mnt_dir,
				 m->mnt_fsname);
		}
	}
	if (f) {
		endmntent(f);
	}
	return found;
}

static bool swapped(dev_t dev, char text[RAID_WHY_BYTES])
{
	FILE *f = fopen("/proc/swaps", "re");
	char line[PATH_MAX + 128];
	struct stat st;
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		line[strcspn(line, " \t\n")] = '\0';
		found = line[0] == '/' && stat(line, &st) == 0 && S_ISBLK(st.st_mode) &&
			same_disk(st.st_rdev, dev);
		if (found) {
			snprintf(text, RAID_WHY_BYTES, "is used as swap; `swapoff %.100s` first",
				 line);
		}
	}
	if (f) {
		fclose(f);
	}
	return found;
}

/* A file that a loop device serves: both sides would write it. */
static bool looped(const char *path, char text[RAID_WHY_BYTES])
{
	char real[PATH_MAX], name[PATH_MAX], backing[PATH_MAX];
	DIR *d = realpath(path, real) ? opendir("/sys/block") : NULL;
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		if (strncmp(e->d_name, "loop", 4) != 0) {
			continue;
		}
		snprintf(name, sizeof name, "/sys/block/%s/loop/backing_file", e->d_name);
		FILE *f = fopen(name, "re");
		if (!f) {
			continue;
		}
		if (fgets(backing, sizeof backing, f)) {
			backing[strcspn(backing, "\n")] = '\0';
			found = strcmp(backing, real) == 0;
		}
		fclose(f);
		if (found) {
			snprintf(text, RAID_WHY_BYTES,
				 "is served by /dev/%.32s; use that, or `losetup -d /dev/%.32s` "
				 "first",
				 e->d_name, e->d_name);
		}
	}
	if (d) {
		closedir(d);
	}
	return found;
}

bool device_holder(const char *path, const struct stat *st, char text[RAID_WHY_BYTES])
{
	if (S_ISREG(st->st_mode)) {
		return looped(path, text);
	}
	return stacked(st->st_rdev, text) || mounted(st->st_rdev, text) ||
	       swapped(st->st_rdev, text);
}
