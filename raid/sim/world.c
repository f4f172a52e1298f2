/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One turn: feed what is due, step once, take everything out. This is the whole of what a backend
 * has to do with an engine, and the simulator does nothing else to it.
 */
#include "raid/sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { IDLE_STEPS_MAX = 2000 };

/* ---- ios ------------------------------------------------------------------------------------- */

static const char *io_name(enum raid_io_op op)
{
	static const char *const name[] = {
		[RAID_IO_READ] = "read",       [RAID_IO_WRITE] = "write", [RAID_IO_FLUSH] = "flush",
		[RAID_IO_DISCARD] = "discard", [RAID_IO_ZERO] = "zero",
	};

	return name[op];
}

static void take_io(struct world *w, struct raid_io *io)
{
	struct flight *f = calloc(1, sizeof *f);
	uint64_t latency_ns = 0;

	CHECK(f);
	if (io->member >= RAID_MEMBERS_MAX || w->disk_of[io->member] == LAYOUT_NONE) {
		sim_fail("an io names member %u, which does not exist", io->member);
	}
	f->io = io;
	f->id = w->next_io++;
	f->disk = w->disk_of[io->member];
	io->backend[0] = (uintptr_t)f;
	w->stats.ios++;
	w->ios_of[f->disk][io->op]++;
	w->written_of[f->disk] += io->op == RAID_IO_WRITE && io->len > SB_BYTES_MAX ? io->len : 0;
	trace_add(&w->trace, TRACE_IO, w->clock.now_ns, io_name(io->op), f->id, f->disk, io->maddr,
		  io->len, io->fua);
	list_init(&f->link);
	if (w->zombie) {
		list_append(&w->flights, &f->link);
		return;
	}
	f->cover = disk_cover(&w->disk[f->disk]);
	watch_io(w, f);
	list_append(&w->flights, &f->link);
	faults_draw(w, f, &latency_ns);
	if (f->fate != FLIGHT_HANG) {
		clock_schedule(&w->clock, w->clock.now_ns + latency_ns, EV_IO, f);
	}
}

/* Give an io back. The caller has dealt with the disk. */
void world_finish_flight(struct world *w, struct flight *f, int res)
{
	struct raid_io *io = f->io;

	trace_add(&w->trace, TRACE_COMPLETE, w->clock.now_ns, io_name(io->op), f->id,
		  (uint64_t)(int64_t)res, f->disk, 0, 0);
	list_del(&f->link);
	free(f);
	list_init(&io->link);
	raid_complete(w->array, io, res);
}

/* An error or a repair at this place: the copy that a read was answered from may be lost there. The
 * engine repairs whole blocks of 4 KiB, whatever part of them could not be read. */
void world_exempt(struct world *w, uint32_t disk, uint64_t maddr, uint64_t len)
{
	uint64_t block = RAID_PAGE_BYTES / RAID_SECTOR_BYTES;

	for (uint64_t at = 0; at < len; at += RAID_SECTOR_BYTES) {
		uint32_t s = layout_sector(&w->layout, w->role[disk].slot, maddr + at);
		uint64_t from = round_down_u64(s, block);

		for (uint64_t k = from; s != LAYOUT_NONE && k < from + block; k++) {
			if (k < w->layout.sectors) {
				oracle_exempt(&w->oracle, k);
				w->troubled[k] = 1;
			}
		}
	}
}

/* After an error reads may still meet the first copy until the block is rewritten from the next
 * one: by a repair, or by a write that found its edges there. The rewriting is the change, not one
 * back. */
static void exempt_rewritten(struct world *w, const struct flight *f)
{
	for (uint64_t at = 0; at < f->io->len; at += RAID_SECTOR_BYTES) {
		uint32_t s = layout_sector(&w->layout, w->role[f->disk].slot, f->io->maddr + at);

		if (s != LAYOUT_NONE && w->troubled[s]) {
			oracle_exempt(&w->oracle, s);
		}
	}
}

