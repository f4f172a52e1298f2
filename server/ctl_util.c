/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, sizes and times of nbd-raidctl. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ctl_common.h"

int ctl_refused(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("refused: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return CTL_REFUSED;
}

int ctl_usage(const char *command, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "nbd-raidctl%s%s: ", command ? " " : "", command ? command : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (nbd-raidctl --help)\n", stderr);
	return CTL_USAGE;
}

int ctl_bad_option(const char *command, char **argv)
{
	return ctl_usage(command, "\"%s\" is no option here, or its value is missing or too much",
			 argv[optind - 1]);
}

void ctl_print_json(json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
	json_decref(value);
}

const char *ctl_clean_text(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	for (; *text && n + 1 < size; text++) {
		buf[n++] = (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text;
	}
	buf[n] = '\0';
	return buf;
}

json_t *ctl_json_text(const char *text)
{
	json_t *value = json_string(text);
	char *ascii, *p;

	if (value) {
		return value;
	}
	ascii = strdup(text); /* not UTF-8 */
	for (p = ascii; p && *p; p++) {
		if ((unsigned char)*p >= 0x80) {
			*p = '?';
		}
	}
	value = json_string(ascii ? ascii : "");
	free(ascii);
	return value;
}

int ctl_parse_size(const char *text, uint64_t *bytes)
{
	static const struct {
		char suffix;
		unsigned int shift;
	} units[] = {{'\0', 10}, {'s', 9},  {'K', 10}, {'k', 10}, {'M', 20},
		     {'m', 20},	 {'G', 30}, {'g', 30}, {'T', 40}, {'t', 40}};
	unsigned long long n;
	char *end;

	if (*text < '0' || *text > '9') {
		return -EINVAL;
	}
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || (*end && end[1])) {
		return -EINVAL;
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (*end == units[i].suffix && n <= UINT64_MAX >> units[i].shift) {
			*bytes = (uint64_t)n << units[i].shift;
			return 0;
		}
	}
	return -EINVAL;
}

/* bytes in hundredths of a unit, rounded. */
static void hundredths(uint64_t bytes, uint64_t unit, uint64_t *whole, unsigned int *part)
{
	uint64_t h = (uint64_t)(((unsigned __int128)bytes * 200 / unit + 1) / 2);

	*whole = h / 100;
	*part = (unsigned int)(h % 100);
}

#define SIZE_NOTE_MIN (5000ull << 10)
#define SIZE_GIB_MIN  (2ull << 30)
#define SIZE_TIB_MIN  (2ull << 40)

static char size_prefix(uint64_t bytes, uint64_t *binary, uint64_t *decimal)
{
	if (bytes < SIZE_GIB_MIN) {
		*binary = 1ull << 20;
		*decimal = 1000000;
		return 'M';
	}
	if (bytes < SIZE_TIB_MIN) {
		*binary = 1ull << 30;
		*decimal = 1000000000;
		return 'G';
	}
	*binary = 1ull << 40;
	*decimal = 1000000000000;
	return 'T';
}

const char *ctl_size_note(uint64_t bytes, char buf[64])
{
	uint64_t binary, decimal, bw, dw;
	unsigned int bp, dp;
	char prefix = size_prefix(bytes, &binary, &decimal);

	buf[0] = '\0';
	if (bytes < SIZE_NOTE_MIN) {
		return buf;
	}
	hundredths(bytes, binary, &bw, &bp);
	hundredths(bytes, decimal, &dw, &dp);
	snprintf(buf, 64, " (%llu.%02u %ciB %llu.%02u %cB)", (unsigned long long)bw, bp, prefix,
		 (unsigned long long)dw, dp, prefix);
	return buf;
}

const char *ctl_size_brief(uint64_t bytes, char buf[32])
{
	uint64_t binary, decimal, whole;
	unsigned int part;
	char prefix = size_prefix(bytes, &binary, &decimal);

	buf[0] = '\0';
	if (bytes < SIZE_NOTE_MIN) {
		return buf;
	}
	hundredths(bytes, decimal, &whole, &part);
	snprintf(buf, 32, "%llu.%02u%cB", (unsigned long long)whole, part, prefix);
	return buf;
}

const char *ctl_time_text(uint64_t seconds, char buf[64])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(buf, 64, "%a %b %e %H:%M:%S %Y", &tm)) {
		snprintf(buf, 64, "%llu", (unsigned long long)seconds);
	}
	return buf;
}

void ctl_field(const char *label, const char *fmt, ...)
{
	va_list ap;

	printf("%15s : ", label);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void ctl_print_array_line(const uint8_t uuid[16])
{
	char text[37];

	printf("ARRAY <ignore> UUID=%s\n", sb_uuid_text(uuid, text));
}

const char *ctl_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "-";
}

unsigned long long ctl_number(const json_t *o, const char *key)
{
	return (unsigned long long)json_integer_value(json_object_get(o, key));
}

bool ctl_truth(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

bool ctl_is_meant(const json_t *array, char *const *names)
{
	if (!names[0]) {
		return true;
	}
	for (; *names; names++) {
		if (!strcmp(ctl_text(array, "name"), *names)) {
			return true;
		}
	}
	return false;
}
