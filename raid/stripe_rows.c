/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stripe covers, what is decided about each of its sub-rows, and the blocks it computes.
 * No ios, no states: masks and memory of one stripe.
 */
#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"

/* ---- where --------------------------------------------------------------------------------- */

static uint64_t row_bytes(const struct shard *sh)
{
	return (uint64_t)sh->view->geo->row_data * sh->stripes.chunk;
}

uint64_t stripe_cell_end(const struct shard *sh, uint64_t addr)
{
	if (sh->stripes.cell < sh->stripes.chunk) {
		return round_down_u64(addr, sh->stripes.cell) + sh->stripes.cell;
	}
	return round_down_u64(addr, row_bytes(sh)) + row_bytes(sh);
}

bool stripe_whole_row(const struct shard *sh, uint64_t addr, uint64_t len)
{
	return len == row_bytes(sh) && addr % len == 0 && sh->stripes.cell == sh->stripes.chunk;
}

void stripe_place(struct shard *sh, struct stripe *st, uint64_t addr)
{
	uint64_t in;

	st->row_no = geo_row_of(sh->view->geo, addr, &in);
	in %= sh->stripes.chunk;
	st->inside = (uint32_t)round_down_u64(in, sh->stripes.cell);
	geo_row_map(sh->view->geo, st->row_no, &st->row);
}

bool stripe_same_cell(const struct shard *sh, const struct stripe *st, uint64_t addr)
{
	uint64_t in, row_no = geo_row_of(sh->view->geo, addr, &in);

	return row_no == st->row_no &&
	       round_down_u64(in % sh->stripes.chunk, sh->stripes.cell) == st->inside;
}

uint32_t stripe_gslot(const struct stripe *st, uint32_t index)
{
	return index < st->row.data    ? st->row.slot[index]
	       : index == st->row.data ? st->row.p
				       : st->row.q;
}

uint64_t stripe_maddr(const struct shard *sh, const struct stripe *st, uint32_t index, uint32_t sub)
{
	return geo_row_maddr(sh->view->geo, st->row_no, stripe_gslot(st, index)) + st->inside +
	       (uint64_t)sub * STRIPE_SUB;
}

uint8_t *stripe_old(const struct shard *sh, const struct stripe *st, uint32_t index, uint32_t sub)
{
	return st->kit->old + (size_t)index * sh->stripes.cell + (size_t)sub * STRIPE_SUB;
}

uint8_t *stripe_now(const struct shard *sh, const struct stripe *st, uint32_t index, uint32_t sub)
{
	return st->kit->now + (size_t)index * sh->stripes.cell + (size_t)sub * STRIPE_SUB;
}

static const uint8_t **from(const struct shard *sh, const struct stripe *st, uint32_t index,
			    uint32_t sub)
{
	return &st->from[index * sh->stripes.subs + sub];
}

/* ---- covering ------------------------------------------------------------------------------ */

/* A run of array bytes within one sub-row of one block. */
struct part {
	uint32_t index, sub, off, len;
	uint64_t addr;
};

/* The part that begins at addr; at most len bytes. */
static struct part part_at(const struct shard *sh, const struct stripe *st, uint64_t addr,
			   uint64_t len)
{
	uint64_t in = addr - st->row_no * row_bytes(sh);
	uint32_t off = (uint32_t)(in % sh->stripes.chunk) - st->inside;

	CHECK(in < row_bytes(sh) && off < sh->stripes.cell);
	return (struct part){
		.index = (uint32_t)(in / sh->stripes.chunk),
		.sub = off / STRIPE_SUB,
		.off = off % STRIPE_SUB,
		.len = (uint32_t)min_u64(len, STRIPE_SUB - off % STRIPE_SUB),
		.addr = addr,
	};
}

#define FOR_EACH_PART(sh, st, p, start, length)                                                    \
	for (p = part_at(sh, st, start, length); p.len;                                            \
	     p = p.addr + p.len < (start) + (length)                                               \
			 ? part_at(sh, st, p.addr + p.len, (start) + (length)-p.addr - p.len)      \
			 : (struct part){.len = 0})

stripe_mask stripe_rows_of(const struct shard *sh, const struct stripe *st, uint64_t addr,
			   uint64_t len)
{
	stripe_mask rows = 0;
	struct part p;

	FOR_EACH_PART(sh, st, p, addr, len)
	{
		rows |= (stripe_mask)(1u << p.sub);
	}
	return rows;
}

void stripe_want(struct shard *sh, struct stripe *st, uint64_t addr, uint64_t len)
{
	struct part p;

	FOR_EACH_PART(sh, st, p, addr, len)
	{
		st->touched[p.index] |= (stripe_mask)(1u << p.sub);
		st->rows |= (stripe_mask)(1u << p.sub);
	}
}

