/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of `nbd-raidctl examine` for version 1 superblocks: mdadm's fields and our additions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "server/ctl_common.h"

static void sectors_field(const char *label, uint64_t sectors)
{
	char note[64];

	ctl_field(label, "%llu sectors%s", (unsigned long long)sectors,
		  ctl_size_note(sectors * RAID_SECTOR_BYTES, note));
}

static void identity(const struct sb *sb)
{
	char text[64], uuid[37];

	ctl_field("Magic", "%08x", SB_MAGIC);
	ctl_field("Version", "%s", sb_version_name(sb->version));
	ctl_field("Feature Map", "0x%x", sb->feature_map);
	for (uint32_t bit = 1; bit && bit <= SB_FEATURE_ALL; bit <<= 1) {
		if (sb->feature_map & bit) {
			ctl_field("Feature", "%s", sb_feature_name(bit));
		}
	}
	ctl_field("Array UUID", "%s", sb_uuid_text(sb->set_uuid, uuid));
	ctl_field("Name", "%s", ctl_clean_text(sb->set_name, text, sizeof text));
	ctl_field("Creation Time", "%s", ctl_time_text(sb->ctime_s, text));
	ctl_field("Raid Level", "%s", geo_level_name((enum raid_level)sb->level));
	ctl_field("Raid Devices", "%u", sb->raid_disks);
	putchar('\n');
}

/* Sectors that the bitmap at at of the device takes, 0 if there is no readable header. */
static uint64_t bitmap_sectors(const struct member_dev *dev, uint64_t at)
{
	uint8_t header[256];
	uint64_t sync, chunk;

	if (device_read(dev, at * RAID_SECTOR_BYTES, header, sizeof header) < 0) {
		return 0;
	}
	sync = get_le64(header + 40);
	chunk = get_le32(header + 52) / RAID_SECTOR_BYTES;
	if (!chunk) {
		return 0;
	}
	return ((sync / chunk + (sync % chunk != 0) + 7) / 8 + sizeof header + RAID_SECTOR_BYTES -
		1) /
	       RAID_SECTOR_BYTES;
}

/* Does the array use only part of the data space? A journal uses all, linear and 0 what there is.
 */
static bool uses_size(const struct sb *sb)
{
	return sb->size && sb_own_role(sb) != SB_ROLE_JOURNAL;
}

/* Room on the member that nothing uses: before the data, and after it up to what comes next. */
static void unused_space(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	uint64_t super = sb->super_offset, data_end, limit;
	bool bitmap = sb->feature_map & SB_FEATURE_BITMAP;
	bool ppl = sb->feature_map & (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS);

	if (sb->version == SB_V1_0) {
		data_end = sb->data_offset + (sb->size ? sb->size : sb->data_size);
		limit = super;
		if (sb->bblog_size && sb->bblog_offset < 0) {
			limit = min_u64(limit, super + (uint64_t)(int64_t)sb->bblog_offset);
		}
		if (bitmap && sb->bitmap_offset < 0) {
			limit = min_u64(limit, super + (uint64_t)(int64_t)sb->bitmap_offset);
		}
		if (ppl && sb->ppl_offset < 0) {
			limit = min_u64(limit, super + (uint64_t)(int64_t)sb->ppl_offset);
		}
		if (sb->data_offset || limit != data_end) {
			ctl_field("Unused Space", "before=%llu sectors, after=%lld sectors",
				  (unsigned long long)sb->data_offset,
				  (long long)(limit - data_end));
		}
		return;
	}
	limit = super + 72; /* superblock and the place that is kept for a bitmap */
	if (bitmap && sb->bitmap_offset > 0) {
		uint64_t at = super + (uint64_t)sb->bitmap_offset;

		limit = max_u64(limit, at + bitmap_sectors(e->dev, at));
	}
	if (sb->bblog_size && sb->bblog_offset > 0) {
		limit = max_u64(limit, super + (uint64_t)sb->bblog_offset + sb->bblog_size);
	}
	if (ppl && sb->ppl_offset > 0) {
		limit = max_u64(limit, super + (uint64_t)sb->ppl_offset + sb->ppl_size);
	}
	ctl_field("Unused Space", "before=%lld sectors, after=%llu sectors",
		  (long long)(sb->data_offset - limit),
		  (unsigned long long)(uses_size(sb) ? sb->data_size - sb->size : 0));
}

