/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From power on to power off. What an engine knows when it starts is read from the disks by
 * sb_decode() and judged by asm_decide(), as the daemon does it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/sim/world.h"

enum { DRAIN_TURNS_MAX = 20000 };

/* ---- power on -------------------------------------------------------------------------------- */

/* The superblock of a disk: of several valid ones that with the largest ctime. */
void session_load_disk(struct world *w, uint32_t i, const uint8_t *bytes, struct asm_candidate *c)
{
	struct sb_location loc[SB_LOCATIONS_MAX];
	const struct disk *d = &w->disk[i];
	uint32_t n;
	static const char *const name[PLAN_DISKS_MAX] = {"disk0", "disk1", "disk2",  "disk3",
							 "disk4", "disk5", "disk6",  "disk7",
							 "disk8", "disk9", "disk10", "disk11"};

	memset(c, 0, sizeof *c);
	c->name = name[i];
	c->dev_sectors = d->p.size_bytes / RAID_SECTOR_BYTES;
	c->load_err = -ENOENT;
	n = sb_locations(c->dev_sectors, loc);
	for (uint32_t k = 0; k < n; k++) {
		static struct sb sb;
		char why[RAID_WHY_BYTES] = "";
		uint64_t maddr = loc[k].sector * RAID_SECTOR_BYTES;
		int err = -EIO;

		if (maddr + SB_BYTES_MAX > d->p.size_bytes) {
			continue;
		}
		if (!disk_is_bad(d, maddr, SB_BYTES_MAX)) {
			err = sb_decode(bytes + maddr, loc[k], c->dev_sectors, &sb, why);
		}
		if (err == 0 && (c->load_err != 0 || sb.ctime_s > c->sb.ctime_s)) {
			c->load_err = 0;
			c->sb = sb;
		} else if (err != 0 && err != -ENOENT && c->load_err != 0) {
			c->load_err = err;
			memcpy(c->why, why, sizeof c->why);
		}
	}
	if (c->load_err == 0 && (c->sb.feature_map & SB_FEATURE_BAD_BLOCKS)) {
		int64_t sector = (int64_t)c->sb.super_offset + c->sb.bblog_offset;

		c->load_err = bb_decode(bytes + (uint64_t)sector * RAID_SECTOR_BYTES,
					c->sb.bblog_size * (uint32_t)RAID_SECTOR_BYTES,
					c->sb.bblog_shift, c->dev_sectors, &c->bad, c->why);
	}
	if (c->load_err == 0 && (c->sb.feature_map & SB_FEATURE_BITMAP)) {
		int64_t sector = (int64_t)c->sb.super_offset + c->sb.bitmap_offset;

		memcpy(c->bitmap.header, bytes + (uint64_t)sector * RAID_SECTOR_BYTES,
		       sizeof c->bitmap.header);
	}
}

/* Fill w->candidate in a drawn order. durable_only: as after a power cut that loses every cache,
 * except for disk `except`, whose cache is saved. Returns how many. */
uint32_t session_load(struct world *w, const bool offered[PLAN_DISKS_MAX], bool durable_only,
		      uint32_t except)
{
	uint32_t order[PLAN_DISKS_MAX], n = 0;

	for (uint32_t i = 0; i < w->plan.disks; i++) {
		if (offered[i]) {
			order[n++] = i;
		}
	}
	for (uint32_t i = n; i > 1 && !durable_only; i--) {
		uint32_t j = (uint32_t)prng_below(&w->rng, i), t = order[i - 1];

		order[i - 1] = order[j];
		order[j] = t;
	}
	for (uint32_t k = 0; k < n; k++) {
		const struct disk *d = &w->disk[order[k]];

		session_load_disk(w, order[k],
				  durable_only && order[k] != except ? d->durable : d->now,
				  &w->candidate[k]);
		if (!durable_only) {
			w->disk_of[k] = order[k];
		}
	}
	for (uint32_t k = n; k < RAID_MEMBERS_MAX && !durable_only; k++) {
		w->disk_of[k] = LAYOUT_NONE;
	}
	if (!durable_only) {
		w->candidates = n;
	}
	return n;
}

void session_judge(struct world *w, const bool offered[PLAN_DISKS_MAX], struct assembly *out)
{
	struct asm_options opt = {0};
	uint32_t n = session_load(w, offered, false, LAYOUT_NONE);

	asm_decide(w->candidate, n, &opt, out);
}

