/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fragments: their states, from admission (admit.c) to the answer.
 *
 * Transitions (frag_set_state() checks them):
 *
 *   FREE -> DATA                      admit: READ
 *   FREE -> WAIT_RANGE | WAIT_INTENT | WAIT_DIRTY | EDGES | ANSWERED    admit: WRITE, TRIM, ZERO
 *   WAIT_RANGE -> WAIT_INTENT | WAIT_DIRTY | EDGES | ANSWERED     frag_start_write
 *   WAIT_INTENT -> WAIT_DIRTY | EDGES | ANSWERED                  frag_start_write
 *   WAIT_DIRTY -> EDGES | ANSWERED                                frag_start_write
 *   FREE -> STRIPE                    admit: WRITE, TRIM, ZERO of levels 4, 5, 6
 *   STRIPE -> WAIT_FLUSH | WAIT_META | ANSWERED                   frag_stripe_done
 *   EDGES -> DATA | WAIT_SHED | ANSWERED                          edges_done, late_reads
 *   DATA -> DATA (next window) | WAIT_SHED | WAIT_FLUSH | WAIT_META | ANSWERED
 *   WAIT_SHED -> EDGES | DATA | WAIT_META | ANSWERED              late_try, or the io came back
 *   WAIT_FLUSH -> WAIT_META | ANSWERED
 *   WAIT_META -> ANSWERED
 *   ANSWERED -> FREE                                              frag_maybe_free
 *   FREE -> SHED -> FREE                                          late.c
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"
#include "raid/sync_job.h"

#define TO(state) (1u << FRAG_##state)

static const uint16_t frag_next[FRAG_STATES] = {
	[FRAG_FREE] = TO(WAIT_RANGE) | TO(WAIT_INTENT) | TO(WAIT_DIRTY) | TO(STRIPE) | TO(EDGES) |
		      TO(DATA) | TO(ANSWERED) | TO(SHED),
	[FRAG_WAIT_RANGE] = TO(WAIT_INTENT) | TO(WAIT_DIRTY) | TO(EDGES) | TO(ANSWERED),
	[FRAG_WAIT_INTENT] = TO(WAIT_DIRTY) | TO(EDGES) | TO(ANSWERED),
	[FRAG_WAIT_DIRTY] = TO(EDGES) | TO(ANSWERED),
	[FRAG_STRIPE] = TO(WAIT_FLUSH) | TO(WAIT_META) | TO(ANSWERED),
	[FRAG_EDGES] = TO(DATA) | TO(WAIT_SHED) | TO(ANSWERED),
	[FRAG_DATA] = TO(WAIT_SHED) | TO(WAIT_FLUSH) | TO(WAIT_META) | TO(ANSWERED),
	[FRAG_WAIT_SHED] = TO(EDGES) | TO(DATA) | TO(WAIT_META) | TO(ANSWERED),
	[FRAG_WAIT_FLUSH] = TO(WAIT_META) | TO(ANSWERED),
	[FRAG_WAIT_META] = TO(ANSWERED),
	[FRAG_ANSWERED] = TO(FREE),
	[FRAG_SHED] = TO(FREE),
};

void frag_set_state(struct frag *f, enum frag_state to)
{
	CHECK(frag_next[f->state] >> to & 1);
	list_del(&f->link);
	f->state = to;
}

struct frag *frag_alloc(struct shard *sh)
{
	struct list *l = list_pop(&sh->frags_free);
	struct frag *f;

	if (!l) {
		return NULL;
	}
	f = container_of(l, struct frag, link);
	sh->frags_free_count--;
	list_append(&sh->active, &f->active);
	f->req = NULL;
	f->delivered = false;
	f->sheds = 0;
	f->restart = false;
	f->redo_zero = false;
	f->bounce = false;
	f->missed = false;
	f->err = 0;
	f->buf = NULL;
	f->kit = NULL;
	f->reserved = 0;
	f->stripe = NULL;
	f->parts = 0;
	return f;
}

void frag_free(struct shard *sh, struct frag *f)
{
	CHECK(list_empty(&f->slots) && !f->out && !f->pending && !f->buf && !f->reserved);
	CHECK(!f->stripe && !f->parts);
	list_del(&f->active);
	list_push(&sh->frags_free, &f->link);
	sh->frags_free_count++;
}

