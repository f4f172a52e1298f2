/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile client against one transmission: the input is a script of steps (bytes arrive, the
 * engine answers, a part of the replies leaves, the stream ends …). Every step checks the
 * invariants; at the end everything must have come back to the pools.
 */
#include <errno.h>

#include "server/tests/tx_world.h"

#define EXPORT_BYTES (UINT64_C(4) << 30)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

static void send_part(struct world *w, size_t most)
{
	struct iovec iov[4];
	uint32_t n = tx_send_vec(&w->t, iov, 4, 1 << 20);
	size_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		bytes += iov[i].iov_len;
	}
	tx_sent(&w->t, min_u64(bytes, most));
	world_collect(w, &w->t);
}

/* One step; returns how many bytes of the input it used beside its own. */
static size_t step(struct world *w, uint8_t what, const uint8_t *p, size_t left)
{
	struct iovec slot;
	size_t n;

	switch (what % 8) {
	case 0: /* a well-formed header over random fields, so that the depth is reached */
		if (left >= NBD_REQUEST_BYTES) {
			uint8_t head[NBD_REQUEST_BYTES];

			world_header(head, p[7] % 9, p[5], p[8], get_be32(p + 16),
				     get_be32(p + 24) >> (p[6] % 32));
			world_feed(w, head, sizeof head);
			return NBD_REQUEST_BYTES;
		}
		return 0;
	case 1:
	case 2:
		n = min_u64(what / 2, left);
		world_feed(w, p, n);
		return n;
	case 3: /* payload in place */
		if (tx_want(&w->t, &slot) == TX_WANT_SLOT) {
			n = what & 8 ? slot.iov_len : min_u64(slot.iov_len, what * 64);
			memset(slot.iov_base, what, n);
			tx_slot_filled(&w->t, n);
			world_collect(w, &w->t);
		}
		return 0;
	case 4:
	case 5:
		w->fail = what == 0xfd ? -EIO : 0;
		if (w->queued) {
			world_answer(w, what % w->queued);
		}
		return 0;
	case 6:
		send_part(w, what & 8 ? SIZE_MAX : what);
		return 0;
	default:
		if (what == 0xff) {
			tx_eof(&w->t);
		} else if (what == 0xf7) {
			tx_drain(&w->t);
		} else if (what == 0xef) {
			tx_abort(&w->t);
		} else {
			tx_resume(&w->t, what & 8 ? UINT64_MAX : 4096);
			world_collect(w, &w->t);
		}
		return 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t fragment[] = {4096, 64 << 10, 1 << 20, 512};
	static struct world *w; /* its memory serves all inputs; a session lives for one */

	if (size < 2) {
		return 0;
	}
	if (!w) {
		w = world_new(EXPORT_BYTES, WORLD_FLAGS, false);
	}
	world_session(w, &w->t, EXPORT_BYTES, WORLD_FLAGS | (data[0] & 4 ? NBD_FLAG_READ_ONLY : 0),
		      data[0] & 8, 32);
	w->fragment_bytes = fragment[data[0] % 4];
	for (size_t at = 1; at < size;) {
		uint8_t what = data[at++];

		at += step(w, what, data + at, size - at);
		world_check(w);
	}
	w->fail = 0;
	world_close(w);
	return 0;
}

/* Scripts that reach the rarer states, to start from. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	static const uint8_t cmds[] = {NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_TRIM, NBD_CMD_FLUSH};
	size_t n = 0;

	if (i >= 8 || size < 1024) {
		return 0;
	}
	buf[n++] = i % 4 | (i & 4 ? 8 : 0);
	for (unsigned k = 0; k < 8; k++) {
		uint8_t *p = buf + n + 1;

		buf[n] = 0;
		memset(p, 0, NBD_REQUEST_BYTES);
		p[6] = 8 + k;
		p[7] = cmds[(i + k) % 4];
		p[8] = k;
		put_be32(p + 16, 1 << 28);
		put_be32(p + 24, cmds[(i + k) % 4] == NBD_CMD_FLUSH ? 0 : UINT32_MAX);
		n += 1 + NBD_REQUEST_BYTES;
		buf[n++] = 11; /* payload */
		buf[n++] = 4;  /* answer */
		buf[n++] = 14; /* send */
		buf[n++] = 15; /* resume */
	}
	return n;
}
