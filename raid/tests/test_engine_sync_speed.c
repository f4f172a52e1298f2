/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Foreground first, through the whole engine: members are disks that serve one io after the other
 * at a byte rate, in virtual time; so every figure is exact and repeatable. RAID 5 of 4, resync and
 * rebuild: alone, beside one client that waits for each answer, beside clients that take all the
 * disks can give.
 */
#include "raid/tests/engine_sync.h"

enum { MS = 1000000, DISK_BPS = 100000000, REQ = 65536, CLIENTS = 16, FLYING = 4096 };

struct flight {
	struct raid_io *io;
	uint64_t done_ns;
};

struct client {
	struct rig_req *req;
	uint64_t since_ns, again_ns;
};

struct world {
	struct rig *r;
	uint64_t free_ns[8]; /* when a disk is done with what it has */
	struct flight flight[FLYING];
	uint32_t flying;
	uint32_t clients;
	uint64_t think_ns; /* between an answer and the next question */
	struct client client[CLIENTS];
	uint64_t seed, served_bytes, answers, slowest_ns, total_ns;
};

/* What was emitted goes into its disk's queue. */
static void queue(struct world *w)
{
	struct rig *r = w->r;

	for (uint32_t i = 0; i < r->ios; i++) {
		struct raid_io *io = r->io[i];
		uint64_t *free_ns = &w->free_ns[io->member];

		if (*free_ns < r->now.mono_ns) {
			*free_ns = r->now.mono_ns;
		}
		*free_ns += io->len * 1000 / (DISK_BPS / 1000000);
		assert_true(w->flying < FLYING);
		w->flight[w->flying++] = (struct flight){io, *free_ns};
	}
	r->ios = 0;
}

static void ask(struct world *w, struct client *c)
{
	struct rig *r = w->r;
	uint64_t units = raid_size(r->a) / REQ;

	c->since_ns = r->now.mono_ns;
	c->req = rig_submit(r, RAID_OP_READ, sync_random(&w->seed) % units * REQ, REQ, 0, NULL);
}

/* Take answers, ask again. Returns whether there is something to step for. */
static bool hear(struct world *w)
{
	bool moved = false;

	for (uint32_t i = 0; i < w->clients; i++) {
		struct client *c = &w->client[i];
		uint64_t now = w->r->now.mono_ns;

		if (c->req && c->req->state & 1) {
			uint64_t took = now - c->since_ns;

			w->answers++;
			w->total_ns += took;
			w->slowest_ns = took > w->slowest_ns ? took : w->slowest_ns;
			w->served_bytes += REQ;
			raid_release(w->r->a, &c->req->req);
			free(c->req);
			c->req = NULL;
			c->again_ns = now + w->think_ns;
			moved = true;
		}
		if (!c->req && c->again_ns <= now) {
			ask(w, c);
			moved = true;
		}
	}
	return moved;
}

static uint64_t next_ns(const struct world *w)
{
	uint64_t at = raid_deadline(w->r->a);

	for (uint32_t i = 0; i < w->flying; i++) {
		at = w->flight[i].done_ns < at ? w->flight[i].done_ns : at;
	}
	for (uint32_t i = 0; i < w->clients; i++) {
		const struct client *c = &w->client[i];

		at = !c->req && c->again_ns < at ? c->again_ns : at;
	}
	return at;
}

static void turn(struct world *w)
{
	struct rig *r = w->r;
	uint64_t at;

	hear(w);
	do {
		rig_step(r);
		queue(w);
	} while (hear(w));
	at = next_ns(w);
	if (at == RAID_NEVER) {
		return;
	}
	r->now.mono_ns = at > r->now.mono_ns ? at : r->now.mono_ns;
	for (uint32_t i = 0; i < w->flying;) {
		struct raid_io *io = w->flight[i].io;

		if (w->flight[i].done_ns > r->now.mono_ns) {
			i++;
			continue;
		}
		w->flight[i] = w->flight[--w->flying];
		rig_transfer(r, io);
		raid_complete(r->a, io, 0);
	}
}

static struct world *world_new(uint32_t spares, bool sync, uint32_t clients, uint64_t think_ns)
{
	struct rig_shape shape = {.level = RAID_LEVEL_5,
				  .layout = 2,
				  .slots = 4,
				  .chunk_sectors = 128,
				  .sectors = 262144,
				  .spares = spares,
				  .sync = sync,
				  .resync = spares ? 0 : RIG_DIRTY};
	struct world *w = calloc(1, sizeof *w);