void frag_drop_buffer(struct shard *sh, struct frag *f)
{
	if (f->kit) {
		f->kit->user = NULL;
		f->kit = NULL;
	} else if (f->buf) {
		arena_put(sh->arena, f->buf);
	}
	f->buf = NULL;
}

void frag_unreserve(struct shard *sh, struct frag *f)
{
	struct slot_pool *pool = f->kit ? &f->kit->pool : &sh->pool;

	pool->reserved -= f->reserved;
	f->reserved = 0;
}

/* The last io of an answered fragment is back, or its READ was released. */
void frag_maybe_free(struct shard *sh, struct frag *f)
{
	struct raid_req *req = f->req;

	if (f->out || f->intent_state == FRAG_INTENT_ENDING ||
	    (f->state != FRAG_ANSWERED && f->state != FRAG_SHED)) {
		return;
	}
	if (f->state == FRAG_SHED) {
		MARK(frag_shed_back);
		sh->shed--;
	} else if (f->kind != FRAG_READ) {
		req->frag = NULL;
		sh->frags_active--;
		if (f->delivered) {
			list_append(sh->free, &req->link);
		}
	} else if (req) {
		return; /* not released */
	} else {
		sh->frags_active--;
	}
	frag_drop_buffer(sh, f);
	frag_set_state(f, FRAG_FREE);
	frag_free(sh, f);
}

void shard_writes_add(struct shard *sh)
{
	sh->ask->writes_active++;
}

void shard_writes_del(struct shard *sh)
{
	CHECK(sh->ask->writes_active > 0);
	if (!--sh->ask->writes_active) {
		sh->ask->idle_since_ns = sh->iop->now_ns;
	}
}

void shard_answer(struct shard *sh, struct raid_req *req, int res)
{
	req->res = res;
	list_append(sh->done, &req->link);
}

static void end_intent(struct shard *sh, struct frag *f)
{
	CHECK(f->intent_state != FRAG_INTENT_ASKED);
	if (f->intent_state == FRAG_INTENT_HELD) {
		f->intent_state = FRAG_INTENT_ENDING;
		f->intent.end = true;
		f->intent.missed = f->missed;
		list_append(&sh->ask->intent, &f->intent.link);
	}
}

static void answer(struct shard *sh, struct frag *f, int res)
{
	frag_set_state(f, FRAG_ANSWERED);
	frag_unreserve(sh, f);
	if (f->kind != FRAG_READ) {
		end_intent(sh, f);
		range_remove(&sh->ranges, &f->range);
		shard_writes_del(sh);
	} else if (!res) {
		uint8_t *from = plan_read_pointer(sh, f, f->req->addr);
		uint8_t *to = (uint8_t *)f->buf + f->req->addr % RAID_PAGE_BYTES;

		if (from != to) {
			memmove(to, from, f->req->len);
		}
		f->req->data = to;
	}
	shard_answer(sh, f->req, res);
	frag_maybe_free(sh, f);
}

/* ---- going forward ------------------------------------------------------------------------- */

/* Does more than one member get some of it? Then a write that failed may be on one and not on the
 * other. One that is being filled counts: what is copied there already is not copied again. */
static bool several_copies(const struct shard *sh, const struct frag *f)
{
	uint64_t end = min_u64(f->hi, sh->view->size_bytes);
	struct geo_piece p;

	for (uint64_t addr = f->lo; addr < end; addr += p.len) {
		uint32_t copies = 0;

		geo_map(sh->view->geo, addr, end - addr, &p);
		for (uint32_t i = 0; i < p.copies; i++) {
			copies += sh->view->slot[p.copy[i].slot].writes;
			copies += sh->view->slot[VIEW_TWIN + p.copy[i].slot].writes;
		}
		if (copies > 1) {
			return true;
		}
	}
	return false;
}

/* Rule 1: not before the survivors' superblocks say who missed it; rule 4: nor a read where copies
 * may differ, since the choice of the copy must survive a power cut. */
