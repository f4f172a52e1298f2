/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of a running array.
 *
 *   ABSENT       a place of nobody, or of a device that is good for nothing here; never touched
 *   SPARE        gets superblocks only
 *   REBUILDING   holds a slot and gets its writes; what is good of it is read in need only
 *   REPLACEMENT  gets the writes of the slot whose holder it is being filled from; never read
 *   IN_SYNC      holds a slot: read, written
 *   LEAVING      failed, replaced or taken out; not read or written any more; some of its ios are
 *                still out, or the survivors' superblocks do not say so yet
 *   FAULTY       the same, and over: the device may be closed
 *
 *   ABSENT -> SPARE, REBUILDING      member_cmd.c: ADD; raid_create() sets first states itself
 *   SPARE -> REBUILDING              member_spare.c: a slot is empty
 *   SPARE -> REPLACEMENT             member_spare.c: REPLACE
 *   REBUILDING -> IN_SYNC            member_spare.c: filled, and superblocks say so
 *   REPLACEMENT -> IN_SYNC           … or, being complete, its source failed
 *   REPLACEMENT -> REBUILDING        member_spare.c: its source failed before it was complete
 *   IN_SYNC, SPARE, REBUILDING, REPLACEMENT -> LEAVING   member_fail, member_retire
 *   LEAVING -> FAULTY                member_run
 *   FAULTY, ABSENT -> ABSENT         member_cmd.c: REMOVE
 *
 * The last copy of anything is never failed (rule 8); nor is anybody in a read-only array. Where
 * parity may be stale every member of a parity level counts as a last copy.
 */
#include <errno.h>

#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

void member_set_state(struct member *m, enum raid_member_state to)
{
	static const uint8_t next[] = {
		[RAID_MEMBER_ABSENT] = 1 << RAID_MEMBER_SPARE | 1 << RAID_MEMBER_REBUILDING |
				       1 << RAID_MEMBER_ABSENT,
		[RAID_MEMBER_IN_SYNC] = 1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_SPARE] = 1 << RAID_MEMBER_REBUILDING | 1 << RAID_MEMBER_REPLACEMENT |
				      1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_REBUILDING] = 1 << RAID_MEMBER_IN_SYNC | 1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_REPLACEMENT] = 1 << RAID_MEMBER_REBUILDING | 1 << RAID_MEMBER_IN_SYNC |
					    1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_LEAVING] = 1 << RAID_MEMBER_FAULTY,
		[RAID_MEMBER_FAULTY] = 1 << RAID_MEMBER_ABSENT,
	};

	CHECK(next[m->state] >> to & 1);
	m->state = to;
}

/* It holds a slot, or is to take one over. */
bool member_gets_writes(const struct member *m)
{
	return m->state == RAID_MEMBER_IN_SYNC || m->state == RAID_MEMBER_REBUILDING ||
	       m->state == RAID_MEMBER_REPLACEMENT;
}

static bool works(const struct member *m)
{
	return member_gets_writes(m) || m->state == RAID_MEMBER_SPARE;
}

/* A replacement that is complete, and says so, stands in for its source at once. */
static bool replaced(const struct core *c, uint32_t slot)
{
	const struct view_slot *twin = &c->view.slot[VIEW_TWIN + slot];

	return twin->writes && c->member[twin->member].finish >= FINISH_TAKES;
}

static bool is_last(const struct core *c, const struct member *m)
{
	if (m->state != RAID_MEMBER_IN_SYNC || replaced(c, (uint32_t)m->slot)) {
		return false;
	}
	return geo_slot_is_last(&c->geo, c->present, (uint32_t)m->slot) ||
	       (c->geo.parity && c->view.unsynced_from != UINT64_MAX);
}

/* Its ios and its place in the view are no longer anything to anybody. */
static void leave(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];
	bool held = member_gets_writes(m);

	member_unview(c, i);
	member_set_state(m, RAID_MEMBER_LEAVING);
	m->finish = FINISH_NOT;
	c->leaving++;
	c->view.generation++;
	meta_member_left(c, i);
	flush_member_left(c, i);
	intent_member_left(c, i);
	bad_member_left(c, i);
	if (held) {
		member_source_left(c, (uint32_t)m->slot);
	}
}

enum member_fail_result member_fail(struct core *c, uint32_t i, struct raid_event cause)
{
	struct member *m = &c->member[i];

