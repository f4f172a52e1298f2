/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of failing members share: a filled mirror and ways to fail. */
#ifndef RAID_TESTS_ENGINE_FAULTS_H
#define RAID_TESTS_ENGINE_FAULTS_H

#include "raid/tests/engine_rig.h"

enum { DATA0 = RIG_DATA_SECTOR * 512 };

static const struct rig_shape mirror = {.level = RAID_LEVEL_1, .slots = 2, .sectors = 4096};
static uint8_t data[1 << 20], back[1 << 20];

static inline struct rig *filled(const struct rig_shape *shape)
{
	struct rig *r = rig_new(shape);

	for (uint32_t i = 0; i < sizeof data; i++) {
		data[i] = (uint8_t)(i * 7 + i / 509);
	}
	assert_int_equal(rig_write(r, 0, sizeof data, data), 0);
	return r;
}

/* Reads of member arg[0] that touch the byte arg[1] fail until it is written again. */
static inline int bad_block(struct rig *r, struct raid_io *io)
{
	bool hit = io->member == r->arg[0] && r->arg[1] - io->maddr < io->len;

	if (hit && rig_is_data_write(io)) {
		r->arg[1] = UINT64_MAX;
	}
	return hit && io->op == RAID_IO_READ ? -EIO : 0;
}

static inline int all_fail(struct rig *r, struct raid_io *io)
{
	(void)r;
	(void)io;
	return -EIO;
}

static inline int hold_reads_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && io->op == RAID_IO_READ ? RIG_HOLD : 0;
}

static inline int hold_all_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] ? RIG_HOLD : 0;
}

static inline int fail_op_of(struct rig *r, struct raid_io *io)
{
	return io->member == r->arg[0] && io->op == r->arg[1] && !rig_is_sb(io) ? (int)r->arg[2]
										: 0;
}

#endif
