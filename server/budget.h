/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded resource that sessions share (buffer bytes, fragments, request objects).
 *
 * The rule: a session that holds some may take more only while it then holds at most half of what
 * is left free. One session alone gets a third of the total, n greedy ones leave 2/(n+2) free, so
 * that clients which never read their replies (or never finish a payload) cannot take everything
 * and a newcomer finds room. A session that holds nothing needs only that there is enough.
 */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/base/check.h"

struct budget {
	uint64_t total, used;
};

static inline bool budget_allows(const struct budget *b, uint64_t held, uint64_t amount)
{
	uint64_t left = b->total - b->used;

	if (amount > left) {
		return false;
	}
	return !held || held + amount <= (left - amount) / 2;
}

static inline void budget_take(struct budget *b, uint64_t amount)
{
	CHECK(amount <= b->total - b->used);
	b->used += amount;
}

static inline void budget_put(struct budget *b, uint64_t amount)
{
	CHECK(amount <= b->used);
	b->used -= amount;
}

#endif
