/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening, attaching, stopping arrays. The transitions named in the header happen in begin(),
 * fail_done() and stop_done() only. A job's thread touches the array instance and the job's own
 * memory, never the daemon's tables.
 */
#include "server/daemon_arrays.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "raid/base/check.h"
#include "raid/why.h"
#include "server/array_open.h"
#include "server/daemon_internal.h"
#include "server/daemon_job.h"
#include "server/daemon_notice.h"
#include "server/log.h"
#include "server/loop.h"

enum { LOCK_WAIT_MS = 10000 };

/* ---- the set ------------------------------------------------------------------------------- */

struct served *arrays_find(const struct array_set *set, const char *name)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (!strcmp(set->item[i]->ai->name, name)) {
			return set->item[i];
		}
	}
	return NULL;
}

static uint32_t free_index(const struct array_set *set)
{
	uint32_t index = 0;

	for (uint32_t i = 0; i < set->count; i++) {
		if (set->item[i]->ai->index == index) {
			index++;
			i = UINT32_MAX; /* from the beginning */
		}
	}
	return index;
}

static struct served *add(struct array_set *set, struct array_instance *ai)
{
	struct served **grown = reallocarray(set->item, set->count + 1, sizeof(struct served *));
	struct served *s;

	if (!grown) {
		return NULL;
	}
	set->item = grown;
	s = calloc(1, sizeof *s);
	if (s) {
		s->ai = ai;
		grown[set->count++] = s;
	}
	return s;
}

static void drop(struct array_set *set, struct served *s)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->item[i] == s) {
			set->item[i] = set->item[--set->count];
			break;
		}
	}
	exports_release(&s->leaving);
	array_close(s->ai);
	free(s);
}

void arrays_release(struct array_set *set)
{
	while (set->count) {
		drop(set, set->item[0]);
	}
	free(set->item);
	set->item = NULL;
}

/* ---- opening ------------------------------------------------------------------------------- */

static int open_members(const struct config_array *a, char *const *path, uint32_t paths,
			struct array_instance **out, char why[RAID_WHY_BYTES])
{
	struct array_spec spec = {
		.name = a->name,
		.path = (const char *const *)path,
		.paths = paths,
		.read_only = a->read_only,
		.force = a->force,
		.force_write = a->force_write,
		.device =
			{
				.direct = a->direct,
				.lock_wait_ms = LOCK_WAIT_MS,
				.volatile_cache = a->volatile_cache,
			},
		.have_uuid = a->have_uuid,
		.raid0_layout = a->raid0_layout,
		.build = a->build,
		.level = a->level,
		.have_layout = a->have_layout,
		.layout = a->layout,
		.chunk_bytes = a->chunk_bytes,
		.offset_bytes = a->offset_bytes,
	};

	memcpy(spec.uuid, a->uuid, sizeof spec.uuid);
	return array_open(&spec, out, why);
}

/* Members are named, or found by the array's UUID. */
static int open_one(const struct config_array *a, struct array_instance **out,
		    char why[RAID_WHY_BYTES])
{
	char **found;
	uint32_t count;
	int err;

	if (a->members) {
		return open_members(a, a->member, a->members, out, why);
	}
	err = device_scan(a->uuid, &found, &count, why);
	if (!err) {
		err = open_members(a, found, count, out, why);
		device_scan_free(found, count);
	}
	return err;
}

int arrays_open(struct array_set *set, const struct config *config, char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < config->arrays; i++) {
		const struct config_array *a = &config->array[i];
		struct array_instance *ai;
		char reason[RAID_WHY_BYTES];
		int err = open_one(a, &ai, reason);

		if (err) {
			return why_set(why, err, "array '%s': %s", a->name, reason);
		}
		ai->index = free_index(set);
		if (!add(set, ai)) {
			array_close(ai);
			return why_set(why, -ENOMEM, "out of memory");
		}
	}
	return 0;
}

static void log_array(const struct daemon *d, const struct array_instance *ai)
{
	const struct assembly *as = ai->assembly;

	log_info("array starts array=%s level=%s slots=%u degraded=%u size=%llu read_only=%d "
		 "loop=%u",
		 ai->name, geo_level_name(as->geometry.p.level), as->geometry.p.slots, as->degraded,
		 (unsigned long long)as->geometry.array_sectors * RAID_SECTOR_BYTES, ai->read_only,
		 ai->index % d->loop_count);
	if (as->note[0]) {
		log_warning("array=%s: %s", ai->name, as->note);
	}
	for (uint32_t i = 0; i < as->members; i++) {
		const struct asm_member *m = &as->member[i];

		if (m->verdict != ASM_IN_SYNC) {
			log_warning("array=%s: member %s is %s: %s", ai->name, ai->member[i].path,
				    asm_verdict_name(m->verdict), m->why);
		}
	}
}

