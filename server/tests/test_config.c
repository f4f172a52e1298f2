/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file: everything it can say, and the line named when it says it wrongly. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/config.h"

static struct config c;
static char why[RAID_WHY_BYTES];

static int parse(const char *text)
{
	int err;

	config_release(&c);
	config_init(&c);
	err = config_parse(&c, "test.conf", text, why);
	return err ? err : config_finish(&c, why);
}

static void the_daemon_and_its_limits(void **state)
{
	static const char text[] =
		"# a comment\n"
		"listen = { \"127.0.0.1:10809\", \"unix:/run/nbd.sock\" }\n"
		"socket-mode = 0600\n"
		"loops = 4\n"
		"list = no\n"
		"control = /run/ctl\n"
		"metrics = \"[::1]:9\"\n"
		"pid-file = \"/run/pid\"\n"
		"log-level = debug\n"
		"limits {\n"
		"  connections = 10  handshake-ms = 500  drain-ms = 600  depth = 32\n"
		"  payload-bytes = 8M  large-bytes = 16M\n"
		"  fragments = 64  buffer-bytes = 4M  safe-mode-ms = 1  read-deadline-ms = 2\n"
		"  write-deadline-ms = 3  read-errors = 4  read-errors-window-s = 5\n"
		"}\n";

	(void)state;
	assert_int_equal(parse(text), 0);
	assert_int_equal(c.listens, 2);
	assert_string_equal(c.listen[1], "unix:/run/nbd.sock");
	assert_int_equal(c.socket_mode, 0600);
	assert_int_equal(c.loops, 4);
	assert_false(c.list);
	assert_string_equal(c.control, "/run/ctl");
	assert_string_equal(c.metrics, "[::1]:9");
	assert_string_equal(c.pid_file, "/run/pid");
	assert_int_equal(c.log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(c.limits.connections, 10);
	assert_int_equal(c.limits.handshake_ms, 500);
	assert_int_equal(c.limits.drain_ms, 600);
	assert_int_equal(c.limits.depth_max, 32);
	assert_int_equal(c.limits.payload_bytes, 8 << 20);
	assert_int_equal(c.limits.large_bytes, 16 << 20);
	assert_int_equal(c.limits.raid.frags, 64);
	assert_int_equal(c.limits.raid.buffer_bytes, 4 << 20);
	assert_int_equal(c.limits.raid.safe_mode_ms, 1);
	assert_int_equal(c.limits.raid.read_deadline_ms, 2);
	assert_int_equal(c.limits.raid.write_deadline_ms, 3);
	assert_int_equal(c.limits.raid.read_errors_max, 4);
	assert_int_equal(c.limits.raid.read_errors_window_s, 5);
}

static void spares_and_resync(void **state)
{
	static const char text[] =
		"limits { sync-min = 2M  sync-max = 0  sync-target-ms = 7  members-extra = 3 }\n"
		"array a { members = { /a, /b }  spares = { /c, \"/d\" }  spare-group = shelf\n"
		"  sync-min = 1M  sync-max = 3M  re-add = no }\n"
		"array b { members = { /e, /f } }\n";

	(void)state;
	assert_int_equal(parse(text), 0);
	assert_int_equal(c.limits.raid.sync_min_bps, 2 << 20);
	assert_int_equal(c.limits.raid.sync_max_bps, 0);
	assert_int_equal(c.limits.raid.sync_target_ms, 7);
	assert_int_equal(c.limits.raid.members_extra, 3);
	assert_int_equal(c.array[0].spares, 2);
	assert_string_equal(c.array[0].spare[1], "/d");
	assert_string_equal(c.array[0].spare_group, "shelf");
	assert_int_equal(c.array[0].sync_min_bps, 1 << 20);
	assert_int_equal(c.array[0].sync_max_bps, 3 << 20);
	assert_false(c.array[0].readd);
	assert_true(c.array[1].readd && !c.array[1].spares && !c.array[1].spare_group);

	assert_int_equal(parse("array a { members = { /a } sync-min = 3M sync-max = 1M }\n"),
			 -EINVAL);
	assert_non_null(strstr(why, "sync-min is more than sync-max"));
	assert_int_equal(parse("array a { members = { /a } spares = { /b } read-only = yes }\n"),
			 -EINVAL);
	assert_non_null(strstr(why, "takes no spares"));
	assert_int_equal(parse("array a { build = 1 members = { /a } spare-group = x }\n"),
			 -EINVAL);
	assert_non_null(strstr(why, "without metadata"));
	assert_int_equal(parse("array a { members = { /a } spares = { \"\" } }\n"), -EINVAL);
	assert_non_null(strstr(why, "member without a name"));
}

static void arrays_and_exports(void **state)
{
	static const char text[] =
		"array \"data\" {\n"
		"  members = { \"/dev/sdb\", \"/dev/sdc\" }\n"
		"  uuid = 00112233:44556677:8899aabb:ccddeeff\n"
		"  read-only = true  force = on  direct = off  raid0-layout = alternate\n"
		"  volatile = 1\n"
		"}\n"
		"array raw { build = raid10 layout = f2 chunk = 64K offset = 1M\n"
		"  members = { /a, /b } }\n"
		"export \"public\" { array = data description = \"for all\" default = yes }\n"
		"export raw { read-only = true }\n";
	const struct config_array *a;

	(void)state;
	assert_int_equal(parse(text), 0);
	assert_int_equal(c.arrays, 2);
	a = &c.array[0];
	assert_string_equal(a->name, "data");
	assert_int_equal(a->members, 2);
	assert_true(a->have_uuid);
	assert_memory_equal(a->uuid,
			    "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16);
	assert_true(a->read_only && a->force && a->volatile_cache && !a->build);
	assert_int_equal(a->direct, DEVICE_DIRECT_OFF);
	assert_int_equal(a->raid0_layout, GEO_RAID0_ALTERNATE);
	a = &c.array[1];
	assert_true(a->build && a->have_layout && !a->have_uuid);
	assert_int_equal(a->level, RAID_LEVEL_10);
	assert_int_equal(a->layout, 0x201);
	assert_int_equal(a->chunk_bytes, 64 << 10);
	assert_int_equal(a->offset_bytes, 1 << 20);
	assert_int_equal(c.exports, 2);
	assert_string_equal(c.export[0].array, "data");
	assert_string_equal(c.export[0].description, "for all");
	assert_true(c.export[0].is_default && !c.export[0].read_only);
	assert_string_equal(c.export[1].array, "raw");
	assert_true(c.export[1].read_only && !c.export[1].is_default);
}

static void what_is_left_out_has_a_default(void **state)
{
	struct config defaults;

	(void)state;
	config_init(&defaults);
	assert_int_equal(parse("array x { members = {/a} }"), 0);
	assert_int_equal(c.loops, 1);
	assert_int_equal(c.listens, 0);
	assert_true(c.list);
	assert_memory_equal(&c.limits, &defaults.limits, sizeof c.limits);
	assert_int_equal(c.exports, 1);
	assert_string_equal(c.export[0].name, "x");
	assert_string_equal(c.export[0].array, "x");
	assert_null(c.export[0].description);
	assert_int_equal(parse("array x { uuid = 00112233445566778899aabbccddeeff }"), 0);
	assert_int_equal(c.array[0].members, 0);
	assert_int_equal(parse("control = none"), 0);
	assert_null(c.control);
	assert_int_equal(parse(""), 0);
	config_release(&defaults);
}

static void several_exports_of_one_array(void **state)
{
	(void)state;
	assert_int_equal(parse("array x { members = {/a} }\nexport rw { array = x }\n"
			       "export ro { array = x read-only = yes }"),
			 0);
	assert_int_equal(c.exports, 2);
}

static void who_may_use_an_export(void **state)
{
	(void)state;
	assert_int_equal(
		parse("user = nobody group = disk\narray x { members = {/a} }\n"
		      "export a { array = x allow = { 192.0.2.0/24, \"2001:db8::/32\", unix }\n"
		      "connections = 3 }\nexport b { array = x allow = {} }\n"
		      "export c { array = x }"),
		0);
	assert_string_equal(c.user, "nobody");
	assert_string_equal(c.group, "disk");
	assert_true(c.export[0].restricted);
	assert_int_equal(c.export[0].allows, 3);
	assert_int_equal(c.export[0].allow[0].prefix, 96 + 24);
	assert_int_equal(c.export[0].allow[1].prefix, 32);
	assert_int_equal(c.export[0].allow[2].kind, ACCESS_UNIX);
	assert_int_equal(c.export[0].connections, 3);
	assert_true(c.export[1].restricted);
	assert_int_equal(c.export[1].allows, 0);
	assert_false(c.export[2].restricted);
	assert_int_equal(c.export[2].connections, 0);
}

static void errors_name_file_line_and_option(void **state)
{
	static const struct {
		const char *text, *expected;
	} bad[] = {
		{"\n\nloops = many\n", "test.conf:3: loops: 'many' is not a number from 1 to 64"},
		{"loops = 0\n", "test.conf:1: loops: '0' is not a number from 1 to 64"},
		{"\nfrobnicate = 1\n", "test.conf:2: no such option 'frobnicate'"},
		{"\n\narray x {\n  members = {/a}\n  uuid = 12\n}\n",
		 "test.conf:5: uuid: '12' is not a UUID of 32 hexadecimal digits"},
		{"array x {\n read-only = perhaps\n}",
		 "test.conf:2: read-only: 'perhaps' is neither true nor false"},
		{"array x { direct = 7\n}", "test.conf:1: direct: '7' is not one of on, off, auto"},
		{"limits {\n\n connections = 0\n}",
		 "test.conf:3: connections: '0' is not a number from 1 to 100000"},
		{"limits { payload-bytes = 9999999T }",
		 "test.conf:1: payload-bytes: '9999999T' is too large"},
		{"limits { buffer-bytes = 3M }",
		 "test.conf:1: buffer-bytes: '3M' is not a power of two"},
		{"log-level = loud",
		 "test.conf:1: log-level: 'loud' is not one of error, warning, info, debug"},
		{"socket-mode = 999",
		 "test.conf:1: socket-mode: '999' is not an octal mode up to 0777"},
		{"array x { build = raid7 }",
		 "test.conf:1: build: 'raid7' is not a level: linear, 0, 1 or 10"},
		{"array x { build = raid10\n members = {/a}\n layout = z9 }",
		 "test.conf:3: array 'x': layout: 'z9' is not a layout of raid10"},
		{"array x { members = {/a}\n chunk = 64K }",
		 "test.conf:2: array 'x': layout, chunk and offset are for arrays with 'build'"},
		{"export x { array = x\n allow = { 10.0.0.1,\n  10.0.0.0/33 } }",
		 "test.conf:3: allow: '10.0.0.0/33' is neither an address nor ADDRESS/PREFIX, unix "
		 "or "
		 "unix:UID"},
		{"export x {\n allow = { 10.0.0.1/8 } }",
		 "test.conf:2: allow: '10.0.0.1/8' has bits set behind its prefix"},
		{"array x { members = {/a} }\narray x { members = {/b} }",
		 "test.conf:2: found duplicate title 'x'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(parse(bad[i].text), -EINVAL);
		assert_string_equal(why, bad[i].expected);
	}
	assert_int_equal(parse("array x {\n members = {/a\n"), -EINVAL);
	assert_int_equal(strncmp(why, "test.conf:", 10), 0);
}

static void rules_over_the_whole(void **state)
{
	static const struct {
		const char *text, *expected;
	} bad[] = {
		{"array x { }", "array 'x' has no members and no uuid"},
		{"array x { build = linear }", "array 'x' has no members"},
		{"array \"\" { members = {/a} }", "an array has no name"},
		{"export y { }", "export 'y' names the array 'y', which is not there"},
		{"array x { members = {/a} }\nexport y { array = z }",
		 "export 'y' names the array 'z', which is not there"},
		{"array x { members = {/a} }\nexport a { array=x default=yes }\n"
		 "export b { array=x default=yes }",
		 "exports 'a' and 'b' are both the default"},
		{"array x { members = {\"\"} }", "array 'x' has a member without a name"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(parse(bad[i].text), -EINVAL);
		assert_string_equal(why, bad[i].expected);
	}
}

static void names_are_what_the_wire_can_carry(void **state)
{
	char text[6000], name[5000];

	(void)state;
	memset(name, 'n', sizeof name);
	name[4096] = '\0';
	snprintf(text, sizeof text, "array x { members = {/a} }\nexport %s { array = x }", name);
	assert_int_equal(parse(text), 0);
	name[4096] = 'n';
	name[4097] = '\0';
	snprintf(text, sizeof text, "array x { members = {/a} }\nexport %s { array = x }", name);
	assert_int_equal(parse(text), -EINVAL);
	assert_int_equal(parse("array x { members = {/a} }\nexport \"a\xff\" { array = x }"),
			 -EINVAL);
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {{"0", 0},
		    {"512", 512},
		    {"64k", 64 << 10},
		    {"3M", 3 << 20},
		    {"2G", UINT64_C(2) << 30},
		    {"5T", UINT64_C(5) << 40},
		    {"8388607T", UINT64_C(8388607) << 40}};
	static const char *const bad[] = {
		"",    "K",    "-1",	   "+1",   " 1",
		"1KB", "1.5M", "8388608T", "0x10", "99999999999999999999"};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(config_parse_size(good[i].text, &value, why), 0);
		assert_true(value == good[i].value);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(config_parse_size(bad[i], &value, why), -EINVAL);
	}
}

static void unreadable_files(void **state)
{
	(void)state;
	config_release(&c);
	config_init(&c);
	assert_int_equal(config_read(&c, "/nonexistent/nbd-raidd.conf", why), -ENOENT);
	assert_non_null(strstr(why, "/nonexistent/nbd-raidd.conf"));
	assert_int_equal(config_read(&c, "/", why), -EIO);
	assert_int_equal(config_read(&c, "/dev/zero", why), -EINVAL);
}

static int teardown(void **state)
{
	(void)state;
	config_release(&c);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_daemon_and_its_limits),
		cmocka_unit_test(spares_and_resync),
		cmocka_unit_test(arrays_and_exports),
		cmocka_unit_test(what_is_left_out_has_a_default),
		cmocka_unit_test(several_exports_of_one_array),
		cmocka_unit_test(who_may_use_an_export),
		cmocka_unit_test(errors_name_file_line_and_option),
		cmocka_unit_test(rules_over_the_whole),
		cmocka_unit_test(names_are_what_the_wire_can_carry),
		cmocka_unit_test(sizes),
		cmocka_unit_test(unreadable_files),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
