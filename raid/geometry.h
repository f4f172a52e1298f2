/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where every byte of an array lies: one pure map per level, used by reads, writes, discards,
 * zeroing, resync and tests alike (md-format §9). A geometry is a value: no pointers into other
 * objects, no state, copied freely. An array may hold two of them (reshape).
 *
 * Units: sectors in what comes from the superblock, bytes in what the I/O path asks.
 */
#ifndef RAID_GEOMETRY_H
#define RAID_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/types.h"

/* RAID 0 layouts of unequal members (md-format §9.2). */
enum geo_raid0_layout {
	GEO_RAID0_UNKNOWN = 0, /* not recorded: legal only where both agree */
	GEO_RAID0_ORIGINAL = 1,
	GEO_RAID0_ALTERNATE = 2,
};

enum { GEO_LAYOUT_NAME_BYTES = 32 };

/* What defines a geometry; plain facts out of superblocks or a command line. */
struct geo_params {
	enum raid_level level;
	uint32_t layout;	    /* as in the superblock; raid0: enum geo_raid0_layout */
	uint32_t chunk_sectors;	    /* 0 for RAID 1; linear: optional rounding unit */
	uint32_t slots;		    /* raid_disks */
	uint64_t component_sectors; /* superblock "size"; ignored for linear and RAID 0 */
	struct {
		uint64_t data_offset_sectors;
		uint64_t data_sectors; /* superblock "data_size"; used by linear and RAID 0 */
	} slot[RAID_SLOTS_MAX];	       /* a missing slot of a redundant level: zeroes */
};

/* A zone of RAID 0: rows shared by the same set of members. */
struct geo_zone {
	uint64_t first_chunk; /* of the array */
	uint64_t first_row;
	uint64_t end_row;
	uint32_t members; /* how many slots take part */
	uint8_t slot[RAID_SLOTS_MAX];
};

struct geometry {
	struct geo_params p;
	uint64_t array_sectors; /* exported size */
	uint32_t copies; /* of every block: slots for 1; near * far for 10; 1 for all others */
	uint32_t parity; /* blocks of a row beside the data: 0; 1 for 4 and 5; 2 for 6 */

	/* RAID 0, 4, 5, 6, 10 */
	uint64_t chunk_bytes;
	uint8_t chunk_shift; /* log2 of it, 0 if it is no power of two (RAID 0 only) */

	/* RAID 4, 5, 6 */
	uint32_t row_data;  /* data blocks of a row: slots - parity */
	uint64_t row_bytes; /* of the array */
	uint64_t rows;

	/* RAID 10 */
	uint32_t near, far;
	bool offset_layout;
	uint32_t far_set_slots;		  /* slots of a far set; p.slots when there are no sets */
	uint64_t stride_rows;		  /* distance of the next far copy */
	uint64_t chunks;		  /* of the array */
	uint8_t far_next[RAID_SLOTS_MAX]; /* slot of the next far copy of what a slot holds … */
	uint8_t far_prev[RAID_SLOTS_MAX]; /* … and the inverse */

	/* RAID 0: zones; linear: start_sector[k] is the first array sector of slot k */
	uint32_t zones;
	struct geo_zone zone[RAID_ZONES_MAX];
	uint64_t start_sector[RAID_SLOTS_MAX + 1];
};

/* One copy of a piece. */
struct geo_copy {
	uint32_t slot;
	uint64_t maddr; /* bytes on the member device, data_offset included */
};

/*
 * A run of array bytes that is contiguous on each of its copies, all copies on different slots.
 * RAID 1: copy[i] is slot i. RAID 10: in md's order (near copies of the first far copy's devices
 * first: for each near copy i, then its far copies, as md-format §9.7 generates them).
 */
struct geo_piece {
	uint64_t addr, len;
	uint32_t copies;
	struct geo_copy copy[RAID_COPIES_MAX];
};

/*
 * Check the parameters (they may come from a hostile superblock) and derive the rest.
 * Returns 0; -EINVAL for impossible values; -ENOTSUP for a level this version cannot run;
 * -EUCLEAN for RAID 0 zones whose layout matters and is not recorded. why says what is wrong.
 */
