/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * READs of parity levels. What lies on good members is read there directly and waits for nobody.
 * What does not (a slot is empty, a block is listed as bad, could not be read, or its member
 * hangs) takes a stripe that reads and computes, with its rows locked against writers.
 *
 * A window of a fragment is told apart cell by cell: a part with any block that needs its row is
 * read by a stripe as a whole, so that no block is read twice. Parts are marked in frag.part_mask;
 * the fragment waits on stripes.read_wait until each has a stripe. Blocks that fail in a direct
 * read come one by one (retry.c, stripes.block_wait); stripes rewrite what they find unreadable.
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"

enum { PARTS_MAX = 64 };

static uint32_t slots(const struct shard *sh)
{
	return sh->view->geo->p.slots;
}

/* Members that cannot help: not in sync, or hanging; this one in any case. */
static uint32_t away(const struct shard *sh, uint32_t but, bool count_late)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < slots(sh); k++) {
		n += k == but || !sh->view->slot[k].in_sync || (count_late && shard_late(sh, k));
	}
	return n;
}

static bool row_unsynced(const struct shard *sh, uint32_t gslot, uint64_t maddr)
{
	uint64_t row, in, at;

	if (!geo_row_of_maddr(sh->view->geo, gslot, maddr, &row, &in)) {
		return true;
	}
	at = row * sh->stripes.chunk + round_down_u64(in, STRIPE_SUB);
	return view_unsynced(sh->view, at, at + STRIPE_SUB);
}

enum other stripe_other(struct shard *sh, const struct slot *s)
{
	if (row_unsynced(sh, s->gslot, s->io.maddr) ||
	    away(sh, s->gslot, false) > sh->stripes.parity) {
		return OTHER_NONE;
	}
	return away(sh, s->gslot, true) > sh->stripes.parity ? OTHER_LATE : OTHER_READY;
}

/* ---- planning ------------------------------------------------------------------------------ */

/* Nothing is missing anywhere: no need to look at each piece. */
static bool all_well(const struct shard *sh)
{
	bool well = !sh->view->any_bad;

	for (uint32_t k = 0; k < slots(sh); k++) {
		well &= sh->view->slot[k].in_sync && !shard_late(sh, k);
	}
	return well;
}

static bool direct(const struct shard *sh, const struct geo_piece *p)
{
	const struct geo_copy *c = &p->copy[0];
	const struct view_slot *vs = &sh->view->slot[c->slot];
	struct bb_range hit;

	if (!vs->in_sync || (vs->bad && bb_find(vs->bad, c->maddr, p->len, &hit))) {
		return false;
	}
	return !shard_late(sh, c->slot) || row_unsynced(sh, c->slot, c->maddr) ||
	       away(sh, c->slot, true) > sh->stripes.parity;
}

static bool all_direct(const struct shard *sh, uint64_t addr, uint64_t end)
{
	struct geo_piece p;

	for (; addr < end; addr += p.len) {
		geo_map(sh->view->geo, addr, end - addr, &p);
		if (!direct(sh, &p)) {
			return false;
		}
	}
	return true;
}

/* Add ios for [f->cursor, end). Returns false when the window is full before. */
static bool add_direct(struct shard *sh, struct frag *f, uint64_t end)
{
	struct geo_piece p;

	while (f->cursor < end) {
		geo_map(sh->view->geo, f->cursor, min_u64(end - f->cursor, sh->cell_bytes), &p);
		if (!plan_add_read(sh, f, p.copy[0].slot, p.copy[0].maddr, p.len,
				   plan_read_pointer(sh, f, f->cursor))) {
			return false;
		}
		f->cursor += p.len;
	}
	return true;
}

bool stripe_plan_read(struct shard *sh, struct frag *f)
{
	uint64_t end = min_u64(f->hi, sh->view->size_bytes);
	bool well = all_well(sh);

	f->window = f->part = f->cursor;
	f->part_mask = 0;
	for (uint32_t i = 0; i < PARTS_MAX && f->cursor < end; i++) {
		uint64_t part_end = min_u64(end, stripe_cell_end(sh, f->cursor));

		if (!well && !all_direct(sh, f->cursor, part_end)) {
			f->part_mask |= UINT64_C(1) << i;
			f->cursor = part_end;
		} else if (!add_direct(sh, f, part_end)) {
			break;
		}
	}
	if (f->part_mask) {
		MARK(stripe_read_part);
		f->parts++;
		f->pending++;
		list_append(&sh->stripes.read_wait, &f->in_stripe);
	}
	plan_emit(sh, f, end);
	return true;
}

