/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/volatile_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "raid/types.h"

enum { SECTORS = RAID_PAGE_BYTES / RAID_SECTOR_BYTES };

/* A page of the file of which some sectors are newer here. */
struct page {
	uint8_t dirty; /* one bit for each sector */
	uint8_t *data;
};

struct volatile_io {
	int fd;
	uint64_t pages;
	struct page *page;
};

STATIC_CHECK(SECTORS == 8, "a page's sectors fit the mask");

struct volatile_io *volatile_create(int fd, uint64_t size_bytes)
{
	struct volatile_io *v = calloc(1, sizeof *v);

	if (!v) {
		return NULL;
	}
	v->fd = fd;
	v->pages = size_bytes / RAID_PAGE_BYTES + 1;
	v->page = calloc(v->pages, sizeof *v->page);
	if (!v->page) {
		free(v);
		return NULL;
	}
	return v;
}

void volatile_destroy(struct volatile_io *v)
{
	if (!v) {
		return;
	}
	for (uint64_t i = 0; i < v->pages; i++) {
		free(v->page[i].data);
	}
	free(v->page);
	free(v);
}

static int transfer(int fd, bool write, uint8_t *buf, uint64_t len, uint64_t maddr)
{
	while (len) {
		ssize_t n = write ? pwrite(fd, buf, len, maddr) : pread(fd, buf, len, maddr);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		buf += n;
		maddr += n;
		len -= n;
	}
	return 0;
}

/* Sector by sector: newer ones replace what was read (read), become the newest (write), or stop
 * being newer because the file has them now (forget). data walks along. */
enum action { OVERLAY, KEEP, FORGET };

static int each_sector(struct volatile_io *v, enum action action, uint8_t *data, uint64_t maddr,
		       uint64_t len)
{
	for (uint64_t at = 0; at < len; at += RAID_SECTOR_BYTES) {
		struct page *p = &v->page[(maddr + at) / RAID_PAGE_BYTES];
		uint32_t in_page = (maddr + at) % RAID_PAGE_BYTES;
		uint8_t bit = 1u << in_page / RAID_SECTOR_BYTES;

		if (action == OVERLAY && p->dirty & bit) {
			memcpy(data + at, p->data + in_page, RAID_SECTOR_BYTES);
		} else if (action == FORGET) {
			p->dirty &= ~bit;
		} else if (action == KEEP) {
			if (!p->data) {
				p->data = aligned_alloc(RAID_PAGE_BYTES, RAID_PAGE_BYTES);
			}
			if (!p->data) {
				return -ENOMEM;
			}
			if (data) {
				memcpy(p->data + in_page, data + at, RAID_SECTOR_BYTES);
			} else {
				memset(p->data + in_page, 0, RAID_SECTOR_BYTES);
			}
			p->dirty |= bit;
		}
	}
	return 0;
}

static int flush(struct volatile_io *v)
{
	for (uint64_t i = 0; i < v->pages; i++) {
		struct page *p = &v->page[i];

		for (uint32_t s = 0, end; s < SECTORS && p->dirty; s = end + 1) {
			int res;

			for (end = s; end < SECTORS && p->dirty >> end & 1; end++) {
			}
			if (end == s) {
				continue;
			}
			res = transfer(v->fd, true, p->data + s * RAID_SECTOR_BYTES,
				       (end - s) * RAID_SECTOR_BYTES,
				       i * RAID_PAGE_BYTES + s * RAID_SECTOR_BYTES);
			if (res) {
				return res;
			}
		}
		p->dirty = 0;
		free(p->data);
		p->data = NULL;
	}
	return fdatasync(v->fd) ? -errno : 0;
}

static int range(struct volatile_io *v, const struct raid_io *io, uint8_t *data, uint64_t len,
		 uint64_t maddr)
{
	int res;

	if (io->op == RAID_IO_READ) {
		res = transfer(v->fd, false, data, len, maddr);
		return res ? res : each_sector(v, OVERLAY, data, maddr, len);
	}
	if (io->fua) {
		res = transfer(v->fd, true, data, len, maddr);
		return res ? res : each_sector(v, FORGET, NULL, maddr, len);
	}
	return each_sector(v, KEEP, data, maddr, len);
}

int volatile_do(struct volatile_io *v, const struct raid_io *io)
{
	uint64_t maddr = io->maddr;
	int res;

	if (io->maddr > v->pages * RAID_PAGE_BYTES ||
	    io->len > v->pages * RAID_PAGE_BYTES - io->maddr) {
		return -EIO;
	}
	switch (io->op) {
	case RAID_IO_FLUSH:
		return flush(v);
	case RAID_IO_DISCARD:
	case RAID_IO_ZERO:
		return each_sector(v, KEEP, NULL, io->maddr, io->len);
	case RAID_IO_READ:
	case RAID_IO_WRITE:
		for (uint32_t i = 0; i < io->iovcnt; i++) {
			res = range(v, io, io->iov[i].iov_base, io->iov[i].iov_len, maddr);
			if (res) {
				return res;
			}
			maddr += io->iov[i].iov_len;
		}
		return io->fua && fdatasync(v->fd) ? -errno : 0;
	}
	return -EINVAL;
}
