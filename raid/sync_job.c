/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carrying out an order of the sync machine.
 *
 *   FREE -> LOCK              take: the order waits for its place among the writes
 *   LOCK -> READ              sync_granted
 *   READ -> READ              another pass: failed blocks alone, or other lanes too
 *   READ -> DIRTY             a member in sync is to be written and superblocks say clean
 *   READ, DIRTY -> WRITE      begin_write
 *   WRITE -> WRITE            failed blocks once more, alone
 *   WRITE -> VERIFY -> VERIFY blocks that could not be read are read back
 *   any but FREE, HUNG -> ANSWER   answer
 *   ANSWER -> FREE, HUNG -> FREE   let_go, drop
 *   ANSWER -> HUNG            let_go: a failed or hung member still has ios of it
 *
 * A resync or rebuild writes only what no superblock calls good, so it needs no dirty superblock:
 * the checkpoint there is behind it. A repair, and the rewriting of unreadable blocks, does.
 *
 * Rows are never given back while a write is out to a member that is still there: it could land on
 * newer data. Reads are given up at their deadline, so that the rows do not wait for a hung member.
 */
#include "raid/sync_job.h"

#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"

static void set_state(struct sync_job *j, enum sync_job_state to)
{
	static const uint16_t next[] = {
		[SYNC_FREE] = 1 << SYNC_LOCK,
		[SYNC_LOCK] = 1 << SYNC_READ | 1 << SYNC_ANSWER,
		[SYNC_READ] = 1 << SYNC_READ | 1 << SYNC_DIRTY | 1 << SYNC_WRITE | 1 << SYNC_ANSWER,
		[SYNC_DIRTY] = 1 << SYNC_WRITE | 1 << SYNC_ANSWER,
		[SYNC_WRITE] = 1 << SYNC_WRITE | 1 << SYNC_VERIFY | 1 << SYNC_ANSWER,
		[SYNC_VERIFY] = 1 << SYNC_VERIFY | 1 << SYNC_ANSWER,
		[SYNC_ANSWER] = 1 << SYNC_HUNG | 1 << SYNC_FREE,
		[SYNC_HUNG] = 1 << SYNC_FREE,
	};

	CHECK(next[j->state] >> to & 1);
	j->state = to;
}

bool sync_is_parity(const struct shard *sh)
{
	enum raid_level level = sh->view->geo->p.level;

	return level == RAID_LEVEL_4 || level == RAID_LEVEL_5 || level == RAID_LEVEL_6;
}

static bool place(const struct shard *sh, const struct sync_job *j, uint32_t lane, uint32_t block,
		  uint32_t tried, struct sync_place *out)
{
	bool write = j->state == SYNC_WRITE || j->state == SYNC_VERIFY;

	return sync_is_parity(sh) ? sync_parity_place(sh, j, lane, block, write, out)
				  : sync_mirror_place(sh, j, lane, block, write, tried, out);
}

uint32_t sync_block_len(const struct sync_job *j, uint32_t block)
{
	return (uint32_t)min_u64(SYNC_BLOCK, j->op->hi - j->op->lo - (uint64_t)block * SYNC_BLOCK);
}

void sync_found(struct sync_job *j, uint32_t block, uint32_t sectors, int32_t slot)
{
	struct sync_op *op = j->op;
	uint64_t at = op->lo + (uint64_t)block * SYNC_BLOCK;
	uint32_t last = op->found_count - 1;

	MARK(sync_mismatch);
	op->mismatch_sectors += sectors;
	if (op->found_count && op->found_count <= SYNC_FOUND_MAX && op->found[last].slot == slot &&
	    op->found[last].at + op->found[last].len == at) {
		op->found[last].len += sync_block_len(j, block);
		return;
	}
	if (op->found_count < SYNC_FOUND_MAX) {
		op->found[op->found_count].at = at;
		op->found[op->found_count].len = sync_block_len(j, block);
		op->found[op->found_count].slot = slot;
	}
	op->found_count++;
}

void sync_lost(struct sync_job *j, uint32_t gslot, uint64_t maddr, uint32_t len)
{
	struct sync_op *op = j->op;
	uint32_t n = op->lost_count;

	MARK(sync_lost);
	if (n && n <= SYNC_LOST_MAX && op->lost[n - 1].gslot == gslot &&
	    op->lost[n - 1].maddr + op->lost[n - 1].len == maddr) {
		op->lost[n - 1].len += len;
		return;
	}
	if (n < SYNC_LOST_MAX) {
		op->lost[n].gslot = gslot;
		op->lost[n].maddr = maddr;
		op->lost[n].len = len;
	}
	op->lost_count++;
}

