/* SPDX-License-Identifier: BSD-3-Clause */
/* What the bitmap is good for, and which members it brings back (md-format §7, §11.2). */
#include "raid/tests/asm_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/base/bytes.h"

enum { CHUNK_BYTES = 65536, BITS = RIG_DATA_SECTORS * 512 / CHUNK_BYTES, CLEARED = 10 };

static void put_header(uint32_t i, uint64_t sync_sectors)
{
	struct bm_header h = {
		.version = BM_V4,
		.events = rig.cand[i].sb.events,
		.events_cleared = CLEARED,
		.sync_size_sectors = sync_sectors,
		.chunk_bytes = CHUNK_BYTES,
		.daemon_sleep_s = 5,
	};

	memcpy(h.uuid, rig.cand[i].sb.set_uuid, 16);
	bm_encode(&h, rig.cand[i].bitmap.header);
}

static void with_bitmap(uint64_t sync_sectors)
{
	for (uint32_t i = 0; i < RIG_MEMBERS; i++) {
		rig.cand[i].sb.feature_map |= SB_FEATURE_BITMAP;
		rig.cand[i].sb.bitmap_offset = 8;
		put_header(i, sync_sectors);
	}
}

static void mirrors(void)
{
	rig_raid1(3);
	with_bitmap(RIG_DATA_SECTORS);
}

static void is_current(uint32_t member)
{
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_CURRENT);
	assert_int_equal(rig.out.bitmap.member, member);
	assert_int_equal(rig.out.bitmap.at_sector, 16);
	assert_int_equal(rig.out.bitmap.offset_sectors, 8);
	assert_int_equal(rig.out.bitmap.header.chunk_bytes, CHUNK_BYTES);
}

static void noted(const char *word)
{
	if (!strstr(rig.out.note, word)) {
		fail_msg("no '%s' in: %s", word, rig.out.note);
	}
}

/* ---- whose copy ----------------------------------------------------------------------------- */

static void none(void **state)
{
	rig_raid1(2);
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_NONE);
}

static void first_in_sync_copy(void **state)
{
	mirrors();
	rig_decide();
	rig_starts(0);
	is_current(0);
	assert_int_equal(rig.out.bitmap.bits, BITS);
	rig.cand[0].sb.feature_map |= SB_FEATURE_RECOVERY_OFFSET;
	rig_decide();
	rig_starts(1);
	is_current(1);
}

/* The address space is the array's there. */
static void raid10_covers_the_array(void **state)
{
	rig_raid10(4);
	with_bitmap(2 * RIG_DATA_SECTORS);
	rig_decide();
	rig_starts(0);
	is_current(0);
	assert_int_equal(rig.out.bitmap.bits, 2 * BITS);
	with_bitmap(RIG_DATA_SECTORS);
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_STALE);
}

/* Nobody writes such arrays; nothing is to be divided by what they do not have. */
static void none_without_redundancy(void **state)
{
	rig_make(0, 0, 3);
	for (uint32_t i = 0; i < 3; i++) {
		rig.cand[i].sb.feature_map |= SB_FEATURE_BITMAP;
		rig.cand[i].sb.bitmap_offset = 8;
	}
	rig_decide();
	rig_read_only("bitmap");
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_KEPT);
}

/* A power cut came between: the copy of one member is older than the others. */
static void copy_with_the_events_of_the_array(void **state)
{
	mirrors();
	for (uint32_t i = 1; i < 3; i++) {
		rig.cand[i].sb.events++;
		put_header(i, RIG_DATA_SECTORS);
	}
	rig_decide();
	rig_starts(0);
	is_current(1);
}

/* The header goes out before the superblocks. */
static void copy_ahead_of_its_superblock(void **state)
{
	mirrors();
	rig.cand[0].sb.events++;
	put_header(0, RIG_DATA_SECTORS);
	rig.cand[0].sb.events--;
	rig_decide();
	is_current(0);
}

static void unreadable_copies_are_passed_over(void **state)
{
	mirrors();
	rig.cand[0].bitmap.err = -EIO;
	rig.cand[1].bitmap.header[0] ^= 1;
	rig_decide();
	rig_starts(0);
	is_current(2);
}

