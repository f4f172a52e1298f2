/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a bit may be cleared (md-format §11.2).
 *
 *   IDLE     nothing to do, or not yet
 *   FLUSH    writes that ripe chunks have seen are being made durable on all members
 *   META     a superblock update is under way
 *   HEADER   the header with the new events_cleared is not durable yet
 *   PAGES    counts are taken down
 *
 *   IDLE -> PAGES     nothing is ripe: 2 becomes 1 everywhere
 *   IDLE -> FLUSH -> META -> HEADER -> PAGES     also 1 becomes 0: those bits are cleared
 *   META -> PAGES     the header says so already
 *   any -> IDLE       done, or something froze the bitmap
 *
 * A chunk that is ripe (count 1) had no write for a whole daemon_sleep; a write makes it unripe at
 * once. Only PAGES makes chunks ripe, after it has passed them, so those that it clears were ripe
 * before the flush. Frozen is the bitmap while a slot has no member in sync: it keeps what an
 * absent member misses. Before the array stops the same goes on without waiting, until nothing is
 * left.
 *
 * PAGES goes through a few pages a step, whatever the size of the bitmap.
 */
#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

enum { SLICE_PAGES = 16, SLICE_NS = 1000000 };

static void set_state(struct intent *n, enum intent_sweep_state to)
{
	static const uint8_t next[] = {
		[SWEEP_IDLE] = 1 << SWEEP_FLUSH | 1 << SWEEP_PAGES,
		[SWEEP_FLUSH] = 1 << SWEEP_META | 1 << SWEEP_IDLE,
		[SWEEP_META] = 1 << SWEEP_HEADER | 1 << SWEEP_PAGES | 1 << SWEEP_IDLE,
		[SWEEP_HEADER] = 1 << SWEEP_PAGES | 1 << SWEEP_IDLE,
		[SWEEP_PAGES] = 1 << SWEEP_IDLE,
	};

	CHECK(next[n->sweep] >> to & 1);
	n->sweep = to;
}

static bool frozen(const struct core *c)
{
	const struct intent *n = &c->intent;

	if (n->state != INTENT_ON || !n->active || n->uncounted || c->view.broken ||
	    c->view.flush_lost || intent_filling(c)) {
		return true;
	}
	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		if (!c->present[k]) {
			return true;
		}
	}
	return false;
}

static uint64_t period_ns(const struct intent *n)
{
	return (uint64_t)n->header.daemon_sleep_s * 1000000000;
}

static void to_pages(struct core *c)
{
	set_state(&c->intent, SWEEP_PAGES);
	c->intent.sweep_page = 0;
	c->intent.sweep_at_ns = c->now.mono_ns;
}

static void to_idle(struct core *c)
{
	set_state(&c->intent, SWEEP_IDLE);
	c->intent.sweep_at_ns = c->now.mono_ns + period_ns(&c->intent);
}

/* Is it time? Returns whether something was done. */
static bool run_idle(struct core *c)
{
	struct intent *n = &c->intent;

	if (!n->idle_count || frozen(c)) {
		n->sweep_at_ns = 0;
		n->swept |= n->stopping;
		return false;
	}
	if (!n->stopping && !n->sweep_at_ns) {
		n->sweep_at_ns = c->now.mono_ns + period_ns(n);
	}
	if (!n->stopping && c->now.mono_ns < n->sweep_at_ns) {
		return false;
	}
	if (!n->ripe_count) {
		to_pages(c);
		return true;
	}
	MARK(intent_sweep_flush);
	set_state(n, SWEEP_FLUSH);
	n->sweep_round = c->flush.rounds;
	if (member_unflushed(c) || c->flush.running) {
		n->sweep_round++; /* one that begins from here on */
		c->flush.wanted = true;
	}
	return true;
}

static bool run_flush(struct core *c)
{
	struct intent *n = &c->intent;

	if (c->flush.rounds < n->sweep_round ||
	    (c->flush.rounds == n->sweep_round && c->flush.running)) {
		return false;
	}
	set_state(n, SWEEP_META);
	return true;
}

/* Members must know no less than events_cleared when they next go away. */
static bool run_meta(struct core *c)
{
	struct intent *n = &c->intent;

	if (c->meta.state != META_IDLE) {
		return false;
	}
	if (n->header.events_cleared == c->meta.events) {
		to_pages(c);
		return true;
	}
	MARK(intent_events_cleared);
	n->header.events_cleared = c->meta.events;
	intent_header_changed(n);
	n->sweep_seq = n->header_seq;
	set_state(n, SWEEP_HEADER);
	return true;
}

static void sweep_page(struct intent *n, uint32_t page)
{
	uint64_t from, to;

	bm_page_bits(page, n->bits, &from, &to);
	for (uint64_t bit = bm_next(n->set, to, from); bit < to;
	     bit = bm_next(n->set, to, bit + 1)) {
		uint16_t count = n->count[bit];

		if (bm_get(n->needed, bit) || count > INTENT_COUNT_IDLE) {
			continue;
		}
		if (count == INTENT_COUNT_IDLE) {
			intent_chunk(n, bit, true, 1, false);
		} else {
			MARK(intent_clear);
			intent_chunk(n, bit, false, 0, false);
		}
	}
}

static bool run_pages(struct core *c)
{
	struct intent *n = &c->intent;
	uint32_t slice = 0;

	if (c->now.mono_ns < n->sweep_at_ns) {
		return false;
	}
	for (; n->sweep_page < n->pages && slice < SLICE_PAGES; n->sweep_page++) {
		if (n->page_idle[n->sweep_page]) {
			sweep_page(n, n->sweep_page);
			slice++;
		}
	}
	if (n->sweep_page < n->pages) {
		n->sweep_at_ns = c->now.mono_ns + SLICE_NS;
	} else {
		to_idle(c);
	}
	return true;
}

bool intent_sweep_run(struct core *c)
{
	struct intent *n = &c->intent;

	if (n->sweep != SWEEP_IDLE && frozen(c)) {
		MARK(intent_sweep_frozen);
		to_idle(c);
		return true;
	}
	switch (n->sweep) {
	case SWEEP_IDLE:
		return run_idle(c);
	case SWEEP_FLUSH:
		return run_flush(c);
	case SWEEP_META:
		return run_meta(c);
	case SWEEP_HEADER:
		if (n->header_durable < n->sweep_seq) {
			return false;
		}
		to_pages(c);
		return true;
	case SWEEP_PAGES:
		return run_pages(c);
	}
	return false;
}

uint64_t intent_deadline(const struct core *c)
{
	const struct intent *n = &c->intent;

	if (n->sweep == SWEEP_PAGES) {
		return n->sweep_at_ns;
	}
	return n->sweep == SWEEP_IDLE && n->sweep_at_ns && n->idle_count && !frozen(c)
		       ? n->sweep_at_ns
		       : RAID_NEVER;
}

void intent_stop(struct core *c)
{
	c->intent.stopping = true;
}

bool intent_stopped(const struct core *c)
{
	const struct intent *n = &c->intent;

	return !intent_kept_up(c) || c->meta.state == META_BROKEN ||
	       (n->swept && !n->cmd && n->sweep == SWEEP_IDLE && intent_pages_settled(c));
}
