/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drive of an array: inputs are recorded, raid_step() lets both halves work until nothing
 * moves, outputs are pulled. Nothing else happens here; the decisions are the halves'.
 */
#include "raid/array.h"

#include <errno.h>
#include <stdio.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/base/mark.h"
#include "raid/stripe.h"
#include "raid/why.h"

/* ---- in ------------------------------------------------------------------------------------ */

void raid_submit(struct raid_array *a, struct raid_req *req)
{
	CHECK(!a->stopped);
	a->outstanding++;
	a->unanswered++;
	list_append(&a->submitted, &req->link);
}

void raid_release(struct raid_array *a, struct raid_req *read_req)
{
	struct frag *f = read_req->frag;

	/* From here on the request is the submitter's: only the fragment is remembered. */
	CHECK(read_req->op == RAID_OP_READ && f && f->state == FRAG_ANSWERED);
	read_req->frag = NULL;
	f->req = NULL;
	list_append(&a->released, &f->link);
	a->outstanding--;
	a->unanswered--;
}

void raid_complete(struct raid_array *a, struct raid_io *io, int res)
{
	iop_completed(&a->iop, io, res);
}

void raid_control(struct raid_array *a, struct raid_cmd *cmd)
{
	cmd->res = 0;
	cmd->why[0] = '\0';
	if (cmd->op == RAID_CMD_ADD) {
		cmd->member = member_place(&a->core);
	}
	list_append(&a->commands, &cmd->link);
}

/* ---- commands ------------------------------------------------------------------------------ */

static void cmd_answer(struct raid_array *a, struct raid_cmd *cmd, int res)
{
	cmd->res = res;
	list_append(&a->cmds_done, &cmd->link);
}

static void cmd_bitmap(struct raid_array *a, struct raid_cmd *cmd)
{
	int err = cmd->op == RAID_CMD_BITMAP_ADD ? intent_cmd_add(&a->core, cmd)
						 : intent_cmd_remove(&a->core, cmd);

	if (err) {
		cmd_answer(a, cmd, err);
	}
}

/* Flush, write clean, and be quiet. Hung ios of failed members are not waited for. Returns whether
 * the core has got something to do. */
static bool run_stop(struct raid_array *a)
{
	struct core *c = &a->core;
	int res = c->view.broken || c->view.flush_lost ? -EIO : 0;

	if (!a->stopping || c->ask.writes_active || c->flush.running || !resync_stopped(c)) {
		return false;
	}
	if (!c->intent.stopping) {
		intent_stop(c);
		return true;
	}
	if (!intent_stopped(c)) {
		return false;
	}
	if (!c->meta.clean_now) {
		c->meta.clean_now = true;
		return true;
	}
	if (!meta_settled(c)) {
		return false; /* it flushes first */
	}
	if (!res && !c->view.read_only && member_unflushed(c)) {
		c->flush.wanted = true;
		return true;
	}
	MARK(array_stopped);
	a->stopped = true;
	member_cmds_stop(c);
	cmd_answer(a, a->stopping, res);
	a->stopping = NULL;
	return false;
}

static void cmd_sync(struct raid_array *a, struct raid_cmd *cmd)
{
	if (!resync_command(&a->core, cmd)) {
		cmd_answer(a, cmd, cmd->res);
	}
}

static void refuse_stopping(struct raid_array *a, struct raid_cmd *cmd)
{
	if (cmd->op == RAID_CMD_ADD && cmd->member != UINT32_MAX) {
		member_place_free(&a->core, cmd->member);
		cmd->member = UINT32_MAX;
	}
	cmd_answer(a, cmd, why_set(cmd->why, -ESHUTDOWN, "the array is stopping"));
}

static void run_commands(struct raid_array *a)
{
	struct list *l;

	while ((l = list_pop(&a->commands))) {
		struct raid_cmd *cmd = container_of(l, struct raid_cmd, link);

		if (a->stopped || a->stopping) {
			refuse_stopping(a, cmd);
		} else if (cmd->op == RAID_CMD_STOP) {
			CHECK(!a->unanswered);
			a->stopping = cmd;
			resync_stop(&a->core);
			a->core.stopping = true;
		} else if (cmd->op == RAID_CMD_FAIL || cmd->op == RAID_CMD_REMOVE ||
			   cmd->op == RAID_CMD_ADD || cmd->op == RAID_CMD_REPLACE) {
			member_control(&a->core, cmd);
		} else if (cmd->op == RAID_CMD_BITMAP_ADD || cmd->op == RAID_CMD_BITMAP_REMOVE) {
			cmd_bitmap(a, cmd);
		} else if (cmd->op == RAID_CMD_SYNC) {
			cmd_sync(a, cmd);
		} else if (cmd->op == RAID_CMD_SYNC_SPEED) {
			resync_speed(&a->core, cmd->min_bps, cmd->max_bps);
			cmd_answer(a, cmd, 0);
		} else {
			cmd_answer(a, cmd, why_set(cmd->why, -EINVAL, "no such command"));
		}
	}
}

