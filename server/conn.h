/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: pumps one transmission over the ring. At most one receive and one send are in
 * flight; what a transmission cannot take now is kept here and the socket is not read meanwhile.
 *
 * States, transitions and the function that makes each:
 *
 *   OPEN      served
 *               -> SHUTDOWN  all answered, a socket                     finish
 *               -> CUT       all answered, a pipe; failed; cut          finish, conn_cut
 *   SHUTDOWN  our sending side is being closed
 *               -> LINGER    done                                       conn_event
 *               -> CUT                                                  conn_cut
 *   LINGER    what the client still sends is read and dropped, so that closing does not reset the
 *             connection under replies it has not read
 *               -> CUT       its end came, or time is up                conn_event, conn_cut
 *   CUT       no new operation; those in flight are cancelled and awaited
 *               -> CLOSING   none is left                               conn_flush
 *   CLOSING   descriptors are being closed
 *               -> CLOSED    done                                       conn_event
 *   CLOSED    only fragments in the engine keep it; conn_over() tells when it may be freed
 *
 * A receive of requests may wait for several of them (batch.h). It is then armed with the socket's
 * low water mark raised and the connection stands in env->holding; when the time is up the mark is
 * lowered, which lets the receive go on with what is there. Such a receive is armed one turn after
 * the requests before it were handed on, with the replies; if there are none yet, their members are
 * slow, and whatever comes is to reach them soon.
 *
 * A payload slot being received into belongs to the kernel until that receive is back, so a cut
 * connection's transmission is aborted only then.
 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/batch.h"
#include "server/handoff.h"
#include "server/ring.h"
#include "server/transmission.h"

enum { CONN_LINGER_MS = 1000, CONN_SEND_BYTES = 1 << 20 };

/* What the connections of a loop share. */
struct conn_env {
	struct ring *ring;
	struct tx_shared tx;
	struct list touched;   /* conn.touch: to be looked at before the turn ends */
	struct list lingering; /* conn.linger: by deadline */
	struct list holding;   /* conn.hold: by deadline */
	uint64_t now_ns;
	bool serve_again; /* somebody waits who has not been asked, or was stopped by its quantum */
};

/* An array as a loop's connections see it. */
struct conn_port {
	struct tx_target target;
	struct list waiters; /* conn.wait: want what others hold, in the order they are served */
};

enum conn_state {
	CONN_OPEN,
	CONN_SHUTDOWN,
	CONN_LINGER,
	CONN_CUT,
	CONN_CLOSING,
	CONN_CLOSED,
};

enum conn_recv { CONN_RECV_NONE, CONN_RECV_BYTES, CONN_RECV_SLOT };

struct conn {
	struct list link; /* of the loop's connections */
	struct list touch, wait, linger, hold;
	struct conn_env *env;
	struct conn_port *port;
	uint32_t index, generation; /* for ring_user */

	enum conn_state state;
	enum conn_recv recv; /* the receive in flight */
	bool send;	     /* one is in flight */
	bool idle;	     /* the last receive emptied the socket */
	bool later;	     /* the next receive is armed in the next turn */
	uint8_t not_later;   /* receives to be armed at once, since replies take longer */
	uint8_t closing;     /* close operations in flight */
	int in_fd, out_fd;
	bool socket;
	uint64_t session;
	const struct export *export;
	uint64_t linger_until_ns, hold_until_ns;
	uint64_t moved_ns; /* when bytes last came or left */
	struct batch batch;
	uint32_t mark;	 /* the socket's low water mark, in requests; 1: any byte */
	uint32_t asked;	 /* … when the receive in flight was armed; 0: it is no test of batch */
	const char *why; /* it ended, if the transmission does not know better */

	uint8_t *stash; /* malloc'ed: received, not yet taken in */
	size_t stash_at, stash_len;

	struct transmission tx;
};

void conn_env_init(struct conn_env *env, struct ring *ring, struct bufs *bufs);

/* Takes over h's descriptors and bytes. NULL: out of memory, nothing taken over. */
struct conn *conn_new(struct conn_env *env, struct conn_port *port, const struct handoff *h,
		      uint32_t depth_max, uint32_t index, uint32_t generation);
/* Legal when conn_over(). */
void conn_free(struct conn *c);
bool conn_over(const struct conn *c);
const char *conn_why(const struct conn *c);

/* Look at it before the turn ends. */
void conn_touch(struct conn *c);

void conn_event(struct conn *c, const struct ring_event *ev);

/* First pass over the touched: go on with what was kept or blocked. Afterwards the transmission's
 * fragments may be collected, while conn_serving(). */
void conn_pump(struct conn *c);
bool conn_serving(const struct conn *c);

/* Serve waiting sessions, a quantum each, round robin. */
void conn_port_serve(struct conn_port *p);

/* Last pass over the touched: queue the next send and receive, or the next step of the end. */
void conn_flush(struct conn *c);

/* Take no new request; end when all is answered. */
void conn_drain(struct conn *c);

/* End now, for this reason. */
void conn_cut(struct conn *c, const char *why);

/* Waits for its turn and holds nothing: finds no room because of others. */
bool conn_starves(const struct conn *c);
/* Holds buffers, and its client has neither sent nor taken anything since then. */
bool conn_stalled(const struct conn *c, uint64_t since_ns);

/* Connections whose linger time is up; when the next one's is (or RING_FOREVER). */
uint64_t conn_linger_check(struct conn_env *env);
/* … whose receive has waited long enough. */
uint64_t conn_hold_check(struct conn_env *env);

#endif
