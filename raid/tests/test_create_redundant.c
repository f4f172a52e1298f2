/* SPDX-License-Identifier: BSD-3-Clause */
/* New arrays with a bitmap, with spares, and how their members come to agree: against what
 * mdadm 4.2 makes, and read back by our own assembly and by mdadm. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "raid/assemble.h"
#include "raid/geometry.h"
#include "raid/tests/create_rig.h"
#include "raid/tests/mdadm_create_bitmap.h"

/* ---- the bitmap ----------------------------------------------------------------------------- */

static void check_header(const struct crig_row *r)
{
	const struct bm_header *h = &crig_plan_out.bitmap;

	assert_int_equal(h->version, BM_V4);
	assert_memory_equal(h->uuid, r->p.set_uuid, 16);
	assert_int_equal(h->events, 0);
	assert_int_equal(h->events_cleared, 0);
	assert_int_equal(h->sync_size_sectors, r->bitmap_sync_sectors);
	assert_int_equal(h->state, 0);
	assert_int_equal(h->chunk_bytes, r->bitmap_chunk_bytes);
	assert_int_equal(h->daemon_sleep_s, 5);
	assert_int_equal(h->write_behind, 0);
	assert_int_equal(h->reserved_sectors, 0);
	assert_true(crig_plan_out.bitmap_ones);
	assert_true(crig_plan_out.bitmap_sectors * 512ull >=
		    bm_area_bytes(bm_bits(h->sync_size_sectors, h->chunk_bytes)));
}

static void bitmaps_of_mdadm(void **state)
{
	for (size_t i = 0; i < sizeof mdadm_bitmap_arrays / sizeof *mdadm_bitmap_arrays; i++) {
		struct crig_row r;
		char why[RAID_WHY_BYTES];

		crig_read_row(mdadm_bitmap_arrays[i], &r);
		if (create_plan(&r.p, &crig_plan_out, why)) {
			fail_msg("%s: refused: %s", mdadm_bitmap_arrays[i], why);
		}
		if (crig_plan_out.bitmap.chunk_bytes != r.bitmap_chunk_bytes ||
		    crig_plan_out.sb[0].bblog_offset != r.bblog_offset) {
			print_message("%s\n", mdadm_bitmap_arrays[i]);
		}
		assert_int_equal(crig_plan_out.array_sectors, r.array);
		assert_int_equal(crig_plan_out.component_sectors, r.component);
		check_header(&r);
		for (uint32_t k = 0; k < r.p.slots; k++) {
			if (!r.p.dev[k].missing) {
				crig_check_sb(&r, k);
			}
		}
	}
}

/* Our own decoders take back what was planned, and it is where nothing else is. */
static void bitmaps_read_back(void **state)
{
	for (size_t i = 0; i < sizeof mdadm_bitmap_arrays / sizeof *mdadm_bitmap_arrays; i++) {
		struct crig_row r;
		struct bm_expect expect;
		struct bm_header back;
		uint8_t header[BM_HEADER_BYTES];
		char why[RAID_WHY_BYTES];

		crig_read_row(mdadm_bitmap_arrays[i], &r);
		crig_plan(&r.p);
		create_bitmap_bytes(&crig_plan_out, 0, header, sizeof header);
		for (uint32_t k = 0; k < r.p.slots; k++) {
			if (r.p.dev[k].missing) {
				continue;
			}
			bm_expect_of(&crig_plan_out.sb[k], r.p.dev[k].dev_sectors,
				     crig_plan_out.array_sectors, &expect);
			assert_true(expect.room_sectors >= crig_plan_out.bitmap_sectors);
			if (bm_decode(header, sizeof header, &expect, &back, why)) {
				fail_msg("%s: %s", mdadm_bitmap_arrays[i], why);
			}
		}
	}
}

