/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/marks.h"

#include <string.h>

#include "raid/base/mark.h"

/* Made by the linker; weak, because a program without any mark has no such section. */
extern struct mark __start_raid_marks[] __attribute__((weak));
extern struct mark __stop_raid_marks[] __attribute__((weak));

uint32_t marks_count(void)
{
	uintptr_t from = (uintptr_t)__start_raid_marks, to = (uintptr_t)__stop_raid_marks;

	return (uint32_t)((to - from) / sizeof(struct mark));
}

void marks_add(uint64_t *total)
{
	for (uint32_t i = 0; i < marks_count(); i++) {
		total[i] += __start_raid_marks[i].count;
	}
}

/* A mark inside an inline function exists once per file: it is reached when one of them is. */
static int reached(const uint64_t *total, uint32_t at)
{
	for (uint32_t i = 0; i < marks_count(); i++) {
		if (total[i] && !strcmp(__start_raid_marks[i].name, __start_raid_marks[at].name)) {
			return 1;
		}
	}
	return 0;
}

uint32_t marks_report(const uint64_t *total, FILE *out, enum marks_detail detail)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < marks_count(); i++) {
		if (!reached(total, i)) {
			missing++;
			if (detail != MARKS_COUNT) {
				fprintf(out, "  mark not reached: %s\n",
					__start_raid_marks[i].name);
			}
		} else if (detail == MARKS_ALL) {
			fprintf(out, "  %12llu %s\n", (unsigned long long)total[i],
				__start_raid_marks[i].name);
		}
	}
	fprintf(out, "marks: %u of %u reached\n", marks_count() - missing, marks_count());
	return missing;
}
