/* SPDX-License-Identifier: BSD-3-Clause */
/* Well-formed UTF-8 by the table of RFC 3629 section 4; independent of the locale. */
#include "server/utf8.h"

#include <stdint.h>

/* The lead byte decides the length and the range of the second byte; further bytes are 80..BF. */
static const struct lead {
	uint8_t first, last;
	uint8_t length;
	uint8_t second_min, second_max;
} leads[] = {
	{0x01, 0x7f, 1, 0, 0},	     {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
	{0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
	{0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct lead *lead_of(uint8_t byte)
{
	for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
		if (byte >= leads[i].first && byte <= leads[i].last) {
			return &leads[i];
		}
	}
	return NULL;
}

bool utf8_valid(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n;) {
		const struct lead *lead = lead_of(p[i]);

		if (!lead || lead->length > n - i) {
			return false;
		}
		if (lead->length > 1 &&
		    (p[i + 1] < lead->second_min || p[i + 1] > lead->second_max)) {
			return false;
		}
		for (size_t k = 2; k < lead->length; k++) {
			if (p[i + k] < 0x80 || p[i + k] > 0xbf) {
				return false;
			}
		}
		i += lead->length;
	}
	return true;
}
