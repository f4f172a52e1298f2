/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making an array: everything it will ever need is laid out in one block of memory (raid/README
 * has the formula). lay_out() runs twice: to measure, then to hand out.
 */
#include "raid/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/assemble.h"
#include "raid/base/bytes.h"
#include "raid/base/carve.h"
#include "raid/base/check.h"
#include "raid/stripe.h"
#include "raid/why.h"

/* What decides how much of everything there is. */
struct shape {
	bool redundant, metadata, striped, exact;
	uint32_t unit, copies, places, frags;
	uint32_t chunk_bytes, cell_bytes, cells_max;
	uint32_t ios_max, ios, iovs, kits;
	struct stripe_shape stripes;
	uint64_t buffer_bytes;
	struct sync_shape sync;
};

#define CARVE(carver, type, count) ((type *)carve(carver, sizeof(type) * (uint64_t)(count), 64))

enum { PRIVATE_SLOTS = 3 }; /* of a member: superblock, flush, bad-block log */

struct parts {
	struct raid_array *array;
	struct member *member;
	struct sb *sb;
	struct bb_list *bad;
	uint8_t *sb_pages, *bad_pages;
	struct slot *private_slots, *slots, *kit_slots[SHARD_KITS_MAX], *job_slots;
	struct iovec *private_iovs, *iovs, *kit_iovs[SHARD_KITS_MAX], *job_iovs;
	struct frag *frags;
	uint8_t *stripes;
	uint8_t *kit_bufs[SHARD_KITS_MAX], *job_blocks, *zeroes, *arena, *sync;
};

static bool attached(const struct asm_member *m)
{
	return m->verdict == ASM_IN_SYNC || m->verdict == ASM_SPARE ||
	       m->verdict == ASM_RECOVERING || m->verdict == ASM_REPLACEMENT;
}

static void lay_out(struct carver *c, const struct shape *s, struct parts *p)
{
	uint64_t frags = s->frags + SHARD_SHED_MAX;

	p->array = CARVE(c, struct raid_array, 1);
	p->member = CARVE(c, struct member, s->places);
	p->sb = CARVE(c, struct sb, s->places);
	p->bad = CARVE(c, struct bb_list, s->places);
	p->private_slots = CARVE(c, struct slot, PRIVATE_SLOTS * s->places);
	p->private_iovs = CARVE(c, struct iovec, PRIVATE_SLOTS * s->places);
	p->frags = CARVE(c, struct frag, frags);
	p->slots = CARVE(c, struct slot, s->ios);
	p->iovs = CARVE(c, struct iovec, (uint64_t)s->ios * s->iovs);
	for (uint32_t i = 0; i < s->kits; i++) {
		p->kit_slots[i] = CARVE(c, struct slot, s->ios_max);
		p->kit_iovs[i] = CARVE(c, struct iovec, (uint64_t)s->ios_max * s->iovs);
	}
	p->job_slots = CARVE(c, struct slot, SHARD_JOBS);
	p->job_iovs = CARVE(c, struct iovec, SHARD_JOBS);
	/* Pages from here on: never touched before they are used. */
	p->sb_pages = carve(c, (uint64_t)s->places * SB_BYTES_MAX, RAID_PAGE_BYTES);
	p->bad_pages = carve(c, 3 * (uint64_t)s->places * BB_LOG_BYTES, RAID_PAGE_BYTES);
	p->job_blocks = carve(c, 2ull * SHARD_JOBS * SHARD_BLOCK, RAID_PAGE_BYTES);
	p->zeroes = carve(c, RAID_FRAGMENT_BYTES + RAID_PAGE_BYTES, RAID_PAGE_BYTES);
	for (uint32_t i = 0; i < s->kits; i++) {
		p->kit_bufs[i] =
			carve(c, RAID_FRAGMENT_BYTES + 2 * RAID_PAGE_BYTES, RAID_PAGE_BYTES);
	}
	p->stripes = carve(c, stripe_memory_bytes(&s->stripes), RAID_PAGE_BYTES);
	p->arena = carve(c, s->buffer_bytes, RAID_PAGE_BYTES);
	p->sync = carve(c, sync_memory_bytes(&s->sync), RAID_PAGE_BYTES);
}

