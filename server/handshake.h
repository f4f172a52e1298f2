/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixed newstyle handshake of one session (proto.md "Handshake phase") as a pure machine: bytes
 * in, bytes and a next step out. No I/O, no clock: handshake_io moves the bytes, holds the deadline
 * and passes the session on.
 *
 *   handshake_init -> { send handshake_output() ; feed handshake_input() } until next is not WAIT
 *
 * Memory is bounded by the machine itself: what a peer announces is buffered only up to
 * HANDSHAKE_OPTION_MAX; one call of handshake_input() answers at most one option, so the caller
 * bounds the output by not feeding while it has not been sent.
 */
#ifndef SERVER_HANDSHAKE_H
#define SERVER_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/exports.h"

enum {
	HANDSHAKE_OPTION_MAX = 64 << 10, /* bytes of one option's data; beyond: TOO_BIG … */
	HANDSHAKE_SKIP_MAX = 1 << 20,	 /* … up to here, beyond: the session is dropped */
	HANDSHAKE_OPTIONS_MAX = 64,	 /* options of one session */
};

struct handshake_config {
	const struct export_table *exports;
	bool list; /* answer LIST; else POLICY */
	/* Has the export as many sessions as it may have? NULL: never. */
	bool (*full)(void *ctx, const struct export *e);
	void *ctx;
};

enum handshake_state {
	HANDSHAKE_FLAGS,  /* the greeting is out, the client's flags are awaited */
	HANDSHAKE_HEADER, /* an option's header is awaited */
	HANDSHAKE_DATA,	  /* data of an option that is kept */
	HANDSHAKE_SKIP,	  /* data of an option that is eaten */
	HANDSHAKE_READY,  /* an export is chosen, transmission begins after the output */
	HANDSHAKE_CLOSED, /* to be closed after the output */
};

enum handshake_next {
	HANDSHAKE_WAIT,	 /* send the output, bring more bytes */
	HANDSHAKE_SERVE, /* send the output, then hand the session to a loop */
	HANDSHAKE_CLOSE, /* send the output, then close */
};

struct handshake {
	enum handshake_state state;
	const struct handshake_config *config;
	struct access_peer peer;

	bool fixed, no_zeroes; /* client flags */
	bool structured;       /* agreed in this session */
	bool stopping;	       /* the server is going away: see handshake_stop() */
	uint32_t options;      /* seen so far */

	uint8_t head[16]; /* NBD_OPTION_HEADER_BYTES */
	uint32_t option, length, got;
	uint8_t *data; /* in HANDSHAKE_DATA: length bytes */

	const struct export *chosen; /* READY */
	const char *why;	     /* CLOSED: the reason for the log, static text */
	char wanted[96];	     /* the last export name asked for, quoted for the log */

	uint8_t *out;
	size_t out_len, out_cap;
};

/* Starts with the greeting as output. config must outlive the handshake, peer is copied. */
void handshake_init(struct handshake *h, const struct handshake_config *config,
		    const struct access_peer *peer);
void handshake_release(struct handshake *h);

/*
 * Take bytes from the peer; returns how many were used. Stops early after each answered option and
 * once the next step is not WAIT: what then remains unused belongs to the transmission phase.
 */
size_t handshake_input(struct handshake *h, const void *bytes, size_t n);

enum handshake_next handshake_next(const struct handshake *h);

/* Bytes to send; handshake_sent() takes n of them off the front. */
const void *handshake_output(const struct handshake *h, size_t *n);
void handshake_sent(struct handshake *h, size_t n);

/*
 * From now on every option is answered with ERR_SHUTDOWN and the session closed after it. A session
 * that was ready but not handed over yet is closed.
 */
void handshake_stop(struct handshake *h);

#endif
