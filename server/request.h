/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One request header: decode it, judge it whole, and turn errors into NBD's. Pure; the only place
 * that knows which request is legal and the only map from errno to the wire.
 */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "server/wire.h"

enum {
	REQUEST_IO_BYTES_MAX = 64 << 20,       /* READ and WRITE that are served */
	REQUEST_SWALLOW_BYTES_MAX = 128 << 20, /* WRITE whose payload is eaten; beyond: dropped */
};

struct nbd_request {
	uint16_t flags, cmd;
	uint64_t cookie; /* opaque: kept as the bytes' big-endian value */
	uint64_t addr;
	uint32_t len;
};

/* What the session may do. */
struct request_rules {
	uint64_t size;	 /* of the export, bytes */
	uint16_t tflags; /* transmission flags as the client was told */
	bool read_only;
	bool structured;
};

enum request_verdict {
	REQUEST_OK,
	REQUEST_REFUSED, /* answer the error; a WRITE's payload follows and must be eaten */
	REQUEST_DISC,
	REQUEST_DROP, /* out of step or absurd: end the session, write nothing more */
};

/* False if the magic is wrong. */
bool request_decode(const uint8_t head[NBD_REQUEST_BYTES], struct nbd_request *out);

/*
 * The order of checks, fixed: DISC; WRITE over 128 MiB (drop); unknown command EINVAL; read-only
 * EPERM; command not offered EINVAL; flag unknown, not offered, or wrong for this command EINVAL;
 * FLUSH with offset or length EINVAL; READ or WRITE over 64 MiB EINVAL; range: past the end ENOSPC
 * for WRITE and WRITE_ZEROES, else EINVAL. So a write past the end of a read-only export answers
 * EPERM. Length 0 inside the export is legal for every command and does nothing.
 * REQUEST_REFUSED sets *err to -errno.
 */
enum request_verdict request_check(const struct nbd_request *r, const struct request_rules *rules,
				   int *err);

/* NBD's error for -errno. ENOTSUP is only for FAST_ZERO (nbd-rules 34): flags are the request's. */
uint32_t request_wire_error(int err, uint16_t flags);

/* A short text for a structured error chunk; static. */
const char *request_error_text(uint32_t wire_error);

#endif
