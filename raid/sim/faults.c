/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes wrong. Before a session a set of disks is drawn that the array can lose as a whole: the
 * *lossy* ones. They may do anything: die, hang, forget how to write, fill up. All other disks are
 * good: slow at times, with a few unreadable blocks and single failing ios, but only where a copy
 * on another good disk stands behind each, so that no client may ever see an error. Beyond the
 * budget all disks are lossy, and errors are allowed.
 */
#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/sim/world.h"

enum { SOFT_ERRORS_MAX = 4, LATENT_GOOD_MAX = 3, LATENT_LOSSY_MAX = 80 };

/* Can this be read on a disk that stays? */
static bool is_readable(const struct world *w, uint32_t slot, uint64_t maddr)
{
	uint32_t d = w->holder[slot];

	return d != LAYOUT_NONE && !w->faults[d].lossy &&
	       !w->was_listed[d][maddr / RAID_SECTOR_BYTES] &&
	       groups_held(w, slot, maddr, IMAGE_NOW);
}

/* Would redundancy give the sectors of this group if the slot did not, and does the engine know
 * that it may trust it? */
static bool is_redundant(const struct world *w, uint32_t slot, uint64_t group)
{
	const struct layout *l = &w->layout;
	uint32_t others = 0;

	if (!l->parity) {
		for (uint32_t i = 0; i < l->copies; i++) {
			const struct layout_place *p = &l->copy[group * l->copies + i];

			others += p->slot != slot && is_readable(w, p->slot, p->maddr);
		}
		return others > 0;
	}
	for (uint32_t k = 0; k < l->slots; k++) {
		others += k != slot && is_readable(w, k, layout_column_maddr(l, k, group));
	}
	return !w->needs_resync && others >= l->row_data;
}

/* What the engine cannot look into: the largest block or buffer alignment of any member; of parity
 * what it decides about at once. */
static uint64_t unit_sectors(const struct world *w)
{
	uint32_t unit = w->layout.parity ? RAID_PAGE_BYTES : RAID_SECTOR_BYTES;

	for (uint32_t i = 0; i < w->plan.disks; i++) {
		unit = w->disk[i].p.block > unit ? w->disk[i].p.block : unit;
		unit = w->disk[i].p.mem_align > unit ? w->disk[i].p.mem_align : unit;
	}
	return unit / RAID_SECTOR_BYTES;
}

/* The groups of whole units that hold the sector at maddr; without redundancy array sectors. */
static bool unit_of(const struct world *w, uint32_t disk, uint64_t maddr, uint64_t *from,
		    uint64_t *to)
{
	const struct layout *l = &w->layout;
	uint32_t slot = w->role[disk].slot, s = layout_sector(l, slot, maddr);
	uint64_t unit = unit_sectors(w), g = l->parity ? layout_group(l, slot, maddr) : s;

	*from = round_down_u64(g, unit);
	*to = min_u64(*from + unit, l->parity ? l->groups : l->sectors);
	return slot != LAYOUT_NONE && (l->parity ? g != UINT64_MAX : s != LAYOUT_NONE);
}

/* May an io on a good disk fail in this range? Reads need redundancy, and every unit fails only
 * once in a session, so that a retry or a repair finds its way. */
static bool may_fail_softly(const struct world *w, uint32_t disk, uint64_t maddr, uint64_t len,
			    bool read)
{
	uint64_t from, to;

	for (uint64_t at = 0; at < len; at += RAID_SECTOR_BYTES) {
		if (!unit_of(w, disk, maddr + at, &from, &to)) {
			return false;
		}
		for (uint64_t g = from; g < to; g++) {
			if (w->immune[g] || (read && (w->layout.groups == 0 ||
						      !is_redundant(w, w->role[disk].slot, g)))) {
				return false;
			}
		}
	}
	return true;
}