static int attach(struct daemon *d, struct array_instance *ai, char why[RAID_WHY_BYTES])
{
	struct loop *loop = d->loops[ai->index % d->loop_count];
	char reason[RAID_WHY_BYTES];
	int err = loop_add_array(loop, ai, &d->cmd->config.limits.raid, reason);

	return err ? why_set(why, err, "array '%s': %s", ai->name, reason) : 0;
}

static int add_export(struct daemon *d, struct array_instance *ai, const struct config_export *ce,
		      char why[RAID_WHY_BYTES])
{
	struct export *e = export_create(ce->name, ce->description, ai, ce->read_only);
	int err = e ? 0 : -ENOMEM;

	if (!err && ce->restricted) {
		err = export_restrict(e, ce->allow, ce->allows);
	}
	if (!err) {
		e->sessions_max = ce->connections;
		err = exports_add(&d->exports, e, ce->is_default);
	}

	if (err) {
		export_free(e);
		return why_set(why, err, "export '%s': %s", ce->name, strerror(-err));
	}
	return 0;
}

int arrays_attach(struct daemon *d, char why[RAID_WHY_BYTES])
{
	const struct config *c = &d->cmd->config;

	for (uint32_t i = 0; i < d->arrays.count; i++) {
		int err = attach(d, d->arrays.item[i]->ai, why);

		if (err) {
			return err;
		}
		log_array(d, d->arrays.item[i]->ai);
	}
	for (uint32_t i = 0; i < c->exports; i++) {
		struct served *s = arrays_find(&d->arrays, c->export[i].array);
		int err = add_export(d, s->ai, &c->export[i], why);

		if (err) {
			return err;
		}
	}
	return 0;
}

/* ---- commands at run time ------------------------------------------------------------------ */

struct command {
	struct daemon *d;
	struct served *served; /* fail, stop */
	arrays_done done;
	void *ctx;

	/* start */
	struct config_array config;
	struct array_instance *ai;

	/* fail, stop */
	struct raid_cmd cmd;

	int err;
	char why[RAID_WHY_BYTES];
};

static struct command *command_new(struct daemon *d, struct served *s, arrays_done done, void *ctx)
{
	struct command *c = calloc(1, sizeof *c);

	if (c) {
		c->d = d;
		c->served = s;
		c->done = done;
		c->ctx = ctx;
	}
	return c;
}

static void finish(struct command *c)
{
	struct daemon *d = c->d;

	c->done(c->ctx, c->err, c->why);
	free(c);
	daemon_arrays_changed(d);
}

/* Only an array that nothing else works on takes a command. */
static int begin(struct served *s, enum served_state to, char why[RAID_WHY_BYTES])
{
	if (s->state != SERVED_RUNNING) {
		return why_set(why, -EBUSY, "array '%s' is busy with another command", s->ai->name);
	}
	s->state = to;
	return 0;
}

/* ---- fail ---------------------------------------------------------------------------------- */

static void fail_work(void *arg)
{
	struct command *c = arg;

	loop_array_control(c->served->ai, &c->cmd);
}

static void fail_done(void *arg)
{
	struct command *c = arg;

	c->served->state = SERVED_RUNNING;
	c->err = c->cmd.res;
	memcpy(c->why, c->cmd.why, sizeof c->why);
	finish(c);
}

static int find_member(const struct array_instance *ai, const char *path, uint32_t *out,
		       char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < ai->members; i++) {
		if (!strcmp(ai->member[i].path, path)) {
			*out = i;
			return 0;
		}
	}
	return why_set(why, -ENOENT, "array '%s' has no member %s", ai->name, path);
}

int arrays_fail(struct daemon *d, struct served *s, const char *member, arrays_done done, void *ctx,
		char why[RAID_WHY_BYTES])
{
	struct command *c;
	uint32_t index = 0;
	int err = find_member(s->ai, member, &index, why);

	if (!err) {
		err = begin(s, SERVED_BUSY, why);
	}
	if (err) {
		return err;
	}
	c = command_new(d, s, done, ctx);
	err = c ? 0 : -ENOMEM;
	if (!err) {
		c->cmd.op = RAID_CMD_FAIL;
		c->cmd.member = index;
		err = job_start(d->base, fail_work, fail_done, c);
	}
	if (err) {
		free(c);
		s->state = SERVED_RUNNING;
		return why_set(why, err, "%s", strerror(-err));
	}
	return 0;
}

/* ---- stop ---------------------------------------------------------------------------------- */

static uint32_t elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint32_t)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

static void stop_work(void *arg)
{
	struct command *c = arg;
	struct daemon *d = c->d;
	uint32_t drain_ms = d->cmd->config.limits.drain_ms;
	struct timespec since;

	clock_gettime(CLOCK_MONOTONIC, &since);
	for (uint32_t i = 0; i < d->loop_count; i++) {
		uint32_t gone = elapsed_ms(&since);

		loop_drain_array(d->loops[i], c->served->ai, gone < drain_ms ? drain_ms - gone : 0);
	}
	loop_array_control(c->served->ai, &c->cmd);
}

static void close_work(void *arg)
{
	struct command *c = arg;

	loop_remove_array(c->served->ai);
}

