/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stripes: their states, who joins whom, and in which order they go.
 *
 * Transitions (stripe_set_state() checks them; what holds in each, stripe.h says):
 *
 *   FREE -> GATHER             stripe_join
 *   FREE -> LOCK               stripe_begin: a stripe of a READ gathers nothing
 *   GATHER -> LOCK             close_gather
 *   LOCK -> READ               stripe_granted: a stripe of a READ
 *   LOCK -> INTENT -> DIRTY -> READ    open_writes: a stripe that writes; may pass over DIRTY
 *   READ -> INTENT -> DIRTY -> WRITE   … a stripe of a READ that has a block to rewrite
 *   READ -> WRITE              read_done
 *   LOCK, INTENT, DIRTY, READ -> FREE | LINGER     finish: there is nothing (more) to be done
 *   WRITE -> UNDO | VERIFY | FREE | LINGER     write_done
 *   VERIFY, UNDO -> FREE | LINGER      finish
 *   LINGER -> FREE             stripe_maybe_free: the last io is back, the bitmap told
 *   FREE -> HUSK -> FREE       stripe_io.c
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"

enum { STRIPE_FRAGS_MAX = 64 }; /* a sub-row is a page: more are small parts of few */

#define TO(state) (1u << ST_##state)

static const uint16_t stripe_next[ST_STATES] = {
	[ST_FREE] = TO(GATHER) | TO(LOCK) | TO(HUSK),
	[ST_GATHER] = TO(LOCK),
	[ST_LOCK] = TO(INTENT) | TO(READ) | TO(FREE),
	[ST_INTENT] = TO(DIRTY) | TO(READ) | TO(WRITE) | TO(FREE) | TO(LINGER),
	[ST_DIRTY] = TO(READ) | TO(WRITE) | TO(FREE) | TO(LINGER),
	[ST_READ] = TO(INTENT) | TO(WRITE) | TO(FREE) | TO(LINGER),
	[ST_WRITE] = TO(VERIFY) | TO(UNDO) | TO(FREE) | TO(LINGER),
	[ST_VERIFY] = TO(FREE) | TO(LINGER),
	[ST_UNDO] = TO(FREE) | TO(LINGER),
	[ST_LINGER] = TO(FREE),
	[ST_HUSK] = TO(FREE),
};

void stripe_set_state(struct stripe *st, enum stripe_state to)
{
	CHECK(stripe_next[st->state] >> to & 1);
	list_del(&st->link);
	st->state = to;
}

/* ---- the pool ------------------------------------------------------------------------------ */

/* A free stripe, blank; the caller says where it is and what it does. NULL: none may be taken. */
struct stripe *stripe_take(struct shard *sh)
{
	struct stripes *ss = &sh->stripes;
	struct stripe *st;
	uint32_t n;

	if (ss->at_work >= ss->most || list_empty(&ss->free)) {
		return NULL;
	}
	st = container_of(list_pop(&ss->free), struct stripe, link);
	ss->at_work++;
	n = st->blocks;
	list_append(&ss->active, &st->active);
	st->rows = st->lost = st->undo = 0;
	st->frag_count = 0;
	st->hold = st->fua = st->read_only = st->writes = st->again = false;
	st->op = RAID_IO_WRITE;
	st->reader = NULL;
	st->waiter = NULL;
	for (uint32_t i = 0; i < n; i++) {
		st->touched[i] = st->full[i] = st->bad[i] = st->need[i] = 0;
		st->have[i] = st->write[i] = st->fix[i] = 0;
	}
	memset(st->covered, 0, n * sh->stripes.subs * sizeof *st->covered);
	memset(st->from, 0, n * sh->stripes.subs * sizeof *st->from);
	return st;
}

/* Whom the stripe wrote for may go once nothing names their payload any more. */
static void detach_frags(struct shard *sh, struct stripe *st)
{
	struct frag *f, *tmp;

	list_for_each_entry_safe (f, tmp, &st->frags, in_stripe) {
		list_del(&f->in_stripe);
		f->stripe = NULL;
		f->out = 0;
		frag_maybe_free(sh, f);
	}
}

