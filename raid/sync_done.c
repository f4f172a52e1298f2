/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes back to an order of the sync machine: ios, verdicts of the core about members that
 * failed one, news that members have left, reads that hang.
 */
#include "raid/sync_job.h"

#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"

/* ---- what comes back ------------------------------------------------------------------------- */

static bool there(const struct shard *sh, const struct slot *s)
{
	const struct view_slot *vs = &sh->view->slot[s->gslot];

	return vs->member == s->io.member && (vs->in_sync || vs->writes);
}

static void block_of(const struct sync_job *j, const uint8_t *buf, uint32_t *lane, uint32_t *block)
{
	uint64_t n = (uint64_t)(buf - j->memory) / SYNC_BLOCK;

	*lane = (uint32_t)(n / j->blocks);
	*block = (uint32_t)(n % j->blocks);
}

/* All blocks of an io that failed go alone in the next pass. */
static void io_again(struct sync_job *j, const struct slot *s)
{
	for (uint32_t i = 0; i < s->io.iovcnt; i++) {
		const uint8_t *buf = s->iov[i].iov_base;

		for (uint64_t off = 0; off < s->iov[i].iov_len; off += SYNC_BLOCK) {
			uint32_t lane, block;

			block_of(j, buf + off, &lane, &block);
			sync_add(j, SYNC_AGAIN, lane, block);
		}
	}
}

static void tell(struct shard *sh, const struct slot *s, enum raid_event_type type)
{
	events_add(sh->events, (struct raid_event){
				       .type = type,
				       .member = s->io.member,
				       .op = s->io.op,
				       .maddr = s->io.maddr,
				       .len = s->io.len,
				       .err = s->res,
			       });
}

/* A block cannot be read there. Elsewhere? Returns whether the io is out again. */
static bool read_elsewhere(struct shard *sh, struct sync_job *j, struct slot *s)
{
	struct sync_place at;
	uint32_t lane, block;
	uint64_t len;

	tell(sh, s, RAID_EV_READ_ERROR);
	block_of(j, s->iov[0].iov_base, &lane, &block);
	if (!sync_is_parity(sh) && sync_mirror_next(sh, j, lane, block, s->gslot, &s->tried) &&
	    sync_mirror_place(sh, j, lane, block, false, s->tried, &at)) {
		MARK(sync_read_elsewhere);
		len = sync_io_len(sh, j, block, &at);
		s->gslot = at.gslot;
		s->io.member = sh->view->slot[at.gslot].member;
		s->io.maddr = at.maddr;
		s->io.len = s->iov[0].iov_len = len;
		iop_emit(sh->iop, s);
		return true;
	}
	MARK(sync_unreadable);
	sync_add(j, SYNC_LOST, lane, block);
	if (j->op->kind != SYNC_REBUILD && j->op->kind != SYNC_COPY) {
		sync_add(j, SYNC_FIX, lane, block);
	}
	return false;
}

static void judge(struct shard *sh, struct sync_job *j, struct slot *s, int err)
{
	(void)j;
	MARK(sync_judge);
	s->res = err;
	list_append(&sh->ask->failed, &s->ask);
}

/* What went on the bad-block list instead is not read back. */
static void forget_fixes(struct sync_job *j, const struct slot *s)
{
	uint32_t lane, block;

	for (uint32_t i = 0; i < s->io.iovcnt; i++) {
		block_of(j, s->iov[i].iov_base, &lane, &block);
		sync_del(j, SYNC_FIX, lane, block);
	}
}

void sync_judged(struct shard *sh, struct sync_job *j, struct slot *s)
{
	if (s->verdict == SLOT_LAST_COPY) {
		MARK(sync_last_copy);
		j->err = s->res;
	} else if (s->verdict == SLOT_MEMBER_FAILED || !there(sh, s)) {
		j->changed = true;
	} else if (s->verdict == SLOT_LISTED) {
		forget_fixes(j, s);
	}
	sync_put_slot(j, s);
	if (!j->changed && !j->err && j->generation == sh->view->members_generation &&
	    j->at < j->blocks) {
		sync_issue(sh, j);
	}
	sync_advance(sh, j);
}

