/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening an array: lock, then read, then decide. Nothing is read before the lock is held and
 * nothing is written at all: the first write to a member is the engine's (DESIGN rule 9).
 */
#include "server/array_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raid/base/bytes.h"
#include "raid/why.h"

/* ---- the devices ---------------------------------------------------------------------------- */

/* Before anything is opened: a second open of the same device would wait for our own lock. */
static int refuse_duplicates(const struct array_spec *spec, char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < spec->paths; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (device_same(spec->path[i], spec->path[k])) {
				return why_set(why, -EINVAL, "%s and %s are the same device",
					       spec->path[k], spec->path[i]);
			}
		}
	}
	return 0;
}

static int open_member(struct array_instance *ai, uint32_t i, const struct array_spec *spec,
		       bool read_only, char why[RAID_WHY_BYTES])
{
	struct device_options opt = spec->device;

	opt.read_only = read_only;
	opt.unlocked = false;
	ai->read_only = read_only;
	return device_open(spec->path[i], &opt, &ai->member[i], why);
}

static void close_members(struct array_instance *ai)
{
	for (uint32_t i = 0; i < ai->members; i++) {
		device_close(&ai->member[i]);
	}
}

/* ---- arrays with superblocks ---------------------------------------------------------------- */

/*
 * A device that is gone must not keep a redundant array down at boot: it stands as an unreadable
 * member. One that somebody holds, or that we may not open, is an error: it is there.
 */
static int load_members(struct array_instance *ai, const struct array_spec *spec,
			struct asm_candidate *cand, char absent[RAID_WHY_BYTES],
			char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < ai->members; i++) {
		int rc = open_member(ai, i, spec, spec->read_only, why);

		if (rc < 0 && !device_is_absent(rc)) {
			return rc;
		}
		if (rc < 0) {
			ai->member[i].path = strdup(spec->path[i]);
			if (!ai->member[i].path) {
				return why_set(why, -ENOMEM, "out of memory");
			}
			device_absent_candidate(ai->member[i].path, rc, why, &cand[i]);
			memcpy(absent, why, RAID_WHY_BYTES);
		} else {
			device_candidate(&ai->member[i], &cand[i]);
		}
	}
	device_grown_candidates(ai->member, ai->members, cand);
	return 0;
}

static void append_note(struct assembly *as, const char *text)
{
	size_t used = strlen(as->note);

	snprintf(as->note + used, sizeof as->note - used, "%s%s", used ? "; " : "", text);
}

/* A copy that cannot be read is none: all chunks count as changed, which costs a longer resync. */
static int load_bitmap(struct array_instance *ai, char why[RAID_WHY_BYTES])
{
	const struct asm_bitmap *bitmap = &ai->assembly->bitmap;
	char text[RAID_WHY_BYTES];
	int rc;

	if (bitmap->state != ASM_BITMAP_CURRENT) {
		return 0;
	}
	ai->bitmap_bits = malloc(device_bitmap_bytes(bitmap));
	if (!ai->bitmap_bits) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	rc = device_read_bitmap(&ai->member[bitmap->member], bitmap, ai->bitmap_bits);
	if (rc < 0) {
		snprintf(text, sizeof text,
			 "the bitmap on %.100s cannot be read (%s): all chunks "
			 "count as changed",
			 ai->member[bitmap->member].path, strerror(-rc));
		append_note(ai->assembly, text);
		free(ai->bitmap_bits);
		ai->bitmap_bits = NULL;
	}
	return 0;
}

/* What turned out not to belong to the array is given back to the system. */
static void release_foreign(struct array_instance *ai)
{
	for (uint32_t i = 0; i < ai->members; i++) {
		enum asm_verdict v = ai->assembly->member[i].verdict;

		if (v != ASM_FOREIGN && v != ASM_UNREADABLE) {
			continue;
		}
		if (ai->member[i].fd >= 0) {
			close(ai->member[i].fd);
		}
		ai->member[i].fd = -1;
	}
}

