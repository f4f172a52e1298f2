/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies as messages, and the queue they leave a connection through. Pure.
 *
 * A message is a small head (encoded here) and optional data that stays where it is: the engine's
 * READ slot, a large buffer, a static text. Messages leave whole and in queue order; nothing can
 * come between the parts of one. A message's memory belongs to the queue from reply_push() until
 * reply_sent() or reply_discard() returns it.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "raid/base/list.h"

enum { REPLY_HEAD_BYTES_MAX = 32 };

struct reply_msg {
	struct list link;
	const void *data;
	uint32_t data_len;
	uint8_t head_len;
	bool of_fragment; /* else of a request: tells the owner what to free */
	uint8_t head[REPLY_HEAD_BYTES_MAX];
};

struct reply_queue {
	struct list msgs;
	size_t first_sent; /* bytes of the first message that have left */
	uint64_t bytes;	   /* in the queue and not yet sent */
};

void reply_init(struct reply_queue *q);

/* "Simple reply message"; data may be NULL. */
void reply_simple(struct reply_msg *m, uint64_t cookie, uint32_t error, const void *data,
		  uint32_t len);

/* "Structured reply chunk message": data at an offset, nothing more to say, or an error with text.
 */
void reply_chunk_data(struct reply_msg *m, uint64_t cookie, bool done, uint64_t addr,
		      const void *data, uint32_t len);
void reply_chunk_none(struct reply_msg *m, uint64_t cookie);
void reply_chunk_error(struct reply_msg *m, uint64_t cookie, uint32_t error, const char *text);

void reply_push(struct reply_queue *q, struct reply_msg *m);

/* The next bytes to send, in at most iov_max vectors, stopping after the message that reaches
 * bytes_max. Returns the number of vectors; 0: nothing to send. */
uint32_t reply_vec(const struct reply_queue *q, struct iovec *iov, uint32_t iov_max,
		   uint64_t bytes_max);

/*
 * *n bytes have left. Takes off and returns the first message that is thereby complete, with *n
 * reduced; NULL when none is: call until then.
 */
struct reply_msg *reply_sent(struct reply_queue *q, size_t *n);

/* Take off the first message unsent; NULL: empty. */
struct reply_msg *reply_discard(struct reply_queue *q);

#endif
