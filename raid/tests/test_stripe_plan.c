/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stripe_decide() and the arithmetic that carries its decision out, on random rows: whatever is
 * decided is carried out on blocks in memory, and then every block that was touched must be new,
 * every other one old, and parity right by a byte-wise oracle. Beside it the switch points as a
 * table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/stripe.h"

enum { LEN = 128, DATA_MAX = 9, BLOCKS = DATA_MAX + 2 };

struct row_of_blocks {
	_Alignas(64) uint8_t disk[BLOCKS][LEN]; /* truth before: data, P, Q */
	_Alignas(64) uint8_t old[BLOCKS][LEN];	/* the stripe's buffers */
	_Alignas(64) uint8_t payload[DATA_MAX][LEN];
	_Alignas(64) uint8_t made[2][LEN];
	uint8_t after[DATA_MAX][LEN]; /* what the data blocks must be */
};

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % below;
}

static uint8_t mul(uint8_t a, uint8_t b)
{
	uint8_t r = 0;

	for (; b; b >>= 1, a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0))) {
		r ^= b & 1 ? a : 0;
	}
	return r;
}

static void oracle(const struct geo_row *row, uint8_t data[][LEN], uint8_t *p, uint8_t *q)
{
	for (uint32_t at = 0; at < LEN; at++) {
		p[at] = q[at] = 0;
		for (uint32_t d = 0; d < row->data; d++) {
			uint8_t g = 1;

			for (uint32_t i = 0; i < row->exp[d]; i++) {
				g = mul(g, 2);
			}
			p[at] ^= data[d][at];
			q[at] ^= mul(g, data[d][at]);
		}
	}
}

/* A row with a Q order of its own, holes included, as DDF layouts have them. */
static struct geo_row random_row(void)
{
	struct geo_row row = {.data = 1 + draw(DATA_MAX)};
	uint32_t holes = draw(3), next = draw(2) ? holes : 0;

	row.exps = row.data + holes;
	for (uint32_t d = 0; d < row.data; d++) {
		row.exp[d] = (uint8_t)((d + next) % row.exps);
	}
	row.exps = 0;
	for (uint32_t d = 0; d < row.data; d++) {
		row.exps = row.exp[d] >= row.exps ? row.exp[d] + 1u : row.exps;
	}
	return row;
}

static struct stripe_sub_in random_in(const struct geo_row *row, uint32_t parity)
{
	struct stripe_sub_in in = {.data = row->data, .parity = parity};
	uint32_t full = draw(4), lose = draw(4) ? draw(parity + 1) : draw(4);

	for (uint32_t d = 0; d < row->data; d++) {
		uint32_t x = draw(6);

		in.cover[d] = full == 0 || x < 2 ? COVER_FULL : x < 3 ? COVER_PART : COVER_NONE;
	}
	for (uint32_t i = 0; i < row->data + parity; i++) {
		in.readable[i] = in.writable[i] = true;
	}
	while (lose--) {
		uint32_t i = draw(row->data + parity);

		in.readable[i] = false;
		in.writable[i] = draw(3) == 0; /* listed as bad, or gone */
	}
	in.stale = draw(4) == 0;
	in.keep_old = draw(3) == 0;
	return in;
}

static void fill(struct row_of_blocks *b, const struct geo_row *row, const struct stripe_sub_in *in)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		for (uint32_t at = 0; at < LEN; at++) {
			b->disk[i][at] = (uint8_t)draw(256);
			b->old[i][at] = 0xee;
		}
	}
	if (!in->stale) {
		uint8_t p[LEN], q[LEN];

		oracle(row, b->disk, p, q);
		memcpy(b->disk[row->data], p, LEN);
		if (in->parity > 1) {
			memcpy(b->disk[row->data + 1], q, LEN);
		}
	}
	for (uint32_t d = 0; d < row->data; d++) {
		uint32_t from = in->cover[d] == COVER_PART ? 16 + draw(32) : 0;
		uint32_t to = in->cover[d] == COVER_PART ? 64 + draw(32) : LEN;

		memcpy(b->after[d], b->disk[d], LEN);
		for (uint32_t at = from; in->cover[d] != COVER_NONE && at < to; at++) {
			b->after[d][at] = b->payload[d][at] = (uint8_t)draw(256);
		}
	}
}

