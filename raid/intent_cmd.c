/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a bitmap comes and goes.
 *
 *   NONE -> READ_ONLY | ON       intent_create: the array has one
 *   NONE -> ADDING               intent_cmd_add: memory, all bits set
 *   ADDING -> ON                 every page is on every member: superblocks are asked to name it
 *   ON -> REMOVING               intent_cmd_remove: superblocks are asked not to name it
 *   REMOVING -> NONE             they do not
 *
 * A bitmap is added to an array that is being written: writes that were granted before are not
 * counted in it, so no bit is cleared until they have ended. One that is removed is kept up until
 * no superblock names it. Its memory goes with the last io that names it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/assemble.h"
#include "raid/base/bytes.h"
#include "raid/base/carve.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"
#include "raid/why.h"

static void set_state(struct intent *n, enum intent_state to)
{
	static const uint8_t next[] = {
		[INTENT_NONE] = 1 << INTENT_READ_ONLY | 1 << INTENT_ADDING | 1 << INTENT_ON,
		[INTENT_READ_ONLY] = 0,
		[INTENT_ADDING] = 1 << INTENT_ON,
		[INTENT_ON] = 1 << INTENT_REMOVING,
		[INTENT_REMOVING] = 1 << INTENT_NONE,
	};

	CHECK(next[n->state] >> to & 1);
	n->state = to;
}

/* ---- memory -------------------------------------------------------------------------------- */

struct parts {
	struct slot *slots;
	struct iovec *iovs;
	uint8_t *buffers;
};

static void lay_out(struct carver *c, uint64_t bits, uint32_t members, struct intent *n,
		    struct parts *p)
{
	uint64_t words = 8 * bm_words(bits), pages = bm_area_pages(bits);
	uint64_t ios = (uint64_t)members * INTENT_LANES;

	n->set = carve(c, words, 64);
	n->durable = carve(c, words, 64);
	n->needed = carve(c, words, 64);
	n->urgent = carve(c, 8 * bm_words(pages), 64);
	n->changed = carve(c, 8 * bm_words(pages), 64);
	n->in_lane = carve(c, 8 * bm_words(pages), 64);
	n->page_idle = carve(c, sizeof *n->page_idle * pages, 64);
	n->member = carve(c, sizeof *n->member * members, 64);
	p->slots = carve(c, sizeof *p->slots * ios, 64);
	p->iovs = carve(c, sizeof *p->iovs * ios, 64);
	p->buffers = carve(c, BM_PAGE_BYTES * (ios + INTENT_LANES), BM_PAGE_BYTES);
	n->count = carve(c, sizeof *n->count * bits, BM_PAGE_BYTES);
}

static uint64_t memory_for(uint64_t bits, uint32_t members)
{
	struct carver c = {0};
	struct intent n;
	struct parts p;

	lay_out(&c, bits, members, &n, &p);
	return c.used + BM_PAGE_BYTES;
}

uint64_t intent_memory(const struct assembly *as, uint32_t members)
{
	bool any = as->bitmap.state == ASM_BITMAP_CURRENT || as->bitmap.state == ASM_BITMAP_STALE;

	return any ? memory_for(as->bitmap.bits, members) : 0;
}

static void fill_ios(struct intent *n, const struct parts *p)
{
	slot_pool_init(&n->pool);
	for (uint32_t i = 0; i < n->members * INTENT_LANES; i++) {
		struct intent_io *io = &n->member[i / INTENT_LANES].io[i % INTENT_LANES];

		slot_pool_add(&n->pool, &p->slots[i], &p->iovs[i], 1);
		io->slot = slot_take(&n->pool, SLOT_INTENT, NULL);
		io->page = p->buffers + (uint64_t)i * BM_PAGE_BYTES;
	}
	for (uint32_t i = 0; i < INTENT_LANES; i++) {
		n->lane[i] = (struct intent_lane){
			.image = p->buffers +
				 ((uint64_t)n->members * INTENT_LANES + i) * BM_PAGE_BYTES,
		};
	}
}

