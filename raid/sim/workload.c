/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients: each keeps some requests open and makes the next when one is answered. A request is cut
 * by raid_split() and its fragments are submitted in order, as far as the credits reach.
 *
 * Payloads are poisoned when the engine gives them back and kept for a while: whoever still writes
 * from one, or into one, is found out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/sim/hash.h"
#include "raid/sim/world.h"

enum { GRAVES_MAX = 64, POISON = 0xDD, DEPTH_BRAKE = 20, GUARD_BYTES = 64 };

static void bury(struct world *w, struct op *op)
{
	/* The request is the submitter's again: the engine may not look at it any more. */
	memset(&op->req, POISON, sizeof op->req);
	list_append(&w->graveyard, &op->link);
	if (op->block) {
		memset(op->block, POISON, op->block_bytes);
	}
	if (++w->buried <= GRAVES_MAX) {
		return;
	}
	op = list_first_entry(&w->graveyard, struct op, link);
	list_del(&op->link);
	w->buried--;
	if (op->block) {
		/* All bytes are equal if each equals its neighbour. */
		if (op->block[0] != POISON ||
		    memcmp(op->block, op->block + 1, op->block_bytes - 1) != 0) {
			sim_fail("the payload of request %llu was written to after it was given "
				 "back",
				 (unsigned long long)op->id);
		}
	}
	free(op->block);
	free(op);
}

/* ---- one fragment ---------------------------------------------------------------------------- */

/* Bytes nobody else writes, at an address congruent to addr modulo a page. */
static void make_payload(struct world *w, struct op *op)
{
	uint64_t skew = op->req.addr % RAID_PAGE_BYTES, len = op->req.len;
	struct prng rng;

	op->block_bytes = round_up_u64(skew + len + GUARD_BYTES, RAID_PAGE_BYTES);
	op->block = aligned_alloc(RAID_PAGE_BYTES, op->block_bytes);
	CHECK(op->block);
	memset(op->block, 0xCC, op->block_bytes);
	op->req.payload = op->block + skew;
	prng_seed(&rng, w->trace.seed ^ (w->oracle.clock << 20));
	prng_fill(&rng, op->req.payload, len);
	op->hash = hash_bytes(0, op->req.payload, len);
}

static enum oracle_kind kind_of(enum raid_op op)
{
	return op == RAID_OP_WRITE ? ORACLE_WRITE : op == RAID_OP_ZERO ? ORACLE_ZERO : ORACLE_TRIM;
}

static bool changes_data(enum raid_op op)
{
	return op == RAID_OP_WRITE || op == RAID_OP_TRIM || op == RAID_OP_ZERO;
}

static void submit(struct world *w, struct op *op)
{
	struct raid_req *req = &op->req;

	if (req->op == RAID_OP_WRITE) {
		make_payload(w, op);
	}
	if (changes_data(req->op) && !w->read_only) {
		op->seq = oracle_write_begin(&w->oracle, kind_of(req->op), req->addr, req->len,
					     req->payload,
					     w->may_fail || (req->flags & RAID_REQ_FAST_ZERO));
	} else if (req->op == RAID_OP_READ) {
		oracle_read_begin(&w->oracle, &op->read, req->addr, req->len);
	} else if (req->op == RAID_OP_FLUSH) {
		op->seq = oracle_flush_begin(&w->oracle);
	}
	trace_add(&w->trace, TRACE_SUBMIT, w->clock.now_ns,
		  (const char *const[]){"read", "write", "flush", "trim", "zero", "cache"}[req->op],
		  op->id, req->addr, req->len, req->flags, req->stream);
	op->after_lost = w->flush_lost;
	list_append(&w->ops, &op->link);
	w->live_ops++;
	w->stats.requests++;
	raid_submit(w->array, req);
}

