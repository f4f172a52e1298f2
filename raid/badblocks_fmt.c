/* SPDX-License-Identifier: BSD-3-Clause */
/* The bad-block log's entries: length in bits 0–9, start in bits 10–63, both in units of
 * 1 << shift sectors, start counted from the begin of the device (md-format §14). */
#include "raid/badblocks_fmt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { ENTRY_BYTES = 8, LENGTH_BITS = 10, LENGTH_MAX = BB_ENTRY_UNITS_MAX, SHIFT_MAX = 54 };

static int bad_entry(char why[RAID_WHY_BYTES], uint32_t i, uint64_t start, uint64_t len,
		     const char *what)
{
	snprintf(why, RAID_WHY_BYTES,
		 "bad-block log: entry %u (%llu sectors at %llu) %s; the log cannot be trusted, so "
		 "neither can the member",
		 i, (unsigned long long)len, (unsigned long long)start, what);
	return -EUCLEAN;
}

int bb_decode(const uint8_t *log, uint32_t log_bytes, uint8_t shift, uint64_t dev_sectors,
	      struct bb_list *out, char why[RAID_WHY_BYTES])
{
	uint64_t units, end = 0;
	uint32_t i;

	CHECK(log_bytes <= BB_ENTRIES_MAX * ENTRY_BYTES);
	out->count = 0;
	why[0] = '\0';
	if (shift > SHIFT_MAX) {
		snprintf(why, RAID_WHY_BYTES, "bad-block log: impossible unit, 2^%u sectors",
			 shift);
		return -EUCLEAN;
	}
	units = dev_sectors >> shift;
	for (i = 0; i < log_bytes / ENTRY_BYTES; i++) {
		uint64_t entry = get_le64(log + ENTRY_BYTES * i);
		uint64_t len = entry & ((1 << LENGTH_BITS) - 1), start = entry >> LENGTH_BITS;

		if (entry == UINT64_MAX) {
			break;
		}
		if (!len || len > LENGTH_MAX) {
			return bad_entry(why, i, start, len, "has an impossible length");
		}
		if (start < end) {
			return bad_entry(why, i, start, len, "is out of order");
		}
		if (start > units || len > units - start) {
			return bad_entry(why, i, start, len, "is beyond the device");
		}
		end = start + len;
		out->range[out->count++] = (struct bb_range){
			.maddr = (start << shift) * RAID_SECTOR_BYTES,
			.len = (len << shift) * RAID_SECTOR_BYTES,
		};
	}
	return 0;
}

static uint64_t end_of(const struct bb_range *r)
{
	return r->maddr + r->len;
}

/* First range that ends behind maddr. */
static uint32_t first_behind(const struct bb_list *list, uint64_t maddr)
{
	uint32_t low = 0, high = list->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (end_of(&list->range[mid]) <= maddr) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return low;
}

bool bb_find(const struct bb_list *list, uint64_t maddr, uint64_t len, struct bb_range *hit)
{
	uint32_t i = first_behind(list, maddr);
	uint64_t from, to;

	if (i == list->count || list->range[i].maddr >= maddr + len) {
		return false;
	}
	from = max_u64(maddr, list->range[i].maddr);
	to = min_u64(maddr + len, end_of(&list->range[i]));
	*hit = (struct bb_range){.maddr = from, .len = to - from};
	return true;
}

/* ---- changes ------------------------------------------------------------------------------- */

bool bb_shape_of(const struct sb *sb, uint64_t dev_sectors, struct bb_shape *out)
{
	uint32_t entries = (uint32_t)sb->bblog_size * RAID_SECTOR_BYTES / ENTRY_BYTES;
	bool in_force = sb->feature_map & SB_FEATURE_BAD_BLOCKS;

	*out = (struct bb_shape){
		.shift = in_force ? sb->bblog_shift : 0,
		.entries = entries,
		.dev_sectors = dev_sectors,
	};
	return sb->version != SB_V0_90 && entries && entries <= BB_ENTRIES_MAX &&
	       sb->bblog_offset && out->shift <= SHIFT_MAX &&
	       sb_room(sb, dev_sectors, sb->bblog_offset, SB_AREA_BBLOG, NULL) >= sb->bblog_size;
}

