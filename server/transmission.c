/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/transmission.h"

#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/tx_int.h"

#define TO(state) (1u << (state))

/* The table of the head comment. */
static const uint8_t transitions[] = {
	[TX_HEADER] = TO(TX_ADMIT) | TO(TX_CLOSING) | TO(TX_DEAD),
	[TX_ADMIT] = TO(TX_HEADER) | TO(TX_SLOT) | TO(TX_SKIP) | TO(TX_CLOSING) | TO(TX_DEAD),
	[TX_SLOT] = TO(TX_PAYLOAD) | TO(TX_CLOSING) | TO(TX_DEAD),
	[TX_PAYLOAD] = TO(TX_SLOT) | TO(TX_HEADER) | TO(TX_CLOSING) | TO(TX_DEAD),
	[TX_SKIP] = TO(TX_HEADER) | TO(TX_CLOSING) | TO(TX_DEAD),
	[TX_CLOSING] = TO(TX_DEAD),
	[TX_DEAD] = 0,
};

static void tx_enter(struct transmission *t, enum tx_state to)
{
	CHECK(transitions[t->state] & TO(to));
	t->state = to;
}

static void close_input(struct transmission *t, enum tx_end end)
{
	tx_enter(t, TX_CLOSING);
	t->end = end;
}

/* Where one request ends and the next would begin. */
static void boundary(struct transmission *t)
{
	t->head_len = 0;
	if (t->draining) {
		close_input(t, TX_END_DRAIN);
	} else {
		tx_enter(t, TX_HEADER);
	}
}

void tx_shared_init(struct tx_shared *s, struct bufs *bufs)
{
	memset(s, 0, sizeof *s);
	s->bufs = bufs;
	list_init(&s->free_requests);
	list_init(&s->large_wait);
}

void tx_shared_add_requests(struct tx_shared *s, struct tx_request *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		list_init(&r[i].queue);
		list_append(&s->free_requests, &r[i].link);
	}
	s->requests.total += n;
}

void tx_target_init(struct tx_target *g,
		    uint64_t (*split)(const void *ctx, enum raid_op op, uint64_t addr,
				      uint64_t len),
		    const void *ctx)
{
	memset(g, 0, sizeof *g);
	g->split = split;
	g->ctx = ctx;
	list_init(&g->free_frags);
}

void tx_target_add_frags(struct tx_target *g, struct tx_frag *f, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		f[i].raid.user = &f[i];
		list_append(&g->free_frags, &f[i].queue);
	}
	g->frags.total += n;
}

void tx_init(struct transmission *t, const struct tx_config *config)
{
	CHECK(config->depth_max >= 1);
	memset(t, 0, sizeof *t);
	t->shared = config->shared;
	t->target = config->target;
	t->rules = config->rules;
	t->stream = config->stream;
	t->depth_max = config->depth_max;
	t->quantum = UINT64_MAX;
	list_init(&t->requests);
	list_init(&t->cutting);
	list_init(&t->large_queue);
	list_init(&t->large_wait);
	list_init(&t->submit);
	list_init(&t->release);
	reply_init(&t->out);
}

/* ---- taking what a fragment needs ---------------------------------------------------------- */

static uint32_t raid_flags(const struct tx_request *r)
{
	uint32_t flags = 0;

	if (r->header.flags & NBD_CMD_FLAG_FUA) {
		flags |= RAID_REQ_FUA;
	}
	if (r->header.flags & NBD_CMD_FLAG_NO_HOLE) {
		flags |= RAID_REQ_NO_HOLE;
	}
	if (r->header.flags & NBD_CMD_FLAG_FAST_ZERO) {
		flags |= RAID_REQ_FAST_ZERO;
	}
	return flags;
}

/* The next fragment of r with everything it needs, or NULL and t->starved. */
static struct tx_frag *take_frag(struct transmission *t, struct tx_request *r)
{
	struct tx_shared *s = t->shared;
	uint64_t addr = r->header.addr + r->cut, left = r->header.len - r->cut;
	uint64_t len = left ? t->target->split(t->target->ctx, r->op, addr, left) : 0;
	uint64_t read_cost = r->op == RAID_OP_READ ? bufs_payload_cost(addr, len) : 0;
	void *slot = NULL;
	struct tx_frag *f;

