/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/clock.h"

#include <stdlib.h>
#include <string.h>

#include "raid/base/check.h"

void clock_init(struct clock *c)
{
	memset(c, 0, sizeof *c);
}

void clock_free(struct clock *c)
{
	free(c->heap);
	memset(c, 0, sizeof *c);
}

static bool earlier(const struct clock_event *a, const struct clock_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void clock_schedule(struct clock *c, uint64_t at_ns, int kind, void *object)
{
	struct clock_event e = {.at_ns = at_ns, .order = c->scheduled++, kind, object};
	size_t i;

	if (c->count == c->room) {
		c->room = c->room ? c->room * 2 : 256;
		c->heap = realloc(c->heap, c->room * sizeof *c->heap);
		CHECK(c->heap);
	}
	for (i = c->count++; i > 0 && earlier(&e, &c->heap[(i - 1) / 2]); i = (i - 1) / 2) {
		c->heap[i] = c->heap[(i - 1) / 2];
	}
	c->heap[i] = e;
}

uint64_t clock_next_ns(const struct clock *c)
{
	return c->count ? c->heap[0].at_ns : UINT64_MAX;
}

bool clock_pop(struct clock *c, struct clock_event *out)
{
	struct clock_event last;
	size_t i = 0, child;

	if (c->count == 0) {
		return false;
	}
	*out = c->heap[0];
	last = c->heap[--c->count];
	while ((child = 2 * i + 1) < c->count) {
		if (child + 1 < c->count && earlier(&c->heap[child + 1], &c->heap[child])) {
			child++;
		}
		if (!earlier(&c->heap[child], &last)) {
			break;
		}
		c->heap[i] = c->heap[child];
		i = child;
	}
	c->heap[i] = last;
	return true;
}

void clock_clear(struct clock *c)
{
	c->count = 0;
}
