/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands on running arrays. What blocks (opening, the engine's answer, closing) runs as a job;
 * the tables (array_instance.member) are touched on the base's thread only, between jobs.
 *
 *   command_array, FAIL, REPLACE   engine -> finish
 *   REMOVE                         engine -> take the device out of its place -> close -> finish
 *   ADD                            [REMOVE of what it was before] -> open, look -> place -> engine
 *                                  -> [refused: take out, close] -> finish
 *   MOVE                           REMOVE from the one array, keeping it open, -> ADD to the other
 *                                  -> [refused: ADD to the first] -> finish
 */
#include "server/daemon_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "raid/base/check.h"
#include "raid/why.h"
#include "server/daemon_internal.h"
#include "server/daemon_job.h"
#include "server/daemon_notice.h"
#include "server/log.h"
#include "server/loop.h"

enum { ADD_LOCK_WAIT_MS = 3000 }; /* long enough for udev to finish looking at a device */

struct command {
	struct daemon *d;
	struct served *s;
	arrays_done done;
	void *ctx;
	struct raid_cmd cmd;

	/* ADD, REMOVE, MOVE */
	char *path;
	struct command_add opt;
	struct member_dev dev; /* in no place: it comes, or goes; fd -1: none */
	struct asm_candidate cand;
	struct loop_add *add;
	uint32_t place;	      /* … that the engine gave it */
	bool adds;	      /* REMOVE: an ADD follows */
	struct served *other; /* MOVE: the other array */
	bool back;	      /* MOVE: the other did not want it */
	int back_err;	      /* … why[] says why not */

	int err;
	char why[RAID_WHY_BYTES];
};

/* ---- begin and end ------------------------------------------------------------------------- */

static struct command *command_new(struct daemon *d, struct served *s, arrays_done done, void *ctx,
				   char why[RAID_WHY_BYTES])
{
	struct command *c = calloc(1, sizeof *c);

	if (!c) {
		why_set(why, -ENOMEM, "out of memory");
		return NULL;
	}
	if (served_begin(s, why)) {
		free(c);
		return NULL;
	}
	c->d = d;
	c->s = s;
	c->done = done;
	c->ctx = ctx;
	c->dev.fd = -1;
	return c;
}

static void finish(void *arg)
{
	struct command *c = arg;
	struct daemon *d = c->d;

	CHECK(c->dev.fd < 0);
	c->done(c->ctx, c->err, c->why);
	served_end(d, c->s);
	if (c->other) {
		served_end(d, c->other);
	}
	free(c->path);
	free(c->dev.path);
	free(c);
}

static void close_work(void *arg)
{
	struct command *c = arg;

	device_close(&c->dev);
}

static void close_and_finish(struct command *c)
{
	if (c->dev.fd >= 0) {
		job_run(c->d->base, close_work, finish, c); /* may wait for its cache */
	} else {
		finish(c);
	}
}

static void take_result(struct command *c)
{
	c->err = c->cmd.res;
	memcpy(c->why, c->cmd.why, sizeof c->why);
}

static void engine_work(void *arg)
{
	struct command *c = arg;

	loop_array_control(c->s->ai, &c->cmd);
}

/* ---- the whole array ----------------------------------------------------------------------- */

static void array_done(void *arg)
{
	struct command *c = arg;
	enum raid_cmd_op op = c->cmd.op;

	take_result(c);
	if ((op == RAID_CMD_BITMAP_ADD && c->err == -EEXIST) ||
	    (op == RAID_CMD_BITMAP_REMOVE && c->err == -ENOENT)) {
		c->err = 0; /* it is so; why says it */
	}
	finish(c);
}

int command_array(struct daemon *d, struct served *s, const struct raid_cmd *cmd, arrays_done done,
		  void *ctx, char why[RAID_WHY_BYTES])
{
	struct command *c = command_new(d, s, done, ctx, why);

	if (!c) {
		return -EBUSY;
	}
	c->cmd = *cmd;
	job_run(d->base, engine_work, array_done, c);
	return 0;
}

/* ---- places -------------------------------------------------------------------------------- */

/* States of the members now; a place that nobody has is ABSENT. NULL: no memory. */
static struct raid_status *status_of(const struct served *s)
{
	struct raid_status *st = calloc(1, sizeof *st);

	if (st) {
		loop_array_status(s->ai, st);
	}
	return st;
}

static bool serves(enum raid_member_state state)
{
	return state != RAID_MEMBER_ABSENT && state != RAID_MEMBER_LEAVING &&
	       state != RAID_MEMBER_FAULTY;
}

/*
 * The place of a member. One that failed and the one that came for it may have the same path: good
 * says which of them is meant. UINT32_MAX: none.
 */
static uint32_t find_place(const struct served *s, const char *path, const struct raid_status *st,
			   bool good)
{
	const struct array_instance *ai = s->ai;
	uint32_t found = UINT32_MAX;

	for (uint32_t i = 0; i < ai->members; i++) {
		const struct member_dev *dev = &ai->member[i];

		if (dev->path && (!strcmp(dev->path, path) || device_is(dev, path)) &&
		    (found == UINT32_MAX || serves(st->member[i].state) == good)) {
			found = i;
		}
	}
	return found;
}

/* On the base's thread, after the engine has let go. */
static void take_out(struct command *c, uint32_t place)
{
	struct array_instance *ai = c->s->ai;

	notices_deliver(c->d->notices); /* they may name it */
	CHECK(place < ai->members && c->dev.fd < 0);
	free(c->dev.path);
	c->dev = ai->member[place];
	ai->member[place] = (struct member_dev){.fd = -1};
	while (ai->members && !ai->member[ai->members - 1].path) {
		ai->members--;
	}
}

static void put_in(struct command *c, uint32_t place)
{
	struct array_instance *ai = c->s->ai;

	CHECK(place < RAID_MEMBERS_MAX && !ai->member[place].path);
	ai->member[place] = c->dev;
	c->dev = (struct member_dev){.fd = -1};
	if (place >= ai->members) {
		ai->members = place + 1;
	}
}

/* ---- adding -------------------------------------------------------------------------------- */

static const uint8_t *uuid_of(const struct array_instance *ai)
{
	return ai->assembly->member[ai->assembly->freshest].sb.set_uuid;
}

/* From here on the engine finds nothing on it. */
static int make_blank(struct command *c)
{
	int err = device_wipe_superblocks(&c->dev);

	if (err) {
		return why_set(c->why, err, "%s: its old superblock cannot be erased: %s",
			       c->dev.path, strerror(-err));
	}
	c->cand.load_err = -ENOENT;
	return 0;
}

/* Is it ours to write to? Whatever belongs to somebody else needs the user's word. */
static int look(struct command *c)
{
	const struct asm_candidate *cand = &c->cand;
	char what[RAID_WHY_BYTES], uuid[37];

	device_candidate(&c->dev, &c->cand);
	if (!cand->load_err && !memcmp(cand->sb.set_uuid, uuid_of(c->s->ai), 16)) {
		return 0;
	}
	if (c->opt.readd_only) {
		return why_set(c->why, -ENOENT, "%s carries no superblock of this array%s%s",
			       c->dev.path, cand->load_err ? ": " : "",
			       cand->load_err ? cand->why : "");
	}
	if (!cand->load_err) {
		snprintf(what, sizeof what, "the superblock of another array, UUID %s",
			 sb_uuid_text(cand->sb.set_uuid, uuid));
	} else if (cand->load_err == -EIO) {
		return why_set(c->why, -EIO, "%s: %s", c->dev.path, cand->why);
	} else if (cand->load_err != -ENOENT) {
		snprintf(what, sizeof what, "a damaged superblock (%.160s)", cand->why);
	} else if (!device_signature(&c->dev, what)) {
		return 0;
	}
	if (!c->opt.force) {
		return why_set(c->why, -EEXIST,
			       "%s carries %.150s; --force adds it all the same, and what is on it "
			       "is lost",
			       c->dev.path, what);
	}
	return make_blank(c);
}

static void open_work(void *arg)
{
	struct command *c = arg;
	const struct config_array *config = c->s->config;
	const struct device_options opt = {
		.direct = config->direct,
		.lock_wait_ms = ADD_LOCK_WAIT_MS,
		.volatile_cache = config->volatile_cache,
	};

	device_close(&c->dev); /* what it was before, if it was a member that failed */
	c->err = device_open(c->path, &opt, &c->dev, c->why);
	if (!c->err) {
		c->err = look(c);
	}
}

static void give_to_engine(void *arg);

/* c->dev is in no place again, c->err says why. */
static void add_refused(struct command *c)
{
	struct served *wanted = c->s;

	if (!c->other || c->back) {
		close_and_finish(c);
		return;
	}
	log_warning("spare goes back array=%s member=%s: array '%s': %s", c->other->ai->name,
		    c->dev.path, wanted->ai->name, c->why);
	c->back = true;
	c->back_err = c->err;
	c->err = 0;
	c->s = c->other;
	c->other = wanted;
	c->cmd = (struct raid_cmd){0};
	give_to_engine(c);
}

static void added_work(void *arg)
{
	struct command *c = arg;

	loop_add_wait(c->add);
}

static void added(void *arg)
{
	struct command *c = arg;

	c->err = c->cmd.res;
	if (c->err) {
		memcpy(c->why, c->cmd.why, sizeof c->why);
	}
	if (c->err && c->cmd.member != c->place) {
		if (c->place != UINT32_MAX) {
			take_out(c, c->place);
		}
		add_refused(c);
		return;
	}
	/* With an error: the engine has it, but could not record that; the array is broken. */
	log_info("device added array=%s member=%s", c->s->ai->name,
		 c->s->ai->member[c->place].path);
	if (c->back) {
		c->err = c->back_err;
	}
	finish(c);
}

/* The device is open and may be written to. */
static void give_to_engine(void *arg)
{
	struct command *c = arg;

	if (!c->err && getrandom(c->cmd.device_uuid, sizeof c->cmd.device_uuid, 0) !=
			       sizeof c->cmd.device_uuid) {
		c->err = why_set(c->why, -EIO, "the system gives no random numbers");
	}
	if (c->err) {
		add_refused(c);
		return;
	}
	c->cand.name = c->dev.path;
	c->cmd.op = RAID_CMD_ADD;
	c->cmd.candidate = &c->cand;
	c->cmd.props = c->dev.props;
	c->cmd.readd_only = c->opt.readd_only;
	c->cmd.write_mostly = c->opt.write_mostly;
	c->cmd.failfast = c->opt.failfast;
	c->add = loop_array_add(c->s->ai, &c->cmd, &c->dev);
	if (!c->add) {
		c->err = why_set(c->why, -ENOMEM, "out of memory");
		add_refused(c);
		return;
	}
	c->place = loop_add_place(c->add);
	if (c->place != UINT32_MAX) {
		put_in(c, c->place);
	}
	job_run(c->d->base, added_work, added, c);
}

/* ---- members ------------------------------------------------------------------------------- */

static void removed(void *arg)
{
	struct command *c = arg;

	take_result(c);
	if (c->err) {
		finish(c);
		return;
	}
	take_out(c, c->cmd.member);
	log_info("device removed array=%s member=%s", c->s->ai->name, c->dev.path);
	if (!c->adds) {
		close_and_finish(c);
		return;
	}
	c->cmd = (struct raid_cmd){0};
	job_run(c->d->base, open_work, give_to_engine, c);
}

static void member_done(void *arg)
{
	struct command *c = arg;

	take_result(c);
	finish(c);
}

static void do_nothing(void *arg)
{
}

/* It is so already: say that. */
static int note(struct command *c, const char *fmt, const char *path)
{
	why_set(c->why, 0, fmt, path, c->s->ai->name);
	job_run(c->d->base, do_nothing, finish, c);
	return 0;
}

static int give_up(struct command *c, int err)
{
	struct daemon *d = c->d;
	struct served *s = c->s;

	free(c->path);
	free(c);
	served_end(d, s);
	return err;
}

int command_member(struct daemon *d, struct served *s, enum raid_cmd_op op, const char *path,
		   const char *with, arrays_done done, void *ctx, char why[RAID_WHY_BYTES])
{
	struct command *c = command_new(d, s, done, ctx, why);
	struct raid_status *st = c ? status_of(s) : NULL;
	int err = 0;

	if (!c) {
		return -EBUSY;
	}
	if (!st) {
		return give_up(c, why_set(why, -ENOMEM, "out of memory"));
	}
	c->cmd.op = op;
	c->cmd.with = UINT32_MAX;
	c->cmd.member = find_place(s, path, st, op != RAID_CMD_REMOVE);
	if (with) {
		c->cmd.with = find_place(s, with, st, true);
		if (c->cmd.with == UINT32_MAX) {
			err = why_set(why, -ENOENT, "array '%s' has no spare %s: add it first",
				      s->ai->name, with);
		}
	}
	if (c->cmd.member == UINT32_MAX && op != RAID_CMD_REMOVE) {
		err = why_set(why, -ENOENT, "array '%s' has no member %s", s->ai->name, path);
	}
	free(st);
	if (err) {
		return give_up(c, err);
	}
	if (c->cmd.member == UINT32_MAX) {
		return note(c, "%s is no member of array '%s'", path);
	}
	job_run(d->base, engine_work, op == RAID_CMD_REMOVE ? removed : member_done, c);
	return 0;
}

/* Another array that has the device. */
static const struct served *owner_of(const struct daemon *d, const struct served *except,
				     const char *path)
{
	for (uint32_t i = 0; i < d->arrays.count; i++) {
		const struct served *s = d->arrays.item[i];

		for (uint32_t k = 0; s != except && k < s->ai->members; k++) {
			if (s->ai->member[k].fd >= 0 && device_is(&s->ai->member[k], path)) {
				return s;
			}
		}
	}
	return NULL;
}

static int may_add(const struct daemon *d, const struct served *s, const char *path,
		   char why[RAID_WHY_BYTES])
{
	const struct served *owner = owner_of(d, s, path);

	if (owner) {
		return why_set(why, -EBUSY, "%s is a member of array '%s'", path, owner->ai->name);
	}
	if (s->ai->read_only) {
		return why_set(why, -EROFS, "array '%s' is read-only: it takes no devices",
			       s->ai->name);
	}
	if (!s->ai->assembly->metadata) {
		return why_set(why, -ENOTSUP,
			       "array '%s' has no metadata: it takes no devices while it runs",
			       s->ai->name);
	}
	return 0;
}

int command_add(struct daemon *d, struct served *s, const char *path, const struct command_add *opt,
		arrays_done done, void *ctx, char why[RAID_WHY_BYTES])
{
	struct command *c = command_new(d, s, done, ctx, why);
	struct raid_status *st = c ? status_of(s) : NULL;
	bool there = false;
	int err;

	if (!c) {
		return -EBUSY;
	}
	c->path = strdup(path);
	c->opt = *opt;
	err = st && c->path ? may_add(d, s, path, why) : why_set(why, -ENOMEM, "out of memory");
	if (!err) {
		/* One that failed, or that the start left out, is taken out first. */
		c->cmd.member = find_place(s, path, st, true);
		there = c->cmd.member != UINT32_MAX;
		c->adds = there && !serves(st->member[c->cmd.member].state);
	}
	free(st);
	if (err) {
		return give_up(c, err);
	}
	if (there && !c->adds) {
		return note(c, "%s is a member of array '%s' already", path);
	}
	if (c->adds) {
		c->cmd.op = RAID_CMD_REMOVE;
		job_run(d->base, engine_work, removed, c);
	} else {
		job_run(d->base, open_work, give_to_engine, c);
	}
	return 0;
}

/* ---- moving a spare ------------------------------------------------------------------------ */

static void blank_work(void *arg)
{
	struct command *c = arg;

	device_candidate(&c->dev, &c->cand);
	c->err = make_blank(c);
}

static void move_removed(void *arg)
{
	struct command *c = arg;
	struct served *to = c->other;

	take_result(c);
	if (c->err) {
		finish(c);
		return;
	}
	take_out(c, c->cmd.member);
	c->other = c->s;
	c->s = to;
	c->cmd = (struct raid_cmd){0};
	job_run(c->d->base, blank_work, give_to_engine, c);
}

int command_move(struct daemon *d, struct served *from, uint32_t place, struct served *to,
		 arrays_done done, void *ctx, char why[RAID_WHY_BYTES])
{
	struct command *c = command_new(d, from, done, ctx, why);
	int err;

	if (!c) {
		return -EBUSY;
	}
	err = served_begin(to, why);
	if (err) {
		return give_up(c, err);
	}
	c->other = to;
	c->cmd.op = RAID_CMD_REMOVE;
	c->cmd.member = place;
	job_run(d->base, engine_work, move_removed, c);
	return 0;
}
