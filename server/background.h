/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving the terminal, and telling whoever waits that everything serves. */
#ifndef SERVER_BACKGROUND_H
#define SERVER_BACKGROUND_H

/*
 * First of all: descriptors 0 to 2 are open, if only to /dev/null, so that no member and no socket
 * ever gets one of their numbers.
 */
void background_guard_stdio(void);

/*
 * Fork, before any thread exists. The parent does not return: it waits, and exits with 0 when
 * background_ready() was called or with the child's status if that ends first. The child returns
 * the descriptor for background_ready(), or -errno if it could not be made.
 */
int background_fork(void);

/* Everything serves: let the parent go, detach from the terminal, log to syslog from now on. */
void background_ready(int ready_fd);

/* sd_notify's datagram to $NOTIFY_SOCKET, if that is set: "READY=1", "STOPPING=1". */
void background_notify(const char *state);

#endif
