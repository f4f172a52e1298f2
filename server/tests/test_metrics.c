/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of the metrics: families, values, escaping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/buffer.h>

#include "server/metrics_text.h"

static struct loop_stats loops[2];
static struct metrics_array arrays[2];
static struct metrics_export exports[2];
static struct metrics m;
static struct evbuffer *out;

static int setup(void **state)
{
	(void)state;
	memset(loops, 0, sizeof loops);
	memset(arrays, 0, sizeof arrays);
	memset(exports, 0, sizeof exports);
	for (int i = 0; i < 2; i++) {
		arrays[i].name = i ? "b" : "a";
		arrays[i].level = "raid1";
		exports[i].name = exports[i].array = arrays[i].name;
	}
	m = (struct metrics){
		.version = "1.2",
		.loops = 2,
		.arrays = 2,
		.exports = 2,
		.loop = loops,
		.array = arrays,
		.export = exports,
	};
	out = evbuffer_new();
	assert_non_null(out);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	evbuffer_free(out);
	return 0;
}

static const char *text(void)
{
	evbuffer_drain(out, evbuffer_get_length(out));
	assert_int_equal(metrics_text(out, &m), 0);
	assert_int_equal(evbuffer_add(out, "", 1), 0);
	return (const char *)evbuffer_pullup(out, -1);
}

/* A whole line of the text. */
static void has(const char *line)
{
	char wanted[512];

	snprintf(wanted, sizeof wanted, "\n%s\n", line);
	if (!strstr(text(), wanted)) {
		fail_msg("no line '%s' in:\n%s", line, text());
	}
}

static void has_not(const char *part)
{
	assert_null(strstr(text(), part));
}

static void daemon_and_loops(void **state)
{
	(void)state;
	m.uptime_s = 12.5;
	m.connections = 7;
	loops[0].sessions = 3;
	loops[1].sessions_total = 4;
	loops[1].requests = UINT64_MAX;
	loops[1].read_bytes = 5;
	loops[1].write_bytes = 6;
	loops[1].errors = 7;
	loops[0].payload_bytes_used = 8;
	loops[0].large_bytes_used = 9;
	has("nbd_raidd_build_info{version=\"1.2\"} 1");
	has("nbd_raidd_uptime_seconds 12.500");
	has("nbd_raidd_stopping 0");
	has("nbd_raidd_connections 7");
	has("nbd_raidd_loop_sessions{loop=\"0\"} 3");
	has("nbd_raidd_loop_sessions_total{loop=\"1\"} 4");
	has("nbd_raidd_loop_requests_total{loop=\"1\"} 18446744073709551615");
	has("nbd_raidd_loop_read_bytes_total{loop=\"1\"} 5");
	has("nbd_raidd_loop_written_bytes_total{loop=\"1\"} 6");
	has("nbd_raidd_loop_request_errors_total{loop=\"1\"} 7");
	has("nbd_raidd_loop_payload_bytes{loop=\"0\"} 8");
	has("nbd_raidd_loop_large_bytes{loop=\"0\"} 9");
}

static void resync_and_bitmap(void **state)
{
	struct raid_status *st = &arrays[1].status;

	(void)state;
	arrays[1].spares = 2;
	st->sync.action = RAID_SYNC_REBUILD;
	st->sync.done = 1000;
	st->sync.total = 4000;
	st->sync.min_bps = 5;
	st->sync.max_bps = 6;
	st->sync.mismatch_sectors = 8;
	st->bitmap.chunks = 64;
	st->bitmap.dirty = 3;
	st->members = 1;
	st->member[0].bad_blocks = 9;
	arrays[1].member[0] = "m";
	has("nbd_raidd_array_spares{array=\"b\"} 2");
	has("nbd_raidd_array_sync_action{array=\"a\",action=\"idle\"} 1");
	has("nbd_raidd_array_sync_action{array=\"b\",action=\"idle\"} 0");
	has("nbd_raidd_array_sync_action{array=\"b\",action=\"rebuild\"} 1");
	has("nbd_raidd_array_sync_done_bytes{array=\"b\"} 1000");
	has("nbd_raidd_array_sync_total_bytes{array=\"b\"} 4000");
	has("nbd_raidd_array_sync_min_bytes_per_second{array=\"b\"} 5");
	has("nbd_raidd_array_sync_max_bytes_per_second{array=\"b\"} 6");
	has("nbd_raidd_array_mismatched_sectors{array=\"b\"} 8");
	has("nbd_raidd_array_bitmap_chunks{array=\"b\"} 64");
	has("nbd_raidd_array_bitmap_dirty_chunks{array=\"b\"} 3");
	has("nbd_raidd_member_bad_blocks{array=\"b\",member=\"m\"} 9");
}

