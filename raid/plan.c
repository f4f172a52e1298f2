/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests are cut into fragments, and which ios carry a fragment out.
 *
 * All ios are whole units (view.unit) in array addresses, counted from plan_base(): 0, or for a
 * linear array whose members do not start at multiples of the unit ("shifted") the start of the
 * member; a fragment of such an array lies on one member. Since a payload's address is ≡ its array
 * address modulo a page and the unit is at least every memory alignment, the whole units of a
 * payload go out as they are; a shifted array copies.
 *
 * A fragment is carried out in windows, one after the other: as much as its reserved slots can
 * take, nearly always all of it. Pieces that follow each other on a member become one io.
 */
#include <errno.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/shard.h"
#include "raid/stripe.h"

static uint64_t page_floor(uint64_t a)
{
	return a & ~(uint64_t)(RAID_PAGE_BYTES - 1);
}

/* Start and end of the area in which a fragment's ios lie. */
static void area(const struct shard *sh, uint64_t addr, uint64_t *start, uint64_t *end)
{
	const struct geometry *g = sh->view->geo;
	struct geo_piece p;

	*start = 0;
	*end = sh->view->size_bytes;
	if (sh->shifted) {
		geo_map(g, addr, 1, &p);
		*start = g->start_sector[p.copy[0].slot] * RAID_SECTOR_BYTES;
		*end = g->start_sector[p.copy[0].slot + 1] * RAID_SECTOR_BYTES;
	}
}

uint64_t plan_base(const struct shard *sh, uint64_t addr)
{
	uint64_t start, end;

	area(sh, addr, &start, &end);
	return start;
}

static bool can_zero(const struct shard *sh, uint32_t gslot, bool punch)
{
	const struct view_slot *vs = &sh->view->slot[gslot];

	return !vs->writes || (punch ? vs->can_punch && !sh->no_punch[vs->member]
				     : vs->can_zero && !sh->no_zero[vs->member]);
}

/* A block that is listed as bad is good again when it was written, not when it was discarded. */
static bool all_slots(const struct shard *sh, bool punch)
{
	if (sh->view->any_bad) {
		return false;
	}
	for (uint32_t k = 0; k < sh->view->geo->p.slots; k++) {
		if (!can_zero(sh, k, punch) || !can_zero(sh, VIEW_TWIN + k, punch)) {
			return false;
		}
	}
	return true;
}

/* Can the members do a TRIM or ZERO themselves, and how? */
bool plan_zero_direct(const struct shard *sh, const struct raid_req *req, enum frag_kind *kind)
{
	if (req->op == RAID_OP_TRIM || !(req->flags & RAID_REQ_NO_HOLE)) {
		if (all_slots(sh, true)) {
			*kind = FRAG_DISCARD;
			return true;
		}
	}
	if (req->op == RAID_OP_ZERO && all_slots(sh, false)) {
		*kind = FRAG_ZERO_IO;
		return true;
	}
	return false;
}

uint64_t plan_split(const struct shard *sh, enum raid_op op, uint64_t addr, uint64_t len)
{
	struct raid_req probe = {.op = op};
	uint64_t start, end, limit;
	enum frag_kind kind;

	if (sh->stripes.parity && op != RAID_OP_READ) {
		return min_u64(len, stripe_cell_end(sh, addr) - addr);
	}
	area(sh, addr, &start, &end);
	if ((op == RAID_OP_TRIM || op == RAID_OP_ZERO) &&
	    (op == RAID_OP_TRIM || plan_zero_direct(sh, &probe, &kind))) {
		limit = page_floor(addr) + RAID_FRAGMENT_ZERO_BYTES;
		if (sh->view->geo->p.chunk_sectors) {
			uint64_t chunk =
				(uint64_t)sh->view->geo->p.chunk_sectors * RAID_SECTOR_BYTES;

			limit = min_u64(limit, round_down_u64(addr, chunk) + 1024 * chunk);
		}
	} else {
		limit = page_floor(addr) + RAID_FRAGMENT_BYTES - (sh->shifted ? 16384 : 0);
		limit = min_u64(limit, start + round_down_u64(addr - start, sh->cell_bytes) +
					       (uint64_t)sh->cells_max * sh->cell_bytes);
	}
	limit = min_u64(limit, end);
	return min_u64(len, limit - addr);
}

