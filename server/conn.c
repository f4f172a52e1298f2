/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/export.h"

enum { NOT_LATER = 64 };

#define TO(state) (1u << (state))

static const uint8_t transitions[] = {
	[CONN_OPEN] = TO(CONN_SHUTDOWN) | TO(CONN_CUT),
	[CONN_SHUTDOWN] = TO(CONN_LINGER) | TO(CONN_CUT),
	[CONN_LINGER] = TO(CONN_CUT),
	[CONN_CUT] = TO(CONN_CLOSING),
	[CONN_CLOSING] = TO(CONN_CLOSED),
	[CONN_CLOSED] = 0,
};

STATIC_CHECK(sizeof(struct conn) <= 4096, "an idle connection owns at most 4 KiB");

static void enter(struct conn *c, enum conn_state to)
{
	CHECK(transitions[c->state] & TO(to));
	c->state = to;
}

static struct ring_user user(const struct conn *c, enum ring_kind kind)
{
	return (struct ring_user){kind, c->generation, c->index};
}

void conn_env_init(struct conn_env *env, struct ring *ring, struct bufs *bufs)
{
	memset(env, 0, sizeof *env);
	env->ring = ring;
	tx_shared_init(&env->tx, bufs);
	list_init(&env->touched);
	list_init(&env->lingering);
	list_init(&env->holding);
}

struct conn *conn_new(struct conn_env *env, struct conn_port *port, const struct handoff *h,
		      uint32_t depth_max, uint32_t index, uint32_t generation)
{
	struct conn *c = calloc(1, sizeof *c);
	const struct export *e = h->export;

	if (!c) {
		return NULL;
	}
	list_init(&c->link);
	list_init(&c->touch);
	list_init(&c->wait);
	list_init(&c->linger);
	list_init(&c->hold);
	batch_init(&c->batch);
	c->mark = 1;
	c->env = env;
	c->port = port;
	c->index = index;
	c->generation = generation;
	c->in_fd = h->in_fd;
	c->out_fd = h->out_fd;
	c->socket = h->socket;
	c->session = h->session;
	c->export = e;
	c->moved_ns = env->now_ns;
	if (h->extra_len) {
		c->stash = h->extra;
		c->stash_len = h->extra_len;
	} else {
		free(h->extra);
	}
	tx_init(&c->tx, &(struct tx_config){
				.shared = &env->tx,
				.target = &port->target,
				.rules = {.size = e->size,
					  .tflags = e->flags,
					  .read_only = e->read_only,
					  .structured = h->structured},
				.stream = h->session,
				.depth_max = depth_max,
			});
	conn_touch(c);
	return c;
}

void conn_free(struct conn *c)
{
	CHECK(conn_over(c));
	list_del(&c->link);
	list_del(&c->touch);
	list_del(&c->hold);
	free(c->stash);
	free(c);
}

bool conn_over(const struct conn *c)
{
	return c->state == CONN_CLOSED && tx_ended(&c->tx);
}

const char *conn_why(const struct conn *c)
{
	return c->why ? c->why : tx_end_text(c->tx.end);
}

void conn_touch(struct conn *c)
{
	if (list_empty(&c->touch)) {
		list_append(&c->env->touched, &c->touch);
	}
}

bool conn_serving(const struct conn *c)
{
	return c->state == CONN_OPEN;
}

/* ---- taking in ----------------------------------------------------------------------------- */

/* Join those who want what others hold, at the end. */
static void wait_in_line(struct conn *c)
{
	if (list_empty(&c->wait)) {
		list_append(&c->port->waiters, &c->wait);
		c->env->serve_again = true; /* it has not been asked yet */
	}
}

static bool must_wait(const struct conn *c)
{
	return !list_empty(&c->wait) || !list_empty(&c->port->waiters);
}

