/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening sockets: TCP over IPv4 and IPv6, unix sockets, and those inherited by socket
 * activation. A listener only accepts; what is accepted belongs to the callback.
 */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "raid/types.h"
#include "server/access.h"

struct event_base;
struct listener;

enum { LISTEN_PEER_BYTES = 64 };

/* Who is connected at fd, for access rules. */
void listen_peer(int fd, struct access_peer *out);

/* fd is a connected, blocking stream socket with close-on-exec; the callee owns it. */
typedef void (*listen_accepted)(void *ctx, int fd, const char *peer);

struct listen_set {
	struct listener **item;
	uint32_t count;
};

/*
 * Bind and listen at "ADDR:PORT", "[ADDR]:PORT", ":PORT" (all addresses) or "unix:PATH", and add
 * what came of it (a name can have several addresses) to the set. Nothing is accepted before
 * listen_start(). A stale unix socket is removed; one that answers is somebody else's. Returns 0 or
 * -errno with the reason in why.
 */
int listen_add(struct listen_set *set, const char *address, mode_t socket_mode,
	       char why[RAID_WHY_BYTES]);

/*
 * Sockets passed by the service manager (LISTEN_FDS): adds those whose name (LISTEN_FDNAMES) is not
 * "control" to the set and stores the one that is in *control (left alone if there is none). Clears
 * the environment variables. *count says how many were passed. 0 or -errno.
 */
int listen_inherit(struct listen_set *set, struct listen_set *control, uint32_t *count,
		   char why[RAID_WHY_BYTES]);

/* Accept from now on, on the base's thread. 0 or -ENOMEM. */
int listen_start(struct listen_set *set, struct event_base *base, listen_accepted accepted,
		 void *ctx);

/* Close all; unix sockets that we bound are removed, unless something else stands there now. */
void listen_release(struct listen_set *set);

/* The i-th listener's descriptor, for who accepts by himself. It stays the set's. */
int listen_fd(const struct listen_set *set, uint32_t i);

/* "HOST:PORT" or "unix:PATH" of the i-th listener: malloc'ed, NULL without memory. */
char *listen_where(const struct listen_set *set, uint32_t i);

/* The i-th listener as a URI of an export: malloc'ed, NULL without memory. */
char *listen_uri(const struct listen_set *set, uint32_t i, const char *export_name);

#endif