static void bitmap_bytes(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_1, 2, 100 * MIB);
	uint8_t whole[4096], piece[100];

	p.bitmap = true;
	p.bitmap_chunk_bytes = 65536;
	crig_plan(&p);
	assert_int_equal(crig_plan_out.bitmap_sectors, 8);
	create_bitmap_bytes(&crig_plan_out, 0, whole, sizeof whole);
	assert_int_equal(whole[255], 0);
	assert_int_equal(whole[256], 0xff);
	assert_int_equal(whole[4095], 0xff);
	create_bitmap_bytes(&crig_plan_out, 200, piece, sizeof piece);
	assert_memory_equal(piece, whole + 200, sizeof piece);
	p.zeroed = true; /* all equal: nothing to resync after the first crash */
	crig_plan(&p);
	create_bitmap_bytes(&crig_plan_out, 0, whole, sizeof whole);
	assert_int_equal(whole[0], 'b');
	for (size_t i = BM_HEADER_BYTES; i < sizeof whole; i++) {
		assert_int_equal(whole[i], 0);
	}
}

static void bitmap_refusals(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_0, 2, 100 * MIB);

	p.bitmap = true;
	crig_refused(-EINVAL, &p, "bitmap");
	p.level = RAID_LEVEL_LINEAR;
	crig_refused(-EINVAL, &p, "bitmap");
	p = crig_params(RAID_LEVEL_5, 3, 100 * MIB);
	p.bitmap = true;
	p.bitmap_chunk_bytes = 5000;
	crig_refused(-EINVAL, &p, "5000");
	p = crig_params(RAID_LEVEL_1, 2, 100 * MIB);
	p.bitmap = true;
	p.data_offset_sectors = 16; /* superblock, then at once the data */
	crig_refused(-ENOSPC, &p, "no room");
}

/* ---- how the members come to agree ---------------------------------------------------------- */

struct agree {
	enum raid_level level;
	uint32_t slots, missing; /* bits */
	bool clean, zeroed;
	enum create_sync sync;
	uint32_t build_slot;
};

static const struct agree agrees[] = {
	{RAID_LEVEL_0, 3, 0, false, false, CREATE_IN_SYNC, 0},
	{RAID_LEVEL_1, 2, 0, false, false, CREATE_RESYNC, 0},
	{RAID_LEVEL_1, 2, 0, true, false, CREATE_IN_SYNC, 0},
	{RAID_LEVEL_1, 2, 0, false, true, CREATE_IN_SYNC, 0},
	{RAID_LEVEL_10, 4, 0, false, false, CREATE_RESYNC, 0},
	{RAID_LEVEL_4, 3, 0, false, false, CREATE_BUILD, 2},
	{RAID_LEVEL_5, 2, 0, false, false, CREATE_BUILD, 1},
	{RAID_LEVEL_5, 4, 0, false, false, CREATE_BUILD, 3},
	{RAID_LEVEL_5, 4, 0, true, false, CREATE_IN_SYNC, 0},
	{RAID_LEVEL_5, 4, 0, false, true, CREATE_IN_SYNC, 0},
	{RAID_LEVEL_5, 4, 1 << 1, false, false, CREATE_IN_SYNC, 0}, /* nothing to check against */
	{RAID_LEVEL_6, 4, 0, false, false, CREATE_RESYNC, 0},
	{RAID_LEVEL_6, 4, 0, true, false, CREATE_IN_SYNC, 0},
	{RAID_LEVEL_6, 4, 1 << 1, false, false, CREATE_BUILD, 3},
	{RAID_LEVEL_6, 4, 1 << 3, false, false, CREATE_BUILD, 2},
	{RAID_LEVEL_6, 5, 1 << 0 | 1 << 2, false, false, CREATE_IN_SYNC, 0},
};

static struct asm_candidate cand[RAID_MEMBERS_MAX];
static struct assembly out;

