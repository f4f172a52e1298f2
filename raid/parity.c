/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parity arithmetic on ISA-L. Its xor_gen and pq_gen are the fast ways and are taken where their
 * preconditions hold (two sources at least, none missing in between); everything else is a linear
 * combination of blocks with constant coefficients, which is ISA-L's erasure code.
 *
 * ISA-L's traps: int lengths; results are stored past the cache with aligned stores; the tables of
 * ec_init_tables() are of a form that only ec_encode_data() of the same library understands.
 * In place: xor_gen may write to a source, since each variant has read all sources at an offset
 * before it writes there. Nothing else here relies on that.
 */
#include "raid/parity.h"

#include <stdbool.h>
#include <string.h>

#include <isa-l.h>

#include "raid/base/check.h"

enum { TERMS_MAX = PARITY_SOURCES_MAX + 2, TABLE_BYTES = 32, RESULTS_MAX = 2, GENERATOR = 2 };

/* Up to two results as sums of coefficient times block. */
struct sum {
	uint32_t terms;
	uint8_t coef[RESULTS_MAX][TERMS_MAX];
	uint8_t *block[TERMS_MAX];
};

static void check_len(size_t len)
{
	CHECK(len && len <= PARITY_BYTES_MAX && len % PARITY_ALIGN_BYTES == 0);
}

static void check_aligned(const void *block)
{
	CHECK((uintptr_t)block % PARITY_ALIGN_BYTES == 0);
}

/* ISA-L's arguments are not const, also those that it only reads. */
static void *unconst(const void *block)
{
	check_aligned(block);
	return (void *)(uintptr_t)block;
}

/* ---- GF(2^8) ------------------------------------------------------------------------------- */

static uint8_t power(uint32_t exponent)
{
	uint8_t x = 1;

	while (exponent--) {
		x = gf_mul(x, GENERATOR);
	}
	return x;
}

/* ---- sums ---------------------------------------------------------------------------------- */

static void sum_add(struct sum *s, const void *block, uint8_t first, uint8_t second)
{
	CHECK(s->terms < TERMS_MAX);
	s->block[s->terms] = unconst(block);
	s->coef[0][s->terms] = first;
	s->coef[1][s->terms] = second;
	s->terms++;
}

/* Results that are not wanted are NULL. */
static void sum_compute(const struct sum *s, void *first, void *second, size_t len)
{
	uint8_t matrix[RESULTS_MAX * TERMS_MAX], tables[RESULTS_MAX * TERMS_MAX * TABLE_BYTES];
	void *const wanted[RESULTS_MAX] = {first, second};
	uint8_t *to[RESULTS_MAX], *block[TERMS_MAX];
	int rows = 0;

	for (uint32_t r = 0; r < RESULTS_MAX; r++) {
		if (!wanted[r]) {
			continue;
		}
		check_aligned(wanted[r]);
		if (!s->terms) {
			memset(wanted[r], 0, len);
			continue;
		}
		memcpy(matrix + (uint32_t)rows * s->terms, s->coef[r], s->terms);
		to[rows++] = wanted[r];
	}
	if (!rows) {
		return;
	}
	memcpy(block, s->block, s->terms * sizeof *block);
	ec_init_tables((int)s->terms, rows, matrix, tables);
	ec_encode_data((int)len, (int)s->terms, rows, tables, block, to);
}

/* ---- P and Q ------------------------------------------------------------------------------- */

void parity_xor(void *dst, const void *const *src, uint32_t n, size_t len)
{
	void *block[PARITY_SOURCES_MAX + 1];
	int used = 0;

	check_len(len);
	check_aligned(dst);
	CHECK(n <= PARITY_SOURCES_MAX);
	for (uint32_t i = 0; i < n; i++) {
		if (src[i]) {
			block[used++] = unconst(src[i]);
		}
	}
	if (!used) {
		memset(dst, 0, len);
	} else if (used == 1) {
		memmove(dst, block[0], len);
	} else {
		block[used] = dst;
		CHECK(xor_gen(used + 1, (int)len, block) == 0);
	}
}

/* All there, and as many as pq_gen wants? */
static bool suits_pq_gen(const void *const *src, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!src[i]) {
			return false;
		}
	}
	return n >= 2;
}

