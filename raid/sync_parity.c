/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders of the sync machine on rows (levels 4, 5, 6), 4 KiB of all slots at a time (a sub-row).
 *
 * RESYNC   parity may be stale: it is made anew from the data, written where it differs. Where a
 *          data block cannot be read nothing vouches for it nor for the parity (rule 5): lost
 * CHECK    compares; with P and Q together a single wrong block is named
 * REPAIR   writes the block that is named; otherwise parity from the data
 * REBUILD  the targets' blocks, data or parity, from the others
 * COPY     from the member that is to be replaced; what cannot be read there from the others
 *
 * An unreadable block that the others can give is rewritten by CHECK and REPAIR; not if those
 * disagree among themselves.
 *
 * Where parity may be stale (view_unsynced) no data comes from it and it names no wrong block
 * (rule 5); it is made from data as ever. That happens also after a resync: what could not be
 * brought in order stays in need of one.
 */
#include "raid/sync_job.h"

#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/parity.h"

/* One sub-row, by lanes and as parity.h wants it. */
struct subrow {
	struct geo_row row;
	uint32_t parity, lost;
	const void *src[RAID_SLOTS_MAX]; /* by exponent */
	void *p, *q;			 /* lanes; q is NULL without */
	struct parity_lost list[2];	 /* the first two lost */
};

static uint64_t block_at(const struct sync_job *j, uint32_t block)
{
	return j->op->lo + (uint64_t)block * SYNC_BLOCK;
}

static uint64_t chunk_bytes(const struct shard *sh)
{
	return (uint64_t)sh->view->geo->p.chunk_sectors * RAID_SECTOR_BYTES;
}

static uint64_t maddr_of(const struct shard *sh, const struct sync_job *j, uint32_t lane,
			 uint32_t block)
{
	uint64_t at = block_at(j, block), chunk = chunk_bytes(sh);

	return geo_row_maddr(sh->view->geo, at / chunk, lane) + at % chunk;
}

/* The replacement of a slot, if that is what is filled; else the slot itself. */
static uint32_t target_of(const struct sync_job *j, uint32_t lane)
{
	return j->op->target[VIEW_TWIN + lane] ? VIEW_TWIN + lane : lane;
}

static bool is_target(const struct sync_job *j, uint32_t lane)
{
	return j->op->target[lane] || j->op->target[VIEW_TWIN + lane];
}

static bool readable(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		     uint32_t block)
{
	const struct view_slot *vs = &sh->view->slot[lane];
	uint64_t at = block_at(j, block);
	struct bb_range hit;

	return !j->op->target[lane] && view_good(sh->view, lane, at, at + SYNC_BLOCK) &&
	       !(vs->bad && bb_find(vs->bad, maddr_of(sh, j, lane, block), SYNC_BLOCK, &hit));
}

void sync_parity_shape(const struct shard *sh, struct sync_job *j, uint64_t *lock_lo,
		       uint64_t *lock_hi)
{
	j->lanes = sh->view->geo->p.slots;
	*lock_lo = j->op->lo;
	*lock_hi = j->op->hi;
}

bool sync_parity_place(const struct shard *sh, const struct sync_job *j, uint32_t lane,
		       uint32_t block, bool write, struct sync_place *out)
{
	out->gslot = write ? target_of(j, lane) : lane;
	out->maddr = maddr_of(sh, j, lane, block);
	return true;
}

static void plan_lane(struct shard *sh, struct sync_job *j, uint32_t lane, uint32_t block)
{
	sync_add(j, readable(sh, j, lane, block) ? SYNC_WANT : SYNC_LOST, lane, block);
}

void sync_parity_plan(struct shard *sh, struct sync_job *j)
{
	for (uint32_t b = 0; b < j->blocks; b++) {
		for (uint32_t lane = 0; lane < j->lanes; lane++) {
			if (j->op->kind != SYNC_COPY || is_target(j, lane)) {
				plan_lane(sh, j, lane, b);
			}
		}
	}
}

/* ---- a sub-row ------------------------------------------------------------------------------- */

static void add_lost(struct subrow *r, uint32_t what, void *to)
{
	if (r->lost < 2) {
		r->list[r->lost] = (struct parity_lost){.what = what, .to = to};
	}
	r->lost++;
}

