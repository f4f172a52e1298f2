/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every session from accept to its end: number, peer, slot. Counts them against the limit, leads
 * them through the handshake, places them on a loop, and logs one line when they are over.
 */
#ifndef SERVER_DAEMON_SESSIONS_H
#define SERVER_DAEMON_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/base/list.h"
#include "server/handshake_io.h"

struct export;
struct loop;

struct session_record {
	struct list link;
	uint64_t number;
	char peer[64];
	uint64_t since_ns;
	/* Once it is on a loop. */
	bool serving;
	uint32_t loop;
	const struct export *export;
	char *export_name;
};

struct sessions {
	/* set by the owner */
	struct handshake_io io; /* its base, handshake and deadline_ms */
	uint32_t max;
	struct loop **loops;
	uint32_t loop_count;
	void (*ended)(void *ctx); /* after every end, may be NULL */
	void *ctx;

	/* its own */
	struct list all;
	uint32_t count;
	uint64_t last_number;
	uint32_t *on_loop; /* sessions per loop */
};

/* After the owner's fields are set. 0 or -ENOMEM. */
int sessions_init(struct sessions *s);
void sessions_release(struct sessions *s);

/* A new connection (blocking descriptors, equal for a socket); taken over whatever happens. */
void sessions_start(struct sessions *s, int in_fd, int out_fd, bool socket, const char *peer,
		    const struct access_peer *who);

/* A loop says that it has ended. */
void sessions_ended(struct sessions *s, uint64_t number, const char *why);

#endif
