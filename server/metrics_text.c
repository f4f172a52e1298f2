/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Families are rows of tables, one table for each kind of thing they are about (loops, arrays,
 * members, exports): a row says where its value stands in that thing's struct. So a family is
 * written in one piece whatever is served, and a new one is a new row.
 */
#include "server/metrics_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <event2/buffer.h>

#include "server/log.h"
#include "server/utf8.h"

/* Where the text goes; the first failure stays. */
struct text {
	struct evbuffer *out;
	int err;
};

enum kind { BOOL, U32, U64, S32 };

struct row {
	const char *name; /* without the prefix */
	const char *help;
	const char *type;
	enum kind kind;
	size_t at; /* of the value in the thing's struct */
};

#define ROW_END                                                                                    \
	{                                                                                          \
		NULL, NULL, NULL, U64, 0                                                           \
	}

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (!t->err && evbuffer_add_vprintf(t->out, fmt, args) < 0) {
		t->err = -ENOMEM;
	}
	va_end(args);
}

static void head(struct text *t, const char *name, const char *type, const char *help)
{
	put(t, "# HELP nbd_raidd_%s %s\n# TYPE nbd_raidd_%s %s\n", name, help, name, type);
}

/* name="value", escaped. */
static void label(struct text *t, const char *name, const char *value)
{
	char quoted[4 * 4096];

	if (!utf8_valid(value, strlen(value))) {
		value = log_quote(value, strlen(value), quoted, sizeof quoted);
	}
	put(t, "%s=\"", name);
	while (*value) {
		size_t plain = strcspn(value, "\\\"\n");

		put(t, "%.*s", (int)plain, value);
		value += plain;
		if (*value) {
			put(t, "\\%c", *value == '\n' ? 'n' : *value);
			value++;
		}
	}
	put(t, "\"");
}

static uint64_t value_of(const struct row *row, const void *thing)
{
	const void *field = (const char *)thing + row->at;

	switch (row->kind) {
	case BOOL:
		return *(const bool *)field;
	case U32:
		return *(const uint32_t *)field;
	case U64:
	case S32:
		break;
	}
	return *(const uint64_t *)field;
}

static void put_value(struct text *t, const struct row *row, const void *thing)
{
	if (row->kind == S32) {
		const void *field = (const char *)thing + row->at;

		put(t, " %" PRId32 "\n", *(const int32_t *)field);
	} else {
		put(t, " %" PRIu64 "\n", value_of(row, thing));
	}
}

