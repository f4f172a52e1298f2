/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stripe computes over its buffers: blocks that could not be read, and new parity. Pure;
 * which of it is called for, stripe_decide() has said. Translates between the order of addresses,
 * in which stripes think, and that of exponents, in which parity.h does.
 */
#include <string.h>

#include "raid/base/check.h"
#include "raid/parity.h"
#include "raid/stripe.h"

void stripe_recover(const struct stripe_calc *c, const bool have[RAID_SLOTS_MAX])
{
	const struct geo_row *row = c->row;
	const void *src[RAID_SLOTS_MAX] = {NULL};
	struct parity_lost lost[2];
	uint32_t count = 0;

	for (uint32_t d = 0; d < row->data; d++) {
		if (have[d]) {
			src[row->exp[d]] = c->old[d];
			continue;
		}
		CHECK(count < c->parity);
		lost[count++] = (struct parity_lost){.what = row->exp[d], .to = c->old[d]};
	}
	if (count) {
		bool q = c->parity > 1 && have[row->data + 1];

		CHECK((uint32_t)have[row->data] + (uint32_t)q >= count);
		parity_recover(lost, count, have[row->data] ? c->old[row->data] : NULL,
			       q ? c->old[row->data + 1] : NULL, src, row->exps, c->len);
	}
}

static void by_difference(const struct stripe_calc *c)
{
	const struct geo_row *row = c->row;

	for (uint32_t i = 0; i < c->parity; i++) {
		if (c->made[i] && c->made[i] != c->old[row->data + i]) {
			memcpy(c->made[i], c->old[row->data + i], c->len);
		}
	}
	for (uint32_t d = 0; d < row->data; d++) {
		if (c->now[d]) {
			parity_delta(c->made[0], c->made[1], c->old[d], c->now[d], row->exp[d],
				     c->len);
		}
	}
}

void stripe_parity(const struct stripe_calc *c, enum stripe_method method)
{
	const struct geo_row *row = c->row;
	const void *src[RAID_SLOTS_MAX] = {NULL};

	if (!c->made[0] && !c->made[1]) {
		return;
	}
	if (method == STRIPE_RMW) {
		by_difference(c);
		return;
	}
	CHECK(method == STRIPE_FULL || method == STRIPE_RCW || method == STRIPE_RECOVER);
	for (uint32_t d = 0; d < row->data; d++) {
		src[row->exp[d]] = c->now[d] ? c->now[d] : c->old[d];
	}
	parity_pq(c->made[0], c->parity > 1 ? c->made[1] : NULL, src, row->exps, c->len);
}
