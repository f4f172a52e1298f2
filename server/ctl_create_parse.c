/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of nbd-raidctl create, in mdadm's words and units. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/ctl_create.h"

enum {
	OPT_HOMEHOST = 256,
	OPT_DATA_OFFSET,
	OPT_ASSUME_CLEAN,
	OPT_SPARSE,
	OPT_FILE_SIZE,
	OPT_CLAIM,
	OPT_BITMAP_CHUNK,
	OPT_FAILFAST,
	OPT_WRITE_ZEROES,
	OPT_JSON
};

/* What follows a plain word: the next member has these flags, as with mdadm. */
struct words {
	const char *layout; /* looked at when the level is known */
	uint8_t devflags;
};

static const struct option options[] = {{"level", required_argument, NULL, 'l'},
					{"layout", required_argument, NULL, 'p'},
					{"parity", required_argument, NULL, 'p'},
					{"chunk", required_argument, NULL, 'c'},
					{"raid-devices", required_argument, NULL, 'n'},
					{"metadata", required_argument, NULL, 'e'},
					{"name", required_argument, NULL, 'N'},
					{"homehost", required_argument, NULL, OPT_HOMEHOST},
					{"size", required_argument, NULL, 'z'},
					{"uuid", required_argument, NULL, 'u'},
					{"data-offset", required_argument, NULL, OPT_DATA_OFFSET},
					{"assume-clean", no_argument, NULL, OPT_ASSUME_CLEAN},
					{"force", no_argument, NULL, 'f'},
					{"sparse", no_argument, NULL, OPT_SPARSE},
					{"file-size", required_argument, NULL, OPT_FILE_SIZE},
					{"spare-devices", required_argument, NULL, 'x'},
					{"bitmap", required_argument, NULL, 'b'},
					{"bitmap-chunk", required_argument, NULL, OPT_BITMAP_CHUNK},
					{"write-mostly", no_argument, NULL, 'W'},
					{"failfast", no_argument, NULL, OPT_FAILFAST},
					{"write-zeroes", no_argument, NULL, OPT_WRITE_ZEROES},
					{"claim", optional_argument, NULL, OPT_CLAIM},
					{"json", no_argument, NULL, OPT_JSON},
					{NULL, 0, NULL, 0}};

static int bad(const char *option, const char *value, const char *hint)
{
	return ctl_usage("create", "--%s=%s: %s", option, value, hint);
}

static int size_option(const char *option, const char *value, uint64_t *sectors)
{
	uint64_t bytes;

	if (ctl_parse_size(value, &bytes) < 0 || bytes == 0 || bytes % RAID_SECTOR_BYTES) {
		return bad(option, value, "a size in KiB, or with a suffix K, M, G, T");
	}
	*sectors = bytes / RAID_SECTOR_BYTES;
	return CTL_OK;
}

static int chunk_option(const char *value, struct create_params *p)
{
	uint64_t sectors;
	int rc = size_option("chunk", value, &sectors);

	if (rc == CTL_OK && sectors > UINT32_MAX) {
		return bad("chunk", value, "too large");
	}
	if (rc == CTL_OK) {
		p->chunk_sectors = (uint32_t)sectors;
	}
	return rc;
}

static int metadata_option(const char *value, struct create_params *p)
{
	static const struct {
		const char *text;
		enum sb_version version;
	} names[] = {{"1.2", SB_V1_2},
		     {"1", SB_V1_2},
		     {"default", SB_V1_2},
		     {"1.0", SB_V1_0},
		     {"1.1", SB_V1_1}};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(value, names[i].text) == 0) {
			p->version = names[i].version;
			return CTL_OK;
		}
	}
	return bad("metadata", value, "1.0, 1.1 and 1.2 can be created");
}

static int count_option(const char *option, const char *value, uint32_t *count)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || n == 0 || n > RAID_SLOTS_MAX) {
		return bad(option, value, "1 to 64");
	}
	*count = (uint32_t)n;
	return CTL_OK;
}