/* Are the blocks that RECOVER, RCW … need within reach at all? */
static bool possible(const struct stripe_sub_in *in)
{
	uint32_t lost = 0, unreadable = 0, needed = 0, takes = 0, gives = 0;

	for (uint32_t d = 0; d < in->data; d++) {
		lost += in->cover[d] != COVER_NONE && !in->writable[d];
		unreadable += !in->readable[d];
		needed += !in->readable[d] && in->cover[d] != COVER_FULL;
	}
	for (uint32_t i = in->data; i < in->data + in->parity; i++) {
		takes += in->writable[i];
		gives += in->readable[i];
	}
	if (lost > takes) {
		return false;
	}
	if (!takes) {
		for (uint32_t d = 0; d < in->data; d++) {
			if (in->cover[d] == COVER_PART && !in->readable[d]) {
				return false;
			}
		}
		return true;
	}
	if (!needed) {
		return true;
	}
	if (in->stale) {
		return false;
	}
	if (unreadable <= gives) {
		return true;
	}
	/* By difference: what is touched, and the parity that is written, can be read. */
	for (uint32_t i = 0; i < in->data + in->parity; i++) {
		bool needs = i < in->data ? in->cover[i] != COVER_NONE : in->writable[i];

		if (needs && !in->readable[i]) {
			return false;
		}
	}
	return true;
}

static void carry_out(struct row_of_blocks *b, const struct geo_row *row,
		      const struct stripe_sub_in *in, const struct stripe_sub_out *out)
{
	struct stripe_calc c = {.row = row, .parity = in->parity, .len = LEN};

	for (uint32_t i = 0; i < in->data + in->parity; i++) {
		c.old[i] = b->old[i];
		if (out->read[i]) {
			memcpy(b->old[i], b->disk[i], LEN);
		}
	}
	if (out->method == STRIPE_RECOVER) {
		stripe_recover(&c, out->read);
	}
	for (uint32_t d = 0; d < in->data; d++) {
		if (in->cover[d] == COVER_FULL) {
			c.now[d] = b->payload[d];
		} else if (in->cover[d] == COVER_PART) {
			c.now[d] = b->after[d]; /* the merge itself is the caller's */
			memcpy(b->payload[d], b->after[d], LEN);
			c.now[d] = b->payload[d];
		}
	}
	for (uint32_t i = 0; i < in->parity; i++) {
		c.made[i] = out->write[in->data + i] ? b->made[i] : NULL;
	}
	stripe_parity(&c, out->method);
}

static void check_rules(const struct stripe_sub_in *in, const struct stripe_sub_out *out)
{
	uint32_t reads = 0;
	bool believes = out->method == STRIPE_RMW || out->method == STRIPE_RECOVER;

	assert_false(in->stale && believes);
	for (uint32_t i = 0; i < in->data + in->parity; i++) {
		reads += out->read[i];
		assert_false(out->read[i] && !in->readable[i]);
		assert_false(out->write[i] && !in->writable[i]);
		if (in->keep_old && believes && out->write[i] && in->readable[i]) {
			assert_true(out->read[i]);
		}
	}
	assert_int_equal(reads, out->reads);
	for (uint32_t d = 0; d < in->data; d++) {
		assert_int_equal(out->write[d], in->cover[d] != COVER_NONE && in->writable[d]);
		if (in->cover[d] == COVER_PART && out->method != STRIPE_RECOVER) {
			assert_true(out->read[d]);
		}
	}
	for (uint32_t i = in->data; i < in->data + in->parity; i++) {
		assert_int_equal(out->write[i], in->writable[i]);
	}
}

