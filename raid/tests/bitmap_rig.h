/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the write-intent bitmap share: the bitmap that lies on a member now, and ways
 * to hold and fail the ios of its pages. */
#ifndef RAID_TESTS_BITMAP_RIG_H
#define RAID_TESTS_BITMAP_RIG_H

#include "raid/bitmap_fmt.h"
#include "raid/tests/engine_rig.h"

enum { BM_AT = (RIG_SB_SECTOR + 8) * 512, DATA_AT = RIG_DATA_SECTOR * 512, CHUNK = 4096 };

static uint8_t data[1 << 20] __attribute__((unused));

static inline bool is_page(const struct raid_io *io)
{
	return io->op == RAID_IO_WRITE && io->maddr >= BM_AT && io->maddr < DATA_AT;
}

static inline bool is_data(const struct raid_io *io)
{
	return rig_is_data_write(io) && io->maddr >= DATA_AT;
}

static inline bool is_flush(const struct raid_io *io)
{
	return io->op == RAID_IO_FLUSH;
}

static inline uint32_t count_io(const struct rig *r, bool (*is)(const struct raid_io *))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->ios; i++) {
		n += is(r->io[i]);
	}
	return n;
}

/* Complete all waiting ios of a kind; then a step. */
static inline uint32_t let(struct rig *r, bool (*is)(const struct raid_io *))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->ios;) {
		if (is(r->io[i])) {
			rig_complete(r, i, 0);
			n++;
		} else {
			i++;
		}
	}
	rig_step(r);
	return n;
}

/* The superblock that lies on a member now, and where its bitmap is. */
static inline struct sb sb_on(struct rig *r, uint32_t member, struct bm_expect *expect)
{
	const struct sb *was = &r->as->member[member].sb;
	struct sb_location loc = {.version = was->version, .sector = was->super_offset};
	char why[RAID_WHY_BYTES];
	struct sb sb;
	int err = sb_decode(r->disk[member] + loc.sector * 512, loc, r->disk_bytes / 512, &sb, why);

	if (err) {
		fail_msg("superblock of member %u: %d %s", member, err, why);
	}
	bm_expect_of(&sb, r->disk_bytes / 512, r->as->geometry.array_sectors, expect);
	if (!(sb.feature_map & SB_FEATURE_BITMAP)) {
		expect->at_sector = BM_AT / 512; /* not named yet, or no more */
	}
	return sb;
}

static inline struct bm_header header_on(struct rig *r, uint32_t member)
{
	struct bm_expect expect;
	struct sb sb = sb_on(r, member, &expect);
	char why[RAID_WHY_BYTES];
	struct bm_header h;

	assert_true(sb.feature_map & SB_FEATURE_BITMAP);
	if (bm_decode(r->disk[member] + expect.at_sector * 512, BM_HEADER_BYTES, &expect, &h,
		      why)) {
		fail_msg("bitmap of member %u: %s", member, why);
	}
	return h;
}

static inline bool bit_on(struct rig *r, uint32_t member, uint64_t bit)
{
	struct bm_expect expect;

	sb_on(r, member, &expect);
	return bm_area_get(r->disk[member] + expect.at_sector * 512, bit);
}

/* Bits set on a member. */
static inline uint64_t bits_on(struct rig *r, uint32_t member)
{
	struct bm_expect expect;
	struct raid_status st;
	uint64_t n = 0;

	raid_get_status(r->a, &st);
	sb_on(r, member, &expect);
	for (uint64_t i = 0; i < st.bitmap.chunks; i++) {
		n += bm_area_get(r->disk[member] + expect.at_sector * 512, i);
	}
	return n;
}

static inline struct raid_status status(struct rig *r)
{
	struct raid_status st;

	raid_get_status(r->a, &st);
	return st;
}

static inline int add_bitmap(struct rig *r, uint32_t chunk)
{
	static struct raid_cmd cmd;

	cmd = (struct raid_cmd){.op = RAID_CMD_BITMAP_ADD, .bitmap_chunk_bytes = chunk};
	r->cmd = NULL;
	raid_control(r->a, &cmd);
	rig_run(r);
	assert_ptr_equal(r->cmd, &cmd);
	return cmd.res;
}

/*
 * What a power cut now leaves: another rig, assembled from what lies on the members, without those
 * of missing (bit mask of members). The array is not started yet: rig_start() does it.
 */
