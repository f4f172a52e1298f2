/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which devices form the array, and may it start? A pure decision over decoded superblocks
 * (md-format §7, §4, §19; DESIGN rule 9). It reads nothing, writes nothing and has no state:
 * the daemon, nbd-raidctl and the simulator all come to a running array through it.
 */
#ifndef RAID_ASSEMBLE_H
#define RAID_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/badblocks_fmt.h"
#include "raid/bitmap_fmt.h"
#include "raid/geometry.h"
#include "raid/sb.h"
#include "raid/types.h"

/* One device that was offered, and what was found on it. */
struct asm_candidate {
	const char *name;     /* for messages; owned by the caller, outlives the assembly */
	uint64_t dev_sectors; /* floor(bytes / 512) */
	int load_err; /* 0, or the -errno of reading it, or what sb_decode() said (best location) */
	char why[RAID_WHY_BYTES]; /* reason belonging to load_err */
	struct sb sb;		  /* valid if load_err is 0 */
	struct bb_list bad;	  /* decoded when SB_FEATURE_BAD_BLOCKS is set, else empty */
	/* With SB_FEATURE_BITMAP: the begin of its bitmap area as it was read, or why it was not.
	 * Whether it makes sense, asm_decide() says. */
	struct {
		int err; /* 0 or -errno */
		uint8_t header[BM_HEADER_BYTES];
	} bitmap;
	uint64_t grown_bytes; /* not 0: its 1.0 superblock was found this far before where it
				 belongs */
};

enum asm_verdict {
	ASM_IN_SYNC,	 /* holds its slot and is good */
	ASM_RECOVERING,	 /* holds its slot up to recovery_offset only; the slot counts as missing */
	ASM_REPLACEMENT, /* copies the in-sync member of the same slot, up to recovery_offset so far
			  */
	ASM_SPARE,
	ASM_JOURNAL,
	ASM_STALE,   /* events too old */
	ASM_FAULTY,  /* the freshest member's table says so */
	ASM_SPLIT,   /* its table shows the freshest's slot as lost: both halves ran alone */
	ASM_STRAY,   /* same set, contradicts it (level, layout, chunk, duplicate slot or device) */
	ASM_FOREIGN, /* another array */
	ASM_UNREADABLE, /* no valid superblock, or an I/O error */
};

const char *asm_verdict_name(enum asm_verdict v);

enum asm_decision {
	ASM_START,	    /* read-write if the caller wants */
	ASM_START_READONLY, /* only read-only: features or versions this program does not write */
	ASM_REFUSE,
};

struct asm_options {
	bool want_readonly; /* the caller will start it read-only */
	bool force;	    /* with want_readonly: start what is doubtful and say which bytes are */
	/*
	 * Without want_readonly: do what mdadm --assemble --force does, for levels with redundancy.
	 * Too few members: those that are old (not half rebuilt, not of the other half of a split)
	 * count as good again, newest first, no more than are needed. A dirty and degraded array of
	 * level 4, 5, 6 counts as clean. The first superblock written makes that lasting; note says
	 * which bytes are doubtful. A user's word for one start, never a setting.
	 */
	bool force_write;
	bool have_uuid; /* take only members of this set, the rest is ASM_FOREIGN and ignored */
	uint8_t uuid[16];
	enum geo_raid0_layout raid0_layout; /* the user's word for an array that records none */
};

struct asm_member {
	uint32_t candidate; /* index into the candidates */
	enum asm_verdict verdict;
	int32_t slot;		  /* -1 if none; a replacement's is that of the member it copies */
	char why[RAID_WHY_BYTES]; /* for every verdict but ASM_IN_SYNC: what is wrong, what to do */
	/* ASM_RECOVERING, ASM_REPLACEMENT: sectors of its data, from data_offset on, that are good;
	 * SB_IN_SYNC: all, as of every other member. */
	uint64_t recovery_offset;
	/* … and beyond, of the chunks of the bitmap only those whose bit is set are old. False when
	 * the bitmap cannot tell, whatever the superblock says. */
	bool recovery_bitmap;
	/* ASM_STALE, ASM_FAULTY: what it missed is what the bitmap marks, so adding it again need
	 * copy no more than that. */
	bool readd_bitmap;
	struct sb sb; /* as decoded (zero if unreadable, or for arrays without metadata); its
			 devflags say whether it is write-mostly, failfast */
	struct bb_list bad;
	uint64_t dev_sectors;
};

enum asm_bitmap_state {
	ASM_BITMAP_NONE,
	ASM_BITMAP_CURRENT, /* bits that are 0 can be believed */
	ASM_BITMAP_STALE,   /* all bits count as 1, whatever is on disk */
	ASM_BITMAP_KEPT,    /* of a kind that is not maintained here (clustered, lockless, too
			       large): left as it is, so nothing else may be written either */
};

/*
 * The write-intent bitmap (md-format §11). Whoever starts the array reads the bits; header and bits
 * are then the array's, and go to every member in a slot at super_offset + offset_sectors.
 *
 * Clean and not degraded: set bits mean nothing and are swept away. Dirty: where a bit is set, at
 * or above resync_offset, copies or parity may differ, elsewhere not. Degraded: set bits stay, they
 * say what an absent member missed.
 */
struct asm_bitmap {
	enum asm_bitmap_state state;
	int32_t offset_sectors;
	uint64_t bits;
	struct bm_header header; /* CURRENT, STALE: checked, to be gone on with */
	uint32_t member;	 /* CURRENT: whose area holds the bits, index into member[] */
	uint64_t at_sector;	 /* CURRENT: where on that member the area begins */
};

struct assembly {
	enum asm_decision decision;
	char why[RAID_WHY_BYTES];  /* REFUSE, START_READONLY: what is wrong and what to do, one line
				    */
	char note[RAID_WHY_BYTES]; /* doubtful bytes of a forced start, a grown file, … or empty */
	bool metadata; /* false: built without superblocks; none is ever read or written */
	struct geometry geometry;
	uint32_t freshest; /* index into member[]; its superblock speaks for the array */
	uint64_t events;
	uint64_t resync_offset; /* sectors as in the superblock, or as force made it;
				   SB_IN_SYNC = clean */
	uint32_t degraded;	/* slots without an in-sync member */
	uint32_t features;	/* union of all used members' feature_maps */
	struct asm_bitmap bitmap;
	bool present[RAID_SLOTS_MAX]; /* slot has an in-sync member */
	uint32_t members;
	struct asm_member member[RAID_MEMBERS_MAX]; /* all candidates, in their order */
};

/* Decide. Always fills *out whole; out->decision says the outcome. count ≤ RAID_MEMBERS_MAX. */
void asm_decide(const struct asm_candidate *cand, uint32_t count, const struct asm_options *opt,
		struct assembly *out);

/*
 * An array without superblocks, as mdadm --build makes one: members in slot order, data_offset and
 * size as given in params (already checked against the devices by the caller). decision is
 * ASM_START. Returns 0 or -EINVAL with the reason in why.
 */
int asm_build(const struct geo_params *params, const struct asm_candidate *cand, uint32_t count,
	      struct assembly *out, char why[RAID_WHY_BYTES]);

#endif