static void arrays_and_states(void **state)
{
	struct raid_status *st = &arrays[1].status;

	(void)state;
	memcpy(arrays[1].uuid, "0:1:2:3", 8);
	arrays[1].size_bytes = 4096;
	st->state = RAID_ARRAY_DIRTY;
	st->slots = 4;
	st->in_sync = 3;
	st->needs_resync = true;
	st->events = 17;
	st->frags_max = 5;
	st->sb_updates = 6;
	st->flush_rounds = 8;
	arrays[0].stopping = true;
	has("nbd_raidd_array_info{array=\"b\",level=\"raid1\",uuid=\"0:1:2:3\"} 1");
	has("nbd_raidd_array_size_bytes{array=\"b\"} 4096");
	has("nbd_raidd_array_state{array=\"b\",state=\"dirty\"} 1");
	has("nbd_raidd_array_state{array=\"b\",state=\"clean\"} 0");
	has("nbd_raidd_array_state{array=\"a\",state=\"clean\"} 0");
	has("nbd_raidd_array_state{array=\"a\",state=\"stopping\"} 1");
	has("nbd_raidd_array_slots{array=\"b\"} 4");
	has("nbd_raidd_array_degraded{array=\"b\"} 1");
	has("nbd_raidd_array_needs_resync{array=\"b\"} 1");
	has("nbd_raidd_array_needs_resync{array=\"a\"} 0");
	has("nbd_raidd_array_events{array=\"b\"} 17");
	has("nbd_raidd_array_fragments_max{array=\"b\"} 5");
	has("nbd_raidd_array_superblock_updates_total{array=\"b\"} 6");
	has("nbd_raidd_array_flush_rounds_total{array=\"b\"} 8");
}

static void members_and_exports(void **state)
{
	(void)state;
	arrays[0].status.members = 2;
	arrays[0].member[0] = "/dev/x";
	arrays[0].member[1] = "/dev/y";
	arrays[0].status.member[1] = (struct raid_member_status){
		.state = RAID_MEMBER_FAULTY,
		.slot = -1,
		.reads = 1,
		.write_bytes = 2,
		.write_errors = 3,
		.corrected = 4,
		.in_flight = 5,
	};
	exports[1].size_bytes = 99;
	exports[1].read_only = true;
	has("nbd_raidd_member_state{array=\"a\",member=\"/dev/y\",state=\"faulty\"} 1");
	has("nbd_raidd_member_state{array=\"a\",member=\"/dev/y\",state=\"in-sync\"} 0");
	has("nbd_raidd_member_slot{array=\"a\",member=\"/dev/y\"} -1");
	has("nbd_raidd_member_reads_total{array=\"a\",member=\"/dev/y\"} 1");
	has("nbd_raidd_member_written_bytes_total{array=\"a\",member=\"/dev/y\"} 2");
	has("nbd_raidd_member_write_errors_total{array=\"a\",member=\"/dev/y\"} 3");
	has("nbd_raidd_member_corrected_sectors_total{array=\"a\",member=\"/dev/y\"} 4");
	has("nbd_raidd_member_in_flight{array=\"a\",member=\"/dev/y\"} 5");
	has("nbd_raidd_export_size_bytes{export=\"b\",array=\"b\"} 99");
	has("nbd_raidd_export_read_only{export=\"b\",array=\"b\"} 1");
	has_not("array=\"b\",member");
}

static void strings_are_escaped(void **state)
{
	(void)state;
	exports[0].name = "q\"b\\n\nend";
	exports[1].name = "\xc3\xa4"; /* UTF-8 goes through */
	arrays[0].status.members = 1;
	arrays[0].member[0] = "/dev/\xff"; /* anything else does not */
	has("nbd_raidd_export_size_bytes{export=\"q\\\"b\\\\n\\nend\",array=\"a\"} 0");
	has("nbd_raidd_export_size_bytes{export=\"\xc3\xa4\",array=\"b\"} 0");
	has("nbd_raidd_member_slot{array=\"a\",member=\"\\\"/dev/\\\\xff\\\"\"} 0");
	has_not("\xff");
}

/* HELP, TYPE, samples of that family alone; every family once; counters are named so. */
static void families_stand_in_one_piece(void **state)
{
	static char seen[64 << 10];
	char name[128] = "", type[32] = "", line[512];
	const char *p = text();

	(void)state;
	seen[0] = '\0';
	for (size_t len; *p; p += len + 1) {
		len = strcspn(p, "\n");
		assert_in_range(len, 1, sizeof line - 1);
		snprintf(line, sizeof line, "%.*s", (int)len, p);
		if (!strncmp(line, "# HELP ", 7)) {
			char key[160];

			assert_int_equal(sscanf(line + 7, "%127s", name), 1);
			snprintf(key, sizeof key, "|%s|", name);
			assert_null(strstr(seen, key));
			assert_true(strlen(seen) + strlen(key) < sizeof seen);
			memcpy(seen + strlen(seen), key, strlen(key) + 1);
		} else if (!strncmp(line, "# TYPE ", 7)) {
			char again[128];

			assert_int_equal(sscanf(line + 7, "%127s %31s", again, type), 2);
			assert_string_equal(again, name);
			assert_int_equal(!strcmp(type, "counter"),
					 strlen(name) > 6 &&
						 !strcmp(name + strlen(name) - 6, "_total"));
		} else {
			assert_int_equal(strcspn(line, "{ "), strlen(name));
			assert_int_equal(strncmp(line, name, strlen(name)), 0);
		}
	}
}

static void nothing_served(void **state)
{
	(void)state;
	m.arrays = m.exports = 0;
	has("# TYPE nbd_raidd_array_slots gauge");
	has_not("array=");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(daemon_and_loops, setup, teardown),
		cmocka_unit_test_setup_teardown(resync_and_bitmap, setup, teardown),
		cmocka_unit_test_setup_teardown(arrays_and_states, setup, teardown),
		cmocka_unit_test_setup_teardown(members_and_exports, setup, teardown),
		cmocka_unit_test_setup_teardown(strings_are_escaped, setup, teardown),
		cmocka_unit_test_setup_teardown(families_stand_in_one_piece, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_served, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