	if (!works(m)) {
		return MEMBER_FAIL_DONE;
	}
	if (c->view.read_only || is_last(c, m)) {
		MARK(member_last_copy);
		return MEMBER_FAIL_LAST;
	}
	MARK(member_fail);
	cause.type = RAID_EV_MEMBER_FAILED;
	cause.member = i;
	m->cause = cause;
	m->recorded = false;
	c->meta.failures++;
	c->view.fail_pending = true;
	leave(c, i);
	return MEMBER_FAIL_DONE;
}

void member_retire(struct core *c, uint32_t i)
{
	MARK(member_retire);
	c->member[i].recorded = true;
	leave(c, i);
}

void member_all_recorded(struct core *c)
{
	for (uint32_t i = 0; c->leaving && i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->state == RAID_MEMBER_LEAVING && !m->recorded) {
			m->recorded = true;
			events_add(c->events, m->cause);
		}
	}
}

static bool is_failfast(const struct core *c, const struct slot *s)
{
	return c->iop->member[s->io.member].failfast;
}

/* Failed twice: a write, or the rewriting of a block that could not be read. */
static bool block_is_bad(const struct slot *s)
{
	return s->io.op == RAID_IO_WRITE || s->owner == SLOT_JOB;
}

/*
 * Rule 8: list the block and copy the member away while the rest of it can still be read, rather
 * than fail it. With a spare for that; without one too, if the member is the last copy of something
 * else. Never if nobody else has the block.
 */
static bool list_instead(struct core *c, struct slot *s)
{
	struct member *m = &c->member[s->io.member];
	char why[RAID_WHY_BYTES];

	if (!block_is_bad(s) || is_failfast(c, s) || m->state != RAID_MEMBER_IN_SYNC ||
	    c->view.read_only ||
	    (s->owner != SLOT_DATA && s->owner != SLOT_JOB && s->owner != SLOT_SYNC &&
	     s->owner != SLOT_STRIPE)) {
		return false;
	}
	if (!c->view.slot[VIEW_TWIN + m->slot].writes && !is_last(c, m) &&
	    member_best_spare(c, (uint32_t)m->slot, why) == UINT32_MAX) {
		return false;
	}
	if (!bad_others_have(c, (uint32_t)m->slot, (uint32_t)m->slot, s->io.maddr, s->io.len) ||
	    bad_add_wait(c, s)) {
		return false;
	}
	MARK(member_lists_block);
	m->want_replacement = true;
	c->spares_changed = true;
	return true;
}

/* Of this block it is the last copy, though it could be spared otherwise. */
static bool last_of_block(const struct core *c, const struct slot *s)
{
	const struct member *m = &c->member[s->io.member];

	return block_is_bad(s) && m->state == RAID_MEMBER_IN_SYNC && c->view.any_bad &&
	       !bad_others_have(c, (uint32_t)m->slot, (uint32_t)m->slot, s->io.maddr, s->io.len);
}

/* Answer what the shard asked. */
static bool judge(struct core *c)
{
	bool moved = false;
	struct list *l;

	while ((l = list_pop(&c->ask.failed))) {
		struct slot *s = container_of(l, struct slot, ask);
		struct raid_event cause = {
			.op = s->io.op,
			.maddr = s->io.maddr,
			.len = s->io.len,
			.err = s->res,
			.why = s->owner == SLOT_JOB ||
					       (s->owner == SLOT_SYNC && s->io.op == RAID_IO_READ)
				       ? "an unreadable block could not be rewritten"
			       : s->io.op == RAID_IO_READ && s->res != -ETIMEDOUT
				       ? "a read failed, and it is marked failfast"
			       : s->io.op == RAID_IO_READ ? "did not answer a read in time"
			       : is_failfast(c, s) ? "a write failed, and it is marked failfast"
						   : "a write failed twice",
		};

		moved = true;
		if (list_instead(c, s)) {
			continue;
		}
		s->verdict = last_of_block(c, s) ? SLOT_LAST_COPY
			     : member_fail(c, s->io.member, cause) == MEMBER_FAIL_LAST
				     ? SLOT_LAST_COPY
				     : SLOT_MEMBER_FAILED;
		list_append(&c->ask.judged, &s->ask);
	}
	return moved;
}

/*
 * A write failed on a member that holds the last copy of something else and so cannot be failed:
 * the copies differ from there on, as after a crash. Reads keep to one copy, clean is not written.
 */
