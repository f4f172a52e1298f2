/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that do not belong, and what is left when too few do (md-format §7). */
#include "raid/tests/asm_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- not of this array ---------------------------------------------------------------------- */

static void mixed_sets_refused(void **state)
{
	rig_raid1(3);
	rig.cand[2].sb.set_uuid[0]++;
	rig_decide();
	rig_refused("different arrays");
	rig_verdict(2, ASM_FOREIGN);
	rig_force();
	rig_refused("different arrays");
}

static void uuid_picks_one_set(void **state)
{
	rig_raid1(3);
	rig.cand[0].sb.set_uuid[0]++;
	rig.opt.have_uuid = true;
	memset(rig.opt.uuid, 0x55, 16);
	rig_decide();
	rig_starts(1);
	rig_verdict(0, ASM_FOREIGN);
	memset(rig.opt.uuid, 0x44, 16);
	rig_decide();
	rig_refused("44444444:44444444:44444444:44444444");
}

static void unreadable_member_is_left_out(void **state)
{
	rig_raid1(3);
	rig.cand[0].load_err = -EBADMSG;
	snprintf(rig.cand[0].why, sizeof rig.cand[0].why, "checksum is bad");
	rig.cand[1].load_err = -ENOENT;
	rig_decide();
	rig_starts(2);
	rig_verdict(0, ASM_UNREADABLE);
	assert_string_equal(rig.out.member[0].why, "checksum is bad");
	rig_verdict(1, ASM_UNREADABLE);
}

/* Firmware that zeroes the start of whole-disk members: say so. */
static void all_superblocks_gone(void **state)
{
	rig_raid1(2);
	rig.cand[0].load_err = rig.cand[1].load_err = -ENOENT;
	rig_decide();
	rig_refused("no md superblock");
	assert_non_null(strstr(rig.out.why, "m0"));
	rig.count = 0;
	rig_decide();
	rig_refused("no members");
}

static void contradictions_at_equal_events_refused(void **state)
{
	uint32_t i;

	for (i = 0; i < 7; i++) {
		rig_raid10(4);
		switch (i) {
		case 0:
			rig.cand[3].sb.level = 1;
			break;
		case 1:
			rig.cand[3].sb.layout = 0x201;
			break;
		case 2:
			rig.cand[3].sb.chunksize = 64;
			break;
		case 3:
			rig.cand[3].sb.raid_disks = 5;
			break;
		case 4:
			rig.cand[3].sb.size = 4096;
			break;
		case 5:
			rig.cand[3].sb.ctime_s++;
			break;
		default:
			rig.cand[3].sb.version = SB_V1_1;
			break;
		}
		rig_decide();
		rig_refused("contradict each other");
		rig_verdict(3, ASM_STRAY);
		rig_force();
		rig_starts(1);
		assert_non_null(strstr(rig.out.note, "m3"));
	}
}

static void older_contradiction_is_left_out(void **state)
{
	rig_raid10(4);
	rig.cand[3].sb.chunksize = 64;
	rig.cand[3].sb.events--;
	rig_decide();
	rig_starts(1);
	rig_verdict(3, ASM_STRAY);
}

static void slot_beyond_the_array_is_a_stray(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.dev_roles[1] = 2;
	rig_decide();
	rig_verdict(1, ASM_STRAY);
	rig.cand[1].sb.dev_roles[1] = 0xFF00;
	rig_decide();
	rig_verdict(1, ASM_STRAY);
	rig.cand[1].sb.dev_roles[1] = SB_ROLE_MAX;
	rig_decide();
	rig_verdict(1, ASM_STRAY);
	rig_starts(1);
}

static void same_device_twice_refused(void **state)
{
	rig_raid1(3);
	rig.cand[1] = rig.cand[0];
	rig.cand[1].name = "copy";
	rig_decide();
	rig_refused("m0 and copy are copies");
	rig_force();
	rig_starts(1);
	rig_verdict(1, ASM_STRAY);
	assert_non_null(strstr(rig.out.note, "copy"));
}

