/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/trace.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static struct trace *current;
static uint32_t tail_lines = 60;
static uint32_t watchdog_s;

void trace_begin(struct trace *t, uint64_t seed, const char *profile, bool verbose)
{
	t->hash = 0xcbf29ce484222325;
	t->lines = 0;
	t->verbose = verbose;
	t->seed = seed;
	t->profile = profile;
	t->scenario = NULL;
	t->plan[0] = '\0';
	current = t;
}

void trace_set_tail(uint32_t lines)
{
	tail_lines = lines < TRACE_RING ? lines : TRACE_RING;
}

static void mix(struct trace *t, uint64_t v)
{
	t->hash = (t->hash ^ v) * 0x9fb21c651e98df25;
	t->hash ^= t->hash >> 29;
}

static const char *const kind_name[TRACE_KINDS] = {
	[TRACE_STEP] = "step",	       [TRACE_SUBMIT] = "submit",   [TRACE_RELEASE] = "release",
	[TRACE_COMPLETE] = "complete", [TRACE_CONTROL] = "control", [TRACE_IO] = "io",
	[TRACE_CANCEL] = "cancel",     [TRACE_DONE] = "done",	    [TRACE_FREE] = "free",
	[TRACE_CMD] = "command done",  [TRACE_EVENT] = "event",	    [TRACE_NOTE] = "note",
};

/* What the five numbers of a line of each kind are; a letter x prints in hexadecimal. */
static const char *const field[TRACE_KINDS][5] = {
	[TRACE_STEP] = {"inputs", "deadline_in_ns"},
	[TRACE_SUBMIT] = {"req", "addr", "len", "flags", "stream"},
	[TRACE_RELEASE] = {"req"},
	[TRACE_COMPLETE] = {"io", "res", "disk"},
	[TRACE_CONTROL] = {"op", "member"},
	[TRACE_IO] = {"io", "disk", "maddr", "len", "fua"},
	[TRACE_CANCEL] = {"io"},
	[TRACE_DONE] = {"req", "res", "addr", "len"},
	[TRACE_FREE] = {"req"},
	[TRACE_CMD] = {"op", "res"},
	[TRACE_EVENT] = {"disk", "op", "maddr", "len", "err"},
	[TRACE_NOTE] = {"a", "b", "c", "d"},
};

static void print_line(FILE *out, const struct trace_line *l)
{
	fprintf(out, "  %14.6f ms %-12s %s", (double)l->at_ns / 1e6, kind_name[l->kind],
		l->text ? l->text : "");
	for (int i = 0; i < 5; i++) {
		const char *name = field[l->kind][i];

		if (name && (!strcmp(name, "res") || !strcmp(name, "err"))) {
			fprintf(out, " %s=%d", name, (int)l->v[i]);
		} else if (name) {
			fprintf(out, " %s=%llu", name, (unsigned long long)l->v[i]);
		}
	}
	fputc('\n', out);
}

void trace_add(struct trace *t, enum trace_kind kind, uint64_t at_ns, const char *text, uint64_t a,
	       uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	struct trace_line *l = &t->ring[t->lines++ % TRACE_RING];

	*l = (struct trace_line){kind, at_ns, {a, b, c, d, e}, text};
	mix(t, kind);
	mix(t, at_ns);
	for (int i = 0; i < 5; i++) {
		mix(t, l->v[i]);
	}
	for (const char *p = text; p && *p; p++) {
		mix(t, (unsigned char)*p);
	}
	if (t->verbose) {
		print_line(stdout, l);
	}
}

/* Not async-signal-safe, on purpose: the program is broken and about to end, and the report is
 * worth more than a clean exit. */
static void report(const char *reason)
{
	uint64_t from;

	fflush(stdout);
	if (!current) {
		fprintf(stderr, "raid-sim: FAILED: %s\n", reason);
		return;
	}
	from = current->lines > tail_lines ? current->lines - tail_lines : 0;
	if (!current->verbose) {
		for (uint64_t i = from; i < current->lines; i++) {
			print_line(stderr, &current->ring[i % TRACE_RING]);
		}
	}
	fprintf(stderr, "raid-sim: plan: %s\n", current->plan);
	if (current->scenario) {
		fprintf(stderr,
			"raid-sim: scenario %s FAILED: %s\n"
			"replay: raid-sim --scenario %s --verbose\n",
			current->scenario, reason, current->scenario);
	} else {
		fprintf(stderr,
			"raid-sim: seed %llu FAILED: %s\n"
			"replay: raid-sim --seed %llu --profile %s --verbose\n",
			(unsigned long long)current->seed, reason,
			(unsigned long long)current->seed, current->profile);
	}
	fflush(stderr);
}

void sim_fail(const char *fmt, ...)
{
	char reason[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof reason, fmt, ap);
	va_end(ap);
	report(reason);
	_exit(1);
}

static void on_signal(int sig)
{
	report(sig == SIGVTALRM ? "the run does not end (livelock)"
	       : sig == SIGABRT ? "aborted: an internal check of the engine failed, see above"
				: "memory fault");
	_exit(1);
}

/* Processor time: a busy machine makes no livelock. */
void trace_rearm_watchdog(void)
{
	struct itimerval t = {.it_value.tv_sec = watchdog_s};

	setitimer(ITIMER_VIRTUAL, &t, NULL);
}

void trace_catch_signals(uint32_t seconds_per_run)
{
	static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGVTALRM};

	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		signal(signals[i], on_signal);
	}
	watchdog_s = seconds_per_run;
	trace_rearm_watchdog();
}
