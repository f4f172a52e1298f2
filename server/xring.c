/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/xring.h"

#include <errno.h>
#include <stdlib.h>

#include "raid/base/check.h"

int xring_init(struct xring *x, uint32_t entries)
{
	uint32_t size = 1;

	CHECK(entries && entries <= UINT32_C(1) << 30);
	while (size < entries) {
		size *= 2;
	}
	x->mask = size - 1;
	x->slot = calloc(size, sizeof *x->slot);
	atomic_init(&x->head, 0);
	atomic_init(&x->tail, 0);
	return x->slot ? 0 : -ENOMEM;
}

void xring_free(struct xring *x)
{
	free(x->slot);
	x->slot = NULL;
}

void xring_push(struct xring *x, struct xring_msg msg)
{
	uint32_t tail = atomic_load_explicit(&x->tail, memory_order_relaxed);

	CHECK(tail - atomic_load_explicit(&x->head, memory_order_acquire) <= x->mask);
	x->slot[tail & x->mask] = msg;
	atomic_store_explicit(&x->tail, tail + 1, memory_order_release);
}

bool xring_pop(struct xring *x, struct xring_msg *out)
{
	uint32_t head = atomic_load_explicit(&x->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&x->tail, memory_order_acquire)) {
		return false;
	}
	*out = x->slot[head & x->mask];
	atomic_store_explicit(&x->head, head + 1, memory_order_release);
	return true;
}