static void finish(struct shard *sh, struct frag *f)
{
	const struct view *v = sh->view;

	if (f->err) {
		if (f->state == FRAG_DATA && f->kind != FRAG_READ && several_copies(sh, f)) {
			MARK(frag_copies_differ);
			f->missed = true;
			sh->ask->differ_from = min_u64(sh->ask->differ_from, f->lo);
		}
		answer(sh, f, f->err);
	} else if (v->fail_pending && (f->kind != FRAG_READ ||
				       (!sh->stripes.parity && view_unsynced(v, f->lo, f->hi)))) {
		MARK(frag_wait_meta);
		if (v->broken) {
			answer(sh, f, f->kind == FRAG_READ ? 0 : -EIO);
			return;
		}
		frag_set_state(f, FRAG_WAIT_META);
		list_append(&sh->wait_meta, &f->link);
	} else {
		answer(sh, f, 0);
	}
}

static void last_copy_error(struct shard *sh, const struct frag *f, enum raid_io_op op)
{
	events_add(sh->events, (struct raid_event){
				       .type = RAID_EV_LAST_COPY_ERROR,
				       .member = UINT32_MAX,
				       .op = op,
				       .maddr = f->cursor,
				       .len = f->hi - f->cursor,
				       .err = -EIO,
				       .why = "every copy lists it as bad (array address)",
			       });
}

void frag_stripe_done(struct shard *sh, struct frag *f)
{
	if (!f->err && f->kind != FRAG_WRITE && f->req->flags & RAID_REQ_FUA) {
		MARK(frag_wait_flush);
		frag_set_state(f, FRAG_WAIT_FLUSH);
		list_append(&sh->ask->flush, &f->rider.link);
	} else {
		finish(sh, f);
	}
}

void frag_start_read(struct shard *sh, struct frag *f)
{
	if (!(sh->stripes.parity ? stripe_plan_read(sh, f) : plan_read(sh, f))) {
		MARK(frag_read_all_listed);
		last_copy_error(sh, f, RAID_IO_READ);
		f->err = -EIO;
		if (!f->pending) {
			finish(sh, f);
		}
	}
}

static void edges_done(struct shard *sh, struct frag *f)
{
	if (f->err) {
		MARK(frag_edge_unreadable);
		finish(sh, f);
		return;
	}
	if (f->state != FRAG_DATA) {
		frag_set_state(f, FRAG_DATA);
	}
	plan_merge(sh, f);
	plan_window(sh, f);
}

/* Ask for the bitmap and for the superblocks at once: where the bits lie beside the header, one
 * page does for both. */
static void ask_intent(struct shard *sh, struct frag *f)
{
	MARK(frag_wait_intent);
	frag_set_state(f, FRAG_WAIT_INTENT);
	f->intent_state = FRAG_INTENT_ASKED;
	f->intent.lo = f->lo;
	f->intent.hi = f->hi;
	f->intent.end = false;
	f->intent.missed = false;
	list_append(&sh->ask->intent, &f->intent.link);
	sh->ask->need_dirty |= !sh->view->write_open;
}

/* The range is granted: wait for bitmap and superblocks, then read the edges, then write. */
void frag_start_write(struct shard *sh, struct frag *f)
{
	if (sh->view->broken) {
		f->err = -EIO;
		finish(sh, f);
		return;
	}
	if (sh->view->redundant && f->intent_state == FRAG_INTENT_FREE) {
		ask_intent(sh, f);
		return;
	}
	if (!sh->view->write_open) {
		MARK(frag_wait_dirty);
		frag_set_state(f, FRAG_WAIT_DIRTY);
		list_append(&sh->wait_dirty, &f->link);
		sh->ask->need_dirty = true;
		return;
	}
	frag_set_state(f, FRAG_EDGES);
	if (!plan_edges(sh, f)) {
		last_copy_error(sh, f, RAID_IO_READ);
		f->err = -EIO;
		finish(sh, f);
	} else if (!f->pending) {
		edges_done(sh, f);
	}
}

