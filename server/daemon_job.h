/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work of the control plane that blocks (waiting for a drain, an engine's command, a device) runs
 * in a thread of its own, so that signals and the control socket stay alive meanwhile. The result
 * comes back on the event base's thread.
 */
#ifndef SERVER_DAEMON_JOB_H
#define SERVER_DAEMON_JOB_H

struct event_base;

/*
 * work(arg) runs in a new thread with all signals blocked; when it has returned, done(arg) runs on
 * the base's thread. The base does not run dry before that. 0 or -errno: then neither is called.
 */
int job_start(struct event_base *base, void (*work)(void *arg), void (*done)(void *arg), void *arg);

/* The same; without memory for a thread both run at once on this one, which then waits. */
void job_run(struct event_base *base, void (*work)(void *arg), void (*done)(void *arg), void *arg);

#endif