static void io_due(struct world *w, struct flight *f)
{
	struct disk *d = &w->disk[f->disk];
	int res;

	watch_complete(w, f);
	if (f->io->op == RAID_IO_WRITE) {
		exempt_rewritten(w, f);
	}
	if (f->fate == FLIGHT_FAIL && f->err == -EOPNOTSUPP) {
		res = f->err;
	} else if (f->fate == FLIGHT_FAIL) {
		disk_do_part(d, f->io, f->cover, (enum disk_cut)prng_below(&w->rng, DISK_CUT_KINDS),
			     &w->rng);
		res = f->err;
		if (f->io->op == RAID_IO_READ) {
			for (uint32_t i = 0; i < f->io->iovcnt; i++) {
				memset(f->io->iov[i].iov_base, 0xE5, f->io->iov[i].iov_len);
			}
		}
	} else {
		res = disk_do(d, f->io, f->cover, &w->rng);
	}
	if (res == 0 && f->io->op != RAID_IO_READ && f->io->op != RAID_IO_FLUSH) {
		/* A good write takes a block off the list. */
		memset(w->listed[f->disk] + f->io->maddr / RAID_SECTOR_BYTES, 0,
		       f->io->len / RAID_SECTOR_BYTES);
	}
	if (res != 0) {
		world_exempt(w, f->disk, f->io->maddr, f->io->len);
	}
	world_finish_flight(w, f, res);
}

static void take_cancel(struct world *w, struct raid_io *io)
{
	struct flight *f = (struct flight *)(uintptr_t)io->backend[0];

	trace_add(&w->trace, TRACE_CANCEL, w->clock.now_ns, NULL, f->id, 0, 0, 0, 0);
	if (w->zombie || f->fate != FLIGHT_HANG || f->late || prng_one_in(&w->rng, 2)) {
		return;
	}
	f->late = true;
	f->fate = FLIGHT_FAIL;
	f->err = -ECANCELED;
	clock_schedule(&w->clock, w->clock.now_ns + prng_below(&w->rng, SIM_S), EV_IO, f);
}

/* The disks answer again: whatever hung is done now, or fails. */
void world_release_hung(struct world *w)
{
	struct flight *f;

	list_for_each_entry (f, &w->flights, link) {
		if (f->fate != FLIGHT_HANG || f->late) {
			continue;
		}
		f->late = true;
		f->fate = prng_one_in(&w->rng, 2) ? FLIGHT_OK : FLIGHT_FAIL;
		f->err = -EIO;
		clock_schedule(&w->clock, w->clock.now_ns + prng_below(&w->rng, 5 * SIM_S), EV_IO,
			       f);
	}
}

/* ---- outputs --------------------------------------------------------------------------------- */

void world_control(struct world *w, enum raid_cmd_op op, uint32_t disk)
{
	CHECK(!w->cmd_out);
	memset(&w->cmd, 0, sizeof w->cmd);
	w->cmd.op = op;
	w->cmd_disk = disk;
	w->cmd.member = disk == LAYOUT_NONE ? 0 : w->role[disk].member;
	w->cmd.with = UINT32_MAX;
	world_command(w);
}

/* Give w->cmd, filled by the caller. */
void world_command(struct world *w)
{
	w->cmd_out = true;
	w->stats.commands++;
	trace_add(&w->trace, TRACE_CONTROL, w->clock.now_ns, NULL, w->cmd.op, w->cmd_disk,
		  w->cmd.sync, 0, 0);
	raid_control(w->array, &w->cmd);
}

static void take_cmd(struct world *w, struct raid_cmd *cmd)
{
	trace_add(&w->trace, TRACE_CMD, w->clock.now_ns, NULL, cmd->op, (uint64_t)(int64_t)cmd->res,
		  0, 0, 0);
	if (cmd != &w->cmd || !w->cmd_out) {
		sim_fail("a command came back that was not given");
	}
	w->cmd_out = false;
	if (!w->zombie) {
		admin_done(w, cmd);
	}
}

