/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bad-block logs (md-format §14; rules 1 and 8): blocks that a member does not hold as the array
 * has them. A list in memory, which the view shows at once, and the log on the member, which
 * follows:
 *
 *   QUIET    the log says what the list says
 *   WRITING  the log is on its way, block by block
 *
 *   QUIET -> WRITING    begin: the list has changed
 *   WRITING -> WRITING  the next block that differs
 *   WRITING -> QUIET    done;  or the member has left
 *
 * A block goes on the list when its write failed and a replacement can be had, or when a rebuild
 * finds no source for it; it leaves it when it is written well. Whoever waits for a change goes on
 * when it is durable: the log on the member, and then superblocks that announce the log (feature
 * 0x8), if it was empty before.
 *
 * What goes off a list must be durable before the log says so: a flush round that began after the
 * write comes first.
 *
 * A power cut may keep some blocks of a log. Entries that move up are written from the end, entries
 * that move down from the front: then the worst is an entry twice, which a reader notices, never
 * one that is missing.
 *
 * A list belongs to one device and is never copied. A log that is full, or missing, fails the
 * member instead.
 */
#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

static void set_state(struct bad_log *b, enum bad_log_state to)
{
	static const uint8_t next[] = {
		[BAD_QUIET] = 1 << BAD_WRITING,
		[BAD_WRITING] = 1 << BAD_QUIET,
	};

	CHECK(next[b->state] >> to & 1);
	b->state = to;
}

static uint64_t log_bytes(const struct member *m)
{
	return min_u64((uint64_t)m->sb->bblog_size * RAID_SECTOR_BYTES, BB_LOG_BYTES);
}

/* Is there a log that can be written? */
static bool shape_of(const struct member *m, struct bb_shape *shape)
{
	uint64_t maddr;

	if (!m->has_sb || m->log.unusable ||
	    !bb_shape_of(m->sb, m->props.size_bytes / RAID_SECTOR_BYTES, shape)) {
		return false;
	}
	maddr = (m->sb->super_offset + (uint64_t)(int64_t)m->sb->bblog_offset) * RAID_SECTOR_BYTES;
	return maddr % m->props.logical_block == 0 && log_bytes(m) % m->props.logical_block == 0;
}

void bad_load(struct member *m)
{
	struct bad_log *b = &m->log;
	struct bb_shape shape;

	b->announced = m->sb->feature_map & SB_FEATURE_BAD_BLOCKS;
	b->disk_known = b->announced && shape_of(m, &shape);
	if (b->disk_known) {
		b->disk_count = m->bad->count;
		bb_encode(m->bad, &shape, b->disk);
	}
}

void bad_forget(struct member *m)
{
	struct bad_log *b = &m->log;

	CHECK(b->state == BAD_QUIET);
	m->bad->count = 0;
	b->announced = b->disk_known = b->unusable = false;
	b->seq = b->durable = b->change = b->round = 0;
}

/* ---- the list ------------------------------------------------------------------------------ */

static void changed(struct core *c, uint32_t i)
{
	c->member[i].log.seq++;
	c->bad_busy = true;
	member_view_bad(c, i);
}

int bad_add(struct core *c, uint32_t i, uint64_t maddr, uint64_t len)
{
	struct member *m = &c->member[i];
	struct bb_shape shape;
	int change;

	if (c->meta.state == META_OFF || !shape_of(m, &shape)) {
		return -ENOSPC;
	}
	change = bb_add(m->bad, &shape, maddr, len);
	if (change < 0) {
		MARK(bad_log_full);
		return change;
	}
	if (change != BB_SAME) {
		MARK(bad_log_grows);
		m->sb->bblog_shift = shape.shift;
		changed(c, i);
		events_add(c->events, (struct raid_event){
					      .type = RAID_EV_BAD_BLOCK,
					      .member = i,
					      .op = RAID_IO_WRITE,
					      .maddr = maddr,
					      .len = len,
				      });
	}
	return 0;
}

static void wait(struct core *c, struct slot *s, enum slot_verdict verdict)
{
	s->verdict = verdict;
	s->bad_seq = c->member[s->io.member].log.seq;
	list_append(&c->bad_wait, &s->ask);
	c->bad_busy = true;
}

int bad_add_wait(struct core *c, struct slot *s)
{
	int err = bad_add(c, s->io.member, s->io.maddr, s->io.len);

	if (!err) {
		wait(c, s, SLOT_LISTED);
	}
	return err;
}

/* Does nobody else have some block that was written and stays on the list? */
static bool last_of_listed(const struct core *c, const struct member *m, const struct slot *s)
{
	uint64_t at = s->io.maddr, end = at + s->io.len;
	uint32_t slot = (uint32_t)m->slot;
	struct bb_range hit;

	while (at < end && bb_find(m->bad, at, end - at, &hit)) {
		if (!bad_others_have(c, slot, slot, hit.maddr, hit.len)) {
			return true;
		}
		at = hit.maddr + hit.len;
	}
	return false;
}