static void same_slot_twice_refused(void **state)
{
	uint32_t k;

	rig_raid1(2);
	for (k = 0; k < 3; k++) {
		rig.cand[k].sb.dev_roles[2] = 1;
	}
	rig.count = 3;
	rig_decide();
	rig_refused("m1 and m2 both claim slot 1");
}

/* A copy made long ago is just old. */
static void stale_copy_is_left_out(void **state)
{
	rig_raid1(2);
	rig.cand[2] = rig.cand[1];
	rig.cand[2].sb.events -= 3;
	rig.count = 3;
	rig_decide();
	rig_starts(0);
	rig_verdict(2, ASM_STALE);
}

static void member_too_small_is_left_out(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.data_size = RIG_DATA_SECTORS - 1;
	rig_decide();
	rig_starts(1);
	rig_verdict(1, ASM_STRAY);
	assert_non_null(strstr(rig.out.member[1].why, "8191"));
	assert_non_null(strstr(rig.out.member[1].why, "8192"));
}

static void grown_file_is_reported(void **state)
{
	rig_raid1(2);
	rig.cand[1].grown_bytes = 12345;
	rig_decide();
	rig_starts(0);
	assert_non_null(strstr(rig.out.note, "m1 grew by 12345 bytes"));
}

/* ---- too few -------------------------------------------------------------------------------- */

static void degraded_raid1_starts(void **state)
{
	rig_raid1(2);
	rig_leave_out(0);
	rig_decide();
	rig_starts(1);
	assert_true(rig.out.present[1]);
}

static void raid0_and_linear_need_all(void **state)
{
	static const int32_t level[] = {RAID_LEVEL_0, RAID_LEVEL_LINEAR};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		rig_make(level[i], 0, 3);
		rig_leave_out(1);
		rig_decide();
		rig_refused("slot 1 of 3");
		assert_int_equal(rig.out.degraded, 1);
		rig_force();
		rig_refused("slot 1 of 3");
	}
}

static void raid10_counts_pairs_not_failures(void **state)
{
	rig_raid10(4);
	rig_leave_out(2);
	rig_leave_out(1);
	rig_decide();
	rig_starts(2);
	rig_raid10(4);
	rig_leave_out(3);
	rig_leave_out(2);
	rig_decide();
	rig_refused("slot 2, 3 of 4");
	assert_int_equal(rig.out.degraded, 2);
}

static void refusal_names_the_member_that_would_have_been_needed(void **state)
{
	rig_raid10(4);
	rig.cand[2].sb.events -= 7;
	rig.cand[3].sb.events -= 7;
	rig_decide();
	rig_refused("m2 is not used: 7 events behind");
}

static void forced_start_takes_the_least_old(void **state)
{
	rig_raid10(4);
	rig.cand[2].sb.events -= 7;
	rig.cand[3].sb.events -= 5;
	rig.opt.force = true;
	rig_decide();
	rig_refused("too few"); /* never read-write */
	rig_force();
	rig_starts(1);
	assert_true(rig.out.present[3]);
	assert_false(rig.out.present[2]);
	rig_verdict(2, ASM_STALE);
	assert_non_null(
		strstr(rig.out.note, "the 65536-byte chunks on slot 3 may be old, from m3"));
}

static void forced_start_of_a_stripe_set(void **state)
{
	rig_make(RAID_LEVEL_0, 0, 3);
	rig.cand[1].sb.events -= 4;
	rig_decide();
	rig_refused("m1 is not used");
	rig_force();
	rig_starts(0);
	assert_non_null(strstr(rig.out.note, "chunks on slot 1"));
	assert_non_null(strstr(rig.out.note, "4 events behind"));
	assert_int_equal(rig.out.geometry.array_sectors, 3 * RIG_DATA_SECTORS);
}

