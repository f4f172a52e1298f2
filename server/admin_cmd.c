/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands of the control socket: rows of one table. A request is an object with "command" and
 * the command's own members; every answer has "ok", and "error" when that is false. What takes time
 * is answered when it is done.
 */
#include "server/admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raid/why.h"
#include "server/daemon_command.h"
#include "server/daemon_internal.h"
#include "server/loop.h"

/* ---- the others ---------------------------------------------------------------------------- */

static void command_ping(struct daemon *d, struct admin_call *call, const json_t *request)
{
	admin_answer(call, admin_ok());
}

static void command_version(struct daemon *d, struct admin_call *call, const json_t *request)
{
	admin_answer(call, json_pack("{s:b, s:s}", "ok", 1, "version", NBD_RAIDD_VERSION));
}

void admin_done(void *ctx, int err, const char *why)
{
	if (err) {
		admin_refuse(ctx, "%s", why[0] ? why : strerror(-err));
	} else if (why[0]) {
		admin_answer(ctx, json_pack("{s:b, s:o}", "ok", 1, "note", admin_text(why)));
	} else {
		admin_answer(ctx, admin_ok());
	}
}

struct served *admin_array(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "array"));
	struct served *s = name ? arrays_find(&d->arrays, name) : NULL;

	if (!name) {
		admin_refuse(call, "\"array\" is missing: the name of an array");
	} else if (!s) {
		admin_refuse(call, "no array is named '%s'", name);
	}
	return s;
}

static void command_stop(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "array"));
	char why[RAID_WHY_BYTES];
	struct served *s;

	if (name && !strcmp(name, "all")) {
		/* The connection closes when everything has stopped. */
		admin_answer(call, admin_ok());
		daemon_stop(d, "control socket");
		return;
	}
	s = admin_array(d, call, request);
	if (s && arrays_stop(d, s, admin_done, call, why)) {
		admin_refuse(call, "%s", why);
	}
}

/* ---- members ------------------------------------------------------------------------------- */

/* The path in the request's member of that name; NULL: it is missing, and that has been said. */
static const char *path_of(struct admin_call *call, const json_t *request, const char *key)
{
	const char *path = json_string_value(json_object_get(request, key));

	if (!path || !path[0]) {
		admin_refuse(call, "\"%s\" is missing: the path of a device", key);
		return NULL;
	}
	return path;
}

static void member_command(struct daemon *d, struct admin_call *call, const json_t *request,
			   enum raid_cmd_op op)
{
	struct served *s = admin_array(d, call, request);
	const char *member = s ? path_of(call, request, "member") : NULL;
	const char *with = json_string_value(json_object_get(request, "with"));
	char why[RAID_WHY_BYTES];

	if (member && command_member(d, s, op, member, op == RAID_CMD_REPLACE ? with : NULL,
				     admin_done, call, why)) {
		admin_refuse(call, "%s", why);
	}
}

static void command_fail(struct daemon *d, struct admin_call *call, const json_t *request)
{
	member_command(d, call, request, RAID_CMD_FAIL);
}

static void command_remove(struct daemon *d, struct admin_call *call, const json_t *request)
{
	member_command(d, call, request, RAID_CMD_REMOVE);
}

static void command_replace(struct daemon *d, struct admin_call *call, const json_t *request)
{
	member_command(d, call, request, RAID_CMD_REPLACE);
}

static void add(struct daemon *d, struct admin_call *call, const json_t *request, bool readd_only)
{
	const struct command_add opt = {
		.readd_only = readd_only,
		.force = !readd_only && json_is_true(json_object_get(request, "force")),
		.write_mostly = json_is_true(json_object_get(request, "write-mostly")),
		.failfast = json_is_true(json_object_get(request, "failfast")),
	};
	struct served *s = admin_array(d, call, request);
	const char *path = s ? path_of(call, request, "member") : NULL;
	char why[RAID_WHY_BYTES];

	if (path && command_add(d, s, path, &opt, admin_done, call, why)) {
		admin_refuse(call, "%s", why);
	}
}

static void command_add_device(struct daemon *d, struct admin_call *call, const json_t *request)
{
	add(d, call, request, false);
}

static void command_readd(struct daemon *d, struct admin_call *call, const json_t *request)
{
	add(d, call, request, true);
}