static void write_advance(struct shard *sh, struct frag *f)
{
	if (f->redo_zero && !f->err) {
		f->redo_zero = false;
		if (f->did_some || f->req->op != RAID_OP_TRIM) {
			MARK(frag_redo_zero);
			f->kind = FRAG_ZERO_WRITE;
			f->cursor = f->window;
		} else {
			f->cursor = f->hi; /* no member can: it is a hint */
		}
	}
	if (!f->err && f->cursor < f->hi) {
		plan_window(sh, f);
	} else if (!f->err && f->kind != FRAG_WRITE && f->req->flags & RAID_REQ_FUA) {
		MARK(frag_wait_flush);
		frag_set_state(f, FRAG_WAIT_FLUSH);
		list_append(&sh->ask->flush, &f->rider.link);
	} else {
		finish(sh, f);
	}
}

/* All counted ios of the window are back. */
void frag_advance(struct shard *sh, struct frag *f)
{
	CHECK(!f->pending);
	if (f->state == FRAG_WAIT_SHED) {
		/* The hung io came back before another buffer was free. */
		MARK(frag_back_before_shed);
		frag_set_state(f, f->kind == FRAG_READ ? FRAG_DATA : FRAG_EDGES);
	}
	if (f->state == FRAG_EDGES && f->restart && !f->err) {
		f->restart = false;
		if (!plan_edges(sh, f)) {
			f->err = -EIO;
			finish(sh, f);
		}
	} else if (f->state == FRAG_EDGES) {
		edges_done(sh, f);
	} else if (f->kind != FRAG_READ) {
		write_advance(sh, f);
	} else if (f->err) {
		finish(sh, f);
	} else if (f->restart || f->cursor < f->hi) {
		f->cursor = f->restart ? f->window : f->cursor;
		f->restart = false;
		frag_start_read(sh, f);
	} else {
		finish(sh, f);
	}
}

/* Take an io off the fragment. While it may plan again the slot stays reserved for it. */
void frag_slot_put(struct shard *sh, struct frag *f, struct slot *s)
{
	struct slot_pool *pool = s->pool;

	(void)sh;
	slot_put(s);
	f->out--;
	if (f->state != FRAG_ANSWERED && f->state != FRAG_SHED) {
		f->reserved++;
		pool->reserved++;
	}
}

/* An io that counted has its outcome. */
void frag_slot_done(struct shard *sh, struct frag *f, struct slot *s)
{
	CHECK(s->counted && f->pending > 0);
	frag_slot_put(sh, f, s);
	if (!--f->pending) {
		frag_advance(sh, f);
	}
}

/* The fragment no longer waits for an io that is out: its member has failed. */
void frag_uncount(struct shard *sh, struct frag *f, struct slot *s)
{
	MARK(frag_uncount);
	s->counted = false;
	if (!--f->pending) {
		frag_advance(sh, f);
	}
}

void shard_io_done(struct shard *sh, struct slot *s)
{
	struct frag *f = s->of;

	if (s->late) {
		s->late = false;
		sh->late[s->io.member]--;
		if (s->res && f->state != FRAG_SHED) {
			/* Cancelled or worse: no verdict about the medium. Read again. */
			f->restart = true;
			frag_slot_done(sh, f, s);
			return;
		}
	}
	if (f->state == FRAG_SHED || !s->counted) {
		frag_slot_put(sh, f, s);
		frag_maybe_free(sh, f);
	} else if (s->io.op == RAID_IO_READ) {
		retry_read_done(sh, f, s);
	} else {
		retry_write_done(sh, f, s);
	}
}

/* ---- the shard's turn ---------------------------------------------------------------------- */

/* A replacement has got the slot: what it was sent as a twin counts for the slot from now on. */
static void rename_twin(const struct view *v, struct slot *s)
{
	uint32_t member = s->io.member;

	if (s->gslot != UINT32_MAX && s->gslot >= VIEW_TWIN && !view_gets(v, s->gslot, member) &&
	    view_gets(v, s->gslot - VIEW_TWIN, member)) {
		MARK(frag_twin_takes_slot);
		s->gslot -= VIEW_TWIN;
		s->whole_gslot = s->gslot;
	}
}

