/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line a message, `level` first, key=value pairs after the text, to stderr
 * (journald-friendly: with the <N> prefix when JOURNAL_STREAM is set). Thread-safe. Lines that a
 * hostile peer can cause go through log_limited(), which drops and counts beyond a rate. Peer
 * strings are escaped with log_quote().
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_init(enum log_level most_verbose);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_limited(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Printable, quoted form of n untrusted bytes; cut with "…" if it does not fit. Returns buf. */
const char *log_quote(const void *bytes, size_t n, char *buf, size_t size);

#define log_error(...)	 log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)	 log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)	 log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
