/* SPDX-License-Identifier: BSD-3-Clause */
/* What is only read or refused, and arrays without superblocks (md-format §4, §7.8). */
#include "raid/tests/asm_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- what is only read, or not at all ------------------------------------------------------- */

static void features_that_are_only_read(void **state)
{
	static const uint32_t bits[] = {0x100, 0x200, 0x400, 0x800};
	uint32_t i;

	for (i = 0; i < sizeof bits / sizeof bits[0]; i++) {
		rig_raid1(2);
		rig.cand[1].sb.feature_map = bits[i];
		rig_decide();
		rig_read_only(sb_feature_name(bits[i]));
		assert_int_equal(rig.out.features, bits[i]);
		rig.opt.want_readonly = true;
		rig_decide();
		assert_int_equal(rig.out.decision, ASM_START_READONLY);
	}
}

static void several_reasons_are_all_named(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.feature_map = 0x100;
	rig.cand[1].sb.feature_map = 0x500;
	rig_decide();
	rig_read_only("clustered, ppl");
}

/* A bitmap on a member that is not used does not matter. */
static void features_of_unused_members_do_not_count(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.feature_map = 0x1 | 0x2000;
	rig.cand[1].sb.events -= 5;
	rig_decide();
	rig_starts(1);
	assert_int_equal(rig.out.features, 0);
}

static void bad_blocks_are_honoured(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.feature_map = SB_FEATURE_BAD_BLOCKS;
	rig.cand[1].bad.count = 1;
	rig.cand[1].bad.range[0] = (struct bb_range){4096000, 4096};
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.member[1].bad.count, 1);
	assert_int_equal(rig.out.member[1].bad.range[0].maddr, 4096000);
	assert_int_equal(rig.out.member[0].bad.count, 0);
}

static void old_metadata_is_only_read(void **state)
{
	uint32_t k;

	rig_raid1(2);
	for (k = 0; k < 2; k++) {
		rig.cand[k].sb.version = SB_V0_90;
		rig.cand[k].sb.data_offset = 0;
		memset(rig.cand[k].sb.device_uuid, 0, 16); /* it has none: not a duplicate */
	}
	rig_decide();
	rig_read_only("metadata 0.90");
	assert_int_equal(rig.out.degraded, 0);
}

static void far_sets_are_only_read(void **state)
{
	rig_make(RAID_LEVEL_10, 0x40201, 4);
	rig_decide();
	rig_read_only("far sets");
	rig_make(RAID_LEVEL_10, 0x201, 4);
	rig_decide();
	rig_starts(0);
}

static void reshape_refused(void **state)
{
	static const uint32_t bits[] = {0x4, 0x4 | 0x40, 0x20, 0x40};
	uint32_t i;

	for (i = 0; i < 4; i++) {
		rig_raid10(4);
		rig.cand[2].sb.feature_map = bits[i];
		rig_decide();
		rig_refused("reshape");
		rig_force();
		rig_refused("reshape");
	}
}

static void unknown_features_refused(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.feature_map = 0x2000;
	rig_decide();
	rig_refused("m1 uses features 0x2000");
	rig_force();
	rig_refused("0x2000");
}

static void unknown_levels_refused_by_name(void **state)
{
	static const struct {
		int32_t level;
		const char *word;
	} bad[] = {{-4, "level -4"}, {2, "level 2"}, {INT32_MIN, "level -2147483648"}};
	uint32_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		rig_make(bad[i].level, 2, 4);
		rig.cand[1].sb.events -= 3;
		rig_decide();
		rig_refused(bad[i].word);
		assert_non_null(strstr(rig.out.why, "mdadm"));
		rig_verdict(1, ASM_STALE); /* the verdicts are there all the same */
		assert_int_equal(rig.out.degraded, 1);
	}
}

static void raid0_layout_that_matters(void **state)
{
	rig_make(RAID_LEVEL_0, 1, 3); /* layout field without the feature: to be ignored */
	rig.cand[0].sb.data_size = 2048;
	rig_decide();
	rig_refused("layout");
	rig_force();
	rig_refused("layout");
	memset(&rig.opt, 0, sizeof rig.opt);
	rig.opt.raid0_layout = GEO_RAID0_ALTERNATE;
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.geometry.p.layout, GEO_RAID0_ALTERNATE);
}

static void raid0_layout_recorded(void **state)
{
	uint32_t k;

	rig_make(RAID_LEVEL_0, 1, 3);
	for (k = 0; k < 3; k++) {
		rig.cand[k].sb.feature_map = SB_FEATURE_RAID0_LAYOUT;
	}
	rig.cand[0].sb.data_size = 2048;
	rig.opt.raid0_layout = GEO_RAID0_ALTERNATE; /* the record is right, the user is not asked */
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.geometry.p.layout, GEO_RAID0_ORIGINAL);
}

