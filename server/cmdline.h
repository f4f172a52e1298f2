/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's command line: words in, a configuration and how to run out. Prints nothing itself
 * and opens nothing but the configuration file. */
#ifndef SERVER_CMDLINE_H
#define SERVER_CMDLINE_H

#include <stdbool.h>
#include <stdio.h>

#include "raid/types.h"
#include "server/config.h"

enum cmdline_result {
	CMDLINE_RUN,
	CMDLINE_HELP,
	CMDLINE_VERSION,
	CMDLINE_USAGE,	 /* the words make no sense: status 2, why says what */
	CMDLINE_REFUSED, /* the configuration file is wrong: status 1 */
};

struct cmdline {
	struct config config; /* finished */
	bool foreground;
	bool check;  /* show what would be served, start nothing */
	bool single; /* -s: one session on stdin and stdout */
	bool exit_with_parent;
	const char *run; /* the captive command, or NULL */
};

/* Always leaves *out in a state for cmdline_release(); argv is kept. */
enum cmdline_result cmdline_parse(struct cmdline *out, int argc, char **argv,
				  char why[RAID_WHY_BYTES]);
void cmdline_release(struct cmdline *c);

void cmdline_usage(FILE *to);

#endif
