/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assembly against random histories of a mirror: runs that write, go clean, lose members and crash
 * between any two superblock writes; restarts with all disks, or with some of them, which makes
 * split brains.
 *
 * Data are nodes of a tree: an acknowledged write makes a child of the node it was made on, and
 * every member in sync holds it. What must hold: members that assembly calls in sync hold the same
 * node; no disk that is offered and not called split holds a later one; and when all disks are
 * always offered, nothing is ever refused and no acknowledged write is ever lost. With and without
 * the kernel's habit of stepping its event count back when it goes clean.
 */
#include "raid/tests/asm_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DISKS_MAX = 4, NODES_MAX = 512, HISTORIES = 1500, RUNS = 6, STEPS = 8 };

struct disk {
	struct sb sb;
	uint32_t node;
};

static struct disk disk[DISKS_MAX];
static uint32_t disks, nodes, parent[NODES_MAX];
static uint32_t offered[RIG_MEMBERS]; /* candidate → disk */
static bool step_back;		      /* as the kernel does */
static uint64_t rnd_state;

/* One run of the array. */
static bool in_sync[DISKS_MAX];
static struct sb shared; /* table, events, resync_offset of the run */
static bool may_step_back;
static bool opened; /* the run has written its superblocks */

static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rnd_state >> 33) % n;
}

static void new_array(uint32_t n)
{
	uint32_t i;

	disks = n;
	nodes = 1;
	parent[0] = 0;
	rig_raid1(n);
	for (i = 0; i < n; i++) {
		disk[i].sb = rig.cand[i].sb;
		disk[i].node = 0;
	}
}

/* Is b made on top of a? */
static bool later(uint32_t b, uint32_t a)
{
	while (b > a) {
		b = parent[b];
		if (b == a) {
			return true;
		}
	}
	return false;
}

/* ---- a run --------------------------------------------------------------------------------------
 */

/* Write the shared superblock to the members in some order. Returns false if power went between two
 * of them. */
static bool update(uint64_t events)
{
	uint32_t first = rnd(disks), i;

	shared.events = events;
	for (i = 0; i < disks; i++) {
		uint32_t k = (first + i) % disks;

		if (!in_sync[k]) {
			continue;
		}
		if (!rnd(12)) {
			return false;
		}
		memcpy(disk[k].sb.dev_roles, shared.dev_roles, sizeof shared.dev_roles);
		disk[k].sb.events = events;
		disk[k].sb.resync_offset = shared.resync_offset;
	}
	return true;
}

/* The table names only who is there. Returns true if that changed it. */
static bool drop_absent(void)
{
	bool changed = false;
	uint32_t i;

	for (i = 0; i < disks; i++) {
		if (!in_sync[i] && shared.dev_roles[i] <= SB_ROLE_MAX) {
			shared.dev_roles[i] = SB_ROLE_SPARE;
			changed = true;
		}
	}
	return changed;
}

/* The first write of a run is always preceded by superblocks, even if they said dirty already: a
 * member may be one event behind, and its table name one that is gone. */
static bool go_dirty(void)
{
	bool changed = drop_absent();

	if (opened && !shared.resync_offset) {
		return true;
	}
	may_step_back = step_back && opened && !changed;
	shared.resync_offset = 0;
	opened = update(shared.events + 1);
	return opened;
}

static bool go_clean(void)
{
	uint64_t events = may_step_back ? shared.events - 1 : shared.events + 1;

	if (shared.resync_offset == SB_IN_SYNC) {
		return true;
	}
	drop_absent();
	opened = true;
	may_step_back = false;
	shared.resync_offset = SB_IN_SYNC;
	return update(events);
}

static bool write_data(void)
{
	uint32_t node = nodes, i, base = 0;

	if (!go_dirty() || !rnd(12)) {
		return false; /* not acknowledged */
	}
	for (i = 0; i < disks; i++) {
		base = in_sync[i] ? disk[i].node : base;
	}
	parent[node] = base;
	nodes++;
	for (i = 0; i < disks; i++) {
		if (in_sync[i]) {
			disk[i].node = node;
		}
	}
	return true;
}

