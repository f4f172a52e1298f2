/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/ring.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <liburing.h>

#include "raid/base/check.h"
#include "raid/why.h"
#include "server/log.h"

enum {
	SQ_ENTRIES = 1024,
	CQ_ENTRIES = 16384,
	SEND_IOV_TOTAL = 8192, /* vectors of all sends of one submission */
	SEND_MSGS = 1024,
	BUFFER_GROUP = 0,
};

struct ring {
	struct io_uring uring;
	struct io_uring_buf_ring *buffers;
	uint8_t *memory; /* of the shared buffers */
	uint64_t wake_value;

	/* What ring_send() names until the kernel has copied it, which it does when the operation
	 * is handed over (IORING_FEAT_SUBMIT_STABLE). */
	struct msghdr msgs[SEND_MSGS];
	struct iovec iov[SEND_IOV_TOTAL];
	uint32_t msgs_used, iov_used;
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

uint64_t ring_user_encode(struct ring_user user)
{
	CHECK(user.generation <= RING_GENERATION_MASK);
	return (uint64_t)user.kind << 56 | (uint64_t)user.generation << 32 | user.index;
}

struct ring_user ring_user_decode(uint64_t data)
{
	return (struct ring_user){
		.kind = data >> 56,
		.generation = data >> 32 & RING_GENERATION_MASK,
		.index = (uint32_t)data,
	};
}

/* ---- life cycle ---------------------------------------------------------------------------- */

static int create_why(int err, char *why)
{
	if (err == -EPERM) {
		return why_set(
			why, err,
			"io_uring is not permitted here: allow it (kernel.io_uring_disabled, "
			"container or seccomp profile)");
	}
	if (err == -ENOSYS) {
		return why_set(why, err,
			       "the kernel has no io_uring: Linux 5.19 or later is needed");
	}
	if (err == -ENOMEM) {
		return why_set(why, err,
			       "io_uring: out of memory, or over the locked-memory limit: raise "
			       "LimitMEMLOCK (ulimit -l)");
	}
	return why_set(why, err, "io_uring: %s", strerror(-err));
}

int ring_create(struct ring **out, char why[RAID_WHY_BYTES])
{
	/* The best flags first: the thread that calls ring_enable() becomes the only issuer. */
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
		0,
	};
	struct ring *r = calloc(1, sizeof *r);
	int err = -ENOMEM;

	if (!r) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		struct io_uring_params p = {
			.flags = flags[i] | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE,
			.cq_entries = CQ_ENTRIES,
		};

		err = io_uring_queue_init_params(SQ_ENTRIES, &r->uring, &p);
		if (err == -EINVAL) {
			continue; /* an older kernel */
		}
		if (!err) {
			*out = r;
			CHECK(p.features & IORING_FEAT_SUBMIT_STABLE);
			return 0;
		}
		break;
	}
	free(r);
	return create_why(err, why);
}

int ring_enable(struct ring *r, char why[RAID_WHY_BYTES])
{
	size_t ring_bytes = RING_RECV_BUFFERS * sizeof(struct io_uring_buf);
	unsigned workers[2] = {RING_WORKERS_MAX, RING_WORKERS_MAX};
	struct io_uring_buf_reg reg = {.ring_entries = RING_RECV_BUFFERS, .bgid = BUFFER_GROUP};
	/* io_uring_enable_rings() is missing from liburing 2.3's exports. */
	int err = io_uring_register(r->uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);

	if (err) {
		return create_why(err, why);
	}
	r->memory = aligned_alloc(RAID_PAGE_BYTES, RING_RECV_BUFFERS * RING_RECV_BUFFER_BYTES);
	r->buffers = aligned_alloc(RAID_PAGE_BYTES,
				   (ring_bytes + RAID_PAGE_BYTES - 1) & ~(RAID_PAGE_BYTES - 1ul));
	if (!r->memory || !r->buffers) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	reg.ring_addr = (uintptr_t)r->buffers;
	io_uring_buf_ring_init(r->buffers);
	err = io_uring_register_buf_ring(&r->uring, &reg, 0);
	if (err == -EINVAL) {
		return why_set(why, err,
			       "io_uring has no buffer rings: Linux 5.19 or later is needed");
	}
	if (err) {
		return create_why(err, why);
	}
	for (int i = 0; i < RING_RECV_BUFFERS; i++) {
		ring_buffer_put(r, i);
	}
	err = io_uring_register_iowq_max_workers(&r->uring, workers);
	if (err) {
		log_warning("io_uring: cannot set the limit of worker threads: %s", strerror(-err));
	}
	return 0;
}