static int file_size_option(const char *value, uint64_t *bytes)
{
	if (ctl_parse_size(value, bytes) < 0 || *bytes == 0) {
		return bad("file-size", value, "a size in KiB, or with a suffix K, M, G, T");
	}
	return CTL_OK;
}

static int bitmap_option(const char *value, struct create_args *a)
{
	a->have_bitmap = true;
	a->params.bitmap = strcmp(value, "internal") == 0;
	return a->params.bitmap || strcmp(value, "none") == 0
		       ? CTL_OK
		       : bad("bitmap", value, "internal or none");
}

static int bitmap_chunk_option(const char *value, struct create_params *p)
{
	uint64_t bytes;

	if (ctl_parse_size(value, &bytes) < 0 || bytes == 0 || bytes > UINT32_MAX) {
		return bad("bitmap-chunk", value, "a size in KiB, or with a suffix K, M, G");
	}
	p->bitmap_chunk_bytes = (uint32_t)bytes;
	return CTL_OK;
}

static int take_member(const char *path, struct create_args *a, const struct words *w)
{
	bool missing = strcmp(path, "missing") == 0;

	if (a->members == RAID_MEMBERS_MAX) {
		return ctl_usage("create", "too many members: at most %d", RAID_MEMBERS_MAX);
	}
	a->params.dev[a->members].missing = missing;
	a->params.dev[a->members].devflags = w->devflags;
	a->member[a->members].path = missing ? NULL : path;
	a->member[a->members++].dev.fd = -1;
	return CTL_OK;
}

/* What the array is to be. */
static int take_shape(int c, const char *value, struct create_args *a, struct words *w)
{
	struct create_params *p = &a->params;

	switch (c) {
	case 'l':
		a->have_level = geo_level_parse(value, &p->level) == 0;
		return a->have_level ? CTL_OK : bad("level", value, "linear, 0, 1, 4, 5, 6, 10");
	case 'p':
		w->layout = value;
		return CTL_OK;
	case 'c':
		return chunk_option(value, p);
	case 'n':
		return count_option("raid-devices", value, &a->raid_devices);
	case 'x':
		return count_option("spare-devices", value, &a->spare_devices);
	case 'e':
		return metadata_option(value, p);
	case 'z':
		return strcmp(value, "max") == 0 ? CTL_OK
						 : size_option("size", value, &p->size_sectors);
	case 'u':
		return sb_uuid_parse(value, p->set_uuid) == 0
			       ? CTL_OK
			       : bad("uuid", value, "32 hexadecimal digits in groups");
	case 'b':
		return bitmap_option(value, a);
	case OPT_BITMAP_CHUNK:
		return bitmap_chunk_option(value, p);
	case OPT_DATA_OFFSET:
		return size_option("data-offset", value, &p->data_offset_sectors);
	case OPT_ASSUME_CLEAN:
		p->assume_clean = true;
		return CTL_OK;
	default:
		return CTL_USAGE;
	}
}

/* How it is made, and from what. */
static int take(int c, const char *value, struct create_args *a, struct words *w)
{
	switch (c) {
	case 1:
		return take_member(value, a, w);
	case 'W':
		w->devflags |= SB_DEV_WRITE_MOSTLY;
		return CTL_OK;
	case OPT_FAILFAST:
		w->devflags |= SB_DEV_FAIL_FAST;
		return CTL_OK;
	case 'N':
		a->name = value;
		return CTL_OK;
	case OPT_HOMEHOST:
		a->homehost = value;
		return CTL_OK;
	case 'f':
		a->force++;
		return CTL_OK;
	case OPT_SPARSE:
		a->sparse = true;
		return CTL_OK;
	case OPT_FILE_SIZE:
		return file_size_option(value, &a->file_bytes);
	case OPT_WRITE_ZEROES:
		a->write_zeroes = true;
		return CTL_OK;
	case OPT_CLAIM:
		a->claim = value ? value : CTL_MDADM_CONF;
		return CTL_OK;
	case OPT_JSON:
		a->json = true;
		return CTL_OK;
	default:
		return take_shape(c, value, a, w);
	}
}

