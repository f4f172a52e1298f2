/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * P and Q, byte by byte: the simulator's own arithmetic, as md-format §10 defines it. It shares
 * nothing with the engine but the order of a row's blocks.
 */
#ifndef RAID_SIM_COLUMN_H
#define RAID_SIM_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/geometry.h"

/* One sector of every slot of a row; NULL: nobody holds it. */
struct column {
	const struct geo_row *row;
	const uint8_t *data[RAID_SLOTS_MAX]; /* by data block */
	const uint8_t *p, *q;
};

enum column_verdict {
	COLUMN_RIGHT, /* everything that is there fits together */
	COLUMN_WRONG,
	COLUMN_LOST, /* more is missing than can be computed */
};

/*
 * Judge a column and compute the data blocks that are missing, into made[] by data block. With one
 * missing block and both P and Q it is computed by P and checked by Q.
 */
enum column_verdict column_solve(const struct column *c, uint8_t made[][RAID_SECTOR_BYTES]);

/* P and Q of data blocks that are all there. q may be NULL. */
void column_parity(const struct column *c, uint8_t *p, uint8_t *q);

#endif
