/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raid_check(): the invariants of every machine, verified from the outside. The work grows with
 * what is in flight, not with the size of the pools.
 */
#include "raid/array.h"
#include "raid/stripe.h"

static const char *check_slot(const struct shard *sh, const struct frag *f, const struct slot *s,
			      uint32_t in_flight[])
{
	if (s->of != f || s->owner != SLOT_DATA || s->state == SLOT_FREE) {
		return "an io on a fragment's list is not the fragment's";
	}
	if (s->pool != (f->kit ? &f->kit->pool : &sh->pool)) {
		return "an io is not from the fragment's pool";
	}
	if (s->state == SLOT_OUT) {
		in_flight[s->io.member]++;
	}
	if (s->late && s->state != SLOT_OUT) {
		return "an io is late and not out";
	}
	if (f->state == FRAG_SHED && s->counted) {
		return "a shed io still counts";
	}
	if (f->state == FRAG_ANSWERED &&
	    (s->counted || view_gets(sh->view, s->gslot, s->io.member))) {
		return "an answered fragment has an io on a member that gets writes";
	}
	if (s->io.len && s->io.len % RAID_SECTOR_BYTES) {
		return "an io is no multiple of a sector";
	}
	return NULL;
}

static const char *check_frag(struct shard *sh, struct frag *f, uint32_t in_flight[],
			      uint64_t *buffer)
{
	uint32_t slots = 0, counted = 0, waiting = 0;
	const struct slot *s;
	const char *wrong;
	bool write = f->kind != FRAG_READ;

	list_for_each_entry (s, &f->slots, link) {
		wrong = check_slot(sh, f, s, in_flight);
		if (wrong) {
			return wrong;
		}
		slots++;
		counted += s->counted;
	}
	list_for_each_entry (s, &sh->job_wait, link) {
		waiting += s->of == f;
	}
	list_for_each_entry (s, &sh->stripes.block_wait, link) {
		waiting += s->of == f;
	}
	waiting += stripe_waiters(sh, f);
	if (slots + waiting + (f->stripe != NULL) != f->out ||
	    counted + waiting + f->parts != f->pending) {
		return "a fragment's counts of ios are wrong";
	}
	if (f->state == FRAG_ANSWERED && !f->req) {
		return NULL; /* released since the last step */
	}
	if (f->state == FRAG_FREE || (f->state == FRAG_SHED) != (f->req == NULL)) {
		return "an active fragment is free, or has lost its request";
	}
	if ((f->state == FRAG_EDGES || f->state == FRAG_DATA) && !f->pending) {
		return "a fragment waits for nothing";
	}
	if (f->kit && (f->kit->user != f || f->buf != f->kit->buf)) {
		return "a kit is not its user's";
	}
	if (f->buf && !f->kit) {
		*buffer += f->state == FRAG_SHED ? 0 : plan_buffer_bytes(sh, f);
	}
	if (f->state == FRAG_SHED) {
		return f->out ? NULL : "a shed fragment holds a buffer for nobody";
	}
	if (f->cursor < f->window || f->cursor > f->hi || f->window < f->lo) {
		return "a fragment's window is outside it";
	}
	if (f->state == FRAG_ANSWERED
		    ? f->range.state != RANGE_OUT
		    : (f->range.state != RANGE_OUT) != (write && !sh->stripes.parity)) {
		return "a write is not among the ranges, or something else is";
	}
	if (write && !sh->stripes.parity && f->state != FRAG_ANSWERED &&
	    f->state > FRAG_WAIT_INTENT && f->intent_state != FRAG_INTENT_HELD &&
	    sh->view->redundant) {
		return "a write goes on without the bitmap";
	}
	if (write && (f->state == FRAG_WAIT_RANGE) != (f->range.state == RANGE_WAITING)) {
		return "a fragment writes before its turn";
	}
	return range_check(&sh->ranges, &f->range);
}