/* ---- the end of an order --------------------------------------------------------------------- */

void sync_uncount(struct sync_job *j, struct slot *s)
{
	s->counted = false;
	j->pending--;
}

static void answer(struct shard *sh, struct sync_job *j, int res)
{
	CHECK(!j->pending);
	if (!res && j->op->lost_count > SYNC_LOST_MAX) {
		res = -EIO;
	}
	j->op->res = res;
	set_state(j, SYNC_ANSWER);
	list_append(&sh->ask->synced, &j->op->link);
}

void sync_drop(struct shard *sh, struct sync_job *j)
{
	struct sync_op *op = j->op;

	set_state(j, SYNC_FREE);
	j->op = NULL;
	sh->sync_busy--;
	list_append(&sh->ask->sync_idle, &op->link);
}

static void let_go(struct shard *sh, struct sync_job *j)
{
	range_remove(sync_is_parity(sh) ? &sh->rows : &sh->ranges, &j->range);
	if (j->counted) {
		j->counted = false;
		shard_writes_del(sh);
	}
	if (j->out) {
		MARK(sync_hung);
		set_state(j, SYNC_HUNG);
	} else {
		sync_drop(sh, j);
	}
}

/* ---- ios ------------------------------------------------------------------------------------- */

uint64_t sync_io_len(const struct shard *sh, const struct sync_job *j, uint32_t block,
		     const struct sync_place *at)
{
	return min_u64(round_up_u64(sync_block_len(j, block), sh->view->unit),
		       sh->view->slot[at->gslot].end_maddr - at->maddr);
}

static void emit(struct shard *sh, struct slot *s)
{
	if (s) {
		iop_emit(sh->iop, s);
	}
}

static struct slot *take_slot(struct shard *sh, struct sync_job *j, const struct sync_place *at)
{
	struct slot *s = slot_take(&j->pool, SLOT_SYNC, j);

	s->io.op = j->state == SYNC_WRITE ? RAID_IO_WRITE : RAID_IO_READ;
	s->io.member = sh->view->slot[at->gslot].member;
	s->io.maddr = at->maddr;
	s->gslot = at->gslot;
	s->tried = 0;
	s->counted = true;
	list_append(&j->slots, &s->link);
	j->out++;
	j->pending++;
	return s;
}

void sync_put_slot(struct sync_job *j, struct slot *s)
{
	if (s->counted) {
		sync_uncount(j, s);
	}
	slot_put(s);
	j->out--;
}

/* Append a block to an io. */
static void add_iov(struct slot *s, uint8_t *buf, uint64_t len)
{
	struct iovec *last = s->io.iovcnt ? &s->iov[s->io.iovcnt - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == buf) {
		last->iov_len += len;
	} else {
		s->iov[s->io.iovcnt++] = (struct iovec){.iov_base = buf, .iov_len = len};
	}
	s->io.len += len;
}

static bool goes_on(const struct shard *sh, const struct slot *s, const struct sync_place *at,
		    const uint8_t *buf, uint64_t len)
{
	const struct iovec *last = &s->iov[s->io.iovcnt - 1];

	return s->io.maddr + s->io.len == at->maddr &&
	       s->io.len + len <= sh->view->slot[at->gslot].max_io_bytes &&
	       (s->io.iovcnt < s->iov_cap || (uint8_t *)last->iov_base + last->iov_len == buf);
}

struct run {
	struct slot *open[VIEW_SLOTS]; /* ios that may still grow */
	uint32_t used[VIEW_SLOTS], count;
};

/* A block with parts that must not be touched: the others, an io each. */
static bool issue_parts(struct shard *sh, struct sync_job *j, uint32_t lane, uint32_t block,
			const struct sync_place *at)
{
	uint64_t end = sync_io_len(sh, j, block, at), lo, hi = j->part;

	MARK(sync_parts);
	while (sync_mirror_part(sh, j, lane, block, &lo, &hi)) {
		struct sync_place part = {at->gslot, at->maddr + lo};
		struct slot *s;

		if (!j->pool.free_count) {
			j->part = lo;
			return false; /* the rest when a slot is back */
		}
		s = take_slot(sh, j, &part);
		add_iov(s, sync_lane(j, lane, block) + lo, min_u64(hi, end) - lo);
		iop_emit(sh->iop, s);
	}
	j->part = 0;
	sync_del(j, SYNC_WANT, lane, block);
	return true;
}

