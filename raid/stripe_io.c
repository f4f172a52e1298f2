/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ios of stripes: out, back, again after errors, past their deadline.
 *
 * What is to be read or written is a mask for each block (stripe.todo, one more for the block's
 * replacement); runs of it become ios, at most two of a block at a time, so that hung ones never
 * take what others need. An io that fails is carried out again sub-row by sub-row:
 *
 *   READ    a sub-row that fails is bad: everything is decided again without it
 *   WRITE   … the core is asked to fail the member; if it must stay, the row is put back
 *   VERIFY  a rewritten block that does not come back as it was: the core is asked as well
 *   UNDO    what cannot be written is read and compared: perhaps it never changed
 *
 * A read that hangs keeps the kit it reads into: a husk takes over both, and the stripe begins
 * again with another kit and without that member.
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"

enum { BUSY_MAX = 2, GAP_MAX = 4 };

static bool is_twin(uint32_t key)
{
	return key >= VIEW_TWIN;
}

static uint32_t index_of(uint32_t key)
{
	return is_twin(key) ? key - VIEW_TWIN : key;
}

static uint32_t gslot_of(const struct stripe *st, uint32_t key)
{
	return stripe_gslot(st, index_of(key)) + (is_twin(key) ? VIEW_TWIN : 0);
}

static stripe_mask run_mask(uint32_t sub, uint32_t subs)
{
	return (stripe_mask)(((1u << subs) - 1) << sub);
}

static bool is_read(const struct slot *s)
{
	return s->io.op == RAID_IO_READ;
}

static bool alive(const struct shard *sh, const struct slot *s)
{
	return view_gets(sh->view, s->gslot, s->io.member);
}

/* ---- out ----------------------------------------------------------------------------------- */

/* Memory of a sub-row as the stripe's state wants it. */
static const uint8_t *memory(const struct shard *sh, const struct stripe *st, const struct slot *s,
			     uint32_t sub)
{
	uint32_t index = index_of(s->key);

	if (st->state == ST_UNDO) {
		/* Reads compare: they must not destroy what goes back. */
		return is_read(s) ? stripe_now(sh, st, index, sub) : stripe_old(sh, st, index, sub);
	}
	return is_read(s) ? stripe_old(sh, st, index, sub)
			  : st->from[index * sh->stripes.subs + sub];
}

/* Fill in the io for sub-rows [sub, sub + subs) and hand it out. */
static void emit(struct shard *sh, struct stripe *st, struct slot *s, enum raid_io_op op,
		 uint32_t sub, uint32_t subs)
{
	s->io.op = op;
	s->io.fua = op == RAID_IO_WRITE && (st->fua || st->read_only);
	s->io.member = sh->view->slot[s->gslot].member;
	s->io.maddr = stripe_maddr(sh, st, index_of(s->key), sub);
	s->io.len = (uint64_t)subs * STRIPE_SUB;
	s->io.iov = s->iov;
	s->io.iovcnt = 0;
	for (uint32_t i = 0; i < subs && (op == RAID_IO_READ || op == RAID_IO_WRITE); i++) {
		uint8_t *p = (uint8_t *)(uintptr_t)memory(sh, st, s, sub + i);
		struct iovec *last = &s->iov[s->io.iovcnt ? s->io.iovcnt - 1 : 0];

		CHECK(p);
		if (s->io.iovcnt && (uint8_t *)last->iov_base + last->iov_len == p) {
			last->iov_len += STRIPE_SUB;
		} else {
			s->iov[s->io.iovcnt++] =
				(struct iovec){.iov_base = p, .iov_len = STRIPE_SUB};
		}
	}
	iop_emit(sh->iop, s);
}

/* A gap between blocks to be read is read too if it is short and surely readable. */
static bool may_span(const struct shard *sh, const struct stripe *st, uint32_t key)
{
	return st->state == ST_READ && !sh->view->any_bad && !st->bad[key] && !st->have[key] &&
	       sh->view->slot[gslot_of(st, key)].in_sync;
}

