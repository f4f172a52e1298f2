/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-raidctl status --detail: an array in the fields of `mdadm --detail`, and what that has no
 * field for. */
#include <stdio.h>
#include <string.h>

#include "server/ctl_common.h"

enum { MISMATCHES_SHOWN = 20 };

static void line(const char *label, const char *value)
{
	printf("%20s : %s\n", label, value);
}

static void number_line(const char *label, unsigned long long value)
{
	printf("%20s : %llu\n", label, value);
}

static void size_line(const char *label, unsigned long long bytes)
{
	char note[64];

	printf("%20s : %llu%s\n", label, bytes >> 10, ctl_size_note(bytes, note));
}

static unsigned int count(const json_t *array, const char *state)
{
	const json_t *m;
	unsigned int n = 0;
	size_t i;

	json_array_foreach(json_object_get(array, "members"), i, m)
	{
		n += !state || !strcmp(ctl_text(m, "state"), state);
	}
	return n;
}

bool ctl_sync_text(const json_t *sync, char buf[64])
{
	const json_t *eta = json_object_get(sync, "eta_s");
	unsigned long long done = ctl_number(sync, "done"), total = ctl_number(sync, "total");
	unsigned long long bps = ctl_number(sync, "bps"), s = ctl_number(sync, "eta_s");
	unsigned int at = total ? (unsigned int)((unsigned __int128)done * 1000 / total) : 0;
	int n;

	if (!strcmp(ctl_text(sync, "action"), "idle")) {
		snprintf(buf, 64, "%s", "a resync or rebuild is to come");
		return ctl_truth(sync, "waiting");
	}
	n = snprintf(buf, 64, "%.10s: %u.%u %%, %llu.%llu MB/s", ctl_text(sync, "action"), at / 10,
		     at % 10, bps / 1000000, bps / 100000 % 10);
	if (json_is_integer(eta) && n > 0 && n < 64) {
		snprintf(buf + n, 64 - (size_t)n, ", %llu:%02llu:%02llu left", s / 3600,
			 s / 60 % 60, s % 60);
	}
	return true;
}

/* mdadm's words. */
static void state_line(const json_t *a)
{
	static const char *const words[][2] = {{"resync", "resyncing"},
					       {"rebuild", "recovering"},
					       {"replace", "recovering"},
					       {"check", "checking"},
					       {"repair", "repairing"}};
	const json_t *sync = json_object_get(a, "sync");
	const char *state = ctl_text(a, "state"), *action = ctl_text(sync, "action");

	printf("%20s : %s%s%s%s", "State", !strcmp(state, "dirty") ? "active" : state,
	       ctl_number(a, "degraded") ? ", degraded" : "",
	       ctl_truth(a, "needs_resync") && strcmp(action, "resync") ? ", needs resync" : "",
	       ctl_truth(a, "flush_lost") ? ", flush lost" : "");
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (!strcmp(action, words[i][0])) {
			printf(", %s", words[i][1]);
		}
	}
	puts(" ");
}

static void member_lines(const json_t *a)
{
	const json_t *m, *slot;
	char at[24];
	size_t i;

	printf("\n%8s  %-14s %10s %10s %7s  %s\n", "Slot", "State", "Read", "Written", "Errors",
	       "Device");
	json_array_foreach(json_object_get(a, "members"), i, m)
	{
		slot = json_object_get(m, "slot");
		snprintf(at, sizeof at, "-");
		if (json_is_integer(slot)) {
			snprintf(at, sizeof at, "%lld", (long long)json_integer_value(slot));
		}
		printf("%8s  %-14s %7lluMiB %7lluMiB %7llu  %s", at,
		       !strcmp(ctl_text(m, "state"), "in-sync") ? "active sync"
								: ctl_text(m, "state"),
		       ctl_number(m, "read_bytes") >> 20, ctl_number(m, "write_bytes") >> 20,
		       ctl_number(m, "read_errors") + ctl_number(m, "write_errors"),
		       ctl_text(m, "path"));
		if (ctl_number(m, "bad_blocks")) {
			printf(" (%llu bad blocks listed)", ctl_number(m, "bad_blocks"));
		}
		putchar('\n');
	}
}

