/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/oracle.h"

#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { SLAB_VERSIONS = 512, DEPTH_MAX = 64 };

/* ---- versions -------------------------------------------------------------------------------- */

static struct version *take(struct oracle *o)
{
	struct version *v = o->pool;

	if (!v) {
		v = calloc(SLAB_VERSIONS, sizeof *v);
		o->slabs = realloc(o->slabs, (o->slab_count + 1) * sizeof *o->slabs);
		CHECK(v && o->slabs);
		o->slabs[o->slab_count++] = v;
		for (int i = 0; i < SLAB_VERSIONS - 1; i++) {
			v[i].newer = &v[i + 1];
		}
	}
	o->pool = v->newer;
	memset(v, 0, offsetof(struct version, data));
	return v;
}

static struct version *append(struct oracle *o, uint64_t s)
{
	struct version *v = take(o), **at = &o->oldest[s];

	while (*at) {
		at = &(*at)->newer;
	}
	*at = v;
	return v;
}

/* Remove v; what was laid over it goes too if it was impossible, else stands on its own. */
static void discard(struct oracle *o, uint64_t s, struct version *v, bool impossible)
{
	struct version **at = &o->oldest[s], *w;

	while (*at != v) {
		at = &(*at)->newer;
	}
	*at = v->newer;
	v->newer = o->pool;
	o->pool = v;
again:
	for (w = o->oldest[s]; w; w = w->newer) {
		if (w->base != v) {
			continue;
		}
		w->base = NULL;
		if (impossible) {
			discard(o, s, w, true);
			goto again;
		}
	}
}

static bool is_durable(const struct oracle *o, const struct version *v)
{
	return v->durable || (v->state == VERSION_ACKED && v->acked_at < o->durable_until);
}

/* Certain: acked and not a mere possibility. */
static bool is_certain(const struct version *v)
{
	return v->state == VERSION_ACKED && !v->maybe;
}

/* Laid over an older version although a write between the two has succeeded or, if pending, may
 * still do so. */
static bool skips_a_write(const struct version *v, bool pending)
{
	if (!v->base) {
		return false;
	}
	for (const struct version *u = v->base->newer; u && u != v; u = u->newer) {
		if (u->seq > v->base->seq && u->seq < v->seq && !u->maybe &&
		    (u->state == VERSION_ACKED || (pending && u->state == VERSION_IN_FLIGHT))) {
			return true;
		}
	}
	return false;
}

static bool is_shadow(const struct oracle *o, const struct version *v, uint64_t begun_at)
{
	return v->shadow_at && v->shadow_era == o->era && v->shadow_at < begun_at;
}

/* Could a read that began then return it? */
static bool is_readable(const struct oracle *o, const struct version *v, uint64_t begun_at)
{
	if (is_shadow(o, v, begun_at) || skips_a_write(v, true)) {
		return false;
	}
	for (const struct version *u = v->newer; u; u = u->newer) {
		if (u->seq > v->seq && is_certain(u) && u->acked_at < begun_at) {
			return false;
		}
	}
	return true;
}

/* Forget what can be neither read nor found after a crash. */
static void purge(struct oracle *o, uint64_t s)
{
	const struct oracle_read *first = list_first_entry(&o->reads, struct oracle_read, link);
	uint64_t keep = UINT64_MAX;
	struct version *v, *next;

	if (!o->oldest[s] || !o->oldest[s]->newer) {
		return;
	}
	for (v = o->oldest[s]; v; v = v->newer) {
		if (is_certain(v) && is_durable(o, v) &&
		    (!first || v->acked_at < first->begun_at)) {
			keep = v->seq;
		}
	}
	if (keep == UINT64_MAX) {
		return;
	}
	for (v = o->oldest[s]; v; v = next) {
		next = v->newer;
		if (v->seq < keep) {
			discard(o, s, v, false);
		}
	}
}

void oracle_init(struct oracle *o, uint64_t sectors)
{
	memset(o, 0, sizeof *o);
	o->sectors = sectors;
	o->oldest = calloc(sectors, sizeof(struct version *));
	o->exempt_at = calloc(sectors, sizeof *o->exempt_at);
	CHECK(o->oldest && o->exempt_at);
	o->clock = 1;
	o->era = 1;
	list_init(&o->reads);
}

