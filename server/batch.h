/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For how many requests a receive should wait. Pure.
 *
 * A client that keeps many small requests in flight sends them one by one, and a server that is
 * awake takes them one by one: a turn of the loop, a send and a wake-up for each. Waiting until a
 * few have come (the socket's low water mark, and never longer than BATCH_HOLD_NS) costs such a
 * client nothing, since it still has replies to take in meanwhile.
 *
 * How many: twice as many after some receives that brought what they waited for, up to
 * BATCH_MAX; half of what came when time was up first: then that was all the client sends
 * without replies, or it is too slow for more. After each such failure the next attempt comes
 * later, so that a client with one request in flight is hardly ever kept waiting.
 */
#ifndef SERVER_BATCH_H
#define SERVER_BATCH_H

#include <stdint.h>

enum {
	BATCH_MAX = 8,
	BATCH_HOLD_NS = 100 * 1000,
	BATCH_TRIES_MIN = 64, /* receives before a larger number is tried */
	BATCH_TRIES_MAX = 64 << 10,
};

struct batch {
	uint32_t want;	/* requests; 1: do not wait */
	uint32_t good;	/* receives in a row that brought them */
	uint32_t tries; /* … needed to try more */
};

void batch_init(struct batch *b);

/* A receive that waited for want requests ended with this many. */
void batch_received(struct batch *b, uint32_t requests);

#endif
