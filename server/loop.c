/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A loop's thread. One turn: reap all events (feeding connections and arrays), take in what other
 * threads put, let connections go on, step each array that has input once, queue every operation,
 * and hand over and wait in one call.
 *
 * Sleeping: other threads put something (mail, a message in a ring between loops), then set posted,
 * then look at sleeping. We set sleeping, then look at posted. Both sides sequentially consistent:
 * at least one sees the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/why.h"
#include "server/log.h"
#include "server/loop_int.h"

enum { DEPTH_DEFAULT = 256, STALL_MS_DEFAULT = 30000 };

/* ---- waking -------------------------------------------------------------------------------- */

void loop_wake(struct loop *l)
{
	uint64_t one = 1;

	atomic_store(&l->posted, 1);
	if (atomic_load(&l->sleeping) && atomic_exchange(&l->sleeping, 0)) {
		ssize_t n = write(l->wake_fd, &one, sizeof one);

		CHECK(n == sizeof one);
	}
}

static void arm_wake(struct loop *l)
{
	if (!l->wake_armed) {
		ring_wake_on(l->ring, l->wake_fd, (struct ring_user){RING_WAKE, 0, 0});
		l->wake_armed = true;
	}
}

/* ---- the turn ------------------------------------------------------------------------------ */

struct raid_now loop_now(void)
{
	struct timespec mono, wall;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME_COARSE, &wall);
	return (struct raid_now){
		.mono_ns = (uint64_t)mono.tv_sec * 1000000000 + mono.tv_nsec,
		.wall_s = wall.tv_sec,
	};
}

static void dispatch(struct loop *l, const struct ring_event *ev)
{
	struct member_result result;

	switch (ev->user.kind) {
	case RING_IGNORED:
		return;
	case RING_WAKE:
		l->wake_armed = false;
		return;
	case RING_MEMBER:
		if (member_io_event(&l->members, ev, &result)) {
			arrays_result(l, &result);
		}
		return;
	case RING_RECV:
	case RING_SEND:
	case RING_SHUTDOWN:
	case RING_CLOSE:
		conn_event(session_find(l, &ev->user), ev);
		return;
	}
	CHECK(!"an event of no kind");
}

static void reap(struct loop *l)
{
	struct member_result result;
	uint32_t n;

	do {
		n = ring_reap(l->ring, l->events, LOOP_EVENTS);
		for (uint32_t i = 0; i < n; i++) {
			dispatch(l, &l->events[i]);
		}
	} while (n == LOOP_EVENTS);
	while (member_io_next(&l->members, &result)) {
		arrays_result(l, &result);
	}
}

static void put(_Atomic uint64_t *stat, uint64_t value)
{
	atomic_store_explicit(stat, value, memory_order_relaxed);
}

static void publish(struct loop *l)
{
	const struct tx_stats *s = &l->env.tx.stats;

	put(&l->stat_requests, s->requests);
	put(&l->stat_read_bytes, s->read_bytes);
	put(&l->stat_write_bytes, s->write_bytes);
	put(&l->stat_errors, s->errors);
	put(&l->stat_payload_bytes, l->bufs.payload.used_bytes);
	put(&l->stat_large_bytes, l->bufs.large.used_bytes);
}

static bool somebody_may_go_on(const struct loop *l)
{
	const struct array_link *link;

	list_for_each_entry (link, &l->links, link) {
		if (!list_empty(&link->port.waiters)) {
			return l->env.serve_again || l->served != l->env.tx.returned;
		}
	}
	return false;
}

/* How long the kernel may keep us: not at all if there is work already. */
static uint64_t wait_ns(struct loop *l)
{
	uint64_t deadline = min_u64(arrays_deadline(l), sessions_deadline(l));

	if (l->quit || somebody_may_go_on(l) || !list_empty(&l->env.touched) ||
	    !list_empty(&l->members.done) || !list_empty(&l->members.later)) {
		return 0;
	}
	if (deadline == RING_FOREVER) {
		return RING_FOREVER;
	}
	return deadline > l->now.mono_ns ? deadline - l->now.mono_ns : 0;
}

static void serve_waiting(struct loop *l)
{
	struct array_link *link;

	if (l->served == l->env.tx.returned && !l->env.serve_again) {
		return;
	}
	l->served = l->env.tx.returned;
	l->env.serve_again = false;
	list_for_each_entry (link, &l->links, link) {
		if (!list_empty(&link->port.waiters)) {
			conn_port_serve(&link->port);
		}
	}
	sessions_collect(l);
}

static void turn(struct loop *l)
{
	uint64_t wait;

	l->now = loop_now();
	l->env.now_ns = l->now.mono_ns;
	reap(l);
	if (atomic_load_explicit(&l->posted, memory_order_relaxed)) {
		atomic_exchange(&l->posted, 0);
		mail_take(l);
		arrays_cross(l);
	}
	sessions_pump(l);
	serve_waiting(l);
	sched_turn(l);
	arrays_step(l);
	sessions_flush(l);
	member_io_end_turn(&l->members);
	arrays_leave(l);
	arrays_knock(l);
	publish(l);

	arm_wake(l);
	wait = wait_ns(l);
	if (wait) {
		atomic_store(&l->sleeping, 1);
		if (atomic_load(&l->posted)) {
			wait = 0;
		}
	}
	CHECK(ring_wait(l->ring, sched_spin(l, wait)) == 0);
	atomic_store_explicit(&l->sleeping, 0, memory_order_relaxed);
}