static void make_immune(struct world *w, uint32_t disk, uint64_t maddr, uint64_t len)
{
	uint64_t from, to;

	for (uint64_t at = 0; at < len; at += RAID_SECTOR_BYTES) {
		if (unit_of(w, disk, maddr + at, &from, &to)) {
			memset(w->immune + from, 1, to - from);
		}
	}
}

static void add_latent(struct world *w, uint32_t disk, uint32_t most)
{
	struct disk *d = &w->disk[disk];
	uint32_t slot = w->role[disk].slot;
	uint64_t from = w->layout.data_from[slot], n = prng_below(&w->rng, most + 1),
		 blocks = (w->layout.data_to[slot] - from) / d->p.block;

	for (uint64_t i = 0; i < n && blocks > 0; i++) {
		uint64_t maddr = from + prng_below(&w->rng, blocks) * d->p.block;

		maddr = round_down_u64(maddr, d->p.block);
		if (w->may_fail || may_fail_softly(w, disk, maddr, d->p.block, true)) {
			d->bad[maddr / d->p.block] = DISK_BAD_READ;
			make_immune(w, disk, maddr, d->p.block);
		}
	}
}

/* Something that the disk will suffer from, within the next moments of the session. */
static void draw_suffering(struct world *w, uint32_t disk)
{
	struct disk_faults *f = &w->faults[disk];
	struct disk *d = &w->disk[disk];
	uint64_t soon = w->clock.now_ns + prng_log_range(&w->rng, SIM_MS, SIM_S);

	switch (prng_below(&w->rng, 11)) {
	case 0:
		f->read_fail_in = (uint32_t)prng_log_range(&w->rng, 2, 50);
		break;
	case 1:
		f->write_fail_in = (uint32_t)prng_log_range(&w->rng, 2, 100);
		break;
	case 2:
		f->flush_fail_in = (uint32_t)prng_log_range(&w->rng, 1, 10);
		break;
	case 3:
		f->dead_at_ns = soon;
		break;
	case 4:
		f->full_at_ns = soon;
		break;
	case 5:
		f->hang_at_ns = soon;
		break;
	case 6:
		f->hang_at_ns = soon;
		f->hang_for_ns = prng_log_range(&w->rng, SIM_S, 120 * SIM_S);
		break;
	case 7:
		f->hang_in = (uint32_t)prng_log_range(&w->rng, 10, 200);
		f->hang_for_ns = prng_log_range(&w->rng, SIM_S, 180 * SIM_S);
		if (prng_one_in(&w->rng, 2)) {
			/* Just longer than the engine waits. */
			f->hang_for_ns = w->plan.limits.read_deadline_ms * SIM_MS +
					 prng_log_range(&w->rng, SIM_US, SIM_S);
		}
		break;
	case 8:
		if (w->role[disk].slot != LAYOUT_NONE) {
			add_latent(w, disk, LATENT_LOSSY_MAX);
		}
		if (prng_one_in(&w->rng, 2)) {
			clock_schedule(&w->clock, soon, EV_HAND_FAIL, f);
		}
		break;
	case 9:
		for (uint64_t b = prng_below(&w->rng, d->blocks), n = prng_below(&w->rng, 64);
		     n > 0 && b < d->blocks; b++, n--) {
			d->bad[b] = DISK_BAD_WRITE;
		}
		break;
	default:
		clock_schedule(&w->clock, soon, EV_HAND_FAIL, f);
		break;
	}
	f->odd_in = prng_one_in(&w->rng, 10) ? 3 : 0;
}

/* Parity that may be stale gives nothing back: until the resync is over every disk is needed. */
static bool all_needed(const struct world *w)
{
	return w->layout.parity > 0 && w->needs_resync;
}

