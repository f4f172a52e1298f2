/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line a message, `level` first, key=value pairs after the text, to stderr
 * (journald-friendly: with the <N> prefix when JOURNAL_STREAM is set). Thread-safe. Lines that a
 * hostile peer can cause go through log_limited(), which drops and counts beyond a rate. Peer
 * strings are escaped with log_quote().
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_init(enum log_level most_verbose);

/* From now on to syslog: a daemon that has left its terminal has no stderr. */
void log_to_syslog(void);

/* "error", "warning", "info", "debug". */
const char *log_level_name(enum log_level level);
bool log_level_parse(const char *name, enum log_level *out);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_limited(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * How log_limited() decides, pure: LOG_LIMIT_BURST lines at once, LOG_LIMIT_PER_S a second after
 * that. Returns whether this line may go out; *dropped says how many did not since the last one
 * that did.
 */
enum { LOG_LIMIT_BURST = 20, LOG_LIMIT_PER_S = 5 };
struct log_limiter {
	bool started;
	uint64_t last_ns, credit_ns, dropped;
};
bool log_limiter_take(struct log_limiter *l, uint64_t now_ns, uint64_t *dropped);

/* Printable, quoted form of n untrusted bytes; cut with "…" if it does not fit. Returns buf. */
const char *log_quote(const void *bytes, size_t n, char *buf, size_t size);

#define log_error(...)	 log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)	 log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)	 log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
