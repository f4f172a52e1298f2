/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The captive command of --run: it gets a private unix socket in a folder of its own, runs for as
 * long as it likes, and its end is the daemon's.
 */
#ifndef SERVER_CAPTIVE_H
#define SERVER_CAPTIVE_H

#include <stdbool.h>
#include <sys/types.h>

#include "raid/types.h"

struct captive {
	char *folder; /* 0700, temporary */
	char *socket; /* path in it */
	pid_t pid;    /* 0: not running */
};

/* Make the folder. 0 or -errno with the reason in why. */
int captive_prepare(struct captive *c, char why[RAID_WHY_BYTES]);

/* Give the folder and the bound socket to the user that the command will run as. 0 or -errno. */
int captive_give(const struct captive *c, uid_t uid, gid_t gid, char why[RAID_WHY_BYTES]);

/*
 * Run command by /bin/sh with $uri, $unixsocket, $nbd and $exportname set. It is killed with us,
 * whatever ends us.
 */
int captive_start(struct captive *c, const char *command, const char *uri, const char *export_name,
		  char why[RAID_WHY_BYTES]);

/* After SIGCHLD: true if it has ended, with the exit status a shell would give. */
bool captive_reap(struct captive *c, int *status);

/* Ask it to go, if it runs. */
void captive_terminate(const struct captive *c);

/* Kill it if it still runs; remove the folder (the socket in it is gone by then). */
void captive_release(struct captive *c);

#endif
