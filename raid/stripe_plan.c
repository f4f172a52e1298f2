/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decision about one sub-row: which blocks are read, which are written, how parity comes
 * about. Pure: one snapshot in, one answer out; nobody else decides any of this (two places that
 * did, and disagreed, once locked up md's RAID 5).
 *
 *   RMW      new parity = old parity, old data, new data of what is touched
 *   RCW      new parity = all data blocks; those not wholly given are read
 *   RECOVER  some block that is needed cannot be read: everything else is, and it is computed
 *
 * RMW and RECOVER believe the parity that is on the members, so neither is ever chosen where it
 * may be stale (rule 5). With keep_old everything that will be overwritten is read before, so that
 * the row can be put back (rule 6): only RMW and RECOVER do that.
 */
#include <string.h>

#include "raid/base/check.h"
#include "raid/stripe.h"

struct count {
	uint32_t touched, touched_lost; /* data blocks; … that no member can take */
	uint32_t part_unreadable;	/* partly covered, and what is under it cannot be read */
	uint32_t touched_unreadable;
	uint32_t rest, rest_unreadable; /* not wholly covered: what RCW reads */
	uint32_t unreadable;		/* data blocks */
	uint32_t part;
	uint32_t parity_writable, parity_readable;
	uint32_t rmw_parity; /* that RMW reads */
	bool rmw_parity_ok;  /* all of those can be read */
};

static struct count count(const struct stripe_sub_in *in)
{
	struct count c = {.rmw_parity_ok = true};

	for (uint32_t d = 0; d < in->data; d++) {
		bool touched = in->cover[d] != COVER_NONE, full = in->cover[d] == COVER_FULL;
		bool unreadable = !in->readable[d];

		c.touched += touched;
		c.touched_lost += touched && !in->writable[d];
		c.touched_unreadable += touched && unreadable;
		c.part += touched && !full;
		c.part_unreadable += touched && !full && unreadable;
		c.rest += !full;
		c.rest_unreadable += !full && unreadable;
		c.unreadable += unreadable;
	}
	for (uint32_t i = in->data; i < in->data + in->parity; i++) {
		c.parity_writable += in->writable[i];
		c.parity_readable += in->readable[i];
		c.rmw_parity += in->writable[i];
		c.rmw_parity_ok &= !in->writable[i] || in->readable[i];
	}
	return c;
}

static void want_read(struct stripe_sub_out *out, uint32_t i)
{
	out->reads += !out->read[i];
	out->read[i] = true;
}

/* Read all data that can be read, and as many parity blocks as it takes; all of them on request. */
static void read_to_recover(const struct stripe_sub_in *in, struct stripe_sub_out *out,
			    uint32_t unreadable, bool all_parity)
{
	for (uint32_t d = 0; d < in->data; d++) {
		if (in->readable[d]) {
			want_read(out, d);
		}
	}
	for (uint32_t i = in->data; i < in->data + in->parity; i++) {
		if (in->readable[i] && (unreadable || all_parity)) {
			want_read(out, i);
			unreadable -= unreadable ? 1 : 0;
		}
	}
}

static void decide_read(const struct stripe_sub_in *in, const struct count *c,
			struct stripe_sub_out *out)
{
	bool all = true;

	out->method = STRIPE_RECOVER;
	for (uint32_t d = 0; d < in->data; d++) {
		all &= !in->want[d] || in->readable[d];
	}
	if (!all && (in->stale || c->unreadable > c->parity_readable)) {
		out->method = STRIPE_LOST;
		return;
	}
	if (!all) {
		read_to_recover(in, out, c->unreadable, false);
		return;
	}
	for (uint32_t d = 0; d < in->data; d++) {
		if (in->want[d]) {
			want_read(out, d);
		}
	}
}

static enum stripe_method choose(const struct stripe_sub_in *in, const struct count *c)
{
	bool rcw = !in->keep_old && !c->rest_unreadable;
	bool rmw = !in->stale && !c->touched_unreadable && c->rmw_parity_ok;
	uint32_t rmw_reads = c->touched + c->rmw_parity;

	if (c->touched_lost > c->parity_writable) {
		return STRIPE_LOST;
	}
	if (!c->parity_writable) {
		return c->part_unreadable ? STRIPE_LOST : STRIPE_DATA_ONLY;
	}
	if (rcw && !c->rest) {
		return STRIPE_FULL;
	}
	if (rmw && (!rcw || rmw_reads < c->rest || (rmw_reads == c->rest && in->parity == 1))) {
		return STRIPE_RMW;
	}
	if (rcw) {
		return STRIPE_RCW;
	}
	if (!in->stale && c->unreadable <= c->parity_readable) {
		return STRIPE_RECOVER;
	}
	/* Nothing can be put back where nothing can be computed from: the old blocks would not
	 * help. */
	if (in->keep_old && !c->rest_unreadable) {
		return c->rest ? STRIPE_RCW : STRIPE_FULL;
	}
	return STRIPE_LOST;
}

static void fill_reads(const struct stripe_sub_in *in, const struct count *c,
		       struct stripe_sub_out *out)
{
	if (out->method == STRIPE_RECOVER) {
		read_to_recover(in, out, c->unreadable, in->keep_old);
		return;
	}
	for (uint32_t d = 0; d < in->data; d++) {
		bool part = in->cover[d] == COVER_PART, touched = in->cover[d] != COVER_NONE;

		if ((out->method == STRIPE_RMW && touched) ||
		    (out->method == STRIPE_RCW && in->cover[d] != COVER_FULL) ||
		    (out->method == STRIPE_DATA_ONLY &&
		     (part || (touched && in->keep_old && in->readable[d])))) {
			want_read(out, d);
		}
	}
	for (uint32_t i = in->data; out->method == STRIPE_RMW && i < in->data + in->parity; i++) {
		if (in->writable[i]) {
			want_read(out, i);
		}
	}
}

void stripe_decide(const struct stripe_sub_in *in, struct stripe_sub_out *out)
{
	struct count c = count(in);

	CHECK(in->data >= 1 && in->parity >= 1 && in->parity <= 2);
	CHECK(in->data + in->parity <= RAID_SLOTS_MAX);
	memset(out, 0, sizeof *out);
	if (in->read_only) {
		decide_read(in, &c, out);
		return;
	}
	if (!c.touched) {
		return; /* STRIPE_NONE */
	}
	out->method = choose(in, &c);
	if (out->method == STRIPE_LOST) {
		return;
	}
	fill_reads(in, &c, out);
	for (uint32_t d = 0; d < in->data; d++) {
		out->write[d] = in->cover[d] != COVER_NONE && in->writable[d];
	}
	for (uint32_t i = in->data; i < in->data + in->parity; i++) {
		out->write[i] = in->writable[i];
	}
}