static struct op *new_op(struct world *w, uint32_t client, enum raid_op kind, uint32_t flags,
			 uint64_t addr, uint64_t len)
{
	struct op *op = calloc(1, sizeof *op);

	CHECK(op);
	op->id = w->next_req++;
	op->client = client;
	op->req.op = kind;
	op->req.flags = flags;
	op->req.addr = addr;
	op->req.len = len;
	op->req.stream = w->client[client].id;
	op->req.user = op;
	list_init(&op->link);
	list_init(&op->req.link);
	return op;
}

static void next_request_at(struct world *w, struct client *c, uint64_t delay_ns)
{
	clock_schedule(&w->clock, w->clock.now_ns + delay_ns, EV_CLIENT, c);
}

void workload_pump(struct world *w)
{
	while (!list_empty(&w->backlog) && w->live_ops < w->plan.limits.frags) {
		struct op *op = list_first_entry(&w->backlog, struct op, link);

		/* A brake for the oracle's sake: versions of one sector are bounded. Where only
		 * doubt remains, from writes that failed, something else is asked instead. */
		if (changes_data(op->req.op) &&
		    oracle_depth(&w->oracle, op->req.addr, op->req.len) > DEPTH_BRAKE) {
			if (!list_empty(&w->ops)) {
				return;
			}
			op->req.op = RAID_OP_FLUSH;
			op->req.flags = 0;
			op->req.addr = op->req.len = 0;
		}
		list_del(&op->link);
		submit(w, op);
	}
	for (uint32_t i = 0; i < w->plan.clients && list_empty(&w->backlog); i++) {
		if (w->client[i].paused) {
			w->client[i].paused = false;
			next_request_at(w, &w->client[i], 0);
		}
	}
}

/* A whole request: returns its last fragment. */
struct op *workload_submit(struct world *w, uint32_t client, enum raid_op kind, uint32_t flags,
			   uint64_t addr, uint64_t len)
{
	struct op *op;
	uint64_t part;

	w->client[client].busy++;
	do {
		part = len;
		if (kind != RAID_OP_FLUSH) {
			part = raid_split(w->array, kind, addr, len);
			if (part == 0 || part > len) {
				sim_fail("raid_split takes %llu bytes of %llu",
					 (unsigned long long)part, (unsigned long long)len);
			}
		}
		op = new_op(w, client, kind, flags, addr, part);
		addr += part;
		len -= part;
		op->last = len == 0;
		if (len > 0 && !prng_one_in(&w->rng, 8)) {
			op->req.flags |= RAID_REQ_MORE;
		}
		list_append(&w->backlog, &op->link);
	} while (len > 0);
	return op;
}

void workload_done(struct world *w, struct op *op)
{
	struct raid_req *req = &op->req;
	struct client *c = &w->client[op->client];

	if (req->op == RAID_OP_READ) {
		clock_schedule(&w->clock,
			       w->clock.now_ns + (prng_one_in(&w->rng, 16)
							  ? prng_below(&w->rng, 100 * SIM_MS)
							  : prng_below(&w->rng, 50 * SIM_US)),
			       EV_RELEASE, op);
	}
	if (op->last && !w->zombie) {
		c->busy--;
		if (c->left > 0) {
			next_request_at(w, c,
					prng_below(&w->rng, w->plan.pause_ns > SIM_MS
								    ? w->plan.pause_ns
								    : 50 * SIM_US));
		}
	}
}

/* The engine has given everything of it back. */
void workload_free(struct world *w, struct op *op)
{
	struct raid_req *req = &op->req;

	if (req->op == RAID_OP_WRITE && hash_bytes(0, req->payload, req->len) != op->hash) {
		sim_fail("the payload of request %llu was changed", (unsigned long long)op->id);
	}
	if (changes_data(req->op) && req->res != 0 && !w->zombie && op->seq) {
		oracle_write_settled(&w->oracle, op->seq, req->addr, req->len);
	}
	list_del(&op->link);
	w->live_ops--;
	bury(w, op);
}