/* One that has left it out, as after a crash while the bitmap was added. */
static void the_freshest_says_whether_there_is_one(void **state)
{
	mirrors();
	rig.cand[0].sb.feature_map = 0;
	rig.cand[0].sb.events--;
	rig_decide();
	rig_starts(0);
	is_current(1);
	mirrors();
	rig.cand[0].sb.feature_map = 0;
	rig.cand[0].sb.events++; /* and here it was removed */
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_NONE);
}

/* ---- when its zeroes cannot be believed ------------------------------------------------------ */

/* Somebody updated the superblocks who did not keep it. */
static void older_than_the_superblock_is_stale(void **state)
{
	mirrors();
	for (uint32_t i = 0; i < 3; i++) {
		rig.cand[i].sb.events += 4;
	}
	rig_decide();
	rig_starts(0);
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_STALE);
	assert_int_equal(rig.out.bitmap.header.chunk_bytes, CHUNK_BYTES);
	assert_int_equal(rig.out.bitmap.bits, BITS);
}

static void declared_stale(void **state)
{
	static const uint32_t bits[] = {BM_STATE_STALE, BM_STATE_WRITE_ERROR};

	for (uint32_t k = 0; k < 2; k++) {
		mirrors();
		for (uint32_t i = 0; i < 3; i++) {
			put_le32(rig.cand[i].bitmap.header + 48, bits[k]);
		}
		rig_decide();
		rig_starts(0);
		assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_STALE);
	}
}

/* What no copy makes sense of is written anew, as large as create would make it. */
static void damaged_everywhere_is_made_anew(void **state)
{
	mirrors();
	for (uint32_t i = 0; i < 3; i++) {
		memset(rig.cand[i].bitmap.header, 0, BM_HEADER_BYTES);
	}
	rig_decide();
	rig_starts(0);
	noted("m0: bitmap: there is none at sector 16");
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_STALE);
	assert_int_equal(rig.out.bitmap.header.chunk_bytes, BM_CHUNK_DEFAULT_BYTES);
	assert_int_equal(rig.out.bitmap.bits, 1);
	assert_memory_equal(rig.out.bitmap.header.uuid, rig.cand[0].sb.set_uuid, 16);
}

static void kinds_that_are_only_kept(void **state)
{
	static const struct {
		uint8_t version;
		const char *word;
	} kinds[] = {{5, "clustered"}, {6, "lockless bitmap (version 6)"}, {7, "bitmap"}};

	for (uint32_t k = 0; k < 3; k++) {
		mirrors();
		for (uint32_t i = 0; i < 3; i++) {
			rig.cand[i].bitmap.header[4] = kinds[k].version;
			put_le32(rig.cand[i].bitmap.header + 68, 1); /* nodes */
		}
		rig_decide();
		rig_read_only(kinds[k].word);
		assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_KEPT);
		rig.opt.want_readonly = true;
		rig_decide();
		assert_int_equal(rig.out.decision, ASM_START_READONLY);
	}
}

/* It will be written to whoever is to hold a slot. */
static void no_room_on_a_spare(void **state)
{
	mirrors();
	for (uint32_t i = 0; i < 3; i++) {
		rig.cand[i].sb.dev_roles[2] = SB_ROLE_SPARE;
		rig.cand[i].sb.raid_disks = 2;
	}
	rig_decide();
	rig_starts(0);
	rig_verdict(2, ASM_SPARE);
	rig.cand[2].sb.feature_map = 0;
	rig.cand[2].sb.data_offset = 16;
	rig_decide();
	rig_starts(0);
	rig_verdict(2, ASM_STRAY);
	assert_non_null(strstr(rig.out.member[2].why, "bitmap"));
}

/* ---- members that come back ------------------------------------------------------------------ */

static void away(uint64_t events)
{
	mirrors();
	rig.cand[2].sb.events = events;
	rig_drop(0, 2, SB_ROLE_SPARE);
	rig_drop(1, 2, SB_ROLE_SPARE);
	rig_decide();
	rig_starts(1);
}

/* events_cleared tells since when bits are kept. */
static void member_that_was_away(void **state)
{
	away(CLEARED);
	rig_verdict(2, ASM_STALE);
	assert_true(rig.out.member[2].readd_bitmap);
	assert_non_null(strstr(rig.out.member[2].why, "re-add"));
	away(CLEARED - 1);
	rig_verdict(2, ASM_STALE);
	assert_false(rig.out.member[2].readd_bitmap);
	away(RIG_EVENTS - 1);
	rig_verdict(2, ASM_FAULTY);
	assert_true(rig.out.member[2].readd_bitmap);
}