/* [addr, addr+len) widened to whole units; the end may lie beyond the array. */
void plan_bounds(const struct shard *sh, uint64_t addr, uint64_t len, uint64_t *lo, uint64_t *hi)
{
	uint64_t mask = sh->view->unit - 1, base = sh->shifted ? plan_base(sh, addr) : 0;

	*lo = base + ((addr - base) & ~mask);
	*hi = base + ((addr + len - base + mask) & ~mask);
}

static uint64_t last_byte(const struct shard *sh, const struct frag *f)
{
	uint64_t start, end;

	area(sh, f->lo, &start, &end);
	return min_u64(f->hi, end);
}

/* Slots to reserve: enough for the whole fragment if that is few, and always for one piece. */
uint32_t plan_ios(const struct shard *sh, const struct frag *f)
{
	uint64_t cells = (f->hi - f->lo - 1) / sh->cell_bytes + 2;
	uint32_t copies = sh->view->geo->copies;
	uint32_t piece = copies + (sh->view->redundant ? VIEW_TWINS_MAX : 0);

	if (cells == 2 && f->lo / sh->cell_bytes == (f->hi - 1) / sh->cell_bytes) {
		cells = 1;
	}
	if (f->kind == FRAG_READ) {
		cells += f->hi - f->lo >= SHARD_SPREAD || sh->view->any_bad ? 4 : 0;
		return (uint32_t)min_u64(cells, sh->ios_max);
	}
	return (uint32_t)max_u64(max_u64(2, piece), min_u64(cells * copies, sh->ios_max));
}

static bool head_partial(const struct frag *f)
{
	return f->req->addr > f->lo;
}

static bool tail_partial(const struct frag *f)
{
	return f->req->addr + f->req->len < f->hi;
}

static bool single_unit(const struct shard *sh, const struct frag *f)
{
	return f->hi - f->lo == sh->view->unit;
}

/* Does the last unit have an edge block of its own, beside the first's? */
static bool tail_edge(const struct shard *sh, const struct frag *f)
{
	return tail_partial(f) && !single_unit(sh, f);
}

static bool head_edge(const struct shard *sh, const struct frag *f)
{
	return head_partial(f) || (tail_partial(f) && single_unit(sh, f));
}

static uint8_t *edge_pointer(const struct shard *sh, const struct frag *f, bool tail)
{
	if (f->bounce) {
		return (uint8_t *)f->buf + (tail ? f->hi - f->lo - sh->view->unit : 0);
	}
	return (uint8_t *)f->buf + (tail ? RAID_PAGE_BYTES : 0);
}

uint64_t plan_buffer_bytes(const struct shard *sh, const struct frag *f)
{
	if (f->kind == FRAG_READ) {
		return sh->shifted ? f->hi - f->lo + RAID_PAGE_BYTES
				   : page_floor(f->hi + RAID_PAGE_BYTES - 1) - page_floor(f->lo);
	}
	if (f->bounce) {
		return f->hi - f->lo;
	}
	if (f->req->op == RAID_OP_TRIM) {
		return 0;
	}
	return tail_edge(sh, f) ? 2 * RAID_PAGE_BYTES : head_edge(sh, f) ? RAID_PAGE_BYTES : 0;
}

uint8_t *plan_read_pointer(const struct shard *sh, const struct frag *f, uint64_t addr)
{
	return (uint8_t *)f->buf + (addr - (sh->shifted ? f->lo : page_floor(f->lo)));
}

/* ---- building ------------------------------------------------------------------------------ */

struct slot *frag_take_slot(struct shard *sh, struct frag *f)
{
	struct slot_pool *pool = f->kit ? &f->kit->pool : &sh->pool;
	struct slot *s;

