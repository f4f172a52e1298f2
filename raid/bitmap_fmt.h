/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The write-intent bitmap on disk (md-format §11): header, bits, where it lies, how it is chosen.
 * Pure: bytes in memory to a struct and back. When a bit is set or cleared is intent's business.
 *
 * On disk an *area*: a header of 256 bytes, bits from byte 256 on, lowest bit of a byte first, 1 =
 * the chunk may differ between members. Every member in a slot holds the same area, at its own
 * super_offset + bitmap_offset. It is read and written in *pages* of 4 KiB; the header is in page
 * 0. A chunk is a range of the *sync address space*: of the component (levels 1, 4, 5, 6), of the
 * array (level 10).
 *
 * In memory the bits of an area without its header are *words*: bit i is words[i / 64] >> i % 64.
 * Bits behind the last chunk are 0 there (on disk they may be anything).
 */
#ifndef RAID_BITMAP_FMT_H
#define RAID_BITMAP_FMT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/sb.h"
#include "raid/types.h"

enum {
	BM_MAGIC = 0x6D746962,
	BM_HEADER_BYTES = 256,
	BM_PAGE_BYTES = 4096,
	BM_CHUNK_MIN_BYTES = 512,      /* that can be read */
	BM_CHUNK_MIN_NEW_BYTES = 4096, /* that is made */
	BM_CHUNK_DEFAULT_BYTES = 64 << 20,
	BM_DAEMON_SLEEP_DEFAULT_S = 5,
	BM_WRITE_BEHIND_MAX = 16383,
	BM_AREA_MAX_BYTES = 8 << 20, /* larger ones are refused: 67 million chunks */
	BM_CLUSTER_NAME_BYTES = 64,
};

enum bm_version {
	BM_V3 = 3, /* bits in the order of the host that wrote them; taken as little-endian */
	BM_V4 = 4, /* what is written */
	BM_CLUSTERED = 5, /* one area per node */
	BM_LOCKLESS = 6,  /* one byte per chunk instead of one bit */
};

/* Bits of bm_header.state. The last three belong to BM_LOCKLESS. */
enum bm_state {
	BM_STATE_STALE = 0x2,
	BM_STATE_WRITE_ERROR = 0x4,
	BM_STATE_FIRST_USE = 0x8,
	BM_STATE_START_CLEAN = 0x10,
	BM_STATE_DAEMON_BUSY = 0x20,
	BM_STATE_HOST_ENDIAN = 0x8000,
};

/* Md-format §11.1 in host order. */
struct bm_header {
	enum bm_version version;
	uint8_t uuid[16];
	uint64_t events, events_cleared;
	uint64_t sync_size_sectors;
	uint32_t state; /* enum bm_state, unknown bits as read */
	uint32_t chunk_bytes;
	uint32_t daemon_sleep_s;
	uint32_t write_behind;	   /* 0: off */
	uint32_t reserved_sectors; /* 0: unknown */
	uint32_t nodes;		   /* BM_CLUSTERED */
	char cluster_name[BM_CLUSTER_NAME_BYTES + 1];
};

/* What a member's superblock says about its bitmap; bm_expect_of() fills it. */
struct bm_expect {
	uint8_t set_uuid[16];
	uint64_t sync_size_sectors; /* as the geometry uses it: whole array chunks */
	/* The header may say this much less than one array chunk more: mdadm writes the component
	 * size as given, the kernel rounds it down. 0: no chunk. */
	uint32_t array_chunk_sectors;
	uint64_t at_sector;    /* of the member: the area begins here */
	uint64_t room_sectors; /* from there to what lies next: superblock, data, log, end */
};

/*
 * For a superblock with SB_FEATURE_BITMAP (v0.90 too) that sb_decode() has passed. array_sectors is
 * used for level 10 only: size of the array.
 */
void bm_expect_of(const struct sb *sb, uint64_t dev_sectors, uint64_t array_sectors,
		  struct bm_expect *out);

