/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of an assembly: load the candidates, keep those of one array, find the freshest, give
 * verdicts, apply the start rules. The rules themselves are in assemble_roles.c and
 * assemble_start.c. Nothing here touches a device.
 */
#include "raid/assemble.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "raid/assemble_impl.h"
#include "raid/base/check.h"
#include "raid/why.h"

const char *asm_verdict_name(enum asm_verdict v)
{
	switch (v) {
	case ASM_IN_SYNC:
		return "in-sync";
	case ASM_RECOVERING:
		return "recovering";
	case ASM_REPLACEMENT:
		return "replacement";
	case ASM_SPARE:
		return "spare";
	case ASM_JOURNAL:
		return "journal";
	case ASM_STALE:
		return "stale";
	case ASM_FAULTY:
		return "faulty";
	case ASM_SPLIT:
		return "split";
	case ASM_STRAY:
		return "stray";
	case ASM_FOREIGN:
		return "foreign";
	case ASM_UNREADABLE:
		return "unreadable";
	}
	return "unknown";
}

const char *asm_name(const struct asm_work *w, uint32_t i)
{
	return w->cand[i].name ? w->cand[i].name : "member";
}

static void refuse_va(struct asm_work *w, const char *fmt, va_list ap)
{
	if (w->out->decision == ASM_REFUSE) {
		return;
	}
	w->out->decision = ASM_REFUSE;
	vsnprintf(w->out->why, RAID_WHY_BYTES, fmt, ap);
}

static void note_va(struct asm_work *w, const char *fmt, va_list ap)
{
	size_t at = strlen(w->out->note);

	if (at && at + 2 < RAID_WHY_BYTES) {
		memcpy(w->out->note + at, "; ", 3);
		at += 2;
	}
	vsnprintf(w->out->note + at, RAID_WHY_BYTES - at, fmt, ap);
}

void asm_refuse(struct asm_work *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse_va(w, fmt, ap);
	va_end(ap);
}

void asm_doubt(struct asm_work *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (w->forced) {
		note_va(w, fmt, ap);
	} else {
		refuse_va(w, fmt, ap);
	}
	va_end(ap);
}

void asm_note(struct asm_work *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note_va(w, fmt, ap);
	va_end(ap);
}

void asm_set_verdict(struct asm_work *w, uint32_t i, enum asm_verdict verdict, const char *fmt, ...)
{
	struct asm_member *m = &w->out->member[i];
	va_list ap;

	m->verdict = verdict;
	va_start(ap, fmt);
	vsnprintf(m->why, RAID_WHY_BYTES, fmt, ap);
	va_end(ap);
}

static void load(struct asm_work *w, uint32_t i)
{
	const struct asm_candidate *c = &w->cand[i];
	struct asm_member *m = &w->out->member[i];

	m->candidate = i;
	m->slot = -1;
	m->recovery_offset = SB_IN_SYNC;
	m->dev_sectors = c->dev_sectors;
	if (!c->load_err) {
		m->sb = c->sb;
		m->bad = c->bad;
		w->in_set[i] = true;
		return;
	}
	if (c->why[0]) {
		asm_set_verdict(w, i, ASM_UNREADABLE, "%s", c->why);
	} else if (c->load_err == -ENOENT) {
		asm_set_verdict(w, i, ASM_UNREADABLE,
				"no md superblock; is this the whole disk of a partition, or "
				"overwritten?");
	} else {
		asm_set_verdict(w, i, ASM_UNREADABLE, "cannot be read (error %d)", -c->load_err);
	}
}

static void foreign(struct asm_work *w, uint32_t i)
{
	char uuid[37];

	w->in_set[i] = false;
	asm_set_verdict(w, i, ASM_FOREIGN, "belongs to another array, UUID %s",
			sb_uuid_text(asm_sb(w, i)->set_uuid, uuid));
}

/* Keep one array: the one that was asked for, or the only one there is. */
static bool keep_one_set(struct asm_work *w)
{
	const uint8_t *uuid = w->opt->have_uuid ? w->opt->uuid : NULL;
	uint32_t i, first = 0, kept = 0;

	for (i = 0; i < w->out->members; i++) {
		if (!w->in_set[i]) {
			continue;
		}
		if (!uuid) {
			uuid = asm_sb(w, i)->set_uuid;
			first = i;
		}
		if (!memcmp(asm_sb(w, i)->set_uuid, uuid, 16)) {
			kept++;
			continue;
		}
		foreign(w, i);
		if (!w->opt->have_uuid) {
			asm_refuse(w,
				   "%s and %s belong to different arrays; name the members of one, "
				   "or give its uuid",
				   asm_name(w, first), asm_name(w, i));
		}
	}
	if (!kept && w->opt->have_uuid) {
		char text[37];

		asm_refuse(w, "no member of array %s among the %u devices given",
			   sb_uuid_text(uuid, text), w->out->members);
	}
	return kept > 0;
}

static void no_members(struct asm_work *w)
{
	if (!w->out->members) {
		asm_refuse(w, "no members given");
		return;
	}
	asm_refuse(w, "no usable member; %s: %s", asm_name(w, 0), w->out->member[0].why);
}

void asm_decide(const struct asm_candidate *cand, uint32_t count, const struct asm_options *opt,
		struct assembly *out)
{
	struct asm_work w = {
		.cand = cand,
		.opt = opt,
		.out = out,
		.forced = opt->want_readonly && opt->force,
		.forced_write = !opt->want_readonly && opt->force_write,
	};
	uint32_t i;

	CHECK(count <= RAID_MEMBERS_MAX);
	memset(out, 0, sizeof *out);
	out->decision = ASM_START;
	out->metadata = true;
	out->members = count;
	for (i = 0; i < count; i++) {
		load(&w, i);
	}
	if (!keep_one_set(&w) || !asm_find_freshest(&w)) {
		no_members(&w);
		return;
	}
	asm_give_verdicts(&w);
	asm_start_rules(&w);
}

int asm_build(const struct geo_params *params, const struct asm_candidate *cand, uint32_t count,
	      struct assembly *out, char why[RAID_WHY_BYTES])
{
	uint32_t i;
	int err;

	CHECK(count <= RAID_MEMBERS_MAX);
	memset(out, 0, sizeof *out);
	why[0] = '\0';
	if (count != params->slots) {
		return why_set(why, -EINVAL, "%u members given for %u slots", count, params->slots);
	}
	err = geo_init(&out->geometry, params, why);
	if (err) {
		return -EINVAL;
	}
	if (out->geometry.parity) {
		return why_set(why, -EINVAL,
			       "%s needs metadata: without it nobody knows after a crash that the "
			       "parity may be wrong",
			       geo_level_name(params->level));
	}
	out->decision = ASM_START;
	out->members = count;
	out->resync_offset = SB_IN_SYNC;
	for (i = 0; i < count; i++) {
		struct asm_member *m = &out->member[i];
		uint64_t need =
			params->slot[i].data_offset_sectors + geo_used_sectors(&out->geometry, i);

		if (cand[i].dev_sectors < need) {
			return why_set(why, -EINVAL, "%s has %llu sectors, the array needs %llu",
				       cand[i].name ? cand[i].name : "member",
				       (unsigned long long)cand[i].dev_sectors,
				       (unsigned long long)need);
		}
		m->candidate = i;
		m->verdict = ASM_IN_SYNC;
		m->slot = (int32_t)i;
		m->recovery_offset = SB_IN_SYNC;
		m->dev_sectors = cand[i].dev_sectors;
		out->present[i] = true;
	}
	return 0;
}
