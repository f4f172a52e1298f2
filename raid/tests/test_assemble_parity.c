/* SPDX-License-Identifier: BSD-3-Clause */
/* Levels 4, 5, 6: how many may be missing, dirty and degraded, logs, and what force does
 * (md-format §7.8, §7.9). */
#include "raid/tests/asm_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LEFT_SYMMETRIC = 2 };

static void raid5(uint32_t n)
{
	rig_make(RAID_LEVEL_5, LEFT_SYMMETRIC, n);
}

static void raid6(uint32_t n)
{
	rig_make(RAID_LEVEL_6, LEFT_SYMMETRIC, n);
}

static void dirty(uint64_t resync_offset)
{
	uint32_t k;

	for (k = 0; k < RIG_MEMBERS; k++) {
		rig.cand[k].sb.resync_offset = resync_offset;
	}
}

static void force_write(void)
{
	rig.opt = (struct asm_options){.force_write = true};
	rig_decide();
}

static void noted(const char *word)
{
	if (!strstr(rig.out.note, word)) {
		fail_msg("no '%s' in: %s", word, rig.out.note);
	}
}

/* ---- how many may be missing ---------------------------------------------------------------- */

static void one_missing(void **state)
{
	static const struct {
		int32_t level;
		uint32_t layout;
	} levels[] = {{4, 0}, {5, 0}, {5, 1}, {5, 2}, {5, 3}, {5, 4}, {5, 5}};
	uint32_t i, lost;

	for (i = 0; i < sizeof levels / sizeof levels[0]; i++) {
		for (lost = 0; lost < 4; lost++) {
			rig_make(levels[i].level, levels[i].layout, 4);
			rig_decide();
			rig_starts(0);
			assert_int_equal(rig.out.geometry.array_sectors, 3 * RIG_DATA_SECTORS);
			rig_leave_out(lost);
			rig_decide();
			rig_starts(1);
			assert_false(rig.out.present[lost]);
			rig_leave_out(lost % 3);
			rig_decide();
			rig_refused("too few members");
		}
	}
}

static void two_missing_of_raid6(void **state)
{
	static const uint32_t layouts[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};
	uint32_t i;

	for (i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
		rig_make(RAID_LEVEL_6, layouts[i], 5);
		rig_leave_out(3);
		rig_leave_out(0);
		rig_decide();
		rig_starts(2);
		assert_int_equal(rig.out.geometry.array_sectors, 3 * RIG_DATA_SECTORS);
		rig_leave_out(1);
		rig_decide();
		rig_refused("slot 0, 2, 3 of 5 missing");
	}
}

static void two_members_make_a_raid5(void **state)
{
	raid5(2);
	rig_decide();
	rig_starts(0);
	rig_leave_out(0);
	rig_decide();
	rig_starts(1);
}

/* The disk that a rebuild goes to does not count. */
static void recovering_counts_as_missing(void **state)
{
	raid5(4);
	rig.cand[3].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[3].sb.recovery_offset = 1024;
	rig_decide();
	rig_starts(1);
	rig_verdict(3, ASM_RECOVERING);
	rig_leave_out(1);
	rig_decide();
	rig_refused("too few members");
}

/* ---- dirty ---------------------------------------------------------------------------------- */

static void dirty_and_complete_starts(void **state)
{
	raid5(4);
	dirty(0);
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.resync_offset, 0);
}

/* Also a level 6 with one missing, as md does; also half a resync. */
static void dirty_and_degraded_is_refused(void **state)
{
	uint32_t i;

	for (i = 0; i < 4; i++) {
		if (i % 2) {
			raid5(4);
		} else {
			raid6(5);
		}
		dirty(i < 2 ? 0 : 512);
		rig_leave_out(1);
		rig_decide();
		rig_refused("dirty and degraded");
		assert_non_null(strstr(rig.out.why, "--readonly --force"));
		rig.opt.want_readonly = true;
		rig_decide();
		rig_refused("dirty and degraded");
	}
	rig_raid10(4); /* copies are not reconstructed from anything */
	dirty(0);
	rig_leave_out(1);
	rig_decide();
	rig_starts(1);
}

