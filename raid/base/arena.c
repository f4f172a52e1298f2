/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buddy allocator. Owns the division of one region; never looks into the region itself.
 *
 * Invariants (arena_check):
 *  - tag[u] says what begins at unit u: a free block and its order, a buffer, or nothing.
 *  - Free blocks and buffers tile the region without gap or overlap. A block of order k begins at
 *    a multiple of 2^k.
 *  - A free block is on the list of its order and on no other; free_orders has a bit for each
 *    list that is not empty.
 *  - Two buddies are never both free: they would have been merged.
 */
#include "raid/base/arena.h"

#include <errno.h>
#include <stdlib.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define NONE UINT32_MAX

enum {
	TAG_INSIDE = 0, /* nothing begins here */
	TAG_USED = 0x40,
	TAG_FREE = 0x80, /* | order */
};

struct arena_node {
	uint32_t next, prev; /* free block: neighbours on its list */
	uint32_t units;	     /* buffer: its length */
};

STATIC_CHECK((uint64_t)ARENA_UNIT_BYTES << (ARENA_ORDERS - 1) == ARENA_BYTES_MAX,
	     "the largest order is the largest region");

static uint32_t units_of(uint64_t bytes)
{
	return (uint32_t)((bytes + ARENA_UNIT_BYTES - 1) / ARENA_UNIT_BYTES);
}

/* Smallest order whose block holds that many units (≥ 1). */
static unsigned order_of(uint32_t units)
{
	return units == 1 ? 0 : 32 - (unsigned)__builtin_clz(units - 1);
}

static void list_add(struct arena *a, uint32_t unit, unsigned order)
{
	uint32_t first = a->free[order];

	a->tag[unit] = (uint8_t)(TAG_FREE | order);
	a->node[unit].prev = NONE;
	a->node[unit].next = first;
	if (first != NONE) {
		a->node[first].prev = unit;
	}
	a->free[order] = unit;
	a->free_orders |= 1u << order;
}

static void list_remove(struct arena *a, uint32_t unit, unsigned order)
{
	uint32_t next = a->node[unit].next, prev = a->node[unit].prev;

	a->tag[unit] = TAG_INSIDE;
	if (next != NONE) {
		a->node[next].prev = prev;
	}
	if (prev != NONE) {
		a->node[prev].next = next;
	} else {
		a->free[order] = next;
		if (next == NONE) {
			a->free_orders &= ~(1u << order);
		}
	}
}

/* Free one aligned power-of-two block, merging it with its buddy as often as possible. */
static void free_block(struct arena *a, uint32_t unit, unsigned order)
{
	for (;;) {
		uint32_t buddy = unit ^ (1u << order);

		if (buddy >= a->units || a->tag[buddy] != (TAG_FREE | order)) {
			break;
		}
		list_remove(a, buddy, order);
		unit &= ~(1u << order);
		order++;
	}
	list_add(a, unit, order);
}

int arena_create(struct arena *a, void *region, uint64_t bytes)
{
	*a = (struct arena){0};
	if (!is_pow2_u64(bytes) || bytes < ARENA_UNIT_BYTES || bytes > ARENA_BYTES_MAX ||
	    (uintptr_t)region % ARENA_UNIT_BYTES) {
		return -EINVAL;
	}
	a->bytes = bytes;
	a->units = (uint32_t)(bytes / ARENA_UNIT_BYTES);
	a->own_region = !region;
	a->base = region ? region : aligned_alloc(ARENA_UNIT_BYTES, bytes);
	a->node = calloc(a->units, sizeof *a->node);
	a->tag = calloc(a->units, sizeof *a->tag);
	if (!a->base || !a->node || !a->tag) {
		arena_destroy(a);
		return -ENOMEM;
	}
	for (unsigned k = 0; k < ARENA_ORDERS; k++) {
		a->free[k] = NONE;
	}
	list_add(a, 0, order_of(a->units));
	POISON(a->base, a->bytes);
	return 0;
}

void arena_destroy(struct arena *a)
{
	CHECK(!a->used_bytes);
	if (a->base) {
		UNPOISON(a->base, a->bytes);
	}
	if (a->own_region) {
		free(a->base);
	}
	free(a->node);
	free(a->tag);
	*a = (struct arena){0};
}

uint64_t arena_overhead_bytes(uint64_t bytes)
{
	return units_of(bytes) * (sizeof(struct arena_node) + sizeof(uint8_t));
}

bool arena_has(const struct arena *a, uint64_t bytes)
{
	CHECK(bytes);
	return bytes <= a->bytes && a->free_orders >> order_of(units_of(bytes));
}

