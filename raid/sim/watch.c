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

/* The engine has stopped counting on it, whether or not its event is out yet. */
static bool engine_gave_up(const struct world *w, uint32_t disk)
{
	static struct raid_status st;

	if (w->role[disk].failed || w->role[disk].member == LAYOUT_NONE) {
		return true;
	}
	raid_get_status(w->array, &st);
	return st.member[w->role[disk].member].state != RAID_MEMBER_IN_SYNC;
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

/* ---- superblocks ----------------------------------------------------------------------------- */

static void check_roles(struct world *w, const struct flight *f, const struct sb *sb)
{
	bool named[PLAN_DISKS_MAX] = {false};

	for (uint32_t k = 0; k < sb->max_dev; k++) {
		uint32_t slot = sb->dev_roles[k];

		if (slot > SB_ROLE_MAX) {
			continue;
		}
		if (slot >= w->plan.slots || named[slot] || !world_is_good(w, slot)) {
			sim_fail("the role table written to disk %u names slot %u, which %s",
				 f->disk, slot,
				 slot >= w->plan.slots ? "does not exist"
				 : named[slot]	       ? "it names twice"
						       : "holds no member in sync");
		}
		named[slot] = true;
		if (k != w->birth[slot].dev_number) {
			sim_fail("slot %u changed its dev_number from %u to %u", slot,
				 w->birth[slot].dev_number, k);
		}
	}
	for (uint32_t d = 0; d < w->plan.slots; d++) {
		if (world_is_good(w, d) && !named[d] && !engine_gave_up(w, d)) {
			sim_fail("the role table written to disk %u leaves out disk %u, a good "
				 "member",
				 f->disk, d);
		}
	}
}

/* Clean says that all copies are equal, durably, whatever a power cut does. */
static void check_clean(struct world *w, const struct sb *sb)
{
	const struct flight *g;
	struct disk_cached *c;

	if (w->assembly->resync_offset != SB_IN_SYNC) {
		sim_fail("an array that needs a resync is written clean");
	}
	if (w->last_clean_checked == sb->events) {
		return;
	}
	w->last_clean_checked = sb->events;
	list_for_each_entry (g, &w->flights, link) {
		if (g->io->op != RAID_IO_READ && g->io->op != RAID_IO_FLUSH &&
		    g->io->maddr != w->role[g->disk].sb_maddr && !engine_gave_up(w, g->disk)) {
			sim_fail("clean is written while io %llu, a write, is out", ULL(g->id));
		}
	}
	for (uint32_t d = 0; d < w->plan.slots; d++) {
		if (!world_is_good(w, d) || engine_gave_up(w, d)) {
			continue;
		}
		list_for_each_entry (c, &w->disk[d].cache, link) {
			uint64_t maddr = c->block * w->disk[d].p.block;

			if (maddr >= w->role[d].data_from && maddr < w->role[d].data_to) {
				sim_fail("clean is written while data at %llu of disk %u is only "
					 "in its cache",
					 ULL(maddr), d);
			}
		}
	}
	verify_copies_equal(w, "clean is written");
}

/* In two waves: at least one good copy is not being written. */
static void check_waves(struct world *w, const struct flight *f)
{
	uint32_t good = 0, torn = 0;
	const struct flight *g;

	if (f->io->len <= w->disk[f->disk].p.block || !world_is_good(w, f->disk)) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.slots; d++) {
		good += world_is_good(w, d) && !engine_gave_up(w, d);
	}
	list_for_each_entry (g, &w->flights, link) {
		torn += g->io->op == RAID_IO_WRITE && g->io->maddr == w->role[g->disk].sb_maddr &&
			g->io->len > w->disk[g->disk].p.block && world_is_good(w, g->disk) &&
			!engine_gave_up(w, g->disk);
	}
	if (good > 1 && torn + 1 >= good) {
		sim_fail("all superblocks are being written at once and longer than a block: a "
			 "power cut can tear them all");
	}
}

/* A member that the last crash left one event behind is brought up to the others first, else the
 * next crash could leave it two behind: it gets what they say, to the letter. */
static void check_catch_up(const struct world *w, const struct sb *sb)
{
	const struct sb *newest = &w->assembly->member[w->assembly->freshest].sb;

	if (sb->resync_offset != newest->resync_offset ||
	    memcmp(sb->dev_roles, newest->dev_roles, sb->max_dev * sizeof(uint16_t)) != 0) {
		sim_fail("a superblock with the events of others, %llu, says something else",
			 ULL(sb->events));
	}
}