static void forced_start_says_which_bytes_of_a_linear_array(void **state)
{
	rig_make(RAID_LEVEL_LINEAR, 0, 3);
	rig.cand[1].sb.events -= 4;
	rig_force();
	rig_starts(0);
	assert_non_null(strstr(rig.out.note, "bytes 4194304 to 8388607 may be old, from m1"));
}

/* One event behind, and marked failed in the update that it missed. */
static void forced_start_takes_a_failed_member(void **state)
{
	uint32_t i;

	rig_raid10(4);
	for (i = 0; i < 3; i++) {
		rig.cand[i].sb.events++;
		rig_drop(i, 3, SB_ROLE_FAULTY);
	}
	rig_leave_out(2);
	rig_force();
	rig_starts(1);
	assert_true(rig.out.present[3]);
	assert_non_null(strstr(rig.out.note, "from m3 (slot 3, failed)"));
}

/* Old but whole comes before half rebuilt. */
static void forced_start_prefers_a_whole_member(void **state)
{
	rig_raid10(4);
	rig.cand[2].sb.events -= 9;
	rig.cand[3].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig_force();
	rig_verdict(2, ASM_IN_SYNC);
	rig_verdict(3, ASM_RECOVERING);
	rig_raid10(4);
	rig.cand[2].sb.events -= 9;
	rig.cand[2].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[3].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[3].sb.recovery_offset = 128;
	rig_force();
	rig_verdict(2, ASM_STALE);
	rig_verdict(3, ASM_IN_SYNC);
	assert_non_null(strstr(rig.out.note, "m3 was not rebuilt, from its data byte 65536 on"));
}

static void forced_start_that_fails_leaves_the_verdicts(void **state)
{
	rig_make(RAID_LEVEL_0, 0, 3);
	rig.cand[0].sb.events -= 4;
	rig_leave_out(1);
	rig_force();
	rig_refused("slot 0, 1 of 3");
	rig_verdict(0, ASM_STALE);
	assert_int_equal(rig.out.degraded, 2);
	assert_string_equal(rig.out.note, "");
}

static void forced_start_never_mixes_halves(void **state)
{
	uint32_t i, k;

	rig_raid10(4);
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 4; k++) {
			if (i / 2 != k / 2) {
				rig_drop(i, k, SB_ROLE_SPARE);
			}
		}
	}
	rig.cand[2].sb.events -= 3;
	rig.cand[3].sb.events -= 3;
	rig_force();
	rig_refused("too few");
	rig_verdict(2, ASM_SPLIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixed_sets_refused),
		cmocka_unit_test(uuid_picks_one_set),
		cmocka_unit_test(unreadable_member_is_left_out),
		cmocka_unit_test(all_superblocks_gone),
		cmocka_unit_test(contradictions_at_equal_events_refused),
		cmocka_unit_test(older_contradiction_is_left_out),
		cmocka_unit_test(slot_beyond_the_array_is_a_stray),
		cmocka_unit_test(same_device_twice_refused),
		cmocka_unit_test(same_slot_twice_refused),
		cmocka_unit_test(stale_copy_is_left_out),
		cmocka_unit_test(member_too_small_is_left_out),
		cmocka_unit_test(grown_file_is_reported),
		cmocka_unit_test(degraded_raid1_starts),
		cmocka_unit_test(raid0_and_linear_need_all),
		cmocka_unit_test(raid10_counts_pairs_not_failures),
		cmocka_unit_test(refusal_names_the_member_that_would_have_been_needed),
		cmocka_unit_test(forced_start_takes_the_least_old),
		cmocka_unit_test(forced_start_of_a_stripe_set),
		cmocka_unit_test(forced_start_says_which_bytes_of_a_linear_array),
		cmocka_unit_test(forced_start_takes_a_failed_member),
		cmocka_unit_test(forced_start_prefers_a_whole_member),
		cmocka_unit_test(forced_start_that_fails_leaves_the_verdicts),
		cmocka_unit_test(forced_start_never_mixes_halves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
