/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions in their handshake: moves bytes between descriptors and the pure machine (handshake.h),
 * holds the deadline, and gives the session away: ready() with a handoff, or closed(). Exactly one
 * of the two is called for every session, and then nothing of it is left here.
 */
#ifndef SERVER_HANDSHAKE_IO_H
#define SERVER_HANDSHAKE_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/base/list.h"
#include "server/handoff.h"
#include "server/handshake.h"

struct event_base;

struct handshake_io {
	/* set by the owner */
	struct event_base *base;
	struct handshake_config handshake;
	uint32_t deadline_ms; /* from start to the export chosen, whatever the peer does */
	/* The callee owns h's descriptors and bytes. */
	void (*ready)(void *ctx, const struct handoff *h);
	/* The descriptors are closed. wanted is the export asked for last, quoted, or empty. */
	void (*closed)(void *ctx, uint64_t session, const char *why, const char *wanted);
	void *ctx;

	/* its own */
	struct list sessions;
	bool stopping;
};

/* After the owner's fields are set. */
void handshake_io_init(struct handshake_io *io);

/*
 * Begin a session. in_fd and out_fd are blocking and equal for a socket; taken over, also on
 * failure. peer is for logs, who for the exports' rules. 0 or -ENOMEM: then neither callback comes.
 */
int handshake_io_start(struct handshake_io *io, int in_fd, int out_fd, bool socket,
		       uint64_t session, const char *peer, const struct access_peer *who);

/* The server is stopping: every session is answered ERR_SHUTDOWN at its next option. */
void handshake_io_stop(struct handshake_io *io);

/* An export goes away: a session that has just chosen it is closed. */
void handshake_io_forget(struct handshake_io *io, const struct export *e);

/* Close all that is left. */
void handshake_io_cut(struct handshake_io *io, const char *why);

#endif
