/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resync controller against disks with service times, in virtual time: what DESIGN promises of
 * a rebuild beside clients, as figures that are the same in every run.
 *
 * The model: each disk serves its queue in order. An io that does not begin where the one before
 * ended takes a seek (1..15 ms, drawn), then its bytes at the disk's rate. A piece of a rebuild
 * reads 512 KiB of every source and then writes the target. Clients read 4 KiB anywhere, each from
 * one source, and ask again think_ns after the answer.
 */
#include "raid/sync_rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

#define MS     ((uint64_t)1000000)
#define SECOND (1000 * MS)

enum { DISKS = 4, TARGET = DISKS - 1, PIECE = 512 * 1024, BLOCK = 4096, CLIENTS_MAX = 128 };
enum { PIECES_MAX = 64, REQUESTS_MAX = 1 << 20 };

struct disk {
	uint64_t free_at, position;
};

struct model {
	uint64_t random;
	uint64_t rate_bps, seek_min_ns, seek_max_ns;
	struct disk disk[DISKS];

	uint32_t clients;
	uint64_t think_ns;
	struct {
		uint64_t asked_at, ends_at; /* ends_at RAID_NEVER: thinking */
		uint64_t asks_at;
	} client[CLIENTS_MAX];
	uint64_t latency[REQUESTS_MAX];
	uint32_t requests;

	bool sync;
	struct sync_rate rate;
	struct {
		bool used, writing;
		uint64_t lo, started_at, ends_at;
	} piece[PIECES_MAX];
	uint64_t next_lo, synced_bytes;
	uint32_t in_flight, in_flight_max;

	uint64_t now;
};

static struct model m;

static uint64_t draw(uint64_t below)
{
	m.random ^= m.random << 13;
	m.random ^= m.random >> 7;
	m.random ^= m.random << 17;
	return m.random % below;
}

/* Queue an io; says when it is done. */
static uint64_t disk_io(uint32_t d, uint64_t at, uint64_t bytes)
{
	struct disk *disk = &m.disk[d];
	uint64_t took = bytes * 1000 / (m.rate_bps / 1000000);

	if (disk->position != at) {
		took += m.seek_min_ns + draw(m.seek_max_ns - m.seek_min_ns + 1);
	}
	disk->position = at + bytes;
	disk->free_at = max_u64(disk->free_at, m.now) + took;
	return disk->free_at;
}

static void ask(uint32_t c)
{
	m.client[c].asked_at = m.now;
	m.client[c].asks_at = RAID_NEVER;
	m.client[c].ends_at =
		disk_io((uint32_t)draw(TARGET), BLOCK * draw((uint64_t)1 << 28), BLOCK);
	sync_rate_foreground_start(&m.rate, m.now);
}

static void answer(uint32_t c)
{
	uint64_t took = m.now - m.client[c].asked_at;

	assert_true(m.requests < REQUESTS_MAX);
	m.latency[m.requests++] = took;
	m.client[c].ends_at = RAID_NEVER;
	m.client[c].asks_at = m.now + m.think_ns;
	sync_rate_foreground_stop(&m.rate, m.now, took);
}

static void start_piece(void)
{
	uint32_t i = 0;

	while (m.piece[i].used) {
		i++;
	}
	assert_true(i < PIECES_MAX);
	m.piece[i].used = true;
	m.piece[i].writing = false;
	m.piece[i].lo = m.next_lo;
	m.piece[i].started_at = m.now;
	m.piece[i].ends_at = 0;
	for (uint32_t d = 0; d < TARGET; d++) {
		m.piece[i].ends_at = max_u64(m.piece[i].ends_at, disk_io(d, m.next_lo, PIECE));
	}
	m.next_lo += PIECE;
	m.in_flight++;
	m.in_flight_max = (uint32_t)max_u64(m.in_flight_max, m.in_flight);
	sync_rate_start(&m.rate, m.now, PIECE);
}

