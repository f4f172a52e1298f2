/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test members with a volatile write cache (`volatile=1`): what is written stays in the process,
 * in a map of sectors, until FLUSH writes it to the file and syncs that, or until a FUA write of
 * the same sectors replaces it. Reads see it. Killing the process loses exactly what a power cut
 * may.
 *
 * For tests only, so simple on purpose: every call does its I/O at once and may block and allocate,
 * which nothing else on a loop's thread does.
 */
#ifndef SERVER_VOLATILE_IO_H
#define SERVER_VOLATILE_IO_H

#include <stdint.h>

#include "raid/io.h"

struct volatile_io;

/* fd stays the caller's. NULL: out of memory. */
struct volatile_io *volatile_create(int fd, uint64_t size_bytes);
void volatile_destroy(struct volatile_io *v);

/* Carry out one io whole. 0 or -errno. */
int volatile_do(struct volatile_io *v, const struct raid_io *io);

#endif
