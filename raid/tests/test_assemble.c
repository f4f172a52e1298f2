/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rule of assembly has a test of its own here (md-format §4, §7, §19; the names of cases that
 * hurt real users say so). Arrays are made as a healthy one and then one thing is changed.
 */
#include "raid/assemble.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MEMBERS = 8, DEV_SECTORS = 10240, DATA_OFFSET = 2048, DATA_SECTORS = 8192, EVENTS = 20 };

static struct asm_candidate cand[MEMBERS];
static struct asm_options opt;
static struct assembly out;
static uint32_t count;

static const char *const names[MEMBERS] = {"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"};

/* A healthy array of n slots; dev_number k has slot k. */
static void make(int32_t level, uint32_t layout, uint32_t n)
{
	uint32_t k, i;

	memset(cand, 0, sizeof cand);
	memset(&opt, 0, sizeof opt);
	count = n;
	for (k = 0; k < MEMBERS; k++) {
		struct sb *sb = &cand[k].sb;

		cand[k].name = names[k];
		cand[k].dev_sectors = DEV_SECTORS;
		sb->version = SB_V1_2;
		memset(sb->set_uuid, 0x55, 16);
		memset(sb->device_uuid, (int)(0xA0 + k), 16);
		sb->ctime_s = 1700000000;
		sb->level = level;
		sb->layout = layout;
		sb->chunksize = level == 1 || level == -1 ? 0 : 128;
		sb->size = level > 0 ? DATA_SECTORS : 0;
		sb->raid_disks = n;
		sb->data_offset = DATA_OFFSET;
		sb->data_size = DATA_SECTORS;
		sb->super_offset = 8;
		sb->dev_number = k;
		sb->events = EVENTS;
		sb->resync_offset = SB_IN_SYNC;
		sb->max_dev = 128;
		for (i = 0; i < SB_ROLES_MAX; i++) {
			sb->dev_roles[i] = i < n ? (uint16_t)i : SB_ROLE_SPARE;
		}
	}
}

static void raid1(uint32_t n)
{
	make(RAID_LEVEL_1, 0, n);
}

/* near=2 over n. */
static void raid10(uint32_t n)
{
	make(RAID_LEVEL_10, 0x102, n);
}

static void decide(void)
{
	asm_decide(cand, count, &opt, &out);
	assert_null(strchr(out.why, '\n'));
	assert_true(strlen(out.why) < RAID_WHY_BYTES);
	assert_int_equal(out.why[0] != '\0', out.decision != ASM_START);
}

static void force(void)
{
	opt.want_readonly = true;
	opt.force = true;
	decide();
}

static void assert_verdict(uint32_t i, enum asm_verdict v)
{
	if (out.member[i].verdict != v) {
		fail_msg("m%u is %s, not %s: %s", i, asm_verdict_name(out.member[i].verdict),
			 asm_verdict_name(v), out.member[i].why);
	}
	assert_true(v == ASM_IN_SYNC || out.member[i].why[0]);
}

static void assert_starts(uint32_t degraded)
{
	if (out.decision != ASM_START) {
		fail_msg("decision %d: %s", out.decision, out.why);
	}
	assert_int_equal(out.degraded, degraded);
}

static void assert_refused(const char *word)
{
	assert_int_equal(out.decision, ASM_REFUSE);
	if (!strstr(out.why, word)) {
		fail_msg("no '%s' in: %s", word, out.why);
	}
}

static void assert_read_only(const char *word)
{
	assert_int_equal(out.decision, ASM_START_READONLY);
	if (!strstr(out.why, word) || !strstr(out.why, "--readonly")) {
		fail_msg("no '%s' in: %s", word, out.why);
	}
}

/* "a no longer knows b", as after a failure (0xFFFE) or a removal (0xFFFF). */
static void drop(uint32_t a, uint32_t b, uint16_t role)
{
	cand[a].sb.dev_roles[b] = role;
}

static void leave_out(uint32_t i)
{
	memmove(&cand[i], &cand[i + 1], (count - i - 1) * sizeof cand[0]);
	count--;
}

/* The members in another order must give the same array. */
static void shuffle(uint32_t seed)
{
	uint32_t i;

	for (i = count; i > 1; i--) {
		struct asm_candidate tmp = cand[i - 1];
		uint32_t k = seed % i;

		seed /= i;
		cand[i - 1] = cand[k];
		cand[k] = tmp;
	}
}

/* ---- whole arrays ---------------------------------------------------------------------------- */

