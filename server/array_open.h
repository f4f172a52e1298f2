/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From what the user names to an array instance ready for a loop: open and lock the members, read
 * them under the lock, decide (asm_decide or asm_build). Used by the daemon and by `nbd-raidctl
 * assemble`.
 */
#ifndef SERVER_ARRAY_OPEN_H
#define SERVER_ARRAY_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device.h"
#include "server/export.h"

struct array_spec {
	const char *name;
	const char *const *path;
	uint32_t paths;
	bool read_only, force, force_write; /* as asm_options has them */
	struct device_options device;	    /* its read_only is set from the above */
	bool have_uuid;
	uint8_t uuid[16];
	enum geo_raid0_layout raid0_layout;

	/* --build: members without superblock, in slot order. Made read-only, unless forced, when
	 * one carries a superblock or signature. */
	bool build;
	enum raid_level level;
	bool have_layout;
	uint32_t layout;
	uint64_t chunk_bytes, offset_bytes; /* 0: default / none */
};

/*
 * Returns 0 with *out ready (ai->raid still NULL), or -errno with one line in why that says what is
 * wrong and what to do: the text after "refused: ". *out may come back read-only though the spec
 * did not ask (ASM_START_READONLY): it is refused instead, offering --readonly, because a client
 * must not find a read-only disk by surprise.
 *
 * A device that is gone (ENOENT, ENXIO, ENODEV, EIO) counts as an absent member, named in
 * assembly->note; with build it is an error. member[i].fd is -1 for absent, unreadable and foreign
 * candidates. The daemon logs assembly->note.
 */
int array_open(const struct array_spec *spec, struct array_instance **out,
	       char why[RAID_WHY_BYTES]);
void array_close(struct array_instance *ai);

#endif