/* Members there can be at a time. */
static uint32_t places_of(const struct raid_config *cfg)
{
	return (uint32_t)min_u64(cfg->assembly->members + cfg->limits.members_extra,
				 RAID_MEMBERS_MAX);
}

static bool shape_of(const struct raid_config *cfg, struct shape *s)
{
	const struct assembly *as = cfg->assembly;
	const struct geometry *g = &as->geometry;
	uint64_t max_io = UINT64_MAX;
	uint32_t ios_per_frag;

	*s = (struct shape){
		.redundant = g->p.level >= RAID_LEVEL_1,
		.metadata = as->metadata,
		.striped = g->p.level != RAID_LEVEL_LINEAR && g->p.level != RAID_LEVEL_1,
		.unit = RAID_SECTOR_BYTES,
		.copies = g->copies,
		.places = places_of(cfg),
		.frags = cfg->limits.frags,
		.buffer_bytes = cfg->limits.buffer_bytes,
	};
	for (uint32_t i = 0; i < as->members; i++) {
		const struct raid_member_props *p = &cfg->props[i];

		if (attached(&as->member[i])) {
			/* A spare does not make blocks larger, but it is to be of use. */
			s->unit = (uint32_t)max_u64(s->unit, p->mem_align);
			if (as->member[i].verdict != ASM_SPARE) {
				s->unit = (uint32_t)max_u64(s->unit, p->logical_block);
			}
			max_io = min_u64(max_io, p->max_io_bytes ? p->max_io_bytes : UINT64_MAX);
		}
	}
	if (!is_pow2_u64(s->unit) || s->unit > RAID_PAGE_BYTES) {
		return false;
	}
	s->chunk_bytes = s->striped ? g->p.chunk_sectors * RAID_SECTOR_BYTES : 0;
	s->exact = max_io == UINT64_MAX;
	s->cell_bytes =
		(uint32_t)min_u64(s->striped ? s->chunk_bytes : RAID_FRAGMENT_BYTES,
				  min_u64(RAID_FRAGMENT_BYTES, round_down_u64(max_io, s->unit)));
	if (!s->cell_bytes) {
		return false;
	}
	s->cells_max = (uint32_t)min_u64(SHARD_CELLS_MAX, RAID_FRAGMENT_BYTES / s->cell_bytes + 1);
	s->ios_max = s->copies * (s->cells_max + 2) + 4;
	/* A small write of a mirror promises itself ios for replacements, too. */
	ios_per_frag = s->striped ? 4 : s->redundant ? s->copies + VIEW_TWINS_MAX : 2;
	s->ios = s->ios_max + s->frags * ios_per_frag;
	s->iovs = s->striped ? SHARD_IOVS : 4;
	if (s->redundant && !cfg->read_only) {
		sync_shape_of(g, s->buffer_bytes, &s->sync);
	}
	stripe_shape_of(g, s->chunk_bytes, &cfg->limits, &s->stripes);
	s->kits = s->stripes.parity ? s->stripes.parity
		  : s->redundant    ? (uint32_t)min_u64(s->copies - 1, SHARD_KITS_MAX)
				    : 0;
	return true;
}

uint64_t raid_memory(const struct raid_config *config)
{
	struct carver c = {0};
	struct parts p;
	struct shape s;

	if (!shape_of(config, &s)) {
		return 0;
	}
	lay_out(&c, &s, &p);
	return c.used + RAID_PAGE_BYTES + arena_overhead_bytes(s.buffer_bytes) +
	       intent_memory(config->assembly, places_of(config));
}

