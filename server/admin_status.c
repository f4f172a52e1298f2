/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer to "status": everything that the daemon knows of its arrays, exports and sessions. */
#include "server/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "raid/sb.h"
#include "server/daemon_internal.h"
#include "server/loop.h"

/* ---- arrays -------------------------------------------------------------------------------- */

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

static const char *action_name(enum raid_sync_action action)
{
	static const char *const names[] = {
		[RAID_SYNC_IDLE] = "idle",	 [RAID_SYNC_CHECK] = "check",
		[RAID_SYNC_REPAIR] = "repair",	 [RAID_SYNC_RESYNC] = "resync",
		[RAID_SYNC_REBUILD] = "rebuild", [RAID_SYNC_REPLACE] = "replace",
	};

	return names[action];
}

/* UINT64_MAX is how the engine says that there is no number. */
static json_t *number(uint64_t value)
{
	return value == UINT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static json_t *member_json(const struct member_dev *dev, const struct raid_member_status *m)
{
	return json_pack(
		"{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:o, s:I}", "path",
		admin_text(dev->path), "slot", m->slot < 0 ? json_null() : json_integer(m->slot),
		"state", member_state(m->state), "reads", (json_int_t)m->reads, "writes",
		(json_int_t)m->writes, "read_bytes", (json_int_t)m->read_bytes, "write_bytes",
		(json_int_t)m->write_bytes, "read_errors", (json_int_t)m->read_errors,
		"write_errors", (json_int_t)m->write_errors, "corrected", (json_int_t)m->corrected,
		"in_flight", (int)m->in_flight, "bad_blocks", (json_int_t)m->bad_blocks,
		"recovery_offset", number(m->recovery_offset), "size_bytes",
		(json_int_t)dev->props.size_bytes);
}

static json_t *members_json(const struct served *s, const struct raid_status *st)
{
	const struct array_instance *ai = s->ai;
	json_t *out = json_array();

	for (uint32_t i = 0; i < ai->members && i < st->members; i++) {
		if (ai->member[i].path) {
			json_array_append_new(out, member_json(&ai->member[i], &st->member[i]));
		}
	}
	return out;
}

static json_t *mismatches_json(const struct served *s)
{
	json_t *out = json_array();

	for (uint32_t i = 0; i < s->mismatches; i++) {
		const struct mismatch *m = &s->mismatch[i];
		const char *path =
			m->member < s->ai->members ? s->ai->member[m->member].path : NULL;

		json_array_append_new(out, json_pack("{s:I, s:I, s:o}", "offset", (json_int_t)m->at,
						     "bytes", (json_int_t)m->len, "member",
						     path ? admin_text(path) : json_null()));
	}
	return out;
}

static json_t *sync_json(const struct served *s, const struct raid_status *st)
{
	return json_pack("{s:s, s:b, s:I, s:I, s:o, s:o, s:I, s:o, s:I, s:I, s:I}", "action",
			 action_name(st->sync.action), "waiting", (int)st->sync.waiting, "done",
			 (json_int_t)st->sync.done, "total", (json_int_t)st->sync.total, "bps",
			 number(st->sync.bps), "eta_s", number(st->sync.eta_s), "mismatch_sectors",
			 (json_int_t)st->sync.mismatch_sectors, "mismatches", mismatches_json(s),
			 "mismatches_unlisted", (json_int_t)s->mismatches_unlisted, "min_bps",
			 (json_int_t)st->sync.min_bps, "max_bps", (json_int_t)st->sync.max_bps);
}

static json_t *bitmap_json(const struct raid_status *st)
{
	if (!st->bitmap.present) {
		return json_null();
	}
	return json_pack("{s:I, s:I, s:I}", "chunk_bytes", (json_int_t)st->bitmap.chunk_bytes,
			 "chunks", (json_int_t)st->bitmap.chunks, "dirty",
			 (json_int_t)st->bitmap.dirty);
}

/* "UU_": a letter for each slot; R: it is being replaced. */
static json_t *slots_json(const struct raid_status *st)
{
	char text[RAID_SLOTS_MAX + 1];

	for (uint32_t k = 0; k < st->slots; k++) {
		text[k] = '_';
	}
	text[st->slots] = '\0';
	for (uint32_t i = 0; i < st->members; i++) {
		const struct raid_member_status *m = &st->member[i];

		if (m->slot < 0 || (uint32_t)m->slot >= st->slots) {
			continue;
		}
		if (m->state == RAID_MEMBER_REPLACEMENT) {
			text[m->slot] = 'R';
		} else if (m->state == RAID_MEMBER_IN_SYNC && text[m->slot] == '_') {
			text[m->slot] = 'U';
		}
	}
	return json_string(text);
}

/* What the superblocks say of an array for good; null for one without. */
static json_t *metadata_json(const struct assembly *as)
{
	const struct sb *sb = &as->member[as->freshest].sb;

	if (!as->metadata) {
		return json_null();
	}
	return json_pack("{s:s, s:o, s:I}", "version", sb_version_name(sb->version), "name",
			 admin_text(sb->set_name), "ctime_s", (json_int_t)sb->ctime_s);
}

static json_t *layout_json(const struct geometry *g)
{
	char text[GEO_LAYOUT_NAME_BYTES];

	return g->p.level == RAID_LEVEL_1 || g->p.level == RAID_LEVEL_LINEAR
		       ? json_null()
		       : json_string(geo_layout_name(g->p.level, g->p.layout, text));
}

static json_t *uuid_json(const struct assembly *as)
{
	char text[37];

	return as->metadata ? json_string(sb_uuid_text(as->member[as->freshest].sb.set_uuid, text))
			    : json_null();
}

static json_t *array_json(struct served *s)
{
	struct array_instance *ai = s->ai;
	const struct geometry *g = &ai->assembly->geometry;
	struct raid_status *st = calloc(1, sizeof *st);
	json_t *out;

	if (!st) {
		return NULL;
	}
	/* An array that is being closed may be gone from its loop at any moment. */
	if (s->state != SERVED_CLOSING) {
		loop_array_status(ai, st);
	}
	out = json_pack(
		"{s:s, s:s, s:o, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:b, s:o, s:b, s:I, "
		"s:o, s:o, s:o, s:s?, s:o, s:o, s:o}",
		"name", ai->name, "level", geo_level_name(g->p.level), "layout", layout_json(g),
		"state", array_state(s, st), "read_only", (int)ai->read_only, "size_bytes",
		(json_int_t)(g->array_sectors * RAID_SECTOR_BYTES), "component_bytes",
		(json_int_t)(g->p.component_sectors * RAID_SECTOR_BYTES), "chunk_bytes",
		(json_int_t)g->p.chunk_sectors * RAID_SECTOR_BYTES, "slots", (json_int_t)g->p.slots,
		"in_sync", (json_int_t)st->in_sync, "degraded",
		(json_int_t)(st->slots - st->in_sync), "slot_states", slots_json(st),
		"needs_resync", (int)st->needs_resync, "resync_offset", number(st->resync_offset),
		"flush_lost", (int)st->flush_lost, "events", (json_int_t)st->events, "uuid",
		uuid_json(ai->assembly), "metadata", metadata_json(ai->assembly), "note",
		admin_text(ai->assembly->note), "spare_group", s->config->spare_group, "sync",
		sync_json(s, st), "bitmap", bitmap_json(st), "members", members_json(s, st));
	free(st);
	return out;
}

/* ---- exports and sessions ------------------------------------------------------------------ */

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

/* ---- the whole ----------------------------------------------------------------------------- */

void admin_status(struct daemon *d, struct admin_call *call, const json_t *request)
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
