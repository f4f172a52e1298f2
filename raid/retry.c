/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ios of fragments that failed (rule 8). A slot carries its own retry, so that trouble needs no
 * memory that data could have taken:
 *
 *   WHOLE --error, more than a block--> PIECES: the same io block by block on the same member
 *   PIECES: READ block good -> next block; READ block bad -> OTHER
 *           WRITE block good -> next; WRITE block bad -> the core is asked to fail the member
 *   OTHER (READ): the block from the copies not tried yet, into the same memory; then the next
 *         block on the own member. No copy left: the request gets -EIO.
 *
 * An unreadable block that another copy gave is handed to repair.c. Where copies may differ the
 * read goes on only when it has been written back (rule 4). If no copy has the whole block it is
 * read unit by unit: each may lack another part.
 * On a member marked failfast the first error of a WHOLE goes to the core at once; only if the
 * member is needed it goes on as above.
 *
 * A WRITE of one block is simply tried once more. DISCARD and ZERO are tried once more as a whole,
 * then the fragment writes zeroes instead, on all copies, so that they end equal.
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/shard.h"
#include "raid/stripe.h"

/* May what the io reads be given to a client? */
static bool readable(const struct shard *sh, const struct slot *s)
{
	return view_gives(sh->view, s->gslot, s->io.member) ||
	       (view_gets(sh->view, s->gslot, s->io.member) &&
		view_rebuilt(sh->view, s->gslot, s->io.maddr, s->io.len));
}

/* The memory that belongs to the block at s->off, and how much of it lies together (≤ a block). */
static struct iovec block_memory(const struct shard *sh, const struct slot *s)
{
	uint64_t most = s->off < s->fine_end ? sh->view->unit : SHARD_BLOCK;
	uint64_t skip = s->off;
	uint32_t i = 0;

	if (sh->stripes.parity) {
		/* A block that needs its row lies in one sub-row. */
		const struct geo_params *p = &sh->view->geo->p;
		uint64_t at = s->whole_maddr + s->off -
			      p->slot[s->whole_gslot].data_offset_sectors * RAID_SECTOR_BYTES;

		most = SHARD_BLOCK - at % SHARD_BLOCK;
	}
	while (skip >= s->iov[i].iov_len) {
		skip -= s->iov[i++].iov_len;
		CHECK(i < s->whole_iovcnt);
	}
	return (struct iovec){
		.iov_base = (uint8_t *)s->iov[i].iov_base + skip,
		.iov_len = min_u64(s->iov[i].iov_len - skip, most),
	};
}

static void emit_piece(struct shard *sh, struct slot *s, uint32_t gslot, uint64_t maddr)
{
	s->piece_iov.iov_len = s->piece_len;
	s->io.iov = &s->piece_iov;
	s->io.iovcnt = 1;
	s->io.member = sh->view->slot[gslot].member;
	s->io.maddr = maddr;
	s->io.len = s->piece_len;
	s->gslot = gslot;
	iop_emit(sh->iop, s);
}

static void start_pieces(struct slot *s)
{
	s->phase = SLOT_PIECES;
	s->whole_gslot = s->gslot;
	s->whole_member = s->io.member;
	s->whole_maddr = s->io.maddr;
	s->whole_len = s->io.len;
	s->whole_iovcnt = s->io.iovcnt;
	s->off = 0;
	s->fine_end = 0;
}

/* The block at s->off on the own member. */
static void own_block(struct shard *sh, struct slot *s)
{
	s->phase = SLOT_PIECES;
	s->piece_iov = block_memory(sh, s);
	s->piece_len = (uint32_t)s->piece_iov.iov_len;
	s->tried = 0;
	s->bad = 0;
	emit_piece(sh, s, s->whole_gslot, s->whole_maddr + s->off);
}

