/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that are being rebuilt, and replacements (md-format §7, §19.2). */
#include "raid/tests/asm_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The freshest was just given a slot; the others' tables are one update older. */
static void recovering_freshest_is_not_dropped_by_older_tables(void **state)
{
	rig_raid1(2);
	rig.cand[1].sb.events++;
	rig.cand[1].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig_drop(0, 1, SB_ROLE_SPARE);
	rig_decide();
	rig_starts(1);
	assert_int_equal(rig.out.freshest, 1);
	rig_verdict(0, ASM_IN_SYNC);
	rig_verdict(1, ASM_RECOVERING);
}

/* §19.2: in the others' tables it looks active. */
static void recovering_member_is_not_in_sync(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[0].sb.recovery_offset = 4096;
	rig_decide();
	rig_starts(1);
	rig_verdict(0, ASM_RECOVERING);
	assert_int_equal(rig.out.member[0].slot, 0);
	assert_int_equal(rig.out.member[0].recovery_offset, 4096);
	assert_true(rig.out.member[1].recovery_offset == SB_IN_SYNC);
	assert_false(rig.out.present[0]);
	/* Writes must go to it: the map knows its data. */
	assert_int_equal(rig.out.geometry.p.slot[0].data_offset_sectors, RIG_DATA_OFFSET);
}

/* Beyond the component there is nothing to recover; beyond the data the mark means nothing. */
static void recovery_offset_ends_with_the_component(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[0].sb.data_size = RIG_DATA_SECTORS + 64;
	rig.cand[0].sb.recovery_offset = RIG_DATA_SECTORS + 8;
	rig_decide();
	rig_verdict(0, ASM_RECOVERING);
	assert_int_equal(rig.out.member[0].recovery_offset, RIG_DATA_SECTORS);
	rig.cand[0].sb.recovery_offset = UINT64_MAX;
	rig_decide();
	assert_int_equal(rig.out.member[0].recovery_offset, 0);
}

static void recovering_alone_is_too_little(void **state)
{
	rig_raid1(2);
	rig.cand[0].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[0].sb.recovery_offset = 4096;
	rig.count = 1;
	rig_decide();
	rig_refused("too few members");
	rig_force();
	rig_starts(1);
	assert_true(rig.out.present[0]);
	assert_non_null(strstr(rig.out.note, "byte 2097152"));
	rig.opt = (struct asm_options){.force_write = true}; /* half of it is not the array's */
	rig_decide();
	rig_refused("too few members");
}

static void replacing(uint32_t features)
{
	uint32_t k;

	rig_raid10(4);
	for (k = 0; k < 5; k++) {
		rig.cand[k].sb.dev_roles[4] = 2;
	}
	rig.count = 5;
	rig.cand[4].sb.feature_map = SB_FEATURE_REPLACEMENT | features;
	rig.cand[4].sb.recovery_offset = 4096;
}

static void replacement_beside_its_original(void **state)
{
	replacing(SB_FEATURE_RECOVERY_OFFSET);
	rig_decide();
	rig_starts(0);
	rig_verdict(4, ASM_REPLACEMENT);
	assert_int_equal(rig.out.member[4].slot, 2);
	assert_int_equal(rig.out.member[4].recovery_offset, 4096);
	rig_verdict(2, ASM_IN_SYNC);
}

static void complete_replacement_waits_for_its_original_to_go(void **state)
{
	replacing(0);
	rig_decide();
	rig_verdict(4, ASM_REPLACEMENT);
	assert_true(rig.out.member[4].recovery_offset == SB_IN_SYNC);
	rig_verdict(2, ASM_IN_SYNC);
	rig_leave_out(2);
	rig_decide();
	rig_verdict(3, ASM_IN_SYNC);
	assert_int_equal(rig.out.degraded, 0);
}

/* Nobody is left that it could copy: it is rebuilt like any member of its slot. */
static void half_a_replacement_without_original_is_rebuilt(void **state)
{
	replacing(SB_FEATURE_RECOVERY_OFFSET);
	rig_leave_out(2);
	rig_decide();
	rig_starts(1);
	rig_verdict(3, ASM_RECOVERING);
	assert_int_equal(rig.out.member[3].slot, 2);
	assert_int_equal(rig.out.member[3].recovery_offset, 4096);
	assert_false(rig.out.present[2]);
}

/* Of two that are not complete the original goes on; a complete replacement beats it. */
static void replacement_of_a_recovering_member(void **state)
{
	replacing(SB_FEATURE_RECOVERY_OFFSET);
	rig.cand[2].sb.feature_map = SB_FEATURE_RECOVERY_OFFSET;
	rig.cand[2].sb.recovery_offset = 512;
	rig_decide();
	rig_starts(1);
	rig_verdict(2, ASM_RECOVERING);
	rig_verdict(4, ASM_STALE);

	rig.cand[4].sb.feature_map = SB_FEATURE_REPLACEMENT;
	rig_decide();
	rig_starts(0);
	rig_verdict(4, ASM_IN_SYNC);
	rig_verdict(2, ASM_STALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recovering_freshest_is_not_dropped_by_older_tables),
		cmocka_unit_test(recovering_member_is_not_in_sync),
		cmocka_unit_test(recovery_offset_ends_with_the_component),
		cmocka_unit_test(recovering_alone_is_too_little),
		cmocka_unit_test(replacement_beside_its_original),
		cmocka_unit_test(complete_replacement_waits_for_its_original_to_go),
		cmocka_unit_test(half_a_replacement_without_original_is_rebuilt),
		cmocka_unit_test(replacement_of_a_recovering_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
