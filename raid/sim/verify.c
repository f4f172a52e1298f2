/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The disks against the oracle: what is on the medium now, and what a power cut would leave.
 */
#include <stdlib.h>
#include <string.h>

#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* The superblock that a power cut leaves on this disk at least, or NULL. */
const struct sb *verify_durable_sb(struct world *w, uint32_t disk)
{
	struct role *r = &w->role[disk];
	const struct disk *d = &w->disk[disk];
	struct sb_location loc = {w->plan.version, r->sb_maddr / RAID_SECTOR_BYTES};
	char why[RAID_WHY_BYTES];

	if (r->decoded_at != d->watch_changes) {
		r->decoded_at = d->watch_changes;
		r->sb_valid = sb_decode(d->durable + r->sb_maddr, loc,
					d->p.size_bytes / RAID_SECTOR_BYTES, &r->sb, why) == 0;
	}
	return r->sb_valid ? &r->sb : NULL;
}

static bool is_readable(const struct world *w, uint32_t disk, uint64_t maddr)
{
	return !w->listed[disk][maddr / RAID_SECTOR_BYTES] &&
	       !disk_is_bad(&w->disk[disk], maddr, RAID_SECTOR_BYTES);
}

/* Every copy on a member in sync holds something the oracle allows. */
void verify_disks(struct world *w, const char *when)
{
	const struct layout *l = &w->layout;

	for (uint64_t s = 0; s < l->sectors; s++) {
		for (uint32_t i = 0; i < l->copies; i++) {
			uint32_t d = l->copy[s * l->copies + i].disk;
			uint64_t maddr = l->copy[s * l->copies + i].maddr;

			if (!world_is_good(w, d) || !is_readable(w, d, maddr)) {
				continue;
			}
			if (!oracle_may_hold(&w->oracle, s, w->disk[d].now + maddr)) {
				sim_fail("%s: array sector %llu on disk %u at byte %llu holds what "
					 "it cannot hold",
					 when, ULL(s), d, ULL(maddr));
			}
		}
	}
}

/* Two disks differ: does it matter? Not if one of them would not be trusted any more. */
static bool both_trusted(struct world *w, uint32_t a, uint32_t b)
{
	return session_would_trust(w, a) && session_would_trust(w, b);
}

/* All copies are equal, and a power cut would not change that. */
void verify_copies_equal(struct world *w, const char *when)
{
	const struct layout *l = &w->layout;

	for (uint64_t s = 0; s < l->sectors; s++) {
		const uint8_t *first = NULL;
		uint32_t first_disk = 0;

		for (uint32_t i = 0; i < l->copies; i++) {
			uint32_t d = l->copy[s * l->copies + i].disk;
			uint64_t maddr = l->copy[s * l->copies + i].maddr;
			const uint8_t *here = w->disk[d].durable + maddr;

			if (!world_is_good(w, d) || !is_readable(w, d, maddr)) {
				continue;
			}
			w->oracle.verified++;
			if (first && memcmp(first, here, RAID_SECTOR_BYTES) != 0 &&
			    both_trusted(w, first_disk, d)) {
				sim_fail("%s and the copies of array sector %llu differ", when,
					 ULL(s));
			}
			first_disk = first ? first_disk : d;
			first = first ? first : here;
		}
	}
}

static void check_copies(struct world *w, uint64_t s, uint64_t seq, bool durable, const char *what)
{
	const struct layout *l = &w->layout;

	for (uint32_t i = 0; i < l->copies; i++) {
		uint32_t d = l->copy[s * l->copies + i].disk;
		uint64_t maddr = l->copy[s * l->copies + i].maddr;
		const uint8_t *image = durable ? w->disk[d].durable : w->disk[d].now;

		if (!world_is_good(w, d) || w->listed[d][maddr / RAID_SECTOR_BYTES]) {
			continue;
		}
		w->oracle.verified++;
		if (oracle_holds_since(&w->oracle, s, seq, image + maddr)) {
			continue;
		}
		if (session_would_trust(w, d)) {
			sim_fail("%s, disk %u does not hold array sector %llu%s, and the durable "
				 "superblocks do not say so",
				 what, d, ULL(s), durable ? " durably" : "");
		}
	}
}

