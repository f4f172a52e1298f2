/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/iop.h"

#include "raid/base/check.h"

void iop_init(struct iop *p, uint64_t read_deadline_ns, uint64_t write_deadline_ns)
{
	*p = (struct iop){
		.deadline_ns = {[IOP_READS] = read_deadline_ns,
				[IOP_FAST_READS] = read_deadline_ns / IOP_FAST,
				[IOP_WRITES] = write_deadline_ns},
	};
	list_init(&p->queued);
	list_init(&p->completed);
	list_init(&p->cancel);
	list_init(&p->timed[IOP_READS]);
	list_init(&p->timed[IOP_FAST_READS]);
	list_init(&p->timed[IOP_WRITES]);
}

static enum iop_class class_of(const struct iop *p, const struct slot *s)
{
	if (s->io.op != RAID_IO_READ) {
		return IOP_WRITES;
	}
	return p->member[s->io.member].failfast ? IOP_FAST_READS : IOP_READS;
}

void slot_pool_init(struct slot_pool *pool)
{
	*pool = (struct slot_pool){0};
	list_init(&pool->free);
}

void slot_pool_add(struct slot_pool *pool, struct slot *s, struct iovec *iov, uint32_t iov_cap)
{
	*s = (struct slot){.pool = pool, .iov = iov, .iov_cap = iov_cap};
	list_init(&s->io.link);
	list_init(&s->timed);
	list_init(&s->ask);
	list_init(&s->cancel);
	list_append(&pool->free, &s->link);
	pool->total++;
	pool->free_count++;
}

struct slot *slot_take(struct slot_pool *pool, enum slot_owner owner, void *of)
{
	struct slot *s = container_of(pool->free.next, struct slot, link);

	CHECK(pool->free_count > 0);
	list_del(&s->link);
	pool->free_count--;
	s->state = SLOT_HELD;
	s->owner = owner;
	s->of = of;
	s->verdict = SLOT_NO_VERDICT;
	s->res = 0;
	s->late = false;
	s->counted = false;
	s->phase = SLOT_WHOLE;
	s->retried = false;
	s->gslot = UINT32_MAX;
	s->io.iov = s->iov;
	s->io.iovcnt = 0;
	s->io.len = 0;
	s->io.fua = false;
	return s;
}

void slot_put(struct slot *s)
{
	CHECK(s->state == SLOT_HELD && !s->late);
	CHECK(list_empty(&s->ask) && list_empty(&s->timed));
	list_del(&s->link);
	s->state = SLOT_FREE;
	s->of = NULL;
	list_push(&s->pool->free, &s->link); /* last in, first out: still in the cache */
	s->pool->free_count++;
}

void iop_emit(struct iop *p, struct slot *s)
{
	struct iop_member *m = &p->member[s->io.member];

	CHECK(s->state == SLOT_HELD);
	s->state = SLOT_OUT;
	s->issued_ns = p->now_ns;
	s->io.cancelled = false;
	m->in_flight++;
	p->out++;
	if (s->io.op == RAID_IO_READ) {
		m->reads++;
		m->read_bytes += s->io.len;
		m->head = s->io.maddr + s->io.len;
	} else if (s->io.op == RAID_IO_FLUSH) {
		m->unflushed = false;
	} else {
		m->writes++;
		m->write_bytes += s->io.len;
	}
	list_append(&p->timed[class_of(p, s)], &s->timed);
	list_append(&p->queued, &s->io.link);
}

void iop_completed(struct iop *p, struct raid_io *io, int res)
{
	struct slot *s = (struct slot *)io;

	CHECK(s->state == SLOT_OUT && res <= 0);
	s->res = res;
	list_init(&io->link);
	list_append(&p->completed, &io->link);
}

struct slot *iop_next_completed(struct iop *p)
{
	struct list *l = list_pop(&p->completed);
	struct slot *s;

	if (!l) {
		return NULL;
	}
	s = container_of(l, struct slot, io.link);
	s->state = SLOT_HELD;
	list_del(&s->timed);
	list_del(&s->cancel);
	p->member[s->io.member].in_flight--;
	p->out--;
	if (s->io.op != RAID_IO_READ && s->io.op != RAID_IO_FLUSH) {
		p->member[s->io.member].unflushed = true;
	}
	return s;
}

struct slot *iop_expired(struct iop *p, enum iop_class class)
{
	struct slot *s = list_first_entry(&p->timed[class], struct slot, timed);

	if (!s || s->issued_ns + p->deadline_ns[class] > p->now_ns) {
		return NULL;
	}
	return s;
}

void iop_wait_again(struct iop *p, struct slot *s)
{
	list_del(&s->timed);
	s->issued_ns = p->now_ns;
	list_append(&p->timed[class_of(p, s)], &s->timed);
}

void iop_stop_waiting(struct slot *s)
{
	list_del(&s->timed);
}

void iop_cancel(struct iop *p, struct slot *s)
{
	if (s->state == SLOT_OUT && !s->io.cancelled) {
		s->io.cancelled = true;
		list_append(&p->cancel, &s->cancel);
	}
}

uint64_t iop_deadline(const struct iop *p)
{
	uint64_t first = RAID_NEVER;

	for (int c = 0; c < IOP_CLASSES; c++) {
		const struct list *l = p->timed[c].next;

		if (l != &p->timed[c]) {
			const struct slot *s = container_of(l, const struct slot, timed);

			if (s->issued_ns + p->deadline_ns[c] < first) {
				first = s->issued_ns + p->deadline_ns[c];
			}
		}
	}
	return first;
}
