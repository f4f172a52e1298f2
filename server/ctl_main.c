/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-raidctl: finds the command and calls it. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/ctl_common.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *arguments, *what;
};

static const struct command commands[] = {
	{"create", ctl_create, "--level=LEVEL [OPTION...] MEMBER|missing ...",
	 "lay out a new array on its members"},
	{"examine", ctl_examine, "[--json|--export] MEMBER...",
	 "show what the superblocks of members say"},
	{"assemble", ctl_assemble, "[--uuid=UUID] [--readonly] [--force] MEMBER...",
	 "check that members form an array; ask a daemon to serve it"},
	{"status", ctl_status, "[--test] [--json] [--detail] [ARRAY]",
	 "show the arrays a daemon serves"},
	{"stop", ctl_stop, "ARRAY|--all", "stop an array, or the daemon"},
	{"add", ctl_add, "[--force] [--write-mostly] [--failfast] ARRAY DEVICE...",
	 "give devices to an array: members that come back, or spares"},
	{"re-add", ctl_readd, "ARRAY DEVICE...", "take back members that were away"},
	{"fail", ctl_fail, "ARRAY MEMBER...", "take members out of use"},
	{"remove", ctl_remove, "ARRAY MEMBER...|failed", "let go of failed members or spares"},
	{"replace", ctl_replace, "[--with=SPARE] ARRAY MEMBER",
	 "copy a member to a spare while it serves, then use the spare"},
	{"check", ctl_check, "[--wait] ARRAY", "compare copies and parity"},
	{"repair", ctl_repair, "[--wait] ARRAY", "… and make good what differs"},
	{"idle", ctl_idle, "ARRAY", "end a check or repair"},
	{"sync-speed", ctl_sync_speed, "[--min=SIZE] [--max=SIZE] ARRAY",
	 "limit how fast a resync, rebuild or check goes"},
	{"bitmap", ctl_set_bitmap, "add|remove [--chunk=SIZE] ARRAY",
	 "keep a write-intent bitmap, or no more"},
	{"wait", ctl_wait, "[ARRAY...]", "wait until no resync, rebuild or check runs"},
	{"monitor", ctl_monitor, "[--json] [--program=PROGRAM] [--oneshot] [--test] [ARRAY...]",
	 "tell what happens to arrays, under mdadm's names"},
	{"self-check", ctl_self_check, "[ARRAY]", "verify the invariants of running arrays"},
	{"claim", ctl_claim, "[--config=FILE] UUID|MEMBER ...",
	 "keep the kernel's mdadm from taking an array"},
	{"zero-superblock", ctl_zero_superblock, "MEMBER...", "erase the superblocks of members"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static bool asks_for_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Of one command, or of all. */
static void help(FILE *to, const char *name)
{
	fprintf(to, "usage: nbd-raidctl COMMAND [OPTION...] [ARGUMENT...]\n\n");
	for (int i = 0; i < COMMANDS; i++) {
		if (!name || !strcmp(name, commands[i].name)) {
			fprintf(to, "  %s %s\n      %s\n", commands[i].name, commands[i].arguments,
				commands[i].what);
		}
	}
	fprintf(to, "\nnbd-raidctl(8) describes them all.\n");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		help(stderr, NULL);
		return CTL_USAGE;
	}
	if (asks_for_help(argv[1]) || !strcmp(argv[1], "help")) {
		help(stdout, NULL);
		return CTL_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("nbd-raidctl %s\n", NBD_RAIDD_VERSION);
		return CTL_OK;
	}
	for (int i = 0; i < COMMANDS; i++) {
		if (!strcmp(argv[1], commands[i].name)) {
			if (argc == 3 && asks_for_help(argv[2])) {
				help(stdout, argv[1]);
				return CTL_OK;
			}
			return commands[i].run(argc - 1, argv + 1);
		}
	}
	return ctl_usage(NULL, "there is no command \"%s\"", argv[1]);
}