static void *loop_main(void *arg)
{
	struct loop *l = arg;
	char why[RAID_WHY_BYTES] = "";
	int err;

	sched_start(l);
	pthread_mutex_lock(&l->lock);
	err = ring_enable(l->ring, why);
	if (err) {
		memcpy(l->start_why, why, RAID_WHY_BYTES);
	}
	l->start_err = err;
	l->running = !err;
	pthread_cond_broadcast(&l->answered);
	pthread_mutex_unlock(&l->lock);
	while (!err && !l->quit) {
		turn(l);
	}
	return NULL;
}

/* ---- life cycle ---------------------------------------------------------------------------- */

static void init(struct loop *l, const struct loop_config *config)
{
	l->config = *config;
	if (!l->config.depth_max) {
		l->config.depth_max = DEPTH_DEFAULT;
	}
	if (!l->config.stall_ms) {
		l->config.stall_ms = STALL_MS_DEFAULT;
	}
	l->starving_ns = RING_FOREVER;
	l->first_free = UINT32_MAX;
	list_init(&l->arrays);
	list_init(&l->links);
	list_init(&l->conns);
	list_init(&l->drains);
	list_init(&l->mail);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->answered, NULL);
	conn_env_init(&l->env, l->ring, &l->bufs);
	l->now = loop_now();
}

int loop_create(const struct loop_config *config, struct loop **out, char why[RAID_WHY_BYTES])
{
	struct loop *l = calloc(1, sizeof *l);
	int err;

	if (!l) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	l->wake_fd = -1;
	err = ring_create(&l->ring, why);
	if (err) {
		free(l);
		return err;
	}
	init(l, config);
	l->requests = calloc(LOOP_REQUESTS, sizeof *l->requests);
	l->wake_fd = eventfd(0, EFD_CLOEXEC);
	l->knock = calloc(config->loops, sizeof *l->knock);
	if (!l->requests || !l->knock || l->wake_fd < 0 || member_io_init(&l->members, l->ring) ||
	    bufs_init(&l->bufs, config->payload_bytes, config->large_bytes)) {
		loop_destroy(l);
		return why_set(why, -ENOMEM, "out of memory");
	}
	tx_shared_add_requests(&l->env.tx, l->requests, LOOP_REQUESTS);
	*out = l;
	return 0;
}

int loop_start(struct loop *l, struct loop **loops, char why[RAID_WHY_BYTES])
{
	int err;

	l->peers = loops;
	l->start_why = why;
	l->start_err = 1;
	err = -pthread_create(&l->thread, NULL, loop_main, l);
	if (err) {
		return why_set(why, err, "cannot start a thread: %s", strerror(-err));
	}
	pthread_mutex_lock(&l->lock);
	while (l->start_err > 0) {
		pthread_cond_wait(&l->answered, &l->lock);
	}
	err = l->start_err;
	pthread_mutex_unlock(&l->lock);
	if (err) {
		pthread_join(l->thread, NULL);
	}
	return err;
}

void loop_destroy(struct loop *l)
{
	struct loop_array *a, *next;

	if (!l) {
		return;
	}
	if (l->running) {
		struct mail quit = {.kind = MAIL_QUIT};

		pthread_mutex_lock(&l->lock);
		list_append(&l->mail, &quit.link);
		pthread_mutex_unlock(&l->lock);
		loop_wake(l);
		pthread_join(l->thread, NULL);
		l->running = false;
	}
	if (!list_empty(&l->conns) || l->members.used) {
		log_warning("a member holds I/O that does not end: its memory is left to the end "
			    "of the process");
		return;
	}
	list_for_each_entry_safe (a, next, &l->arrays, link) {
		array_destroy(a);
	}
	if (l->wake_fd >= 0) {
		close(l->wake_fd);
	}
	ring_destroy(l->ring);
	member_io_free(&l->members);
	bufs_free(&l->bufs);
	free(l->requests);
	free(l->slots);
	free(l->knock);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->answered);
	free(l);
}

static uint64_t get(const _Atomic uint64_t *stat)
{
	return atomic_load_explicit(stat, memory_order_relaxed);
}

void loop_get_stats(const struct loop *l, struct loop_stats *out)
{
	*out = (struct loop_stats){
		.sessions = get(&l->stat_sessions),
		.sessions_total = get(&l->stat_sessions_total),
		.requests = get(&l->stat_requests),
		.read_bytes = get(&l->stat_read_bytes),
		.write_bytes = get(&l->stat_write_bytes),
		.errors = get(&l->stat_errors),
		.payload_bytes_used = get(&l->stat_payload_bytes),
		.large_bytes_used = get(&l->stat_large_bytes),
	};
}