/* Take memory for a bitmap with this header, all bits 0. */
static int take_memory(struct core *c, const struct bm_header *header, int32_t offset_sectors,
		       char why[RAID_WHY_BYTES])
{
	struct intent *n = &c->intent;
	uint32_t members = n->places;
	uint64_t bits = bm_bits(header->sync_size_sectors, header->chunk_bytes);
	struct carver carver = {0};
	struct parts p;

	n->memory_bytes = memory_for(bits, members);
	n->memory = calloc(1, n->memory_bytes);
	if (!n->memory) {
		return why_set(why, -ENOMEM, "no memory for the bitmap: %llu bytes",
			       (unsigned long long)n->memory_bytes);
	}
	carver.base = (uint8_t *)(uintptr_t)round_up_u64((uintptr_t)n->memory, BM_PAGE_BYTES);
	lay_out(&carver, bits, members, n, &p);
	n->members = members;
	n->header = *header;
	n->header.version = BM_V4;
	n->offset_sectors = offset_sectors;
	n->bits = bits;
	n->pages = (uint32_t)bm_area_pages(bits);
	n->fill_next = n->pages;
	fill_ios(n, &p);
	c->view.unsynced_chunks = n->needed;
	c->view.chunks = bits;
	c->view.chunk_shift = (uint32_t)__builtin_ctz(header->chunk_bytes);
	c->view.generation++;
	return 0;
}

static void give_memory(struct intent *n)
{
	free(n->memory);
	n->memory = NULL;
	n->memory_bytes = 0;
	n->members = 0;
}

void intent_destroy(struct intent *n)
{
	give_memory(n);
}

/* ---- with the array ------------------------------------------------------------------------ */

/* Does it hold what was read? */
static bool holds_copy(const struct assembly *as, const struct asm_member *m)
{
	return as->bitmap.state == ASM_BITMAP_CURRENT && m->verdict == ASM_IN_SYNC &&
	       m->sb.feature_map & SB_FEATURE_BITMAP &&
	       m->sb.bitmap_offset == as->bitmap.offset_sectors;
}

/* Every member should hold the same copy, but only one was read: pages with set bits are written
 * before any write relies on them. */
static bool load(struct core *c, const struct assembly *as, const uint8_t *bits)
{
	struct intent *n = &c->intent;
	bool all = as->bitmap.state == ASM_BITMAP_STALE || !bits, fill = false;
	uint64_t from = as->resync_offset == SB_IN_SYNC
				? n->bits
				: bm_bit_of(as->resync_offset, n->header.chunk_bytes);

	if (all) {
		bm_fill(n->set, n->bits, true);
	} else {
		bm_unpack(bits, n->bits, n->set);
	}
	for (uint64_t bit = bm_next(n->set, n->bits, 0); bit < n->bits;
	     bit = bm_next(n->set, n->bits, bit + 1)) {
		bm_put(n->set, bit, false);
		intent_chunk(n, bit, true, INTENT_COUNT_IDLE, bit >= from);
	}
	for (uint32_t i = 0; i < as->members; i++) {
		const struct asm_member *m = &as->member[i];

		n->member[i].whole = holds_copy(as, m);
		fill |= !n->member[i].whole &&
			(m->verdict == ASM_IN_SYNC || m->verdict == ASM_RECOVERING ||
			 m->verdict == ASM_REPLACEMENT);
	}
	return fill;
}

int intent_create(struct core *c, const struct raid_config *cfg, uint32_t members,
		  char why[RAID_WHY_BYTES])
{
	const struct assembly *as = cfg->assembly;
	struct intent *n = &c->intent;
	bool fill;
	int err;

	intent_init(n);
	n->places = members;
	c->meta.said_bitmap = as->bitmap.state != ASM_BITMAP_NONE;
	if (as->bitmap.state != ASM_BITMAP_CURRENT && as->bitmap.state != ASM_BITMAP_STALE) {
		return 0;
	}
	err = take_memory(c, &as->bitmap.header, as->bitmap.offset_sectors, why);
	if (err) {
		return err;
	}
	fill = load(c, as, cfg->bitmap_bits);
	set_state(n, c->meta.state == META_OFF ? INTENT_READ_ONLY : INTENT_ON);
	if (as->bitmap.state == ASM_BITMAP_STALE) {
		n->header.events = n->header.events_cleared = as->events;
	}
	if (fill && n->state == INTENT_ON) {
		intent_fill(c);
	}
	return 0;
}

bool intent_named(const struct core *c)
{
	return c->intent.state == INTENT_ON;
}

void intent_events(struct core *c, uint64_t events)
{
	struct intent *n = &c->intent;

	n->active = true;
	n->header.events = events;
	intent_header_changed(n);
	n->events_seq = n->header_seq;
}

bool intent_events_durable(const struct core *c)
{
	return c->intent.header_durable >= c->intent.events_seq;
}

/* ---- room ---------------------------------------------------------------------------------- */

