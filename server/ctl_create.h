/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-raidctl create: what its parts share (ctl_create_*.c). */
#ifndef SERVER_CTL_CREATE_H
#define SERVER_CTL_CREATE_H

#include "raid/create.h"
#include "server/ctl_common.h"

struct create_member {
	const char *path; /* NULL: missing */
	struct member_dev dev;
	bool made;     /* by us, with --file-size: removed again if nothing comes of it */
	bool regular;  /* a file: its holes are filled unless --sparse */
	char old[128]; /* what is there and gets lost, empty if nothing */
};

struct create_args {
	uint32_t force; /* how often it was said */
	bool sparse, json;
	bool write_zeroes; /* make all data zero, so that nothing need be made equal */
	bool have_bitmap;  /* --bitmap was said */
	uint32_t spare_devices;
	uint64_t file_bytes;   /* 0: files must exist */
	uint32_t raid_devices; /* as the user counts them, 0 if not said */
	const char *name, *homehost;
	const char *claim; /* NULL, or the mdadm.conf to claim the array in */
	bool have_level;
	struct create_params params;
	struct create_plan plan;
	uint32_t members; /* slots, then spares: params.dev[] is in the same order */
	struct create_member member[RAID_MEMBERS_MAX];
};

/* Command line to args; CTL_OK or CTL_USAGE. */
int create_parse(int argc, char **argv, struct create_args *a);

/* Make the data of every slot's member zero (ctl_create_zero.c). Returns CTL_OK or CTL_REFUSED. */
int create_zero_data(struct create_args *a);

/* Say what will be done. */
void create_print_plan(const struct create_args *a);
json_t *create_plan_json(const struct create_args *a);

#endif
