/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sync machine.
 *
 *   OFF    never leaves it
 *   IDLE -> OPEN       begin: something is to be done
 *   OPEN -> RUN        superblocks of this run are written (an absent member has no role any more)
 *   RUN -> DRAIN       leave: the end is reached, or something else ends it
 *   OPEN -> DRAIN      leave
 *   DRAIN -> SEAL      all orders are answered; a last checkpoint is begun
 *   DRAIN -> IDLE      … there is nothing to note
 *   SEAL -> IDLE       it is durable
 *
 * An order that could not be carried out because members changed or hang is given again, before any
 * new one. What a run works on is fixed when it begins; targets that leave are dropped from it, and
 * others wait for the next run.
 *
 * Bytes count as done in the view as soon as their order is answered; for a restart they count once
 * they are durable (resync_mark.c).
 *
 * On parity levels a write goes to a target only where the view calls its rows good. So done and
 * good must be the same, byte for byte and at once: what is done and not called good would miss a
 * write, and nobody looks there again. Hence orders onto targets are whole steps, counted from the
 * start of the component, and a step is passed over as a whole, when no bit of it is set; it is
 * good in that moment (a write there asks for its bit first, and decides after that). Mirrors need
 * none of this: targets get every write.
 */
#include "raid/resync.h"

#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"
#include "raid/why.h"

enum { REDO_MS = 100, REDO_TRIES_FAST = 8, MASK_STEPS = 64 };

static void set_state(struct resync *s, enum resync_state to)
{
	static const uint8_t next[] = {
		[RESYNC_OFF] = 0,
		[RESYNC_IDLE] = 1 << RESYNC_OPEN,
		[RESYNC_OPEN] = 1 << RESYNC_RUN | 1 << RESYNC_DRAIN,
		[RESYNC_RUN] = 1 << RESYNC_DRAIN,
		[RESYNC_DRAIN] = 1 << RESYNC_SEAL | 1 << RESYNC_IDLE,
		[RESYNC_SEAL] = 1 << RESYNC_IDLE,
	};

	CHECK(next[s->state] >> to & 1);
	s->state = to;
}

static struct sync_rate_limits rate_limits(const struct core *c)
{
	return (struct sync_rate_limits){
		.min_bps = c->limits.sync_min_bps,
		.max_bps = c->limits.sync_max_bps,
		.target_ns = (uint64_t)c->limits.sync_target_ms * 1000000,
		.depth_max = c->resync.orders,
	};
}

void resync_init(struct core *c, uint32_t orders, uint64_t step)
{
	struct resync *s = &c->resync;
	struct sync_rate_limits limits;

	CHECK(orders <= SYNC_ORDERS_MAX);
	s->state = c->view.redundant && !c->view.read_only ? RESYNC_IDLE : RESYNC_OFF;
	s->frozen = c->limits.sync_frozen;
	s->step = step;
	s->orders = orders;
	s->differ_from = UINT64_MAX;
	list_init(&s->idle);
	for (uint32_t i = 0; i < orders; i++) {
		s->op[i].index = i;
		list_append(&s->idle, &s->op[i].link);
	}
	limits = rate_limits(c);
	if (orders) {
		sync_rate_init(&s->rate, &limits, c->now.mono_ns);
	}
}

void resync_speed(struct core *c, uint64_t min_bps, uint64_t max_bps)
{
	struct sync_rate_limits limits;

	c->limits.sync_min_bps = min_bps;
	c->limits.sync_max_bps = max_bps;
	limits = rate_limits(c);
	if (c->resync.orders) {
		sync_rate_set_limits(&c->resync.rate, &limits, c->now.mono_ns);
	}
}

static bool is_scrub(const struct resync *s)
{
	return s->kind == SYNC_CHECK || s->kind == SYNC_REPAIR;
}

/* ---- events ---------------------------------------------------------------------------------- */

static const char *name(enum raid_sync_action action)
{
	static const char *const names[] = {
		[RAID_SYNC_IDLE] = "idle",	 [RAID_SYNC_CHECK] = "check",
		[RAID_SYNC_REPAIR] = "repair",	 [RAID_SYNC_RESYNC] = "resync",
		[RAID_SYNC_REBUILD] = "rebuild", [RAID_SYNC_REPLACE] = "replace",
	};

	return names[action];
}

static uint32_t first_target(const struct resync *s)
{
	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		if (s->target[k]) {
			return s->target_member[k];
		}
	}
	return UINT32_MAX;
}

