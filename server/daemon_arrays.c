/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaching, starting, stopping arrays. The transitions named in the header happen in arrays_stop()
 * and stop_done() only. A job's thread touches the array instance and the job's own memory, never
 * the daemon's tables.
 */
#include "server/daemon_arrays.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "raid/base/check.h"
#include "raid/why.h"
#include "server/admin.h"
#include "server/array_open.h"
#include "server/daemon_internal.h"
#include "server/daemon_job.h"
#include "server/daemon_notice.h"
#include "server/daemon_open.h"
#include "server/daemon_spares.h"
#include "server/log.h"
#include "server/loop.h"

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

struct served *arrays_of(const struct array_set *set, const struct array_instance *ai)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->item[i]->ai == ai) {
			return set->item[i];
		}
	}
	return NULL;
}

static enum raid_member_state first_seen(enum asm_verdict verdict)
{
	switch (verdict) {
	case ASM_IN_SYNC:
		return RAID_MEMBER_IN_SYNC;
	case ASM_SPARE:
		return RAID_MEMBER_SPARE;
	case ASM_RECOVERING:
		return RAID_MEMBER_REBUILDING;
	case ASM_REPLACEMENT:
		return RAID_MEMBER_REPLACEMENT;
	default:
		return RAID_MEMBER_ABSENT;
	}
}

static struct served *add(struct array_set *set, struct array_instance *ai,
			  const struct config_array *config)
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
		s->config = config;
		for (uint32_t i = 0; i < ai->assembly->members; i++) {
			s->seen[i] = first_seen(ai->assembly->member[i].verdict);
		}
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
	if (s->owned) {
		config_array_release(s->owned);
		free(s->owned);
	}
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

