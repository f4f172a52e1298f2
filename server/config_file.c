/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file (nbd-raidd.conf(5)) by libconfuse. Every option is a row of a table that
 * says how its text becomes a field; libconfuse sees them all as strings, so that one function
 * reads values and its message carries the line it is on: the row's reader runs once from the
 * validation callback, into a scratch section, and again when the section is taken over.
 */
#include "server/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <confuse.h>

#include "raid/base/check.h"
#include "raid/why.h"

enum kind {
	KIND_TEXT,  /* char * */
	KIND_NAME,  /* char *, UTF-8 */
	KIND_LIST,  /* taken over by the section itself */
	KIND_RULES, /* a list, each checked where it stands */
	KIND_BOOL,  /* bool */
	KIND_SIZE,  /* uint64_t */
	KIND_SIZE_POW2,
	KIND_NUMBER, /* uint32_t, min..max */
	KIND_DIRECT,
	KIND_UUID, /* uint8_t[16] */
	KIND_MODE,
	KIND_LEVEL,
	KIND_RAID0_LAYOUT,
	KIND_LOG_LEVEL,
	KIND_LAYOUT, /* read with the section, where the level is known */
};

struct row {
	const char *name;
	enum kind kind;
	size_t at; /* offset of the field */
	uint32_t min, max;
};

static const struct row top_rows[] = {
	{"listen", KIND_LIST, 0, 0, 0},
	{"socket-mode", KIND_MODE, offsetof(struct config, socket_mode), 0, 0},
	{"loops", KIND_NUMBER, offsetof(struct config, loops), 1, CONFIG_LOOPS_MAX},
	{"list", KIND_BOOL, offsetof(struct config, list), 0, 0},
	{"control", KIND_TEXT, offsetof(struct config, control), 0, 0},
	{"metrics", KIND_TEXT, offsetof(struct config, metrics), 0, 0},
	{"pid-file", KIND_TEXT, offsetof(struct config, pid_file), 0, 0},
	{"user", KIND_TEXT, offsetof(struct config, user), 0, 0},
	{"group", KIND_TEXT, offsetof(struct config, group), 0, 0},
	{"log-level", KIND_LOG_LEVEL, offsetof(struct config, log_level), 0, 0},
	{NULL, KIND_TEXT, 0, 0, 0},
};

enum { HOUR_MS = 3600 * 1000, YEAR_S = 366 * 24 * 3600 };

static const struct row limits_rows[] = {
	{"connections", KIND_NUMBER, offsetof(struct config_limits, connections), 1,
	 CONFIG_CONNECTIONS_MAX},
	{"handshake-ms", KIND_NUMBER, offsetof(struct config_limits, handshake_ms), 1, HOUR_MS},
	{"drain-ms", KIND_NUMBER, offsetof(struct config_limits, drain_ms), 0, HOUR_MS},
	{"depth", KIND_NUMBER, offsetof(struct config_limits, depth_max), 1, 4096},
	{"payload-bytes", KIND_SIZE, offsetof(struct config_limits, payload_bytes), 0, 0},
	{"large-bytes", KIND_SIZE, offsetof(struct config_limits, large_bytes), 0, 0},
	{"fragments", KIND_NUMBER, offsetof(struct config_limits, raid.frags), 1, 1 << 20},
	{"buffer-bytes", KIND_SIZE_POW2, offsetof(struct config_limits, raid.buffer_bytes), 0, 0},
	{"safe-mode-ms", KIND_NUMBER, offsetof(struct config_limits, raid.safe_mode_ms), 0,
	 HOUR_MS},
	{"read-deadline-ms", KIND_NUMBER, offsetof(struct config_limits, raid.read_deadline_ms), 1,
	 HOUR_MS},
	{"write-deadline-ms", KIND_NUMBER, offsetof(struct config_limits, raid.write_deadline_ms),
	 1, HOUR_MS},
	{"read-errors", KIND_NUMBER, offsetof(struct config_limits, raid.read_errors_max), 0,
	 1 << 20},
	{"read-errors-window-s", KIND_NUMBER,
	 offsetof(struct config_limits, raid.read_errors_window_s), 1, YEAR_S},
	{"members-extra", KIND_NUMBER, offsetof(struct config_limits, raid.members_extra), 0,
	 RAID_MEMBERS_MAX},
	{"sync-min", KIND_SIZE, offsetof(struct config_limits, raid.sync_min_bps), 0, 0},
	{"sync-max", KIND_SIZE, offsetof(struct config_limits, raid.sync_max_bps), 0, 0},
	{"sync-target-ms", KIND_NUMBER, offsetof(struct config_limits, raid.sync_target_ms), 1,
	 HOUR_MS},
	{NULL, KIND_TEXT, 0, 0, 0},
};