/* What our assembly makes of the planned array. */
static void assemble(const struct create_params *p)
{
	struct asm_options opt = {0};
	uint32_t n = 0;

	memset(cand, 0, sizeof cand);
	for (uint32_t k = 0; k < p->slots + p->spares; k++) {
		if (p->dev[k].missing) {
			continue;
		}
		cand[n].name = "m";
		cand[n].sb = crig_plan_out.sb[k];
		if (crig_plan_out.bitmap_sectors) {
			create_bitmap_bytes(&crig_plan_out, 0, cand[n].bitmap.header,
					    BM_HEADER_BYTES);
		}
		cand[n++].dev_sectors = p->dev[k].dev_sectors;
	}
	asm_decide(cand, n, &opt, &out);
	if (out.decision != ASM_START) {
		fail_msg("%s", out.why);
	}
}

static void check_agree(const struct agree *t, uint32_t spares, bool bitmap)
{
	struct create_params p = crig_params(t->level, t->slots, 100 * MIB);
	uint32_t missing = 0, built = t->sync == CREATE_BUILD;

	p.assume_clean = t->clean;
	p.zeroed = t->zeroed;
	p.spares = spares;
	p.bitmap = bitmap;
	for (uint32_t k = 0; k < t->slots + spares; k++) {
		p.dev[k] = p.dev[0];
		memset(p.dev[k].device_uuid, 0xa0 + (int)k, 16);
	}
	for (uint32_t k = 0; k < t->slots; k++) {
		p.dev[k].missing = t->missing >> k & 1;
		missing += p.dev[k].missing;
	}
	crig_plan(&p);
	assert_int_equal(crig_plan_out.sync, t->sync);
	assert_int_equal(crig_plan_out.build_slot, t->build_slot);
	assemble(&p);
	assert_int_equal(out.degraded, missing + built);
	assert_true(out.resync_offset == (t->sync == CREATE_RESYNC ? 0 : SB_IN_SYNC));
	assert_int_equal(out.bitmap.state, bitmap ? ASM_BITMAP_CURRENT : ASM_BITMAP_NONE);
	for (uint32_t i = 0, spare = 0, recovering = 0; i < out.members; i++) {
		const struct asm_member *m = &out.member[i];

		spare += m->verdict == ASM_SPARE;
		recovering += m->verdict == ASM_RECOVERING;
		if (m->verdict == ASM_RECOVERING) {
			assert_int_equal(m->slot, t->build_slot);
			assert_int_equal(m->recovery_offset, 0);
			/* as mdadm numbers it: behind the spares */
			assert_int_equal(m->sb.dev_number, t->slots + spares);
		} else {
			assert_true(m->sb.dev_number < t->slots + spares);
		}
		if (i == out.members - 1) {
			assert_int_equal(spare, spares);
			assert_int_equal(recovering, built);
		}
	}
}

static void members_come_to_agree(void **state)
{
	for (size_t i = 0; i < sizeof agrees / sizeof *agrees; i++) {
		bool redundant = agrees[i].level > 0;

		check_agree(&agrees[i], 0, false);
		if (redundant) {
			check_agree(&agrees[i], 0, true);
			check_agree(&agrees[i], 2, true);
		}
	}
}

