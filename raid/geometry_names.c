/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of levels and layouts, as mdadm prints and takes them. Parity layouts have names here too:
 * what this version cannot run it can still describe.
 */
#include "raid/geometry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name {
	const char *text;
	int number;
};

/* The first name of a number is the one that is printed. */
static const struct name levels[] = {
	{"linear", RAID_LEVEL_LINEAR}, {"raid0", RAID_LEVEL_0},
	{"0", RAID_LEVEL_0},	       {"stripe", RAID_LEVEL_0},
	{"raid1", RAID_LEVEL_1},       {"1", RAID_LEVEL_1},
	{"mirror", RAID_LEVEL_1},      {"raid4", RAID_LEVEL_4},
	{"4", RAID_LEVEL_4},	       {"raid5", RAID_LEVEL_5},
	{"5", RAID_LEVEL_5},	       {"raid6", RAID_LEVEL_6},
	{"6", RAID_LEVEL_6},	       {"raid10", RAID_LEVEL_10},
	{"10", RAID_LEVEL_10},	       {NULL, 0},
};

static const struct name raid0_layouts[] = {
	{"original", GEO_RAID0_ORIGINAL},
	{"alternate", GEO_RAID0_ALTERNATE},
	{"unknown", GEO_RAID0_UNKNOWN},
	{"dangerous", GEO_RAID0_UNKNOWN},
	{NULL, 0},
};

static const struct name raid5_layouts[] = {
	{"left-asymmetric", 0},
	{"la", 0},
	{"right-asymmetric", 1},
	{"ra", 1},
	{"left-symmetric", 2},
	{"ls", 2},
	{"right-symmetric", 3},
	{"rs", 3},
	{"parity-first", 4},
	{"parity-last", 5},
	{NULL, 0},
};

/* Beside those of RAID 5. */
static const struct name raid6_layouts[] = {
	{"ddf-zero-restart", 8},   {"ddf-N-restart", 9},       {"ddf-N-continue", 10},
	{"left-asymmetric-6", 16}, {"right-asymmetric-6", 17}, {"left-symmetric-6", 18},
	{"right-symmetric-6", 19}, {"parity-first-6", 20},     {NULL, 0},
};

static const char *find_name(const struct name *n, int number)
{
	for (; n->text; n++) {
		if (n->number == number) {
			return n->text;
		}
	}
	return NULL;
}

static int find_number(const struct name *n, const char *text, int *out)
{
	for (; n->text; n++) {
		if (!strcmp(n->text, text)) {
			*out = n->number;
			return 0;
		}
	}
	return -EINVAL;
}

const char *geo_level_name(enum raid_level level)
{
	const char *name = find_name(levels, level);

	return name ? name : "unknown";
}

int geo_level_parse(const char *text, enum raid_level *out)
{
	int number, err = find_number(levels, text, &number);

	if (!err) {
		*out = (enum raid_level)number;
	}
	return err;
}

/* ---- RAID 10: near, far or offset, far sets ------------------------------------------------ */

enum { R10_OFFSET = 0x10000, R10_OLD_SETS = 0x20000, R10_SETS = 0x40000 };

static void raid10_name(uint32_t layout, char buf[GEO_LAYOUT_NAME_BYTES])
{
	uint32_t near = layout & 0xff, far = layout >> 8 & 0xff, bits = layout >> 16;
	const char *kind = layout & R10_OFFSET ? "offset" : "far";
	const char *sets = layout & R10_SETS ? ", sets" : layout & R10_OLD_SETS ? ", old-sets" : "";

	if (!near || !far || bits > 5 || (far == 1 && bits)) {
		snprintf(buf, GEO_LAYOUT_NAME_BYTES, "0x%x", layout);
	} else if (far == 1) {
		snprintf(buf, GEO_LAYOUT_NAME_BYTES, "near=%u", near);
	} else if (near == 1) {
		snprintf(buf, GEO_LAYOUT_NAME_BYTES, "%s=%u%s", kind, far, sets);
	} else {
		snprintf(buf, GEO_LAYOUT_NAME_BYTES, "near=%u, %s=%u%s", near, kind, far, sets);
	}
}

/* Take a word off the front of *text if it is there. */
static bool take(const char **text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*text, word, n)) {
		return false;
	}
	*text += n;
	return true;
}

/* "=2" or "2": a number of copies, 1 to 255. */
static bool take_copies(const char **text, uint32_t *copies)
{
	unsigned long n;
	char *end;

	take(text, "=");
	if (**text < '0' || **text > '9') {
		return false;
	}
	n = strtoul(*text, &end, 10);
	*text = end;
	*copies = (uint32_t)n;
	return n >= 1 && n <= 255;
}

static int raid10_parse(const char *text, uint32_t *out)
{
	uint32_t near = 0, far = 0, bits = 0;

	do {
		while (*text == ' ') {
			text++;
		}
		if (take(&text, "sets")) {
			bits |= R10_SETS;
		} else if (take(&text, "old-sets")) {
			bits |= R10_OLD_SETS;
		} else if (!near && (take(&text, "near") || take(&text, "n"))) {
			if (!take_copies(&text, &near)) {
				return -EINVAL;
			}
		} else if (!far && (take(&text, "far") || take(&text, "f"))) {
			if (!take_copies(&text, &far)) {
				return -EINVAL;
			}
		} else if (!far && (take(&text, "offset") || take(&text, "o"))) {
			bits |= R10_OFFSET;
			if (!take_copies(&text, &far)) {
				return -EINVAL;
			}
		} else {
			return -EINVAL;
		}
	} while (take(&text, ","));
	if (*text || !(near || far) || bits == (R10_SETS | R10_OLD_SETS)) {
		return -EINVAL;
	}
	*out = (near ? near : 1) | (far ? far : 1) << 8 | bits;
	return 0;
}

/* ---- layouts of all levels ----------------------------------------------------------------- */

const char *geo_layout_name(enum raid_level level, uint32_t layout, char buf[GEO_LAYOUT_NAME_BYTES])
{
	const char *name = NULL;

	switch (level) {
	case RAID_LEVEL_0:
		name = find_name(raid0_layouts, (int)layout);
		break;
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		name = find_name(raid5_layouts, (int)layout);
		if (!name && level == RAID_LEVEL_6) {
			name = find_name(raid6_layouts, (int)layout);
		}
		break;
	case RAID_LEVEL_10:
		raid10_name(layout, buf);
		return buf;
	default:
		name = "";
		break;
	}
	if (name) {
		snprintf(buf, GEO_LAYOUT_NAME_BYTES, "%s", name);
	} else {
		snprintf(buf, GEO_LAYOUT_NAME_BYTES, "0x%x", layout);
	}
	return buf;
}

int geo_layout_parse(enum raid_level level, const char *text, uint32_t *out)
{
	int number, err;

	switch (level) {
	case RAID_LEVEL_0:
		err = find_number(raid0_layouts, text, &number);
		break;
	case RAID_LEVEL_5:
	case RAID_LEVEL_6:
		err = find_number(raid5_layouts, text, &number);
		if (err && level == RAID_LEVEL_6) {
			err = find_number(raid6_layouts, text, &number);
		}
		break;
	case RAID_LEVEL_10:
		return raid10_parse(text, out);
	default:
		return -EINVAL;
	}
	if (!err) {
		*out = (uint32_t)number;
	}
	return err;
}