/* The next run of a mask: from its first bit on. */
static uint32_t next_run(const struct shard *sh, const struct stripe *st, uint32_t key,
			 uint32_t *sub)
{
	uint32_t todo = st->todo[key], most, end;
	uint32_t gap = may_span(sh, st, key) ? GAP_MAX : 0;

	*sub = (uint32_t)__builtin_ctz(todo);
	most = sh->view->slot[gslot_of(st, key)].max_io_bytes / STRIPE_SUB;
	end = *sub + 1;
	for (uint32_t i = end; i < sh->stripes.subs && i < *sub + most && i <= end + gap; i++) {
		if (todo >> i & 1) {
			end = i + 1;
		}
	}
	return end - *sub;
}

static void emit_key(struct shard *sh, struct stripe *st, uint32_t key)
{
	if (st->todo[key] && !sh->view->slot[gslot_of(st, key)].writes) {
		MARK(stripe_todo_gone);
		st->todo[key] = 0;
	}
	while (st->todo[key] && st->busy[key] < BUSY_MAX) {
		struct slot *s = slot_take(&st->kit->pool, SLOT_STRIPE, st);
		enum raid_io_op op = st->state == ST_WRITE  ? st->op
				     : st->state == ST_UNDO ? RAID_IO_WRITE
							    : RAID_IO_READ;
		uint32_t sub, subs = next_run(sh, st, key, &sub);

		st->todo[key] &= (stripe_mask)~run_mask(sub, subs);
		list_append(&st->slots, &s->link);
		st->out++;
		st->pending++;
		st->busy[key]++;
		s->counted = true;
		s->key = (uint8_t)key;
		s->sub = (uint8_t)sub;
		s->subs = (uint8_t)subs;
		s->gslot = gslot_of(st, key);
		emit(sh, st, s, op, sub, subs);
	}
}

/* Others hold the slots now: what was not read yet is decided again, or not looked at any more. */
static void forget_reads(struct shard *sh, struct stripe *st)
{
	if (st->members_generation == sh->view->members_generation ||
	    (st->state != ST_READ && st->state != ST_VERIFY)) {
		return;
	}
	MARK(stripe_forget_reads);
	st->again = st->state == ST_READ;
	for (uint32_t i = 0; i < st->blocks; i++) {
		st->todo[i] = 0;
	}
}

static bool emit_all(struct shard *sh, struct stripe *st)
{
	forget_reads(sh, st);
	for (uint32_t i = 0; i < st->blocks; i++) {
		emit_key(sh, st, i);
		if (st->todo[VIEW_TWIN + i]) {
			emit_key(sh, st, VIEW_TWIN + i);
		}
	}
	return st->pending != 0;
}

/* What goes to a member goes to its replacement too, though that alone would not need it. */
static void set_todo(const struct shard *sh, struct stripe *st, uint32_t index, stripe_mask rows,
		     bool twin)
{
	uint32_t k = stripe_gslot(st, index);

	st->todo[index] = sh->view->slot[k].writes ? rows : 0;
	st->todo[VIEW_TWIN + index] = twin && sh->view->slot[VIEW_TWIN + k].writes ? rows : 0;
}

bool stripe_emit_reads(struct shard *sh, struct stripe *st)
{
	for (uint32_t i = 0; i < st->blocks; i++) {
		set_todo(sh, st, i, st->need[i] & (stripe_mask)~st->have[i], false);
	}
	return emit_all(sh, st);
}

void stripe_emit_writes(struct shard *sh, struct stripe *st)
{
	for (uint32_t i = 0; i < st->blocks; i++) {
		set_todo(sh, st, i, st->write[i], true);
	}
	emit_all(sh, st);
}

bool stripe_emit_undo(struct shard *sh, struct stripe *st)
{
	for (uint32_t i = 0; i < st->blocks; i++) {
		set_todo(sh, st, i, st->write[i] & st->undo, true);
	}
	return emit_all(sh, st);
}

