/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must hold for every superblock that leaves the engine: that it is true, now and after a
 * power cut, of everybody it names.
 */
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/sim/world.h"

#define ULL(x) ((unsigned long long)(x))

/* The engine has stopped counting on it, whether or not its event is out yet. */
bool watch_gave_up(const struct world *w, uint32_t disk)
{
	static struct raid_status st;

	if (w->role[disk].failed || w->role[disk].member == LAYOUT_NONE) {
		return true;
	}
	raid_get_status(w->array, &st);
	return st.member[w->role[disk].member].state != RAID_MEMBER_IN_SYNC;
}

/* A disk that has just been added gets its number with the first superblock that names it. */
static bool has_number(struct world *w, uint32_t disk, uint32_t number)
{
	if (w->role[disk].member == LAYOUT_NONE) {
		return false;
	}
	if (w->number[disk] == LAYOUT_NONE) {
		w->number[disk] = number;
	}
	return w->number[disk] == number;
}

static bool has_twin(const struct world *w, uint32_t slot)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < w->plan.disks; d++) {
		n += w->role[d].member != LAYOUT_NONE && w->role[d].slot == slot;
	}
	return n > 1;
}

/* The engine is failing a member: what that one holds does not matter any more. */
static bool somebody_left(const struct world *w)
{
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (world_is_good(w, d) && watch_gave_up(w, d)) {
			return true;
		}
	}
	return false;
}

/* The disk that the entry of a role table means: it holds the slot, or is getting it. */
static uint32_t named_disk(struct world *w, uint32_t number, uint32_t slot)
{
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		const struct role *r = &w->role[d];

		if (r->slot == slot && !r->failed && (r->in_sync || r->filling || r->twin) &&
		    has_number(w, d, number)) {
			return d;
		}
	}
	return LAYOUT_NONE;
}

static void check_roles(struct world *w, const struct flight *f, const struct sb *sb)
{
	uint32_t named[LAYOUT_SLOTS_MAX] = {0};

	for (uint32_t k = 0; k < sb->max_dev; k++) {
		uint32_t slot = sb->dev_roles[k], d;

		if (slot > SB_ROLE_MAX) {
			continue;
		}
		d = slot < w->plan.slots ? named_disk(w, k, slot) : LAYOUT_NONE;
		if (d == LAYOUT_NONE || (named[slot]++ > 0 && w->sync.action != RAID_SYNC_REPLACE &&
					 !has_twin(w, slot))) {
			sim_fail("the role table written to disk %u names slot %u for number %u, "
				 "which %s",
				 f->disk, slot, k,
				 slot >= w->plan.slots ? "does not exist"
				 : d == LAYOUT_NONE    ? "holds nothing good"
						       : "it names twice");
		}
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		if (world_is_good(w, d) && !named[w->role[d].slot] && !watch_gave_up(w, d)) {
			sim_fail("the role table written to disk %u leaves out disk %u, a good "
				 "member",
				 f->disk, d);
		}
	}
}

/* Clean, or clean up to somewhere, says that all copies are equal there, durably, whatever a power
 * cut does. */
static void check_clean(struct world *w, const struct sb *sb)
{
	const struct flight *g;
	uint64_t to = min_u64(sb->resync_offset, w->layout.groups);

	if (w->last_clean_checked == sb->events) {
		return;
	}
	w->last_clean_checked = sb->events;
	list_for_each_entry (g, &w->flights, link) {
		uint64_t group = layout_group(&w->layout, w->role[g->disk].slot, g->io->maddr);

		if (g->io->op != RAID_IO_READ && g->io->op != RAID_IO_FLUSH && group < to &&
		    world_is_good(w, g->disk) && !watch_gave_up(w, g->disk)) {
			sim_fail("clean is written while io %llu, a write, is out", ULL(g->id));
		}
	}
	for (uint64_t s = 0; s < to; s++) {
		if (w->stale[s] && w->needs_resync) {
			uint8_t made[RAID_SLOTS_MAX][RAID_SECTOR_BYTES];
			bool lost, fits = groups_judge(w, s, IMAGE_DURABLE, made, &lost);

			if (!fits && !somebody_left(w)) {
				sim_fail("an array that needs a resync of group %llu is written "
					 "clean",
					 ULL(s));
			}
		} else {
			groups_expect(w, s, IMAGE_DURABLE, "clean is written");
		}
	}
}

/* In two waves: at least one good copy is not being written. */
static void check_waves(struct world *w, const struct flight *f)
{
	uint32_t good = 0, torn = 0;
	const struct flight *g;

	if (f->io->len <= w->disk[f->disk].p.block || !world_is_good(w, f->disk)) {
		return;
	}
	for (uint32_t d = 0; d < w->plan.disks; d++) {
		good += world_is_good(w, d) && !watch_gave_up(w, d);
	}
	list_for_each_entry (g, &w->flights, link) {
		torn += g->io->op == RAID_IO_WRITE && g->io->maddr == w->role[g->disk].sb_maddr &&
			g->io->len > w->disk[g->disk].p.block && world_is_good(w, g->disk) &&
			!watch_gave_up(w, g->disk);
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

	/* By force a dirty array was declared clean: that is new. */
	if ((!w->forced && sb->resync_offset != newest->resync_offset) ||
	    memcmp(sb->dev_roles, newest->dev_roles, sb->max_dev * sizeof(uint16_t)) != 0) {
		sim_fail("a superblock with the events of others, %llu, says something else",
			 ULL(sb->events));
	}
}

/* What the disk's own superblock says of itself. */
static void check_own(struct world *w, const struct flight *f, const struct sb *sb)
{
	uint32_t d = f->disk;

	if (!w->role[d].fresh && memcmp(sb->device_uuid, w->own[d].device_uuid, 16) != 0) {
		sim_fail("disk %u gets the superblock of another", d);
	}
	if (w->number[d] != LAYOUT_NONE && sb->dev_number != w->number[d]) {
		sim_fail("disk %u changed its dev_number from %u to %u", d, w->number[d],
			 sb->dev_number);
	}
	w->number[d] = sb->dev_number;
	w->role[d].fresh = false;
	w->own[d] = *sb;
	if ((sb->feature_map & SB_FEATURE_RECOVERY_OFFSET) && sb->recovery_offset > 0 &&
	    w->role[d].filling && w->role[d].slot != LAYOUT_NONE) {
		verify_filled(w, d, sb->recovery_offset, IMAGE_DURABLE,
			      "a checkpoint of a rebuild is written");
	}
}

void watch_superblock(struct world *w, const struct flight *f)
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
	check_own(w, f, &sb);
	if (sb.events == w->assembly->events) {
		check_catch_up(w, &sb);
		return;
	}
	w->events_written = sb.events;
	w->last_sb = sb;
	roles_refresh(w);
	check_roles(w, f, &sb);
	check_waves(w, f);
	if (world_is_redundant(w) && sb.resync_offset > 0) {
		check_clean(w, &sb);
	}
}