void raid_limits_min(const struct assembly *as, struct raid_limits *out)
{
	(void)as; /* the same for every shape of this version's levels */
	*out = (struct raid_limits)RAID_LIMITS_DEFAULT;
	out->frags = 4;
	out->buffer_bytes = RAID_FRAGMENT_BYTES;
	out->members_extra = 2;
}

/* ---- checks -------------------------------------------------------------------------------- */

static int check_limits(const struct raid_limits *l, char why[RAID_WHY_BYTES])
{
	if (!l->frags || l->frags > 1u << 20) {
		return why_set(why, -EINVAL, "limit of fragments: %u is not in 1..1048576",
			       l->frags);
	}
	if (!is_pow2_u64(l->buffer_bytes) || l->buffer_bytes < RAID_FRAGMENT_BYTES ||
	    l->buffer_bytes > ARENA_BYTES_MAX) {
		return why_set(why, -EINVAL,
			       "buffer memory: %llu is no power of two from 1 MiB to 1 GiB",
			       (unsigned long long)l->buffer_bytes);
	}
	return 0;
}

/* Where data of a slot begins, in sectors: where a member has it; in an empty slot where the one
 * that speaks for the array has it. */
static uint64_t slot_offset(const struct assembly *as, uint32_t slot)
{
	if (as->present[slot] || !as->metadata) {
		return as->geometry.p.slot[slot].data_offset_sectors;
	}
	for (uint32_t i = 0; i < as->members; i++) {
		const struct asm_member *m = &as->member[i];

		if (m->slot == (int32_t)slot && m->verdict == ASM_RECOVERING) {
			return m->sb.data_offset;
		}
	}
	return as->member[as->freshest].sb.data_offset;
}

static int check_member(const struct raid_config *cfg, const struct shape *s, uint32_t i,
			char why[RAID_WHY_BYTES])
{
	const struct asm_member *m = &cfg->assembly->member[i];
	const struct geometry *g = &cfg->assembly->geometry;
	const struct raid_member_props *p = &cfg->props[i];
	uint64_t offset, end;

	if (p->read_only && !cfg->read_only) {
		return why_set(why, -EINVAL, "member %u is opened read-only", i);
	}
	if (!is_pow2_u64(p->logical_block) || p->logical_block < RAID_SECTOR_BYTES ||
	    p->logical_block > RAID_PAGE_BYTES || !is_pow2_u64(p->mem_align) ||
	    p->mem_align > RAID_PAGE_BYTES) {
		return why_set(why, -EINVAL, "member %u: block size %u, memory alignment %u", i,
			       p->logical_block, p->mem_align);
	}
	if (p->max_io_bytes && p->max_io_bytes < s->unit) {
		return why_set(why, -EINVAL, "member %u: largest io of %u bytes is below a block",
			       i, p->max_io_bytes);
	}
	if (cfg->assembly->geometry.parity && p->max_io_bytes && p->max_io_bytes < STRIPE_SUB) {
		return why_set(why, -EINVAL, "member %u: largest io of %u bytes is below a page", i,
			       p->max_io_bytes);
	}
	if (cfg->assembly->metadata && m->sb.super_offset * RAID_SECTOR_BYTES % p->logical_block) {
		return why_set(why, -EINVAL,
			       "member %u: its superblock does not begin at a block of %u bytes", i,
			       p->logical_block);
	}
	if (m->verdict == ASM_SPARE) {
		return 0;
	}
	offset = slot_offset(cfg->assembly, (uint32_t)m->slot) * RAID_SECTOR_BYTES;
	if (offset % p->logical_block || s->chunk_bytes % s->unit) {
		return why_set(
			why, -EINVAL,
			"member %u has blocks of %u bytes: data offset %llu or chunk %u is no "
			"multiple",
			i, p->logical_block, (unsigned long long)offset, s->chunk_bytes);
	}
	end = round_up_u64(offset + geo_used_sectors(g, (uint32_t)m->slot) * RAID_SECTOR_BYTES,
			   p->logical_block);
	if (end > p->size_bytes) {
		return why_set(why, -EINVAL,
			       "member %u is too small: %llu bytes, data ends at %llu", i,
			       (unsigned long long)p->size_bytes, (unsigned long long)end);
	}
	return 0;
}