static const uint8_t *given(const struct shard *sh, const struct frag *f, const struct part *p)
{
	return f->kind == FRAG_WRITE ? (const uint8_t *)f->req->payload + (p->addr - f->req->addr)
				     : sh->zeroes + (size_t)p->sub * STRIPE_SUB;
}

void stripe_cover(struct shard *sh, struct stripe *st, const struct frag *f)
{
	struct part p;

	FOR_EACH_PART(sh, st, p, f->req->addr, f->req->len)
	{
		stripe_mask bit = (stripe_mask)(1u << p.sub);
		uint16_t *covered = &st->covered[p.index * sh->stripes.subs + p.sub];

		*covered = (uint16_t)(*covered + p.len);
		st->rows |= bit;
		st->touched[p.index] |= bit;
		st->full[p.index] |= *covered == STRIPE_SUB ? bit : 0;
		*from(sh, st, p.index, p.sub) =
			p.len == STRIPE_SUB ? given(sh, f, &p) : stripe_now(sh, st, p.index, p.sub);
	}
}

/* Fragments have failed, or the kit is another: cover anew. */
void stripe_cover_again(struct shard *sh, struct stripe *st)
{
	const struct frag *f;

	st->rows = 0;
	for (uint32_t i = 0; i < st->blocks; i++) {
		st->touched[i] = st->full[i] = 0;
	}
	memset(st->covered, 0, st->blocks * sh->stripes.subs * sizeof *st->covered);
	memset(st->from, 0, st->blocks * sh->stripes.subs * sizeof *st->from);
	list_for_each_entry (f, &st->frags, in_stripe) {
		if (!f->err) {
			stripe_cover(sh, st, f);
		}
	}
}

