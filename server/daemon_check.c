/* SPDX-License-Identifier: BSD-3-Clause */
/* --check: the same opening and the same decisions as a start, then words instead of threads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raid/raid.h"
#include "server/cmdline.h"
#include "server/daemon.h"
#include "server/daemon_arrays.h"

static uint64_t array_memory(const struct array_instance *ai, const struct raid_limits *limits)
{
	struct raid_member_props *props = calloc(ai->members, sizeof *props);
	struct raid_config config = {
		.assembly = ai->assembly,
		.props = props,
		.limits = *limits,
		.read_only = ai->read_only,
	};
	uint64_t bytes;

	if (!props) {
		return 0;
	}
	for (uint32_t i = 0; i < ai->members; i++) {
		props[i] = ai->member[i].props;
	}
	bytes = raid_memory(&config);
	free(props);
	return bytes;
}

static void print_array(const struct array_instance *ai, uint64_t memory)
{
	const struct assembly *as = ai->assembly;
	const struct geometry *g = &as->geometry;

	printf("array %s: %s, %u of %u slots in sync, %" PRIu64 " bytes, chunk %u KiB, %s, "
	       "memory %" PRIu64 " MiB\n",
	       ai->name, geo_level_name(g->p.level), g->p.slots - as->degraded, g->p.slots,
	       g->array_sectors * RAID_SECTOR_BYTES, g->p.chunk_sectors / 2,
	       ai->read_only ? "read-only" : "read-write", memory >> 20);
	for (uint32_t i = 0; i < as->members; i++) {
		const struct asm_member *m = &as->member[i];

		printf("  member %s: %s", ai->member[i].path, asm_verdict_name(m->verdict));
		if (m->slot >= 0) {
			printf(", slot %d", m->slot);
		}
		printf("%s%s\n", m->why[0] ? ": " : "", m->why);
	}
	if (as->note[0]) {
		printf("  note: %s\n", as->note);
	}
}

static void print_exports(const struct config *c, const struct array_set *set)
{
	for (uint32_t i = 0; i < c->exports; i++) {
		const struct config_export *e = &c->export[i];
		const struct served *s = arrays_find(set, e->array);

		printf("export %s: array %s, %s%s\n", e->name, e->array,
		       e->read_only || s->ai->read_only ? "read-only" : "read-write",
		       e->is_default || c->exports == 1 ? ", default" : "");
	}
}

int daemon_check(const struct cmdline *cmd)
{
	const struct config *c = &cmd->config;
	struct array_set set = {0};
	char why[RAID_WHY_BYTES];
	uint64_t memory = c->loops * (c->limits.payload_bytes + c->limits.large_bytes);
	int err = arrays_open(&set, c, why);

	if (err) {
		fflush(stdout);
		fprintf(stderr, "refused: %s\n", why);
	} else {
		for (uint32_t i = 0; i < set.count; i++) {
			uint64_t bytes = array_memory(set.item[i]->ai, &c->limits.raid);

			print_array(set.item[i]->ai, bytes);
			memory += bytes;
		}
		print_exports(c, &set);
		printf("memory: at most %" PRIu64 " MiB for data, of %u loops and %u arrays\n",
		       memory >> 20, c->loops, set.count);
	}
	arrays_release(&set);
	return err ? 1 : 0;
}