bool session_would_trust(struct world *w, uint32_t disk)
{
	struct asm_options opt = {0};
	bool all[PLAN_DISKS_MAX], trusted = false;
	struct assembly *as;
	uint64_t state = 1;

	if (!w->assembly->metadata) {
		return world_is_good(w, disk); /* nothing on the disks says anything */
	}
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		state += w->disk[i].watch_changes;
	}
	if (w->role[disk].distrusted_at == state) {
		return false;
	}
	as = calloc(1, sizeof *as);
	CHECK(as);
	memset(all, true, sizeof all);
	for (int saved = 0; saved < 2 && !trusted; saved++) {
		uint32_t n = session_load(w, all, true, saved ? disk : LAYOUT_NONE);

		asm_decide(w->candidate, n, &opt, as);
		/* A dirty and degraded array of parity waits for its owner's word, no more. */
		trusted = (as->decision != ASM_REFUSE ||
			   (w->layout.parity && geo_enough(&w->geometry, as->present))) &&
			  as->member[disk].verdict == ASM_IN_SYNC &&
			  as->member[disk].slot == (int32_t)w->role[disk].slot;
	}
	free(as);
	w->role[disk].distrusted_at = trusted ? 0 : state;
	return trusted;
}

static void choose_limits(struct world *w, struct raid_limits *l)
{
	struct raid_limits least = RAID_LIMITS_DEFAULT;

	raid_limits_min(w->assembly, &least);
	*l = w->plan.limits;
	if (w->plan.minimal_limits || l->frags < least.frags) {
		l->frags = least.frags;
	}
	if (w->plan.minimal_limits || l->buffer_bytes < least.buffer_bytes) {
		l->buffer_bytes = least.buffer_bytes;
	}
	w->plan.limits.frags = l->frags;
}

void session_props(const struct world *w, uint32_t disk, bool read_only,
		   struct raid_member_props *out)
{
	const struct disk_params *p = &w->disk[disk].p;

	*out = (struct raid_member_props){
		.size_bytes = p->size_bytes,
		.logical_block = p->block,
		.mem_align = p->mem_align,
		.max_io_bytes = p->max_io_bytes,
		.can_punch = p->can_punch,
		.can_zero = p->can_zero,
		.rotational = p->rotational,
		.volatile_cache = p->volatile_cache,
		.read_only = read_only,
	};
}

static void reset_session(struct world *w, bool read_only)
{
	w->events_written = w->assembly->events;
	w->read_only = read_only;
	w->zombie = w->stopped = w->flush_lost = false;
	w->live_ops = 0;
	w->cmd_out = false;
	w->actions_left = 0;
	w->idle_steps = 0;
	w->last_step_ns = w->clock.now_ns;
	w->needs_resync = world_is_redundant(w) && w->assembly->resync_offset != SB_IN_SYNC;
	memset(&w->sync, 0, sizeof w->sync);
	memset(w->was_held, 0, sizeof w->was_held);
	memset(w->immune, 0, w->layout.sectors + w->layout.groups);
	memset(w->troubled, 0, w->layout.sectors);
	memset(w->client, 0, sizeof w->client);
	memset(w->ios_of, 0, sizeof w->ios_of);
	memset(w->events_of, 0, sizeof w->events_of);
	w->session++;
	w->stats.sessions++;
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, read_only ? "start read-only" : "start",
		  w->assembly->events, w->assembly->resync_offset, w->assembly->degraded,
		  w->bits.on, 0);
}

/* Start what w->assembly says. */
static void run(struct world *w, bool read_only)
{
	static struct raid_member_props props[RAID_MEMBERS_MAX];
	struct raid_config config = {0};
	char why[RAID_WHY_BYTES] = "";

	roles_assembled(w, w->assembly);
	roles_changed(w); /* what is half rebuilt is nobody's */
	bits_load(w, w->assembly);
	memset(props, 0, sizeof props);
	for (uint32_t m = 0; m < w->candidates; m++) {
		session_props(w, w->disk_of[m], read_only, &props[m]);
	}
	config.assembly = w->assembly;
	config.props = props;
	choose_limits(w, &config.limits);
	config.read_only = read_only;
	config.bitmap_bits = bits_bytes(w, w->assembly);
	config.seed = prng_next(&w->rng);
	config.now = (struct raid_now){w->clock.now_ns, w->wall_s};
	if (raid_create(&config, &w->array, why) != 0) {
		sim_fail("raid_create refused: %s", why);
	}
	if (raid_size(w->array) != w->layout.sectors * RAID_SECTOR_BYTES) {
		sim_fail("the size of the array changed to %llu bytes",
			 (unsigned long long)raid_size(w->array));
	}
	reset_session(w, read_only);
}

void session_begin(struct world *w, const bool offered[PLAN_DISKS_MAX], bool read_only)
{
	struct asm_options opt = {.want_readonly = read_only};

	opt.force_write = w->forced && !read_only;
	opt.force = w->forced && read_only;
	session_load(w, offered, false, LAYOUT_NONE);
	asm_decide(w->candidate, w->candidates, &opt, w->assembly);
	if (w->assembly->decision != ASM_START &&
	    !(read_only && w->assembly->decision == ASM_START_READONLY)) {
		sim_fail("the array does not start: %s", w->assembly->why);
	}
	run(w, read_only);
}

