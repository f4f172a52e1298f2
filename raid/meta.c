/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Superblock updates (md-format §7, §8; rules 1 and 3).
 *
 *   OFF      nothing is ever written: linear, RAID 0, arrays without superblocks, read-only
 *   IDLE     what is to be durable is durable
 *   BITMAP   events and contents of an update are decided; the bitmap's header gets the events
 * first WAVE0    members whose superblock is behind get the events of the others WAVE1    an update
 * is being written; its images do not change meanwhile WAVE2    the members of the first wave have
 * it, others are being written BROKEN   a member that cannot be failed did not take its superblock:
 * no more writes
 *
 *   IDLE -> WAVE0 | BITMAP | WAVE1    begin: a failure to record, or dirty or clean is wanted
 *   WAVE0 -> WAVE0 | BITMAP | WAVE1   begin
 *   BITMAP -> WAVE1          run_bitmap
 *   BITMAP -> WAVE0 | BITMAP begin: a member failed meanwhile
 *   WAVE1 -> WAVE2 ... -> IDLE   wave_end; without another wave WAVE1 -> IDLE
 *   WAVE1, WAVE2 -> WAVE0 | BITMAP | WAVE1    begin: a member failed meanwhile, so the update is
 *                            not what it must be
 *   all but OFF, BROKEN -> BROKEN    meta_break
 *
 * One update at a time; whoever needs one waits for the next that holds what it needs. It is
 * complete when every member that it does not name as failed has it. events rises with each.
 *
 * A superblock within one logical block is written whole or not at all. A longer one can be torn
 * by a power cut, so it goes to every second member first: the others still hold the old one.
 * Spares come last: what they say about members must not be newer than what any member says. So do
 * members being filled: they cannot speak for the array.
 *
 * Assembly trusts a member one event behind the freshest, not two (md-format §7.3). After a crash
 * or a restart between waves members may be one apart; if the next update then went to some of them
 * only, the others would be lost. So those first get, alone, exactly what the newest ones say.
 *
 * Clean is written only when the data it vouches for is durable: after a flush round.
 */
#include <errno.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

#define OWN_FEATURES                                                                               \
	((uint32_t)(SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_REPLACEMENT |                          \
		    SB_FEATURE_RECOVERY_BITMAP | SB_FEATURE_BAD_BLOCKS))

static void set_state(struct meta *m, enum meta_state to)
{
	static const uint8_t next[] = {
		[META_OFF] = 0,
		[META_IDLE] =
			1 << META_WAVE0 | 1 << META_BITMAP | 1 << META_WAVE1 | 1 << META_BROKEN,
		[META_BITMAP] =
			1 << META_WAVE0 | 1 << META_BITMAP | 1 << META_WAVE1 | 1 << META_BROKEN,
		[META_WAVE0] =
			1 << META_WAVE0 | 1 << META_BITMAP | 1 << META_WAVE1 | 1 << META_BROKEN,
		[META_WAVE1] = 1 << META_WAVE0 | 1 << META_BITMAP | 1 << META_WAVE1 |
			       1 << META_WAVE2 | 1 << META_IDLE | 1 << META_BROKEN,
		[META_WAVE2] = 1 << META_WAVE2 | 1 << META_WAVE0 | 1 << META_BITMAP |
			       1 << META_WAVE1 | 1 << META_IDLE | 1 << META_BROKEN,
		[META_BROKEN] = 0,
	};

	CHECK(next[m->state] >> to & 1);
	m->state = to;
}

