/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands that ask a running daemon to do something: rows of a table that say how words become
 * the request. What they may do and whether it is done already, the daemon says.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/ctl_common.h"

enum kind { FLAG, DEVICE, SIZE };

struct word {
	const char *name; /* of the option */
	char letter;	  /* … in short */
	enum kind kind;
	const char *key; /* in the request; NULL: ours */
};

enum { WORDS_MAX = 4 };

struct ask {
	const char *name;    /* the command's */
	const char *command; /* the request's */
	const char *action;  /* … that too; NULL: none */
	struct word word[WORDS_MAX];
	bool says_action; /* add or remove comes before the array */
	bool all;	  /* --all in place of an array */
	bool optional;	  /* without an array: all of them */
	bool members;	  /* one or more follow the array */
	bool one_member;  /* one and no more */
	const char *done;
};

static const struct ask ask_stop = {
	.name = "stop", .command = "stop", .all = true, .done = "stopped"};
static const struct ask ask_self_check = {
	.name = "self-check",
	.command = "self-check",
	.optional = true,
	.done = "all invariants hold",
};
static const struct ask ask_fail = {
	.name = "fail",
	.command = "fail",
	.members = true,
	.done = "failed",
};
static const struct ask ask_remove = {
	.name = "remove",
	.command = "remove",
	.members = true,
	.done = "removed",
};
static const struct ask ask_add = {
	.name = "add",
	.command = "add",
	.word = {{"force", 'f', FLAG, "force"},
		 {"write-mostly", 'W', FLAG, "write-mostly"},
		 {"failfast", 'F', FLAG, "failfast"}},
	.members = true,
	.done = "added",
};
static const struct ask ask_readd = {
	.name = "re-add",
	.command = "re-add",
	.members = true,
	.done = "added back",
};
static const struct ask ask_replace = {
	.name = "replace",
	.command = "replace",
	.word = {{"with", 'w', DEVICE, "with"}},
	.members = true,
	.one_member = true,
	.done = "being replaced (wait and status show how far)",
};
static const struct ask ask_check = {
	.name = "check",
	.command = "sync",
	.action = "check",
	.word = {{"wait", 'w', FLAG, NULL}},
	.done = "the check has begun",
};
static const struct ask ask_repair = {
	.name = "repair",
	.command = "sync",
	.action = "repair",
	.word = {{"wait", 'w', FLAG, NULL}},
	.done = "the repair has begun",
};
static const struct ask ask_idle = {
	.name = "idle",
	.command = "sync",
	.action = "idle",
	.done = "ended",
};
static const struct ask ask_sync_speed = {
	.name = "sync-speed",
	.command = "sync-speed",
	.word = {{"min", 'm', SIZE, "min_bps"}, {"max", 'M', SIZE, "max_bps"}},
	.done = "set",
};
static const struct ask ask_bitmap = {
	.name = "bitmap",
	.command = "bitmap",
	.word = {{"chunk", 'b', SIZE, "chunk_bytes"}},
	.says_action = true,
	.done = "done",
};

/* What was said. */
struct said {
	const char *control;
	const char *action;
	bool json, all, wait;
	json_t *request;
};

/* ---- words --------------------------------------------------------------------------------- */

/* The daemon has another working directory. */
static json_t *absolute(const char *path)
{
	char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0), *whole = NULL;
	json_t *out;

	if (cwd && asprintf(&whole, "%s/%s", cwd, path) < 0) {
		whole = NULL;
	}
	out = ctl_json_text(whole ? whole : path);
	free(whole);
	free(cwd);
	return out;
}

static int take_word(const struct ask *a, const struct word *w, struct said *said)
{
	uint64_t bytes;

	switch (w->kind) {
	case FLAG:
		if (w->key) {
			json_object_set_new(said->request, w->key, json_true());
		} else {
			said->wait = true;
		}
		break;
	case DEVICE:
		json_object_set_new(said->request, w->key, absolute(optarg));
		break;
	case SIZE:
		if (ctl_parse_size(optarg, &bytes)) {
			return ctl_usage(a->name, "\"%s\" is no size", optarg);
		}
		json_object_set_new(said->request, w->key, json_integer((json_int_t)bytes));
		break;
	}
	return CTL_OK;
}

