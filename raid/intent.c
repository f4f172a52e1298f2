/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bitmap's view of a write:
 *
 *   asked     on ask.intent
 *   full      some chunk has as many writes as can be counted: waits for one to end
 *   waiting   counted in all its chunks, whose bits are set; some are not durable yet
 *   granted   the shard's, until it ends
 *
 *   asked, full -> waiting    begin
 *   waiting -> granted        intent_grant: the bits are durable, or the array is broken
 *   granted -> over           end
 *
 * Where all bits are durable already a write is granted at once. All asks of a step set their bits
 * before any page goes out (intent_emit), so they share its write.
 */
#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

void intent_init(struct intent *n)
{
	*n = (struct intent){.generation = 1};
	list_init(&n->waiting);
	list_init(&n->full);
	slot_pool_init(&n->pool);
}

bool intent_kept_up(const struct core *c)
{
	enum intent_state s = c->intent.state;

	return s == INTENT_ADDING || s == INTENT_ON || s == INTENT_REMOVING;
}

/* ---- chunks -------------------------------------------------------------------------------- */

static uint64_t chunk_bytes(const struct intent *n)
{
	return n->header.chunk_bytes;
}

/* Chunks that [lo, hi) touches: [*from, *to). */
static void chunks_of(const struct intent *n, uint64_t lo, uint64_t hi, uint64_t *from,
		      uint64_t *to)
{
	*from = min_u64(lo / chunk_bytes(n), n->bits);
	*to = hi > lo ? min_u64((hi - 1) / chunk_bytes(n) + 1, n->bits) : *from;
}

static void account(struct intent *n, uint64_t bit, int sign)
{
	uint16_t count = n->count[bit] & INTENT_COUNT_MAX;
	bool set = bm_get(n->set, bit), needed = bm_get(n->needed, bit);

	n->set_count += (uint64_t)(int64_t)(set ? sign : 0);
	n->needed_count += (uint64_t)(int64_t)(needed ? sign : 0);
	if (set && !needed && count && count <= INTENT_COUNT_IDLE) {
		n->idle_count += (uint64_t)(int64_t)sign;
		n->page_idle[bm_page_of(bit)] += (uint32_t)sign;
		n->ripe_count += (uint64_t)(int64_t)(count == 1 ? sign : 0);
	}
}

void intent_chunk(struct intent *n, uint64_t bit, bool set, uint16_t count, bool needed)
{
	CHECK(set || (!needed && !count));
	account(n, bit, -1);
	if (bm_get(n->set, bit) != set) {
		bm_put(n->set, bit, set);
		intent_change_page(n, bm_page_of(bit));
	}
	bm_put(n->needed, bit, needed);
	n->count[bit] = count;
	account(n, bit, 1);
}

bool intent_durable(const struct core *c, const struct ask_intent *a)
{
	const struct intent *n = &c->intent;
	uint64_t from, to;

	if (!a->counted || a->counted != n->generation || !intent_kept_up(c)) {
		return true;
	}
	for (chunks_of(n, a->lo, a->hi, &from, &to); from < to; from++) {
		if (!bm_get(n->durable, from)) {
			return false;
		}
	}
	return true;
}

/* ---- asks ---------------------------------------------------------------------------------- */

static void grant(struct core *c, struct ask_intent *a)
{
	c->intent.granted++;
	list_append(&c->ask.intent_granted, &a->link);
}

/* Pages whose bits a waits for go first. */
static void hurry(struct intent *n, const struct ask_intent *a)
{
	uint64_t from, to;

	for (chunks_of(n, a->lo, a->hi, &from, &to); from < to; from++) {
		if (!bm_get(n->durable, from)) {
			bm_put(n->urgent, bm_page_of(from), true);
			intent_change_page(n, bm_page_of(from));
		}
	}
}