static void stash(struct conn *c, const uint8_t *bytes, size_t n)
{
	CHECK(!c->stash);
	c->stash = malloc(n);
	if (!c->stash) {
		conn_cut(c, "out of memory");
		return;
	}
	memcpy(c->stash, bytes, n);
	c->stash_at = 0;
	c->stash_len = n;
}

static void feed_stash(struct conn *c)
{
	if (!c->stash) {
		return;
	}
	c->stash_at += tx_feed(&c->tx, c->stash + c->stash_at, c->stash_len - c->stash_at);
	if (c->stash_at == c->stash_len) {
		free(c->stash);
		c->stash = NULL;
	}
}

static void take_in(struct conn *c, const uint8_t *bytes, size_t n)
{
	size_t used = 0;

	if (must_wait(c)) {
		wait_in_line(c);
	} else {
		used = tx_feed(&c->tx, bytes, n);
		if (c->tx.starved) {
			wait_in_line(c);
		}
	}
	if (used < n) {
		stash(c, bytes + used, n - used);
	}
}

void conn_pump(struct conn *c)
{
	if (c->state != CONN_OPEN || !list_empty(&c->wait) || (!c->stash && !tx_blocked(&c->tx))) {
		return;
	}
	if (must_wait(c)) {
		wait_in_line(c);
		return;
	}
	tx_resume(&c->tx, UINT64_MAX);
	feed_stash(c);
	if (c->tx.starved) {
		wait_in_line(c);
	}
}

static void serve(struct conn *c)
{
	tx_resume(&c->tx, TX_QUANTUM_BYTES);
	feed_stash(c);
	if (c->tx.starved) {
		c->env->serve_again |= !c->tx.quantum;
		list_append(&c->port->waiters, &c->wait);
	} else {
		tx_resume(&c->tx, UINT64_MAX);
		if (c->tx.starved) {
			list_append(&c->port->waiters, &c->wait);
		}
	}
	conn_touch(c);
}

void conn_port_serve(struct conn_port *p)
{
	struct list line, *n;

	list_init(&line);
	list_splice(&line, &p->waiters);
	while ((n = list_pop(&line))) {
		serve(container_of(n, struct conn, wait));
	}
}

/* ---- receives that wait for several requests ----------------------------------------------- */