static inline struct rig *crash(const struct rig *r, uint32_t missing)
{
	static struct asm_candidate cand[RAID_MEMBERS_MAX];
	const struct asm_options opt = {0};
	struct rig *x = calloc(1, sizeof *x);
	uint32_t n = 0;

	x->shape = r->shape;
	x->as = calloc(1, sizeof *x->as);
	x->now = r->now;
	x->disk_bytes = r->disk_bytes;
	for (uint32_t i = 0; i < r->as->members; i++) {
		const struct sb *was = &r->as->member[i].sb;
		struct sb_location loc = {.version = was->version, .sector = was->super_offset};
		struct asm_candidate *c = &cand[n];
		struct bm_expect expect;

		if (missing >> i & 1) {
			continue;
		}
		*c = (struct asm_candidate){.name = "member", .dev_sectors = r->disk_bytes / 512};
		c->load_err = sb_decode(r->disk[i] + loc.sector * 512, loc, c->dev_sectors, &c->sb,
					c->why);
		if (!c->load_err && c->sb.feature_map & SB_FEATURE_BITMAP) {
			bm_expect_of(&c->sb, c->dev_sectors, r->as->geometry.array_sectors,
				     &expect);
			memcpy(c->bitmap.header, r->disk[i] + expect.at_sector * 512,
			       BM_HEADER_BYTES);
		}
		x->props[n] = r->props[i];
		x->disk[n] = malloc(r->disk_bytes);
		memcpy(x->disk[n++], r->disk[i], r->disk_bytes);
	}
	asm_decide(cand, n, &opt, x->as);
	if (x->as->decision != ASM_START) {
		fail_msg("after a crash: %s", x->as->why);
	}
	return x;
}

static inline void rig_start(struct rig *r)
{
	struct raid_config cfg = {
		.assembly = r->as,
		.props = r->props,
		.limits = RAID_LIMITS_DEFAULT,
		.seed = 43,
		.now = r->now,
	};
	char why[RAID_WHY_BYTES];

	cfg.limits.frags = 64;
	cfg.limits.buffer_bytes = 8 << 20;
	cfg.limits.sync_frozen = !r->shape.sync;
	if (r->as->bitmap.state == ASM_BITMAP_CURRENT) {
		cfg.bitmap_bits = r->disk[r->as->bitmap.member] + r->as->bitmap.at_sector * 512 +
				  BM_HEADER_BYTES;
	}
	if (raid_create(&cfg, &r->a, why)) {
		fail_msg("raid_create: %s", why);
	}
}

/* A rig that was not started. */
static inline void rig_discard(struct rig *r)
{
	for (uint32_t i = 0; i < r->as->members; i++) {
		free(r->disk[i]);
	}
	free(r->as);
	free(r);
}

/* Let time pass in steps, so that both sweeps come. */
static inline void pass_s(struct rig *r, uint32_t seconds)
{
	for (uint32_t i = 0; i < 4 * seconds; i++) {
		rig_advance_ms(r, 250);
	}
}

/* With a bitmap all of whose bits have been cleared. */
static inline struct rig *swept_with(struct rig *r, uint32_t chunk)
{
	assert_int_equal(add_bitmap(r, chunk), 0);
	pass_s(r, 12);
	for (uint32_t i = 0; i < r->as->members; i++) {
		assert_int_equal(bits_on(r, i), 0);
	}
	return r;
}

/* Not started; its members, as assembled, name a bitmap of this state that nobody has written. */
static inline struct rig *rig_named(const struct rig_shape *shape, uint32_t chunk,
				    enum asm_bitmap_state bitmap)
{
	struct rig *r = rig_prepare(shape);
	struct asm_bitmap *b = &r->as->bitmap;

	*b = (struct asm_bitmap){
		.state = bitmap,
		.offset_sectors = 8,
		.bits = bm_bits(shape->sectors, chunk),
		.header = {.version = BM_V4,
			   .sync_size_sectors = shape->sectors,
			   .chunk_bytes = chunk,
			   .daemon_sleep_s = 5,
			   .events = 10},
		.at_sector = RIG_SB_SECTOR + 8,
	};
	for (uint32_t i = 0; i < r->as->members; i++) {
		r->as->member[i].sb.feature_map |= SB_FEATURE_BITMAP;
		r->as->member[i].sb.bitmap_offset = 8;
		bm_encode(&b->header, r->disk[i] + BM_AT);
	}
	return r;
}

static inline struct rig *swept(const struct rig_shape *shape)
{
	return swept_with(rig_new(shape), CHUNK);
}

#endif
