/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real loops over an array of temporary files, and a plain NBD client on the other end of a
 * socketpair. Static functions: a test program is one file. Every wait has a limit, so that a lost
 * reply fails a test instead of hanging it.
 */
#ifndef SERVER_TESTS_LOOP_RIG_H
#define SERVER_TESTS_LOOP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "raid/base/bytes.h"
#include "server/array_open.h"
#include "server/handoff.h"
#include "server/loop.h"
#include "server/wire.h"

enum {
	RIG_LOOPS_MAX = 4,
	RIG_MEMBERS_MAX = 4,
	RIG_BYTES = 48 << 20, /* of a member */
	RIG_WAIT_S = 20,
	RIG_FLAGS = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
		    NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_CACHE |
		    NBD_FLAG_CAN_MULTI_CONN,
};

struct rig {
	struct loop *loops[RIG_LOOPS_MAX];
	uint32_t count;
	struct array_instance *ai;
	struct export export;
	char path[RIG_MEMBERS_MAX][64];
	uint32_t members;
	uint64_t next_session;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t ended; /* sessions */
	char why[128];	/* of the last */
};

struct rig_options {
	uint32_t loops; /* the array is on loop 0 */
	uint32_t members;
	enum raid_level level;
	bool read_only, volatile_cache;
	uint64_t payload_bytes;
	uint32_t stall_ms;
};

static void rig_session_end(void *ctx, uint64_t session, const char *why)
{
	struct rig *r = ctx;

	pthread_mutex_lock(&r->lock);
	r->ended++;
	strncpy(r->why, why, sizeof r->why - 1);
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

static void rig_event(void *ctx, const struct array_instance *ai, const struct raid_event *ev)
{
}

static void rig_wait_ended(struct rig *r, uint32_t sessions)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += RIG_WAIT_S;
	pthread_mutex_lock(&r->lock);
	while (r->ended < sessions && !err) {
		err = pthread_cond_timedwait(&r->changed, &r->lock, &until);
	}
	pthread_mutex_unlock(&r->lock);
	assert_int_equal(err, 0);
}

static void rig_open_array(struct rig *r, const struct rig_options *o)
{
	const char *paths[RIG_MEMBERS_MAX];
	struct array_spec spec = {
		.name = "test",
		.path = paths,
		.paths = o->members,
		.read_only = o->read_only,
		.device = {.direct = DEVICE_DIRECT_OFF, .volatile_cache = o->volatile_cache},
		.build = true,
		.level = o->level,
	};
	char why[RAID_WHY_BYTES];

	for (uint32_t i = 0; i < o->members; i++) {
		int fd;

		snprintf(r->path[i], sizeof r->path[i], "/tmp/test_loop.XXXXXX");
		fd = mkstemp(r->path[i]);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, RIG_BYTES), 0);
		close(fd);
		paths[i] = r->path[i];
	}
	if (array_open(&spec, &r->ai, why)) {
		fail_msg("array_open: %s", why);
	}
}

static struct rig *rig_start(struct rig_options o)
{
	struct rig *r = calloc(1, sizeof *r);
	char why[RAID_WHY_BYTES];

	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	r->count = o.loops ? o.loops : 1;
	o.members = o.members ? o.members : 1;
	r->members = o.members;
	rig_open_array(r, &o);
	for (uint32_t i = 0; i < r->count; i++) {
		struct loop_config config = {
			.index = i,
			.loops = r->count,
			.payload_bytes = o.payload_bytes ? o.payload_bytes : 64 << 20,
			.large_bytes = 128 << 20,
			.stall_ms = o.stall_ms,
			.on_session_end = rig_session_end,
			.on_raid_event = rig_event,
			.ctx = r,
		};

		if (loop_create(&config, &r->loops[i], why)) {
			fail_msg("loop_create: %s", why);
		}
	}
	if (loop_add_array(r->loops[0], r->ai, NULL, why)) {
		fail_msg("loop_add_array: %s", why);
	}
	for (uint32_t i = 0; i < r->count; i++) {
		if (loop_start(r->loops[i], r->loops, why)) {
			fail_msg("loop_start: %s", why);
		}
	}
	r->export = (struct export){
		.array = r->ai,
		.read_only = o.read_only,
		.size = raid_size(r->ai->raid),
		.flags = RIG_FLAGS | (o.read_only ? NBD_FLAG_READ_ONLY : 0),
	};
	return r;
}

