/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports and their table. Everything a client is told about an export is computed here, once, from
 * the array (proto.md "Transmission flags", "Block size constraints"). No protocol, no I/O.
 */
#include "server/exports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/wire.h"

enum {
	BLOCK_MIN = 1, /* the engine reads, modifies and writes below a member's block */
	BLOCK_PREFERRED_MIN = 4096,
	BLOCK_MAX = 32 << 20,
};

static bool rotational(const struct array_instance *ai)
{
	for (uint32_t i = 0; i < ai->members; i++) {
		if (ai->member[i].props.rotational) {
			return true;
		}
	}
	return false;
}

static uint16_t transmission_flags(const struct array_instance *ai, bool read_only)
{
	/* One engine serves all connections of an array, so a FLUSH on any of them covers all. */
	uint16_t flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_CACHE |
			 NBD_FLAG_CAN_MULTI_CONN;

	if (rotational(ai)) {
		flags |= NBD_FLAG_ROTATIONAL;
	}
	if (read_only) {
		return flags | NBD_FLAG_READ_ONLY;
	}
	return flags | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES |
	       NBD_FLAG_SEND_FAST_ZERO;
}

/* A chunk, so that what a client sends fills chunks; a power of two as the protocol wants. */
static uint32_t block_preferred(const struct geometry *g)
{
	uint64_t chunk = (uint64_t)g->p.chunk_sectors * RAID_SECTOR_BYTES;
	uint64_t size = BLOCK_PREFERRED_MIN;

	while (size < chunk && size < BLOCK_MAX) {
		size *= 2;
	}
	return (uint32_t)size;
}

static char *describe(const struct array_instance *ai)
{
	const struct geometry *g = &ai->assembly->geometry;
	char *text;
	int n;

	if (g->p.chunk_sectors) {
		n = asprintf(&text, "%s array of %u members, chunk %u KiB",
			     geo_level_name(g->p.level), g->p.slots, g->p.chunk_sectors / 2);
	} else {
		n = asprintf(&text, "%s array of %u members", geo_level_name(g->p.level),
			     g->p.slots);
	}
	return n < 0 ? NULL : text;
}

struct export *export_create(const char *name, const char *description, struct array_instance *ai,
			     bool read_only)
{
	const struct geometry *g = &ai->assembly->geometry;
	struct export *e = calloc(1, sizeof *e);

	if (!e) {
		return NULL;
	}
	CHECK(g->array_sectors <= INT64_MAX / RAID_SECTOR_BYTES);
	e->name = strdup(name);
	e->description = description ? strdup(description) : describe(ai);
	e->array = ai;
	e->read_only = read_only || ai->read_only;
	e->size = g->array_sectors * RAID_SECTOR_BYTES;
	e->flags = transmission_flags(ai, e->read_only);
	e->block_min = BLOCK_MIN;
	e->block_preferred = block_preferred(g);
	e->block_max = BLOCK_MAX;
	if (!e->name || !e->description) {
		export_free(e);
		return NULL;
	}
	return e;
}

void export_free(struct export *e)
{
	if (e) {
		free(e->name);
		free(e->description);
		free(e->allow);
		free(e);
	}
}

int export_restrict(struct export *e, const struct access_rule *rule, uint32_t rules)
{
	e->restricted = true;
	e->allow = calloc(rules + 1, sizeof *e->allow);
	if (!e->allow) {
		return -ENOMEM;
	}
	if (rules) {
		memcpy(e->allow, rule, rules * sizeof *e->allow);
	}
	e->allows = rules;
	return 0;
}

bool export_allows(const struct export *e, const struct access_peer *peer)
{
	return !e->restricted || access_allows(e->allow, e->allows, peer);
}

static const struct export *by_name(const struct export_table *t, const void *name, size_t len)
{
	for (uint32_t i = 0; i < t->count; i++) {
		const char *have = t->item[i]->name;

		if (strlen(have) == len && !memcmp(have, name, len)) {
			return t->item[i];
		}
	}
	return NULL;
}

int exports_add(struct export_table *t, struct export *e, bool is_default)
{
	struct export **grown;

	if (by_name(t, e->name, strlen(e->name))) {
		return -EEXIST;
	}
	grown = reallocarray(t->item, t->count + 1, sizeof(struct export *));
	if (!grown) {
		return -ENOMEM;
	}
	t->item = grown;
	t->item[t->count++] = e;
	if (is_default) {
		t->chosen = e;
	}
	return 0;
}

void exports_remove(struct export_table *t, struct export *e)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (t->item[i] == e) {
			memmove(&t->item[i], &t->item[i + 1],
				(t->count - i - 1) * sizeof(struct export *));
			t->count--;
			break;
		}
	}
	if (t->chosen == e) {
		t->chosen = NULL;
	}
}

void exports_release(struct export_table *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		export_free(t->item[i]);
	}
	free(t->item);
	memset(t, 0, sizeof *t);
}

const struct export *exports_default(const struct export_table *t)
{
	if (t->chosen) {
		return t->chosen;
	}
	return t->count == 1 ? t->item[0] : NULL;
}

const struct export *exports_find(const struct export_table *t, const void *name, size_t len)
{
	const struct export *e = by_name(t, name, len);

	return !e && !len ? exports_default(t) : e;
}