static void healthy_raid1(void **state)
{
	raid1(3);
	decide();
	assert_starts(0);
	assert_true(out.metadata);
	assert_int_equal(out.members, 3);
	assert_int_equal(out.events, EVENTS);
	assert_int_equal(out.resync_offset, SB_IN_SYNC);
	assert_int_equal(out.geometry.array_sectors, DATA_SECTORS);
	assert_int_equal(out.geometry.copies, 3);
	assert_int_equal(out.geometry.p.slot[2].data_offset_sectors, DATA_OFFSET);
	assert_int_equal(out.features, 0);
	assert_true(out.present[0] && out.present[1] && out.present[2] && !out.present[3]);
	assert_verdict(1, ASM_IN_SYNC);
	assert_int_equal(out.member[1].slot, 1);
	assert_int_equal(out.member[1].candidate, 1);
}

static void healthy_raid10(void **state)
{
	raid10(4);
	decide();
	assert_starts(0);
	assert_int_equal(out.geometry.array_sectors, 2 * DATA_SECTORS);
}

static void healthy_raid0_and_linear_use_each_member_s_own_size(void **state)
{
	make(RAID_LEVEL_0, 0, 3);
	cand[1].sb.data_size = cand[2].sb.data_size = 8192 - 128;
	cand[2].sb.data_offset = 1024;
	decide();
	assert_starts(0);
	assert_int_equal(out.geometry.array_sectors, 3 * 8192 - 256);
	assert_int_equal(out.geometry.p.slot[2].data_offset_sectors, 1024);
	make(RAID_LEVEL_LINEAR, 0, 2);
	cand[1].sb.data_size = 1000;
	decide();
	assert_starts(0);
	assert_int_equal(out.geometry.array_sectors, 8192 + 1000);
}

/* §19.1: as mdadm numbers the members of a new raid5, and of any array after a replacement. */
static void dev_number_is_not_the_slot(void **state)
{
	uint32_t i;

	raid1(3);
	for (i = 0; i < 3; i++) {
		cand[i].sb.dev_roles[0] = 2;
		cand[i].sb.dev_roles[1] = SB_ROLE_SPARE;
		cand[i].sb.dev_roles[2] = 0;
		cand[i].sb.dev_roles[4] = 1;
	}
	cand[1].sb.dev_number = 4;
	decide();
	assert_starts(0);
	assert_int_equal(out.member[0].slot, 2);
	assert_int_equal(out.member[1].slot, 1);
	assert_int_equal(out.member[2].slot, 0);
}

static void order_of_members_does_not_matter(void **state)
{
	uint32_t seed;

	for (seed = 0; seed < 24; seed++) {
		raid10(4);
		cand[2].sb.events = EVENTS - 5;
		shuffle(seed);
		decide();
		assert_starts(1);
		assert_false(out.present[2]);
	}
}

/* ---- events ---------------------------------------------------------------------------------- */

static void one_event_behind_is_as_good(void **state)
{
	raid1(2);
	cand[1].sb.events--;
	decide();
	assert_starts(0);
	assert_int_equal(out.freshest, 0);
	assert_int_equal(out.events, EVENTS);
}

static void two_events_behind_is_stale(void **state)
{
	raid1(2);
	cand[0].sb.events -= 2;
	decide();
	assert_starts(1);
	assert_verdict(0, ASM_STALE);
	assert_int_equal(out.freshest, 1);
	assert_false(out.present[0]);
}

static void events_at_the_end_of_their_range(void **state)
{
	raid1(3);
	cand[0].sb.events = UINT64_MAX;
	cand[1].sb.events = UINT64_MAX - 1;
	cand[2].sb.events = 0;
	decide();
	assert_starts(1);
	assert_verdict(1, ASM_IN_SYNC);
	assert_verdict(2, ASM_STALE);
}

/* Linux: "faulty disk trusted after a crash". The survivors wrote events + 1 with it marked faulty
 * and the machine died: its own superblock is one behind and knows nothing. */
static void one_behind_takes_its_role_from_the_freshest(void **state)
{
	raid1(2);
	cand[0].sb.events++;
	drop(0, 1, SB_ROLE_FAULTY);
	decide();
	assert_starts(1);
	assert_verdict(1, ASM_FAULTY);
	assert_false(out.present[1]);
	drop(0, 1, SB_ROLE_SPARE);
	decide();
	assert_verdict(1, ASM_FAULTY);
}

