/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <cmocka.h>

#include "server/xring.h"

enum { ENTRIES = 8, MESSAGES = 200000 };

static void test_order_and_wrap(void **state)
{
	struct xring x;
	struct xring_msg m;
	uint32_t popped = 0;

	assert_int_equal(xring_init(&x, 5), 0);
	assert_int_equal(x.mask, 7);
	assert_false(xring_pop(&x, &m));
	for (uint32_t i = 0; i < 1000; i++) {
		xring_push(&x, (struct xring_msg){.kind = i});
		if (i % 8 == 7 || i % 3 == 0) {
			while (xring_pop(&x, &m)) {
				assert_int_equal(m.kind, popped++);
			}
		}
	}
	while (xring_pop(&x, &m)) {
		assert_int_equal(m.kind, popped++);
	}
	assert_int_equal(popped, 1000);
	xring_free(&x);
}

/* Two threads pass tokens to and fro, as credits make loops do; their memory needs no lock. */
struct pair {
	struct xring there, back;
	uint64_t token[ENTRIES];
};

static void *echo(void *arg)
{
	struct pair *p = arg;
	struct xring_msg m;

	for (uint32_t n = 0; n < MESSAGES;) {
		if (!xring_pop(&p->there, &m)) {
			sched_yield();
			continue;
		}
		*(uint64_t *)m.ptr += 1;
		xring_push(&p->back, m);
		n++;
	}
	return NULL;
}

static void test_two_threads(void **state)
{
	static struct pair p;
	struct xring_msg m;
	pthread_t thread;
	uint64_t sum = 0;
	uint32_t sent = ENTRIES;

	assert_int_equal(xring_init(&p.there, ENTRIES), 0);
	assert_int_equal(xring_init(&p.back, ENTRIES), 0);
	assert_int_equal(pthread_create(&thread, NULL, echo, &p), 0);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		xring_push(&p.there, (struct xring_msg){.ptr = &p.token[i]});
	}
	for (uint32_t n = 0; n < MESSAGES;) {
		if (!xring_pop(&p.back, &m)) {
			sched_yield();
			continue;
		}
		n++;
		if (sent < MESSAGES) {
			xring_push(&p.there, m);
			sent++;
		}
	}
	pthread_join(thread, NULL);
	for (int i = 0; i < ENTRIES; i++) {
		sum += p.token[i];
	}
	assert_int_equal(sum, MESSAGES);
	xring_free(&p.there);
	xring_free(&p.back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_wrap),
		cmocka_unit_test(test_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