static bool lose_member(void)
{
	uint32_t victim = rnd(disks), left = 0, i;

	for (i = 0; i < disks; i++) {
		left += in_sync[i] && i != victim;
	}
	if (!in_sync[victim] || !left) {
		return true;
	}
	in_sync[victim] = false;
	opened = true;
	drop_absent();
	shared.dev_roles[victim] = SB_ROLE_FAULTY;
	may_step_back = false;
	return update(shared.events + 1);
}

static void run(void)
{
	bool on = true;
	uint32_t step;

	may_step_back = false;
	opened = false;
	for (step = 0; on && step < STEPS; step++) {
		switch (rnd(6)) {
		case 0:
		case 1:
		case 2:
			on = nodes == NODES_MAX || write_data();
			break;
		case 3:
			on = go_clean();
			break;
		case 4:
			on = rnd(3) || lose_member();
			break;
		default:
			on = rnd(4) > 0; /* or a crash */
		}
	}
	if (on) {
		go_clean();
	}
}

/* ---- a restart ----------------------------------------------------------------------------------
 */

static void offer(bool all)
{
	uint32_t i;

	do {
		rig.count = 0;
		for (i = 0; i < disks; i++) {
			if (all || rnd(3)) {
				rig.cand[rig.count].sb = disk[i].sb;
				offered[rig.count++] = i;
			}
		}
	} while (!rig.count);
}

static uint32_t chosen_node(void)
{
	uint32_t node = NODES_MAX, i;

	for (i = 0; i < rig.count; i++) {
		if (rig.out.member[i].verdict != ASM_IN_SYNC) {
			continue;
		}
		assert_true(node == NODES_MAX || node == disk[offered[i]].node);
		node = disk[offered[i]].node;
	}
	assert_int_not_equal(node, NODES_MAX);
	return node;
}

/* Returns whether the array starts; it is then ready to run. */
static bool restart(bool all)
{
	uint32_t node, i;

	offer(all);
	rig_decide();
	if (rig.out.decision != ASM_START) {
		assert_false(all);
		return false;
	}
	node = chosen_node();
	memset(in_sync, 0, sizeof in_sync);
	for (i = 0; i < rig.count; i++) {
		if (rig.out.member[i].verdict == ASM_IN_SYNC) {
			in_sync[offered[i]] = true;
		} else if (rig.out.member[i].verdict != ASM_SPLIT) {
			assert_false(later(disk[offered[i]].node, node));
		}
	}
	if (all) {
		assert_int_equal(node, nodes - 1); /* no acknowledged write is lost */
	}
	shared = rig.out.member[rig.out.freshest].sb;
	shared.resync_offset = rig.out.resync_offset;
	return true;
}

static void histories(bool all, bool stepping)
{
	uint32_t h, r, started = 0;

	step_back = stepping;
	for (h = 0; h < HISTORIES; h++) {
		rnd_state = h;
		new_array(2 + h % (DISKS_MAX - 1));
		for (r = 0; r < RUNS; r++) {
			if (restart(all)) {
				started++;
				run();
			}
		}
	}
	print_message("%u starts in %u\n", started, HISTORIES * RUNS);
	assert_true(started > HISTORIES * RUNS / 2);
}

static void all_disks(void **state)
{
	histories(true, false);
}

static void all_disks_events_stepping_back(void **state)
{
	histories(true, true);
}

static void some_disks(void **state)
{
	histories(false, false);
}

static void some_disks_events_stepping_back(void **state)
{
	histories(false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_disks),
		cmocka_unit_test(all_disks_events_stepping_back),
		cmocka_unit_test(some_disks),
		cmocka_unit_test(some_disks_events_stepping_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
