/* SPDX-License-Identifier: BSD-3-Clause */
/* The write-intent bitmap's bytes: header and bits (md-format §11.1, §11.4). */
#include "raid/bitmap_fmt.h"

#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"

/* Byte offsets. */
enum {
	O_MAGIC = 0,
	O_VERSION = 4,
	O_UUID = 8,
	O_EVENTS = 24,
	O_EVENTS_CLEARED = 32,
	O_SYNC_SIZE = 40,
	O_STATE = 48,
	O_CHUNKSIZE = 52,
	O_DAEMON_SLEEP = 56,
	O_WRITE_BEHIND = 60,
	O_RESERVED = 64,
	O_NODES = 68,
	O_CLUSTER_NAME = 72,
};

enum { PAGE_SECTORS = BM_PAGE_BYTES / RAID_SECTOR_BYTES };

void bm_expect_of(const struct sb *sb, uint64_t dev_sectors, uint64_t array_sectors,
		  struct bm_expect *out)
{
	memset(out, 0, sizeof *out);
	memcpy(out->set_uuid, sb->set_uuid, sizeof out->set_uuid);
	if (sb->version == SB_V0_90) {
		/* Four numbers there, bytes here: in the order of the host, and those we know of
		 * are little-endian. */
		for (uint32_t i = 0; i < sizeof out->set_uuid; i += 4) {
			put_le32(out->set_uuid + i, get_be32(sb->set_uuid + i));
		}
	}
	if (sb->level == RAID_LEVEL_10) {
		out->sync_size_sectors = array_sectors;
	} else {
		out->sync_size_sectors = sb->size;
		if (sb->level != RAID_LEVEL_1 && sb->chunksize) {
			out->array_chunk_sectors = sb->chunksize;
			out->sync_size_sectors = round_down_u64(sb->size, sb->chunksize);
		}
	}
	out->at_sector = (uint64_t)((int64_t)sb->super_offset + sb->bitmap_offset);
	out->room_sectors = sb_room(sb, dev_sectors, sb->bitmap_offset, SB_AREA_BITMAP, NULL);
}

/* ---- header -------------------------------------------------------------------------------- */

static void take_fields(const uint8_t *buf, struct bm_header *out)
{
	memcpy(out->uuid, buf + O_UUID, sizeof out->uuid);
	out->events = get_le64(buf + O_EVENTS);
	out->events_cleared = get_le64(buf + O_EVENTS_CLEARED);
	out->sync_size_sectors = get_le64(buf + O_SYNC_SIZE);
	out->state = get_le32(buf + O_STATE);
	out->chunk_bytes = get_le32(buf + O_CHUNKSIZE);
	out->daemon_sleep_s = get_le32(buf + O_DAEMON_SLEEP);
	out->write_behind = get_le32(buf + O_WRITE_BEHIND);
	out->reserved_sectors = get_le32(buf + O_RESERVED);
	out->nodes = get_le32(buf + O_NODES);
	memcpy(out->cluster_name, buf + O_CLUSTER_NAME, BM_CLUSTER_NAME_BYTES);
}

static int impossible(char why[RAID_WHY_BYTES], const char *what, uint64_t value)
{
	return why_set(why, -EUCLEAN,
		       "bitmap: %s (%llu); its bits say nothing, all chunks count as changed", what,
		       (unsigned long long)value);
}

static int check_fields(const struct bm_header *h, const struct bm_expect *expect,
			char why[RAID_WHY_BYTES])
{
	if (!is_pow2_u64(h->chunk_bytes) || h->chunk_bytes < BM_CHUNK_MIN_BYTES) {
		return impossible(why, "its chunk is no power of two of 512 bytes or more",
				  h->chunk_bytes);
	}
	if (!h->sync_size_sectors || h->sync_size_sectors < expect->sync_size_sectors ||
	    h->sync_size_sectors - expect->sync_size_sectors >=
		    max_u64(expect->array_chunk_sectors, 1)) {
		return why_set(why, -EUCLEAN,
			       "bitmap: it covers %llu sectors, the superblock says %llu; its bits "
			       "say nothing, all chunks count as changed",
			       (unsigned long long)h->sync_size_sectors,
			       (unsigned long long)expect->sync_size_sectors);
	}
	if (!h->daemon_sleep_s) {
		return impossible(why, "its flush period in seconds", h->daemon_sleep_s);
	}
	if (h->write_behind > BM_WRITE_BEHIND_MAX) {
		return impossible(why, "its write-behind limit", h->write_behind);
	}
	if (h->version == BM_CLUSTERED && !h->nodes) {
		return impossible(why, "it is clustered, its number of nodes", h->nodes);
	}
	return 0;
}

