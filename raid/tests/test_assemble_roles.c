/* SPDX-License-Identifier: BSD-3-Clause */
/* What each member is: events, roles, split brain, recovery, replacement (md-format §7, §19.1–3).
 * Names of cases that hurt real users say so. */
#include "raid/tests/asm_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- whole arrays --------------------------------------------------------------------------- */

static void healthy_raid1(void **state)
{
	rig_raid1(3);
	rig_decide();
	rig_starts(0);
	assert_true(rig.out.metadata);
	assert_int_equal(rig.out.members, 3);
	assert_int_equal(rig.out.events, RIG_EVENTS);
	assert_int_equal(rig.out.resync_offset, SB_IN_SYNC);
	assert_int_equal(rig.out.geometry.array_sectors, RIG_DATA_SECTORS);
	assert_int_equal(rig.out.geometry.copies, 3);
	assert_int_equal(rig.out.geometry.p.slot[2].data_offset_sectors, RIG_DATA_OFFSET);
	assert_int_equal(rig.out.features, 0);
	assert_true(rig.out.present[0] && rig.out.present[1] && rig.out.present[2] &&
		    !rig.out.present[3]);
	rig_verdict(1, ASM_IN_SYNC);
	assert_int_equal(rig.out.member[1].slot, 1);
	assert_int_equal(rig.out.member[1].candidate, 1);
}

static void healthy_raid10(void **state)
{
	rig_raid10(4);
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.geometry.array_sectors, 2 * RIG_DATA_SECTORS);
}

static void healthy_raid0_and_linear_use_each_member_s_own_size(void **state)
{
	rig_make(RAID_LEVEL_0, 0, 3);
	rig.cand[1].sb.data_size = rig.cand[2].sb.data_size = 8192 - 128;
	rig.cand[2].sb.data_offset = 1024;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.geometry.array_sectors, 3 * 8192 - 256);
	assert_int_equal(rig.out.geometry.p.slot[2].data_offset_sectors, 1024);
	rig_make(RAID_LEVEL_LINEAR, 0, 2);
	rig.cand[1].sb.data_size = 1000;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.geometry.array_sectors, 8192 + 1000);
}

/* §19.1: as mdadm numbers the members of a new raid5, and of any array after a replacement. */
static void dev_number_is_not_the_slot(void **state)
{
	uint32_t i;

	rig_raid1(3);
	for (i = 0; i < 3; i++) {
		rig.cand[i].sb.dev_roles[0] = 2;
		rig.cand[i].sb.dev_roles[1] = SB_ROLE_SPARE;
		rig.cand[i].sb.dev_roles[2] = 0;
		rig.cand[i].sb.dev_roles[4] = 1;
	}
	rig.cand[1].sb.dev_number = 4;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.member[0].slot, 2);
	assert_int_equal(rig.out.member[1].slot, 1);
	assert_int_equal(rig.out.member[2].slot, 0);
}

static void order_of_members_does_not_matter(void **state)
{
	uint32_t seed;

	for (seed = 0; seed < 24; seed++) {
		rig_raid10(4);
		rig.cand[2].sb.events = RIG_EVENTS - 5;
		rig_shuffle(seed);
		rig_decide();
		rig_starts(1);
		assert_false(rig.out.present[2]);
	}
}

/* ---- events --------------------------------------------------------------------------------- */

static void one_event_behind_is_as_good(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.events--;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.freshest, 0);
	assert_int_equal(rig.out.events, RIG_EVENTS);
}

static void two_events_behind_is_stale(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.events -= 2;
	rig_decide();
	rig_starts(1);
	rig_verdict(0, ASM_STALE);
	assert_int_equal(rig.out.freshest, 1);
	assert_false(rig.out.present[0]);
}

static void events_at_the_end_of_their_range(void **state)
{
	rig_raid1(3);
	rig.cand[0].sb.events = UINT64_MAX;
	rig.cand[1].sb.events = UINT64_MAX - 1;
	rig.cand[2].sb.events = 0;
	rig_decide();
	rig_read_only("event count");
	rig_verdict(1, ASM_IN_SYNC);
	rig_verdict(2, ASM_STALE);
}

