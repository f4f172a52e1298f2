/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The io_uring of a loop: the only file that knows liburing. Operations are queued with the calls
 * below, leave for the kernel in ring_wait() (or earlier, when the queue is full), and come back as
 * events from ring_reap(), each with the user it was queued with.
 *
 * Memory named by an operation must stay until its event, except the vectors given to
 * ring_send(), which are copied.
 *
 * A ring is created by any thread; from ring_enable() on only the thread that called that uses it.
 */
#ifndef SERVER_RING_H
#define SERVER_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "raid/types.h"

struct ring;

enum {
	RING_RECV_BUFFERS = 128, /* power of two */
	RING_RECV_BUFFER_BYTES = 32 << 10,
	RING_SEND_IOV_MAX = 512, /* vectors of one send */
	RING_WORKERS_MAX = 512,	 /* kernel threads for operations that must block */
};

#define RING_FOREVER UINT64_MAX

enum ring_kind {
	RING_IGNORED, /* a cancel: its own result means nothing */
	RING_WAKE,
	RING_RECV,
	RING_SEND,
	RING_SHUTDOWN,
	RING_CLOSE,
	RING_MEMBER,
};

/*
 * Who gets the event: the index of a slot in the owner's table and the slot's generation (24 bits
 * count), so that an event that comes after its slot was given to somebody else is recognised.
 */
struct ring_user {
	enum ring_kind kind;
	uint32_t generation;
	uint32_t index;
};

enum { RING_GENERATION_MASK = 0xffffff };

uint64_t ring_user_encode(struct ring_user user);
struct ring_user ring_user_decode(uint64_t data);

struct ring_event {
	struct ring_user user;
	int32_t res;	/* as of the system call: ≥ 0 or -errno */
	int32_t buffer; /* RECV into a shared buffer: its number, the receiver's until
			   ring_buffer_put(); else -1 */
	bool more;	/* RECV: the socket holds more */
};

/* 0 or -errno with one line in why; -EPERM and -ENOSYS: no io_uring for us here. */
int ring_create(struct ring **out, char why[RAID_WHY_BYTES]);
/* On the thread that will use it. */
int ring_enable(struct ring *r, char why[RAID_WHY_BYTES]);
void ring_destroy(struct ring *r);

/* Up to max events that are there. */
uint32_t ring_reap(struct ring *r, struct ring_event *events, uint32_t max);

/* Hand over what is queued and wait until an event is there or timeout_ns have passed; 0: do not
 * wait. Returns 0 or -errno of a ring that no longer works. */
int ring_wait(struct ring *r, uint64_t timeout_ns);

/* Hand over what is queued and look for an event for at most limit_ns, without sleeping. True if
 * there is one, or the kernel has work that makes one: ring_wait() with 0 gets it. */
bool ring_spin(struct ring *r, uint64_t limit_ns);

/* ---- sockets and pipes --------------------------------------------------------------------- */

/* Bytes into a shared buffer. -ENOBUFS when there is none: try again when the events that
 * came with it have been handled.
 * idle: nothing is expected to be there yet. */
void ring_recv(struct ring *r, int fd, bool socket, bool idle, struct ring_user user);
uint8_t *ring_buffer(struct ring *r, int32_t buffer);
void ring_buffer_put(struct ring *r, int32_t buffer);

/* All of buf, unless the stream ends first. */
void ring_recv_slot(struct ring *r, int fd, bool socket, void *buf, size_t n,
		    struct ring_user user);

/* All of iov (≤ RING_SEND_IOV_MAX vectors), unless it fails; SIGPIPE is not raised for sockets. */
void ring_send(struct ring *r, int fd, bool socket, const struct iovec *iov, uint32_t n,
	       struct ring_user user);

void ring_shutdown(struct ring *r, int fd, struct ring_user user); /* the sending side */
void ring_close(struct ring *r, int fd, struct ring_user user);

/* Ask for an operation in flight to end early; its event comes in any case. */
void ring_cancel(struct ring *r, struct ring_user target);

/* ---- files --------------------------------------------------------------------------------- */

/* durable: RWF_DSYNC. At most what the vectors hold; a short transfer is legal. */
void ring_read(struct ring *r, int fd, const struct iovec *iov, uint32_t n, uint64_t offset,
	       struct ring_user user);
void ring_write(struct ring *r, int fd, const struct iovec *iov, uint32_t n, uint64_t offset,
		bool durable, struct ring_user user);
void ring_fdatasync(struct ring *r, int fd, struct ring_user user);
void ring_punch(struct ring *r, int fd, uint64_t offset, uint64_t len, struct ring_user user);
void ring_zero(struct ring *r, int fd, uint64_t offset, uint64_t len, struct ring_user user);

/* An event when the eventfd has been written to; one at a time. */
void ring_wake_on(struct ring *r, int event_fd, struct ring_user user);

#endif
