/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rewriting a block that a member could not read, from a copy that could (rule 8).
 *
 *   FREE -> LOCK     repair_start: waits for its place among the writes
 *   LOCK -> DIRTY    repair_granted: superblocks must say dirty first, as for any write
 *   LOCK, DIRTY -> READ     the block again, now that no write can change it
 *   READ -> READ     that copy failed too: the next
 *   READ -> WRITE    to one bad copy after the other, durable
 *   WRITE -> WRITE   once more after an error
 *   WRITE -> VERIFY  read back and compare
 *   WRITE, VERIFY -> JUDGE  the member cannot keep the block: the core decides about it
 *   VERIFY, JUDGE -> WRITE  the next bad copy;  any -> FREE  done, or nothing left to do it with
 *   READ, WRITE, VERIFY -> HUNG   its io does not come back: gives up everything but the memory
 *   HUNG -> FREE     the io is back
 *
 * A read that waits takes the block from the job in the end.
 *
 * A job has its own slot and memory. When none is free the block stays as it is until the next
 * read meets it; only a read that may not be answered before (rule 4) waits for one.
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/shard.h"

static const uint16_t job_next[] = {
	[JOB_FREE] = 1 << JOB_LOCK,
	[JOB_LOCK] = 1 << JOB_DIRTY | 1 << JOB_READ | 1 << JOB_FREE,
	[JOB_DIRTY] = 1 << JOB_READ | 1 << JOB_FREE,
	[JOB_READ] = 1 << JOB_READ | 1 << JOB_WRITE | 1 << JOB_HUNG | 1 << JOB_FREE,
	[JOB_WRITE] =
		1 << JOB_WRITE | 1 << JOB_VERIFY | 1 << JOB_JUDGE | 1 << JOB_HUNG | 1 << JOB_FREE,
	[JOB_VERIFY] = 1 << JOB_WRITE | 1 << JOB_JUDGE | 1 << JOB_HUNG | 1 << JOB_FREE,
	[JOB_JUDGE] = 1 << JOB_WRITE | 1 << JOB_FREE,
	[JOB_HUNG] = 1 << JOB_FREE,
};

static void set_state(struct job *j, enum job_state to)
{
	CHECK(job_next[j->state] >> to & 1);
	j->state = to;
}

static void free_job(struct shard *sh, struct job *j)
{
	set_state(j, JOB_FREE);
	list_del(&j->link);
	list_append(&sh->jobs_free, &j->link);
	sh->jobs_busy--;
}

/* Give back the place among the writes, and let the waiting read go on. */
static void let_go(struct shard *sh, struct job *j)
{
	struct slot *waiter = j->waiter;

	range_remove(&sh->ranges, &j->range);
	shard_writes_del(sh);
	j->waiter = NULL;
	if (waiter) {
		list_del(&waiter->link);
		waiter->bad = j->bad;
		list_append(&sh->job_wait, &waiter->link);
	}
}

static void finish(struct shard *sh, struct job *j)
{
	let_go(sh, j);
	free_job(sh, j);
}

static void hang(struct shard *sh, struct job *j)
{
	MARK(repair_hung);
	set_state(j, JOB_HUNG);
	iop_stop_waiting(j->slot);
	iop_cancel(sh->iop, j->slot);
	let_go(sh, j);
}

static void emit(struct shard *sh, struct job *j, const struct geo_copy *c, enum raid_io_op op,
		 void *buf)
{
	struct slot *s = j->slot;
	const struct view_slot *vs = &sh->view->slot[c->slot];

	s->io.op = op;
	s->io.fua = op == RAID_IO_WRITE;
	s->io.member = vs->member;
	s->io.maddr = c->maddr;
	s->io.len = min_u64(round_up_u64(j->len, sh->view->unit), vs->end_maddr - c->maddr);
	s->io.iov = s->iov;
	s->io.iovcnt = 1;
	s->iov[0] = (struct iovec){.iov_base = buf, .iov_len = s->io.len};
	s->gslot = c->slot;
	iop_emit(sh->iop, s);
}

static void map(const struct shard *sh, const struct job *j, struct geo_piece *p)
{
	geo_map(sh->view->geo, j->addr, j->len, p);
}

/*
 * Which copy to read next: the bad ones once more, since somebody else may have repaired the block
 * (an error must count once) or the error has passed; then the others. Where copies may differ the
 * order is the one all reads follow: what others may have seen meanwhile must stay.
 */