/* ---- the whole array ----------------------------------------------------------------------- */

static void array_command(struct daemon *d, struct admin_call *call, struct served *s,
			  const struct raid_cmd *cmd)
{
	char why[RAID_WHY_BYTES];

	if (command_array(d, s, cmd, admin_done, call, why)) {
		admin_refuse(call, "%s", why);
	}
}

/* Check, repair, or an end of either. What runs already is not begun again. */
static void command_sync(struct daemon *d, struct admin_call *call, const json_t *request)
{
	static const struct {
		const char *name;
		enum raid_sync_action action;
	} words[] = {
		{"check", RAID_SYNC_CHECK}, {"repair", RAID_SYNC_REPAIR}, {"idle", RAID_SYNC_IDLE}};
	const char *word = json_string_value(json_object_get(request, "action"));
	struct served *s = admin_array(d, call, request);
	struct raid_status *st;

	if (!s) {
		return;
	}
	for (size_t i = 0; word && i < sizeof words / sizeof words[0]; i++) {
		const struct raid_cmd cmd = {.op = RAID_CMD_SYNC, .sync = words[i].action};

		if (strcmp(word, words[i].name) != 0) {
			continue;
		}
		st = s->state == SERVED_RUNNING ? calloc(1, sizeof *st) : NULL;
		if (st) {
			loop_array_status(s->ai, st);
		}
		if (st && cmd.sync == st->sync.action) {
			char note[64];

			snprintf(note, sizeof note,
				 cmd.sync == RAID_SYNC_IDLE ? "nothing is under way"
							    : "a %s is under way already",
				 word);
			admin_done(call, 0, note);
		} else {
			array_command(d, call, s, &cmd);
		}
		free(st);
		return;
	}
	admin_refuse(call, "\"action\" is check, repair or idle");
}

/* What the request does not say stays. */
static void command_sync_speed(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const json_t *min = json_object_get(request, "min_bps");
	const json_t *max = json_object_get(request, "max_bps");
	struct served *s = admin_array(d, call, request);
	struct raid_cmd cmd = {.op = RAID_CMD_SYNC_SPEED};
	struct raid_status *st;

	if (!s) {
		return;
	}
	if ((min && (!json_is_integer(min) || json_integer_value(min) < 0)) ||
	    (max && (!json_is_integer(max) || json_integer_value(max) < 0))) {
		admin_refuse(call, "\"min_bps\" and \"max_bps\" are bytes a second");
		return;
	}
	st = s->state == SERVED_RUNNING ? calloc(1, sizeof *st) : NULL;
	if (!st) {
		admin_refuse(call, "array '%s' is being stopped, or memory is short", s->ai->name);
		return;
	}
	loop_array_status(s->ai, st);
	cmd.min_bps = min ? (uint64_t)json_integer_value(min) : st->sync.min_bps;
	cmd.max_bps = max ? (uint64_t)json_integer_value(max) : st->sync.max_bps;
	free(st);
	if (cmd.max_bps && cmd.min_bps > cmd.max_bps) {
		admin_refuse(call, "the least speed, %llu, is more than the most, %llu",
			     (unsigned long long)cmd.min_bps, (unsigned long long)cmd.max_bps);
		return;
	}
	array_command(d, call, s, &cmd);
}

static void command_bitmap(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const char *word = json_string_value(json_object_get(request, "action"));
	const json_t *chunk = json_object_get(request, "chunk_bytes");
	struct served *s = admin_array(d, call, request);
	struct raid_cmd cmd = {0};

	if (!s) {
		return;
	}
	if (!word || (strcmp(word, "add") != 0 && strcmp(word, "remove") != 0)) {
		admin_refuse(call, "\"action\" is add or remove");
		return;
	}
	if (chunk && (!json_is_integer(chunk) || json_integer_value(chunk) <= 0 ||
		      json_integer_value(chunk) > UINT32_MAX)) {
		admin_refuse(call, "\"chunk_bytes\" is no size of a bitmap's chunk");
		return;
	}
	cmd.op = strcmp(word, "add") ? RAID_CMD_BITMAP_REMOVE : RAID_CMD_BITMAP_ADD;
	cmd.bitmap_chunk_bytes = chunk ? (uint32_t)json_integer_value(chunk) : 0;
	array_command(d, call, s, &cmd);
}

