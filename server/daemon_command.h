/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be done to an array while it runs: its members and spares, checks and repairs, the
 * bitmap. Each command may be repeated: what is so already is done, with a note.
 *
 * A device that is added is opened, locked and looked at in a job's thread, then given to the
 * engine, which says what becomes of it (DESIGN rule 9). From then on it has a place in the array
 * instance. It is closed after the engine has let go of it: when it was removed, or refused.
 *
 * All functions return 0: done() will come; or -errno with why filled: done() does not come.
 */
#ifndef SERVER_DAEMON_COMMAND_H
#define SERVER_DAEMON_COMMAND_H

#include "server/daemon_arrays.h"

struct command_add {
	bool readd_only; /* only back to the slot that it held */
	bool force;	 /* also if it carries something else, which is lost then */
	bool write_mostly, failfast;
};

int command_add(struct daemon *d, struct served *s, const char *path, const struct command_add *opt,
		arrays_done done, void *ctx, char why[RAID_WHY_BYTES]);

/* FAIL, REMOVE, REPLACE of a member by its path; with: REPLACE only, NULL: any spare. */
int command_member(struct daemon *d, struct served *s, enum raid_cmd_op op, const char *path,
		   const char *with, arrays_done done, void *ctx, char why[RAID_WHY_BYTES]);

/* SYNC, SYNC_SPEED, BITMAP_ADD, BITMAP_REMOVE as cmd says. */
int command_array(struct daemon *d, struct served *s, const struct raid_cmd *cmd, arrays_done done,
		  void *ctx, char why[RAID_WHY_BYTES]);

/*
 * Move a spare, by its place, from one array to another, locked all the way: while it is in neither
 * nobody else can take it. If the other does not want it, it goes back.
 */
int command_move(struct daemon *d, struct served *from, uint32_t place, struct served *to,
		 arrays_done done, void *ctx, char why[RAID_WHY_BYTES]);

#endif