static int next_source(struct shard *sh, struct job *j, const struct geo_piece *p, uint64_t *len)
{
	while (j->check && !j->waiter) {
		uint32_t i = (uint32_t)__builtin_ctz(j->check);

		j->check &= ~(1u << i);
		if (sh->view->slot[p->copy[i].slot].in_sync) {
			*len = j->len;
			return (int)i;
		}
	}
	return choose_copy(sh, p, j->waiter ? j->tried : j->bad | j->tried, len);
}

static void read_good(struct shard *sh, struct job *j)
{
	struct geo_piece p;
	uint64_t len;
	int i;

	map(sh, j, &p);
	i = next_source(sh, j, &p, &len);
	if (i < 0) {
		MARK(repair_no_source);
		j->bad = 0;
		finish(sh, j);
		return;
	}
	j->len = min_u64(j->len, len);
	j->copy = (uint32_t)i;
	set_state(j, JOB_READ);
	memset(j->good, 0, SHARD_BLOCK);
	emit(sh, j, &p.copy[i], RAID_IO_READ, j->good);
}

/* Write the next bad copy, or end. */
static void write_bad(struct shard *sh, struct job *j)
{
	struct geo_piece p;

	map(sh, j, &p);
	while (j->bad) {
		uint32_t i = (uint32_t)__builtin_ctz(j->bad);

		if (sh->view->slot[p.copy[i].slot].in_sync && !sh->view->broken) {
			j->copy = i;
			j->retried = false;
			set_state(j, JOB_WRITE);
			emit(sh, j, &p.copy[i], RAID_IO_WRITE, j->good);
			return;
		}
		j->bad &= ~(1u << i);
	}
	finish(sh, j);
}

/* Is the block in other hands already? */
static bool under_repair(const struct shard *sh, uint64_t addr, uint64_t len)
{
	for (uint32_t i = 0; i < SHARD_JOBS; i++) {
		const struct job *j = &sh->job[i];

		if (j->state != JOB_FREE && j->state != JOB_HUNG && j->addr <= addr &&
		    addr + len <= j->addr + j->len) {
			return true;
		}
	}
	return false;
}

bool repair_start(struct shard *sh, uint64_t addr, uint64_t len, uint32_t bad, struct slot *waiter)
{
	struct list *l;
	struct job *j;
	uint64_t lo, hi;

	if (!waiter && under_repair(sh, addr, len)) {
		MARK(repair_under_way);
		return true;
	}
	l = list_pop(&sh->jobs_free);
	if (!l) {
		MARK(repair_no_job);
		return false;
	}
	j = container_of(l, struct job, link);
	sh->jobs_busy++;
	set_state(j, JOB_LOCK);
	j->addr = addr;
	j->len = len;
	j->bad = bad;
	j->tried = 0;
	j->check = bad;
	j->waiter = waiter;
	shard_writes_add(sh);
	plan_bounds(sh, addr, len, &lo, &hi);
	if (range_insert(&sh->ranges, &j->range, lo, hi)) {
		repair_granted(sh, j);
	}
	return true;
}

void repair_granted(struct shard *sh, struct job *j)
{
	if (sh->view->write_open) {
		read_good(sh, j);
	} else {
		MARK(repair_wait_dirty);
		set_state(j, JOB_DIRTY);
		list_append(&sh->jobs_dirty, &j->link);
		sh->ask->need_dirty = true;
	}
}

bool repair_run(struct shard *sh)
{
	bool moved = false;

	while (!list_empty(&sh->jobs_dirty) && (sh->view->write_open || sh->view->broken)) {
		struct job *j = container_of(list_pop(&sh->jobs_dirty), struct job, link);

		moved = true;
		if (sh->view->broken) {
			j->bad = 0;
			finish(sh, j);
		} else {
			read_good(sh, j);
		}
	}
	for (uint32_t n = 0; n < SHARD_JOBS && !list_empty(&sh->job_wait); n++) {
		struct slot *s = container_of(sh->job_wait.next, struct slot, link);
		struct frag *f = s->of;

		if (s->bad && list_empty(&sh->jobs_free)) {
			break;
		}
		moved = true;
		list_del(&s->link);
		list_append(&f->slots, &s->link);
		retry_repaired(sh, s, s->bad);
	}
	return moved;
}

static void judge(struct shard *sh, struct job *j, int err)
{
	MARK(repair_judge);
	set_state(j, JOB_JUDGE);
	j->slot->res = err;
	list_append(&sh->ask->failed, &j->slot->ask);
}

