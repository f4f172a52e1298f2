/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * P and Q against an oracle that works byte by byte with its own multiplication: all numbers of
 * sources, blocks left out, every pair of lost blocks, in-place sums, the vectors of md-format §17.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/parity.h"

enum {
	SOURCES = PARITY_SOURCES_MAX,
	LEN_MAX = 8192,
	GUARD = PARITY_ALIGN_BYTES,
	STRIDE = LEN_MAX + GUARD, /* blocks begin at odd multiples of the alignment too */
	PAGE = RAID_PAGE_BYTES,
};

static uint64_t seed = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % below;
}

/* ---- the oracle ---------------------------------------------------------------------------- */

static uint8_t mul(uint8_t a, uint8_t b)
{
	uint8_t r = 0;

	for (; b; b >>= 1) {
		if (b & 1) {
			r ^= a;
		}
		a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
	}
	return r;
}

static void oracle_pq(uint8_t *p, uint8_t *q, const uint8_t *const *src, uint32_t n, size_t len)
{
	for (size_t at = 0; at < len; at++) {
		uint8_t g = 1;

		p[at] = q[at] = 0;
		for (uint32_t i = 0; i < n; i++, g = mul(g, 2)) {
			p[at] ^= src[i] ? src[i][at] : 0;
			q[at] ^= src[i] ? mul(g, src[i][at]) : 0;
		}
	}
}

/* ---- buffers ------------------------------------------------------------------------------- */

static uint8_t *memory; /* SOURCES blocks, then some for results */
static uint8_t want_p[LEN_MAX], want_q[LEN_MAX];
static const uint8_t *src[SOURCES];

enum { P = SOURCES, Q, X, Y, BLOCKS };

static uint8_t *block(uint32_t i)
{
	return memory + (size_t)i * STRIDE;
}

static int setup(void **state)
{
	memory = aligned_alloc(PARITY_ALIGN_BYTES, (size_t)BLOCKS * STRIDE);
	return !memory;
}

static int teardown(void **state)
{
	free(memory);
	return 0;
}

static size_t draw_len(void)
{
	static const size_t few[] = {64, 128, 192, 256, 320, 448, 512, 1024, 4096, LEN_MAX};

	return draw(3) ? few[draw(sizeof few / sizeof *few)] : 64 * (1 + draw(LEN_MAX / 64));
}

/* Random blocks, each left out with this chance in 16; what P and Q of them are. */
static void draw_row(uint32_t n, size_t len, uint32_t holes)
{
	for (size_t at = 0; at < (size_t)BLOCKS * STRIDE; at += sizeof seed) {
		draw(1);
		memcpy(memory + at, &seed, sizeof seed);
	}
	for (uint32_t i = 0; i < n; i++) {
		src[i] = draw(16) < holes ? NULL : block(i);
	}
	oracle_pq(want_p, want_q, src, n, len);
}

static const void *const *sources(void)
{
	return (const void *const *)src;
}

/* The bytes behind a result are untouched. */
static void check_guard(uint32_t i, size_t len, const uint8_t guard[GUARD])
{
	assert_memory_equal(block(i) + len, guard, GUARD);
}

/* ---- P and Q ------------------------------------------------------------------------------- */

static void test_vectors(void **state)
{
	static const struct {
		uint8_t data[4];
		uint32_t n;
		uint8_t p, q;
	} vectors[] = {
		{{0x01, 0x02, 0x03}, 3, 0x00, 0x09},
		{{0x80, 0x80, 0x80}, 3, 0x80, 0xa7},
		{{0x11, 0x22, 0x33, 0x44}, 4, 0x44, 0x83},
		{{0xff, 0x00, 0xff, 0xa5}, 4, 0xa5, 0x65},
	};

	for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
		for (uint32_t i = 0; i < vectors[v].n; i++) {
			memset(block(i), vectors[v].data[i], 512);
			src[i] = block(i);
		}
		parity_pq(block(P), block(Q), sources(), vectors[v].n, 512);
		for (uint32_t at = 0; at < 512; at++) {
			assert_int_equal(block(P)[at], vectors[v].p);
			assert_int_equal(block(Q)[at], vectors[v].q);
		}
	}
}