static void choose_lossy(struct world *w)
{
	bool left[RAID_SLOTS_MAX] = {false};
	uint32_t start = (uint32_t)prng_below(&w->rng, w->plan.slots);

	for (uint32_t k = 0; k < w->plan.slots; k++) {
		uint32_t d = w->holder[k];

		left[k] = d != LAYOUT_NONE && world_is_good(w, d) && !w->faults[d].lossy &&
			  d != w->listed_disk;
	}
	for (uint32_t i = 0; i < w->plan.slots; i++) {
		uint32_t k = (start + i) % w->plan.slots;

		if (!left[k] || all_needed(w) || prng_one_in(&w->rng, 3)) {
			continue;
		}
		left[k] = false;
		w->faults[w->holder[k]].lossy = geo_enough(&w->geometry, left);
		left[k] = !w->faults[w->holder[k]].lossy;
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		const struct role *r = &w->role[d];

		if ((r->filling || r->twin || r->spare) && !all_needed(w) &&
		    prng_one_in(&w->rng, 4)) {
			w->faults[d].lossy = true;
		}
	}
}

static void draw_disk(struct world *w, uint32_t d)
{
	struct disk_faults *f = &w->faults[d];

	f->slow = prng_one_in(&w->rng, 4) ? (uint32_t)prng_range(&w->rng, 2, 8) : 1;
	if (!f->lossy && (w->own[d].devflags & SB_DEV_FAIL_FAST)) {
		return; /* one error and it is out */
	}
	if (!f->lossy) {
		f->soft_left = SOFT_ERRORS_MAX;
		if (world_is_good(w, d)) {
			add_latent(w, d, LATENT_GOOD_MAX);
		}
	} else if (!prng_one_in(&w->rng, 4)) {
		draw_suffering(w, d);
		if (prng_one_in(&w->rng, 4)) {
			draw_suffering(w, d);
		}
	}
}

void faults_begin(struct world *w)
{
	memset(w->faults, 0, sizeof w->faults);
	w->may_fail = w->plan.profile == PLAN_BEYOND;
	w->faults_on = w->plan.profile != PLAN_CALM && !prng_one_in(&w->rng, 5);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		memset(w->disk[i].bad, 0, w->disk[i].blocks);
		w->faults[i].slow = 1;
	}
	if (!w->faults_on) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.disks && w->may_fail; d++) {
		w->faults[d].lossy = w->role[d].member != LAYOUT_NONE;
	}
	if (!w->may_fail) {
		choose_lossy(w);
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (w->role[d].slot != LAYOUT_NONE) {
			draw_disk(w, d);
		}
	}
}

/* Whoever stays has no faults any more that counted on what may be lost now. */
static void heal_good_disks(struct world *w)
{
	struct flight *f;

	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (!w->faults[d].lossy) {
			memset(w->disk[d].bad, 0, w->disk[d].blocks);
			w->faults[d].soft_left = 0;
		}
	}
	list_for_each_entry (f, &w->flights, link) {
		if (!w->faults[f->disk].lossy && f->fate == FLIGHT_FAIL) {
			f->fate = FLIGHT_OK;
		}
	}
}

/* A lossy disk has replaced one that was to stay, and without it the array could not go on: nothing
 * befalls it any more. */
static void pardon(struct world *w)
{
	bool left[RAID_SLOTS_MAX] = {false};

	for (uint32_t k = 0; k < w->plan.slots; k++) {
		uint32_t d = w->holder[k];

		left[k] = d != LAYOUT_NONE && world_is_good(w, d) && !w->faults[d].lossy;
	}
	for (uint32_t k = 0; k < w->plan.slots && !geo_enough(&w->geometry, left); k++) {
		uint32_t d = w->holder[k];

		if (d != LAYOUT_NONE && world_is_good(w, d) && !left[k]) {
			w->faults[d] = (struct disk_faults){.slow = 1};
			memset(w->disk[d].bad, 0, w->disk[d].blocks);
			left[k] = true;
		}
	}
}

/* A rebuild or a resync is done: another disk may be lost now. Those that were lossy stay so, but
 * for who is the last. */
void faults_again(struct world *w)
{
	bool before[PLAN_DISKS_MAX];

	if (!w->faults_on || w->may_fail) {
		return;
	}
	pardon(w);
	if (prng_one_in(&w->rng, 3)) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		before[d] = w->faults[d].lossy;
	}
	heal_good_disks(w);
	choose_lossy(w);
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (w->faults[d].lossy && !before[d] && !prng_one_in(&w->rng, 4)) {
			draw_suffering(w, d);
		}
	}
}