/* ---- loops --------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct loop_stats, field)
static const struct row loop_rows[] = {
	{"loop_sessions", "Sessions on a loop now.", "gauge", U64, AT(sessions)},
	{"loop_sessions_total", "Sessions a loop has taken.", "counter", U64, AT(sessions_total)},
	{"loop_requests_total", "Requests of clients.", "counter", U64, AT(requests)},
	{"loop_request_errors_total", "Requests answered with an error.", "counter", U64,
	 AT(errors)},
	{"loop_read_bytes_total", "Bytes of READs answered without error.", "counter", U64,
	 AT(read_bytes)},
	{"loop_written_bytes_total", "Bytes of WRITEs answered without error.", "counter", U64,
	 AT(write_bytes)},
	{"loop_payload_bytes", "Memory in use for data to be written.", "gauge", U64,
	 AT(payload_bytes_used)},
	{"loop_large_bytes", "Memory in use for replies that leave in one piece.", "gauge", U64,
	 AT(large_bytes_used)},
	ROW_END,
};
#undef AT

static void put_loops(struct text *t, const struct metrics *m)
{
	for (const struct row *row = loop_rows; row->name; row++) {
		head(t, row->name, row->type, row->help);
		for (uint32_t i = 0; i < m->loops; i++) {
			put(t, "nbd_raidd_%s{loop=\"%" PRIu32 "\"}", row->name, i);
			put_value(t, row, &m->loop[i]);
		}
	}
}

/* ---- arrays -------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct metrics_array, field)
static const struct row array_rows[] = {
	{"array_size_bytes", "What can be exported of an array.", "gauge", U64, AT(size_bytes)},
	{"array_read_only", "Started read-only.", "gauge", BOOL, AT(read_only)},
	{"array_slots", "Members an array is made for.", "gauge", U32, AT(status.slots)},
	{"array_in_sync", "Slots whose member has all data.", "gauge", U32, AT(status.in_sync)},
	{"array_needs_resync", "Copies may differ.", "gauge", BOOL, AT(status.needs_resync)},
	{"array_flush_lost", "A flush failed on a last copy: FLUSH and FUA give errors.", "gauge",
	 BOOL, AT(status.flush_lost)},
	{"array_events", "The event count of the superblocks.", "gauge", U64, AT(status.events)},
	{"array_fragments", "Pieces of requests in the engine now.", "gauge", U32,
	 AT(status.frags)},
	{"array_fragments_max", "The most there have been at once.", "gauge", U32,
	 AT(status.frags_max)},
	{"array_buffer_bytes", "Engine buffers in use now.", "gauge", U64,
	 AT(status.buffer_bytes_used)},
	{"array_buffer_bytes_max", "The most that were in use at once.", "gauge", U64,
	 AT(status.buffer_bytes_max)},
	{"array_superblock_updates_total", "Updates of the superblocks.", "counter", U64,
	 AT(status.sb_updates)},
	{"array_flush_rounds_total", "Flushes of all members, each for one or more requests.",
	 "counter", U64, AT(status.flush_rounds)},
	{"array_spares", "Members that wait for a slot.", "gauge", U32, AT(spares)},
	{"array_sync_waiting", "A resync or rebuild is to be done and has not begun.", "gauge",
	 BOOL, AT(status.sync.waiting)},
	{"array_sync_done_bytes", "How far a resync, rebuild or check is.", "gauge", U64,
	 AT(status.sync.done)},
	{"array_sync_total_bytes", "How far it goes in all; 0: none runs.", "gauge", U64,
	 AT(status.sync.total)},
	{"array_sync_min_bytes_per_second", "How fast it goes on each member, at least.", "gauge",
	 U64, AT(status.sync.min_bps)},
	{"array_sync_max_bytes_per_second",
	 "How fast it goes on each member, at most; 0: no limit.", "gauge", U64,
	 AT(status.sync.max_bps)},
	{"array_mismatched_sectors", "What the last check or repair found.", "gauge", U64,
	 AT(status.sync.mismatch_sectors)},
	{"array_bitmap_chunks", "Chunks of the write-intent bitmap; 0: there is none.", "gauge",
	 U64, AT(status.bitmap.chunks)},
	{"array_bitmap_dirty_chunks", "Chunks that are being written, or may differ.", "gauge", U64,
	 AT(status.bitmap.dirty)},
	{"array_events_dropped_total", "Events that nobody could be told in time.", "counter", U64,
	 AT(status.events_dropped)},
	ROW_END,
};
#undef AT

static void array_sample(struct text *t, const char *name, const struct metrics_array *a)
{
	put(t, "nbd_raidd_%s{", name);
	label(t, "array", a->name);
}

/* What its superblocks say, and "stopping" over it as on the control socket. */
static void put_array_states(struct text *t, const struct metrics *m)
{
	static const char *const names[] = {
		[RAID_ARRAY_CLEAN] = "clean",	       [RAID_ARRAY_DIRTY] = "dirty",
		[RAID_ARRAY_READ_ONLY] = "read-only",  [RAID_ARRAY_STOPPED] = "stopped",
		[RAID_ARRAY_STOPPED + 1] = "stopping",
	};

	head(t, "array_state", "gauge", "1 for the state an array is in.");
	for (uint32_t i = 0; i < m->arrays; i++) {
		const struct metrics_array *a = &m->array[i];
		size_t is = a->stopping ? RAID_ARRAY_STOPPED + 1 : a->status.state;

		for (size_t s = 0; s < sizeof names / sizeof names[0]; s++) {
			array_sample(t, "array_state", a);
			put(t, ",state=\"%s\"} %d\n", names[s], s == is);
		}
	}
}

static void put_sync_actions(struct text *t, const struct metrics *m)
{
	static const char *const names[] = {
		[RAID_SYNC_IDLE] = "idle",	 [RAID_SYNC_CHECK] = "check",
		[RAID_SYNC_REPAIR] = "repair",	 [RAID_SYNC_RESYNC] = "resync",
		[RAID_SYNC_REBUILD] = "rebuild", [RAID_SYNC_REPLACE] = "replace",
	};

	head(t, "array_sync_action", "gauge", "1 for what is under way.");
	for (uint32_t i = 0; i < m->arrays; i++) {
		for (size_t s = 0; s < sizeof names / sizeof names[0]; s++) {
			array_sample(t, "array_sync_action", &m->array[i]);
			put(t, ",action=\"%s\"} %d\n", names[s],
			    s == m->array[i].status.sync.action);
		}
	}
}

static void put_arrays(struct text *t, const struct metrics *m)
{
	head(t, "array_info", "gauge", "Always 1: what an array is.");
	for (uint32_t i = 0; i < m->arrays; i++) {
		array_sample(t, "array_info", &m->array[i]);
		put(t, ",level=\"%s\",uuid=\"%s\"} 1\n", m->array[i].level, m->array[i].uuid);
	}
	put_array_states(t, m);
	put_sync_actions(t, m);
	head(t, "array_degraded", "gauge", "Slots without a member that has all data.");
	for (uint32_t i = 0; i < m->arrays; i++) {
		const struct raid_status *st = &m->array[i].status;

		array_sample(t, "array_degraded", &m->array[i]);
		put(t, "} %" PRIu32 "\n", st->slots - st->in_sync);
	}
	for (const struct row *row = array_rows; row->name; row++) {
		head(t, row->name, row->type, row->help);
		for (uint32_t i = 0; i < m->arrays; i++) {
			array_sample(t, row->name, &m->array[i]);
			put(t, "}");
			put_value(t, row, &m->array[i]);
		}
	}
}