/* Drain, stop, take apart: as the daemon does. */
static void rig_stop(struct rig *r)
{
	struct raid_cmd stop = {.op = RAID_CMD_STOP};

	for (uint32_t i = 0; i < r->count; i++) {
		loop_drain(r->loops[i], 2000);
	}
	loop_array_control(r->ai, &stop);
	assert_int_equal(stop.res, 0);
	loop_remove_array(r->ai);
	for (uint32_t i = 0; i < r->count; i++) {
		loop_destroy(r->loops[i]);
	}
	array_close(r->ai);
	for (uint32_t i = 0; i < r->members; i++) {
		unlink(r->path[i]);
	}
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->changed);
	free(r);
}

/* A session on loop i; the client's end. extra: what came with the handshake's last segment. */
static int rig_connect_extra(struct rig *r, uint32_t i, bool structured, const void *extra,
			     size_t extra_len)
{
	struct timeval limit = {.tv_sec = RIG_WAIT_S};
	struct handoff h = {.socket = true, .export = &r->export, .structured = structured};
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	h.in_fd = h.out_fd = fd[1];
	h.session = ++r->next_session;
	if (extra_len) {
		h.extra = malloc(extra_len);
		memcpy(h.extra, extra, extra_len);
		h.extra_len = extra_len;
	}
	loop_handoff(r->loops[i], &h);
	return fd[0];
}

static inline int rig_connect(struct rig *r, uint32_t i, bool structured)
{
	return rig_connect_extra(r, i, structured, NULL, 0);
}

/* ---- the client ---------------------------------------------------------------------------- */

static void client_send(int fd, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR) {
			continue;
		}
		assert_true(sent > 0);
		p += sent;
		n -= sent;
	}
}

static void client_recv(int fd, void *buf, size_t n)
{
	uint8_t *p = buf;

	while (n) {
		ssize_t got = read(fd, p, n);

		if (got < 0 && errno == EINTR) {
			continue; /* a read with a time limit is not restarted */
		}
		if (got <= 0) {
			fail_msg("%zu bytes are missing: %s", n,
				 got < 0 ? strerror(errno) : "the server closed");
		}
		p += got;
		n -= got;
	}
}

static inline void client_expect_end(int fd)
{
	uint8_t byte;
	ssize_t n;

	do {
		n = read(fd, &byte, 1);
	} while (n < 0 && errno == EINTR);
	assert_int_equal(n, 0);
}

static void client_request(int fd, uint16_t cmd, uint16_t flags, uint64_t cookie, uint64_t addr,
			   uint32_t len, const void *payload)
{
	uint8_t head[NBD_REQUEST_BYTES];

	put_be32(head, NBD_REQUEST_MAGIC);
	put_be16(head + 4, flags);
	put_be16(head + 6, cmd);
	put_be64(head + 8, cookie);
	put_be64(head + 16, addr);
	put_be32(head + 24, len);
	client_send(fd, head, sizeof head);
	if (payload) {
		client_send(fd, payload, len);
	}
}

/* A simple reply; returns its error, checks the cookie. */
static uint32_t client_reply(int fd, uint64_t cookie)
{
	uint8_t head[NBD_SIMPLE_REPLY_BYTES];

	client_recv(fd, head, sizeof head);
	assert_int_equal(get_be32(head), NBD_SIMPLE_REPLY_MAGIC);
	assert_int_equal(get_be64(head + 8), cookie);
	return get_be32(head + 4);
}

static inline void client_write(int fd, uint16_t flags, uint64_t addr, const void *bytes,
				uint32_t n)
{
	client_request(fd, NBD_CMD_WRITE, flags, addr, addr, n, bytes);
	assert_int_equal(client_reply(fd, addr), 0);
}

static inline void client_read(int fd, uint64_t addr, void *buf, uint32_t n)
{
	client_request(fd, NBD_CMD_READ, 0, addr, addr, n, NULL);
	assert_int_equal(client_reply(fd, addr), 0);
	client_recv(fd, buf, n);
}

static inline void client_flush(int fd)
{
	client_request(fd, NBD_CMD_FLUSH, 0, 77, 0, 0, NULL);
	assert_int_equal(client_reply(fd, 77), 0);
}

static inline void pattern(uint8_t *buf, size_t n, uint8_t seed)
{
	for (size_t i = 0; i < n; i++) {
		buf[i] = (uint8_t)(seed + i * 13 + i / 239);
	}
}

#endif