int geo_init(struct geometry *g, const struct geo_params *p, char why[RAID_WHY_BYTES]);

/*
 * Map the first piece of [addr, addr+len): fills *out with 1..len bytes starting at addr.
 * addr + len must lie inside the array. Adjacent chunks that are contiguous on all their copies are
 * not merged: a piece never crosses a chunk (linear, RAID 1: a member) boundary. RAID 4, 5, 6: the
 * one copy is the data block; parity is a matter of rows, see below.
 */
void geo_map(const struct geometry *g, uint64_t addr, uint64_t len, struct geo_piece *out);

/*
 * The reverse: which array byte lies at maddr of a slot. Returns false for bytes that hold none
 * (metadata, rounding, unused rows, P and Q). *copy is the index that geo_map() gives this copy.
 */
bool geo_unmap(const struct geometry *g, uint32_t slot, uint64_t maddr, uint64_t *addr,
	       uint32_t *copy);

/*
 * Can every block be reached with these members? present[slot] tells which slots have an in-sync
 * member. RAID 10: counted per group of copies, not by number of failures.
 */
bool geo_enough(const struct geometry *g, const bool present[RAID_SLOTS_MAX]);

/* Would losing this slot too lose the last copy of something? Parity counts as one or two copies.
 */
bool geo_slot_is_last(const struct geometry *g, const bool present[RAID_SLOTS_MAX], uint32_t slot);

/* Highest member sector + 1 (relative to data_offset) that the geometry touches on a slot. */
uint64_t geo_used_sectors(const struct geometry *g, uint32_t slot);

/* ---- rows of RAID 4, 5, 6 -------------------------------------------------------------------
 * A row is one chunk of every slot at the same distance from data_offset: row_data chunks of data,
 * P and for RAID 6 Q. The array's bytes fill row after row. Which slot is what repeats after as
 * many rows as there are slots.
 */

#define GEO_NO_SLOT UINT32_MAX

enum geo_role {
	GEO_ROLE_DATA,
	GEO_ROLE_P,
	GEO_ROLE_Q,
};

struct geo_row {
	uint32_t data;		      /* blocks, = row_data */
	uint32_t p, q;		      /* their slots; q is GEO_NO_SLOT for RAID 4 and 5 */
	uint8_t slot[RAID_SLOTS_MAX]; /* of data block d, in the order of addresses */
	uint8_t exp[RAID_SLOTS_MAX];  /* power of g that block d has in Q; RAID 4 and 5: d */
	uint32_t exps; /* highest exponent + 1; more than data where DDF leaves holes */
};

void geo_row_map(const struct geometry *g, uint64_t row, struct geo_row *out);

/* What a slot holds in a row; *data is which block if it is data. */
enum geo_role geo_row_role(const struct geometry *g, uint64_t row, uint32_t slot, uint32_t *data);

/* The row of an array address, and the place in it: bytes from the row's first. */
uint64_t geo_row_of(const struct geometry *g, uint64_t addr, uint64_t *inside);

/* Where a slot's chunk of a row begins on the member, in bytes, data_offset included. */
uint64_t geo_row_maddr(const struct geometry *g, uint64_t row, uint32_t slot);

/* The row that holds a member's byte, be it data or parity, and the place in the chunk. Returns
 * false for bytes of no row. */
bool geo_row_of_maddr(const struct geometry *g, uint32_t slot, uint64_t maddr, uint64_t *row,
		      uint64_t *inside);

/*
 * Levels and layouts in mdadm's words: "raid10", "near=2", "left-symmetric" …; a raid0 layout that
 * is not recorded is "unknown", a level without layouts has the name "". buf is returned. The
 * parsers take those words (not "") and mdadm's shorter ones: "10", "mirror", "n2" …; -EINVAL if
 * unknown. Whether a layout suits a number of slots, geo_init() says.
 */
const char *geo_level_name(enum raid_level level);
int geo_level_parse(const char *text, enum raid_level *out);
const char *geo_layout_name(enum raid_level level, uint32_t layout,
			    char buf[GEO_LAYOUT_NAME_BYTES]);
int geo_layout_parse(enum raid_level level, const char *text, uint32_t *out);

#endif
