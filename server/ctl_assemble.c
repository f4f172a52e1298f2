/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl assemble: would these members start, and as what? Without --control nothing runs and
 * nothing is written; the answer is a verdict on each member and how to have them served. With
 * --control the daemon there is asked to open and serve them.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/array_open.h"
#include "server/ctl_common.h"

struct assemble_args {
	struct asm_options opt;
	const char *control, *name;
	bool json;
	char **path;
	uint32_t paths;
};

struct assemble_work {
	struct member_dev dev[RAID_MEMBERS_MAX];
	struct asm_candidate cand[RAID_MEMBERS_MAX];
	struct assembly as;
};

static bool in_array(const struct asm_member *m)
{
	return m->verdict != ASM_FOREIGN && m->verdict != ASM_UNREADABLE;
}

/* The name to serve it under: what follows the host in the superblock's name. */
static const char *array_name(const struct assemble_args *a, const struct assembly *as,
			      char buf[64])
{
	const char *name, *colon;

	if (a->name) {
		return a->name;
	}
	name = as->member[as->freshest].sb.set_name;
	colon = strchr(name, ':');
	ctl_clean_text(colon ? colon + 1 : name, buf, 64);
	if (!buf[0]) {
		snprintf(buf, 64, "array");
	}
	return buf;
}

/* ---- saying what was found ------------------------------------------------------------------- */

static void print_members(const struct assemble_work *w, const struct assemble_args *a)
{
	for (uint32_t i = 0; i < a->paths; i++) {
		const struct asm_member *m = &w->as.member[i];

		printf("%s: %s", a->path[i], asm_verdict_name(m->verdict));
		if (m->slot >= 0) {
			printf(", slot %d", m->slot);
		}
		printf("%s%s\n", m->why[0] ? ": " : "", m->why);
	}
}

static void print_array(const struct assembly *as)
{
	const struct geometry *g = &as->geometry;
	char layout[GEO_LAYOUT_NAME_BYTES], note[64];

	geo_layout_name(g->p.level, g->p.layout, layout);
	printf("%s%s%s, %u of %u members in sync, %llu bytes%s", geo_level_name(g->p.level),
	       layout[0] ? " " : "", layout, g->p.slots - as->degraded, g->p.slots,
	       (unsigned long long)g->array_sectors * RAID_SECTOR_BYTES,
	       ctl_size_note(g->array_sectors * RAID_SECTOR_BYTES, note));
	if (g->copies > 1 && as->resync_offset != SB_IN_SYNC) {
		printf(", needs resync");
	}
	puts(as->decision == ASM_START ? ": can be served" : ": can be served read-only");
	if (as->note[0]) {
		printf("note: %s\n", as->note);
	}
}

/* The members of the array by full path, each between quotes of the caller's choice. */
static void print_paths(const struct assemble_work *w, const struct assemble_args *a,
			const char *before, const char *after, const char *between)
{
	const char *sep = "";

	for (uint32_t i = 0; i < a->paths; i++) {
		char *real = realpath(a->path[i], NULL);

		if (in_array(&w->as.member[i])) {
			printf("%s%s%s%s", sep, before, real ? real : a->path[i], after);
			sep = between;
		}
		free(real);
	}
}

static bool needs_member_options(const struct assemble_args *a)
{
	for (uint32_t i = 0; i < a->paths; i++) {
		if (a->path[i][strcspn(a->path[i], ",' ")]) {
			return true;
		}
	}
	return false;
}

/* How to have it served: by command line, or in the configuration. */
static void print_advice(const struct assemble_work *w, const struct assemble_args *a)
{
	const struct assembly *as = &w->as;
	char uuid[37], buf[64], layout[GEO_LAYOUT_NAME_BYTES] = "";
	const char *name = array_name(a, as, buf);

	ctl_print_array_line(as->member[as->freshest].sb.set_uuid);
	printf("\nserve it:\n  nbd-raidd --array %s", name);
	if (needs_member_options(a)) {
		print_paths(w, a, " --member '", "'", "");
	} else {
		putchar(':');
		print_paths(w, a, "", "", ",");
	}
	if (a->opt.raid0_layout != GEO_RAID0_UNKNOWN) {
		printf(" --raid0-layout=%s",
		       geo_layout_name(RAID_LEVEL_0, a->opt.raid0_layout, layout));
	}
	printf("%s%s\nor in nbd-raidd.conf:\n  array \"%s\" {\n    uuid = \"%s\"\n    members = {",
	       a->opt.want_readonly ? " --readonly" : "", a->opt.force ? " --force" : "", name,
	       sb_uuid_text(as->member[as->freshest].sb.set_uuid, uuid));
	print_paths(w, a, "\"", "\"", ", ");
	puts("}");
	if (layout[0]) {
		printf("    raid0-layout = \"%s\"\n", layout);
	}
	printf("%s%s  }\n", a->opt.want_readonly ? "    read-only = true\n" : "",
	       a->opt.force && a->opt.want_readonly ? "    force = true\n" : "");
}

