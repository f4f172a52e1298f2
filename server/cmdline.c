/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options are rows of one table: name, argument, help and the function that takes it. Options that
 * belong to arrays (--readonly, --force, --direct, --volatile) hold for all arrays, wherever they
 * stand; --member adds to the last --array or --build before it. What is given beside -c FILE wins
 * over the file.
 */
#include "server/cmdline.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/why.h"

/* What must be applied after everything has been read. */
struct words {
	struct cmdline *out;
	const char *file, *control, *metrics, *pid_file, *user, *group;
	bool have_control, read_only, force, volatile_cache, listens_given;
	bool have_raid0_layout;
	uint32_t raid0_layout;
	bool have_direct, have_level, have_loops, have_safe_mode, have_drain;
	enum device_direct direct;
	enum log_level level;
	uint32_t loops, safe_mode_ms, drain_ms;
	struct config given; /* arrays and listeners of the command line */
	bool help, version;
};

static int no_memory(char why[RAID_WHY_BYTES])
{
	return why_set(why, -ENOMEM, "out of memory");
}

/* ---- arrays -------------------------------------------------------------------------------- */

/* MEMBER,MEMBER,... ; empty text is no member. */
static int add_members(struct config_array *a, const char *list, char why[RAID_WHY_BYTES])
{
	while (*list) {
		size_t len = strcspn(list, ",");
		char *path = strndup(list, len);
		int err = path ? config_add_member(a, path) : -ENOMEM;

		free(path);
		if (err) {
			return no_memory(why);
		}
		list += len;
		if (*list == ',') {
			list++;
		}
	}
	return 0;
}

/* The text before the next ':' (or the end) of *text, which moves behind it. */
static char *take_field(const char **text)
{
	size_t len = strcspn(*text, ":");
	char *field = strndup(*text, len);

	*text += len;
	if (**text == ':') {
		++*text;
	}
	return field;
}

static int new_array(struct words *w, const char **text, struct config_array **out,
		     char why[RAID_WHY_BYTES])
{
	char *name = take_field(text);

	*out = name ? config_add_array(&w->given, name) : NULL;
	free(name);
	return *out ? 0 : no_memory(why);
}

static int option_array(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	struct config_array *a;
	int err = new_array(w, &arg, &a, why);

	return err ? err : add_members(a, arg, why);
}

/* LEVEL[,LAYOUT,CHUNK,OFFSET]; an empty field is the default. */
static int parse_shape(struct config_array *a, char *spec, char why[RAID_WHY_BYTES])
{
	char *field[4] = {NULL};
	size_t count = 0;

	for (char *rest = spec; rest;) {
		if (count == 4) {
			return why_set(why, -EINVAL, "'%s': more than level, layout, chunk, offset",
				       spec);
		}
		field[count++] = strsep(&rest, ",");
	}
	if (geo_level_parse(field[0], &a->level)) {
		return why_set(why, -EINVAL, "'%s' is not a level: linear, 0, 1 or 10", field[0]);
	}
	if (field[1] && field[1][0]) {
		if (geo_layout_parse(a->level, field[1], &a->layout)) {
			return why_set(why, -EINVAL, "'%s' is not a layout of %s", field[1],
				       geo_level_name(a->level));
		}
		a->have_layout = true;
	}
	if (field[2] && field[2][0] && config_parse_size(field[2], &a->chunk_bytes, why)) {
		return -EINVAL;
	}
	if (field[3] && field[3][0] && config_parse_size(field[3], &a->offset_bytes, why)) {
		return -EINVAL;
	}
	return 0;
}

static int option_build(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	struct config_array *a;
	int err = new_array(w, &arg, &a, why);
	char *spec;

	if (err) {
		return err;
	}
	a->build = true;
	spec = take_field(&arg);
	err = spec ? parse_shape(a, spec, why) : no_memory(why);
	free(spec);
	return err ? err : add_members(a, arg, why);
}