static void tell(struct core *c, enum raid_event_type type, uint64_t len, int err)
{
	events_add(c->events, (struct raid_event){
				      .type = type,
				      .member = first_target(&c->resync),
				      .len = len,
				      .err = err,
				      .why = name(c->resync.action),
			      });
}

/* Remember a finding; adjacent ones of the same member are one. */
static void keep_finding(struct resync *s, const struct raid_finding *f)
{
	struct raid_finding *last = NULL;

	if (s->findings && s->findings <= RAID_FINDINGS_MAX) {
		last = &s->finding[s->findings - 1];
	}
	if (last && last->member == f->member && last->at + last->len == f->at) {
		last->len += f->len;
		return;
	}
	if (s->findings < RAID_FINDINGS_MAX) {
		s->finding[s->findings] = *f;
	}
	s->findings++;
}

static void tell_found(struct core *c, const struct sync_op *op)
{
	for (uint32_t i = 0; i < op->found_count && i < SYNC_FOUND_MAX; i++) {
		struct raid_finding f = {
			.at = op->found[i].at,
			.len = op->found[i].len,
			.member = op->found[i].slot < 0 ? UINT32_MAX
							: c->view.slot[op->found[i].slot].member,
		};

		keep_finding(&c->resync, &f);
		events_add(c->events, (struct raid_event){
					      .type = RAID_EV_MISMATCH,
					      .member = f.member,
					      .maddr = f.at,
					      .len = f.len,
					      .why = name(c->resync.action),
				      });
	}
	if (op->found_count > SYNC_FOUND_MAX) {
		c->resync.findings += op->found_count - SYNC_FOUND_MAX;
	}
}

/* Where the first step of the mask begins. */
static uint64_t mask_low(const struct resync *s)
{
	return round_down_u64(s->low, s->step);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void leave(struct core *c, enum resync_end why)
{
	struct resync *s = &c->resync;

	s->end = why;
	set_state(s, RESYNC_DRAIN);
}

static void begin(struct core *c, const struct resync_plan *p)
{
	struct resync *s = &c->resync;

	MARK(resync_begin);
	s->action = p->action;
	s->kind = p->kind;
	s->first = s->low = s->pos = s->marked_low = p->from;
	s->limit = p->limit;
	s->generation = c->view.members_generation;
	s->differ_from = UINT64_MAX;
	s->noted = 0;
	s->blocked &= is_scrub(s);
	s->stuck = false;
	s->redos = s->redo_tries = s->fifths = 0;
	s->mark_at_ns = c->now.mono_ns + RESYNC_MARK_NS;
	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		s->target[k] = p->target[k];
		s->target_member[k] = c->view.slot[k].member;
		c->view.slot[k].filling = p->target[k];
	}
	if (is_scrub(s) && !p->from) {
		s->mismatch_sectors = 0;
		s->findings = 0;
	}
	c->view.sync_step = (uint32_t)s->step;
	c->view.sync_low = mask_low(s);
	c->view.sync_done_mask = 0;
	sync_rate_begin(&s->rate, c->now.mono_ns);
	set_state(s, RESYNC_OPEN);
	if (!is_scrub(s) && c->meta.state != META_OFF && !c->meta.updates && !c->view.write_open) {
		meta_want(c);
	}
	tell(c, RAID_EV_SYNC_STARTED, 0, 0);
}

/* What has been found since members are others. */
static void members_changed(struct core *c)
{
	struct resync *s = &c->resync;
	bool had = false, any = false;

	s->generation = c->view.members_generation;
	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		struct view_slot *vs = &c->view.slot[k];

		had |= s->target[k];
		if (s->target[k] &&
		    (!vs->writes || vs->in_sync || vs->member != s->target_member[k])) {
			MARK(resync_target_gone);
			s->target[k] = false;
			vs->filling = false;
		}
		any |= s->target[k];
	}
	if (had && !any && (s->state == RESYNC_OPEN || s->state == RESYNC_RUN)) {
		leave(c, RESYNC_END_GONE);
	}
}

