/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transmission with a fake engine over memory, for test_transmission and fuzz_transmission: bytes
 * in, replies out, fragments answered when and how the test says. Static functions, because a test
 * program is one file.
 */
#ifndef SERVER_TESTS_TX_WORLD_H
#define SERVER_TESTS_TX_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/transmission.h"

enum {
	WORLD_DISK_BYTES = 8 << 20,
	WORLD_FRAGS = 128,
	WORLD_REQUESTS = 128,
	WORLD_FLAGS = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
		      NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_CACHE |
		      NBD_FLAG_SEND_FAST_ZERO,
};

struct world {
	struct bufs bufs;
	struct tx_shared shared;
	struct tx_target target;
	struct transmission t;
	struct tx_frag *frags;
	struct tx_request *requests;
	uint64_t fragment_bytes;
	uint8_t *disk; /* addresses beyond it wrap */

	/* the engine */
	struct tx_frag *queue[WORLD_FRAGS];
	uint32_t queued, submitted, more_seen, flags_seen;
	int fail; /* -errno for everything it answers, 0: works */

	/* the stream: what the transmission did not take yet, and what it sent */
	uint8_t *stash;
	size_t stash_len;
	uint8_t *out;
	size_t out_len;
};

static uint64_t world_split(const void *ctx, enum raid_op op, uint64_t addr, uint64_t len)
{
	const struct world *w = ctx;
	uint64_t unit = op == RAID_OP_TRIM || op == RAID_OP_ZERO ? RAID_FRAGMENT_ZERO_BYTES
								 : w->fragment_bytes;

	return min_u64(len, unit - addr % unit);
}

static inline void world_session(struct world *w, struct transmission *t, uint64_t size,
				 uint16_t tflags, bool structured, uint32_t depth_max)
{
	tx_init(t, &(struct tx_config){
			   .shared = &w->shared,
			   .target = &w->target,
			   .rules = {.size = size,
				     .tflags = tflags,
				     .read_only = tflags & NBD_FLAG_READ_ONLY,
				     .structured = structured},
			   .stream = 1,
			   .depth_max = depth_max,
		   });
}

static struct world *world_new(uint64_t size, uint16_t tflags, bool structured)
{
	struct world *w = calloc(1, sizeof *w);

	CHECK(w && bufs_init(&w->bufs, 8 << 20, 64 << 20) == 0);
	tx_shared_init(&w->shared, &w->bufs);
	w->frags = calloc(WORLD_FRAGS, sizeof *w->frags);
	w->requests = calloc(WORLD_REQUESTS, sizeof *w->requests);
	w->disk = aligned_alloc(RAID_PAGE_BYTES, WORLD_DISK_BYTES + RAID_FRAGMENT_BYTES);
	CHECK(w->frags && w->requests && w->disk);
	memset(w->disk, 0, WORLD_DISK_BYTES + RAID_FRAGMENT_BYTES);
	tx_shared_add_requests(&w->shared, w->requests, WORLD_REQUESTS);
	w->fragment_bytes = RAID_FRAGMENT_BYTES;
	tx_target_init(&w->target, world_split, w);
	tx_target_add_frags(&w->target, w->frags, WORLD_FRAGS);
	w->target.read_bytes.total = 16 << 20;
	world_session(w, &w->t, size, tflags, structured, 32);
	return w;
}

static inline void world_check(struct world *w)
{
	const char *broken = tx_check(&w->t);

	if (broken) {
		check_failed(broken, __FILE__, __LINE__, __func__);
	}
}

static inline void world_collect(struct world *w, struct transmission *t)
{
	struct tx_frag *f;

	while ((f = tx_next_submit(t))) {
		CHECK(w->queued < WORLD_FRAGS);
		w->queue[w->queued++] = f;
		w->submitted++;
		w->flags_seen = f->raid.flags & ~RAID_REQ_MORE;
		w->more_seen += !!(f->raid.flags & RAID_REQ_MORE);
	}
	while ((f = tx_next_release(t))) {
		tx_freed(f);
	}
}