void *arena_get(struct arena *a, uint64_t bytes)
{
	uint32_t units, unit, end;
	unsigned order;

	if (!arena_has(a, bytes)) {
		return NULL;
	}
	units = units_of(bytes);
	order = order_of(units);
	order += (unsigned)__builtin_ctz(a->free_orders >> order);
	unit = a->free[order];
	list_remove(a, unit, order);

	/* Halve for as long as the lower half holds the buffer … */
	while (order && 1u << (order - 1) >= units) {
		order--;
		list_add(a, unit + (1u << order), order);
	}
	/* … then give back the tail of a buffer that is no power of two, cut at its alignment: each
	 * piece ends inside the block, whose own alignment is larger than that of any unit in it.
	 */
	end = unit + (1u << order);
	for (uint32_t at = unit + units, piece; at < end; at += 1u << piece) {
		piece = (uint32_t)__builtin_ctz(at);
		list_add(a, at, piece);
	}

	a->tag[unit] = TAG_USED;
	a->node[unit].units = units;
	a->used_bytes += (uint64_t)units * ARENA_UNIT_BYTES;
	a->high_bytes = max_u64(a->high_bytes, a->used_bytes);
	UNPOISON(a->base + (uint64_t)unit * ARENA_UNIT_BYTES, (uint64_t)units * ARENA_UNIT_BYTES);
	return a->base + (uint64_t)unit * ARENA_UNIT_BYTES;
}

void arena_put(struct arena *a, void *buf)
{
	uint64_t offset = (uint64_t)((uint8_t *)buf - a->base);
	uint32_t unit = (uint32_t)(offset / ARENA_UNIT_BYTES), units;

	CHECK((uint8_t *)buf >= a->base && offset < a->bytes && offset % ARENA_UNIT_BYTES == 0);
	CHECK(a->tag[unit] == TAG_USED);
	units = a->node[unit].units;
	POISON(buf, (uint64_t)units * ARENA_UNIT_BYTES);
	a->used_bytes -= (uint64_t)units * ARENA_UNIT_BYTES;
	a->tag[unit] = TAG_INSIDE;
	/* The buffer is one block for each bit of its length, largest first. Each is freed before
	 * the ones behind it; the last, smallest one finds its buddy and collects the others. */
	while (units) {
		unsigned piece = 31 - (unsigned)__builtin_clz(units);

		free_block(a, unit, piece);
		unit += 1u << piece;
		units -= 1u << piece;
	}
}

static const char *check_lists(const struct arena *a, uint32_t *listed)
{
	*listed = 0;
	for (unsigned k = 0; k < ARENA_ORDERS; k++) {
		uint32_t prev = NONE;

		if ((a->free[k] != NONE) != (a->free_orders >> k & 1)) {
			return "arena: free_orders disagrees with a list";
		}
		for (uint32_t u = a->free[k]; u != NONE; u = a->node[u].next) {
			if (u >= a->units || a->tag[u] != (TAG_FREE | k)) {
				return "arena: a listed block is not free or of another order";
			}
			if (a->node[u].prev != prev) {
				return "arena: a free list is not linked both ways";
			}
			if (++*listed > a->units) {
				return "arena: a free list is a ring";
			}
			prev = u;
		}
	}
	return NULL;
}

const char *arena_check(const struct arena *a)
{
	uint32_t listed, found = 0;
	uint64_t used = 0;
	const char *wrong = check_lists(a, &listed);

	if (wrong) {
		return wrong;
	}
	for (uint32_t u = 0, len; u < a->units; u += len) {
		if (a->tag[u] == TAG_USED) {
			len = a->node[u].units;
			used += (uint64_t)len * ARENA_UNIT_BYTES;
		} else if (a->tag[u] & TAG_FREE) {
			unsigned order = a->tag[u] & ~TAG_FREE;

			if (order >= ARENA_ORDERS) {
				return "arena: impossible order";
			}
			len = 1u << order;
			found++;
			if (u % len) {
				return "arena: a free block is not aligned to its size";
			}
			if ((u ^ len) < a->units && a->tag[u ^ len] == a->tag[u]) {
				return "arena: two free buddies are not merged";
			}
		} else {
			return "arena: a gap between blocks";
		}
		if (!len || len > a->units - u) {
			return "arena: a block leaves the region";
		}
	}
	if (found != listed) {
		return "arena: a free block is on no list";
	}
	if (used != a->used_bytes || used > a->high_bytes) {
		return "arena: counters are wrong";
	}
	return NULL;
}
