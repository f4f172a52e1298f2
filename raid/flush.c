/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush rounds (rule 2). A round sends FLUSH to every member that gets writes (also while it is
 * filled: below its recovery_offset it will be trusted) and has completed one since its last FLUSH
 * was issued; so it covers every write that was acknowledged before it began.
 * A FLUSH request that arrives during a round waits for the next; it never waits for writes.
 *
 * A failed FLUSH is not retried: what it should have made durable may be gone. The member is
 * failed; if it holds a last copy, FLUSH and FUA answer -EIO from then on.
 */
#include <errno.h>

#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

void flush_init(struct flush *f)
{
	*f = (struct flush){0};
	list_init(&f->next);
	list_init(&f->round);
	list_init(&f->round_asks);
	list_init(&f->wait_meta);
}

static void answer(struct core *c, struct raid_req *req, int res)
{
	req->res = res;
	list_append(c->done, &req->link);
}

void flush_submit(struct core *c, struct raid_req *req)
{
	req->frag = NULL;
	if (c->view.read_only) {
		answer(c, req, 0);
	} else if (c->view.flush_lost) {
		MARK(flush_already_lost);
		answer(c, req, -EIO);
	} else {
		list_append(&c->flush.next, &req->link);
	}
}

static void lost(struct core *c, uint32_t m, int err)
{
	MARK(flush_lost);
	c->view.flush_lost = true;
	c->view.generation++;
	events_add(c->events, (struct raid_event){
				      .type = RAID_EV_FLUSH_LOST,
				      .member = m,
				      .op = RAID_IO_FLUSH,
				      .err = err,
			      });
}

static void begin(struct core *c)
{
	struct flush *f = &c->flush;

	f->running = true;
	f->wanted = false;
	f->rounds++;
	list_splice(&f->round, &f->next);
	list_splice(&f->round_asks, &c->ask.flush);
	for (uint32_t i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		if (member_gets_writes(m) && m->props.volatile_cache &&
		    c->iop->member[i].unflushed) {
			m->in_round = true;
			f->out++;
			iop_emit(c->iop, m->flush_slot);
		}
	}
}

static void end(struct core *c)
{
	struct flush *f = &c->flush;
	int res = c->view.flush_lost ? -EIO : 0;
	struct list *l;

	f->running = false;
	while ((l = list_pop(&f->round_asks))) {
		container_of(l, struct ask_flush, link)->res = res;
		list_append(&c->ask.flushed, l);
	}
	if (!res) {
		list_splice(&f->wait_meta, &f->round);
	}
	while ((l = list_pop(&f->round))) {
		answer(c, container_of(l, struct raid_req, link), res);
	}
}

bool flush_run(struct core *c)
{
	struct flush *f = &c->flush;
	bool moved = false;
	struct list *l;

	while (f->running ? !f->out
			  : f->wanted || !list_empty(&f->next) || !list_empty(&c->ask.flush)) {
		moved = true;
		if (f->running) {
			end(c);
		} else {
			begin(c);
		}
	}
	/* Rule 1 for the flush itself: who failed it must be named first. */
	while (!list_empty(&f->wait_meta) && (!c->view.fail_pending || c->view.broken)) {
		moved = true;
		l = list_pop(&f->wait_meta);
		answer(c, container_of(l, struct raid_req, link), c->view.fail_pending ? -EIO : 0);
	}
	return moved;
}

void flush_io_done(struct core *c, struct slot *s)
{
	struct member *m = &c->member[s->io.member];

	if (!m->in_round) {
		return; /* it has left */
	}
	if (s->res) {
		if (member_fail(c, s->io.member,
				(struct raid_event){
					.op = RAID_IO_FLUSH,
					.err = s->res,
					.why = "a flush failed",
				}) == MEMBER_FAIL_DONE) {
			MARK(flush_failed);
			return; /* flush_member_left() has counted it */
		}
		lost(c, s->io.member, s->res);
	}
	m->in_round = false;
	c->flush.out--;
}

void flush_member_left(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];

	if (m->in_round) {
		m->in_round = false;
		c->flush.out--;
	}
}