/* Blocks that were listed have been written well. */
static void take_written(struct core *c, struct slot *s)
{
	struct member *m = &c->member[s->io.member];
	struct bb_shape shape;
	int change = -ENOSPC;

	if (member_gets_writes(m) && shape_of(m, &shape)) {
		change = bb_remove(m->bad, &shape, s->io.maddr, s->io.len);
	}
	if (change > BB_SAME) {
		MARK(bad_log_shrinks);
		m->log.round = c->flush.rounds + 1;
		changed(c, s->io.member);
	} else if (change < 0 && m->state == RAID_MEMBER_IN_SYNC && last_of_listed(c, m, s)) {
		/* It stays on the list, and nobody else has it: it could never be read. */
		MARK(bad_log_stuck);
		s->res = -EIO;
		s->verdict = SLOT_LAST_COPY;
		list_append(&c->ask.judged, &s->ask);
		return;
	}
	/* What else stays on a list that cannot be cut is only read elsewhere. */
	wait(c, s, SLOT_CLEARED);
}

/* ---- what a list leaves ---------------------------------------------------------------------- */

static bool holds(const struct core *c, const struct geo_copy *copy, uint64_t len)
{
	const struct view_slot *vs = &c->view.slot[copy->slot];
	struct bb_range hit;

	return vs->in_sync && !(vs->bad && bb_find(vs->bad, copy->maddr, len, &hit));
}

/* Copies: some other slot than these two has the block. */
static bool copied(const struct core *c, uint32_t slot, uint32_t except, uint64_t maddr,
		   uint64_t len)
{
	struct geo_piece p;
	uint64_t addr;
	uint32_t own;
	bool found = false;

	if (!geo_unmap(&c->geo, slot, maddr, &addr, &own)) {
		return true; /* nothing of the array */
	}
	geo_map(&c->geo, addr, min_u64(len, c->view.size_bytes - addr), &p);
	for (uint32_t i = 0; i < p.copies; i++) {
		found |= p.copy[i].slot != slot && p.copy[i].slot != except &&
			 holds(c, &p.copy[i], p.len);
	}
	return found;
}

/* Parity: so few of the row are missing that the rest gives it. */
static bool computable(const struct core *c, uint32_t slot, uint32_t except, uint64_t maddr,
		       uint64_t len)
{
	uint64_t off = maddr - c->geo.p.slot[slot].data_offset_sectors * RAID_SECTOR_BYTES;
	uint32_t missing = 0;

	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		struct geo_copy copy = {
			.slot = k,
			.maddr = c->geo.p.slot[k].data_offset_sectors * RAID_SECTOR_BYTES + off,
		};

		missing += k == slot || k == except || !holds(c, &copy, len);
	}
	return missing <= c->geo.parity && c->view.unsynced_from == UINT64_MAX;
}

bool bad_others_have(const struct core *c, uint32_t slot, uint32_t except, uint64_t maddr,
		     uint64_t len)
{
	bool all = true;
	uint64_t n;

	for (uint64_t off = 0; off < len && all; off += n) {
		n = min_u64(len - off, c->view.unit);
		all = c->geo.parity ? computable(c, slot, except, maddr + off, n)
				    : copied(c, slot, except, maddr + off, n);
	}
	return all;
}

bool bad_needs(const struct core *c, uint32_t slot)
{
	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		const struct bb_list *bad = k == slot ? NULL : c->view.slot[k].bad;

		for (uint32_t i = 0; bad && i < bad->count; i++) {
			const struct bb_range *r = &bad->range[i];

			if (bad_others_have(c, k, k, r->maddr, r->len) &&
			    !bad_others_have(c, k, slot, r->maddr, r->len)) {
				return true;
			}
		}
	}
	return false;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Write the next block that differs. Returns false if there is none. */
static bool write_next(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];
	struct bad_log *b = &m->log;
	uint32_t block = m->props.logical_block, blocks = (uint32_t)log_bytes(m) / block;

	while (b->next < blocks) {
		uint32_t at = (b->from_end ? blocks - 1 - b->next : b->next) * block;

		b->next++;
		if (b->disk_known && !memcmp(b->page + at, b->disk + at, block)) {
			continue;
		}
		b->slot->io.op = RAID_IO_WRITE;
		b->slot->io.fua = true;
		b->slot->io.maddr = (m->sb->super_offset + (uint64_t)(int64_t)m->sb->bblog_offset) *
					    RAID_SECTOR_BYTES +
				    at;
		b->slot->io.len = block;
		memcpy(b->block, b->page + at, block);
		b->slot->iov[0] = (struct iovec){.iov_base = b->block, .iov_len = block};
		b->retried = false;
		b->out = true;
		iop_emit(c->iop, b->slot);
		return true;
	}
	return false;
}

