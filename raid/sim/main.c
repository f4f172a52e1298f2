/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raid-sim: run seeds until time is up, or one seed, or the scenarios.
 *
 * Every seed runs in a process that is one of --jobs; the parent adds up what they did. A seed that
 * fails prints why and how to replay it, and ends everything with status 1.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raid/base/check.h"
#include "raid/sim/marks.h"
#include "raid/sim/scenarios.h"
#include "raid/sim/world.h"

enum { JOBS_MAX = 64, SECONDS_PER_SEED = 60 };

struct options {
	bool have_seed, verbose, marks_required, scenarios, twice;
	uint64_t seed;
	uint32_t seconds, jobs;
	enum plan_profile profile;
	const char *scenario, *list;
};

/* What a job leaves behind for its parent, in shared memory. */
struct job {
	uint64_t seed; /* the one it is running */
	struct world_stats stats;
};

static int usage(const char *problem)
{
	fprintf(stderr,
		"raid-sim: %s\n"
		"usage: raid-sim [--seconds S] [--jobs N] [--seed-list FILE] [--marks-required]\n"
		"       raid-sim --seed N [--profile P] [--verbose]\n"
		"       raid-sim --scenarios | --scenario NAME [--verbose]\n"
		"profiles: any calm faults minimal beyond\n",
		problem);
	return 2;
}

static bool parse_u64(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	return errno == 0 && end != text && *end == '\0';
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},
		{"seconds", required_argument, NULL, 't'},
		{"profile", required_argument, NULL, 'p'},
		{"jobs", required_argument, NULL, 'j'},
		{"verbose", no_argument, NULL, 'v'},
		{"marks-required", no_argument, NULL, 'm'},
		{"scenarios", no_argument, NULL, 'S'},
		{"scenario", required_argument, NULL, 'n'},
		{"seed-list", required_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};
	uint64_t n = 0;
	int c;

	*o = (struct options){.seconds = 10, .jobs = 1};
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (strchr("stj", c) && !parse_u64(optarg, &n)) {
			return usage("a number is not a number");
		}
		switch (c) {
		case 's':
			o->have_seed = true;
			o->seed = n;
			break;
		case 't':
			o->seconds = (uint32_t)n;
			break;
		case 'j':
			o->jobs = (uint32_t)n;
			break;
		case 'p':
			o->profile = plan_profile_parse(optarg);
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'm':
			o->marks_required = true;
			break;
		case 'S':
			o->scenarios = true;
			break;
		case 'n':
			o->scenario = optarg;
			break;
		case 'l':
			o->list = optarg;
			break;
		default:
			return usage("unknown option");
		}
	}
	if (optind < argc || o->profile == PLAN_PROFILES || o->jobs == 0 || o->jobs > JOBS_MAX) {
		return usage("bad argument");
	}
	return 0;
}

static void print_stats(const struct world_stats *s, double seconds)
{
	printf("raid-sim: %" PRIu64 " seeds, %" PRIu64 " crash-restarts, %" PRIu64
	       " by force, %" PRIu64 " orderly stops, %" PRIu64 " requests, %" PRIu64
	       " ios, %" PRIu64 " steps, %" PRIu64 " places verified, %" PRIu64
	       " members failed, %" PRIu64 " commands, %" PRIu64 " syncs, %" PRIu64
	       " damages found, %" PRIu64 " client errors allowed, in %.1f s\n",
	       s->seeds, s->crashes, s->forced, s->stops, s->requests, s->ios, s->steps,
	       s->verified, s->members_failed, s->commands, s->syncs, s->damages, s->client_errors,
	       seconds);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct world *new_world(void)
{
	struct world *w = calloc(1, sizeof *w);

	CHECK(w);
	return w;
}

/* The same seed twice: the traces must be equal to the last bit. */
static int run_one(const struct options *o)
{
	struct world *w = new_world();
	double start = now_s();
	uint64_t hash;

	printf("raid-sim: seed %" PRIu64 "\n", o->seed);
	fflush(stdout);
	run_seed(w, o->seed, o->profile, o->verbose);
	hash = w->trace.hash;
	print_stats(&w->stats, now_s() - start);
	run_seed(w, o->seed, o->profile, false);
	printf("trace %016" PRIx64 ", %" PRIu64 " lines; replay %016" PRIx64 "\n", hash,
	       w->trace.lines, w->trace.hash);
	if (hash != w->trace.hash) {
		fprintf(stderr, "raid-sim: seed %" PRIu64 " FAILED: its replay differs\n", o->seed);
		return 1;
	}
	return 0;
}

/* Once-failing seeds: lines of "seed profile # what it caught". */
static uint64_t run_list(struct world *w, struct job *job, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[512], profile[16];
	uint64_t seed, n = 0;

	if (!f) {
		fprintf(stderr, "raid-sim: cannot open %s: %s\n", path, strerror(errno));
		_exit(2);
	}
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "%" SCNu64 " %15s", &seed, profile) == 2) {
			job->seed = seed;
			trace_rearm_watchdog();
			run_seed(w, seed, plan_profile_parse(profile), false);
			n++;
		}
	}
	fclose(f);
	return n;
}

