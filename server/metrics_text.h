/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics as text: the Prometheus exposition format, version 0.0.4. Pure: a snapshot in, text out.
 *
 * Every family has HELP and TYPE and stands in one piece; base units (bytes, seconds, sectors of
 * 512 bytes where the name says so); counters end in _total and never go back while an array or a
 * loop lives. A state is one sample for each state there is, 1 for the present one. Strings are
 * escaped; what is not UTF-8 (a path may be anything) is shown in log_quote()'s form, because one
 * such byte would make the whole text invalid.
 */
#ifndef SERVER_METRICS_TEXT_H
#define SERVER_METRICS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/raid.h"
#include "server/loop.h"

struct evbuffer;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Strings belong to whoever fills this in, and live as long as it. */
struct metrics_array {
	const char *name, *level;
	char uuid[37]; /* empty: an array without metadata */
	bool read_only, stopping;
	uint64_t size_bytes;
	struct raid_status status;
	uint32_t spares;
	const char *member[RAID_MEMBERS_MAX]; /* paths of the first status.members */
};

struct metrics_export {
	const char *name, *array;
	uint64_t size_bytes;
	bool read_only;
};

struct metrics {
	const char *version;
	double uptime_s;
	bool stopping;
	uint64_t connections; /* of NBD clients, those in their handshake included */
	uint32_t loops, arrays, exports;
	struct loop_stats *loop;
	struct metrics_array *array;
	struct metrics_export *export;
};

/* Append all of it. 0 or -ENOMEM, with out then holding a part. */
int metrics_text(struct evbuffer *out, const struct metrics *m);

#endif