static void one_behind_with_another_slot_is_a_stray(void **state)
{
	raid1(3);
	cand[0].sb.events++;
	cand[0].sb.dev_roles[1] = 2;
	cand[0].sb.dev_roles[2] = 1;
	decide();
	assert_starts(2);
	assert_verdict(1, ASM_STRAY);
	assert_verdict(2, ASM_STRAY);
}

static void freshest_speaks_for_dirty_and_clean(void **state)
{
	raid1(2);
	cand[0].sb.events++;
	cand[0].sb.resync_offset = 0;
	decide();
	assert_starts(0);
	assert_int_equal(out.resync_offset, 0);
	raid1(2);
	cand[0].sb.events++;
	cand[1].sb.resync_offset = 0;
	decide();
	assert_int_equal(out.resync_offset, SB_IN_SYNC);
}

/* md's event count steps back on a clean stop, so equal events can be dirty on one member. */
static void dirty_wins_between_equals(void **state)
{
	raid1(2);
	cand[1].sb.resync_offset = 4096;
	decide();
	assert_starts(0);
	assert_int_equal(out.resync_offset, 4096);
}

/* ---- spares, faulty, journal ------------------------------------------------------------------
 */

static void add_spare(uint32_t i)
{
	uint32_t k;

	for (k = 0; k < MEMBERS; k++) {
		cand[k].sb.dev_roles[i] = SB_ROLE_SPARE;
	}
	count = i + 1;
}

static void spare_with_any_events(void **state)
{
	static const uint64_t events[] = {0, EVENTS, EVENTS + 100};
	uint32_t i;

	for (i = 0; i < 3; i++) {
		raid1(2);
		add_spare(2);
		cand[2].sb.events = events[i];
		decide();
		assert_starts(0);
		assert_verdict(2, ASM_SPARE);
		assert_int_equal(out.member[2].slot, -1);
		assert_int_equal(out.events, EVENTS);
	}
}

static void spare_beyond_the_table(void **state)
{
	raid1(2);
	add_spare(2);
	cand[2].sb.dev_number = 4000;
	decide();
	assert_starts(0);
	assert_verdict(2, ASM_SPARE);
}

static void only_spares_refused(void **state)
{
	raid1(2);
	add_spare(2);
	cand[0] = cand[2];
	count = 1;
	decide();
	assert_refused("only spares");
	assert_verdict(0, ASM_SPARE);
}

/* The members that matter are not here: the one given was thrown out long ago. */
static void spare_that_saw_the_freshest_fail(void **state)
{
	raid1(2);
	add_spare(2);
	cand[2].sb.events = EVENTS + 9;
	drop(2, 0, SB_ROLE_FAULTY);
	leave_out(1);
	decide();
	assert_refused("saw m0 fail");
	force();
	assert_starts(1);
	assert_non_null(strstr(out.note, "saw m0 fail"));
}

/* It was given a slot, and the crash came before its own superblock said so. */
static void spare_one_behind_its_activation_is_not_in_sync(void **state)
{
	raid1(2);
	cand[1].sb.dev_roles[1] = SB_ROLE_SPARE;
	cand[1].sb.events--;
	decide();
	assert_starts(1);
	assert_verdict(1, ASM_SPARE);
}

static void own_table_says_faulty(void **state)
{
	raid1(2);
	drop(0, 1, SB_ROLE_FAULTY);
	drop(1, 1, SB_ROLE_FAULTY);
	decide();
	assert_starts(1);
	assert_verdict(1, ASM_FAULTY);
}

static void journal_role(void **state)
{
	uint32_t k;

	raid1(2);
	for (k = 0; k < 3; k++) {
		cand[k].sb.dev_roles[2] = SB_ROLE_JOURNAL;
		cand[k].sb.feature_map = SB_FEATURE_JOURNAL;
	}
	count = 3;
	decide();
	assert_verdict(2, ASM_JOURNAL);
	assert_read_only("journal");
	cand[2].sb.events -= 2;
	decide();
	assert_verdict(2, ASM_STALE);
}

/* ---- split brain ------------------------------------------------------------------------------
 */

static void split_with_more_events_on_one_side(void **state)
{
	raid1(2);
	drop(0, 1, SB_ROLE_SPARE);
	drop(1, 0, SB_ROLE_SPARE);
	cand[0].sb.events += 2;
	decide();
	assert_starts(1);
	assert_verdict(1, ASM_SPLIT);
	assert_false(out.present[1]);
}

