/* SPDX-License-Identifier: BSD-3-Clause */
/* The outgoing half of a transmission: what the engine answers becomes messages, and what has been
 * sent, or never will be, goes back to the pools. The machine is described in transmission.h. */
#include "server/tx_int.h"

#include <errno.h>
#include <string.h>

#include "raid/base/check.h"

enum { GATHER_OUT_MAX = 4 };

uint32_t tx_out_max(const struct tx_request *r)
{
	switch (r->op) {
	case RAID_OP_READ:
		return r->form == TX_FORM_GATHER ? GATHER_OUT_MAX : TX_READ_OUT_MAX;
	case RAID_OP_TRIM:
	case RAID_OP_ZERO:
	case RAID_OP_CACHE:
		return TX_ZERO_OUT_MAX;
	case RAID_OP_WRITE:
	case RAID_OP_FLUSH:
		return UINT32_MAX;
	}
	return 1;
}

/* ---- back to the pools --------------------------------------------------------------------- */

void tx_frag_free(struct tx_frag *f)
{
	struct transmission *t = f->t;
	struct tx_shared *s = t->shared;

	CHECK(!f->request);
	if (f->raid.payload) {
		bufs_payload_put(s->bufs, f->raid.payload, f->raid.addr, f->raid.len);
		t->held_payload -= bufs_payload_cost(f->raid.addr, f->raid.len);
		f->raid.payload = NULL;
	}
	budget_put(&t->target->frags, 1);
	budget_put(&t->target->read_bytes, f->read_cost);
	t->held_frags--;
	t->held_read -= f->read_cost;
	s->returned++;
	f->state = TX_FRAG_FREE;
	f->t = NULL;
	list_push(&t->target->free_frags, &f->queue);
}

void tx_request_free(struct transmission *t, struct tx_request *r)
{
	struct tx_shared *s = t->shared;

	CHECK(!r->frags_out && list_empty(&r->queue));
	if (r->large) {
		bufs_large_put(s->bufs, r->large);
		CHECK(t->large == r);
		t->large = NULL;
		if (!list_empty(&t->large_queue)) {
			list_append(&s->large_wait, &t->large_wait);
			t->starved = true;
		}
	}
	r->state = TX_REQ_FREE;
	list_del(&r->link);
	list_push(&s->free_requests, &r->link);
	budget_put(&s->requests, 1);
	t->request_count--;
	s->returned++;
}

/* The fragment has no more to do with its request; the last one of it finishes it. */
static void leave_request(struct transmission *t, struct tx_frag *f)
{
	struct tx_request *r = f->request;

	CHECK(r && r->frags_out > 0);
	f->request = NULL;
	r->frags_out--;
	if (!r->frags_out && (r->state == TX_REQ_RUNNING || r->state == TX_REQ_DROPPED)) {
		tx_request_finish(t, r);
	} else if (r->state == TX_REQ_CUTTING && list_empty(&r->queue)) {
		list_append(&t->cutting, &r->queue); /* below its limit again */
	}
}

