/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: what every option becomes, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/cmdline.h"

static struct cmdline c;
static char why[RAID_WHY_BYTES];

/* Words separated by one space. */
static enum cmdline_result parse(const char *words)
{
	static char text[4096];
	char *argv[64], *rest = text;
	int argc = 0;

	cmdline_release(&c);
	snprintf(text, sizeof text, "nbd-raidd %s", words);
	while (rest) {
		argv[argc++] = strsep(&rest, " ");
	}
	argv[argc] = NULL;
	return cmdline_parse(&c, argc, argv, why);
}

static void arrays_and_their_members(void **state)
{
	(void)state;
	assert_int_equal(parse("--array data:/a,/b --member /c,d --array x:/e --listen :1"),
			 CMDLINE_RUN);
	assert_int_equal(c.config.arrays, 2);
	assert_string_equal(c.config.array[0].name, "data");
	assert_int_equal(c.config.array[0].members, 3);
	assert_string_equal(c.config.array[0].member[1], "/b");
	assert_string_equal(c.config.array[0].member[2], "/c,d");
	assert_string_equal(c.config.array[1].member[0], "/e");
	assert_int_equal(c.config.exports, 2);
	assert_string_equal(c.config.export[1].name, "x");
	assert_string_equal(c.config.export[1].array, "x");
	assert_int_equal(c.config.listens, 1);
	assert_null(c.config.control);
	assert_false(c.config.array[0].build);
}

static void build_takes_a_shape(void **state)
{
	const struct config_array *a;

	(void)state;
	assert_int_equal(parse("--build x:raid10,n2,128K,1M:/a,/b"), CMDLINE_RUN);
	a = &c.config.array[0];
	assert_true(a->build);
	assert_int_equal(a->level, RAID_LEVEL_10);
	assert_true(a->have_layout);
	assert_int_equal(a->layout, 0x102);
	assert_int_equal(a->chunk_bytes, 128 << 10);
	assert_int_equal(a->offset_bytes, 1 << 20);
	assert_int_equal(a->members, 2);

	assert_int_equal(parse("--build x:0,,64K:/a --member /b:c"), CMDLINE_RUN);
	a = &c.config.array[0];
	assert_int_equal(a->level, RAID_LEVEL_0);
	assert_false(a->have_layout);
	assert_int_equal(a->chunk_bytes, 64 << 10);
	assert_string_equal(a->member[1], "/b:c");

	/* The file as an argument of its own: how other test suites start servers. */
	assert_int_equal(parse("--build x:raid0 --member /a:b,c"), CMDLINE_RUN);
	assert_string_equal(c.config.array[0].member[0], "/a:b,c");

	/* What follows the second colon is the members', colons included. */
	assert_int_equal(parse("--build x:linear:/dev/disk/by-path/pci-0:1"), CMDLINE_RUN);
	assert_string_equal(c.config.array[0].member[0], "/dev/disk/by-path/pci-0:1");
}

static void flags_hold_for_all_arrays(void **state)
{
	(void)state;
	assert_int_equal(parse("--array x:/a --readonly --array y:/b --force --direct=off "
			       "--volatile --raid0-layout=original"),
			 CMDLINE_RUN);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(c.config.array[i].read_only);
		assert_true(c.config.array[i].force);
		assert_true(c.config.array[i].volatile_cache);
		assert_int_equal(c.config.array[i].direct, DEVICE_DIRECT_OFF);
		assert_int_equal(c.config.array[i].raid0_layout, GEO_RAID0_ORIGINAL);
	}
}

