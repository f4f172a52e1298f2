/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of devices that an array is opened with: strings of the configuration, or of a scan. */
#include "server/daemon_open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/why.h"

static int open_members(const struct config_array *a, const char *const *path, uint32_t paths,
			struct array_instance **out, char why[RAID_WHY_BYTES])
{
	struct array_spec spec = {
		.name = a->name,
		.path = path,
		.paths = paths,
		.read_only = a->read_only,
		.force = a->force,
		.force_write = a->force_write,
		.device =
			{
				.direct = a->direct,
				.lock_wait_ms = OPEN_LOCK_WAIT_MS,
				.volatile_cache = a->volatile_cache,
			},
		.have_uuid = a->have_uuid,
		.raid0_layout = a->raid0_layout,
		.build = a->build,
		.level = a->level,
		.have_layout = a->have_layout,
		.layout = a->layout,
		.chunk_bytes = a->chunk_bytes,
		.offset_bytes = a->offset_bytes,
	};

	memcpy(spec.uuid, a->uuid, sizeof spec.uuid);
	return array_open(&spec, out, why);
}

static bool find_uuid(const struct config_array *a, const char *const *path, uint32_t paths,
		      uint8_t uuid[16])
{
	if (a->have_uuid) {
		memcpy(uuid, a->uuid, 16);
		return true;
	}
	for (uint32_t i = 0; i < paths; i++) {
		if (device_set_uuid(path[i], uuid)) {
			return true;
		}
	}
	return false;
}

static bool is_named(const char *const *path, uint32_t paths, const char *wanted)
{
	for (uint32_t i = 0; i < paths; i++) {
		if (!strcmp(path[i], wanted) || device_same(path[i], wanted)) {
			return true;
		}
	}
	return false;
}

/* The members' paths, and behind them those of spares that belong to the array already. */
static int open_with_spares(const struct config_array *a, char *const *member, uint32_t members,
			    struct array_instance **out, char why[RAID_WHY_BYTES])
{
	const char **path = calloc((size_t)members + a->spares + 1, sizeof *path);
	uint8_t uuid[16], its[16];
	uint32_t paths = 0;
	int err;

	if (!path) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	for (; paths < members; paths++) {
		path[paths] = member[paths];
	}
	if (a->spares && find_uuid(a, path, members, uuid)) {
		for (uint32_t i = 0; i < a->spares; i++) {
			if (!is_named(path, paths, a->spare[i]) &&
			    device_set_uuid(a->spare[i], its) && !memcmp(its, uuid, 16)) {
				path[paths++] = a->spare[i];
			}
		}
	}
	err = open_members(a, path, paths, out, why);
	free(path);
	return err;
}

int arrays_open_one(const struct config_array *a, struct array_instance **out,
		    char why[RAID_WHY_BYTES])
{
	char **found;
	uint32_t count;
	int err;

	if (a->members) {
		return open_with_spares(a, a->member, a->members, out, why);
	}
	err = device_scan(a->uuid, &found, &count, why);
	if (!err) {
		err = open_with_spares(a, found, count, out, why);
		device_scan_free(found, count);
	}
	return err;
}