static void writes_keep_the_row_right(void **state)
{
	static struct row_of_blocks b;
	uint32_t seen[STRIPE_LOST + 1] = {0};

	(void)state;
	for (uint32_t round = 0; round < 60000; round++) {
		struct geo_row row = random_row();
		struct stripe_sub_in in = random_in(&row, 1 + draw(2));
		struct stripe_sub_out out;
		uint8_t p[LEN], q[LEN];

		stripe_decide(&in, &out);
		seen[out.method]++;
		if (out.method == STRIPE_NONE) {
			assert_int_equal(out.reads, 0);
			continue;
		}
		assert_int_equal(out.method != STRIPE_LOST, possible(&in));
		if (out.method == STRIPE_LOST) {
			continue;
		}
		check_rules(&in, &out);
		if (out.method == STRIPE_DATA_ONLY) {
			continue;
		}
		fill(&b, &row, &in);
		carry_out(&b, &row, &in, &out);
		oracle(&row, b.after, p, q);
		if (out.write[row.data]) {
			assert_memory_equal(b.made[0], p, LEN);
		}
		if (in.parity > 1 && out.write[row.data + 1]) {
			assert_memory_equal(b.made[1], q, LEN);
		}
		for (uint32_t d = 0; d < row.data && out.method == STRIPE_RECOVER; d++) {
			assert_memory_equal(b.old[d], b.disk[d], LEN);
		}
	}
	for (uint32_t m = STRIPE_NONE; m <= STRIPE_LOST; m++) {
		assert_true(seen[m] > 100);
	}
}

static void reads_recover_what_is_wanted(void **state)
{
	static struct row_of_blocks b;
	uint32_t lost = 0;

	(void)state;
	for (uint32_t round = 0; round < 20000; round++) {
		struct geo_row row = random_row();
		struct stripe_sub_in in = random_in(&row, 1 + draw(2));
		struct stripe_sub_out out;
		uint32_t unreadable = 0, gives = 0;
		bool direct = true;

		in.read_only = true;
		for (uint32_t d = 0; d < row.data; d++) {
			in.want[d] = draw(3) == 0;
			unreadable += !in.readable[d];
			direct &= !in.want[d] || in.readable[d];
		}
		for (uint32_t i = row.data; i < row.data + in.parity; i++) {
			gives += in.readable[i];
		}
		stripe_decide(&in, &out);
		if (!direct && (in.stale || unreadable > gives)) {
			assert_int_equal(out.method, STRIPE_LOST);
			lost++;
			continue;
		}
		assert_int_equal(out.method, STRIPE_RECOVER);
		fill(&b, &row, &in);
		for (uint32_t i = 0; i < row.data + in.parity; i++) {
			assert_false(out.read[i] && !in.readable[i]);
			assert_false(out.write[i]);
			assert_false(direct && out.read[i] && (i >= row.data || !in.want[i]));
		}
		if (!direct) {
			carry_out(&b, &row, &in, &out);
		}
		for (uint32_t d = 0; d < row.data; d++) {
			if (in.want[d]) {
				assert_memory_equal(direct ? b.disk[d] : b.old[d], b.disk[d], LEN);
			}
		}
	}
	assert_true(lost > 100);
}

/* Switch points: raid-lessons' RAID 5 k < (d - 1) / 2, RAID 6 k < (d - 2) / 2 take RMW. */
static void fewest_reads(void **state)
{
	(void)state;
	for (uint32_t parity = 1; parity <= 2; parity++) {
		for (uint32_t data = 1; data <= DATA_MAX; data++) {
			for (uint32_t k = 1; k <= data; k++) {
				struct stripe_sub_in in = {.data = data, .parity = parity};
				struct stripe_sub_out out;
				uint32_t rmw = k + parity, rcw = data - k;

				for (uint32_t i = 0; i < data + parity; i++) {
					in.readable[i] = in.writable[i] = true;
					in.cover[i] = i < k ? COVER_FULL : COVER_NONE;
				}
				stripe_decide(&in, &out);
				assert_int_equal(out.reads, k == data ? 0 : rmw < rcw ? rmw : rcw);
				assert_int_equal(out.method, k == data	 ? STRIPE_FULL
							     : rmw < rcw ? STRIPE_RMW
							     : rmw == rcw && parity == 1
								     ? STRIPE_RMW
								     : STRIPE_RCW);
				in.stale = true;
				stripe_decide(&in, &out);
				assert_int_equal(out.method, k == data ? STRIPE_FULL : STRIPE_RCW);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_keep_the_row_right),
		cmocka_unit_test(reads_recover_what_is_wanted),
		cmocka_unit_test(fewest_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