void parity_pq(void *p, void *q, const void *const *src, uint32_t n, size_t len)
{
	struct sum s = {.terms = 0};
	uint8_t g = 1;

	check_len(len);
	CHECK(n <= PARITY_SOURCES_MAX);
	if (!q) {
		if (p) {
			parity_xor(p, src, n, len);
		}
		return;
	}
	if (p && suits_pq_gen(src, n)) {
		void *block[PARITY_SOURCES_MAX + 2];

		for (uint32_t i = 0; i < n; i++) {
			block[i] = unconst(src[i]);
		}
		block[n] = unconst(p);
		block[n + 1] = unconst(q);
		CHECK(pq_gen((int)n + 2, (int)len, block) == 0);
		return;
	}
	for (uint32_t i = 0; i < n; i++, g = gf_mul(g, GENERATOR)) {
		if (src[i]) {
			sum_add(&s, src[i], 1, g);
		}
	}
	sum_compute(&s, p, q, len);
}

void parity_delta(void *p, void *q, const void *before, const void *after, uint32_t exponent,
		  size_t len)
{
	const void *const change[] = {before, after};
	uint8_t matrix[RESULTS_MAX], tables[RESULTS_MAX * TABLE_BYTES], *to[RESULTS_MAX];
	int rows = 0;

	check_len(len);
	CHECK(exponent < PARITY_SOURCES_MAX);
	if (!q) {
		if (p) {
			parity_xor(p, (const void *const[]){p, before, after}, 3, len);
		}
		return;
	}
	if (p) {
		matrix[rows] = 1;
		to[rows++] = unconst(p);
	}
	matrix[rows] = power(exponent);
	to[rows++] = unconst(q);
	ec_init_tables(1, rows, matrix, tables);
	/* Page by page, so that the second pass finds P and Q in the nearest cache. */
	for (size_t at = 0; at < len;) {
		size_t now = len - at < RAID_PAGE_BYTES ? len - at : RAID_PAGE_BYTES;

		for (uint32_t i = 0; i < 2; i++) {
			if (change[i]) {
				uint8_t *block = unconst(change[i]);

				ec_encode_data_update((int)now, 1, rows, 0, tables, block + at, to);
			}
		}
		at += now;
		for (int r = 0; r < rows; r++) {
			to[r] += now;
		}
	}
}

/* ---- what is lost -------------------------------------------------------------------------- */

/* Data block x out of Q, and P with it: x = g^-x (Q + sum of the others in Q). */
static void recover_by_q(uint32_t x, void *to, void *p, const void *q, const void *const *src,
			 uint32_t n, size_t len)
{
	struct sum s = {.terms = 0};
	uint8_t back = gf_inv(power(x)), g = back; /* g^(i - x) */

	for (uint32_t i = 0; i < n; i++, g = gf_mul(g, GENERATOR)) {
		if (src[i] && i != x) {
			sum_add(&s, src[i], g, g ^ 1);
		}
	}
	sum_add(&s, q, back, back);
	sum_compute(&s, to, p, len);
}

/* Data block x out of P and Q with it: x = P + sum of the others. */
static void recover_with_q(uint32_t x, void *to, void *q, const void *p, const void *const *src,
			   uint32_t n, size_t len)
{
	struct sum s = {.terms = 0};
	uint8_t gx = power(x), g = 1;

	for (uint32_t i = 0; i < n; i++, g = gf_mul(g, GENERATOR)) {
		if (src[i] && i != x) {
			sum_add(&s, src[i], 1, g ^ gx);
		}
	}
	sum_add(&s, p, 1, gx);
	sum_compute(&s, to, q, len);
}

/*
 * Data blocks x < y. With the sums of what is there P' and Q': x + y = P + P' and
 * g^x x + g^y y = Q + Q', so x = a (P + P') + b (Q + Q') and y = x + P + P', where
 * a = g^(y-x) / (g^(y-x) + 1) and b = g^-x / (g^(y-x) + 1).
 */
static void recover_two(uint32_t x, void *to_x, uint32_t y, void *to_y, const void *p,
			const void *q, const void *const *src, uint32_t n, size_t len)
{
	struct sum s = {.terms = 0};
	uint8_t ratio = power(y - x), below = gf_inv(ratio ^ 1);
	uint8_t a = gf_mul(ratio, below), b = gf_mul(gf_inv(power(x)), below), g = 1;

	for (uint32_t i = 0; i < n; i++, g = gf_mul(g, GENERATOR)) {
		if (src[i] && i != x && i != y) {
			uint8_t c = a ^ gf_mul(b, g);

			sum_add(&s, src[i], c, c ^ 1);
		}
	}
	sum_add(&s, p, a, a ^ 1);
	sum_add(&s, q, b, b);
	sum_compute(&s, to_x, to_y, len);
}

