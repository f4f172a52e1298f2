/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raid_check() of stripes: what the machine's states promise, verified from the outside.
 */
#include "raid/stripe.h"

static const char *check_slots(const struct stripe *st, uint32_t in_flight[])
{
	uint32_t out = 0, counted = 0;
	const struct slot *s;

	list_for_each_entry (s, &st->slots, link) {
		if (s->of != st || s->owner != SLOT_STRIPE || s->pool != &st->kit->pool) {
			return "an io on a stripe's list is not the stripe's";
		}
		if (s->state == SLOT_OUT) {
			in_flight[s->io.member]++;
		} else if (!s->counted) {
			return "a stripe keeps an io that it has given up";
		}
		if (s->late && (s->state != SLOT_OUT || s->counted)) {
			return "a late io of a stripe is not out, or still waited for";
		}
		out++;
		counted += s->counted;
	}
	return out == st->out && counted == st->pending ? NULL
							: "a stripe's counts of ios are wrong";
}

static const char *check_state(const struct stripe *st)
{
	bool at_io = st->state == ST_READ || st->state == ST_WRITE || st->state == ST_VERIFY ||
		     st->state == ST_UNDO;
	bool locked =
		at_io || st->state == ST_LOCK || st->state == ST_INTENT || st->state == ST_DIRTY;

	if (at_io != (st->pending != 0)) {
		return "a stripe waits for ios in the wrong state, or for nothing";
	}
	if (locked != (st->range.state != RANGE_OUT)) {
		return "a stripe's rows are locked, or are not, against its state";
	}
	if ((st->state == ST_LOCK) != (st->range.state == RANGE_WAITING)) {
		return "a stripe works on rows before its turn";
	}
	if ((st->state == ST_LINGER || st->state == ST_HUSK) && !st->out) {
		return "a stripe lingers for nobody";
	}
	if (st->state == ST_HUSK && (!list_empty(&st->frags) || st->writes)) {
		return "a husk serves somebody";
	}
	if ((st->state == ST_WRITE || st->state == ST_UNDO) &&
	    st->intent_state != FRAG_INTENT_HELD) {
		return "rows are written without the bitmap";
	}
	return NULL;
}

static const char *check_frags(const struct shard *sh, const struct stripe *st)
{
	const struct frag *f;
	uint32_t n = 0;

	list_for_each_entry (f, &st->frags, in_stripe) {
		if (f->stripe != st || f->kind == FRAG_READ) {
			return "a stripe serves a fragment that does not know of it";
		}
		if (st->state != ST_LINGER && f->state != FRAG_STRIPE) {
			return "a fragment is done before its stripe is";
		}
		if (st->state != ST_LINGER &&
		    (!stripe_same_cell(sh, st, f->req->addr) ||
		     !stripe_same_cell(sh, st, f->req->addr + f->req->len - 1))) {
			return "a fragment lies outside the cell of its stripe";
		}
		n++;
	}
	if (n && st->read_only) {
		return "a stripe both reads and writes for fragments";
	}
	return n == (st->state == ST_HUSK ? 0 : st->frag_count) || st->read_only
		       ? NULL
		       : "a stripe's fragments are miscounted";
}

const char *stripe_check(struct shard *sh, uint32_t in_flight[], uint32_t *writes, uint32_t *ranges)
{
	uint32_t at_work = 0, active = 0, free = 0;
	const struct stripe *st;
	const char *wrong;
	struct list *l;

	if (!sh->stripes.parity) {
		return NULL;
	}
	list_for_each_entry (st, &sh->stripes.active, active) {
		bool idle = st->state == ST_LINGER || st->state == ST_HUSK;

		wrong = check_slots(st, in_flight);
		wrong = wrong ? wrong : check_state(st);
		wrong = wrong ? wrong : check_frags(sh, st);
		if (wrong) {
			return wrong;
		}
		if (!idle && (wrong = range_check(&sh->rows, (struct range *)&st->range))) {
			return wrong;
		}
		active++;
		at_work += !idle;
		*writes += st->writes;
		*ranges += st->range.state != RANGE_OUT;
	}
	for (l = sh->stripes.free.next; l != &sh->stripes.free; l = l->next) {
		free++;
	}
	if (at_work != sh->stripes.at_work || active + free != sh->stripes.total) {
		return "stripes are miscounted";
	}
	return NULL;
}

/* Blocks of this fragment that stripes are getting. */
uint32_t stripe_waiters(const struct shard *sh, const struct frag *f)
{
	const struct stripe *st;
	uint32_t n = 0;

	if (sh->stripes.parity) {
		list_for_each_entry (st, &sh->stripes.active, active) {
			n += st->waiter && st->waiter->of == f;
		}
	}
	return n;
}