/* ---- work ---------------------------------------------------------------------------------- */

static void take_completions(struct raid_array *a)
{
	struct slot *s;

	while ((s = iop_next_completed(&a->iop))) {
		switch (s->owner) {
		case SLOT_DATA:
			shard_io_done(&a->shard, s);
			break;
		case SLOT_JOB:
			repair_io_done(&a->shard, s->of, s);
			break;
		case SLOT_STRIPE:
			stripe_io_done(&a->shard, s->of, s);
			break;
		case SLOT_META:
			meta_io_done(&a->core, s);
			break;
		case SLOT_FLUSH:
			flush_io_done(&a->core, s);
			break;
		case SLOT_BAD:
			bad_io_done(&a->core, s);
			break;
		case SLOT_INTENT:
			intent_io_done(&a->core, s);
			break;
		case SLOT_SYNC:
			sync_io_done(&a->shard, s->of, s);
			break;
		}
	}
}

void array_take_released(struct raid_array *a)
{
	struct list *l;

	while ((l = list_pop(&a->released))) {
		frag_maybe_free(&a->shard, container_of(l, struct frag, link));
	}
}

static void take_requests(struct raid_array *a)
{
	struct list *l;

	array_take_released(a);
	while ((l = list_pop(&a->submitted))) {
		struct raid_req *req = container_of(l, struct raid_req, link);

		req->start_ns = a->iop.now_ns;
		if (a->core.resync.orders) {
			sync_rate_foreground_start(&a->core.resync.rate, a->iop.now_ns);
		}
		switch (req->op) {
		case RAID_OP_FLUSH:
			stripe_close_all(&a->shard);
			flush_submit(&a->core, req);
			break;
		case RAID_OP_CACHE:
			req->frag = NULL;
			shard_answer(&a->shard, req, 0);
			break;
		default:
			shard_submit(&a->shard, req);
			break;
		}
	}
}

static bool core_run(struct core *c)
{
	bool moved = bad_run(c);

	moved |= member_run(c);
	moved |= meta_run(c);
	moved |= resync_run(c);
	moved |= flush_run(c);
	moved |= intent_run(c);
	moved |= member_cmds_run(c);
	return moved;
}

void raid_step(struct raid_array *a, struct raid_now now)
{
	bool moved;

	CHECK(now.mono_ns >= a->iop.now_ns);
	a->iop.now_ns = now.mono_ns;
	a->core.now = now;
	take_completions(a);
	take_requests(a);
	run_commands(a);
	if (iop_deadline(&a->iop) <= now.mono_ns) {
		late_reads(&a->shard);
		member_late_writes(&a->core);
	}
	do {
		moved = shard_run(&a->shard);
		moved |= core_run(&a->core);
		if (!moved) {
			moved = run_stop(a);
		}
	} while (moved);
	intent_emit(&a->core);
}

/* ---- out ----------------------------------------------------------------------------------- */

struct raid_io *raid_next_io(struct raid_array *a)
{
	struct list *l = list_pop(&a->iop.queued);

	return l ? container_of(l, struct raid_io, link) : NULL;
}

struct raid_io *raid_next_cancel(struct raid_array *a)
{
	struct list *l = list_pop(&a->iop.cancel);

	return l ? &container_of(l, struct slot, cancel)->io : NULL;
}

struct raid_req *raid_next_done(struct raid_array *a)
{
	struct list *l = list_pop(&a->done);
	struct raid_req *req;

	if (!l) {
		return NULL;
	}
	req = container_of(l, struct raid_req, link);
	if (a->core.resync.orders) {
		sync_rate_foreground_stop(&a->core.resync.rate, a->iop.now_ns,
					  a->iop.now_ns - req->start_ns);
	}
	if (req->op != RAID_OP_READ) {
		a->unanswered--;
		if (req->frag) {
			((struct frag *)req->frag)->delivered = true;
		} else {
			list_append(&a->free, &req->link);
		}
	}
	return req;
}

struct raid_req *raid_next_free(struct raid_array *a)
{
	struct list *l = list_pop(&a->free);

	if (!l) {
		return NULL;
	}
	a->outstanding--;
	return container_of(l, struct raid_req, link);
}

struct raid_cmd *raid_next_cmd(struct raid_array *a)
{
	struct list *l = list_pop(&a->cmds_done);

	return l ? container_of(l, struct raid_cmd, link) : NULL;
}

bool raid_next_event(struct raid_array *a, struct raid_event *out)
{
	struct events *e = &a->events;

	if (!e->count) {
		return false;
	}
	*out = e->ring[e->first];
	e->first = (e->first + 1) % EVENTS_MAX;
	e->count--;
	return true;
}