static void check_pq(uint32_t n, size_t len, bool with_p, bool with_q)
{
	uint8_t guard_p[GUARD], guard_q[GUARD];

	memset(block(P), 0xcc, len);
	memset(block(Q), 0xcc, len);
	memcpy(guard_p, block(P) + len, GUARD);
	memcpy(guard_q, block(Q) + len, GUARD);
	parity_pq(with_p ? block(P) : NULL, with_q ? block(Q) : NULL, sources(), n, len);
	check_guard(P, len, guard_p);
	check_guard(Q, len, guard_q);
	if (with_p) {
		assert_memory_equal(block(P), want_p, len);
	}
	if (with_q) {
		assert_memory_equal(block(Q), want_q, len);
	}
	for (size_t at = 0; at < len; at++) {
		assert_true(with_p || block(P)[at] == 0xcc);
		assert_true(with_q || block(Q)[at] == 0xcc);
	}
}

/* Every number of sources from none to all, without holes, with some, with nothing but holes. */
static void test_pq(void **state)
{
	static const uint32_t holes[] = {0, 4, 14, 16};

	for (uint32_t n = 0; n <= SOURCES; n++) {
		for (uint32_t h = 0; h < sizeof holes / sizeof *holes; h++) {
			size_t len = draw_len();

			draw_row(n, len, holes[h]);
			for (uint32_t which = 0; which < 4; which++) {
				check_pq(n, len, which & 1, which & 2);
			}
		}
	}
}

/* ISA-L's loops take 32, 64, 96 or 128 bytes a turn: every remainder. */
static void test_lengths(void **state)
{
	for (size_t len = PARITY_ALIGN_BYTES; len <= 1024; len += PARITY_ALIGN_BYTES) {
		draw_row(5, len, 0);
		check_pq(5, len, true, true);
		check_pq(5, len, true, false);
		draw_row(9, len, 6);
		check_pq(9, len, true, true);
	}
}

static void test_xor_in_place(void **state)
{
	for (uint32_t n = 1; n <= SOURCES; n++) {
		size_t len = draw_len();
		uint32_t dst = draw(n);
		uint8_t guard[GUARD];

		draw_row(n, len, n % 3 ? 0 : 8);
		memcpy(guard, block(dst) + len, GUARD);
		src[dst] = block(dst);
		oracle_pq(want_p, want_q, src, n, len);
		parity_xor(block(dst), sources(), n, len);
		assert_memory_equal(block(dst), want_p, len);
		check_guard(dst, len, guard);
	}
}

static void test_delta(void **state)
{
	for (uint32_t turn = 0; turn < 300; turn++) {
		uint32_t n = 1 + draw(SOURCES), i = draw(n), how = draw(4);
		bool with_p = draw(4), with_q = draw(4);
		size_t len = draw_len();

		draw_row(n, len, 3);
		parity_pq(block(P), block(Q), sources(), n, len);
		if (how == 0) { /* the difference alone */
			const uint8_t *was = src[i];

			parity_delta(with_p ? block(P) : NULL, with_q ? block(Q) : NULL, NULL,
				     block(X), i, len);
			for (size_t at = 0; at < len; at++) {
				block(Y)[at] = block(X)[at] ^ (was ? was[at] : 0);
			}
			src[i] = block(Y);
		} else { /* from or to a block of zeroes, now and then */
			const uint8_t *after = how == 1 ? NULL : block(X);

			parity_delta(with_p ? block(P) : NULL, with_q ? block(Q) : NULL, src[i],
				     after, i, len);
			src[i] = after;
		}
		/* What was not to be touched still belongs to the row as it was. */
		if (with_p) {
			oracle_pq(want_p, want_q, src, n, len);
			assert_memory_equal(block(P), want_p, len);
		} else {
			assert_memory_equal(block(P), want_p, len);
			oracle_pq(want_p, want_q, src, n, len);
		}
		if (with_q) {
			assert_memory_equal(block(Q), want_q, len);
		}
	}
}

