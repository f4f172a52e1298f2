/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-raidctl status, stop, fail, check: what a running daemon says and does. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "server/ctl_common.h"

/* As `mdadm --detail --test` answers. */
enum test_exit { TEST_OK = 0, TEST_DEGRADED = 1, TEST_DEAD = 2, TEST_MISSING = 4 };

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "-";
}

static unsigned long long number(const json_t *o, const char *key)
{
	return (unsigned long long)json_integer_value(json_object_get(o, key));
}

static bool truth(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

static bool dead(const json_t *array)
{
	return truth(array, "flush_lost") || !strcmp(text(array, "state"), "stopped") ||
	       number(array, "in_sync") == 0;
}

static void print_member(const json_t *m)
{
	const json_t *slot = json_object_get(m, "slot");
	unsigned long long errors = number(m, "read_errors") + number(m, "write_errors");
	char number_text[24] = "-";

	if (json_is_integer(slot)) {
		snprintf(number_text, sizeof number_text, "%lld",
			 (long long)json_integer_value(slot));
	}
	printf("  %4s  %-8s %s  (%llu MiB read, %llu MiB written", number_text, text(m, "state"),
	       text(m, "path"), number(m, "read_bytes") >> 20, number(m, "write_bytes") >> 20);
	if (errors) {
		printf(", %llu read and %llu write errors, %llu corrected",
		       number(m, "read_errors"), number(m, "write_errors"), number(m, "corrected"));
	}
	puts(")");
}

static void print_array(const json_t *a)
{
	const json_t *members = json_object_get(a, "members"), *m;
	unsigned long long size = number(a, "size_bytes");
	char note[64];
	size_t i;

	printf("%s: %s, %llu bytes%s, %s%s\n", text(a, "name"), text(a, "level"), size,
	       ctl_size_note(size, note), text(a, "state"),
	       truth(a, "read_only") && strcmp(text(a, "state"), "read-only") ? ", read-only" : "");
	printf("  %llu of %llu members in sync%s%s%s\n", number(a, "in_sync"), number(a, "slots"),
	       number(a, "degraded") ? ", DEGRADED" : "",
	       truth(a, "needs_resync") ? ", needs resync" : "",
	       truth(a, "flush_lost") ? ", FLUSH LOST: reassemble it" : "");
	printf("  uuid %s, events %llu\n", text(a, "uuid"), number(a, "events"));
	json_array_foreach(members, i, m)
	{
		print_member(m);
	}
}

static void print_status(const json_t *answer, const char *name)
{
	const json_t *list = json_object_get(answer, "arrays"), *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		if (!name || !strcmp(text(v, "name"), name)) {
			print_array(v);
		}
	}
	if (name) {
		return;
	}
	list = json_object_get(answer, "exports");
	json_array_foreach(list, i, v)
	{
		printf("export \"%s\": %s, %llu bytes%s%s\n", text(v, "name"), text(v, "array"),
		       number(v, "size_bytes"), truth(v, "read_only") ? ", read-only" : "",
		       truth(v, "default") ? ", default" : "");
	}
	list = json_object_get(answer, "listeners");
	json_array_foreach(list, i, v)
	{
		printf("listening on %s\n", json_string_value(v) ? json_string_value(v) : "-");
	}
	printf("%zu session%s\n", json_array_size(json_object_get(answer, "sessions")),
	       json_array_size(json_object_get(answer, "sessions")) == 1 ? "" : "s");
}

/* Worst of the arrays meant: ok, degraded, dead, missing. */
static int test_exit(const json_t *answer, const char *name)
{
	const json_t *list = json_object_get(answer, "arrays"), *a;
	int worst = TEST_OK;
	bool seen = false;
	size_t i;

	json_array_foreach(list, i, a)
	{
		int one;

		if (name && strcmp(text(a, "name"), name) != 0) {
			continue;
		}
		seen = true;
		one = dead(a) ? TEST_DEAD : number(a, "degraded") ? TEST_DEGRADED : TEST_OK;
		worst = one > worst ? one : worst;
	}
	return name && !seen ? TEST_MISSING : worst;
}