static void sizes(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	uint64_t array_bytes = ctl_array_bytes(sb);
	char note[64];

	sectors_field("Avail Dev Size", sb->data_size);
	if (array_bytes) {
		ctl_field("Array Size", "%llu KiB%s", (unsigned long long)array_bytes / 1024,
			  ctl_size_note(array_bytes, note));
	}
	if (sb->size != sb->data_size && sb->level != RAID_LEVEL_0) {
		sectors_field("Used Dev Size", sb->size);
	}
	if (sb->data_offset) {
		ctl_field("Data Offset", "%llu sectors", (unsigned long long)sb->data_offset);
	}
	if (sb->feature_map & SB_FEATURE_NEW_OFFSET) {
		ctl_field(
			"New Offset", "%llu sectors",
			(unsigned long long)(sb->data_offset + (uint64_t)(int64_t)sb->new_offset));
	}
	ctl_field("Super Offset", "%llu sectors", (unsigned long long)sb->super_offset);
	if (sb->feature_map & SB_FEATURE_RECOVERY_OFFSET) {
		ctl_field("Recovery Offset", "%llu sectors",
			  (unsigned long long)sb->recovery_offset);
	}
	if (!(sb->feature_map & SB_FEATURE_RESHAPE)) {
		unused_space(e);
	}
}

static void reshape(const struct sb *sb)
{
	char note[64], layout[GEO_LAYOUT_NAME_BYTES];

	ctl_field("Reshape pos'n", "%llu%s", (unsigned long long)sb->reshape_position / 2,
		  ctl_size_note(sb->reshape_position * RAID_SECTOR_BYTES, note));
	if (sb->delta_disks) {
		ctl_field("Delta Devices", "%d (%d->%u)", sb->delta_disks,
			  (int)sb->raid_disks - sb->delta_disks, sb->raid_disks);
	}
	if (sb->new_level != (uint32_t)sb->level) {
		ctl_field("New Level", "%s",
			  geo_level_name((enum raid_level)(int32_t)sb->new_level));
	}
	if (sb->new_layout != sb->layout) {
		ctl_field("New Layout", "%s",
			  geo_layout_name((enum raid_level)(int32_t)sb->new_level, sb->new_layout,
					  layout));
	}
	if (sb->new_chunk != sb->chunksize) {
		ctl_field("New Chunksize", "%uK", sb->new_chunk / 2);
	}
	putchar('\n');
}

static void bitmap(const struct ctl_examined *e)
{
	struct ctl_bitmap b;

	if (!ctl_bitmap(e, &b)) {
		return;
	}
	ctl_field("Internal Bitmap", "%d sectors from superblock", e->found->sb.bitmap_offset);
	if (b.why[0]) {
		ctl_field("Bitmap", "%s", b.why);
		return;
	}
	ctl_field("Bitmap", "%llu bits (chunks), %llu dirty (%.1f%%)", (unsigned long long)b.bits,
		  (unsigned long long)b.dirty,
		  b.bits ? 100.0 * (double)b.dirty / (double)b.bits : 0.0);
	ctl_field("Bitmap Chunk", "%u KiB", b.header.chunk_bytes / 1024);
	ctl_field("Bitmap Events", "%llu, cleared %llu%s", (unsigned long long)b.header.events,
		  (unsigned long long)b.header.events_cleared,
		  bm_is_current(&b.header, e->found->sb.events) ? "" : " (stale)");
}

