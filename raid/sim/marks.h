/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The coverage marks of the program (raid/base/mark.h), gathered by the linker into one section.
 */
#ifndef RAID_SIM_MARKS_H
#define RAID_SIM_MARKS_H

#include <stdint.h>
#include <stdio.h>

uint32_t marks_count(void);

/* Add this process's counts to total[marks_count()]. */
void marks_add(uint64_t *total);

enum marks_detail { MARKS_COUNT, MARKS_MISSING, MARKS_ALL };

/* Print how many were reached, and which were or were not; returns how many were not. */
uint32_t marks_report(const uint64_t *total, FILE *out, enum marks_detail detail);

#endif
