/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of the sync machine: how far it is, in superblocks, so that a restart goes on there.
 *
 *   NONE -> FLUSH   resync_mark_begin: everything below low must be durable first
 *   FLUSH -> META   a flush round that began after that has ended, and bad-block logs say what is
 *                   not there: the core takes note
 *   FLUSH -> NONE   a flush was lost: nothing can be vouched for
 *   META -> NONE    superblocks say so
 *
 * While superblocks say dirty their resync_offset is 0 whatever the checkpoint is (md-format §8);
 * then the note is enough: the next clean superblock has it.
 */
#include "raid/base/bytes.h"
#include "raid/base/mark.h"
#include "raid/core.h"

bool resync_mark_due(const struct core *c)
{
	const struct resync *s = &c->resync;

	return s->mark == MARK_NONE && s->low > s->marked_low && c->now.mono_ns >= s->mark_at_ns;
}

void resync_mark_begin(struct core *c, bool last)
{
	struct resync *s = &c->resync;

	s->mark = MARK_FLUSH;
	s->mark_last = last;
	s->mark_low = s->low;
	s->mark_round = c->flush.rounds + 1;
	s->mark_at_ns = c->now.mono_ns + RESYNC_MARK_NS;
}

static bool flushed(struct core *c)
{
	const struct flush *f = &c->flush;

	if (f->rounds > c->resync.mark_round ||
	    (f->rounds == c->resync.mark_round && !f->running)) {
		return true;
	}
	c->flush.wanted |= f->rounds < c->resync.mark_round;
	return false;
}

static void note_resync(struct core *c, bool done)
{
	struct resync *s = &c->resync;
	uint64_t to = min_u64(s->mark_low, s->differ_from);

	MARK(resync_mark_offset);
	if (done && s->differ_from == UINT64_MAX) {
		c->meta.resync_offset = SB_IN_SYNC;
		c->view.unsynced_from = UINT64_MAX;
	} else {
		c->meta.resync_offset = to / RAID_SECTOR_BYTES;
		c->view.unsynced_from = min_u64(c->view.unsynced_from, s->differ_from);
	}
	c->view.generation++;
	if (!c->view.write_open) {
		meta_want(c);
	}
}

static void note_targets(struct core *c, bool done)
{
	const struct resync *s = &c->resync;

	for (uint32_t k = 0; k < VIEW_SLOTS; k++) {
		uint32_t m = s->target_member[k];

		if (!s->target[k] || c->view.slot[k].member != m) {
			continue;
		}
		if (done) {
			MARK(resync_mark_complete);
			member_synced(c, m);
		} else {
			MARK(resync_mark_recovered);
			member_recovered(c, m, s->mark_low);
		}
	}
}

bool resync_mark_run(struct core *c)
{
	struct resync *s = &c->resync;
	bool done = s->mark_last && s->end == RESYNC_END_DONE;

	if (s->mark == MARK_FLUSH && c->view.flush_lost) {
		MARK(resync_mark_lost);
		s->mark = MARK_NONE;
		return true;
	}
	if (s->mark == MARK_FLUSH && flushed(c) && bad_settled(c)) {
		if (s->kind == SYNC_RESYNC) {
			note_resync(c, done);
		} else {
			note_targets(c, done);
		}
		s->marked_low = s->mark_low;
		s->mark_changes = c->meta.changes;
		s->mark = MARK_META;
		return true;
	}
	if (s->mark == MARK_META &&
	    (c->meta.changes_durable >= s->mark_changes || c->view.broken)) {
		s->mark = MARK_NONE;
		return true;
	}
	return false;
}