static int option_member(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	if (!w->given.arrays) {
		return why_set(why, -EINVAL, "--member comes after the --array it belongs to");
	}
	return config_add_member(&w->given.array[w->given.arrays - 1], arg) ? no_memory(why) : 0;
}

/* ---- the others ---------------------------------------------------------------------------- */

static int option_config(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->file = arg;
	return 0;
}

static int option_listen(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	return config_add_listen(&w->given, arg) ? no_memory(why) : 0;
}

static int option_readonly(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->read_only = true;
	return 0;
}

static int option_force(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->force = true;
	return 0;
}

static int option_volatile(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->volatile_cache = true;
	return 0;
}

static int option_foreground(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->out->foreground = true;
	return 0;
}

static int option_check(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->out->check = true;
	return 0;
}

static int option_single(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->out->single = true;
	return 0;
}

static int option_run(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->out->run = arg;
	return 0;
}

static int option_exit_with_parent(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->out->exit_with_parent = true;
	return 0;
}

static int option_direct(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_direct = true;
	return config_parse_direct(arg, &w->direct, why);
}

static int option_raid0_layout(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_raid0_layout = true;
	return geo_layout_parse(RAID_LEVEL_0, arg, &w->raid0_layout)
		       ? why_set(why, -EINVAL, "'%s' is not one of original, alternate", arg)
		       : 0;
}

static int option_loops(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_loops = true;
	return config_parse_number(arg, 1, CONFIG_LOOPS_MAX, &w->loops, why);
}

static int option_safe_mode(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_safe_mode = true;
	return config_parse_number(arg, 0, 3600 * 1000, &w->safe_mode_ms, why);
}

static int option_drain(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_drain = true;
	return config_parse_number(arg, 0, 3600 * 1000, &w->drain_ms, why);
}

static int option_pid_file(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->pid_file = arg;
	return 0;
}

static int option_user(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->user = arg;
	return 0;
}

static int option_group(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->group = arg;
	return 0;
}

static int option_control(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_control = true;
	w->control = strcmp(arg, "none") ? arg : NULL;
	return 0;
}

static int option_metrics(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->metrics = arg;
	return 0;
}

static int option_log_level(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->have_level = true;
	return log_level_parse(arg, &w->level)
		       ? 0
		       : why_set(why, -EINVAL, "'%s' is not one of error, warning, info, debug",
				 arg);
}

static int option_help(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->help = true;
	return 0;
}

static int option_version(struct words *w, const char *arg, char why[RAID_WHY_BYTES])
{
	w->version = true;
	return 0;
}

static const struct row {
	char letter; /* 0: none */
	const char *name, *arg;
	int (*take)(struct words *w, const char *arg, char why[RAID_WHY_BYTES]);
	const char *help;
} rows[] = {
	{'c', "config", "FILE", option_config, "configuration file"},
	{0, "array", "NAME:MEMBER,...", option_array, "assemble an array and export it as NAME"},
	{0, "build", "NAME:LEVEL[,LAYOUT,CHUNK,OFFSET]:MEMBER,...", option_build,
	 "an array of members without superblocks"},
	{0, "member", "PATH", option_member, "one more member of the last array"},
	{0, "listen", "ADDR:PORT|unix:PATH", option_listen, "where to listen (repeatable)"},
	{'r', "readonly", NULL, option_readonly, "write nothing to any member"},
	{0, "force", NULL, option_force, "start what is doubtful"},
	{0, "direct", "on|off|auto", option_direct, "direct I/O on the members (auto)"},
	{0, "raid0-layout", "original|alternate", option_raid0_layout,
	 "of a RAID 0 with unequal members that records none"},
	{0, "loops", "N", option_loops, "data-plane threads (1)"},
	{'f', "foreground", NULL, option_foreground, "do not become a daemon"},
	{0, "check", NULL, option_check, "show what would be served; start nothing"},
	{'s', "single", NULL, option_single, "one session on stdin and stdout"},
	{0, "run", "COMMAND", option_run, "serve for as long as COMMAND runs"},
	{0, "exit-with-parent", NULL, option_exit_with_parent, "stop when the parent ends"},
	{0, "pid-file", "PATH", option_pid_file, "written when everything is ready"},
	{'u', "user", "USER", option_user, "become this user once everything is open"},
	{'g', "group", "GROUP", option_group, "and this group"},
	{0, "control", "PATH|none", option_control, "control socket for nbd-raidctl"},
	{0, "metrics", "ADDR:PORT|unix:PATH", option_metrics, "where to serve metrics over HTTP"},
	{0, "safe-mode-ms", "N", option_safe_mode, "idle time before arrays are marked clean"},
	{0, "drain-ms", "N", option_drain, "how long a stop waits for requests in flight"},
	{0, "log-level", "LEVEL", option_log_level, "error, warning, info or debug"},
	{0, "volatile", NULL, option_volatile, "for tests: members lose unflushed writes"},
	{'h', "help", NULL, option_help, "this text"},
	{'V', "version", NULL, option_version, "the version"},
};

