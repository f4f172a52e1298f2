/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission of requests.
 *
 * There is one FIFO. Its head gets everything it may need at once: a fragment, a buffer, slots
 * and its place in the order of ranges; or it waits and holds nothing. Whoever waits for a range
 * waits for an older fragment that holds all it needs, so there is no circle.
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/shard.h"
#include "raid/stripe.h"

static bool refuse(struct shard *sh, struct raid_req *req)
{
	const struct view *v = sh->view;
	enum frag_kind kind;
	uint64_t lo, hi;
	int res = 0;

	if (req->op == RAID_OP_READ) {
		return false;
	}
	if (v->read_only) {
		res = -EROFS;
	} else if (v->broken || (v->flush_lost && req->flags & RAID_REQ_FUA)) {
		res = -EIO;
	} else if (req->op == RAID_OP_ZERO && req->flags & RAID_REQ_FAST_ZERO) {
		plan_bounds(sh, req->addr, req->len, &lo, &hi);
		if (sh->stripes.parity) {
			res = stripe_whole_row(sh, req->addr, req->len) &&
					      plan_zero_direct(sh, req, &kind)
				      ? 0
				      : -ENOTSUP;
		} else if (lo != req->addr || (hi != req->addr + req->len && hi <= v->size_bytes) ||
			   !plan_zero_direct(sh, req, &kind)) {
			res = -ENOTSUP;
		}
	}
	if (res) {
		shard_answer(sh, req, res);
	}
	return res != 0;
}

void shard_submit(struct shard *sh, struct raid_req *req)
{
	req->frag = NULL;
	CHECK(req->len > 0 && req->addr + req->len <= sh->view->size_bytes);
	if (!refuse(sh, req)) {
		list_append(&sh->fifo, &req->link);
	}
}

/* Fill in what the request decides. Returns false for a TRIM that has nothing to do. */
static bool describe(struct shard *sh, struct frag *f, struct raid_req *req)
{
	uint64_t unit = sh->view->unit;

	f->req = req;
	plan_bounds(sh, req->addr, req->len, &f->lo, &f->hi);
	f->window = f->cursor = f->lo;
	if (sh->stripes.parity && req->op != RAID_OP_READ && req->op != RAID_OP_WRITE) {
		bool whole = stripe_whole_row(sh, req->addr, req->len) &&
			     plan_zero_direct(sh, req, &f->kind);

		if (!whole) {
			f->kind = FRAG_ZERO_WRITE;
		}
		return whole || req->op == RAID_OP_ZERO;
	}
	switch (req->op) {
	case RAID_OP_READ:
		f->kind = FRAG_READ;
		break;
	case RAID_OP_WRITE:
		f->kind = FRAG_WRITE;
		f->bounce = sh->shifted;
		break;
	case RAID_OP_TRIM:
		f->lo += f->lo < req->addr ? unit : 0;
		f->hi -= f->hi > req->addr + req->len ? unit : 0;
		if (!plan_zero_direct(sh, req, &f->kind)) {
			f->kind = FRAG_DISCARD;
			return false;
		}
		if (f->lo >= f->hi) {
			return false;
		}
		break;
	default:
		if (!plan_zero_direct(sh, req, &f->kind)) {
			f->kind = FRAG_ZERO_WRITE;
		}
		break;
	}
	f->window = f->cursor = f->lo;
	return true;
}

static struct kit *free_kit(struct shard *sh)
{
	for (uint32_t i = 0; i < sh->kits; i++) {
		struct kit *k = &sh->kit[i];

		if (!k->user && k->pool.free_count == k->pool.total) {
			return k;
		}
	}
	return NULL;
}

/*
 * Buffer and slots for a fragment, all or nothing. The kits serve when hung ios hold so much that
 * nothing else is left.
 */
bool frag_provide(struct shard *sh, struct frag *f)
{
	uint32_t ios = plan_ios(sh, f);
	uint64_t bytes = plan_buffer_bytes(sh, f);
	struct kit *kit;

	if (sh->pool.free_count - sh->pool.reserved >= ios) {
		f->buf = bytes ? arena_get(sh->arena, bytes) : NULL;
		if (f->buf || !bytes) {
			f->reserved = ios;
			sh->pool.reserved += ios;
			return true;
		}
	}
	kit = sh->shed || f->state == FRAG_WAIT_SHED ? free_kit(sh) : NULL;
	if (!kit) {
		return false;
	}
	MARK(frag_takes_kit);
	kit->user = f;
	f->kit = kit;
	f->buf = kit->buf;
	f->reserved = kit->pool.free_count;
	kit->pool.reserved = f->reserved;
	return true;
}

/* Admit the head of the FIFO. Returns false if it must wait. */
static bool admit(struct shard *sh, struct raid_req *req)
{
	struct frag *f = frag_alloc(sh);

	if (!f) {
		return false;
	}
	if (!describe(sh, f, req)) {
		frag_free(sh, f);
		list_del(&req->link);
		shard_answer(sh, req, 0);
		return true;
	}
	if (sh->stripes.parity && f->kind != FRAG_READ) {
		if (!stripe_join(sh, f)) {
			MARK(frag_no_stripe);
			frag_free(sh, f);
			return false;
		}
		frag_set_state(f, FRAG_STRIPE);
	} else if (!frag_provide(sh, f)) {
		MARK(frag_no_room);
		frag_free(sh, f);
		return false;
	}
	list_del(&req->link);
	req->frag = f;
	if (++sh->frags_active > sh->frags_high) {
		sh->frags_high = sh->frags_active;
	}
	if (f->kind == FRAG_READ) {
		frag_set_state(f, FRAG_DATA);
		frag_start_read(sh, f);
		return true;
	}
	shard_writes_add(sh);
	if (f->state == FRAG_STRIPE) {
		return true;
	}
	if (range_insert(&sh->ranges, &f->range, f->lo, f->hi)) {
		frag_start_write(sh, f);
	} else {
		frag_set_state(f, FRAG_WAIT_RANGE);
	}
	return true;
}

bool admit_run(struct shard *sh)
{
	bool moved = false;

	while (!list_empty(&sh->fifo)) {
		if (!admit(sh, container_of(sh->fifo.next, struct raid_req, link))) {
			break;
		}
		moved = true;
	}
	return moved;
}
