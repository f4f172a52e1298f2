/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a loop's thread takes a CPU.
 *
 * A client on this machine that keeps many small requests in flight should not lose its CPU to us
 * at each of them: woken so, we serve one request where a moment later there are many, and both
 * spend their time on switching. A batch thread (SCHED_BATCH) has the same share of a CPU but does
 * not preempt on waking; an idle CPU it takes at once. A client that waits for each reply, or one
 * that moves large blocks, is better served by a thread that preempts.
 *
 * A client that waits for each reply and asks again at once makes both sides sleep and wake once a
 * request, each time on an idle CPU. Going to sleep and being woken costs us as much time of a CPU
 * as the client takes to ask again, and where waking an idle CPU is slow (a virtual machine) most
 * of a request's time is that. So for such a client we do not sleep but look for its next request
 * for a little while: the same time of a CPU, far more requests.
 *
 * Each window of time decides for the next: batch if there were many requests in it and several at
 * once; spin if there were many, one at a time. If requests then do not come while we spin (the
 * client shares our CPU, or does something else between), spinning rests, each time for longer.
 * Whoever started us under another policy meant it: then nothing is ever changed.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "server/loop_int.h"

enum {
	WINDOW_NS = 20 * 1000 * 1000,
	MANY = 200, /* requests in a window: 10 000 a second */
	SPIN_NS = 60 * 1000,
	REST_MAX = 256, /* windows: 5 s */
};

static bool set_policy(int policy)
{
	struct sched_param param = {0};

	return !pthread_setschedparam(pthread_self(), policy, &param);
}

static bool several_cpus(void)
{
	cpu_set_t cpus;

	return !sched_getaffinity(0, sizeof cpus, &cpus) && CPU_COUNT(&cpus) > 1;
}

void sched_start(struct loop *l)
{
	struct loop_sched *s = &l->sched;
	struct sched_param param;
	int policy;

	s->adapts =
		!pthread_getschedparam(pthread_self(), &policy, &param) && policy == SCHED_OTHER;
	s->may_spin = s->adapts && several_cpus();
	s->rest_next = 1;
}

/* The window that ends had so many requests. */
static void decide_spin(struct loop_sched *s, uint64_t requests)
{
	if (s->spin && (uint64_t)s->misses * 4 > requests) {
		s->rest = s->rest_next;
		s->rest_next = s->rest_next < REST_MAX ? s->rest_next * 2 : REST_MAX;
	} else if (s->spin) {
		s->rest_next = 1;
	} else if (s->rest) {
		s->rest--;
	}
	s->spin = s->may_spin && !s->rest && !s->several && requests >= MANY;
	s->misses = 0;
}

void sched_turn(struct loop *l)
{
	struct loop_sched *s = &l->sched;
	uint64_t requests = l->env.tx.stats.requests;
	bool batch;

	s->several |= l->env.tx.requests.used > 1;
	if (!s->adapts || l->now.mono_ns < s->window_end_ns) {
		return;
	}
	decide_spin(s, requests - s->requests);
	batch = s->several && requests - s->requests >= MANY;
	if (batch != s->batch) {
		s->adapts = set_policy(batch ? SCHED_BATCH : SCHED_OTHER);
		s->batch = batch;
	}
	s->several = false;
	s->requests = requests;
	s->window_end_ns = l->now.mono_ns + WINDOW_NS;
}

uint64_t sched_spin(struct loop *l, uint64_t wait_ns)
{
	if (!l->sched.spin || l->members.used || wait_ns <= SPIN_NS) {
		return wait_ns;
	}
	if (ring_spin(l->ring, SPIN_NS)) {
		return 0;
	}
	l->sched.misses++;
	return wait_ns == RING_FOREVER ? wait_ns : wait_ns - SPIN_NS;
}