/* Bytes arrive: fed, the rest kept; fragments collected; nothing answered. */
static inline void world_feed(struct world *w, const void *bytes, size_t n)
{
	size_t used;

	w->stash = realloc(w->stash, w->stash_len + n + 1);
	CHECK(w->stash);
	memcpy(w->stash + w->stash_len, bytes, n);
	w->stash_len += n;
	used = tx_feed(&w->t, w->stash, w->stash_len);
	w->stash_len -= used;
	memmove(w->stash, w->stash + used, w->stash_len);
	world_collect(w, &w->t);
	world_check(w);
}

/* The engine answers its i-th queued fragment. */
static inline void world_answer(struct world *w, uint32_t i)
{
	struct tx_frag *f = w->queue[i];
	struct transmission *t = f->t;
	uint8_t *at = w->disk + f->raid.addr % WORLD_DISK_BYTES;

	CHECK(i < w->queued);
	memmove(w->queue + i, w->queue + i + 1, (w->queued - i - 1) * sizeof w->queue[0]);
	w->queued--;
	f->raid.res = w->fail;
	f->raid.data = at;
	if (!w->fail && f->raid.op == RAID_OP_WRITE) {
		CHECK((uintptr_t)f->raid.payload % RAID_PAGE_BYTES ==
		      f->raid.addr % RAID_PAGE_BYTES);
		memcpy(at, f->raid.payload, f->raid.len);
	}
	tx_done(f);
	if (f->raid.op != RAID_OP_READ) {
		tx_freed(f);
	}
	world_collect(w, t);
}

static inline void world_send(struct world *w)
{
	struct iovec iov[8];
	uint32_t n;

	while ((n = tx_send_vec(&w->t, iov, 8, 1 << 20))) {
		size_t sent = 0;

		for (uint32_t i = 0; i < n; i++) {
			w->out = realloc(w->out, w->out_len + iov[i].iov_len);
			CHECK(w->out);
			memcpy(w->out + w->out_len, iov[i].iov_base, iov[i].iov_len);
			w->out_len += iov[i].iov_len;
			sent += iov[i].iov_len;
		}
		tx_sent(&w->t, sent);
		world_collect(w, &w->t);
	}
	world_check(w);
}

/* Answer and send until nothing moves. */
static inline void world_settle(struct world *w)
{
	for (;;) {
		size_t stash = w->stash_len;
		bool moved = w->queued > 0;

		while (w->queued) {
			world_answer(w, 0);
		}
		world_send(w);
		tx_resume(&w->t, UINT64_MAX);
		world_feed(w, "", 0);
		if (!moved && !w->queued && stash == w->stash_len) {
			return;
		}
	}
}

/* End the session: everything must come back. */
static void world_close(struct world *w)
{
	if (w->t.state != TX_DEAD) {
		tx_abort(&w->t);
	}
	tx_discard(&w->t);
	world_collect(w, &w->t);
	while (w->queued) {
		world_answer(w, 0);
	}
	CHECK(tx_ended(&w->t));
	CHECK(!w->target.frags.used && !w->target.read_bytes.used && !w->shared.requests.used);
	CHECK(!w->bufs.payload.used_bytes && !w->bufs.large.used_bytes);
	w->stash_len = w->out_len = 0;
}

static inline void world_free(struct world *w)
{
	world_close(w);
	bufs_free(&w->bufs);
	free(w->frags);
	free(w->requests);
	free(w->disk);
	free(w->stash);
	free(w->out);
	free(w);
}

/* A header into buf; returns its 28 bytes. */
static inline size_t world_header(uint8_t *buf, uint16_t cmd, uint16_t flags, uint64_t cookie,
				  uint64_t addr, uint32_t len)
{
	put_be32(buf, NBD_REQUEST_MAGIC);
	put_be16(buf + 4, flags);
	put_be16(buf + 6, cmd);
	put_be64(buf + 8, cookie);
	put_be64(buf + 16, addr);
	put_be32(buf + 24, len);
	return NBD_REQUEST_BYTES;
}

#endif
