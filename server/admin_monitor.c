/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events under mdadm's names: one JSON object a line, "event", "array" and what belongs to it.
 *
 *   NewArray DeviceDisappeared      an array is served, no longer
 *   DegradedArray SparesMissing     what is found wrong when it is first seen
 *   RebuildStarted RebuildNN RebuildFinished   resync, rebuild, replace, check, repair
 *   Fail FailSpare SpareActive      members
 *   MoveSpare                       "member" is the array that it came from
 *   TestMessage
 *
 * Who begins to monitor gets what is wrong by then in the answer, later events as they come.
 */
#include "server/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/daemon_internal.h"
#include "server/loop.h"

static json_t *event_json(const char *event, const char *array, const char *member)
{
	return json_pack("{s:s, s:s, s:o, s:I}", "event", event, "array", array, "member",
			 member ? admin_text(member) : json_null(), "time_s",
			 (json_int_t)time(NULL));
}

void admin_monitor_say(struct daemon *d, const char *event, const char *array, const char *member)
{
	admin_publish(d->admin, event_json(event, array, member));
}

/* ---- what the engine tells ----------------------------------------------------------------- */

static json_t *member_event(const struct served *s, const char *event, const struct raid_event *ev)
{
	const char *path = ev->member < s->ai->members ? s->ai->member[ev->member].path : NULL;

	return event_json(event, s->ai->name, path);
}

/* As mdadm says it in a member's place. */
static json_t *finished_event(const struct served *s, const struct raid_event *ev)
{
	bool scrub = ev->why && (!strcmp(ev->why, "check") || !strcmp(ev->why, "repair"));
	char found[96];
	json_t *out;

	snprintf(found, sizeof found, "mismatches found: %llu (on raid level %d)",
		 (unsigned long long)ev->len, (int)s->ai->assembly->geometry.p.level);
	out = event_json("RebuildFinished", s->ai->name, scrub && ev->len ? found : NULL);
	if (out && scrub) {
		json_object_set_new(out, "mismatch_sectors", json_integer((json_int_t)ev->len));
	}
	if (out && ev->err) {
		json_object_set_new(out, "error", json_string(strerror(-ev->err)));
	}
	return out;
}

static json_t *translate(const struct served *s, const struct raid_event *ev)
{
	char name[32];

	switch (ev->type) {
	case RAID_EV_MEMBER_FAILED:
		return member_event(s,
				    ev->member < RAID_MEMBERS_MAX &&
						    s->seen[ev->member] == RAID_MEMBER_IN_SYNC
					    ? "Fail"
					    : "FailSpare",
				    ev);
	case RAID_EV_SPARE_ACTIVE:
		return member_event(s, "SpareActive", ev);
	case RAID_EV_SYNC_STARTED:
		return event_json("RebuildStarted", s->ai->name, NULL);
	case RAID_EV_SYNC_PROGRESS:
		snprintf(name, sizeof name, "Rebuild%llu", (unsigned long long)ev->len);
		return event_json(name, s->ai->name, NULL);
	case RAID_EV_SYNC_FINISHED:
		return finished_event(s, ev);
	default:
		return NULL;
	}
}

void admin_monitor_event(struct daemon *d, struct served *s, const struct raid_event *ev)
{
	json_t *event = d->admin ? translate(s, ev) : NULL;

	if (event && ev->why && ev->type != RAID_EV_MEMBER_FAILED) {
		json_object_set_new(event, "action", admin_text(ev->why));
	}
	if (event) {
		admin_publish(d->admin, event);
	}
}

/* ---- what is found ------------------------------------------------------------------------- */

/* DegradedArray, SparesMissing of an array that is seen for the first time. */
static void append_wrong(json_t *events, const struct served *s)
{
	struct raid_status *st = s->state == SERVED_CLOSING ? NULL : calloc(1, sizeof *st);
	uint32_t spares = 0;

	if (!st) {
		return;
	}
	loop_array_status(s->ai, st);
	for (uint32_t i = 0; i < st->members; i++) {
		spares += st->member[i].state == RAID_MEMBER_SPARE;
	}
	if (st->in_sync < st->slots) {
		json_array_append_new(events, event_json("DegradedArray", s->ai->name, NULL));
	}
	if (spares < s->config->spares) {
		json_array_append_new(events, event_json("SparesMissing", s->ai->name, NULL));
	}
	free(st);
}

void admin_monitor_new_array(struct daemon *d, const struct served *s)
{
	json_t *events = json_array(), *event;
	size_t i;

	json_array_append_new(events, event_json("NewArray", s->ai->name, NULL));
	append_wrong(events, s);
	json_array_foreach(events, i, event)
	{
		admin_publish(d->admin, json_incref(event));
	}
	json_decref(events);
}

/* "once": what is wrong now; "test": a TestMessage for every array before it. */
void admin_monitor(struct daemon *d, struct admin_call *call, const json_t *request)
{
	const bool test = json_is_true(json_object_get(request, "test"));
	json_t *events = json_array(), *answer;

	for (uint32_t i = 0; i < d->arrays.count; i++) {
		const struct served *s = d->arrays.item[i];

		if (test) {
			json_array_append_new(events, event_json("TestMessage", s->ai->name, NULL));
		}
		append_wrong(events, s);
	}
	answer = json_pack("{s:b, s:o}", "ok", 1, "events", events);
	if (json_is_true(json_object_get(request, "once"))) {
		admin_answer(call, answer);
	} else {
		admin_answer_stream(call, answer);
	}
}
