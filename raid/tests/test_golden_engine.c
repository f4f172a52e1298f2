/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine on golden arrays: what a real Linux md wrote is read through raid.h, byte for byte and
 * with the unreadable sectors being errors, without a write to any member. Arrays that may be
 * written are written to; what waits (resync, rebuild, replacement) is done; they are stopped,
 * assembled again from their members, and read once more: with all of them, and without any one
 * (level 6: any two neighbours), which parity or a copy must make up for.
 * One test an array, named like it; $GOLDEN_DIR names another collection.
 */
#include "raid/tests/golden.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "raid/raid.h"

enum { SECTOR = RAID_SECTOR_BYTES, PIECE = 300000, PATCHES = 24 };

static struct golden golden;
static struct asm_candidate cand[RAID_SLOTS_MAX];
static struct assembly assembly;
static struct raid_array *array;
static struct raid_now now;
static bool read_only;

/* ---- the backend: images in memory ---------------------------------------------------------- */

static void copy(const struct raid_io *io, uint8_t *at)
{
	uint64_t done = 0;

	for (uint32_t i = 0; i < io->iovcnt; i++) {
		if (io->op == RAID_IO_READ) {
			memcpy(io->iov[i].iov_base, at + done, io->iov[i].iov_len);
		} else {
			memcpy(at + done, io->iov[i].iov_base, io->iov[i].iov_len);
		}
		done += io->iov[i].iov_len;
	}
	assert_int_equal(done, io->len);
}

static void serve(struct raid_io *io)
{
	struct golden_member *m = &golden.member[io->member];

	if (read_only) {
		assert_int_equal(io->op, RAID_IO_READ);
	}
	if (io->op != RAID_IO_FLUSH) {
		assert_true(io->maddr + io->len <= m->bytes);
	}
	if (io->op == RAID_IO_READ || io->op == RAID_IO_WRITE) {
		copy(io, m->image + io->maddr);
	} else if (io->op != RAID_IO_FLUSH) {
		memset(m->image + io->maddr, 0, io->len);
	}
	raid_complete(array, io, 0);
}

/* Step until nothing is left to do at this time. */
static void turn(void)
{
	bool busy = true;

	while (busy) {
		struct raid_event event;
		struct raid_io *io;

		busy = false;
		raid_step(array, now);
		assert_null(raid_check(array));
		while ((io = raid_next_io(array))) {
			serve(io);
			busy = true;
		}
		while (raid_next_event(array, &event)) {
			assert_int_not_equal(event.type, RAID_EV_MEMBER_FAILED);
		}
	}
}

static void start(bool ro)
{
	static struct raid_member_props props[RAID_SLOTS_MAX];
	struct raid_config config = {
		.assembly = &assembly,
		.props = props,
		.limits = RAID_LIMITS_DEFAULT,
		.read_only = ro,
		.seed = 1,
		.now = now,
	};
	char why[RAID_WHY_BYTES];

	if (assembly.bitmap.state == ASM_BITMAP_CURRENT) {
		config.bitmap_bits = golden.member[assembly.bitmap.member].image +
				     assembly.bitmap.at_sector * SECTOR + BM_HEADER_BYTES;
	}
	for (uint32_t i = 0; i < golden.members; i++) {
		props[i] = (struct raid_member_props){
			.size_bytes = golden.member[i].bytes,
			.logical_block = SECTOR,
			.mem_align = SECTOR,
			.read_only = ro,
		};
	}
	read_only = ro;
	if (raid_create(&config, &array, why)) {
		fail_msg("raid_create: %s", why);
	}
	assert_int_equal(raid_size(array), golden.array_bytes);
}

