/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of failing members of parity arrays share. */
#ifndef RAID_TESTS_ENGINE_PARITY_H
#define RAID_TESTS_ENGINE_PARITY_H

#include "raid/tests/engine_storm.h"

enum { CHUNK = 16384, DATA0 = RIG_DATA_SECTOR * 512 };

static const struct rig_shape raid5 = {
	.level = RAID_LEVEL_5, .layout = 2, .chunk_sectors = 32, .slots = 4, .sectors = 1024};
static const struct rig_shape raid6 = {
	.level = RAID_LEVEL_6, .layout = 2, .chunk_sectors = 32, .slots = 5, .sectors = 1024};
static uint8_t data[2 << 20], back[2 << 20];

static inline struct rig *filled(const struct rig_shape *shape)
{
	struct rig *r = rig_new(shape);

	for (uint32_t i = 0; i < sizeof data; i++) {
		data[i] = (uint8_t)(i * 7 + i / 509);
	}
	assert_int_equal(rig_write(r, 0, raid_size(r->a), data), 0);
	return r;
}

static inline void holds(struct rig *r)
{
	assert_int_equal(rig_read(r, 0, raid_size(r->a), back), 0);
	assert_memory_equal(back, data, raid_size(r->a));
	rig_rows_hold(r, data);
}

/* Write anew and see to it that data says so too. */
static inline int rewrite(struct rig *r, uint64_t addr, uint64_t len, uint8_t seed)
{
	static uint8_t fresh[1 << 20];
	int res;

	for (uint64_t i = 0; i < len; i++) {
		fresh[i] = (uint8_t)(seed + i * 3);
	}
	res = rig_write(r, addr, len, fresh);
	if (!res) {
		memcpy(data + addr, fresh, len);
	}
	return res;
}

/* After an error every byte is old or new; from here on it is what it is. */
static inline void old_or_new(struct rig *r, uint64_t addr, uint64_t len, uint8_t seed)
{
	uint64_t size = raid_size(r->a);

	assert_int_equal(rig_read(r, 0, size, back), 0);
	for (uint64_t i = 0; i < size; i++) {
		bool new = i >= addr &&i < addr + len &&back[i] == (uint8_t)(seed + (i - addr) * 3);

		if (back[i] != data[i] && !new) {
			fail_msg("byte %llu is neither old nor new", (unsigned long long)i);
		}
	}
	memcpy(data, back, size);
}

static inline bool touches(const struct raid_io *io, uint64_t maddr)
{
	return maddr >= io->maddr && maddr - io->maddr < io->len;
}

/* Reads of the block at arg[1] of members in arg[0] fail until it is written. */
static inline int bad_blocks(struct rig *r, struct raid_io *io)
{
	if (!(r->arg[0] >> io->member & 1) || !touches(io, r->arg[1])) {
		return 0;
	}
	if (rig_is_data_write(io)) {
		r->arg[0] &= ~(1ull << io->member);
	}
	return io->op == RAID_IO_READ ? -EIO : 0;
}

#endif