	CHECK(f->reserved > 0);
	f->reserved--;
	pool->reserved--;
	s = slot_take(pool, SLOT_DATA, f);
	list_append(&f->slots, &s->link);
	f->out++;
	return s;
}

static const enum raid_io_op kind_op[] = {
	[FRAG_READ] = RAID_IO_READ,	   [FRAG_WRITE] = RAID_IO_WRITE,
	[FRAG_ZERO_WRITE] = RAID_IO_WRITE, [FRAG_ZERO_IO] = RAID_IO_ZERO,
	[FRAG_DISCARD] = RAID_IO_DISCARD,
};

static bool has_iov(const struct slot *s)
{
	return s->io.op == RAID_IO_READ || s->io.op == RAID_IO_WRITE;
}

/* The io of this window that ends where (gslot, maddr) begins and has room, or NULL. */
static struct slot *run_find(struct frag *f, uint32_t gslot, uint64_t maddr, uint64_t len,
			     uint64_t max_io)
{
	for (struct list *l = f->slots.prev; l != &f->slots; l = l->prev) {
		struct slot *s = container_of(l, struct slot, link);

		if (s->state == SLOT_HELD && s->gslot == gslot &&
		    s->io.maddr + s->io.len == maddr) {
			return s->io.len + len <= max_io &&
					       (!has_iov(s) || s->io.iovcnt < s->iov_cap)
				       ? s
				       : NULL;
		}
	}
	return NULL;
}

static void run_append(struct slot *s, const void *ptr, uint64_t len)
{
	struct iovec *last = &s->iov[s->io.iovcnt ? s->io.iovcnt - 1 : 0];

	s->io.len += len;
	if (!has_iov(s)) {
		return;
	}
	if (s->io.iovcnt && (uint8_t *)last->iov_base + last->iov_len == ptr) {
		last->iov_len += len;
		return;
	}
	CHECK(s->io.iovcnt < s->iov_cap);
	s->iov[s->io.iovcnt++] = (struct iovec){.iov_base = (void *)(uintptr_t)ptr, .iov_len = len};
}

static struct slot *run_new(struct shard *sh, struct frag *f, enum raid_io_op op, uint32_t gslot,
			    uint64_t maddr)
{
	struct slot *s = frag_take_slot(sh, f);

	s->io.op = op;
	s->io.fua = f->kind == FRAG_WRITE && f->req->flags & RAID_REQ_FUA;
	s->io.member = sh->view->slot[gslot].member;
	s->io.maddr = maddr;
	s->gslot = gslot;
	return s;
}

/* Bytes of a copy's io for a piece that may end inside a unit (the end of the array). */
static uint64_t io_len(const struct shard *sh, const struct geo_copy *c, uint64_t len)
{
	uint64_t whole = round_up_u64(len, sh->view->unit);

	return min_u64(whole, sh->view->slot[c->slot].end_maddr - c->maddr);
}

static void emit_held(struct shard *sh, struct frag *f)
{
	struct slot *s, *tmp;

	list_for_each_entry_safe (s, tmp, &f->slots, link) {
		if (s->state == SLOT_HELD) {
			s->counted = true;
			f->pending++;
			iop_emit(sh->iop, s);
		}
	}
}

static void drop_held(struct shard *sh, struct frag *f)
{
	struct slot *s, *tmp;

	list_for_each_entry_safe (s, tmp, &f->slots, link) {
		if (s->state == SLOT_HELD) {
			frag_slot_put(sh, f, s);
		}
	}
}

/* The rest of the reservation goes back once nothing more is to be planned. */
void plan_emit(struct shard *sh, struct frag *f, uint64_t end)
{
	struct slot_pool *pool = f->kit ? &f->kit->pool : &sh->pool;

	if (f->cursor >= end) {
		/* Rows that stripes read may have to be read again by itself. */
		uint32_t keep = sh->stripes.parity && !f->out ? 1 : 0;

		f->cursor = f->hi;
		pool->reserved -= f->reserved - keep;
		f->reserved = keep;
	}
	emit_held(sh, f);
}