static void split_one_event_apart_is_not_merged(void **state)
{
	raid1(2);
	drop(0, 1, SB_ROLE_FAULTY);
	drop(1, 0, SB_ROLE_FAULTY);
	cand[1].sb.events++;
	decide();
	assert_starts(1);
	assert_verdict(0, ASM_SPLIT);
	assert_true(out.present[1]);
}

static void split_with_equal_events_refused(void **state)
{
	raid1(2);
	drop(0, 1, SB_ROLE_SPARE);
	drop(1, 0, SB_ROLE_SPARE);
	decide();
	assert_refused("split brain");
	assert_non_null(strstr(out.why, "m0"));
	assert_non_null(strstr(out.why, "m1"));
	force();
	assert_starts(1);
	assert_true(out.present[0]);
	assert_verdict(1, ASM_SPLIT);
	assert_non_null(strstr(out.note, "split brain"));
}

static void split_halves_of_raid10(void **state)
{
	uint32_t i, k, seed;

	for (seed = 0; seed < 24; seed++) {
		raid10(4);
		for (i = 0; i < 4; i++) {
			for (k = 0; k < 4; k++) {
				if (i % 2 != k % 2) {
					drop(i, k, SB_ROLE_SPARE);
				}
			}
		}
		shuffle(seed);
		decide();
		assert_refused("split brain");
		force();
		assert_starts(2);
		assert_int_equal(out.present[0], out.present[2]);
		assert_int_equal(out.present[1], out.present[3]);
		assert_int_not_equal(out.present[0], out.present[1]);
	}
}

/* mdadm#22: three mirrors pulled one after another. The last to run alone has most events; the
 * others must not come back, in whatever order they are named. */
static void three_mirrors_pulled_one_by_one(void **state)
{
	uint32_t seed, i;

	for (seed = 0; seed < 6; seed++) {
		raid1(3);
		cand[1].sb.events = EVENTS + 2;
		drop(1, 0, SB_ROLE_FAULTY);
		cand[2].sb.events = EVENTS + 4;
		drop(2, 0, SB_ROLE_FAULTY);
		drop(2, 1, SB_ROLE_FAULTY);
		shuffle(seed);
		decide();
		assert_starts(2);
		assert_true(out.present[2]);
		for (i = 0; i < 3; i++) {
			assert_int_equal(out.member[i].verdict == ASM_IN_SYNC,
					 out.member[i].slot == 2);
		}
	}
}

/* The one that knows of the failure is newer, also at equal events. */
static void one_sided_drop_at_equal_events(void **state)
{
	uint32_t seed;

	for (seed = 0; seed < 2; seed++) {
		raid1(2);
		drop(1, 0, SB_ROLE_FAULTY);
		shuffle(seed);
		decide();
		assert_starts(1);
		assert_false(out.present[0]);
		assert_true(out.present[1]);
	}
}

/* A third member's knowledge counts too. */
static void drop_known_to_an_equal_is_respected(void **state)
{
	raid1(3);
	drop(2, 1, SB_ROLE_FAULTY);
	decide();
	assert_starts(1);
	assert_false(out.present[1]);
	assert_true(out.present[0] && out.present[2]);
}

static void dropped_by_one_that_is_one_behind(void **state)
{
	raid1(2);
	cand[0].sb.events++;
	drop(1, 0, SB_ROLE_FAULTY);
	decide();
	assert_refused("m1 says that m0 failed");
	assert_verdict(1, ASM_SPLIT);
}

/* The freshest was just given a slot; the others' tables are one update older. */
static void recovering_freshest_is_not_dropped_by_older_tables(void **state)
{
	raid1(2);
	cand[1].sb.events++;
	cand[1].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	drop(0, 1, SB_ROLE_SPARE);
	decide();
	assert_int_equal(out.decision, ASM_START_READONLY);
	assert_int_equal(out.freshest, 1);
	assert_verdict(0, ASM_IN_SYNC);
	assert_verdict(1, ASM_RECOVERING);
}

/* ---- recovering, replacement --------------------------------------------------------------------
 */

/* §19.2: in the others' tables it looks active. */
static void recovering_member_is_not_in_sync(void **state)
{
	raid1(2);
	cand[0].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	cand[0].sb.recovery_offset = 4096;
	decide();
	assert_read_only("recovery-offset");
	assert_verdict(0, ASM_RECOVERING);
	assert_int_equal(out.member[0].slot, 0);
	assert_int_equal(out.degraded, 1);
	assert_false(out.present[0]);
}