static int open_assembled(struct array_instance *ai, const struct array_spec *spec,
			  struct asm_candidate *cand, char why[RAID_WHY_BYTES])
{
	struct asm_options opt = {
		.want_readonly = spec->read_only,
		.force = spec->force,
		.force_write = spec->force_write,
		.have_uuid = spec->have_uuid,
		.raid0_layout = spec->raid0_layout,
	};
	struct assembly *as = ai->assembly;
	char absent[RAID_WHY_BYTES] = "";
	int rc;

	memcpy(opt.uuid, spec->uuid, sizeof opt.uuid);
	rc = load_members(ai, spec, cand, absent, why);
	if (rc < 0) {
		return rc;
	}
	asm_decide(cand, ai->members, &opt, as);
	if (as->decision == ASM_REFUSE) {
		return why_set(why, -EINVAL, "%s%s%s", as->why, absent[0] ? "; " : "", absent);
	}
	if (as->decision == ASM_START_READONLY && !spec->read_only) {
		return why_set(why, -EROFS, "%s%s", as->why,
			       strstr(as->why, "--readonly") ? "" : "; use --readonly");
	}
	if (absent[0]) {
		append_note(as, absent);
	}
	release_foreign(ai);
	return load_bitmap(ai, why);
}

/* ---- arrays without ------------------------------------------------------------------------- */

static uint64_t smallest_data_sectors(const struct geo_params *p)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < p->slots; i++) {
		least = min_u64(least, p->slot[i].data_sectors);
	}
	return least;
}

static int build_params(const struct array_instance *ai, const struct array_spec *spec,
			struct geo_params *p, char why[RAID_WHY_BYTES])
{
	bool chunked = spec->level != RAID_LEVEL_1 && spec->level != RAID_LEVEL_LINEAR;
	uint64_t chunk_bytes = spec->chunk_bytes ? spec->chunk_bytes : chunked ? 64 << 10 : 0;

	if (ai->members > RAID_SLOTS_MAX) {
		return why_set(why, -EINVAL, "%u members; at most %d are supported", ai->members,
			       RAID_SLOTS_MAX);
	}
	if (chunk_bytes % RAID_SECTOR_BYTES || spec->offset_bytes % RAID_SECTOR_BYTES ||
	    chunk_bytes / RAID_SECTOR_BYTES > UINT32_MAX) {
		return why_set(why, -EINVAL, "chunk and offset must be multiples of 512 bytes");
	}
	memset(p, 0, sizeof *p);
	p->level = spec->level;
	p->slots = ai->members;
	p->chunk_sectors =
		spec->level == RAID_LEVEL_1 ? 0 : (uint32_t)(chunk_bytes / RAID_SECTOR_BYTES);
	if (spec->have_layout) {
		p->layout = spec->layout;
	} else if (spec->level == RAID_LEVEL_10) {
		p->layout = 0x102; /* near=2 */
	} else if (spec->level == RAID_LEVEL_0) {
		p->layout = spec->raid0_layout;
	}
	for (uint32_t i = 0; i < p->slots; i++) {
		uint64_t size_bytes = ai->member[i].props.size_bytes;

		if (size_bytes < RAID_SECTOR_BYTES ||
		    size_bytes - RAID_SECTOR_BYTES < spec->offset_bytes) {
			return why_set(why, -ENOSPC, "%s has %llu bytes: nothing is left for data",
				       ai->member[i].path, (unsigned long long)size_bytes);
		}
		p->slot[i].data_offset_sectors = spec->offset_bytes / RAID_SECTOR_BYTES;
		p->slot[i].data_sectors = (size_bytes - spec->offset_bytes) / RAID_SECTOR_BYTES;
	}
	p->component_sectors = smallest_data_sectors(p);
	if (spec->level == RAID_LEVEL_10 && p->chunk_sectors) {
		p->component_sectors = round_down_u64(p->component_sectors, p->chunk_sectors);
	}
	return 0;
}