/* Bytes that the bitmap takes: of a clustered one up to the end of the last node's area. */
static uint64_t whole_bytes(const struct bm_header *h, uint64_t room_bytes)
{
	uint64_t bits = bm_bits(h->sync_size_sectors, h->chunk_bytes);
	uint64_t bytes =
		h->version == BM_LOCKLESS ? bm_lockless_area_bytes(bits) : bm_area_bytes(bits);

	if (h->version == BM_CLUSTERED && bytes <= room_bytes) {
		bytes += (h->nodes - 1) * round_up_u64(bytes, BM_PAGE_BYTES);
	}
	return bytes;
}

static int check_area(const struct bm_header *h, const struct bm_expect *expect,
		      char why[RAID_WHY_BYTES])
{
	uint64_t bytes = whole_bytes(h, expect->room_sectors * RAID_SECTOR_BYTES);
	uint64_t sectors = bytes / RAID_SECTOR_BYTES + (bytes % RAID_SECTOR_BYTES != 0);

	if (sectors > expect->room_sectors ||
	    (h->reserved_sectors && sectors > h->reserved_sectors)) {
		return why_set(why, -EUCLEAN,
			       "bitmap: its chunk of %u bytes makes it %llu sectors long, there is "
			       "room for %llu; its bits say nothing, all chunks count as changed",
			       h->chunk_bytes, (unsigned long long)sectors,
			       (unsigned long long)(h->reserved_sectors
							    ? min_u64(h->reserved_sectors,
								      expect->room_sectors)
							    : expect->room_sectors));
	}
	if (h->version == BM_CLUSTERED || h->version == BM_LOCKLESS) {
		return why_set(
			why, -ENOTSUP,
			"bitmap of version %d (%s): it cannot be kept up here; the array can "
			"only be read",
			(int)h->version, h->version == BM_CLUSTERED ? "clustered" : "lockless");
	}
	if (bytes > BM_AREA_MAX_BYTES) {
		return why_set(
			why, -ENOTSUP,
			"bitmap: %llu bytes of it are more than this version keeps in memory "
			"(%d); give it a larger chunk",
			(unsigned long long)bytes, BM_AREA_MAX_BYTES);
	}
	if (round_up_u64(sectors, PAGE_SECTORS) > expect->room_sectors) {
		return why_set(
			why, -ENOTSUP,
			"bitmap: its last page of 4 KiB would reach into what lies behind it "
			"(%llu sectors are free); take it away and add it anew",
			(unsigned long long)expect->room_sectors);
	}
	return 0;
}

int bm_decode(const uint8_t *buf, uint32_t buf_bytes, const struct bm_expect *expect,
	      struct bm_header *out, char why[RAID_WHY_BYTES])
{
	uint32_t version;
	int err;

	memset(out, 0, sizeof *out);
	why[0] = '\0';
	CHECK(buf_bytes >= BM_HEADER_BYTES);
	if (get_le32(buf + O_MAGIC) != BM_MAGIC) {
		return why_set(why, -EUCLEAN,
			       "bitmap: there is none at sector %llu, where the superblock says it "
			       "is; all chunks count as changed",
			       (unsigned long long)expect->at_sector);
	}
	version = get_le32(buf + O_VERSION);
	if (version < BM_V3 || version > BM_LOCKLESS) {
		return why_set(why, -ENOTSUP,
			       "bitmap of version %u: not known here; the array can only be read",
			       version);
	}
	take_fields(buf, out);
	out->version = (enum bm_version)version;
	if (memcmp(out->uuid, expect->set_uuid, sizeof out->uuid)) {
		char text[37];

		return why_set(why, -EUCLEAN,
			       "bitmap: it is that of another array, %s; all chunks count as "
			       "changed",
			       sb_uuid_text(out->uuid, text));
	}
	err = check_fields(out, expect, why);
	if (err) {
		return err;
	}
	out->sync_size_sectors = expect->sync_size_sectors;
	return check_area(out, expect, why);
}