static void piece_step(uint32_t i)
{
	if (!m.piece[i].writing) {
		m.piece[i].writing = true;
		m.piece[i].ends_at = disk_io(TARGET, m.piece[i].lo, PIECE);
		return;
	}
	m.piece[i].used = false;
	m.in_flight--;
	m.synced_bytes += PIECE;
	sync_rate_done(&m.rate, m.now, PIECE, m.now - m.piece[i].started_at);
}

/* Everything that happens at now or before, in a fixed order. Says when the next thing happens. */
static uint64_t turn(uint64_t end)
{
	uint64_t next = end;

	for (uint32_t i = 0; i < PIECES_MAX; i++) {
		if (m.piece[i].used && m.piece[i].ends_at <= m.now) {
			piece_step(i);
		}
		if (m.piece[i].used) {
			next = min_u64(next, m.piece[i].ends_at);
		}
	}
	for (uint32_t c = 0; c < m.clients; c++) {
		if (m.client[c].ends_at <= m.now) {
			answer(c);
		}
		if (m.client[c].asks_at <= m.now) {
			ask(c);
		}
		next = min_u64(next, min_u64(m.client[c].ends_at, m.client[c].asks_at));
	}
	while (m.sync && sync_rate_may_start(&m.rate, m.now)) {
		start_piece();
		next = m.now; /* its io may end before what was looked at */
	}
	return m.sync ? min_u64(next, max_u64(sync_rate_next_ns(&m.rate), m.now)) : next;
}

static void run(uint64_t for_ns)
{
	uint64_t end = m.now + for_ns;

	while (m.now < end) {
		uint64_t next = turn(end);

		m.now = max_u64(next, m.now + 1);
	}
}

static const struct sync_rate_limits defaults = {
	.min_bps = 1000000,
	.max_bps = 0,
	.target_ns = 20 * MS,
	.depth_max = SYNC_RATE_DEPTH_DEFAULT,
};

static void hard_disks(void)
{
	memset(&m, 0, sizeof m);
	m.random = 88172645463325252u;
	m.rate_bps = 150000000;
	m.seek_min_ns = MS;
	m.seek_max_ns = 15 * MS;
	m.next_lo = (uint64_t)1 << 40; /* nowhere near the clients' */
	m.now = 1000 * SECOND;
	for (uint32_t c = 0; c < CLIENTS_MAX; c++) {
		m.client[c].ends_at = m.client[c].asks_at = RAID_NEVER;
	}
	sync_rate_init(&m.rate, &defaults, m.now);
}

static void flash(void)
{
	hard_disks();
	m.rate_bps = 2000000000;
	m.seek_min_ns = 60000;
	m.seek_max_ns = 100000;
}

static void clients(uint32_t n, uint64_t think_ns)
{
	m.clients = n;
	m.think_ns = think_ns;
	for (uint32_t c = 0; c < n; c++) {
		m.client[c].asks_at = m.now + draw(think_ns + 1);
	}
}

/* ---- figures ------------------------------------------------------------------------------- */

struct figures {
	uint64_t requests, p99_ns, sync_bps;
	uint32_t in_flight_max;
};

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Beside so many clients, after a second to settle. */
static struct figures measure(void (*disks)(void), uint32_t n, uint64_t think_ns, bool sync,
			      uint64_t for_ns)
{
	struct figures f;
	uint64_t bytes;

	disks();
	clients(n, think_ns);
	run(SECOND);
	m.sync = sync;
	sync_rate_begin(&m.rate, m.now);
	run(SECOND);
	m.requests = 0;
	m.in_flight_max = 0;
	bytes = m.synced_bytes;
	run(for_ns);
	qsort(m.latency, m.requests, sizeof *m.latency, by_value);
	f.requests = m.requests;
	f.p99_ns = m.requests ? m.latency[m.requests * 99 / 100] : 0;
	f.sync_bps = (m.synced_bytes - bytes) * 1000 / (for_ns / MS);
	f.in_flight_max = m.in_flight_max;
	return f;
}