/* mdadm's rule: HOST:NAME if there is room and the name has no ':' of its own. */
static int set_name(struct create_args *a)
{
	char host[65] = "", full[128];
	const char *name = a->name ? a->name : "";
	size_t room = sizeof a->params.name - 1;

	if (strlen(name) >= room) { /* 31 bytes at most, as mdadm */
		return bad("name", name, "at most 31 bytes");
	}
	if (a->homehost) {
		snprintf(host, sizeof host, "%s",
			 strcmp(a->homehost, "none") == 0 ? "" : a->homehost);
	} else if (gethostname(host, sizeof host - 1) < 0) {
		host[0] = '\0';
	}
	snprintf(full, sizeof full, "%s:%s", host, name);
	if (!*name || !*host || strchr(name, ':') || strlen(full) >= room) {
		memcpy(a->params.name, name, strlen(name) + 1);
	} else {
		memcpy(a->params.name, full, strlen(full) + 1);
	}
	return CTL_OK;
}

/* Which of the members are spares: those said to be, or those beyond --raid-devices. */
static int count_members(struct create_args *a)
{
	uint32_t slots = a->raid_devices, spares = a->spare_devices;

	if (a->members <= spares) {
		return ctl_usage("create", "name the members");
	}
	slots = slots ? slots : a->members - spares;
	spares = spares || slots > a->members ? spares : a->members - slots;
	if (slots > RAID_SLOTS_MAX) {
		return ctl_usage("create",
				 "%u slots: at most %d; --spare-devices=N makes the last "
				 "N spares",
				 slots, RAID_SLOTS_MAX);
	}
	if (slots + spares != a->members) {
		return ctl_usage("create",
				 "%u members named, --raid-devices=%u, --spare-devices=%u; say "
				 "\"missing\" for a slot that stays empty",
				 a->members, slots, spares);
	}
	for (uint32_t i = slots; i < a->members; i++) {
		if (a->params.dev[i].missing) {
			return ctl_usage("create", "a spare cannot be missing");
		}
	}
	a->params.slots = slots;
	a->params.spares = spares;
	return CTL_OK;
}

int create_parse(int argc, char **argv, struct create_args *a)
{
	struct words w = {0};
	int c, rc;

	a->params.version = SB_V1_2;
	opterr = 0;
	/* "-": members come in their order among the options, because flags stand before them */
	while ((c = getopt_long(argc, argv, "-l:p:c:n:x:e:N:z:u:b:fW", options, NULL)) != -1) {
		rc = c == '?' ? ctl_bad_option("create", argv) : take(c, optarg, a, &w);
		if (rc != CTL_OK) {
			return rc;
		}
	}
	for (; optind < argc; optind++) { /* after -- */
		rc = take_member(argv[optind], a, &w);
		if (rc != CTL_OK) {
			return rc;
		}
	}
	if (!a->have_level) {
		return ctl_usage("create", "--level is needed");
	}
	if (w.layout) {
		if (geo_layout_parse(a->params.level, w.layout, &a->params.layout) < 0) {
			return bad("layout", w.layout, "not a layout of this level");
		}
		a->params.have_layout = true;
	}
	if (a->params.bitmap_chunk_bytes && !a->params.bitmap) {
		if (a->have_bitmap) {
			return ctl_usage("create", "--bitmap-chunk needs --bitmap=internal");
		}
		a->params.bitmap = a->have_bitmap = true;
	}
	if (!a->have_bitmap) {
		a->params.bitmap = a->params.level > 0; /* has redundancy */
	}
	rc = set_name(a);
	return rc == CTL_OK ? count_members(a) : rc;
}
