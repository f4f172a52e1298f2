/* SPDX-License-Identifier: BSD-3-Clause */
/* `nbd-raidctl examine --json`: one object a member, every field of its superblock by name. */
#include <errno.h>
#include <stdio.h>

#include "server/ctl_common.h"

static json_t *feature_list(uint32_t map)
{
	json_t *list = json_array();

	for (uint32_t bit = 1; bit && bit <= SB_FEATURE_ALL; bit <<= 1) {
		if (map & bit) {
			json_array_append_new(list, json_string(sb_feature_name(bit)));
		}
	}
	return list;
}

static json_t *flag_list(uint8_t flags)
{
	json_t *list = json_array();

	if (flags & SB_DEV_WRITE_MOSTLY) {
		json_array_append_new(list, json_string("write-mostly"));
	}
	if (flags & SB_DEV_FAIL_FAST) {
		json_array_append_new(list, json_string("failfast"));
	}
	return list;
}

static json_t *role_value(const struct sb *sb)
{
	uint16_t role = sb_own_role(sb);

	switch (role) {
	case SB_ROLE_SPARE:
		return json_string("spare");
	case SB_ROLE_FAULTY:
		return json_string("faulty");
	case SB_ROLE_JOURNAL:
		return json_string("journal");
	default:
		return json_integer(role);
	}
}

static json_t *bad_block_list(const struct asm_candidate *cand)
{
	json_t *list = json_array();

	for (uint32_t i = 0; !cand->load_err && i < cand->bad.count; i++) {
		json_array_append_new(
			list, json_pack("{s:I, s:I}", "sector",
					(json_int_t)(cand->bad.range[i].maddr / RAID_SECTOR_BYTES),
					"sectors",
					(json_int_t)(cand->bad.range[i].len / RAID_SECTOR_BYTES)));
	}
	return list;
}

static json_t *sectors(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *bytes(uint64_t n_sectors)
{
	return json_integer((json_int_t)(n_sectors * RAID_SECTOR_BYTES));
}

static json_t *uuid_value(const uint8_t uuid[16])
{
	char text[37];

	return json_string(sb_uuid_text(uuid, text));
}

static void set(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

/* Fields that only count with their feature. */
static void feature_fields(json_t *o, const struct sb *sb)
{
	if (sb->feature_map & SB_FEATURE_RECOVERY_OFFSET) {
		set(o, "recovery_offset_sectors", sectors(sb->recovery_offset));
	}
	if (sb_own_role(sb) == SB_ROLE_JOURNAL) {
		set(o, "journal_tail_sectors", sectors(sb->recovery_offset));
	}
	if (sb->feature_map & SB_FEATURE_BITMAP) {
		set(o, "bitmap_offset_sectors", json_integer(sb->bitmap_offset));
	}
	if (sb->feature_map & (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS)) {
		set(o, "ppl_offset_sectors", json_integer(sb->ppl_offset));
		set(o, "ppl_size_sectors", json_integer(sb->ppl_size));
	}
	if (sb->feature_map & SB_FEATURE_RESHAPE) {
		set(o, "reshape_position_sectors", sectors(sb->reshape_position));
		set(o, "delta_disks", json_integer(sb->delta_disks));
		set(o, "new_level", json_integer((int32_t)sb->new_level));
		set(o, "new_layout", json_integer(sb->new_layout));
		set(o, "new_chunk_sectors", json_integer(sb->new_chunk));
	}
	if (sb->feature_map & SB_FEATURE_NEW_OFFSET) {
		set(o, "new_offset_sectors", json_integer(sb->new_offset));
	}
	if (sb->logical_block_size) {
		set(o, "logical_block_bytes", json_integer(sb->logical_block_size));
	}
}

json_t *ctl_examine_json(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	char layout[GEO_LAYOUT_NAME_BYTES], state[SB_ROLES_MAX + 1];
	json_t *o = json_object();

	set(o, "path", ctl_json_text(e->dev->path));
	set(o, "bytes", json_integer((json_int_t)e->dev->props.size_bytes));
	set(o, "metadata", json_string(sb_version_name(sb->version)));
	set(o, "csum_ok", json_boolean(e->found->err != -EBADMSG));
	set(o, "uuid", uuid_value(sb->set_uuid));
	set(o, "set_name", ctl_json_text(sb->set_name));
	set(o, "level", json_string(geo_level_name((enum raid_level)sb->level)));
	set(o, "raid_disks", json_integer(sb->raid_disks));
	set(o, "layout", json_string(ctl_layout_text(sb, layout)));
	set(o, "layout_number", json_integer(sb->layout));
	set(o, "chunk_bytes", sb->chunksize ? bytes(sb->chunksize) : json_null());
	set(o, "component_bytes", bytes(sb->size));
	set(o, "features", feature_list(sb->feature_map));
	set(o, "feature_map", json_integer(sb->feature_map));
	set(o, "device_uuid", sb->version == SB_V0_90 ? json_null() : uuid_value(sb->device_uuid));
	set(o, "dev_number", json_integer(sb->dev_number));
	set(o, "role_own", role_value(sb));
	set(o, "array_state", json_string(ctl_array_state(sb, state)));
	set(o, "devflags", flag_list(sb->devflags));
	set(o, "events", sectors(sb->events));
	set(o, "resync_offset_sectors",
	    sb->resync_offset == SB_IN_SYNC ? json_null() : sectors(sb->resync_offset));
	set(o, "super_offset_bytes", bytes(sb->super_offset));
	set(o, "data_offset_bytes", bytes(sb->data_offset));
	set(o, "data_size_bytes", bytes(sb->data_size));
	set(o, "creation_time", sectors(sb->ctime_s));
	set(o, "update_time", sectors(sb->utime_s));
	set(o, "corrected_reads", json_integer(sb->cnt_corrected_read));
	feature_fields(o, sb);
	set(o, "bitmap", ctl_bitmap_json(e));
	set(o, "bad_blocks", bad_block_list(e->cand));
	if (e->cand->load_err) {
		set(o, "error", json_string(e->cand->why));
	}
	return o;
}