/* Linux: "faulty disk trusted after a crash". The survivors wrote events + 1 with it marked faulty
 * and the machine died: its own superblock is one behind and knows nothing. */
static void one_behind_takes_its_role_from_the_freshest(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.events++;
	rig_drop(0, 1, SB_ROLE_FAULTY);
	rig_decide();
	rig_starts(1);
	rig_verdict(1, ASM_FAULTY);
	assert_false(rig.out.present[1]);
	rig_drop(0, 1, SB_ROLE_SPARE);
	rig_decide();
	rig_verdict(1, ASM_FAULTY);
}

static void one_behind_with_another_slot_is_a_stray(void **state)
{
	rig_raid1(3);
	rig.cand[0].sb.events++;
	rig.cand[0].sb.dev_roles[1] = 2;
	rig.cand[0].sb.dev_roles[2] = 1;
	rig_decide();
	rig_starts(2);
	rig_verdict(1, ASM_STRAY);
	rig_verdict(2, ASM_STRAY);
}

static void freshest_speaks_for_dirty_and_clean(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.events++;
	rig.cand[0].sb.resync_offset = 0;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.resync_offset, 0);
	rig_raid1(2);
	rig.cand[0].sb.events++;
	rig.cand[1].sb.resync_offset = 0;
	rig_decide();
	assert_int_equal(rig.out.resync_offset, SB_IN_SYNC);
}

/* md's event count steps back on a clean stop, so equal events can be dirty on one member. */
static void dirty_wins_between_equals(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.resync_offset = 4096;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.resync_offset, 4096);
}

/* ---- spares, faulty, journal ---------------------------------------------------------------- */

static void add_spare(uint32_t i)
{
	uint32_t k;

	for (k = 0; k < RIG_MEMBERS; k++) {
		rig.cand[k].sb.dev_roles[i] = SB_ROLE_SPARE;
	}
	rig.count = i + 1;
}

static void spare_with_any_events(void **state)
{
	static const uint64_t events[] = {0, RIG_EVENTS, RIG_EVENTS + 100};
	uint32_t i;

	for (i = 0; i < 3; i++) {
		rig_raid1(2);
		add_spare(2);
		rig.cand[2].sb.events = events[i];
		rig_decide();
		rig_starts(0);
		rig_verdict(2, ASM_SPARE);
		assert_int_equal(rig.out.member[2].slot, -1);
		assert_int_equal(rig.out.events, RIG_EVENTS);
	}
}

static void spare_beyond_the_table(void **state)
{
	rig_raid1(2);
	add_spare(2);
	rig.cand[2].sb.dev_number = 4000;
	rig_decide();
	rig_starts(0);
	rig_verdict(2, ASM_SPARE);
}

/* A spare that was away while its number was given to a member: an update would tell it that it
 * holds the member's slot. */
static void spare_whose_number_is_taken(void **state)
{
	rig_raid1(2);
	add_spare(2);
	rig.cand[2].sb.dev_number = 1;
	rig.cand[2].sb.dev_roles[1] = SB_ROLE_SPARE;
	rig.cand[2].sb.events = 3;
	rig_decide();
	rig_starts(0);
	rig_verdict(1, ASM_IN_SYNC);
	rig_verdict(2, ASM_STRAY);
	rig_raid1(2);
	add_spare(2);
	add_spare(3);
	rig.cand[3].sb.dev_number = 2;
	rig_decide();
	rig_starts(0);
	rig_verdict(2, ASM_SPARE);
	rig_verdict(3, ASM_STRAY);
}

/* The freshest's table is written to all: it must not reach into another's data. */
static void table_longer_than_the_room_before_the_data(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.max_dev = SB_ROLES_MAX;
	rig.cand[1].sb.data_offset = 9;
	rig_decide();
	rig_starts(1);
	rig_verdict(1, ASM_STRAY);
	rig_raid1(2);
	rig.cand[0].sb.max_dev = SB_ROLES_MAX;
	rig.cand[1].sb.data_offset = 16;
	rig_decide();
	rig_starts(0);
}

