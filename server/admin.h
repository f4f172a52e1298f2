/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: a unix socket that speaks one JSON object a line, a request and its answer,
 * in order. nbd-raidctl is its client. What the commands do is admin_cmd's; this part owns
 * connections and lines.
 */
#ifndef SERVER_ADMIN_H
#define SERVER_ADMIN_H

#include <jansson.h>

struct daemon;
struct admin;

/* A request whose answer is still to come. */
struct admin_call;

enum { ADMIN_CONNECTIONS_MAX = 32, ADMIN_LINE_MAX_BYTES = 64 << 10 };

/* Serve d->control. NULL without memory. */
struct admin *admin_create(struct daemon *d);

/* A connection that was accepted; fd is taken over. */
void admin_connect(struct admin *a, int fd, const char *peer);

/* Send what has been answered, as far as the peers take it at once; close everything. */
void admin_release(struct admin *a);

/*
 * Answer a call, exactly once, at any later time on the base's thread; takes the reference of
 * answer (NULL: out of memory, which is said so). If the peer is gone meanwhile nothing happens.
 */
void admin_answer(struct admin_call *call, json_t *answer);

/* {"ok":false,"error":…} */
void admin_refuse(struct admin_call *call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A string that may not be UTF-8 (a path): if it is not, in its quoted form. */
json_t *admin_text(const char *text);

/* A request of any shape: find the command and answer, now or later (admin_cmd.c). */
void admin_command(struct daemon *d, struct admin_call *call, const json_t *request);

#endif
