/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop's connections: their table, their end, draining. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/log.h"
#include "server/loop_int.h"

enum { NO_SLOT = UINT32_MAX, SLOTS_FIRST = 64 };

static bool grow(struct loop *l)
{
	uint32_t count = l->slot_count ? l->slot_count * 2 : SLOTS_FIRST;
	struct conn_slot *slots = realloc(l->slots, count * sizeof *slots);

	if (!slots) {
		return false;
	}
	for (uint32_t i = l->slot_count; i < count; i++) {
		slots[i] = (struct conn_slot){.next_free = i + 1 < count ? i + 1 : NO_SLOT};
	}
	l->first_free = l->slot_count;
	l->slots = slots;
	l->slot_count = count;
	return true;
}

static void count(struct loop *l, int change)
{
	atomic_store_explicit(&l->stat_sessions,
			      atomic_load_explicit(&l->stat_sessions, memory_order_relaxed) +
				      change,
			      memory_order_relaxed);
	if (change > 0) {
		atomic_fetch_add_explicit(&l->stat_sessions_total, 1, memory_order_relaxed);
	}
}

static void refuse(struct loop *l, const struct handoff *h, const char *why)
{
	close(h->in_fd);
	if (h->out_fd != h->in_fd) {
		close(h->out_fd);
	}
	free(h->extra);
	l->config.on_session_end(l->config.ctx, h->session, why);
}

void session_new(struct loop *l, const struct handoff *h)
{
	struct array_link *link = array_link_for(l, h->export->array);
	struct conn_slot *s;

	if (l->draining) {
		refuse(l, h, "the server is stopping");
		return;
	}
	if (!link || (l->first_free == NO_SLOT && !grow(l))) {
		refuse(l, h, "out of memory");
		return;
	}
	s = &l->slots[l->first_free];
	CHECK(!s->conn);
	s->generation = (s->generation + 1) & RING_GENERATION_MASK;
	s->conn = conn_new(&l->env, &link->port, h, l->config.depth_max, l->first_free,
			   s->generation);
	if (!s->conn) {
		refuse(l, h, "out of memory");
		return;
	}
	l->first_free = s->next_free;
	list_append(&l->conns, &s->conn->link);
	count(l, 1);
}

struct conn *session_find(struct loop *l, const struct ring_user *user)
{
	struct conn_slot *s = &l->slots[user->index];

	CHECK(user->index < l->slot_count);
	CHECK(s->conn && s->generation == user->generation);
	return s->conn;
}

static void session_over(struct loop *l, struct conn *c)
{
	struct conn_slot *s = &l->slots[c->index];

	l->config.on_session_end(l->config.ctx, c->session, conn_why(c));
	s->conn = NULL;
	s->next_free = l->first_free;
	l->first_free = c->index;
	conn_free(c);
	count(l, -1);
}

void sessions_pump(struct loop *l)
{
	struct conn *c;

	list_for_each_entry (c, &l->env.touched, touch) {
		conn_pump(c);
	}
	sessions_collect(l);
}

void sessions_collect(struct loop *l)
{
	struct conn *c;

	list_for_each_entry (c, &l->env.touched, touch) {
		array_collect(l, c);
	}
}

void sessions_flush(struct loop *l)
{
	struct list now, *n;

	/* What is touched meanwhile (a release that lets another go on) is for the next turn. */
	list_init(&now);
	list_splice(&now, &l->env.touched);
	while ((n = list_pop(&now))) {
		struct conn *c = container_of(n, struct conn, touch);

		conn_pump(c); /* an answer may have made room */
		conn_flush(c);
		array_collect(l, c);
		if (conn_over(c)) {
			session_over(l, c);
		}
	}
}

/* ---- draining ------------------------------------------------------------------------------ */

static bool concerns(const struct mail *drain, const struct conn *c)
{
	return !drain->ai || c->export->array == drain->ai;
}

void sessions_drain(struct loop *l, struct mail *m)
{
	struct conn *c;

	if (!m->ai) {
		l->draining = true;
	}
	list_append(&l->drains, &m->link);
	list_for_each_entry (c, &l->conns, link) {
		if (concerns(m, c)) {
			conn_drain(c);
		}
	}
}

static void cut(struct loop *l, const struct mail *drain)
{
	struct conn *c;

	list_for_each_entry (c, &l->conns, link) {
		if (concerns(drain, c)) {
			conn_cut(c, "the server is stopping and the session did not end in time");
		}
	}
}

/* A drain is over when no socket is left; fragments that a member still holds are awaited by STOP.
 */
static bool drained(const struct loop *l, const struct mail *drain)
{
	const struct conn *c;

	list_for_each_entry (c, &l->conns, link) {
		if (concerns(drain, c) && c->state != CONN_CLOSED) {
			return false;
		}
	}
	return true;
}

static uint64_t drains_check(struct loop *l)
{
	uint64_t deadline = RING_FOREVER;
	bool hurry = atomic_load(&l->hurry);
	struct mail *m, *next;

	list_for_each_entry_safe (m, next, &l->drains, link) {
		if (hurry || m->deadline_ns <= l->now.mono_ns) {
			cut(l, m);
			m->deadline_ns = RING_FOREVER;
		}
		if (drained(l, m)) {
			list_del(&m->link);
			mail_answer(l, m);
			continue;
		}
		deadline = min_u64(deadline, m->deadline_ns);
	}
	return deadline;
}

/* ---- stalled clients ----------------------------------------------------------------------- */

static bool somebody_starves(const struct loop *l)
{
	const struct array_link *link;
	const struct conn *c;

	list_for_each_entry (link, &l->links, link) {
		list_for_each_entry (c, &link->port.waiters, wait) {
			if (conn_starves(c)) {
				return true;
			}
		}
	}
	return false;
}

static uint64_t stall_check(struct loop *l)
{
	uint64_t limit_ns = l->config.stall_ms * UINT64_C(1000000);
	struct conn *c;

	if (!somebody_starves(l)) {
		l->starving_ns = RING_FOREVER;
		return RING_FOREVER;
	}
	l->starving_ns = min_u64(l->starving_ns, l->now.mono_ns);
	if (l->now.mono_ns - l->starving_ns < limit_ns) {
		return l->starving_ns + limit_ns;
	}
	list_for_each_entry (c, &l->conns, link) {
		if (conn_stalled(c, l->now.mono_ns - limit_ns)) {
			conn_cut(c, "the client stalled while others waited for its buffers");
		}
	}
	l->starving_ns = l->now.mono_ns;
	return l->starving_ns + limit_ns;
}

uint64_t sessions_deadline(struct loop *l)
{
	uint64_t deadline = min_u64(conn_linger_check(&l->env), conn_hold_check(&l->env));

	return min_u64(deadline, min_u64(drains_check(l), stall_check(l)));
}
