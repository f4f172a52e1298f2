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
	uint64_t grown_bytes;	  /* not 0: its 1.0 superblock was found this far before where it
				     belongs */
};

enum asm_verdict {
	ASM_IN_SYNC,	 /* holds its slot and is good */
	ASM_RECOVERING,	 /* holds its slot up to recovery_offset only: not read from, not written to
			    here */
	ASM_REPLACEMENT, /* copies another member of the same slot, not complete */
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
	bool have_uuid;	    /* take only members of this set, the rest is ASM_FOREIGN and ignored */
	uint8_t uuid[16];
	enum geo_raid0_layout raid0_layout; /* the user's word for an array that records none */
};

struct asm_member {
	uint32_t candidate; /* index into the candidates */
	enum asm_verdict verdict;
	int32_t slot;		  /* -1 if none */
	char why[RAID_WHY_BYTES]; /* for every verdict but ASM_IN_SYNC: what is wrong, what to do */
	struct sb sb; /* as decoded (zero if unreadable, or for arrays without metadata) */
	struct bb_list bad;
	uint64_t dev_sectors;
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
	uint64_t resync_offset;	      /* sectors as in the superblock; SB_IN_SYNC = clean */
	uint32_t degraded;	      /* slots without an in-sync member */
	uint32_t features;	      /* union of all used members' feature_maps */
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
