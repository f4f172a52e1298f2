/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must hold at the moment an io leaves the engine, comes back, or an answer is given: the
 * rules that need no crash to be seen broken. Everything here is decided from the disks and the
 * contract, never from the engine's own idea of its state, with one exception: a member that the
 * engine has begun to fail is known from raid_get_status() before its event is out.
 */
#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/sim/hash.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

uint64_t watch_hash(const struct raid_io *io)
{
	uint64_t h = io->len;

	for (uint32_t i = 0; i < io->iovcnt; i++) {
		h = hash_bytes(h, io->iov[i].iov_base, io->iov[i].iov_len);
	}
	return h;
}

/* ---- form ------------------------------------------------------------------------------------ */

static void check_form(const struct world *w, const struct flight *f)
{
	const struct raid_io *io = f->io;
	const struct disk_params *p = &w->disk[f->disk].p;
	uint64_t sum = 0;

	if (io->op == RAID_IO_FLUSH) {
		if (io->len != 0) {
			sim_fail("a FLUSH has a length");
		}
		return;
	}
	if (io->len == 0 || io->len % p->block || io->maddr % p->block ||
	    io->maddr + io->len > p->size_bytes) {
		sim_fail("io %llu: %llu bytes at %llu do not fit disk %u of %llu bytes, block %u",
			 ULL(f->id), ULL(io->len), ULL(io->maddr), f->disk, ULL(p->size_bytes),
			 p->block);
	}
	if (io->op != RAID_IO_READ && io->op != RAID_IO_WRITE) {
		return;
	}
	if (p->max_io_bytes && io->len > p->max_io_bytes) {
		sim_fail("io %llu is longer than disk %u takes", ULL(f->id), f->disk);
	}
	for (uint32_t i = 0; i < io->iovcnt; i++) {
		sum += io->iov[i].iov_len;
		if ((uintptr_t)io->iov[i].iov_base % p->mem_align) {
			sim_fail("io %llu: a buffer is not aligned to %u", ULL(f->id),
				 p->mem_align);
		}
	}
	if (sum != io->len) {
		sim_fail("io %llu: its buffers hold %llu bytes of %llu", ULL(f->id), ULL(sum),
			 ULL(io->len));
	}
}

static bool overlap(const void *a, uint64_t a_len, const void *b, uint64_t b_len)
{
	uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return x < y + b_len && y < x + a_len;
}

static bool touches(const struct raid_io *io, const void *p, uint64_t len)
{
	for (uint32_t i = 0; i < io->iovcnt; i++) {
		if (overlap(io->iov[i].iov_base, io->iov[i].iov_len, p, len)) {
			return true;
		}
	}
	return false;
}

/* A disk that reads owns the bytes it reads into: nobody else may name them meanwhile. */
static void check_buffers(const struct world *w, const struct flight *f)
{
	const struct raid_io *io = f->io;
	const struct flight *g;
	const struct op *op;

	if (io->op != RAID_IO_READ && io->op != RAID_IO_WRITE) {
		return;
	}
	list_for_each_entry (g, &w->flights, link) {
		if (g->io->iovcnt == 0 || (g->io->op == RAID_IO_WRITE && io->op == RAID_IO_WRITE)) {
			continue;
		}
		for (uint32_t i = 0; i < io->iovcnt; i++) {
			if (touches(g->io, io->iov[i].iov_base, io->iov[i].iov_len)) {
				sim_fail("io %llu uses a buffer that io %llu, still out, owns",
					 ULL(f->id), ULL(g->id));
			}
		}
	}
	if (io->op != RAID_IO_READ) {
		return;
	}
	list_for_each_entry (op, &w->ops, link) {
		const void *p =
			op->req.op == RAID_OP_READ && op->done ? op->req.data : op->req.payload;

		if (p && touches(io, p, op->req.len)) {
			sim_fail("io %llu reads into the data of request %llu", ULL(f->id),
				 ULL(op->id));
		}
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Somebody holds it, or is getting it. */
static bool slot_is_taken(const struct world *w, uint32_t slot)
{
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (w->role[d].slot == slot && w->role[d].member != LAYOUT_NONE &&
		    !w->role[d].failed && !w->role[d].retired) {
			return true;
		}
	}
	return false;
}

/* Rule 3, and rule 8 of md-format §8. */
static void check_dirty_first(struct world *w, const struct flight *f)
{
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		const struct sb *sb;

		if (!world_is_good(w, d)) {
			continue;
		}
		sb = verify_durable_sb(w, d);
		if ((!sb || sb->resync_offset == SB_IN_SYNC) && !watch_gave_up(w, d)) {
			sim_fail("io %llu writes data while disk %u durably says clean", ULL(f->id),
				 d);
		}
		for (uint32_t k = 0; sb && k < sb->max_dev; k++) {
			uint32_t slot = sb->dev_roles[k];

			if (slot < w->plan.slots && !w->assembly->present[slot] &&
			    !w->was_held[slot] && !slot_is_taken(w, slot) && !watch_gave_up(w, d)) {
				sim_fail("io %llu writes data while disk %u still names the absent "
					 "slot %u",
					 ULL(f->id), d, slot);
			}
		}
	}
}