static void only_spares_refused(void **state)
{
	rig_raid1(2);
	add_spare(2);
	rig.cand[0] = rig.cand[2];
	rig.count = 1;
	rig_decide();
	rig_refused("only spares");
	rig_verdict(0, ASM_SPARE);
}

/* The members that matter are not here: the one given was thrown out long ago. */
static void spare_that_saw_the_freshest_fail(void **state)
{
	rig_raid1(2);
	add_spare(2);
	rig.cand[2].sb.events = RIG_EVENTS + 9;
	rig_drop(2, 0, SB_ROLE_FAULTY);
	rig_leave_out(1);
	rig_decide();
	rig_refused("saw m0 fail");
	rig_force();
	rig_starts(1);
	assert_non_null(strstr(rig.out.note, "saw m0 fail"));
}

/* It was given a slot, and the crash came before its own superblock said so. */
static void spare_one_behind_its_activation_is_not_in_sync(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.dev_roles[1] = SB_ROLE_SPARE;
	rig.cand[1].sb.events--;
	rig_decide();
	rig_starts(1);
	rig_verdict(1, ASM_SPARE);
}

static void own_table_says_faulty(void **state)
{
	rig_raid1(2);
	rig_drop(0, 1, SB_ROLE_FAULTY);
	rig_drop(1, 1, SB_ROLE_FAULTY);
	rig_decide();
	rig_starts(1);
	rig_verdict(1, ASM_FAULTY);
}

static void journal_role(void **state)
{
	uint32_t k;

	rig_raid1(2);
	for (k = 0; k < 3; k++) {
		rig.cand[k].sb.dev_roles[2] = SB_ROLE_JOURNAL;
		rig.cand[k].sb.feature_map = SB_FEATURE_JOURNAL;
	}
	rig.count = 3;
	rig_decide();
	rig_verdict(2, ASM_JOURNAL);
	rig_read_only("journal");
	rig.cand[2].sb.events -= 2;
	rig_decide();
	rig_verdict(2, ASM_STALE);
}

/* ---- split brain ---------------------------------------------------------------------------- */

static void split_with_more_events_on_one_side(void **state)
{
	rig_raid1(2);
	rig_drop(0, 1, SB_ROLE_SPARE);
	rig_drop(1, 0, SB_ROLE_SPARE);
	rig.cand[0].sb.events += 2;
	rig_decide();
	rig_starts(1);
	rig_verdict(1, ASM_SPLIT);
	assert_false(rig.out.present[1]);
}

static void split_one_event_apart_is_not_merged(void **state)
{
	rig_raid1(2);
	rig_drop(0, 1, SB_ROLE_FAULTY);
	rig_drop(1, 0, SB_ROLE_FAULTY);
	rig.cand[1].sb.events++;
	rig_decide();
	rig_starts(1);
	rig_verdict(0, ASM_SPLIT);
	assert_true(rig.out.present[1]);
}

static void split_with_equal_events_refused(void **state)
{
	rig_raid1(2);
	rig_drop(0, 1, SB_ROLE_SPARE);
	rig_drop(1, 0, SB_ROLE_SPARE);
	rig_decide();
	rig_refused("split brain");
	assert_non_null(strstr(rig.out.why, "m0"));
	assert_non_null(strstr(rig.out.why, "m1"));
	rig_force();
	rig_starts(1);
	assert_true(rig.out.present[0]);
	rig_verdict(1, ASM_SPLIT);
	assert_non_null(strstr(rig.out.note, "split brain"));
}

static void split_halves_of_raid10(void **state)
{
	uint32_t i, k, seed;

	for (seed = 0; seed < 24; seed++) {
		rig_raid10(4);
		for (i = 0; i < 4; i++) {
			for (k = 0; k < 4; k++) {
				if (i % 2 != k % 2) {
					rig_drop(i, k, SB_ROLE_SPARE);
				}
			}
		}
		rig_shuffle(seed);
		rig_decide();
		rig_refused("split brain");
		rig_force();
		rig_starts(2);
		assert_int_equal(rig.out.present[0], rig.out.present[2]);
		assert_int_equal(rig.out.present[1], rig.out.present[3]);
		assert_int_not_equal(rig.out.present[0], rig.out.present[1]);
	}
}

