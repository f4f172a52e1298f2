/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast a resync, rebuild or scrub may go (DESIGN: resync; the lowest class of I/O). Pure: told
 * what happens and when, says whether the next piece may start. Knows nothing of members or arrays;
 * a piece is a range of the component, bytes are those of one member.
 *
 * Foreground is what clients wait for. It counts as *present* while any of it is in flight and for
 * a quiet time after: some multiple of the gaps it usually leaves, so that the client who waits for
 * one answer before asking for the next does not find a piece in front of every request.
 *
 *   present   one piece in flight, when the floor is owed or when the last piece's own time has
 *             passed eleven times (a twelfth of the disks' time, so foreground keeps nine tenths),
 *             the latter only while foreground latency is under the target. 127 times if the
 *             slowest request beside a piece takes more than twice as long as the slowest without
 *             one: then fewer than one request in a hundred meets a piece, and their p99 does not
 *             double. More than one in flight only if one at a time cannot reach the floor.
 *   absent    as many as keep the disks full: from one, one more with every piece done, up to a
 * cap. The cap halves when foreground that arrived on several pieces exceeded the target, and grows
 * again with each arrival that did not, and in long absences.
 *
 * In both: never faster than max. So foreground that arrives meets what is in flight then and after
 * that at most one piece; the floor is reached whatever foreground does. Limits may change at any
 * time; nothing is stopped for it.
 */
#ifndef RAID_SYNC_RATE_H
#define RAID_SYNC_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/types.h"

enum { SYNC_RATE_DEPTH_DEFAULT = 16 };

struct sync_rate_limits {
	uint64_t min_bps;   /* floor, bytes a second and member; 0: none */
	uint64_t max_bps;   /* 0: none; wins over a larger min_bps */
	uint64_t target_ns; /* what a foreground request may take before only the floor is left */
	uint32_t depth_max; /* pieces in flight, 1 to 1024 */
};

struct sync_rate {
	struct sync_rate_limits limits;

	/* foreground */
	uint32_t foreground;   /* in flight */
	uint64_t latency_ns;   /* smoothed; 0: none yet */
	uint64_t gap_ns;       /* smoothed: from the last end to the next start */
	uint64_t absent_since; /* when foreground became 0; meaningful while it is 0 */
	bool seen;	       /* there has been some */
	uint32_t met;	       /* pieces in flight when foreground last arrived; 0: judged */

	/* slowest requests since the piece before: beside it, after it; and of late */
	uint64_t beside_ns, alone_ns, beside_peak_ns, alone_peak_ns;

	/* pieces */
	uint64_t last_end; /* of one; meaningful while none is in flight */
	bool synced;	   /* there has been one */
	uint32_t in_flight;
	uint32_t depth, cap;  /* while foreground is absent */
	uint64_t piece_bytes; /* of the last start */
	uint64_t floor_due, max_due, share_due;

	/* speed */
	uint64_t window_from, window_bytes, speed_bps;
	bool speed_known;
};

void sync_rate_init(struct sync_rate *r, const struct sync_rate_limits *limits, uint64_t now);

/* From now on, for pieces in flight too. */
void sync_rate_set_limits(struct sync_rate *r, const struct sync_rate_limits *limits, uint64_t now);

/* A new sync begins, or one goes on after a pause: speed and depth start anew. Nothing is in
 * flight. */
void sync_rate_begin(struct sync_rate *r, uint64_t now);

/* A client's request reaches the array; it is answered. Both for every request, also while no sync
 * runs. */
void sync_rate_foreground_start(struct sync_rate *r, uint64_t now);
void sync_rate_foreground_stop(struct sync_rate *r, uint64_t now, uint64_t latency_ns);

/* May a piece start? If so it is followed by sync_rate_start(). */
bool sync_rate_may_start(const struct sync_rate *r, uint64_t now);

/* When a piece may start if nothing is told until then; what has passed means at once, RAID_NEVER:
 * not before something ends. Ask again after everything that is told. */
uint64_t sync_rate_next_ns(const struct sync_rate *r);

/* A piece starts; it is done, with so many bytes of it good (0: it failed), duration after its
 * start. */
void sync_rate_start(struct sync_rate *r, uint64_t now, uint64_t bytes);
void sync_rate_done(struct sync_rate *r, uint64_t now, uint64_t bytes, uint64_t duration_ns);

/* Bytes a second and member, smoothed over some seconds; UINT64_MAX: not known yet. */
uint64_t sync_rate_speed_bps(const struct sync_rate *r, uint64_t now);

/* Seconds for the rest at this speed, rounded up; UINT64_MAX: not known. */
uint64_t sync_rate_eta_s(const struct sync_rate *r, uint64_t now, uint64_t remaining_bytes);

#endif
