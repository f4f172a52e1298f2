/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happened: every input of the engine and every output goes through here. A running hash over
 * all of it proves that a replay is exact; the last lines are kept for the report of a failure.
 *
 * Also the one way a run ends badly: sim_fail().
 */
#ifndef RAID_SIM_TRACE_H
#define RAID_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum trace_kind {
	TRACE_STEP,
	TRACE_SUBMIT,
	TRACE_RELEASE,
	TRACE_COMPLETE,
	TRACE_CONTROL,
	TRACE_IO,
	TRACE_CANCEL,
	TRACE_DONE,
	TRACE_FREE,
	TRACE_CMD,
	TRACE_EVENT,
	TRACE_NOTE,
	TRACE_KINDS,
};

enum { TRACE_RING = 4096 };

struct trace_line {
	enum trace_kind kind;
	uint64_t at_ns;
	uint64_t v[5];
	const char *text;
};

struct trace {
	uint64_t hash;
	uint64_t lines;
	bool verbose; /* print every line as it comes */
	uint64_t seed;
	const char *profile;
	const char *scenario; /* NULL: a seed's run */
	char plan[512];	      /* one line: what the seed drew */
	struct trace_line ring[TRACE_RING];
};

/* Begin a run: t becomes the trace that sim_fail() reports. */
void trace_begin(struct trace *t, uint64_t seed, const char *profile, bool verbose);

/* text must be static; it is hashed by its characters. */
void trace_add(struct trace *t, enum trace_kind kind, uint64_t at_ns, const char *text, uint64_t a,
	       uint64_t b, uint64_t c, uint64_t d, uint64_t e);

/* How many of the last lines a failure prints. */
void trace_set_tail(uint32_t lines);

/* Print the reason, the last lines and how to replay; exit with status 1. */
__attribute__((noreturn, cold, format(printf, 1, 2))) void sim_fail(const char *fmt, ...);

/* Report aborts, faults and runs that do not end in the same way. */
void trace_catch_signals(uint32_t seconds_per_run);
void trace_rearm_watchdog(void);

#endif
