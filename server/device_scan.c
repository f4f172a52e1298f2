/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding members by the array's UUID among the block devices that the kernel lists. Reading only,
 * without locks: what is found is opened, locked and read again by whoever assembles it.
 */
#include "server/device.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raid/why.h"

#define CLASS "/sys/class/block"

/*
 * md arrays are made of members, not members; RAM disks never are; an nbd device may be our own
 * client, and reading from it would wait for ourselves.
 */
static bool never_a_member(const char *name)
{
	static const char *const prefixes[] = {"md", "ram", "zram", "nbd", "sr", "fd"};

	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
		if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) {
			return true;
		}
	}
	return false;
}

/* Is there an entry in CLASS/NAME/FOLDER that begins with prefix and, if below is set, has it? */
static bool has_entry(const char *name, const char *folder, const char *prefix, const char *below)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof path, CLASS "/%s/%s", name, folder);
	dir = opendir(path);
	if (!dir) {
		return false;
	}
	while (!found && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) {
			continue;
		}
		snprintf(path, sizeof path, CLASS "/%s/%s/%s/%s", name, folder, entry->d_name,
			 below);
		found = access(path, F_OK) == 0;
	}
	closedir(dir);
	return found;
}

/*
 * A superblock near the end of the last partition is near the end of its disk too, and one on a
 * path of a multipath device is that device's: the disk and the path do not count.
 */
static bool stands_for_another(const char *name)
{
	return has_entry(name, ".", name, "partition") || has_entry(name, "holders", "dm-", "dev");
}

bool device_set_uuid(const char *path, uint8_t uuid[16])
{
	const struct device_options look = {
		.read_only = true, .unlocked = true, .direct = DEVICE_DIRECT_OFF};
	struct asm_candidate *cand = calloc(1, sizeof *cand);
	char why[RAID_WHY_BYTES];
	struct member_dev dev;
	bool found = false;

	if (cand && !device_open(path, &look, &dev, why)) {
		device_candidate(&dev, cand);
		found = !cand->load_err;
		memcpy(uuid, cand->sb.set_uuid, 16);
		device_close(&dev);
	}
	free(cand);
	return found;
}

static bool carries(const char *path, const uint8_t uuid[16])
{
	uint8_t its[16];

	return device_set_uuid(path, its) && !memcmp(its, uuid, 16);
}

void device_scan_free(char **paths, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		free(paths[i]);
	}
	free(paths);
}

static int add_path(char ***paths, uint32_t *count, const char *path)
{
	char **grown = reallocarray(*paths, *count + 1, sizeof *grown);

	if (!grown) {
		return -ENOMEM;
	}
	*paths = grown;
	grown[*count] = strdup(path);
	if (!grown[*count]) {
		return -ENOMEM;
	}
	++*count;
	return 0;
}

/* The kernel writes names with a slash (cciss/c0d0) with an exclamation mark. */
static void device_path(const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "/dev/%s", name);
	for (char *p = path; *p; p++) {
		if (*p == '!') {
			*p = '/';
		}
	}
}

int device_scan(const uint8_t uuid[16], char ***paths, uint32_t *count, char why[RAID_WHY_BYTES])
{
	DIR *dir = opendir(CLASS);
	struct dirent *entry;
	int err = 0;

	*paths = NULL;
	*count = 0;
	if (!dir) {
		return why_set(why, -errno, "the list of block devices, " CLASS ": %s",
			       strerror(errno));
	}
	while (!err && (entry = readdir(dir))) {
		char path[PATH_MAX];

		if (entry->d_name[0] == '.' || never_a_member(entry->d_name)) {
			continue;
		}
		device_path(entry->d_name, path);
		if (carries(path, uuid) && !stands_for_another(entry->d_name)) {
			err = *count < RAID_MEMBERS_MAX ? add_path(paths, count, path) : 0;
		}
	}
	closedir(dir);
	if (!err && *count) {
		return 0;
	}
	device_scan_free(*paths, *count);
	*paths = NULL;
	*count = 0;
	return err ? why_set(why, err, "out of memory")
		   : why_set(why, -ENOENT,
			     "no block device carries a member of it; name its members");
}