enum { ROWS = sizeof rows / sizeof rows[0], LONG_BASE = 256 };

void cmdline_usage(FILE *to)
{
	fprintf(to, "usage: nbd-raidd [-c FILE] [-f] [--check]\n"
		    "       nbd-raidd --array NAME:MEMBER,MEMBER,... [--listen "
		    "ADDR:PORT|unix:PATH] ...\n"
		    "\n");
	for (size_t i = 0; i < ROWS; i++) {
		int width = 0;

		fprintf(to, rows[i].letter ? "  -%c, " : "      ", rows[i].letter);
		fprintf(to, "--%s%s%s%n", rows[i].name, rows[i].arg ? "=" : "",
			rows[i].arg ? rows[i].arg : "", &width);
		fprintf(to, "%*s %s\n", width < 26 ? 26 - width : 1, "", rows[i].help);
	}
	fprintf(to, "\nSee nbd-raidd(8) and nbd-raidd.conf(5).\n");
}

/* ---- putting it together ------------------------------------------------------------------- */

/* What getopt_long() returned belongs to this row. */
static const struct row *row_of(int c)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (c == LONG_BASE + (int)i || (rows[i].letter && c == rows[i].letter)) {
			return &rows[i];
		}
	}
	CHECK(!"getopt_long() returns what it was given");
	return NULL;
}

static int take_words(struct words *w, int argc, char **argv, char why[RAID_WHY_BYTES])
{
	struct option longs[ROWS + 1] = {{0}};
	char shorts[3 * ROWS + 2] = ":";
	size_t at = 1;
	int c;

	for (size_t i = 0; i < ROWS; i++) {
		longs[i] =
			(struct option){rows[i].name, rows[i].arg ? required_argument : no_argument,
					NULL, LONG_BASE + (int)i};
		if (rows[i].letter) {
			shorts[at++] = rows[i].letter;
			if (rows[i].arg) {
				shorts[at++] = ':';
			}
		}
	}
	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == '?' || c == ':') {
			const char *word = optind <= argc && optind > 0 ? argv[optind - 1] : "";

			return why_set(why, -EINVAL,
				       c == ':' ? "'%s' needs an argument"
						: "'%s' is not an option, or takes no argument",
				       word);
		}
		if (row_of(c)->take(w, optarg, why)) {
			return -EINVAL;
		}
	}
	if (optind < argc) {
		return why_set(why, -EINVAL, "'%s' is not an option", argv[optind]);
	}
	return 0;
}

/* Sets of words that exclude each other. */
static int check_words(const struct words *w, char why[RAID_WHY_BYTES])
{
	const struct cmdline *c = w->out;

	if (w->file && w->given.arrays) {
		return why_set(why, -EINVAL, "give either -c or --array and --build");
	}
	if (!w->file && !w->given.arrays) {
		return why_set(why, -EINVAL, "nothing to serve: give -c FILE, --array or --build");
	}
	if (c->single && c->run) {
		return why_set(why, -EINVAL, "-s and --run exclude each other");
	}
	if ((c->single || c->run) && w->given.listens) {
		return why_set(why, -EINVAL, "--listen makes no sense with -s or --run");
	}
	return 0;
}

