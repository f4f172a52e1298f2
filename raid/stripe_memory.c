/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many stripes there are, and their memory.
 *
 * Stripes at work take half of what the limits give to buffers, twice: each block as read and as
 * written. As many again are there for each member that may hang and keep what its ios name;
 * memory that is never touched costs nothing.
 */
#include "raid/base/bytes.h"
#include "raid/stripe.h"

enum { STRIPES_MIN = 2, STRIPES_MAX = 256 };

void stripe_shape_of(const struct geometry *g, uint32_t chunk_bytes,
		     const struct raid_limits *limits, struct stripe_shape *s)
{
	uint64_t bytes;

	*s = (struct stripe_shape){
		.parity = g->parity,
		.hold_ns = (uint64_t)limits->merge_hold_us * 1000,
	};
	if (!s->parity) {
		return;
	}
	s->chunk = chunk_bytes;
	s->slots = g->p.slots;
	s->cell = (uint32_t)min_u64(chunk_bytes, STRIPE_CELL_MAX);
	s->subs = s->cell / STRIPE_SUB;
	s->ios = 4 * s->slots; /* two for each slot and each replacement */
	bytes = (uint64_t)s->slots * s->cell;
	s->most = (uint32_t)min_u64(STRIPES_MAX,
				    max_u64(STRIPES_MIN, limits->buffer_bytes / 2 / bytes));
	s->total = s->most * (1 + s->parity);
}

/* The parts of it; without a base they are only measured. */
struct parts {
	struct stripe *stripe;
	struct stripe_kit *kit;
	struct slot *slot;
	struct iovec *iov;
	const uint8_t **from;
	uint16_t *covered;
	uint8_t *blocks;
	uint64_t bytes;
};

static uint8_t *part(uint8_t *base, uint64_t *at, uint64_t bytes, uint64_t align)
{
	uint64_t here = round_up_u64(*at, align);

	*at = here + bytes;
	return base ? base + here : NULL;
}

static struct parts lay_out(const struct stripe_shape *s, uint8_t *base)
{
	uint64_t ios = (uint64_t)s->total * s->ios, subs = (uint64_t)s->total * s->slots * s->subs;
	struct parts p = {0};

	p.stripe = (void *)part(base, &p.bytes, s->total * sizeof *p.stripe, 64);
	p.kit = (void *)part(base, &p.bytes, s->total * sizeof *p.kit, 64);
	p.slot = (void *)part(base, &p.bytes, ios * sizeof *p.slot, 64);
	p.iov = (void *)part(base, &p.bytes, ios * s->subs * sizeof *p.iov, 64);
	p.from = (void *)part(base, &p.bytes, subs * sizeof *p.from, 64);
	p.covered = (void *)part(base, &p.bytes, subs * sizeof *p.covered, 64);
	p.blocks = part(base, &p.bytes, 2 * subs * STRIPE_SUB, RAID_PAGE_BYTES);
	return p;
}

uint64_t stripe_memory_bytes(const struct stripe_shape *s)
{
	return lay_out(s, NULL).bytes;
}

static void create_one(const struct stripe_shape *s, const struct parts *p, uint32_t i)
{
	uint64_t blocks = (uint64_t)s->slots * s->subs;
	struct stripe *st = &p->stripe[i];
	struct stripe_kit *kit = &p->kit[i];

	st->blocks = s->slots;
	list_init(&st->link);
	list_init(&st->active);
	list_init(&st->slots);
	list_init(&st->frags);
	list_init(&st->intent.link);
	st->intent.of_stripe = true;
	range_init(&st->range, RANGE_STRIPE);
	st->covered = p->covered + i * blocks;
	st->from = p->from + i * blocks;
	st->kit = kit;
	kit->old = p->blocks + 2 * i * blocks * STRIPE_SUB;
	kit->now = kit->old + blocks * STRIPE_SUB;
	slot_pool_init(&kit->pool);
	for (uint64_t n = (uint64_t)i * s->ios; n < (uint64_t)(i + 1) * s->ios; n++) {
		slot_pool_add(&kit->pool, &p->slot[n], &p->iov[n * s->subs], s->subs);
	}
}

void stripe_create(struct shard *sh, const struct stripe_shape *s, uint8_t *memory)
{
	struct stripes *ss = &sh->stripes;
	struct parts p = lay_out(s, memory);

	*ss = (struct stripes){
		.parity = s->parity,
		.chunk = s->chunk,
		.cell = s->cell,
		.subs = s->subs,
		.total = s->total,
		.most = s->most,
		.hold_ns = s->hold_ns,
	};
	list_init(&ss->free);
	list_init(&ss->active);
	list_init(&ss->gathering);
	list_init(&ss->dirty);
	list_init(&ss->read_wait);
	list_init(&ss->block_wait);
	for (uint32_t i = 0; i < s->total; i++) {
		create_one(s, &p, i);
		list_append(&ss->free, &p.stripe[i].link);
	}
}
