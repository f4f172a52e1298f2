/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile superblocks, through everything that looks at them: sb_decode, bb_decode, asm_decide,
 * and, if an array comes out, its map.
 *
 * An input is two bytes of options and then records of RECORD bytes, one a member: how large the
 * device is, which version, whether magic, place and checksum are made right (mostly yes, or
 * nothing would get past them), the first bytes of the superblock, a bad-block log and the begin of
 * a bitmap. Beyond not crashing, what holds for every outcome is checked.
 */
#include "raid/assemble.h"

#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);

enum {
	HEAD = 2, /* options, raid0 layout */
	R_SECTORS = 0,
	R_VERSION = 4,
	R_FLAGS = 5,
	R_DISK = 6, /* 0.90: own number */
	R_SB = 8,
	SB_PART = 512,
	R_LOG = R_SB + SB_PART,
	LOG_PART = 32,
	R_BITMAP = R_LOG + LOG_PART,
	BITMAP_PART = 72,
	RECORD = R_BITMAP + BITMAP_PART,
	MEMBERS = 8,

	KEEP_PLACE = 1, /* flags */
	KEEP_CHECKSUM = 2,

	V090_THIS_DISK = 4 * 992,
	V090_CHECKSUM = 4 * 38,
};

static struct asm_candidate cand[MEMBERS];
static struct assembly out;

static struct sb_location place(uint8_t version, uint64_t dev_sectors)
{
	struct sb_location loc[SB_LOCATIONS_MAX];
	uint32_t n = sb_locations(dev_sectors, loc);

	return loc[version % n];
}

static void seal_v090(uint8_t *buf, uint8_t disk)
{
	uint64_t sum = 0;
	uint32_t i;

	put_le32(buf, SB_MAGIC);
	put_le32(buf + 4, 0);
	memcpy(buf + V090_THIS_DISK, buf + 4 * (128 + 32 * (disk % 27)), 128);
	put_le32(buf + V090_THIS_DISK, disk);
	put_le32(buf + V090_CHECKSUM, 0);
	for (i = 0; i < SB_BYTES_MAX; i += 4) {
		sum += get_le32(buf + i);
	}
	put_le32(buf + V090_CHECKSUM, (uint32_t)sum + (uint32_t)(sum >> 32));
}

static void seal_v1(uint8_t *buf, struct sb_location loc, uint8_t flags)
{
	uint32_t max_dev = get_le32(buf + 220);

	put_le32(buf, SB_MAGIC);
	put_le32(buf + 4, 1);
	if (!(flags & KEEP_PLACE)) {
		put_le64(buf + 144, loc.sector);
	}
	if (!(flags & KEEP_CHECKSUM) && max_dev <= SB_ROLES_MAX) {
		put_le32(buf + 216, sb_checksum(buf, max_dev));
	}
}

/* What was decoded is written again and decoded to the same. */
static void check_round_trip(const struct sb *sb, struct sb_location loc, uint64_t dev_sectors)
{
	static uint8_t buf[SB_BYTES_MAX], again[SB_BYTES_MAX];
	static struct sb back;
	char why[RAID_WHY_BYTES];

	if (sb->version == SB_V0_90) {
		return;
	}
	sb_encode(sb, 512, buf);
	CHECK(!sb_decode(buf, loc, dev_sectors, &back, why));
	sb_encode(&back, 512, again);
	CHECK(!memcmp(buf, again, sizeof buf));
}