void tx_frag_drop(struct tx_frag *f)
{
	CHECK(f->state == TX_FRAG_FILLING || f->state == TX_FRAG_QUEUED);
	leave_request(f->t, f);
	tx_frag_free(f);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void push(struct transmission *t, struct reply_msg *m, bool of_fragment)
{
	m->of_fragment = of_fragment;
	reply_push(&t->out, m);
}

static void count(struct transmission *t, const struct tx_request *r)
{
	struct tx_stats *stats = &t->shared->stats;

	if (r->err) {
		stats->errors++;
	} else if (r->header.cmd == NBD_CMD_READ) {
		stats->read_bytes += r->header.len;
	} else if (r->header.cmd == NBD_CMD_WRITE) {
		stats->write_bytes += r->header.len;
	}
}

void tx_request_finish(struct transmission *t, struct tx_request *r)
{
	const struct nbd_request *h = &r->header;
	uint32_t error = request_wire_error(r->err, h->flags);

	CHECK(!r->frags_out);
	if (r->state == TX_REQ_DROPPED || t->state == TX_DEAD) {
		tx_request_free(t, r);
		return;
	}
	CHECK(r->state == TX_REQ_RUNNING);
	count(t, r);
	if (!error && (r->form == TX_FORM_ONE || r->form == TX_FORM_CHUNKS)) {
		tx_request_free(t, r); /* its fragments' messages say it all */
		return;
	}
	r->state = TX_REQ_REPLYING;
	if (t->rules.structured && error) {
		reply_chunk_error(&r->msg, h->cookie, error, request_error_text(error));
	} else if (t->rules.structured && h->cmd == NBD_CMD_READ) {
		if (h->len) {
			reply_chunk_data(&r->msg, h->cookie, true, h->addr, r->large, h->len);
		} else {
			reply_chunk_none(&r->msg, h->cookie);
		}
	} else {
		reply_simple(&r->msg, h->cookie, error, error ? NULL : r->large,
			     error || !r->large ? 0 : h->len);
	}
	push(t, &r->msg, false);
}

static void release(struct transmission *t, struct tx_frag *f)
{
	f->state = TX_FRAG_RELEASE;
	list_append(&t->release, &f->queue);
}

/* READ data has come for a request that somebody waits for. */
static void read_done(struct transmission *t, struct tx_frag *f)
{
	struct tx_request *r = f->request;
	const struct nbd_request *h = &r->header;
	bool last = r->state == TX_REQ_RUNNING && r->frags_out == 1 && !r->err;

	if (r->form == TX_FORM_GATHER) {
		memcpy(r->large + (f->raid.addr - h->addr), f->raid.data, f->raid.len);
		release(t, f);
		return;
	}
	if (t->rules.structured) {
		reply_chunk_data(&f->msg, h->cookie, last, f->raid.addr, f->raid.data, f->raid.len);
	} else {
		reply_simple(&f->msg, h->cookie, 0, f->raid.data, f->raid.len);
	}
	f->state = TX_FRAG_REPLYING;
	push(t, &f->msg, true);
}

void tx_done(struct tx_frag *f)
{
	struct transmission *t = f->t;
	struct tx_request *r = f->request;

	CHECK(f->state == TX_FRAG_OUT && f->raid.res <= 0);
	if (f->raid.res && !r->err) {
		r->err = f->raid.res;
	}
	if (f->raid.op != RAID_OP_READ) {
		f->state = TX_FRAG_DONE;
	} else if (f->raid.res || r->state == TX_REQ_DROPPED || t->state == TX_DEAD) {
		release(t, f);
	} else {
		read_done(t, f);
	}
	leave_request(t, f);
}

void tx_freed(struct tx_frag *f)
{
	CHECK(f->state == (f->raid.op == RAID_OP_READ ? TX_FRAG_RELEASE : TX_FRAG_DONE));
	tx_frag_free(f);
}

struct tx_frag *tx_next_submit(struct transmission *t)
{
	struct list *n = list_pop(&t->submit);
	struct tx_frag *f;

	if (!n) {
		return NULL;
	}
	f = container_of(n, struct tx_frag, queue);
	CHECK(f->state == TX_FRAG_QUEUED);
	f->state = TX_FRAG_OUT;
	return f;
}

struct tx_frag *tx_next_release(struct transmission *t)
{
	struct list *n = list_pop(&t->release);

	return n ? container_of(n, struct tx_frag, queue) : NULL;
}

/* ---- sending ------------------------------------------------------------------------------- */

uint32_t tx_send_vec(const struct transmission *t, struct iovec *iov, uint32_t iov_max,
		     uint64_t bytes_max)
{
	return t->state == TX_DEAD ? 0 : reply_vec(&t->out, iov, iov_max, bytes_max);
}

static void message_over(struct transmission *t, struct reply_msg *m)
{
	if (m->of_fragment) {
		release(t, container_of(m, struct tx_frag, msg));
	} else {
		tx_request_free(t, container_of(m, struct tx_request, msg));
	}
}

void tx_sent(struct transmission *t, size_t n)
{
	struct reply_msg *m;

	while (n && (m = reply_sent(&t->out, &n))) {
		message_over(t, m);
	}
}

void tx_discard(struct transmission *t)
{
	struct reply_msg *m;

	CHECK(t->state == TX_DEAD);
	while ((m = reply_discard(&t->out))) {
		message_over(t, m);
	}
}

/* ---- the end ------------------------------------------------------------------------------- */

bool tx_answered(const struct transmission *t)
{
	return t->state == TX_DEAD ||
	       (t->state == TX_CLOSING && !t->request_count && list_empty(&t->out.msgs));
}

bool tx_ended(const struct transmission *t)
{
	return tx_answered(t) && !t->request_count && list_empty(&t->out.msgs) && !t->held_frags;
}

const char *tx_end_text(enum tx_end end)
{
	static const char *const text[] = {
		[TX_END_NONE] = "still open",
		[TX_END_DISC] = "the client disconnected",
		[TX_END_EOF] = "the client closed the connection",
		[TX_END_EOF_INSIDE] = "the client closed the connection inside a request",
		[TX_END_DRAIN] = "the server stops serving it",
		[TX_END_MAGIC] = "the client broke the protocol: wrong request magic",
		[TX_END_TOO_BIG] = "the client broke the protocol: write of more than 128 MiB",
		[TX_END_ABORT] = "the connection failed or was cut",
	};

	return text[end];
}

const char *tx_check(const struct transmission *t)
{
	const struct tx_request *r;
	uint32_t requests = 0;
	uint64_t frags = 0;

	list_for_each_entry (r, &t->requests, link) {
		requests++;
		frags += r->frags_out;
		if (r->state == TX_REQ_FREE) {
			return "a free request is listed";
		}
		if (r->cut > r->header.len) {
			return "a request is cut beyond its end";
		}
		if (r->large && t->large != r) {
			return "two large buffers in one session";
		}
	}
	if (requests != t->request_count || requests > t->depth_max) {
		return "request count";
	}
	if (frags > t->held_frags) {
		return "more fragments out than held";
	}
	if (!!t->filling != (t->state == TX_PAYLOAD)) {
		return "a fragment is filling outside PAYLOAD";
	}
	if (!!t->writing !=
	    (t->state == TX_SLOT || t->state == TX_PAYLOAD || t->state == TX_SKIP)) {
		return "a WRITE is being received outside its states";
	}
	if (t->state >= TX_CLOSING && t->end == TX_END_NONE) {
		return "closing without a reason";
	}
	return NULL;
}
