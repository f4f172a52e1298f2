/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of overlapping writes (rule 7): a range is granted when no earlier range that overlaps
 * it is still there. What writes holds one: fragments (widened to whole blocks, so that the
 * read-modify-write of an edge is covered), repairs and the sync machine's orders. Reads hold none
 * and wait for none. Parity levels lock rows instead, in a table of their own in bytes of the
 * component: stripes, of reads too where they compute, and sync orders.
 *
 * Ranges live in hash buckets by region, at two sizes of region, and the large ones in one list;
 * a lookup sees only what is near. Nothing here allocates: a range is part of its owner.
 */
#ifndef RAID_RANGE_H
#define RAID_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/base/list.h"

enum {
	RANGE_SMALL_SHIFT = 16, /* ≤ 64 KiB: at most two regions of that size */
	RANGE_BIG_SHIFT = 20,	/* ≤ 1 MiB */
	RANGE_BUCKETS = 1024,	/* of each size, power of two */
};

/* Whose a range is: what it is part of. */
enum range_owner { RANGE_FRAG, RANGE_JOB, RANGE_STRIPE, RANGE_SYNC };

enum range_state { RANGE_OUT, RANGE_WAITING, RANGE_GRANTED };

struct range_node {
	struct list link;
	struct range *range;
};

struct range {
	uint64_t start, end;
	uint64_t seq; /* order of insertion */
	enum range_state state;
	enum range_owner owner;
	struct range_node node[2];
	struct list ready; /* range_table.ready once granted after a wait */
};

struct range_table {
	uint64_t next_seq;
	uint32_t count, waiting;
	struct list ready; /* granted meanwhile, in order; the owner takes them off */
	struct list huge;
	struct list small[RANGE_BUCKETS];
	struct list big[RANGE_BUCKETS];
};

void range_table_init(struct range_table *t);
void range_init(struct range *r, enum range_owner owner);

/* Insert [start, end). Returns whether it is granted at once; otherwise it comes on t->ready. */
bool range_insert(struct range_table *t, struct range *r, uint64_t start, uint64_t end);

/* Remove; whoever it alone held back comes on t->ready. Nothing happens to a range that is out. */
void range_remove(struct range_table *t, struct range *r);

/* Next range that was granted after a wait, or NULL. */
struct range *range_next_ready(struct range_table *t);

/* raid_check() of one range: NULL or what is wrong. */
const char *range_check(struct range_table *t, struct range *r);

#endif