static bool in_data(const struct world *w, const struct flight *f)
{
	const struct layout *l = &w->layout;
	uint32_t slot = w->role[f->disk].slot;

	return slot != LAYOUT_NONE && f->io->maddr >= l->data_from[slot] &&
	       f->io->maddr + f->io->len <= l->data_to[slot];
}

static bool in_any_data(const struct world *w, const struct flight *f)
{
	const struct layout *l = &w->layout;

	return f->io->maddr + f->io->len > l->data_from[0] && f->io->maddr < l->data_to[0];
}

/* Does it change what the disk holds? Rewriting a block that could not be read does not. */
static bool changes_disk(const struct world *w, const struct flight *f)
{
	const uint8_t *now = w->disk[f->disk].now + f->io->maddr;
	uint64_t at = 0;

	if (f->io->op != RAID_IO_WRITE) {
		return true;
	}
	for (uint32_t i = 0; i < f->io->iovcnt; at += f->io->iov[i].iov_len, i++) {
		if (memcmp(f->io->iov[i].iov_base, now + at, f->io->iov[i].iov_len) != 0) {
			return true;
		}
	}
	return false;
}

static void check_data_write(struct world *w, const struct flight *f)
{
	const struct role *r = &w->role[f->disk];

	if (!r->in_sync && !r->filling && !r->twin) {
		roles_refresh(w);
	}
	if ((!r->in_sync && !r->filling && !r->twin) || !in_data(w, f)) {
		sim_fail("io %llu writes %llu bytes at %llu of disk %u, outside its data",
			 ULL(f->id), ULL(f->io->len), ULL(f->io->maddr), f->disk);
	}
	if (!world_is_redundant(w) || !w->assembly->metadata || !world_is_good(w, f->disk)) {
		return;
	}
	check_dirty_first(w, f);
	if (w->sync.action != RAID_SYNC_REPAIR && changes_disk(w, f)) {
		bits_check_write(w, f);
	}
}

static void check_write(struct world *w, const struct flight *f)
{
	const struct role *r = &w->role[f->disk];
	const struct raid_io *io = f->io;

	if (w->read_only) {
		sim_fail("io %llu writes to a read-only array", ULL(f->id));
	}
	if (r->failed) {
		sim_fail("io %llu writes to disk %u, which has failed", ULL(f->id), f->disk);
	}
	if (r->sb_maddr == UINT64_MAX && w->assembly->metadata) {
		sim_fail("io %llu writes to disk %u, which does not belong to the array",
			 ULL(f->id), f->disk);
	}
	if (r->sb_maddr != UINT64_MAX && io->maddr < r->sb_maddr + SB_BYTES_MAX &&
	    r->sb_maddr < io->maddr + io->len) {
		watch_superblock(w, f);
		return;
	}
	/* Beside the data: bitmap and bad-block log. */
	if (io->op == RAID_IO_WRITE && world_is_redundant(w) && w->assembly->metadata &&
	    !in_any_data(w, f)) {
		return;
	}
	check_data_write(w, f);
}

/* May this sector of a disk that is being rebuilt be read? If it holds what it should. */
static bool is_rebuilt(struct world *w, uint32_t disk, uint64_t maddr)
{
	uint32_t slot = w->role[disk].slot;
	uint32_t s = layout_sector(&w->layout, slot, maddr);

	return w->role[disk].filling &&
	       (s == LAYOUT_NONE || oracle_may_hold(&w->oracle, s, w->disk[disk].now + maddr));
}