/* Each of these has more to catch up on than what the bitmap marks. */
static void members_that_the_bitmap_cannot_bring_back(void **state)
{
	uint32_t k;

	for (k = 0; k < 5; k++) {
		mirrors();
		rig.cand[2].sb.events = 15;
		switch (k) {
		case 0: /* the bitmap is not believed */
			put_le32(rig.cand[0].bitmap.header + 48, BM_STATE_STALE);
			put_le32(rig.cand[1].bitmap.header + 48, BM_STATE_STALE);
			break;
		case 1: /* it was not complete when it left */
			rig.cand[2].sb.feature_map |= SB_FEATURE_RECOVERY_OFFSET;
			break;
		case 2: /* the array was larger or smaller then */
			rig.cand[2].sb.size -= 128;
			break;
		case 3: /* it ran on alone */
			rig.cand[2].sb.dev_roles[0] = SB_ROLE_FAULTY;
			break;
		case 4: /* another has its slot */
			rig.count = 4;
			for (uint32_t i = 0; i < 2; i++) {
				rig.cand[i].sb.dev_roles[2] = SB_ROLE_SPARE;
				rig.cand[i].sb.dev_roles[3] = 2;
			}
			rig.cand[3].sb.dev_roles[2] = SB_ROLE_SPARE;
			rig.cand[3].sb.dev_roles[3] = 2;
			break;
		default:
			break;
		}
		rig_decide();
		rig_starts(k == 4 ? 0 : 1);
		assert_false(rig.out.member[2].readd_bitmap);
		assert_int_not_equal(rig.out.member[2].verdict, ASM_IN_SYNC);
	}
}

static void recovery_by_the_bitmap(void **state)
{
	mirrors();
	rig.cand[2].sb.feature_map |= SB_FEATURE_RECOVERY_OFFSET | SB_FEATURE_RECOVERY_BITMAP;
	rig.cand[2].sb.recovery_offset = 1024;
	rig_decide();
	rig_starts(1);
	rig_verdict(2, ASM_RECOVERING);
	assert_true(rig.out.member[2].recovery_bitmap);
	assert_int_equal(rig.out.member[2].recovery_offset, 1024);
	/* Without its guide all of the rest is copied. */
	for (uint32_t i = 0; i < 2; i++) {
		put_le32(rig.cand[i].bitmap.header + 48, BM_STATE_STALE);
	}
	rig_decide();
	rig_starts(1);
	assert_false(rig.out.member[2].recovery_bitmap);
	assert_int_equal(rig.out.member[2].recovery_offset, 1024);
}

/* What a forced member missed is marked only as far back as bits were kept. */
static void forced_member_and_the_bitmap(void **state)
{
	rig_make(RAID_LEVEL_5, 2, 3);
	with_bitmap(RIG_DATA_SECTORS);
	rig_leave_out(2);
	rig.cand[1].sb.events = CLEARED;
	rig.opt.force_write = true;
	rig_decide();
	rig_starts(1);
	is_current(0);
	rig.cand[1].sb.events = CLEARED - 1;
	rig_decide();
	rig_starts(1);
	assert_int_equal(rig.out.bitmap.state, ASM_BITMAP_STALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none),
		cmocka_unit_test(first_in_sync_copy),
		cmocka_unit_test(raid10_covers_the_array),
		cmocka_unit_test(none_without_redundancy),
		cmocka_unit_test(copy_with_the_events_of_the_array),
		cmocka_unit_test(copy_ahead_of_its_superblock),
		cmocka_unit_test(unreadable_copies_are_passed_over),
		cmocka_unit_test(the_freshest_says_whether_there_is_one),
		cmocka_unit_test(older_than_the_superblock_is_stale),
		cmocka_unit_test(declared_stale),
		cmocka_unit_test(damaged_everywhere_is_made_anew),
		cmocka_unit_test(kinds_that_are_only_kept),
		cmocka_unit_test(no_room_on_a_spare),
		cmocka_unit_test(member_that_was_away),
		cmocka_unit_test(members_that_the_bitmap_cannot_bring_back),
		cmocka_unit_test(recovery_by_the_bitmap),
		cmocka_unit_test(forced_member_and_the_bitmap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