uint64_t raid_deadline(const struct raid_array *a)
{
	uint64_t shard = min_u64(iop_deadline(&a->iop), stripe_deadline(&a->shard));
	uint64_t core = min_u64(intent_deadline(&a->core), resync_deadline(&a->core));

	return min_u64(min_u64(shard, core), meta_deadline(&a->core));
}

/* ---- facts --------------------------------------------------------------------------------- */

uint64_t raid_split(const struct raid_array *a, enum raid_op op, uint64_t addr, uint64_t len)
{
	if (op == RAID_OP_FLUSH || op == RAID_OP_CACHE) {
		return len;
	}
	CHECK(len > 0 && addr + len <= a->core.view.size_bytes);
	return plan_split(&a->shard, op, addr, len);
}

uint64_t raid_size(const struct raid_array *a)
{
	return a->core.view.size_bytes;
}

uint32_t raid_chunk_bytes(const struct raid_array *a)
{
	return a->chunk_bytes;
}

uint64_t raid_row_bytes(const struct raid_array *a)
{
	return a->row_bytes;
}

const char *raid_event_name(enum raid_event_type type)
{
	static const char *const name[] = {
		[RAID_EV_DIRTY] = "dirty",
		[RAID_EV_CLEAN] = "clean",
		[RAID_EV_MEMBER_FAILED] = "member-failed",
		[RAID_EV_MEMBER_GONE] = "member-gone",
		[RAID_EV_READ_ERROR] = "read-error",
		[RAID_EV_READ_REPAIRED] = "read-repaired",
		[RAID_EV_WRITE_ERROR] = "write-error",
		[RAID_EV_LAST_COPY_ERROR] = "last-copy-error",
		[RAID_EV_DEADLINE] = "deadline",
		[RAID_EV_FLUSH_LOST] = "flush-lost",
		[RAID_EV_SB_ERROR] = "superblock-error",
		[RAID_EV_READ_ONLY] = "read-only",
		[RAID_EV_MEMBER_ADDED] = "member-added",
		[RAID_EV_MEMBER_REMOVED] = "member-removed",
		[RAID_EV_SPARE_ACTIVE] = "spare-active",
		[RAID_EV_SYNC_STARTED] = "sync-started",
		[RAID_EV_SYNC_PROGRESS] = "sync-progress",
		[RAID_EV_SYNC_FINISHED] = "sync-finished",
		[RAID_EV_MISMATCH] = "mismatch",
		[RAID_EV_BAD_BLOCK] = "bad-block",
		[RAID_EV_BITMAP_ERROR] = "bitmap-error",
		[RAID_EV_ROW_INCONSISTENT] = "row-inconsistent",
	};

	return name[type];
}

void raid_get_status(const struct raid_array *a, struct raid_status *out)
{
	const struct core *c = &a->core;
	const struct view *v = &c->view;

	*out = (struct raid_status){
		.state = a->stopped		     ? RAID_ARRAY_STOPPED
			 : v->read_only || v->broken ? RAID_ARRAY_READ_ONLY
			 : v->redundant && v->write_open && c->meta.state != META_OFF
				 ? RAID_ARRAY_DIRTY
				 : RAID_ARRAY_CLEAN,
		.slots = c->geo.p.slots,
		.members = c->members,
		.needs_resync = c->meta.resync_offset != SB_IN_SYNC,
		.flush_lost = v->flush_lost,
		.resync_offset = c->meta.resync_offset,
		.events = c->meta.events,
		.frags = a->shard.frags_active,
		.frags_max = a->shard.frags_high,
		.buffer_bytes_used = a->arena.used_bytes,
		.buffer_bytes_max = a->arena.high_bytes,
		.sb_updates = c->meta.updates,
		.flush_rounds = c->flush.rounds,
		.events_dropped = a->events.dropped,
		.bitmap = {.present = c->intent.state != INTENT_NONE,
			   .chunk_bytes = c->intent.header.chunk_bytes,
			   .chunks = c->intent.bits,
			   .dirty = c->intent.set_count},
	};
	resync_status(c, out);
	for (uint32_t i = 0; i < c->members; i++) {
		const struct member *m = &c->member[i];
		const struct iop_member *io = &a->iop.member[i];

		out->in_sync += m->state == RAID_MEMBER_IN_SYNC;
		out->member[i] = (struct raid_member_status){
			.state = m->state,
			.slot = m->slot,
			.reads = io->reads,
			.writes = io->writes,
			.read_bytes = io->read_bytes,
			.write_bytes = io->write_bytes,
			.read_errors = io->read_errors,
			.write_errors = io->write_errors,
			.corrected = m->corrected_total,
			.in_flight = io->in_flight,
			.bad_blocks = m->bad ? m->bad->count : 0,
			.recovery_offset = member_gets_writes(m) && m->state != RAID_MEMBER_IN_SYNC
						   ? m->recovery_sectors * RAID_SECTOR_BYTES
						   : UINT64_MAX,
		};
	}
}
