/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays on their loop, and what crosses between loops.
 *
 * A fragment of a session on the array's own loop is submitted by a plain call. From another loop
 * it crosses by the array_link's rings: SUBMIT (and RELEASE for a READ whose data has left) to the
 * owner, DONE and FREED back. WRITE payloads are freed by the session's loop, READ data by the
 * array's: each by the loop that owns the memory. Doorbells are rung once a turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"
#include "server/log.h"
#include "server/loop_int.h"

/* ---- life cycle ---------------------------------------------------------------------------- */

/* Reads go in pieces that stay in a CPU's cache between the member and the socket. */
static uint64_t split(const void *ctx, enum raid_op op, uint64_t addr, uint64_t len)
{
	if (op == RAID_OP_READ) {
		len = min_u64(len, LOOP_READ_BYTES - addr % LOOP_READ_BYTES);
	}
	return raid_split(ctx, op, addr, len);
}

static int create_engine(struct loop_array *a, const struct raid_limits *limits,
			 char why[RAID_WHY_BYTES])
{
	struct array_instance *ai = a->ai;
	struct raid_member_props *props = calloc(ai->members, sizeof *props);
	struct raid_config config = {
		.assembly = ai->assembly,
		.props = props,
		.limits = *limits,
		.read_only = ai->read_only,
		.bitmap_bits = ai->bitmap_bits,
		.now = loop_now(),
	};
	int err;

	if (!props || getrandom(&config.seed, sizeof config.seed, 0) != sizeof config.seed) {
		free(props);
		return why_set(why, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < ai->members; i++) {
		props[i] = ai->member[i].props;
	}
	err = raid_create(&config, &a->raid, why);
	free(props);
	return err;
}

static int init_link(struct loop_array *a, uint32_t i, const struct raid_limits *limits)
{
	struct array_link *link = &a->links[i];
	uint32_t frags = limits->frags / a->loops ? limits->frags / a->loops : 1;
	/* A part of the engine's buffers is for its own use: edges, repair. */
	uint64_t read_bytes = limits->buffer_bytes / 4 * 3 / a->loops;
	uint64_t largest = max_u64(RAID_FRAGMENT_BYTES, raid_row_bytes(a->raid));

	link->array = a;
	list_init(&link->link);
	list_init(&link->port.waiters);
	tx_target_init(&link->port.target, split, a->raid);
	link->port.target.read_bytes.total = max_u64(read_bytes, largest + RAID_PAGE_BYTES);
	link->frags = calloc(frags, sizeof *link->frags);
	if (!link->frags) {
		return -ENOMEM;
	}
	tx_target_add_frags(&link->port.target, link->frags, frags);
	if (i == a->owner->config.index) {
		return 0;
	}
	if (xring_init(&link->to_owner, frags) || xring_init(&link->to_loop, 2 * frags)) {
		return -ENOMEM;
	}
	return 0;
}

/* One for every place that the engine may give to a device. */
static int init_ports(struct loop_array *a)
{
	static const struct member_dev nobody = {.fd = -1};
	int err = 0;

	a->ports = calloc(RAID_MEMBERS_MAX, sizeof *a->ports);
	if (!a->ports) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < RAID_MEMBERS_MAX; i++) {
		const struct member_dev *dev = i < a->ai->members ? &a->ai->member[i] : &nobody;
		int one = member_port_init(&a->ports[i], dev, a);

		err = err ? err : one;
	}
	return err;
}

int array_new(struct loop *owner, struct array_instance *ai, const struct raid_limits *limits,
	      char why[RAID_WHY_BYTES])
{
	static const struct raid_limits standard = RAID_LIMITS_DEFAULT;
	uint32_t loops = owner->config.loops;
	struct loop_array *a = calloc(1, sizeof *a + loops * sizeof a->links[0]);
	int err;

	if (!a) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	limits = limits ? limits : &standard;
	list_init(&a->link);
	list_init(&a->stops);
	a->owner = owner;
	a->ai = ai;
	a->loops = loops;
	err = create_engine(a, limits, why);
	if (err) {
		free(a);
		return err;
	}
	err = init_ports(a);
	for (uint32_t i = 0; !err && i < loops; i++) {
		err = init_link(a, i, limits);
	}
	if (err) {
		array_destroy(a);
		return why_set(why, err, "%s", strerror(-err));
	}
	a->input = true;
	ai->raid = a->raid;
	ai->loop = owner;
	ai->plane = a;
	return 0;
}