static void stop(void)
{
	struct raid_cmd cmd = {.op = RAID_CMD_STOP};
	struct raid_cmd *got;

	raid_control(array, &cmd);
	while (!(got = raid_next_cmd(array))) {
		turn();
		now.mono_ns += 1000000;
	}
	assert_int_equal(got->res, 0);
	raid_destroy(array);
	array = NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Returns its res; a READ's bytes go to out. */
static int request(enum raid_op op, uint64_t addr, uint64_t len, void *payload, uint8_t *out)
{
	struct raid_req req = {.op = op, .addr = addr, .len = len, .payload = payload};
	struct raid_req *done = NULL;

	raid_submit(array, &req);
	while (!(done = raid_next_done(array))) {
		turn();
		now.mono_ns += 1000000;
	}
	assert_ptr_equal(done, &req);
	if (op == RAID_OP_READ) {
		if (!req.res) {
			memcpy(out, req.data, len);
		}
		raid_release(array, &req);
		turn();
		return req.res;
	}
	while (!raid_next_free(array)) {
		turn();
	}
	return req.res;
}

static bool lost(uint64_t addr, uint64_t len)
{
	for (uint32_t i = 0; i < golden.unreadables; i++) {
		const struct golden_range *r = &golden.unreadable[i];

		if (addr < r->addr + r->len && r->addr < addr + len) {
			return true;
		}
	}
	return false;
}

static void check_read(uint64_t addr, uint64_t len, const uint8_t *content, uint8_t *buf)
{
	int res;

	memset(buf, 0xee, len);
	res = request(RAID_OP_READ, addr, len, NULL, buf);
	if (lost(addr, len)) {
		assert_int_equal(res, -EIO);
		return;
	}
	assert_int_equal(res, 0);
	if (memcmp(buf, content + addr, len)) {
		fail_msg("wrong bytes in the %llu at %llu", (unsigned long long)len,
			 (unsigned long long)addr);
	}
}

static void check_all(const uint8_t *content)
{
	uint64_t size = raid_size(array), addr, len;
	uint8_t *buf = malloc(PIECE);

	assert_non_null(buf);
	for (addr = 0; addr < size; addr += len) {
		len = size - addr < PIECE ? size - addr : PIECE;
		len = raid_split(array, RAID_OP_READ, addr, len);
		check_read(addr, len, content, buf);
	}
	/* To the sector where there is something lost. */
	for (uint32_t i = 0; i < golden.unreadables; i++) {
		const struct golden_range *r = &golden.unreadable[i];

		for (addr = r->addr - SECTOR; addr <= r->addr + r->len; addr += SECTOR) {
			check_read(addr, SECTOR, content, buf);
		}
	}
	free(buf);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A fixed scatter of writes over the array, of odd and even lengths and places. */
static void patch(uint8_t *content, uint32_t i)
{
	uint64_t size = raid_size(array);
	uint64_t addr = size / PATCHES * i + (i % 3 ? 4096 * i : 777), len = i % 2 ? 8192 : 5001;
	uint8_t *payload = aligned_alloc(RAID_PAGE_BYTES, 4 * RAID_PAGE_BYTES);
	uint8_t *at;

	assert_non_null(payload);
	addr = addr + len > size ? size - len : addr;
	len = raid_split(array, RAID_OP_WRITE, addr, len);
	at = payload + addr % RAID_PAGE_BYTES;
	if (!lost(addr - addr % RAID_PAGE_BYTES, len + 2 * RAID_PAGE_BYTES)) {
		memset(at, (int)(0x40 + i), len);
		assert_int_equal(request(RAID_OP_WRITE, addr, len, at, NULL), 0);
		memset(content + addr, (int)(0x40 + i), len);
	}
	free(payload);
}

static void decide(void)
{
	struct asm_options opt = {0};

	for (uint32_t i = 0; i < golden.members; i++) {
		golden_candidate(&golden.member[i], &cand[i]);
	}
	asm_decide(cand, golden.members, &opt, &assembly);
}

static bool redundant(void)
{
	return golden.level >= RAID_LEVEL_1;
}

/* Let time pass: a resync comes to its end. */
static void rest(void)
{
	turn();
	for (uint32_t i = 0; i < 10000 && raid_deadline(array) != RAID_NEVER; i++) {
		now.mono_ns =
			raid_deadline(array) > now.mono_ns ? raid_deadline(array) : now.mono_ns;
		turn();
	}
	assert_true(raid_deadline(array) == RAID_NEVER);
}

/* Slots that stay empty: nobody is being rebuilt for them, and no spare is there. */
static uint32_t still_degraded(void)
{
	uint32_t left = assembly.degraded;

	for (uint32_t i = 0; i < assembly.members && left; i++) {
		left -= assembly.member[i].verdict == ASM_RECOVERING ||
			assembly.member[i].verdict == ASM_SPARE;
	}
	return left;
}

/* Read what the array holds without one or two of its members; false if it cannot do without. */
static bool read_without(uint32_t first, uint32_t second, const uint8_t *content)
{
	struct asm_options opt = {.want_readonly = true};

	for (uint32_t i = 0; i < golden.members; i++) {
		golden_candidate(&golden.member[i], &cand[i]);
		if (i == first || i == second) {
			cand[i].load_err = -ENODEV;
		}
	}
	asm_decide(cand, golden.members, &opt, &assembly);
	if (assembly.decision == ASM_REFUSE) {
		return false;
	}
	start(true);
	check_all(content);
	stop();
	return true;
}

/* The redundancy is good everywhere: nothing that is whole needs any one of its members. */
static void check_redundancy(const uint8_t *content)
{
	uint32_t in_sync[RAID_SLOTS_MAX], n = 0;

	for (uint32_t i = 0; i < assembly.members; i++) {
		if (assembly.member[i].verdict == ASM_IN_SYNC) {
			in_sync[n++] = i;
		}
		if (assembly.member[i].bad.count) {
			return; /* some blocks have no second copy */
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t first = in_sync[i];
		uint32_t second = golden.level == RAID_LEVEL_6 ? in_sync[(i + 1) % n] : first;

		assert_true(read_without(first, second, content));
	}
}

static void write_and_come_back(uint8_t *content)
{
	uint32_t degraded = still_degraded();
	uint64_t events = assembly.events;

	start(false);
	for (uint32_t i = 0; i < PATCHES; i++) {
		patch(content, i);
	}
	assert_int_equal(request(RAID_OP_FLUSH, 0, 0, NULL, NULL), 0);
	check_all(content);
	rest();
	check_all(content);
	stop();

	decide();
	if (assembly.decision != ASM_START) {
		fail_msg("not after our own stop: %s", assembly.why);
	}
	assert_int_equal(assembly.degraded, degraded);
	/* What waited for a resync had it. */
	assert_true(assembly.resync_offset == SB_IN_SYNC);
	assert_true(redundant() ? assembly.events > events : assembly.events == events);
	start(true);
	check_all(content);
	stop();
	if (redundant() && !degraded) {
		check_redundancy(content);
	}
}

/* ---- one array ------------------------------------------------------------------------------ */

static void run(void **state)
{
	uint8_t *content;

	golden_load(*state, &golden);
	decide();
	if (assembly.decision == ASM_REFUSE) {
		golden_free(&golden);
		skip();
	}
	content = golden_content(&golden);
	start(true);
	check_all(content);
	stop();
	if (assembly.decision == ASM_START) {
		write_and_come_back(content);
	}
	free(content);
	golden_free(&golden);
}

int main(void)
{
	now.wall_s = 1700000000;
	return golden_run("golden through the engine", run);
}
