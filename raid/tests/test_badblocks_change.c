/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of the bad-block log: merging, splitting, a full log, units; at random against one flag
 * per unit; and mdadm reads what is written. */
#include "raid/badblocks_fmt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "raid/base/bytes.h"
#include "raid/tests/sb_vector.h"

static struct bb_list list;
static struct bb_shape shape;

static void begin(uint8_t shift, uint32_t entries)
{
	list.count = 0;
	shape = (struct bb_shape){
		.shift = shift, .entries = entries, .dev_sectors = SBV_DEV_SECTORS};
}

static int add(uint64_t sector, uint64_t sectors)
{
	return bb_add(&list, &shape, 512 * sector, 512 * sectors);
}

static int take(uint64_t sector, uint64_t sectors)
{
	return bb_remove(&list, &shape, 512 * sector, 512 * sectors);
}

/* Pairs of start and length in sectors, as many as the list has. */
static void assert_list(const uint64_t *pairs, uint32_t n)
{
	assert_int_equal(list.count, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(list.range[i].maddr, 512 * pairs[2 * i]);
		assert_int_equal(list.range[i].len, 512 * pairs[2 * i + 1]);
	}
}

#define LIST(...)                                                                                  \
	assert_list((const uint64_t[]){__VA_ARGS__},                                               \
		    sizeof(uint64_t[]){__VA_ARGS__} / (2 * sizeof(uint64_t)))

static void neighbours_merge(void **state)
{
	begin(0, 512);
	assert_int_equal(add(100, 8), BB_GREW);
	assert_int_equal(add(116, 8), BB_GREW);
	LIST(100, 8, 116, 8);
	assert_int_equal(add(100, 8), BB_SAME);
	assert_int_equal(add(103, 2), BB_SAME);
	assert_int_equal(add(108, 8), BB_GREW);
	LIST(100, 24);
	assert_int_equal(add(99, 1), BB_GREW);
	assert_int_equal(add(124, 1), BB_GREW);
	LIST(99, 26);
	assert_int_equal(add(0, 1), BB_GREW);
	assert_int_equal(add(SBV_DEV_SECTORS - 1, 1), BB_GREW);
	LIST(0, 1, 99, 26, SBV_DEV_SECTORS - 1, 1);
	assert_int_equal(add(0, SBV_DEV_SECTORS), BB_GREW);
	assert_int_equal(list.count, SBV_DEV_SECTORS / 512);
}

static void entries_have_512_units(void **state)
{
	begin(0, 512);
	assert_int_equal(add(1000, 513), BB_GREW);
	LIST(1000, 512, 1512, 1);
	assert_int_equal(add(1000, 513), BB_SAME); /* over two entries */
	assert_int_equal(add(1513, 511), BB_GREW);
	LIST(1000, 512, 1512, 512);
	/* One sector after the other, downwards: entries stay as few as they can be. */
	for (uint64_t at = 999; at >= 900; at--) {
		assert_int_equal(add(at, 1), BB_GREW);
		assert_int_equal(list.count, 3);
	}
	LIST(900, 512, 1412, 512, 1924, 100);
}

static void a_good_write_takes_away(void **state)
{
	begin(0, 512);
	assert_int_equal(add(100, 30), BB_GREW);
	assert_int_equal(take(50, 50), BB_SAME);
	assert_int_equal(take(130, 1), BB_SAME);
	assert_int_equal(take(110, 5), BB_SHRANK);
	LIST(100, 10, 115, 15);
	assert_int_equal(take(110, 5), BB_SAME);
	assert_int_equal(take(95, 6), BB_SHRANK);
	LIST(101, 9, 115, 15);
	assert_int_equal(take(129, 10), BB_SHRANK);
	LIST(101, 9, 115, 14);
	assert_int_equal(take(105, 15), BB_SHRANK);
	LIST(101, 4, 120, 9);
	assert_int_equal(take(0, SBV_DEV_SECTORS), BB_SHRANK);
	assert_int_equal(list.count, 0);
	assert_int_equal(take(0, SBV_DEV_SECTORS), BB_SAME);
}

