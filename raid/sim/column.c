/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/column.h"

#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { WORDS = RAID_SECTOR_BYTES / 8 };

static uint8_t power[255]; /* of the generator 2 */
static uint8_t logarithm[256];

static void make_tables(void)
{
	uint32_t x = 1;

	for (uint32_t i = 0; i < 255 && !power[254]; i++) {
		logarithm[x] = (uint8_t)i;
		power[i] = (uint8_t)x;
		x = x << 1 ^ (x & 0x80 ? 0x11d : 0);
	}
}

static uint8_t times(uint8_t a, uint8_t b)
{
	return a && b ? power[(logarithm[a] + logarithm[b]) % 255] : 0;
}

static uint8_t over(uint8_t a, uint8_t b)
{
	return a ? power[(logarithm[a] + 255 - logarithm[b]) % 255] : 0;
}

/* Eight bytes at once, each by 2. */
static uint64_t twice(uint64_t v)
{
	uint64_t high = v & 0x8080808080808080;

	return (v & ~high) << 1 ^ (high >> 7) * 0x1d;
}

/* Sums over the data blocks that are there. */
static void sums(const struct column *c, uint64_t p[WORDS], uint64_t q[WORDS])
{
	const uint8_t *by_exp[256] = {NULL};

	memset(p, 0, RAID_SECTOR_BYTES);
	memset(q, 0, RAID_SECTOR_BYTES);
	for (uint32_t d = 0; d < c->row->data; d++) {
		by_exp[c->row->exp[d]] = c->data[d];
		for (int i = 0; c->data[d] && i < WORDS; i++) {
			p[i] ^= get_le64(c->data[d] + 8 * i);
		}
	}
	if (!c->q) {
		return;
	}
	for (uint32_t e = c->row->exps; e-- > 0;) {
		for (int i = 0; i < WORDS; i++) {
			q[i] = twice(q[i]) ^ (by_exp[e] ? get_le64(by_exp[e] + 8 * i) : 0);
		}
	}
}

static void store(uint8_t *to, const uint64_t *words)
{
	for (int i = 0; i < WORDS; i++) {
		put_le64(to + 8 * i, words[i]);
	}
}

/* Words as the bytes on disk are: get_le64() and put_le64() see to that. */
static bool equals(const uint8_t *bytes, const uint64_t *words)
{
	for (int i = 0; i < WORDS; i++) {
		if (get_le64(bytes + 8 * i) != words[i]) {
			return false;
		}
	}
	return true;
}

static enum column_verdict solve_one(const struct column *c, uint32_t x, const uint64_t *p,
				     const uint64_t *q, uint8_t *made)
{
	uint8_t sum_p[RAID_SECTOR_BYTES], sum_q[RAID_SECTOR_BYTES], g = power[c->row->exp[x]];

	store(sum_p, p);
	store(sum_q, q);
	for (uint32_t i = 0; i < RAID_SECTOR_BYTES; i++) {
		made[i] = c->p ? c->p[i] ^ sum_p[i] : over(c->q[i] ^ sum_q[i], g);
	}
	for (uint32_t i = 0; c->p && c->q && i < RAID_SECTOR_BYTES; i++) {
		if ((uint8_t)(sum_q[i] ^ times(g, made[i])) != c->q[i]) {
			return COLUMN_WRONG;
		}
	}
	return COLUMN_RIGHT;
}

static void solve_two(const struct column *c, uint32_t x, uint32_t y, const uint64_t *p,
		      const uint64_t *q, uint8_t made[][RAID_SECTOR_BYTES])
{
	uint8_t sum_p[RAID_SECTOR_BYTES], sum_q[RAID_SECTOR_BYTES];
	uint8_t gx = power[c->row->exp[x]], gy = power[c->row->exp[y]];

	store(sum_p, p);
	store(sum_q, q);
	for (uint32_t i = 0; i < RAID_SECTOR_BYTES; i++) {
		uint8_t both = c->p[i] ^ sum_p[i];  /* x + y */
		uint8_t mixed = c->q[i] ^ sum_q[i]; /* gx x + gy y */

		made[x][i] = over(mixed ^ times(gy, both), gx ^ gy);
		made[y][i] = both ^ made[x][i];
	}
}

enum column_verdict column_solve(const struct column *c, uint8_t made[][RAID_SECTOR_BYTES])
{
	uint32_t missing[RAID_SLOTS_MAX], n = 0;
	uint64_t p[WORDS], q[WORDS];

	make_tables();
	for (uint32_t d = 0; d < c->row->data; d++) {
		if (!c->data[d]) {
			missing[n++] = d;
		}
	}
	if (n > (c->p ? 1u : 0u) + (c->q ? 1u : 0u)) {
		return COLUMN_LOST;
	}
	sums(c, p, q);
	if (n == 1) {
		return solve_one(c, missing[0], p, q, made[missing[0]]);
	}
	if (n == 2) {
		solve_two(c, missing[0], missing[1], p, q, made);
		return COLUMN_RIGHT;
	}
	return (c->p && !equals(c->p, p)) || (c->q && !equals(c->q, q)) ? COLUMN_WRONG
									: COLUMN_RIGHT;
}

void column_parity(const struct column *c, uint8_t *p, uint8_t *q)
{
	struct column want = *c;
	uint64_t sum_p[WORDS], sum_q[WORDS];

	make_tables();
	want.q = q; /* asks for it */
	sums(&want, sum_p, sum_q);
	store(p, sum_p);
	if (q) {
		store(q, sum_q);
	}
}