bool stripe_emit_verify(struct shard *sh, struct stripe *st)
{
	stripe_mask any = 0;

	/* A slot that changed hands meanwhile: what could not be read was not its new member's. */
	for (uint32_t i = 0; i < st->blocks; i++) {
		if (st->members_generation != sh->view->members_generation &&
		    !sh->view->slot[stripe_gslot(st, i)].in_sync) {
			MARK(stripe_verify_member_gone);
			st->fix[i] = 0;
		}
		any |= st->fix[i];
	}
	if (!any) {
		return false;
	}
	stripe_set_state(st, ST_VERIFY);
	st->members_generation = sh->view->members_generation;
	for (uint32_t i = 0; i < st->blocks; i++) {
		set_todo(sh, st, i, st->fix[i], false);
	}
	return emit_all(sh, st);
}

/* ---- back ---------------------------------------------------------------------------------- */

static void put(struct stripe *st, struct slot *s)
{
	slot_put(s);
	st->out--;
}

/* Something is no longer waited for: go on. */
static void go_on(struct shard *sh, struct stripe *st)
{
	if (!emit_all(sh, st)) {
		stripe_advance(sh, st);
	}
}

static void slot_over(struct shard *sh, struct stripe *st, struct slot *s)
{
	CHECK(s->counted && st->pending > 0);
	st->busy[s->key]--;
	st->pending--;
	put(st, s);
	go_on(sh, st);
}

static void start_pieces(struct shard *sh, struct stripe *st, struct slot *s)
{
	s->phase = SLOT_PIECES;
	s->off = 0;
	emit(sh, st, s, is_read(s) ? RAID_IO_READ : RAID_IO_WRITE, s->sub, 1);
}

static void next_piece(struct shard *sh, struct stripe *st, struct slot *s, enum raid_io_op op)
{
	if (s->phase == SLOT_WHOLE || ++s->off >= s->subs) {
		slot_over(sh, st, s);
	} else if (!alive(sh, s)) {
		MARK(stripe_member_left);
		st->again |= st->state == ST_READ;
		slot_over(sh, st, s);
	} else {
		emit(sh, st, s, op, s->sub + (uint32_t)s->off, 1);
	}
}

/* Sub-rows that the io in hand stands for: all of the slot's, or the one in work. */
static stripe_mask rows_in_hand(const struct slot *s)
{
	return s->phase == SLOT_WHOLE ? run_mask(s->sub, s->subs)
				      : run_mask(s->sub + (uint32_t)s->off, 1);
}

static void read_back(struct shard *sh, struct stripe *st, struct slot *s)
{
	if (!alive(sh, s)) {
		MARK(stripe_read_member_gone);
		st->again = true;
		slot_over(sh, st, s);
		return;
	}
	if (!s->res) {
		st->have[s->key] |= rows_in_hand(s);
	} else if (s->phase == SLOT_WHOLE && s->subs > 1) {
		MARK(stripe_read_pieces);
		start_pieces(sh, st, s);
		return;
	} else {
		MARK(stripe_read_bad);
		if (!st->waiter) {
			shard_report(sh, s, RAID_EV_READ_ERROR, s->res); /* the READ has said so */
		}
		st->bad[s->key] |= rows_in_hand(s);
		st->again = true;
	}
	next_piece(sh, st, s, RAID_IO_READ);
}

static void judge(struct shard *sh, struct slot *s, int err)
{
	s->res = err;
	list_append(&sh->ask->failed, &s->ask);
}

static bool as_written(const struct shard *sh, const struct stripe *st, const struct slot *s)
{
	for (uint32_t sub = 0; sub < sh->stripes.subs; sub++) {
		if (rows_in_hand(s) >> sub & 1 &&
		    memcmp(stripe_old(sh, st, s->key, sub),
			   st->from[s->key * sh->stripes.subs + sub], STRIPE_SUB) != 0) {
			return false;
		}
	}
	return true;
}