void shard_report(struct shard *sh, const struct slot *s, enum raid_event_type type, int err)
{
	struct iop_member *m = &sh->iop->member[s->io.member];

	m->read_errors += type == RAID_EV_READ_ERROR;
	m->write_errors += type == RAID_EV_WRITE_ERROR;
	events_add(sh->events, (struct raid_event){
				       .type = type,
				       .member = s->io.member,
				       .op = s->io.op,
				       .maddr = s->io.maddr,
				       .len = s->io.len,
				       .err = err,
			       });
}

/* ---- reads --------------------------------------------------------------------------------- */

/* The array block that s->off is, with all its copies; at most len bytes of it. */
static uint64_t block_piece(const struct shard *sh, const struct slot *s, uint64_t len,
			    struct geo_piece *p)
{
	uint64_t addr;
	uint32_t copy;
	bool found =
		geo_unmap(sh->view->geo, s->whole_gslot, s->whole_maddr + s->off, &addr, &copy);

	CHECK(found);
	geo_map(sh->view->geo, addr, min_u64(len, sh->view->size_bytes - addr), p);
	return addr;
}

static uint32_t copy_of(const struct geo_piece *p, uint32_t gslot)
{
	uint32_t i = 0;

	while (p->copy[i].slot != gslot) {
		i++;
		CHECK(i < p->copies);
	}
	return i;
}

static void read_finish(struct shard *sh, struct frag *f, struct slot *s, int err)
{
	if (err && !f->err) {
		f->err = err;
	}
	s->io.iov = s->iov;
	frag_slot_done(sh, f, s);
}

/* May the block at s->off be read on the own member? A write may have put it on the list meanwhile.
 */
static bool own_readable(const struct shard *sh, const struct slot *s)
{
	const struct bb_list *bad = sh->view->slot[s->whole_gslot].bad;
	struct bb_range hit;

	return view_gets(sh->view, s->whole_gslot, s->whole_member) &&
	       !(bad && bb_find(bad, s->whole_maddr + s->off, block_memory(sh, s).iov_len, &hit));
}

static void own_or_restart(struct shard *sh, struct frag *f, struct slot *s)
{
	if (own_readable(sh, s)) {
		own_block(sh, s);
	} else {
		MARK(retry_read_member_left);
		f->restart = true;
		read_finish(sh, f, s, 0);
	}
}

static void read_next_block(struct shard *sh, struct frag *f, struct slot *s)
{
	s->off += s->piece_len;
	if (s->off >= s->whole_len) {
		read_finish(sh, f, s, 0);
	} else {
		own_or_restart(sh, f, s);
	}
}

/* The block in work did not come from s->gslot: take the next copy. */
static void read_other(struct shard *sh, struct frag *f, struct slot *s, int err)
{
	struct geo_piece p;
	struct geo_copy *c;
	uint64_t len;
	uint32_t me;
	int i;

	if (sh->stripes.parity) {
		if (err) {
			shard_report(sh, s, RAID_EV_READ_ERROR, err);
		}
		stripe_wait_block(sh, s);
		return;
	}
	block_piece(sh, s, s->piece_len, &p);
	me = copy_of(&p, s->gslot);
	s->tried |= 1u << me;
	if (err && view_gives(sh->view, s->gslot, s->io.member)) {
		MARK(retry_read_bad_block);
		s->bad |= 1u << me;
	}
	i = choose_copy(sh, &p, s->tried, &len);
	if (i < 0 && s->piece_len > sh->view->unit && p.copies > 1) {
		/* Perhaps each copy lacks another part of it. */
		MARK(retry_read_finer);
		s->fine_end = s->off + s->piece_len;
		own_or_restart(sh, f, s);
		return;
	}
	if (i < 0) {
		MARK(retry_read_no_copy);
		shard_report(sh, s, RAID_EV_LAST_COPY_ERROR, err ? err : -EIO);
		read_finish(sh, f, s, -EIO);
		return;
	}
	if (err && view_gets(sh->view, s->gslot, s->io.member)) {
		shard_report(sh, s, RAID_EV_READ_ERROR, err);
	}
	c = &p.copy[i];
	/* A piece that ends inside a unit is the end of the array. */
	s->piece_len = (uint32_t)min_u64(min_u64(round_up_u64(len, sh->view->unit), s->piece_len),
					 sh->view->slot[c->slot].end_maddr - c->maddr);
	s->phase = SLOT_OTHER;
	emit_piece(sh, s, c->slot, c->maddr);
}

