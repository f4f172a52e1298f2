/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of create share: parameters of which one thing is changed, and the rows of
 * mdadm_create*.h. */
#ifndef RAID_TESTS_CREATE_RIG_H
#define RAID_TESTS_CREATE_RIG_H

#include "raid/create.h"

enum { MIB = 2048 }; /* sectors */

/* One array that mdadm made. */
struct crig_row {
	struct create_params p;
	uint64_t array, component, data_offset, data_size[RAID_SLOTS_MAX];
	uint32_t features, layout;
	int bblog_size, bblog_offset;
	/* with a bitmap */
	int bitmap_offset;
	uint32_t bitmap_chunk_bytes;
	uint64_t bitmap_sync_sectors;
};

extern struct create_plan crig_plan_out; /* large */

struct create_params crig_params(enum raid_level level, uint32_t slots, uint64_t dev_sectors);

/* Fill crig_plan_out; the second expects to be refused with err and this word. */
void crig_plan(const struct create_params *p);
void crig_refused(int err, const struct create_params *p, const char *word);

void crig_read_row(const char *line, struct crig_row *r);

/* Is the superblock of this slot in crig_plan_out field by field what the row says? */
void crig_check_sb(const struct crig_row *r, uint32_t slot);

#endif