/* TRIM may do anything, but the same to all copies; unless a failed write made them differ. */
static void check_trimmed(struct world *w, uint64_t s)
{
	const struct layout *l = &w->layout;
	const uint8_t *first = NULL;
	uint32_t first_disk = 0;

	if (!oracle_is_quiet(&w->oracle, s) || w->assembly->resync_offset != SB_IN_SYNC ||
	    w->may_fail) {
		return;
	}
	for (uint32_t i = 0; i < l->copies; i++) {
		uint32_t d = l->copy[s * l->copies + i].disk;
		uint64_t maddr = l->copy[s * l->copies + i].maddr;
		const uint8_t *here = w->disk[d].now + maddr;

		if (!world_is_good(w, d) || !is_readable(w, d, maddr)) {
			continue;
		}
		if (first && memcmp(first, here, RAID_SECTOR_BYTES) != 0 &&
		    both_trusted(w, first_disk, d)) {
			sim_fail("after a TRIM the copies of array sector %llu differ", ULL(s));
		}
		first_disk = first ? first_disk : d;
		first = first ? first : here;
	}
}

/* Rule 1: whoever would be trusted after a power cut has it. */
void verify_acked(struct world *w, const struct op *op, bool durable)
{
	const struct raid_req *req = &op->req;
	uint64_t end = (req->addr + req->len + RAID_SECTOR_BYTES - 1) / RAID_SECTOR_BYTES;

	for (uint64_t s = req->addr / RAID_SECTOR_BYTES; s < end; s++) {
		if (req->op == RAID_OP_TRIM) {
			check_trimmed(w, s);
			continue;
		}
		check_copies(w, s, op->seq, false, "a write was acknowledged");
		if (durable) {
			check_copies(w, s, op->seq, true, "a write with FUA was acknowledged");
		}
	}
}

/* Rule 2: what was acknowledged before the FLUSH arrived is durable wherever it would be trusted.
 */
void verify_flushed(struct world *w, uint64_t begun)
{
	for (size_t k = 0; k < w->oracle.pending_count; k++) {
		const struct oracle_pending *p = &w->oracle.pending[k];
		uint64_t end = (p->addr + p->len + RAID_SECTOR_BYTES - 1) / RAID_SECTOR_BYTES;

		if (p->acked_at >= begun || p->maybe) {
			continue;
		}
		for (uint64_t s = p->addr / RAID_SECTOR_BYTES; s < end; s++) {
			check_copies(w, s, p->seq, true, "a FLUSH was acknowledged");
		}
	}
}

/* After STOP: nothing is left in a cache, and the superblocks tell the truth. */
void verify_stopped(struct world *w)
{
	bool clean = w->assembly->resync_offset == SB_IN_SYNC;

	if (w->read_only || w->may_fail) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.slots; d++) {
		const struct sb *sb;

		if (!world_is_good(w, d)) {
			continue;
		}
		if (!list_empty(&w->disk[d].cache)) {
			sim_fail("after STOP data is only in the cache of disk %u", d);
		}
		if (!w->assembly->metadata) {
			continue;
		}
		sb = verify_durable_sb(w, d);
		if (!sb) {
			sim_fail("after STOP disk %u has no superblock", d);
		}
		/* A member that was behind all the time may still say what it said. */
		if (world_is_redundant(w) && (sb->resync_offset == SB_IN_SYNC) != clean &&
		    !(w->role[d].lagging && sb->events < w->assembly->events)) {
			sim_fail("after STOP disk %u says %s", d, clean ? "dirty" : "clean");
		}
	}
	if (clean) {
		verify_copies_equal(w, "the array was stopped clean");
	}
}