/* Words of the command line over what the file says. */
static int apply(struct words *w, char why[RAID_WHY_BYTES])
{
	struct config *c = &w->out->config;
	int err = 0;

	if (w->given.arrays) {
		c->array = w->given.array;
		c->arrays = w->given.arrays;
		w->given.array = NULL;
		w->given.arrays = 0;
	}
	for (uint32_t i = 0; i < c->arrays; i++) {
		c->array[i].read_only |= w->read_only;
		c->array[i].force |= w->force;
		c->array[i].force_write |= w->force;
		c->array[i].volatile_cache |= w->volatile_cache;
		c->array[i].direct = w->have_direct ? w->direct : c->array[i].direct;
		if (w->have_raid0_layout) {
			c->array[i].raid0_layout = (enum geo_raid0_layout)w->raid0_layout;
		}
	}
	if (w->given.listens) {
		for (uint32_t i = 0; i < c->listens; i++) {
			free(c->listen[i]);
		}
		free(c->listen);
		c->listen = w->given.listen;
		c->listens = w->given.listens;
		w->given.listen = NULL;
		w->given.listens = 0;
	}
	if (w->have_control) {
		free(c->control);
		c->control = NULL;
		err = w->control ? config_set_text(&c->control, w->control) : 0;
	}
	if (!err && w->user) {
		err = config_set_text(&c->user, w->user);
	}
	if (!err && w->group) {
		err = config_set_text(&c->group, w->group);
	}
	if (!err && w->metrics) {
		err = config_set_text(&c->metrics, w->metrics);
	}
	if (!err && w->pid_file) {
		err = config_set_text(&c->pid_file, w->pid_file);
	}
	c->loops = w->have_loops ? w->loops : c->loops;
	/* Under another program only what matters is said, unless asked for. */
	if (w->have_level) {
		c->log_level = w->level;
	} else if (!w->file && (w->out->single || w->out->run)) {
		c->log_level = LOG_LEVEL_WARNING;
	}
	c->limits.drain_ms = w->have_drain ? w->drain_ms : c->limits.drain_ms;
	if (w->have_safe_mode) {
		c->limits.raid.safe_mode_ms = w->safe_mode_ms;
	}
	return err ? no_memory(why) : 0;
}

static enum cmdline_result parse(struct words *w, int argc, char **argv, char why[RAID_WHY_BYTES])
{
	struct cmdline *out = w->out;

	if (take_words(w, argc, argv, why)) {
		return CMDLINE_USAGE;
	}
	if (w->help || w->version) {
		return w->help ? CMDLINE_HELP : CMDLINE_VERSION;
	}
	if (check_words(w, why)) {
		return CMDLINE_USAGE;
	}
	if (w->file) {
		if (config_set_text(&out->config.control, CONFIG_CONTROL_DEFAULT)) {
			no_memory(why);
			return CMDLINE_REFUSED;
		}
		if (config_read(&out->config, w->file, why)) {
			return CMDLINE_REFUSED;
		}
	}
	if (apply(w, why)) {
		return CMDLINE_REFUSED;
	}
	if (config_finish(&out->config, why)) {
		return w->file ? CMDLINE_REFUSED : CMDLINE_USAGE;
	}
	return CMDLINE_RUN;
}

enum cmdline_result cmdline_parse(struct cmdline *out, int argc, char **argv,
				  char why[RAID_WHY_BYTES])
{
	struct words w = {.out = out};
	enum cmdline_result result;

	memset(out, 0, sizeof *out);
	config_init(&out->config);
	config_init(&w.given);
	why[0] = '\0';
	result = parse(&w, argc, argv, why);
	config_release(&w.given);
	return result;
}

void cmdline_release(struct cmdline *c)
{
	config_release(&c->config);
}
