/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rule 3: what may differ after a power cut is marked. By the superblocks, as a whole and from
 * resync_offset on; and where there is a bitmap, by its bits, on disk, on every member.
 */
#include <string.h>

#include "raid/bitmap_fmt.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* From the superblocks and headers as the assembly read them. */
void bits_load(struct world *w, const struct assembly *as)
{
	w->bits = (struct bits){
		.on = as->bitmap.state == ASM_BITMAP_CURRENT ||
		      as->bitmap.state == ASM_BITMAP_STALE,
		.offset_sectors = as->bitmap.offset_sectors,
		.chunk_bytes = as->bitmap.header.chunk_bytes,
		.count = as->bitmap.bits,
	};
}

/* The bits as whoever starts the array reads them; NULL: all are set. */
const uint8_t *bits_bytes(const struct world *w, const struct assembly *as)
{
	if (as->bitmap.state != ASM_BITMAP_CURRENT) {
		return NULL;
	}
	return w->disk[w->disk_of[as->bitmap.member]].now +
	       as->bitmap.at_sector * RAID_SECTOR_BYTES + BM_HEADER_BYTES;
}

static uint64_t bit_of(const struct bits *b, uint64_t group)
{
	return group / (b->chunk_bytes / RAID_SECTOR_BYTES);
}

/* Data are about to reach a member: the bits must be durable on all of them. */
void bits_check_write(struct world *w, const struct flight *f)
{
	uint64_t last = UINT64_MAX;

	if (!w->bits.on || w->read_only) {
		return;
	}
	for (uint64_t at = 0; at < f->io->len; at += RAID_SECTOR_BYTES) {
		uint64_t g = layout_group(&w->layout, w->role[f->disk].slot, f->io->maddr + at);
		uint64_t bit = g == UINT64_MAX ? last : bit_of(&w->bits, g);

		if (bit == last) {
			continue;
		}
		last = bit;
		for (uint32_t d = 0; d < w->plan.disks; d++) {
			const struct role *r = &w->role[d];
			uint64_t area = (uint64_t)((int64_t)r->sb_maddr +
						   w->bits.offset_sectors * RAID_SECTOR_BYTES);

			if (world_is_good(w, d) && !bm_area_get(w->disk[d].durable + area, bit) &&
			    !watch_gave_up(w, d)) {
				sim_fail("io %llu writes data while bit %llu of the bitmap is not "
					 "durable on disk %u",
					 ULL(f->id), ULL(bit), d);
			}
		}
	}
}

/* After a power cut: what does not fit together is marked as such. Notes it as stale. */
void bits_check_crash(struct world *w, const struct assembly *as)
{
	const uint8_t *bits = bits_bytes(w, as);
	uint8_t made[RAID_SLOTS_MAX][RAID_SECTOR_BYTES];
	struct bits b;

	bits_load(w, as);
	b = w->bits;
	for (uint64_t g = 0; g < w->layout.groups; g++) {
		bool lost;

		w->stale[g] = !groups_judge(w, g, IMAGE_NOW, made, &lost);
		if (!w->stale[g]) {
			continue;
		}
		if (as->resync_offset == SB_IN_SYNC || g < as->resync_offset) {
			sim_fail(
				"after a power cut %s %llu, and the superblocks say that all is in "
				"sync %s",
				w->layout.parity ? "parity does not fit in column"
						 : "the copies differ of array sector",
				ULL(g), as->resync_offset == SB_IN_SYNC ? "" : "there");
		}
		if (bits && !(bits[bit_of(&b, g) / 8] >> bit_of(&b, g) % 8 & 1)) {
			sim_fail("after a power cut %s %llu, and bit %llu of the bitmap is not set",
				 w->layout.parity ? "parity does not fit in column"
						  : "the copies differ of array sector",
				 ULL(g), ULL(bit_of(&b, g)));
		}
	}
}