/* The same disks taken as members without superblocks. */
void session_begin_built(struct world *w)
{
	char why[RAID_WHY_BYTES];

	w->candidates = w->plan.slots;
	for (uint32_t i = 0; i < w->plan.slots; i++) {
		memset(&w->candidate[i], 0, sizeof w->candidate[i]);
		w->candidate[i].name = "member";
		w->candidate[i].dev_sectors = w->disk[i].p.size_bytes / RAID_SECTOR_BYTES;
		w->disk_of[i] = i;
	}
	if (asm_build(&w->geometry.p, w->candidate, w->candidates, w->assembly, why) != 0) {
		sim_fail("asm_build refused: %s", why);
	}
	run(w, false);
}

/* ---- power off ------------------------------------------------------------------------------- */

/* The engine of a session that a crash ended still owns memory. Nothing reaches the disks any more;
 * whatever it wants, it gets an answer, until it wants nothing: every member dead at once is also
 * a case that it must get through. */
static void drain_zombie(struct world *w, int res)
{
	struct flight *f, *tmp;

	w->zombie = true;
	clock_clear(&w->clock);
	for (int turn = 0; turn < DRAIN_TURNS_MAX; turn++) {
		bool released = workload_drop_all(w);

		if (turn > 1 && w->live_ops == 0 && !released && list_empty(&w->flights) &&
		    !w->cmd_out) {
			return;
		}
		list_for_each_entry_safe (f, tmp, &w->flights, link) {
			world_finish_flight(w, f, res);
		}
		world_turn(w);
	}
	sim_fail("the engine does not come to rest when every io is answered at once (res %d)",
		 res);
}

void session_end(struct world *w)
{
	raid_destroy(w->array);
	w->array = NULL;
	clock_clear(&w->clock);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		w->disk[i].watch_maddr = UINT64_MAX;
	}
	w->cmd_out = false;
}

static void power_cut(struct world *w)
{
	enum disk_cut how[PLAN_DISKS_MAX];
	bool same = prng_one_in(&w->rng, 2);
	struct flight *f;

	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "power cut", 0, 0, 0, 0, 0);
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		how[i] = (enum disk_cut)prng_below(&w->rng, DISK_CUT_KINDS);
		if (same) {
			how[i] = how[0];
		}
	}
	list_for_each_entry (f, &w->flights, link) {
		disk_do_part(&w->disk[f->disk], f->io, f->cover, how[f->disk], &w->rng);
	}
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		disk_power_cut(&w->disk[i], how[i], &w->rng);
	}
	oracle_crash(&w->oracle);
	/* A block that had moved to its next copy may have been rewritten in caches only. */
	for (uint64_t s = 0; s < w->layout.sectors; s++) {
		if (w->troubled[s]) {
			oracle_exempt(&w->oracle, s);
		}
	}
}

void session_crash(struct world *w)
{
	power_cut(w);
	drain_zombie(w, prng_one_in(&w->rng, 3) ? -EIO : 0);
	session_end(w);
	w->stats.crashes++;
}

/* Legal only when every request has been answered. Ios that a failed member holds may be out. */
void session_stop(struct world *w)
{
	const struct flight *f;

	w->actions_left = 0;
	while (w->cmd_out) {
		world_turn(w);
	}
	world_control(w, RAID_CMD_STOP, LAYOUT_NONE);
	while (w->cmd_out) {
		world_turn(w);
	}
	w->stopped = true;
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "stopped", (uint64_t)(int64_t)w->cmd.res,
		  0, 0, 0, 0);
	if (w->cmd.res != 0 && !w->may_fail) {
		sim_fail("STOP failed with %d: %s", w->cmd.res, w->cmd.why);
	}
	list_for_each_entry (f, &w->flights, link) {
		/* A late READ may be: it was answered from another copy. */
		if (world_is_good(w, f->disk) && f->io->op != RAID_IO_READ && !w->may_fail) {
			sim_fail("STOP is done and io %llu is still out",
				 (unsigned long long)f->id);
		}
	}
	verify_stopped(w);
	w->stats.stops++;
	/* Whoever stops an array may pull the plug next. */
	if (w->cmd.res == 0 && !w->may_fail) {
		oracle_flush_end(&w->oracle, oracle_flush_begin(&w->oracle));
	}
	power_cut(w);
	if (w->live_ops > 0 || !list_empty(&w->flights)) {
		drain_zombie(w, -EIO);
	}
}
