/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of the bitmap on their way to the members.
 *
 * A lane carries one page to every member that holds the bitmap; never two lanes the same page.
 * Each member has, for each lane, an io and a buffer of its own: nobody writes into it while the io
 * is out, also when the member has failed and nobody waits for it any more.
 *
 *   changed -> in a lane   start: the page is copied; bits that it clears are not durable from here
 * on in a lane -> written   lane_done: every member that is left has it; bits that it sets are
 * durable in a lane -> changed   (beside) a bit or the header changed meanwhile: it is written once
 * more
 *
 * A failed write is done once more, then the member is failed as for a superblock; if it cannot be
 * failed the array takes no more writes.
 */
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

/* Members that hold a slot, or are about to. */
static bool holds(const struct member *m)
{
	return m->has_sb &&
	       (m->state == RAID_MEMBER_IN_SYNC || m->state == RAID_MEMBER_REBUILDING ||
		m->state == RAID_MEMBER_REPLACEMENT);
}

void intent_change_page(struct intent *n, uint64_t page)
{
	bm_put(n->changed, page, true);
}

void intent_header_changed(struct intent *n)
{
	n->header_seq++;
	bm_put(n->urgent, 0, true);
	intent_change_page(n, 0);
}

/* ---- every page to members that are not whole ----------------------------------------------- */

void intent_fill(struct core *c)
{
	c->intent.fill_next = 0;
	intent_header_changed(&c->intent);
}

static bool fill_out(const struct intent *n)
{
	for (uint32_t i = 0; i < INTENT_LANES; i++) {
		if (n->lane[i].busy && n->lane[i].fill) {
			return true;
		}
	}
	return false;
}

bool intent_filling(const struct core *c)
{
	const struct intent *n = &c->intent;

	return intent_kept_up(c) && (n->fill_next < n->pages || fill_out(n));
}

static void fill_end(struct core *c)
{
	struct intent *n = &c->intent;
	bool any = false;

	for (uint32_t i = 0; i < c->members; i++) {
		any |= holds(&c->member[i]) && !n->member[i].whole;
		n->member[i].whole |= holds(&c->member[i]);
	}
	if (any) {
		MARK(intent_filled);
		intent_header_changed(n); /* it may say so now */
	}
}

void intent_member_joined(struct core *c, uint32_t i)
{
	if (intent_kept_up(c)) {
		MARK(intent_joined);
		c->intent.member[i].whole = false;
		c->intent.active = true;
		intent_fill(c);
	}
}

bool intent_member_whole(const struct core *c, uint32_t i)
{
	return !intent_kept_up(c) || c->intent.member[i].whole;
}

/* ---- out ----------------------------------------------------------------------------------- */

/* Bytes of the page where its bits begin. */
static uint32_t head_of(uint32_t page)
{
	return page ? 0 : BM_HEADER_BYTES;
}

/* A member's copy of the page; page 0 says whether the rest of it can be believed. */
static void image(const struct intent *n, const struct intent_lane *l, bool whole, uint8_t *buf)
{
	struct bm_header h = n->header;

	memcpy(buf, l->image, BM_PAGE_BYTES);
	if (!l->page) {
		h.state = whole ? 0 : BM_STATE_STALE;
		bm_encode(&h, buf);
	}
}

static void emit(struct core *c, uint32_t i, struct intent_lane *l)
{
	struct intent *n = &c->intent;
	struct member *m = &c->member[i];
	struct intent_io *io = &n->member[i].io[l - n->lane];
	uint64_t area = bm_area_bytes(n->bits) - (uint64_t)l->page * BM_PAGE_BYTES;
	int64_t at = (int64_t)m->sb->super_offset + n->offset_sectors;

	image(n, l, n->member[i].whole, io->page);
	io->retried = false;
	io->waited = true;
	io->slot->of = l;
	io->slot->io.op = RAID_IO_WRITE;
	io->slot->io.fua = true;
	io->slot->io.member = i;
	io->slot->io.maddr = (uint64_t)at * RAID_SECTOR_BYTES + (uint64_t)l->page * BM_PAGE_BYTES;
	io->slot->io.len = min_u64(round_up_u64(area, m->props.logical_block), BM_PAGE_BYTES);
	io->slot->io.iovcnt = 1;
	io->slot->iov[0] = (struct iovec){.iov_base = io->page, .iov_len = io->slot->io.len};
	l->out++;
	n->out++;
	iop_emit(c->iop, io->slot);
}

static void start(struct core *c, struct intent_lane *l, uint32_t page, bool fill)
{
	struct intent *n = &c->intent;
	uint64_t from, to;

	l->busy = true;
	l->fill = fill;
	l->page = page;
	l->header_seq = n->header_seq;
	bm_put(n->changed, page, false);
	bm_put(n->urgent, page, false);
	bm_put(n->in_lane, page, true);
	bm_page_bits(page, n->bits, &from, &to);
	for (uint64_t w = from / 64; w < bm_words(to); w++) {
		n->durable[w] &= n->set[w];
	}
	memset(l->image, 0, BM_PAGE_BYTES);
	bm_pack(n->set + from / 64, to - from, l->image + head_of(page));
	for (uint32_t i = 0; i < c->members; i++) {
		/* Nothing of a member that failed and came back is out any more. */
		if (holds(&c->member[i])) {
			emit(c, i, l);
		}
	}
	CHECK(l->out > 0);
}

