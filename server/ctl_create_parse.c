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
	OPT_JSON
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

static int count_option(const char *value, uint32_t *count)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || n == 0 || n > RAID_SLOTS_MAX) {
		return bad("raid-devices", value, "1 to 64");
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

/* One option; *layout is looked at when the level is known. */
static int take(int c, const char *value, struct create_args *a, const char **layout)
{
	struct create_params *p = &a->params;

	switch (c) {
	case 'l':
		a->have_level = geo_level_parse(value, &p->level) == 0;
		return a->have_level ? CTL_OK : bad("level", value, "linear, 0, 1, 10");
	case 'p':
		*layout = value;
		return CTL_OK;
	case 'c':
		return chunk_option(value, p);
	case 'n':
		return count_option(value, &a->raid_devices);
	case 'e':
		return metadata_option(value, p);
	case 'N':
		a->name = value;
		return CTL_OK;
	case OPT_HOMEHOST:
		a->homehost = value;
		return CTL_OK;
	case 'z':
		return strcmp(value, "max") == 0 ? CTL_OK
						 : size_option("size", value, &p->size_sectors);
	case 'u':
		return sb_uuid_parse(value, p->set_uuid) == 0
			       ? CTL_OK
			       : bad("uuid", value, "32 hexadecimal digits in groups");
	case OPT_DATA_OFFSET:
		return size_option("data-offset", value, &p->data_offset_sectors);
	case OPT_ASSUME_CLEAN:
		p->assume_clean = true;
		return CTL_OK;
	case 'f':
		a->force++;
		return CTL_OK;
	case OPT_SPARSE:
		a->sparse = true;
		return CTL_OK;
	case OPT_FILE_SIZE:
		return file_size_option(value, &a->file_bytes);
	case OPT_CLAIM:
		a->claim = value ? value : CTL_MDADM_CONF;
		return CTL_OK;
	case OPT_JSON:
		a->json = true;
		return CTL_OK;
	default:
		return CTL_USAGE;
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

static int take_members(int argc, char **argv, struct create_args *a)
{
	if (argc == 0 || argc > RAID_SLOTS_MAX) {
		return ctl_usage("create", "name 1 to %d members", RAID_SLOTS_MAX);
	}
	a->members = a->params.slots = (uint32_t)argc;
	if (a->raid_devices && a->raid_devices != a->members) {
		return ctl_usage("create",
				 "%u members named, --raid-devices=%u; say \"missing\" "
				 "for a slot that stays empty",
				 a->members, a->raid_devices);
	}
	for (uint32_t i = 0; i < a->members; i++) {
		bool missing = strcmp(argv[i], "missing") == 0;

		a->params.dev[i].missing = missing;
		a->member[i].path = missing ? NULL : argv[i];
		a->member[i].dev.fd = -1;
	}
	return CTL_OK;
}

int create_parse(int argc, char **argv, struct create_args *a)
{
	const char *layout = NULL;
	int c, rc;

	a->params.version = SB_V1_2;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "l:p:c:n:e:N:z:u:f", options, NULL)) != -1) {
		rc = c == '?' ? ctl_bad_option("create", argv) : take(c, optarg, a, &layout);
		if (rc != CTL_OK) {
			return rc;
		}
	}
	if (!a->have_level) {
		return ctl_usage("create", "--level is needed");
	}
	if (layout) {
		if (geo_layout_parse(a->params.level, layout, &a->params.layout) < 0) {
			return bad("layout", layout, "not a layout of this level");
		}
		a->params.have_layout = true;
	}
	rc = set_name(a);
	return rc == CTL_OK ? take_members(argc - optind, argv + optind, a) : rc;
}
