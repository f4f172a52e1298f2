/* SPDX-License-Identifier: BSD-3-Clause */
/* The bad-block log's entries: length in bits 0–9, start in bits 10–63, both in units of
 * 1 << shift sectors, start counted from the begin of the device (md-format §14). */
#include "raid/badblocks_fmt.h"

#include <errno.h>
#include <stdio.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { ENTRY_BYTES = 8, LENGTH_BITS = 10, LENGTH_MAX = 512, SHIFT_MAX = 54 };

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

bool bb_find(const struct bb_list *list, uint64_t maddr, uint64_t len, struct bb_range *hit)
{
	uint32_t low = 0, high = list->count;
	uint64_t from, to;

	/* The first range that ends behind maddr. */
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (list->range[mid].maddr + list->range[mid].len <= maddr) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	if (low == list->count || list->range[low].maddr >= maddr + len) {
		return false;
	}
	from = max_u64(maddr, list->range[low].maddr);
	to = min_u64(maddr + len, list->range[low].maddr + list->range[low].len);
	*hit = (struct bb_range){.maddr = from, .len = to - from};
	return true;
}