/* Page of words that is not in a lane, at or after pick_from, then from the first; pages if none.
 */
static uint32_t pick(const struct intent *n, const uint64_t *words)
{
	uint64_t page = n->pick_from;

	for (int turn = 0; turn < 2; turn++) {
		while ((page = bm_next(words, n->pages, page)) < n->pages) {
			if (!bm_get(n->in_lane, page)) {
				return (uint32_t)page;
			}
			page++;
		}
		page = 0;
	}
	return n->pages;
}

static bool start_one(struct core *c, struct intent_lane *l)
{
	struct intent *n = &c->intent;
	bool fill = n->fill_next < n->pages && !bm_get(n->in_lane, n->fill_next);
	uint32_t page = pick(n, n->urgent);

	/* One lane always serves the members that are not whole. */
	if (fill && (l == n->lane || page == n->pages)) {
		page = n->fill_next;
	} else if (page == n->pages) {
		page = pick(n, n->changed);
	}
	if (page == n->pages) {
		return false;
	}
	fill = page == n->fill_next;
	n->fill_next += fill;
	n->pick_from = page + 1 < n->pages ? page + 1 : 0;
	start(c, l, page, fill);
	return true;
}

void intent_emit(struct core *c)
{
	struct intent *n = &c->intent;

	if (!intent_kept_up(c) || !n->active || c->meta.state == META_BROKEN) {
		return;
	}
	for (uint32_t i = 0; i < INTENT_LANES; i++) {
		if (!n->lane[i].busy && !start_one(c, &n->lane[i])) {
			break;
		}
	}
}

/* ---- back ---------------------------------------------------------------------------------- */

static void lane_done(struct core *c, struct intent_lane *l)
{
	struct intent *n = &c->intent;
	uint64_t from, to;

	bm_page_bits(l->page, n->bits, &from, &to);
	for (uint64_t bit = from; bit < to; bit += 64) {
		uint64_t word = 0;

		bm_unpack(l->image + head_of(l->page) + (bit - from) / 8, min_u64(64, to - bit),
			  &word);
		n->durable[bit / 64] = word & n->set[bit / 64];
	}
	if (!l->page) {
		n->header_durable = max_u64(n->header_durable, l->header_seq);
	}
	bm_put(n->in_lane, l->page, false);
	l->busy = false;
	if (l->fill && !intent_filling(c)) {
		fill_end(c);
	}
	intent_grant(c);
}

static void back(struct core *c, struct intent_lane *l)
{
	c->intent.out--;
	if (!--l->out) {
		lane_done(c, l);
	}
}

static void failed(struct core *c, uint32_t i, struct slot *s)
{
	struct raid_event ev = {
		.type = RAID_EV_BITMAP_ERROR,
		.member = i,
		.op = RAID_IO_WRITE,
		.maddr = s->io.maddr,
		.len = s->io.len,
		.err = s->res,
		.why = "a page of its bitmap could not be written",
	};

	events_add(c->events, ev);
	if (member_fail(c, i, ev) == MEMBER_FAIL_DONE) {
		MARK(intent_member_failed);
	} else if (c->meta.state != META_BROKEN) {
		meta_break(c, i, s->res,
			   "a page of the bitmap could not be written to a member that holds a "
			   "last copy; restart the array to try again");
	}
}

void intent_io_done(struct core *c, struct slot *s)
{
	struct intent_lane *l = s->of;
	struct intent_io *io = &c->intent.member[s->io.member].io[l - c->intent.lane];

	CHECK(io->slot == s);
	if (!io->waited) {
		return; /* its member has left */
	}
	if (s->res && !io->retried && c->meta.state != META_BROKEN) {
		MARK(intent_page_again);
		io->retried = true;
		iop_emit(c->iop, s);
		return;
	}
	if (s->res) {
		failed(c, s->io.member, s);
		if (!io->waited) {
			return; /* intent_member_left() has seen to it */
		}
	}
	io->waited = false;
	back(c, l);
}

void intent_member_left(struct core *c, uint32_t i)
{
	struct intent *n = &c->intent;

	for (uint32_t k = 0; i < n->members && k < INTENT_LANES; k++) {
		struct intent_io *io = &n->member[i].io[k];

		if (io->waited) {
			io->waited = false;
			back(c, io->slot->of);
		}
	}
}

bool intent_pages_settled(const struct core *c)
{
	const struct intent *n = &c->intent;

	if (!intent_kept_up(c) || c->meta.state == META_BROKEN || !n->active) {
		return true;
	}
	for (uint32_t i = 0; i < INTENT_LANES; i++) {
		if (n->lane[i].busy) {
			return false;
		}
	}
	return !intent_filling(c) && bm_next(n->changed, n->pages, 0) == n->pages;
}
