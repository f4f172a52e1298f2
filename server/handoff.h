/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session that has finished its handshake, passed by value from the control plane to the loop
 * that will serve it, with the bytes already read past the handshake.
 */
#ifndef SERVER_HANDOFF_H
#define SERVER_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export;

struct handoff {
	int in_fd, out_fd; /* equal for a socket; two pipes or files for stdin/stdout mode. The loop
			      closes them */
	bool socket;	   /* recv/send work; otherwise read/write */
	const struct export *export;
	bool structured;  /* structured replies agreed */
	uint64_t session; /* number for logs, unique in the process */
	char peer[64];	  /* for logs, printable */
	uint8_t *extra;	  /* malloc'ed; the loop frees it */
	size_t extra_len;
};

#endif