/*
 * Decode the header, the first BM_HEADER_BYTES of the area. Returns 0: out can be worked with, its
 * sync_size_sectors is the expected one, the area fits its room and BM_AREA_MAX_BYTES;
 * -EUCLEAN: no bitmap, another array's, or impossible: its bits say nothing, treat all as set and
 * write a new one;
 * -ENOTSUP: a kind that is not maintained here: nothing of it may be written. out is filled and
 * checked just the same unless out->version is 0 (a version nobody knows). The kinds: clustered,
 * lockless, more than BM_AREA_MAX_BYTES, a last page that reaches into what lies behind. why
 * explains both. That at_sector suits the member's logical block is for the caller to check.
 */
int bm_decode(const uint8_t *buf, uint32_t buf_bytes, const struct bm_expect *expect,
	      struct bm_header *out, char why[RAID_WHY_BYTES]);

/* All BM_HEADER_BYTES of buf are written. */
void bm_encode(const struct bm_header *header, uint8_t buf[BM_HEADER_BYTES]);

/*
 * May bits that are 0 be believed? Not if the bitmap was declared stale, its last write failed, or
 * the superblock was updated by somebody who did not keep it (sb_events: of the freshest member).
 */
bool bm_is_current(const struct bm_header *header, uint64_t sb_events);

/* Has a member that was away, and last knew device_events, missed only writes whose bits are set?
 */
bool bm_covers(const struct bm_header *header, uint64_t device_events);

/* ---- sizes and places ---------------------------------------------------------------------- */

/* Chunks in the sync address space: how many bits there are. */
uint64_t bm_bits(uint64_t sync_size_sectors, uint32_t chunk_bytes);

/* Bytes of the area: header and bits. Multiple areas of a clustered bitmap follow at whole pages.
 */
uint64_t bm_area_bytes(uint64_t bits);

/* Bytes of the bits alone. */
static inline uint64_t bm_bytes(uint64_t bits)
{
	return bits / 8 + (bits % 8 != 0);
}

static inline uint64_t bm_area_pages(uint64_t bits)
{
	return (bm_area_bytes(bits) + BM_PAGE_BYTES - 1) / BM_PAGE_BYTES;
}

/* Words for so many bits in memory. */
static inline uint64_t bm_words(uint64_t bits)
{
	return (bits + 63) / 64;
}

/* Where bit i lies: byte of the area, mask in it, page. */
static inline uint64_t bm_byte_of(uint64_t bit)
{
	return BM_HEADER_BYTES + bit / 8;
}

static inline uint8_t bm_mask_of(uint64_t bit)
{
	return (uint8_t)(1u << bit % 8);
}

static inline uint64_t bm_page_of(uint64_t bit)
{
	return bm_byte_of(bit) / BM_PAGE_BYTES;
}

/* Bits of page p, [*from, *to), of an area of bits. */
void bm_page_bits(uint64_t page, uint64_t bits, uint64_t *from, uint64_t *to);

/* Bit whose chunk holds a sector of the sync address space. */
static inline uint64_t bm_bit_of(uint64_t sector, uint32_t chunk_bytes)
{
	return sector / (chunk_bytes / RAID_SECTOR_BYTES);
}

/* Set or clear one bit in the bytes of an area. */
static inline bool bm_area_get(const uint8_t *area, uint64_t bit)
{
	return area[bm_byte_of(bit)] & bm_mask_of(bit);
}

static inline void bm_area_put(uint8_t *area, uint64_t bit, bool set)
{
	if (set) {
		area[bm_byte_of(bit)] |= bm_mask_of(bit);
	} else {
		area[bm_byte_of(bit)] &= (uint8_t)~bm_mask_of(bit);
	}
}

/* ---- bits in memory ------------------------------------------------------------------------ */

/* words has bm_words(bits) entries, bytes bm_bytes(bits): the bits as on disk, without the header.
 * Packing writes 0 behind the last chunk. */
void bm_unpack(const uint8_t *bytes, uint64_t bits, uint64_t *words);
void bm_pack(const uint64_t *words, uint64_t bits, uint8_t *bytes);

static inline bool bm_get(const uint64_t *words, uint64_t bit)
{
	return words[bit / 64] >> bit % 64 & 1;
}

static inline void bm_put(uint64_t *words, uint64_t bit, bool set)
{
	if (set) {
		words[bit / 64] |= (uint64_t)1 << bit % 64;
	} else {
		words[bit / 64] &= ~((uint64_t)1 << bit % 64);
	}
}

