/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's state, shared by the files of the control plane that drive it (daemon*.c, admin*.c).
 * Everything here belongs to the event base's thread.
 *
 *   STARTING -> SERVING   daemon_run: everything is up
 *   SERVING  -> DRAINING  daemon_stop: nothing new is accepted, sessions end
 *   DRAINING -> CLOSING   all loops have drained: arrays stop
 *   CLOSING  -> ENDED     no array is left: the event base leaves its loop
 *
 * From DRAINING and CLOSING the event base also leaves its loop when patience is over (a member
 * hangs that holds the last copy of something): the process then just ends, with status 1.
 */
#ifndef SERVER_DAEMON_INTERNAL_H
#define SERVER_DAEMON_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "server/captive.h"
#include "server/cmdline.h"
#include "server/daemon_arrays.h"
#include "server/daemon_sessions.h"
#include "server/exports.h"
#include "server/listen.h"
#include "server/privileges.h"

enum daemon_state {
	DAEMON_STARTING,
	DAEMON_SERVING,
	DAEMON_DRAINING,
	DAEMON_CLOSING,
	DAEMON_ENDED,
};

struct daemon {
	const struct cmdline *cmd;
	enum daemon_state state;
	int status; /* exit status */
	time_t started_s;

	struct event_base *base;
	struct event *signal[4];
	struct event *patience; /* a stop is waited for until then */
	bool hurried;		/* by a second signal */
	struct notices *notices;
	struct loop **loops;
	uint32_t loop_count, loops_draining;

	struct array_set arrays;
	bool spare_moves; /* one is on its way between two arrays */
	struct export_table exports;
	struct sessions sessions;
	struct listen_set listeners, control, metrics_listeners;
	uint32_t inherited; /* sockets passed by socket activation */
	struct admin *admin;
	struct metrics_server *metrics; /* NULL: not wanted */
	struct captive captive;
	struct privileges privileges;
	FILE *pid_file; /* opened before root is given up, written when everything serves */
	char *pid_path; /* absolute: a daemon leaves the folder it was started from */
};

/* Begin the orderly end; harmless when it has begun. why is for the log. */
void daemon_stop(struct daemon *d, const char *why);

/* A further signal: cut the sessions; the next one: leave what does not end. */
void daemon_hurry(struct daemon *d);

/* The timer of a stop. NULL without memory. */
struct event *daemon_patience(struct daemon *d);

/* An array has stopped, or a command on one has ended: go on with a stop that waits for it. */
void daemon_arrays_changed(struct daemon *d);

#endif
