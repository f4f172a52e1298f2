/* SPDX-License-Identifier: BSD-3-Clause */
/* What lies where on a member, as its superblock has it: room for bitmap and logs between. */
#include "raid/sb.h"

#include "raid/base/bytes.h"

enum {
	SB_SECTORS = 8,
	V090_END_SECTORS = 128, /* superblock and bitmap; what follows is not the array's */
	BBLOG_MAX_SECTORS = 8,
};

struct extent {
	int64_t from, to; /* sectors of the device */
	const char *name;
};

static void add(struct extent *e, uint32_t *n, int64_t from, int64_t sectors, const char *name)
{
	e[(*n)++] = (struct extent){from, from + sectors, name};
}

enum { EXTENTS_MAX = 5 };

/* All terms are far below 2^63: sb_decode() bounds the data by the device, offsets have 32 bits. A
 * bad-block log is reserved while it is empty, too; one that cannot be is none. */
static uint32_t extents(const struct sb *sb, uint64_t dev_sectors, enum sb_area area,
			struct extent e[EXTENTS_MAX])
{
	int64_t super = (int64_t)sb->super_offset, data = (int64_t)sb->data_offset;
	int64_t log = super + sb->bblog_offset;
	uint32_t n = 0;

	add(e, &n, super, SB_SECTORS, "the superblock");
	add(e, &n, data, (int64_t)sb->data_size, "the data");
	if (sb->feature_map & SB_FEATURE_NEW_OFFSET) {
		add(e, &n, data + sb->new_offset, (int64_t)sb->data_size, "the reshaped data");
	}
	if (area != SB_AREA_BBLOG && sb->bblog_size && sb->bblog_size <= BBLOG_MAX_SECTORS &&
	    sb->bblog_offset && log >= 0 && log + sb->bblog_size <= (int64_t)dev_sectors) {
		add(e, &n, log, sb->bblog_size, "the bad-block log");
	}
	if (area != SB_AREA_PPL && sb->feature_map & (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS)) {
		add(e, &n, super + sb->ppl_offset, sb->ppl_size, "the partial parity log");
	}
	return n;
}

uint64_t sb_super_offset(enum sb_version version, uint64_t dev_sectors)
{
	switch (version) {
	case SB_V1_0:
		return (dev_sectors - 16) & ~(uint64_t)7;
	case SB_V1_1:
		return 0;
	default:
		return 8;
	}
}

uint64_t sb_room(const struct sb *sb, uint64_t dev_sectors, int64_t offset, enum sb_area area,
		 const char **next)
{
	struct extent e[EXTENTS_MAX];
	uint32_t n = extents(sb, dev_sectors, area, e);
	int64_t at = (int64_t)sb->super_offset + offset, end = (int64_t)dev_sectors;
	const char *name = "the end of the device";

	if (sb->version == SB_V0_90) {
		end = (int64_t)min_u64(dev_sectors, sb->super_offset + V090_END_SECTORS);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (e[i].to > at && e[i].from < end && e[i].to > e[i].from) {
			end = e[i].from;
			name = e[i].name;
		}
	}
	if (next) {
		*next = name;
	}
	return at >= 0 && end > at ? (uint64_t)(end - at) : 0;
}