static void finish(struct core *c)
{
	struct resync *s = &c->resync;
	bool error = s->end == RESYNC_END_ERROR || (s->end == RESYNC_END_DONE && s->stuck);
	int err = error ? -EIO : s->end == RESYNC_END_DONE ? 0 : -ECANCELED;

	if (error && !is_scrub(s)) {
		MARK(resync_blocked);
		s->blocked = true;
		s->blocked_generation = c->view.members_generation;
	}
	if (is_scrub(s) && (s->end == RESYNC_END_YIELD || s->end == RESYNC_END_STOP)) {
		MARK(resync_scrub_waits);
		s->scrub_pos = s->low;
	} else if (is_scrub(s)) {
		s->wanted = RAID_SYNC_IDLE;
		s->scrub_pos = 0;
	}
	tell(c, RAID_EV_SYNC_FINISHED, is_scrub(s) ? s->mismatch_sectors : 0, err);
	set_state(s, RESYNC_IDLE);
	s->action = RAID_SYNC_IDLE;
	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		c->view.slot[k].filling = false;
	}
	c->view.sync_done_mask = 0;
	c->view.generation++;
}

/* All answers are there. */
static void drained(struct core *c)
{
	struct resync *s = &c->resync;

	if (s->mark != MARK_NONE) {
		return; /* an earlier checkpoint is on its way */
	}
	if (is_scrub(s) || s->end == RESYNC_END_GONE || c->view.broken || c->view.flush_lost ||
	    (s->end != RESYNC_END_DONE && s->low == s->marked_low)) {
		finish(c);
		return;
	}
	set_state(s, RESYNC_SEAL);
	resync_mark_begin(c, true);
}

/* Has the last checkpoint come? Then all that it promises holds. */
static void sealed(struct core *c)
{
	struct resync *s = &c->resync;

	if (s->mark == MARK_NONE) {
		if (c->view.flush_lost || c->view.broken) {
			s->end = s->end == RESYNC_END_DONE ? RESYNC_END_ERROR : s->end;
		}
		finish(c);
	}
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void order(struct core *c, uint64_t lo, uint64_t hi)
{
	struct resync *s = &c->resync;
	struct sync_op *op = container_of(list_pop(&s->idle), struct sync_op, link);

	op->kind = s->kind;
	op->lo = lo;
	op->hi = hi;
	op->state = SYNC_ORDER_OUT;
	op->generation = s->generation;
	op->started_ns = c->now.mono_ns;
	memcpy(op->target, s->target, sizeof op->target);
	s->out++;
	sync_rate_start(&s->rate, c->now.mono_ns, resync_member_bytes(c, hi - lo));
	list_append(&c->ask.sync, &op->link);
}

static uint64_t lowest(const struct resync *s)
{
	uint64_t low = s->pos;

	for (uint32_t i = 0; i < s->orders; i++) {
		if (s->op[i].state == SYNC_ORDER_OUT) {
			low = min_u64(low, s->op[i].lo);
		}
	}
	for (uint32_t i = 0; i < s->redos; i++) {
		low = min_u64(low, s->redo[i].lo);
	}
	return low;
}

/* Nothing goes on before the oldest order is answered: the mask has no bit for it. */
static bool mask_full(const struct resync *s)
{
	return s->pos >= mask_low(s) + MASK_STEPS * s->step;
}

/* Steps from mask_low() on that are done: passed over, or their order is. A bit each. */
static uint64_t done_mask(const struct resync *s)
{
	uint64_t mask = 0, from = mask_low(s);

	for (uint32_t i = 0; i < MASK_STEPS && from + i * s->step < s->pos; i++) {
		mask |= 1ull << i;
	}
	for (uint32_t i = 0; i < s->orders; i++) {
		if (s->op[i].state == SYNC_ORDER_OUT) {
			mask &= ~(1ull << (s->op[i].lo - from) / s->step);
		}
	}
	for (uint32_t i = 0; i < s->redos; i++) {
		mask &= ~(1ull << (s->redo[i].lo - from) / s->step);
	}
	return mask;
}

static void progress(struct core *c)
{
	struct resync *s = &c->resync;
	uint64_t span = s->limit - s->first;
	uint32_t fifths = span ? (uint32_t)((s->low - s->first) / ((span + 4) / 5)) : 0;

	if (fifths > s->fifths && s->low < s->limit) {
		s->fifths = fifths;
		tell(c, RAID_EV_SYNC_PROGRESS, 20ull * fifths, 0);
	}
}

/* The view learns what is done. */
static void publish(struct core *c)
{
	struct resync *s = &c->resync;

	s->low = lowest(s);
	if (s->kind == SYNC_RESYNC) {
		c->view.unsynced_from = min_u64(s->low, s->differ_from);
		s->noted = intent_synced(c, s->noted, s->low);
	}
	if (s->kind == SYNC_REBUILD || s->kind == SYNC_COPY) {
		for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
			/* Not of who has just left, nor of who has the slot now. */
			if (s->target[k] && c->view.slot[k].member == s->target_member[k]) {
				c->view.slot[k].good_below =
					max_u64(c->view.slot[k].good_below, s->low);
			}
		}
		c->view.sync_low = mask_low(s);
		c->view.sync_done_mask = resync_is_parity(c) ? done_mask(s) : 0;
	}
	c->view.generation++;
	progress(c);
}