static void run_job(const struct options *o, uint32_t index, struct job *job, uint64_t *marks)
{
	struct world *w = new_world();
	double end = now_s() + o->seconds;

	trace_catch_signals(SECONDS_PER_SEED);
	if (index == 0 && o->marks_required) {
		scenarios_run(NULL, SCENARIOS_QUIET); /* what chance seldom arranges */
	}
	if (index == 0 && o->list) {
		run_list(w, job, o->list);
	}
	for (uint64_t k = index; now_s() < end; k += o->jobs) {
		job->seed = o->seed + k;
		trace_rearm_watchdog();
		run_seed(w, job->seed, o->profile, false);
		if (o->verbose) {
			printf("seed %" PRIu64 " trace %016" PRIx64 "\n", job->seed, w->trace.hash);
			fflush(stdout);
		}
		job->stats = w->stats;
	}
	job->stats = w->stats;
	marks_add(marks);
	_exit(0);
}

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void add_stats(struct world_stats *sum, const struct world_stats *s)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)s;

	for (size_t i = 0; i < sizeof *s / sizeof *to; i++) {
		to[i] += from[i];
	}
}

/* Wait for any job. One that failed ends the others. */
static int reap_job(const struct options *o, pid_t pid[JOBS_MAX], const struct job *job, int ending)
{
	int status;
	pid_t done = wait(&status);

	for (uint32_t i = 0; i < o->jobs; i++) {
		if (pid[i] == done) {
			pid[i] = 0;
			if (ending || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
				return 0;
			}
			fprintf(stderr, "raid-sim: job %u ended badly at seed %" PRIu64 "\n", i,
				job[i].seed);
		}
	}
	for (uint32_t i = 0; i < o->jobs; i++) {
		if (pid[i]) {
			kill(pid[i], SIGTERM);
		}
	}
	return 1;
}

static int run_many(struct options *o)
{
	struct job *job = shared(o->jobs * sizeof *job);
	size_t marks_each = marks_count() + 1;
	uint64_t *marks = shared(o->jobs * marks_each * sizeof *marks);
	struct world_stats sum = {0};
	double start = now_s();
	enum marks_detail detail;
	pid_t pid[JOBS_MAX];
	int failed = 0;

	if (!o->have_seed) {
		o->seed = ((uint64_t)time(NULL) << 20) ^ ((uint64_t)getpid() << 40);
	}
	printf("raid-sim: seeds from %" PRIu64 ", %u jobs, %u s\n", o->seed, o->jobs, o->seconds);
	fflush(stdout);
	for (uint32_t i = 0; i < o->jobs; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i] == 0) {
			run_job(o, i, &job[i], marks + i * marks_each);
		}
	}
	for (uint32_t left = o->jobs; left > 0; left--) {
		failed |= reap_job(o, pid, job, failed);
	}
	for (uint32_t i = 0; i < o->jobs; i++) {
		add_stats(&sum, &job[i].stats);
		for (size_t k = 0; k < marks_each && i > 0; k++) {
			marks[k] += marks[i * marks_each + k];
		}
	}
	print_stats(&sum, now_s() - start);
	if (failed) {
		return failed; /* the jobs that were ended have not handed in their marks */
	}
	detail = o->verbose ? MARKS_ALL : o->marks_required ? MARKS_MISSING : MARKS_COUNT;
	if (marks_report(marks, stdout, detail) > 0 && o->marks_required) {
		fprintf(stderr, "raid-sim: FAILED: marks were not reached\n");
		failed = 1;
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct options o;
	int res = parse(argc, argv, &o);
	bool one = o.have_seed;

	for (int i = 1; i < argc && one; i++) {
		one = strncmp(argv[i], "--seconds", 9) != 0;
	}
	if (res) {
		return res;
	}
	if (one || o.scenarios || o.scenario) {
		trace_catch_signals(SECONDS_PER_SEED);
	}
	if (o.verbose) {
		trace_set_tail(0);
	}
	if (o.scenarios || o.scenario) {
		return scenarios_run(o.scenario, o.verbose ? SCENARIOS_VERBOSE : SCENARIOS_NAMES);
	}
	return one ? run_one(&o) : run_many(&o);
}
