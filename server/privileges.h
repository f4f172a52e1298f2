/* SPDX-License-Identifier: BSD-3-Clause */
/* Giving up root once everything is open. */
#ifndef SERVER_PRIVILEGES_H
#define SERVER_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "raid/types.h"

struct privileges {
	bool change; /* anything to do */
	char *name;  /* of the user, for its groups; NULL: no supplementary groups */
	uid_t uid;
	gid_t gid;
};

/*
 * Look the names (or numbers; NULL: unchanged, the user's own group) up. 0 or -errno with the
 * reason in why: unknown, or we are not root and cannot change.
 */
int privileges_resolve(const char *user, const char *group, struct privileges *out,
		       char why[RAID_WHY_BYTES]);
void privileges_release(struct privileges *p);

/*
 * All threads of the process become that user, for good and without capabilities. What is open
 * stays usable. 0 or -errno: then the process must not go on.
 */
int privileges_drop(const struct privileges *p, char why[RAID_WHY_BYTES]);

#endif