void oracle_free(struct oracle *o)
{
	for (size_t i = 0; i < o->slab_count; i++) {
		free(o->slabs[i]);
	}
	free(o->slabs);
	free(o->oldest);
	free(o->exempt_at);
	free(o->pending);
	memset(o, 0, sizeof *o);
}

void oracle_add_initial(struct oracle *o, uint64_t s, const void *data)
{
	struct version *v = append(o, s);

	memcpy(v->data, data, sizeof v->data);
	v->durable = true;
	if (v == o->oldest[s]) {
		v->state = VERSION_ACKED;
	} else {
		o->oldest[s]->state = v->state = VERSION_SETTLED;
		o->oldest[s]->maybe = v->maybe = true;
	}
}

void oracle_set(struct oracle *o, uint64_t s, const void *data)
{
	while (o->oldest[s]) {
		discard(o, s, o->oldest[s], false);
	}
	oracle_add_initial(o, s, data);
	o->oldest[s]->seq = o->clock++;
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* The part of sector s that [addr, addr+len) covers, relative to the sector. */
static void part(uint64_t s, uint64_t addr, uint64_t len, uint32_t *from, uint32_t *to)
{
	uint64_t begin = s * RAID_SECTOR_BYTES;

	*from = (uint32_t)(max_u64(addr, begin) - begin);
	*to = (uint32_t)(min_u64(addr + len, begin + RAID_SECTOR_BYTES) - begin);
}

static uint64_t first_sector(uint64_t addr)
{
	return addr / RAID_SECTOR_BYTES;
}

static uint64_t end_sector(uint64_t addr, uint64_t len)
{
	return (addr + len + RAID_SECTOR_BYTES - 1) / RAID_SECTOR_BYTES;
}

static void overlay(struct version *v, uint64_t s, enum oracle_kind kind, uint64_t addr,
		    uint64_t len, const uint8_t *payload)
{
	uint32_t from, to;

	part(s, addr, len, &from, &to);
	if (kind == ORACLE_WRITE) {
		memcpy(v->data + from, payload + (s * RAID_SECTOR_BYTES + from - addr), to - from);
	} else {
		memset(v->data + from, 0, to - from);
	}
}

/* No reader and no later write can find anything older: it has happened, or it will. */
static bool hides_older(const struct version *v)
{
	return is_certain(v) || (v->state == VERSION_IN_FLIGHT && !v->maybe && !v->may_fail);
}

/* Lay the write over everything that it may find when its turn comes. */
static void add_overlays(struct oracle *o, uint64_t s, uint64_t seq, enum oracle_kind kind,
			 uint64_t addr, uint64_t len, const uint8_t *payload, bool may_fail)
{
	struct version *found[DEPTH_MAX], *v;
	uint32_t count = 0;

	for (v = o->oldest[s]; v; v = v->newer) {
		if (hides_older(v) && count > 0 && found[count - 1]->seq != v->seq) {
			count = 0; /* what stays are versions of one write, laid over several */
		}
		CHECK(count < DEPTH_MAX);
		found[count++] = v;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct version *base = found[i];

		v = append(o, s);
		memcpy(v->data, base->data, sizeof v->data);
		overlay(v, s, kind, addr, len, payload);
		v->seq = seq;
		v->base = base;
		v->maybe = kind == ORACLE_TRIM;
		v->may_fail = may_fail;
		v->shadow_at = base->shadow_at;
		v->shadow_era = base->shadow_era;
	}
}

uint64_t oracle_write_begin(struct oracle *o, enum oracle_kind kind, uint64_t addr, uint64_t len,
			    const void *payload, bool may_fail)
{
	uint64_t seq = o->clock++;

	for (uint64_t s = first_sector(addr); s < end_sector(addr, len); s++) {
		uint32_t from, to;

		purge(o, s);
		part(s, addr, len, &from, &to);
		if (to - from < RAID_SECTOR_BYTES) {
			add_overlays(o, s, seq, kind, addr, len, payload, may_fail);
		} else {
			struct version *v = append(o, s);

			overlay(v, s, kind, addr, len, payload);
			v->seq = seq;
			v->maybe = kind == ORACLE_TRIM;
			v->may_fail = may_fail;
		}
	}
	return seq;
}

static void drop_skipping(struct oracle *o, uint64_t s, bool pending)
{
	struct version *v = o->oldest[s];

	while (v) {
		if (skips_a_write(v, pending)) {
			discard(o, s, v, true);
			v = o->oldest[s];
		} else {
			v = v->newer;
		}
	}
}

void oracle_write_end(struct oracle *o, uint64_t seq, enum oracle_kind kind, uint64_t addr,
		      uint64_t len, bool ok, bool durable)
{
	uint64_t now = o->clock++;

	for (uint64_t s = first_sector(addr); s < end_sector(addr, len); s++) {
		for (struct version *v = o->oldest[s]; v; v = v->newer) {
			if (v->seq == seq) {
				v->state = ok ? VERSION_ACKED : VERSION_FAILED;
				v->acked_at = now;
				v->durable = ok && durable;
				v->maybe |= !ok;
			}
		}
		if (ok && kind != ORACLE_TRIM) {
			drop_skipping(o, s, false);
		}
		purge(o, s);
	}
	if (!ok || durable) {
		return;
	}
	if (o->pending_count == o->pending_room) {
		o->pending_room = o->pending_room ? o->pending_room * 2 : 64;
		o->pending = realloc(o->pending, o->pending_room * sizeof *o->pending);
		CHECK(o->pending);
	}
	o->pending[o->pending_count++] =
		(struct oracle_pending){seq, addr, len, now, kind == ORACLE_TRIM};
}

void oracle_write_refused(struct oracle *o, uint64_t seq, uint64_t addr, uint64_t len)
{
	for (uint64_t s = first_sector(addr); s < end_sector(addr, len); s++) {
		struct version *v = o->oldest[s];

		while (v) {
			if (v->seq == seq) {
				discard(o, s, v, true);
				v = o->oldest[s];
			} else {
				v = v->newer;
			}
		}
	}
	o->clock++;
}

void oracle_write_settled(struct oracle *o, uint64_t seq, uint64_t addr, uint64_t len)
{
	for (uint64_t s = first_sector(addr); s < end_sector(addr, len); s++) {
		for (struct version *v = o->oldest[s]; v; v = v->newer) {
			if (v->seq == seq && v->state == VERSION_FAILED) {
				v->state = VERSION_SETTLED;
			}
		}
	}
}

uint64_t oracle_flush_begin(struct oracle *o)
{
	return o->clock++;
}

void oracle_flush_end(struct oracle *o, uint64_t begun)
{
	size_t kept = 0;

	o->durable_until = max_u64(o->durable_until, begun);
	for (size_t i = 0; i < o->pending_count; i++) {
		if (o->pending[i].acked_at >= begun) {
			o->pending[kept++] = o->pending[i];
		}
	}
	o->pending_count = kept;
	o->clock++;
}

/* ---- reads ----------------------------------------------------------------------------------- */

void oracle_read_begin(struct oracle *o, struct oracle_read *r, uint64_t addr, uint64_t len)
{
	r->addr = addr;
	r->len = len;
	r->begun_at = o->clock++;
	list_append(&o->reads, &r->link);
}

/* The copy that answered has this content: the other contents can only be on other copies. True
 * only while nothing changes the sector, and no copy of it was lost, since the read began. */
static void observe(struct oracle *o, uint64_t s, const struct oracle_read *r, const uint8_t *data,
		    uint32_t from, uint32_t to)
{
	struct version *v;

	for (v = o->oldest[s]; v; v = v->newer) {
		if (v->state == VERSION_IN_FLIGHT || v->state == VERSION_FAILED ||
		    v->acked_at > r->begun_at || o->exempt_at[s] > r->begun_at ||
		    o->era_at > r->begun_at) {
			return;
		}
	}
	for (v = o->oldest[s]; v; v = v->newer) {
		if (is_readable(o, v, r->begun_at) &&
		    memcmp(v->data + from, data, to - from) != 0) {
			v->shadow_at = o->clock;
			v->shadow_era = o->era;
		}
	}
	o->clock++;
}

static bool matches_any(const struct oracle *o, uint64_t s, uint64_t begun_at, const uint8_t *data,
			uint32_t from, uint32_t to)
{
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (!memcmp(v->data + from, data, to - from) && is_readable(o, v, begun_at)) {
			return true;
		}
	}
	return false;
}