static void load(const uint8_t *record, struct asm_candidate *c)
{
	static uint8_t buf[SB_BYTES_MAX];
	struct sb_location loc;

	memset(c, 0, sizeof *c);
	c->name = "m";
	c->dev_sectors = 24 + (uint64_t)get_le32(record + R_SECTORS);
	loc = place(record[R_VERSION], c->dev_sectors);
	memset(buf, 0, sizeof buf);
	memcpy(buf, record + R_SB, SB_PART);
	if (loc.version == SB_V0_90) {
		/* Words 100..127 mean nothing: there the seeds have the disk records' slots and
		 * states. */
		for (uint32_t k = 0; k < MEMBERS; k++) {
			put_le32(buf + 4 * (128 + 32 * k + 3), buf[400 + 2 * k]);
			put_le32(buf + 4 * (128 + 32 * k + 4), buf[401 + 2 * k]);
		}
		seal_v090(buf, record[R_DISK]);
	} else {
		seal_v1(buf, loc, record[R_FLAGS]);
	}
	c->load_err = sb_decode(buf, loc, c->dev_sectors, &c->sb, c->why);
	CHECK(strlen(c->why) < RAID_WHY_BYTES);
	if (c->load_err) {
		return;
	}
	check_round_trip(&c->sb, loc, c->dev_sectors);
	if (c->sb.feature_map & SB_FEATURE_BAD_BLOCKS) {
		c->load_err = bb_decode(record + R_LOG, LOG_PART, c->sb.bblog_shift, c->dev_sectors,
					&c->bad, c->why);
	}
	memcpy(c->bitmap.header, record + R_BITMAP, BITMAP_PART);
}

static void check_bad(const struct asm_member *m, uint64_t maddr, uint64_t len)
{
	struct bb_range hit;

	if (bb_find(&m->bad, maddr, len, &hit)) {
		CHECK(hit.len && hit.maddr >= maddr && hit.maddr + hit.len <= maddr + len);
	}
}

/* Every copy of a piece lies on its member, clear of the end. */
static void check_piece(uint64_t addr, uint64_t len)
{
	struct geo_piece piece;
	uint32_t i, k;

	geo_map(&out.geometry, addr, len, &piece);
	CHECK(piece.len && piece.len <= len);
	for (i = 0; i < piece.copies; i++) {
		for (k = 0; k < out.members; k++) {
			const struct asm_member *m = &out.member[k];

			if (m->verdict != ASM_IN_SYNC || m->slot != (int32_t)piece.copy[i].slot) {
				continue;
			}
			CHECK(piece.copy[i].maddr + piece.len <=
			      (m->sb.data_offset + m->sb.data_size) * RAID_SECTOR_BYTES);
			CHECK(piece.copy[i].maddr + piece.len <=
			      m->dev_sectors * RAID_SECTOR_BYTES);
			check_bad(m, piece.copy[i].maddr, piece.len);
		}
	}
}

static void check_started(void)
{
	uint64_t bytes = out.geometry.array_sectors * RAID_SECTOR_BYTES;
	uint32_t in_sync[RAID_SLOTS_MAX] = {0}, i, missing = 0;

	CHECK(bytes);
	CHECK(geo_enough(&out.geometry, out.present));
	for (i = 0; i < out.members; i++) {
		if (out.member[i].verdict == ASM_IN_SYNC) {
			CHECK(out.member[i].slot >= 0 &&
			      (uint32_t)out.member[i].slot < out.geometry.p.slots);
			in_sync[out.member[i].slot]++;
		}
	}
	for (i = 0; i < out.geometry.p.slots; i++) {
		CHECK(in_sync[i] == out.present[i]);
		missing += !out.present[i];
	}
	CHECK(missing == out.degraded);
	check_piece(0, bytes);
	check_piece(bytes - 1, 1);
	check_piece(bytes / 2, bytes - bytes / 2);
	check_piece(bytes / 3, 1);
}

/* Whatever the header says, what is read and written of it lies on the member. */
static void check_bitmap(void)
{
	const struct asm_bitmap *b = &out.bitmap;
	const struct asm_member *m = &out.member[b->member];

	if (b->state != ASM_BITMAP_CURRENT && b->state != ASM_BITMAP_STALE) {
		return;
	}
	CHECK(b->bits && b->bits == bm_bits(b->header.sync_size_sectors, b->header.chunk_bytes));
	CHECK(bm_area_bytes(b->bits) <= BM_AREA_MAX_BYTES);
	if (b->state == ASM_BITMAP_CURRENT) {
		CHECK(m->verdict == ASM_IN_SYNC);
		CHECK(b->at_sector + 8 * bm_area_pages(b->bits) <= m->dev_sectors);
	}
}