/*
 * The next part that needs something, from pos on. What is passed over is done. Returns false at
 * the end, and when the mask reaches no further.
 */
static bool next_part(struct core *c, uint64_t *lo, uint64_t *hi)
{
	struct resync *s = &c->resync;
	uint64_t end = mask_low(s) + MASK_STEPS * s->step;
	bool full = false;

	*lo = s->pos;
	*hi = s->limit;
	if (s->pos < s->limit && !resync_needed(c, lo, hi)) {
		*lo = s->limit;
	}
	resync_widen(c, lo, hi);
	*lo = max_u64(s->pos, *lo);
	if (resync_in_steps(c) && *lo >= end && lowest(s) != s->pos) {
		MARK(resync_skip_waits);
		*lo = end;
		full = true;
	}
	if (*lo != s->pos) {
		MARK(resync_skip);
		s->pos = *lo;
		publish(c);
	}
	if (*lo == s->limit || full) {
		return false;
	}
	*hi = min_u64(*hi, resync_order_end(c, *lo));
	return true;
}

/* Give what orders the speed allows. Returns whether there were any. */
static bool give(struct core *c)
{
	struct resync *s = &c->resync;
	uint64_t lo, hi, before = s->pos;
	bool moved = false;

	while (!list_empty(&s->idle) && sync_rate_may_start(&s->rate, c->now.mono_ns)) {
		if (s->redos) {
			if (c->now.mono_ns < s->redo_at_ns) {
				break;
			}
			MARK(resync_redo);
			s->redos--;
			order(c, s->redo[s->redos].lo, s->redo[s->redos].hi);
		} else if (!mask_full(s) && next_part(c, &lo, &hi)) {
			s->pos = hi;
			order(c, lo, hi);
		} else {
			break;
		}
		moved = true;
	}
	return moved || s->pos != before;
}

static void redo(struct core *c, const struct sync_op *op)
{
	struct resync *s = &c->resync;

	CHECK(s->redos < SYNC_ORDERS_MAX);
	s->redo[s->redos].lo = op->lo;
	s->redo[s->redos].hi = op->hi;
	s->redos++;
	s->redo_at_ns = ++s->redo_tries > REDO_TRIES_FAST ? c->now.mono_ns + REDO_MS * 1000000ull
							  : c->now.mono_ns;
}

/* A target without a block that has no source, and without a place to note it. */
static void fail_target(struct core *c, uint32_t m, uint64_t maddr, uint64_t len)
{
	MARK(resync_target_lost);
	member_fail(
		c, m,
		(struct raid_event){
			.op = RAID_IO_WRITE,
			.maddr = maddr,
			.len = len,
			.err = -EIO,
			.why = "a block of it has no readable source, its bad-block log no room",
		});
}

/* Blocks of targets without a source go into their bad-block logs. False: not all could. */
static bool note_lost(struct core *c, const struct sync_op *op)
{
	struct resync *s = &c->resync;
	bool all = op->lost_count <= SYNC_LOST_MAX, noted = all;

	for (uint32_t i = 0; i < op->lost_count && i < SYNC_LOST_MAX; i++) {
		uint32_t gslot = op->lost[i].gslot, m = s->target_member[gslot];
		uint64_t maddr = op->lost[i].maddr, len = op->lost[i].len;

		if (!s->target[gslot] || c->view.slot[gslot].member != m) {
			continue;
		}
		if (!all || bad_add(c, m, maddr, len)) {
			fail_target(c, m, maddr, len);
			noted = false;
		} else {
			MARK(resync_lost_listed);
		}
	}
	return noted;
}

/* Returns whether the order counts as done. */
static bool judge(struct core *c, const struct sync_op *op)
{
	struct resync *s = &c->resync;

	if (op->res == -EAGAIN) {
		return false;
	}
	if (is_scrub(s)) { /* that copies differ before a resync is no finding */
		s->mismatch_sectors += op->mismatch_sectors;
		tell_found(c, op);
	}
	if (!op->res && !op->lost_count) {
		return true;
	}
	if (s->kind == SYNC_REBUILD || s->kind == SYNC_COPY) {
		return note_lost(c, op);
	}
	s->stuck = true;
	if (s->kind == SYNC_RESYNC) {
		MARK(resync_stuck);
		intent_mark_needed(c, op->lo, op->hi);
	}
	return true;
}