/*
 * A large read that meets idle mirrors is cut into parts of which each comes from another copy.
 * Far copies give nothing here: the first ones already lie on all members.
 */
struct spread {
	uint64_t part;	/* bytes; UINT64_MAX: not cut */
	uint64_t begin; /* of the part in work */
	int copy;	/* that gives it, -1: not chosen yet */
	uint32_t used;	/* copies of the parts before */
};

static struct spread spread_of(const struct shard *sh, const struct frag *f)
{
	const struct view *v = sh->view;
	struct spread sp = {.part = UINT64_MAX, .begin = f->cursor, .copy = -1};
	bool mirror = v->geo->p.level == RAID_LEVEL_1;
	uint64_t len = f->hi - f->lo, parts;
	uint32_t idle = 0, good = 0;

	if (len < SHARD_SPREAD || (!mirror && (v->geo->near < 2 || v->geo->far > 1))) {
		return sp;
	}
	for (uint32_t k = 0; k < v->geo->p.slots; k++) {
		const struct view_slot *vs = &v->slot[k];

		good += vs->in_sync;
		idle += vs->in_sync && !vs->write_mostly && !vs->rotational &&
			!sh->late[vs->member] && !sh->iop->member[vs->member].in_flight;
	}
	if (idle >= 2 && (mirror || idle == good)) {
		parts = min_u64(mirror ? idle : v->geo->near, 4);
		sp.part = round_up_u64((len + parts - 1) / parts, 16384);
	}
	return sp;
}

/* Choose the copy for a piece: that of its part if possible. */
static int spread_choose(const struct shard *sh, struct spread *sp, const struct geo_piece *p,
			 uint64_t *len)
{
	uint32_t tried;
	int i;

	if (sp->part == UINT64_MAX || choose_unsynced(sh, p)) {
		return choose_copy(sh, p, 0, len);
	}
	if (p->addr - sp->begin >= sp->part && sp->copy >= 0) {
		sp->used |= 1u << sp->copy;
		sp->copy = -1;
		sp->begin = p->addr;
	}
	tried = sp->copy >= 0 ? ~(1u << sp->copy) : sp->used;
	i = choose_copy(sh, p, tried, len);
	if (i < 0) {
		i = choose_copy(sh, p, 0, len);
	}
	if (sp->copy < 0) {
		sp->copy = i;
	}
	return i;
}

bool plan_add_read(struct shard *sh, struct frag *f, uint32_t gslot, uint64_t maddr, uint64_t len,
		   uint8_t *to)
{
	struct slot *s = run_find(f, gslot, maddr, len, sh->view->slot[gslot].max_io_bytes);

	if (!s) {
		if (!f->reserved) {
			MARK(plan_read_window);
			return false;
		}
		s = run_new(sh, f, RAID_IO_READ, gslot, maddr);
	}
	run_append(s, to, len);
	return true;
}

bool plan_read(struct shard *sh, struct frag *f)
{
	uint64_t end = sh->shifted ? last_byte(sh, f) : min_u64(f->hi, sh->view->size_bytes);
	struct spread sp = spread_of(sh, f);
	struct geo_piece p;

	f->window = f->cursor;
	while (f->cursor < end) {
		uint64_t len, n = min_u64(min_u64(end - f->cursor, sh->cell_bytes), sp.part);
		struct geo_copy *c;
		int i;

		geo_map(sh->view->geo, f->cursor, n, &p);
		i = spread_choose(sh, &sp, &p, &len);
		if (i < 0) {
			drop_held(sh, f);
			return false;
		}
		c = &p.copy[i];
		n = io_len(sh, c, len);
		if (!plan_add_read(sh, f, c->slot, c->maddr, n,
				   plan_read_pointer(sh, f, f->cursor))) {
			break;
		}
		f->cursor += len;
	}
	plan_emit(sh, f, end);
	return true;
}

