/* SPDX-License-Identifier: BSD-3-Clause */
/* Explanations to the user: `return why_set(why, -EINVAL, "slot %u …", slot);` */
#ifndef RAID_WHY_H
#define RAID_WHY_H

#include "raid/types.h"

/* Fills why (cut at RAID_WHY_BYTES) and returns err. */
__attribute__((format(printf, 3, 4))) int why_set(char why[RAID_WHY_BYTES], int err,
						  const char *fmt, ...);

#endif