static void recovering_alone_is_too_little(void **state)
{
	raid1(2);
	cand[0].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	cand[0].sb.recovery_offset = 4096;
	count = 1;
	decide();
	assert_refused("too few members");
	force();
	assert_int_equal(out.decision, ASM_START_READONLY);
	assert_true(out.present[0]);
	assert_non_null(strstr(out.note, "byte 2097152"));
}

static void replacing(uint32_t features)
{
	uint32_t k;

	raid10(4);
	for (k = 0; k < 5; k++) {
		cand[k].sb.dev_roles[4] = 2;
	}
	count = 5;
	cand[4].sb.feature_map = SB_FEATURE_REPLACEMENT | features;
	cand[4].sb.recovery_offset = 4096;
}

static void replacement_beside_its_original(void **state)
{
	replacing(SB_FEATURE_RECOVERY_OFFSET);
	decide();
	assert_read_only("replacement");
	assert_verdict(4, ASM_REPLACEMENT);
	assert_int_equal(out.member[4].slot, 2);
	assert_verdict(2, ASM_IN_SYNC);
	assert_int_equal(out.degraded, 0);
}

static void complete_replacement_waits_for_its_original_to_go(void **state)
{
	replacing(0);
	decide();
	assert_verdict(4, ASM_REPLACEMENT);
	assert_verdict(2, ASM_IN_SYNC);
	leave_out(2);
	decide();
	assert_verdict(3, ASM_IN_SYNC);
	assert_int_equal(out.degraded, 0);
}

static void half_a_replacement_does_not_stand_in(void **state)
{
	replacing(SB_FEATURE_RECOVERY_OFFSET);
	leave_out(2);
	decide();
	assert_verdict(3, ASM_REPLACEMENT);
	assert_int_equal(out.degraded, 1);
}

/* ---- not of this array
 * ---------------------------------------------------------------------------- */

static void mixed_sets_refused(void **state)
{
	raid1(3);
	cand[2].sb.set_uuid[0]++;
	decide();
	assert_refused("different arrays");
	assert_verdict(2, ASM_FOREIGN);
	force();
	assert_refused("different arrays");
}

static void uuid_picks_one_set(void **state)
{
	raid1(3);
	cand[0].sb.set_uuid[0]++;
	opt.have_uuid = true;
	memset(opt.uuid, 0x55, 16);
	decide();
	assert_starts(1);
	assert_verdict(0, ASM_FOREIGN);
	memset(opt.uuid, 0x44, 16);
	decide();
	assert_refused("44444444:44444444:44444444:44444444");
}

static void unreadable_member_is_left_out(void **state)
{
	raid1(3);
	cand[0].load_err = -EBADMSG;
	snprintf(cand[0].why, sizeof cand[0].why, "checksum is bad");
	cand[1].load_err = -ENOENT;
	decide();
	assert_starts(2);
	assert_verdict(0, ASM_UNREADABLE);
	assert_string_equal(out.member[0].why, "checksum is bad");
	assert_verdict(1, ASM_UNREADABLE);
}

/* Firmware that zeroes the start of whole-disk members: say so. */
static void all_superblocks_gone(void **state)
{
	raid1(2);
	cand[0].load_err = cand[1].load_err = -ENOENT;
	decide();
	assert_refused("no md superblock");
	assert_non_null(strstr(out.why, "m0"));
	count = 0;
	decide();
	assert_refused("no members");
}

static void contradictions_at_equal_events_refused(void **state)
{
	uint32_t i;

	for (i = 0; i < 7; i++) {
		raid10(4);
		switch (i) {
		case 0:
			cand[3].sb.level = 1;
			break;
		case 1:
			cand[3].sb.layout = 0x201;
			break;
		case 2:
			cand[3].sb.chunksize = 64;
			break;
		case 3:
			cand[3].sb.raid_disks = 5;
			break;
		case 4:
			cand[3].sb.size = 4096;
			break;
		case 5:
			cand[3].sb.ctime_s++;
			break;
		default:
			cand[3].sb.version = SB_V1_1;
			break;
		}
		decide();
		assert_refused("contradict each other");
		assert_verdict(3, ASM_STRAY);
		force();
		assert_starts(1);
		assert_non_null(strstr(out.note, "m3"));
	}
}

static void older_contradiction_is_left_out(void **state)
{
	raid10(4);
	cand[3].sb.chunksize = 64;
	cand[3].sb.events--;
	decide();
	assert_starts(1);
	assert_verdict(3, ASM_STRAY);
}