static void a_full_log_stays_as_it_is(void **state)
{
	begin(0, 4);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(add(100 * i, 10), BB_GREW);
	}
	assert_int_equal(add(50, 1), -ENOSPC);
	assert_int_equal(take(105, 1), -ENOSPC); /* would cut one in two */
	LIST(0, 10, 100, 10, 200, 10, 300, 10);
	assert_int_equal(add(110, 10), BB_GREW); /* room in an entry that is there */
	assert_int_equal(take(300, 5), BB_SHRANK);
	LIST(0, 10, 100, 20, 200, 10, 305, 5);
	assert_int_equal(add(0, 513), BB_GREW);
	LIST(0, 512, 512, 1);
	assert_int_equal(add(1000, 1025), -ENOSPC);
	LIST(0, 512, 512, 1);
}

/* Listed are whole units: wider than what is bad, never narrower. */
static void units(void **state)
{
	begin(3, 512);
	assert_int_equal(add(17, 1), BB_GREW);
	LIST(16, 8);
	assert_int_equal(bb_add(&list, &shape, 512 * 24 + 100, 1), BB_GREW);
	LIST(16, 16);
	assert_int_equal(take(17, 14), BB_SAME);
	assert_int_equal(take(17, 15), BB_SHRANK);
	LIST(16, 8);
	assert_int_equal(bb_remove(&list, &shape, 512 * 16, 8 * 512 - 1), BB_SAME);
	assert_int_equal(take(15, 10), BB_SHRANK);
	assert_int_equal(list.count, 0);
	assert_int_equal(add(0, 513 * 8), BB_GREW);
	LIST(0, 512 * 8, 512 * 8, 8);
	/* The last sectors are no whole unit: they cannot be listed. */
	shape.dev_sectors = SBV_DEV_SECTORS - 1;
	assert_int_equal(add(SBV_DEV_SECTORS - 8, 1), -ENOSPC);
	assert_int_equal(add(SBV_DEV_SECTORS - 9, 1), BB_GREW);
}

