/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon_spares.h"

#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "server/admin.h"
#include "server/daemon_command.h"
#include "server/daemon_internal.h"
#include "server/log.h"
#include "server/loop.h"

/* ---- at the start -------------------------------------------------------------------------- */

/* Who asked is the configuration: the log has the answer. */
static void arrived(void *ctx, int err, const char *why)
{
	if (err) {
		log_warning("a device is not added: %s", why);
	} else if (why[0]) {
		log_info("%s", why);
	}
}

static void add(struct daemon *d, struct served *s, const char *path, bool readd_only)
{
	const struct command_add opt = {.readd_only = readd_only};
	char why[RAID_WHY_BYTES];

	if (command_add(d, s, path, &opt, arrived, NULL, why)) {
		arrived(NULL, -1, why);
	}
}

static bool is_attached(const struct array_instance *ai, const char *path)
{
	for (uint32_t i = 0; i < ai->members; i++) {
		if (ai->member[i].path && device_is(&ai->member[i], path)) {
			return true;
		}
	}
	return false;
}

/* It was away, not failed, and little is to be copied. */
static bool may_return(const struct assembly *as, const struct asm_member *m)
{
	const struct sb *says = &as->member[as->freshest].sb;
	uint32_t number = m->sb.dev_number;

	return m->verdict == ASM_STALE && m->readd_bitmap &&
	       (number >= says->max_dev || says->dev_roles[number] != SB_ROLE_FAULTY);
}

void spares_array_runs(struct daemon *d, struct served *s)
{
	const struct assembly *as = s->ai->assembly;

	if (s->ai->read_only || !as->metadata) {
		return;
	}
	for (uint32_t i = 0; s->config->readd && i < as->members; i++) {
		if (may_return(as, &as->member[i])) {
			log_info("member comes back array=%s member=%s", s->ai->name,
				 s->ai->member[i].path);
			add(d, s, s->ai->member[i].path, true);
		}
	}
	for (uint32_t i = 0; i < s->config->spares; i++) {
		if (!is_attached(s->ai, s->config->spare[i])) {
			add(d, s, s->config->spare[i], false);
		}
	}
	spares_look(d);
}

/* ---- between arrays ------------------------------------------------------------------------ */

static bool in_group(const struct served *s, const char *group)
{
	return s->state == SERVED_RUNNING && s->config->spare_group && !s->ai->read_only &&
	       !strcmp(s->config->spare_group, group);
}

static uint32_t count(const struct raid_status *st, enum raid_member_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < st->members; i++) {
		n += st->member[i].state == state;
	}
	return n;
}

/* Slots for which it has nobody. */
static bool is_in_need(const struct raid_status *st)
{
	return st->in_sync + count(st, RAID_MEMBER_REBUILDING) + count(st, RAID_MEMBER_SPARE) <
	       st->slots;
}

/* Bytes that any slot of the array needs on its member, at least. */
static uint64_t needed_bytes(const struct array_instance *ai)
{
	const struct geo_params *p = &ai->assembly->geometry.p;
	uint64_t sectors = 0;

	for (uint32_t k = 0; k < p->slots; k++) {
		sectors = max_u64(sectors, p->slot[k].data_offset_sectors + p->component_sectors);
	}
	return sectors * RAID_SECTOR_BYTES;
}

struct move {
	struct daemon *d;
	char *to, *from, *path;
	uint64_t bytes;
};

static void move_free(struct move *m)
{
	free(m->to);
	free(m->from);
	free(m->path);
	free(m);
}

static void moved(void *ctx, int err, const char *why)
{
	struct move *m = ctx;
	struct daemon *d = m->d;
	struct served *to = arrays_find(&d->arrays, m->to);

	d->spare_moves = false;
	if (err && to) {
		to->refused_bytes = m->bytes; /* the next must be larger */
	}
	if (err) {
		log_warning("spare does not move member=%s from=%s to=%s: %s", m->path, m->from,
			    m->to, why);
	} else {
		log_info("spare moved member=%s from=%s to=%s", m->path, m->from, m->to);
		admin_monitor_say(d, "MoveSpare", m->to, m->from);
		spares_look(d);
	}
	move_free(m);
}

static void move(struct daemon *d, struct served *from, uint32_t place, struct served *to)
{
	struct move *m = calloc(1, sizeof *m);
	char why[RAID_WHY_BYTES];

	if (!m) {
		return;
	}
	m->d = d;
	m->to = strdup(to->ai->name);
	m->from = strdup(from->ai->name);
	m->path = strdup(from->ai->member[place].path);
	m->bytes = from->ai->member[place].props.size_bytes;
	d->spare_moves = true;
	if (!m->to || !m->from || !m->path || command_move(d, from, place, to, moved, m, why)) {
		d->spare_moves = false;
		move_free(m);
	}
}

/* The smallest spare that is large enough, among arrays that do not need it themselves. */
static bool find_donor(struct daemon *d, const struct served *to, struct raid_status *st,
		       struct served **from, uint32_t *place)
{
	uint64_t needed = needed_bytes(to->ai), best = UINT64_MAX;

	for (uint32_t i = 0; i < d->arrays.count; i++) {
		struct served *s = d->arrays.item[i];

		if (s == to || !in_group(s, to->config->spare_group)) {
			continue;
		}
		loop_array_status(s->ai, st);
		if (st->in_sync < st->slots) {
			continue;
		}
		for (uint32_t k = 0; k < s->ai->members && k < st->members; k++) {
			uint64_t size = s->ai->member[k].props.size_bytes;

			if (st->member[k].state == RAID_MEMBER_SPARE && s->ai->member[k].path &&
			    size >= needed && size > to->refused_bytes && size < best) {
				best = size;
				*from = s;
				*place = k;
			}
		}
	}
	return best != UINT64_MAX;
}

void spares_look(struct daemon *d)
{
	struct raid_status *st = calloc(1, sizeof *st);

	for (uint32_t i = 0; st && i < d->arrays.count && !d->spare_moves; i++) {
		struct served *to = d->arrays.item[i], *from;
		uint32_t place;

		if (d->state != DAEMON_SERVING || !to->config->spare_group ||
		    !in_group(to, to->config->spare_group)) {
			continue;
		}
		loop_array_status(to->ai, st);
		if (is_in_need(st) && find_donor(d, to, st, &from, &place)) {
			move(d, from, place, to);
		}
	}
	free(st);
}
