/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who follows whom: spares take empty slots and replace members, and what has been filled becomes a
 * full member.
 *
 * A slot that is empty is given to the smallest spare that fits, as soon as superblocks say who
 * failed. A replacement is filled while its source serves (REPLACE). If the source fails first, the
 * replacement has the slot in the same step, with what it got so far: nothing that is written in
 * between passes it by.
 *
 * When all of a member is good and durable (member_synced()), superblocks must say so before it is
 * trusted, in an order that leaves enough good members after a crash at any point:
 *
 *   REBUILDING    FINISH_SYNCED -> one update, the member's own superblock without
 *                 recovery_offset -> IN_SYNC. Before it is written the member is one that is being
 *                 rebuilt, after it a full one; the others' superblocks give it the slot all along.
 *   REPLACEMENT   FINISH_SYNCED -> an update: its own superblock says that it is a complete
 *                 replacement -> FINISH_TAKES -> a second update: the others give the slot to it
 *                 alone and say that the source is faulty. In one update a crash after the first of
 *                 the others' superblocks would leave a source declared faulty and a replacement
 *                 that does not know that it is complete.
 *
 * If the replacement fails in the middle of that second update the source is called good again. A
 * power cut right then, before all say so, leaves two that contradict each other: assembly refuses
 * and asks, rather than guess.
 *
 * Both get every write until then. Members that are filled take superblocks last (meta.c).
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/core.h"
#include "raid/why.h"

static void set_finish(struct member *m, enum member_finish to)
{
	static const uint8_t next[] = {
		[FINISH_NOT] = 1 << FINISH_BITMAP,
		[FINISH_BITMAP] = 1 << FINISH_SYNCED,
		[FINISH_SYNCED] = 1 << FINISH_SYNCED_OUT,
		[FINISH_SYNCED_OUT] = 1 << FINISH_TAKES | 1 << FINISH_NOT,
		[FINISH_TAKES] = 1 << FINISH_TAKES_OUT | 1 << FINISH_NOT,
		[FINISH_TAKES_OUT] = 1 << FINISH_NOT,
	};

	CHECK(next[m->finish] >> to & 1);
	m->finish = to;
}

static void event(struct core *c, uint32_t i, enum raid_event_type type)
{
	events_add(c->events, (struct raid_event){.type = type, .member = i});
}

/* Who is in sync holds the bitmap whole. */
static void finish_run(struct core *c)
{
	c->finish_waits = false;
	for (uint32_t i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->finish != FINISH_BITMAP) {
			continue;
		}
		if (intent_member_whole(c, i)) {
			set_finish(m, FINISH_SYNCED);
			c->meta.changes++;
		} else {
			c->finish_waits = true;
		}
	}
}

/* ---- spares -------------------------------------------------------------------------------- */

/* The smallest spare that can hold a slot; UINT32_MAX: none, why of the last one that cannot. */
uint32_t member_best_spare(const struct core *c, uint32_t slot, char why[RAID_WHY_BYTES])
{
	uint32_t best = UINT32_MAX;

	why_set(why, 0, "no spare is attached");
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];

		if (m->state == RAID_MEMBER_SPARE && !member_fits(c, i, slot, why) &&
		    (best == UINT32_MAX ||
		     m->props.size_bytes < c->member[best].props.size_bytes)) {
			best = i;
		}
	}
	return best;
}

/* Fill empty slots, let filled members finish. Not before it is durable who left a slot: until then
 * nothing may be trusted in his place. */
bool member_spares_run(struct core *c)
{
	char why[RAID_WHY_BYTES];
	bool moved = false;

	if (c->meta.state == META_OFF || c->meta.state == META_BROKEN || c->view.fail_pending ||
	    c->stopping) {
		return false;
	}
	if (c->finish_waits) {
		finish_run(c);
	}
	for (uint32_t k = 0; c->spares_changed && k < c->geo.p.slots; k++) {
		uint32_t i;

		if (c->view.slot[k].writes) {
			continue;
		}
		i = member_best_spare(c, k, why);
		if (i != UINT32_MAX) {
			MARK(member_spare_takes_slot);
			member_take_slot(c, i, k, RAID_MEMBER_REBUILDING);
			moved = true;
		}
	}
	for (uint32_t i = 0; c->spares_changed && i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->want_replacement && m->state == RAID_MEMBER_IN_SYNC &&
		    !c->view.slot[VIEW_TWIN + m->slot].writes &&
		    !member_replace(c, i, UINT32_MAX, why)) {
			MARK(member_replaces_by_itself);
			moved = true;
		}
	}
	c->spares_changed = false;
	return moved;
}

static uint32_t twins(const struct core *c)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < c->geo.p.slots; k++) {
		n += c->view.slot[VIEW_TWIN + k].writes;
	}
	return n;
}