/* Roles and numbers that mdadm and the kernel give: devices in the order of the command line. */
static void numbers_of_mdadm(void **state)
{
	static const struct {
		enum raid_level level;
		uint32_t slots, spares;
		uint16_t roles[8];
	} made[] = {
		{RAID_LEVEL_5, 3, 0, {0, 1, 0xffff, 2, 0xffff, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_5, 4, 0, {0, 1, 2, 0xffff, 3, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_4, 3, 0, {0, 1, 0xffff, 2, 0xffff, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_5, 3, 1, {0, 1, 0xffff, 0xffff, 2, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_4, 3, 1, {0, 1, 0xffff, 0xffff, 2, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_5, 4, 2, {0, 1, 2, 0xffff, 0xffff, 0xffff, 3, 0xffff}},
		{RAID_LEVEL_6, 4, 2, {0, 1, 2, 3, 0xffff, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_1, 2, 1, {0, 1, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff}},
		{RAID_LEVEL_10, 4, 1, {0, 1, 2, 3, 0xffff, 0xffff, 0xffff, 0xffff}},
	};

	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		struct create_params p = crig_params(made[i].level, made[i].slots, 20 * MIB);

		p.assume_clean = false;
		p.spares = made[i].spares;
		for (uint32_t k = p.slots; k < p.slots + p.spares; k++) {
			p.dev[k] = p.dev[0];
		}
		crig_plan(&p);
		for (uint32_t k = 0; k < p.slots + p.spares; k++) {
			assert_memory_equal(crig_plan_out.sb[k].dev_roles, made[i].roles,
					    sizeof made[i].roles);
		}
	}
}

static void spares_and_flags(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_1, 2, 20 * MIB);

	p.dev[2] = p.dev[0];
	p.spares = 1;
	p.dev[1].devflags = SB_DEV_WRITE_MOSTLY | SB_DEV_FAIL_FAST;
	crig_plan(&p);
	assert_int_equal(crig_plan_out.sb[0].devflags, 0);
	assert_int_equal(crig_plan_out.sb[1].devflags, 3);
	assert_int_equal(crig_plan_out.sb[2].dev_number, 2);
	assert_int_equal(sb_own_role(&crig_plan_out.sb[2]), SB_ROLE_SPARE);
	assert_int_equal(crig_plan_out.sb[2].raid_disks, 2);
	p.dev[2].dev_sectors = 15 * MIB; /* a spare must be able to take any slot */
	crig_plan(&p);
	assert_int_equal(crig_plan_out.component_sectors, 14 * MIB);
	p.dev[2].dev_sectors = MIB;
	crig_refused(-ENOSPC, &p, "spare 0");
	p.dev[2].dev_sectors = 20 * MIB;
	p.level = RAID_LEVEL_0;
	crig_refused(-EINVAL, &p, "spare");
	p.spares = 0;
	crig_refused(-EINVAL, &p, "write-mostly");
	p.level = RAID_LEVEL_1;
	p.spares = RAID_MEMBERS_MAX - 2;
	crig_refused(-EINVAL, &p, "spares");
}

static void parity_refusals(void **state)
{
	struct create_params p = crig_params(RAID_LEVEL_5, 1, 20 * MIB);

	crig_refused(-EINVAL, &p, "raid5");
	p = crig_params(RAID_LEVEL_6, 3, 20 * MIB);
	crig_refused(-EINVAL, &p, "raid6");
	p = crig_params(RAID_LEVEL_4, 3, 20 * MIB);
	p.have_layout = true;
	crig_refused(-EINVAL, &p, "no layouts");
	p = crig_params(RAID_LEVEL_5, 4, 20 * MIB);
	p.dev[0].missing = p.dev[1].missing = true;
	crig_refused(-EINVAL, &p, "too many missing");
	p = crig_params(RAID_LEVEL_5, 4, 20 * MIB);
	p.chunk_sectors = 24;
	crig_refused(-EINVAL, &p, "power of two");
	p.chunk_sectors = 0;
	crig_plan(&p);
	assert_int_equal(crig_plan_out.sb[0].chunksize, 128);
	assert_int_equal(crig_plan_out.sb[0].layout, 2);
}

/* ---- what mdadm says of it ------------------------------------------------------------------ */

static void put(int fd, const void *buf, size_t n, uint64_t sector)
{
	assert_int_equal(pwrite(fd, buf, n, (off_t)(sector * RAID_SECTOR_BYTES)), n);
}

static void mdadm_says(const char *words, const char *path, const char *const *expect)
{
	char command[128], text[8192];
	FILE *pipe;

	snprintf(command, sizeof command, "/sbin/mdadm %s %s 2>&1", words, path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	text[fread(text, 1, sizeof text - 1, pipe)] = 0;
	assert_int_equal(pclose(pipe), 0);
	for (; *expect; expect++) {
		if (!strstr(text, *expect)) {
			fail_msg("no '%s' in what mdadm says:\n%s", *expect, text);
		}
	}
}

/* Each member as a file for --examine, its bitmap area as another one for -X. */
static void check_member(const struct create_params *p, uint32_t k, const char *level)
{
	char path[] = "/tmp/test-create.XXXXXX", area_path[] = "/tmp/test-create.XXXXXX";
	char bits[64], role[64];
	int fd = mkstemp(path), area_fd = mkstemp(area_path);
	const struct sb *sb = &crig_plan_out.sb[k];
	uint32_t area = crig_plan_out.bitmap_sectors * RAID_SECTOR_BYTES;
	uint64_t count =
		bm_bits(crig_plan_out.bitmap.sync_size_sectors, crig_plan_out.bitmap.chunk_bytes);
	uint8_t buf[SB_BYTES_MAX], *bytes = malloc(area);

	assert_true(fd >= 0 && area_fd >= 0 && bytes);
	assert_int_equal(ftruncate(fd, (off_t)(p->dev[k].dev_sectors * RAID_SECTOR_BYTES)), 0);
	put(fd, buf, sb_encode(sb, 512, buf), sb->super_offset);
	create_bitmap_bytes(&crig_plan_out, 0, bytes, area);
	put(fd, bytes, area, sb->super_offset + (uint64_t)(int64_t)sb->bitmap_offset);
	put(area_fd, bytes, area, 0);
	snprintf(role, sizeof role,
		 sb_own_role(sb) == SB_ROLE_SPARE ? "Device Role : spare"
						  : "Device Role : Active device %u",
		 sb_own_role(sb));
	mdadm_says("--examine", path,
		   (const char *const[]){" - correct", level, "Internal Bitmap", role, NULL});
	snprintf(bits, sizeof bits, "%llu bits (chunks), %llu dirty", (unsigned long long)count,
		 (unsigned long long)count);
	mdadm_says("-X", area_path,
		   (const char *const[]){"Magic : 6d746962", "Version : 4", bits, NULL});
	close(fd);
	close(area_fd);
	unlink(path);
	unlink(area_path);
	free(bytes);
}

static void mdadm_examines(void **state)
{
	static const struct {
		enum raid_level level;
		const char *name;
	} levels[] = {
		{RAID_LEVEL_1, "Raid Level : raid1"},	{RAID_LEVEL_4, "Raid Level : raid4"},
		{RAID_LEVEL_5, "Raid Level : raid5"},	{RAID_LEVEL_6, "Raid Level : raid6"},
		{RAID_LEVEL_10, "Raid Level : raid10"},
	};

	if (access("/sbin/mdadm", X_OK)) {
		print_message("skipped: mdadm is not installed\n");
		skip();
	}
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		for (int v = SB_V1_0; v <= SB_V1_2; v++) {
			struct create_params p = crig_params(levels[i].level, 4, 20 * MIB + 5);

			p.version = (enum sb_version)v;
			p.assume_clean = false;
			p.bitmap = true;
			p.bitmap_chunk_bytes = 65536;
			p.spares = 1;
			p.dev[4] = p.dev[0];
			p.dev[4].dev_sectors += 3 * MIB;
			crig_plan(&p);
			for (uint32_t k = 0; k < 5; k++) {
				check_member(&p, k, levels[i].name);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bitmaps_of_mdadm),	 cmocka_unit_test(bitmaps_read_back),
		cmocka_unit_test(bitmap_bytes),		 cmocka_unit_test(bitmap_refusals),
		cmocka_unit_test(members_come_to_agree), cmocka_unit_test(numbers_of_mdadm),
		cmocka_unit_test(spares_and_flags),	 cmocka_unit_test(parity_refusals),
		cmocka_unit_test(mdadm_examines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
