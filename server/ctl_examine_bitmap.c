/* SPDX-License-Identifier: BSD-3-Clause */
/* What examine tells of a member's write-intent bitmap: what mdadm -X tells. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "server/ctl_common.h"

enum { PIECE_BYTES = 64 << 10 };

/* Level 10 counts array sectors: those of a geometry as this member describes it. */
static uint64_t array_sectors(const struct sb *sb)
{
	struct geo_params p = {
		.level = (enum raid_level)sb->level,
		.layout = sb->layout,
		.chunk_sectors = sb->chunksize,
		.slots = sb->raid_disks,
		.component_sectors = sb->size,
	};
	struct geometry *g = calloc(1, sizeof *g);
	char why[RAID_WHY_BYTES];
	uint64_t sectors = 0;

	for (uint32_t k = 0; k < p.slots && k < RAID_SLOTS_MAX; k++) {
		p.slot[k].data_offset_sectors = sb->data_offset;
		p.slot[k].data_sectors = sb->data_size;
	}
	if (g && sb->raid_disks <= RAID_SLOTS_MAX && geo_init(g, &p, why) == 0) {
		sectors = g->array_sectors;
	}
	free(g);
	return sectors;
}

/* Set bits among those of the area at maddr, read piece by piece. 0 or -errno. */
static int count_dirty(const struct member_dev *dev, uint64_t maddr, uint64_t bits, uint64_t *dirty)
{
	uint8_t *piece = malloc(PIECE_BYTES);
	int rc = piece ? 0 : -ENOMEM;

	*dirty = 0;
	for (uint64_t at = 0; at < bits && rc == 0; at += 8ull * PIECE_BYTES) {
		uint64_t n = min_u64(bits - at, 8ull * PIECE_BYTES);

		rc = device_read(dev, maddr + BM_HEADER_BYTES + at / 8, piece,
				 (uint32_t)((n + 7) / 8));
		for (uint64_t i = 0; i < n && rc == 0; i++) {
			*dirty += piece[i / 8] >> i % 8 & 1;
		}
	}
	free(piece);
	return rc;
}

bool ctl_bitmap(const struct ctl_examined *e, struct ctl_bitmap *out)
{
	const struct sb *sb = &e->found->sb;
	struct bm_expect expect;
	int rc;

	memset(out, 0, sizeof *out);
	if (!(sb->feature_map & SB_FEATURE_BITMAP) || e->cand->load_err) {
		return false;
	}
	if (e->cand->bitmap.err) {
		snprintf(out->why, sizeof out->why, "cannot be read: %s",
			 strerror(-e->cand->bitmap.err));
		return true;
	}
	bm_expect_of(sb, e->cand->dev_sectors, array_sectors(sb), &expect);
	rc = bm_decode(e->cand->bitmap.header, BM_HEADER_BYTES, &expect, &out->header, out->why);
	if (rc < 0) {
		return true;
	}
	out->bits = bm_bits(out->header.sync_size_sectors, out->header.chunk_bytes);
	rc = count_dirty(e->dev, expect.at_sector * RAID_SECTOR_BYTES, out->bits, &out->dirty);
	if (rc < 0) {
		snprintf(out->why, sizeof out->why, "cannot be read: %s", strerror(-rc));
	}
	return true;
}

json_t *ctl_bitmap_json(const struct ctl_examined *e)
{
	struct ctl_bitmap b;

	if (!ctl_bitmap(e, &b)) {
		return json_null();
	}
	if (b.why[0]) {
		return json_pack("{s:s}", "error", b.why);
	}
	return json_pack(
		"{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i}", "version", (int)b.header.version,
		"chunk_bytes", (json_int_t)b.header.chunk_bytes, "bits", (json_int_t)b.bits,
		"dirty_bits", (json_int_t)b.dirty, "events", (json_int_t)b.header.events,
		"events_cleared", (json_int_t)b.header.events_cleared, "sync_sectors",
		(json_int_t)b.header.sync_size_sectors, "write_behind", (int)b.header.write_behind,
		"daemon_sleep_s", (int)b.header.daemon_sleep_s);
}