void repair_judged(struct shard *sh, struct job *j, struct slot *s)
{
	(void)s;
	j->bad &= ~(1u << j->copy);
	write_bad(sh, j);
}

static void repaired(struct shard *sh, struct job *j)
{
	struct slot *s = j->slot;

	MARK(repair_done);
	events_add(sh->events, (struct raid_event){
				       .type = RAID_EV_READ_REPAIRED,
				       .member = s->io.member,
				       .op = RAID_IO_WRITE,
				       .maddr = s->io.maddr,
				       .len = s->io.len,
			       });
	sh->ask->repaired_any = true;
	sh->ask->repaired[s->gslot].errors++;
	sh->ask->repaired[s->gslot].sectors += (uint32_t)(s->io.len / RAID_SECTOR_BYTES);
	j->bad &= ~(1u << j->copy);
	write_bad(sh, j);
}

static void write_done(struct shard *sh, struct job *j, struct slot *s)
{
	struct geo_piece p;

	if (!s->res) {
		map(sh, j, &p);
		set_state(j, JOB_VERIFY);
		emit(sh, j, &p.copy[j->copy], RAID_IO_READ, j->again);
	} else if (!j->retried) {
		MARK(repair_write_again);
		j->retried = true;
		set_state(j, JOB_WRITE);
		iop_emit(sh->iop, s);
	} else {
		judge(sh, j, s->res);
	}
}

/* The waiting read takes what was read now: it is what every copy will hold. */
static void source_read(struct shard *sh, struct job *j)
{
	struct slot *w = j->waiter;

	if (!w && j->bad >> j->copy & 1) {
		MARK(repair_good_again);
		j->bad &= ~(1u << j->copy);
		if (j->bad) {
			read_good(sh, j);
		} else {
			finish(sh, j);
		}
		return;
	}
	j->bad &= ~(1u << j->copy);
	if (w) {
		w->piece_len = (uint32_t)min_u64(w->piece_len, j->slot->io.len);
		memcpy(w->piece_iov.iov_base, j->good, w->piece_len);
	}
	write_bad(sh, j);
}

void repair_io_done(struct shard *sh, struct job *j, struct slot *s)
{
	bool gives = view_gives(sh->view, s->gslot, s->io.member);

	if (s->late) {
		s->late = false;
		sh->late[s->io.member]--;
	}
	switch (j->state) {
	case JOB_HUNG:
		MARK(repair_hung_back);
		free_job(sh, j);
		break;
	case JOB_READ:
		if (!s->res &&
		    (gives || view_rebuilt(sh->view, s->gslot, s->io.maddr, s->io.len))) {
			source_read(sh, j);
		} else {
			MARK(repair_source_failed);
			j->tried |= 1u << j->copy;
			read_good(sh, j);
		}
		break;
	case JOB_WRITE:
	case JOB_VERIFY:
		if (!gives) {
			MARK(repair_member_gone);
			j->bad &= ~(1u << j->copy);
			write_bad(sh, j);
		} else if (j->state == JOB_WRITE) {
			write_done(sh, j, s);
		} else if (s->res || memcmp(j->good, j->again, s->io.len) != 0) {
			MARK(repair_verify_failed);
			judge(sh, j, s->res ? s->res : -EIO);
		} else {
			repaired(sh, j);
		}
		break;
	default:
		CHECK(false);
	}
}

/* Do not wait for a member that has failed. */
void repair_members_changed(struct shard *sh)
{
	for (uint32_t i = 0; i < SHARD_JOBS; i++) {
		struct job *j = &sh->job[i];

		if ((j->state != JOB_READ && j->state != JOB_WRITE && j->state != JOB_VERIFY) ||
		    j->slot->state != SLOT_OUT ||
		    (j->state == JOB_READ ? view_gets : view_gives)(sh->view, j->slot->gslot,
								    j->slot->io.member)) {
			continue;
		}
		if (j->state != JOB_READ) {
			j->bad &= ~(1u << j->copy);
		}
		hang(sh, j);
	}
}

/* A read of a job passed its deadline. Nobody waits for most repairs: give up. */
void repair_late(struct shard *sh, struct job *j, struct slot *s)
{
	if (j->state == JOB_HUNG) {
		iop_stop_waiting(s);
	} else if (j->waiter) {
		MARK(repair_late_needed);
		iop_stop_waiting(s); /* until it comes, or its member is failed */
	} else {
		MARK(repair_late);
		s->late = true;
		sh->late[s->io.member]++;
		hang(sh, j);
	}
}