static void answered(struct core *c, struct sync_op *op)
{
	struct resync *s = &c->resync;
	bool good;

	op->state = SYNC_ORDER_SEEN;
	s->out--;
	good = judge(c, op);
	if (good) {
		s->redo_tries = 0;
	} else {
		MARK(resync_not_done);
		redo(c, op);
	}
	sync_rate_done(&s->rate, c->now.mono_ns, good ? resync_member_bytes(c, op->hi - op->lo) : 0,
		       c->now.mono_ns - op->started_ns);
	publish(c);
	list_append(&c->ask.sync_seen, &op->link);
}

static bool take_answers(struct core *c)
{
	bool moved = false;
	struct list *l;

	while ((l = list_pop(&c->ask.synced))) {
		moved = true;
		answered(c, container_of(l, struct sync_op, link));
	}
	while ((l = list_pop(&c->ask.sync_idle))) {
		moved = true;
		container_of(l, struct sync_op, link)->state = SYNC_ORDER_FREE;
		list_append(&c->resync.idle, l);
	}
	return moved;
}

/* ---- the drive ------------------------------------------------------------------------------- */

/* Does something more urgent wait than what runs? */
static bool must_yield(const struct core *c)
{
	struct resync_plan p;

	return resync_next(c, &p) && p.action != c->resync.action &&
	       (is_scrub(&c->resync) || c->resync.action == RAID_SYNC_RESYNC);
}

static bool run(struct core *c)
{
	struct resync *s = &c->resync;

	if (c->view.broken || c->view.flush_lost) {
		leave(c, RESYNC_END_ERROR);
	} else if (s->stopping) {
		leave(c, RESYNC_END_STOP);
	} else if (s->ending) {
		leave(c, RESYNC_END_CANCELLED);
	} else if (must_yield(c)) {
		MARK(resync_yield);
		leave(c, RESYNC_END_YIELD);
	} else if (s->state == RESYNC_OPEN) {
		if (c->meta.changes != c->meta.changes_durable && !c->meta.updates &&
		    c->meta.state != META_OFF) {
			return false;
		}
		set_state(s, RESYNC_RUN);
	} else if (s->low == s->limit) {
		CHECK(!s->out && !s->redos);
		publish(c); /* it may have begun here */
		leave(c, RESYNC_END_DONE);
	} else {
		if (!is_scrub(s) && resync_mark_due(c)) {
			MARK(resync_mark_on_the_way);
			resync_mark_begin(c, false);
		}
		return give(c);
	}
	return true;
}

bool resync_run(struct core *c)
{
	struct resync *s = &c->resync;
	struct resync_plan p;
	bool moved = take_answers(c);

	if (s->state != RESYNC_OFF && s->state != RESYNC_IDLE &&
	    s->generation != c->view.members_generation) {
		members_changed(c);
		moved = true;
	}
	moved |= resync_mark_run(c);
	switch (s->state) {
	case RESYNC_OFF:
		break;
	case RESYNC_IDLE:
		if (s->ending) {
			core_answer(c, s->ending, 0);
			s->ending = NULL;
			moved = true;
		} else if (resync_next(c, &p)) {
			begin(c, &p);
			moved = true;
		}
		break;
	case RESYNC_OPEN:
	case RESYNC_RUN:
		moved |= run(c);
		break;
	case RESYNC_DRAIN:
		if (!s->out) {
			drained(c);
			moved |= s->state != RESYNC_DRAIN;
		}
		break;
	case RESYNC_SEAL:
		sealed(c);
		moved |= s->state != RESYNC_SEAL;
		break;
	}
	return moved;
}

uint64_t resync_deadline(const struct core *c)
{
	const struct resync *s = &c->resync;
	uint64_t at = RAID_NEVER;

	if (s->state != RESYNC_RUN) {
		return at;
	}
	if (s->mark == MARK_NONE && s->low > s->marked_low && !is_scrub(s)) {
		at = s->mark_at_ns;
	}
	if (!list_empty(&s->idle) && (s->redos || (s->pos < s->limit && !mask_full(s)))) {
		uint64_t next = sync_rate_next_ns(&s->rate);

		if (next != RAID_NEVER && s->redos) {
			next = max_u64(next, s->redo_at_ns);
		}
		at = min_u64(at, next);
	}
	return at;
}