static const struct row array_rows[] = {
	{"members", KIND_LIST, 0, 0, 0},
	{"uuid", KIND_UUID, offsetof(struct config_array, uuid), 0, 0},
	{"read-only", KIND_BOOL, offsetof(struct config_array, read_only), 0, 0},
	{"force", KIND_BOOL, offsetof(struct config_array, force), 0, 0},
	{"re-add", KIND_BOOL, offsetof(struct config_array, readd), 0, 0},
	{"spares", KIND_LIST, 0, 0, 0},
	{"spare-group", KIND_NAME, offsetof(struct config_array, spare_group), 0, 0},
	{"sync-min", KIND_SIZE, offsetof(struct config_array, sync_min_bps), 0, 0},
	{"sync-max", KIND_SIZE, offsetof(struct config_array, sync_max_bps), 0, 0},
	{"direct", KIND_DIRECT, offsetof(struct config_array, direct), 0, 0},
	{"raid0-layout", KIND_RAID0_LAYOUT, offsetof(struct config_array, raid0_layout), 0, 0},
	{"build", KIND_LEVEL, offsetof(struct config_array, level), 0, 0},
	{"layout", KIND_LAYOUT, 0, 0, 0},
	{"chunk", KIND_SIZE, offsetof(struct config_array, chunk_bytes), 0, 0},
	{"offset", KIND_SIZE, offsetof(struct config_array, offset_bytes), 0, 0},
	{"volatile", KIND_BOOL, offsetof(struct config_array, volatile_cache), 0, 0},
	{NULL, KIND_TEXT, 0, 0, 0},
};

static const struct row export_rows[] = {
	{"array", KIND_NAME, offsetof(struct config_export, array), 0, 0},
	{"read-only", KIND_BOOL, offsetof(struct config_export, read_only), 0, 0},
	{"description", KIND_NAME, offsetof(struct config_export, description), 0, 0},
	{"allow", KIND_RULES, 0, 0, 0},
	{"connections", KIND_NUMBER, offsetof(struct config_export, connections), 1,
	 CONFIG_CONNECTIONS_MAX},
	{"default", KIND_BOOL, offsetof(struct config_export, is_default), 0, 0},
	{NULL, KIND_TEXT, 0, 0, 0},
};

enum { ROWS_MAX = 20 };
STATIC_CHECK(sizeof limits_rows / sizeof limits_rows[0] <= ROWS_MAX, "options fit");
STATIC_CHECK(sizeof array_rows / sizeof array_rows[0] <= ROWS_MAX, "options fit");

/* ---- errors -------------------------------------------------------------------------------- */

/* libconfuse hands its error function no context. */
static _Thread_local struct {
	const char *file;
	char *why; /* empty until the first error */
} report;

static void on_error(cfg_t *cfg, const char *fmt, va_list args)
{
	int n;

	if (report.why[0]) {
		return;
	}
	n = snprintf(report.why, RAID_WHY_BYTES, "%s:%d: ", report.file, cfg->line);
	if (n >= 0 && n < RAID_WHY_BYTES) {
		vsnprintf(report.why + n, (size_t)(RAID_WHY_BYTES - n), fmt, args);
	}
}

/* ---- values -------------------------------------------------------------------------------- */

static int read_bool(const char *text, bool *out, char why[RAID_WHY_BYTES])
{
	static const char *const yes[] = {"true", "yes", "on", "1"};
	static const char *const no[] = {"false", "no", "off", "0"};

	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*out = !strcasecmp(text, yes[i]);
			return 0;
		}
	}
	return why_set(why, -EINVAL, "'%s' is neither true nor false", text);
}

