/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of nbd-raidctl create, as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "server/ctl_create.h"

/* Any superblock of the plan: all agree on what concerns the array. */
static const struct sb *array_sb(const struct create_args *a)
{
	uint32_t i = 0;

	while (!a->member[i].path) {
		i++;
	}
	return &a->plan.sb[i];
}

static void print_member(const struct create_args *a, uint32_t i)
{
	const struct create_member *m = &a->member[i];
	const struct sb *sb = &a->plan.sb[i];

	if (!m->path) {
		printf("  slot %u: missing\n", i);
		return;
	}
	printf("  slot %u: %s, data at %llu KiB, %llu KiB%s%s\n", i, m->path,
	       (unsigned long long)sb->data_offset / 2,
	       (unsigned long long)(sb->size ? sb->size : sb->data_size) / 2,
	       m->made	    ? ", new file"
	       : m->regular ? ", file"
			    : "",
	       m->regular && !a->sparse ? ", allocated" : "");
	if (m->old[0]) {
		printf("          overwrites %s\n", m->old);
	}
}

void create_print_plan(const struct create_args *a)
{
	const struct sb *sb = array_sb(a);
	uint64_t bytes = a->plan.array_sectors * RAID_SECTOR_BYTES;
	char layout[GEO_LAYOUT_NAME_BYTES], note[64], uuid[37];

	ctl_layout_text(sb, layout);
	printf("%s", geo_level_name(a->params.level));
	if (layout[0]) {
		printf(" %s", layout);
	}
	if (sb->chunksize) {
		printf(", chunk %uK", sb->chunksize / 2);
	}
	printf(", %u slots, metadata %s\n", a->members, ctl_version_name(sb->version));
	printf("  name \"%s\", uuid %s\n", sb->set_name, sb_uuid_text(sb->set_uuid, uuid));
	printf("  size %llu KiB%s\n", (unsigned long long)bytes / 1024, ctl_size_note(bytes, note));
	for (uint32_t i = 0; i < a->members; i++) {
		print_member(a, i);
	}
	if (sb->resync_offset != SB_IN_SYNC) {
		printf("  the copies are not known to be equal: needs resync (--assume-clean says "
		       "they are)\n");
	}
}

json_t *create_plan_json(const struct create_args *a)
{
	const struct sb *sb = array_sb(a);
	json_t *members = json_array();
	char layout[GEO_LAYOUT_NAME_BYTES], uuid[37], line[64];

	for (uint32_t i = 0; i < a->members; i++) {
		const struct create_member *m = &a->member[i];
		const struct sb *own = &a->plan.sb[i];

		if (!m->path) {
			json_array_append_new(members, json_null());
			continue;
		}
		json_array_append_new(members,
				      json_pack("{s:o, s:I, s:I, s:o}", "path",
						ctl_json_text(m->path), "data_offset_bytes",
						(json_int_t)(own->data_offset * RAID_SECTOR_BYTES),
						"data_size_bytes",
						(json_int_t)(own->data_size * RAID_SECTOR_BYTES),
						"overwrote",
						m->old[0] ? ctl_json_text(m->old) : json_null()));
	}
	sb_uuid_text(sb->set_uuid, uuid);
	snprintf(line, sizeof line, "ARRAY <ignore> UUID=%s", uuid);
	return json_pack("{s:b, s:s, s:o, s:s, s:s, s:s, s:I, s:I, s:b, s:s, s:o}", "ok", 1, "uuid",
			 uuid, "name", ctl_json_text(sb->set_name), "level",
			 geo_level_name(a->params.level), "layout", ctl_layout_text(sb, layout),
			 "metadata", ctl_version_name(sb->version), "chunk_bytes",
			 (json_int_t)((uint64_t)sb->chunksize * RAID_SECTOR_BYTES), "array_bytes",
			 (json_int_t)(a->plan.array_sectors * RAID_SECTOR_BYTES), "needs_resync",
			 sb->resync_offset != SB_IN_SYNC, "array_line", line, "members", members);
}