static const char *what_it_is(const struct oracle *o, uint64_t s, uint64_t begun_at,
			      const uint8_t *data, uint32_t from, uint32_t to)
{
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (memcmp(v->data + from, data, to - from) != 0) {
			continue;
		}
		if (is_shadow(o, v, begun_at)) {
			return "a read returned another version than an earlier read did (rule 4)";
		}
		if (skips_a_write(v, true)) {
			return "a read returned a write laid over an older one than the last "
			       "(rule 7)";
		}
		return "a read returned a version that an acknowledged write had replaced";
	}
	return "a read returned what the sector cannot contain";
}

const char *oracle_read_end(struct oracle *o, struct oracle_read *r, const void *data,
			    uint64_t *bad)
{
	const uint8_t *bytes = data;

	list_del(&r->link);
	if (!data) {
		return NULL;
	}
	for (uint64_t s = first_sector(r->addr); s < end_sector(r->addr, r->len); s++) {
		uint32_t from, to;
		const uint8_t *here;

		part(s, r->addr, r->len, &from, &to);
		here = bytes + (s * RAID_SECTOR_BYTES + from - r->addr);
		o->verified++;
		if (!matches_any(o, s, r->begun_at, here, from, to)) {
			*bad = s;
			return what_it_is(o, s, r->begun_at, here, from, to);
		}
		if (o->oldest[s]->newer) {
			observe(o, s, r, here, from, to);
			purge(o, s);
		}
	}
	return NULL;
}