static int read_raid0_layout(const char *text, enum geo_raid0_layout *out, char why[RAID_WHY_BYTES])
{
	uint32_t layout;

	if (geo_layout_parse(RAID_LEVEL_0, text, &layout)) {
		return why_set(why, -EINVAL, "'%s' is not one of original, alternate", text);
	}
	*out = (enum geo_raid0_layout)layout;
	return 0;
}

/* "none" as the control socket is no path. */
static int read_text(const char *text, char **out, char why[RAID_WHY_BYTES])
{
	if (config_set_text(out, text)) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	return 0;
}

static int read_pow2(const char *text, uint64_t *out, char why[RAID_WHY_BYTES])
{
	int err = config_parse_size(text, out, why);

	if (!err && (!*out || *out & (*out - 1))) {
		return why_set(why, -EINVAL, "'%s' is not a power of two", text);
	}
	return err;
}

static int read_value(const struct row *row, void *section, const char *text,
		      char why[RAID_WHY_BYTES])
{
	void *field = (char *)section + row->at;

	switch (row->kind) {
	case KIND_NAME:
		return config_check_name(text, why) ? -EINVAL : read_text(text, field, why);
	case KIND_TEXT:
		return read_text(text, field, why);
	case KIND_BOOL:
		return read_bool(text, field, why);
	case KIND_SIZE:
		return config_parse_size(text, field, why);
	case KIND_SIZE_POW2:
		return read_pow2(text, field, why);
	case KIND_NUMBER:
		return config_parse_number(text, row->min, row->max, field, why);
	case KIND_DIRECT:
		return config_parse_direct(text, field, why);
	case KIND_UUID:
		return config_parse_uuid(text, field, why);
	case KIND_MODE:
		return config_parse_mode(text, field, why);
	case KIND_LEVEL:
		return geo_level_parse(text, field)
			       ? why_set(why, -EINVAL, "'%s' is not a level: linear, 0, 1 or 10",
					 text)
			       : 0;
	case KIND_RAID0_LAYOUT:
		return read_raid0_layout(text, field, why);
	case KIND_LOG_LEVEL:
		return log_level_parse(text, field)
			       ? 0
			       : why_set(why, -EINVAL,
					 "'%s' is not one of error, warning, info, debug", text);
	case KIND_LIST:
	case KIND_RULES:
	case KIND_LAYOUT:
		break;
	}
	return 0;
}

/* ---- sections ------------------------------------------------------------------------------ */

/* A section's fields while a value is only being checked. */
union scratch {
	struct config top;
	struct config_limits limits;
	struct config_array array;
	struct config_export export;
};

static const struct row *rows_of(const cfg_t *section)
{
	static const struct {
		const char *name;
		const struct row *rows;
	} sections[] = {{"limits", limits_rows}, {"array", array_rows}, {"export", export_rows}};

	for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
		if (!strcmp(section->name, sections[i].name)) {
			return sections[i].rows;
		}
	}
	return top_rows;
}

static int validate_rule(cfg_t *cfg, cfg_opt_t *opt)
{
	char why[RAID_WHY_BYTES];
	struct access_rule rule;

	if (access_parse(cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1), &rule, why)) {
		cfg_error(cfg, "%s: %s", opt->name, why);
		return -1;
	}
	return 0;
}

static bool is_list(const struct row *row)
{
	return row->kind == KIND_LIST || row->kind == KIND_RULES;
}

/* Called by libconfuse after every option, with the line it stands on. */
static int validate(cfg_t *cfg, cfg_opt_t *opt)
{
	const struct row *row = rows_of(cfg);
	char why[RAID_WHY_BYTES] = "";
	union scratch scratch;
	int err;

	while (strcmp(row->name, opt->name) != 0) {
		row++;
	}
	if (row->kind == KIND_RULES) {
		return validate_rule(cfg, opt);
	}
	memset(&scratch, 0, sizeof scratch);
	err = read_value(row, &scratch, cfg_opt_getnstr(opt, 0), why);
	if (row->kind == KIND_TEXT || row->kind == KIND_NAME) {
		void *at = (char *)&scratch + row->at;

		free(*(char **)at);
	}
	if (err) {
		cfg_error(cfg, "%s: %s", opt->name, why);
		return -1;
	}
	return 0;
}