static bool plan_edge(struct shard *sh, struct frag *f, uint64_t addr, uint8_t *to)
{
	uint32_t unit = sh->view->unit;
	struct geo_piece p;
	struct geo_copy *c;
	struct slot *s;
	uint64_t len;
	int i;

	geo_map(sh->view->geo, addr, min_u64(unit, last_byte(sh, f) - addr), &p);
	i = choose_copy(sh, &p, 0, &len);
	if (i < 0) {
		return false;
	}
	c = &p.copy[i];
	s = run_new(sh, f, RAID_IO_READ, c->slot, c->maddr);
	s->io.fua = false;
	len = io_len(sh, c, len);
	memset(to + len, 0, unit - len);
	run_append(s, to, len);
	return true;
}

/* Read the blocks that the payload covers in part. Returns false if one cannot be read. */
bool plan_edges(struct shard *sh, struct frag *f)
{
	bool ok = true;

	if (f->req->op == RAID_OP_TRIM) {
		return true;
	}
	if (head_edge(sh, f)) {
		ok = plan_edge(sh, f, f->lo, edge_pointer(sh, f, false));
	}
	if (ok && tail_edge(sh, f)) {
		ok = plan_edge(sh, f, f->hi - sh->view->unit, edge_pointer(sh, f, true));
	}
	if (!ok) {
		drop_held(sh, f);
		return false;
	}
	emit_held(sh, f);
	return true;
}

static void put_bytes(const struct raid_req *req, uint8_t *to, uint64_t off, uint64_t len)
{
	if (req->op == RAID_OP_WRITE) {
		memcpy(to, (const uint8_t *)req->payload + off, len);
	} else {
		memset(to, 0, len);
	}
}

void plan_merge(struct shard *sh, struct frag *f)
{
	const struct raid_req *req = f->req;
	uint64_t unit = sh->view->unit, end = req->addr + req->len;

	if (f->bounce) {
		put_bytes(req, (uint8_t *)f->buf + (req->addr - f->lo), 0, req->len);
		return;
	}
	if (head_edge(sh, f)) {
		put_bytes(req, edge_pointer(sh, f, false) + (req->addr - f->lo), 0,
			  min_u64(f->lo + unit, end) - req->addr);
	}
	if (tail_edge(sh, f)) {
		put_bytes(req, edge_pointer(sh, f, true), f->hi - unit - req->addr,
			  end - (f->hi - unit));
	}
}

/* Where the bytes at addr come from, and (in *len) how many of them lie there together. */
static const uint8_t *source(struct shard *sh, struct frag *f, uint64_t addr, uint64_t *len)
{
	uint64_t unit = sh->view->unit, tail = f->hi - unit;

	if (f->bounce) {
		return (uint8_t *)f->buf + (addr - f->lo);
	}
	if (head_edge(sh, f) && addr < f->lo + unit) {
		*len = min_u64(*len, f->lo + unit - addr);
		return edge_pointer(sh, f, false) + (addr - f->lo);
	}
	if (tail_edge(sh, f)) {
		if (addr >= tail) {
			return edge_pointer(sh, f, true) + (addr - tail);
		}
		*len = min_u64(*len, tail - addr);
	}
	if (f->kind == FRAG_WRITE) {
		return (const uint8_t *)f->req->payload + (addr - f->req->addr);
	}
	*len = min_u64(*len, f->window + RAID_FRAGMENT_BYTES - addr);
	return sh->zeroes + (addr - f->window);
}

/* Edges of a ZERO are written, its middle may go to the members as it is: one kind a window. */
static uint64_t window_end(struct shard *sh, struct frag *f, enum frag_kind *kind)
{
	uint64_t unit = sh->view->unit, end = last_byte(sh, f);

	*kind = f->kind;
	if (f->kind != FRAG_ZERO_IO && f->kind != FRAG_DISCARD) {
		return f->kind == FRAG_ZERO_WRITE ? min_u64(end, f->cursor + RAID_FRAGMENT_BYTES)
						  : end;
	}
	if (f->req->op == RAID_OP_TRIM) {
		return end;
	}
	if (head_edge(sh, f) && f->cursor == f->lo) {
		*kind = FRAG_ZERO_WRITE;
		return min_u64(end, f->lo + unit);
	}
	if (tail_edge(sh, f)) {
		if (f->cursor < f->hi - unit) {
			return f->hi - unit;
		}
		*kind = FRAG_ZERO_WRITE;
	}
	return end;
}