/* ---- what is lost -------------------------------------------------------------------------- */

/* The right bytes of an exponent, PARITY_P or PARITY_Q. */
static void check_result(uint32_t what, const uint8_t *got, size_t len)
{
	if (what == PARITY_P) {
		assert_memory_equal(got, want_p, len);
	} else if (what == PARITY_Q) {
		assert_memory_equal(got, want_q, len);
	} else {
		assert_memory_equal(got, block(what), len);
	}
}

/* The row is complete in block(0..n-1), block(P), block(Q). Nothing lost is handed over. */
static void check_recover(uint32_t n, size_t len, uint32_t a, uint32_t b, bool no_p, bool no_q)
{
	struct parity_lost lost[2] = {{a, block(X)}, {b, block(Y)}};
	uint32_t count = a == b ? 1 : 2;
	const uint8_t *p = block(P), *q = block(Q), *saved[2] = {NULL, NULL};
	static _Alignas(PARITY_ALIGN_BYTES) uint8_t junk[LEN_MAX];

	for (uint32_t i = 0; i < count; i++) {
		if (lost[i].what == PARITY_P) {
			p = NULL;
		} else if (lost[i].what == PARITY_Q) {
			q = NULL;
		} else {
			saved[i] = src[lost[i].what];
			src[lost[i].what] = i ? NULL : junk;
		}
	}
	memset(junk, 0x5a, sizeof junk);
	memset(block(X), 0xcc, len);
	memset(block(Y), 0xcc, len);
	parity_recover(lost, count, no_p ? NULL : p, no_q ? NULL : q, sources(), n, len);
	for (uint32_t i = 0; i < count; i++) {
		if (saved[i]) {
			src[lost[i].what] = saved[i];
		}
	}
	check_result(a, block(X), len);
	if (count == 2) {
		check_result(b, block(Y), len);
	}
}

static uint32_t lost_of(uint32_t n, uint32_t i)
{
	return i < n ? i : i == n ? PARITY_P : PARITY_Q;
}

static void complete_row(size_t len)
{
	memcpy(block(P), want_p, len);
	memcpy(block(Q), want_q, len);
}

/* Every pair, in both orders, and every single one, for rows as wide as they come. */
static void test_recover(void **state)
{
	static const uint32_t widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 30, 62};

	for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		uint32_t n = widths[w];
		size_t len = n > 8 ? 64 : draw_len() / 2 / 64 * 64 + 64;

		draw_row(n, len, 0);
		complete_row(len);
		for (uint32_t i = 0; i < n + 2; i++) {
			for (uint32_t j = 0; j < n + 2; j++) {
				check_recover(n, len, lost_of(n, i), lost_of(n, j), false, false);
			}
		}
		for (uint32_t i = 0; i < n; i++) {
			check_recover(n, len, i, i, false, true); /* RAID 5 */
			check_recover(n, len, i, i, true, false); /* P is not to be trusted */
		}
	}
}

/* Exponents that no block has: a row of DDF. */
static void test_recover_holes(void **state)
{
	for (uint32_t turn = 0; turn < 100; turn++) {
		uint32_t n = 3 + draw(SOURCES - 2), a, b;
		size_t len = draw_len();

		draw_row(n, len, 5);
		a = draw(n);
		b = draw(n);
		src[a] = block(a);
		src[b] = block(b);
		oracle_pq(want_p, want_q, src, n, len);
		complete_row(len);
		check_recover(n, len, a, b, false, false);
		check_recover(n, len, a, PARITY_P, false, false);
		check_recover(n, len, PARITY_Q, b, false, false);
		check_recover(n, len, a, a, true, false);
	}
}

