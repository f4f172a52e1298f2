/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile bitmaps: a superblock that says anything about where one lies, and the bytes found there.
 * What bm_decode() takes lies free on the device, has a size that fits in memory, and survives
 * being written again. Then bad blocks are added and taken away as the input says, against a log of
 * any shape.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "raid/badblocks_fmt.h"
#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/bitmap_fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

/* The input: device, superblock's words, then the bitmap's header and the begin of its bits; what
 * follows is bad blocks, 4 bytes each. */
enum {
	R_SECTORS = 0,
	R_VERSION = 4,
	R_LEVEL = 5,
	R_SHIFT = 6,
	R_FLAGS = 7,
	R_SIZE = 8,
	R_CHUNK = 16,
	R_OFFSET = 20,
	R_DATA_OFFSET = 24,
	R_BBLOG_OFFSET = 28,
	R_BITMAP = 32,
	R_BITS = R_BITMAP + BM_HEADER_BYTES,
	BITS_PART = 64,
	R_BAD = R_BITS + BITS_PART,
};

enum { KEEP_UUID = 1, KEEP_SYNC_SIZE = 2, NO_BBLOG = 4 };

static struct sb sb;
static uint64_t dev_sectors;

/* A superblock as sb_decode() would pass it: data inside the device, clear of itself. */
static bool read_sb(const uint8_t *data)
{
	static const int32_t levels[] = {1, 4, 5, 6, 10};
	uint64_t end;

	memset(&sb, 0, sizeof sb);
	dev_sectors = 64 + (uint64_t)get_le32(data + R_SECTORS);
	sb.version = (enum sb_version)(data[R_VERSION] % 3);
	sb.feature_map = SB_FEATURE_BITMAP;
	sb.level = levels[data[R_LEVEL] % 5];
	sb.size = get_le64(data + R_SIZE) >> 10;
	sb.chunksize = get_le32(data + R_CHUNK);
	sb.raid_disks = 2;
	sb.bitmap_offset = (int32_t)get_le32(data + R_OFFSET);
	sb.super_offset = sb.version == SB_V1_0	  ? (dev_sectors - 16) & ~(uint64_t)7
			  : sb.version == SB_V1_1 ? 0
						  : 8;
	end = sb.version == SB_V1_0 ? sb.super_offset : dev_sectors;
	sb.data_offset = get_le32(data + R_DATA_OFFSET);
	if (sb.version != SB_V1_0 && sb.data_offset < sb.super_offset + 1) {
		return false;
	}
	if (sb.data_offset + 10 > end) {
		return false;
	}
	sb.data_size = min_u64(end - sb.data_offset, max_u64(sb.size, 10));
	sb.bblog_size = data[R_FLAGS] & NO_BBLOG ? 0 : 8;
	sb.bblog_offset = (int32_t)get_le32(data + R_BBLOG_OFFSET);
	return true;
}

static void check_bits(const uint8_t *bytes, uint64_t bits)
{
	uint64_t words[BITS_PART / 8] = {0}, again[BITS_PART / 8], n = 0;
	uint8_t back[BITS_PART];

	bits = min_u64(bits, 8 * BITS_PART);
	bm_unpack(bytes, bits, words);
	for (uint64_t i = bm_next(words, bits, 0); i < bits; i = bm_next(words, bits, i + 1)) {
		CHECK(bytes[i / 8] >> i % 8 & 1);
		n++;
	}
	CHECK(n == bm_count(words, bits));
	bm_pack(words, bits, back);
	bm_unpack(back, bits, again);
	CHECK(!memcmp(words, again, 8 * bm_words(bits)));
}

static void check_header(const struct bm_header *h, const struct bm_expect *expect, int err)
{
	uint64_t bits = bm_bits(h->sync_size_sectors, h->chunk_bytes), from, to;
	struct bm_header back;
	uint8_t buf[BM_HEADER_BYTES];
	char why[RAID_WHY_BYTES];

	CHECK(bits && h->sync_size_sectors == expect->sync_size_sectors);
	CHECK(bm_area_bytes(bits) <= RAID_SECTOR_BYTES * expect->room_sectors ||
	      h->version == BM_LOCKLESS);
	if (!err) {
		CHECK(bm_area_bytes(bits) <= BM_AREA_MAX_BYTES);
		CHECK(expect->at_sector + 8 * bm_area_pages(bits) <= dev_sectors);
		bm_page_bits(bm_area_pages(bits) - 1, bits, &from, &to);
		CHECK(from < to && to == bits && bm_page_of(bits - 1) == bm_area_pages(bits) - 1);
	}
	bm_is_current(h, sb.events);
	bm_encode(h, buf);
	CHECK(bm_decode(buf, sizeof buf, expect, &back, why) == err);
	CHECK(!memcmp(h, &back, sizeof back));
}