/* Every invariant of the engine, of one array or all. */
static void command_self_check(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const json_t *named = json_object_get(request, "array");
	struct served *only = named ? admin_array(d, call, request) : NULL;

	if (named && !only) {
		return;
	}
	for (uint32_t i = 0; i < d->arrays.count; i++) {
		struct served *s = d->arrays.item[i];
		const char *broken;

		if ((only && s != only) || s->state == SERVED_CLOSING) {
			continue;
		}
		broken = loop_array_check(s->ai);
		if (broken) {
			admin_refuse(call, "array '%s': invariant broken: %s", s->ai->name, broken);
			return;
		}
	}
	admin_answer(call, admin_ok());
}

static int take_members(struct config_array *a, const json_t *list)
{
	size_t i;
	const json_t *item;

	json_array_foreach(list, i, item)
	{
		const char *path = json_string_value(item);

		if (!path || !path[0] || config_add_member(a, path)) {
			return -EINVAL;
		}
	}
	return a->members ? 0 : -EINVAL;
}

/* The request's words for the array, or the first that is wrong in why. */
static int fill_array(struct config_array *a, const json_t *request, char why[RAID_WHY_BYTES])
{
	const json_t *members = json_object_get(request, "members");
	const char *uuid = json_string_value(json_object_get(request, "uuid"));
	const char *layout = json_string_value(json_object_get(request, "raid0-layout"));
	const char *group = json_string_value(json_object_get(request, "spare-group"));
	uint32_t raid0_layout = GEO_RAID0_UNKNOWN;

	/* Without members those block devices that carry the UUID. */
	if ((members || !uuid) && take_members(a, members)) {
		return why_set(why, -EINVAL, "\"members\" is missing: a list of paths");
	}
	if (uuid && config_parse_uuid(uuid, a->uuid, why)) {
		return -EINVAL;
	}
	if (layout && geo_layout_parse(RAID_LEVEL_0, layout, &raid0_layout)) {
		return why_set(why, -EINVAL, "\"raid0-layout\" is original or alternate");
	}
	if (group && config_set_text(&a->spare_group, group)) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	a->have_uuid = uuid != NULL;
	a->raid0_layout = (enum geo_raid0_layout)raid0_layout;
	a->read_only = json_is_true(json_object_get(request, "read-only"));
	a->force = a->force_write = json_is_true(json_object_get(request, "force"));
	return 0;
}

/* Starts an array and exports it under its name. */
static void command_assemble(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "name"));
	char why[RAID_WHY_BYTES] = "out of memory";
	struct config_array *a;
	struct config scratch;
	int err;

	if (d->state != DAEMON_SERVING) {
		admin_refuse(call, "the daemon is stopping");
		return;
	}
	if (!name || !name[0] || config_check_name(name, why)) {
		admin_refuse(call, "\"name\" is missing or no name");
		return;
	}
	config_init(&scratch);
	a = config_add_array(&scratch, name);
	err = a ? fill_array(a, request, why) : -ENOMEM;
	if (!err) {
		err = arrays_start(d, a, admin_done, call, why);
		scratch.arrays = 0; /* taken over */
	}
	config_release(&scratch);
	if (err) {
		admin_refuse(call, "%s", why);
	}
}

static const struct {
	const char *name;
	void (*run)(struct daemon *d, struct admin_call *call, const json_t *request);
} commands[] = {
	{"add", command_add_device},  {"assemble", command_assemble},
	{"bitmap", command_bitmap},   {"fail", command_fail},
	{"monitor", admin_monitor},   {"ping", command_ping},
	{"re-add", command_readd},    {"remove", command_remove},
	{"replace", command_replace}, {"self-check", command_self_check},
	{"status", admin_status},     {"stop", command_stop},
	{"sync", command_sync},	      {"sync-speed", command_sync_speed},
	{"version", command_version},
};

void admin_command(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "command"));

	for (size_t i = 0; name && i < sizeof commands / sizeof commands[0]; i++) {
		if (!strcmp(name, commands[i].name)) {
			commands[i].run(d, call, request);
			return;
		}
	}
	admin_refuse(call, name ? "unknown command '%s'" : "\"command\" is missing%s",
		     name ? name : "");
}