static void dirty_with_a_rebuild_half_done_is_refused(void **state)
{
	raid5(4);
	dirty(0);
	rig.cand[3].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[3].sb.recovery_offset = 1024;
	rig_decide();
	rig_refused("dirty and degraded");
}

static void dirty_and_degraded_forced_read_only(void **state)
{
	raid5(4);
	dirty(512);
	rig_leave_out(1);
	rig_force();
	rig_starts(1);
	noted("from their data byte 262144 on");
	assert_true(rig.out.resync_offset == SB_IN_SYNC); /* reads go through parity */
}

static void dirty_and_degraded_forced(void **state)
{
	raid5(4);
	dirty(0);
	rig_leave_out(1);
	force_write();
	rig_starts(1);
	noted("from their data byte 0 on");
	assert_true(rig.out.resync_offset == SB_IN_SYNC);
	rig.opt.want_readonly = true; /* force_write says nothing about reading */
	rig_decide();
	rig_refused("dirty and degraded");
}

/* Forcing what needs no force changes nothing. */
static void force_without_need(void **state)
{
	raid5(4);
	dirty(0);
	force_write();
	rig_starts(0);
	assert_int_equal(rig.out.resync_offset, 0);
	assert_string_equal(rig.out.note, "");
	raid5(4);
	rig.cand[2].sb.events -= 4;
	force_write();
	rig_starts(1);
	rig_verdict(2, ASM_STALE);
	assert_string_equal(rig.out.note, "");
}

/* ---- forcing old members ------------------------------------------------------------------- */

/* The newest that will do, and no more than are needed. */
static void old_members_are_forced_newest_first(void **state)
{
	raid5(4);
	rig.cand[0].sb.events -= 9;
	rig.cand[1].sb.events -= 4;
	rig.cand[2].sb.events -= 6;
	rig_decide();
	rig_refused("too few members");
	force_write();
	rig_starts(1);
	rig_verdict(0, ASM_STALE);
	rig_verdict(1, ASM_IN_SYNC);
	rig_verdict(2, ASM_IN_SYNC);
	noted("m1 (slot 1, 4 events behind)");
	noted("m2 (slot 2, 6 events behind)");
	assert_true(rig.out.resync_offset == SB_IN_SYNC);
	assert_int_equal(rig.out.events, RIG_EVENTS);
}

/* md-format §7.9 for a dirty one: with a slot missing it counts as clean. */
static void old_member_of_a_dirty_array(void **state)
{
	raid5(3);
	dirty(0);
	rig.cand[1].sb.events -= 4;
	rig_leave_out(0);
	force_write();
	rig_starts(1);
	assert_true(rig.out.resync_offset == SB_IN_SYNC);
	noted("1 (slot 1, 4 events behind)");
	noted("from their data byte 0 on");
}

/* Copies that an old member makes unequal are made equal again. */
static void forced_mirrors_are_resynced(void **state)
{
	rig_raid10(4);
	rig.cand[0].sb.events -= 5;
	rig.cand[1].sb.events -= 7;
	force_write();
	rig_starts(1);
	rig_verdict(0, ASM_IN_SYNC);
	rig_verdict(1, ASM_STALE);
	assert_int_equal(rig.out.resync_offset, 0);
}

static void a_failed_member_can_be_forced(void **state)
{
	raid5(3);
	rig_leave_out(2);
	rig_drop(0, 1, SB_ROLE_FAULTY);
	rig.cand[1].sb.events--;
	rig_decide();
	rig_refused("too few members");
	force_write();
	rig_starts(1);
	rig_verdict(1, ASM_IN_SYNC);
	noted("slot 1, failed");
}