static int check_place(int32_t offset_sectors, uint64_t bits, const struct sb *sb,
		       const struct raid_member_props *props, char why[RAID_WHY_BYTES])
{
	uint64_t need = bm_area_pages(bits) * (BM_PAGE_BYTES / RAID_SECTOR_BYTES);
	uint64_t room = sb_room(sb, props->size_bytes / RAID_SECTOR_BYTES, offset_sectors,
				SB_AREA_BITMAP, NULL);
	int64_t at = (int64_t)sb->super_offset + offset_sectors;

	if (at < 0 || (uint64_t)at * RAID_SECTOR_BYTES % props->logical_block) {
		return why_set(why, -ENOSPC,
			       "the bitmap would begin at sector %lld, which is no block of %u "
			       "bytes",
			       (long long)at, props->logical_block);
	}
	if (room < need) {
		return why_set(why, -ENOSPC,
			       "no room beside its data for the array's bitmap: %llu sectors are "
			       "needed, %llu free",
			       (unsigned long long)need, (unsigned long long)room);
	}
	return 0;
}

/*
 * Spares name it like the others, so that they can take a slot; what they call room for data gives
 * way to it. One that has no room at all does not name it.
 */
void intent_in_superblock(const struct core *c, bool named, const struct raid_member_props *props,
			  struct sb *sb)
{
	int64_t at = (int64_t)sb->super_offset + c->intent.offset_sectors;
	uint64_t end = sb->data_offset + sb->data_size;
	char why[RAID_WHY_BYTES];

	if (named && at > (int64_t)sb->data_offset && (uint64_t)at < end) {
		MARK(intent_data_gives_way);
		sb->data_size = (uint64_t)at - sb->data_offset;
	}
	if (named && !check_place(c->intent.offset_sectors, c->intent.bits, sb, props, why)) {
		sb->feature_map |= SB_FEATURE_BITMAP;
		sb->bitmap_offset = c->intent.offset_sectors;
	} else {
		sb->feature_map &= ~(uint32_t)SB_FEATURE_BITMAP;
		sb->bitmap_offset = 0;
	}
}

int intent_fits(const struct core *c, const struct sb *sb, const struct raid_member_props *props,
		char why[RAID_WHY_BYTES])
{
	if (!intent_kept_up(c)) {
		return 0;
	}
	return check_place(c->intent.offset_sectors, c->intent.bits, sb, props, why);
}

/* ---- adding -------------------------------------------------------------------------------- */

static bool has_place(const struct member *m)
{
	return m->has_sb && m->state != RAID_MEMBER_ABSENT && m->state != RAID_MEMBER_LEAVING &&
	       m->state != RAID_MEMBER_FAULTY;
}

static int plan_new(const struct core *c, uint32_t chunk_bytes, struct bm_plan *plan,
		    struct bm_header *header, char why[RAID_WHY_BYTES])
{
	const struct geo_params *g = &c->geo.p;
	struct bm_ask ask = {.chunk_bytes = chunk_bytes};
	int err;

	ask.sync_size_sectors = g->level == RAID_LEVEL_10 ? c->geo.array_sectors
				: g->chunk_sectors
					? round_down_u64(g->component_sectors, g->chunk_sectors)
					: g->component_sectors;
	for (uint32_t i = 0; i < c->members; i++) {
		if (has_place(&c->member[i])) {
			ask.sb[ask.members] = c->member[i].sb;
			ask.dev_sectors[ask.members++] =
				c->member[i].props.size_bytes / RAID_SECTOR_BYTES;
		}
	}
	err = bm_place(&ask, plan, why);
	for (uint32_t i = 0; !err && i < c->members; i++) {
		if (has_place(&c->member[i])) {
			err = check_place(plan->offset_sectors, plan->bits, c->member[i].sb,
					  &c->member[i].props, why);
		}
	}
	if (!err) {
		bm_header_new(&ask, plan, header);
		header->events = header->events_cleared = c->meta.events;
	}
	return err;
}

static int refuse(const struct core *c, char why[RAID_WHY_BYTES])
{
	if (c->meta.state == META_OFF) {
		return why_set(
			why, c->view.read_only ? -EROFS : -EINVAL,
			c->view.read_only
				? "the array is read-only: nothing is written to its members"
				: "the array has no copies that a bitmap could keep equal, or "
				  "no superblocks to name it");
	}
	if (c->view.broken) {
		return why_set(why, -EIO, "the array takes no more writes");
	}
	if (c->intent.cmd) {
		return why_set(why, -EBUSY, "a bitmap is being added or removed");
	}
	return 0;
}