static void members_changed(struct shard *sh)
{
	struct frag *f, *ftmp;
	struct slot *s, *stmp;

	sh->members_generation = sh->view->members_generation;
	list_for_each_entry (f, &sh->active, active) {
		list_for_each_entry (s, &f->slots, link) {
			rename_twin(sh->view, s);
		}
	}
	list_for_each_entry_safe (f, ftmp, &sh->active, active) {
		if (f->state != FRAG_DATA || f->kind == FRAG_READ) {
			continue;
		}
		list_for_each_entry_safe (s, stmp, &f->slots, link) {
			if (s->counted && s->state == SLOT_OUT && s->io.op != RAID_IO_READ &&
			    !view_gets(sh->view, s->gslot, s->io.member)) {
				bool last = f->pending == 1;

				frag_uncount(sh, f, s);
				if (last) {
					break; /* the fragment has gone on */
				}
			}
		}
	}
	repair_members_changed(sh);
	sync_members_changed(sh);
	stripe_members_changed(sh);
}

static void intent_granted(struct shard *sh, struct ask_intent *a)
{
	struct frag *f = container_of(a, struct frag, intent);

	if (a->of_stripe) {
		stripe_intent(sh, container_of(a, struct stripe, intent));
	} else {
		f->intent_state = FRAG_INTENT_HELD;
		frag_start_write(sh, f);
	}
}

static void intent_ended(struct shard *sh, struct ask_intent *a)
{
	struct frag *f = container_of(a, struct frag, intent);

	if (a->of_stripe) {
		stripe_intent(sh, container_of(a, struct stripe, intent));
	} else {
		f->intent_state = FRAG_INTENT_FREE;
		frag_maybe_free(sh, f);
	}
}

static bool run_answers(struct shard *sh)
{
	struct ask *ask = sh->ask;
	bool moved = false;
	struct list *l;

	while ((l = list_pop(&ask->judged))) {
		struct slot *s = container_of(l, struct slot, ask);

		moved = true;
		if (s->owner == SLOT_JOB) {
			repair_judged(sh, s->of, s);
		} else if (s->owner == SLOT_SYNC) {
			sync_judged(sh, s->of, s);
		} else if (s->owner == SLOT_STRIPE) {
			stripe_judged(sh, s->of, s);
		} else if (s->state == SLOT_OUT) {
			late_judged(sh, s);
		} else {
			retry_judged(sh, s->of, s);
		}
	}
	while ((l = list_pop(&ask->intent_granted))) {
		moved = true;
		intent_granted(sh, container_of(l, struct ask_intent, link));
	}
	while ((l = list_pop(&ask->intent_ended))) {
		moved = true;
		intent_ended(sh, container_of(l, struct ask_intent, link));
	}
	while ((l = list_pop(&ask->flushed))) {
		struct ask_flush *rider = container_of(l, struct ask_flush, link);
		struct frag *f = container_of(rider, struct frag, rider);

		moved = true;
		f->err = rider->res;
		finish(sh, f);
	}
	while (!list_empty(&sh->wait_meta) && (!sh->view->fail_pending || sh->view->broken)) {
		struct frag *f = container_of(sh->wait_meta.next, struct frag, link);

		moved = true;
		answer(sh, f, sh->view->fail_pending && f->kind != FRAG_READ ? -EIO : 0);
	}
	return moved;
}

bool shard_run(struct shard *sh)
{
	bool moved = false;
	struct range *r;

	if (sh->members_generation != sh->view->members_generation) {
		moved = true;
		members_changed(sh);
	}
	moved |= run_answers(sh);
	moved |= late_try(sh);
	while (!list_empty(&sh->wait_dirty) && (sh->view->write_open || sh->view->broken)) {
		moved = true;
		frag_start_write(sh, container_of(sh->wait_dirty.next, struct frag, link));
	}
	while ((r = range_next_ready(&sh->ranges))) {
		moved = true;
		if (r->owner == RANGE_JOB) {
			repair_granted(sh, container_of(r, struct job, range));
		} else if (r->owner == RANGE_SYNC) {
			sync_granted(sh, container_of(r, struct sync_job, range));
		} else {
			frag_start_write(sh, container_of(r, struct frag, range));
		}
	}
	while ((r = range_next_ready(&sh->rows))) {
		moved = true;
		if (r->owner == RANGE_SYNC) {
			sync_granted(sh, container_of(r, struct sync_job, range));
		} else {
			stripe_granted(sh, container_of(r, struct stripe, range));
		}
	}
	moved |= repair_run(sh);
	moved |= sync_run(sh);
	moved |= admit_run(sh);
	moved |= stripe_run(sh);
	return moved;
}
