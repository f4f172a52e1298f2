/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sync_rate.h"

#include "raid/base/bytes.h"
#include "raid/base/check.h"

#define MS     ((uint64_t)1000000)
#define SECOND (1000 * MS)

enum {
	/* Times a piece's duration to pause after it while foreground is there; and where a piece
	 * is what clients feel. */
	SHARE_PAUSES = 11,
	SHARE_PAUSES_FELT = 127,
	QUIET_GAPS = 4, /* gaps that pass before foreground counts as absent … */
	EWMA = 16,	/* of latencies and gaps: weight of a new one is 1/16 */
	SPEED_EWMA = 2, /* the same of speeds, which are few */
	PEAK_FADE = 32,
	DEPTH_LIMIT = 1024,
};

#define QUIET_MIN    (10 * MS) /* … between these */
#define QUIET_MAX    (100 * MS)
#define LONG_ABSENCE SECOND
#define SPEED_WINDOW SECOND
#define NS_FOR_MAX   (SECOND << 20) /* times DEPTH_LIMIT it still fits */

static uint64_t ns_for(uint64_t bytes, uint64_t bps)
{
	unsigned __int128 ns = (unsigned __int128)bytes * SECOND / bps;

	return ns > NS_FOR_MAX ? NS_FOR_MAX : (uint64_t)ns;
}

static uint64_t bps_of(uint64_t bytes, uint64_t ns)
{
	unsigned __int128 bps = (unsigned __int128)bytes * SECOND / max_u64(ns, 1);

	return bps > UINT64_MAX - 1 ? UINT64_MAX - 1 : (uint64_t)bps;
}

static uint64_t add_ns(uint64_t a, uint64_t b)
{
	return a > RAID_NEVER - b ? RAID_NEVER : a + b;
}

