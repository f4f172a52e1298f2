/* SPDX-License-Identifier: BSD-3-Clause */
/* What others ask of the sync machine: commands and what they are told, STOP, its invariants. */
#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/mark.h"
#include "raid/core.h"
#include "raid/why.h"

static int begin(struct core *c, struct raid_cmd *cmd)
{
	struct resync *s = &c->resync;

	if (s->state == RESYNC_OFF) {
		return why_set(cmd->why, c->view.read_only ? -EROFS : -EINVAL,
			       c->view.read_only
				       ? "the array is read-only: nothing may be rewritten"
				       : "an array of this level has no redundancy to check");
	}
	if (c->view.broken || c->view.flush_lost) {
		return why_set(cmd->why, -EIO, "the array takes no writes; assemble it again");
	}
	if (s->wanted != RAID_SYNC_IDLE || s->action != RAID_SYNC_IDLE || s->ending) {
		return why_set(cmd->why, -EBUSY,
			       "a resync, rebuild, check or repair is under way; end it first "
			       "(sync action idle) or wait for it");
	}
	s->wanted = cmd->sync;
	s->scrub_pos = 0;
	return 0;
}

bool resync_command(struct core *c, struct raid_cmd *cmd)
{
	struct resync *s = &c->resync;

	if (cmd->sync == RAID_SYNC_CHECK || cmd->sync == RAID_SYNC_REPAIR) {
		cmd->res = begin(c, cmd);
		return false;
	}
	if (cmd->sync != RAID_SYNC_IDLE) {
		cmd->res = why_set(cmd->why, -EINVAL,
				   "only idle, check and repair can be asked for; a resync or "
				   "rebuild begins by itself");
		return false;
	}
	if (s->ending) {
		cmd->res = why_set(cmd->why, -EBUSY, "what runs is being ended already");
		return false;
	}
	s->blocked = false;
	s->wanted = RAID_SYNC_IDLE;
	s->scrub_pos = 0;
	if (s->action == RAID_SYNC_IDLE) {
		return false;
	}
	MARK(resync_cancel);
	s->ending = cmd;
	return true;
}

void resync_status(const struct core *c, struct raid_status *out)
{
	const struct resync *s = &c->resync;
	uint64_t left;

	out->sync.min_bps = c->limits.sync_min_bps;
	out->sync.max_bps = c->limits.sync_max_bps;
	out->sync.mismatch_sectors = s->mismatch_sectors;
	out->sync.findings = s->findings;
	memcpy(out->sync.finding, s->finding, sizeof s->finding);
	out->sync.waiting = resync_waits(c);
	out->sync.action = s->action;
	out->sync.bps = out->sync.eta_s = UINT64_MAX;
	if (s->action == RAID_SYNC_IDLE) {
		return;
	}
	left = s->limit - s->low;
	out->sync.done = s->low;
	out->sync.total = s->limit;
	out->sync.bps = sync_rate_speed_bps(&s->rate, c->now.mono_ns);
	out->sync.eta_s =
		left ? sync_rate_eta_s(&s->rate, c->now.mono_ns, resync_member_bytes(c, left)) : 0;
}

const char *resync_check(const struct core *c)
{
	const struct resync *s = &c->resync;
	uint32_t out = 0;

	for (uint32_t i = 0; i < s->orders; i++) {
		const struct sync_op *op = &s->op[i];

		out += op->state == SYNC_ORDER_OUT;
		if (op->state == SYNC_ORDER_OUT &&
		    (op->lo < s->low || op->hi > s->limit || op->lo >= op->hi)) {
			return "a sync order is outside what is to be done";
		}
	}
	if (out != s->out) {
		return "sync orders are miscounted";
	}
	if (s->out && s->state != RESYNC_RUN && s->state != RESYNC_DRAIN) {
		return "sync orders are out and nothing runs";
	}
	if (s->action != RAID_SYNC_IDLE && (s->low > s->pos || s->pos > s->limit)) {
		return "the sync machine is beyond its end";
	}
	if (s->action == RAID_SYNC_RESYNC && s->state != RESYNC_SEAL &&
	    c->meta.resync_offset != SB_IN_SYNC &&
	    c->meta.resync_offset * RAID_SECTOR_BYTES > s->low + RAID_PAGE_BYTES) {
		return "superblocks call more synced than is";
	}
	return NULL;
}

void resync_stop(struct core *c)
{
	c->resync.stopping = true;
}

bool resync_stopped(const struct core *c)
{
	const struct resync *s = &c->resync;

	return s->stopping && (s->state == RESYNC_OFF || s->state == RESYNC_IDLE);
}

void resync_differ(struct core *c, uint64_t addr)
{
	struct resync *s = &c->resync;

	if (s->state != RESYNC_OFF && s->state != RESYNC_IDLE && s->kind == SYNC_RESYNC) {
		MARK(resync_differ);
		s->differ_from = min_u64(s->differ_from, addr);
	}
}
