/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-raidctl status: what a running daemon says of itself. ctl_detail.c has the long form. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "server/ctl_common.h"

/* As `mdadm --detail --test` answers. */
enum test_exit { TEST_OK = 0, TEST_DEGRADED = 1, TEST_DEAD = 2, TEST_MISSING = 4 };

static bool dead(const json_t *array)
{
	return ctl_truth(array, "flush_lost") || !strcmp(ctl_text(array, "state"), "stopped") ||
	       ctl_number(array, "in_sync") == 0;
}

static void print_member(const json_t *m)
{
	const json_t *slot = json_object_get(m, "slot");
	unsigned long long errors = ctl_number(m, "read_errors") + ctl_number(m, "write_errors");
	char number_text[24] = "-";

	if (json_is_integer(slot)) {
		snprintf(number_text, sizeof number_text, "%lld",
			 (long long)json_integer_value(slot));
	}
	printf("  %4s  %-11s %s  (%llu MiB read, %llu MiB written", number_text,
	       ctl_text(m, "state"), ctl_text(m, "path"), ctl_number(m, "read_bytes") >> 20,
	       ctl_number(m, "write_bytes") >> 20);
	if (errors) {
		printf(", %llu read and %llu write errors, %llu corrected",
		       ctl_number(m, "read_errors"), ctl_number(m, "write_errors"),
		       ctl_number(m, "corrected"));
	}
	if (ctl_number(m, "bad_blocks")) {
		printf(", %llu bad blocks", ctl_number(m, "bad_blocks"));
	}
	puts(")");
}

static void print_array(const json_t *a)
{
	const json_t *members = json_object_get(a, "members"), *m;
	const json_t *sync = json_object_get(a, "sync");
	unsigned long long size = ctl_number(a, "size_bytes");
	char note[64];
	size_t i;

	printf("%s: %s, %llu bytes%s, %s%s\n", ctl_text(a, "name"), ctl_text(a, "level"), size,
	       ctl_size_note(size, note), ctl_text(a, "state"),
	       ctl_truth(a, "read_only") && strcmp(ctl_text(a, "state"), "read-only")
		       ? ", read-only"
		       : "");
	printf("  %llu of %llu members in sync%s%s%s\n", ctl_number(a, "in_sync"),
	       ctl_number(a, "slots"), ctl_number(a, "degraded") ? ", DEGRADED" : "",
	       ctl_truth(a, "needs_resync") ? ", needs resync" : "",
	       ctl_truth(a, "flush_lost") ? ", FLUSH LOST: reassemble it" : "");
	if (ctl_sync_text(sync, note)) {
		printf("  %s\n", note);
	}
	printf("  uuid %s, events %llu\n", ctl_text(a, "uuid"), ctl_number(a, "events"));
	json_array_foreach(members, i, m)
	{
		print_member(m);
	}
}

static void print_daemon(const json_t *answer)
{
	const json_t *list = json_object_get(answer, "exports"), *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		printf("export \"%s\": %s, %llu bytes%s%s\n", ctl_text(v, "name"),
		       ctl_text(v, "array"), ctl_number(v, "size_bytes"),
		       ctl_truth(v, "read_only") ? ", read-only" : "",
		       ctl_truth(v, "default") ? ", default" : "");
	}
	list = json_object_get(answer, "listeners");
	json_array_foreach(list, i, v)
	{
		printf("listening on %s\n", json_string_value(v) ? json_string_value(v) : "-");
	}
	printf("%zu session%s\n", json_array_size(json_object_get(answer, "sessions")),
	       json_array_size(json_object_get(answer, "sessions")) == 1 ? "" : "s");
}

static void print_status(const json_t *answer, char *const *names, bool detail)
{
	const json_t *list = json_object_get(answer, "arrays"), *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		if (!ctl_is_meant(v, names)) {
			continue;
		}
		if (detail) {
			ctl_print_detail(v);
		} else {
			print_array(v);
		}
	}
	if (!names[0]) {
		print_daemon(answer);
	}
}

/* Worst of the arrays meant: ok, degraded, dead, missing. */
static int test_exit(const json_t *answer, char *const *names)
{
	const json_t *list = json_object_get(answer, "arrays"), *a;
	int worst = TEST_OK;
	bool seen = false;
	size_t i;

	json_array_foreach(list, i, a)
	{
		int one;

		if (!ctl_is_meant(a, names)) {
			continue;
		}
		seen = true;
		one = dead(a) ? TEST_DEAD : ctl_number(a, "degraded") ? TEST_DEGRADED : TEST_OK;
		worst = one > worst ? one : worst;
	}
	return names[0] && !seen ? TEST_MISSING : worst;
}

struct said {
	const char *control;
	bool json, test, detail;
};

static int parse(int argc, char **argv, struct said *said)
{
	static const struct option options[] = {{"control", required_argument, NULL, 'c'},
						{"json", no_argument, NULL, 'j'},
						{"test", no_argument, NULL, 't'},
						{"detail", no_argument, NULL, 'D'},
						{NULL, 0, NULL, 0}};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "c:jtD", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			said->control = optarg;
			break;
		case 'j':
			said->json = true;
			break;
		case 't':
			said->test = true;
			break;
		case 'D':
			said->detail = true;
			break;
		default:
			return ctl_bad_option("status", argv);
		}
	}
	return argc - optind > 1 ? ctl_usage("status", "name one array or none") : CTL_OK;
}

int ctl_status(int argc, char **argv)
{
	struct said said = {.control = CTL_CONTROL_PATH};
	int rc = parse(argc, argv, &said);
	char **names = argv + optind;
	json_t *answer;

	if (rc) {
		return rc;
	}
	answer = ctl_ask_status(said.control);
	if (!answer) {
		return said.test ? TEST_MISSING : CTL_REFUSED;
	}
	rc = test_exit(answer, names);
	if (rc == TEST_MISSING) {
		ctl_refused("nbd-raidd serves no array \"%s\"", names[0]);
		rc = said.test ? rc : CTL_REFUSED;
	} else {
		if (!said.json) {
			print_status(answer, names, said.detail);
		}
		rc = said.test ? rc : CTL_OK;
	}
	if (said.json) {
		ctl_print_json(json_incref(answer));
	}
	json_decref(answer);
	return rc;
}