static void begin(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];
	struct bad_log *b = &m->log;
	struct bb_shape shape;
	bool found = shape_of(m, &shape);

	CHECK(found && b->slot->state == SLOT_HELD);
	set_state(b, BAD_WRITING);
	bb_encode(m->bad, &shape, b->page);
	b->from_end = m->bad->count >= b->disk_count;
	b->count = m->bad->count;
	b->writing = b->seq;
	b->next = 0;
}

static void written(struct core *c, uint32_t i)
{
	struct bad_log *b = &c->member[i].log;
	bool announce = b->count > 0;

	memcpy(b->disk, b->page, BB_LOG_BYTES);
	b->disk_known = true;
	b->disk_count = b->count;
	b->durable = b->writing;
	if (announce != b->announced) {
		MARK(bad_log_announced);
		b->announced = announce;
		b->change = ++c->meta.changes;
	}
	set_state(b, BAD_QUIET);
	c->bad_busy |= b->durable != b->seq;
}

static void unwritable(struct core *c, uint32_t i, int err)
{
	struct member *m = &c->member[i];

	MARK(bad_log_unwritable);
	if (member_fail(c, i,
			(struct raid_event){
				.op = RAID_IO_WRITE,
				.maddr = m->log.slot->io.maddr,
				.err = err,
				.why = "its bad-block log could not be written",
			}) == MEMBER_FAIL_LAST) {
		m->log.unusable = true;
		bad_member_left(c, i);
	}
}

void bad_io_done(struct core *c, struct slot *s)
{
	struct bad_log *b = &c->member[s->io.member].log;

	if (!b->out) {
		return; /* it has left */
	}
	if (s->res && !b->retried) {
		b->retried = true;
		iop_emit(c->iop, s);
		return;
	}
	b->out = false;
	c->bad_busy = true;
	if (s->res) {
		unwritable(c, s->io.member, s->res);
	}
}

/* It is failed, or keeps no log any more: nobody waits for it. */
void bad_member_left(struct core *c, uint32_t i)
{
	struct bad_log *b = &c->member[i].log;

	b->out = false;
	b->durable = b->seq;
	b->change = 0;
	c->bad_busy = true;
	if (b->state == BAD_WRITING) {
		set_state(b, BAD_QUIET);
	}
}

/* ---- the drive ------------------------------------------------------------------------------- */

/* Has the flush round come that the log waits for? */
static bool flushed(struct core *c, const struct bad_log *b)
{
	const struct flush *f = &c->flush;

	if (c->view.flush_lost && b->round) {
		return false;
	}
	if (f->rounds > b->round || (f->rounds == b->round && !f->running)) {
		return true;
	}
	c->flush.wanted |= f->rounds < b->round;
	c->bad_busy = true;
	return false;
}

static bool is_durable(const struct core *c, const struct slot *s)
{
	const struct bad_log *b = &c->member[s->io.member].log;

	return b->durable >= s->bad_seq && c->meta.changes_durable >= b->change;
}

static bool answer(struct core *c)
{
	struct slot *s, *tmp;
	bool moved = false;

	list_for_each_entry_safe (s, tmp, &c->bad_wait, ask) {
		const struct member *m = &c->member[s->io.member];

		if (!member_gets_writes(m)) {
			s->verdict = SLOT_MEMBER_FAILED;
		} else if (m->log.unusable || c->view.broken || c->view.flush_lost) {
			s->verdict = SLOT_LAST_COPY;
			s->res = s->res ? s->res : -EIO;
		} else if (!is_durable(c, s)) {
			c->bad_busy = true;
			continue;
		}
		moved = true;
		list_del(&s->ask);
		list_append(&c->ask.judged, &s->ask);
	}
	return moved;
}

bool bad_run(struct core *c)
{
	bool moved = false;
	struct list *l;

	while ((l = list_pop(&c->ask.wrote_bad))) {
		moved = true;
		take_written(c, container_of(l, struct slot, ask));
	}
	if (!c->bad_busy) {
		return moved;
	}
	c->bad_busy = false;
	for (uint32_t i = 0; i < c->members; i++) {
		struct bad_log *b = &c->member[i].log;

		if (b->out || (b->durable == b->seq && b->state == BAD_QUIET) ||
		    !member_gets_writes(&c->member[i])) {
			continue;
		}
		if (b->state == BAD_QUIET && flushed(c, b)) {
			begin(c, i);
		}
		while (b->state == BAD_WRITING && !write_next(c, i)) {
			written(c, i);
			moved = true;
		}
	}
	return answer(c) || moved;
}

bool bad_settled(const struct core *c)
{
	for (uint32_t i = 0; i < c->members; i++) {
		if (c->member[i].log.state != BAD_QUIET ||
		    c->member[i].log.seq != c->member[i].log.durable) {
			return false;
		}
	}
	return true;
}