static void verify_back(struct shard *sh, struct stripe *st, struct slot *s)
{
	if (!alive(sh, s)) {
		slot_over(sh, st, s);
		return;
	}
	if (s->res || !as_written(sh, st, s)) {
		MARK(stripe_verify_failed);
		judge(sh, s, s->res ? s->res : -EIO);
		return;
	}
	MARK(stripe_repaired);
	shard_report(sh, s, RAID_EV_READ_REPAIRED, 0);
	sh->ask->repaired_any = true;
	sh->ask->repaired[s->gslot].errors++;
	sh->ask->repaired[s->gslot].sectors += (uint32_t)(s->io.len / RAID_SECTOR_BYTES);
	next_piece(sh, st, s, RAID_IO_READ);
}

/* What could not be put back: is it there all the same? */
static void undo_read_back(struct shard *sh, struct stripe *st, struct slot *s)
{
	uint32_t sub = s->sub + (uint32_t)s->off, index = index_of(s->key);

	if (alive(sh, s) && (s->res || memcmp(stripe_now(sh, st, index, sub),
					      stripe_old(sh, st, index, sub), STRIPE_SUB) != 0)) {
		MARK(stripe_undo_failed);
		st->lost |= run_mask(sub, 1);
	}
	next_piece(sh, st, s, RAID_IO_WRITE);
}

static void no_longer(struct shard *sh, const struct slot *s)
{
	if (s->io.op == RAID_IO_DISCARD) {
		sh->no_punch[s->io.member] = true;
	} else if (s->io.op == RAID_IO_ZERO) {
		sh->no_zero[s->io.member] = true;
	}
}

static void write_back(struct shard *sh, struct stripe *st, struct slot *s)
{
	if (!alive(sh, s)) {
		MARK(stripe_write_member_gone);
		slot_over(sh, st, s);
	} else if (!s->res && s->io.op == RAID_IO_WRITE &&
		   view_wrote_bad(sh->view, s->gslot, s->io.maddr, s->io.len)) {
		MARK(stripe_wrote_bad);
		list_append(&sh->ask->wrote_bad, &s->ask);
	} else if (!s->res) {
		next_piece(sh, st, s, RAID_IO_WRITE);
	} else if (s->phase == SLOT_WHOLE) {
		MARK(stripe_write_again);
		if (s->res == -EOPNOTSUPP) {
			no_longer(sh, s);
		} else {
			shard_report(sh, s, RAID_EV_WRITE_ERROR, s->res);
		}
		start_pieces(sh, st, s);
	} else {
		MARK(stripe_write_failed);
		judge(sh, s, s->res);
	}
}

void stripe_io_done(struct shard *sh, struct stripe *st, struct slot *s)
{
	if (s->late) {
		s->late = false;
		sh->late[s->io.member]--;
	}
	if (!s->counted) {
		put(st, s);
		stripe_maybe_free(sh, st);
	} else if (st->state == ST_READ) {
		read_back(sh, st, s);
	} else if (st->state == ST_VERIFY) {
		verify_back(sh, st, s);
	} else if (is_read(s)) {
		undo_read_back(sh, st, s);
	} else {
		write_back(sh, st, s);
	}
}

/* The core has decided about a member that could not keep a block, or has taken one that it kept
 * off its list. */
void stripe_judged(struct shard *sh, struct stripe *st, struct slot *s)
{
	if (s->verdict == SLOT_LISTED || s->verdict == SLOT_CLEARED) {
		next_piece(sh, st, s, s->io.op);
		return;
	}
	if (s->verdict == SLOT_LAST_COPY && st->state == ST_UNDO && alive(sh, s)) {
		MARK(stripe_undo_write_failed);
		emit(sh, st, s, RAID_IO_READ, s->sub + (uint32_t)s->off, 1);
		return;
	}
	if (s->verdict == SLOT_LAST_COPY && st->state == ST_WRITE && !st->read_only) {
		MARK(stripe_write_last_copy);
		shard_report(sh, s, RAID_EV_LAST_COPY_ERROR, s->res);
		st->undo |= run_mask(s->sub + (uint32_t)s->off, s->subs - (uint32_t)s->off);
	}
	slot_over(sh, st, s);
}