static void try_bitmap(const uint8_t *data)
{
	static uint8_t buf[BM_HEADER_BYTES];
	uint8_t flags = data[R_FLAGS];
	char why[RAID_WHY_BYTES];
	struct bm_expect expect;
	struct bm_header h;
	int err;

	bm_expect_of(&sb, dev_sectors, sb.size, &expect);
	if (!expect.room_sectors) {
		return; /* sb_decode() refuses it */
	}
	CHECK(expect.at_sector + expect.room_sectors <= dev_sectors);
	memcpy(buf, data + R_BITMAP, sizeof buf);
	put_le32(buf, BM_MAGIC);
	if (!(flags & KEEP_UUID)) {
		memset(buf + 8, 0, 16);
	}
	if (!(flags & KEEP_SYNC_SIZE)) {
		put_le64(buf + 40, expect.sync_size_sectors);
	}
	err = bm_decode(buf, sizeof buf, &expect, &h, why);
	CHECK(!err == !why[0] && strlen(why) < RAID_WHY_BYTES);
	if (!err || (err == -ENOTSUP && h.version)) {
		check_header(&h, &expect, err);
		check_bits(data + R_BITS, bm_bits(h.sync_size_sectors, h.chunk_bytes));
	}
}

/* Where a new one would be placed, it decodes. */
static void try_place(const uint8_t *data)
{
	struct bm_ask ask = {
		.creating = data[R_FLAGS] & NO_BBLOG,
		.sync_size_sectors = max_u64(sb.size, 1),
		.chunk_bytes = get_le32(data + R_BITMAP + 52),
		.members = 1,
		.sb = {&sb},
		.dev_sectors = {dev_sectors},
	};
	uint8_t buf[BM_HEADER_BYTES];
	char why[RAID_WHY_BYTES];
	struct bm_expect expect;
	struct bm_plan plan;
	struct bm_header h;

	if (bm_place(&ask, &plan, why)) {
		CHECK(why[0]);
		return;
	}
	CHECK(plan.area_sectors <= plan.room_sectors);
	sb.bitmap_offset = plan.offset_sectors;
	bm_expect_of(&sb, dev_sectors, sb.size, &expect);
	expect.sync_size_sectors = ask.sync_size_sectors;
	CHECK(expect.room_sectors >= plan.area_sectors);
	bm_header_new(&ask, &plan, &h);
	bm_encode(&h, buf);
	CHECK(!bm_decode(buf, sizeof buf, &expect, &h, why));
}

static void try_bad_blocks(const uint8_t *data, const uint8_t *bad, size_t size)
{
	static struct bb_list list, back;
	struct bb_shape shape;
	uint8_t log[BB_LOG_BYTES];
	char why[RAID_WHY_BYTES];

	sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	sb.bblog_shift = data[R_SHIFT];
	if (!bb_shape_of(&sb, dev_sectors, &shape)) {
		return;
	}
	list.count = 0;
	for (size_t i = 0; i + 4 <= size && i < 4 * 600; i += 4) {
		uint32_t word = get_le32(bad + i);
		uint64_t maddr =
			(uint64_t)(word & 0xffff) * 200 % (dev_sectors * RAID_SECTOR_BYTES);
		uint64_t len = 1 + (uint64_t)(word >> 16 & 0x7fff) * 100;
		struct bb_range hit;
		int res = word >> 31 ? bb_remove(&list, &shape, maddr, len)
				     : bb_add(&list, &shape, maddr, len);

		CHECK(list.count <= shape.entries);
		CHECK(res != BB_GREW || bb_find(&list, maddr, len, &hit));
	}
	bb_encode(&list, &shape, log);
	CHECK(!bb_decode(log, 8 * shape.entries, shape.shift, dev_sectors, &back, why));
	CHECK(back.count == list.count);
	CHECK(!memcmp(back.range, list.range, list.count * sizeof list.range[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < R_BAD || !read_sb(data)) {
		return 0;
	}
	try_bitmap(data);
	try_place(data);
	try_bad_blocks(data, data + R_BAD, size - R_BAD);
	return 0;
}

/* Bitmaps that are taken: versions, levels, places, chunks. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	static const struct {
		uint8_t version, level, shift;
		int32_t offset;
		uint32_t data_offset, bm_version, chunk;
	} seeds[] = {
		{2, 0, 0, 8, 2048, 4, 65536},	  {1, 1, 3, 8, 2048, 4, 64 << 20},
		{0, 2, 0, -16, 0, 4, 1 << 20},	  {2, 3, 1, 24, 2048, 3, 4096},
		{2, 4, 0, 8, 264192, 4, 512},	  {2, 4, 2, 8, 2048, 5, 65536},
		{2, 0, 0, 24, 2048, 6, 64 << 10},
	};

	if (i >= sizeof seeds / sizeof *seeds || size < R_BAD + 64) {
		return 0;
	}
	memset(buf, 0, R_BAD + 64);
	put_le32(buf + R_SECTORS, 1 << 20);
	buf[R_VERSION] = seeds[i].version;
	buf[R_LEVEL] = seeds[i].level;
	buf[R_SHIFT] = seeds[i].shift;
	put_le64(buf + R_SIZE, (uint64_t)129024 << 10);
	put_le32(buf + R_CHUNK, 128);
	put_le32(buf + R_OFFSET, (uint32_t)seeds[i].offset);
	put_le32(buf + R_DATA_OFFSET, seeds[i].data_offset);
	put_le32(buf + R_BBLOG_OFFSET, (uint32_t)(seeds[i].version ? 16 : -8));
	put_le32(buf + R_BITMAP + 4, seeds[i].bm_version);
	put_le32(buf + R_BITMAP + 52, seeds[i].chunk);
	put_le32(buf + R_BITMAP + 56, 5);
	put_le32(buf + R_BITMAP + 68, 2);
	for (uint32_t k = 0; k < BITS_PART + 64; k++) {
		buf[R_BITS + k] = (uint8_t)(k * 37);
	}
	return R_BAD + 64;
}