	CHECK(len <= left && (len || !left));
	if (!t->quantum || !budget_allows(&t->target->frags, t->held_frags, 1) ||
	    (read_cost && !budget_allows(&t->target->read_bytes, t->held_read, read_cost))) {
		t->starved = true;
		return NULL;
	}
	if (r->op == RAID_OP_WRITE) {
		slot = bufs_payload_get(s->bufs, addr, len, t->held_payload);
		if (!slot) {
			t->starved = true;
			return NULL;
		}
		t->held_payload += bufs_payload_cost(addr, len);
	}
	f = container_of(list_pop(&t->target->free_frags), struct tx_frag, queue);
	CHECK(f->state == TX_FRAG_FREE);
	budget_take(&t->target->frags, 1);
	budget_take(&t->target->read_bytes, read_cost);
	t->held_frags++;
	t->held_read += read_cost;
	t->quantum -= min_u64(t->quantum, r->op == RAID_OP_TRIM || r->op == RAID_OP_ZERO
						  ? RAID_PAGE_BYTES
						  : max_u64(len, RAID_PAGE_BYTES));
	f->t = t;
	f->request = r;
	f->read_cost = read_cost;
	f->raid.op = r->op;
	f->raid.flags = raid_flags(r);
	f->raid.addr = addr;
	f->raid.len = len;
	f->raid.stream = t->stream;
	f->raid.payload = slot;
	r->frags_out++;
	return f;
}

static void queue_frag(struct transmission *t, struct tx_frag *f)
{
	f->raid.flags |= t->more ? RAID_REQ_MORE : 0;
	f->state = TX_FRAG_QUEUED;
	list_append(&t->submit, &f->queue);
}

/* ---- cutting ------------------------------------------------------------------------------- */

/* Give one more fragment of r, which is on no queue, to the engine; queue it again if it may go on.
 */
static bool cut_one(struct transmission *t, struct tx_request *r)
{
	struct tx_frag *f = take_frag(t, r);

	if (!f) {
		return false;
	}
	r->cut += f->raid.len;
	queue_frag(t, f);
	if (r->cut == r->header.len) {
		r->state = TX_REQ_RUNNING;
	} else if (r->frags_out < tx_out_max(r)) {
		list_append(&t->cutting, &r->queue);
	}
	return true;
}

static void pump(struct transmission *t)
{
	struct list *n;

	while ((n = list_pop(&t->cutting))) {
		if (!cut_one(t, container_of(n, struct tx_request, queue))) {
			list_push(&t->cutting, n);
			return;
		}
	}
}

/* A large buffer for the session's next gathered READ, if it is our turn and there is one. */
static void try_large(struct transmission *t)
{
	struct tx_shared *s = t->shared;
	struct tx_request *r;

	if (list_empty(&t->large_wait)) {
		return;
	}
	r = list_first_entry(&t->large_queue, struct tx_request, queue);
	CHECK(r && !t->large && r->state == TX_REQ_WAIT_LARGE);
	if (s->large_wait.next == &t->large_wait) {
		r->large = bufs_large_get(s->bufs, r->header.len);
	}
	if (!r->large) {
		t->starved = true;
		return;
	}
	list_del(&t->large_wait);
	s->returned++; /* the next in line is first now */
	t->large = r;
	list_del(&r->queue);
	r->state = TX_REQ_CUTTING;
	list_append(&t->cutting, &r->queue);
}

/* ---- the receive machine ------------------------------------------------------------------- */

static void start_read(struct transmission *t, struct tx_request *r)
{
	const struct nbd_request *h = &r->header;

	if (t->target->split(t->target->ctx, RAID_OP_READ, h->addr, h->len) == h->len) {
		r->form = TX_FORM_ONE;
	} else if (t->rules.structured && !(h->flags & NBD_CMD_FLAG_DF)) {
		r->form = TX_FORM_CHUNKS;
	} else {
		r->form = TX_FORM_GATHER;
		r->state = TX_REQ_WAIT_LARGE;
		list_append(&t->large_queue, &r->queue);
		if (!t->large && list_empty(&t->large_wait)) {
			list_append(&t->shared->large_wait, &t->large_wait);
		}
		try_large(t);
	}
}

