/* SPDX-License-Identifier: BSD-3-Clause */
/* raid_check() of the bitmap. */
#include "raid/core.h"

enum { ALL_BITS = 1 << 14 /* of larger bitmaps the sums are not verified */ };

uint32_t intent_in_flight(const struct core *c, uint32_t m)
{
	const struct intent *n = &c->intent;
	uint32_t out = 0;

	for (uint32_t k = 0; m < n->members && k < INTENT_LANES; k++) {
		out += n->member[m].io[k].slot->state == SLOT_OUT;
	}
	return out;
}

static const char *check_bits(const struct intent *n)
{
	uint64_t set = 0, needed = 0, idle = 0, ripe = 0;

	for (uint64_t bit = 0; bit < n->bits; bit++) {
		uint16_t count = n->count[bit] & INTENT_COUNT_MAX;
		bool is_set = bm_get(n->set, bit), is_needed = bm_get(n->needed, bit);

		if (is_set != (count != 0) || (is_needed && !is_set)) {
			return "a chunk's count does not fit its bits";
		}
		if (n->count[bit] & INTENT_AGAIN && !is_needed) {
			return "a chunk needs another resync but none";
		}
		if (is_set != bm_get(n->durable, bit) && !bm_get(n->changed, bm_page_of(bit)) &&
		    !bm_get(n->in_lane, bm_page_of(bit))) {
			return "a bit is not on the members, and nobody writes it";
		}
		set += is_set;
		needed += is_needed;
		idle += is_set && !is_needed && count <= INTENT_COUNT_IDLE;
		ripe += is_set && !is_needed && count == 1;
	}
	return set == n->set_count && needed == n->needed_count && idle == n->idle_count &&
			       ripe == n->ripe_count
		       ? NULL
		       : "chunks are miscounted";
}

static const char *check_lanes(const struct core *c)
{
	const struct intent *n = &c->intent;
	uint32_t out = 0;

	for (uint32_t k = 0; k < INTENT_LANES; k++) {
		uint32_t waited = 0;

		for (uint32_t i = 0; i < n->members; i++) {
			const struct intent_io *io = &n->member[i].io[k];

			waited += io->waited;
			if (io->waited && io->slot->state == SLOT_FREE) {
				return "a page is waited for and not out";
			}
		}
		if (waited != n->lane[k].out || n->lane[k].busy != (waited != 0)) {
			return "ios of a page are miscounted";
		}
		if (n->lane[k].busy && !bm_get(n->in_lane, n->lane[k].page)) {
			return "a page is out and could go out again";
		}
		out += waited;
	}
	return out == n->out ? NULL : "ios of the bitmap are miscounted";
}

const char *intent_check(const struct core *c)
{
	const struct intent *n = &c->intent;
	const struct ask_intent *a;
	const char *wrong;

	if (n->state == INTENT_NONE) {
		return n->needed_count || n->sweep != SWEEP_IDLE || !list_empty(&n->waiting)
			       ? "there is no bitmap, and something is left of it"
			       : NULL;
	}
	list_for_each_entry (a, &n->waiting, link) {
		if (intent_durable(c, a)) {
			return "a write waits for bits that are durable";
		}
	}
	wrong = check_lanes(c);
	return wrong || n->bits > ALL_BITS ? wrong : check_bits(n);
}