static uint64_t prng_next(struct prng *p)
{
	uint64_t z = p->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool takes_superblock(const struct member *m)
{
	return m->has_sb && (member_gets_writes(m) || m->state == RAID_MEMBER_SPARE);
}

/* ---- the image ----------------------------------------------------------------------------- */

/* What the next update says. Only members that are present and not faulty have a role
 * (md-format §8.8). */
static void decide(struct core *c)
{
	struct meta *meta = &c->meta;

	member_update_begins(c);
	meta->events++;
	meta->update_changes = meta->changes;
	meta->said_bitmap = intent_named(c);
	meta->said_resync = meta->to_dirty ? 0 : meta->resync_offset;
	for (uint32_t k = 0; k < SB_ROLES_MAX; k++) {
		meta->said_roles[k] = SB_ROLE_SPARE;
	}
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];
		uint32_t number;

		if (!m->has_sb || m->sb->dev_number >= meta->max_dev) {
			continue;
		}
		number = m->sb->dev_number;
		if (member_gets_writes(m)) {
			meta->said_roles[number] =
				member_is_replaced(c, m) ? SB_ROLE_FAULTY : (uint16_t)m->slot;
		} else if ((m->state == RAID_MEMBER_LEAVING || m->state == RAID_MEMBER_FAULTY) &&
			   !m->removing) {
			meta->said_roles[number] = SB_ROLE_FAULTY;
		}
	}
}

/* What differs between members stays as it was read; the rest is the array's. */
static void fill_array(const struct core *c, const struct member *m, struct sb *sb)
{
	const struct sb *fresh = c->member[c->meta.freshest].sb;

	sb->max_dev = c->meta.max_dev;
	sb->size = fresh->size;
	sb->raid_disks = fresh->raid_disks;
	memcpy(sb->set_name, fresh->set_name, sizeof sb->set_name);
	memcpy(sb->dev_roles, c->meta.said_roles, sizeof sb->dev_roles);
	sb->events = c->meta.events;
	sb->resync_offset = c->meta.said_resync;
	intent_in_superblock(c, c->meta.said_bitmap, &m->props, sb);
}