static void check_read(struct world *w, const struct flight *f)
{
	const struct role *r = &w->role[f->disk];
	const struct raid_io *io = f->io;

	if (!r->in_sync && !r->filling) {
		roles_refresh(w);
	}
	if ((!r->in_sync && !r->filling) || r->failed) {
		sim_fail("io %llu reads from disk %u, which is not in sync", ULL(f->id), f->disk);
	}
	for (uint64_t at = 0; at < io->len; at += RAID_SECTOR_BYTES) {
		/* A scrub looks at whole blocks of which a part is listed; it takes nothing from
		 * there. */
		if (w->sync.action == RAID_SYNC_IDLE &&
		    w->listed[f->disk][(io->maddr + at) / RAID_SECTOR_BYTES]) {
			sim_fail("io %llu reads a block of disk %u that its bad-block log lists",
				 ULL(f->id), f->disk);
		}
		if (!r->in_sync && !is_rebuilt(w, f->disk, io->maddr + at)) {
			sim_fail("io %llu reads byte %llu of disk %u, which has not been rebuilt",
				 ULL(f->id), ULL(io->maddr + at), f->disk);
		}
	}
}

void watch_io(struct world *w, struct flight *f)
{
	if (w->stopped) {
		sim_fail("an io is emitted after STOP was done");
	}
	check_form(w, f);
	check_buffers(w, f);
	if (f->io->op == RAID_IO_WRITE) {
		f->hash = watch_hash(f->io);
	}
	if (f->io->op == RAID_IO_READ) {
		check_read(w, f);
	} else if (f->io->op != RAID_IO_FLUSH) {
		check_write(w, f);
	} else if (w->read_only) {
		sim_fail("a FLUSH is sent to a read-only member");
	}
}