/* Foreground keeps nine tenths, its p99 at most doubles, the floor is reached. */
static void beside(const char *name, void (*disks)(void), uint32_t n, uint64_t think_ns,
		   uint64_t for_ns, struct figures *with)
{
	struct figures alone = measure(disks, n, think_ns, false, for_ns), again;

	*with = measure(disks, n, think_ns, true, for_ns);
	again = measure(disks, n, think_ns, true, for_ns);
	print_message("%s: %llu requests, alone %llu; p99 %llu us, alone %llu; sync %llu kB/s\n",
		      name, (unsigned long long)with->requests, (unsigned long long)alone.requests,
		      (unsigned long long)with->p99_ns / 1000,
		      (unsigned long long)alone.p99_ns / 1000,
		      (unsigned long long)with->sync_bps / 1000);
	assert_memory_equal(with, &again, sizeof again);
	assert_true(10 * with->requests >= 9 * alone.requests);
	assert_true(with->p99_ns <= 2 * alone.p99_ns);
	/* The last piece of the time may still be under way. */
	assert_true(with->sync_bps + PIECE * SECOND / for_ns >= 1000000);
}

static void idle_disks_are_kept_full(void **state)
{
	struct figures f = measure(hard_disks, 0, 0, true, 20 * SECOND);

	print_message("hard disks %llu kB/s\n", (unsigned long long)f.sync_bps / 1000);
	assert_true(10 * f.sync_bps >= 9 * (uint64_t)150000000);
	f = measure(flash, 0, 0, true, 5 * SECOND);
	print_message("flash %llu kB/s\n", (unsigned long long)f.sync_bps / 1000);
	assert_true(10 * f.sync_bps >= 9 * (uint64_t)2000000000);
	assert_int_equal(f.in_flight_max, SYNC_RATE_DEPTH_DEFAULT);
}

static void saturating_foreground(void **state)
{
	struct figures f;

	beside("hard disks, 32 clients", hard_disks, 32, 0, 60 * SECOND, &f);
	assert_true(f.sync_bps <= 1100000);
	beside("hard disks, 128 clients", hard_disks, 128, 0, 60 * SECOND, &f);
	assert_true(f.sync_bps <= 1100000);
	beside("flash, 32 clients", flash, 32, 0, 5 * SECOND, &f);
	beside("flash, 128 clients", flash, 128, 0, 5 * SECOND, &f);
}

static void light_foreground(void **state)
{
	struct figures f;

	beside("hard disks, 1 client", hard_disks, 1, 0, 60 * SECOND, &f);
	assert_int_equal(f.in_flight_max, 1);
	beside("hard disks, 4 clients", hard_disks, 4, 0, 60 * SECOND, &f);
	assert_int_equal(f.in_flight_max, 1);
	beside("hard disks, 1 client that thinks 20 ms", hard_disks, 1, 20 * MS, 60 * SECOND, &f);
	beside("flash, 1 client", flash, 1, 0, 5 * SECOND, &f);
	assert_int_equal(f.in_flight_max, 1);
	beside("flash, 1 client that thinks 1 ms", flash, 1, MS, 20 * SECOND, &f);
}

/* A client that comes twice a second leaves most of the time to the sync. */
static void seldom_foreground(void **state)
{
	struct figures f = measure(hard_disks, 1, 500 * MS, true, 60 * SECOND);

	print_message("hard disks, 1 client that thinks 500 ms: sync %llu kB/s, %llu requests\n",
		      (unsigned long long)f.sync_bps / 1000, (unsigned long long)f.requests);
	assert_true(f.sync_bps >= 40000000);
	assert_true(f.requests >= 9 * 60 * 2 / 10);
}

/* ---- one thing at a time ------------------------------------------------------------------- */

/* Foreground that arrives meets the pieces in flight, and from then on one at most. */
static void drops_to_one_when_foreground_arrives(void **state)
{
	uint64_t arrived;

	hard_disks();
	m.sync = true;
	run(10 * SECOND);
	assert_int_equal(m.in_flight, SYNC_RATE_DEPTH_DEFAULT);
	clients(8, 0);
	run(1);
	arrived = m.next_lo;
	/* One round trip: nothing starts while the pieces that were there are done. */
	while (m.in_flight) {
		assert_int_equal(m.next_lo, arrived);
		run(MS);
	}
	m.in_flight_max = 0;
	run(20 * SECOND);
	assert_int_equal(m.in_flight_max, 1);
	/* And when it has gone, it takes the quiet time and the ramp, no more. */
	m.clients = 0;
	for (uint32_t c = 0; c < 8; c++) {
		if (m.client[c].ends_at != RAID_NEVER) {
			sync_rate_foreground_stop(&m.rate, m.now, MS);
		}
	}
	m.synced_bytes = 0;
	run(2 * SECOND);
	assert_true(m.synced_bytes >= 150000000 * (uint64_t)2 * 9 / 10);
}