/* Each half ran alone: no force merges them read-write. */
static void force_does_not_heal_a_split(void **state)
{
	raid5(3);
	rig_leave_out(2);
	rig_drop(0, 1, SB_ROLE_FAULTY);
	rig_drop(1, 0, SB_ROLE_FAULTY);
	rig.cand[1].sb.events -= 4;
	force_write();
	rig_refused("too few members");
	rig_verdict(1, ASM_SPLIT);
	rig_raid1(2);
	rig_drop(0, 1, SB_ROLE_FAULTY);
	rig_drop(1, 0, SB_ROLE_FAULTY);
	force_write();
	rig_refused("split brain");
}

static void force_does_not_take_what_does_not_fit(void **state)
{
	raid5(3);
	rig_leave_out(2);
	rig.cand[1].sb.events -= 4;
	rig.cand[1].sb.data_size = RIG_DATA_SECTORS - 1;
	force_write();
	rig_refused("too few members");
	rig.cand[1].sb.data_size = RIG_DATA_SECTORS;
	rig.cand[1].sb.feature_map = 0x2000;
	force_write();
	rig_refused("too few members");
	rig.cand[1].sb.feature_map = SB_FEATURE_NEW_OFFSET;
	force_write();
	rig_refused("too few members");
}

/* Without redundancy an old member's data are lost data: only to be looked at. */
static void no_write_force_without_redundancy(void **state)
{
	rig_make(RAID_LEVEL_0, 0, 3);
	rig.cand[1].sb.events -= 4;
	force_write();
	rig_refused("slot 1 of 3 missing");
}

/* ---- logs that are not applied -------------------------------------------------------------- */

static void features(uint32_t bits)
{
	uint32_t k;

	for (k = 0; k < RIG_MEMBERS; k++) {
		rig.cand[k].sb.feature_map |= bits;
	}
}

static void partial_parity_log(void **state)
{
	raid5(3);
	features(SB_FEATURE_MULTIPLE_PPLS);
	dirty(0);
	rig_decide();
	rig_read_only("multiple-ppls");
	rig_leave_out(1);
	rig_decide();
	rig_refused("partial parity log");
	force_write();
	rig_refused("partial parity log");
	rig_force();
	assert_int_equal(rig.out.decision, ASM_START_READONLY);
	noted("partial parity log");
	dirty(SB_IN_SYNC);
	rig.opt.force = false;
	rig_decide();
	rig_read_only("multiple-ppls");
}

/* Whether it is empty, the superblocks do not say. */
static void journal(void **state)
{
	raid5(3);
	features(SB_FEATURE_JOURNAL);
	rig.opt.want_readonly = true;
	rig_decide();
	rig_refused("write journal");
	rig_force();
	assert_int_equal(rig.out.decision, ASM_START_READONLY);
	noted("write journal");
	force_write();
	rig_refused("write journal");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_missing),
		cmocka_unit_test(two_missing_of_raid6),
		cmocka_unit_test(two_members_make_a_raid5),
		cmocka_unit_test(recovering_counts_as_missing),
		cmocka_unit_test(dirty_and_complete_starts),
		cmocka_unit_test(dirty_and_degraded_is_refused),
		cmocka_unit_test(dirty_with_a_rebuild_half_done_is_refused),
		cmocka_unit_test(dirty_and_degraded_forced_read_only),
		cmocka_unit_test(dirty_and_degraded_forced),
		cmocka_unit_test(force_without_need),
		cmocka_unit_test(old_members_are_forced_newest_first),
		cmocka_unit_test(old_member_of_a_dirty_array),
		cmocka_unit_test(forced_mirrors_are_resynced),
		cmocka_unit_test(a_failed_member_can_be_forced),
		cmocka_unit_test(force_does_not_heal_a_split),
		cmocka_unit_test(force_does_not_take_what_does_not_fit),
		cmocka_unit_test(no_write_force_without_redundancy),
		cmocka_unit_test(partial_parity_log),
		cmocka_unit_test(journal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