void watch_complete(struct world *w, struct flight *f)
{
	if (f->io->op == RAID_IO_WRITE && watch_hash(f->io) != f->hash) {
		sim_fail("the buffer of io %llu changed while a disk was writing it", ULL(f->id));
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

static void check_error(struct world *w, const struct op *op)
{
	const struct raid_req *req = &op->req;
	bool writes =
		req->op != RAID_OP_READ && req->op != RAID_OP_FLUSH && req->op != RAID_OP_CACHE;

	if (w->read_only && writes && req->res == -EROFS) {
		return;
	}
	if ((req->flags & RAID_REQ_FAST_ZERO) && req->op == RAID_OP_ZERO && req->res == -ENOTSUP) {
		return;
	}
	w->stats.client_errors++;
	if (!w->may_fail) {
		sim_fail("request %llu failed with %d although redundancy is left", ULL(op->id),
			 req->res);
	}
}

static void read_done(struct world *w, struct op *op)
{
	const struct raid_req *req = &op->req;
	const struct flight *f;
	const char *wrong;
	uint64_t bad;

	if (req->res == 0 && (!req->data || ((uintptr_t)req->data - req->addr) % RAID_PAGE_BYTES)) {
		sim_fail("the data of request %llu is not where it should be", ULL(op->id));
	}
	list_for_each_entry (f, &w->flights, link) {
		if (req->res == 0 && f->io->op == RAID_IO_READ &&
		    touches(f->io, req->data, req->len)) {
			sim_fail("request %llu is answered from a buffer that io %llu, still out, "
				 "reads into",
				 ULL(op->id), ULL(f->id));
		}
	}
	wrong = oracle_read_end(&w->oracle, &op->read, req->res == 0 ? req->data : NULL, &bad);
	if (wrong) {
		sim_fail("%s: request %llu, array sector %llu", wrong, ULL(op->id), ULL(bad));
	}
}

void watch_done(struct world *w, struct op *op)
{
	const struct raid_req *req = &op->req;
	bool ok = req->res == 0, durable = ok && (req->flags & RAID_REQ_FUA);
	enum oracle_kind kind = req->op == RAID_OP_WRITE  ? ORACLE_WRITE
				: req->op == RAID_OP_ZERO ? ORACLE_ZERO
							  : ORACLE_TRIM;

	if (!ok) {
		check_error(w, op);
	} else if (op->after_lost &&
		   (req->op == RAID_OP_FLUSH ||
		    (durable && req->op != RAID_OP_READ && req->op != RAID_OP_CACHE))) {
		sim_fail("request %llu, a FLUSH or FUA, succeeds after a flush was lost",
			 ULL(op->id));
	}
	switch (req->op) {
	case RAID_OP_READ:
		read_done(w, op);
		break;
	case RAID_OP_FLUSH:
		if (ok && !w->read_only) {
			verify_flushed(w, op->seq);
			oracle_flush_end(&w->oracle, op->seq);
		}
		break;
	case RAID_OP_WRITE:
	case RAID_OP_TRIM:
	case RAID_OP_ZERO:
		if (!op->seq) {
			break;
		}
		if (req->res == -ENOTSUP) {
			/* FAST_ZERO: decided at once, and nothing was written. */
			oracle_write_refused(&w->oracle, op->seq, req->addr, req->len);
			break;
		}
		oracle_write_end(&w->oracle, op->seq, kind, req->addr, req->len, ok, durable);
		if (ok) {
			verify_acked(w, op, durable);
		}
		break;
	case RAID_OP_CACHE:
		break;
	}
}

static void member_failed(struct world *w, uint32_t disk)
{
	if (!w->may_fail && !w->faults[disk].lossy) {
		sim_fail("disk %u, which has no fault that matters, was failed", disk);
	}
	w->role[disk].failed = true;
	w->stats.members_failed++;
	oracle_exempt_all(&w->oracle);
	roles_changed(w);
}

static void sync_event(struct world *w, const struct raid_event *ev)
{
	static struct raid_status st;

	if (ev->type == RAID_EV_SYNC_STARTED) {
		raid_get_status(w->array, &st);
		w->sync.action = st.sync.action;
		w->sync.mismatches = 0;
		w->stats.syncs++;
	} else {
		if (ev->err == 0) {
			w->sync.finished[w->sync.action]++;
		}
		w->sync.action = RAID_SYNC_IDLE;
	}
	roles_refresh(w);
}

static void mismatch(struct world *w, const struct raid_event *ev)
{
	w->sync.mismatches++;
	if (w->sync.action != RAID_SYNC_CHECK && w->sync.action != RAID_SYNC_REPAIR) {
		return;
	}
	if (w->damages > 0) {
		scrub_mismatch(w, ev);
	} else if (!w->needs_resync && !w->may_fail) {
		sim_fail("a scrub says that %llu bytes at %llu differ", ULL(ev->len),
			 ULL(ev->maddr));
	}
}

static void list_bad(struct world *w, const struct raid_event *ev, uint32_t disk)
{
	/* A block that its only source lists is lost for a target. */
	if (!w->may_fail && !w->faults[disk].lossy && !w->plan.bad_list) {
		sim_fail("a block of disk %u went into its bad-block log within the fault budget",
			 disk);
	}
	memset(w->listed[disk] + ev->maddr / RAID_SECTOR_BYTES, 1, ev->len / RAID_SECTOR_BYTES);
	memset(w->was_listed[disk] + ev->maddr / RAID_SECTOR_BYTES, 1, ev->len / RAID_SECTOR_BYTES);
}

void watch_event(struct world *w, const struct raid_event *ev, uint32_t disk)
{
	switch (ev->type) {
	case RAID_EV_MEMBER_FAILED:
		member_failed(w, disk);
		break;
	case RAID_EV_MEMBER_ADDED:
	case RAID_EV_MEMBER_REMOVED:
	case RAID_EV_SPARE_ACTIVE:
		roles_refresh(w);
		if (ev->type == RAID_EV_SPARE_ACTIVE) {
			faults_again(w);
		}
		break;
	case RAID_EV_SYNC_STARTED:
	case RAID_EV_SYNC_FINISHED:
		sync_event(w, ev);
		break;
	case RAID_EV_MISMATCH:
		mismatch(w, ev);
		break;
	case RAID_EV_BAD_BLOCK:
		list_bad(w, ev, disk);
		break;
	case RAID_EV_READ_ERROR:
		faults_read_error(w, disk);
		break;
	case RAID_EV_READ_REPAIRED:
		world_exempt(w, disk, ev->maddr, ev->len);
		break;
	case RAID_EV_DEADLINE:
		oracle_exempt_all(&w->oracle);
		break;
	case RAID_EV_FLUSH_LOST:
		w->flush_lost = true;
		if (!w->may_fail) {
			sim_fail("a flush was lost within the fault budget");
		}
		break;
	case RAID_EV_READ_ONLY:
	case RAID_EV_LAST_COPY_ERROR:
	case RAID_EV_ROW_INCONSISTENT:
		if (!w->may_fail) {
			sim_fail("%s within the fault budget", raid_event_name(ev->type));
		}
		break;
	default:
		break;
	}
}
