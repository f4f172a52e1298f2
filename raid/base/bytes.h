/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Byte order and address arithmetic. Loads and stores take any alignment, so that a format
 * is read field by field from a byte buffer and never through a cast struct.
 */
#ifndef RAID_BASE_BYTES_H
#define RAID_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BYTES_ACCESS(bits, order)                                                                  \
	static inline uint##bits##_t get_##order##bits(const void *p)                              \
	{                                                                                          \
		uint##bits##_t v;                                                                  \
		memcpy(&v, p, sizeof v);                                                           \
		return order##bits##toh(v);                                                        \
	}                                                                                          \
	static inline void put_##order##bits(void *p, uint##bits##_t v)                            \
	{                                                                                          \
		v = hto##order##bits(v);                                                           \
		memcpy(p, &v, sizeof v);                                                           \
	}

BYTES_ACCESS(16, le)
BYTES_ACCESS(32, le)
BYTES_ACCESS(64, le)
BYTES_ACCESS(16, be)
BYTES_ACCESS(32, be)
BYTES_ACCESS(64, be)

#undef BYTES_ACCESS

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* unit need not be a power of two. */
static inline uint64_t round_down_u64(uint64_t v, uint64_t unit)
{
	return v - v % unit;
}

static inline uint64_t round_up_u64(uint64_t v, uint64_t unit)
{
	return round_down_u64(v + unit - 1, unit);
}

static inline bool is_pow2_u64(uint64_t v)
{
	return v && !(v & (v - 1));
}

#endif