static void what_a_member_can_hold(void **state)
{
	struct sb sb = sbv_vector(0);

	assert_true(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	assert_int_equal(shape.entries, 512);
	assert_int_equal(shape.shift, 0);
	sb.bblog_shift = 3; /* never in force: begins anew */
	assert_true(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	assert_int_equal(shape.shift, 0);
	sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	assert_true(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	assert_int_equal(shape.shift, 3);
	sb.bblog_shift = 55;
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb = sbv_vector(0);
	sb.bblog_size = 1;
	assert_true(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	assert_int_equal(shape.entries, 64);
	sb.bblog_size = 9;
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb.bblog_size = 0;
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb.bblog_size = 8;
	sb.bblog_offset = 0;
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb.bblog_offset = 4; /* on the superblock */
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb.bblog_offset = 2040 - 7; /* into the data */
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb.bblog_offset = 2040 - 8;
	assert_true(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
	sb.bblog_offset = INT32_MIN;
	assert_false(bb_shape_of(&sb, SBV_DEV_SECTORS, &shape));
}

/* ---- at random ----------------------------------------------------------------------------- */

enum { UNITS = 3000 };

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void assert_model(const bool *bad)
{
	uint64_t unit = (uint64_t)512 << shape.shift, at = 0;
	uint8_t log[BB_LOG_BYTES];
	static struct bb_list back;
	char why[RAID_WHY_BYTES];

	for (uint32_t i = 0; i < list.count; i++) {
		const struct bb_range *r = &list.range[i];

		assert_true(r->len && r->len <= 512 * unit && r->maddr >= at * unit);
		for (; at < r->maddr / unit; at++) {
			assert_false(bad[at]);
		}
		for (; at < (r->maddr + r->len) / unit; at++) {
			assert_true(bad[at]);
		}
	}
	for (; at < UNITS; at++) {
		assert_false(bad[at]);
	}
	bb_encode(&list, &shape, log);
	assert_int_equal(
		bb_decode(log, 8 * shape.entries, shape.shift, shape.dev_sectors, &back, why), 0);
	assert_int_equal(back.count, list.count);
	assert_memory_equal(back.range, list.range, list.count * sizeof back.range[0]);
}

static void step(bool *bad)
{
	static struct bb_list before;
	uint64_t unit = (uint64_t)512 << shape.shift, maddr = draw(UNITS * unit);
	uint64_t len = draw(10) ? 1 + draw(40 * unit) : 1 + draw(1500 * unit);
	uint64_t from, to;
	bool change = false, adds = draw(2);
	int res;

	if (draw(2)) { /* whole sectors, as the engine has them */
		maddr = round_down_u64(maddr, 512);
		len = round_up_u64(len, 512);
	}
	len = min_u64(len, UNITS * unit - maddr);
	from = adds ? maddr / unit : (maddr + unit - 1) / unit;
	to = adds ? (maddr + len + unit - 1) / unit : (maddr + len) / unit;
	before = list;
	res = (adds ? bb_add : bb_remove)(&list, &shape, maddr, len);
	if (res == -ENOSPC) {
		assert_memory_equal(&before, &list, sizeof list);
		return;
	}
	for (uint64_t u = from; u < to; u++) {
		change |= bad[u] != adds;
		bad[u] = adds;
	}
	assert_int_equal(res, !change ? BB_SAME : adds ? BB_GREW : BB_SHRANK);
}

static void agrees_with_a_flag_per_unit(void **state)
{
	static bool bad[UNITS];

	for (uint64_t run = 1; run <= 60; run++) {
		static const uint32_t entries[] = {512, 64, 5, 1};

		seed = run * 0x9E3779B97F4A7C15u;
		memset(bad, 0, sizeof bad);
		begin((uint8_t)draw(4), entries[run % 4]);
		shape.dev_sectors = (uint64_t)UNITS << shape.shift;
		for (uint32_t i = 0; i < 300; i++) {
			step(bad);
			assert_model(bad);
		}
	}
}

/* ---- mdadm --------------------------------------------------------------------------------- */

/* mdadm --examine-badblocks prints "start for length sectors" a line. */
static void mdadm_reads_it(void **state)
{
	char path[] = "/tmp/test-badblocks.XXXXXX", command[128], text[4096];
	struct sb sb = sbv_vector(0);
	uint8_t buf[SB_BYTES_MAX], log[BB_LOG_BYTES];
	int fd;
	FILE *out;

	if (access("/sbin/mdadm", X_OK)) {
		print_message("skipped: mdadm is not installed\n");
		skip();
	}
	begin(0, 512);
	assert_int_equal(add(5000, 600), BB_GREW);
	assert_int_equal(add(3000, 1), BB_GREW);
	sb.feature_map |= SB_FEATURE_BAD_BLOCKS;
	sb_encode(&sb, 512, buf);
	bb_encode(&list, &shape, log);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)SBV_DEV_SECTORS * 512), 0);
	assert_int_equal(pwrite(fd, buf, 512, 4096), 512);
	assert_int_equal(pwrite(fd, log, sizeof log, 24 * 512), sizeof log);
	assert_int_equal(fsync(fd), 0);
	close(fd);
	snprintf(command, sizeof command, "/sbin/mdadm --examine-badblocks %s 2>&1", path);
	out = popen(command, "r");
	assert_non_null(out);
	text[fread(text, 1, sizeof text - 1, out)] = 0;
	assert_int_equal(pclose(out), 0);
	unlink(path);
	if (!strstr(text, "3000 for 1 sectors") || !strstr(text, "5000 for 512 sectors") ||
	    !strstr(text, "5512 for 88 sectors")) {
		fail_msg("mdadm says:\n%s", text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_merge),
		cmocka_unit_test(entries_have_512_units),
		cmocka_unit_test(a_good_write_takes_away),
		cmocka_unit_test(a_full_log_stays_as_it_is),
		cmocka_unit_test(units),
		cmocka_unit_test(what_a_member_can_hold),
		cmocka_unit_test(agrees_with_a_flag_per_unit),
		cmocka_unit_test(mdadm_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
