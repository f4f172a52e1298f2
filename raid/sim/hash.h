/* SPDX-License-Identifier: BSD-3-Clause */
/* A fast hash of bytes, to notice that somebody changed them. */
#ifndef RAID_SIM_HASH_H
#define RAID_SIM_HASH_H

#include <stdint.h>

#include "raid/base/bytes.h"

static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25;
	return h ^ h >> 32;
}

/* Goes on from h, so that several buffers can be hashed as one. */
static inline uint64_t hash_bytes(uint64_t h, const uint8_t *p, uint64_t len)
{
	uint64_t lane[4] = {h, 1, 2, 3};

	for (; len >= 32; p += 32, len -= 32) {
		for (int i = 0; i < 4; i++) {
			lane[i] = hash_mix(lane[i], get_le64(p + 8 * i));
		}
	}
	for (; len > 0; p++, len--) {
		lane[0] = hash_mix(lane[0], *p);
	}
	return hash_mix(hash_mix(hash_mix(lane[0], lane[1]), lane[2]), lane[3]);
}

#endif
