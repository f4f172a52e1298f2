/* SPDX-License-Identifier: BSD-3-Clause */
/* raid_io.backend while an io is ours: [0] says where it is (a slot's index, or IN_…), [1] is the
 * port. */
#include "server/member_io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { NO_SLOT = UINT32_MAX };

/* raid_io.backend[0]: in slot n, or one of these. */
enum { IN_QUEUE = UINT32_MAX, IN_DONE = UINT32_MAX - 1 };

int member_io_init(struct member_io *m, struct ring *ring)
{
	m->ring = ring;
	m->slots = calloc(MEMBER_IO_SLOTS, sizeof *m->slots);
	if (!m->slots) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < MEMBER_IO_SLOTS; i++) {
		m->slots[i].next_free = i + 1 < MEMBER_IO_SLOTS ? i + 1 : NO_SLOT;
	}
	m->first_free = 0;
	m->used = 0;
	list_init(&m->no_slot);
	list_init(&m->done);
	list_init(&m->later);
	return 0;
}

void member_io_free(struct member_io *m)
{
	free(m->slots);
	m->slots = NULL;
}

int member_port_init(struct member_port *p, const struct member_dev *dev, void *owner)
{
	struct stat st;

	*p = (struct member_port){.fd = dev->fd, .owner = owner};
	list_init(&p->waiting);
	if (dev->fd < 0) {
		return 0; /* not part of the array: no io will name it */
	}
	if (fstat(dev->fd, &st)) {
		return -errno;
	}
	p->cached = !dev->direct;
	p->writes_block = !(dev->direct && S_ISBLK(st.st_mode));
	if (dev->volatile_cache) {
		p->cache = volatile_create(dev->fd, dev->props.size_bytes);
		return p->cache ? 0 : -ENOMEM;
	}
	return 0;
}

void member_port_free(struct member_port *p)
{
	CHECK(list_empty(&p->waiting) && !p->workers);
	volatile_destroy(p->cache);
	p->cache = NULL;
}

static struct member_port *port_of(const struct raid_io *io)
{
	return (struct member_port *)(uintptr_t)io->backend[1];
}

static bool needs_worker(const struct member_port *p, const struct raid_io *io)
{
	switch (io->op) {
	case RAID_IO_READ:
		return false;
	case RAID_IO_WRITE:
		return p->writes_block || io->fua;
	case RAID_IO_FLUSH:
	case RAID_IO_DISCARD:
	case RAID_IO_ZERO:
		return true;
	}
	return true;
}

/* ---- slots --------------------------------------------------------------------------------- */

static struct ring_user user_of(const struct member_io *m, const struct member_slot *s)
{
	return (struct ring_user){RING_MEMBER, s->generation, (uint32_t)(s - m->slots)};
}

static struct member_slot *slot_get(struct member_io *m, struct member_port *p, struct raid_io *io)
{
	struct member_slot *s = &m->slots[m->first_free];

	CHECK(m->first_free != NO_SLOT && !s->io);
	m->first_free = s->next_free;
	m->used++;
	s->io = io;
	s->port = p;
	s->generation = (s->generation + 1) & RING_GENERATION_MASK;
	s->moved = 0;
	s->retries = 0;
	io->backend[0] = s - m->slots;
	return s;
}

static void slot_put(struct member_io *m, struct member_slot *s)
{
	s->io = NULL;
	s->next_free = m->first_free;
	m->first_free = s - m->slots;
	m->used--;
}

/* ---- queueing operations ------------------------------------------------------------------- */

/* The vectors of what is still to be transferred. After a short transfer it is the rest of one
 * element at a time: rare, and it needs no memory. */
static const struct iovec *vectors(struct member_slot *s, uint32_t *n)
{
	const struct raid_io *io = s->io;
	uint64_t skip = s->moved;

	if (!skip) {
		*n = io->iovcnt;
		return io->iov;
	}
	for (uint32_t i = 0; i < io->iovcnt; i++) {
		if (skip < io->iov[i].iov_len) {
			s->rest.iov_base = (uint8_t *)io->iov[i].iov_base + skip;
			s->rest.iov_len = io->iov[i].iov_len - skip;
			*n = 1;
			return &s->rest;
		}
		skip -= io->iov[i].iov_len;
	}
	CHECK(!"a transfer beyond its vectors");
	return NULL;
}

