/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An array: the two halves and what the outside hands in and takes out. Private to array*.c and
 * check.c.
 */
#ifndef RAID_ARRAY_H
#define RAID_ARRAY_H

#include "raid/core.h"
#include "raid/shard.h"
#include "raid/sync_job.h"

struct raid_array {
	void *memory; /* everything but the arena's bookkeeping */
	uint32_t chunk_bytes;
	uint64_t row_bytes;
	uint64_t buffer_bytes;
	bool stopped;
	struct raid_cmd *stopping;
	struct arena arena;
	struct iop iop;
	struct events events;
	struct core core;
	struct shard shard;
	struct slot_pool private_pool; /* superblocks and flushes */
	/* recorded, for the next step */
	struct list submitted, released /* struct frag */, commands;
	/* for the outside */
	struct list done, free, cmds_done;
	uint32_t outstanding; /* requests between submit and free or release */
	uint32_t unanswered;  /* of those, WRITEs not done and READs not released */
};

void array_take_released(struct raid_array *a);

#endif