static void verified(struct shard *sh, struct sync_job *j, struct slot *s)
{
	uint32_t lane, block;

	CHECK(sync_find_fix(j, &lane, &block));
	sync_del(j, SYNC_FIX, lane, block);
	if (s->res || memcmp(j->scratch, sync_lane(j, lane, block), s->io.len) != 0) {
		MARK(sync_verify_failed);
		judge(sh, j, s, s->res ? s->res : -EIO);
		return;
	}
	MARK(sync_repaired);
	s->io.op = RAID_IO_WRITE;
	tell(sh, s, RAID_EV_READ_REPAIRED);
	sh->ask->repaired_any = true;
	sh->ask->repaired[s->gslot].errors++;
	sh->ask->repaired[s->gslot].sectors += (uint32_t)(s->io.len / RAID_SECTOR_BYTES);
	sync_put_slot(j, s);
	sync_advance(sh, j);
}

void sync_io_done(struct shard *sh, struct sync_job *j, struct slot *s)
{
	if (s->late) {
		s->late = false;
		sh->late[s->io.member]--;
	}
	if (!s->counted) {
		sync_put_slot(j, s);
		if (j->state == SYNC_HUNG && !j->out) {
			MARK(sync_hung_back);
			sync_drop(sh, j);
		}
		return;
	}
	if (!there(sh, s)) {
		j->changed = true;
	} else if (j->state == SYNC_VERIFY) {
		verified(sh, j, s);
		return;
	} else if (s->res && !j->single) {
		if (s->io.op == RAID_IO_WRITE) {
			tell(sh, s, RAID_EV_WRITE_ERROR);
		}
		io_again(j, s);
	} else if (s->res && s->io.op == RAID_IO_WRITE) {
		judge(sh, j, s, s->res);
		return;
	} else if (!s->res && s->io.op == RAID_IO_WRITE &&
		   view_wrote_bad(sh->view, s->gslot, s->io.maddr, s->io.len)) {
		MARK(sync_wrote_bad);
		list_append(&sh->ask->wrote_bad, &s->ask);
		return;
	} else if (s->res && read_elsewhere(sh, j, s)) {
		return;
	}
	sync_put_slot(j, s);
	if (!j->changed && j->generation == sh->view->members_generation && j->at < j->blocks) {
		sync_issue(sh, j);
	}
	sync_advance(sh, j);
}

/* ---- members that fail or hang --------------------------------------------------------------- */

static void give_up(struct shard *sh, struct sync_job *j, struct slot *s)
{
	iop_stop_waiting(s);
	iop_cancel(sh->iop, s);
	if (s->counted) {
		sync_uncount(j, s);
		j->changed = true;
	}
}

/* A replacement that got the slot: its ios are the slot's now. */
static void rename_twins(const struct view *v, const struct sync_job *j)
{
	struct slot *s;

	list_for_each_entry (s, &j->slots, link) {
		if (s->gslot >= VIEW_TWIN && s->gslot < VIEW_SLOTS &&
		    v->slot[s->gslot].member != s->io.member &&
		    v->slot[s->gslot - VIEW_TWIN].member == s->io.member) {
			MARK(sync_twin_renamed);
			s->gslot -= VIEW_TWIN;
		}
	}
}

void sync_members_changed(struct shard *sh)
{
	for (uint32_t i = 0; i < sh->sync_jobs; i++) {
		struct sync_job *j = &sh->sync_job[i];
		struct slot *s, *tmp;
		uint32_t before = j->pending;

		rename_twins(sh->view, j);
		if (j->state != SYNC_READ && j->state != SYNC_WRITE && j->state != SYNC_VERIFY) {
			continue;
		}
		list_for_each_entry_safe (s, tmp, &j->slots, link) {
			if (s->state == SLOT_OUT && s->counted && !there(sh, s)) {
				MARK(sync_member_gone);
				give_up(sh, j, s);
			}
		}
		if (before && !j->pending) {
			sync_advance(sh, j);
		}
	}
}

/* A read of it passed its deadline. Its rows may not wait: the order is given up. */
void sync_late(struct shard *sh, struct sync_job *j, struct slot *s)
{
	struct slot *o, *tmp;

	if (!s->counted) {
		iop_stop_waiting(s);
		return;
	}
	MARK(sync_late);
	CHECK(j->state == SYNC_READ || j->state == SYNC_VERIFY);
	tell(sh, s, RAID_EV_DEADLINE);
	list_for_each_entry_safe (o, tmp, &j->slots, link) {
		if (o->state == SLOT_OUT && o->counted) {
			bool late = o == s;

			give_up(sh, j, o);
			o->late = late;
			sh->late[o->io.member] += late;
		}
	}
	if (!j->pending) {
		sync_advance(sh, j);
	}
}