static void queue(struct member_io *m, struct member_slot *s)
{
	const struct raid_io *io = s->io;
	struct ring_user user = user_of(m, s);
	const struct iovec *iov;
	uint32_t n;

	switch (io->op) {
	case RAID_IO_READ:
		iov = vectors(s, &n);
		ring_read(m->ring, s->port->fd, iov, n, io->maddr + s->moved, user);
		return;
	case RAID_IO_WRITE:
		iov = vectors(s, &n);
		ring_write(m->ring, s->port->fd, iov, n, io->maddr + s->moved, io->fua, user);
		return;
	case RAID_IO_FLUSH:
		ring_fdatasync(m->ring, s->port->fd, user);
		return;
	case RAID_IO_DISCARD:
		ring_punch(m->ring, s->port->fd, io->maddr, io->len, user);
		return;
	case RAID_IO_ZERO:
		ring_zero(m->ring, s->port->fd, io->maddr, io->len, user);
		return;
	}
}

/* Start io, or put it where it waits. */
static void start(struct member_io *m, struct member_port *p, struct raid_io *io)
{
	bool worker = needs_worker(p, io);

	if (p->shrunk && io->op != RAID_IO_READ && io->op != RAID_IO_FLUSH) {
		io->backend[0] = IN_DONE;
		list_append(&m->done, &io->link);
		return;
	}
	if (worker && p->workers == MEMBER_WORKERS_MAX) {
		io->backend[0] = IN_QUEUE;
		list_append(&p->waiting, &io->link);
		return;
	}
	if (m->first_free == NO_SLOT) {
		io->backend[0] = IN_QUEUE;
		list_append(&m->no_slot, &io->link);
		return;
	}
	p->workers += worker;
	queue(m, slot_get(m, p, io));
}

void member_io_end_turn(struct member_io *m)
{
	uint64_t bytes = 0;
	struct raid_io *io;

	while ((io = list_first_entry(&m->later, struct raid_io, link)) &&
	       (!bytes || bytes + io->len <= MEMBER_TURN_BYTES)) {
		list_del(&io->link);
		bytes += io->len;
		start(m, port_of(io), io);
	}
}

void member_io_start(struct member_io *m, struct member_port *p, struct raid_io *io)
{
	io->backend[1] = (uintptr_t)p;
	if (p->cache) {
		io->backend[0] = IN_DONE;
		list_append(&m->done, &io->link);
		return;
	}
	if (p->cached && io->op == RAID_IO_READ) {
		io->backend[0] = IN_QUEUE;
		list_append(&m->later, &io->link);
		return;
	}
	start(m, p, io);
}

void member_io_cancel(struct member_io *m, struct raid_io *io)
{
	if (io->backend[0] == IN_QUEUE) {
		list_del(&io->link);
		io->backend[0] = IN_DONE;
		list_append(&m->done, &io->link);
	} else if (io->backend[0] != IN_DONE) {
		struct member_slot *s = &m->slots[io->backend[0]];

		CHECK(s->io == io);
		ring_cancel(m->ring, user_of(m, s));
	}
}

/* ---- results ------------------------------------------------------------------------------- */

/* What an operation's result means for the whole io: > 0: not over, queue again. */
static int judge(struct member_slot *s, int res)
{
	const struct raid_io *io = s->io;

	if ((res == -EINTR || res == -EAGAIN) && s->retries++ < MEMBER_RETRIES_MAX) {
		return 1;
	}
	if (res < 0 || (io->op != RAID_IO_READ && io->op != RAID_IO_WRITE)) {
		return res;
	}
	if (res == 0) {
		s->port->shrunk |= io->op == RAID_IO_READ;
		return -EIO; /* the end of a file that is shorter than it was */
	}
	s->moved += res;
	CHECK(s->moved <= io->len);
	return s->moved < io->len;
}

bool member_io_event(struct member_io *m, const struct ring_event *ev, struct member_result *out)
{
	struct member_slot *s = &m->slots[ev->user.index];
	struct member_port *p = s->port;
	struct raid_io *next;
	int res;

	CHECK(ev->user.index < MEMBER_IO_SLOTS);
	CHECK(s->io && s->generation == ev->user.generation);
	res = judge(s, ev->res);
	if (res > 0) {
		queue(m, s);
		return false;
	}
	*out = (struct member_result){p, s->io, res};
	p->workers -= needs_worker(p, s->io);
	slot_put(m, s);
	next = list_first_entry(&p->waiting, struct raid_io, link);
	if (next && p->workers < MEMBER_WORKERS_MAX) {
		list_del(&next->link);
		start(m, p, next);
	}
	next = list_first_entry(&m->no_slot, struct raid_io, link);
	if (next && m->first_free != NO_SLOT) {
		list_del(&next->link);
		start(m, port_of(next), next);
	}
	return true;
}

bool member_io_next(struct member_io *m, struct member_result *out)
{
	struct list *n = list_pop(&m->done);
	struct raid_io *io;

	if (!n) {
		return false;
	}
	io = container_of(n, struct raid_io, link);
	out->port = port_of(io);
	out->io = io;
	out->res = out->port->cache    ? volatile_do(out->port->cache, io)
		   : out->port->shrunk ? -EIO
				       : -ECANCELED;
	return true;
}
