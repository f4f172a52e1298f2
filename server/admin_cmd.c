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
#include <time.h>
#include <unistd.h>

#include "raid/sb.h"
#include "raid/why.h"
#include "server/daemon_internal.h"
#include "server/loop.h"

/* ---- status -------------------------------------------------------------------------------- */

static const char *array_state(const struct served *s, const struct raid_status *st)
{
	static const char *const names[] = {
		[RAID_ARRAY_CLEAN] = "clean",
		[RAID_ARRAY_DIRTY] = "dirty",
		[RAID_ARRAY_READ_ONLY] = "read-only",
		[RAID_ARRAY_STOPPED] = "stopped",
	};

	return s->state >= SERVED_STOPPING ? "stopping" : names[st->state];
}

static const char *member_state(enum raid_member_state state)
{
	static const char *const names[] = {
		[RAID_MEMBER_ABSENT] = "absent",
		[RAID_MEMBER_IN_SYNC] = "in-sync",
		[RAID_MEMBER_SPARE] = "spare",
		[RAID_MEMBER_REBUILDING] = "rebuilding",
		[RAID_MEMBER_REPLACEMENT] = "replacement",
		[RAID_MEMBER_LEAVING] = "leaving",
		[RAID_MEMBER_FAULTY] = "faulty",
	};

	return names[state];
}

static json_t *member_json(const char *path, const struct raid_member_status *m)
{
	return json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "path",
			 admin_text(path), "slot",
			 m->slot < 0 ? json_null() : json_integer(m->slot), "state",
			 member_state(m->state), "reads", (json_int_t)m->reads, "writes",
			 (json_int_t)m->writes, "read_bytes", (json_int_t)m->read_bytes,
			 "write_bytes", (json_int_t)m->write_bytes, "read_errors",
			 (json_int_t)m->read_errors, "write_errors", (json_int_t)m->write_errors,
			 "corrected", (json_int_t)m->corrected, "in_flight", (int)m->in_flight);
}

static json_t *uuid_json(const struct assembly *as)
{
	char text[40];
	const uint8_t *u;

	if (!as->metadata) {
		return json_null();
	}
	u = as->member[as->freshest].sb.set_uuid;
	snprintf(text, sizeof text,
		 "%02x%02x%02x%02x:%02x%02x%02x%02x:%02x%02x%02x%02x:%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		 u[15]);
	return json_string(text);
}

static json_t *array_json(struct served *s)
{
	struct array_instance *ai = s->ai;
	const struct geometry *g = &ai->assembly->geometry;
	struct raid_status *st = calloc(1, sizeof *st);
	json_t *members = json_array(), *out;

	if (!st) {
		json_decref(members);
		return NULL;
	}
	/* An array that is being closed may be gone from its loop at any moment. */
	if (s->state != SERVED_CLOSING) {
		loop_array_status(ai, st);
	}
	for (uint32_t i = 0; i < ai->members && i < st->members; i++) {
		json_array_append_new(members, member_json(ai->member[i].path, &st->member[i]));
	}
	out = json_pack(
		"{s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:b, s:I, s:o, s:o, "
		"s:o}",
		"name", ai->name, "level", geo_level_name(g->p.level), "state", array_state(s, st),
		"read_only", (int)ai->read_only, "size_bytes",
		(json_int_t)(g->array_sectors * RAID_SECTOR_BYTES), "chunk_bytes",
		(json_int_t)g->p.chunk_sectors * RAID_SECTOR_BYTES, "slots", (json_int_t)g->p.slots,
		"in_sync", (json_int_t)st->in_sync, "degraded",
		(json_int_t)(st->slots - st->in_sync), "needs_resync", (int)st->needs_resync,
		"resync_offset",
		st->resync_offset == UINT64_MAX ? json_null()
						: json_integer((json_int_t)st->resync_offset),
		"flush_lost", (int)st->flush_lost, "events", (json_int_t)st->events, "uuid",
		uuid_json(ai->assembly), "note", admin_text(ai->assembly->note), "members",
		members);
	free(st);
	return out;
}

static json_t *export_json(const struct daemon *d, const struct export *e)
{
	return json_pack("{s:s, s:s, s:I, s:b, s:b, s:s}", "name", e->name, "array", e->array->name,
			 "size_bytes", (json_int_t)e->size, "read_only", (int)e->read_only,
			 "default", exports_default(&d->exports) == e, "description",
			 e->description);
}

static json_t *session_json(const struct session_record *r)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return json_pack("{s:I, s:s, s:o, s:I}", "session", (json_int_t)r->number, "peer", r->peer,
			 "export", r->export_name ? json_string(r->export_name) : json_null(),
			 "since_s",
			 (json_int_t)(now.tv_sec - (time_t)(r->since_ns / UINT64_C(1000000000))));
}