/* What these commands take beside their arguments. */
struct ask_options {
	const char *control;
	bool json;
	bool flag; /* the one more that a command may have */
};

/* Returns CTL_OK with optind at the first argument, or the exit status after saying why. */
static int parse_options(int argc, char **argv, const char *command, const char *flag,
			 struct ask_options *o)
{
	const struct option options[] = {{"control", required_argument, NULL, 'c'},
					 {"json", no_argument, NULL, 'j'},
					 {flag, no_argument, NULL, 'f'},
					 {NULL, 0, NULL, 0}};
	const char letters[] = {'c', ':', 'j', flag ? flag[0] : '\0', '\0'};
	int c;

	*o = (struct ask_options){.control = CTL_CONTROL_PATH};
	opterr = 0;
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		switch (c) {
		case 'c':
			o->control = optarg;
			break;
		case 'j':
			o->json = true;
			break;
		default:
			if (!flag || (c != 'f' && c != flag[0])) {
				return ctl_bad_option(command, argv);
			}
			o->flag = true;
			break;
		}
	}
	return CTL_OK;
}

int ctl_status(int argc, char **argv)
{
	struct ask_options o;
	const char *name;
	json_t *answer;
	int rc = parse_options(argc, argv, "status", "test", &o);

	if (rc) {
		return rc;
	}
	if (argc - optind > 1) {
		return ctl_usage("status", "name one array or none");
	}
	name = argv[optind];
	answer = ctl_ask(o.control, json_pack("{s:s}", "command", "status"));
	if (!answer || !ctl_answer_ok(answer)) {
		json_decref(answer);
		return o.flag ? TEST_MISSING : CTL_REFUSED;
	}
	rc = test_exit(answer, name);
	if (rc == TEST_MISSING) {
		ctl_refused("nbd-raidd serves no array \"%s\"", name);
		rc = o.flag ? rc : CTL_REFUSED;
	} else {
		if (!o.json) {
			print_status(answer, name);
		}
		rc = o.flag ? rc : CTL_OK;
	}
	if (o.json) {
		ctl_print_json(json_incref(answer));
	}
	json_decref(answer);
	return rc;
}

/* Send a request whose answer is only yes or no. */
static int command(const struct ask_options *o, json_t *request, const char *done)
{
	json_t *answer = ctl_ask(o->control, request);
	int rc = CTL_REFUSED;

	if (answer && ctl_answer_ok(answer)) {
		rc = CTL_OK;
		if (!o->json) {
			puts(done);
		}
	}
	if (answer && o->json) {
		ctl_print_json(json_incref(answer));
	}
	json_decref(answer);
	return rc;
}

int ctl_stop(int argc, char **argv)
{
	struct ask_options o;
	int rc = parse_options(argc, argv, "stop", "all", &o);

	if (rc) {
		return rc;
	}
	if (argc - optind != !o.flag) {
		return ctl_usage("stop", "name one array, or say --all");
	}
	return command(&o,
		       json_pack("{s:s, s:o}", "command", "stop", "array",
				 ctl_json_text(o.flag ? "all" : argv[optind])),
		       o.flag ? "nbd-raidd stops" : "stopped");
}

int ctl_fail(int argc, char **argv)
{
	struct ask_options o;
	int rc = parse_options(argc, argv, "fail", NULL, &o);

	if (rc) {
		return rc;
	}
	if (argc - optind != 2) {
		return ctl_usage("fail", "name the array and the member");
	}
	return command(&o,
		       json_pack("{s:s, s:o, s:o}", "command", "fail", "array",
				 ctl_json_text(argv[optind]), "member",
				 ctl_json_text(argv[optind + 1])),
		       "failed: the array no longer uses it");
}

int ctl_check(int argc, char **argv)
{
	struct ask_options o;
	json_t *request;
	int rc = parse_options(argc, argv, "check", NULL, &o);

	if (rc) {
		return rc;
	}
	if (argc - optind > 1) {
		return ctl_usage("check", "name one array or none");
	}
	request = json_pack("{s:s}", "command", "check");
	if (argv[optind]) {
		json_object_set_new(request, "array", ctl_json_text(argv[optind]));
	}
	return command(&o, request, "all invariants hold");
}