/* ---- giving stripes to those who wait ------------------------------------------------------ */

static void start(struct shard *sh, struct stripe *st, uint64_t addr, uint64_t len)
{
	st->read_only = true;
	st->read_addr = addr;
	st->read_len = len;
	stripe_place(sh, st, addr);
	stripe_want(sh, st, addr, len);
	stripe_begin(sh, st);
}

/* A block that could not be read directly waits for its row. */
void stripe_wait_block(struct shard *sh, struct slot *s)
{
	list_del(&s->link);
	list_append(&sh->stripes.block_wait, &s->link);
}

static void start_block(struct shard *sh, struct stripe *st, struct slot *s)
{
	uint64_t addr;
	uint32_t copy;
	bool found =
		geo_unmap(sh->view->geo, s->whole_gslot, s->whole_maddr + s->off, &addr, &copy);

	CHECK(found);
	MARK(stripe_read_block);
	list_del(&s->link);
	st->waiter = s;
	start(sh, st, addr, s->piece_len);
}

/* The fragment has one thing less to wait for. */
static void part_over(struct shard *sh, struct frag *f)
{
	CHECK(f->parts > 0 && f->pending > 0);
	f->parts--;
	if (!--f->pending) {
		frag_advance(sh, f);
	}
}

/* Returns false when no stripe is free. */
static bool start_parts(struct shard *sh, struct frag *f)
{
	while (f->part_mask) {
		uint64_t end = min_u64(f->cursor, stripe_cell_end(sh, f->part));

		end = min_u64(end, sh->view->size_bytes);
		if (f->part_mask & 1) {
			struct stripe *st = stripe_take(sh);
			uint64_t addr = f->part;

			if (!st) {
				MARK(stripe_read_waits);
				return false;
			}
			f->parts++;
			f->pending++;
			st->reader = f;
			f->part = end;
			f->part_mask >>= 1;
			start(sh, st, addr, end - addr);
		} else {
			f->part = end;
			f->part_mask >>= 1;
		}
	}
	return true;
}

bool stripe_read_run(struct shard *sh)
{
	struct stripes *ss = &sh->stripes;
	bool moved = false;

	while (!list_empty(&ss->block_wait)) {
		struct stripe *st = stripe_take(sh);

		if (!st) {
			return moved;
		}
		moved = true;
		start_block(sh, st, container_of(ss->block_wait.next, struct slot, link));
	}
	while (!list_empty(&ss->read_wait)) {
		struct frag *f = container_of(ss->read_wait.next, struct frag, in_stripe);

		if (!start_parts(sh, f)) {
			return moved;
		}
		moved = true;
		list_del(&f->in_stripe);
		part_over(sh, f);
	}
	return moved;
}

/* ---- answering ----------------------------------------------------------------------------- */

static void lost(struct shard *sh, const struct stripe *st)
{
	MARK(stripe_read_lost);
	events_add(sh->events, (struct raid_event){
				       .type = RAID_EV_LAST_COPY_ERROR,
				       .member = UINT32_MAX,
				       .op = RAID_IO_READ,
				       .maddr = st->read_addr,
				       .len = st->read_len,
				       .err = -EIO,
				       .why = "too much of a row is missing or cannot be trusted "
					      "(array address)",
			       });
}

/* Its blocks are there, or lost: whoever wanted them goes on. */
void stripe_read_done(struct shard *sh, struct stripe *st)
{
	struct frag *f = st->reader;
	struct slot *s = st->waiter;

	st->reader = NULL;
	st->waiter = NULL;
	if (st->lost) {
		lost(sh, st);
	}
	if (f) {
		if (st->lost) {
			f->err = f->err ? f->err : -EIO;
		} else {
			stripe_copy_out(sh, st, plan_read_pointer(sh, f, st->read_addr));
		}
		part_over(sh, f);
	}
	if (s) {
		if (!st->lost) {
			stripe_copy_out(sh, st, s->piece_iov.iov_base);
		}
		list_append(&((struct frag *)s->of)->slots, &s->link);
		retry_stripe_done(sh, s, st->lost ? -EIO : 0);
	}
}