/* One data block and nothing else: by P it is no more than an xor. */
static void recover_one(uint32_t x, void *to, const void *p, const void *q, const void *const *src,
			uint32_t n, size_t len)
{
	const void *block[PARITY_SOURCES_MAX];

	if (!p) {
		CHECK(q);
		recover_by_q(x, to, NULL, q, src, n, len);
		return;
	}
	memcpy(block, src, n * sizeof *block);
	block[x] = p;
	parity_xor(to, block, n, len);
}

void parity_recover(const struct parity_lost *lost, uint32_t count, const void *p, const void *q,
		    const void *const *src, uint32_t n, size_t len)
{
	uint32_t x[2], data = 0;
	void *to[2], *to_p = NULL, *to_q = NULL;

	check_len(len);
	CHECK(count >= 1 && count <= 2 && n <= PARITY_SOURCES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (lost[i].what == PARITY_P) {
			CHECK(!to_p);
			to_p = lost[i].to;
		} else if (lost[i].what == PARITY_Q) {
			CHECK(!to_q);
			to_q = lost[i].to;
		} else {
			CHECK(lost[i].what < n);
			x[data] = lost[i].what;
			to[data++] = lost[i].to;
		}
	}
	if (!data) {
		parity_pq(to_p, to_q, src, n, len);
	} else if (data == 2) {
		bool sorted = x[0] < x[1];

		CHECK(p && q && x[0] != x[1]);
		recover_two(x[!sorted], to[!sorted], x[sorted], to[sorted], p, q, src, n, len);
	} else if (to_p) {
		CHECK(q);
		recover_by_q(x[0], to[0], to_p, q, src, n, len);
	} else if (to_q) {
		CHECK(p);
		recover_with_q(x[0], to[0], to_q, p, src, n, len);
	} else {
		recover_one(x[0], to[0], p, q, src, n, len);
	}
}

/* ---- what is wrong ------------------------------------------------------------------------- */

/* The exponent whose block differs by dp where it makes P differ by dp and Q by dq; n if none. */
static uint32_t exponent_of(uint8_t dp, uint8_t dq, const void *const *src, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, dp = gf_mul(dp, GENERATOR)) {
		if (dp == dq) {
			return src[i] ? i : n;
		}
	}
	return n;
}

/* dp and dq are how much P and Q are off: the verdict if all bytes agree. */
static enum parity_verdict judge(const uint8_t *dp, const uint8_t *dq, const void *const *src,
				 uint32_t n, uint32_t *exponent)
{
	enum parity_verdict verdict = PARITY_FINE;
	uint8_t g = 1;

	for (uint32_t i = 0; i < RAID_PAGE_BYTES; i++) {
		enum parity_verdict this = !dp[i]   ? PARITY_Q_WRONG
					   : !dq[i] ? PARITY_P_WRONG
						    : PARITY_DATA_WRONG;

		if (!dp[i] && !dq[i]) {
			continue;
		}
		if (verdict != PARITY_FINE && this != verdict) {
			return PARITY_UNKNOWN;
		}
		if (verdict == PARITY_FINE && this == PARITY_DATA_WRONG) {
			*exponent = exponent_of(dp[i], dq[i], src, n);
			if (*exponent == n) {
				return PARITY_UNKNOWN;
			}
			g = power(*exponent);
		}
		verdict = this;
		if (verdict == PARITY_DATA_WRONG && gf_mul(dp[i], g) != dq[i]) {
			return PARITY_UNKNOWN;
		}
	}
	return verdict;
}

enum parity_verdict parity_locate(const void *p, const void *q, const void *const *src, uint32_t n,
				  uint32_t *exponent)
{
	_Alignas(PARITY_ALIGN_BYTES) uint8_t dp[RAID_PAGE_BYTES], dq[RAID_PAGE_BYTES];

	parity_pq(dp, q ? dq : NULL, src, n, RAID_PAGE_BYTES);
	if (!memcmp(dp, p, RAID_PAGE_BYTES) && (!q || !memcmp(dq, q, RAID_PAGE_BYTES))) {
		return PARITY_FINE;
	}
	if (!q) {
		return PARITY_UNKNOWN;
	}
	parity_xor(dp, (const void *const[]){dp, p}, 2, RAID_PAGE_BYTES);
	parity_xor(dq, (const void *const[]){dq, q}, 2, RAID_PAGE_BYTES);
	return judge(dp, dq, src, n, exponent);
}