void ring_destroy(struct ring *r)
{
	if (!r) {
		return;
	}
	io_uring_queue_exit(&r->uring);
	free(r->buffers);
	free(r->memory);
	free(r);
}

/* ---- in and out ---------------------------------------------------------------------------- */

uint32_t ring_reap(struct ring *r, struct ring_event *events, uint32_t max)
{
	struct io_uring_cqe *cqe;
	unsigned head;
	uint32_t n = 0;

	io_uring_for_each_cqe(&r->uring, head, cqe)
	{
		if (n == max) {
			break;
		}
		events[n++] = (struct ring_event){
			.user = ring_user_decode(cqe->user_data),
			.res = cqe->res,
			.buffer = cqe->flags & IORING_CQE_F_BUFFER
					  ? (int32_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT)
					  : -1,
			.more = cqe->flags & IORING_CQE_F_SOCK_NONEMPTY,
		};
	}
	io_uring_cq_advance(&r->uring, n);
	return n;
}

static bool interrupted(int err)
{
	/* EBUSY, EAGAIN: the kernel wants completions reaped, or memory, first. */
	return err == -EINTR || err == -ETIME || err == -EBUSY || err == -EAGAIN;
}

static void submitted(struct ring *r)
{
	if (!io_uring_sq_ready(&r->uring)) {
		r->msgs_used = r->iov_used = 0;
	}
}

int ring_wait(struct ring *r, uint64_t timeout_ns)
{
	struct io_uring_cqe *cqe;
	int res;

	if (!timeout_ns) {
		res = io_uring_submit_and_get_events(&r->uring);
	} else if (timeout_ns == RING_FOREVER) {
		res = io_uring_submit_and_wait(&r->uring, 1);
	} else {
		struct __kernel_timespec ts = {
			.tv_sec = timeout_ns / 1000000000,
			.tv_nsec = timeout_ns % 1000000000,
		};

		res = io_uring_submit_and_wait_timeout(&r->uring, &cqe, 1, &ts, NULL);
	}
	submitted(r);
	return res < 0 && !interrupted(res) ? res : 0;
}

static uint64_t mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Two words of memory shared with the kernel tell, no system call: a completion, or something that
 * becomes one as soon as we enter the kernel (IORING_SETUP_TASKRUN_FLAG). */
static bool something_there(const struct ring *r)
{
	return io_uring_cq_ready(&r->uring) ||
	       (__atomic_load_n(r->uring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN);
}

bool ring_spin(struct ring *r, uint64_t limit_ns)
{
	enum { LOOKS = 32 }; /* for one look at the clock */
	uint64_t end;

	if (io_uring_sq_ready(&r->uring)) {
		int res = io_uring_submit(&r->uring);

		CHECK(res >= 0 || interrupted(res));
		submitted(r);
	}
	if (something_there(r)) {
		return true;
	}
	end = mono_ns() + limit_ns;
	do {
		for (int i = 0; i < LOOKS; i++) {
			if (something_there(r)) {
				return true;
			}
			cpu_relax();
		}
	} while (mono_ns() < end);
	return false;
}

static struct io_uring_sqe *next_sqe(struct ring *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->uring);

	while (!sqe) {
		int res = io_uring_submit(&r->uring);

		CHECK(res >= 0 || interrupted(res));
		submitted(r);
		sqe = io_uring_get_sqe(&r->uring);
	}
	return sqe;
}

/* After the prep call, which clears it. */
static void set_user(struct io_uring_sqe *sqe, struct ring_user user)
{
	io_uring_sqe_set_data64(sqe, ring_user_encode(user));
}

/* ---- sockets and pipes --------------------------------------------------------------------- */

void ring_recv(struct ring *r, int fd, bool socket, bool idle, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	if (socket) {
		io_uring_prep_recv(sqe, fd, NULL, RING_RECV_BUFFER_BYTES, 0);
		sqe->ioprio = idle ? IORING_RECVSEND_POLL_FIRST : 0;
	} else {
		io_uring_prep_read(sqe, fd, NULL, RING_RECV_BUFFER_BYTES, (__u64)-1);
	}
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = BUFFER_GROUP;
	set_user(sqe, user);
}