/* mdadm#22: three mirrors pulled one after another. The last to run alone has most events; the
 * others must not come back, in whatever order they are named. */
static void three_mirrors_pulled_one_by_one(void **state)
{
	uint32_t seed, i;

	for (seed = 0; seed < 6; seed++) {
		rig_raid1(3);
		rig.cand[1].sb.events = RIG_EVENTS + 2;
		rig_drop(1, 0, SB_ROLE_FAULTY);
		rig.cand[2].sb.events = RIG_EVENTS + 4;
		rig_drop(2, 0, SB_ROLE_FAULTY);
		rig_drop(2, 1, SB_ROLE_FAULTY);
		rig_shuffle(seed);
		rig_decide();
		rig_starts(2);
		assert_true(rig.out.present[2]);
		for (i = 0; i < 3; i++) {
			assert_int_equal(rig.out.member[i].verdict == ASM_IN_SYNC,
					 rig.out.member[i].slot == 2);
		}
	}
}

/* The one that knows of the failure is newer, also at equal events. */
static void one_sided_drop_at_equal_events(void **state)
{
	uint32_t seed;

	for (seed = 0; seed < 2; seed++) {
		rig_raid1(2);
		rig_drop(1, 0, SB_ROLE_FAULTY);
		rig_shuffle(seed);
		rig_decide();
		rig_starts(1);
		assert_false(rig.out.present[0]);
		assert_true(rig.out.present[1]);
	}
}

/* A third member's knowledge counts too. */
static void drop_known_to_an_equal_is_respected(void **state)
{
	rig_raid1(3);
	rig_drop(2, 1, SB_ROLE_FAULTY);
	rig_decide();
	rig_starts(1);
	assert_false(rig.out.present[1]);
	assert_true(rig.out.present[0] && rig.out.present[2]);
}

static void dropped_by_one_that_is_one_behind(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.events++;
	rig_drop(1, 0, SB_ROLE_FAULTY);
	rig_decide();
	rig_refused("m1 says that m0 failed");
	rig_verdict(1, ASM_SPLIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_raid1),
		cmocka_unit_test(healthy_raid10),
		cmocka_unit_test(healthy_raid0_and_linear_use_each_member_s_own_size),
		cmocka_unit_test(dev_number_is_not_the_slot),
		cmocka_unit_test(order_of_members_does_not_matter),
		cmocka_unit_test(one_event_behind_is_as_good),
		cmocka_unit_test(two_events_behind_is_stale),
		cmocka_unit_test(events_at_the_end_of_their_range),
		cmocka_unit_test(one_behind_takes_its_role_from_the_freshest),
		cmocka_unit_test(one_behind_with_another_slot_is_a_stray),
		cmocka_unit_test(freshest_speaks_for_dirty_and_clean),
		cmocka_unit_test(dirty_wins_between_equals),
		cmocka_unit_test(spare_with_any_events),
		cmocka_unit_test(spare_beyond_the_table),
		cmocka_unit_test(spare_whose_number_is_taken),
		cmocka_unit_test(table_longer_than_the_room_before_the_data),
		cmocka_unit_test(only_spares_refused),
		cmocka_unit_test(spare_that_saw_the_freshest_fail),
		cmocka_unit_test(spare_one_behind_its_activation_is_not_in_sync),
		cmocka_unit_test(own_table_says_faulty),
		cmocka_unit_test(journal_role),
		cmocka_unit_test(split_with_more_events_on_one_side),
		cmocka_unit_test(split_one_event_apart_is_not_merged),
		cmocka_unit_test(split_with_equal_events_refused),
		cmocka_unit_test(split_halves_of_raid10),
		cmocka_unit_test(three_mirrors_pulled_one_by_one),
		cmocka_unit_test(one_sided_drop_at_equal_events),
		cmocka_unit_test(drop_known_to_an_equal_is_respected),
		cmocka_unit_test(dropped_by_one_that_is_one_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
