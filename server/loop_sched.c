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
 * So each window of time decides for the next: batch if there were many requests in it and several
 * at once. Whoever started us under another policy meant it: then nothing is ever changed.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "server/loop_int.h"

enum {
	WINDOW_NS = 20 * 1000 * 1000,
	MANY = 200, /* requests in a window: 10 000 a second */
};

static bool set_policy(int policy)
{
	struct sched_param param = {0};

	return !pthread_setschedparam(pthread_self(), policy, &param);
}

void sched_start(struct loop *l)
{
	struct sched_param param;
	int policy;

	l->sched.adapts =
		!pthread_getschedparam(pthread_self(), &policy, &param) && policy == SCHED_OTHER;
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
	batch = s->several && requests - s->requests >= MANY;
	if (batch != s->batch) {
		s->adapts = set_policy(batch ? SCHED_BATCH : SCHED_OTHER);
		s->batch = batch;
	}
	s->several = false;
	s->requests = requests;
	s->window_end_ns = l->now.mono_ns + WINDOW_NS;
}