static uint64_t bps_during(uint64_t for_ns)
{
	uint64_t before = m.synced_bytes;

	run(for_ns);
	return (m.synced_bytes - before) * 1000 / (for_ns / MS);
}

static void assert_about(uint64_t bps, uint64_t want)
{
	if (bps < want - want / 20 || bps > want + want / 20) {
		fail_msg("%llu B/s, not %llu", (unsigned long long)bps, (unsigned long long)want);
	}
}

/* The same sync goes on under every new limit, from the next piece on. */
static void limits_change_live(void **state)
{
	struct sync_rate_limits limits = defaults;

	hard_disks();
	m.sync = true;
	assert_true(bps_during(5 * SECOND) >= 135000000);
	limits.max_bps = 10000000;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	run(SECOND);
	assert_about(bps_during(20 * SECOND), 10000000);
	limits.max_bps = 60000000;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	assert_about(bps_during(20 * SECOND), 60000000);
	limits.max_bps = 100000; /* a piece in 5 s; and then at once more */
	sync_rate_set_limits(&m.rate, &limits, m.now);
	assert_about(bps_during(100 * SECOND), 100000);
	limits.max_bps = 0;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	assert_true(bps_during(2 * SECOND) >= 135000000);

	/* The floor, beside clients that take all there is. */
	clients(32, 0);
	run(SECOND);
	assert_about(bps_during(60 * SECOND), 1000000);
	limits.min_bps = 5000000;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	assert_about(bps_during(60 * SECOND), 5000000);
	limits.min_bps = 200000;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	run(5 * SECOND);
	assert_about(bps_during(120 * SECOND), 200000);
	limits.max_bps = 100000; /* wins over min */
	sync_rate_set_limits(&m.rate, &limits, m.now);
	assert_about(bps_during(200 * SECOND), 100000);
	limits.min_bps = 0; /* no floor, and clients too slow for a share */
	limits.max_bps = 0;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	run(5 * SECOND);
	assert_int_equal(bps_during(60 * SECOND), 0);
	limits.min_bps = 1000000; /* nothing is owed for the time without */
	sync_rate_set_limits(&m.rate, &limits, m.now);
	m.in_flight_max = 0;
	assert_about(bps_during(20 * SECOND), 1000000);
	assert_int_equal(m.in_flight_max, 1);
	limits.depth_max = 1;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	m.in_flight_max = 0;
	assert_about(bps_during(60 * SECOND), 1000000);
	assert_int_equal(m.in_flight_max, 1);
}

/* Where a piece takes longer than the floor allows for it, several are in flight. */
static void floor_is_reached_on_slow_members(void **state)
{
	hard_disks();
	m.seek_min_ns = 20 * MS;
	m.seek_max_ns = 60 * MS;
	m.sync = true;
	clients(64, 0); /* each io waits 0.8 s: a piece takes 1.6 s */
	run(10 * SECOND);
	m.in_flight_max = 0;
	assert_about(bps_during(120 * SECOND), 1000000);
	assert_true(m.in_flight_max > 1 && m.in_flight_max < SYNC_RATE_DEPTH_DEFAULT);
}

