/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads that a member does not answer in time (DESIGN §3, deadlines).
 *
 * The hung io keeps its buffer: the fragment sheds both. A fragment without a request (SHED) takes
 * over the buffer and every io that names it, and holds them until the last is back; the request
 * starts again with another buffer and from other copies. The member stays; while an io of it is
 * late it is the last choice, and a request that has been round all copies waits. Where copies may
 * differ another copy must not be read as long as this one is trusted, so there the member is
 * failed, unless it is the last.
 */
#include <errno.h>

#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"
#include "raid/sync_job.h"

/* Is there another copy of what s reads, on a member that answers? */
static enum other other_copy(struct shard *sh, const struct slot *s, bool *unsynced)
{
	struct geo_piece p;
	uint32_t copy;
	uint64_t addr, len;
	int i;

	if (!geo_unmap(sh->view->geo, s->gslot, s->io.maddr, &addr, &copy)) {
		return OTHER_NONE;
	}
	if (sh->stripes.parity) {
		return stripe_other(sh, s);
	}
	geo_map(sh->view->geo, addr, 1, &p);
	*unsynced = choose_unsynced(sh, &p);
	/* Nor one that could not be read before: then this one, however late, is the last. */
	i = choose_copy(sh, &p, 1u << copy | (s->phase == SLOT_OTHER ? s->tried : 0), &len);
	return i < 0						 ? OTHER_NONE
	       : sh->late[sh->view->slot[p.copy[i].slot].member] ? OTHER_LATE
								 : OTHER_READY;
}

static void wait_shed(struct shard *sh, struct frag *f, struct slot *s)
{
	s->late = true;
	sh->late[s->io.member]++;
	iop_stop_waiting(s);
	iop_cancel(sh->iop, s);
	if (f->state != FRAG_WAIT_SHED) {
		frag_set_state(f, FRAG_WAIT_SHED);
		list_append(&sh->wait_shed, &f->link);
	}
}

static void late_read(struct shard *sh, struct slot *s)
{
	struct frag *f = s->of;
	bool unsynced = false;
	enum other other;

	if (f->state == FRAG_SHED) {
		iop_stop_waiting(s);
		return;
	}
	if (f->sheds >= sh->view->geo->copies + sh->stripes.parity) {
		/* All members take longer than the deadline: turning round for ever would throw
		 * away every answer that comes. */
		MARK(late_all_round);
		iop_stop_waiting(s);
		return;
	}
	other = other_copy(sh, s, &unsynced);
	if (other == OTHER_NONE) {
		MARK(late_last_copy);
		iop_stop_waiting(s); /* nothing else could be done about it */
		return;
	}
	if (other == OTHER_LATE) {
		MARK(late_others_too);
		iop_wait_again(sh->iop, s);
		return;
	}
	MARK(late_read);
	events_add(sh->events, (struct raid_event){
				       .type = RAID_EV_DEADLINE,
				       .member = s->io.member,
				       .op = s->io.op,
				       .maddr = s->io.maddr,
				       .len = (sh->iop->now_ns - s->issued_ns) / 1000000,
				       .err = -ETIMEDOUT,
			       });
	if (unsynced && view_gives(sh->view, s->gslot, s->io.member)) {
		MARK(late_unsynced);
		iop_wait_again(sh->iop, s);
		s->res = -ETIMEDOUT;
		list_append(&sh->ask->failed, &s->ask);
	} else {
		wait_shed(sh, f, s);
	}
}

void late_reads(struct shard *sh)
{
	struct slot *s;

	while ((s = iop_expired(sh->iop, IOP_READS)) ||
	       (s = iop_expired(sh->iop, IOP_FAST_READS))) {
		if (s->owner == SLOT_JOB) {
			repair_late(sh, s->of, s);
		} else if (s->owner == SLOT_SYNC) {
			sync_late(sh, s->of, s);
		} else if (s->owner == SLOT_STRIPE) {
			stripe_late(sh, s->of, s);
		} else {
			late_read(sh, s);
		}
	}
}

/* The core was asked to fail the member of a late read. Meanwhile another late io of the fragment,
 * where copies are equal, may have made it shed this one: then nobody waits for it any more. */
void late_judged(struct shard *sh, struct slot *s)
{
	struct frag *f = s->of;

	if (s->owner != SLOT_DATA || s->verdict != SLOT_MEMBER_FAILED || s->late) {
		return;
	}
	if (f->state == FRAG_SHED) {
		MARK(late_judged_shed);
		iop_stop_waiting(s);
		iop_cancel(sh->iop, s);
	} else {
		wait_shed(sh, f, s);
	}
}

/* Give the hung ios and the buffer to a fragment of their own. */
static void shed(struct shard *sh, struct frag *f)
{
	struct frag *z = frag_alloc(sh);
	struct slot *s, *tmp;

	MARK(late_shed);
	frag_set_state(z, FRAG_SHED);
	z->kind = f->kind;
	sh->shed++;
	list_for_each_entry_safe (s, tmp, &f->slots, link) {
		if (s->state != SLOT_OUT) {
			continue;
		}
		list_del(&s->link);
		list_append(&z->slots, &s->link);
		s->of = z;
		s->counted = false;
		f->out--;
		f->pending--;
		z->out++;
	}
	frag_unreserve(sh, f);
	z->buf = f->buf;
	z->kit = f->kit;
	if (z->kit) {
		z->kit->user = z;
	}
	f->buf = NULL;
	f->kit = NULL;
}

/* Only ios that are out keep a fragment from starting again; one waiting for a repair is not. */
static bool all_out(const struct frag *f)
{
	const struct slot *s;
	uint32_t n = 0;

	list_for_each_entry (s, &f->slots, link) {
		if (s->state != SLOT_OUT) {
			return false;
		}
		n++;
	}
	/* The others are on shard.job_wait, or with stripes. */
	return n == f->out && !f->parts;
}

static bool try_one(struct shard *sh, struct frag *f)
{
	struct frag fresh = *f;

	if (sh->shed >= SHARD_SHED_MAX || !sh->frags_free_count || !all_out(f)) {
		return false;
	}
	fresh.kit = NULL;
	fresh.reserved = 0;
	if (!frag_provide(sh, &fresh)) {
		MARK(late_no_room);
		return false;
	}
	shed(sh, f);
	f->sheds++;
	f->buf = fresh.buf;
	f->kit = fresh.kit;
	f->reserved = fresh.reserved;
	if (f->kit) {
		f->kit->user = f;
	}
	f->restart = false;
	f->window = f->cursor = f->lo;
	if (f->kind == FRAG_READ) {
		frag_set_state(f, FRAG_DATA);
		frag_start_read(sh, f);
		return true;
	}
	frag_set_state(f, FRAG_EDGES);
	f->restart = true; /* read the edges again */
	frag_advance(sh, f);
	return true;
}

bool late_try(struct shard *sh)
{
	struct frag *f, *tmp;
	bool moved = false;

	list_for_each_entry_safe (f, tmp, &sh->wait_shed, link) {
		moved |= try_one(sh, f);
	}
	return moved;
}