/* ---- members ------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct raid_member_status, field)
static const struct row member_rows[] = {
	{"member_slot", "The slot of a member, -1 for none.", "gauge", S32, AT(slot)},
	{"member_reads_total", "Read operations on a member.", "counter", U64, AT(reads)},
	{"member_writes_total", "Write operations on a member.", "counter", U64, AT(writes)},
	{"member_read_bytes_total", "Bytes read from a member.", "counter", U64, AT(read_bytes)},
	{"member_written_bytes_total", "Bytes written to a member.", "counter", U64,
	 AT(write_bytes)},
	{"member_read_errors_total", "Reads that failed.", "counter", U64, AT(read_errors)},
	{"member_write_errors_total", "Writes that failed.", "counter", U64, AT(write_errors)},
	{"member_corrected_sectors_total", "Unreadable sectors rewritten from another copy.",
	 "counter", U64, AT(corrected)},
	{"member_bad_blocks", "Entries of a member's bad-block log.", "gauge", U32, AT(bad_blocks)},
	{"member_in_flight", "Operations that a member has not answered yet.", "gauge", U32,
	 AT(in_flight)},
	ROW_END,
};
#undef AT

static void member_sample(struct text *t, const char *name, const struct metrics_array *a,
			  uint32_t member)
{
	array_sample(t, name, a);
	put(t, ",");
	label(t, "member", a->member[member]);
}

static void put_member_states(struct text *t, const struct metrics_array *a)
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

	for (uint32_t i = 0; i < a->status.members; i++) {
		for (size_t s = 0; s < sizeof names / sizeof names[0]; s++) {
			member_sample(t, "member_state", a, i);
			put(t, ",state=\"%s\"} %d\n", names[s], s == a->status.member[i].state);
		}
	}
}

static void put_members(struct text *t, const struct metrics *m)
{
	head(t, "member_state", "gauge", "1 for the state a member is in.");
	for (uint32_t i = 0; i < m->arrays; i++) {
		put_member_states(t, &m->array[i]);
	}
	for (const struct row *row = member_rows; row->name; row++) {
		head(t, row->name, row->type, row->help);
		for (uint32_t i = 0; i < m->arrays; i++) {
			const struct metrics_array *a = &m->array[i];

			for (uint32_t k = 0; k < a->status.members; k++) {
				member_sample(t, row->name, a, k);
				put(t, "}");
				put_value(t, row, &a->status.member[k]);
			}
		}
	}
}

/* ---- exports ------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct metrics_export, field)
static const struct row export_rows[] = {
	{"export_size_bytes", "The size of an export.", "gauge", U64, AT(size_bytes)},
	{"export_read_only", "Clients can only read.", "gauge", BOOL, AT(read_only)},
	ROW_END,
};
#undef AT

static void put_exports(struct text *t, const struct metrics *m)
{
	for (const struct row *row = export_rows; row->name; row++) {
		head(t, row->name, row->type, row->help);
		for (uint32_t i = 0; i < m->exports; i++) {
			put(t, "nbd_raidd_%s{", row->name);
			label(t, "export", m->export[i].name);
			put(t, ",");
			label(t, "array", m->export[i].array);
			put(t, "}");
			put_value(t, row, &m->export[i]);
		}
	}
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void put_daemon(struct text *t, const struct metrics *m)
{
	head(t, "build_info", "gauge", "Always 1: what runs.");
	put(t, "nbd_raidd_build_info{");
	label(t, "version", m->version);
	put(t, "} 1\n");
	head(t, "uptime_seconds", "gauge", "Time since the start.");
	put(t, "nbd_raidd_uptime_seconds %.3f\n", m->uptime_s);
	head(t, "stopping", "gauge", "The daemon takes no more clients.");
	put(t, "nbd_raidd_stopping %d\n", m->stopping);
	head(t, "connections", "gauge", "Clients now, those in their handshake included.");
	put(t, "nbd_raidd_connections %" PRIu64 "\n", m->connections);
}

int metrics_text(struct evbuffer *out, const struct metrics *m)
{
	struct text t = {.out = out};

	put_daemon(&t, m);
	put_loops(&t, m);
	put_arrays(&t, m);
	put_members(&t, m);
	put_exports(&t, m);
	return t.err;
}
