/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon as a whole: start in order, serve, stop in order. */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

struct cmdline;

/*
 * Start what cmd says, serve until a signal, the control socket, the captive command or the end of
 * the single session stops it, stop in order. ready_fd (or -1) is told when everything serves, see
 * background.h. Returns the exit status; on a failed start 1, after one line "refused: …" on stderr
 * and with nothing left behind.
 */
int daemon_run(const struct cmdline *cmd, int ready_fd);

/* Open and decide as a start would, print arrays, exports and memory, close. 0 or 1. */
int daemon_check(const struct cmdline *cmd);

#endif
