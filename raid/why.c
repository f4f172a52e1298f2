/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/why.h"

#include <stdarg.h>
#include <stdio.h>

int why_set(char why[RAID_WHY_BYTES], int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, RAID_WHY_BYTES, fmt, ap);
	va_end(ap);
	return err;
}