static void slot_beyond_the_array_is_a_stray(void **state)
{
	raid1(2);
	cand[1].sb.dev_roles[1] = 2;
	decide();
	assert_verdict(1, ASM_STRAY);
	cand[1].sb.dev_roles[1] = 0xFF00;
	decide();
	assert_verdict(1, ASM_STRAY);
	cand[1].sb.dev_roles[1] = SB_ROLE_MAX;
	decide();
	assert_verdict(1, ASM_STRAY);
	assert_starts(1);
}

static void same_device_twice_refused(void **state)
{
	raid1(3);
	cand[1] = cand[0];
	cand[1].name = "copy";
	decide();
	assert_refused("m0 and copy are copies");
	force();
	assert_starts(1);
	assert_verdict(1, ASM_STRAY);
	assert_non_null(strstr(out.note, "copy"));
}

static void same_slot_twice_refused(void **state)
{
	uint32_t k;

	raid1(2);
	for (k = 0; k < 3; k++) {
		cand[k].sb.dev_roles[2] = 1;
	}
	count = 3;
	decide();
	assert_refused("m1 and m2 both claim slot 1");
}

/* A copy made long ago is just old. */
static void stale_copy_is_left_out(void **state)
{
	raid1(2);
	cand[2] = cand[1];
	cand[2].sb.events -= 3;
	count = 3;
	decide();
	assert_starts(0);
	assert_verdict(2, ASM_STALE);
}

static void member_too_small_is_left_out(void **state)
{
	raid1(2);
	cand[1].sb.data_size = DATA_SECTORS - 1;
	decide();
	assert_starts(1);
	assert_verdict(1, ASM_STRAY);
	assert_non_null(strstr(out.member[1].why, "8191"));
	assert_non_null(strstr(out.member[1].why, "8192"));
}

static void grown_file_is_reported(void **state)
{
	raid1(2);
	cand[1].grown_bytes = 12345;
	decide();
	assert_starts(0);
	assert_non_null(strstr(out.note, "m1 grew by 12345 bytes"));
}

/* ---- too few
 * ---------------------------------------------------------------------------------------- */

static void degraded_raid1_starts(void **state)
{
	raid1(2);
	leave_out(0);
	decide();
	assert_starts(1);
	assert_true(out.present[1]);
}

static void raid0_and_linear_need_all(void **state)
{
	static const int32_t level[] = {RAID_LEVEL_0, RAID_LEVEL_LINEAR};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		make(level[i], 0, 3);
		leave_out(1);
		decide();
		assert_refused("slot 1 of 3");
		assert_int_equal(out.degraded, 1);
		force();
		assert_refused("slot 1 of 3");
	}
}

static void raid10_counts_pairs_not_failures(void **state)
{
	raid10(4);
	leave_out(2);
	leave_out(1);
	decide();
	assert_starts(2);
	raid10(4);
	leave_out(3);
	leave_out(2);
	decide();
	assert_refused("slot 2, 3 of 4");
	assert_int_equal(out.degraded, 2);
}

static void refusal_names_the_member_that_would_have_been_needed(void **state)
{
	raid10(4);
	cand[2].sb.events -= 7;
	cand[3].sb.events -= 7;
	decide();
	assert_refused("m2 is not used: 7 events behind");
}

static void forced_start_takes_the_least_old(void **state)
{
	raid10(4);
	cand[2].sb.events -= 7;
	cand[3].sb.events -= 5;
	opt.force = true;
	decide();
	assert_refused("too few"); /* never read-write */
	force();
	assert_starts(1);
	assert_true(out.present[3]);
	assert_false(out.present[2]);
	assert_verdict(2, ASM_STALE);
	assert_non_null(strstr(out.note, "slot 3 (m3, 5 events behind)"));
}

static void forced_start_of_a_stripe_set(void **state)
{
	make(RAID_LEVEL_0, 0, 3);
	cand[1].sb.events -= 4;
	decide();
	assert_refused("m1 is not used");
	force();
	assert_starts(0);
	assert_non_null(strstr(out.note, "slot 1"));
	assert_int_equal(out.geometry.array_sectors, 3 * DATA_SECTORS);
}

static void forced_start_never_mixes_halves(void **state)
{
	uint32_t i, k;

	raid10(4);
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 4; k++) {
			if (i / 2 != k / 2) {
				drop(i, k, SB_ROLE_SPARE);
			}
		}
	}
	cand[2].sb.events -= 3;
	cand[3].sb.events -= 3;
	force();
	assert_refused("too few");
	assert_verdict(2, ASM_SPLIT);
}

