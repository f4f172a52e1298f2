/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/range.h"

#include "raid/base/check.h"
#include "raid/base/mark.h"

void range_table_init(struct range_table *t)
{
	t->next_seq = 1;
	t->count = 0;
	t->waiting = 0;
	list_init(&t->ready);
	list_init(&t->huge);
	for (int i = 0; i < RANGE_BUCKETS; i++) {
		list_init(&t->small[i]);
		list_init(&t->big[i]);
	}
}

void range_init(struct range *r, enum range_owner owner)
{
	*r = (struct range){.state = RANGE_OUT, .owner = owner};
	for (int i = 0; i < 2; i++) {
		r->node[i].range = r;
		list_init(&r->node[i].link);
	}
	list_init(&r->ready);
}

static struct list *bucket(struct list *table, uint64_t region)
{
	return &table[region & (RANGE_BUCKETS - 1)];
}

/* An overlapping range of a list with seq < before (waits: RANGE_WAITING only), smallest first. */
static struct range *list_conflict(struct list *head, const struct range *r, uint64_t before)
{
	struct range_node *n;

	list_for_each_entry (n, head, link) {
		struct range *o = n->range;

		if (o->seq < before && o->start < r->end && r->start < o->end) {
			return o;
		}
	}
	return NULL;
}

/*
 * Visit every list that may hold a range overlapping r. A range of 64 MiB would visit each bucket
 * several times: it sees the whole table once instead.
 */
static bool conflict(struct range_table *t, const struct range *r)
{
	uint64_t first = r->start >> RANGE_SMALL_SHIFT, last = (r->end - 1) >> RANGE_SMALL_SHIFT;

	if (last - first >= RANGE_BUCKETS) {
		first = 0;
		last = RANGE_BUCKETS - 1;
	}
	for (uint64_t i = first; i <= last; i++) {
		if (list_conflict(bucket(t->small, i), r, r->seq)) {
			return true;
		}
	}
	first = r->start >> RANGE_BIG_SHIFT;
	last = (r->end - 1) >> RANGE_BIG_SHIFT;
	for (uint64_t i = first; i <= last; i++) {
		if (list_conflict(bucket(t->big, i), r, r->seq)) {
			return true;
		}
	}
	return list_conflict(&t->huge, r, r->seq) != NULL;
}

static void place(struct range_table *t, struct range *r)
{
	uint64_t len = r->end - r->start;
	struct list *table;
	int shift;

	if (len <= 1u << RANGE_SMALL_SHIFT) {
		table = t->small;
		shift = RANGE_SMALL_SHIFT;
	} else if (len <= 1u << RANGE_BIG_SHIFT) {
		table = t->big;
		shift = RANGE_BIG_SHIFT;
	} else {
		list_append(&t->huge, &r->node[0].link);
		return;
	}
	list_append(bucket(table, r->start >> shift), &r->node[0].link);
	if ((r->end - 1) >> shift != r->start >> shift) {
		list_append(bucket(table, (r->end - 1) >> shift), &r->node[1].link);
	}
}

bool range_insert(struct range_table *t, struct range *r, uint64_t start, uint64_t end)
{
	CHECK(r->state == RANGE_OUT && start < end);
	r->start = start;
	r->end = end;
	r->seq = t->next_seq++;
	r->state = t->count && conflict(t, r) ? RANGE_WAITING : RANGE_GRANTED;
	t->count++;
	if (r->state == RANGE_WAITING) {
		MARK(range_wait);
		t->waiting++;
	}
	place(t, r);
	return r->state == RANGE_GRANTED;
}

/* Grant the waiting ranges of a list that overlap r, which has just gone. */
static void wake_list(struct range_table *t, struct list *head, const struct range *r)
{
	struct range_node *n;

	list_for_each_entry (n, head, link) {
		struct range *o = n->range;

		if (o->state == RANGE_WAITING && o->start < r->end && r->start < o->end &&
		    !conflict(t, o)) {
			o->state = RANGE_GRANTED;
			t->waiting--;
			list_append(&t->ready, &o->ready);
		}
	}
}

static void wake(struct range_table *t, const struct range *r)
{
	uint64_t first = r->start >> RANGE_SMALL_SHIFT, last = (r->end - 1) >> RANGE_SMALL_SHIFT;

	if (last - first >= RANGE_BUCKETS) {
		first = 0;
		last = RANGE_BUCKETS - 1;
	}
	for (uint64_t i = first; i <= last; i++) {
		wake_list(t, bucket(t->small, i), r);
	}
	first = r->start >> RANGE_BIG_SHIFT;
	last = (r->end - 1) >> RANGE_BIG_SHIFT;
	for (uint64_t i = first; i <= last; i++) {
		wake_list(t, bucket(t->big, i), r);
	}
	wake_list(t, &t->huge, r);
}

void range_remove(struct range_table *t, struct range *r)
{
	if (r->state == RANGE_OUT) {
		return;
	}
	if (r->state == RANGE_WAITING) {
		t->waiting--;
	}
	r->state = RANGE_OUT;
	t->count--;
	list_del(&r->node[0].link);
	list_del(&r->node[1].link);
	list_del(&r->ready);
	if (t->waiting) {
		wake(t, r);
	}
}

struct range *range_next_ready(struct range_table *t)
{
	struct list *l = list_pop(&t->ready);

	return l ? container_of(l, struct range, ready) : NULL;
}

const char *range_check(struct range_table *t, struct range *r)
{
	if (r->state == RANGE_OUT) {
		return list_empty(&r->node[0].link) ? NULL : "a range that is out is linked";
	}
	if (list_empty(&r->node[0].link)) {
		return "a range is not in the table";
	}
	if ((r->state == RANGE_WAITING) != conflict(t, r)) {
		return "a range is granted beside an earlier one, or waits for nobody";
	}
	return NULL;
}
