/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls from other threads. Each is a mail in the loop's box; a caller that needs the answer waits
 * on the loop's condition until mail.done. The lock is held for list operations only.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "raid/base/check.h"
#include "server/log.h"
#include "server/loop_int.h"

static void post(struct loop *l, struct mail *m)
{
	pthread_mutex_lock(&l->lock);
	list_append(&l->mail, &m->link);
	pthread_mutex_unlock(&l->lock);
	loop_wake(l);
}

static void wait_for(struct loop *l, const bool *said)
{
	pthread_mutex_lock(&l->lock);
	while (!*said) {
		pthread_cond_wait(&l->answered, &l->lock);
	}
	pthread_mutex_unlock(&l->lock);
}

static void ask(struct loop *l, struct mail *m)
{
	CHECK(l->running && !pthread_equal(pthread_self(), l->thread));
	post(l, m);
	wait_for(l, &m->done);
}

void mail_answer(struct loop *l, struct mail *m)
{
	pthread_mutex_lock(&l->lock);
	m->done = true;
	pthread_cond_broadcast(&l->answered);
	pthread_mutex_unlock(&l->lock);
}

static void say_place(struct loop *l, struct mail *m, uint32_t place)
{
	pthread_mutex_lock(&l->lock);
	m->place = place;
	m->placed = true;
	pthread_cond_broadcast(&l->answered);
	pthread_mutex_unlock(&l->lock);
}

/* ---- on the loop's thread ------------------------------------------------------------------ */

static void take(struct loop *l, struct mail *m)
{
	switch (m->kind) {
	case MAIL_HANDOFF:
		session_new(l, &m->handoff);
		free(m);
		return;
	case MAIL_ADD_ARRAY:
		list_append(&l->arrays, &m->array->link);
		break;
	case MAIL_STATUS:
		raid_get_status(m->array->raid, m->status);
		break;
	case MAIL_CONTROL:
		m->cmd->user = m;
		array_control(l, m->array, m->cmd);
		return; /* answered when the engine has finished it */
	case MAIL_ADD:
		m->cmd->user = m;
		say_place(l, m, array_add(l, m->array, m->cmd, m->port));
		return;
	case MAIL_CHECK:
		m->text = raid_check(m->array->raid);
		break;
	case MAIL_DRAIN:
		sessions_drain(l, m);
		return;
	case MAIL_FORGET:
		array_forget(l, m->array);
		break;
	case MAIL_REMOVE:
		m->array->leave = m;
		return;
	case MAIL_QUIT:
		l->quit = true;
		return; /* the thread's end is the answer */
	}
	mail_answer(l, m);
}

void mail_take(struct loop *l)
{
	struct list box, *n;

	list_init(&box);
	pthread_mutex_lock(&l->lock);
	list_splice(&box, &l->mail);
	pthread_mutex_unlock(&l->lock);
	while ((n = list_pop(&box))) {
		take(l, container_of(n, struct mail, link));
	}
}

/* ---- on any thread ------------------------------------------------------------------------- */

int loop_add_array(struct loop *l, struct array_instance *ai, const struct raid_limits *limits,
		   char why[RAID_WHY_BYTES])
{
	int err = array_new(l, ai, limits, why);

	if (err) {
		return err;
	}
	if (l->running) {
		struct mail m = {.kind = MAIL_ADD_ARRAY, .array = ai->plane};

		ask(l, &m);
	} else {
		list_append(&l->arrays, &ai->plane->link);
	}
	return 0;
}

void loop_handoff(struct loop *l, const struct handoff *h)
{
	struct mail *m = calloc(1, sizeof *m);

	if (!m) {
		close(h->in_fd);
		if (h->out_fd != h->in_fd) {
			close(h->out_fd);
		}
		free(h->extra);
		l->config.on_session_end(l->config.ctx, h->session, "out of memory");
		return;
	}
	m->kind = MAIL_HANDOFF;
	m->handoff = *h;
	post(l, m);
}

void loop_array_status(struct array_instance *ai, struct raid_status *out)
{
	struct mail m = {.kind = MAIL_STATUS, .array = ai->plane, .status = out};

	ask(ai->loop, &m);
}

void loop_array_control(struct array_instance *ai, struct raid_cmd *cmd)
{
	struct mail m = {.kind = MAIL_CONTROL, .array = ai->plane, .cmd = cmd};

	ask(ai->loop, &m);
}

struct loop_add {
	struct loop *loop;
	struct member_port port;
	struct mail mail;
};

struct loop_add *loop_array_add(struct array_instance *ai, struct raid_cmd *cmd,
				const struct member_dev *dev)
{
	struct loop_add *add = calloc(1, sizeof *add);

	if (!add || member_port_init(&add->port, dev, ai->plane)) {
		free(add);
		return NULL;
	}
	add->loop = ai->loop;
	add->mail =
		(struct mail){.kind = MAIL_ADD, .array = ai->plane, .cmd = cmd, .port = &add->port};
	CHECK(add->loop->running && !pthread_equal(pthread_self(), add->loop->thread));
	post(add->loop, &add->mail);
	wait_for(add->loop, &add->mail.placed);
	if (add->mail.place == UINT32_MAX) {
		member_port_free(&add->port); /* nobody has taken it over */
	}
	return add;
}

uint32_t loop_add_place(const struct loop_add *add)
{
	return add->mail.place;
}

void loop_add_wait(struct loop_add *add)
{
	wait_for(add->loop, &add->mail.done);
	free(add);
}

const char *loop_array_check(struct array_instance *ai)
{
	struct mail m = {.kind = MAIL_CHECK, .array = ai->plane};

	ask(ai->loop, &m);
	return m.text;
}

static void drain(struct loop *l, const struct array_instance *ai, uint32_t drain_ms)
{
	struct mail m = {.kind = MAIL_DRAIN, .ai = ai};

	m.deadline_ns = loop_now().mono_ns + drain_ms * UINT64_C(1000000);
	ask(l, &m);
}

void loop_drain(struct loop *l, uint32_t drain_ms)
{
	drain(l, NULL, drain_ms);
}

void loop_drain_array(struct loop *l, const struct array_instance *ai, uint32_t drain_ms)
{
	drain(l, ai, drain_ms);
}

void loop_hurry(struct loop *l)
{
	atomic_store(&l->hurry, 1);
	loop_wake(l);
}

void loop_remove_array(struct array_instance *ai)
{
	enum { LEAVE_MS = 250 }; /* after STOP only what hangs is still out */
	struct loop_array *a = ai->plane;
	struct loop *owner = a->owner;
	struct mail remove = {.kind = MAIL_REMOVE, .array = a};

	if (!owner->running) {
		array_destroy(a);
		return;
	}
	remove.deadline_ns = loop_now().mono_ns + LEAVE_MS * UINT64_C(1000000);
	ask(owner, &remove);
	if (a->abandoned) {
		log_warning("array=%s: a member still holds I/O; the memory it may write to is "
			    "left to the end of the process",
			    ai->name);
		ai->plane = NULL;
		ai->raid = NULL;
		return;
	}
	for (uint32_t i = 0; i < a->loops; i++) {
		struct mail forget = {.kind = MAIL_FORGET, .array = a};

		ask(owner->peers[i], &forget);
	}
	array_destroy(a);
}