static void check_member(const struct asm_member *m)
{
	bool partial = m->recovery_offset != SB_IN_SYNC;

	CHECK(m->verdict == ASM_IN_SYNC || m->why[0]);
	CHECK(!partial || m->recovery_offset <= m->sb.size);
	CHECK(!m->recovery_bitmap || m->verdict == ASM_RECOVERING);
	CHECK(!m->readd_bitmap || m->verdict == ASM_STALE || m->verdict == ASM_FAULTY);
	CHECK((!m->recovery_bitmap && !m->readd_bitmap) || out.bitmap.state == ASM_BITMAP_CURRENT);
}

static void check_outcome(uint32_t count, const struct asm_options *opt)
{
	uint32_t i;

	CHECK(out.members == count);
	CHECK(strlen(out.why) < RAID_WHY_BYTES && strlen(out.note) < RAID_WHY_BYTES);
	CHECK((out.decision == ASM_START) == !out.why[0]);
	for (i = 0; i < count; i++) {
		check_member(&out.member[i]);
	}
	if (out.decision != ASM_REFUSE) {
		check_started();
		check_bitmap();
	}
	if (!opt->force && !opt->force_write && out.decision == ASM_START) {
		CHECK(!(out.features &
			(uint32_t)(SB_FEATURE_RESHAPE | SB_FEATURE_CLUSTERED | SB_FEATURE_JOURNAL |
				   SB_FEATURE_PPL | SB_FEATURE_MULTIPLE_PPLS)));
		CHECK(!out.geometry.parity || !out.degraded || out.resync_offset == SB_IN_SYNC);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct asm_options opt = {0};
	uint32_t count = 0;

	if (size < HEAD) {
		return 0;
	}
	opt.want_readonly = data[0] & 1;
	opt.force = data[0] & 2;
	opt.have_uuid = data[0] & 4;
	opt.force_write = data[0] & 8;
	memset(opt.uuid, 0x55, sizeof opt.uuid);
	opt.raid0_layout = (enum geo_raid0_layout)(data[1] % 3);
	data += HEAD;
	size -= HEAD;
	while (size >= RECORD && count < MEMBERS) {
		load(data, &cand[count++]);
		data += RECORD;
		size -= RECORD;
	}
	asm_decide(cand, count, &opt, &out);
	check_outcome(count, &opt);
	return 0;
}

/* ---- seeds ---------------------------------------------------------------------------------- */

struct seed {
	int32_t level;
	uint32_t layout, chunk, members, features;
	uint8_t version; /* index of the location */
	uint8_t options;
};

static const struct seed seeds[] = {
	{RAID_LEVEL_1, 0, 0, 2, 0, 0, 0},
	{RAID_LEVEL_1, 0, 0, 3, SB_FEATURE_BITMAP, 1, 1},
	{RAID_LEVEL_1, 0, 0, 3, SB_FEATURE_BAD_BLOCKS, 2, 0},
	{RAID_LEVEL_1, 0, 0, 3, 0, 3, 3},
	{RAID_LEVEL_10, 0x102, 128, 4, 0, 0, 3},
	{RAID_LEVEL_10, 0x10201, 8, 5, SB_FEATURE_BAD_BLOCKS, 2, 0},
	{RAID_LEVEL_10, 0x40201, 128, 4, 0, 0, 7},
	{RAID_LEVEL_0, 1, 128, 3, SB_FEATURE_RAID0_LAYOUT, 0, 0},
	{RAID_LEVEL_0, 0, 128, 3, 0, 3, 0},
	{RAID_LEVEL_LINEAR, 0, 0, 3, 0, 0, 3},
	{RAID_LEVEL_5, 2, 128, 4, SB_FEATURE_PPL, 0, 0},
	{RAID_LEVEL_5, 2, 128, 4, SB_FEATURE_BITMAP, 0, 8},
	{RAID_LEVEL_6, 10, 128, 5, SB_FEATURE_RECOVERY_OFFSET, 2, 3},
	{RAID_LEVEL_4, 0, 128, 3, 0, 0, 8},
};

enum { SEED_SECTORS = 10240, SEED_DATA_OFFSET = 2048 };

static void seed_v1(const struct seed *s, uint32_t k, uint8_t *record)
{
	static uint8_t buf[SB_BYTES_MAX];
	static struct sb sb;
	bool at_end = s->version == 2;
	struct bm_header bitmap = {
		.version = BM_V4,
		.events = 17,
		.sync_size_sectors = 4096,
		.chunk_bytes = 65536,
		.daemon_sleep_s = BM_DAEMON_SLEEP_DEFAULT_S,
	};
	uint32_t i;

	memset(bitmap.uuid, 0x55, sizeof bitmap.uuid);

	memset(&sb, 0, sizeof sb);
	sb.version = SB_V1_2;
	sb.feature_map = s->features;
	memset(sb.set_uuid, 0x55, sizeof sb.set_uuid);
	memset(sb.device_uuid, (int)(0xA0 + k), sizeof sb.device_uuid);
	sb.level = s->level;
	sb.layout = s->layout;
	sb.chunksize = s->chunk;
	sb.raid_disks = s->members;
	sb.data_offset = at_end ? 0 : SEED_DATA_OFFSET;
	sb.data_size = 4096 + 256 * k;
	sb.size = s->level > 0 ? 4096 : 0;
	sb.bitmap_offset = s->features & SB_FEATURE_BITMAP ? 8 : 0;
	sb.ppl_offset = 8;
	sb.ppl_size = 8;
	sb.bblog_size = 8;
	sb.bblog_offset = at_end ? -8 : 16;
	sb.dev_number = k;
	sb.events = 17;
	sb.resync_offset = SB_IN_SYNC;
	sb.max_dev = 128;
	for (i = 0; i < SB_ROLES_MAX; i++) {
		sb.dev_roles[i] = i < s->members ? (uint16_t)i : SB_ROLE_SPARE;
	}
	sb_encode(&sb, 512, buf);
	memcpy(record + R_SB, buf, SB_PART);
	put_le64(record + R_LOG, (uint64_t)3000 << 10 | 8);
	bm_encode(&bitmap, buf);
	memcpy(record + R_BITMAP, buf, BITMAP_PART);
}

static void seed_v090(const struct seed *s, uint32_t k, uint8_t *record)
{
	uint8_t *words = record + R_SB;
	uint32_t i;

	put_le32(words + 4 * 2, 90);
	memset(words + 4 * 5, 0x55, 4);
	memset(words + 4 * 13, 0x55, 12);
	put_le32(words + 4 * 7, (uint32_t)s->level);
	put_le32(words + 4 * 8, 2048);
	put_le32(words + 4 * 10, s->members);
	put_le32(words + 4 * 33, 1);
	put_le32(words + 4 * 39, 17);
	put_le32(words + 4 * 64, s->layout);
	put_le32(words + 4 * 65, s->chunk * RAID_SECTOR_BYTES);
	record[R_DISK] = (uint8_t)k;
	for (i = 0; i < s->members; i++) {
		words[400 + 2 * i] = (uint8_t)i;
		words[401 + 2 * i] = 6; /* active and in sync */
	}
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size)
{
	const struct seed *s = &seeds[i];
	size_t need;

	if (i >= sizeof seeds / sizeof seeds[0]) {
		return 0;
	}
	need = HEAD + s->members * RECORD;
	CHECK(need <= size);
	memset(buf, 0, need);
	buf[0] = s->options;
	for (uint32_t k = 0; k < s->members; k++) {
		uint8_t *record = buf + HEAD + k * RECORD;

		put_le32(record + R_SECTORS, SEED_SECTORS - 24);
		record[R_VERSION] = s->version;
		memset(record + R_LOG, 0xff, LOG_PART);
		if (s->version == 3) {
			seed_v090(s, k, record);
		} else {
			seed_v1(s, k, record);
		}
	}
	return need;
}
