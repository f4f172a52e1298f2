/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metrics listener: GET and HEAD of /metrics over HTTP, by libevent's evhttp, for Prometheus.
 * What is in the text is metrics_text's; this part gathers it and bounds what peers can cost.
 *
 *   - at most METRICS_CONNECTIONS_MAX at once: beyond, none is accepted until one ends
 *   - a connection ends METRICS_LIFE_S after it came, or when idle for METRICS_IDLE_S
 *   - a head of more than METRICS_HEAD_MAX_BYTES, or any body, is refused
 *   - arrays and loops are asked at most once in METRICS_FRESH_MS: who asks sooner gets the same
 *     text again, so that a flood of requests does not reach the loops
 *
 * It asks loops as the control socket's status does, on the event base's thread: a loop never waits
 * for disk or network and answers within a turn.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

struct daemon;
struct metrics_server;

enum {
	METRICS_CONNECTIONS_MAX = 16,
	METRICS_LIFE_S = 300,
	METRICS_IDLE_S = 60,
	METRICS_HEAD_MAX_BYTES = 16 << 10,
	METRICS_FRESH_MS = 100,
};

/* Serve d->metrics_listeners; loops run. NULL without memory. */
struct metrics_server *metrics_start(struct daemon *d);

/* Close everything; harmless with NULL. */
void metrics_release(struct metrics_server *ms);

#endif