/* All bits to one value, 0 behind the last chunk. */
void bm_fill(uint64_t *words, uint64_t bits, bool set);

uint64_t bm_count(const uint64_t *words, uint64_t bits);

/* First set bit at or after from; bits if there is none. */
uint64_t bm_next(const uint64_t *words, uint64_t bits, uint64_t from);

/* ---- version 6 ----------------------------------------------------------------------------- */

enum { BM_LOCKLESS_STATES_AT = 1024 /* byte of the area */ };

/* State of a chunk, one byte (md-format §11.4). */
enum bm_chunk_state {
	BM_CHUNK_UNWRITTEN = 0,
	BM_CHUNK_CLEAN = 1,
	BM_CHUNK_DIRTY = 2,
	BM_CHUNK_NEED_SYNC = 3,
	BM_CHUNK_SYNCING = 4,
};

/* Bytes of the area of a BM_LOCKLESS bitmap. */
static inline uint64_t bm_lockless_area_bytes(uint64_t bits)
{
	return BM_LOCKLESS_STATES_AT + bits;
}

/*
 * The states as bits: dirty, need-sync, syncing and what is not known are 1, clean is 0. An
 * unwritten chunk holds no data, so nothing need be copied for it: 0 is right for "what has a
 * returning member missed", "what must a resync read" and for every reader. But its copies were
 * never made equal and its parity never computed: whoever is going to write (read-modify-write, or
 * repair from another copy) must take it as out of sync. unwritten_set chooses.
 */
void bm_lockless_unpack(const uint8_t *area, uint64_t bits, bool unwritten_set, uint64_t *words);

/* ---- making one ---------------------------------------------------------------------------- */

/* Sectors that mdadm keeps free for a bitmap beside so much data (md-format §6): of the device when
 * the data offset is chosen, of the component else. */
uint64_t bm_reserve_sectors(uint64_t sectors);

/*
 * The chunk: wanted if not 0 (a power of two ≥ 4 KiB), else the larger of 64 MiB and the smallest
 * that fits the room, of which not more than 128 KiB is used. Returns 0; -EINVAL: wanted cannot
 * be; -ENOSPC: it does not fit.
 */
int bm_choose_chunk(uint64_t sync_size_sectors, uint64_t room_sectors, uint32_t wanted_bytes,
		    uint32_t *chunk_bytes, char why[RAID_WHY_BYTES]);

struct bm_plan {
	int32_t offset_sectors; /* sb.bitmap_offset, the same for all members */
	uint32_t chunk_bytes;
	uint64_t bits;
	uint32_t area_sectors; /* whole pages */
	uint32_t room_sectors; /* free there, at least area_sectors */
};

struct bm_ask {
	bool creating;
	uint64_t sync_size_sectors;
	uint32_t chunk_bytes; /* 0: choose */
	/* Members in slots and spares, each with its superblock as it is to be, without bitmap. The
	 * bad-block log stays where its superblock says it is. */
	uint32_t members;
	const struct sb *sb[RAID_MEMBERS_MAX];
	uint64_t dev_sectors[RAID_MEMBERS_MAX];
};

/*
 * Find the place for a bitmap. creating: the superblocks have no bad-block log yet (bblog_size 0):
 * it goes behind the bitmap (1.1, 1.2) and is left room for; the bitmap takes no more than mdadm
 * would keep for it, unless the chunk was chosen by hand. Else of an array that has data. 1.1, 1.2:
 * offset +8, or behind the bad-block log; 1.0: before the superblock and its log, or behind the
 * superblock. Returns 0; -EINVAL: the level, version or log of this array takes no bitmap, or the
 * wish is impossible; -ENOSPC: no room, why says what is in the way.
 */
int bm_place(const struct bm_ask *ask, struct bm_plan *out, char why[RAID_WHY_BYTES]);

/* The header of a new bitmap; its bits are to be written as ones (as mdadm does) or, if all members
 * are known to be equal, as zeroes. */
void bm_header_new(const struct bm_ask *ask, const struct bm_plan *plan, struct bm_header *out);

#endif