static void gather(const struct shard *sh, const struct sync_job *j, uint32_t block,
		   struct subrow *r)
{
	geo_row_map(sh->view->geo, block_at(j, block) / chunk_bytes(sh), &r->row);
	memset(r->src, 0, sizeof r->src);
	r->lost = 0;
	r->parity = r->row.q == GEO_NO_SLOT ? 1 : 2;
	r->p = sync_lane(j, r->row.p, block);
	r->q = r->parity == 2 ? sync_lane(j, r->row.q, block) : NULL;
	for (uint32_t d = 0; d < r->row.data; d++) {
		uint8_t *buf = sync_lane(j, r->row.slot[d], block);

		r->src[r->row.exp[d]] = buf;
		if (sync_has(j, SYNC_LOST, r->row.slot[d], block)) {
			add_lost(r, r->row.exp[d], buf);
		}
	}
	if (sync_has(j, SYNC_LOST, r->row.p, block)) {
		add_lost(r, PARITY_P, r->p);
	}
	if (r->q && sync_has(j, SYNC_LOST, r->row.q, block)) {
		add_lost(r, PARITY_Q, r->q);
	}
}

static bool stale(const struct shard *sh, const struct sync_job *j, uint32_t block)
{
	uint64_t at = block_at(j, block);

	return view_unsynced(sh->view, at, at + SYNC_BLOCK);
}

static bool data_lost(const struct sync_job *j, const struct subrow *r, uint32_t block)
{
	for (uint32_t d = 0; d < r->row.data; d++) {
		if (sync_has(j, SYNC_LOST, r->row.slot[d], block)) {
			return true;
		}
	}
	return false;
}

/* Can what is lost be computed from what is there? */
static bool recoverable(const struct shard *sh, const struct sync_job *j, const struct subrow *r,
			uint32_t block)
{
	if (r->lost <= r->parity && data_lost(j, r, block) && stale(sh, j, block)) {
		MARK(sync_parity_stale);
		return false;
	}
	return r->lost <= r->parity;
}

static void recover(const struct sync_job *j, const struct subrow *r, uint32_t block)
{
	bool p = !sync_has(j, SYNC_LOST, r->row.p, block);
	bool q = r->q && !sync_has(j, SYNC_LOST, r->row.q, block);

	parity_recover(r->list, r->lost, p ? r->p : NULL, q ? r->q : NULL, r->src, r->row.exps,
		       SYNC_BLOCK);
}

static uint32_t differing_sectors(const uint8_t *a, const uint8_t *b)
{
	uint32_t n = 0;

	for (uint32_t off = 0; off < SYNC_BLOCK; off += RAID_SECTOR_BYTES) {
		n += memcmp(a + off, b + off, RAID_SECTOR_BYTES) != 0;
	}
	return n;
}

/* Compute parity anew into the scratch pages; how many sectors differ from what the lanes hold. */
static uint32_t compute(const struct sync_job *j, const struct subrow *r)
{
	uint8_t *p = j->scratch, *q = r->q ? j->scratch + SYNC_BLOCK : NULL;
	uint32_t sectors;

	parity_pq(p, q, r->src, r->row.exps, SYNC_BLOCK);
	sectors = differing_sectors(p, r->p);
	return q ? (uint32_t)max_u64(sectors, differing_sectors(q, r->q)) : sectors;
}

/* Parity as computed is to be written where a lane holds something else, or nothing. */
static void write_parity(struct sync_job *j, const struct subrow *r, uint32_t block)
{
	const uint8_t *made = j->scratch;
	uint32_t lane[2] = {r->row.p, r->row.q};

	for (uint32_t i = 0; i < r->parity; i++, made += SYNC_BLOCK) {
		uint8_t *buf = sync_lane(j, lane[i], block);
		bool lost = sync_has(j, SYNC_LOST, lane[i], block);

		if (lost ? sync_has(j, SYNC_FIX, lane[i], block)
			 : memcmp(buf, made, SYNC_BLOCK) != 0) {
			memcpy(buf, made, SYNC_BLOCK);
			sync_add(j, SYNC_WANT, lane[i], block);
		}
	}
}

static void forget_fixes(struct sync_job *j, uint32_t block)
{
	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		sync_del(j, SYNC_FIX, lane, block);
	}
}

/* ---- the kinds of orders --------------------------------------------------------------------- */

static void resync(struct shard *sh, struct sync_job *j, uint32_t block)
{
	struct subrow r;

	gather(sh, j, block, &r);
	if (!data_lost(j, &r, block)) {
		compute(j, &r);
		write_parity(j, &r, block);
		return;
	}
	MARK(sync_parity_stale_for_good);
	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		bool is_parity = lane == r.row.p || lane == r.row.q;

		if (sync_has(j, SYNC_FIX, lane, block) ||
		    (is_parity && !sync_has(j, SYNC_LOST, lane, block))) {
			sync_lost(j, lane, maddr_of(sh, j, lane, block), SYNC_BLOCK);
		}
	}
	forget_fixes(j, block);
}