static void start(struct transmission *t, struct tx_request *r)
{
	static const enum raid_op ops[] = {
		[NBD_CMD_READ] = RAID_OP_READ,	 [NBD_CMD_WRITE] = RAID_OP_WRITE,
		[NBD_CMD_FLUSH] = RAID_OP_FLUSH, [NBD_CMD_TRIM] = RAID_OP_TRIM,
		[NBD_CMD_CACHE] = RAID_OP_CACHE, [NBD_CMD_WRITE_ZEROES] = RAID_OP_ZERO,
	};

	r->op = ops[r->header.cmd];
	if (r->op == RAID_OP_WRITE) {
		r->state = TX_REQ_FILLING;
		t->writing = r;
		tx_enter(t, TX_SLOT);
		return;
	}
	r->state = TX_REQ_CUTTING;
	if (r->op == RAID_OP_READ) {
		start_read(t, r);
	}
	if (r->state == TX_REQ_CUTTING && list_empty(&r->queue)) {
		list_append(&t->cutting, &r->queue);
	}
	pump(t);
	boundary(t);
}

/* The header in t->header becomes a request. False: blocked. */
static bool admit(struct transmission *t)
{
	struct tx_shared *s = t->shared;
	struct tx_request *r;
	int err;

	if (t->request_count >= t->depth_max) {
		return false; /* its own replies will move it */
	}
	if (!budget_allows(&s->requests, t->request_count, 1)) {
		t->starved = true;
		return false;
	}
	budget_take(&s->requests, 1);
	r = container_of(list_pop(&s->free_requests), struct tx_request, link);
	CHECK(r->state == TX_REQ_FREE && list_empty(&r->queue));
	*r = (struct tx_request){.header = t->header, .form = TX_FORM_ACK};
	list_init(&r->queue);
	list_append(&t->requests, &r->link);
	t->request_count++;
	s->stats.requests++;

	switch (request_check(&t->header, &t->rules, &err)) {
	case REQUEST_OK:
		if (r->header.len || r->header.cmd == NBD_CMD_FLUSH) {
			start(t, r);
		} else {
			r->state = TX_REQ_RUNNING;
			tx_request_finish(t, r);
			boundary(t);
		}
		return true;
	case REQUEST_REFUSED:
		break;
	case REQUEST_DISC:
	case REQUEST_DROP:
		CHECK(!"judged before admission");
	}
	r->err = err;
	if (r->header.cmd == NBD_CMD_WRITE && r->header.len) {
		r->state = TX_REQ_FILLING;
		t->writing = r;
		t->skip = r->header.len;
		tx_enter(t, TX_SKIP);
	} else {
		r->state = TX_REQ_RUNNING;
		tx_request_finish(t, r);
		boundary(t);
	}
	return true;
}

/* 28 bytes are together. */
static void header(struct transmission *t)
{
	int err;

	if (!request_decode(t->head, &t->header)) {
		tx_abort(t);
		t->end = TX_END_MAGIC;
		return;
	}
	switch (request_check(&t->header, &t->rules, &err)) {
	case REQUEST_OK:
	case REQUEST_REFUSED:
		tx_enter(t, TX_ADMIT);
		return;
	case REQUEST_DISC:
		close_input(t, TX_END_DISC);
		return;
	case REQUEST_DROP:
		tx_abort(t);
		t->end = TX_END_TOO_BIG;
		return;
	}
}

static bool next_slot(struct transmission *t)
{
	struct tx_frag *f = take_frag(t, t->writing);

	if (!f) {
		return false;
	}
	f->state = TX_FRAG_FILLING;
	t->filling = f;
	t->filled = 0;
	tx_enter(t, TX_PAYLOAD);
	return true;
}

/* n more bytes are in the slot. */
static void filled(struct transmission *t, size_t n)
{
	struct tx_request *r = t->writing;
	struct tx_frag *f = t->filling;

	CHECK(t->state == TX_PAYLOAD && n <= f->raid.len - t->filled);
	t->filled += n;
	if (t->filled < f->raid.len) {
		return;
	}
	t->filling = NULL;
	r->cut += f->raid.len;
	queue_frag(t, f);
	if (r->cut < r->header.len) {
		tx_enter(t, TX_SLOT);
		return;
	}
	r->state = TX_REQ_RUNNING;
	t->writing = NULL;
	boundary(t);
}

static void skipped(struct transmission *t, size_t n)
{
	struct tx_request *r = t->writing;

	CHECK(n <= t->skip);
	t->skip -= n;
	if (!t->skip) {
		t->writing = NULL;
		r->state = TX_REQ_RUNNING;
		tx_request_finish(t, r);
		boundary(t);
	}
}