/* What it says about its own state (md-format §4). */
static void fill_own(const struct member *m, struct sb *sb)
{
	bool filling = m->finish < FINISH_SYNCED_OUT;
	uint32_t own = m->log.announced ? SB_FEATURE_BAD_BLOCKS : 0;

	if (m->state == RAID_MEMBER_REPLACEMENT && m->finish != FINISH_TAKES_OUT) {
		own |= SB_FEATURE_REPLACEMENT;
	}
	if (filling &&
	    (m->state == RAID_MEMBER_REPLACEMENT || m->state == RAID_MEMBER_REBUILDING)) {
		own |= SB_FEATURE_RECOVERY_OFFSET | (m->guided ? SB_FEATURE_RECOVERY_BITMAP : 0);
	}
	sb->feature_map = (sb->feature_map & ~OWN_FEATURES) | own;
	sb->recovery_offset = own & SB_FEATURE_RECOVERY_OFFSET ? m->recovery_sectors : 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_one(struct core *c, struct member *m)
{
	struct slot *s = m->sb_slot;

	s->io.op = RAID_IO_WRITE;
	s->io.fua = true;
	iop_emit(c->iop, s);
	m->sb_out = true;
	c->meta.out++;
}

static void write_wave(struct core *c, uint8_t wave)
{
	for (uint32_t i = 0; i < c->members; i++) {
		if (c->member[i].wave == wave) {
			write_one(c, &c->member[i]);
		}
	}
}

/* Make a member's image. Returns whether a power cut could tear it. */
static bool image(struct core *c, struct member *m, uint32_t utime_us)
{
	struct sb *sb = m->sb;
	uint32_t bytes;

	fill_array(c, m, sb);
	fill_own(m, sb);
	sb->utime_s = c->now.wall_s;
	sb->utime_us = utime_us;
	sb->cnt_corrected_read += (uint32_t)m->corrected_sectors;
	m->corrected_sectors = 0;
	bytes = sb_encode(sb, m->props.logical_block, m->sb_page);
	m->sb_retried = false;
	m->sb_writing = sb->events;
	m->sb_slot->iov[0] = (struct iovec){.iov_base = m->sb_page, .iov_len = bytes};
	m->sb_slot->io.len = bytes;
	return bytes > m->props.logical_block;
}

static bool is_behind(const struct core *c, const struct member *m)
{
	return m->state == RAID_MEMBER_IN_SYNC && m->has_sb && m->sb_events < c->meta.events;
}

static void write_first(struct core *c, bool behind)
{
	struct meta *meta = &c->meta;
	uint32_t utime_us = (uint32_t)(1 + prng_next(&meta->prng) % 0xffffff);
	uint32_t in_sync = 0;
	bool torn = false;

	for (uint32_t i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		m->wave = 0;
		if (!takes_superblock(m) || (behind && !is_behind(c, m))) {
			continue;
		}
		torn |= image(c, m, utime_us);
		m->wave = m->state != RAID_MEMBER_IN_SYNC ? 3 : 1 + in_sync++ % 2;
	}
	for (uint32_t i = 0; !torn && i < c->members; i++) {
		c->member[i].wave = c->member[i].wave == 2 ? 1 : c->member[i].wave;
	}
	if (behind) {
		MARK(meta_wave0);
	}
	set_state(meta, behind ? META_WAVE0 : META_WAVE1);
	write_wave(c, 1);
}

static void begin(struct core *c)
{
	struct meta *meta = &c->meta;
	bool behind = false;

	CHECK(!meta->out);
	for (uint32_t i = 0; i < c->members; i++) {
		behind |= is_behind(c, &c->member[i]);
	}
	meta->update_failures = meta->failures;
	if (!behind) {
		decide(c);
		if (intent_kept_up(c)) {
			MARK(meta_bitmap);
			set_state(meta, META_BITMAP);
			intent_events(c, meta->events);
			return;
		}
	}
	write_first(c, behind);
}

/* Returns whether anything was done. */
static bool run_bitmap(struct core *c)
{
	if (c->meta.update_failures != c->meta.failures) {
		MARK(meta_bitmap_restart);
		c->meta.to_dirty |= c->ask.need_dirty;
		begin(c);
		return true;
	}
	if (!intent_events_durable(c)) {
		return false;
	}
	write_first(c, false);
	return true;
}

void meta_break(struct core *c, uint32_t m, int err, const char *why)
{
	MARK(meta_broken);
	set_state(&c->meta, META_BROKEN);
	c->view.broken = true;
	c->view.write_open = false;
	c->view.generation++;
	events_add(c->events, (struct raid_event){
				      .type = RAID_EV_READ_ONLY,
				      .member = m,
				      .op = RAID_IO_WRITE,
				      .err = err,
				      .why = why,
			      });
	member_all_recorded(c);
}

/* Everything that waits for superblocks may go on. */
static void durable(struct core *c)
{
	struct meta *meta = &c->meta;

	meta->failures_durable = meta->update_failures;
	meta->changes_durable = meta->update_changes;
	c->view.fail_pending = false;
	c->view.generation++;
	member_all_recorded(c);
	member_update_durable(c);
	if (meta->to_dirty) {
		c->ask.need_dirty = false;
		if (!c->view.write_open) {
			MARK(meta_dirty);
			events_add(c->events, (struct raid_event){.type = RAID_EV_DIRTY,
								  .member = UINT32_MAX});
		}
		c->view.write_open = true;
	}
}

static void wave_end(struct core *c)
{
	struct meta *meta = &c->meta;
	uint8_t next = 0;

	for (uint32_t i = 0; i < c->members; i++) {
		uint8_t wave = c->member[i].wave;

		next = wave && (!next || wave < next) ? wave : next;
	}
	if (meta->update_failures != meta->failures || (meta->state == META_WAVE0 && !next)) {
		MARK(meta_restart);
		meta->to_dirty |= c->ask.need_dirty;
		begin(c);
		return;
	}
	if (next) {
		MARK(meta_wave2);
		set_state(meta, meta->state == META_WAVE0 ? META_WAVE0 : META_WAVE2);
		write_wave(c, next);
		return;
	}
	set_state(meta, META_IDLE);
	meta->updates++;
	if (!meta->to_dirty && meta->clean_update) {
		MARK(meta_clean);
		events_add(c->events,
			   (struct raid_event){.type = RAID_EV_CLEAN, .member = UINT32_MAX});
	}
	meta->clean_update = false;
	durable(c);
}

void meta_io_done(struct core *c, struct slot *s)
{
	uint32_t i = s->io.member;
	struct member *m = &c->member[i];

	if (!m->sb_out) {
		return; /* it has left */
	}
	if (s->res && !m->sb_retried && c->meta.state != META_BROKEN) {
		MARK(meta_sb_again);
		m->sb_retried = true;
		iop_emit(c->iop, s);
		return;
	}
	m->sb_out = false;
	m->wave = 0;
	c->meta.out--;
	if (s->res) {
		struct raid_event ev = {
			.type = RAID_EV_SB_ERROR,
			.member = i,
			.op = RAID_IO_WRITE,
			.maddr = s->io.maddr,
			.len = s->io.len,
			.err = s->res,
			.why = "its superblock could not be written",
		};

		events_add(c->events, ev);
		if (member_fail(c, i, ev) == MEMBER_FAIL_DONE) {
			MARK(meta_member_failed);
		} else if (c->meta.state != META_BROKEN) {
			meta_break(c, i, s->res,
				   "a superblock of a member that holds a last copy could not be "
				   "written; restart the array to try again");
		}
	} else {
		m->sb_events = m->sb_writing;
	}
}

/* A member has failed: nobody waits for its superblock. */
void meta_member_left(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];

	if (m->sb_out) {
		m->sb_out = false;
		c->meta.out--;
	}
	m->wave = 0;
}