/* ---- members that leave -------------------------------------------------------------------- */

static void uncount(struct stripe *st, struct slot *s)
{
	MARK(stripe_uncount);
	s->counted = false;
	st->busy[s->key]--;
	st->pending--;
}

/* A replacement has taken its slot over: what is out to it goes on under that name. */
static void rename_promoted(struct shard *sh, struct stripe *st, struct slot *s)
{
	if (s->gslot >= VIEW_TWIN && !alive(sh, s) &&
	    view_gets(sh->view, s->gslot - VIEW_TWIN, s->io.member)) {
		MARK(stripe_promoted);
		st->todo[index_of(s->key)] |= st->todo[s->key];
		st->todo[s->key] = 0;
		s->gslot -= VIEW_TWIN;
	}
}

/* Nothing is waited for that a failed member was to write, or read back. */
void stripe_members_changed(struct shard *sh)
{
	struct stripe *st, *tmp;
	struct slot *s;

	if (!sh->stripes.parity) {
		return;
	}
	list_for_each_entry_safe (st, tmp, &sh->stripes.active, active) {
		uint32_t before = st->pending;

		if (st->state != ST_WRITE && st->state != ST_VERIFY && st->state != ST_UNDO) {
			continue;
		}
		list_for_each_entry (s, &st->slots, link) {
			rename_promoted(sh, st, s);
			if (s->counted && s->state == SLOT_OUT && !alive(sh, s)) {
				uncount(st, s);
			}
		}
		if (before && st->pending != before) {
			go_on(sh, st);
		}
	}
}

/* ---- reads that hang ----------------------------------------------------------------------- */

/* Leave kit and reads to a husk. */
static void leave_kit(struct shard *sh, struct stripe *st)
{
	struct stripe *husk = container_of(list_pop(&sh->stripes.free), struct stripe, link);
	struct stripe_kit *kit = husk->kit;
	struct slot *s, *tmp;

	MARK(stripe_husk);
	stripe_set_state(husk, ST_HUSK);
	list_append(&sh->stripes.active, &husk->active);
	husk->kit = st->kit;
	st->kit = kit;
	list_for_each_entry_safe (s, tmp, &st->slots, link) {
		CHECK(s->state == SLOT_OUT && s->counted);
		s->of = husk;
		s->counted = false;
		list_del(&s->link);
		list_append(&husk->slots, &s->link);
	}
	husk->out = st->out;
	st->out = st->pending = 0;
	for (uint32_t i = 0; i < st->blocks; i++) {
		st->busy[i] = 0;
		st->todo[i] = 0;
		st->have[i] = 0;
	}
	if (!st->read_only) {
		stripe_cover_again(sh, st);
	}
}

void stripe_late(struct shard *sh, struct stripe *st, struct slot *s)
{
	bool replace = s->counted && st->state == ST_READ;

	if (!s->counted || st->state == ST_UNDO) {
		iop_stop_waiting(s); /* nothing else could be done about it */
		return;
	}
	if (replace && (list_empty(&sh->stripes.free) || !stripe_can_do_without(sh, st, s))) {
		MARK(stripe_late_needed);
		iop_wait_again(sh->iop, s); /* others may come back, or husks */
		return;
	}
	events_add(sh->events, (struct raid_event){
				       .type = RAID_EV_DEADLINE,
				       .member = s->io.member,
				       .op = s->io.op,
				       .maddr = s->io.maddr,
				       .len = (sh->iop->now_ns - s->issued_ns) / 1000000,
				       .err = -ETIMEDOUT,
			       });
	s->late = true;
	sh->late[s->io.member]++;
	iop_stop_waiting(s);
	iop_cancel(sh->iop, s);
	if (replace) {
		leave_kit(sh, st);
		stripe_advance(sh, st);
	} else {
		MARK(stripe_late_verify);
		uncount(st, s);
		go_on(sh, st);
	}
}