static json_t *verdict_json(const struct assemble_work *w, const struct assemble_args *a,
			    const char *refusal)
{
	const struct assembly *as = &w->as;
	json_t *list = json_array(), *o;
	char uuid[37];

	for (uint32_t i = 0; i < a->paths; i++) {
		const struct asm_member *m = &as->member[i];

		o = json_pack("{s:o, s:s, s:o, s:o}", "path", ctl_json_text(a->path[i]), "verdict",
			      asm_verdict_name(m->verdict), "slot",
			      m->slot < 0 ? json_null() : json_integer(m->slot), "why",
			      ctl_json_text(m->why));
		json_array_append_new(list, o);
	}
	o = json_pack("{s:b, s:o, s:o}", "ok", !refusal, "error",
		      refusal ? ctl_json_text(refusal) : json_null(), "members", list);
	if (as->decision == ASM_REFUSE) {
		return o;
	}
	json_object_set_new(o, "uuid",
			    json_string(sb_uuid_text(as->member[as->freshest].sb.set_uuid, uuid)));
	json_object_set_new(o, "read_only", json_boolean(as->decision == ASM_START_READONLY));
	json_object_set_new(o, "level", json_string(geo_level_name(as->geometry.p.level)));
	json_object_set_new(
		o, "array_bytes",
		json_integer((json_int_t)(as->geometry.array_sectors * RAID_SECTOR_BYTES)));
	json_object_set_new(o, "degraded", json_integer(as->degraded));
	json_object_set_new(o, "events", json_integer((json_int_t)as->events));
	json_object_set_new(o, "note", ctl_json_text(as->note));
	return o;
}

/* ---- deciding here --------------------------------------------------------------------------- */

/* As array_open() does it: a device that is not there is a missing member, a locked one an error.
 */
static int load(struct assemble_work *w, const struct assemble_args *a, char why[RAID_WHY_BYTES])
{
	struct device_options opt = {.read_only = true, .lock_wait_ms = CTL_LOCK_WAIT_MS};

	for (uint32_t i = 0; i < a->paths; i++) {
		w->dev[i].fd = -1;
	}
	for (uint32_t i = 0; i < a->paths; i++) {
		int rc = device_open(a->path[i], &opt, &w->dev[i], why);

		if (rc < 0 && !device_is_absent(rc)) {
			return rc;
		}
		if (rc < 0) {
			device_absent_candidate(a->path[i], rc, why, &w->cand[i]);
		} else {
			device_candidate(&w->dev[i], &w->cand[i]);
		}
	}
	device_grown_candidates(w->dev, a->paths, w->cand);
	asm_decide(w->cand, a->paths, &a->opt, &w->as);
	return 0;
}

static int decide_here(struct assemble_work *w, const struct assemble_args *a)
{
	char why[RAID_WHY_BYTES] = "";
	const char *refusal = NULL;

	if (load(w, a, why) < 0) {
		return ctl_refused("%s", why);
	}
	if (w->as.decision == ASM_REFUSE ||
	    (w->as.decision == ASM_START_READONLY && !a->opt.want_readonly)) {
		refusal = w->as.why;
	}
	if (a->json) {
		ctl_print_json(verdict_json(w, a, refusal));
	} else {
		print_members(w, a);
	}
	if (refusal) {
		return ctl_refused("%s", refusal);
	}
	if (!a->json) {
		print_array(&w->as);
		print_advice(w, a);
	}
	return CTL_OK;
}

/* ---- asking a daemon ------------------------------------------------------------------------- */