static void give_back(struct shard *sh, struct stripe *st)
{
	CHECK(!st->out && !st->pending && list_empty(&st->slots) && list_empty(&st->frags));
	CHECK(st->range.state == RANGE_OUT);
	stripe_set_state(st, ST_FREE);
	list_del(&st->active);
	list_push(&sh->stripes.free, &st->link); /* its memory may still be in the cache */
}

void stripe_maybe_free(struct shard *sh, struct stripe *st)
{
	if (st->out || st->intent_state == FRAG_INTENT_ENDING ||
	    (st->state != ST_LINGER && st->state != ST_HUSK)) {
		return;
	}
	detach_frags(sh, st);
	give_back(sh, st);
}

/* ---- the end ------------------------------------------------------------------------------- */

static struct stream *stream_of(struct shard *sh, uint64_t id)
{
	return &sh->stripes.stream[(id ^ id >> 16) % STREAMS];
}

void stripe_fail_frags(struct shard *sh, struct stripe *st, stripe_mask rows, int err)
{
	struct frag *f;

	list_for_each_entry (f, &st->frags, in_stripe) {
		if (!f->err && rows & stripe_rows_of(sh, st, f->req->addr, f->req->len)) {
			f->err = err;
		}
	}
}

/* All is done, or nothing can be: answer, let the rows go. */
static void finish(struct shard *sh, struct stripe *st)
{
	struct frag *f, *tmp;
	bool linger;

	CHECK(!st->pending && st->intent_state != FRAG_INTENT_ASKED);
	range_remove(&sh->rows, &st->range);
	sh->stripes.at_work--;
	if (st->writes) {
		st->writes = false;
		shard_writes_del(sh);
	}
	if (st->intent_state == FRAG_INTENT_HELD) {
		st->intent_state = FRAG_INTENT_ENDING;
		st->intent.end = true;
		st->intent.missed = st->state == ST_UNDO && st->lost;
		list_append(&sh->ask->intent, &st->intent.link);
	}
	linger = st->out || st->intent_state == FRAG_INTENT_ENDING;
	if (linger) {
		MARK(stripe_linger);
		stripe_set_state(st, ST_LINGER);
	}
	list_for_each_entry_safe (f, tmp, &st->frags, in_stripe) {
		struct stream *stream = stream_of(sh, f->req->stream);

		stream->in_flight -= stream->id == f->req->stream && stream->in_flight;
		if (!st->out) {
			list_del(&f->in_stripe);
			f->stripe = NULL;
			f->out = 0;
			st->frag_count--;
		}
		frag_stripe_done(sh, f);
	}
	if (!linger) {
		give_back(sh, st);
	}
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_done(struct shard *sh, struct stripe *st)
{
	if (st->undo) {
		stripe_undo(sh, st);
		if (st->state == ST_UNDO && st->pending) {
			return;
		}
	} else if (stripe_emit_verify(sh, st)) {
		return;
	}
	finish(sh, st);
}

static void start_write(struct shard *sh, struct stripe *st)
{
	if (sh->view->broken) {
		MARK(stripe_broken_before_write);
		stripe_fail_frags(sh, st, st->rows, -EIO);
		finish(sh, st);
		return;
	}
	stripe_set_state(st, ST_WRITE);
	stripe_emit_writes(sh, st);
	if (!st->pending) {
		write_done(sh, st);
	}
}

static void read_done(struct shard *sh, struct stripe *st);

/* Bitmap and superblocks say that these rows are written: go on. */
static void opened(struct shard *sh, struct stripe *st)
{
	if (st->read_only) {
		start_write(sh, st);
	} else {
		stripe_set_state(st, ST_READ);
		read_done(sh, st);
	}
}

/* Rule 3: the bitmap, then the superblocks; asked for at once. */
static void open_writes(struct shard *sh, struct stripe *st)
{
	if (sh->view->broken) {
		MARK(stripe_broken);
		stripe_fail_frags(sh, st, st->rows, -EIO);
		finish(sh, st);
	} else if (st->intent_state == FRAG_INTENT_FREE) {
		stripe_set_state(st, ST_INTENT);
		st->intent_state = FRAG_INTENT_ASKED;
		st->intent.lo = st->range.start;
		st->intent.hi = st->range.end;
		st->intent.end = false;
		st->intent.missed = false;
		list_append(&sh->ask->intent, &st->intent.link);
		sh->ask->need_dirty |= !sh->view->write_open;
	} else if (!sh->view->write_open) {
		MARK(stripe_wait_dirty);
		stripe_set_state(st, ST_DIRTY);
		list_append(&sh->stripes.dirty, &st->link);
		sh->ask->need_dirty = true;
	} else {
		opened(sh, st);
	}
}

void stripe_intent(struct shard *sh, struct stripe *st)
{
	if (st->intent_state == FRAG_INTENT_ENDING) {
		st->intent_state = FRAG_INTENT_FREE;
		stripe_maybe_free(sh, st);
	} else {
		st->intent_state = FRAG_INTENT_HELD;
		open_writes(sh, st);
	}
}

/* ---- reading ------------------------------------------------------------------------------- */

/* What some rows cannot have done to them is no reason not to do it to the others. */
static void drop_lost(struct shard *sh, struct stripe *st)
{
	MARK(stripe_write_lost);
	events_add(sh->events,
		   (struct raid_event){
			   .type = RAID_EV_LAST_COPY_ERROR,
			   .member = UINT32_MAX,
			   .op = RAID_IO_WRITE,
			   .maddr = st->range.start,
			   .len = st->range.end - st->range.start,
			   .err = -EIO,
			   .why = "too much of a row is missing or cannot be trusted (component)",
		   });
	stripe_fail_frags(sh, st, st->lost, -EIO);
	stripe_cover_again(sh, st);
}

/* A READ has what it wanted. Whatever could not be read before is rewritten if that is allowed. */
static void answer_read(struct shard *sh, struct stripe *st)
{
	bool rewrite = false;

	for (uint32_t i = 0; i < st->blocks; i++) {
		rewrite |= st->write[i] != 0;
	}
	stripe_read_done(sh, st);
	if (!rewrite || st->lost) {
		finish(sh, st);
		return;
	}
	st->writes = true;
	shard_writes_add(sh);
	open_writes(sh, st);
}

/* Decide, read what is missing; again as long as what is read does not do. */
static void read_done(struct shard *sh, struct stripe *st)
{
	do {
		st->again = false;
		stripe_decide_all(sh, st);
		if (st->lost && !st->read_only) {
			drop_lost(sh, st);
			st->again = st->rows != 0;
		} else if (!st->lost && stripe_emit_reads(sh, st)) {
			return;
		}
	} while (st->again);
	if (!st->lost) {
		stripe_compute(sh, st);
	}
	if (st->read_only) {
		answer_read(sh, st);
	} else if (!st->rows) {
		finish(sh, st);
	} else {
		start_write(sh, st);
	}
}

void stripe_advance(struct shard *sh, struct stripe *st)
{
	CHECK(!st->pending);
	switch (st->state) {
	case ST_READ:
		read_done(sh, st);
		break;
	case ST_WRITE:
		write_done(sh, st);
		break;
	case ST_UNDO:
		stripe_undone(sh, st);
		finish(sh, st);
		break;
	case ST_VERIFY:
		finish(sh, st);
		break;
	default:
		CHECK(false);
	}
}

/* ---- order --------------------------------------------------------------------------------- */

/* Its rows are its own. */
void stripe_granted(struct shard *sh, struct stripe *st)
{
	if (st->read_only) {
		stripe_set_state(st, ST_READ);
		read_done(sh, st);
	} else {
		open_writes(sh, st);
	}
}

void stripe_begin(struct shard *sh, struct stripe *st)
{
	uint32_t first = (uint32_t)__builtin_ctz(st->rows);
	uint32_t last = 31 - (uint32_t)__builtin_clz(st->rows);
	uint64_t cell = st->row_no * sh->stripes.chunk + st->inside;

	stripe_set_state(st, ST_LOCK);
	if (range_insert(&sh->rows, &st->range, cell + first * (uint64_t)STRIPE_SUB,
			 cell + (last + 1) * (uint64_t)STRIPE_SUB)) {
		stripe_granted(sh, st);
	} else {
		MARK(stripe_wait_lock);
	}
}

/* ---- gathering ----------------------------------------------------------------------------- */

static struct stripe *gathering_at(const struct shard *sh, uint64_t addr)
{
	struct stripe *st;

	list_for_each_entry (st, &sh->stripes.gathering, link) {
		if (stripe_same_cell(sh, st, addr)) {
			return st;
		}
	}
	return NULL;
}

static bool overlaps(const struct stripe *st, const struct raid_req *req)
{
	const struct frag *f;

	list_for_each_entry (f, &st->frags, in_stripe) {
		const struct raid_req *o = f->req;

		if (o->addr < req->addr + req->len && req->addr < o->addr + o->len) {
			return true;
		}
	}
	return false;
}

/* Does the stream go on in this row? Only then waiting for what comes next may spare reads. */
static bool goes_on(struct shard *sh, const struct stripe *st, const struct frag *f)
{
	const struct raid_req *req = f->req;
	struct stream *s = stream_of(sh, req->stream);
	uint64_t row_bytes = (uint64_t)st->row.data * sh->stripes.chunk;
	bool next;

	if (s->id != req->stream) {
		*s = (struct stream){.id = req->stream};
	}
	next = s->next == req->addr;
	s->next = req->addr + req->len;
	s->in_flight++;
	return next && s->next < (st->row_no + 1) * row_bytes && f->kind == FRAG_WRITE &&
	       !(req->flags & RAID_REQ_FUA);
}

bool stripe_join(struct shard *sh, struct frag *f)
{
	const struct raid_req *req = f->req;
	struct stripe *st = gathering_at(sh, req->addr);

	if (st && (st->frag_count == STRIPE_FRAGS_MAX || overlaps(st, req))) {
		MARK(stripe_overlap);
		stripe_begin(sh, st);
		st = NULL;
	}
	if (!st) {
		st = stripe_take(sh);
		if (!st) {
			return false;
		}
		stripe_place(sh, st, req->addr);
		st->gather_ns = sh->iop->now_ns;
		stripe_set_state(st, ST_GATHER);
		list_append(&sh->stripes.gathering, &st->link);
	}
	list_append(&st->frags, &f->in_stripe);
	st->frag_count++;
	f->stripe = st;
	f->out = 1;
	if (f->kind == FRAG_DISCARD || f->kind == FRAG_ZERO_IO) {
		st->op = f->kind == FRAG_DISCARD ? RAID_IO_DISCARD : RAID_IO_ZERO;
	}
	st->fua |= f->kind == FRAG_WRITE && req->flags & RAID_REQ_FUA;
	st->hold = goes_on(sh, st, f);
	stripe_cover(sh, st, f);
	return true;
}

/* May it wait for more? (DESIGN §3) */
static bool holds(struct shard *sh, const struct stripe *st)
{
	const struct frag *last = container_of(st->frags.prev, struct frag, in_stripe);
	const struct stream *s = stream_of(sh, last->req->stream);

	return st->hold && !st->fua && list_empty(&sh->fifo) &&
	       sh->iop->now_ns < st->gather_ns + sh->stripes.hold_ns && !stripe_full(sh, st) &&
	       (last->req->flags & RAID_REQ_MORE || s->in_flight > st->frag_count);
}

void stripe_close_all(struct shard *sh)
{
	struct stripe *st, *tmp;

	list_for_each_entry_safe (st, tmp, &sh->stripes.gathering, link) {
		stripe_begin(sh, st);
	}
}

bool stripe_run(struct shard *sh)
{
	struct stripe *st, *tmp;
	bool moved = false;

	if (!sh->stripes.parity) {
		return false;
	}
	while (!list_empty(&sh->stripes.dirty) && (sh->view->write_open || sh->view->broken)) {
		moved = true;
		open_writes(sh, container_of(sh->stripes.dirty.next, struct stripe, link));
	}
	moved |= stripe_read_run(sh);
	list_for_each_entry_safe (st, tmp, &sh->stripes.gathering, link) {
		if (!holds(sh, st)) {
			moved = true;
			stripe_begin(sh, st);
		} else {
			MARK(stripe_hold);
		}
	}
	return moved;
}

uint64_t stripe_deadline(const struct shard *sh)
{
	const struct stripe *st;

	if (!sh->stripes.parity || list_empty(&sh->stripes.gathering)) {
		return RAID_NEVER;
	}
	st = container_of(sh->stripes.gathering.next, const struct stripe, link);
	return st->gather_ns + sh->stripes.hold_ns;
}
