/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection in NBD's transmission phase, without any I/O: received bytes and the engine's
 * answers go in; wanted receives, fragments for the engine, READ data to give back, and send
 * vectors come out. One thread; no allocation; nothing here blocks or calls back.
 *
 *   in:   tx_feed  tx_slot_filled  tx_resume  tx_eof  tx_drain  tx_abort     from the socket's side
 *         tx_done  tx_freed                                                 from the engine's side
 *         tx_sent                                                           a send came back
 *   out:  tx_want  tx_next_submit  tx_next_release  tx_send_vec  tx_ended
 *
 * States of the receive side and every legal transition (tx_enter() checks the table):
 *
 *   HEADER   collecting the 28 bytes of a header
 *              -> ADMIT    header complete and in step           tx_feed
 *              -> CLOSING  DISC, end of stream, drain            tx_feed, tx_eof, tx_drain
 *   ADMIT    a judged header waits for a request object (and depth)
 *              -> HEADER   request taken on, or answered         admit
 *              -> SLOT     a WRITE taken on                      admit
 *              -> SKIP     a refused WRITE                       admit
 *              -> CLOSING  drain, end of stream                  tx_drain, tx_eof
 *   SLOT     a WRITE waits for its next fragment and payload slot; holds nothing for it
 *              -> PAYLOAD  fragment and slot taken               next_slot
 *              -> CLOSING  end of stream                         tx_eof
 *   PAYLOAD  bytes go to the slot of t->filling
 *              -> SLOT     fragment complete, the WRITE goes on  filled
 *              -> HEADER   WRITE complete                        filled
 *              -> CLOSING  end of stream: the fragment is never submitted    tx_eof
 *   SKIP     eating the payload of a refused WRITE, which is answered afterwards
 *              -> HEADER   eaten                                 tx_feed
 *              -> CLOSING  end of stream                         tx_eof
 *   CLOSING  nothing more is taken in; what was taken is answered
 *   DEAD     nothing more is written either; only the engine's part is awaited
 *              every state -> DEAD  tx_abort, broken protocol
 *
 * tx_answered(): CLOSING with every reply sent, or DEAD: the socket has no more use. tx_ended():
 * also every fragment is back from the engine.
 *
 * A request is cut into fragments by target->split. A WRITE is cut as its payload arrives, others
 * when there is room, several requests of a session in turn. A READ of one fragment is answered
 * from the engine's slot. A longer one leaves as a chunk per fragment if the session has structured
 * replies and no DF; else it is gathered in a large buffer (FIFO over the loop's sessions, one a
 * session; it holds nothing while it waits), because its head must not promise data that could
 * still fail.
 */
#ifndef SERVER_TRANSMISSION_H
#define SERVER_TRANSMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "raid/base/list.h"
#include "raid/raid.h"
#include "server/budget.h"
#include "server/bufs.h"
#include "server/reply.h"
#include "server/request.h"

struct transmission;
struct tx_request;

enum {
	TX_READ_OUT_MAX = 16, /* fragments of one READ in the engine */
	TX_ZERO_OUT_MAX = 2,  /* of one TRIM, WRITE_ZEROES or CACHE: up to 64 MiB each */
	/* A shorter rest of a payload comes through the shared buffers with what follows it. */
	TX_DIRECT_BYTES_MIN = 16 << 10,
	TX_QUANTUM_BYTES = 256 << 10, /* a waiting session's turn */
};

/* ---- what sessions of a loop share --------------------------------------------------------- */

/* An array as the sessions of one loop see it: how to cut, and this loop's credits. */
struct tx_target {
	uint64_t (*split)(const void *ctx, enum raid_op op, uint64_t addr, uint64_t len);
	const void *ctx;
	struct budget frags, read_bytes;
	struct list free_frags; /* as many as credits */
};

struct tx_stats {
	uint64_t requests, read_bytes, write_bytes, errors;
};

struct tx_shared {
	struct bufs *bufs;
	struct tx_stats stats;
	struct budget requests;
	struct list free_requests;
	struct list large_wait; /* sessions whose next gathered READ waits for a large buffer */
	uint64_t returned;	/* counts everything given back: waiting sessions may try again */
};

/* Add n objects from zeroed memory that the caller owns and frees when no session is left. */
void tx_shared_init(struct tx_shared *s, struct bufs *bufs);
void tx_shared_add_requests(struct tx_shared *s, struct tx_request *r, uint32_t n);

/* ---- requests and fragments ---------------------------------------------------------------- */

enum tx_request_state {
	TX_REQ_FREE,
	TX_REQ_FILLING,	   /* WRITE: payload still to come, or being eaten */
	TX_REQ_WAIT_LARGE, /* gathered READ: on t->large_queue */
	TX_REQ_CUTTING,	   /* more fragments to submit */
	TX_REQ_RUNNING,	   /* all submitted */
	TX_REQ_REPLYING,   /* its message is in the queue */
	TX_REQ_DROPPED,	   /* nobody waits for an answer; freed with its last fragment */
};

enum tx_form { TX_FORM_ACK, TX_FORM_ONE, TX_FORM_CHUNKS, TX_FORM_GATHER };

struct tx_request {
	struct list link;  /* t->requests, or free */
	struct list queue; /* t->cutting, t->large_queue, or none */
	enum tx_request_state state;
	enum tx_form form;
	enum raid_op op;
	struct nbd_request header;
	uint64_t cut;	    /* bytes given to fragments */
	uint32_t frags_out; /* fragments taken and not done */
	int err;	    /* the first */
	uint8_t *large;
	struct reply_msg msg;
};

