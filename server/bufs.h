/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A loop's buffers: slots for WRITE payloads on their way to the engine, and space for READ replies
 * that must be complete before their first byte leaves (simple replies and DF of more than one
 * fragment). Both regions are taken once; afterwards nothing allocates. Pure memory, one thread.
 */
#ifndef SERVER_BUFS_H
#define SERVER_BUFS_H

#include <stdint.h>

#include "raid/base/arena.h"
#include "server/budget.h"

struct bufs {
	struct arena payload, large;
	struct budget payload_budget; /* the same bytes as the arena's, with the sharing rule */
};

/* Sizes are rounded down to a power of two (at least 8 MiB and 64 MiB: the largest fragment, the
 * largest READ). 0 or -ENOMEM. */
int bufs_init(struct bufs *b, uint64_t payload_bytes, uint64_t large_bytes);

/* Legal only when everything has been put. */
void bufs_free(struct bufs *b);

/* What a slot for len bytes of array address addr costs its budget. */
uint64_t bufs_payload_cost(uint64_t addr, uint64_t len);

/*
 * A slot of len bytes whose address is ≡ addr modulo RAID_PAGE_BYTES, so that the aligned middle
 * can go to disk uncopied. held is what the session's slots cost now. NULL: none for this session
 * now.
 */
void *bufs_payload_get(struct bufs *b, uint64_t addr, uint64_t len, uint64_t held);
void bufs_payload_put(struct bufs *b, void *slot, uint64_t addr, uint64_t len);

/* NULL: not now. */
void *bufs_large_get(struct bufs *b, uint64_t len);
void bufs_large_put(struct bufs *b, void *buf);

#endif