static void take_event(struct world *w, const struct raid_event *ev)
{
	uint32_t disk = ev->member == UINT32_MAX ? LAYOUT_NONE : w->disk_of[ev->member];

	trace_add(&w->trace, TRACE_EVENT, w->clock.now_ns, raid_event_name(ev->type), disk, ev->op,
		  ev->maddr, ev->len, (uint64_t)(int64_t)ev->err);
	if (disk != LAYOUT_NONE) {
		w->events_of[disk][ev->type]++;
	}
	if (!w->zombie) {
		watch_event(w, ev, disk);
	}
}

static struct op *op_of(struct raid_req *req)
{
	return container_of(req, struct op, req);
}

/* Returns how many outputs there were. */
static uint64_t take_outputs(struct world *w)
{
	struct raid_req *req;
	struct raid_cmd *cmd;
	struct raid_event ev;
	struct raid_io *io;
	uint64_t n = 0;

	for (; (io = raid_next_io(w->array)); n++) {
		take_io(w, io);
	}
	for (; raid_next_event(w->array, &ev); n++) {
		take_event(w, &ev);
	}
	for (; (io = raid_next_cancel(w->array)); n++) {
		take_cancel(w, io);
	}
	for (; (req = raid_next_done(w->array)); n++) {
		struct op *op = op_of(req);

		trace_add(&w->trace, TRACE_DONE, w->clock.now_ns, NULL, op->id,
			  (uint64_t)(int64_t)req->res, req->addr, req->len, 0);
		if (op->done) {
			sim_fail("request %llu was answered twice", (unsigned long long)op->id);
		}
		op->done = true;
		if (op->id < ANSWERS_MAX) {
			w->answer[op->id] = (struct answer){true, false, req->res, w->clock.now_ns};
		}
		if (!w->zombie) {
			watch_done(w, op);
		}
		workload_done(w, op);
	}
	for (; (req = raid_next_free(w->array)); n++) {
		struct op *op = op_of(req);

		trace_add(&w->trace, TRACE_FREE, w->clock.now_ns, NULL, op->id, 0, 0, 0, 0);
		if (!op->done || req->op == RAID_OP_READ) {
			sim_fail("request %llu was freed %s", (unsigned long long)op->id,
				 op->done ? "although it is a read" : "before it was answered");
		}
		if (op->id < ANSWERS_MAX) {
			w->answer[op->id].freed = true;
		}
		workload_free(w, op);
	}
	for (; (cmd = raid_next_cmd(w->array)); n++) {
		take_cmd(w, cmd);
	}
	return n;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void hand_fail(struct world *w, uint32_t disk)
{
	if (!w->cmd_out && w->faults_on && w->role[disk].slot != LAYOUT_NONE && !w->read_only) {
		world_control(w, RAID_CMD_FAIL, disk);
	}
}

static void dispatch(struct world *w, const struct clock_event *e)
{
	struct op *op;

	switch ((enum world_event)e->kind) {
	case EV_IO:
		io_due(w, e->object);
		break;
	case EV_CLIENT:
		workload_client(w, e->object);
		break;
	case EV_RELEASE:
		op = e->object;
		trace_add(&w->trace, TRACE_RELEASE, w->clock.now_ns, NULL, op->id, 0, 0, 0, 0);
		raid_release(w->array, &op->req);
		workload_free(w, op);
		break;
	case EV_ADMIN:
		admin_act(w);
		break;
	case EV_WAKE:
		break;
	case EV_HAND_FAIL:
		hand_fail(w, (uint32_t)((struct disk_faults *)e->object - w->faults));
		break;
	}
}

static void step(struct world *w, uint64_t inputs)
{
	struct raid_now now = {w->clock.now_ns, w->wall_s + w->clock.now_ns / SIM_S};
	uint64_t due = raid_deadline(w->array);
	const char *broken;
	uint64_t outputs;

	trace_add(&w->trace, TRACE_STEP, w->clock.now_ns, NULL, inputs,
		  due > w->clock.now_ns && due != RAID_NEVER ? due - w->clock.now_ns : 0, 0, 0, 0);
	raid_step(w->array, now);
	w->stats.steps++;
	outputs = take_outputs(w);
	broken = raid_check(w->array);
	if (broken) {
		sim_fail("raid_check: %s", broken);
	}
	/* Waking once a deadline for an io that hangs is waiting, not spinning. */
	if (inputs + outputs > 0 || w->clock.now_ns - w->last_step_ns >= 100 * SIM_MS) {
		w->idle_steps = 0;
	} else {
		w->idle_steps++;
	}
	w->last_step_ns = w->clock.now_ns;
	if (w->idle_steps > IDLE_STEPS_MAX) {
		sim_fail("the engine asks to be stepped and does nothing: %u requests, %s, command "
			 "%s",
			 w->live_ops, list_empty(&w->flights) ? "no io out" : "ios out",
			 w->cmd_out ? "out" : "none");
	}
}

void world_turn(struct world *w)
{
	uint64_t next = clock_next_ns(&w->clock), due = raid_deadline(w->array);
	uint64_t batch = prng_range(&w->rng, 1, w->plan.batch_max), inputs = 0;
	struct clock_event e;

	if (due < next) {
		next = due + (prng_one_in(&w->rng, 4) ? prng_below(&w->rng, SIM_MS) : 0);
	}
	if (next != UINT64_MAX && next > w->clock.now_ns) {
		w->clock.now_ns = next;
	}
	while (inputs < batch && clock_next_ns(&w->clock) <= w->clock.now_ns) {
		clock_pop(&w->clock, &e);
		dispatch(w, &e);
		inputs++;
		/* What falls due within a short while may be part of the same turn. */
		if (inputs < batch && clock_next_ns(&w->clock) < w->clock.now_ns + 20 * SIM_US) {
			w->clock.now_ns = clock_next_ns(&w->clock) > w->clock.now_ns
						  ? clock_next_ns(&w->clock)
						  : w->clock.now_ns;
		}
	}
	if (!w->zombie) {
		workload_pump(w);
	}
	step(w, inputs);
}

bool world_is_answered(const struct world *w)
{
	const struct op *op;

	if (!list_empty(&w->backlog) || w->cmd_out) {
		return false;
	}
	list_for_each_entry (op, &w->ops, link) {
		if (!op->done || op->req.op == RAID_OP_READ) {
			return false;
		}
	}
	for (uint32_t i = 0; i < w->plan.clients; i++) {
		if (w->client[i].left > 0) {
			return false;
		}
	}
	return true;
}

bool world_is_idle(const struct world *w)
{
	return list_empty(&w->ops) && world_is_answered(w);
}

/* What still has to be done before the array is as whole as its members allow. */
const char *world_is_missing(struct world *w)
{
	static struct raid_status st;

	raid_get_status(w->array, &st);
	if (st.sync.action != RAID_SYNC_IDLE) {
		return "a resync or rebuild is not over";
	}
	if (st.needs_resync && st.state != RAID_ARRAY_READ_ONLY) {
		return "a resync is needed";
	}
	for (uint32_t m = 0; m < st.members && st.state != RAID_ARRAY_READ_ONLY; m++) {
		if (st.member[m].state == RAID_MEMBER_REBUILDING ||
		    st.member[m].state == RAID_MEMBER_REPLACEMENT ||
		    (st.member[m].state == RAID_MEMBER_SPARE && st.in_sync < st.slots)) {
			return "a rebuild is needed";
		}
	}
	return NULL;
}

void world_run_until_idle(struct world *w, uint64_t limit_ns)
{
	uint64_t end = w->clock.now_ns + limit_ns;

	while (!world_is_idle(w)) {
		if (clock_next_ns(&w->clock) == UINT64_MAX &&
		    raid_deadline(w->array) == RAID_NEVER && list_empty(&w->backlog)) {
			sim_fail("requests wait, no io is out and the engine wants no time");
		}
		if (w->clock.now_ns > end) {
			sim_fail("requests are not answered within %llu s although no disk hangs",
				 (unsigned long long)(limit_ns / SIM_S));
		}
		world_turn(w);
	}
}
