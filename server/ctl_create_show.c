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

static const char *flags_text(uint8_t devflags)
{
	static const char *const text[] = {"", ", write-mostly", ", failfast",
					   ", write-mostly, failfast"};

	return text[devflags & (SB_DEV_WRITE_MOSTLY | SB_DEV_FAIL_FAST)];
}

static bool is_built(const struct create_args *a, uint32_t i)
{
	return a->plan.sync == CREATE_BUILD && i == a->plan.build_slot;
}

static void print_member(const struct create_args *a, uint32_t i)
{
	const struct create_member *m = &a->member[i];
	const struct sb *sb = &a->plan.sb[i];

	if (i < a->params.slots) {
		printf("  slot %u: ", i);
	} else {
		printf("  spare: ");
	}
	if (!m->path) {
		puts("missing");
		return;
	}
	printf("%s, data at %llu KiB, %llu KiB%s%s%s%s\n", m->path,
	       (unsigned long long)sb->data_offset / 2,
	       (unsigned long long)(sb->size ? sb->size : sb->data_size) / 2,
	       m->made	    ? ", new file"
	       : m->regular ? ", file"
			    : "",
	       m->regular && !a->sparse ? ", allocated" : "", flags_text(sb->devflags),
	       is_built(a, i) ? ", to be built from the others" : "");
	if (m->old[0]) {
		printf("          overwrites %s\n", m->old);
	}
}

static void print_sync(const struct create_args *a)
{
	switch (a->plan.sync) {
	case CREATE_IN_SYNC:
		if (a->params.zeroed && a->plan.component_sectors) {
			puts("  all data are zeroes: nothing needs to be made equal");
		}
		break;
	case CREATE_RESYNC:
		puts("  the copies are not known to be equal: needs resync (--assume-clean says "
		     "they are, --write-zeroes makes them)");
		break;
	case CREATE_BUILD:
		printf("  slot %u is to be built from the others: degraded until then "
		       "(--write-zeroes does without)\n",
		       a->plan.build_slot);
		break;
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
	printf(", %u slots, metadata %s", a->params.slots, sb_version_name(sb->version));
	if (a->plan.bitmap_sectors) {
		printf(", bitmap chunk %lluK",
		       (unsigned long long)a->plan.bitmap.chunk_bytes / 1024);
	}
	putchar('\n');
	printf("  name \"%s\", uuid %s\n", sb->set_name, sb_uuid_text(sb->set_uuid, uuid));
	printf("  size %llu KiB%s\n", (unsigned long long)bytes / 1024, ctl_size_note(bytes, note));
	for (uint32_t i = 0; i < a->members; i++) {
		print_member(a, i);
	}
	print_sync(a);
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
		json_array_append_new(
			members,
			json_pack("{s:o, s:b, s:i, s:I, s:I, s:o}", "path", ctl_json_text(m->path),
				  "spare", i >= a->params.slots, "dev_number", (int)own->dev_number,
				  "data_offset_bytes",
				  (json_int_t)(own->data_offset * RAID_SECTOR_BYTES),
				  "data_size_bytes",
				  (json_int_t)(own->data_size * RAID_SECTOR_BYTES), "overwrote",
				  m->old[0] ? ctl_json_text(m->old) : json_null()));
	}
	sb_uuid_text(sb->set_uuid, uuid);
	snprintf(line, sizeof line, "ARRAY <ignore> UUID=%s", uuid);
	return json_pack(
		"{s:b, s:s, s:o, s:s, s:s, s:s, s:I, s:I, s:b, s:o, s:o, s:s, s:o}", "ok", 1,
		"uuid", uuid, "name", ctl_json_text(sb->set_name), "level",
		geo_level_name(a->params.level), "layout", ctl_layout_text(sb, layout), "metadata",
		sb_version_name(sb->version), "chunk_bytes",
		(json_int_t)((uint64_t)sb->chunksize * RAID_SECTOR_BYTES), "array_bytes",
		(json_int_t)(a->plan.array_sectors * RAID_SECTOR_BYTES), "needs_resync",
		a->plan.sync == CREATE_RESYNC, "builds_slot",
		a->plan.sync == CREATE_BUILD ? json_integer(a->plan.build_slot) : json_null(),
		"bitmap_chunk_bytes",
		a->plan.bitmap_sectors ? json_integer(a->plan.bitmap.chunk_bytes) : json_null(),
		"array_line", line, "members", members);
}