/* A socket that cannot do it delivers fewer requests than were waited for: batch gives up. */
static void set_mark(struct conn *c, uint32_t requests)
{
	int bytes = requests > 1 ? (int)(requests * NBD_REQUEST_BYTES) : 1;

	if (requests != c->mark) {
		(void)setsockopt(c->in_fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
		c->mark = requests;
	}
}

/* A receive of requests is being armed: for how many does it wait? */
static void hold(struct conn *c)
{
	bool slow = c->not_later && c->tx.request_count;

	if (slow || !c->socket || c->tx.state != TX_HEADER) {
		set_mark(c, 1);
		c->asked = 0;
		return;
	}
	set_mark(c, c->batch.want);
	c->asked = c->mark;
	if (c->mark > 1) {
		c->idle = true; /* by the mark it is, however much there is */
		c->hold_until_ns = c->env->now_ns + BATCH_HOLD_NS;
		list_append(&c->env->holding, &c->hold);
	}
}

uint64_t conn_hold_check(struct conn_env *env)
{
	struct conn *c;

	while ((c = list_first_entry(&env->holding, struct conn, hold))) {
		if (c->hold_until_ns > env->now_ns) {
			return c->hold_until_ns;
		}
		list_del(&c->hold);
		set_mark(c, 1);
	}
	return RING_FOREVER;
}

/* ---- events -------------------------------------------------------------------------------- */

static void received(struct conn *c, const struct ring_event *ev, enum conn_recv how)
{
	switch (ev->res) {
	case -ENOBUFS: /* those who had the buffers have given them back by the end of this turn */
	case -EINTR:
	case -EAGAIN:
		return;
	case 0:
		tx_eof(&c->tx);
		return;
	}
	if (ev->res < 0) {
		conn_cut(c, "the connection failed while receiving");
		return;
	}
	c->idle = !ev->more;
	c->moved_ns = c->env->now_ns;
	if (how == CONN_RECV_SLOT) {
		tx_slot_filled(&c->tx, ev->res);
		if (c->tx.starved) {
			wait_in_line(c);
		}
	} else {
		take_in(c, ring_buffer(c->env->ring, ev->buffer), ev->res);
	}
}

static void recv_event(struct conn *c, const struct ring_event *ev)
{
	enum conn_recv how = c->recv;

	CHECK(how != CONN_RECV_NONE);
	c->recv = CONN_RECV_NONE;
	list_del(&c->hold);
	if (c->state == CONN_OPEN) {
		if (how == CONN_RECV_BYTES && ev->res > 0 && c->asked == c->batch.want) {
			batch_received(&c->batch, ev->res / NBD_REQUEST_BYTES);
		}
		received(c, ev, how);
	} else if (c->state == CONN_LINGER && ev->res <= 0 && ev->res != -ENOBUFS) {
		conn_cut(c, NULL);
	}
	if (ev->buffer >= 0) {
		ring_buffer_put(c->env->ring, ev->buffer);
	}
}

static void send_event(struct conn *c, const struct ring_event *ev)
{
	CHECK(c->send);
	c->send = false;
	if (ev->res >= 0) {
		c->moved_ns = c->env->now_ns;
		tx_sent(&c->tx, ev->res);
	} else if (ev->res != -EINTR && ev->res != -EAGAIN) {
		conn_cut(c, ev->res == -EPIPE || ev->res == -ECONNRESET
				    ? "the client closed the connection before its replies"
				    : "the connection failed while sending");
	}
}

void conn_event(struct conn *c, const struct ring_event *ev)
{
	CHECK(ev->user.generation == c->generation);
	conn_touch(c);
	switch (ev->user.kind) {
	case RING_RECV:
		recv_event(c, ev);
		return;
	case RING_SEND:
		send_event(c, ev);
		return;
	case RING_SHUTDOWN:
		c->closing--;
		if (c->state != CONN_SHUTDOWN) {
			return;
		}
		if (ev->res < 0) {
			conn_cut(c, NULL);
			return;
		}
		enter(c, CONN_LINGER);
		c->linger_until_ns = c->env->now_ns + CONN_LINGER_MS * UINT64_C(1000000);
		list_append(&c->env->lingering, &c->linger);
		return;
	case RING_CLOSE:
		if (!--c->closing) {
			enter(c, CONN_CLOSED);
		}
		return;
	case RING_IGNORED:
	case RING_WAKE:
	case RING_MEMBER:
		CHECK(!"not a connection's event");
	}
}

/* ---- the end ------------------------------------------------------------------------------- */

void conn_drain(struct conn *c)
{
	if (c->state == CONN_OPEN) {
		tx_drain(&c->tx);
		conn_touch(c);
	}
}

void conn_cut(struct conn *c, const char *why)
{
	if (c->state >= CONN_CUT) {
		return;
	}
	enter(c, CONN_CUT);
	if (why && !c->why && c->tx.state < TX_CLOSING) {
		c->why = why;
	}
	list_del(&c->wait);
	list_del(&c->linger);
	free(c->stash);
	c->stash = NULL;
	if (c->recv != CONN_RECV_NONE) {
		ring_cancel(c->env->ring, user(c, RING_RECV));
	}
	if (c->send) {
		ring_cancel(c->env->ring, user(c, RING_SEND));
	}
	conn_touch(c);
}

/* All is answered and sent, or the transmission gave up. */
static void finish(struct conn *c)
{
	if (c->tx.state == TX_DEAD || !c->socket) {
		conn_cut(c, NULL);
	} else {
		enter(c, CONN_SHUTDOWN);
		c->closing = 1;
		ring_shutdown(c->env->ring, c->out_fd, user(c, RING_SHUTDOWN));
	}
}

/* Cut: nothing in flight names the transmission's memory any more. */
static void close_fds(struct conn *c)
{
	if (!tx_answered(&c->tx)) {
		tx_abort(&c->tx);
	}
	if (c->tx.state == TX_DEAD) {
		tx_discard(&c->tx);
	}
	enter(c, CONN_CLOSING);
	c->closing = 1 + (c->out_fd != c->in_fd);
	ring_close(c->env->ring, c->in_fd, user(c, RING_CLOSE));
	if (c->out_fd != c->in_fd) {
		ring_close(c->env->ring, c->out_fd, user(c, RING_CLOSE));
	}
}

uint64_t conn_linger_check(struct conn_env *env)
{
	struct conn *c;

	while ((c = list_first_entry(&env->lingering, struct conn, linger))) {
		if (c->linger_until_ns > env->now_ns) {
			return c->linger_until_ns;
		}
		conn_cut(c, NULL);
	}
	return RING_FOREVER;
}

bool conn_starves(const struct conn *c)
{
	return !list_empty(&c->wait) && !c->tx.held_frags;
}

bool conn_stalled(const struct conn *c, uint64_t since_ns)
{
	return c->state == CONN_OPEN && c->tx.held_frags && c->moved_ns <= since_ns &&
	       (c->send || c->tx.state == TX_PAYLOAD);
}

/* ---- queueing operations ------------------------------------------------------------------- */

static void queue_send(struct conn *c)
{
	struct iovec iov[RING_SEND_IOV_MAX];
	uint32_t n = tx_send_vec(&c->tx, iov, RING_SEND_IOV_MAX, CONN_SEND_BYTES);

	if (n) {
		ring_send(c->env->ring, c->out_fd, c->socket, iov, n, user(c, RING_SEND));
		c->send = true;
	}
}

/* The client waits for us, and the replies are probably ready within the next turn: receive when
 * they are on their way. */
static bool receive_later(struct conn *c)
{
	if (c->later) {
		c->later = false;
		c->not_later = c->send ? 0 : NOT_LATER;
		return false;
	}
	if (!c->idle || !c->tx.request_count) {
		return false;
	}
	if (c->not_later) {
		c->not_later--;
		return false;
	}
	c->later = true;
	conn_touch(c);
	return true;
}

static void queue_recv(struct conn *c)
{
	struct iovec slot;

	if (c->stash || receive_later(c)) {
		return;
	}
	switch (tx_want(&c->tx, &slot)) {
	case TX_WANT_NOTHING:
		return;
	case TX_WANT_BYTES:
		hold(c);
		ring_recv(c->env->ring, c->in_fd, c->socket, c->idle, user(c, RING_RECV));
		c->recv = CONN_RECV_BYTES;
		return;
	case TX_WANT_SLOT:
		set_mark(c, 1); /* or the end of the payload might be held back */
		batch_init(&c->batch);
		ring_recv_slot(c->env->ring, c->in_fd, c->socket, slot.iov_base, slot.iov_len,
			       user(c, RING_RECV));
		c->recv = CONN_RECV_SLOT;
		return;
	}
}

void conn_flush(struct conn *c)
{
	switch (c->state) {
	case CONN_OPEN:
		if (!c->send) {
			queue_send(c);
		}
		if (!c->send && tx_answered(&c->tx)) {
			finish(c);
		} else if (c->recv == CONN_RECV_NONE) {
			queue_recv(c);
		}
		break;
	case CONN_LINGER:
		if (c->recv == CONN_RECV_NONE) {
			set_mark(c, 1);
			ring_recv(c->env->ring, c->in_fd, c->socket, false, user(c, RING_RECV));
			c->recv = CONN_RECV_BYTES;
		}
		break;
	case CONN_SHUTDOWN:
	case CONN_CUT:
	case CONN_CLOSING:
	case CONN_CLOSED:
		break;
	}
	if (c->state == CONN_CUT && c->recv == CONN_RECV_NONE && !c->send && !c->closing) {
		close_fds(c);
	}
}