static bool issue_block(struct shard *sh, struct sync_job *j, struct run *run, uint32_t lane,
			uint32_t block)
{
	uint8_t *buf = sync_lane(j, lane, block);
	struct sync_place at;
	struct slot **open;
	uint64_t len;

	if (!place(sh, j, lane, block, 0, &at)) {
		sync_del(j, SYNC_WANT, lane, block);
		sync_add(j, SYNC_LOST, lane, block);
		return true;
	}
	if (!sync_is_parity(sh) && (j->part || sync_mirror_in_parts(sh, j, block))) {
		return issue_parts(sh, j, lane, block, &at);
	}
	len = sync_io_len(sh, j, block, &at);
	open = &run->open[at.gslot];
	if (!*open || j->single || !goes_on(sh, *open, &at, buf, len)) {
		if (!j->pool.free_count) {
			return false;
		}
		if (!*open) {
			run->used[run->count++] = at.gslot;
		}
		emit(sh, *open);
		*open = take_slot(sh, j, &at);
	}
	add_iov(*open, buf, len);
	sync_del(j, SYNC_WANT, lane, block);
	return true;
}

/* Emit what WANT says, as far as there are slots. */
void sync_issue(struct shard *sh, struct sync_job *j)
{
	struct run run;
	bool room = true;

	if (!j->pool.free_count) {
		return;
	}
	memset(run.open, 0, sizeof run.open);
	run.count = 0;
	while (room && j->at < j->blocks) {
		for (uint32_t lane = 0; room && lane < j->lanes; lane++) {
			if (sync_has(j, SYNC_WANT, lane, j->at)) {
				room = issue_block(sh, j, &run, lane, j->at);
			}
		}
		j->at += room;
	}
	for (uint32_t i = 0; i < run.count; i++) {
		emit(sh, run.open[run.used[i]]);
	}
}

static bool any(const struct sync_job *j, enum sync_set set)
{
	const uint64_t *w = sync_word(j, set, 0, 0);

	for (uint32_t i = 0; i < j->lanes * j->words; i++) {
		if (w[i]) {
			return true;
		}
	}
	return false;
}

/* Blocks that failed go alone. Returns whether there are any. */
static bool again(struct sync_job *j)
{
	size_t bytes = (size_t)j->lanes * j->words * sizeof *j->bits;

	if (!any(j, SYNC_AGAIN)) {
		return false;
	}
	MARK(sync_again);
	memcpy(sync_word(j, SYNC_WANT, 0, 0), sync_word(j, SYNC_AGAIN, 0, 0), bytes);
	memset(sync_word(j, SYNC_AGAIN, 0, 0), 0, bytes);
	j->single = true;
	j->at = 0;
	return true;
}

/* ---- from pass to pass ----------------------------------------------------------------------- */

static void begin_write(struct shard *sh, struct sync_job *j)
{
	set_state(j, SYNC_WRITE);
	j->single = false;
	j->at = 0;
	sync_issue(sh, j);
}

bool sync_find_fix(const struct sync_job *j, uint32_t *lane, uint32_t *block)
{
	for (*lane = 0; *lane < j->lanes; ++*lane) {
		for (*block = 0; *block < j->blocks; ++*block) {
			if (sync_has(j, SYNC_FIX, *lane, *block)) {
				return true;
			}
		}
	}
	return false;
}

/* Read the next rewritten block back; false: there is none. */
static bool verify_next(struct shard *sh, struct sync_job *j)
{
	struct sync_place at;
	uint32_t lane, block;
	struct slot *s;

	if (!sync_find_fix(j, &lane, &block)) {
		return false;
	}
	set_state(j, SYNC_VERIFY);
	CHECK(place(sh, j, lane, block, 0, &at));
	s = take_slot(sh, j, &at);
	add_iov(s, j->scratch, sync_io_len(sh, j, block, &at));
	iop_emit(sh->iop, s);
	return true;
}