/* A block came from another copy; have the bad ones rewritten. Not for the edge of a write: the
 * block is about to be written on every copy, and the write holds its range. */
void retry_other_done(struct shard *sh, struct slot *s)
{
	struct geo_piece p;
	uint64_t addr = block_piece(sh, s, s->piece_len, &p);
	bool must = choose_unsynced(sh, &p);

	if (s->bad && !sh->view->read_only && ((struct frag *)s->of)->kind == FRAG_READ) {
		if (repair_start(sh, addr, p.len, s->bad, must ? s : NULL)) {
			if (must) {
				MARK(retry_read_waits_for_repair);
				return;
			}
		} else if (must) {
			MARK(retry_read_waits_for_job);
			list_del(&s->link);
			list_append(&sh->job_wait, &s->link);
			return;
		}
	}
	read_next_block(sh, s->of, s);
}

/* Levels 4, 5, 6: the row gave the block in work, or could not. */
void retry_stripe_done(struct shard *sh, struct slot *s, int err)
{
	if (err) {
		MARK(retry_read_row_lost);
		shard_report(sh, s, RAID_EV_LAST_COPY_ERROR, err);
		read_finish(sh, s->of, s, err);
	} else {
		read_next_block(sh, s->of, s);
	}
}

/* The repair that the read waited for is over; the copies in bad still lack it. */
void retry_repaired(struct shard *sh, struct slot *s, uint32_t bad)
{
	s->bad = bad;
	retry_other_done(sh, s);
}

static void read_in_blocks(struct shard *sh, struct frag *f, struct slot *s)
{
	start_pieces(s);
	if (s->whole_len > SHARD_BLOCK) {
		MARK(retry_read_pieces);
		own_block(sh, s);
		return;
	}
	s->piece_iov = block_memory(sh, s);
	s->piece_len = (uint32_t)s->piece_iov.iov_len;
	s->tried = 0;
	s->bad = 0;
	read_other(sh, f, s, s->res);
}

void retry_read_done(struct shard *sh, struct frag *f, struct slot *s)
{
	bool good = !s->res && readable(sh, s);

	if (s->phase == SLOT_WHOLE) {
		if (good) {
			read_finish(sh, f, s, 0);
		} else if (!view_gets(sh->view, s->gslot, s->io.member) || !s->res) {
			MARK(retry_read_member_gone);
			f->restart = true;
			read_finish(sh, f, s, 0);
		} else if (sh->view->slot[s->gslot].failfast) {
			MARK(retry_read_failfast);
			list_append(&sh->ask->failed, &s->ask);
		} else {
			read_in_blocks(sh, f, s);
		}
	} else if (!good) {
		read_other(sh, f, s, s->res);
	} else if (s->phase == SLOT_OTHER) {
		retry_other_done(sh, s);
	} else {
		read_next_block(sh, f, s);
	}
}

/* ---- writes -------------------------------------------------------------------------------- */

static void write_finish(struct shard *sh, struct frag *f, struct slot *s, int err)
{
	if (err && !f->err) {
		f->err = err == -ENOSPC ? -ENOSPC : -EIO;
	}
	if (!err) {
		f->did_some = true;
	}
	s->io.iov = s->iov;
	frag_slot_done(sh, f, s);
}

