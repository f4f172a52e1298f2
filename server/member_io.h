/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the engine's raid_io to ring operations on a member's descriptor, and back: short transfers
 * are finished, the end of a file is -EIO, and operations that occupy a kernel worker thread
 * (fdatasync, fallocate, writes that may block) are capped for each member, so that a hung member
 * cannot take the workers of others. Exactly one result for each io started.
 */
#ifndef SERVER_MEMBER_IO_H
#define SERVER_MEMBER_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/io.h"
#include "raid/raid.h"
#include "server/export.h"
#include "server/ring.h"
#include "server/volatile_io.h"

enum {
	MEMBER_IO_SLOTS = 8192,	       /* operations of a loop in the kernel */
	MEMBER_WORKERS_MAX = 8,	       /* of one member that may occupy workers */
	MEMBER_RETRIES_MAX = 16,       /* after EINTR or EAGAIN */
	MEMBER_TURN_BYTES = 512 << 10, /* buffered reads handed over in one turn */
};

struct member_port {
	int fd;
	bool writes_block; /* a write may occupy a worker: all but direct ones on a device */
	bool cached;	   /* reads go through the page cache */
	/* A read met the end of the file. Writes fail from then on: behind the end they would make
	 * the file long again, and what is lost in between would read as zeroes. */
	bool shrunk;
	void *owner; /* whose ios these are; the caller's */
	struct volatile_io *cache;
	uint32_t workers;    /* operations in the kernel that may occupy one */
	struct list waiting; /* raid_io.link: for a worker, in order */
};

struct member_slot {
	struct raid_io *io; /* NULL: free */
	struct member_port *port;
	uint32_t generation, next_free;
	uint32_t retries;
	uint64_t moved;	   /* bytes transferred by earlier operations */
	struct iovec rest; /* what a continued transfer names */
};

struct member_io {
	struct ring *ring;
	struct member_slot *slots;
	uint32_t first_free, used;
	struct list no_slot; /* raid_io.link: ios that found no slot, in order */
	struct list done;    /* raid_io.link: results without an event */
	struct list later;   /* raid_io.link: buffered reads for the end of a turn, in order */
};

int member_io_init(struct member_io *m, struct ring *ring);
void member_io_free(struct member_io *m);

/* dev stays the caller's and outlives the port. Blocks (fstat): not on a loop's thread. */
int member_port_init(struct member_port *p, const struct member_dev *dev, void *owner);
void member_port_free(struct member_port *p);

void member_io_start(struct member_io *m, struct member_port *p, struct raid_io *io);
void member_io_cancel(struct member_io *m, struct raid_io *io);

/*
 * The end of a turn, when its replies have been queued: hand over buffered reads, up to
 * MEMBER_TURN_BYTES. So what one turn reads from the page cache the next one sends, before other
 * reads have driven it out of the CPU's cache. While m->later is not empty the loop must not sleep.
 */
void member_io_end_turn(struct member_io *m);

struct member_result {
	struct member_port *port;
	struct raid_io *io;
	int res; /* 0 or -errno */
};

/* A RING_MEMBER event came. True: *out is a result; false: the io goes on. */
bool member_io_event(struct member_io *m, const struct ring_event *ev, struct member_result *out);

/* Results that needed no event; pulled until dry once a turn. */
bool member_io_next(struct member_io *m, struct member_result *out);

#endif