static int check_config(const struct raid_config *cfg, struct shape *s, char why[RAID_WHY_BYTES])
{
	const struct assembly *as = cfg->assembly;
	int err;

	if (as->decision == ASM_REFUSE || (as->decision == ASM_START_READONLY && !cfg->read_only)) {
		return why_set(why, -EINVAL, "%s", as->why);
	}
	err = check_limits(&cfg->limits, why);
	if (err) {
		return err;
	}
	if (!shape_of(cfg, s)) {
		return why_set(why, -EINVAL, "members have impossible block sizes or io limits");
	}
	for (uint32_t i = 0; i < as->members; i++) {
		if (attached(&as->member[i])) {
			err = check_member(cfg, s, i, why);
			if (err) {
				return err;
			}
		}
	}
	return 0;
}

/* ---- filling in ---------------------------------------------------------------------------- */

/* A replacement that could not simply take the slot's place is begun anew, as a spare. */
static bool replaces(const struct raid_config *cfg, const struct core *c, uint32_t i)
{
	const struct asm_member *am = &cfg->assembly->member[i];
	uint32_t others = 0;

	for (uint32_t k = 0; k < VIEW_TWIN; k++) {
		others += c->view.slot[VIEW_TWIN + k].writes;
	}
	return others < VIEW_TWINS_MAX && c->view.slot[am->slot].in_sync &&
	       !c->view.slot[VIEW_TWIN + am->slot].writes &&
	       am->sb.data_offset == c->geo.p.slot[am->slot].data_offset_sectors;
}

static enum raid_member_state first_state(const struct raid_config *cfg, const struct core *c,
					  uint32_t i)
{
	const struct assembly *as = cfg->assembly;

	switch (as->member[i].verdict) {
	case ASM_IN_SYNC:
		return RAID_MEMBER_IN_SYNC;
	case ASM_RECOVERING:
		return RAID_MEMBER_REBUILDING;
	case ASM_REPLACEMENT:
		return replaces(cfg, c, i) ? RAID_MEMBER_REPLACEMENT : RAID_MEMBER_SPARE;
	case ASM_SPARE:
		return as->metadata ? RAID_MEMBER_SPARE : RAID_MEMBER_ABSENT;
	case ASM_FAULTY:
		return RAID_MEMBER_FAULTY;
	default:
		return RAID_MEMBER_ABSENT;
	}
}

/* How far a member that is being filled has got. */
static void fill_recovery(struct core *c, const struct asm_member *am, struct member *m)
{
	uint64_t used = geo_used_sectors(&c->geo, (uint32_t)m->slot);

	m->recovery_sectors = min_u64(am->recovery_offset, used);
	m->guided = am->recovery_bitmap;
	if (m->state == RAID_MEMBER_REPLACEMENT && am->recovery_offset == SB_IN_SYNC &&
	    c->meta.state != META_OFF) {
		m->finish = FINISH_BITMAP;
		c->finish_waits = true;
	}
}

static struct slot *private_slot(struct raid_array *a, struct parts *p, uint32_t k,
				 enum slot_owner owner, uint32_t member)
{
	struct slot *s;

	slot_pool_add(&a->private_pool, &p->private_slots[k], &p->private_iovs[k], 1);
	s = slot_take(&a->private_pool, owner, &a->core.member[member]);
	s->io.member = member;
	return s;
}

