/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions that stay on in production.
 *
 * They guard our own logic only: bytes from a disk, a client or a configuration file are
 * validated and answered with an error, never checked here. A CHECK that fires means that
 * the program is wrong; going on could destroy data, so it prints where and aborts.
 */
#ifndef RAID_BASE_CHECK_H
#define RAID_BASE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			check_failed(#cond, __FILE__, __LINE__, __func__);                         \
	} while (0)

#define STATIC_CHECK(cond, text) _Static_assert(cond, text)

__attribute__((noreturn, cold)) static inline void check_failed(const char *cond, const char *file,
								int line, const char *func)
{
	fprintf(stderr, "%s:%d: %s: internal check failed: %s\n", file, line, func, cond);
	abort();
}

#endif
