/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Golden arrays: members that a real Linux md wrote, and what they must be read as. Shared by all
 * tests that look at them; raid/tests/golden/README says what lies in a folder.
 */
#ifndef RAID_TESTS_GOLDEN_H
#define RAID_TESTS_GOLDEN_H

#include "raid/assemble.h"

enum { GOLDEN_TEXT = 128, GOLDEN_RANGES = 16, GOLDEN_SEGMENTS = 16 };

/* What is expected of a member. */
enum golden_part {
	GOLDEN_IN_SYNC,
	GOLDEN_IGNORED, /* must not be used */
	GOLDEN_SPARE,
	GOLDEN_REBUILDING,
	GOLDEN_REPLACEMENT,
	GOLDEN_JOURNAL,
};

struct golden_member {
	char file[GOLDEN_TEXT];
	uint8_t *image;
	uint64_t bytes;
	enum golden_part part;

	/* what its superblock says */
	bool csum_ok;
	char metadata[8];
	uint32_t dev_number;
	uint16_t role_own;
	uint64_t events;
	uint64_t super_offset_bytes, data_offset_bytes;
	bool have_data_size;
	uint64_t data_size_bytes;
	uint64_t resync_offset;	       /* sectors; SB_IN_SYNC when in sync */
	uint64_t recovery_offset;      /* sectors; 0 if none */
	char device_uuid[GOLDEN_TEXT]; /* empty if none */
	bool only_read;		       /* has features that are read but not written */
	bool reshape, journal, ppl;
	bool bad_blocks;
};

struct golden_segment {
	char seed[GOLDEN_TEXT];
	uint64_t offset, length;
};

struct golden_range {
	uint64_t addr, len; /* bytes of the array */
};

struct golden {
	char name[GOLDEN_TEXT];
	int32_t level;
	uint32_t layout, chunk_bytes, raid_disks;
	uint64_t array_bytes;
	char uuid[GOLDEN_TEXT];

	bool assemble; /* may be started without force */
	int32_t degraded;
	bool missing[RAID_SLOTS_MAX];
	uint32_t unreadables;
	struct golden_range unreadable[GOLDEN_RANGES];
	uint64_t content_bytes;
	uint8_t content_sha256[32];
	uint32_t segments;
	struct golden_segment segment[GOLDEN_SEGMENTS];

	/* The write-intent bitmap, as the freshest member has it. */
	bool bitmap;
	uint64_t bitmap_offset_bytes; /* on the device */
	uint32_t bitmap_chunk_bytes;
	uint64_t bitmap_bits, bitmap_dirty_bits, bitmap_first, bitmap_last;
	uint64_t bitmap_events, bitmap_events_cleared, bitmap_sync_sectors;

	uint32_t members;
	struct golden_member member[RAID_SLOTS_MAX];
};

/* Load the array in a folder, its images unpacked and checked. What cannot be read is a defect of
 * the test data: it fails the running cmocka test. */
void golden_load(const char *folder, struct golden *g);
void golden_free(struct golden *g);

/* The bytes the array must show, as one buffer of content_bytes for the caller to free. Checked
 * against the checksum in array.json. */
uint8_t *golden_content(const struct golden *g);

/* What opening the member finds: superblock, bad-block log, begin of the bitmap. */
void golden_candidate(const struct golden_member *m, struct asm_candidate *c);

/* Where the arrays are: $GOLDEN_DIR, or those that come with the tests. */
const char *golden_top(void);

/* Folders below top that hold an array.json, sorted; the caller frees each and the list. */
uint32_t golden_list(const char *top, char ***folders);

/* Run a group of tests, one for each array, named like it; *state is its folder. Returns what
 * main() does: not 0 if a test failed, or if there are no arrays. */
int golden_run(const char *group, void (*test)(void **state));

#endif