static int ask_daemon(const struct assemble_args *a)
{
	json_t *members = json_array(), *request, *answer;
	char uuid[37], layout[GEO_LAYOUT_NAME_BYTES];
	int rc = CTL_REFUSED;

	for (uint32_t i = 0; i < a->paths; i++) {
		/* the daemon has a working directory of its own */
		char *real = realpath(a->path[i], NULL);

		json_array_append_new(members, ctl_json_text(real ? real : a->path[i]));
		free(real);
	}
	request = json_pack("{s:s, s:o, s:o, s:b, s:b}", "command", "assemble", "name",
			    ctl_json_text(a->name), "members", members, "read-only",
			    a->opt.want_readonly, "force", a->opt.force);
	if (a->opt.have_uuid) {
		json_object_set_new(request, "uuid", json_string(sb_uuid_text(a->opt.uuid, uuid)));
	}
	if (a->opt.raid0_layout != GEO_RAID0_UNKNOWN) {
		json_object_set_new(
			request, "raid0-layout",
			json_string(geo_layout_name(RAID_LEVEL_0, a->opt.raid0_layout, layout)));
	}
	answer = ctl_ask(a->control, request);
	if (answer && ctl_answer_ok(answer)) {
		rc = CTL_OK;
		if (!a->json) {
			printf("%s is served\n", a->name);
		}
	}
	if (answer && a->json) {
		ctl_print_json(json_incref(answer));
	}
	json_decref(answer);
	return rc;
}

/* ---------------------------------------------------------------------------------------------- */

static int parse(int argc, char **argv, struct assemble_args *a)
{
	static const struct option options[] = {{"uuid", required_argument, NULL, 'u'},
						{"readonly", no_argument, NULL, 'o'},
						{"force", no_argument, NULL, 'f'},
						{"raid0-layout", required_argument, NULL, 'r'},
						{"control", required_argument, NULL, 'c'},
						{"name", required_argument, NULL, 'N'},
						{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};
	uint32_t layout;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "u:ofc:N:j", options, NULL)) != -1) {
		switch (c) {
		case 'u':
			if (sb_uuid_parse(optarg, a->opt.uuid) < 0) {
				return ctl_usage("assemble", "\"%s\" is no uuid", optarg);
			}
			a->opt.have_uuid = true;
			break;
		case 'o':
			a->opt.want_readonly = true;
			break;
		case 'f':
			a->opt.force = a->opt.force_write = true;
			break;
		case 'r':
			if (geo_layout_parse(RAID_LEVEL_0, optarg, &layout) < 0) {
				return ctl_usage("assemble", "--raid0-layout is original or "
							     "alternate");
			}
			a->opt.raid0_layout = (enum geo_raid0_layout)layout;
			break;
		case 'c':
			a->control = optarg;
			break;
		case 'N':
			a->name = optarg;
			break;
		case 'j':
			a->json = true;
			break;
		default:
			return ctl_bad_option("assemble", argv);
		}
	}
	if (optind == argc || argc - optind > RAID_MEMBERS_MAX) {
		return ctl_usage("assemble", "name 1 to %d members", RAID_MEMBERS_MAX);
	}
	if (a->control && !a->name) {
		return ctl_usage("assemble", "--control needs --name, the name to serve it under");
	}
	a->path = argv + optind;
	a->paths = (uint32_t)(argc - optind);
	for (uint32_t i = 0; i < a->paths; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (device_same(a->path[i], a->path[k])) {
				return ctl_refused("%s and %s are the same device", a->path[k],
						   a->path[i]);
			}
		}
	}
	return CTL_OK;
}

int ctl_assemble(int argc, char **argv)
{
	struct assemble_args args = {.opt = {.raid0_layout = GEO_RAID0_UNKNOWN}};
	struct assemble_work *work;
	int rc = parse(argc, argv, &args);

	if (rc != CTL_OK) {
		return rc;
	}
	if (args.control) {
		return ask_daemon(&args);
	}
	work = calloc(1, sizeof *work);
	if (!work) {
		return ctl_refused("out of memory");
	}
	rc = decide_here(work, &args);
	for (uint32_t i = 0; i < args.paths; i++) {
		device_close(&work->dev[i]);
	}
	free(work);
	return rc;
}
