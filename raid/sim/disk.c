/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/sim/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"

enum { WATCH_BYTES = 4096 };

void disk_init(struct disk *d, const struct disk_params *p)
{
	memset(d, 0, sizeof *d);
	d->p = *p;
	d->blocks = p->size_bytes / p->block;
	d->now = calloc(1, p->size_bytes);
	d->durable = calloc(1, p->size_bytes);
	d->bad = calloc(d->blocks, 1);
	d->caches = calloc(d->blocks, sizeof *d->caches);
	d->safe = calloc(d->blocks, sizeof *d->safe);
	d->scratch = malloc(p->size_bytes);
	CHECK(d->now && d->durable && d->bad && d->caches && d->safe && d->scratch);
	d->watch_maddr = UINT64_MAX;
	list_init(&d->cache);
	list_init(&d->spare);
}

static void free_nodes(struct list *l)
{
	struct list *n;

	while ((n = list_pop(l))) {
		free(container_of(n, struct disk_cached, link));
	}
}

void disk_free(struct disk *d)
{
	if (!d->now) {
		return;
	}
	free_nodes(&d->cache);
	free_nodes(&d->spare);
	free(d->now);
	free(d->durable);
	free(d->bad);
	free(d->caches);
	free(d->safe);
	free(d->scratch);
	memset(d, 0, sizeof *d);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void make_durable(struct disk *d, uint64_t block, uint64_t seq, const uint8_t *data)
{
	uint64_t maddr = block * d->p.block;

	memcpy(d->durable + maddr, data, d->p.block);
	d->safe[block] = seq;
	if (maddr + d->p.block > d->watch_maddr && maddr < d->watch_maddr + WATCH_BYTES) {
		d->watch_changes++;
	}
}

static void drop_cached(struct disk *d, struct disk_cached *c)
{
	d->caches[c->block]--;
	list_del(&c->link);
	list_push(&d->spare, &c->link);
}

/* Drop what a newer durable version has overtaken. */
static void drop_overtaken(struct disk *d)
{
	struct disk_cached *c, *tmp;

	list_for_each_entry_safe (c, tmp, &d->cache, link) {
		if (c->seq <= d->safe[c->block]) {
			drop_cached(d, c);
		}
	}
}

static void add_cached(struct disk *d, uint64_t block, uint64_t seq, const uint8_t *data)
{
	struct list *n = list_pop(&d->spare);
	struct disk_cached *c;

	if (n) {
		c = container_of(n, struct disk_cached, link);
	} else {
		c = malloc(sizeof *c + d->p.block);
		CHECK(c);
		list_init(&c->link);
	}
	c->seq = seq;
	c->block = block;
	c->doomed = false;
	memcpy(c->data, data, d->p.block);
	list_append(&d->cache, &c->link);
	d->caches[block]++;
}

/* One block reaches the disk. Returns whether older cached versions are overtaken now. */
static bool put_block(struct disk *d, uint64_t block, const uint8_t *data, bool fua)
{
	uint64_t seq = ++d->seq;

	memcpy(d->now + block * d->p.block, data, d->p.block);
	d->bad[block] &= (uint8_t)~DISK_BAD_READ;
	if (fua || !d->p.volatile_cache) {
		make_durable(d, block, seq, data);
		return d->caches[block] > 0;
	}
	add_cached(d, block, seq, data);
	return false;
}

void disk_damage(struct disk *d, uint64_t maddr, const void *data, uint64_t len)
{
	CHECK(maddr + len <= d->p.size_bytes && !disk_is_cached(d, maddr, len));
	memcpy(d->now + maddr, data, len);
	memcpy(d->durable + maddr, data, len);
}

void disk_poke(struct disk *d, uint64_t maddr, const void *data, uint64_t len)
{
	CHECK(maddr + len <= d->p.size_bytes && list_empty(&d->cache));
	memcpy(d->now + maddr, data, len);
	memcpy(d->durable + maddr, data, len);
	for (uint64_t b = maddr / d->p.block; b * d->p.block < maddr + len; b++) {
		d->bad[b] &= (uint8_t)~DISK_BAD_READ;
	}
	d->watch_changes++;
}

bool disk_is_cached(const struct disk *d, uint64_t maddr, uint64_t len)
{
	for (uint64_t b = maddr / d->p.block; b * d->p.block < maddr + len; b++) {
		if (d->caches[b]) {
			return true;
		}
	}
	return false;
}

bool disk_is_bad(const struct disk *d, uint64_t maddr, uint64_t len)
{
	for (uint64_t b = maddr / d->p.block; b * d->p.block < maddr + len; b++) {
		if (d->bad[b]) {
			return true;
		}
	}
	return false;
}

/* ---- operations ------------------------------------------------------------------------------ */

uint64_t disk_cover(const struct disk *d)
{
	return d->seq;
}

/* The bytes of a write, flat; zeroes for DISCARD and ZERO. */
static const uint8_t *gather(struct disk *d, const struct raid_io *io)
{
	uint64_t at = 0;

	if (io->op != RAID_IO_WRITE) {
		memset(d->scratch, 0, io->len);
		return d->scratch;
	}
	for (uint32_t i = 0; i < io->iovcnt; i++) {
		memcpy(d->scratch + at, io->iov[i].iov_base, io->iov[i].iov_len);
		at += io->iov[i].iov_len;
	}
	CHECK(at == io->len);
	return d->scratch;
}

static int do_read(struct disk *d, const struct raid_io *io)
{
	uint64_t at = io->maddr;
	bool bad = disk_is_bad(d, io->maddr, io->len);

	for (uint32_t i = 0; i < io->iovcnt; i++) {
		if (bad) {
			memset(io->iov[i].iov_base, 0xE5, io->iov[i].iov_len);
		} else {
			memcpy(io->iov[i].iov_base, d->now + at, io->iov[i].iov_len);
		}
		at += io->iov[i].iov_len;
	}
	return bad ? -EIO : 0;
}

static void do_flush(struct disk *d, uint64_t cover)
{
	struct disk_cached *c;

	list_for_each_entry (c, &d->cache, link) {
		if (c->seq <= cover && !c->doomed) {
			make_durable(d, c->block, c->seq, c->data);
		}
	}
	drop_overtaken(d);
}

static int do_write(struct disk *d, const struct raid_io *io)
{
	const uint8_t *data = gather(d, io);
	bool overtaken = false;
	int res = 0;

	for (uint64_t at = 0; at < io->len; at += d->p.block) {
		uint64_t block = (io->maddr + at) / d->p.block;

		if (d->bad[block] & DISK_BAD_WRITE) {
			res = -EIO;
			continue;
		}
		overtaken |= put_block(d, block, data + at, io->fua);
	}
	if (overtaken) {
		drop_overtaken(d);
	}
	return res;
}

int disk_do(struct disk *d, const struct raid_io *io, uint64_t cover, struct prng *rng)
{
	switch (io->op) {
	case RAID_IO_READ:
		return do_read(d, io);
	case RAID_IO_FLUSH:
		do_flush(d, cover);
		return 0;
	case RAID_IO_DISCARD:
		return d->p.can_punch ? do_write(d, io) : -EOPNOTSUPP;
	case RAID_IO_ZERO:
		return d->p.can_zero ? do_write(d, io) : -EOPNOTSUPP;
	case RAID_IO_WRITE:
		break;
	}
	if (disk_is_bad(d, io->maddr, io->len)) {
		for (uint64_t b = io->maddr / d->p.block; b * d->p.block < io->maddr + io->len;
		     b++) {
			if (d->bad[b] & DISK_BAD_WRITE) {
				disk_do_part(d, io, cover, DISK_CUT_MIX, rng);
				return -EIO;
			}
		}
	}
	return do_write(d, io);
}

void disk_do_part(struct disk *d, const struct raid_io *io, uint64_t cover, enum disk_cut how,
		  struct prng *rng)
{
	struct disk_cached *c;
	const uint8_t *data;

	if (io->op == RAID_IO_READ || how == DISK_CUT_LOSE) {
		return;
	}
	if (io->op == RAID_IO_FLUSH) {
		/* In order, so that a block's newer version is not overtaken by an older one. */
		list_for_each_entry (c, &d->cache, link) {
			if (c->seq > cover || c->doomed) {
				continue;
			}
			if (how == DISK_CUT_KEEP || prng_one_in(rng, 2)) {
				make_durable(d, c->block, c->seq, c->data);
			} else {
				c->doomed = true;
			}
		}
		drop_overtaken(d);
		return;
	}
	if ((io->op == RAID_IO_DISCARD && !d->p.can_punch) ||
	    (io->op == RAID_IO_ZERO && !d->p.can_zero)) {
		return;
	}
	data = gather(d, io);
	for (uint64_t at = 0; at < io->len; at += d->p.block) {
		uint64_t block = (io->maddr + at) / d->p.block;

		if (!(d->bad[block] & DISK_BAD_WRITE) &&
		    (how == DISK_CUT_KEEP || prng_one_in(rng, 2))) {
			put_block(d, block, data + at, false);
		}
	}
}

void disk_power_cut(struct disk *d, enum disk_cut how, struct prng *rng)
{
	struct disk_cached *c, *tmp;

	/* Oldest first: a block ends with the last version that was lucky. */
	list_for_each_entry_safe (c, tmp, &d->cache, link) {
		if (how == DISK_CUT_KEEP || (how == DISK_CUT_MIX && prng_one_in(rng, 2))) {
			make_durable(d, c->block, c->seq, c->data);
		}
		memcpy(d->now + c->block * d->p.block, d->durable + c->block * d->p.block,
		       d->p.block);
		drop_cached(d, c);
	}
}