bool stripe_full(const struct shard *sh, const struct stripe *st)
{
	stripe_mask all = (stripe_mask)((1u << sh->stripes.subs) - 1);

	for (uint32_t d = 0; d < st->row.data; d++) {
		if (st->full[d] != all) {
			return false;
		}
	}
	return true;
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* What all sub-rows of a stripe have in common. */
struct common {
	bool at_limit; /* one member less and something is lost */
	bool uniform;  /* members are good for the whole cell or not at all */
	bool late;     /* some member hangs */
};

static struct common look(const struct shard *sh, const struct stripe *st)
{
	const struct view *v = sh->view;
	struct common c = {.uniform = !v->any_bad};
	uint32_t away = 0;

	for (uint32_t k = 0; k < st->blocks; k++) {
		away += !v->slot[k].in_sync;
		c.uniform &= v->slot[k].in_sync || !v->slot[k].writes;
		c.late |= shard_late(sh, k);
	}
	c.at_limit = away >= sh->stripes.parity;
	return c;
}

static void fill_in(const struct shard *sh, const struct stripe *st, uint32_t sub, bool use_late,
		    struct stripe_sub_in *in)
{
	const struct view *v = sh->view;
	uint64_t lo = st->row_no * sh->stripes.chunk + st->inside + (uint64_t)sub * STRIPE_SUB;
	stripe_mask bit = (stripe_mask)(1u << sub);

	in->data = st->row.data;
	in->parity = sh->stripes.parity;
	in->read_only = st->read_only;
	in->stale = view_unsynced(v, lo, lo + STRIPE_SUB);
	in->keep_old = false;
	for (uint32_t i = 0; i < st->blocks; i++) {
		uint32_t k = stripe_gslot(st, i);
		const struct view_slot *vs = &v->slot[k];
		bool good = vs->writes && view_good(v, k, lo, lo + STRIPE_SUB);
		struct bb_range hit;

		in->cover[i] = !(st->touched[i] & bit) ? COVER_NONE
			       : st->full[i] & bit     ? COVER_FULL
						       : COVER_PART;
		in->want[i] = st->read_only && st->touched[i] & bit;
		in->writable[i] = good;
		in->readable[i] = good && !(st->bad[i] & bit) && (use_late || !shard_late(sh, k)) &&
				  !(vs->bad && bb_find(vs->bad, stripe_maddr(sh, st, i, sub),
						       STRIPE_SUB, &hit));
		/* With parity alone away there is nothing that others must stay consistent with. */
		in->keep_old |= !vs->in_sync && (good || i < st->row.data);
	}
}

/* Will every data block of the sub-row be at hand, read or computed? */
static bool all_known(const struct stripe *st, stripe_mask bit, const struct stripe_sub_in *in,
		      const struct stripe_sub_out *out)
{
	uint32_t unread = 0, parity = 0;

	for (uint32_t i = 0; i < st->blocks; i++) {
		bool have = out->read[i] || st->have[i] & bit;

		unread += i < st->row.data && !have;
		parity += i >= st->row.data && have;
	}
	return !unread || (!in->stale && unread <= parity);
}

/* Put one decision into the masks. */
static void take_out(const struct shard *sh, struct stripe *st, uint32_t sub,
		     const struct stripe_sub_in *in, const struct stripe_sub_out *out)
{
	stripe_mask bit = (stripe_mask)(1u << sub);
	bool rewrite = !sh->view->read_only && !sh->view->broken;

	/* A READ may do without the block that it found unreadable on the way. */
	rewrite = rewrite && out->method == STRIPE_RECOVER && all_known(st, bit, in, out);
	st->method[sub] = (uint8_t)out->method;
	if (out->method == STRIPE_LOST) {
		st->lost |= bit;
		return;
	}
	for (uint32_t i = 0; i < st->blocks; i++) {
		bool bad = st->bad[i] & bit, write = out->write[i];

		st->need[i] |= out->read[i] ? bit : 0;
		if (bad && !write && rewrite && i < st->row.data) {
			MARK(stripe_rewrite);
			write = true;
		}
		st->write[i] |= write ? bit : 0;
		st->fix[i] |= write && bad ? bit : 0;
	}
}

/* Is there nothing by which this sub-row differs from the one before? */
static bool as_before(const struct stripe *st, uint32_t sub)
{
	if (!sub || !(st->rows >> (sub - 1) & 1)) {
		return false;
	}
	for (uint32_t i = 0; i < st->blocks; i++) {
		uint32_t differ = (st->touched[i] ^ st->touched[i] << 1) |
				  (st->full[i] ^ st->full[i] << 1) | (st->bad[i] ^ st->bad[i] << 1);

		if (differ >> sub & 1) {
			return false;
		}
	}
	return true;
}

/* One snapshot, one decision for each sub-row. */
void stripe_decide_all(struct shard *sh, struct stripe *st)
{
	struct common c = look(sh, st);
	struct stripe_sub_out out;
	struct stripe_sub_in in;
	bool decided = false;

	st->members_generation = sh->view->members_generation;
	st->lost = 0;
	for (uint32_t i = 0; i < st->blocks; i++) {
		st->need[i] = st->write[i] = st->fix[i] = 0;
	}
	for (uint32_t sub = 0; sub < sh->stripes.subs; sub++) {
		if (!(st->rows >> sub & 1)) {
			continue;
		}
		if (!decided || !c.uniform || sh->view->unsynced_from != UINT64_MAX ||
		    !as_before(st, sub)) {
			fill_in(sh, st, sub, !c.late, &in);
			in.keep_old &= c.at_limit;
			stripe_decide(&in, &out);
			if (out.method == STRIPE_LOST && c.late) {
				MARK(stripe_needs_late);
				fill_in(sh, st, sub, true, &in);
				in.keep_old &= c.at_limit;
				stripe_decide(&in, &out);
			}
			decided = true;
		}
		take_out(sh, st, sub, &in, &out);
	}
}

/* Could the sub-rows that this io reads be had without its member, and without others that hang? */
bool stripe_can_do_without(const struct shard *sh, const struct stripe *st, const struct slot *s)
{
	struct stripe_sub_in in;

	for (uint32_t sub = s->sub; sub < (uint32_t)s->sub + s->subs; sub++) {
		uint32_t away = 1;

		fill_in(sh, st, sub, false, &in);
		for (uint32_t i = 0; i < st->blocks; i++) {
			away += i != s->key && !in.readable[i];
		}
		if (in.stale || away > sh->stripes.parity) {
			return false;
		}
	}
	return true;
}

/* ---- computing ----------------------------------------------------------------------------- */

/* A READ: is everything there that is to be given away, or written back? */
static bool nothing_to_compute(const struct stripe *st, stripe_mask bit)
{
	for (uint32_t d = 0; d < st->row.data; d++) {
		if ((st->touched[d] | st->write[d]) & bit && !(st->have[d] & bit)) {
			return false;
		}
	}
	return true;
}

/* The blocks that were not read, out of those that were. */
static void recover(const struct shard *sh, struct stripe *st, uint32_t sub)
{
	struct stripe_calc c = {.row = &st->row, .parity = sh->stripes.parity, .len = STRIPE_SUB};
	stripe_mask bit = (stripe_mask)(1u << sub);
	bool have[RAID_SLOTS_MAX] = {false};

	if (st->method[sub] != STRIPE_RECOVER || (st->read_only && nothing_to_compute(st, bit))) {
		return;
	}
	for (uint32_t i = 0; i < st->blocks; i++) {
		have[i] = st->have[i] & bit;
		c.old[i] = stripe_old(sh, st, i, sub);
	}
	stripe_recover(&c, have);
	for (uint32_t d = 0; d < st->row.data; d++) {
		st->have[d] |= bit;
	}
}

/* What lies under blocks that are given in part, and blocks that go back as they were. */
static void lay_ground(const struct shard *sh, struct stripe *st, uint32_t sub)
{
	stripe_mask bit = (stripe_mask)(1u << sub);

	for (uint32_t d = 0; d < st->row.data; d++) {
		const uint8_t **src = from(sh, st, d, sub);
		uint8_t *now = stripe_now(sh, st, d, sub);
		bool part = st->touched[d] & bit && !(st->full[d] & bit) && !st->read_only;
		bool as_it_was = st->write[d] & bit && (st->read_only || !(st->touched[d] & bit));

		if (part || as_it_was) {
			CHECK(st->have[d] & bit);
			memcpy(now, stripe_old(sh, st, d, sub), STRIPE_SUB);
			*src = now;
		}
	}
}

static void overlay(const struct shard *sh, struct stripe *st)
{
	const struct frag *f;
	struct part p;

	list_for_each_entry (f, &st->frags, in_stripe) {
		if (f->err) {
			continue;
		}
		FOR_EACH_PART(sh, st, p, f->req->addr, f->req->len)
		{
			if (p.len < STRIPE_SUB) {
				memcpy(stripe_now(sh, st, p.index, p.sub) + p.off, given(sh, f, &p),
				       p.len);
			}
		}
	}
}

/* How many sub-rows from this one on can be computed in one go: alike, and memory in one piece. */
static uint32_t alike(const struct shard *sh, const struct stripe *st, uint32_t sub)
{
	uint32_t end = sub + 1;

	for (; end < sh->stripes.subs && st->rows >> end & 1; end++) {
		if (st->method[end] != st->method[sub]) {
			return end - sub;
		}
		for (uint32_t i = 0; i < st->blocks; i++) {
			const uint8_t *before = *from(sh, st, i, end - 1);
			const uint8_t *here = *from(sh, st, i, end);

			if (i < st->row.data
				    ? here != (before ? before + STRIPE_SUB : NULL)
				    : (st->write[i] >> sub & 1) != (st->write[i] >> end & 1)) {
				return end - sub;
			}
		}
	}
	return end - sub;
}

/* Nothing is computed from memory that holds no block of the row. */
static void check_inputs(const struct stripe *st, uint32_t sub, uint32_t subs,
			 const struct stripe_calc *c)
{
	stripe_mask run = (stripe_mask)(((1u << subs) - 1) << sub);
	bool rmw = st->method[sub] == STRIPE_RMW;

	for (uint32_t i = 0; i < st->blocks; i++) {
		bool used = i >= st->row.data ? rmw && c->made[i - st->row.data]
					      : rmw == (c->now[i] != NULL);

		CHECK(!used || (st->have[i] & run) == run);
	}
}

static void make_parity(const struct shard *sh, struct stripe *st, uint32_t sub, uint32_t subs)
{
	struct stripe_calc c = {
		.row = &st->row, .parity = sh->stripes.parity, .len = subs * STRIPE_SUB};

	for (uint32_t i = 0; i < st->blocks; i++) {
		c.old[i] = stripe_old(sh, st, i, sub);
		if (i < st->row.data) {
			c.now[i] = *from(sh, st, i, sub);
		} else if (st->write[i] >> sub & 1) {
			c.made[i - st->row.data] = stripe_now(sh, st, i, sub);
			for (uint32_t s = sub; s < sub + subs; s++) {
				*from(sh, st, i, s) = stripe_now(sh, st, i, s);
			}
		}
	}
	check_inputs(st, sub, subs, &c);
	stripe_parity(&c, st->method[sub]);
}

void stripe_compute(struct shard *sh, struct stripe *st)
{
	uint32_t n;

	for (uint32_t sub = 0; sub < sh->stripes.subs; sub++) {
		if (st->rows >> sub & 1) {
			recover(sh, st, sub);
			lay_ground(sh, st, sub);
		}
	}
	overlay(sh, st);
	for (uint32_t sub = 0; sub < sh->stripes.subs && !st->read_only; sub += n) {
		n = 1;
		if (st->rows >> sub & 1 && st->method[sub] != STRIPE_DATA_ONLY) {
			n = alike(sh, st, sub);
			make_parity(sh, st, sub, n);
		}
	}
}

/* What a READ wanted, to where it wants it. */
void stripe_copy_out(const struct shard *sh, const struct stripe *st, uint8_t *to)
{
	struct part p;

	FOR_EACH_PART(sh, st, p, st->read_addr, st->read_len)
	{
		CHECK(st->have[p.index] >> p.sub & 1);
		memcpy(to + (p.addr - st->read_addr), stripe_old(sh, st, p.index, p.sub) + p.off,
		       p.len);
	}
}