static void the_other_options(void **state)
{
	(void)state;
	assert_int_equal(
		parse("-f --check --array x:/a --listen 0.0.0.0:1 --listen unix:/s "
		      "--loops 4 --pid-file /p --control /c --metrics :9 --log-level debug "
		      "--safe-mode-ms 7 --drain-ms 0 --exit-with-parent -u nobody --group=9"),
		CMDLINE_RUN);
	assert_true(c.foreground);
	assert_true(c.check);
	assert_true(c.exit_with_parent);
	assert_int_equal(c.config.listens, 2);
	assert_string_equal(c.config.listen[1], "unix:/s");
	assert_int_equal(c.config.loops, 4);
	assert_string_equal(c.config.pid_file, "/p");
	assert_string_equal(c.config.control, "/c");
	assert_string_equal(c.config.user, "nobody");
	assert_string_equal(c.config.group, "9");
	assert_string_equal(c.config.metrics, ":9");
	assert_int_equal(c.config.log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(c.config.limits.raid.safe_mode_ms, 7);
	assert_int_equal(c.config.limits.drain_ms, 0);
	assert_int_equal(parse("-s --array x:/a --control none"), CMDLINE_RUN);
	assert_true(c.single);
	assert_null(c.config.control);
	assert_int_equal(c.config.log_level, LOG_LEVEL_WARNING);
	assert_int_equal(parse("--array x:/a --run true"), CMDLINE_RUN);
	assert_string_equal(c.run, "true");
	assert_int_equal(parse("--help"), CMDLINE_HELP);
	assert_int_equal(parse("-V"), CMDLINE_VERSION);
}

static void nonsense_is_a_usage_error(void **state)
{
	static const char *const bad[] = {
		"",
		"--frobnicate",
		"-q",
		"--array",
		"--array x:/a stray",
		"--readonly=yes --array x:/a",
		"--array x:",
		"--array :/a",
		"--array x:/a --array x:/b",
		"--member /a",
		"--build x:raid7:/a",
		"--build x:0,nonsense:/a",
		"--build x:0,,64Q:/a",
		"--build x:0,,64K,0,9:/a",
		"--array x:/a --direct=maybe",
		"--array x:/a --loops=0",
		"--array x:/a --loops=65",
		"--array x:/a --loops=1x",
		"--array x:/a --loops=-1",
		"--array x:/a --log-level=loud",
		"--array x:/a -s --run true",
		"--array x:/a -s --listen :1",
		"--array x:/a --run true --listen :1",
		"-c /nonexistent --array x:/a",
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(parse(bad[i]), CMDLINE_USAGE);
		assert_true(why[0]);
		assert_null(strchr(why, '\n'));
	}
	parse("--array x:/a --loops=99");
	assert_string_equal(why, "'99' is not a number from 1 to 64");
}

static void options_win_over_the_file(void **state)
{
	char path[] = "/tmp/test_cmdline.XXXXXX", words[200];
	static const char text[] = "loops = 2\ncontrol = /from/file\nlisten = {\":1\", \":2\"}\n"
				   "array x { members = {/a} }\n";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	close(fd);
	snprintf(words, sizeof words, "-c %s", path);
	assert_int_equal(parse(words), CMDLINE_RUN);
	assert_int_equal(c.config.loops, 2);
	assert_int_equal(c.config.listens, 2);
	assert_string_equal(c.config.control, "/from/file");
	snprintf(words, sizeof words, "-c %s --loops 3 --listen :3 --control none --readonly",
		 path);
	assert_int_equal(parse(words), CMDLINE_RUN);
	assert_int_equal(c.config.loops, 3);
	assert_int_equal(c.config.listens, 1);
	assert_string_equal(c.config.listen[0], ":3");
	assert_null(c.config.control);
	assert_true(c.config.array[0].read_only);
	unlink(path);
	assert_int_equal(parse(words), CMDLINE_REFUSED);
	assert_non_null(strstr(why, path));
}

static void every_option_is_in_the_help(void **state)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	cmdline_usage(f);
	fclose(f);
	assert_non_null(strstr(text, "--array=NAME:MEMBER"));
	assert_non_null(strstr(text, "--exit-with-parent"));
	assert_non_null(strstr(text, "-c, --config=FILE"));
	free(text);
}

static int teardown(void **state)
{
	(void)state;
	cmdline_release(&c);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_and_their_members),
		cmocka_unit_test(build_takes_a_shape),
		cmocka_unit_test(flags_hold_for_all_arrays),
		cmocka_unit_test(the_other_options),
		cmocka_unit_test(nonsense_is_a_usage_error),
		cmocka_unit_test(options_win_over_the_file),
		cmocka_unit_test(every_option_is_in_the_help),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
