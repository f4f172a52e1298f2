/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arrays that the daemon serves, and what can be done to one while it runs. Commands that wait
 * for devices or for the engine run as jobs; their outcome comes to a callback, exactly once, on
 * the event base's thread.
 *
 *   RUNNING  -> BUSY      a command works on it
 *   BUSY     -> RUNNING   it has ended
 *   RUNNING  -> STOPPING  its exports are gone, its sessions end, the engine finishes
 *   STOPPING -> CLOSING   it is taken off its loop and closed, then forgotten
 *
 * In all but CLOSING the loop answers for it.
 */
#ifndef SERVER_DAEMON_ARRAYS_H
#define SERVER_DAEMON_ARRAYS_H

#include <stdint.h>

#include "server/config.h"
#include "server/export.h"
#include "server/exports.h"

struct daemon;

enum served_state { SERVED_RUNNING, SERVED_BUSY, SERVED_STOPPING, SERVED_CLOSING };

struct served {
	struct array_instance *ai;
	enum served_state state;
	struct export_table leaving; /* STOPPING: its exports, until its sessions have ended */
};

struct array_set {
	struct served **item;
	uint32_t count;
	uint32_t starting; /* run-time starts under way */
};

/* err 0, or -errno with a reason. */
typedef void (*arrays_done)(void *ctx, int err, const char *why);

/* At the start: open and decide. Nothing is written. */
int arrays_open(struct array_set *set, const struct config *config, char why[RAID_WHY_BYTES]);

/* Give every array to its loop and make the exports. */
int arrays_attach(struct daemon *d, char why[RAID_WHY_BYTES]);

/* Close what never ran. */
void arrays_release(struct array_set *set);

/* Say which members the arrays that do not stop are waiting for. False: all have stopped, and only
 * failed members still hold requests. */
bool arrays_log_hung(const struct array_set *set);

struct served *arrays_find(const struct array_set *set, const char *name);

/*
 * Commands. 0: done() will come; else -errno with why filled and done() does not come. start()
 * takes over what a holds.
 */
int arrays_start(struct daemon *d, struct config_array *a, arrays_done done, void *ctx,
		 char why[RAID_WHY_BYTES]);
int arrays_stop(struct daemon *d, struct served *s, arrays_done done, void *ctx,
		char why[RAID_WHY_BYTES]);
int arrays_fail(struct daemon *d, struct served *s, const char *member, arrays_done done, void *ctx,
		char why[RAID_WHY_BYTES]);

#endif
