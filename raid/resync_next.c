/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sync machine does next, and how far an order goes. Pure: the core is only read. */
#include "raid/base/bytes.h"
#include "raid/core.h"

enum { SKIP_MAX = 1024 };

bool resync_is_parity(const struct core *c)
{
	enum raid_level level = c->geo.p.level;

	return level == RAID_LEVEL_4 || level == RAID_LEVEL_5 || level == RAID_LEVEL_6;
}

static uint64_t component_bytes(const struct core *c)
{
	uint64_t end = 0;

	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		end = max_u64(end, geo_used_sectors(&c->geo, k));
	}
	return end * RAID_SECTOR_BYTES;
}

static bool onto_targets(enum sync_kind kind)
{
	return kind == SYNC_REBUILD || kind == SYNC_COPY;
}

uint64_t resync_limit(const struct core *c, enum sync_kind kind)
{
	return c->geo.p.level == RAID_LEVEL_10 && !onto_targets(kind) ? c->view.size_bytes
								      : component_bytes(c);
}

uint64_t resync_member_bytes(const struct core *c, uint64_t bytes)
{
	if (c->geo.p.level != RAID_LEVEL_10 || onto_targets(c->resync.kind)) {
		return bytes;
	}
	return max_u64(1, bytes * c->geo.copies / c->geo.p.slots);
}

bool resync_in_steps(const struct core *c)
{
	return resync_is_parity(c) && onto_targets(c->resync.kind);
}

void resync_widen(const struct core *c, uint64_t *lo, uint64_t *hi)
{
	const struct resync *s = &c->resync;
	uint64_t unit = resync_in_steps(c) ? s->step : RAID_PAGE_BYTES;

	*lo = *lo < s->limit ? round_down_u64(*lo, unit) : *lo;
	*hi = round_up_u64(*hi, unit);
}

/*
 * An order of so many bytes of each member. What it holds of RAID 10 must be adjacent rows of the
 * array: it does not go from one zone of the far layout to the next.
 */
uint64_t resync_order_end(const struct core *c, uint64_t lo)
{
	const struct resync *s = &c->resync;
	const struct geometry *g = &c->geo;
	uint64_t step = s->step, hi;

	if (g->p.level == RAID_LEVEL_10 && !onto_targets(s->kind)) {
		step = step * g->p.slots / g->copies;
		step = round_down_u64(step, min_u64(g->chunk_bytes, RAID_PAGE_BYTES));
	}
	if (resync_in_steps(c)) {
		return min_u64(round_down_u64(lo, step) + step, s->limit);
	}
	hi = min_u64(lo + step, s->limit);
	if (g->p.level == RAID_LEVEL_10 && onto_targets(s->kind) && g->far > 1 &&
	    !g->offset_layout) {
		uint64_t zone = g->stride_rows * g->chunk_bytes;

		hi = min_u64(hi, lo / zone * zone + zone);
	}
	return hi;
}

/* Does each target lack only what the bitmap marks? */
static bool guided(const struct core *c)
{
	const struct resync *s = &c->resync;

	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		if (s->target[k] && !c->member[s->target_member[k]].guided) {
			return false;
		}
	}
	return s->kind == SYNC_REBUILD;
}

/* The bitmap of RAID 10 counts the array's bytes: those that the targets hold of an order. */
static bool order_is_set(const struct core *c, uint64_t lo, uint64_t hi)
{
	const struct geometry *g = &c->geo;
	uint64_t addr, len;
	uint32_t copy;

	for (uint32_t k = 0; k < g->p.slots; k++) {
		uint64_t base = g->p.slot[k].data_offset_sectors * RAID_SECTOR_BYTES;

		for (uint64_t at = lo; c->resync.target[k] && at < hi; at += len) {
			len = min_u64(hi - at, g->chunk_bytes - at % g->chunk_bytes);
			if (geo_unmap(g, k, base + at, &addr, &copy) &&
			    intent_is_set(c, addr, addr + len)) {
				return true;
			}
		}
	}
	return false;
}