int arrays_open(struct array_set *set, const struct config *config, char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < config->arrays; i++) {
		const struct config_array *a = &config->array[i];
		struct array_instance *ai;
		char reason[RAID_WHY_BYTES];
		int err = arrays_open_one(a, &ai, reason);

		if (err) {
			return why_set(why, err, "array '%s': %s", a->name, reason);
		}
		ai->index = free_index(set);
		if (!add(set, ai, a)) {
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

static int attach(struct daemon *d, const struct served *s, char why[RAID_WHY_BYTES])
{
	struct array_instance *ai = s->ai;
	struct loop *loop = d->loops[ai->index % d->loop_count];
	struct raid_limits limits = d->cmd->config.limits.raid;
	char reason[RAID_WHY_BYTES];
	int err;

	if (s->config->sync_min_bps) {
		limits.sync_min_bps = s->config->sync_min_bps;
	}
	if (s->config->sync_max_bps) {
		limits.sync_max_bps = s->config->sync_max_bps;
	}
	err = loop_add_array(loop, ai, &limits, reason);
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
		int err = attach(d, d->arrays.item[i], why);

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

/* ---- commands ------------------------------------------------------------------------------ */

static void start_stop(struct stop *c);

int served_begin(struct served *s, char why[RAID_WHY_BYTES])
{
	if (s->state != SERVED_RUNNING) {
		return why_set(why, -EBUSY, "array '%s' is being stopped", s->ai->name);
	}
	s->commands++;
	return 0;
}

void served_end(struct daemon *d, struct served *s)
{
	struct stop *waits = s->stop;

	CHECK(s->commands);
	s->commands--;
	if (waits && !s->commands) {
		s->stop = NULL;
		start_stop(waits);
	}
	daemon_arrays_changed(d);
}

/* ---- stop ---------------------------------------------------------------------------------- */

struct stop {
	struct daemon *d;
	struct served *served;
	arrays_done done;
	void *ctx;
	struct raid_cmd cmd;
	int err;
	char why[RAID_WHY_BYTES];
};

static uint32_t elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint32_t)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

static void stop_work(void *arg)
{
	struct stop *c = arg;
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
	struct stop *c = arg;

	loop_remove_array(c->served->ai);
}

static void close_done(void *arg)
{
	struct stop *c = arg;
	struct daemon *d = c->d;

	notices_deliver(d->notices); /* they point to what is freed now */
	admin_monitor_say(d, "DeviceDisappeared", c->served->ai->name, NULL);
	drop(&d->arrays, c->served);
	c->done(c->ctx, c->err, c->why);
	free(c);
	daemon_arrays_changed(d);
}

static void stop_done(void *arg)
{
	struct stop *c = arg;
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
	job_run(c->d->base, close_work, close_done, c);
}

static void start_stop(struct stop *c)
{
	job_run(c->d->base, stop_work, stop_done, c);
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
			if (st->member[m].in_flight && s->ai->member[m].path) {
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
	struct stop *c;
	int err;

	if (s->state != SERVED_RUNNING) {
		return why_set(why, -EBUSY, "array '%s' is being stopped", s->ai->name);
	}
	c = calloc(1, sizeof *c);
	err = c ? withdraw_exports(d, s) : -ENOMEM;
	if (err) {
		free(c);
		return why_set(why, err, "%s", strerror(-err));
	}
	*c = (struct stop){.d = d, .served = s, .done = done, .ctx = ctx};
	c->cmd.op = RAID_CMD_STOP;
	s->state = SERVED_STOPPING;
	if (s->commands) {
		s->stop = c;
	} else {
		start_stop(c);
	}
	return 0;
}

/* ---- start --------------------------------------------------------------------------------- */

struct start {
	struct daemon *d;
	arrays_done done;
	void *ctx;
	struct config_array *config;
	struct array_instance *ai;
	int err;
	char why[RAID_WHY_BYTES];
};

static void start_work(void *arg)
{
	struct start *c = arg;

	c->err = arrays_open_one(c->config, &c->ai, c->why);
}

static void start_free(struct start *c)
{
	if (c->config) {
		config_array_release(c->config);
		free(c->config);
	}
	free(c);
}

/* The array is open: serve it. */
static struct served *take_up(struct start *c)
{
	struct daemon *d = c->d;
	const struct config_export export = {.name = c->config->name};
	struct served *s;

	c->ai->index = free_index(&d->arrays);
	s = add(&d->arrays, c->ai, c->config);
	if (!s) {
		array_close(c->ai);
		c->err = why_set(c->why, -ENOMEM, "out of memory");
		return NULL;
	}
	s->owned = c->config;
	c->config = NULL;
	c->err = attach(d, s, c->why);
	if (c->err) {
		drop(&d->arrays, s);
		return NULL;
	}
	log_array(d, s->ai);
	c->err = add_export(d, s->ai, &export, c->why);
	if (c->err) {
		/* It runs, but nobody can reach it: stop is the way out. */
		log_error("array=%s: %s", s->ai->name, c->why);
	}
	return s;
}

static void start_done(void *arg)
{
	struct start *c = arg;
	struct daemon *d = c->d;
	struct served *s = c->err ? NULL : take_up(c);

	d->arrays.starting--;
	if (s) {
		admin_monitor_new_array(d, s);
		spares_array_runs(d, s);
	}
	c->done(c->ctx, c->err, c->why);
	start_free(c);
	daemon_arrays_changed(d);
}

int arrays_start(struct daemon *d, struct config_array *a, arrays_done done, void *ctx,
		 char why[RAID_WHY_BYTES])
{
	struct start *c = calloc(1, sizeof *c);
	int err = 0;

	if (c) {
		*c = (struct start){.d = d, .done = done, .ctx = ctx};
		c->config = malloc(sizeof *c->config);
	}
	if (!c || !c->config) {
		config_array_release(a);
		free(c);
		return why_set(why, -ENOMEM, "out of memory");
	}
	*c->config = *a;
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
		start_free(c);
		return err;
	}
	d->arrays.starting++;
	return 0;
}