/* Who gets a piece: every member of its slots, and who replaces one. */
static uint32_t receivers(const struct shard *sh, const struct geo_piece *p,
			  struct geo_copy to[RAID_COPIES_MAX + VIEW_TWINS_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->copies; i++) {
		const struct geo_copy *c = &p->copy[i];

		if (sh->view->slot[c->slot].writes) {
			to[n++] = *c;
		}
		if (sh->view->slot[VIEW_TWIN + c->slot].writes) {
			CHECK(n < RAID_COPIES_MAX + VIEW_TWINS_MAX);
			to[n++] = (struct geo_copy){VIEW_TWIN + c->slot, c->maddr};
		}
	}
	return n;
}

/*
 * Ios that hang on members that failed keep what was reserved, and the spares that took their slots
 * want ios as well: take what nobody has been promised, so that a window has one piece at least.
 */
static bool top_up(struct shard *sh, struct frag *f, uint32_t ios)
{
	struct slot_pool *pool = f->kit ? &f->kit->pool : &sh->pool;
	uint32_t more = ios - f->reserved;

	if (f->cursor > f->window || pool->free_count - pool->reserved < more) {
		return false;
	}
	MARK(plan_top_up);
	f->reserved += more;
	pool->reserved += more;
	return true;
}

/* Add a piece on all its copies. Returns false when the slots do not suffice. */
static bool add_copies(struct shard *sh, struct frag *f, const struct geo_piece *p,
		       enum raid_io_op op, const uint8_t *ptr)
{
	struct geo_copy to[RAID_COPIES_MAX + VIEW_TWINS_MAX];
	struct slot *run[RAID_COPIES_MAX + VIEW_TWINS_MAX];
	uint32_t fresh = 0, copies = receivers(sh, p, to);

	CHECK(copies > 0);
	for (uint32_t i = 0; i < copies; i++) {
		run[i] = run_find(f, to[i].slot, to[i].maddr, io_len(sh, &to[i], p->len),
				  sh->view->slot[to[i].slot].max_io_bytes);
		fresh += !run[i];
	}
	if (fresh > f->reserved && !top_up(sh, f, fresh)) {
		return false;
	}
	for (uint32_t i = 0; i < copies; i++) {
		if (!run[i]) {
			run[i] = run_new(sh, f, op, to[i].slot, to[i].maddr);
		}
		run_append(run[i], ptr, io_len(sh, &to[i], p->len));
	}
	return true;
}

/* Plan and emit the next window of a WRITE, TRIM or ZERO. */
void plan_window(struct shard *sh, struct frag *f)
{
	enum frag_kind kind;
	uint64_t end = window_end(sh, f, &kind);
	struct geo_piece p;

	f->window = f->cursor;
	f->did_some = false;
	while (f->cursor < end) {
		const uint8_t *ptr = NULL;
		uint64_t n = end - f->cursor;

		if (kind_op[kind] == RAID_IO_WRITE) {
			ptr = source(sh, f, f->cursor, &n);
		}
		n = min_u64(n, ptr || !sh->ios_exact ? sh->cell_bytes : n);
		geo_map(sh->view->geo, f->cursor, n, &p);
		if (!add_copies(sh, f, &p, kind_op[kind], ptr)) {
			MARK(plan_write_window);
			break;
		}
		f->cursor += p.len;
	}
	if (f->cursor == f->window) {
		MARK(plan_no_ios);
		f->err = -EIO;
		frag_advance(sh, f);
		return;
	}
	plan_emit(sh, f, last_byte(sh, f));
}