/* The scalar options that the file gives, into their fields. They were validated: what can still
 * fail is memory. */
static int take_over(cfg_t *cfg, void *section, char why[RAID_WHY_BYTES])
{
	for (const struct row *row = rows_of(cfg); row->name; row++) {
		if (!is_list(row) && cfg_size(cfg, row->name)) {
			int err = read_value(row, section, cfg_getstr(cfg, row->name), why);

			if (err) {
				return err;
			}
		}
	}
	return 0;
}

static int take_layout(cfg_t *cfg, struct config_array *a)
{
	bool shaped = cfg_size(cfg, "layout") || cfg_size(cfg, "chunk") || cfg_size(cfg, "offset");

	if (shaped && !a->build) {
		cfg_error(cfg, "array '%s': layout, chunk and offset are for arrays with 'build'",
			  a->name);
		return -EINVAL;
	}
	if (cfg_size(cfg, "layout")) {
		const char *text = cfg_getstr(cfg, "layout");

		if (geo_layout_parse(a->level, text, &a->layout)) {
			cfg_error(cfg, "array '%s': layout: '%s' is not a layout of %s", a->name,
				  text, geo_level_name(a->level));
			return -EINVAL;
		}
		a->have_layout = true;
	}
	return 0;
}

static int take_array(struct config *c, cfg_t *cfg, char why[RAID_WHY_BYTES])
{
	struct config_array *a = config_add_array(c, cfg_title(cfg));
	int err = a ? take_over(cfg, a, why) : -ENOMEM;

	if (err) {
		return err;
	}
	a->have_uuid = cfg_size(cfg, "uuid") > 0;
	a->build = cfg_size(cfg, "build") > 0;
	for (unsigned int i = 0; i < cfg_size(cfg, "members"); i++) {
		if (config_add_member(a, cfg_getnstr(cfg, "members", i))) {
			return -ENOMEM;
		}
	}
	for (unsigned int i = 0; i < cfg_size(cfg, "spares"); i++) {
		if (config_add_spare(a, cfg_getnstr(cfg, "spares", i))) {
			return -ENOMEM;
		}
	}
	return take_layout(cfg, a);
}

/* An empty list is a list: it allows nobody. */
static int take_rules(cfg_t *cfg, struct config_export *e, char why[RAID_WHY_BYTES])
{
	e->restricted = cfg_getopt(cfg, "allow")->flags & CFGF_MODIFIED;
	for (unsigned int i = 0; i < cfg_size(cfg, "allow"); i++) {
		struct access_rule rule;

		if (access_parse(cfg_getnstr(cfg, "allow", i), &rule, why) ||
		    config_add_rule(e, &rule)) {
			return -ENOMEM;
		}
	}
	return 0;
}

static int take_export(struct config *c, cfg_t *cfg, char why[RAID_WHY_BYTES])
{
	const char *name = cfg_title(cfg);
	struct config_export *e;

	if (config_check_name(name, why)) {
		cfg_error(cfg, "export: %s", why);
		return -EINVAL;
	}
	/* Without an array of its own it exports the one of its name. */
	e = config_add_export(c, name, name);
	return e && !take_over(cfg, e, why) ? take_rules(cfg, e, why) : -ENOMEM;
}

static int take_file(struct config *c, cfg_t *cfg, char why[RAID_WHY_BYTES])
{
	int err = take_over(cfg, c, why);

	if (!err && c->control && !strcmp(c->control, "none")) {
		free(c->control);
		c->control = NULL;
	}
	for (unsigned int i = 0; !err && i < cfg_size(cfg, "listen"); i++) {
		err = config_add_listen(c, cfg_getnstr(cfg, "listen", i));
	}
	if (!err && cfg_size(cfg, "limits")) {
		err = take_over(cfg_getsec(cfg, "limits"), &c->limits, why);
	}
	for (unsigned int i = 0; !err && i < cfg_size(cfg, "array"); i++) {
		err = take_array(c, cfg_getnsec(cfg, "array", i), why);
	}
	for (unsigned int i = 0; !err && i < cfg_size(cfg, "export"); i++) {
		err = take_export(c, cfg_getnsec(cfg, "export", i), why);
	}
	return err;
}