int member_replace(struct core *c, uint32_t i, uint32_t with, char why[RAID_WHY_BYTES])
{
	const struct member *m = &c->member[i];
	const struct view_slot *twin;
	int err;

	if (i >= c->members || m->state != RAID_MEMBER_IN_SYNC) {
		return why_set(why, -EINVAL,
			       "only a member that is in sync can be replaced; others are rebuilt "
			       "onto a spare as it is");
	}
	twin = &c->view.slot[VIEW_TWIN + m->slot];
	if (twin->writes && (with == UINT32_MAX || with == twin->member)) {
		return 0; /* under way */
	}
	if (twin->writes) {
		return why_set(why, -EBUSY, "it is being replaced by member %u", twin->member);
	}
	if (twins(c) == VIEW_TWINS_MAX) {
		return why_set(why, -EBUSY, "%u members are being replaced; wait until one is done",
			       VIEW_TWINS_MAX);
	}
	if (with == UINT32_MAX) {
		with = member_best_spare(c, (uint32_t)m->slot, why);
		if (with == UINT32_MAX) {
			return -ENODEV;
		}
	} else if (with >= c->members || c->member[with].state != RAID_MEMBER_SPARE) {
		return why_set(why, -EINVAL, "member %u is no spare; add it first", with);
	} else {
		err = member_fits(c, with, (uint32_t)m->slot, why);
		if (err) {
			return err;
		}
	}
	MARK(member_replace);
	member_take_slot(c, with, (uint32_t)m->slot, RAID_MEMBER_REPLACEMENT);
	return 0;
}

/* ---- filled -------------------------------------------------------------------------------- */

void member_recovered(struct core *c, uint32_t i, uint64_t bytes)
{
	struct member *m = &c->member[i];

	CHECK(m->state == RAID_MEMBER_REBUILDING || m->state == RAID_MEMBER_REPLACEMENT);
	if (m->finish == FINISH_NOT && bytes / RAID_SECTOR_BYTES > m->recovery_sectors) {
		m->recovery_sectors = bytes / RAID_SECTOR_BYTES;
		c->meta.changes++;
	}
}

void member_synced(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];

	CHECK(m->state == RAID_MEMBER_REBUILDING || m->state == RAID_MEMBER_REPLACEMENT);
	if (m->finish == FINISH_NOT) {
		MARK(member_synced);
		set_finish(m, FINISH_BITMAP);
		c->finish_waits = true;
	}
}

static void in_sync(struct core *c, uint32_t i)
{
	struct member *m = &c->member[i];

	member_set_state(m, RAID_MEMBER_IN_SYNC);
	set_finish(m, FINISH_NOT);
	m->guided = false;
	member_view(c, i);
	c->spares_changed = true;
	event(c, i, RAID_EV_SPARE_ACTIVE);
}

/* The replacement of a slot's member takes the slot, ready or not. */
void member_source_left(struct core *c, uint32_t slot)
{
	struct view_slot *twin = &c->view.slot[VIEW_TWIN + slot];
	uint64_t good_below = twin->good_below;
	uint32_t i = twin->member;
	struct member *m;

	c->spares_changed = true;
	if (!twin->writes || c->view.slot[slot].writes) {
		return; /* there is none, or it was itself that left */
	}
	m = &c->member[i];
	member_unview(c, i);
	if (m->finish >= FINISH_TAKES) {
		in_sync(c, i);
		return;
	}
	MARK(member_twin_rebuilds);
	member_set_state(m, RAID_MEMBER_REBUILDING);
	member_view(c, i);
	c->view.slot[slot].good_below = good_below;
	c->meta.changes++;
}

bool member_is_replaced(const struct core *c, const struct member *m)
{
	const struct view_slot *twin;

	if (m->state != RAID_MEMBER_IN_SYNC) {
		return false;
	}
	twin = &c->view.slot[VIEW_TWIN + m->slot];
	return twin->writes && c->member[twin->member].finish == FINISH_TAKES_OUT;
}

void member_update_begins(struct core *c)
{
	for (uint32_t i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->finish == FINISH_SYNCED) {
			set_finish(m, FINISH_SYNCED_OUT);
		} else if (m->finish == FINISH_TAKES) {
			set_finish(m, FINISH_TAKES_OUT);
		}
	}
}

void member_update_durable(struct core *c)
{
	for (uint32_t i = 0; i < c->members; i++) {
		struct member *m = &c->member[i];

		if (m->added) {
			m->added = false;
			event(c, i, RAID_EV_MEMBER_ADDED);
		}
		if (m->finish == FINISH_SYNCED_OUT && m->state == RAID_MEMBER_REBUILDING) {
			MARK(member_rebuilt);
			in_sync(c, i);
		} else if (m->finish == FINISH_SYNCED_OUT) {
			set_finish(m, FINISH_TAKES);
			c->meta.changes++;
		} else if (m->finish == FINISH_TAKES_OUT) {
			MARK(member_replaced);
			/* Its leaving hands the slot over. */
			member_retire(c, c->view.slot[m->slot].member);
		}
	}
}