bool resync_needed(const struct core *c, uint64_t *lo, uint64_t *hi)
{
	if (c->resync.kind == SYNC_RESYNC) {
		return intent_next_needed(c, *lo, *hi, lo, hi);
	}
	if (!guided(c)) {
		return *lo < *hi;
	}
	if (c->geo.p.level != RAID_LEVEL_10) {
		return intent_next_set(c, *lo, *hi, lo, hi);
	}
	/* No more at once, so that requests are not kept waiting: the next is copied though nothing
	 * says that it must be. */
	for (uint32_t i = 0; i < SKIP_MAX && *lo < *hi; i++) {
		if (order_is_set(c, *lo, resync_order_end(c, *lo))) {
			break;
		}
		*lo = resync_order_end(c, *lo);
	}
	return *lo < *hi;
}

static bool is_target(const struct core *c, uint32_t gslot)
{
	const struct view_slot *vs = &c->view.slot[gslot];

	return vs->writes && !vs->in_sync && c->member[vs->member].finish == FINISH_NOT;
}

/* The targets of one kind; those that were begun earlier wait for the others to come that far. */
static bool targets(const struct core *c, enum sync_kind kind, struct resync_plan *out)
{
	uint32_t first = kind == SYNC_COPY ? VIEW_TWIN : 0;
	bool any = false;

	*out = (struct resync_plan){
		.action = kind == SYNC_COPY ? RAID_SYNC_REPLACE : RAID_SYNC_REBUILD,
		.kind = kind,
		.from = UINT64_MAX,
		.limit = resync_limit(c, kind),
	};
	for (uint32_t k = first; k < first + c->geo.p.slots; k++) {
		if (is_target(c, k)) {
			out->target[k] = any = true;
			out->from = min_u64(out->from, c->view.slot[k].good_below);
		}
	}
	return any;
}

static bool finishing(const struct core *c)
{
	for (uint32_t i = 0; i < c->members; i++) {
		if (c->member[i].finish != FINISH_NOT) {
			return true;
		}
	}
	return false;
}

/*
 * A mirror of one copy has nothing that could differ from it; members that are filled from it
 * begin at their start.
 */
static bool only_copy(const struct core *c)
{
	uint32_t good = 0, begun = 0;

	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		const struct view_slot *vs = &c->view.slot[k];

		good += vs->in_sync;
		begun += vs->writes && !vs->in_sync && vs->good_below;
	}
	return c->geo.p.level == RAID_LEVEL_1 && good == 1 && !begun;
}

static bool urgent(const struct core *c, struct resync_plan *out)
{
	bool unsynced = c->meta.resync_offset != SB_IN_SYNC, one = only_copy(c);

	if (!(unsynced && one) && (targets(c, SYNC_REBUILD, out) || targets(c, SYNC_COPY, out))) {
		return true;
	}
	/* A member that has just been filled takes part: what was copied to it before the last
	 * unclean stop may differ too. */
	if (finishing(c)) {
		return false;
	}
	*out = (struct resync_plan){
		.action = RAID_SYNC_RESYNC,
		.kind = SYNC_RESYNC,
		.limit = resync_limit(c, SYNC_RESYNC),
		.from = c->meta.resync_offset * RAID_SECTOR_BYTES,
	};
	out->from = one ? out->limit : out->from;
	return unsynced;
}

bool resync_next(const struct core *c, struct resync_plan *out)
{
	const struct resync *s = &c->resync;
	bool blocked = s->blocked && s->blocked_generation == c->view.members_generation;

	if (s->stopping || c->view.broken || c->view.flush_lost || c->view.read_only) {
		return false;
	}
	if (!s->frozen && !blocked && urgent(c, out)) {
		if (out->from < out->limit) {
			out->from = round_down_u64(out->from, RAID_PAGE_BYTES);
		}
		return true;
	}
	if (s->wanted == RAID_SYNC_IDLE) {
		return false;
	}
	*out = (struct resync_plan){
		.action = s->wanted,
		.kind = s->wanted == RAID_SYNC_CHECK ? SYNC_CHECK : SYNC_REPAIR,
		.from = s->scrub_pos,
	};
	out->limit = resync_limit(c, out->kind);
	return true;
}

bool resync_waits(const struct core *c)
{
	struct resync_plan p;

	return c->view.redundant && c->resync.action == RAID_SYNC_IDLE && urgent(c, &p);
}