/* DISCARD or ZERO failed. */
static void zero_failed(struct shard *sh, struct frag *f, struct slot *s)
{
	bool unsupported = s->res == -EOPNOTSUPP;

	if (!unsupported && !s->retried) {
		MARK(retry_zero_again);
		shard_report(sh, s, RAID_EV_WRITE_ERROR, s->res);
		s->retried = true;
		iop_emit(sh->iop, s);
		return;
	}
	if (unsupported) {
		MARK(retry_zero_unsupported);
		if (s->io.op == RAID_IO_DISCARD) {
			sh->no_punch[s->io.member] = true;
		} else {
			sh->no_zero[s->io.member] = true;
		}
	} else {
		/* Part of it may have been done. */
		f->did_some = true;
	}
	f->redo_zero = true;
	frag_slot_done(sh, f, s);
}

static void write_good(struct shard *sh, struct frag *f, struct slot *s)
{
	if (s->phase == SLOT_WHOLE) {
		write_finish(sh, f, s, 0);
		return;
	}
	s->off += s->piece_len;
	if (s->off < s->whole_len) {
		own_block(sh, s);
	} else {
		MARK(retry_write_good);
		write_finish(sh, f, s, 0);
	}
}

void retry_write_done(struct shard *sh, struct frag *f, struct slot *s)
{
	if (!view_gets(sh->view, s->gslot, s->io.member)) {
		MARK(retry_write_member_gone);
		frag_slot_done(sh, f, s);
		return;
	}
	if (s->res && s->io.op != RAID_IO_WRITE) {
		zero_failed(sh, f, s);
		return;
	}
	if (!s->res) {
		if (s->io.op == RAID_IO_WRITE &&
		    view_wrote_bad(sh->view, s->gslot, s->io.maddr, s->io.len)) {
			MARK(retry_wrote_bad);
			list_append(&sh->ask->wrote_bad, &s->ask);
			return;
		}
		write_good(sh, f, s);
	} else if (s->phase == SLOT_WHOLE && sh->view->slot[s->gslot].failfast) {
		MARK(retry_write_failfast);
		shard_report(sh, s, RAID_EV_WRITE_ERROR, s->res);
		list_append(&sh->ask->failed, &s->ask);
	} else if (s->phase == SLOT_WHOLE) {
		MARK(retry_write_pieces);
		shard_report(sh, s, RAID_EV_WRITE_ERROR, s->res);
		start_pieces(s);
		own_block(sh, s);
	} else {
		MARK(retry_write_failed);
		list_append(&sh->ask->failed, &s->ask);
	}
}

static void failfast_read_judged(struct shard *sh, struct frag *f, struct slot *s)
{
	if (s->verdict == SLOT_LAST_COPY && view_gets(sh->view, s->gslot, s->io.member)) {
		read_in_blocks(sh, f, s);
	} else {
		f->restart = true;
		read_finish(sh, f, s, 0);
	}
}

/* The core has decided about a member that a write failed on twice, or anything on a member marked
 * failfast. */
void retry_judged(struct shard *sh, struct frag *f, struct slot *s)
{
	if (s->verdict == SLOT_LISTED || s->verdict == SLOT_CLEARED) {
		if (view_gets(sh->view, s->gslot, s->io.member)) {
			write_good(sh, f, s);
		} else {
			s->io.iov = s->iov;
			frag_slot_done(sh, f, s);
		}
	} else if (s->io.op == RAID_IO_READ) {
		failfast_read_judged(sh, f, s);
	} else if (s->verdict == SLOT_LAST_COPY && s->phase == SLOT_WHOLE) {
		start_pieces(s); /* failfast, and needed: as everybody else */
		own_block(sh, s);
	} else if (s->verdict == SLOT_LAST_COPY) {
		shard_report(sh, s, RAID_EV_LAST_COPY_ERROR, s->res);
		write_finish(sh, f, s, s->res);
	} else {
		s->io.iov = s->iov;
		frag_slot_done(sh, f, s);
	}
}
