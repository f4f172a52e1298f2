/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Silent damage, and a scrub that must find it: in a quiet array some sectors are changed behind
 * the engine's back. A check has to name every place (and the disk, where redundancy tells), a
 * repair has to make it good, another check has to find nothing.
 */
#include <errno.h>
#include <string.h>

#include "raid/base/check.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

static bool is_possible(const struct world *w)
{
	if (!world_is_redundant(w) || w->may_fail || w->read_only || w->needs_resync ||
	    w->cmd_out || w->sync.action != RAID_SYNC_IDLE || !w->assembly->metadata) {
		return false;
	}
	for (uint32_t k = 0; k < w->plan.slots; k++) {
		if (w->holder[k] == LAYOUT_NONE) {
			return false;
		}
	}
	return true;
}

/* Where damage can be undone: what a repair does not take for the truth. Of two copies that differ
 * the first slot's is believed, of data and P the data. */
static bool can_be_told(const struct world *w, uint64_t group, uint32_t slot)
{
	const struct layout *l = &w->layout;
	uint32_t first = LAYOUT_NONE;

	if (l->parity == 1) {
		return layout_row(l, group)->p == slot;
	}
	if (l->parity == 2 || l->copies > 2) {
		return true;
	}
	for (uint32_t i = 0; i < l->copies; i++) {
		uint32_t k = l->copy[group * l->copies + i].slot;

		first = k < first ? k : first;
	}
	return slot != first;
}

/* Does redundancy tell which disk is wrong? */
static bool is_nameable(const struct world *w)
{
	return w->layout.parity == 2 || (w->layout.parity == 0 && w->layout.copies > 2);
}

static bool is_far(const struct world *w, uint64_t group)
{
	for (uint32_t i = 0; i < w->damages; i++) {
		if (w->damage[i].group / 8 == group / 8) {
			return false; /* one in 4 KiB, else nobody can tell */
		}
	}
	return true;
}

static void harm(struct world *w, uint64_t group, uint32_t slot, uint64_t maddr)
{
	uint8_t data[RAID_SECTOR_BYTES];

	prng_fill(&w->rng, data, sizeof data);
	disk_damage(&w->disk[w->holder[slot]], maddr, data, sizeof data);
	w->stale[group] = 1;
	w->damage[w->damages++] = (struct damage){.group = group, .slot = slot};
	w->stats.damages++;
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "damaged: group, slot", group, slot,
		  maddr, 0, 0);
}

static void harm_some(struct world *w)
{
	const struct layout *l = &w->layout;
	uint64_t n = prng_range(&w->rng, 1, DAMAGES_MAX);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t group = prng_below(&w->rng, l->groups), maddr;
		uint32_t slot;

		if (l->parity) {
			slot = (uint32_t)prng_below(&w->rng, l->slots);
			maddr = layout_column_maddr(l, slot, group);
		} else {
			const struct layout_place *p =
				&l->copy[group * l->copies + prng_below(&w->rng, l->copies)];

			slot = p->slot;
			maddr = p->maddr;
		}
		if (can_be_told(w, group, slot) && is_far(w, group) &&
		    groups_held(w, slot, maddr, IMAGE_NOW) &&
		    !disk_is_cached(&w->disk[w->holder[slot]], maddr, RAID_SECTOR_BYTES)) {
			harm(w, group, slot, maddr);
		}
	}
}

/* The engine reports a place that differs. */
void scrub_mismatch(struct world *w, const struct raid_event *ev)
{
	uint32_t disk = ev->member == UINT32_MAX ? LAYOUT_NONE : w->disk_of[ev->member];
	bool known = false;

	for (uint32_t i = 0; i < w->damages; i++) {
		struct damage *x = &w->damage[i];
		uint64_t at = x->group * RAID_SECTOR_BYTES;

		if (at < ev->maddr || at >= ev->maddr + ev->len) {
			continue;
		}
		known = x->found = true;
		x->named |= disk != LAYOUT_NONE && disk == w->holder[x->slot];
		if (disk != LAYOUT_NONE && disk != w->holder[x->slot]) {
			sim_fail("a scrub blames disk %u for group %llu, and disk %u is wrong",
				 disk, ULL(x->group), w->holder[x->slot]);
		}
	}
	if (!known) {
		sim_fail("a scrub says that %llu bytes at %llu differ, which nobody has touched",
			 ULL(ev->len), ULL(ev->maddr));
	}
}

static void pass(struct world *w, enum raid_sync_action action)
{
	uint64_t end = w->clock.now_ns + 4000 * SIM_S, before;

	while (w->sync.action != RAID_SYNC_IDLE && w->clock.now_ns < end) {
		world_turn(w);
	}
	before = w->sync.finished[action];
	while (w->cmd_out) {
		world_turn(w);
	}
	admin_sync(w, action);
	while (w->sync.finished[action] == before) {
		if (w->clock.now_ns > end) {
			sim_fail("a scrub does not come to its end");
		}
		if (!w->cmd_out && w->cmd.res == -EBUSY && w->clock.now_ns < end) {
			world_turn(w);
			admin_sync(w, action); /* something else began first */
		}
		if (!w->cmd_out && w->cmd.res != 0) {
			sim_fail("a scrub was refused with %d: %s", w->cmd.res, w->cmd.why);
		}
		world_turn(w);
	}
}

static void expect_found(const struct world *w)
{
	for (uint32_t i = 0; i < w->damages; i++) {
		const struct damage *x = &w->damage[i];

		if (!x->found) {
			sim_fail("a scrub did not find what is wrong with group %llu on slot %u",
				 ULL(x->group), x->slot);
		}
		if (is_nameable(w) && !x->named) {
			sim_fail("a scrub did not say that slot %u is wrong in group %llu", x->slot,
				 ULL(x->group));
		}
	}
}

/* Let what has gone wrong before come to its end. */
static void settle(struct world *w)
{
	uint64_t end = w->clock.now_ns + SIM_S;

	clock_schedule(&w->clock, end, EV_WAKE, NULL);
	while (w->clock.now_ns < end || !list_empty(&w->flights)) {
		world_turn(w);
	}
}

/* The array is idle and no disk fails. */
void scrub(struct world *w)
{
	w->actions_left = 0;
	roles_refresh(w);
	if (!is_possible(w)) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		memset(w->disk[d].bad, 0, w->disk[d].blocks);
	}
	settle(w);
	if (!is_possible(w)) {
		return;
	}
	w->damages = 0;
	harm_some(w);
	if (w->damages == 0) {
		return;
	}
	pass(w, RAID_SYNC_CHECK);
	expect_found(w);
	pass(w, RAID_SYNC_REPAIR);
	for (uint32_t i = 0; i < w->damages; i++) {
		w->stale[w->damage[i].group] = 0;
	}
	w->damages = 0;
	groups_expect_all(w, 0, w->layout.groups, IMAGE_NOW, "a repair is over");
	pass(w, RAID_SYNC_CHECK);
	if (w->sync.mismatches > 0) {
		sim_fail("a check after a repair finds something");
	}
	verify_disks(w, "after a repair");
}