/* ---- the parser ---------------------------------------------------------------------------- */

/* libconfuse's own description of a section's rows. */
static void describe(const struct row *rows, cfg_opt_t opts[ROWS_MAX + 4], size_t *count)
{
	for (*count = 0; rows->name; rows++, ++*count) {
		if (is_list(rows)) {
			cfg_opt_t list = CFG_STR_LIST(rows->name, NULL, CFGF_NODEFAULT);

			opts[*count] = list;
		} else {
			cfg_opt_t one = CFG_STR(rows->name, NULL, CFGF_NODEFAULT);

			opts[*count] = one;
		}
	}
	opts[*count] = (cfg_opt_t)CFG_END();
}

static void watch(cfg_t *cfg, const char *section, const struct row *rows)
{
	for (; rows->name; rows++) {
		char path[64];

		snprintf(path, sizeof path, "%s%s%s", section, section[0] ? "|" : "", rows->name);
		if (rows->kind != KIND_LIST) {
			cfg_set_validate_func(cfg, path, validate);
		}
	}
}

int config_parse(struct config *c, const char *file, const char *text, char why[RAID_WHY_BYTES])
{
	cfg_opt_t top[ROWS_MAX + 4], limits[ROWS_MAX + 4], array[ROWS_MAX + 4],
		export[ROWS_MAX + 4];
	const cfg_flag_t titled = CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES;
	size_t n;
	cfg_t *cfg;
	int err;

	describe(limits_rows, limits, &n);
	describe(array_rows, array, &n);
	describe(export_rows, export, &n);
	describe(top_rows, top, &n);
	top[n++] = (cfg_opt_t)CFG_SEC("limits", limits, CFGF_NODEFAULT);
	top[n++] = (cfg_opt_t)CFG_SEC("array", array, titled);
	top[n++] = (cfg_opt_t)CFG_SEC("export", export, titled);
	top[n] = (cfg_opt_t)CFG_END();

	why[0] = '\0';
	report.file = file;
	report.why = why;
	cfg = cfg_init(top, CFGF_NONE);
	if (!cfg) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	cfg_set_error_function(cfg, on_error);
	watch(cfg, "", top_rows);
	watch(cfg, "limits", limits_rows);
	watch(cfg, "array", array_rows);
	watch(cfg, "export", export_rows);
	err = cfg_parse_buf(cfg, text) == CFG_SUCCESS ? take_file(c, cfg, why) : -EINVAL;
	if (err && !why[0]) {
		why_set(why, err, "%s: %s", file, err == -ENOMEM ? "out of memory" : "not parsed");
	}
	cfg_free(cfg);
	return err;
}

/* A configuration is small; what is larger is not one. */
enum { FILE_MAX_BYTES = 1 << 20 };

int config_read(struct config *c, const char *path, char why[RAID_WHY_BYTES])
{
	char *text = malloc(FILE_MAX_BYTES + 1);
	FILE *f = text ? fopen(path, "re") : NULL;
	size_t n;
	int err;

	if (!f) {
		err = text ? -errno : -ENOMEM;
		free(text);
		return why_set(why, err, "%s: %s", path, strerror(-err));
	}
	n = fread(text, 1, FILE_MAX_BYTES + 1, f);
	err = ferror(f) ? -EIO : 0;
	fclose(f);
	if (err) {
		why_set(why, err, "%s: cannot be read", path);
	} else if (n > FILE_MAX_BYTES || memchr(text, '\0', n)) {
		err = why_set(why, -EINVAL,
			      "%s: not a configuration file: larger than %d bytes, or binary", path,
			      FILE_MAX_BYTES);
	} else {
		text[n] = '\0';
		err = config_parse(c, path, text, why);
	}
	free(text);
	return err;
}