static const char *check_jobs(struct shard *sh, uint32_t in_flight[], uint32_t *writes,
			      uint32_t *ranges)
{
	uint32_t busy = 0;

	for (uint32_t i = 0; i < SHARD_JOBS; i++) {
		struct job *j = &sh->job[i];
		bool io = j->slot->state == SLOT_OUT;
		bool active = j->state != JOB_FREE && j->state != JOB_HUNG;

		busy += j->state != JOB_FREE;
		in_flight[j->slot->io.member] += io;
		*writes += active;
		*ranges += active;
		if (io != (j->state == JOB_READ || j->state == JOB_WRITE ||
			   j->state == JOB_VERIFY || j->state == JOB_HUNG)) {
			return "a repair waits for no io, or has one it does not wait for";
		}
		if (active != (j->range.state != RANGE_OUT)) {
			return "a repair is not among the ranges";
		}
		if (!active && j->waiter) {
			return "a read waits for a repair that is over";
		}
	}
	return busy == sh->jobs_busy ? NULL : "the count of repairs is wrong";
}

static const char *check_sync(struct shard *sh, uint32_t in_flight[], uint32_t *writes,
			      uint32_t *ranges)
{
	uint32_t busy = 0;

	for (uint32_t i = 0; i < sh->sync_jobs; i++) {
		struct sync_job *j = &sh->sync_job[i];
		uint32_t out = 0, pending = 0;
		const struct slot *s;

		list_for_each_entry (s, &j->slots, link) {
			if (s->of != j || s->owner != SLOT_SYNC || s->state == SLOT_FREE) {
				return "an io of a sync order is not its own";
			}
			in_flight[s->io.member] += s->state == SLOT_OUT;
			pending += s->counted;
			out++;
		}
		busy += j->state != SYNC_FREE;
		*writes += j->counted;
		*ranges += j->range.state != RANGE_OUT;
		if (out != j->out || pending != j->pending) {
			return "the ios of a sync order are miscounted";
		}
		if ((j->state == SYNC_READ || j->state == SYNC_WRITE || j->state == SYNC_VERIFY) !=
		    (pending != 0)) {
			return "a sync order waits for nothing, or for what is over";
		}
		if ((j->state == SYNC_FREE || j->state == SYNC_HUNG) &&
		    (j->range.state != RANGE_OUT || j->counted)) {
			return "a sync order that is over holds rows";
		}
	}
	return busy == sh->sync_busy ? NULL : "the count of sync orders is wrong";
}

/* The view shows members that hold a slot or replace one, and nobody else, as they are. */
static const char *check_view(const struct core *c, uint32_t i)
{
	const struct member *m = &c->member[i];
	bool shown = member_gets_writes(m);

	for (uint32_t g = 0; g < VIEW_SLOTS; g++) {
		const struct view_slot *vs = &c->view.slot[g];
		bool twin = m->state == RAID_MEMBER_REPLACEMENT;

		if (vs->member != i) {
			continue;
		}
		if (!shown || g != (uint32_t)m->slot + (twin ? VIEW_TWIN : 0) || !vs->writes ||
		    vs->in_sync != (m->state == RAID_MEMBER_IN_SYNC) ||
		    (vs->bad != NULL) != (m->bad->count > 0)) {
			return "the view of a member is not its state";
		}
		if (vs->good_below < m->recovery_sectors * RAID_SECTOR_BYTES) {
			return "a superblock calls more of a member good than the view does";
		}
		shown = false;
	}
	if (shown) {
		return "a member is missing in the view";
	}
	if (m->finish != FINISH_NOT && m->state != RAID_MEMBER_REBUILDING &&
	    m->state != RAID_MEMBER_REPLACEMENT) {
		return "a member that is not filled is about to be done";
	}
	return NULL;
}

static const char *check_empty_slots(const struct core *c)
{
	for (uint32_t g = 0; g < VIEW_SLOTS; g++) {
		const struct view_slot *vs = &c->view.slot[g];

		if (vs->member == UINT32_MAX && (vs->in_sync || vs->writes || vs->good_below)) {
			return "a slot that nobody holds counts as good";
		}
	}
	return NULL;
}

static const char *check_members(const struct core *c, uint32_t in_flight[])
{
	uint32_t leaving = 0, out = 0, round = 0, total = 0;
	const char *wrong = check_empty_slots(c);

	if (wrong) {
		return wrong;
	}
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];

		leaving += m->state == RAID_MEMBER_LEAVING;
		wrong = check_view(c, i);
		if (wrong) {
			return wrong;
		}
		if (m->sb_slot) {
			in_flight[i] += m->sb_slot->state == SLOT_OUT;
			in_flight[i] += m->flush_slot->state == SLOT_OUT;
			in_flight[i] += m->log.slot->state == SLOT_OUT;
			out += m->sb_out;
			round += m->in_round;
		}
		in_flight[i] += intent_in_flight(c, i);
		if (in_flight[i] != c->iop->member[i].in_flight) {
			return "a member's ios in flight are not what their owners hold";
		}
		if (m->state == RAID_MEMBER_FAULTY && in_flight[i]) {
			return "a faulty member has ios in flight";
		}
		if ((m->sb_out || m->in_round) && !member_gets_writes(m) &&
		    m->state != RAID_MEMBER_SPARE) {
			return "a failed member is waited for";
		}
		total += in_flight[i];
	}
	if (leaving != c->leaving || total != c->iop->out) {
		return "members leaving or ios out are miscounted";
	}
	if (out != c->meta.out || round != c->flush.out) {
		return "superblock or flush ios are miscounted";
	}
	return NULL;
}

