/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/batch.h"

/* Receives of a client that always sends as many requests as it is waited for, up to depth. */
static uint32_t play(struct batch *b, uint32_t depth, uint32_t receives)
{
	uint32_t failures = 0;

	while (receives--) {
		uint32_t came = b->want < depth ? b->want : depth;

		failures += came < b->want;
		batch_received(b, came);
		assert_in_range(b->want, 1, BATCH_MAX);
	}
	return failures;
}

static void test_grows_with_a_deep_client(void **state)
{
	struct batch b;

	batch_init(&b);
	assert_int_equal(play(&b, 32, 3 * BATCH_TRIES_MIN - 1), 0);
	assert_int_equal(b.want, 4);
	assert_int_equal(play(&b, 32, 1000), 0);
	assert_int_equal(b.want, BATCH_MAX);
}

static void test_one_at_a_time_hardly_waits(void **state)
{
	struct batch b;

	batch_init(&b);
	/* 64 + 128 + 256 + … 64 Ki receives, then one in 64 Ki */
	assert_in_range(play(&b, 1, 1000 * 1000), 10, 11 + 1000 * 1000 / BATCH_TRIES_MAX);
	assert_int_equal(b.want, 1);
}

static void test_falls_at_once(void **state)
{
	struct batch b;

	batch_init(&b);
	play(&b, 32, 1000);
	batch_received(&b, 5);
	assert_int_equal(b.want, 2);
	batch_received(&b, 0);
	assert_int_equal(b.want, 1);
}

static void test_stays_below_the_depth(void **state)
{
	struct batch b;

	batch_init(&b);
	play(&b, 6, 100 * 1000);
	assert_in_range(b.want, 3, 6);
}

static void test_a_deep_client_after_a_shallow_one(void **state)
{
	struct batch b;

	batch_init(&b);
	play(&b, 1, 1000 * 1000);
	/* what is left of the last wait, then quickly */
	play(&b, 32, BATCH_TRIES_MAX);
	play(&b, 32, 3 * BATCH_TRIES_MIN);
	assert_int_equal(b.want, BATCH_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows_with_a_deep_client),
		cmocka_unit_test(test_one_at_a_time_hardly_waits),
		cmocka_unit_test(test_falls_at_once),
		cmocka_unit_test(test_stays_below_the_depth),
		cmocka_unit_test(test_a_deep_client_after_a_shallow_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
