/* SPDX-License-Identifier: BSD-3-Clause */
/* A new bitmap: its chunk and its place (md-format §6, §11.1). */
#include "raid/bitmap_fmt.h"

#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"

enum {
	BLOCK_SECTORS = BM_PAGE_BYTES / RAID_SECTOR_BYTES, /* bitmaps take whole blocks */
	SB_SECTORS = 8,
	BBLOG_SECTORS = 8,
	DEFAULT_ROOM_SECTORS = 256, /* more is used only for a chunk chosen by hand */
};

uint64_t bm_reserve_sectors(uint64_t sectors)
{
	if (sectors < 128) {
		return 0;
	}
	if (sectors - 128 >= 419430400) { /* 200 GiB */
		return 256;
	}
	return sectors - 8 > 16777216 /* 8 GiB */ ? 128 : 8;
}

static bool fits(uint64_t sync_size_sectors, uint64_t chunk_bytes, uint64_t room_sectors)
{
	uint64_t room = min_u64(room_sectors * RAID_SECTOR_BYTES, BM_AREA_MAX_BYTES);

	return bm_area_bytes(bm_bits(sync_size_sectors, (uint32_t)chunk_bytes)) <= room;
}

int bm_choose_chunk(uint64_t sync_size_sectors, uint64_t room_sectors, uint32_t wanted_bytes,
		    uint32_t *chunk_bytes, char why[RAID_WHY_BYTES])
{
	uint64_t room = round_down_u64(room_sectors, BLOCK_SECTORS), chunk;

	if (wanted_bytes) {
		if (!is_pow2_u64(wanted_bytes) || wanted_bytes < BM_CHUNK_MIN_NEW_BYTES) {
			return why_set(why, -EINVAL,
				       "bitmap chunk of %u bytes: a power of two from 4 KiB on is "
				       "needed",
				       wanted_bytes);
		}
		if (!fits(sync_size_sectors, wanted_bytes, room)) {
			return why_set(why, -ENOSPC,
				       "bitmap chunk of %u bytes: that is %llu bits, too many for "
				       "the %llu sectors there; choose a larger chunk",
				       wanted_bytes,
				       (unsigned long long)bm_bits(sync_size_sectors, wanted_bytes),
				       (unsigned long long)room);
		}
		*chunk_bytes = wanted_bytes;
		return 0;
	}
	room = min_u64(room, DEFAULT_ROOM_SECTORS);
	for (chunk = BM_CHUNK_MIN_NEW_BYTES; chunk <= (uint64_t)1 << 31; chunk *= 2) {
		if (fits(sync_size_sectors, chunk, room)) {
			*chunk_bytes = (uint32_t)max_u64(chunk, BM_CHUNK_DEFAULT_BYTES);
			return 0;
		}
	}
	return why_set(why, -ENOSPC, "no room for a bitmap: %llu sectors are free",
		       (unsigned long long)room);
}

/* ---- place --------------------------------------------------------------------------------- */

static int check_ask(const struct bm_ask *ask, char why[RAID_WHY_BYTES])
{
	const struct sb *sb = ask->sb[0];

	if (sb->version == SB_V0_90) {
		return why_set(why, -EINVAL,
			       "metadata 0.90 is only read: no bitmap can be added to it");
	}
	if (sb->level < 1) {
		return why_set(why, -EINVAL,
			       "linear and raid0 have no copies that a bitmap could keep equal");
	}
	if (sb->feature_map & (SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS | SB_FEATURE_JOURNAL)) {
		return why_set(why, -EINVAL,
			       "the array has a %s, which excludes a bitmap: take that away first",
			       sb->feature_map & SB_FEATURE_JOURNAL ? "journal"
								    : "partial parity log");
	}
	if (sb->feature_map & SB_FEATURE_RESHAPE) {
		return why_set(why, -EINVAL, "the array is being reshaped: no bitmap until then");
	}
	return 0;
}

/* Sectors free at the offset on all members; names what ends them on the tightest. */
static uint64_t room_at(const struct bm_ask *ask, int64_t offset, const char **next)
{
	uint64_t room = UINT64_MAX;

	for (uint32_t i = 0; i < ask->members; i++) {
		const char *name;
		uint64_t r =
			sb_room(ask->sb[i], ask->dev_sectors[i], offset, SB_AREA_BITMAP, &name);

		if (r < room) {
			room = r;
			*next = name;
		}
	}
	return room;
}

/* 1.0: the bitmap ends here at the latest. Metadata 8 sectors before the superblock are kept for
 * the log also where there is none. */
static int64_t end_before_super(const struct bm_ask *ask)
{
	int64_t end = -BBLOG_SECTORS;

	for (uint32_t i = 0; i < ask->members; i++) {
		if (ask->sb[i]->bblog_size && ask->sb[i]->bblog_offset < end) {
			end = ask->sb[i]->bblog_offset;
		}
	}
	return end & ~(int64_t)(BLOCK_SECTORS - 1);
}