static uint64_t unit_bytes(const struct bb_shape *shape)
{
	CHECK(shape->shift <= SHIFT_MAX && shape->entries <= BB_ENTRIES_MAX);
	return (uint64_t)RAID_SECTOR_BYTES << shape->shift;
}

/* Make room for n ranges in the place of [from, to). False if there is none; nothing is moved then.
 */
static bool replace(struct bb_list *list, const struct bb_shape *shape, uint32_t from, uint32_t to,
		    uint64_t n)
{
	if (list->count - (to - from) + n > shape->entries) {
		return false;
	}
	memmove(&list->range[from + n], &list->range[to],
		(list->count - to) * sizeof list->range[0]);
	list->count += (uint32_t)n - (to - from);
	return true;
}

/* Is all of [from, to) listed? */
static bool covered(const struct bb_list *list, uint64_t from, uint64_t to)
{
	for (uint32_t i = first_behind(list, from); from < to; i++) {
		if (i == list->count || list->range[i].maddr > from) {
			return false;
		}
		from = end_of(&list->range[i]);
	}
	return true;
}

int bb_add(struct bb_list *list, const struct bb_shape *shape, uint64_t maddr, uint64_t len)
{
	uint64_t unit = unit_bytes(shape), entry = LENGTH_MAX * unit, from, to, n;
	uint64_t end = (shape->dev_sectors >> shape->shift) * unit;
	uint32_t i, j;

	CHECK(len && maddr + len > maddr);
	if (maddr + len > end) {
		return -ENOSPC;
	}
	from = round_down_u64(maddr, unit);
	to = round_up_u64(maddr + len, unit);
	if (covered(list, from, to)) {
		return BB_SAME;
	}
	/* With all that touches it, near and far: so there are never more entries than needed. */
	i = first_behind(list, from);
	for (; i && end_of(&list->range[i - 1]) >= from; i--) {
		from = list->range[i - 1].maddr;
	}
	for (j = i; j < list->count && list->range[j].maddr <= to; j++) {
		from = min_u64(from, list->range[j].maddr);
		to = max_u64(to, end_of(&list->range[j]));
	}
	n = (to - from + entry - 1) / entry;
	if (!replace(list, shape, i, j, n)) {
		return -ENOSPC;
	}
	for (; from < to; from += entry, i++) {
		list->range[i] = (struct bb_range){from, min_u64(entry, to - from)};
	}
	return BB_GREW;
}

int bb_remove(struct bb_list *list, const struct bb_shape *shape, uint64_t maddr, uint64_t len)
{
	uint64_t unit = unit_bytes(shape), from = round_up_u64(maddr, unit);
	uint64_t to = round_down_u64(maddr + len, unit);
	struct bb_range left, right;
	uint32_t i, j;

	CHECK(len && maddr + len > maddr);
	i = first_behind(list, from);
	for (j = i; j < list->count && list->range[j].maddr < to; j++) {
	}
	if (from >= to || i == j) {
		return BB_SAME;
	}
	left = list->range[i];
	right = list->range[j - 1];
	if (!replace(list, shape, i, j, (left.maddr < from) + (end_of(&right) > to))) {
		return -ENOSPC;
	}
	if (left.maddr < from) {
		list->range[i++] = (struct bb_range){left.maddr, from - left.maddr};
	}
	if (end_of(&right) > to) {
		list->range[i] = (struct bb_range){to, end_of(&right) - to};
	}
	return BB_SHRANK;
}

void bb_encode(const struct bb_list *list, const struct bb_shape *shape, uint8_t log[BB_LOG_BYTES])
{
	uint64_t unit = unit_bytes(shape);

	CHECK(list->count <= shape->entries);
	memset(log, 0xff, BB_LOG_BYTES);
	for (uint32_t i = 0; i < list->count; i++) {
		const struct bb_range *r = &list->range[i];

		CHECK(r->maddr % unit == 0 && r->len % unit == 0 && r->len / unit <= LENGTH_MAX);
		put_le64(log + ENTRY_BYTES * i, r->maddr / unit << LENGTH_BITS | r->len / unit);
	}
}