/* ---- what is wrong ------------------------------------------------------------------------- */

static enum parity_verdict locate(uint32_t n, uint32_t *exponent)
{
	return parity_locate(block(P), block(Q), sources(), n, exponent);
}

static void damage(uint32_t i, uint32_t bytes)
{
	while (bytes--) {
		block(i)[draw(PAGE)] ^= (uint8_t)(1 + draw(255));
	}
}

static void test_locate(void **state)
{
	uint32_t exponent;

	for (uint32_t turn = 0; turn < 400; turn++) {
		uint32_t n = 2 + draw(SOURCES - 1), i = draw(n),
			 bytes = 1 + draw(turn % 2 ? 3 : PAGE);

		draw_row(n, PAGE, turn % 4 ? 0 : 4);
		src[i] = block(i);
		oracle_pq(want_p, want_q, src, n, PAGE);
		complete_row(PAGE);
		assert_int_equal(locate(n, &exponent), PARITY_FINE);

		do {
			damage(i, bytes);
			exponent = n;
		} while (locate(n, &exponent) == PARITY_FINE); /* damaged twice, back to good */
		assert_int_equal(locate(n, &exponent), PARITY_DATA_WRONG);
		assert_int_equal(exponent, i);
		assert_int_equal(parity_locate(block(P), NULL, sources(), n, &exponent),
				 PARITY_UNKNOWN);

		parity_recover(&(struct parity_lost){i, block(i)}, 1, block(P), NULL, sources(), n,
			       PAGE);
		assert_int_equal(locate(n, &exponent), PARITY_FINE);
		block(P)[draw(PAGE)] ^= 1;
		assert_int_equal(locate(n, &exponent), PARITY_P_WRONG);
		block(Q)[draw(PAGE)] ^= 1;
		assert_int_not_equal(locate(n, &exponent), PARITY_FINE);
		memcpy(block(P), want_p, PAGE);
		assert_int_equal(locate(n, &exponent), PARITY_Q_WRONG);
	}
}

/* Two blocks wrong in many bytes never name one; nor does a single byte that names a hole, or that
 * names a block beside a byte that names P. */
static void test_locate_unknown(void **state)
{
	uint32_t exponent, n = 6;

	for (uint32_t turn = 0; turn < 50; turn++) {
		draw_row(n, PAGE, 0);
		complete_row(PAGE);
		damage(turn % n, 100);
		damage((turn + 1 + turn / n % (n - 1)) % n, 100);
		assert_int_equal(locate(n, &exponent), PARITY_UNKNOWN);
	}

	draw_row(n, PAGE, 0);
	src[3] = NULL;
	oracle_pq(want_p, want_q, src, n, PAGE);
	complete_row(PAGE);
	block(P)[7] ^= 0x35;
	block(Q)[7] ^= mul(0x35, 8); /* as if block 3 were wrong */
	assert_int_equal(locate(n, &exponent), PARITY_UNKNOWN);
	complete_row(PAGE);
	block(P)[7] ^= 0x35;
	block(Q)[7] ^= mul(0x35, 64); /* as if there were a block 6 */
	assert_int_equal(locate(n, &exponent), PARITY_UNKNOWN);
	complete_row(PAGE);
	block(2)[7] ^= 1;
	assert_int_equal(locate(n, &exponent), PARITY_DATA_WRONG);
	block(P)[PAGE - 1] ^= 1;
	assert_int_equal(locate(n, &exponent), PARITY_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),	       cmocka_unit_test(test_pq),
		cmocka_unit_test(test_lengths),	       cmocka_unit_test(test_xor_in_place),
		cmocka_unit_test(test_delta),	       cmocka_unit_test(test_recover),
		cmocka_unit_test(test_recover_holes),  cmocka_unit_test(test_locate),
		cmocka_unit_test(test_locate_unknown),
	};

	return cmocka_run_group_tests_name("parity", tests, setup, teardown);
}
