/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arrays that the daemon serves, from opening to closing. Commands that wait for devices or for
 * the engine run as jobs; their outcome comes to a callback, exactly once, on the event base's
 * thread. What can be done to an array while it runs is daemon_command's.
 *
 *   RUNNING  -> STOPPING  its exports are gone, its sessions end, commands on it end, the engine
 *                         finishes
 *   STOPPING -> CLOSING   it is taken off its loop and closed, then forgotten
 *
 * In all but CLOSING the loop answers for it. Any number of commands may be under way while it is
 * RUNNING: the engine says which of them exclude each other.
 */
#ifndef SERVER_DAEMON_ARRAYS_H
#define SERVER_DAEMON_ARRAYS_H

#include <stdint.h>

#include "server/config.h"
#include "server/export.h"
#include "server/exports.h"

struct daemon;
struct stop;

enum served_state { SERVED_RUNNING, SERVED_STOPPING, SERVED_CLOSING };

enum { SERVED_MISMATCHES_MAX = 256 };

/* Where copies or parity differed. */
struct mismatch {
	uint64_t at, len; /* bytes of the component; level 10: of the array */
	uint32_t member;  /* the wrong one, where redundancy tells; else UINT32_MAX */
};

struct served {
	struct array_instance *ai;
	enum served_state state;
	uint32_t commands; /* under way: it does not stop before they end */
	struct stop *stop; /* STOPPING: waits for them */
	const struct config_array *config;
	struct config_array *owned;  /* config, if it was started at run time */
	struct export_table leaving; /* STOPPING: its exports, until its sessions have ended */

	/* What its events have told so far. */
	enum raid_member_state seen[RAID_MEMBERS_MAX];
	struct mismatch mismatch[SERVED_MISMATCHES_MAX]; /* of the last check or repair */
	uint32_t mismatches;
	uint64_t mismatches_unlisted; /* beyond the end of the list */
	uint64_t refused_bytes;	      /* spares of other arrays up to this size did not suit it */
};

struct array_set {
	struct served **item;
	uint32_t count;
	uint32_t starting; /* run-time starts under way */
};

/* err 0, why empty or a note; or -errno with a reason. */
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

/* The one that has this instance. */
struct served *arrays_of(const struct array_set *set, const struct array_instance *ai);

/*
 * A command begins: -EBUSY if the array is about to stop. Between served_begin() and served_end()
 * it neither stops nor goes away.
 */
int served_begin(struct served *s, char why[RAID_WHY_BYTES]);
void served_end(struct daemon *d, struct served *s);

/*
 * 0: done() will come; else -errno with why filled and done() does not come. start() takes over
 * what a holds.
 */
int arrays_start(struct daemon *d, struct config_array *a, arrays_done done, void *ctx,
		 char why[RAID_WHY_BYTES]);
int arrays_stop(struct daemon *d, struct served *s, arrays_done done, void *ctx,
		char why[RAID_WHY_BYTES]);

#endif
