/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/prng.h"

#include <string.h>

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

void prng_seed(struct prng *p, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = (seed += 0x9e3779b97f4a7c15);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
		p->s[i] = z ^ (z >> 31);
	}
}

uint64_t prng_next(struct prng *p)
{
	uint64_t *s = p->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t prng_below(struct prng *p, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)prng_next(p) * n) >> 64);
}

uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi)
{
	return lo + prng_below(p, hi - lo + 1);
}

uint64_t prng_log_range(struct prng *p, uint64_t lo, uint64_t hi)
{
	uint32_t doublings = 0;
	uint64_t from, to;

	while ((lo << (doublings + 1)) <= hi && doublings < 62) {
		doublings++;
	}
	from = lo << prng_below(p, doublings + 1);
	to = from * 2 - 1;
	return prng_range(p, from, to < hi ? to : hi);
}

bool prng_one_in(struct prng *p, uint64_t in)
{
	return prng_below(p, in) == 0;
}

size_t prng_weighted(struct prng *p, const uint32_t *weights, size_t count)
{
	uint64_t sum = 0, x;

	for (size_t i = 0; i < count; i++) {
		sum += weights[i];
	}
	x = prng_below(p, sum);
	for (size_t i = 0; i < count; i++) {
		if (x < weights[i]) {
			return i;
		}
		x -= weights[i];
	}
	return count - 1;
}

void prng_fill(struct prng *p, void *buf, size_t len)
{
	uint8_t *b = buf;

	while (len > 0) {
		uint64_t v = prng_next(p);
		size_t n = len < sizeof v ? len : sizeof v;

		memcpy(b, &v, n);
		b += n;
		len -= n;
	}
}