void array_destroy(struct loop_array *a)
{
	list_del(&a->link);
	a->ai->raid = NULL;
	a->ai->plane = NULL;
	raid_destroy(a->raid);
	for (uint32_t i = 0; a->ports && i < RAID_MEMBERS_MAX; i++) {
		member_port_free(&a->ports[i]);
	}
	for (uint32_t i = 0; i < a->loops; i++) {
		free(a->links[i].frags);
		xring_free(&a->links[i].to_owner);
		xring_free(&a->links[i].to_loop);
	}
	free(a->ports);
	free(a);
}

struct array_link *array_link_for(struct loop *l, const struct array_instance *ai)
{
	struct array_link *link = &ai->plane->links[l->config.index];

	if (list_empty(&link->link)) {
		link->loop = l;
		list_append(&l->links, &link->link);
	}
	return link;
}

void array_forget(struct loop *l, struct loop_array *a)
{
	struct array_link *link = &a->links[l->config.index];

	arrays_cross(l); /* the last FREED may still be in the ring */
	CHECK(!link->port.target.frags.used);
	list_del(&link->link);
}

/* ---- what goes between sessions and arrays ------------------------------------------------- */

static struct array_link *link_of(const struct tx_frag *f)
{
	return container_of(f->t->target, struct array_link, port.target);
}

static struct conn *conn_of(const struct tx_frag *f)
{
	return container_of(f->t, struct conn, tx);
}

/* Ring the other loop's bell at the end of the turn. */
static void knock(struct loop *l, const struct loop *peer)
{
	l->knock[peer->config.index] = true;
}

static void submit(struct loop_array *a, struct tx_frag *f)
{
	a->undone++;
	a->unfreed++;
	a->input = true;
	raid_submit(a->raid, &f->raid);
}

static void release(struct loop_array *a, struct tx_frag *f)
{
	CHECK(a->undone && a->unfreed);
	a->undone--;
	a->unfreed--;
	a->input = true;
	raid_release(a->raid, &f->raid);
}

void array_collect(struct loop *l, struct conn *c)
{
	struct array_link *link = container_of(c->port, struct array_link, port);
	struct loop_array *a = link->array;
	bool local = a->owner == l;
	struct tx_frag *f;

	while (conn_serving(c) && (f = tx_next_submit(&c->tx))) {
		if (local) {
			submit(a, f);
		} else {
			xring_push(&link->to_owner, (struct xring_msg){XMSG_SUBMIT, f});
			knock(l, a->owner);
		}
	}
	while ((f = tx_next_release(&c->tx))) {
		if (local) {
			release(a, f);
			tx_freed(f);
		} else {
			xring_push(&link->to_owner, (struct xring_msg){XMSG_RELEASE, f});
			knock(l, a->owner);
		}
	}
}

/* On the session's loop. */
static void answer(struct tx_frag *f, enum xmsg_kind kind)
{
	struct conn *c = conn_of(f);

	if (kind == XMSG_DONE && f->raid.res) {
		log_limited(LOG_LEVEL_INFO,
			    "request failed session=%llu array=%s op=%d offset=%llu bytes=%llu: %s",
			    (unsigned long long)c->session, c->export->array->name, f->raid.op,
			    (unsigned long long)f->raid.addr, (unsigned long long)f->raid.len,
			    strerror(-f->raid.res));
	}
	if (kind == XMSG_DONE) {
		tx_done(f);
	} else {
		tx_freed(f);
	}
	conn_touch(c);
}

/* On the array's loop. */
static void deliver(struct loop *l, struct tx_frag *f, enum xmsg_kind kind)
{
	struct array_link *link = link_of(f);

	if (link->loop == l) {
		answer(f, kind);
	} else {
		xring_push(&link->to_loop, (struct xring_msg){kind, f});
		knock(l, link->loop);
	}
}

static void take_in(struct loop *l, struct loop_array *a, struct array_link *link)
{
	struct xring_msg m;

	while (xring_pop(&link->to_owner, &m)) {
		struct tx_frag *f = m.ptr;

		if (m.kind == XMSG_SUBMIT) {
			submit(a, f);
		} else {
			CHECK(m.kind == XMSG_RELEASE);
			release(a, f);
			deliver(l, f, XMSG_FREED);
		}
	}
}

void arrays_cross(struct loop *l)
{
	struct array_link *link;
	struct loop_array *a;
	struct xring_msg m;

	if (l->config.loops == 1) {
		return;
	}
	list_for_each_entry (a, &l->arrays, link) {
		for (uint32_t i = 0; i < a->loops; i++) {
			if (i != l->config.index) {
				take_in(l, a, &a->links[i]);
			}
		}
	}
	list_for_each_entry (link, &l->links, link) {
		if (link->array->owner == l) {
			continue;
		}
		while (xring_pop(&link->to_loop, &m)) {
			answer(m.ptr, m.kind);
		}
	}
}

