/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/tests/asm_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct rig rig;

static const char *const names[RIG_MEMBERS] = {"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"};

/* A healthy array of n slots; dev_number k has slot k. */
void rig_make(int32_t level, uint32_t layout, uint32_t n)
{
	uint32_t k, i;

	memset(rig.cand, 0, sizeof rig.cand);
	memset(&rig.opt, 0, sizeof rig.opt);
	rig.count = n;
	for (k = 0; k < RIG_MEMBERS; k++) {
		struct sb *sb = &rig.cand[k].sb;

		rig.cand[k].name = names[k];
		rig.cand[k].dev_sectors = RIG_DEV_SECTORS;
		sb->version = SB_V1_2;
		memset(sb->set_uuid, 0x55, 16);
		memset(sb->device_uuid, (int)(0xA0 + k), 16);
		sb->ctime_s = 1700000000;
		sb->level = level;
		sb->layout = layout;
		sb->chunksize = level == 1 || level == -1 ? 0 : 128;
		sb->size = level > 0 ? RIG_DATA_SECTORS : 0;
		sb->raid_disks = n;
		sb->data_offset = RIG_DATA_OFFSET;
		sb->data_size = RIG_DATA_SECTORS;
		sb->super_offset = 8;
		sb->dev_number = k;
		sb->events = RIG_EVENTS;
		sb->resync_offset = SB_IN_SYNC;
		sb->max_dev = 128;
		for (i = 0; i < SB_ROLES_MAX; i++) {
			sb->dev_roles[i] = i < n ? (uint16_t)i : SB_ROLE_SPARE;
		}
	}
}

void rig_raid1(uint32_t n)
{
	rig_make(RAID_LEVEL_1, 0, n);
}

/* near=2 over n. */
void rig_raid10(uint32_t n)
{
	rig_make(RAID_LEVEL_10, 0x102, n);
}

void rig_decide(void)
{
	asm_decide(rig.cand, rig.count, &rig.opt, &rig.out);
	assert_null(strchr(rig.out.why, '\n'));
	assert_true(strlen(rig.out.why) < RAID_WHY_BYTES);
	assert_int_equal(rig.out.why[0] != '\0', rig.out.decision != ASM_START);
}

void rig_force(void)
{
	rig.opt.want_readonly = true;
	rig.opt.force = true;
	rig_decide();
}

void rig_verdict(uint32_t i, enum asm_verdict v)
{
	if (rig.out.member[i].verdict != v) {
		fail_msg("m%u is %s, not %s: %s", i, asm_verdict_name(rig.out.member[i].verdict),
			 asm_verdict_name(v), rig.out.member[i].why);
	}
	assert_true(v == ASM_IN_SYNC || rig.out.member[i].why[0]);
}

void rig_starts(uint32_t degraded)
{
	if (rig.out.decision != ASM_START) {
		fail_msg("decision %d: %s", rig.out.decision, rig.out.why);
	}
	assert_int_equal(rig.out.degraded, degraded);
}

void rig_refused(const char *word)
{
	assert_int_equal(rig.out.decision, ASM_REFUSE);
	if (!strstr(rig.out.why, word)) {
		fail_msg("no '%s' in: %s", word, rig.out.why);
	}
}

void rig_read_only(const char *word)
{
	assert_int_equal(rig.out.decision, ASM_START_READONLY);
	if (!strstr(rig.out.why, word) || !strstr(rig.out.why, "--readonly")) {
		fail_msg("no '%s' in: %s", word, rig.out.why);
	}
}

/* "a no longer knows b", as after a failure (0xFFFE) or a removal (0xFFFF). */
void rig_drop(uint32_t a, uint32_t b, uint16_t role)
{
	rig.cand[a].sb.dev_roles[b] = role;
}

void rig_leave_out(uint32_t i)
{
	memmove(&rig.cand[i], &rig.cand[i + 1], (rig.count - i - 1) * sizeof rig.cand[0]);
	rig.count--;
}

/* The members in another order must give the same array. */
void rig_shuffle(uint32_t seed)
{
	uint32_t i;

	for (i = rig.count; i > 1; i--) {
		struct asm_candidate tmp = rig.cand[i - 1];
		uint32_t k = seed % i;

		seed /= i;
		rig.cand[i - 1] = rig.cand[k];
		rig.cand[k] = tmp;
	}
}