/* What the others say of blocks that could not be read, or of members that are not there. */
static void scrub_degraded(const struct shard *sh, struct sync_job *j, struct subrow *r,
			   uint32_t block)
{
	uint32_t sectors;

	if (!recoverable(sh, j, r, block)) {
		forget_fixes(j, block);
		return;
	}
	recover(j, r, block);
	if (r->lost < r->parity) { /* P or Q is left to compare with */
		sectors = compute(j, r);
		if (sectors) {
			MARK(sync_parity_doubt);
			sync_found(j, block, sectors, -1);
			forget_fixes(j, block);
			return;
		}
	}
	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		if (sync_has(j, SYNC_FIX, lane, block)) {
			sync_add(j, SYNC_WANT, lane, block);
		}
	}
}

static int32_t name_wrong(const struct subrow *r, enum parity_verdict verdict, uint32_t exponent)
{
	switch (verdict) {
	case PARITY_P_WRONG:
		return (int32_t)r->row.p;
	case PARITY_Q_WRONG:
		return (int32_t)r->row.q;
	case PARITY_DATA_WRONG:
		for (uint32_t d = 0; d < r->row.data; d++) {
			if (r->row.exp[d] == exponent) {
				return r->row.slot[d];
			}
		}
		return -1;
	default:
		return -1;
	}
}

static void scrub(struct shard *sh, struct sync_job *j, uint32_t block)
{
	enum parity_verdict verdict = PARITY_UNKNOWN;
	uint32_t exponent = 0, sectors;
	int32_t wrong;
	struct subrow r;

	gather(sh, j, block, &r);
	if (r.lost) {
		scrub_degraded(sh, j, &r, block);
		return;
	}
	sectors = compute(j, &r);
	if (!sectors) {
		return;
	}
	if (r.q && !stale(sh, j, block)) {
		verdict = parity_locate(r.p, r.q, r.src, r.row.exps, &exponent);
	}
	wrong = name_wrong(&r, verdict, exponent);
	sync_found(j, block, sectors, wrong);
	if (j->op->kind != SYNC_REPAIR) {
		return;
	}
	if (verdict == PARITY_DATA_WRONG && wrong >= 0) {
		MARK(sync_parity_data_repaired);
		sync_add(j, SYNC_LOST, (uint32_t)wrong, block);
		gather(sh, j, block, &r);
		recover(j, &r, block);
		sync_add(j, SYNC_WANT, (uint32_t)wrong, block);
	} else {
		write_parity(j, &r, block);
	}
}

static void rebuild(struct shard *sh, struct sync_job *j, uint32_t block)
{
	struct subrow r;
	bool needed = false;

	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		needed |= is_target(j, lane) && sync_has(j, SYNC_LOST, lane, block);
	}
	if (needed) {
		gather(sh, j, block, &r);
		if (recoverable(sh, j, &r, block)) {
			recover(j, &r, block);
			needed = false;
		}
	}
	for (uint32_t lane = 0; lane < j->lanes; lane++) {
		if (!is_target(j, lane)) {
			continue;
		}
		if (needed && sync_has(j, SYNC_LOST, lane, block)) {
			sync_lost(j, target_of(j, lane), maddr_of(sh, j, lane, block), SYNC_BLOCK);
		} else {
			sync_add(j, SYNC_WANT, lane, block);
		}
	}
}

/* A source that cannot be read: the other lanes of those blocks. */
static bool read_wide(struct shard *sh, struct sync_job *j)
{
	bool more = false;

	if (j->op->kind != SYNC_COPY || j->wide) {
		return false;
	}
	for (uint32_t b = 0; b < j->blocks; b++) {
		bool lost = false;

		for (uint32_t lane = 0; lane < j->lanes; lane++) {
			lost |= is_target(j, lane) && sync_has(j, SYNC_LOST, lane, b);
		}
		for (uint32_t lane = 0; lost && lane < j->lanes; lane++) {
			if (!is_target(j, lane)) {
				plan_lane(sh, j, lane, b);
			}
		}
		more |= lost;
	}
	j->wide = more;
	return more;
}

bool sync_parity_decide(struct shard *sh, struct sync_job *j)
{
	if (read_wide(sh, j)) {
		MARK(sync_parity_wide);
		return true;
	}
	for (uint32_t b = 0; b < j->blocks; b++) {
		switch (j->op->kind) {
		case SYNC_RESYNC:
			resync(sh, j, b);
			break;
		case SYNC_CHECK:
		case SYNC_REPAIR:
			scrub(sh, j, b);
			break;
		case SYNC_REBUILD:
		case SYNC_COPY:
			rebuild(sh, j, b);
			break;
		}
	}
	return false;
}