static bool has_room(const struct intent *n, const struct ask_intent *a)
{
	uint64_t from, to;

	for (chunks_of(n, a->lo, a->hi, &from, &to); from < to; from++) {
		if ((n->count[from] & INTENT_COUNT_MAX) == INTENT_COUNT_MAX) {
			return false;
		}
	}
	return true;
}

/* Returns false if some chunk cannot count one more. */
static bool begin(struct core *c, struct ask_intent *a)
{
	struct intent *n = &c->intent;
	uint64_t from, to;

	a->counted = 0;
	if (!intent_kept_up(c) || c->view.broken) {
		grant(c, a);
		return true;
	}
	if (!has_room(n, a)) {
		return false;
	}
	n->active = true;
	a->counted = n->generation;
	for (chunks_of(n, a->lo, a->hi, &from, &to); from < to; from++) {
		uint16_t count = n->count[from];

		if ((count & INTENT_COUNT_MAX) < INTENT_COUNT_IDLE) {
			count = (uint16_t)((count & INTENT_AGAIN) | INTENT_COUNT_IDLE);
		}
		intent_chunk(n, from, true, (uint16_t)(count + 1), bm_get(n->needed, from));
	}
	if (intent_durable(c, a)) {
		grant(c, a);
	} else {
		MARK(intent_wait);
		hurry(n, a);
		list_append(&n->waiting, &a->link);
	}
	return true;
}

static void end(struct core *c, struct ask_intent *a)
{
	struct intent *n = &c->intent;
	uint64_t from, to;

	CHECK(n->granted > 0);
	n->granted--;
	if (a->missed) {
		MARK(intent_missed);
		intent_mark_needed(c, a->lo, a->hi);
	}
	if (intent_kept_up(c) && a->counted == n->generation) {
		for (chunks_of(n, a->lo, a->hi, &from, &to); from < to; from++) {
			CHECK((n->count[from] & INTENT_COUNT_MAX) > INTENT_COUNT_IDLE);
			intent_chunk(n, from, true, (uint16_t)(n->count[from] - 1),
				     bm_get(n->needed, from));
		}
	} else if (n->uncounted) {
		n->uncounted--;
	}
	list_append(&c->ask.intent_ended, &a->link);
}

/* Whose bits are durable now; everybody, when writes go nowhere any more or nothing keeps bits. */
void intent_grant(struct core *c)
{
	struct ask_intent *a, *tmp;

	list_for_each_entry_safe (a, tmp, &c->intent.waiting, link) {
		if (c->view.broken || intent_durable(c, a)) {
			list_del(&a->link);
			grant(c, a);
		}
	}
}

static bool run_asks(struct core *c)
{
	struct intent *n = &c->intent;
	struct list again;
	bool ended = false, moved = false;
	struct list *l;

	list_init(&again);
	while ((l = list_pop(&c->ask.intent))) {
		struct ask_intent *a = container_of(l, struct ask_intent, link);

		moved = true;
		if (a->end) {
			end(c, a);
			ended = true;
		} else if (!begin(c, a)) {
			MARK(intent_full);
			list_append(&n->full, &a->link);
		}
	}
	if (ended || c->view.broken) {
		list_splice(&again, &n->full);
	}
	while ((l = list_pop(&again))) {
		if (!begin(c, container_of(l, struct ask_intent, link))) {
			list_append(&n->full, l);
		}
	}
	return moved;
}

bool intent_run(struct core *c)
{
	bool moved = run_asks(c);

	if (c->view.broken && !list_empty(&c->intent.waiting)) {
		MARK(intent_broken);
		intent_grant(c);
		moved = true;
	}
	moved |= intent_sweep_run(c);
	moved |= intent_cmd_run(c);
	return moved;
}

/* ---- what others ask about chunks ---------------------------------------------------------- */

static bool known(const struct core *c)
{
	return c->intent.state != INTENT_NONE;
}

