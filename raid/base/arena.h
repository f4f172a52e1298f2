/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of any size out of one region that is taken once: a bounded buddy allocator.
 *
 * The unit is a page of 4 KiB, the region a power of two of them (at most 1 GiB). A buffer takes
 * exactly the pages it needs: it is carved from the smallest free power-of-two block that holds it
 * and the tail goes back at once, so 1 MiB + 4 KiB costs 257 pages, not 512. A buffer's offset in
 * the region is aligned to the next power of two of its size.
 *
 * After arena_create() nothing allocates, and get and put cost O(log n) for powers of two
 * (O(log² n) for others). The same calls in the same order give the same addresses. Blocks are
 * reused last in, first out, so that a busy loop works in the pages its cache still holds.
 *
 * Bookkeeping lies outside the region: free pages are never touched. Under AddressSanitizer they
 * are poisoned, so that a use after arena_put() is caught.
 */
#ifndef RAID_BASE_ARENA_H
#define RAID_BASE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ARENA_UNIT_BYTES = 4096,
	ARENA_ORDERS = 19,	   /* blocks of 1, 2, 4 … 2^18 units */
	ARENA_BYTES_MAX = 1 << 30, /* 2^18 units */
};

struct arena_node;

/* Read used_bytes and high_bytes freely; the rest is the arena's. */
struct arena {
	uint64_t bytes;	     /* of the region */
	uint64_t used_bytes; /* in buffers now, whole units */
	uint64_t high_bytes; /* the most there ever were */

	uint8_t *base;
	bool own_region;
	uint32_t units;
	uint32_t free_orders; /* bit k: free[k] is not empty */
	uint32_t free[ARENA_ORDERS];
	struct arena_node *node; /* one for each unit */
	uint8_t *tag;
};

/*
 * bytes is a power of two from ARENA_UNIT_BYTES to ARENA_BYTES_MAX. region is that much memory of
 * the caller's, aligned to ARENA_UNIT_BYTES, which outlives the arena; NULL: the arena takes and
 * returns its own. Returns 0, -EINVAL or -ENOMEM.
 */
int arena_create(struct arena *a, void *region, uint64_t bytes);

/* Legal only when every buffer has been put. A zeroed arena may be destroyed too. */
void arena_destroy(struct arena *a);

/* Memory arena_create() takes beside the region. */
uint64_t arena_overhead_bytes(uint64_t bytes);

/* A buffer of bytes ≥ 1, aligned to ARENA_UNIT_BYTES, contents undefined; it may be used up to the
 * end of its last unit. NULL: no free block is large enough now. */
void *arena_get(struct arena *a, uint64_t bytes);

/* Give back what arena_get() returned. */
void arena_put(struct arena *a, void *buf);

/* Would arena_get(bytes) succeed? */
bool arena_has(const struct arena *a, uint64_t bytes);

/* Verify every invariant: NULL, or a static description of the one that does not hold. Time grows
 * with the number of blocks. */
const char *arena_check(const struct arena *a);

#endif
