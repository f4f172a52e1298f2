/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Putting rows back (rule 6). A write failed twice on a member that cannot be failed, because
 * something else would be lost with it. What other members of the row hold is new already, so a
 * block that is missing and known by parity alone would change behind its owner's back. The stripe
 * still holds the old blocks: they are written back, and the request gets the error.
 *
 * Where the old blocks are not at hand (two members failed in the same moment), or one can be
 * neither written nor shown to be as it was, the row is named and the array takes no more writes.
 */
#include <errno.h>

#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"

/* Rows of which every block that was to be written is known as it was. */
static stripe_mask known(const struct stripe *st)
{
	stripe_mask rows = st->undo;

	for (uint32_t i = 0; i < st->blocks; i++) {
		rows &= (stripe_mask)(st->have[i] | ~st->write[i]);
	}
	return rows;
}

/* Without parity the blocks of a row do not depend on each other. */
static stripe_mask with_parity(const struct shard *sh, const struct stripe *st)
{
	stripe_mask rows = 0;

	for (uint32_t sub = 0; sub < sh->stripes.subs; sub++) {
		if (st->undo >> sub & 1 && st->method[sub] != STRIPE_DATA_ONLY) {
			rows |= (stripe_mask)(1u << sub);
		}
	}
	return rows;
}

void stripe_undo(struct shard *sh, struct stripe *st)
{
	stripe_fail_frags(sh, st, st->undo, -EIO);
	st->undo = with_parity(sh, st);
	st->lost = st->undo & (stripe_mask)~known(st);
	st->undo &= (stripe_mask)~st->lost;
	MARK(stripe_undo);
	stripe_set_state(st, ST_UNDO);
	if (!stripe_emit_undo(sh, st)) {
		stripe_undone(sh, st);
	}
}

void stripe_undone(struct shard *sh, struct stripe *st)
{
	if (!st->lost) {
		return;
	}
	MARK(stripe_row_inconsistent);
	events_add(sh->events, (struct raid_event){
				       .type = RAID_EV_ROW_INCONSISTENT,
				       .member = UINT32_MAX,
				       .op = RAID_IO_WRITE,
				       .maddr = st->row_no * st->row.data * sh->stripes.chunk,
				       .len = (uint64_t)st->row.data * sh->stripes.chunk,
				       .err = -EIO,
				       .why = "a write failed half way and could not be undone",
			       });
	sh->ask->row_inconsistent = true;
}