static void read_done(struct shard *sh, struct sync_job *j)
{
	bool more = sync_is_parity(sh) ? sync_parity_decide(sh, j) : sync_mirror_decide(sh, j);
	bool in_sync = j->op->kind == SYNC_CHECK || j->op->kind == SYNC_REPAIR || any(j, SYNC_FIX);

	j->at = 0;
	if (more) {
		set_state(j, SYNC_READ);
		j->single = false;
		sync_issue(sh, j);
	} else if (!any(j, SYNC_WANT)) {
		answer(sh, j, 0);
	} else if (in_sync && !sh->view->write_open) {
		MARK(sync_wait_dirty);
		set_state(j, SYNC_DIRTY);
		list_append(&sh->sync_dirty, &j->link);
		j->counted = true;
		shard_writes_add(sh);
		sh->ask->need_dirty = true;
	} else {
		if (in_sync) {
			j->counted = true;
			shard_writes_add(sh);
		}
		begin_write(sh, j);
	}
}

/* Nothing is waited for: what is next? */
void sync_advance(struct shard *sh, struct sync_job *j)
{
	while (!j->pending) {
		if (j->changed || j->generation != sh->view->members_generation) {
			MARK(sync_members_changed);
			answer(sh, j, -EAGAIN);
		} else if (j->err) {
			answer(sh, j, j->err);
		} else if (j->state == SYNC_VERIFY) {
			if (!verify_next(sh, j)) {
				answer(sh, j, 0);
			}
		} else if (j->at < j->blocks || again(j)) {
			sync_issue(sh, j);
		} else if (j->state == SYNC_READ) {
			read_done(sh, j);
		} else if (!verify_next(sh, j)) {
			answer(sh, j, 0);
		}
		if (j->state == SYNC_ANSWER || j->state == SYNC_DIRTY) {
			return;
		}
	}
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void take(struct shard *sh, struct sync_op *op)
{
	struct sync_job *j = &sh->sync_job[op->index];
	uint64_t lo, hi;

	CHECK(j->state == SYNC_FREE && !j->out && op->lo < op->hi);
	set_state(j, SYNC_LOCK);
	sh->sync_busy++;
	j->op = op;
	op->mismatch_sectors = 0;
	op->found_count = op->lost_count = 0;
	j->changed = j->wide = j->single = false;
	j->err = 0;
	j->blocks = (uint32_t)(round_up_u64(op->hi - op->lo, SYNC_BLOCK) / SYNC_BLOCK);
	j->words = (j->blocks + 63) / 64;
	if (sync_is_parity(sh)) {
		sync_parity_shape(sh, j, &lo, &hi);
	} else {
		sync_mirror_shape(sh, j, &lo, &hi);
	}
	CHECK((uint64_t)j->lanes * j->blocks * SYNC_BLOCK <= j->memory_bytes);
	CHECK(SYNC_SETS * j->lanes * j->words <= j->bits_words);
	if (lo >= hi) { /* nothing lies there */
		answer(sh, j, 0);
	} else if (range_insert(sync_is_parity(sh) ? &sh->rows : &sh->ranges, &j->range, lo, hi)) {
		sync_granted(sh, j);
	} else {
		MARK(sync_wait_rows);
	}
}

void sync_granted(struct shard *sh, struct sync_job *j)
{
	if (j->op->generation != sh->view->members_generation) {
		MARK(sync_granted_late);
		answer(sh, j, -EAGAIN);
		return;
	}
	j->generation = j->op->generation;
	memset(j->bits, 0, (size_t)SYNC_SETS * j->lanes * j->words * sizeof *j->bits);
	set_state(j, SYNC_READ);
	if (sync_is_parity(sh)) {
		sync_parity_plan(sh, j);
	} else {
		sync_mirror_plan(sh, j);
	}
	j->at = 0;
	j->part = 0;
	sync_issue(sh, j);
	sync_advance(sh, j);
}

bool sync_run(struct shard *sh)
{
	bool moved = false;
	struct list *l;

	while ((l = list_pop(&sh->ask->sync_seen))) {
		moved = true;
		let_go(sh, &sh->sync_job[container_of(l, struct sync_op, link)->index]);
	}
	while ((l = list_pop(&sh->ask->sync))) {
		moved = true;
		take(sh, container_of(l, struct sync_op, link));
	}
	while (!list_empty(&sh->sync_dirty) && (sh->view->write_open || sh->view->broken)) {
		struct sync_job *j = container_of(list_pop(&sh->sync_dirty), struct sync_job, link);

		moved = true;
		if (sh->view->broken) {
			answer(sh, j, -EIO);
		} else if (j->generation != sh->view->members_generation) {
			answer(sh, j, -EAGAIN);
		} else {
			begin_write(sh, j);
			sync_advance(sh, j);
		}
	}
	return moved;
}
