/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data-plane loop: one thread, one ring (DESIGN §5). It owns the arrays and sessions given to it.
 * The control plane talks to it with the calls below; they are safe from another thread and never
 * wait for disk or network unless they say so.
 */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/raid.h"

struct loop;
struct handoff;
struct array_instance;
struct member_dev;

struct loop_config {
	uint32_t index; /* 0..loops-1 */
	uint32_t loops;
	uint64_t payload_bytes; /* WRITE payload slots of this loop (default 64 MiB) */
	uint64_t large_bytes; /* budget of replies that must be complete before they leave (128 MiB)
			       */
	uint32_t depth_max;   /* requests in flight of one session */
	/* While a session that holds nothing finds no room for this long, sessions that hold
	 * buffers and have not moved for as long are cut. 0: 30 s. */
	uint32_t stall_ms;
	/* Called on the loop's thread for every session that ended, and for every engine event.
	 * Both must be quick and thread-safe: the control plane logs, counts, and wakes its event
	 * base. */
	void (*on_session_end)(void *ctx, uint64_t session, const char *why);
	void (*on_raid_event)(void *ctx, const struct array_instance *ai,
			      const struct raid_event *ev);
	void *ctx;
};

/* 0 or -errno; -EPERM/-ENOSYS: the system has no io_uring for us, why says it in one line. */
int loop_create(const struct loop_config *config, struct loop **out, char why[RAID_WHY_BYTES]);

/* Before loop_start: the loop takes over an array (creates the engine's instance from
 * ai->assembly). */
int loop_add_array(struct loop *l, struct array_instance *ai, const struct raid_limits *limits,
		   char why[RAID_WHY_BYTES]);

/* loops[] in index order, so that sessions can reach arrays of other loops. */
int loop_start(struct loop *l, struct loop **loops, char why[RAID_WHY_BYTES]);

/* Any thread. Ownership of h's descriptors and bytes passes to the loop. */
void loop_handoff(struct loop *l, const struct handoff *h);

/* Any thread; blocks until the owning loop has filled *out. */
void loop_array_status(struct array_instance *ai, struct raid_status *out);

/* Any thread; blocks until the engine has finished the command. cmd->res is the result. */
void loop_array_control(struct array_instance *ai, struct raid_cmd *cmd);

/*
 * RAID_CMD_ADD in two halves, so that the caller knows the device's place before any event names
 * it: loop_array_add() returns when the engine has taken the command in, loop_add_wait() blocks
 * until it has finished it, and frees. dev stays open as long as the place is its: until cmd->res
 * is an error and cmd->member is not the place, or a REMOVE of it has ended. NULL: no memory,
 * nothing is done.
 */
struct loop_add;
struct loop_add *loop_array_add(struct array_instance *ai, struct raid_cmd *cmd,
				const struct member_dev *dev);
uint32_t loop_add_place(const struct loop_add *add); /* UINT32_MAX: none */
void loop_add_wait(struct loop_add *add);

/* raid_check() on the owning loop; NULL or what is broken. */
const char *loop_array_check(struct array_instance *ai);

/*
 * Orderly end, any thread: sessions take no new requests and end when theirs are answered, those
 * still alive after drain_ms are cut; then returns. Arrays are not stopped: use
 * loop_array_control(STOP) after all loops have drained. loop_hurry() makes a running drain cut
 * sessions at once.
 */
void loop_drain(struct loop *l, uint32_t drain_ms);
void loop_hurry(struct loop *l);

/* The same for the sessions of one array on this loop. */
void loop_drain_array(struct loop *l, const struct array_instance *ai, uint32_t drain_ms);

/* Any thread, after drain and STOP: the loop destroys the engine's instance (ai->raid becomes
 * NULL). */
void loop_remove_array(struct array_instance *ai);

/* End the thread, free everything. */
void loop_destroy(struct loop *l);

struct loop_stats {
	uint64_t sessions, sessions_total, requests, read_bytes, write_bytes, errors;
	uint64_t payload_bytes_used, large_bytes_used;
};
void loop_get_stats(const struct loop *l, struct loop_stats *out);

#endif
