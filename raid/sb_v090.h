/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The old superblock, metadata 0.90 (md-format §16): read only, in either byte order. Used by sb.c
 * alone; everybody else calls sb_decode().
 */
#ifndef RAID_SB_V090_H
#define RAID_SB_V090_H

#include "raid/sb.h"

/* As sb_decode(), for a location of version SB_V0_90. */
int sb_v090_decode(const uint8_t *buf, struct sb_location loc, struct sb *out,
		   char why[RAID_WHY_BYTES]);

#endif