/* Returns CTL_OK with optind at the first argument, or the exit status after saying why. */
static int parse(const struct ask *a, int argc, char **argv, struct said *said)
{
	struct option options[WORDS_MAX + 4] = {{"control", required_argument, NULL, 'c'},
						{"json", no_argument, NULL, 'j'}};
	char letters[2 * WORDS_MAX + 8] = "c:j";
	size_t n = 2, used = 3;
	int c, rc = CTL_OK;

	if (a->all) {
		options[n++] = (struct option){"all", no_argument, NULL, 'a'};
		letters[used++] = 'a';
	}
	for (size_t i = 0; i < WORDS_MAX && a->word[i].name; i++) {
		const struct word *w = &a->word[i];
		int takes = w->kind == FLAG ? no_argument : required_argument;

		options[n++] = (struct option){w->name, takes, NULL, w->letter};
		letters[used++] = w->letter;
		if (takes == required_argument) {
			letters[used++] = ':';
		}
	}
	opterr = 0;
	while (rc == CTL_OK && (c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		size_t i = 0;

		while (i < WORDS_MAX && a->word[i].name && c != a->word[i].letter) {
			i++;
		}
		if (i < WORDS_MAX && a->word[i].name) {
			rc = take_word(a, &a->word[i], said);
		} else if (c == 'c') {
			said->control = optarg;
		} else if (c == 'j') {
			said->json = true;
		} else if (c == 'a' && a->all) {
			said->all = true;
		} else {
			rc = ctl_bad_option(a->name, argv);
		}
	}
	return rc;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* One request, from what was said and these. member NULL: none. */
static int ask_once(const struct ask *a, const struct said *said, const char *array,
		    const char *member)
{
	json_t *request = json_deep_copy(said->request), *answer;
	const char *note;
	int rc = CTL_REFUSED;

	json_object_set_new(request, "command", json_string(a->command));
	if (said->action) {
		json_object_set_new(request, "action", json_string(said->action));
	}
	if (array) {
		json_object_set_new(request, "array", ctl_json_text(array));
	}
	if (member) {
		json_object_set_new(request, "member", absolute(member));
	}
	answer = ctl_ask(said->control, request);
	if (answer && ctl_answer_ok(answer)) {
		note = json_string_value(json_object_get(answer, "note"));
		rc = CTL_OK;
		if (!said->json) {
			printf("%s%s%s\n",
			       note	   ? note
			       : said->all ? "nbd-raidd stops"
					   : a->done,
			       member && !note ? ": " : "", member && !note ? member : "");
		}
	}
	if (answer && said->json) {
		ctl_print_json(json_incref(answer));
	}
	json_decref(answer);
	return rc;
}

static bool has_failed(const json_t *member)
{
	return !strcmp(ctl_text(member, "state"), "faulty");
}

/* remove ARRAY failed: every member that has failed. */
static int ask_for_failed(const struct ask *a, const struct said *said, char *const *names)
{
	json_t *status = ctl_ask_status(said->control);
	const json_t *array, *member;
	bool known = false;
	int rc = CTL_OK;
	size_t i, k;

	if (!status) {
		return CTL_REFUSED;
	}
	json_array_foreach(json_object_get(status, "arrays"), i, array)
	{
		if (!ctl_is_meant(array, names)) {
			continue;
		}
		known = true;
		json_array_foreach(json_object_get(array, "members"), k, member)
		{
			if (has_failed(member)) {
				rc |= ask_once(a, said, names[0], ctl_text(member, "path"));
			}
		}
	}
	json_decref(status);
	return known ? rc : ctl_refused("nbd-raidd serves no array \"%s\"", names[0]);
}

static int ask_members(const struct ask *a, const struct said *said, char *const *words)
{
	char *names[] = {words[0], NULL};
	int rc = CTL_OK;

	for (words++; *words; words++) {
		if (a == &ask_remove && (!strcmp(*words, "failed") || !strcmp(*words, "faulty"))) {
			rc |= ask_for_failed(a, said, names);
		} else {
			rc |= ask_once(a, said, names[0], *words);
		}
	}
	return rc;
}

static int check_words(const struct ask *a, const struct said *said, int words)
{
	if (said->all ? words > 0 : words < 1 && !a->optional) {
		return ctl_usage(a->name,
				 a->all ? "name one array, or say --all" : "name the array");
	}
	if (a->one_member && words != 2) {
		return ctl_usage(a->name, "name the array and one member");
	}
	if (a->members && words < 2) {
		return ctl_usage(a->name, "name the array and the member");
	}
	if (!a->members && words > 1) {
		return ctl_usage(a->name, "one array at a time");
	}
	return CTL_OK;
}

static int take_action(char *const *words, struct said *said)
{
	if (!words[0] || (strcmp(words[0], "add") != 0 && strcmp(words[0], "remove") != 0)) {
		return ctl_usage("bitmap", "say add or remove");
	}
	said->action = words[0];
	return CTL_OK;
}

static int ask(const struct ask *a, int argc, char **argv)
{
	struct said said = {
		.control = CTL_CONTROL_PATH, .request = json_object(), .action = a->action};
	char **words;
	int rc = parse(a, argc, argv, &said);

	words = argv + optind;
	if (!rc && a->says_action) {
		rc = take_action(words, &said);
		words++;
	}
	if (!rc) {
		rc = check_words(a, &said, argc - (int)(words - argv));
	}
	if (!rc && a->members) {
		rc = ask_members(a, &said, words);
	} else if (!rc) {
		rc = ask_once(a, &said, said.all ? "all" : words[0], NULL);
	}
	json_decref(said.request);
	if (!rc && said.wait) {
		rc = ctl_wait_for_scrub(said.control, words);
	}
	return rc;
}

/* ---- the commands -------------------------------------------------------------------------- */

int ctl_stop(int argc, char **argv)
{
	return ask(&ask_stop, argc, argv);
}

int ctl_self_check(int argc, char **argv)
{
	return ask(&ask_self_check, argc, argv);
}

int ctl_fail(int argc, char **argv)
{
	return ask(&ask_fail, argc, argv);
}

int ctl_remove(int argc, char **argv)
{
	return ask(&ask_remove, argc, argv);
}

int ctl_add(int argc, char **argv)
{
	return ask(&ask_add, argc, argv);
}

int ctl_readd(int argc, char **argv)
{
	return ask(&ask_readd, argc, argv);
}

int ctl_replace(int argc, char **argv)
{
	return ask(&ask_replace, argc, argv);
}

int ctl_check(int argc, char **argv)
{
	return ask(&ask_check, argc, argv);
}

int ctl_repair(int argc, char **argv)
{
	return ask(&ask_repair, argc, argv);
}

int ctl_idle(int argc, char **argv)
{
	return ask(&ask_idle, argc, argv);
}

int ctl_sync_speed(int argc, char **argv)
{
	return ask(&ask_sync_speed, argc, argv);
}

int ctl_set_bitmap(int argc, char **argv)
{
	return ask(&ask_bitmap, argc, argv);
}
