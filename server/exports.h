/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of exports: what clients may ask for by name. Owned and read by the control plane's
 * thread only; an export itself stays where it is and unchanged until the last session that uses it
 * has ended, so loops read it without locks.
 */
#ifndef SERVER_EXPORTS_H
#define SERVER_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/access.h"
#include "server/export.h"

struct export_table {
	struct export **item;
	uint32_t count;
	const struct export *chosen; /* the configured default, or NULL */
};

/*
 * An export of an opened array: size, flags and block sizes come from it. name and description are
 * copied; without a description one is made from the array's level and members. NULL: no memory.
 */
struct export *export_create(const char *name, const char *description, struct array_instance *ai,
			     bool read_only);
void export_free(struct export *e);

/* From now on only peers that one of the rules fits may use it; they are copied. 0 or -ENOMEM. */
int export_restrict(struct export *e, const struct access_rule *rule, uint32_t rules);

/* May this peer use it? */
bool export_allows(const struct export *e, const struct access_peer *peer);

/* The table takes the export over. 0, -EEXIST (the name is taken; e stays the caller's), -ENOMEM.
 */
int exports_add(struct export_table *t, struct export *e, bool is_default);

/* Takes it out, the caller owns it again: sessions may still be using it. */
void exports_remove(struct export_table *t, struct export *e);

/* Free the table and every export in it. */
void exports_release(struct export_table *t);

/* What the empty name means: the configured default, else the only export, else NULL. */
const struct export *exports_default(const struct export_table *t);

/* By name as it came from the wire (no NUL at its end); the empty name asks for the default. */
const struct export *exports_find(const struct export_table *t, const void *name, size_t len);

#endif