static void mismatch_lines(const json_t *sync)
{
	const json_t *list = json_object_get(sync, "mismatches"), *m;
	size_t left = json_array_size(list), i;

	if (!left) {
		return;
	}
	printf("\n%20s   (bytes from the start of every member's data)\n", "Mismatches at");
	json_array_foreach(list, i, m)
	{
		const char *path = json_string_value(json_object_get(m, "member"));

		if (i == MISMATCHES_SHOWN) {
			break;
		}
		left--;
		printf("%20llu + %llu%s%s\n", ctl_number(m, "offset"), ctl_number(m, "bytes"),
		       path ? ", wrong on " : "", path ? path : "");
	}
	left += (size_t)ctl_number(sync, "mismatches_unlisted");
	if (left) {
		printf("%20s and %zu more\n", "", left);
	}
}

static void sync_lines(const json_t *a)
{
	const json_t *sync = json_object_get(a, "sync");
	const json_t *bitmap = json_object_get(a, "bitmap");
	char text[64];

	if (ctl_sync_text(sync, text)) {
		line("Sync", text);
	}
	printf("%20s : %llu to %llu KB/s and member\n", "Sync Speed",
	       ctl_number(sync, "min_bps") / 1000, ctl_number(sync, "max_bps") / 1000);
	if (ctl_number(sync, "mismatch_sectors")) {
		number_line("Mismatched Sectors", ctl_number(sync, "mismatch_sectors"));
	}
	if (json_is_object(bitmap)) {
		printf("%20s : %llu chunks of %llu KiB, %llu dirty\n", "Bitmap",
		       ctl_number(bitmap, "chunks"), ctl_number(bitmap, "chunk_bytes") >> 10,
		       ctl_number(bitmap, "dirty"));
	}
}

static void metadata_lines(const json_t *a)
{
	const json_t *metadata = json_object_get(a, "metadata");
	char when[64], clean[64];

	if (json_is_object(metadata)) {
		line("Version", ctl_text(metadata, "version"));
		line("Creation Time", ctl_time_text(ctl_number(metadata, "ctime_s"), when));
		line("Name", ctl_clean_text(ctl_text(metadata, "name"), clean, sizeof clean));
		line("UUID", ctl_text(a, "uuid"));
		number_line("Events", ctl_number(a, "events"));
	}
}

void ctl_print_detail(const json_t *a)
{
	const char *group = json_string_value(json_object_get(a, "spare_group"));
	const char *layout = json_string_value(json_object_get(a, "layout"));
	char chunk[32];

	printf("%s:\n", ctl_text(a, "name"));
	metadata_lines(a);
	line("Raid Level", ctl_text(a, "level"));
	size_line("Array Size", ctl_number(a, "size_bytes"));
	size_line("Used Dev Size", ctl_number(a, "component_bytes"));
	number_line("Raid Devices", ctl_number(a, "slots"));
	number_line("Total Devices", count(a, NULL));
	state_line(a);
	number_line("Active Devices", ctl_number(a, "in_sync"));
	number_line("Failed Devices", count(a, "faulty") + count(a, "leaving"));
	number_line("Spare Devices",
		    count(a, "spare") + count(a, "rebuilding") + count(a, "replacement"));
	if (layout) {
		line("Layout", layout);
	}
	if (ctl_number(a, "chunk_bytes")) {
		snprintf(chunk, sizeof chunk, "%lluK", ctl_number(a, "chunk_bytes") >> 10);
		line("Chunk Size", chunk);
	}
	line("Slots", ctl_text(a, "slot_states"));
	if (group) {
		line("Spare Group", group);
	}
	sync_lines(a);
	member_lines(a);
	mismatch_lines(json_object_get(a, "sync"));
}