enum tx_frag_state {
	TX_FRAG_FREE,
	TX_FRAG_FILLING,  /* its payload arrives */
	TX_FRAG_QUEUED,	  /* for tx_next_submit */
	TX_FRAG_OUT,	  /* the engine's */
	TX_FRAG_DONE,	  /* done, not yet freed (not READ) */
	TX_FRAG_REPLYING, /* READ: its data is in the reply queue */
	TX_FRAG_RELEASE,  /* READ: for tx_next_release, then until tx_freed */
};

struct tx_frag {
	struct raid_req raid; /* raid.user is the fragment */
	struct list queue;
	struct transmission *t;
	struct tx_request *request; /* NULL when done */
	enum tx_frag_state state;
	uint64_t read_cost;
	struct reply_msg msg;
};

/* The read budget's total is the caller's to set. */
void tx_target_init(struct tx_target *g,
		    uint64_t (*split)(const void *ctx, enum raid_op op, uint64_t addr,
				      uint64_t len),
		    const void *ctx);
void tx_target_add_frags(struct tx_target *g, struct tx_frag *f, uint32_t n);

/* ---- the connection ------------------------------------------------------------------------ */

enum tx_state { TX_HEADER, TX_ADMIT, TX_SLOT, TX_PAYLOAD, TX_SKIP, TX_CLOSING, TX_DEAD };

enum tx_end {
	TX_END_NONE,
	TX_END_DISC,	   /* the client said goodbye */
	TX_END_EOF,	   /* it closed between requests */
	TX_END_EOF_INSIDE, /* … inside one */
	TX_END_DRAIN,	   /* we stop */
	TX_END_MAGIC,	   /* out of step */
	TX_END_TOO_BIG,	   /* a WRITE nobody would send */
	TX_END_ABORT,	   /* tx_abort(): the socket failed, or we cut it */
};

struct transmission {
	/* configuration */
	struct tx_shared *shared;
	struct tx_target *target;
	struct request_rules rules;
	uint64_t stream;
	uint32_t depth_max;

	/* receive side */
	enum tx_state state;
	enum tx_end end;
	bool draining; /* go to CLOSING at the next request boundary */
	bool more;     /* a further header is at hand: RAID_REQ_MORE */
	uint8_t head[NBD_REQUEST_BYTES];
	uint8_t head_len;
	struct nbd_request header;
	struct tx_request *writing; /* SLOT, PAYLOAD, SKIP */
	struct tx_frag *filling;    /* PAYLOAD */
	uint64_t filled;	    /* bytes in its slot */
	uint64_t skip;		    /* SKIP: bytes to eat */

	/* admission */
	bool starved;	  /* wants something other sessions hold: tx_resume() when returned moves */
	uint64_t quantum; /* bytes it may still submit in this turn */
	uint64_t held_payload, held_read, held_frags;
	uint32_t request_count;
	struct list requests, cutting, large_queue;
	struct list large_wait; /* link in shared->large_wait */
	struct tx_request *large;

	/* outputs */
	struct list submit, release;
	struct reply_queue out;
};

struct tx_config {
	struct tx_shared *shared;
	struct tx_target *target;
	struct request_rules rules;
	uint64_t stream;
	uint32_t depth_max; /* requests in flight, ≥ 1 */
};

void tx_init(struct transmission *t, const struct tx_config *config);

/* Take in bytes in stream order. Returns how many: fewer than n when it is blocked (offer the rest
 * again after tx_resume()), all of them once it takes nothing more in. */
size_t tx_feed(struct transmission *t, const void *bytes, size_t n);

/*
 * Resources may have come back: go on where it is blocked, submitting at most quantum bytes more.
 * True if it is still starved.
 */
bool tx_resume(struct transmission *t, uint64_t quantum);

/* Would tx_resume() have something to try? */
bool tx_blocked(const struct transmission *t);

enum tx_want {
	TX_WANT_NOTHING, /* blocked or over: do not read the socket */
	TX_WANT_BYTES,	 /* any number, through tx_feed */
	TX_WANT_SLOT,	 /* payload into *slot; tell with tx_slot_filled */
};

enum tx_want tx_want(const struct transmission *t, struct iovec *slot);
void tx_slot_filled(struct transmission *t, size_t n);

/* The client will send nothing more. Replies are still delivered. */
void tx_eof(struct transmission *t);

/* Take no new request; a WRITE whose header has been taken may finish. */
void tx_drain(struct transmission *t);

/*
 * The connection is gone. Fragments already out are awaited, others never submitted. The reply
 * queue stays as it is (a send may be in flight): call tx_discard() once none is.
 */
void tx_abort(struct transmission *t);
void tx_discard(struct transmission *t);

/* Fragments to submit, in order; READ fragments to release. NULL when dry. */
struct tx_frag *tx_next_submit(struct transmission *t);
struct tx_frag *tx_next_release(struct transmission *t);

/* The engine's answers: res and data of f->raid are valid; the engine has let go of f (for READs:
 * after the release of tx_next_release). */
void tx_done(struct tx_frag *f);
void tx_freed(struct tx_frag *f);

/* What to send next, as reply_vec(); n bytes of it have left. */
uint32_t tx_send_vec(const struct transmission *t, struct iovec *iov, uint32_t iov_max,
		     uint64_t bytes_max);
void tx_sent(struct transmission *t, size_t n);

bool tx_answered(const struct transmission *t);
bool tx_ended(const struct transmission *t);

/* For the log. */
const char *tx_end_text(enum tx_end end);

/* NULL, or the invariant that does not hold. */
const char *tx_check(const struct transmission *t);

#endif
