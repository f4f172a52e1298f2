/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive doubly linked list. A node is on at most one list; an unlinked node points at
 * itself, so list_empty(node) tells whether it is linked.
 */
#ifndef RAID_BASE_LIST_H
#define RAID_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_insert(struct list *n, struct list *prev, struct list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

/* Put n first. */
static inline void list_push(struct list *head, struct list *n)
{
	list_insert(n, head, head->next);
}

/* Put n last. */
static inline void list_append(struct list *head, struct list *n)
{
	list_insert(n, head->prev, head);
}

static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Remove and return the first node, or NULL. */
static inline struct list *list_pop(struct list *head)
{
	struct list *n = head->next;

	if (n == head)
		return NULL;
	list_del(n);
	return n;
}

/* Move all of src to the end of dst; src becomes empty. */
static inline void list_splice(struct list *dst, struct list *src)
{
	if (list_empty(src))
		return;
	src->next->prev = dst->prev;
	dst->prev->next = src->next;
	src->prev->next = dst;
	dst->prev = src->prev;
	list_init(src);
}

#define list_first_entry(head, type, member)                                                       \
	(list_empty(head) ? NULL : container_of((head)->next, type, member))

/* At the end of a walk pos is the head, taken for an entry: only its link may be computed. */
#define list_link(pos, member)                                                                     \
	((struct list *)(void *)((char *)(pos) + offsetof(__typeof__(*(pos)), member)))

#define list_for_each_entry(pos, head, member)                                                     \
	for (pos = container_of((head)->next, __typeof__(*pos), member);                           \
	     list_link(pos, member) != (head);                                                     \
	     pos = container_of(list_link(pos, member)->next, __typeof__(*pos), member))

/* Safe against removal of pos. */
#define list_for_each_entry_safe(pos, tmp, head, member)                                           \
	for (pos = container_of((head)->next, __typeof__(*pos), member),                           \
	    tmp = container_of(list_link(pos, member)->next, __typeof__(*pos), member);            \
	     list_link(pos, member) != (head); pos = tmp,                                          \
	    tmp = container_of(list_link(tmp, member)->next, __typeof__(*pos), member))

#endif
