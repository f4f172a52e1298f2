/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which copy a read takes (rule 4). Hard conditions first: the bytes are in sync on the member, and
 * none of them is in its bad-block list. A member that is only being rebuilt comes after all
 * others, with what it has already. Then, where copies may differ, there is no choice: the lowest
 * slot, always. Elsewhere the load is spread: members that hang or are write-mostly last; then the
 * shortest queue; then a stream goes on where it was.
 */
#include "raid/base/bytes.h"
#include "raid/base/mark.h"
#include "raid/shard.h"

bool choose_unsynced(const struct shard *sh, const struct geo_piece *p)
{
	return p->copies > 1 && view_unsynced(sh->view, p->addr, p->addr + p->len);
}

/*
 * How much of [0, len) of a copy is readable from its start, in whole units. If nothing is, *most
 * becomes no more than what is listed there: behind it the choice is open again, so that the copy
 * taken is a property of the block and not of the request around it.
 */
static uint64_t readable(const struct shard *sh, const struct view_slot *vs, uint64_t maddr,
			 uint64_t len, uint64_t *most)
{
	uint64_t unit = sh->view->unit, n;
	struct bb_range hit;

	if (!vs->bad || !bb_find(vs->bad, maddr, len, &hit)) {
		return len;
	}
	MARK(choose_listed);
	n = round_down_u64(hit.maddr - maddr, unit);
	if (!n) {
		*most = min_u64(*most, round_up_u64(hit.maddr + hit.len - maddr, unit));
	}
	return n;
}

/* Lower is better; the classes never mix: being rebuilt, lateness, write-mostly, queue, distance.
 */
struct cost {
	uint32_t class, queue;
	uint64_t distance;
};

static bool cheaper(const struct cost *a, const struct cost *b)
{
	if (a->class != b->class) {
		return a->class < b->class;
	}
	if (a->queue != b->queue) {
		return a->queue < b->queue;
	}
	return a->distance < b->distance;
}

enum { REBUILT = RAID_SLOTS_MAX }; /* added to the class */

static struct cost cost_of(const struct shard *sh, uint32_t slot, uint64_t maddr, uint64_t len)
{
	const struct view_slot *vs = &sh->view->slot[slot];
	const struct iop_member *m = &sh->iop->member[vs->member];
	struct cost c = {
		.class = (sh->late[vs->member] ? 2 : 0) + (vs->write_mostly ? 1 : 0),
		.queue = m->in_flight,
		.distance = maddr > m->head ? maddr - m->head : m->head - maddr,
	};

	/* Small reads of a stream stay with a disk that seeks unless others have clearly less to
	 * do. Large ones gain more from an idle mirror than a seek costs. */
	if (vs->rotational && len < SHARD_STREAM && !c.distance && c.queue) {
		c.queue--;
	}
	return c;
}

int choose_copy(const struct shard *sh, const struct geo_piece *p, uint32_t tried, uint64_t *len)
{
	bool fixed = choose_unsynced(sh, p);
	uint64_t most = UINT64_MAX;
	struct cost best = {0};
	int found = -1;

	for (uint32_t i = 0; i < p->copies; i++) {
		uint32_t slot = p->copy[i].slot;
		const struct view_slot *vs = &sh->view->slot[slot];
		bool rebuilt = view_rebuilt(sh->view, slot, p->copy[i].maddr, p->len);
		struct cost c;
		uint64_t n;

		if ((!vs->in_sync && !rebuilt) || tried >> i & 1) {
			continue;
		}
		n = readable(sh, vs, p->copy[i].maddr, p->len, &most);
		if (!n) {
			continue;
		}
		if (p->copies == 1) {
			*len = n;
			return 0;
		}
		if (fixed) {
			c = (struct cost){.class = slot};
		} else {
			c = cost_of(sh, slot, p->copy[i].maddr, n);
		}
		c.class += rebuilt ? REBUILT : 0;
		if (found < 0 || cheaper(&c, &best)) {
			best = c;
			found = (int)i;
			*len = n;
		}
	}
	*len = found < 0 ? 0 : min_u64(*len, most);
	return found;
}
