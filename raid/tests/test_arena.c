/* SPDX-License-Identifier: BSD-3-Clause */
/* The buddy allocator against a byte map that knows nothing of buddies. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raid/base/arena.h"

#define UNIT ((uint64_t)ARENA_UNIT_BYTES)

static void assert_sound(const struct arena *a)
{
	const char *wrong = arena_check(a);

	if (wrong) {
		fail_msg("%s", wrong);
	}
}

static void test_sizes_that_are_refused(void **state)
{
	struct arena a;
	static _Alignas(4096) uint8_t region[8192];

	assert_int_equal(arena_create(&a, NULL, 0), -EINVAL);
	assert_int_equal(arena_create(&a, NULL, 2048), -EINVAL);
	assert_int_equal(arena_create(&a, NULL, 3 * UNIT), -EINVAL);
	assert_int_equal(arena_create(&a, NULL, 2ull << 30), -EINVAL);
	assert_int_equal(arena_create(&a, region + 512, UNIT), -EINVAL);
	arena_destroy(&a);
	assert_int_equal(arena_create(&a, region, 2 * UNIT), 0);
	assert_ptr_equal(arena_get(&a, 2 * UNIT), region);
	arena_put(&a, region);
	arena_destroy(&a);
}

static void test_whole_region_is_one_buffer(void **state)
{
	struct arena a;
	void *p;

	assert_int_equal(arena_create(&a, NULL, 1 << 20), 0);
	assert_null(arena_get(&a, (1 << 20) + 1));
	assert_null(arena_get(&a, UINT64_MAX));
	p = arena_get(&a, 1 << 20);
	assert_non_null(p);
	memset(p, 1, 1 << 20);
	assert_null(arena_get(&a, 1));
	assert_false(arena_has(&a, 1));
	arena_put(&a, p);
	assert_true(arena_has(&a, 1 << 20));
	assert_ptr_equal(arena_get(&a, 1 << 20), p);
	arena_put(&a, p);
	arena_destroy(&a);
}

/* A client's 1 MiB at an unaligned address takes 257 pages: three of them fit into 1024 minus the
 * alignment, which powers of two alone would not give. */
static void test_tail_goes_back(void **state)
{
	struct arena a;
	void *p, *q, *tail;

	assert_int_equal(arena_create(&a, NULL, 1024 * UNIT), 0);
	p = arena_get(&a, 257 * UNIT);
	q = arena_get(&a, 256 * UNIT + 1);
	assert_int_equal(a.used_bytes, 514 * UNIT);
	tail = arena_get(&a, 128 * UNIT);
	assert_int_equal((uint8_t *)tail - (uint8_t *)q, 384 * UNIT);
	assert_sound(&a);
	arena_put(&a, p);
	assert_sound(&a);
	arena_put(&a, tail);
	arena_put(&a, q);
	assert_sound(&a);
	assert_int_equal(a.used_bytes, 0);
	assert_int_equal(a.high_bytes, 642 * UNIT);
	p = arena_get(&a, 1024 * UNIT);
	assert_non_null(p);
	arena_put(&a, p);
	arena_destroy(&a);
}

static void test_last_freed_is_first_reused(void **state)
{
	struct arena a;
	void *p[8];

	assert_int_equal(arena_create(&a, NULL, 64 * UNIT), 0);
	for (unsigned i = 0; i < 8; i++) {
		p[i] = arena_get(&a, 4 * UNIT);
	}
	/* Buddies stay in use, so nothing merges. */
	arena_put(&a, p[0]);
	arena_put(&a, p[4]);
	arena_put(&a, p[2]);
	assert_ptr_equal(arena_get(&a, 4 * UNIT), p[2]);
	assert_ptr_equal(arena_get(&a, 4 * UNIT), p[4]);
	assert_ptr_equal(arena_get(&a, 4 * UNIT), p[0]);
	for (unsigned i = 0; i < 8; i++) {
		arena_put(&a, p[i]);
	}
	arena_destroy(&a);
}

/* Random gets and puts: buffers never overlap, a get fails only when no aligned free block of the
 * size exists, the arena always comes back whole, and a second run gives the same addresses. */
enum { RUN_UNITS = 512, RUN_LIVE = 64, RUN_STEPS = 20000 };

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static bool aligned_block_free(const uint8_t *map, uint32_t units)
{
	uint32_t block = 1;

	while (block < units) {
		block *= 2;
	}
	for (uint32_t at = 0; at + block <= RUN_UNITS; at += block) {
		if (!memchr(map + at, 1, block)) {
			return true;
		}
	}
	return false;
}

static uint64_t random_run(uint64_t seed)
{
	struct arena a;
	struct {
		uint8_t *p;
		uint32_t units;
	} live[RUN_LIVE] = {0};
	uint8_t map[RUN_UNITS] = {0};
	uint64_t trace = 0;

	assert_int_equal(arena_create(&a, NULL, RUN_UNITS * UNIT), 0);
	for (unsigned step = 0; step < RUN_STEPS; step++) {
		unsigned i = next_random(&seed) % RUN_LIVE;
		uint32_t at;

		if (live[i].p) {
			at = (uint32_t)((live[i].p - a.base) / ARENA_UNIT_BYTES);
			memset(map + at, 0, live[i].units);
			arena_put(&a, live[i].p);
			live[i].p = NULL;
		} else {
			uint64_t bytes = 1 + next_random(&seed) % (48 * UNIT);
			uint32_t units = (uint32_t)((bytes + UNIT - 1) / UNIT);
			uint8_t *p = arena_get(&a, bytes);

			assert_int_equal(p != NULL, aligned_block_free(map, units));
			if (!p) {
				continue;
			}
			at = (uint32_t)((p - a.base) / ARENA_UNIT_BYTES);
			assert_true(at + units <= RUN_UNITS);
			assert_null(memchr(map + at, 1, units));
			memset(map + at, 1, units);
			live[i].p = p;
			live[i].units = units;
			p[0] = p[bytes - 1] = 1;
			trace = trace * 31 + at;
		}
		if (step % 16 == 0) {
			assert_sound(&a);
		}
	}
	for (unsigned i = 0; i < RUN_LIVE; i++) {
		if (live[i].p) {
			arena_put(&a, live[i].p);
		}
	}
	assert_sound(&a);
	assert_true(arena_has(&a, RUN_UNITS * UNIT));
	arena_destroy(&a);
	return trace;
}

static void test_random_against_map(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		assert_int_equal(random_run(seed), random_run(seed));
	}
}

static void test_check_sees_damage(void **state)
{
	struct arena a;
	void *p;

	assert_int_equal(arena_create(&a, NULL, 16 * UNIT), 0);
	p = arena_get(&a, UNIT);
	a.used_bytes += UNIT;
	assert_non_null(arena_check(&a));
	a.used_bytes -= UNIT;
	a.free_orders ^= 4;
	assert_non_null(arena_check(&a));
	a.free_orders ^= 4;
	a.tag[0] = 0;
	assert_non_null(arena_check(&a));
	a.tag[0] = 0x40;
	assert_sound(&a);
	arena_put(&a, p);
	arena_destroy(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_that_are_refused),
		cmocka_unit_test(test_whole_region_is_one_buffer),
		cmocka_unit_test(test_tail_goes_back),
		cmocka_unit_test(test_last_freed_is_first_reused),
		cmocka_unit_test(test_random_against_map),
		cmocka_unit_test(test_check_sees_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