void bm_encode(const struct bm_header *h, uint8_t buf[BM_HEADER_BYTES])
{
	CHECK(is_pow2_u64(h->chunk_bytes) && h->chunk_bytes >= BM_CHUNK_MIN_BYTES);
	CHECK(h->daemon_sleep_s && h->write_behind <= BM_WRITE_BEHIND_MAX);

	memset(buf, 0, BM_HEADER_BYTES);
	put_le32(buf + O_MAGIC, BM_MAGIC);
	put_le32(buf + O_VERSION, h->version);
	memcpy(buf + O_UUID, h->uuid, sizeof h->uuid);
	put_le64(buf + O_EVENTS, h->events);
	put_le64(buf + O_EVENTS_CLEARED, h->events_cleared);
	put_le64(buf + O_SYNC_SIZE, h->sync_size_sectors);
	put_le32(buf + O_STATE, h->state);
	put_le32(buf + O_CHUNKSIZE, h->chunk_bytes);
	put_le32(buf + O_DAEMON_SLEEP, h->daemon_sleep_s);
	put_le32(buf + O_WRITE_BEHIND, h->write_behind);
	put_le32(buf + O_RESERVED, h->reserved_sectors);
	put_le32(buf + O_NODES, h->nodes);
	memcpy(buf + O_CLUSTER_NAME, h->cluster_name, BM_CLUSTER_NAME_BYTES);
}

bool bm_is_current(const struct bm_header *h, uint64_t sb_events)
{
	return !(h->state & (BM_STATE_STALE | BM_STATE_WRITE_ERROR)) && h->events >= sb_events;
}

bool bm_covers(const struct bm_header *h, uint64_t device_events)
{
	return device_events >= h->events_cleared;
}

/* ---- bits ---------------------------------------------------------------------------------- */

uint64_t bm_bits(uint64_t sync_size_sectors, uint32_t chunk_bytes)
{
	uint64_t chunk = chunk_bytes / RAID_SECTOR_BYTES;

	return sync_size_sectors / chunk + (sync_size_sectors % chunk != 0);
}

uint64_t bm_area_bytes(uint64_t bits)
{
	return BM_HEADER_BYTES + bm_bytes(bits);
}

void bm_page_bits(uint64_t page, uint64_t bits, uint64_t *from, uint64_t *to)
{
	uint64_t begin = page * BM_PAGE_BYTES, end = begin + BM_PAGE_BYTES;

	*from = begin ? min_u64(8 * (begin - BM_HEADER_BYTES), bits) : 0;
	*to = min_u64(8 * (end - BM_HEADER_BYTES), bits);
}

/* Of the last word: which bits are chunks. */
static uint64_t last_mask(uint64_t bits)
{
	return bits % 64 ? ((uint64_t)1 << bits % 64) - 1 : UINT64_MAX;
}

/* Bytes of bits in word w. */
static uint32_t bytes_of_word(uint64_t bits, uint64_t w)
{
	return (uint32_t)min_u64((bits - 64 * w + 7) / 8, 8);
}

void bm_unpack(const uint8_t *bytes, uint64_t bits, uint64_t *words)
{
	for (uint64_t w = 0; w < bm_words(bits); w++) {
		uint8_t word[8] = {0};

		memcpy(word, bytes + 8 * w, bytes_of_word(bits, w));
		words[w] = get_le64(word);
	}
	if (bits) {
		words[bm_words(bits) - 1] &= last_mask(bits);
	}
}

void bm_pack(const uint64_t *words, uint64_t bits, uint8_t *bytes)
{
	for (uint64_t w = 0; w < bm_words(bits); w++) {
		uint8_t word[8];

		put_le64(word, w + 1 < bm_words(bits) ? words[w] : words[w] & last_mask(bits));
		memcpy(bytes + 8 * w, word, bytes_of_word(bits, w));
	}
}

void bm_fill(uint64_t *words, uint64_t bits, bool set)
{
	memset(words, set ? 0xff : 0, 8 * bm_words(bits));
	if (bits) {
		words[bm_words(bits) - 1] &= last_mask(bits);
	}
}

uint64_t bm_count(const uint64_t *words, uint64_t bits)
{
	uint64_t n = 0;

	for (uint64_t w = 0; w < bm_words(bits); w++) {
		n += (uint64_t)__builtin_popcountll(words[w]);
	}
	return n;
}

uint64_t bm_next(const uint64_t *words, uint64_t bits, uint64_t from)
{
	uint64_t w = from / 64, word;

	if (from >= bits) {
		return bits;
	}
	word = words[w] >> from % 64 << from % 64;
	while (!word) {
		if (++w == bm_words(bits)) {
			return bits;
		}
		word = words[w];
	}
	return 64 * w + (uint64_t)__builtin_ctzll(word);
}

void bm_lockless_unpack(const uint8_t *area, uint64_t bits, bool unwritten_set, uint64_t *words)
{
	bm_fill(words, bits, false);
	for (uint64_t i = 0; i < bits; i++) {
		uint8_t state = area[BM_LOCKLESS_STATES_AT + i];

		bm_put(words, i,
		       state == BM_CHUNK_UNWRITTEN ? unwritten_set : state != BM_CHUNK_CLEAN);
	}
}