static void check_superblock(struct world *w, const struct flight *f)
{
	static uint8_t buf[SB_BYTES_MAX];
	static struct sb sb;
	struct sb_location loc = {w->plan.version, f->io->maddr / RAID_SECTOR_BYTES};
	char why[RAID_WHY_BYTES] = "";
	uint64_t at = 0;

	if (f->io->op != RAID_IO_WRITE || f->io->maddr != w->role[f->disk].sb_maddr ||
	    f->io->len > SB_BYTES_MAX) {
		sim_fail("io %llu touches the superblock of disk %u and does not write it",
			 ULL(f->id), f->disk);
	}
	memset(buf, 0, sizeof buf);
	for (uint32_t i = 0; i < f->io->iovcnt; at += f->io->iov[i].iov_len, i++) {
		memcpy(buf + at, f->io->iov[i].iov_base, f->io->iov[i].iov_len);
	}
	if (sb_decode(buf, loc, w->disk[f->disk].p.size_bytes / RAID_SECTOR_BYTES, &sb, why) != 0) {
		sim_fail("a superblock is written that cannot be read back: %s", why);
	}
	if (memcmp(sb.device_uuid, w->birth[f->disk].device_uuid, 16) != 0 &&
	    w->role[f->disk].in_sync) {
		sim_fail("disk %u gets the superblock of another", f->disk);
	}
	if (sb.events < w->events_written) {
		sim_fail("events go back from %llu to %llu", ULL(w->events_written),
			 ULL(sb.events));
	}
	if (sb.events == w->events_written && sb.events > w->assembly->events &&
	    (sb.resync_offset != w->last_sb.resync_offset ||
	     memcmp(sb.dev_roles, w->last_sb.dev_roles, sb.max_dev * sizeof(uint16_t)) != 0)) {
		sim_fail("two different updates carry the same events, %llu", ULL(sb.events));
	}
	if (sb.utime_us == 0) {
		sim_fail("utime carries no microseconds");
	}
	if (sb.events == w->assembly->events) {
		check_catch_up(w, &sb);
		return;
	}
	w->events_written = sb.events;
	w->last_sb = sb;
	check_roles(w, f, &sb);
	check_waves(w, f);
	if (world_is_redundant(w) && sb.resync_offset == SB_IN_SYNC) {
		check_clean(w, &sb);
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Rule 3, and rule 8 of md-format §8. */
static void check_dirty_first(struct world *w, const struct flight *f)
{
	for (uint32_t d = 0; d < w->plan.slots; d++) {
		const struct sb *sb;

		if (!world_is_good(w, d)) {
			continue;
		}
		sb = verify_durable_sb(w, d);
		if ((!sb || sb->resync_offset == SB_IN_SYNC) && !engine_gave_up(w, d)) {
			sim_fail("io %llu writes data while disk %u durably says clean", ULL(f->id),
				 d);
		}
		for (uint32_t k = 0; sb && k < sb->max_dev; k++) {
			uint32_t slot = sb->dev_roles[k];

			if (slot < w->plan.slots && !w->assembly->present[slot] &&
			    !engine_gave_up(w, d)) {
				sim_fail("io %llu writes data while disk %u still names the absent "
					 "slot %u",
					 ULL(f->id), d, slot);
			}
		}
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
		check_superblock(w, f);
		return;
	}
	if (!r->in_sync || io->maddr < r->data_from || io->maddr + io->len > r->data_to) {
		sim_fail("io %llu writes %llu bytes at %llu of disk %u, outside its data",
			 ULL(f->id), ULL(io->len), ULL(io->maddr), f->disk);
	}
	if (world_is_redundant(w) && w->assembly->metadata) {
		check_dirty_first(w, f);
	}
}

static void check_read(const struct world *w, const struct flight *f)
{
	const struct role *r = &w->role[f->disk];
	const struct raid_io *io = f->io;

	if (!r->in_sync || r->failed) {
		sim_fail("io %llu reads from disk %u, which is not in sync", ULL(f->id), f->disk);
	}
	for (uint64_t at = 0; at < io->len; at += RAID_SECTOR_BYTES) {
		if (w->listed[f->disk][(io->maddr + at) / RAID_SECTOR_BYTES]) {
			sim_fail("io %llu reads a block of disk %u that its bad-block log lists",
				 ULL(f->id), f->disk);
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

void watch_event(struct world *w, const struct raid_event *ev, uint32_t disk)
{
	switch (ev->type) {
	case RAID_EV_MEMBER_FAILED:
		if (!w->may_fail && !w->faults[disk].lossy) {
			sim_fail("disk %u, which has no fault that matters, was failed", disk);
		}
		w->role[disk].failed = true;
		w->stats.members_failed++;
		oracle_exempt_all(&w->oracle);
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
		if (!w->may_fail) {
			sim_fail("%s within the fault budget", raid_event_name(ev->type));
		}
		break;
	default:
		break;
	}
}
