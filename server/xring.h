/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fixed ring of pointers from one thread to one other: what crosses between loops. The producer
 * alone calls xring_push(), the consumer alone xring_pop(); a popped pointer's memory is as the
 * producer left it before the push. Credits bound what is under way, so a full ring is a bug of
 * ours. It wakes nobody: doorbells are the loop's.
 */
#ifndef SERVER_XRING_H
#define SERVER_XRING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct xring_msg {
	uint32_t kind; /* the user's */
	void *ptr;
};

struct xring {
	uint32_t mask;
	struct xring_msg *slot;
	/* Apart, so that the two threads do not share a cache line. */
	_Atomic uint32_t head; /* next to pop; the consumer's */
	uint8_t apart[64];
	_Atomic uint32_t tail; /* next to push; the producer's */
};

/* Room for at least entries messages. 0 or -ENOMEM. */
int xring_init(struct xring *x, uint32_t entries);
void xring_free(struct xring *x);

void xring_push(struct xring *x, struct xring_msg msg);
bool xring_pop(struct xring *x, struct xring_msg *out);

#endif
