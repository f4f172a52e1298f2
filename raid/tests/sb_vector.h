/* SPDX-License-Identifier: BSD-3-Clause */
/* The superblock of md-format §17.1, and how the tests of sb.c change it: encode, change bytes,
 * seal, decode. */
#ifndef RAID_TESTS_SB_VECTOR_H
#define RAID_TESTS_SB_VECTOR_H

#include "raid/sb.h"

enum { SBV_DEV_SECTORS = 131072 };

extern const struct sb_location sbv_at; /* 1.2 */

/* Of member k. */
struct sb sbv_vector(uint32_t k);
void sbv_encode(const struct sb *sb, uint8_t buf[SB_BYTES_MAX]);

/* Make the checksum right again. */
void sbv_seal(uint8_t buf[SB_BYTES_MAX]);
int sbv_decode(const uint8_t *buf, char why[RAID_WHY_BYTES]);

/* Decoding fails with err and one line that has word in it. */
void sbv_refused(const uint8_t *buf, int err, const char *word);

#endif