static void logs(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;

	bitmap(e);
	if (sb->feature_map & (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS)) {
		ctl_field("PPL", "%u sectors at offset %d sectors from superblock", sb->ppl_size,
			  sb->ppl_offset);
	}
	if (sb->feature_map & SB_FEATURE_RESHAPE) {
		reshape(sb);
	}
	if (sb->devflags & (SB_DEV_WRITE_MOSTLY | SB_DEV_FAIL_FAST)) {
		ctl_field("Flags", "%s%s%s",
			  sb->devflags & SB_DEV_WRITE_MOSTLY ? "write-mostly" : "",
			  (sb->devflags & 3) == 3 ? " " : "",
			  sb->devflags & SB_DEV_FAIL_FAST ? "failfast" : "");
	}
}

static void layout_fields(const struct sb *sb)
{
	char layout[GEO_LAYOUT_NAME_BYTES];

	if (ctl_layout_text(sb, layout)[0]) {
		ctl_field("Layout", "%s", layout);
	}
	switch (sb->level) {
	case RAID_LEVEL_1:
		break;
	case RAID_LEVEL_LINEAR:
		ctl_field("Rounding", "%uK", sb->chunksize / 2);
		break;
	default:
		ctl_field("Chunk Size", "%uK", sb->chunksize / 2);
		break;
	}
	putchar('\n');
}

static void role_fields(const struct sb *sb)
{
	char state[SB_ROLES_MAX + 1];
	uint16_t role = sb_own_role(sb);

	switch (role) {
	case SB_ROLE_SPARE:
		ctl_field("Device Role", "spare");
		break;
	case SB_ROLE_FAULTY:
		ctl_field("Device Role", "faulty");
		break;
	case SB_ROLE_JOURNAL:
		ctl_field("Device Role", "Journal");
		break;
	default:
		ctl_field("Device Role", "%s device %u",
			  sb->feature_map & SB_FEATURE_REPLACEMENT ? "Replacement" : "Active",
			  role);
		break;
	}
	ctl_field("Array State", "%s ('A' == active, '.' == missing, 'R' == replacing)",
		  ctl_array_state(sb, state));
}

static void bad_blocks(const struct asm_candidate *cand)
{
	if (cand->load_err) {
		return;
	}
	for (uint32_t i = 0; i < cand->bad.count; i++) {
		ctl_field("Bad Blocks", "%llu for %llu sectors",
			  (unsigned long long)(cand->bad.range[i].maddr / RAID_SECTOR_BYTES),
			  (unsigned long long)(cand->bad.range[i].len / RAID_SECTOR_BYTES));
	}
}

void ctl_examine_v1(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	char text[64];

	printf("%s:\n", e->dev->path);
	identity(sb);
	sizes(e);
	ctl_field("State", "%s", sb->resync_offset == SB_IN_SYNC ? "clean" : "active");
	if (sb->resync_offset != SB_IN_SYNC) {
		ctl_field("Resync Offset", "%llu sectors%s", (unsigned long long)sb->resync_offset,
			  sb->resync_offset ? "" : " (needs resync)");
	}
	ctl_field("Device UUID", "%s", sb_uuid_text(sb->device_uuid, text));
	putchar('\n');
	logs(e);
	ctl_field("Update Time", "%s", ctl_time_text(sb->utime_s, text));
	if (sb->bblog_size && sb->bblog_offset) {
		ctl_field("Bad Block Log", "%u entries available at offset %d sectors%s",
			  sb->bblog_size * RAID_SECTOR_BYTES / 8u, sb->bblog_offset,
			  sb->feature_map & SB_FEATURE_BAD_BLOCKS ? " - bad blocks present." : "");
		bad_blocks(e->cand);
	}
	if (e->found->err == -EBADMSG) {
		ctl_field("Checksum", "%x - expected %x", sb->sb_csum, e->found->csum_expected);
	} else {
		ctl_field("Checksum", "%x - correct", sb->sb_csum);
	}
	ctl_field("Events", "%llu", (unsigned long long)sb->events);
	putchar('\n');
	layout_fields(sb);
	role_fields(sb);
}
