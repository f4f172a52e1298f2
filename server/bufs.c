/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/bufs.h"

#include <string.h>

#include "raid/base/bytes.h"
#include "raid/types.h"

enum { PAYLOAD_BYTES_MIN = 8 << 20, LARGE_BYTES_MIN = 64 << 20 };

static uint64_t region_bytes(uint64_t wanted, uint64_t least)
{
	uint64_t bytes = least;

	while (bytes < ARENA_BYTES_MAX && bytes * 2 <= wanted) {
		bytes *= 2;
	}
	return bytes;
}

int bufs_init(struct bufs *b, uint64_t payload_bytes, uint64_t large_bytes)
{
	int res;

	memset(b, 0, sizeof *b);
	res = arena_create(&b->payload, NULL, region_bytes(payload_bytes, PAYLOAD_BYTES_MIN));
	if (res < 0) {
		return res;
	}
	res = arena_create(&b->large, NULL, region_bytes(large_bytes, LARGE_BYTES_MIN));
	if (res < 0) {
		arena_destroy(&b->payload);
		return res;
	}
	b->payload_budget.total = b->payload.bytes;
	return 0;
}

void bufs_free(struct bufs *b)
{
	CHECK(b->payload_budget.used == 0);
	arena_destroy(&b->payload);
	arena_destroy(&b->large);
}

uint64_t bufs_payload_cost(uint64_t addr, uint64_t len)
{
	return round_up_u64(addr % RAID_PAGE_BYTES + len, ARENA_UNIT_BYTES);
}

void *bufs_payload_get(struct bufs *b, uint64_t addr, uint64_t len, uint64_t held)
{
	uint64_t cost = bufs_payload_cost(addr, len);
	uint8_t *buf;

	if (!budget_allows(&b->payload_budget, held, cost)) {
		return NULL;
	}
	buf = arena_get(&b->payload, cost);
	if (!buf) {
		return NULL; /* enough bytes, but in pieces */
	}
	budget_take(&b->payload_budget, cost);
	return buf + addr % RAID_PAGE_BYTES;
}

void bufs_payload_put(struct bufs *b, void *slot, uint64_t addr, uint64_t len)
{
	uint8_t *buf = (uint8_t *)slot - addr % RAID_PAGE_BYTES;

	CHECK((uintptr_t)buf % ARENA_UNIT_BYTES == 0);
	arena_put(&b->payload, buf);
	budget_put(&b->payload_budget, bufs_payload_cost(addr, len));
}

void *bufs_large_get(struct bufs *b, uint64_t len)
{
	return arena_get(&b->large, len);
}

void bufs_large_put(struct bufs *b, void *buf)
{
	arena_put(&b->large, buf);
}