static void close_done(void *arg)
{
	struct command *c = arg;

	notices_deliver(c->d->notices); /* they point to what is freed now */
	drop(&c->d->arrays, c->served);
	finish(c);
}

static void stop_done(void *arg)
{
	struct command *c = arg;
	const char *name = c->served->ai->name;

	c->err = c->cmd.res;
	memcpy(c->why, c->cmd.why, sizeof c->why);
	if (c->err) {
		log_error("array could not be stopped cleanly array=%s: %s", name,
			  c->why[0] ? c->why : strerror(-c->err));
		c->d->status = 1;
	} else {
		log_info("array stopped array=%s", name);
	}
	c->served->state = SERVED_CLOSING;
	if (job_start(c->d->base, close_work, close_done, c)) {
		close_work(c);
		close_done(c);
	}
}

bool arrays_log_hung(const struct array_set *set)
{
	struct raid_status *st = calloc(1, sizeof *st);
	bool any = false;

	for (uint32_t i = 0; i < set->count; i++) {
		const struct served *s = set->item[i];

		if (s->state == SERVED_CLOSING) {
			continue; /* stopped as it should be: a failed member holds it up */
		}
		any = true;
		if (!st) {
			continue;
		}
		loop_array_status(s->ai, st);
		for (uint32_t m = 0; m < st->members && m < s->ai->members; m++) {
			if (st->member[m].in_flight) {
				log_error("array does not stop array=%s: member %s does not answer "
					  "%u requests; it is not marked clean",
					  s->ai->name, s->ai->member[m].path,
					  st->member[m].in_flight);
			}
		}
	}
	free(st);
	return any;
}

/* Its exports are no longer found; those that chose one and are not handed over yet are closed. */
static int withdraw_exports(struct daemon *d, struct served *s)
{
	for (uint32_t i = d->exports.count; i-- > 0;) {
		struct export *e = d->exports.item[i];

		if (e->array == s->ai) {
			int err = exports_add(&s->leaving, e, false);

			if (err) {
				return err;
			}
			exports_remove(&d->exports, e);
			handshake_io_forget(&d->sessions.io, e);
		}
	}
	return 0;
}

int arrays_stop(struct daemon *d, struct served *s, arrays_done done, void *ctx,
		char why[RAID_WHY_BYTES])
{
	int err = begin(s, SERVED_STOPPING, why);
	struct command *c;

	if (err) {
		return err;
	}
	c = command_new(d, s, done, ctx);
	err = c ? withdraw_exports(d, s) : -ENOMEM;
	if (!err) {
		c->cmd.op = RAID_CMD_STOP;
		err = job_start(d->base, stop_work, stop_done, c);
	}
	if (err) {
		free(c);
		s->state = SERVED_RUNNING;
		return why_set(why, err, "%s", strerror(-err));
	}
	return 0;
}

/* ---- start --------------------------------------------------------------------------------- */

static void start_work(void *arg)
{
	struct command *c = arg;

	c->err = open_one(&c->config, &c->ai, c->why);
}

static void config_array_release(struct config_array *a)
{
	for (uint32_t i = 0; i < a->members; i++) {
		free(a->member[i]);
	}
	free(a->member);
	free(a->name);
}

static void start_done(void *arg)
{
	struct command *c = arg;
	struct daemon *d = c->d;
	const struct config_export export = {.name = c->config.name};
	struct served *s = NULL;

	d->arrays.starting--;
	if (!c->err) {
		c->ai->index = free_index(&d->arrays);
		s = add(&d->arrays, c->ai);
		c->err = s ? attach(d, c->ai, c->why) : why_set(c->why, -ENOMEM, "out of memory");
	}
	if (!c->err) {
		log_array(d, c->ai);
		c->err = add_export(d, c->ai, &export, c->why);
		if (c->err) {
			/* It runs, but nobody can reach it: stop is the way out. */
			log_error("array=%s: %s", c->ai->name, c->why);
		}
	} else if (s) {
		drop(&d->arrays, s);
	} else {
		array_close(c->ai);
	}
	config_array_release(&c->config);
	finish(c);
}

int arrays_start(struct daemon *d, struct config_array *a, arrays_done done, void *ctx,
		 char why[RAID_WHY_BYTES])
{
	struct command *c = command_new(d, NULL, done, ctx);
	int err = -ENOMEM;

	if (!c) {
		config_array_release(a);
		return why_set(why, -ENOMEM, "out of memory");
	}
	c->config = *a;
	if (arrays_find(&d->arrays, a->name) ||
	    exports_find(&d->exports, a->name, strlen(a->name))) {
		err = why_set(why, -EEXIST, "an array or export named '%s' is there already",
			      a->name);
	} else {
		err = job_start(d->base, start_work, start_done, c);
		if (err) {
			why_set(why, err, "%s", strerror(-err));
		}
	}
	if (err) {
		config_array_release(&c->config);
		free(c);
		return err;
	}
	d->arrays.starting++;
	return 0;
}