static void fill_place(struct raid_array *a, struct parts *p, uint32_t i)
{
	struct member *m = &a->core.member[i];

	m->slot = -1;
	m->recorded = true;
	m->sb = &p->sb[i];
	m->bad = &p->bad[i];
	m->sb_page = p->sb_pages + (uint64_t)i * SB_BYTES_MAX;
	m->sb_slot = private_slot(a, p, PRIVATE_SLOTS * i, SLOT_META, i);
	m->sb_slot->io.iovcnt = 1;
	m->flush_slot = private_slot(a, p, PRIVATE_SLOTS * i + 1, SLOT_FLUSH, i);
	m->flush_slot->io.op = RAID_IO_FLUSH;
	m->flush_slot->io.maddr = 0;
	m->log.slot = private_slot(a, p, PRIVATE_SLOTS * i + 2, SLOT_BAD, i);
	m->log.slot->io.iovcnt = 1;
	m->log.page = p->bad_pages + 3 * (uint64_t)i * BB_LOG_BYTES;
	m->log.disk = m->log.page + BB_LOG_BYTES;
	m->log.block = m->log.disk + BB_LOG_BYTES;
}

static void fill_member(struct raid_array *a, const struct raid_config *cfg, uint32_t i)
{
	const struct asm_member *am = &cfg->assembly->member[i];
	struct core *c = &a->core;
	struct member *m = &c->member[i];

	m->taken = true;
	m->state = first_state(cfg, c, i);
	m->slot = m->state == RAID_MEMBER_SPARE ? -1 : am->slot;
	m->props = cfg->props[i];
	if (!attached(am)) {
		return;
	}
	m->recorded = false;
	m->has_sb = cfg->assembly->metadata;
	*m->sb = am->sb;
	m->sb_events = am->sb.events;
	m->sb_slot->io.maddr = am->sb.super_offset * RAID_SECTOR_BYTES;
	if (m->state != RAID_MEMBER_SPARE) {
		*m->bad = am->bad;
		bad_load(m);
	}
	if (m->state == RAID_MEMBER_REBUILDING || m->state == RAID_MEMBER_REPLACEMENT) {
		fill_recovery(c, am, m);
	}
	if (member_gets_writes(m)) {
		member_view(c, i);
	}
}

/* In-sync members first: what is filled from them is judged by them. */
static void fill_members(struct raid_array *a, const struct raid_config *cfg, const struct shape *s,
			 struct parts *p)
{
	const struct assembly *as = cfg->assembly;

	for (uint32_t i = 0; i < s->places; i++) {
		fill_place(a, p, i);
	}
	for (uint32_t i = 0; i < as->members; i++) {
		if (as->member[i].verdict == ASM_IN_SYNC) {
			fill_member(a, cfg, i);
		}
	}
	for (uint32_t i = 0; i < as->members; i++) {
		if (as->member[i].verdict != ASM_IN_SYNC) {
			fill_member(a, cfg, i);
		}
	}
}

/* Slots without a member in sync: whoever is to hold them has its data where it belongs. */
static void fill_offsets(struct core *c, const struct assembly *as)
{
	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		if (!as->present[k]) {
			c->geo.p.slot[k].data_offset_sectors = slot_offset(as, k);
		}
	}
}

static void fill_core(struct raid_array *a, const struct raid_config *cfg, const struct shape *s,
		      struct parts *p)
{
	const struct assembly *as = cfg->assembly;
	struct core *c = &a->core;
	uint64_t resync_end =
		s->stripes.parity ? as->geometry.p.component_sectors : as->geometry.array_sectors;
	bool writes_sb = s->redundant && as->metadata && !cfg->read_only;