static void note_differing(struct core *c)
{
	uint64_t from = c->ask.differ_from;

	MARK(member_copies_differ);
	c->ask.differ_from = UINT64_MAX;
	intent_mark_needed(c, from, from + 1);
}

/* Repaired read errors: a member fails by their rate. */
static void count_repaired(struct core *c)
{
	uint64_t window_ns = (uint64_t)c->limits.read_errors_window_s * 1000000000u;

	c->ask.repaired_any = false;
	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		struct ask_repaired *r = &c->ask.repaired[k];
		uint32_t i = c->view.slot[k].member;
		struct member *m;

		if (!r->errors || i == UINT32_MAX) {
			*r = (struct ask_repaired){0};
			continue;
		}
		m = &c->member[i];
		m->corrected_sectors += r->sectors;
		m->corrected_total += r->sectors;
		if (!m->window_errors || c->now.mono_ns - m->window_start_ns > window_ns) {
			m->window_start_ns = c->now.mono_ns;
			m->window_errors = 0;
		}
		m->window_errors += r->errors;
		*r = (struct ask_repaired){0};
		if (m->window_errors > c->limits.read_errors_max) {
			MARK(member_read_error_rate);
			m->window_errors = 0;
			member_fail(c, i,
				    (struct raid_event){
					    .op = RAID_IO_READ,
					    .err = -EIO,
					    .why = "too many read errors",
				    });
		}
	}
}

/* Writes, flushes and superblocks that a member has held too long. */
void member_late_writes(struct core *c)
{
	struct slot *s;

	while ((s = iop_expired(c->iop, IOP_WRITES))) {
		struct member *m = &c->member[s->io.member];
		uint64_t waited_ms = (c->iop->now_ns - s->issued_ns) / 1000000;
		struct raid_event ev = {
			.type = RAID_EV_DEADLINE,
			.member = s->io.member,
			.op = s->io.op,
			.maddr = s->io.maddr,
			.len = waited_ms,
			.err = -ETIMEDOUT,
			.why = "did not answer in time",
		};

		if (!works(m)) {
			iop_stop_waiting(s);
			iop_cancel(c->iop, s);
			continue;
		}
		if (member_fail(c, s->io.member, ev) == MEMBER_FAIL_LAST) {
			MARK(member_late_last_copy);
			iop_stop_waiting(s); /* nothing else could be done about it */
			continue;
		}
		MARK(member_late_write);
		events_add(c->events, ev);
		iop_stop_waiting(s);
		iop_cancel(c->iop, s);
	}
}

/* A member that a power cut now could cost completed writes. */
bool member_unflushed(const struct core *c)
{
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];

		if (member_gets_writes(m) && m->props.volatile_cache &&
		    c->iop->member[i].unflushed) {
			return true;
		}
	}
	return false;
}

bool member_run(struct core *c)
{
	bool moved = judge(c);

	if (c->ask.differ_from != UINT64_MAX) {
		note_differing(c);
		moved = true;
	}
	if (c->ask.row_inconsistent) {
		MARK(member_row_inconsistent);
		c->ask.row_inconsistent = false;
		c->view.broken = true;
		c->view.generation++;
		c->meta.resync_offset = 0; /* never clean again as it is */
		events_add(c->events, (struct raid_event){
					      .type = RAID_EV_READ_ONLY,
					      .member = UINT32_MAX,
					      .why = "a row of the array is inconsistent",
				      });
		moved = true;
	}
	if (c->ask.repaired_any) {
		count_repaired(c);
		moved = true;
	}
	moved |= member_spares_run(c);
	if (c->leaving && c->meta.state == META_BROKEN) {
		member_all_recorded(c); /* as far as it ever will be */
	}
	for (uint32_t i = 0; c->leaving && i < c->members; i++) {
		struct member *m = &c->member[i];

		/* Where superblocks can no longer be kept there is nothing to wait for. */
		if (m->state == RAID_MEMBER_LEAVING &&
		    (m->recorded || c->meta.state == META_BROKEN) && !c->iop->member[i].in_flight) {
			MARK(member_gone);
			member_set_state(m, RAID_MEMBER_FAULTY);
			c->leaving--;
			moved = true; /* a REMOVE may wait for it */
			events_add(c->events, (struct raid_event){
						      .type = RAID_EV_MEMBER_GONE,
						      .member = i,
					      });
		}
	}
	return moved;
}
