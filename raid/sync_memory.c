/* SPDX-License-Identifier: BSD-3-Clause */
/* How many orders of the sync machine a shard works on at a time, how large, and their memory. */
#include "raid/sync_job.h"

#include "raid/base/bytes.h"

enum {
	STEP_MAX = 512 << 10, /* of each member: large enough for any disk */
	STEP_MIN = 64 << 10,
	STEPS_MIN = 16, /* small arrays have as many */
	IOVS_STRIPED = 64,
};

void sync_shape_of(const struct geometry *g, uint64_t buffer_bytes, struct sync_shape *s)
{
	uint64_t component = 0, step = STEP_MAX;
	uint32_t slots = g->p.slots;

	for (uint32_t k = 0; k < slots; k++) {
		component = max_u64(component, geo_used_sectors(g, k) * RAID_SECTOR_BYTES);
	}
	while (step > STEP_MIN && (step * STEPS_MIN > component || slots * step > buffer_bytes)) {
		step /= 2;
	}
	*s = (struct sync_shape){
		.step = step,
		.orders = (uint32_t)min_u64(max_u64(1, buffer_bytes / (slots * step)),
					    SYNC_ORDERS_MAX),
		.ios = 2 * slots + 4,
		.iovs = g->p.level == RAID_LEVEL_10 ? IOVS_STRIPED : 2,
		.job_bytes = slots * step,
		.words = SYNC_SETS * slots * (uint32_t)(step / SYNC_BLOCK / 64 + 1),
	};
}

enum { SCRATCH = 2 * SYNC_BLOCK };

static uint64_t part(uint64_t *at, uint64_t bytes, uint64_t align)
{
	uint64_t from = round_up_u64(*at, align);

	*at = from + bytes;
	return from;
}

uint64_t sync_memory_bytes(const struct sync_shape *s)
{
	uint64_t at = 0;

	part(&at, s->orders * sizeof(struct sync_job), 64);
	part(&at, (uint64_t)s->orders * s->ios * sizeof(struct slot), 64);
	part(&at, (uint64_t)s->orders * s->ios * s->iovs * sizeof(struct iovec), 64);
	part(&at, (uint64_t)s->orders * s->words * 8, 64);
	part(&at, s->orders * (s->job_bytes + SCRATCH), RAID_PAGE_BYTES);
	return at;
}

void sync_create(struct shard *sh, const struct sync_shape *s, uint8_t *memory)
{
	uint64_t at = 0;
	struct slot *slots;
	struct iovec *iovs;
	uint64_t *bits;
	uint8_t *pages;

	list_init(&sh->sync_dirty);
	sh->sync_jobs = s->orders;
	sh->sync_job = (void *)(memory + part(&at, s->orders * sizeof(struct sync_job), 64));
	slots = (void *)(memory +
			 part(&at, (uint64_t)s->orders * s->ios * sizeof(struct slot), 64));
	iovs = (void *)(memory + part(&at,
				      (uint64_t)s->orders * s->ios * s->iovs * sizeof(struct iovec),
				      64));
	bits = (void *)(memory + part(&at, (uint64_t)s->orders * s->words * 8, 64));
	pages = memory + part(&at, s->orders * (s->job_bytes + SCRATCH), RAID_PAGE_BYTES);
	for (uint32_t i = 0; i < s->orders; i++) {
		struct sync_job *j = &sh->sync_job[i];

		list_init(&j->link);
		list_init(&j->slots);
		range_init(&j->range, RANGE_SYNC);
		slot_pool_init(&j->pool);
		for (uint32_t n = 0; n < s->ios; n++) {
			slot_pool_add(&j->pool, slots++, iovs, s->iovs);
			iovs += s->iovs;
		}
		j->bits = bits + (uint64_t)i * s->words;
		j->bits_words = s->words;
		j->memory = pages + i * (s->job_bytes + SCRATCH);
		j->memory_bytes = s->job_bytes;
		j->scratch = j->memory + s->job_bytes;
	}
}