	c->now = cfg->now;
	c->limits = cfg->limits;
	c->geo = as->geometry;
	fill_offsets(c, as);
	c->iop = &a->iop;
	c->events = &a->events;
	c->done = &a->done;
	c->cmds_done = &a->cmds_done;
	c->members = as->members;
	c->places = s->places;
	c->member = p->member;
	c->spares_changed = true;
	c->max_io_bytes = s->exact ? UINT64_MAX : s->cell_bytes;
	list_init(&c->cmds_waiting);
	list_init(&c->bad_wait);
	list_init(&c->ask.wrote_bad);
	c->ask.differ_from = UINT64_MAX;
	list_init(&c->ask.failed);
	list_init(&c->ask.judged);
	list_init(&c->ask.flush);
	list_init(&c->ask.flushed);
	list_init(&c->ask.intent);
	list_init(&c->ask.intent_granted);
	list_init(&c->ask.intent_ended);
	list_init(&c->ask.sync);
	list_init(&c->ask.synced);
	list_init(&c->ask.sync_seen);
	list_init(&c->ask.sync_idle);
	c->view = (struct view){
		.generation = 1,
		.members_generation = 1,
		.geo = &c->geo,
		.size_bytes = c->geo.array_sectors * RAID_SECTOR_BYTES,
		.unit = s->unit,
		.redundant = s->redundant,
		.read_only = cfg->read_only,
		.write_open = !writes_sb,
		.unsynced_from = as->resync_offset < resync_end && s->redundant
					 ? as->resync_offset * RAID_SECTOR_BYTES
					 : UINT64_MAX,
	};
	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		c->view.slot[k].member = UINT32_MAX;
	}
	c->meta = (struct meta){
		.state = writes_sb ? META_IDLE : META_OFF,
		.events = as->events,
		.resync_offset = s->redundant ? as->resync_offset : SB_IN_SYNC,
		.freshest = as->freshest,
		.prng.state = cfg->seed,
	};
	flush_init(&c->flush);
	resync_init(c, s->sync.orders, s->sync.step);
	fill_members(a, cfg, s, p);
	if (as->metadata) {
		const struct sb *sb = c->member[as->freshest].sb;

		c->meta.max_dev = sb->max_dev;
		c->meta.said_resync = sb->resync_offset; /* a forced start takes it for in sync */
		memcpy(c->meta.said_roles, sb->dev_roles, sizeof c->meta.said_roles);
	}
}

static void fill_pool(struct slot_pool *pool, struct slot *slots, struct iovec *iovs,
		      uint32_t count, uint32_t iov_cap)
{
	slot_pool_init(pool);
	for (uint32_t i = 0; i < count; i++) {
		slot_pool_add(pool, &slots[i], &iovs[(uint64_t)i * iov_cap], iov_cap);
	}
}

static void fill_jobs(struct shard *sh, struct parts *p)
{
	list_init(&sh->jobs_free);
	list_init(&sh->jobs_dirty);
	list_init(&sh->job_wait);
	for (uint32_t i = 0; i < SHARD_JOBS; i++) {
		struct job *j = &sh->job[i];

		fill_pool(&j->pool, &p->job_slots[i], &p->job_iovs[i], 1, 1);
		j->slot = slot_take(&j->pool, SLOT_JOB, j);
		range_init(&j->range, RANGE_JOB);
		j->good = p->job_blocks + (uint64_t)(2 * i) * SHARD_BLOCK;
		j->again = p->job_blocks + (uint64_t)(2 * i + 1) * SHARD_BLOCK;
		list_append(&sh->jobs_free, &j->link);
	}
}