static const char *check_core(const struct core *c)
{
	const struct meta *m = &c->meta;

	if (m->failures_durable > m->failures ||
	    c->view.fail_pending != (m->failures != m->failures_durable)) {
		return "failures on record are miscounted";
	}
	if (m->out && m->state != META_WAVE0 && m->state != META_WAVE1 && m->state != META_WAVE2 &&
	    m->state != META_BROKEN) {
		return "superblocks are written outside an update";
	}
	if (!c->flush.running && c->flush.out) {
		return "a flush is out and no round runs";
	}
	if (c->view.read_only && c->meta.state != META_OFF) {
		return "a read-only array keeps superblocks";
	}
	if (!list_empty(&c->ask.sync) || !list_empty(&c->ask.synced) ||
	    !list_empty(&c->ask.sync_seen) || !list_empty(&c->ask.sync_idle) ||
	    !list_empty(&c->ask.failed) || !list_empty(&c->ask.judged) ||
	    !list_empty(&c->ask.flushed) || !list_empty(&c->ask.intent) ||
	    !list_empty(&c->ask.intent_granted) || !list_empty(&c->ask.intent_ended)) {
		return "a question between the halves was left open";
	}
	if (!list_empty(&c->ask.wrote_bad)) {
		return "good writes of bad blocks were not looked at";
	}
	return resync_check(c);
}

const char *raid_check(const struct raid_array *ca)
{
	struct raid_array *a =
		(struct raid_array *)(uintptr_t)ca; /* lists are walked, not changed */
	struct shard *sh = &a->shard;
	uint32_t in_flight[RAID_MEMBERS_MAX] = {0};
	uint32_t writes = 0, ranges = 0, shed = 0, reserved = 0, frags = 0, late = 0;
	uint64_t buffer = 0;
	const char *wrong;
	struct frag *f;

	list_for_each_entry (f, &sh->active, active) {
		wrong = check_frag(sh, f, in_flight, &buffer);
		if (wrong) {
			return wrong;
		}
		if (f->intent_state == FRAG_INTENT_HELD && !intent_durable(&a->core, &f->intent)) {
			return "a write goes on before its bits are durable";
		}
		frags++;
		shed += f->state == FRAG_SHED;
		writes +=
			f->kind != FRAG_READ && f->state != FRAG_ANSWERED && f->state != FRAG_SHED;
		ranges += f->range.state != RANGE_OUT;
		reserved += f->kit ? 0 : f->reserved;
	}
	wrong = check_jobs(sh, in_flight, &writes, &ranges);
	if (wrong) {
		return wrong;
	}
	wrong = check_sync(sh, in_flight, &writes, &ranges);
	if (wrong) {
		return wrong;
	}
	wrong = stripe_check(sh, in_flight, &writes, &ranges);
	if (wrong) {
		return wrong;
	}
	if (writes != a->core.ask.writes_active || ranges != sh->ranges.count + sh->rows.count) {
		return "writes or ranges are miscounted";
	}
	if (shed != sh->shed || frags != sh->frags_active + shed) {
		return "fragments are miscounted";
	}
	if (reserved != sh->pool.reserved || reserved > sh->pool.free_count) {
		return "reserved ios are miscounted";
	}
	if (buffer > a->arena.used_bytes) {
		return "fragments hold more buffer than was given out";
	}
	for (uint32_t k = 0; k < RAID_MEMBERS_MAX; k++) {
		late += sh->late[k];
	}
	if (late > a->iop.out) {
		return "late ios are miscounted";
	}
	wrong = check_core(&a->core);
	wrong = wrong ? wrong : intent_check(&a->core);
	return wrong ? wrong : check_members(&a->core, in_flight);
}