static json_t *listeners_json(const struct daemon *d)
{
	const struct export *e = exports_default(&d->exports);
	json_t *out = json_array();

	for (uint32_t i = 0; i < d->listeners.count; i++) {
		char *uri = listen_uri(&d->listeners, i, e ? e->name : "");

		json_array_append_new(out, uri ? json_string(uri) : NULL);
		free(uri);
	}
	return out;
}

static void command_status(struct daemon *d, struct admin_call *call, const json_t *request)
{
	json_t *arrays = json_array(), *exports = json_array(), *sessions = json_array();
	struct session_record *r;

	for (uint32_t i = 0; i < d->arrays.count; i++) {
		json_array_append_new(arrays, array_json(d->arrays.item[i]));
	}
	for (uint32_t i = 0; i < d->exports.count; i++) {
		json_array_append_new(exports, export_json(d, d->exports.item[i]));
	}
	list_for_each_entry (r, &d->sessions.all, link) {
		json_array_append_new(sessions, session_json(r));
	}
	admin_answer(call,
		     json_pack("{s:b, s:s, s:i, s:I, s:b, s:o, s:o, s:o, s:o}", "ok", 1, "version",
			       NBD_RAIDD_VERSION, "pid", (int)getpid(), "uptime_s",
			       (json_int_t)(time(NULL) - d->started_s), "stopping",
			       d->state != DAEMON_SERVING, "arrays", arrays, "exports", exports,
			       "sessions", sessions, "listeners", listeners_json(d)));
}

/* ---- the others ---------------------------------------------------------------------------- */

static json_t *ok(void)
{
	return json_pack("{s:b}", "ok", 1);
}

static void command_ping(struct daemon *d, struct admin_call *call, const json_t *request)
{
	admin_answer(call, ok());
}

static void command_version(struct daemon *d, struct admin_call *call, const json_t *request)
{
	admin_answer(call, json_pack("{s:b, s:s}", "ok", 1, "version", NBD_RAIDD_VERSION));
}

static void on_done(void *ctx, int err, const char *why)
{
	if (err) {
		admin_refuse(ctx, "%s", why[0] ? why : strerror(-err));
	} else {
		admin_answer(ctx, ok());
	}
}

/* The array that the request names, or the call has been refused. */
static struct served *named_array(struct daemon *d, struct admin_call *call, const json_t *request)
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
		admin_answer(call, ok());
		daemon_stop(d, "control socket");
		return;
	}
	s = named_array(d, call, request);
	if (s && arrays_stop(d, s, on_done, call, why)) {
		admin_refuse(call, "%s", why);
	}
}

static void command_fail(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const char *member = json_string_value(json_object_get(request, "member"));
	struct served *s = named_array(d, call, request);
	char why[RAID_WHY_BYTES];

	if (!s) {
		return;
	}
	if (!member) {
		admin_refuse(call, "\"member\" is missing: the path of a member");
	} else if (arrays_fail(d, s, member, on_done, call, why)) {
		admin_refuse(call, "%s", why);
	}
}

/* Every invariant of the engine, of one array or all. */
static void command_check(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const json_t *named = json_object_get(request, "array");
	struct served *only = named ? named_array(d, call, request) : NULL;

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
	admin_answer(call, ok());
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
		err = arrays_start(d, a, on_done, call, why);
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
	{"status", command_status},   {"stop", command_stop},	      {"fail", command_fail},
	{"check", command_check},     {"assemble", command_assemble}, {"ping", command_ping},
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