void arrays_knock(struct loop *l)
{
	for (uint32_t i = 0; i < l->config.loops; i++) {
		if (l->knock[i]) {
			l->knock[i] = false;
			loop_wake(l->peers[i]);
		}
	}
}

/* ---- driving the engine -------------------------------------------------------------------- */

void arrays_result(struct loop *l, const struct member_result *r)
{
	struct loop_array *a = r->port->owner;

	CHECK(a->ios);
	a->ios--;
	if (!a->abandoned) {
		a->input = true;
		raid_complete(a->raid, r->io, r->res);
	}
}

void array_control(struct loop *l, struct loop_array *a, struct raid_cmd *cmd)
{
	if (cmd->op == RAID_CMD_STOP && a->undone) {
		list_append(&a->stops, &cmd->link);
		return;
	}
	a->input = true;
	raid_control(a->raid, cmd);
}

uint32_t array_add(struct loop *l, struct loop_array *a, struct raid_cmd *cmd,
		   const struct member_port *port)
{
	cmd->member = UINT32_MAX;
	array_control(l, a, cmd);
	if (cmd->member != UINT32_MAX) {
		struct member_port *p = &a->ports[cmd->member];

		CHECK(cmd->member < RAID_MEMBERS_MAX && p->fd < 0);
		*p = *port;
		list_init(&p->waiting);
	}
	return cmd->member;
}

static void clear_port(struct loop_array *a, uint32_t place)
{
	static const struct member_dev nobody = {.fd = -1};
	struct member_port *p = &a->ports[place];

	member_port_free(p);
	member_port_init(p, &nobody, a);
}

/* A place that the engine has given up names no device any more. */
static void answer_command(struct loop *l, struct loop_array *a, struct raid_cmd *cmd)
{
	struct mail *m = cmd->user;

	if (cmd->op == RAID_CMD_REMOVE && !cmd->res) {
		clear_port(a, cmd->member);
	}
	if (cmd->op == RAID_CMD_ADD && m->place != UINT32_MAX && cmd->member != m->place) {
		clear_port(a, m->place);
	}
	mail_answer(l, m);
}

static void pull(struct loop *l, struct loop_array *a)
{
	struct raid_event event;
	struct raid_req *req;
	struct raid_cmd *cmd;
	struct raid_io *io;

	while ((io = raid_next_io(a->raid))) {
		CHECK(io->member < RAID_MEMBERS_MAX && a->ports[io->member].fd >= 0);
		a->ios++;
		member_io_start(&l->members, &a->ports[io->member], io);
	}
	while ((io = raid_next_cancel(a->raid))) {
		member_io_cancel(&l->members, io);
	}
	while ((req = raid_next_done(a->raid))) {
		if (req->op != RAID_OP_READ) {
			CHECK(a->undone);
			a->undone--;
		}
		deliver(l, req->user, XMSG_DONE);
	}
	while ((req = raid_next_free(a->raid))) {
		CHECK(a->unfreed);
		a->unfreed--;
		deliver(l, req->user, XMSG_FREED);
	}
	while (raid_next_event(a->raid, &event)) {
		l->config.on_raid_event(l->config.ctx, a->ai, &event);
	}
	while ((cmd = raid_next_cmd(a->raid))) {
		answer_command(l, a, cmd);
	}
}

void arrays_step(struct loop *l)
{
	struct loop_array *a;
	struct list *n;

	list_for_each_entry (a, &l->arrays, link) {
		while (!a->undone && (n = list_pop(&a->stops))) {
			a->input = true;
			raid_control(a->raid, container_of(n, struct raid_cmd, link));
		}
		if (a->input || raid_deadline(a->raid) <= l->now.mono_ns) {
			a->input = false;
			raid_step(a->raid, l->now);
			pull(l, a);
		}
	}
}

uint64_t arrays_deadline(const struct loop *l)
{
	uint64_t deadline = RING_FOREVER;
	const struct loop_array *a;

	list_for_each_entry (a, &l->arrays, link) {
		if (a->input || (!a->undone && !list_empty(&a->stops))) {
			return 0;
		}
		deadline = min_u64(deadline, raid_deadline(a->raid));
		if (a->leave) {
			deadline = min_u64(deadline, a->leave->deadline_ns);
		}
	}
	return deadline;
}

void arrays_leave(struct loop *l)
{
	struct loop_array *a, *next;

	list_for_each_entry_safe (a, next, &l->arrays, link) {
		struct mail *m = a->leave;
		bool empty = !a->unfreed && !a->ios;

		if (m && (empty || m->deadline_ns <= l->now.mono_ns)) {
			list_del(&a->link);
			a->leave = NULL;
			a->abandoned = !empty;
			mail_answer(l, m);
		}
	}
}
