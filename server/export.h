/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is served: an *array instance* (the engine's array with its opened members and the loop that
 * owns it) and the *exports* that name it. Built by the control plane before the listeners open;
 * immutable while serving, but for members that come and go, so both planes read it without locks.
 */
#ifndef SERVER_EXPORT_H
#define SERVER_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/assemble.h"
#include "raid/raid.h"

/* An opened member device. The file descriptor carries the lock (O_EXCL or flock) and all I/O. */
struct member_dev {
	char *path;
	int fd;
	bool direct;	     /* opened with O_DIRECT */
	bool volatile_cache; /* test members: writes are kept in the process until FLUSH or FUA */
	struct raid_member_props props;
};

struct array_instance {
	char *name;
	struct assembly *assembly;
	uint8_t *bitmap_bits; /* as raid_config wants them; NULL: all count as set, or no bitmap */
	struct raid_array *raid;
	bool read_only;
	/* Of the control plane's thread while the array runs. Place = raid_io.member; those of
	 * assembly->member come first. path NULL: nobody has the place. */
	uint32_t members;	   /* the highest place in use + 1 */
	struct member_dev *member; /* RAID_MEMBERS_MAX */
	struct loop *loop;	   /* owner; only its thread calls raid_*() */
	uint32_t index;		   /* dense, for the loops' tables */
	struct loop_array *plane;  /* the data plane's, from loop_add_array to loop_remove_array */
};

struct access_rule;

struct export
{
	char *name; /* UTF-8, ≤ 4096 bytes */
	char *description;
	struct array_instance *array;
	bool read_only;
	uint64_t size;	/* bytes */
	uint16_t flags; /* NBD transmission flags without DF (that depends on the session) */
	uint32_t block_min, block_preferred, block_max;

	/* The control plane's alone: who may use it. */
	bool restricted; /* only peers that a rule fits */
	struct access_rule *allow;
	uint32_t allows;
	uint32_t sessions_max; /* at once; 0: no limit of its own */
};

#endif
