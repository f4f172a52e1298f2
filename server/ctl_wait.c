/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl wait: until nothing of the kind of a resync is under way. On a terminal a bar shows
 * how far; else a line is printed for every tenth.
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/ctl_common.h"

enum {
	POLL_MS = 200,
	/* Work that waits and does not begin for so long will not. */
	PATIENCE_POLLS = 15000 / POLL_MS,
	BAR_COLUMNS = 24,
};

struct progress {
	bool terminal;
	bool bar;	 /* one stands on the line */
	char what[64];	 /* array and action that the last line was about */
	int tenths;	 /* … and how far it was */
	uint32_t waited; /* polls without anything under way */
};

static unsigned int percent10(const json_t *sync)
{
	unsigned long long done = ctl_number(sync, "done"), total = ctl_number(sync, "total");

	return total ? (unsigned int)((unsigned __int128)done * 1000 / total) : 0;
}

static void end_bar(struct progress *p)
{
	if (p->bar) {
		printf("\r%s: over\033[K\n", p->what);
		p->bar = false;
	}
}

static void show(struct progress *p, const char *array, const json_t *sync)
{
	unsigned int at = percent10(sync);
	char what[sizeof p->what], how[64], bar[BAR_COLUMNS + 1];

	ctl_sync_text(sync, how);
	snprintf(what, sizeof what, "%.40s: %s", array, ctl_text(sync, "action"));
	if (strcmp(what, p->what) != 0) {
		end_bar(p);
		memcpy(p->what, what, sizeof what);
		p->tenths = -1;
	}
	if (p->terminal) {
		memset(bar, '.', BAR_COLUMNS);
		memset(bar, '=', BAR_COLUMNS * at / 1000);
		bar[BAR_COLUMNS] = '\0';
		printf("\r%s: [%s] %s\033[K", array, bar, how);
		p->bar = true;
	} else if ((int)at / 100 != p->tenths) {
		p->tenths = (int)at / 100;
		printf("%s: %s\n", array, how);
	}
	fflush(stdout);
}

static bool has_member(const json_t *array, const char *state)
{
	const json_t *m;
	size_t i;

	json_array_foreach(json_object_get(array, "members"), i, m)
	{
		if (!strcmp(ctl_text(m, "state"), state)) {
			return true;
		}
	}
	return false;
}

enum work { WORK_NONE, WORK_WAITS, WORK_RUNS };

static enum work work_of(const json_t *array)
{
	const json_t *sync = json_object_get(array, "sync");

	if (ctl_truth(array, "read_only") || !strcmp(ctl_text(array, "state"), "stopping")) {
		return WORK_NONE;
	}
	if (strcmp(ctl_text(sync, "action"), "idle") != 0) {
		return WORK_RUNS;
	}
	return ctl_truth(sync, "waiting") || has_member(array, "rebuilding") ||
			       has_member(array, "replacement")
		       ? WORK_WAITS
		       : WORK_NONE;
}

/* One look at all arrays meant. Returns the first with work; NULL: none has any. */
static const json_t *look(const json_t *status, char *const *names, enum work *work, size_t *seen)
{
	const json_t *array, *waits = NULL;
	size_t i;

	*seen = 0;
	*work = WORK_NONE;
	json_array_foreach(json_object_get(status, "arrays"), i, array)
	{
		enum work has = ctl_is_meant(array, names) ? work_of(array) : WORK_NONE;

		*seen += ctl_is_meant(array, names);
		if (has == WORK_RUNS) {
			*work = WORK_RUNS;
			return array;
		}
		if (has == WORK_WAITS && !waits) {
			*work = WORK_WAITS;
			waits = array;
		}
	}
	return waits;
}

static size_t count(char *const *names)
{
	size_t n = 0;

	while (names[n]) {
		n++;
	}
	return n;
}

/* True: over, with *rc. */
static bool turn(const char *control_path, char *const *names, struct progress *p, int *rc)
{
	json_t *status = ctl_ask_status(control_path);
	const json_t *array;
	enum work work;
	size_t seen;

	*rc = CTL_REFUSED;
	if (!status) {
		return true;
	}
	array = look(status, names, &work, &seen);
	if (seen < count(names)) {
		end_bar(p);
		ctl_refused("nbd-raidd does not serve all of these arrays");
	} else if (work == WORK_NONE) {
		end_bar(p);
		*rc = CTL_OK;
	} else if (work == WORK_RUNS) {
		show(p, ctl_text(array, "name"), json_object_get(array, "sync"));
		p->waited = 0;
		*rc = -1;
	} else if (p->waited++ < PATIENCE_POLLS) {
		*rc = -1;
	} else {
		end_bar(p);
		ctl_refused(
			"array \"%s\" has work to do that does not begin; status and the log of "
			"nbd-raidd may say why",
			ctl_text(array, "name"));
	}
	json_decref(status);
	return *rc >= 0;
}

static int wait_for(const char *control_path, char *const *names)
{
	struct progress p = {.terminal = isatty(STDOUT_FILENO), .tenths = -1};
	int rc;

	while (!turn(control_path, names, &p, &rc)) {
		poll(NULL, 0, POLL_MS);
	}
	return rc;
}

static int say_found(const char *control_path, char *const *names)
{
	json_t *status = ctl_ask_status(control_path);
	const json_t *array;
	size_t i;

	json_array_foreach(json_object_get(status, "arrays"), i, array)
	{
		if (ctl_is_meant(array, names)) {
			printf("%s: %llu mismatched sectors found\n", ctl_text(array, "name"),
			       ctl_number(json_object_get(array, "sync"), "mismatch_sectors"));
		}
	}
	json_decref(status);
	return status ? CTL_OK : CTL_REFUSED;
}

int ctl_wait_for_scrub(const char *control_path, char *const *names)
{
	int rc = wait_for(control_path, names);

	return rc ? rc : say_found(control_path, names);
}

int ctl_wait(int argc, char **argv)
{
	static const struct option options[] = {{"control", required_argument, NULL, 'c'},
						{NULL, 0, NULL, 0}};
	const char *control = CTL_CONTROL_PATH;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		if (c != 'c') {
			return ctl_bad_option("wait", argv);
		}
		control = optarg;
	}
	return wait_for(control, argv + optind);
}
