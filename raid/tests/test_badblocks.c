/* SPDX-License-Identifier: BSD-3-Clause */
/* The bad-block log (md-format §14, §17.5): entries, order, limits, look-up. */
#include "raid/badblocks_fmt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

enum { LOG_BYTES = 4096, DEV_SECTORS = 10240 };

static struct bb_list list;

static uint64_t entry(uint64_t start, uint64_t len)
{
	return start << 10 | len;
}

static int decode(const uint64_t *entries, uint32_t n, uint8_t shift, char why[RAID_WHY_BYTES])
{
	uint8_t log[LOG_BYTES];
	uint32_t i;

	memset(log, 0xff, sizeof log);
	for (i = 0; i < n; i++) {
		put_le64(log + 8 * i, entries[i]);
	}
	return bb_decode(log, sizeof log, shift, DEV_SECTORS, &list, why);
}

static void assert_range(uint32_t i, uint64_t sector, uint64_t sectors)
{
	assert_int_equal(list.range[i].maddr, 512 * sector);
	assert_int_equal(list.range[i].len, 512 * sectors);
}

static void vector(void **state)
{
	const uint64_t e = 0x00000000000FA008;
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(&e, 1, 0, why), 0);
	assert_int_equal(list.count, 1);
	assert_range(0, 1000, 8);
}

static void empty_log(void **state)
{
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(NULL, 0, 0, why), 0);
	assert_int_equal(list.count, 0);
	assert_int_equal(bb_decode((const uint8_t *)"", 0, 0, DEV_SECTORS, &list, why), 0);
	assert_int_equal(list.count, 0);
}

static void full_log(void **state)
{
	uint64_t e[BB_ENTRIES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < BB_ENTRIES_MAX; i++) {
		e[i] = entry(20 * i, 1 + i % 20);
	}
	assert_int_equal(decode(e, BB_ENTRIES_MAX, 0, why), 0);
	assert_int_equal(list.count, BB_ENTRIES_MAX);
	assert_range(511, 20 * 511, 1 + 511 % 20);
}

static void ends_at_the_first_empty_entry(void **state)
{
	const uint64_t e[] = {entry(8, 8), UINT64_MAX, entry(1, 0)};
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(e, 3, 0, why), 0);
	assert_int_equal(list.count, 1);
}

static void unit_is_shifted(void **state)
{
	const uint64_t e[] = {entry(3, 2), entry(1278, 2)};
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(e, 2, 3, why), 0);
	assert_range(0, 24, 16);
	assert_range(1, 10224, 16);
	assert_int_equal(decode(e, 2, 4, why), -EUCLEAN);
}

static void adjacent_and_longest_are_legal(void **state)
{
	const uint64_t e[] = {entry(0, 512), entry(512, 512), entry(10239, 1)};
	char why[RAID_WHY_BYTES];

	assert_int_equal(decode(e, 3, 0, why), 0);
	assert_int_equal(list.count, 3);
}

static void refuses_what_cannot_be(void **state)
{
	const struct {
		uint64_t e[2];
		const char *word;
	} bad[] = {
		{{entry(8, 0), UINT64_MAX}, "length"},
		{{entry(8, 513), UINT64_MAX}, "length"},
		{{entry(100, 8), entry(99, 1)}, "order"},
		{{entry(100, 8), entry(107, 1)}, "order"},
		{{entry(100, 8), entry(100, 8)}, "order"},
		{{entry(10240, 1), UINT64_MAX}, "beyond"},
		{{entry(10239, 2), UINT64_MAX}, "beyond"},
		{{UINT64_MAX - 1, UINT64_MAX}, "length"},
		{{entry((1ULL << 54) - 1, 8), UINT64_MAX}, "beyond"},
	};
	char why[RAID_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(decode(bad[i].e, 2, 0, why), -EUCLEAN);
		assert_non_null(strstr(why, bad[i].word));
	}
	assert_int_equal(decode(bad[2].e, 1, 63, why), -EUCLEAN);
	assert_int_equal(decode(bad[2].e, 1, 255, why), -EUCLEAN);
	assert_int_equal(decode(bad[2].e, 1, 54, why), -EUCLEAN);
}

/* Look-up against a byte-wise oracle in sectors. */
static void find_agrees_with_a_search_by_hand(void **state)
{
	const uint64_t e[] = {entry(2, 3), entry(5, 1), entry(9, 4)};
	char why[RAID_WHY_BYTES];
	uint32_t at, len, s;

	assert_int_equal(decode(e, 3, 0, why), 0);
	for (at = 0; at < 16; at++) {
		for (len = 1; len < 16; len++) {
			struct bb_range hit;
			bool found = bb_find(&list, 512 * at, 512 * len, &hit);
			uint32_t first = at, end;

			while (first < at + len && !(first >= 2 && first < 6) &&
			       !(first >= 9 && first < 13)) {
				first++;
			}
			assert_int_equal(found, first < at + len);
			if (!found) {
				continue;
			}
			end = first < 5 ? 5 : first < 6 ? 6 : 13; /* ranges are not merged */
			s = end < at + len ? end : at + len;
			assert_int_equal(hit.maddr, 512 * first);
			assert_int_equal(hit.len, 512 * (s - first));
		}
	}
}

static void find_takes_bytes(void **state)
{
	const uint64_t e = entry(1000, 8);
	char why[RAID_WHY_BYTES];
	struct bb_range hit;

	assert_int_equal(decode(&e, 1, 0, why), 0);
	assert_false(bb_find(&list, 511999, 1, &hit));
	assert_true(bb_find(&list, 511999, 2, &hit));
	assert_int_equal(hit.maddr, 512000);
	assert_int_equal(hit.len, 1);
	assert_true(bb_find(&list, 516095, 10, &hit));
	assert_int_equal(hit.maddr, 516095);
	assert_int_equal(hit.len, 1);
	assert_false(bb_find(&list, 516096, 10, &hit));
	list.count = 0;
	assert_false(bb_find(&list, 512000, 1, &hit));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector),
		cmocka_unit_test(empty_log),
		cmocka_unit_test(full_log),
		cmocka_unit_test(ends_at_the_first_empty_entry),
		cmocka_unit_test(unit_is_shifted),
		cmocka_unit_test(adjacent_and_longest_are_legal),
		cmocka_unit_test(refuses_what_cannot_be),
		cmocka_unit_test(find_agrees_with_a_search_by_hand),
		cmocka_unit_test(find_takes_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
