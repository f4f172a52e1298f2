/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl monitor: what happens to arrays, as it happens, under mdadm's names; printed, or
 * given to a program as `PROGRAM EVENT ARRAY [MEMBER]`, one after the other in the order of events.
 */
#include <errno.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/ctl_common.h"

struct monitor {
	const char *control, *program;
	bool json, once, test;
	char **names; /* of arrays, NULL at the end; none: all */
};

static void print_text(const json_t *event)
{
	time_t at = (time_t)ctl_number(event, "time_s");
	const char *member = json_string_value(json_object_get(event, "member"));
	char when[32] = "", clean[256];
	struct tm tm;

	if (localtime_r(&at, &tm)) {
		strftime(when, sizeof when, "%b %e %H:%M:%S", &tm);
	}
	printf("%s: %s on %s", when, ctl_text(event, "event"), ctl_text(event, "array"));
	if (member) {
		printf(" %s", ctl_clean_text(member, clean, sizeof clean));
	}
	putchar('\n');
}

static void run_program(const char *program, const json_t *event)
{
	const char *member = json_string_value(json_object_get(event, "member"));
	char *args[] = {(char *)program, (char *)ctl_text(event, "event"),
			(char *)ctl_text(event, "array"), (char *)member, NULL};
	pid_t pid;
	int err = posix_spawnp(&pid, program, NULL, NULL, args, environ);

	if (err) {
		fprintf(stderr, "%s: %s\n", program, strerror(err));
		return;
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
}

static bool is_wanted(const struct monitor *m, const json_t *event)
{
	for (char **name = m->names; *name; name++) {
		if (!strcmp(*name, ctl_text(event, "array"))) {
			return true;
		}
	}
	return !*m->names;
}

static void tell(const struct monitor *m, const json_t *event)
{
	if (!is_wanted(m, event)) {
		return;
	}
	if (m->json) {
		json_dumpf(event, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
		putchar('\n');
	} else if (!m->program) {
		print_text(event);
	}
	fflush(stdout);
	if (m->program) {
		run_program(m->program, event);
	}
}

static int follow(const struct monitor *m)
{
	struct ctl_stream *s =
		ctl_open(m->control, json_pack("{s:s, s:b, s:b}", "command", "monitor", "once",
					       m->once, "test", m->test));
	json_t *answer = s ? ctl_next(s, -1) : NULL, *event;
	int rc = CTL_REFUSED;
	size_t i;

	if (!s) {
		return CTL_REFUSED;
	}
	if (!answer) {
		ctl_refused("nbd-raidd at %s gave no answer", m->control);
	} else if (ctl_answer_ok(answer)) {
		json_array_foreach(json_object_get(answer, "events"), i, event)
		{
			tell(m, event);
		}
		rc = CTL_OK;
	}
	json_decref(answer);
	while (rc == CTL_OK && !m->once && (event = ctl_next(s, -1))) {
		tell(m, event);
		json_decref(event);
	}
	ctl_close(s);
	if (rc == CTL_OK && !m->once) {
		return ctl_refused("nbd-raidd at %s has ended", m->control);
	}
	return rc;
}

int ctl_monitor(int argc, char **argv)
{
	static const struct option options[] = {
		{"control", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'},
		{"program", required_argument, NULL, 'p'}, {"oneshot", no_argument, NULL, '1'},
		{"test", no_argument, NULL, 't'},	   {NULL, 0, NULL, 0}};
	struct monitor m = {.control = CTL_CONTROL_PATH};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "c:jp:1t", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			m.control = optarg;
			break;
		case 'j':
			m.json = true;
			break;
		case 'p':
			m.program = optarg;
			break;
		case '1':
			m.once = true;
			break;
		case 't':
			m.test = true;
			break;
		default:
			return ctl_bad_option("monitor", argv);
		}
	}
	m.names = argv + optind;
	return follow(&m);
}