int intent_cmd_add(struct core *c, struct raid_cmd *cmd)
{
	struct intent *n = &c->intent;
	struct bm_header header;
	struct bm_plan plan;
	int err = refuse(c, cmd->why);

	if (err) {
		return err;
	}
	if (n->state != INTENT_NONE) {
		return why_set(cmd->why, -EEXIST, "the array has a bitmap already");
	}
	if (n->memory) {
		return why_set(cmd->why, -EBUSY,
			       "a failed member still holds a page of the old bitmap: remove it "
			       "first");
	}
	err = plan_new(c, cmd->bitmap_chunk_bytes, &plan, &header, cmd->why);
	if (!err) {
		err = take_memory(c, &header, plan.offset_sectors, cmd->why);
	}
	if (err) {
		return err;
	}
	MARK(intent_add);
	set_state(n, INTENT_ADDING);
	n->generation++;
	n->uncounted = n->granted;
	n->active = true;
	/* As mdadm does: nobody knows which chunks are being written. */
	for (uint64_t bit = 0; bit < n->bits; bit++) {
		intent_chunk(n, bit, true, INTENT_COUNT_IDLE,
			     (bit + 1) * (n->header.chunk_bytes / RAID_SECTOR_BYTES) >
				     c->meta.resync_offset);
	}
	intent_fill(c);
	n->cmd = cmd;
	n->cmd_changes = 0;
	return 0;
}

/* ---- removing ------------------------------------------------------------------------------ */

int intent_cmd_remove(struct core *c, struct raid_cmd *cmd)
{
	struct intent *n = &c->intent;
	int err = refuse(c, cmd->why);

	if (err) {
		return err;
	}
	if (n->state == INTENT_NONE) {
		return why_set(cmd->why, -ENOENT, "the array has no bitmap");
	}
	if (n->needed_count) {
		return why_set(cmd->why, -EBUSY,
			       "a resync goes by the bitmap: wait until it is done");
	}
	for (uint32_t i = 0; i < c->members; i++) {
		if (c->member[i].state == RAID_MEMBER_REBUILDING) {
			return why_set(cmd->why, -EBUSY,
				       "a member is being rebuilt, the bitmap says what it "
				       "missed: wait until it is done");
		}
	}
	MARK(intent_remove);
	set_state(n, INTENT_REMOVING);
	n->cmd = cmd;
	n->cmd_changes = ++c->meta.changes;
	return 0;
}

static void forget(struct core *c)
{
	struct intent *n = &c->intent;

	set_state(n, INTENT_NONE);
	n->generation++;
	n->active = n->swept = false;
	n->sweep = SWEEP_IDLE;
	n->idle_count = n->ripe_count = n->set_count = n->needed_count = 0;
	n->bits = n->pages = n->fill_next = 0;
	n->sweep_at_ns = 0;
	n->uncounted = 0;
	c->view.unsynced_chunks = NULL;
	c->view.generation++;
	intent_grant(c);
	list_splice(&c->ask.intent, &n->full);
}

static bool ios_out(const struct intent *n)
{
	for (uint32_t i = 0; i < n->members * INTENT_LANES; i++) {
		if (n->member[i / INTENT_LANES].io[i % INTENT_LANES].slot->state == SLOT_OUT) {
			return true;
		}
	}
	return false;
}

static bool answer(struct core *c, int res, const char *text)
{
	struct raid_cmd *cmd = c->intent.cmd;

	c->intent.cmd = NULL;
	core_answer(c, cmd, res ? why_set(cmd->why, res, "%s", text) : 0);
	return true;
}

bool intent_cmd_run(struct core *c)
{
	struct intent *n = &c->intent;

	if (n->state == INTENT_NONE && n->memory && !ios_out(n)) {
		give_memory(n);
		return true;
	}
	if (!n->cmd) {
		return false;
	}
	if (c->view.broken) {
		return answer(c, -EIO, "the array takes no more writes");
	}
	if (n->state == INTENT_ADDING && !intent_filling(c) && intent_pages_settled(c)) {
		set_state(n, INTENT_ON);
		n->cmd_changes = ++c->meta.changes;
		return true;
	}
	if (n->state == INTENT_ADDING || c->meta.changes_durable < n->cmd_changes) {
		return false;
	}
	if (n->state == INTENT_REMOVING) {
		if (!intent_pages_settled(c)) {
			return false;
		}
		forget(c);
	}
	return answer(c, 0, NULL);
}