/* Of a crashed session: what was answered is released, what was not yet submitted is forgotten. */
bool workload_drop_all(struct world *w)
{
	struct op *op, *tmp;
	bool released = false;

	while (!list_empty(&w->backlog)) {
		op = list_first_entry(&w->backlog, struct op, link);
		list_del(&op->link);
		free(op);
	}
	list_for_each_entry_safe (op, tmp, &w->ops, link) {
		if (op->done && op->req.op == RAID_OP_READ) {
			raid_release(w->array, &op->req);
			workload_free(w, op);
			released = true;
		}
	}
	clock_clear(&w->clock);
	return released;
}

/* ---- clients --------------------------------------------------------------------------------- */

static void draw_range(struct world *w, enum raid_op kind, uint64_t *addr, uint64_t *len)
{
	const struct plan *p = &w->plan;
	uint64_t size = w->layout.sectors * RAID_SECTOR_BYTES;
	uint64_t most = min_u64(size, p->request_bytes_max);
	uint64_t unit = RAID_SECTOR_BYTES;

	if (kind == RAID_OP_TRIM || kind == RAID_OP_ZERO) {
		most = size;
	}
	*len = prng_log_range(&w->rng, RAID_SECTOR_BYTES, max_u64(most, RAID_SECTOR_BYTES));
	*addr = prng_one_in(&w->rng, p->hot_in) ? prng_below(&w->rng, min_u64(size, 65536))
						: prng_below(&w->rng, size);
	if (prng_one_in(&w->rng, p->unaligned_in)) {
		unit = 1;
		*len = prng_one_in(&w->rng, 2) ? prng_range(&w->rng, 1, 1000) : *len;
	} else if (prng_one_in(&w->rng, 2)) {
		unit = RAID_PAGE_BYTES;
	}
	*addr = round_down_u64(*addr, unit);
	*len = min_u64(round_up_u64(*len, unit), size - *addr);
}

static uint32_t draw_flags(struct world *w, enum raid_op kind)
{
	uint32_t flags = 0;

	if (kind != RAID_OP_FLUSH && prng_one_in(&w->rng, w->plan.fua_in)) {
		flags |= RAID_REQ_FUA;
	}
	if (kind == RAID_OP_ZERO && prng_one_in(&w->rng, 2)) {
		flags |= RAID_REQ_NO_HOLE;
	}
	if (kind == RAID_OP_ZERO && prng_one_in(&w->rng, 4)) {
		flags |= RAID_REQ_FAST_ZERO;
	}
	if (prng_one_in(&w->rng, 5)) {
		flags |= RAID_REQ_MORE;
	}
	return flags;
}

/* It is this client's turn. */
void workload_client(struct world *w, struct client *c)
{
	uint32_t index = (uint32_t)(c - w->client);

	if (!list_empty(&w->backlog)) {
		c->paused = true; /* no credits: goes on when the backlog is gone */
		return;
	}
	while (c->left > 0 && c->busy < w->plan.depth) {
		enum raid_op kind = (enum raid_op)prng_weighted(&w->rng, w->plan.weight, PLAN_OPS);
		uint64_t addr = 0, len = 0;

		c->left--;
		if (kind != RAID_OP_FLUSH) {
			draw_range(w, kind, &addr, &len);
		}
		workload_submit(w, index, kind, draw_flags(w, kind), addr, len);
		if (prng_one_in(&w->rng, 3)) {
			break;
		}
	}
	if (c->left > 0 && c->busy < w->plan.depth) {
		/* Now and then a pause that is long enough for the array to become clean. */
		next_request_at(w, c,
				prng_one_in(&w->rng, 40) ? prng_below(&w->rng, SIM_S)
							 : prng_below(&w->rng, w->plan.pause_ns));
	}
}

void workload_begin(struct world *w, uint32_t requests)
{
	for (uint32_t i = 0; i < w->plan.clients; i++) {
		w->client[i].id = 1 + i + w->session * 16;
		w->client[i].left = requests / w->plan.clients + 1;
		next_request_at(w, &w->client[i], prng_below(&w->rng, SIM_MS));
	}
}