static void fill_shard(struct raid_array *a, const struct shape *s, struct parts *p)
{
	struct shard *sh = &a->shard;
	const struct geometry *g = &a->core.geo;

	sh->view = &a->core.view;
	sh->ask = &a->core.ask;
	sh->iop = &a->iop;
	sh->events = &a->events;
	sh->arena = &a->arena;
	sh->done = &a->done;
	sh->free = &a->free;
	sh->members_generation = a->core.view.members_generation;
	sh->cell_bytes = s->cell_bytes;
	sh->cells_max = s->cells_max;
	sh->ios_max = s->ios_max;
	sh->ios_exact = s->exact;
	for (uint32_t k = 0; g->p.level == RAID_LEVEL_LINEAR && k < g->p.slots; k++) {
		sh->shifted |= g->start_sector[k] * RAID_SECTOR_BYTES % s->unit != 0;
	}
	sh->zeroes = p->zeroes;
	list_init(&sh->fifo);
	list_init(&sh->active);
	list_init(&sh->frags_free);
	list_init(&sh->wait_dirty);
	list_init(&sh->wait_shed);
	list_init(&sh->wait_meta);
	for (uint32_t i = 0; i < s->frags + SHARD_SHED_MAX; i++) {
		struct frag *f = &p->frags[i];

		list_init(&f->active);
		list_init(&f->slots);
		list_init(&f->rider.link);
		list_init(&f->intent.link);
		list_init(&f->in_stripe);
		range_init(&f->range, RANGE_FRAG);
		list_append(&sh->frags_free, &f->link);
		sh->frags_free_count++;
	}
	fill_pool(&sh->pool, p->slots, p->iovs, s->ios, s->iovs);
	range_table_init(&sh->ranges);
	range_table_init(&sh->rows);
	sh->kits = s->kits;
	for (uint32_t i = 0; i < s->kits; i++) {
		sh->kit[i].buf = p->kit_bufs[i];
		fill_pool(&sh->kit[i].pool, p->kit_slots[i], p->kit_iovs[i], s->ios_max, s->iovs);
	}
	fill_jobs(sh, p);
	sync_create(sh, &s->sync, p->sync);
}

static uint64_t row_bytes(const struct geometry *g, uint32_t chunk_bytes)
{
	switch (g->p.level) {
	case RAID_LEVEL_0:
		return (uint64_t)g->p.slots * chunk_bytes;
	case RAID_LEVEL_10:
		return (uint64_t)g->p.slots * chunk_bytes / g->copies;
	case RAID_LEVEL_4:
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		return (uint64_t)g->row_data * chunk_bytes;
	default:
		return g->row_bytes;
	}
}

int raid_create(const struct raid_config *config, struct raid_array **out, char why[RAID_WHY_BYTES])
{
	struct carver carver = {0};
	struct raid_array *a;
	struct parts p;
	struct shape s;
	void *memory;
	int err = check_config(config, &s, why);

	if (err) {
		return err;
	}
	lay_out(&carver, &s, &p);
	memory = calloc(1, carver.used + RAID_PAGE_BYTES);
	if (!memory) {
		return why_set(why, -ENOMEM, "no memory: %llu bytes",
			       (unsigned long long)carver.used);
	}
	carver.base = (uint8_t *)(uintptr_t)round_up_u64((uintptr_t)memory, RAID_PAGE_BYTES);
	carver.used = 0;
	lay_out(&carver, &s, &p);
	a = p.array;
	err = arena_create(&a->arena, p.arena, s.buffer_bytes);
	if (err) {
		free(memory);
		return why_set(why, err, "no memory for buffers");
	}
	a->memory = memory;
	a->chunk_bytes = s.chunk_bytes;
	a->row_bytes = row_bytes(&config->assembly->geometry, s.chunk_bytes);
	a->buffer_bytes = s.buffer_bytes;
	iop_init(&a->iop, (uint64_t)config->limits.read_deadline_ms * 1000000,
		 (uint64_t)config->limits.write_deadline_ms * 1000000);
	a->iop.now_ns = config->now.mono_ns;
	slot_pool_init(&a->private_pool);
	list_init(&a->submitted);
	list_init(&a->released);
	list_init(&a->commands);
	list_init(&a->done);
	list_init(&a->free);
	list_init(&a->cmds_done);
	fill_core(a, config, &s, &p);
	fill_shard(a, &s, &p);
	stripe_create(&a->shard, &s.stripes, p.stripes);
	err = intent_create(&a->core, config, places_of(config), why);
	if (err) {
		raid_destroy(a);
		return err;
	}
	*out = a;
	return 0;
}

void raid_destroy(struct raid_array *a)
{
	if (!a) {
		return;
	}
	array_take_released(a);
	CHECK(!a->iop.out && !a->outstanding);
	intent_destroy(&a->core.intent);
	arena_destroy(&a->arena);
	free(a->memory);
}