static void raid0_layout_that_does_not_matter(void **state)
{
	rig_make(RAID_LEVEL_0, 0, 2);
	rig.cand[0].sb.data_size = 2048;
	rig_decide();
	rig_starts(0);
}

static void too_many_slots_refused(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.raid_disks = rig.cand[1].sb.raid_disks = 65;
	rig_decide();
	rig_refused("65 slots");
	rig.cand[0].sb.raid_disks = rig.cand[1].sb.raid_disks = 1920;
	rig.cand[0].sb.dev_roles[0] = rig.cand[1].sb.dev_roles[0] = 1919;
	rig_decide();
	rig_refused("1920 slots");
}

static void impossible_geometry_refused(void **state)
{
	rig_make(RAID_LEVEL_10, 0x105, 4); /* five copies on four slots */
	rig_decide();
	rig_refused("m0");
	rig_make(RAID_LEVEL_10, 0x102, 4);
	rig.cand[0].sb.chunksize = rig.cand[1].sb.chunksize = rig.cand[2].sb.chunksize =
		rig.cand[3].sb.chunksize = 0;
	rig_decide();
	assert_int_equal(rig.out.decision, ASM_REFUSE);
	rig_raid1(2);
	rig.cand[0].sb.size = rig.cand[1].sb.size = 0;
	rig_decide();
	assert_int_equal(rig.out.decision, ASM_REFUSE);
}

/* nbd-raidctl shows them, and scripts read them. */
static void verdicts_have_names(void **state)
{
	static const char *const name[] = {
		[ASM_IN_SYNC] = "in-sync",
		[ASM_RECOVERING] = "recovering",
		[ASM_REPLACEMENT] = "replacement",
		[ASM_SPARE] = "spare",
		[ASM_JOURNAL] = "journal",
		[ASM_STALE] = "stale",
		[ASM_FAULTY] = "faulty",
		[ASM_SPLIT] = "split",
		[ASM_STRAY] = "stray",
		[ASM_FOREIGN] = "foreign",
		[ASM_UNREADABLE] = "unreadable",
	};
	uint32_t i;

	for (i = 0; i < sizeof name / sizeof name[0]; i++) {
		assert_string_equal(asm_verdict_name((enum asm_verdict)i), name[i]);
	}
}

/* ---- without superblocks -------------------------------------------------------------------- */

static void build(void **state)
{
	struct geo_params p = {.level = RAID_LEVEL_1, .slots = 2, .component_sectors = 8192};
	char why[RAID_WHY_BYTES];

	rig_raid1(2);
	p.slot[0].data_sectors = p.slot[1].data_sectors = 8192;
	p.slot[0].data_offset_sectors = p.slot[1].data_offset_sectors = 2048;
	assert_int_equal(asm_build(&p, rig.cand, 2, &rig.out, why), 0);
	assert_int_equal(rig.out.decision, ASM_START);
	assert_false(rig.out.metadata);
	assert_int_equal(rig.out.members, 2);
	assert_int_equal(rig.out.member[1].slot, 1);
	assert_int_equal(rig.out.member[1].dev_sectors, RIG_DEV_SECTORS);
	assert_true(rig.out.present[0] && rig.out.present[1]);
	assert_int_equal(rig.out.degraded, 0);
	assert_int_equal(rig.out.resync_offset, SB_IN_SYNC);
	assert_int_equal(rig.out.geometry.array_sectors, 8192);
	assert_int_equal(asm_build(&p, rig.cand, 1, &rig.out, why), -EINVAL);
	rig.cand[1].dev_sectors = 10239;
	assert_int_equal(asm_build(&p, rig.cand, 2, &rig.out, why), -EINVAL);
	assert_non_null(strstr(why, "m1 has 10239 sectors"));
	p.level = RAID_LEVEL_5;
	p.chunk_sectors = 128;
	assert_int_equal(asm_build(&p, rig.cand, 2, &rig.out, why), -EINVAL);
	assert_non_null(strstr(why, "raid5 needs metadata"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features_that_are_only_read),
		cmocka_unit_test(several_reasons_are_all_named),
		cmocka_unit_test(features_of_unused_members_do_not_count),
		cmocka_unit_test(bad_blocks_are_honoured),
		cmocka_unit_test(old_metadata_is_only_read),
		cmocka_unit_test(far_sets_are_only_read),
		cmocka_unit_test(reshape_refused),
		cmocka_unit_test(unknown_features_refused),
		cmocka_unit_test(unknown_levels_refused_by_name),
		cmocka_unit_test(raid0_layout_that_matters),
		cmocka_unit_test(raid0_layout_recorded),
		cmocka_unit_test(raid0_layout_that_does_not_matter),
		cmocka_unit_test(too_many_slots_refused),
		cmocka_unit_test(impossible_geometry_refused),
		cmocka_unit_test(verdicts_have_names),
		cmocka_unit_test(build),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