size_t tx_feed(struct transmission *t, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	size_t left = n, take;

	for (;;) {
		switch (t->state) {
		case TX_HEADER:
			take = min_u64(NBD_REQUEST_BYTES - t->head_len, left);
			if (!take) {
				return n - left;
			}
			memcpy(t->head + t->head_len, p, take);
			t->head_len += take;
			p += take;
			left -= take;
			if (t->head_len < NBD_REQUEST_BYTES) {
				return n - left;
			}
			header(t);
			break;
		case TX_ADMIT:
			t->more = left >= NBD_REQUEST_BYTES;
			if (!admit(t)) {
				return n - left;
			}
			break;
		case TX_SLOT:
			if (!next_slot(t)) {
				return n - left;
			}
			break;
		case TX_PAYLOAD:
			take = min_u64(t->filling->raid.len - t->filled, left);
			if (!take) {
				return n - left;
			}
			memcpy((uint8_t *)t->filling->raid.payload + t->filled, p, take);
			p += take;
			left -= take;
			t->more = left >= NBD_REQUEST_BYTES;
			filled(t, take);
			break;
		case TX_SKIP:
			take = min_u64(t->skip, left);
			if (!take) {
				return n - left;
			}
			p += take;
			left -= take;
			skipped(t, take);
			break;
		case TX_CLOSING:
		case TX_DEAD:
			return n;
		}
	}
}

bool tx_resume(struct transmission *t, uint64_t quantum)
{
	t->starved = false;
	t->quantum = quantum;
	t->more = false;
	if (t->state != TX_DEAD) {
		try_large(t);
		pump(t);
		tx_feed(t, NULL, 0);
	}
	return t->starved;
}

bool tx_blocked(const struct transmission *t)
{
	return t->state == TX_ADMIT || t->state == TX_SLOT || !list_empty(&t->cutting) ||
	       !list_empty(&t->large_wait);
}

enum tx_want tx_want(const struct transmission *t, struct iovec *slot)
{
	uint64_t left;

	switch (t->state) {
	case TX_HEADER:
	case TX_SKIP:
		return TX_WANT_BYTES;
	case TX_PAYLOAD:
		left = t->filling->raid.len - t->filled;
		if (left < TX_DIRECT_BYTES_MIN) {
			return TX_WANT_BYTES;
		}
		slot->iov_base = (uint8_t *)t->filling->raid.payload + t->filled;
		slot->iov_len = left;
		return TX_WANT_SLOT;
	case TX_ADMIT:
	case TX_SLOT:
	case TX_CLOSING:
	case TX_DEAD:
		return TX_WANT_NOTHING;
	}
	return TX_WANT_NOTHING;
}

void tx_slot_filled(struct transmission *t, size_t n)
{
	if (t->state == TX_PAYLOAD) {
		t->more = false;
		filled(t, n);
		tx_feed(t, NULL, 0); /* a further slot, if the WRITE goes on */
	} else {
		CHECK(t->state == TX_DEAD);
	}
}

/* The WRITE being received will never be whole. Its submitted fragments finish in order. */
static void abandon_write(struct transmission *t)
{
	struct tx_request *r = t->writing;

	if (!r) {
		return;
	}
	t->writing = NULL;
	r->state = TX_REQ_DROPPED;
	if (t->filling) {
		struct tx_frag *f = t->filling;

		t->filling = NULL;
		tx_frag_drop(f);
	} else if (!r->frags_out) {
		tx_request_finish(t, r);
	}
}

void tx_eof(struct transmission *t)
{
	bool inside = t->state != TX_HEADER || t->head_len;

	if (t->state == TX_CLOSING || t->state == TX_DEAD) {
		return;
	}
	abandon_write(t);
	close_input(t, inside ? TX_END_EOF_INSIDE : TX_END_EOF);
}

void tx_drain(struct transmission *t)
{
	t->draining = true;
	if (t->state == TX_HEADER || t->state == TX_ADMIT) {
		close_input(t, TX_END_DRAIN);
	}
}

void tx_abort(struct transmission *t)
{
	struct tx_request *r, *next;
	struct list *n;

	if (t->state == TX_DEAD) {
		return;
	}
	abandon_write(t);
	tx_enter(t, TX_DEAD);
	t->end = TX_END_ABORT;
	while ((n = list_pop(&t->submit))) {
		tx_frag_drop(container_of(n, struct tx_frag, queue));
	}
	list_for_each_entry_safe (r, next, &t->requests, link) {
		if (r->state == TX_REQ_REPLYING) {
			continue; /* tx_discard() */
		}
		list_del(&r->queue);
		r->state = TX_REQ_DROPPED;
		if (!r->frags_out) {
			tx_request_finish(t, r);
		}
	}
	if (!list_empty(&t->large_wait)) {
		list_del(&t->large_wait);
		t->shared->returned++;
	}
}
