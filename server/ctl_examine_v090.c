/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of `nbd-raidctl examine` for the old superblock, metadata 0.90. Its table of devices is
 * read from the raw words here, because nothing else needs it (md-format §16).
 */
#include <errno.h>
#include <stdio.h>

#include "raid/base/bytes.h"
#include "server/ctl_common.h"

enum word {
	W_MAGIC = 0,
	W_MAJOR = 1,
	W_MINOR = 2,
	W_PATCH = 3,
	W_NR_DISKS = 9,
	W_MD_MINOR = 11,
	W_STATE = 33,
	W_ACTIVE = 34,
	W_WORKING = 35,
	W_FAILED = 36,
	W_SPARE = 37,
	W_CSUM = 38,
	W_DISKS = 128,
	W_DISK_WORDS = 32,
	W_DISK_COUNT = 27,
	W_THIS = 992,
};

enum { STATE_CLEAN = 1 << 0, STATE_BITMAP = 1 << 8 };

static uint32_t word(const struct ctl_examined *e, unsigned int n)
{
	const uint8_t *raw = e->found->raw;

	return get_le32(raw) == SB_MAGIC ? get_le32(raw + 4 * n) : get_be32(raw + 4 * n);
}

static void size_field(const char *label, uint64_t bytes)
{
	char note[64];

	ctl_field(label, "%llu%s", (unsigned long long)bytes / 1024, ctl_size_note(bytes, note));
}

static void geometry_fields(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	char layout[GEO_LAYOUT_NAME_BYTES];

	if (sb->level != RAID_LEVEL_0 && ctl_layout_text(sb, layout)[0]) {
		ctl_field("Layout", "%s", layout);
	}
	if (sb->level == RAID_LEVEL_LINEAR) {
		ctl_field("Rounding", "%uK", sb->chunksize / 2);
	} else if (sb->level != RAID_LEVEL_1) {
		ctl_field("Chunk Size", "%uK", sb->chunksize / 2);
	}
}

static void disk_line(const struct ctl_examined *e, const char *name, unsigned int at)
{
	static const struct {
		unsigned int bit;
		const char *text;
	} bits[] = {{0, " faulty"},  {1, " active"},	   {2, " sync"},
		    {3, " removed"}, {9, " write-mostly"}, {10, " failfast"}};
	uint32_t state = word(e, at + 4);

	printf("%4s   %5u   %5u   %5u   %5u     ", name, word(e, at), word(e, at + 1),
	       word(e, at + 2), word(e, at + 3));
	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
		if (state >> bits[i].bit & 1) {
			printf("%s", bits[i].text);
		}
	}
	puts((state & 0xf) == 0 ? " spare" : "");
}

static void disk_table(const struct ctl_examined *e)
{
	printf("\n      Number   Major   Minor   RaidDevice State\n");
	disk_line(e, "this", W_THIS);
	putchar('\n');
	for (unsigned int i = 0; i < W_DISK_COUNT; i++) {
		unsigned int at = W_DISKS + i * W_DISK_WORDS;
		char name[8];

		if (word(e, at + 1) == 0 && word(e, at + 2) == 0 && word(e, at + 4) == 0) {
			continue; /* no such device */
		}
		snprintf(name, sizeof name, "%u", i);
		disk_line(e, name, at);
	}
}

void ctl_examine_v090(const struct ctl_examined *e)
{
	const struct sb *sb = &e->found->sb;
	uint64_t array_bytes = ctl_array_bytes(sb);
	char text[64];

	printf("%s:\n", e->dev->path);
	ctl_field("Magic", "%08x", word(e, W_MAGIC));
	ctl_field("Version", "%u.%02u.%02u", word(e, W_MAJOR), word(e, W_MINOR), word(e, W_PATCH));
	ctl_field("UUID", "%s", sb_uuid_text(sb->set_uuid, text));
	ctl_field("Creation Time", "%s", ctl_time_text(sb->ctime_s, text));
	ctl_field("Raid Level", "%s", geo_level_name((enum raid_level)sb->level));
	if (array_bytes) {
		size_field("Used Dev Size", sb->size * RAID_SECTOR_BYTES);
		size_field("Array Size", array_bytes);
	}
	ctl_field("Raid Devices", "%u", sb->raid_disks);
	ctl_field("Total Devices", "%u", word(e, W_NR_DISKS));
	ctl_field("Preferred Minor", "%u", word(e, W_MD_MINOR));
	putchar('\n');
	ctl_field("Update Time", "%s", ctl_time_text(sb->utime_s, text));
	ctl_field("State", "%s", word(e, W_STATE) & STATE_CLEAN ? "clean" : "active");
	if (word(e, W_STATE) & STATE_BITMAP) {
		ctl_field("Internal Bitmap", "present");
	}
	ctl_field("Active Devices", "%u", word(e, W_ACTIVE));
	ctl_field("Working Devices", "%u", word(e, W_WORKING));
	ctl_field("Failed Devices", "%u", word(e, W_FAILED));
	ctl_field("Spare Devices", "%u", word(e, W_SPARE));
	ctl_field("Checksum", "%x - correct", word(e, W_CSUM));
	ctl_field("Events", "%llu", (unsigned long long)sb->events);
	putchar('\n');
	geometry_fields(e);
	disk_table(e);
}
