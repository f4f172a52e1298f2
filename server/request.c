/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request.h"

#include <errno.h>
#include <stddef.h>

#include "raid/base/bytes.h"

/* What each command needs and takes. A command without a row is unknown to us. */
struct command {
	bool known, writes;
	uint16_t offered_by; /* transmission flag without which it is not offered; 0: always */
	uint16_t flags;	     /* command flags it takes beside FUA */
};

static const struct command commands[] = {
	[NBD_CMD_READ] = {true, false, 0, NBD_CMD_FLAG_DF},
	[NBD_CMD_WRITE] = {true, true, 0, 0},
	[NBD_CMD_FLUSH] = {true, false, NBD_FLAG_SEND_FLUSH, 0},
	[NBD_CMD_TRIM] = {true, true, NBD_FLAG_SEND_TRIM, 0},
	[NBD_CMD_CACHE] = {true, false, NBD_FLAG_SEND_CACHE, 0},
	[NBD_CMD_WRITE_ZEROES] = {true, true, NBD_FLAG_SEND_WRITE_ZEROES,
				  NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO},
};

bool request_decode(const uint8_t head[NBD_REQUEST_BYTES], struct nbd_request *out)
{
	if (get_be32(head) != NBD_REQUEST_MAGIC) {
		return false;
	}
	out->flags = get_be16(head + 4);
	out->cmd = get_be16(head + 6);
	out->cookie = get_be64(head + 8);
	out->addr = get_be64(head + 16);
	out->len = get_be32(head + 24);
	return true;
}

static uint16_t allowed_flags(const struct command *c, const struct request_rules *rules)
{
	uint16_t flags = c->flags;

	if (rules->tflags & NBD_FLAG_SEND_FUA) {
		flags |= NBD_CMD_FLAG_FUA;
	}
	if (!rules->structured) {
		flags &= ~NBD_CMD_FLAG_DF;
	}
	if (!(rules->tflags & NBD_FLAG_SEND_FAST_ZERO)) {
		flags &= ~NBD_CMD_FLAG_FAST_ZERO;
	}
	return flags;
}

static int check_range(const struct nbd_request *r, const struct request_rules *rules)
{
	bool past_end = r->addr > rules->size || r->len > rules->size - r->addr;

	if (r->cmd == NBD_CMD_FLUSH) {
		return r->addr || r->len ? -EINVAL : 0;
	}
	if ((r->cmd == NBD_CMD_READ || r->cmd == NBD_CMD_WRITE) && r->len > REQUEST_IO_BYTES_MAX) {
		return -EINVAL;
	}
	if (past_end) {
		return r->cmd == NBD_CMD_WRITE || r->cmd == NBD_CMD_WRITE_ZEROES ? -ENOSPC
										 : -EINVAL;
	}
	return 0;
}

enum request_verdict request_check(const struct nbd_request *r, const struct request_rules *rules,
				   int *err)
{
	const struct command *c;

	*err = 0;
	if (r->cmd == NBD_CMD_DISC) {
		return REQUEST_DISC;
	}
	if (r->cmd == NBD_CMD_WRITE && r->len > REQUEST_SWALLOW_BYTES_MAX) {
		return REQUEST_DROP;
	}
	*err = -EINVAL;
	if (r->cmd >= sizeof commands / sizeof commands[0] || !commands[r->cmd].known) {
		return REQUEST_REFUSED;
	}
	c = &commands[r->cmd];
	if (c->writes && rules->read_only) {
		*err = -EPERM;
		return REQUEST_REFUSED;
	}
	if (c->offered_by && !(rules->tflags & c->offered_by)) {
		return REQUEST_REFUSED;
	}
	if (r->flags & ~allowed_flags(c, rules)) {
		return REQUEST_REFUSED;
	}
	*err = check_range(r, rules);
	return *err ? REQUEST_REFUSED : REQUEST_OK;
}

uint32_t request_wire_error(int err, uint16_t flags)
{
	switch (-err) {
	case 0:
		return 0;
	case EPERM:
	case EROFS:
		return NBD_EPERM;
	case EINVAL:
		return NBD_EINVAL;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return NBD_ENOSPC;
	case ENOTSUP:
		return flags & NBD_CMD_FLAG_FAST_ZERO ? NBD_ENOTSUP : NBD_EINVAL;
	case ESHUTDOWN:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}

const char *request_error_text(uint32_t wire_error)
{
	switch (wire_error) {
	case NBD_EPERM:
		return "the export is read-only";
	case NBD_EINVAL:
		return "invalid request";
	case NBD_ENOSPC:
		return "no space, or past the end of the export";
	case NBD_ENOTSUP:
		return "cannot zero faster than writing";
	case NBD_ESHUTDOWN:
		return "the server is stopping";
	default:
		return "I/O error";
	}
}
