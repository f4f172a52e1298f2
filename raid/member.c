/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of a running array.
 *
 *   ABSENT    named by nobody, or not good for anything here; never touched
 *   IN_SYNC   holds a slot: read, written, gets superblocks
 *   SPARE     gets superblocks only
 *   LEAVING   failed; not read or written any more; some of its ios are still out, or the
 *             survivors' superblocks do not say so yet
 *   FAULTY    failed; the device may be closed
 *
 *   IN_SYNC, SPARE -> LEAVING   member_fail
 *   LEAVING -> FAULTY           member_run
 *
 * The last copy of anything is never failed (rule 8); nor is anybody in a read-only array.
 */
#include <errno.h>

#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"

static void set_state(struct member *m, enum raid_member_state to)
{
	static const uint8_t next[] = {
		[RAID_MEMBER_ABSENT] = 0,
		[RAID_MEMBER_IN_SYNC] = 1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_SPARE] = 1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_REBUILDING] = 1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_REPLACEMENT] = 1 << RAID_MEMBER_LEAVING,
		[RAID_MEMBER_LEAVING] = 1 << RAID_MEMBER_FAULTY,
		[RAID_MEMBER_FAULTY] = 0,
	};

	CHECK(next[m->state] >> to & 1);
	m->state = to;
}

enum member_fail_result member_fail(struct core *c, uint32_t i, struct raid_event cause)
{
	struct member *m = &c->member[i];

	if (m->state != RAID_MEMBER_IN_SYNC && m->state != RAID_MEMBER_SPARE) {
		return MEMBER_FAIL_DONE;
	}
	if (c->view.read_only || (m->state == RAID_MEMBER_IN_SYNC &&
				  geo_slot_is_last(&c->geo, c->present, (uint32_t)m->slot))) {
		MARK(member_last_copy);
		return MEMBER_FAIL_LAST;
	}
	MARK(member_fail);
	if (m->state == RAID_MEMBER_IN_SYNC) {
		c->present[m->slot] = false;
		c->view.slot[m->slot].in_sync = false;
		c->view.slot[m->slot].writes = false;
		c->view.slot[m->slot].good_below = 0;
		c->view.members_generation++;
	}
	set_state(m, RAID_MEMBER_LEAVING);
	c->leaving++;
	cause.type = RAID_EV_MEMBER_FAILED;
	cause.member = i;
	m->cause = cause;
	c->meta.failures++;
	c->view.fail_pending = true;
	c->view.generation++;
	meta_member_left(c, i);
	flush_member_left(c, i);
	intent_member_left(c, i);
	return MEMBER_FAIL_DONE;
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
			       : s->io.op == RAID_IO_READ ? "did not answer a read in time"
							  : "a write failed twice",
		};

		moved = true;
		s->verdict = member_fail(c, s->io.member, cause) == MEMBER_FAIL_LAST
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

		if (!r->errors) {
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

		if (m->state != RAID_MEMBER_IN_SYNC && m->state != RAID_MEMBER_SPARE) {
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

		if (m->state == RAID_MEMBER_IN_SYNC && m->props.volatile_cache &&
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
	if (c->ask.repaired_any) {
		count_repaired(c);
		moved = true;
	}
	for (uint32_t i = 0; c->leaving && i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->state == RAID_MEMBER_LEAVING && m->recorded &&
		    !c->iop->member[i].in_flight) {
			MARK(member_gone);
			set_state(m, RAID_MEMBER_FAULTY);
			c->leaving--;
			events_add(c->events, (struct raid_event){
						      .type = RAID_EV_MEMBER_GONE,
						      .member = i,
					      });
		}
	}
	return moved;
}
