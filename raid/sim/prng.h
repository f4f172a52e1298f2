/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only source of chance in the simulator: xoshiro256** seeded through splitmix64. One seed
 * gives one run, on every machine and compiler.
 */
#ifndef RAID_SIM_PRNG_H
#define RAID_SIM_PRNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prng {
	uint64_t s[4];
};

void prng_seed(struct prng *p, uint64_t seed);
uint64_t prng_next(struct prng *p);

/* 0 … n-1; n > 0. */
uint64_t prng_below(struct prng *p, uint64_t n);

/* lo … hi, both included. */
uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi);

/* Like prng_range(), but every order of magnitude is as likely as any other; lo > 0. */
uint64_t prng_log_range(struct prng *p, uint64_t lo, uint64_t hi);

/* True once in `in` draws, on average. */
bool prng_one_in(struct prng *p, uint64_t in);

/* Index of a weight, drawn in proportion to the weights. */
size_t prng_weighted(struct prng *p, const uint32_t *weights, size_t count);

void prng_fill(struct prng *p, void *buf, size_t len);

#endif