/* The owner sees an error and pulls the disk, most likely in the middle of its repair. */
void faults_read_error(struct world *w, uint32_t disk)
{
	if (w->faults_on && w->faults[disk].lossy && prng_one_in(&w->rng, 8)) {
		clock_schedule(&w->clock,
			       w->clock.now_ns + prng_below(&w->rng, 4 * w->plan.latency_ns),
			       EV_HAND_FAIL, &w->faults[disk]);
	}
}

/* From now on every disk answers, also a dead one that nobody has noticed; blocks that are bad stay
 * bad. */
void faults_stop(struct world *w)
{
	if (!w->faults_on) {
		return;
	}
	w->faults_on = false;
	world_release_hung(w);
}

static void fail(struct flight *f, int err)
{
	f->fate = FLIGHT_FAIL;
	f->err = err;
}

static void hang(struct world *w, struct flight *f)
{
	uint64_t for_ns = w->faults[f->disk].hang_for_ns;

	f->fate = FLIGHT_HANG;
	if (for_ns) {
		/* It comes back by itself, done or not. */
		f->late = true;
		f->fate = prng_one_in(&w->rng, 2) ? FLIGHT_OK : FLIGHT_FAIL;
		f->err = -EIO;
	}
}

static bool hits(struct world *w, uint32_t one_in)
{
	return one_in && prng_one_in(&w->rng, one_in);
}

static void draw_lossy(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	const struct disk_faults *x = &w->faults[f->disk];
	enum raid_io_op op = f->io->op;
	uint64_t now = w->clock.now_ns;

	if (x->dead_at_ns && now >= x->dead_at_ns) {
		fail(f, prng_one_in(&w->rng, 2) ? -EIO : -ENODEV);
		*latency_ns = 1 + prng_below(&w->rng, 20 * SIM_US);
	} else if ((x->hang_at_ns && now >= x->hang_at_ns) || hits(w, x->hang_in)) {
		hang(w, f);
		*latency_ns = x->hang_for_ns;
	} else if (x->full_at_ns && now >= x->full_at_ns && op == RAID_IO_WRITE) {
		fail(f, -ENOSPC);
	} else if (op == RAID_IO_READ) {
		if (hits(w, x->read_fail_in)) {
			fail(f, -EIO);
		}
	} else if (op == RAID_IO_FLUSH) {
		if (hits(w, x->flush_fail_in)) {
			fail(f, -EIO);
		}
	} else if (hits(w, x->write_fail_in)) {
		fail(f, -EIO);
	} else if (op != RAID_IO_WRITE && hits(w, x->odd_in)) {
		fail(f, -EOPNOTSUPP);
	}
}

/* What becomes of an io that has just been issued, and when. */
void faults_draw(struct world *w, struct flight *f, uint64_t *latency_ns)
{
	struct disk_faults *x = &w->faults[f->disk];
	const struct raid_io *io = f->io;
	uint64_t base = w->plan.latency_ns * (x->slow ? x->slow : 1);

	*latency_ns = 1 + prng_log_range(&w->rng, base / 8, base);
	f->fate = FLIGHT_OK;
	if (w->script) {
		w->script(w, f, latency_ns);
		return;
	}
	if (!w->faults_on) {
		return;
	}
	if (x->lossy) {
		draw_lossy(w, f, latency_ns);
		return;
	}
	if (x->soft_left == 0 || (io->op != RAID_IO_READ && io->op != RAID_IO_WRITE) ||
	    !prng_one_in(&w->rng, 50)) {
		return;
	}
	if (may_fail_softly(w, f->disk, io->maddr, io->len, io->op == RAID_IO_READ)) {
		make_immune(w, f->disk, io->maddr, io->len);
		x->soft_left--;
		fail(f, -EIO);
	}
}