/* ---- what is to be written ------------------------------------------------------------------- */

static bool may_clean(const struct core *c)
{
	return c->view.write_open && c->meta.state == META_IDLE && c->meta.resync_offset != 0 &&
	       !c->view.flush_lost && !c->ask.need_dirty && !c->ask.writes_active;
}

static uint64_t clean_at(const struct core *c)
{
	return c->meta.clean_now
		       ? 0
		       : c->ask.idle_since_ns + (uint64_t)c->limits.safe_mode_ms * 1000000;
}

static bool run_idle(struct core *c)
{
	struct meta *meta = &c->meta;
	bool changes =
		meta->failures != meta->failures_durable || meta->changes != meta->changes_durable;
	bool dirty = c->ask.need_dirty && !c->view.write_open;
	bool clean = may_clean(c) && c->now.mono_ns >= clean_at(c);

	if (clean && (member_unflushed(c) || c->flush.running)) {
		MARK(meta_flush_before_clean);
		c->flush.wanted |= member_unflushed(c); /* others may want one too */
		clean = false;
	}
	if (!changes && !dirty && !clean) {
		return false;
	}
	if (clean) {
		c->view.write_open = false;
		c->view.generation++;
		meta->clean_update = true;
	}
	meta->to_dirty = dirty || c->view.write_open;
	begin(c);
	return true;
}

/* Without superblocks there is nothing to wait for. */
static bool run_off(struct core *c)
{
	if (c->meta.failures == c->meta.failures_durable &&
	    c->meta.changes == c->meta.changes_durable) {
		return false;
	}
	c->meta.failures_durable = c->meta.failures;
	c->meta.changes_durable = c->meta.changes;
	c->view.fail_pending = false;
	c->view.generation++;
	member_all_recorded(c);
	return true;
}

void meta_want(struct core *c)
{
	c->meta.changes++;
}

bool meta_run(struct core *c)
{
	switch (c->meta.state) {
	case META_OFF:
		return run_off(c);
	case META_IDLE:
		return run_idle(c);
	case META_BITMAP:
		return run_bitmap(c);
	case META_WAVE0:
	case META_WAVE1:
	case META_WAVE2:
		if (c->meta.out) {
			return false;
		}
		wave_end(c);
		return true;
	case META_BROKEN:
		return false;
	}
	return false;
}

uint64_t meta_deadline(const struct core *c)
{
	return may_clean(c) && !c->flush.running && !c->flush.wanted ? clean_at(c) : RAID_NEVER;
}

bool meta_settled(const struct core *c)
{
	return c->meta.state == META_BROKEN ||
	       ((c->meta.state == META_OFF || c->meta.state == META_IDLE) &&
		c->meta.failures == c->meta.failures_durable &&
		c->meta.changes == c->meta.changes_durable && !may_clean(c));
}
