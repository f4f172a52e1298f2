/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: a unix socket that speaks one JSON object a line, a request and its answer,
 * in order. nbd-raidctl is its client. What the commands do is admin_cmd's; this part owns
 * connections and lines.
 */
#ifndef SERVER_ADMIN_H
#define SERVER_ADMIN_H

#include <jansson.h>

#include "raid/raid.h"

struct array_instance;
struct daemon;
struct admin;
struct served;

/* A request whose answer is still to come. */
struct admin_call;

enum {
	ADMIN_CONNECTIONS_MAX = 32,
	ADMIN_LINE_MAX_BYTES = 64 << 10,
	ADMIN_STREAM_MAX_BYTES = 1 << 20, /* of events that a peer has not taken yet */
};

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

/*
 * Answer a call and make its connection a stream: no more requests are read from it, and every
 * admin_publish() from now on is a line on it, until the peer closes or takes too little.
 */
void admin_answer_stream(struct admin_call *call, json_t *answer);

/* To all streams; takes the reference. Harmless with NULL. */
void admin_publish(struct admin *a, json_t *event);

/* {"ok":false,"error":…} */
void admin_refuse(struct admin_call *call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A string that may not be UTF-8 (a path): if it is not, in its quoted form. */
json_t *admin_text(const char *text);

/* {"ok":true} */
json_t *admin_ok(void);

/* An arrays_done: ctx is the call. */
void admin_done(void *ctx, int err, const char *why);

/* The array that the request names; NULL: the call has been refused. */
struct served *admin_array(struct daemon *d, struct admin_call *call, const json_t *request);

/* admin_status.c, admin_monitor.c: commands */
void admin_status(struct daemon *d, struct admin_call *call, const json_t *request);
void admin_monitor(struct daemon *d, struct admin_call *call, const json_t *request);

/*
 * Events under mdadm's names, for those who monitor (admin_monitor.c). What the engine tells is
 * translated; say() is for what the daemon itself does. member: or what mdadm gives in its place,
 * NULL: nothing.
 */
void admin_monitor_event(struct daemon *d, struct served *s, const struct raid_event *ev);
void admin_monitor_say(struct daemon *d, const char *event, const char *array, const char *member);
void admin_monitor_new_array(struct daemon *d, const struct served *s);

/* A request of any shape: find the command and answer, now or later (admin_cmd.c). */
void admin_command(struct daemon *d, struct admin_call *call, const json_t *request);

#endif
