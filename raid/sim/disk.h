/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated disk: bytes in memory, a cache that a power cut empties, and blocks that cannot be
 * read or written. It decides nothing by chance except what a power cut or a failed write leaves
 * behind; which io fails, hangs or is slow is the business of faults.c.
 *
 * What it promises is the little that real disks promise:
 *  - a completed write is what later reads return; it survives a power cut only if a FLUSH that was
 *    issued after its completion has completed, or it carried FUA, or the disk has no volatile
 *    cache. FUA covers its own write and nothing else.
 *  - a power cut leaves of every unflushed block one of the versions written since the last flush,
 *    or the flushed one: each block by itself, so a write may be torn at any logical block.
 *  - a write that was reported failed, or was never reported, may have been done in part.
 *  - after a failed FLUSH the data it did not save may never become durable, although reads still
 *    return it and a later FLUSH succeeds (what operating systems do).
 *
 * Data is moved at completion, through the iovec as it is then: an engine that reuses a buffer too
 * early sees the damage.
 */
#ifndef RAID_SIM_DISK_H
#define RAID_SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/base/list.h"
#include "raid/io.h"
#include "raid/sim/prng.h"

enum disk_bad {
	DISK_BAD_READ = 1 << 0,	 /* latent: a write makes the block good again */
	DISK_BAD_WRITE = 1 << 1, /* for ever: neither read nor written */
};

struct disk_params {
	uint64_t size_bytes; /* multiple of block */
	uint32_t block;
	uint32_t mem_align;
	uint32_t max_io_bytes;
	bool volatile_cache, can_punch, can_zero, rotational;
};

/* A version of a block that is in the cache only. In the order of completion. */
struct disk_cached {
	struct list link;
	uint64_t seq;
	uint64_t block;
	bool doomed; /* a failed flush dropped it: no later flush saves it */
	uint8_t data[];
};

struct disk {
	struct disk_params p;
	uint64_t blocks;
	uint8_t *now;	  /* what reads return */
	uint8_t *durable; /* what a power cut leaves if the cache loses everything */
	uint8_t *bad;	  /* per block: enum disk_bad */
	uint32_t *caches; /* per block: its versions in the cache */
	uint64_t *safe;	  /* per block: seq of the durable version */
	uint64_t seq;	  /* completed block writes so far */
	struct list cache;
	struct list spare; /* nodes to reuse */
	uint8_t *scratch;
	/* Changes whenever a durable byte of [watch, watch + 4096) does: the superblock. */
	uint64_t watch_maddr;
	uint64_t watch_changes;
};

enum disk_cut { DISK_CUT_LOSE, DISK_CUT_KEEP, DISK_CUT_MIX, DISK_CUT_KINDS };

void disk_init(struct disk *d, const struct disk_params *p);
void disk_free(struct disk *d);

/* Direct access for making arrays and for whoever administers them while no engine runs. */
void disk_poke(struct disk *d, uint64_t maddr, const void *data, uint64_t len);

/* Bit rot, behind everybody's back, of what is not in the cache. */
void disk_damage(struct disk *d, uint64_t maddr, const void *data, uint64_t len);

/* At issue: the cover of a FLUSH issued now. */
uint64_t disk_cover(const struct disk *d);

/* The whole effect of an io that succeeds. -EIO when a bad block is in the way (a write to one is
 * done in part), -EOPNOTSUPP for a DISCARD or ZERO that the disk cannot do. */
int disk_do(struct disk *d, const struct raid_io *io, uint64_t cover, struct prng *rng);

/* The effect of an io that failed or was cut off: any part of it, each block by itself. */
void disk_do_part(struct disk *d, const struct raid_io *io, uint64_t cover, enum disk_cut how,
		  struct prng *rng);

/* Power gone: the cache is emptied. Ios still out are applied by the caller, disk_do_part(). */
void disk_power_cut(struct disk *d, enum disk_cut how, struct prng *rng);

/* Is anything of [maddr, maddr+len) only in the cache? */
bool disk_is_cached(const struct disk *d, uint64_t maddr, uint64_t len);

/* Is any block of [maddr, maddr+len) bad? */
bool disk_is_bad(const struct disk *d, uint64_t maddr, uint64_t len);

#endif