/* ---- crashes and questions ------------------------------------------------------------------- */

/* A read saw what a TRIM or a failed write left, and the power cut may have undone it on the very
 * same copy. */
static void revive(struct oracle *o, uint64_t s, const struct version *undone)
{
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (v->shadow_at > undone->acked_at) {
			v->shadow_at = 0;
		}
	}
}

static void crash_sector(struct oracle *o, uint64_t s)
{
	drop_skipping(o, s, true);
	purge(o, s);
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (v->maybe && !v->survived && !is_durable(o, v)) {
			revive(o, s, v);
		}
	}
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (is_certain(v) && is_durable(o, v)) {
			v->durable = true;
		} else {
			v->state = VERSION_SETTLED;
			v->maybe = true;
		}
		v->survived = true;
	}
}

void oracle_crash(struct oracle *o)
{
	while (list_pop(&o->reads)) {
	}
	for (uint64_t s = 0; s < o->sectors; s++) {
		if (o->oldest[s]->newer || o->oldest[s]->state != VERSION_ACKED) {
			crash_sector(o, s);
		} else {
			o->oldest[s]->durable = true;
		}
	}
	o->pending_count = 0;
	o->clock++;
}

void oracle_exempt(struct oracle *o, uint64_t s)
{
	o->exempt_at[s] = o->clock++;
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		v->shadow_at = 0;
	}
}

void oracle_exempt_all(struct oracle *o)
{
	o->era++;
	o->era_at = o->clock++;
}

bool oracle_may_hold(struct oracle *o, uint64_t s, const void *data)
{
	o->verified++;
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (!memcmp(v->data, data, sizeof v->data)) {
			return true;
		}
	}
	return false;
}

bool oracle_holds_since(const struct oracle *o, uint64_t s, uint64_t seq, const void *data)
{
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (v->seq >= seq && !memcmp(v->data, data, sizeof v->data)) {
			return true;
		}
	}
	return false;
}

bool oracle_is_certain(const struct oracle *o, uint64_t s)
{
	return !o->oldest[s]->newer;
}

bool oracle_is_quiet(const struct oracle *o, uint64_t s)
{
	for (struct version *v = o->oldest[s]; v; v = v->newer) {
		if (v->state == VERSION_IN_FLIGHT || v->state == VERSION_FAILED) {
			return false;
		}
	}
	return true;
}

uint32_t oracle_depth(const struct oracle *o, uint64_t addr, uint64_t len)
{
	uint32_t most = 0;

	for (uint64_t s = first_sector(addr); s < end_sector(addr, len); s++) {
		uint32_t n = 0;

		for (struct version *v = o->oldest[s]; v; v = v->newer) {
			n++;
		}
		most = n > most ? n : most;
	}
	return most;
}
