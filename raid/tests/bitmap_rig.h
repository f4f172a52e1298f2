/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the write-intent bitmap share: the bitmap that lies on a member now, and ways
 * to hold and fail the ios of its pages. */
#ifndef RAID_TESTS_BITMAP_RIG_H
#define RAID_TESTS_BITMAP_RIG_H

#include "raid/bitmap_fmt.h"
#include "raid/tests/engine_rig.h"

enum { BM_AT = (RIG_SB_SECTOR + 8) * 512, DATA_AT = RIG_DATA_SECTOR * 512, CHUNK = 4096 };

static uint8_t data[1 << 20];

static inline bool is_page(const struct raid_io *io)
{
	return io->op == RAID_IO_WRITE && io->maddr >= BM_AT && io->maddr < DATA_AT;
}

static inline bool is_data(const struct raid_io *io)
{
	return rig_is_data_write(io) && io->maddr >= DATA_AT;
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

static inline struct bm_header header_on(struct rig *r, uint32_t member)
{
	struct sb sb = rig_sb(r, member);
	char why[RAID_WHY_BYTES];
	struct bm_expect expect;
	struct bm_header h;

	assert_true(sb.feature_map & SB_FEATURE_BITMAP);
	bm_expect_of(&sb, r->disk_bytes / 512, r->as->geometry.array_sectors, &expect);
	if (bm_decode(r->disk[member] + expect.at_sector * 512, BM_HEADER_BYTES, &expect, &h,
		      why)) {
		fail_msg("bitmap of member %u: %s", member, why);
	}
	return h;
}

static inline bool bit_on(struct rig *r, uint32_t member, uint64_t bit)
{
	return bm_area_get(r->disk[member] + BM_AT, bit);
}

/* Bits set on a member. */
static inline uint64_t bits_on(struct rig *r, uint32_t member)
{
	struct raid_status st;
	uint64_t n = 0;

	raid_get_status(r->a, &st);
	for (uint64_t i = 0; i < st.bitmap.chunks; i++) {
		n += bit_on(r, member, i);
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

/* Let time pass in steps, so that both sweeps come. */
static inline void pass_s(struct rig *r, uint32_t seconds)
{
	for (uint32_t i = 0; i < 4 * seconds; i++) {
		rig_advance_ms(r, 250);
	}
}

#endif
