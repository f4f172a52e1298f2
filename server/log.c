/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log's one sink. A line is formatted on the stack and leaves in one write(2), so that lines of
 * several threads never mix and nothing is lost at abort(). Control characters that reach this file
 * anyway are replaced: one call is one line. The only state is the level, the sink and the limiter.
 */
#include "server/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "raid/base/bytes.h"

enum { LINE_BYTES = 2048 };

enum sink { SINK_STDERR, SINK_JOURNAL, SINK_SYSLOG };

static const struct {
	const char *name;
	int priority; /* syslog's number, and systemd's <N> prefix */
} levels[] = {
	[LOG_LEVEL_ERROR] = {"error", LOG_ERR},
	[LOG_LEVEL_WARNING] = {"warning", LOG_WARNING},
	[LOG_LEVEL_INFO] = {"info", LOG_INFO},
	[LOG_LEVEL_DEBUG] = {"debug", LOG_DEBUG},
};

static _Atomic int most_verbose_level = LOG_LEVEL_INFO;
static _Atomic int sink = SINK_STDERR;
static pthread_mutex_t limiter_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limiter limiter;

void log_init(enum log_level most_verbose)
{
	most_verbose_level = most_verbose;
	if (sink == SINK_STDERR && getenv("JOURNAL_STREAM")) {
		sink = SINK_JOURNAL;
	}
}

void log_to_syslog(void)
{
	openlog("nbd-raidd", LOG_PID, LOG_DAEMON);
	sink = SINK_SYSLOG;
}

const char *log_level_name(enum log_level level)
{
	return levels[level].name;
}

bool log_level_parse(const char *name, enum log_level *out)
{
	for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
		if (!strcmp(name, levels[i].name)) {
			*out = (enum log_level)i;
			return true;
		}
	}
	return false;
}

/* The whole line or nothing more can be done: a log that cannot be written has nowhere to say so.
 */
static void write_line(const char *line, size_t len)
{
	ssize_t n = write(STDERR_FILENO, line, len);

	(void)n;
}

static void emit(enum log_level level, const char *fmt, va_list args)
{
	char line[LINE_BYTES];
	size_t at = 0, room = sizeof line - 1; /* the newline's place */
	int n;

	if (sink == SINK_JOURNAL) {
		at += (size_t)snprintf(line, room, "<%d>", levels[level].priority);
	}
	if (sink != SINK_SYSLOG) {
		at += (size_t)snprintf(line + at, room - at, "%s: ", levels[level].name);
	}
	n = vsnprintf(line + at, room - at, fmt, args);
	if (n < 0) {
		return;
	}
	for (size_t end = min_u64(at + (size_t)n, room - 1); at < end; at++) {
		if ((unsigned char)line[at] < 0x20 || line[at] == 0x7f) {
			line[at] = '?';
		}
	}
	if (sink == SINK_SYSLOG) {
		line[at] = '\0';
		syslog(levels[level].priority, "%s", line);
		return;
	}
	line[at++] = '\n';
	write_line(line, at);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	va_list args;

	if ((int)level > most_verbose_level) {
		return;
	}
	va_start(args, fmt);
	emit(level, fmt, args);
	va_end(args);
}

bool log_limiter_take(struct log_limiter *l, uint64_t now_ns, uint64_t *dropped)
{
	const uint64_t line_ns = UINT64_C(1000000000) / LOG_LIMIT_PER_S;
	const uint64_t full_ns = line_ns * LOG_LIMIT_BURST;

	if (!l->started) {
		l->started = true;
		l->last_ns = now_ns;
		l->credit_ns = full_ns;
	}
	l->credit_ns = min_u64(full_ns, l->credit_ns + min_u64(full_ns, now_ns - l->last_ns));
	l->last_ns = now_ns;
	if (l->credit_ns < line_ns) {
		l->dropped++;
		return false;
	}
	l->credit_ns -= line_ns;
	*dropped = l->dropped;
	l->dropped = 0;
	return true;
}

void log_limited(enum log_level level, const char *fmt, ...)
{
	struct timespec ts;
	uint64_t dropped = 0;
	bool admitted;
	va_list args;

	if ((int)level > most_verbose_level) {
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &ts);
	pthread_mutex_lock(&limiter_lock);
	admitted = log_limiter_take(
		&limiter, (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec,
		&dropped);
	pthread_mutex_unlock(&limiter_lock);
	if (!admitted) {
		return;
	}
	if (dropped) {
		log_write(LOG_LEVEL_WARNING, "too many lines of this kind dropped=%llu",
			  (unsigned long long)dropped);
	}
	va_start(args, fmt);
	emit(level, fmt, args);
	va_end(args);
}

const char *log_quote(const void *bytes, size_t n, char *buf, size_t size)
{
	static const char cut[] = "\xe2\x80\xa6\""; /* the ellipsis and the closing quote */
	const unsigned char *p = bytes;
	size_t at = 0;

	if (size < sizeof cut + 1) {
		if (size) {
			buf[0] = '\0';
		}
		return buf;
	}
	buf[at++] = '"';
	for (size_t i = 0; i < n; i++) {
		char piece[5];
		size_t len;

		if (p[i] == '"' || p[i] == '\\') {
			len = (size_t)snprintf(piece, sizeof piece, "\\%c", p[i]);
		} else if (p[i] < 0x20 || p[i] > 0x7e) {
			len = (size_t)snprintf(piece, sizeof piece, "\\x%02x", p[i]);
		} else {
			len = (size_t)snprintf(piece, sizeof piece, "%c", p[i]);
		}
		/* What follows must leave room for the cut mark, or for the quote if it is last. */
		if (at + len + (i + 1 < n ? sizeof cut : 2) > size) {
			memcpy(buf + at, cut, sizeof cut);
			return buf;
		}
		memcpy(buf + at, piece, len);
		at += len;
	}
	memcpy(buf + at, "\"", 2);
	return buf;
}
