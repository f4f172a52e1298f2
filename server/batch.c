/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/batch.h"

void batch_init(struct batch *b)
{
	*b = (struct batch){.want = 1, .tries = BATCH_TRIES_MIN};
}

void batch_received(struct batch *b, uint32_t requests)
{
	if (requests < b->want) {
		b->want = requests > 2 ? requests / 2 : 1;
		b->good = 0;
		if (b->tries < BATCH_TRIES_MAX) {
			b->tries *= 2;
		}
		return;
	}
	b->good++;
	if (b->want > 1 && b->good >= BATCH_TRIES_MIN) {
		b->tries = BATCH_TRIES_MIN; /* the last attempt was right */
	}
	if (b->good < b->tries || b->want == BATCH_MAX) {
		return;
	}
	b->want = b->want * 2 < BATCH_MAX ? b->want * 2 : BATCH_MAX;
	b->good = 0;
}