/* Is there something on a member that says it belongs to someone else? */
static bool carries_something(const struct array_instance *ai, const struct asm_candidate *cand,
			      char what[RAID_WHY_BYTES])
{
	char sig[RAID_WHY_BYTES];

	for (uint32_t i = 0; i < ai->members; i++) {
		if (cand[i].load_err != -ENOENT) {
			why_set(what, 0, "%s carries an md superblock", ai->member[i].path);
			return true;
		}
		if (device_signature(&ai->member[i], sig)) {
			why_set(what, 0, "%s carries: %s", ai->member[i].path, sig);
			return true;
		}
	}
	return false;
}

static void build_note(const struct array_instance *ai, const char *carries)
{
	char *note = ai->assembly->note;

	if (carries[0]) {
		snprintf(note, RAID_WHY_BYTES, "%s: served read-only; --force serves it read-write",
			 carries);
		return;
	}
	for (uint32_t i = 0; i < ai->members; i++) {
		uint64_t tail = ai->member[i].props.size_bytes % RAID_SECTOR_BYTES;

		if (!tail) {
			continue;
		}
		snprintf(note, RAID_WHY_BYTES,
			 "%s ends in a partial sector: its last %u bytes are not served",
			 ai->member[i].path, (unsigned int)tail);
		return;
	}
}

static int open_all(struct array_instance *ai, const struct array_spec *spec, bool read_only,
		    struct asm_candidate *cand, char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < ai->members; i++) {
		int rc = open_member(ai, i, spec, read_only, why);

		if (rc < 0) {
			return rc;
		}
		device_candidate(&ai->member[i], &cand[i]);
	}
	return 0;
}

static int open_built(struct array_instance *ai, const struct array_spec *spec,
		      struct asm_candidate *cand, char why[RAID_WHY_BYTES])
{
	char carries[RAID_WHY_BYTES] = "";
	struct geo_params params;
	int rc = open_all(ai, spec, spec->read_only, cand, why);

	if (rc == 0 && !spec->read_only && !spec->force && carries_something(ai, cand, carries)) {
		close_members(ai);
		rc = open_all(ai, spec, true, cand, why);
	}
	if (rc == 0) {
		rc = build_params(ai, spec, &params, why);
	}
	if (rc == 0) {
		rc = asm_build(&params, cand, ai->members, ai->assembly, why);
	}
	if (rc == 0) {
		build_note(ai, carries);
	}
	return rc;
}

/* --------------------------------------------------------------------------------------------- */

int array_open(const struct array_spec *spec, struct array_instance **out, char why[RAID_WHY_BYTES])
{
	struct array_instance *ai;
	struct asm_candidate *cand;
	int rc;

	*out = NULL;
	why[0] = '\0';
	if (spec->paths == 0 || spec->paths > RAID_MEMBERS_MAX) {
		return why_set(why, -EINVAL, "%u members named; 1 to %d are possible", spec->paths,
			       RAID_MEMBERS_MAX);
	}
	rc = refuse_duplicates(spec, why);
	if (rc < 0) {
		return rc;
	}
	ai = calloc(1, sizeof *ai);
	cand = calloc(spec->paths, sizeof *cand);
	if (ai) {
		ai->name = strdup(spec->name);
		ai->assembly = calloc(1, sizeof *ai->assembly);
		/* others may come while it runs */
		ai->member = calloc(RAID_MEMBERS_MAX, sizeof *ai->member);
	}
	if (!ai || !cand || !ai->name || !ai->assembly || !ai->member) {
		rc = why_set(why, -ENOMEM, "out of memory");
	} else {
		ai->members = spec->paths;
		for (uint32_t i = 0; i < RAID_MEMBERS_MAX; i++) {
			ai->member[i].fd = -1;
		}
		rc = spec->build ? open_built(ai, spec, cand, why)
				 : open_assembled(ai, spec, cand, why);
	}
	free(cand);
	if (rc < 0) {
		array_close(ai);
		return rc;
	}
	*out = ai;
	return 0;
}

void array_close(struct array_instance *ai)
{
	if (!ai) {
		return;
	}
	close_members(ai);
	free(ai->member);
	free(ai->assembly);
	free(ai->bitmap_bits);
	free(ai->name);
	free(ai);
}