	w->r = rig_new(&shape);
	w->clients = clients;
	w->think_ns = think_ns;
	w->seed = 7;
	return w;
}

static void world_free(struct world *w)
{
	w->clients = 0;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		while (w->client[i].req && !(w->client[i].req->state & 1)) {
			turn(w);
		}
		if (w->client[i].req) {
			raid_release(w->r->a, &w->client[i].req->req);
			free(w->client[i].req);
		}
	}
	while (w->flying || raid_deadline(w->r->a) != RAID_NEVER) {
		turn(w);
	}
	rig_free(w->r);
	free(w);
}

/* Serve for so long. */
static void pass(struct world *w, uint64_t ns)
{
	uint64_t end = w->r->now.mono_ns + ns;

	w->served_bytes = w->answers = w->slowest_ns = w->total_ns = 0;
	while (w->r->now.mono_ns < end) {
		turn(w);
	}
}

static uint64_t whole_ns(struct world *w)
{
	uint64_t begin = w->r->now.mono_ns;

	turn(w);
	assert_int_not_equal(sync_status(w->r).sync.action, RAID_SYNC_IDLE);
	while (sync_status(w->r).sync.action != RAID_SYNC_IDLE) {
		turn(w);
	}
	return w->r->now.mono_ns - begin;
}

static uint64_t component_bytes(const struct world *w)
{
	return w->r->shape.sectors * 512;
}

/* Alone a resync takes at least nine tenths of what the disks can give. */
static void test_alone(void **state)
{
	struct world *w = world_new(0, true, 0, 0);
	uint64_t bps = component_bytes(w) * 1000000 / (whole_ns(w) / 1000);

	(void)state;
	print_message("resync alone: %llu bytes a second of %u\n", (unsigned long long)bps,
		      DISK_BPS);
	assert_true(bps >= DISK_BPS / 10 * 9);
	world_free(w);
}

static void test_rebuild_alone(void **state)
{
	struct world *w = world_new(1, true, 0, 0);
	struct raid_cmd cmd = {.op = RAID_CMD_FAIL, .member = 1};
	uint64_t bps;

	(void)state;
	raid_control(w->r->a, &cmd);
	while (sync_status(w->r).sync.action == RAID_SYNC_IDLE) {
		turn(w);
	}
	bps = component_bytes(w) * 1000000 / (whole_ns(w) / 1000);
	print_message("rebuild alone: %llu\n", (unsigned long long)bps);
	assert_true(bps >= DISK_BPS / 10 * 9);
	world_free(w);
}

/* Beside clients that take all: they keep nine tenths, the resync its floor. */
static void test_saturated(void **state)
{
	struct world *idle = world_new(0, false, CLIENTS, 0);
	struct world *busy = world_new(0, true, CLIENTS, 0);
	uint64_t done;

	(void)state;
	pass(idle, 500 * MS);
	pass(idle, 2000ull * MS);
	pass(busy, 500 * MS);
	done = sync_status(busy->r).sync.done;
	pass(busy, 2000ull * MS);
	done = (sync_status(busy->r).sync.done - done) / 2;
	print_message("clients: %llu alone, %llu beside a resync of %llu\n",
		      (unsigned long long)idle->served_bytes / 2,
		      (unsigned long long)busy->served_bytes / 2, (unsigned long long)done);
	assert_int_equal(sync_status(busy->r).sync.action, RAID_SYNC_RESYNC);
	assert_true(busy->served_bytes * 10 >= idle->served_bytes * 9);
	assert_true(done >= 1000000);
	world_free(idle);
	world_free(busy);
}

/* Beside one that waits for each answer and thinks: nearly the same times, more for the resync. */
static void test_light(void **state)
{
	struct world *idle = world_new(0, false, 1, 5 * MS);
	struct world *busy = world_new(0, true, 1, 5 * MS);
	uint64_t done;

	(void)state;
	pass(idle, 500 * MS);
	pass(idle, 1000 * MS);
	pass(busy, 500 * MS);
	done = sync_status(busy->r).sync.done;
	pass(busy, 1000 * MS);
	done = sync_status(busy->r).sync.done - done;
	print_message("one client: %llu ns, %llu beside a resync of %llu\n",
		      (unsigned long long)(idle->total_ns / idle->answers),
		      (unsigned long long)(busy->total_ns / busy->answers),
		      (unsigned long long)done);
	assert_true(busy->answers * 10 >= idle->answers * 9);
	assert_true(done >= 1000000);
	world_free(idle);
	world_free(busy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_rebuild_alone),
		cmocka_unit_test(test_saturated),
		cmocka_unit_test(test_light),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