uint8_t *ring_buffer(struct ring *r, int32_t buffer)
{
	CHECK(buffer >= 0 && buffer < RING_RECV_BUFFERS);
	return r->memory + (size_t)buffer * RING_RECV_BUFFER_BYTES;
}

void ring_buffer_put(struct ring *r, int32_t buffer)
{
	io_uring_buf_ring_add(r->buffers, ring_buffer(r, buffer), RING_RECV_BUFFER_BYTES, buffer,
			      io_uring_buf_ring_mask(RING_RECV_BUFFERS), 0);
	io_uring_buf_ring_advance(r->buffers, 1);
}

void ring_recv_slot(struct ring *r, int fd, bool socket, void *buf, size_t n, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	if (socket) {
		io_uring_prep_recv(sqe, fd, buf, n, MSG_WAITALL);
	} else {
		io_uring_prep_read(sqe, fd, buf, n, (__u64)-1);
	}
	set_user(sqe, user);
}

void ring_send(struct ring *r, int fd, bool socket, const struct iovec *iov, uint32_t n,
	       struct ring_user user)
{
	struct io_uring_sqe *sqe;
	struct iovec *copy;

	CHECK(n && n <= RING_SEND_IOV_MAX);
	while (r->msgs_used == SEND_MSGS || r->iov_used + n > SEND_IOV_TOTAL) {
		int res = io_uring_submit(&r->uring);

		CHECK(res >= 0 || interrupted(res));
		submitted(r);
	}
	sqe = next_sqe(r);
	copy = &r->iov[r->iov_used];
	r->iov_used += n;
	memcpy(copy, iov, n * sizeof *iov);
	if (socket) {
		struct msghdr *msg = &r->msgs[r->msgs_used++];

		*msg = (struct msghdr){.msg_iov = copy, .msg_iovlen = n};
		io_uring_prep_sendmsg(sqe, fd, msg, MSG_NOSIGNAL | MSG_WAITALL);
	} else {
		io_uring_prep_writev(sqe, fd, copy, n, (__u64)-1);
	}
	set_user(sqe, user);
}

void ring_shutdown(struct ring *r, int fd, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_shutdown(sqe, fd, SHUT_WR);
	set_user(sqe, user);
}

void ring_close(struct ring *r, int fd, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_close(sqe, fd);
	set_user(sqe, user);
}

void ring_cancel(struct ring *r, struct ring_user target)
{
	struct ring_user user = {.kind = RING_IGNORED};
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_cancel64(sqe, ring_user_encode(target), 0);
	set_user(sqe, user);
}

/* ---- files --------------------------------------------------------------------------------- */

void ring_read(struct ring *r, int fd, const struct iovec *iov, uint32_t n, uint64_t offset,
	       struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	if (n == 1) {
		io_uring_prep_read(sqe, fd, iov->iov_base, iov->iov_len, offset);
	} else {
		io_uring_prep_readv(sqe, fd, iov, n, offset);
	}
	set_user(sqe, user);
}

void ring_write(struct ring *r, int fd, const struct iovec *iov, uint32_t n, uint64_t offset,
		bool durable, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	if (n == 1) {
		io_uring_prep_write(sqe, fd, iov->iov_base, iov->iov_len, offset);
	} else {
		io_uring_prep_writev(sqe, fd, iov, n, offset);
	}
	sqe->rw_flags = durable ? RWF_DSYNC : 0;
	set_user(sqe, user);
}

void ring_fdatasync(struct ring *r, int fd, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	set_user(sqe, user);
}

void ring_punch(struct ring *r, int fd, uint64_t offset, uint64_t len, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_fallocate(sqe, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, len);
	set_user(sqe, user);
}

void ring_zero(struct ring *r, int fd, uint64_t offset, uint64_t len, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_fallocate(sqe, fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, len);
	set_user(sqe, user);
}

void ring_wake_on(struct ring *r, int event_fd, struct ring_user user)
{
	struct io_uring_sqe *sqe = next_sqe(r);

	io_uring_prep_read(sqe, event_fd, &r->wake_value, sizeof r->wake_value, 0);
	set_user(sqe, user);
}