static uint64_t sub_ns(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* value counts 1/n. */
static uint64_t smooth(uint64_t old, uint64_t value, uint64_t n)
{
	return old ? old - old / n + value / n : value;
}

/* The largest of late: an old one fades. */
static uint64_t peak(uint64_t old, uint64_t value)
{
	return max_u64(old - old / PEAK_FADE, value);
}

/* ---- limits -------------------------------------------------------------------------------- */

void sync_rate_set_limits(struct sync_rate *r, const struct sync_rate_limits *limits, uint64_t now)
{
	CHECK(limits->depth_max && limits->depth_max <= DEPTH_LIMIT);
	if (!r->limits.min_bps) {
		r->floor_due = now; /* nothing was owed */
	}
	r->limits = *limits;
	if (r->limits.max_bps) {
		r->limits.min_bps = min_u64(r->limits.min_bps, r->limits.max_bps);
	}
	/* A debt or a pause agreed under the old limits does not outlast them. */
	if (r->limits.min_bps) {
		r->floor_due = min_u64(r->floor_due,
				       add_ns(now, ns_for(r->piece_bytes, r->limits.min_bps)));
	}
	r->max_due = r->limits.max_bps
			     ? min_u64(r->max_due,
				       add_ns(now, ns_for(r->piece_bytes, r->limits.max_bps)))
			     : 0;
	r->cap = (uint32_t)min_u64(r->cap, r->limits.depth_max);
	r->depth = (uint32_t)min_u64(r->depth, r->cap);
}

void sync_rate_init(struct sync_rate *r, const struct sync_rate_limits *limits, uint64_t now)
{
	*r = (struct sync_rate){.depth = 1, .cap = UINT32_MAX};
	sync_rate_set_limits(r, limits, now);
	sync_rate_begin(r, now);
}

void sync_rate_begin(struct sync_rate *r, uint64_t now)
{
	CHECK(!r->in_flight);
	r->depth = 1;
	r->floor_due = r->max_due = r->share_due = now;
	r->window_from = now;
	r->window_bytes = 0;
	r->speed_known = false;
}

/* ---- foreground ---------------------------------------------------------------------------- */

/* When foreground counts as absent, if none arrives until then. */
static uint64_t absent_from(const struct sync_rate *r)
{
	uint64_t quiet = r->gap_ns > QUIET_MAX ? QUIET_MAX : QUIET_GAPS * r->gap_ns;

	if (r->foreground) {
		return RAID_NEVER;
	}
	if (!r->seen) {
		return 0;
	}
	return add_ns(r->absent_since, min_u64(max_u64(quiet, QUIET_MIN), QUIET_MAX));
}

void sync_rate_foreground_start(struct sync_rate *r, uint64_t now)
{
	if (!r->foreground) {
		if (now >= absent_from(r)) {
			r->met = r->in_flight;
		}
		if (r->seen) {
			/* A long absence is the end of something, not a gap in it. */
			r->gap_ns = smooth(r->gap_ns,
					   min_u64(sub_ns(now, r->absent_since), QUIET_MAX), EWMA);
		}
		r->depth = 1;
	}
	r->foreground++;
	r->seen = true;
}

void sync_rate_foreground_stop(struct sync_rate *r, uint64_t now, uint64_t latency_ns)
{
	CHECK(r->foreground);
	r->foreground--;
	r->absent_since = now;
	r->latency_ns = smooth(r->latency_ns, latency_ns, EWMA);
	if (r->in_flight || (r->synced && r->last_end > sub_ns(now, latency_ns))) {
		r->beside_ns = max_u64(r->beside_ns, latency_ns);
	} else {
		r->alone_ns = max_u64(r->alone_ns, latency_ns);
	}
	if (r->met > 1 && latency_ns > r->limits.target_ns) {
		r->cap = (uint32_t)max_u64(r->cap / 2, 1);
	} else if (r->met && latency_ns <= r->limits.target_ns) {
		r->cap = (uint32_t)min_u64(r->cap + 1, r->limits.depth_max);
	}
	r->met = 0;
}

/* ---- pieces -------------------------------------------------------------------------------- */

uint64_t sync_rate_next_ns(const struct sync_rate *r)
{
	uint64_t at = RAID_NEVER;

	if (r->in_flight < r->depth) {
		at = absent_from(r);
	}
	if (r->limits.min_bps && r->in_flight < r->limits.depth_max) {
		/* More than one in flight only for a debt of as many pieces. */
		at = min_u64(at, add_ns(r->floor_due,
					r->in_flight * ns_for(r->piece_bytes, r->limits.min_bps)));
	}
	if (!r->in_flight && r->latency_ns <= r->limits.target_ns) {
		at = min_u64(at, r->share_due);
	}
	return max_u64(at, r->max_due);
}

bool sync_rate_may_start(const struct sync_rate *r, uint64_t now)
{
	return sync_rate_next_ns(r) <= now;
}

/* A piece starts that is alone: what is known of requests beside the one before and after it. */
static void judge_peaks(struct sync_rate *r)
{
	if (r->beside_ns && r->alone_ns) {
		r->beside_peak_ns = peak(r->beside_peak_ns, r->beside_ns);
		r->alone_peak_ns = peak(r->alone_peak_ns, r->alone_ns);
	}
	r->beside_ns = r->alone_ns = 0;
}

static uint64_t pauses(const struct sync_rate *r)
{
	return r->beside_peak_ns > 2 * r->alone_peak_ns ? SHARE_PAUSES_FELT : SHARE_PAUSES;
}

void sync_rate_start(struct sync_rate *r, uint64_t now, uint64_t bytes)
{
	if (!r->in_flight++) {
		judge_peaks(r);
	}
	r->piece_bytes = bytes;
	if (r->limits.min_bps) {
		uint64_t piece = ns_for(bytes, r->limits.min_bps);
		uint64_t oldest = sub_ns(now, r->limits.depth_max * piece);

		/* What went faster than the floor is no credit, and a debt is bounded. */
		r->floor_due = min_u64(max_u64(r->floor_due, oldest), now) + piece;
	}
	if (r->limits.max_bps) {
		uint64_t piece = ns_for(bytes, r->limits.max_bps);

		r->max_due = max_u64(r->max_due, sub_ns(now, piece)) + piece;
	}
}

void sync_rate_done(struct sync_rate *r, uint64_t now, uint64_t bytes, uint64_t duration_ns)
{
	uint64_t elapsed;

	CHECK(r->in_flight);
	r->in_flight--;
	r->last_end = now;
	r->synced = true;
	r->share_due = add_ns(now, pauses(r) * min_u64(duration_ns, SECOND << 10));
	if (now >= absent_from(r)) {
		if (!r->seen || sub_ns(now, r->absent_since) >= LONG_ABSENCE) {
			r->cap = (uint32_t)min_u64((uint64_t)r->cap + 1, r->limits.depth_max);
		}
		r->depth = (uint32_t)min_u64((uint64_t)r->depth + 1, r->cap);
	}
	r->window_bytes += bytes;
	elapsed = sub_ns(now, r->window_from);
	if (elapsed >= SPEED_WINDOW) {
		uint64_t speed = bps_of(r->window_bytes, elapsed);

		r->speed_bps = r->speed_known ? smooth(r->speed_bps, speed, SPEED_EWMA) : speed;
		r->speed_known = true;
		r->window_from = now;
		r->window_bytes = 0;
	}
}

/* ---- speed --------------------------------------------------------------------------------- */

uint64_t sync_rate_speed_bps(const struct sync_rate *r, uint64_t now)
{
	uint64_t elapsed = sub_ns(now, r->window_from), speed = bps_of(r->window_bytes, elapsed);

	if (!r->speed_known) {
		return elapsed >= SPEED_WINDOW / 10 && r->window_bytes ? speed : UINT64_MAX;
	}
	/* Nothing for long: it has become slow, or stands still. */
	return elapsed >= 2 * SPEED_WINDOW ? min_u64(speed, r->speed_bps) : r->speed_bps;
}

uint64_t sync_rate_eta_s(const struct sync_rate *r, uint64_t now, uint64_t remaining_bytes)
{
	uint64_t bps = sync_rate_speed_bps(r, now);

	if (!remaining_bytes) {
		return 0;
	}
	if (!bps || bps == UINT64_MAX) {
		return UINT64_MAX;
	}
	return remaining_bytes / bps + (remaining_bytes % bps != 0);
}