/* 1.0: sectors between the data and end on the member that has fewest. */
static uint64_t room_before(const struct bm_ask *ask, int64_t end)
{
	uint64_t room = (uint64_t)(end - INT32_MIN); /* that the offset can name */

	for (uint32_t i = 0; i < ask->members; i++) {
		const struct sb *sb = ask->sb[i];
		int64_t r = (int64_t)(sb->super_offset - sb->data_offset - sb->data_size) + end;

		room = min_u64(room, r > 0 ? (uint64_t)r : 0);
	}
	return room;
}

/* 1.1, 1.2: first place behind the bad-block logs; 0 if there is none. */
static int64_t behind_logs(const struct bm_ask *ask)
{
	int64_t at = 0;

	for (uint32_t i = 0; i < ask->members; i++) {
		if (ask->sb[i]->bblog_size && ask->sb[i]->bblog_offset > 0) {
			int64_t end = (int64_t)ask->sb[i]->bblog_offset + ask->sb[i]->bblog_size;

			at = end > at ? end : at;
		}
	}
	return (int64_t)round_up_u64((uint64_t)at, BLOCK_SECTORS);
}

/* Try so much room, that begins at the offset or (offset < 0) ends at end. */
static int try_room(const struct bm_ask *ask, uint64_t room, int64_t offset, struct bm_plan *out,
		    char why[RAID_WHY_BYTES])
{
	int err;

	room = min_u64(room, BM_AREA_MAX_BYTES / RAID_SECTOR_BYTES);
	err = bm_choose_chunk(ask->sync_size_sectors, room, ask->chunk_bytes, &out->chunk_bytes,
			      why);
	if (err) {
		return err;
	}
	out->bits = bm_bits(ask->sync_size_sectors, out->chunk_bytes);
	out->area_sectors = (uint32_t)bm_area_pages(out->bits) * BLOCK_SECTORS;
	out->room_sectors = (uint32_t)room;
	out->offset_sectors = (int32_t)offset;
	return 0;
}

static int place_1_0(const struct bm_ask *ask, struct bm_plan *out, char why[RAID_WHY_BYTES])
{
	int64_t end = end_before_super(ask);
	uint64_t before = room_before(ask, end), behind;
	const char *next = "";
	int err = try_room(ask, before, 0, out, why);

	if (!err) {
		out->offset_sectors = (int32_t)(end - (int64_t)out->area_sectors);
		return 0;
	}
	behind = room_at(ask, SB_SECTORS, &next);
	if (err == -ENOSPC && !try_room(ask, behind, SB_SECTORS, out, why)) {
		return 0;
	}
	return err != -ENOSPC
		       ? err
		       : why_set(why, -ENOSPC,
				 "no room for such a bitmap: %llu sectors are free between data "
				 "and superblock, %llu behind it; choose a larger bitmap chunk",
				 (unsigned long long)before, (unsigned long long)behind);
}

static int place_1_1(const struct bm_ask *ask, struct bm_plan *out, char why[RAID_WHY_BYTES])
{
	const char *next = "";
	uint64_t first = room_at(ask, SB_SECTORS, &next), second = 0;
	int64_t behind = behind_logs(ask);
	int err;

	if (ask->creating) {
		/* The log follows if there is room for it; the place for the bitmap comes first. */
		if (first >= BLOCK_SECTORS + BBLOG_SECTORS) {
			first -= BBLOG_SECTORS;
		}
		if (!ask->chunk_bytes) {
			first = min_u64(first, max_u64(bm_reserve_sectors(ask->sb[0]->size),
						       BLOCK_SECTORS));
		}
	}
	err = try_room(ask, first, SB_SECTORS, out, why);
	if (err != -ENOSPC) {
		return err;
	}
	if (behind) {
		const char *end = "";

		second = room_at(ask, behind, &end);
		if (!try_room(ask, second, behind, out, why)) {
			return 0;
		}
	}
	return why_set(why, -ENOSPC,
		       "no room for such a bitmap: %llu sectors are free between the superblock "
		       "and %s, %llu behind the bad-block log; choose a larger bitmap chunk, or a "
		       "larger data offset for a new array",
		       (unsigned long long)first, next, (unsigned long long)second);
}

int bm_place(const struct bm_ask *ask, struct bm_plan *out, char why[RAID_WHY_BYTES])
{
	int err;

	CHECK(ask->members && ask->members <= RAID_MEMBERS_MAX);
	memset(out, 0, sizeof *out);
	why[0] = '\0';
	err = check_ask(ask, why);
	if (err) {
		return err;
	}
	return ask->sb[0]->version == SB_V1_0 ? place_1_0(ask, out, why) : place_1_1(ask, out, why);
}

void bm_header_new(const struct bm_ask *ask, const struct bm_plan *plan, struct bm_header *out)
{
	*out = (struct bm_header){
		.version = BM_V4,
		.sync_size_sectors = ask->sync_size_sectors,
		.chunk_bytes = plan->chunk_bytes,
		.daemon_sleep_s = BM_DAEMON_SLEEP_DEFAULT_S,
		.events = ask->sb[0]->events,
		.events_cleared = ask->sb[0]->events,
	};
	memcpy(out->uuid, ask->sb[0]->set_uuid, sizeof out->uuid);
}
