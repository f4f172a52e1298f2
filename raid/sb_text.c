/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a superblock is shown to or typed by people: names of features, uuids. */
#include "raid/sb.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *sb_version_name(enum sb_version version)
{
	switch (version) {
	case SB_V1_0:
		return "1.0";
	case SB_V1_1:
		return "1.1";
	case SB_V1_2:
		return "1.2";
	case SB_V0_90:
		return "0.90";
	}
	return "unknown";
}

const char *sb_feature_name(uint32_t mask)
{
	static const char *const names[] = {
		"bitmap",	"recovery-offset",   "reshape",	   "bad-blocks",
		"replacement",	"reshape-backwards", "new-offset", "recovery-bitmap",
		"clustered",	"journal",	     "ppl",	   "multiple-ppls",
		"raid0-layout",
	};
	uint32_t bit;

	if (!mask) {
		return "none";
	}
	bit = (uint32_t)__builtin_ctz(mask);
	return bit < sizeof names / sizeof names[0] ? names[bit] : "unknown";
}

const char *sb_uuid_text(const uint8_t uuid[16], char buf[37])
{
	static const char hex[] = "0123456789abcdef";
	char *p = buf;
	uint32_t i;

	for (i = 0; i < 16; i++) {
		if (i && i % 4 == 0) {
			*p++ = ':';
		}
		*p++ = hex[uuid[i] >> 4];
		*p++ = hex[uuid[i] & 15];
	}
	*p = '\0';
	return buf;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	if (c >= 'a' && c <= 'f') {
		return c - 'a' + 10;
	}
	if (c >= 'A' && c <= 'F') {
		return c - 'A' + 10;
	}
	return -1;
}

int sb_uuid_parse(const char *text, uint8_t uuid[16])
{
	static const char *const forms[] = {
		"xxxxxxxx:xxxxxxxx:xxxxxxxx:xxxxxxxx",
		"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
	};
	uint8_t parsed[16] = {0};
	uint32_t f, i, digits;

	for (f = 0; f < sizeof forms / sizeof forms[0]; f++) {
		const char *form = forms[f];

		if (strlen(text) != strlen(form)) {
			continue;
		}
		for (i = 0, digits = 0; form[i]; i++) {
			int d = hex_digit(text[i]);

			if (form[i] != 'x') {
				if (text[i] != form[i]) {
					break;
				}
				continue;
			}
			if (d < 0) {
				break;
			}
			parsed[digits / 2] = (uint8_t)(parsed[digits / 2] << 4 | d);
			digits++;
		}
		if (!form[i]) {
			memcpy(uuid, parsed, sizeof parsed);
			return 0;
		}
	}
	return -EINVAL;
}
