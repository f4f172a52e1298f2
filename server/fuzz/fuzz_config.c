/* SPDX-License-Identifier: BSD-3-Clause */
/* Arbitrary text as a configuration file: parsed or refused with a reason, never anything else. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/check.h"
#include "server/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), why[RAID_WHY_BYTES];
	struct config c;

	CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	config_init(&c);
	if (config_parse(&c, "fuzz.conf", text, why) || config_finish(&c, why)) {
		CHECK(why[0] && memchr(why, '\0', sizeof why));
	} else {
		CHECK(c.exports >= c.arrays && c.loops >= 1);
	}
	config_release(&c);
	free(text);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	static const char *const texts[] = {
		"listen = { \"127.0.0.1:10809\", \"unix:/run/nbd.sock\" }\nsocket-mode = 0600\n"
		"loops = 4\nlist = no\ncontrol = /run/ctl\nlog-level = debug\n",
		"limits {\n connections = 10 handshake-ms = 500 depth = 32 payload-bytes = 8M\n"
		" buffer-bytes = 4M read-errors-window-s = 5\n}\n",
		"array \"data\" {\n members = { \"/dev/sdb\", \"/dev/sdc\" }\n"
		" uuid = 00112233:44556677:8899aabb:ccddeeff\n direct = off volatile = 1\n}\n"
		"export data { read-only = true default = yes description = \"text\" }\n",
		"array raw { build = raid10 layout = f2 chunk = 64K offset = 1M members = {/a, /b} "
		"}",
		"# comment\n/* another */ // third\narray x { members += {'/a'} }\n",
	};
	size_t len;

	if (i >= sizeof texts / sizeof texts[0]) {
		return 0;
	}
	len = strlen(texts[i]);
	CHECK(len <= size);
	memcpy(buf, texts[i], len);
	return len;
}
