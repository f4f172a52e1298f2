/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: what a hostile peer can put into it, and how much of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/log.h"

static void quote_escapes_everything_unprintable(void **state)
{
	char buf[64];

	(void)state;
	assert_string_equal(log_quote("a\n\"\\\x1b\x80", 6, buf, sizeof buf),
			    "\"a\\x0a\\\"\\\\\\x1b\\x80\"");
	assert_string_equal(log_quote("", 0, buf, sizeof buf), "\"\"");
	assert_string_equal(log_quote("\0", 1, buf, sizeof buf), "\"\\x00\"");
}

static void quote_never_leaves_its_buffer(void **state)
{
	char name[4096], buf[300];

	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		memset(name, byte, sizeof name);
		for (size_t n = 0; n < 80; n++) {
			for (size_t size = 0; size < 40; size++) {
				memset(buf, 'x', sizeof buf);
				log_quote(name, n, buf, size);
				assert_int_equal(buf[size], 'x');
				if (size) {
					assert_non_null(memchr(buf, '\0', size));
				}
			}
		}
	}
}

static void quote_says_that_it_cut(void **state)
{
	char buf[12];

	(void)state;
	assert_string_equal(log_quote("0123456789abcdef", 16, buf, sizeof buf),
			    "\"012345\xe2\x80\xa6\"");
	assert_string_equal(log_quote("0123456", 7, buf, sizeof buf), "\"0123456\"");
}

static void limiter_lets_a_burst_out_then_a_rate(void **state)
{
	struct log_limiter l = {0};
	uint64_t now = 5, dropped = 0;
	unsigned out = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		out += log_limiter_take(&l, now, &dropped);
	}
	assert_int_equal(out, LOG_LIMIT_BURST);
	assert_int_equal(dropped, 0);
	now += UINT64_C(1000000000) / LOG_LIMIT_PER_S;
	assert_true(log_limiter_take(&l, now, &dropped));
	assert_int_equal(dropped, 1000 - LOG_LIMIT_BURST);
	assert_false(log_limiter_take(&l, now, &dropped));
	now += UINT64_C(3600) * 1000000000;
	out = 0;
	for (int i = 0; i < 1000; i++) {
		out += log_limiter_take(&l, now, &dropped);
	}
	assert_int_equal(out, LOG_LIMIT_BURST);
}

/* Run one line with stderr in a pipe and hand back what came out. */
static void captured(char *buf, size_t size, enum log_level level, const char *text)
{
	int fds[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	log_write(level, "%s", text);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	n = read(fds[0], buf, size - 1);
	close(fds[0]);
	assert_true(n >= 0);
	buf[n] = '\0';
}

static void one_call_is_one_line(void **state)
{
	char buf[4096], text[4000];

	(void)state;
	captured(buf, sizeof buf, LOG_LEVEL_ERROR, "a\nb\x7f");
	assert_string_equal(buf, "error: a?b?\n");
	memset(text, 'y', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	captured(buf, sizeof buf, LOG_LEVEL_INFO, text);
	assert_int_equal(strcspn(buf, "\n"), strlen(buf) - 1);
	assert_true(strlen(buf) > 1000);
}

static void level_filters(void **state)
{
	char buf[256];
	enum log_level level;

	(void)state;
	assert_true(log_level_parse("warning", &level));
	assert_int_equal(level, LOG_LEVEL_WARNING);
	assert_false(log_level_parse("loud", &level));
	log_init(LOG_LEVEL_WARNING);
	captured(buf, sizeof buf, LOG_LEVEL_INFO, "quiet");
	assert_string_equal(buf, "");
	captured(buf, sizeof buf, LOG_LEVEL_WARNING, "heard");
	assert_string_equal(buf, "warning: heard\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quote_escapes_everything_unprintable),
		cmocka_unit_test(quote_never_leaves_its_buffer),
		cmocka_unit_test(quote_says_that_it_cut),
		cmocka_unit_test(limiter_lets_a_burst_out_then_a_rate),
		cmocka_unit_test(one_call_is_one_line),
		cmocka_unit_test(level_filters),
	};

	unsetenv("JOURNAL_STREAM");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
