/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Constants and sizes of the NBD protocol (NetworkBlockDevice/nbd doc/proto.md; sections named
 * below). Everything on the wire is big-endian and read with get_be*(), never through a struct.
 */
#ifndef SERVER_WIRE_H
#define SERVER_WIRE_H

#include <stdint.h>

/* "Newstyle negotiation" */
#define NBD_MAGIC		   UINT64_C(0x4e42444d41474943) /* NBDMAGIC */
#define NBD_IHAVEOPT		   UINT64_C(0x49484156454F5054)
#define NBD_REP_MAGIC		   UINT64_C(0x0003e889045565a9)
#define NBD_REQUEST_MAGIC	   0x25609513u
#define NBD_SIMPLE_REPLY_MAGIC	   0x67446698u
#define NBD_STRUCTURED_REPLY_MAGIC 0x668e33efu

enum {
	NBD_GREETING_BYTES = 18,
	NBD_OPTION_HEADER_BYTES = 16,
	NBD_OPTION_REPLY_HEADER_BYTES = 20,
	NBD_REQUEST_BYTES = 28,
	NBD_SIMPLE_REPLY_BYTES = 16,
	NBD_CHUNK_HEADER_BYTES = 20,
	NBD_NAME_MAX = 4096,
	NBD_EXPORT_NAME_PAD = 124,
	NBD_DEFAULT_PORT = 10809,
};

/* "Handshake flags" and "Client flags" */
enum { NBD_FLAG_FIXED_NEWSTYLE = 1 << 0, NBD_FLAG_NO_ZEROES = 1 << 1 };

/* "Transmission flags" */
enum {
	NBD_FLAG_HAS_FLAGS = 1 << 0,
	NBD_FLAG_READ_ONLY = 1 << 1,
	NBD_FLAG_SEND_FLUSH = 1 << 2,
	NBD_FLAG_SEND_FUA = 1 << 3,
	NBD_FLAG_ROTATIONAL = 1 << 4,
	NBD_FLAG_SEND_TRIM = 1 << 5,
	NBD_FLAG_SEND_WRITE_ZEROES = 1 << 6,
	NBD_FLAG_SEND_DF = 1 << 7,
	NBD_FLAG_CAN_MULTI_CONN = 1 << 8,
	NBD_FLAG_SEND_RESIZE = 1 << 9,
	NBD_FLAG_SEND_CACHE = 1 << 10,
	NBD_FLAG_SEND_FAST_ZERO = 1 << 11,
};

/* "Option types" */
enum {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_STARTTLS = 5,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
	NBD_OPT_EXTENDED_HEADERS = 11,
};

/* "Option reply types" */
#define NBD_REP_ERR(n)		    (UINT32_C(0x80000000) | (n))
#define NBD_REP_ACK		    UINT32_C(1)
#define NBD_REP_SERVER		    UINT32_C(2)
#define NBD_REP_INFO		    UINT32_C(3)
#define NBD_REP_ERR_UNSUP	    NBD_REP_ERR(1)
#define NBD_REP_ERR_POLICY	    NBD_REP_ERR(2)
#define NBD_REP_ERR_INVALID	    NBD_REP_ERR(3)
#define NBD_REP_ERR_PLATFORM	    NBD_REP_ERR(4)
#define NBD_REP_ERR_TLS_REQD	    NBD_REP_ERR(5)
#define NBD_REP_ERR_UNKNOWN	    NBD_REP_ERR(6)
#define NBD_REP_ERR_SHUTDOWN	    NBD_REP_ERR(7)
#define NBD_REP_ERR_BLOCK_SIZE_REQD NBD_REP_ERR(8)
#define NBD_REP_ERR_TOO_BIG	    NBD_REP_ERR(9)

enum { NBD_INFO_EXPORT = 0, NBD_INFO_NAME = 1, NBD_INFO_DESCRIPTION = 2, NBD_INFO_BLOCK_SIZE = 3 };

/* "Request types" and "Command flags" */
enum {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_CACHE = 5,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
};

enum {
	NBD_CMD_FLAG_FUA = 1 << 0,
	NBD_CMD_FLAG_NO_HOLE = 1 << 1,
	NBD_CMD_FLAG_DF = 1 << 2,
	NBD_CMD_FLAG_REQ_ONE = 1 << 3,
	NBD_CMD_FLAG_FAST_ZERO = 1 << 4,
};

/* "Structured reply chunk message" */
enum {
	NBD_REPLY_FLAG_DONE = 1 << 0,
	NBD_REPLY_TYPE_NONE = 0,
	NBD_REPLY_TYPE_OFFSET_DATA = 1,
	NBD_REPLY_TYPE_OFFSET_HOLE = 2,
	NBD_REPLY_TYPE_ERROR = (1 << 15) + 1,
	NBD_REPLY_TYPE_ERROR_OFFSET = (1 << 15) + 2,
};

/* "Error values" */
enum {
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_EOVERFLOW = 75,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

#endif
