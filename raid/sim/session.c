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
static void load_disk(struct world *w, uint32_t i, const uint8_t *bytes, struct asm_candidate *c)
{
	struct sb_location loc[SB_LOCATIONS_MAX];
	const struct disk *d = &w->disk[i];
	uint32_t n;
	static const char *const name[PLAN_DISKS_MAX] = {"disk0", "disk1", "disk2", "disk3",
							 "disk4", "disk5", "disk6", "disk7",
							 "disk8", "disk9"};

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

		load_disk(w, order[k], durable_only && order[k] != except ? d->durable : d->now,
			  &w->candidate[k]);
		if (!durable_only) {
			w->disk_of[k] = order[k];
		}
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
		trusted = as->decision != ASM_REFUSE && as->member[disk].verdict == ASM_IN_SYNC;
	}
	free(as);
	w->role[disk].distrusted_at = trusted ? 0 : state;
	return trusted;
}

static void set_roles(struct world *w)
{
	const struct assembly *as = w->assembly;

	for (uint32_t i = 0; i < w->plan.disks; i++) {
		memset(&w->role[i], 0, sizeof w->role[i]);
		w->role[i].member = LAYOUT_NONE;
		w->role[i].sb_maddr = UINT64_MAX;
		w->disk[i].watch_maddr = UINT64_MAX;
	}
	for (uint32_t m = 0; m < as->members; m++) {
		uint32_t d = w->disk_of[m];
		const struct asm_member *am = &as->member[m];
		struct role *r = &w->role[d];

		r->member = m;
		r->in_sync = am->verdict == ASM_IN_SYNC;
		r->lagging = r->in_sync && am->sb.events < as->events;
		if (am->verdict != ASM_IN_SYNC && am->verdict != ASM_SPARE) {
			continue;
		}
		if (as->metadata) {
			r->sb_maddr = am->sb.super_offset * RAID_SECTOR_BYTES;
			w->disk[d].watch_maddr = r->sb_maddr;
			r->decoded_at = UINT64_MAX;
		}
		if (!r->in_sync) {
			continue;
		}
		if (am->slot != (int32_t)d) {
			sim_fail("disk %u holds slot %u and was taken for slot %d", d, d, am->slot);
		}
		r->data_from = as->geometry.p.slot[d].data_offset_sectors * RAID_SECTOR_BYTES;
		r->data_to = r->data_from + geo_used_sectors(&as->geometry, (uint32_t)am->slot) *
						    RAID_SECTOR_BYTES;
	}
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

/* Start what w->assembly says. */
static void run(struct world *w, bool read_only)
{
	struct raid_member_props props[PLAN_DISKS_MAX];
	struct raid_config config = {0};
	char why[RAID_WHY_BYTES] = "";

	set_roles(w);
	memset(props, 0, sizeof props);
	for (uint32_t m = 0; m < w->candidates; m++) {
		const struct disk_params *p = &w->disk[w->disk_of[m]].p;

		props[m] = (struct raid_member_props){
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
	config.assembly = w->assembly;
	config.props = props;
	choose_limits(w, &config.limits);
	config.read_only = read_only;
	config.seed = prng_next(&w->rng);
	config.now = (struct raid_now){w->clock.now_ns, w->wall_s};
	if (raid_create(&config, &w->array, why) != 0) {
		sim_fail("raid_create refused: %s", why);
	}
	if (raid_size(w->array) != w->layout.sectors * RAID_SECTOR_BYTES) {
		sim_fail("the size of the array changed to %llu bytes",
			 (unsigned long long)raid_size(w->array));
	}
	w->events_written = w->assembly->events;
	w->read_only = read_only;
	w->zombie = w->stopped = w->flush_lost = false;
	w->live_ops = 0;
	w->cmd_out = false;
	w->idle_steps = 0;
	w->last_step_ns = w->clock.now_ns;
	memset(w->immune, 0, w->layout.sectors);
	memset(w->troubled, 0, w->layout.sectors);
	memset(w->client, 0, sizeof w->client);
	memset(w->ios_of, 0, sizeof w->ios_of);
	memset(w->events_of, 0, sizeof w->events_of);
	w->session++;
	w->stats.sessions++;
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, read_only ? "start read-only" : "start",
		  w->assembly->events, w->assembly->resync_offset, w->assembly->degraded, 0, 0);
}

void session_begin(struct world *w, const bool offered[PLAN_DISKS_MAX], bool read_only)
{
	struct asm_options opt = {.want_readonly = read_only};

	session_load(w, offered, false, LAYOUT_NONE);
	asm_decide(w->candidate, w->candidates, &opt, w->assembly);
	if (w->assembly->decision != ASM_START) {
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

/* ---- what the array's owner does between sessions -------------------------------------------- */

static void copy_chosen(struct world *w, const bool good[PLAN_DISKS_MAX], uint64_t s)
{
	const struct layout *l = &w->layout;
	uint8_t data[RAID_SECTOR_BYTES];
	bool found = false;

	for (uint32_t i = 0; i < l->copies && !found; i++) {
		uint32_t d = l->copy[s * l->copies + i].disk;
		uint64_t maddr = l->copy[s * l->copies + i].maddr;

		if (good[d] && !w->listed[d][maddr / RAID_SECTOR_BYTES] &&
		    !disk_is_bad(&w->disk[d], maddr, RAID_SECTOR_BYTES)) {
			memcpy(data, w->disk[d].now + maddr, sizeof data);
			found = true;
		}
	}
	if (!found) {
		/* Beyond the budget the last copy may be a listed one: the data is lost. */
		memset(data, 0, sizeof data);
	}
	for (uint32_t i = 0; i < l->copies; i++) {
		disk_poke(&w->disk[l->copy[s * l->copies + i].disk],
			  l->copy[s * l->copies + i].maddr, data, sizeof data);
	}
	oracle_set(&w->oracle, s, data);
}

/* A superblock that the power cut tore is written anew from another member's, as an administrator
 * would: its table says who the disk is. What the table does not name stays lost. */
void session_repair_torn(struct world *w)
{
	bool all[PLAN_DISKS_MAX];
	struct assembly *as = calloc(1, sizeof *as);
	struct sb sb;

	CHECK(as);
	memset(all, true, sizeof all);
	session_judge(w, all, as);
	for (uint32_t m = 0; m < as->members; m++) {
		uint32_t d = w->disk_of[m], number;
		uint8_t buf[SB_BYTES_MAX];

		if (as->member[m].verdict != ASM_UNREADABLE || d >= w->plan.slots) {
			continue;
		}
		if (w->disk[d].p.block == SB_BYTES_MAX || !w->plan.max_dev) {
			sim_fail(
				"the superblock of disk %u is unreadable although it is one block: "
				"%s",
				d, as->member[m].why);
		}
		sb = as->member[as->freshest].sb;
		number = w->birth[d].dev_number;
		if (as->member[as->freshest].verdict != ASM_IN_SYNC) {
			sim_fail("a power cut tore all superblocks");
		}
		if (sb.dev_roles[number] != d) {
			continue;
		}
		sb.dev_number = number;
		sb.data_offset = w->birth[d].data_offset;
		sb.data_size = w->birth[d].data_size;
		sb.super_offset = w->birth[d].super_offset;
		sb.bblog_offset = w->birth[d].bblog_offset;
		sb.feature_map = w->birth[d].feature_map;
		memcpy(sb.device_uuid, w->birth[d].device_uuid, sizeof sb.device_uuid);
		disk_poke(&w->disk[d], sb.super_offset * RAID_SECTOR_BYTES, buf,
			  sb_encode(&sb, w->disk[d].p.block, buf));
		trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "torn superblock repaired", d, 0,
			  0, 0, 0);
	}
	free(as);
}

/*
 * What another md implementation does with the same disks meanwhile: failed members are replaced
 * and everything is resynced; afterwards all copies are equal and the array is clean and whole.
 */
void session_offline_resync(struct world *w)
{
	bool all[PLAN_DISKS_MAX], good[PLAN_DISKS_MAX] = {false};
	struct assembly *as = calloc(1, sizeof *as);
	struct sb sb;
	uint32_t n = w->plan.slots;

	CHECK(as);
	memset(all, true, sizeof all);
	session_judge(w, all, as);
	sb = as->member[as->freshest].sb;
	for (uint32_t m = 0; m < as->members; m++) {
		good[w->disk_of[m]] = as->member[m].verdict == ASM_IN_SYNC;
	}
	for (uint32_t i = 0; i < w->plan.disks; i++) {
		memset(w->disk[i].bad, 0, w->disk[i].blocks);
	}
	for (uint64_t s = 0; s < w->layout.sectors; s++) {
		copy_chosen(w, good, s);
	}
	memset(sb.dev_roles, 0xff, sizeof sb.dev_roles);
	for (uint32_t i = 0; i < n; i++) {
		sb.dev_roles[i] = (uint16_t)i;
	}
	sb.events += 2;
	sb.resync_offset = SB_IN_SYNC;
	sb.feature_map &= ~(uint32_t)SB_FEATURE_BAD_BLOCKS;
	for (uint32_t i = 0; i < n; i++) {
		w->birth[i].feature_map &= ~(uint32_t)SB_FEATURE_BAD_BLOCKS;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct sb own = w->birth[i];
		uint8_t buf[SB_BYTES_MAX];

		sb.dev_number = w->birth[i].dev_number = i;
		sb.data_offset = own.data_offset;
		sb.data_size = own.data_size;
		sb.super_offset = own.super_offset;
		sb.bblog_offset = own.bblog_offset;
		memcpy(sb.device_uuid, own.device_uuid, sizeof sb.device_uuid);
		memset(w->listed[i], 0, w->disk[i].p.size_bytes / RAID_SECTOR_BYTES);
		disk_poke(&w->disk[i], sb.super_offset * RAID_SECTOR_BYTES, buf,
			  sb_encode(&sb, w->disk[i].p.block, buf));
	}
	w->listed_disk = LAYOUT_NONE;
	w->events_written = sb.events;
	w->last_sb = sb;
	oracle_exempt_all(&w->oracle);
	trace_add(&w->trace, TRACE_NOTE, w->clock.now_ns, "resynced offline", sb.events, 0, 0, 0,
		  0);
	free(as);
}