/* Asked twice at the same time the answer is the same; asked at next_ns it is yes. */
static void next_is_when_it_may_start(void **state)
{
	struct sync_rate_limits limits = {.min_bps = 1000000, .target_ns = MS, .depth_max = 2};
	struct sync_rate r;
	uint64_t at;

	sync_rate_init(&r, &limits, 5 * SECOND);
	assert_true(sync_rate_may_start(&r, 5 * SECOND));
	sync_rate_start(&r, 5 * SECOND, PIECE);
	assert_int_equal(sync_rate_next_ns(&r), 5 * SECOND + 2 * (uint64_t)PIECE * 1000);
	sync_rate_foreground_start(&r, 5 * SECOND);
	sync_rate_done(&r, 5 * SECOND + MS, PIECE, MS);
	assert_int_equal(sync_rate_next_ns(&r), 5 * SECOND + 12 * MS); /* the twelfth */
	assert_false(sync_rate_may_start(&r, 5 * SECOND + 12 * MS - 1));
	assert_true(sync_rate_may_start(&r, 5 * SECOND + 12 * MS));
	sync_rate_foreground_stop(&r, 5 * SECOND + 3 * MS, 3 * MS); /* over the target */
	at = 5 * SECOND + 13 * MS;				    /* absent after 10 ms */
	assert_int_equal(sync_rate_next_ns(&r), at);
	sync_rate_start(&r, at, PIECE);
	sync_rate_done(&r, at + MS, PIECE, MS);
	/* Two in flight after the first, then only something that ends helps. */
	sync_rate_start(&r, at + MS, PIECE);
	assert_true(sync_rate_may_start(&r, at + MS));
	sync_rate_start(&r, at + MS, PIECE);
	assert_int_equal(sync_rate_next_ns(&r), RAID_NEVER);
}

static void a_failed_piece_counts_nothing(void **state)
{
	struct sync_rate r;

	sync_rate_init(&r, &defaults, SECOND);
	sync_rate_start(&r, SECOND, PIECE);
	sync_rate_done(&r, SECOND + MS, 0, MS);
	assert_int_equal(sync_rate_speed_bps(&r, 2 * SECOND), UINT64_MAX);
	assert_true(sync_rate_may_start(&r, SECOND + MS));
	sync_rate_begin(&r, 2 * SECOND);
	assert_true(sync_rate_may_start(&r, 2 * SECOND));
}

static void speed_and_eta(void **state)
{
	struct sync_rate_limits limits = defaults;
	uint64_t speed;

	hard_disks();
	assert_int_equal(sync_rate_speed_bps(&m.rate, m.now), UINT64_MAX);
	assert_int_equal(sync_rate_eta_s(&m.rate, m.now, 1000), UINT64_MAX);
	assert_int_equal(sync_rate_eta_s(&m.rate, m.now, 0), 0);
	m.sync = true;
	run(SECOND / 2);
	assert_in_range(sync_rate_speed_bps(&m.rate, m.now), 135000000, 150000000);
	run(10 * SECOND);
	speed = sync_rate_speed_bps(&m.rate, m.now);
	assert_about(speed, 150000000);
	assert_int_equal(sync_rate_eta_s(&m.rate, m.now, 100 * speed), 100);
	assert_int_equal(sync_rate_eta_s(&m.rate, m.now, 100 * speed + 1), 101);
	assert_true(sync_rate_eta_s(&m.rate, m.now, UINT64_MAX) > 100000000000);
	/* Slower: it follows within some seconds. */
	limits.max_bps = 10000000;
	sync_rate_set_limits(&m.rate, &limits, m.now);
	run(20 * SECOND);
	assert_about(sync_rate_speed_bps(&m.rate, m.now), 10000000);
	/* It stands still: the speed falls, the rest takes for ever. */
	m.sync = false;
	run(100 * SECOND);
	assert_true(sync_rate_speed_bps(&m.rate, m.now) < 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_disks_are_kept_full),
		cmocka_unit_test(saturating_foreground),
		cmocka_unit_test(light_foreground),
		cmocka_unit_test(seldom_foreground),
		cmocka_unit_test(drops_to_one_when_foreground_arrives),
		cmocka_unit_test(limits_change_live),
		cmocka_unit_test(floor_is_reached_on_slow_members),
		cmocka_unit_test(next_is_when_it_may_start),
		cmocka_unit_test(a_failed_piece_counts_nothing),
		cmocka_unit_test(speed_and_eta),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