/* ---- what is only read, or not at all
 * ----------------------------------------------------------------- */

static void features_that_are_only_read(void **state)
{
	static const uint32_t bits[] = {0x1, 0x80, 0x100, 0x200, 0x400, 0x800};
	uint32_t i;

	for (i = 0; i < sizeof bits / sizeof bits[0]; i++) {
		raid1(2);
		cand[1].sb.feature_map = bits[i];
		decide();
		assert_read_only(sb_feature_name(bits[i]));
		assert_int_equal(out.features, bits[i]);
		opt.want_readonly = true;
		decide();
		assert_int_equal(out.decision, ASM_START_READONLY);
	}
}

static void several_reasons_are_all_named(void **state)
{
	raid1(2);
	cand[0].sb.feature_map = 0x1;
	cand[1].sb.feature_map = 0x3;
	decide();
	assert_read_only("bitmap, recovery-offset");
}

/* A bitmap on a member that is not used does not matter. */
static void features_of_unused_members_do_not_count(void **state)
{
	raid1(2);
	cand[1].sb.feature_map = 0x1 | 0x2000;
	cand[1].sb.events -= 5;
	decide();
	assert_starts(1);
	assert_int_equal(out.features, 0);
}

static void bad_blocks_are_honoured(void **state)
{
	raid1(2);
	cand[1].sb.feature_map = SB_FEATURE_BAD_BLOCKS;
	cand[1].bad.count = 1;
	cand[1].bad.range[0] = (struct bb_range){4096000, 4096};
	decide();
	assert_starts(0);
	assert_int_equal(out.member[1].bad.count, 1);
	assert_int_equal(out.member[1].bad.range[0].maddr, 4096000);
	assert_int_equal(out.member[0].bad.count, 0);
}

static void old_metadata_is_only_read(void **state)
{
	uint32_t k;

	raid1(2);
	for (k = 0; k < 2; k++) {
		cand[k].sb.version = SB_V0_90;
		cand[k].sb.data_offset = 0;
		memset(cand[k].sb.device_uuid, 0, 16); /* it has none: not a duplicate */
	}
	decide();
	assert_read_only("metadata 0.90");
	assert_int_equal(out.degraded, 0);
}

static void far_sets_are_only_read(void **state)
{
	make(RAID_LEVEL_10, 0x40201, 4);
	decide();
	assert_read_only("far sets");
	make(RAID_LEVEL_10, 0x201, 4);
	decide();
	assert_starts(0);
}

static void reshape_refused(void **state)
{
	static const uint32_t bits[] = {0x4, 0x4 | 0x40, 0x20, 0x40};
	uint32_t i;

	for (i = 0; i < 4; i++) {
		raid10(4);
		cand[2].sb.feature_map = bits[i];
		decide();
		assert_refused("reshape");
		force();
		assert_refused("reshape");
	}
}

static void unknown_features_refused(void **state)
{
	raid1(2);
	cand[1].sb.feature_map = 0x2000;
	decide();
	assert_refused("m1 uses features 0x2000");
	force();
	assert_refused("0x2000");
}

static void parity_levels_refused_by_name(void **state)
{
	static const struct {
		int32_t level;
		const char *word;
	} bad[] = {{4, "raid4"},     {5, "raid5"},   {6, "raid6"},
		   {-4, "level -4"}, {2, "level 2"}, {INT32_MIN, "level -2147483648"}};
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		make(bad[i].level, 2, 4);
		cand[1].sb.events -= 3;
		decide();
		assert_refused(bad[i].word);
		assert_non_null(strstr(out.why, "mdadm"));
		assert_verdict(1, ASM_STALE); /* the verdicts are there all the same */
		assert_int_equal(out.degraded, 1);
	}
}

static void raid0_layout_that_matters(void **state)
{
	make(RAID_LEVEL_0, 1, 3); /* layout field without the feature: to be ignored */
	cand[0].sb.data_size = 2048;
	decide();
	assert_refused("layout");
	force();
	assert_refused("layout");
	memset(&opt, 0, sizeof opt);
	opt.raid0_layout = GEO_RAID0_ALTERNATE;
	decide();
	assert_starts(0);
	assert_int_equal(out.geometry.p.layout, GEO_RAID0_ALTERNATE);
}