/* The first run of set bits of words, cut to [from, end). */
static bool next_run(const struct intent *n, const uint64_t *words, uint64_t from, uint64_t end,
		     uint64_t *lo, uint64_t *hi)
{
	uint64_t bit = bm_next(words, n->bits, min_u64(from / chunk_bytes(n), n->bits));

	if (from >= end || bit == n->bits || bit * chunk_bytes(n) >= end) {
		return false;
	}
	*lo = max_u64(from, bit * chunk_bytes(n));
	while (bit < n->bits && bm_get(words, bit) && bit * chunk_bytes(n) < end) {
		bit++;
	}
	*hi = min_u64(bit * chunk_bytes(n), end);
	return true;
}

bool intent_next_needed(const struct core *c, uint64_t from, uint64_t end, uint64_t *lo,
			uint64_t *hi)
{
	from = max_u64(from, c->view.unsynced_from);
	if (known(c)) {
		return next_run(&c->intent, c->intent.needed, from, end, lo, hi);
	}
	*lo = from;
	*hi = end;
	return from < end;
}

bool intent_next_set(const struct core *c, uint64_t from, uint64_t end, uint64_t *lo, uint64_t *hi)
{
	if (known(c)) {
		return next_run(&c->intent, c->intent.set, from, end, lo, hi);
	}
	*lo = from;
	*hi = end;
	return from < end;
}

bool intent_is_set(const struct core *c, uint64_t lo, uint64_t hi)
{
	uint64_t from, to;

	return intent_next_set(c, lo, hi, &from, &to);
}

uint64_t intent_synced(struct core *c, uint64_t lo, uint64_t hi)
{
	struct intent *n = &c->intent;
	uint64_t from, to;

	if (!known(c)) {
		return hi;
	}
	from = lo / chunk_bytes(n) + (lo % chunk_bytes(n) != 0);
	to = hi >= n->header.sync_size_sectors * RAID_SECTOR_BYTES ? n->bits : hi / chunk_bytes(n);
	for (uint64_t bit = from; bit < to; bit++) {
		if (!bm_get(n->needed, bit)) {
			continue;
		}
		if (n->count[bit] & INTENT_AGAIN) {
			MARK(intent_again);
			intent_chunk(n, bit, true, n->count[bit] & INTENT_COUNT_MAX, true);
		} else {
			uint16_t count = (uint16_t)max_u64(n->count[bit], INTENT_COUNT_IDLE);

			intent_chunk(n, bit, true, count, false);
			n->active = true;
		}
	}
	return to > from ? to * chunk_bytes(n) : lo;
}

void intent_mark_needed(struct core *c, uint64_t lo, uint64_t hi)
{
	struct intent *n = &c->intent;
	uint64_t from, to, sector = lo / RAID_SECTOR_BYTES;

	if (known(c)) {
		chunks_of(n, lo, hi, &from, &to);
		sector = from * (chunk_bytes(n) / RAID_SECTOR_BYTES);
		for (; from < to; from++) {
			uint16_t count = (uint16_t)max_u64(n->count[from], INTENT_COUNT_IDLE);

			count |= bm_get(n->needed, from) ? INTENT_AGAIN : 0;
			intent_chunk(n, from, true, count, true);
		}
	}
	c->meta.resync_offset = min_u64(c->meta.resync_offset, sector);
	c->view.unsynced_from = min_u64(c->view.unsynced_from, sector * RAID_SECTOR_BYTES);
	resync_differ(c, sector * RAID_SECTOR_BYTES);
	c->view.generation++;
}

uint64_t intent_needed_bytes(const struct core *c)
{
	uint64_t all = c->intent.header.sync_size_sectors * RAID_SECTOR_BYTES;

	return min_u64(c->intent.needed_count * chunk_bytes(&c->intent), all);
}

bool intent_covers(const struct core *c, uint64_t events)
{
	return (c->intent.state == INTENT_ON || c->intent.state == INTENT_REMOVING) &&
	       !intent_filling(c) && bm_covers(&c->intent.header, events);
}
