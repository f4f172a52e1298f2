/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every 512-byte sector of the array may contain.
 *
 * A sector is a list of versions in the order in which their writes were submitted (rule 7). What a
 * client may see follows from four facts about a version:
 *
 *   in flight    its write has been submitted and has not been answered
 *   acked        answered with success: every older version is gone for reads submitted later
 *   durable      acked, and a FLUSH submitted after the ack has succeeded, or FUA: every older
 *                version is gone for good, after a crash too
 *   failed       answered with an error, or cut off by a crash: it may or may not have happened
 *
 * TRIM may do less than asked, so it replaces nothing: old content and zeroes both stay possible. A
 * write that covers a part of a sector is laid over every content it can find there, and a version
 * laid over an older one than the last is possible only if the writes between have failed.
 *
 * After a crash the copies of a sector may hold different versions. Rule 4 makes all reads use one
 * copy: what a read has returned, later reads return too, so the other versions become *shadows*.
 * They stay what other copies may hold, and become readable again only when the copy that was read
 * from can have been lost meanwhile: an error at that place (oracle_exempt) or a change in the set
 * of members (oracle_exempt_all). Everything else that goes back is a failure.
 *
 * The oracle knows nothing of geometry, members or the engine.
 */
#ifndef RAID_SIM_ORACLE_H
#define RAID_SIM_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raid/base/list.h"
#include "raid/types.h"

enum version_state {
	VERSION_IN_FLIGHT,
	VERSION_ACKED,
	VERSION_FAILED,	 /* an error was returned, an io of it may still be out */
	VERSION_SETTLED, /* happened or not, nothing of it is under way any more */
};

struct version {
	struct version *newer;
	struct version *base; /* what it was laid over; NULL: covers the sector, or base is gone */
	uint64_t seq;	      /* its write; 0: there from the start */
	uint64_t acked_at;
	uint64_t shadow_at; /* 0: not a shadow */
	uint32_t shadow_era;
	enum version_state state;
	bool maybe;    /* replaces nothing even when acked: TRIM, or failed */
	bool survived; /* a power cut: whichever copy holds it holds it durably */
	bool may_fail; /* in flight: an error is a legal answer */
	bool durable;  /* by itself (FUA, or from the start) */
	uint8_t data[RAID_SECTOR_BYTES];
};

/* Kept by whoever reads, from oracle_read_begin() to oracle_read_end(). */
struct oracle_read {
	struct list link;
	uint64_t addr, len;
	uint64_t begun_at;
};

/* A write that was acked and is not known to be durable. */
struct oracle_pending {
	uint64_t seq, addr, len, acked_at;
	bool maybe;
};

struct oracle {
	uint64_t sectors;
	struct version **oldest; /* per sector */
	uint64_t *exempt_at;	 /* per sector: last oracle_exempt() */
	uint64_t era_at;	 /* last oracle_exempt_all() */
	uint64_t clock;		 /* one tick per submit and per answer */
	uint64_t durable_until;	 /* writes acked before this tick are durable */
	uint32_t era;		 /* shadows of older eras are exempt */
	struct list reads;	 /* in the order they began */
	struct version *pool;
	void **slabs;
	size_t slab_count;
	struct oracle_pending *pending;
	size_t pending_count, pending_room;
	uint64_t verified; /* sectors compared */
};

enum oracle_kind {
	ORACLE_WRITE, /* bytes given */
	ORACLE_ZERO,
	ORACLE_TRIM,
};

void oracle_init(struct oracle *o, uint64_t sectors);
void oracle_free(struct oracle *o);

/* Add a content that sector s may have from the start. More than one: copies that differ. */
void oracle_add_initial(struct oracle *o, uint64_t s, const void *data);

/* A write is submitted; may_fail: an error is a legal answer. Returns its seq, the caller's handle
 * for the rest. */
uint64_t oracle_write_begin(struct oracle *o, enum oracle_kind kind, uint64_t addr, uint64_t len,
			    const void *payload, bool may_fail);
/* It was answered; durable: FUA. */
void oracle_write_end(struct oracle *o, uint64_t seq, enum oracle_kind kind, uint64_t addr,
		      uint64_t len, bool ok, bool durable);
/* It was refused: it never happened, and nothing was laid over it. */
void oracle_write_refused(struct oracle *o, uint64_t seq, uint64_t addr, uint64_t len);
/* After an error: its last io is back, nothing of it can happen any more. */
void oracle_write_settled(struct oracle *o, uint64_t seq, uint64_t addr, uint64_t len);

void oracle_read_begin(struct oracle *o, struct oracle_read *r, uint64_t addr, uint64_t len);
/* data NULL: the read failed. Returns NULL or what is wrong, *bad the sector. */
const char *oracle_read_end(struct oracle *o, struct oracle_read *r, const void *data,
			    uint64_t *bad);

uint64_t oracle_flush_begin(struct oracle *o);
/* Success; begun is what oracle_flush_begin() returned. */
void oracle_flush_end(struct oracle *o, uint64_t begun);

/* Power cut: reads are gone, what was not durable is in doubt. */
void oracle_crash(struct oracle *o);

void oracle_exempt(struct oracle *o, uint64_t s);
void oracle_exempt_all(struct oracle *o);

/* May a copy of sector s hold this now, or after a crash? Counts as verified. */
bool oracle_may_hold(struct oracle *o, uint64_t s, const void *data);
/* Is it the version of write seq, or a newer one? */
bool oracle_holds_since(const struct oracle *o, uint64_t s, uint64_t seq, const void *data);
/* Is there exactly one thing it can be? */
bool oracle_is_certain(const struct oracle *o, uint64_t s);
/* Nothing in flight on it. */
bool oracle_is_quiet(const struct oracle *o, uint64_t s);

/* An administrator copied this content over all copies: nothing else is possible. */
void oracle_set(struct oracle *o, uint64_t s, const void *data);

/* How many versions the fullest sector of the range has: the caller's brake. */
uint32_t oracle_depth(const struct oracle *o, uint64_t addr, uint64_t len);

#endif