static void raid0_layout_recorded(void **state)
{
	uint32_t k;

	make(RAID_LEVEL_0, 1, 3);
	for (k = 0; k < 3; k++) {
		cand[k].sb.feature_map = SB_FEATURE_RAID0_LAYOUT;
	}
	cand[0].sb.data_size = 2048;
	opt.raid0_layout = GEO_RAID0_ALTERNATE; /* the record is right, the user is not asked */
	decide();
	assert_starts(0);
	assert_int_equal(out.geometry.p.layout, GEO_RAID0_ORIGINAL);
}

static void raid0_layout_that_does_not_matter(void **state)
{
	make(RAID_LEVEL_0, 0, 2);
	cand[0].sb.data_size = 2048;
	decide();
	assert_starts(0);
}

static void too_many_slots_refused(void **state)
{
	raid1(2);
	cand[0].sb.raid_disks = cand[1].sb.raid_disks = 65;
	decide();
	assert_refused("65 slots");
	cand[0].sb.raid_disks = cand[1].sb.raid_disks = 1920;
	cand[0].sb.dev_roles[0] = cand[1].sb.dev_roles[0] = 1919;
	decide();
	assert_refused("1920 slots");
}

static void impossible_geometry_refused(void **state)
{
	make(RAID_LEVEL_10, 0x105, 4); /* five copies on four slots */
	decide();
	assert_refused("m0");
	make(RAID_LEVEL_10, 0x102, 4);
	cand[0].sb.chunksize = cand[1].sb.chunksize = cand[2].sb.chunksize = cand[3].sb.chunksize =
		0;
	decide();
	assert_int_equal(out.decision, ASM_REFUSE);
	raid1(2);
	cand[0].sb.size = cand[1].sb.size = 0;
	decide();
	assert_int_equal(out.decision, ASM_REFUSE);
}

/* ---- without superblocks
 * -------------------------------------------------------------------------------- */

static void build(void **state)
{
	struct geo_params p = {.level = RAID_LEVEL_1, .slots = 2, .component_sectors = 8192};
	char why[RAID_WHY_BYTES];

	raid1(2);
	p.slot[0].data_sectors = p.slot[1].data_sectors = 8192;
	p.slot[0].data_offset_sectors = p.slot[1].data_offset_sectors = 2048;
	assert_int_equal(asm_build(&p, cand, 2, &out, why), 0);
	assert_int_equal(out.decision, ASM_START);
	assert_false(out.metadata);
	assert_int_equal(out.members, 2);
	assert_int_equal(out.member[1].slot, 1);
	assert_int_equal(out.member[1].dev_sectors, DEV_SECTORS);
	assert_true(out.present[0] && out.present[1]);
	assert_int_equal(out.degraded, 0);
	assert_int_equal(out.resync_offset, SB_IN_SYNC);
	assert_int_equal(out.geometry.array_sectors, 8192);
	assert_int_equal(asm_build(&p, cand, 1, &out, why), -EINVAL);
	cand[1].dev_sectors = 10239;
	assert_int_equal(asm_build(&p, cand, 2, &out, why), -EINVAL);
	assert_non_null(strstr(why, "m1 has 10239 sectors"));
	p.level = RAID_LEVEL_5;
	assert_int_equal(asm_build(&p, cand, 2, &out, why), -EINVAL);
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
		cmocka_unit_test(recovering_freshest_is_not_dropped_by_older_tables),
		cmocka_unit_test(recovering_member_is_not_in_sync),
		cmocka_unit_test(recovering_alone_is_too_little),
		cmocka_unit_test(replacement_beside_its_original),
		cmocka_unit_test(complete_replacement_waits_for_its_original_to_go),
		cmocka_unit_test(half_a_replacement_does_not_stand_in),
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
		cmocka_unit_test(forced_start_never_mixes_halves),
		cmocka_unit_test(features_that_are_only_read),
		cmocka_unit_test(several_reasons_are_all_named),
		cmocka_unit_test(features_of_unused_members_do_not_count),
		cmocka_unit_test(bad_blocks_are_honoured),
		cmocka_unit_test(old_metadata_is_only_read),
		cmocka_unit_test(far_sets_are_only_read),
		cmocka_unit_test(reshape_refused),
		cmocka_unit_test(unknown_features_refused),
		cmocka_unit_test(parity_levels_refused_by_name),
		cmocka_unit_test(raid0_layout_that_matters),
		cmocka_unit_test(raid0_layout_recorded),
		cmocka_unit_test(raid0_layout_that_does_not_matter),
		cmocka_unit_test(too_many_slots_refused),
		cmocka_unit_test(impossible_geometry_refused),
		cmocka_unit_test(build),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
