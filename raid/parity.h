/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * P and Q of RAID 4, 5, 6 (md-format §10): P is the sum (xor) of a row's data blocks, Q the sum of
 * g^i times block i, in GF(2^8) with polynomial 0x11d and g = 2. Pure functions: no state, no
 * memory taken, nothing kept. The only user of ISA-L.
 *
 * The blocks of a row are handed over *by exponent*: src[i] is the block that Q multiplies by g^i.
 * Which block that is, geo_row_map() says; it is not the order of addresses. NULL stands for a
 * block of zeroes: one that is known to be, or an exponent that no block has (DDF layouts).
 *
 * Buffers are PARITY_ALIGN_BYTES aligned and len is a multiple of it, not 0 and at most
 * PARITY_BYTES_MAX: the caller's own logic sees to that, so both are CHECKed. A result never
 * overlaps a source or another result, except where a function says that it may be the same buffer.
 */
#ifndef RAID_PARITY_H
#define RAID_PARITY_H

#include <stddef.h>
#include <stdint.h>

#include "raid/types.h"

enum {
	PARITY_ALIGN_BYTES = 64, /* the widest vectors; ISA-L itself asks for 32 */
	PARITY_BYTES_MAX = 1 << 30,
	PARITY_SOURCES_MAX = RAID_SLOTS_MAX,
};

/* What can be lost, beside the data block of an exponent. */
enum { PARITY_P = 0x100, PARITY_Q = 0x101 };

/* dst = sum of the sources. dst may be one of them. */
void parity_xor(void *dst, const void *const *src, uint32_t n, size_t len);

/* P and Q of a row; p or q may be NULL: not wanted. */
void parity_pq(void *p, void *q, const void *const *src, uint32_t n, size_t len);

/*
 * Read-modify-write: make p and q (either may be NULL) what they are once the block with this
 * exponent has changed from before to after. Either of these may be NULL: zeroes. So a caller that
 * has the difference already hands it over alone.
 */
void parity_delta(void *p, void *q, const void *before, const void *after, uint32_t exponent,
		  size_t len);

/* A block that is lost and the buffer it is computed into. */
struct parity_lost {
	uint32_t what; /* exponent, PARITY_P or PARITY_Q */
	void *to;
};

/*
 * Compute one or two lost blocks of a row out of all others. src[] of a lost exponent is ignored; p
 * or q is NULL if it is lost or not to be used. One lost data block comes from P where P is given,
 * else from Q; with two lost, everything else must be given. No scratch: all is computed in one
 * pass into the results.
 */
void parity_recover(const struct parity_lost *lost, uint32_t count, const void *p, const void *q,
		    const void *const *src, uint32_t n, size_t len);

enum parity_verdict {
	PARITY_FINE,
	PARITY_P_WRONG,
	PARITY_Q_WRONG,
	PARITY_DATA_WRONG, /* one block, *exponent says which */
	PARITY_UNKNOWN,	   /* more than one, or there is no Q to tell them apart */
};

/*
 * Which block of a RAID_PAGE_BYTES page of a row is wrong, if exactly one is? It is named only if
 * every byte that differs names the same one: of a page that was damaged at random in two blocks
 * that is as good as impossible, of a single byte it is not. q is NULL if the level has none.
 */
enum parity_verdict parity_locate(const void *p, const void *q, const void *const *src, uint32_t n,
				  uint32_t *exponent);

#endif
