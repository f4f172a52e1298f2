/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * States and the functions that make the transitions, all through move():
 *
 *   FLAGS  -> HEADER   take_flags: only known client flags
 *   FLAGS  -> CLOSED   take_flags: anything else
 *   HEADER -> DATA     take_header: INFO, GO, EXPORT_NAME of an acceptable length
 *   HEADER -> SKIP     take_header: every other option, and what is too long to be kept
 *   HEADER -> CLOSED   take_header: bad magic, too many options, absurd length, not fixed newstyle
 *   DATA   -> HEADER | READY | CLOSED   act: the option is complete
 *   SKIP   -> HEADER | CLOSED           act
 *   READY  -> CLOSED   handshake_stop
 *
 * In HEADER no option data is held; in DATA data points to length bytes of which got are filled; in
 * SKIP nothing is held and got counts what was eaten. READY: chosen is set. CLOSED: why is set.
 * An option with no data passes through DATA or SKIP within the same call.
 */
#include "server/handshake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/base/check.h"
#include "server/log.h"
#include "server/utf8.h"
#include "server/wire.h"

STATIC_CHECK(sizeof(((struct handshake *)NULL)->head) == NBD_OPTION_HEADER_BYTES,
	     "a header fits its buffer");

static const uint8_t legal[][6] = {
	[HANDSHAKE_FLAGS] = {[HANDSHAKE_HEADER] = 1, [HANDSHAKE_CLOSED] = 1},
	[HANDSHAKE_HEADER] = {[HANDSHAKE_DATA] = 1, [HANDSHAKE_SKIP] = 1, [HANDSHAKE_CLOSED] = 1},
	[HANDSHAKE_DATA] = {[HANDSHAKE_HEADER] = 1, [HANDSHAKE_READY] = 1, [HANDSHAKE_CLOSED] = 1},
	[HANDSHAKE_SKIP] = {[HANDSHAKE_HEADER] = 1, [HANDSHAKE_CLOSED] = 1},
	[HANDSHAKE_READY] = {[HANDSHAKE_CLOSED] = 1},
	[HANDSHAKE_CLOSED] = {0},
};

static void move(struct handshake *h, enum handshake_state to)
{
	CHECK(legal[h->state][to]);
	h->state = to;
	h->got = 0;
	if (to != HANDSHAKE_DATA) {
		free(h->data);
		h->data = NULL;
	}
}

static void close_session(struct handshake *h, const char *why)
{
	move(h, HANDSHAKE_CLOSED);
	h->why = why;
}

/* ---- output -------------------------------------------------------------------------------- */

/* Room for n more bytes of output; NULL without memory, then the session has been closed. */
static uint8_t *grow(struct handshake *h, size_t n)
{
	uint8_t *at;

	if (h->out_len + n > h->out_cap) {
		size_t cap = max_u64(512, 2 * (h->out_len + n));
		uint8_t *out = realloc(h->out, cap);

		if (!out) {
			if (h->state != HANDSHAKE_CLOSED) {
				close_session(h, "out of memory");
			}
			return NULL;
		}
		h->out = out;
		h->out_cap = cap;
	}
	at = h->out + h->out_len;
	h->out_len += n;
	return at;
}

/* The header of a reply to the option being answered, and room for its data behind it. */
static uint8_t *reply_start(struct handshake *h, uint32_t type, size_t data_len)
{
	uint8_t *p = grow(h, NBD_OPTION_REPLY_HEADER_BYTES + data_len);

	if (!p) {
		return NULL;
	}
	put_be64(p, NBD_REP_MAGIC);
	put_be32(p + 8, h->option);
	put_be32(p + 12, type);
	put_be32(p + 16, (uint32_t)data_len);
	return p + NBD_OPTION_REPLY_HEADER_BYTES;
}

static void reply(struct handshake *h, uint32_t type, const void *data, size_t len)
{
	uint8_t *p = reply_start(h, type, len);

	if (p && len) {
		memcpy(p, data, len);
	}
}

static void reply_ack(struct handshake *h)
{
	reply(h, NBD_REP_ACK, NULL, 0);
}

/* Error texts are ours and short: a name is quoted in them only through the cut form in wanted. */
__attribute__((format(printf, 3, 4))) static void reply_error(struct handshake *h, uint32_t type,
							      const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	reply(h, type, text, strlen(text));
}

/* ---- options ------------------------------------------------------------------------------- */

static uint16_t session_flags(const struct handshake *h, const struct export *e)
{
	return e->flags | (h->structured ? NBD_FLAG_SEND_DF : 0);
}

static void note_wanted(struct handshake *h, const void *name, size_t len)
{
	log_quote(name, len, h->wanted, sizeof h->wanted);
}

static bool is_full(const struct handshake *h, const struct export *e)
{
	return h->config->full && h->config->full(h->config->ctx, e);
}

static void choose(struct handshake *h, const struct export *e)
{
	move(h, HANDSHAKE_READY);
	h->chosen = e;
}

/* The old way: no reply header, no way to say no but closing (proto.md NBD_OPT_EXPORT_NAME). */
static void option_export_name(struct handshake *h)
{
	size_t pad = h->no_zeroes ? 0 : NBD_EXPORT_NAME_PAD;
	const struct export *e = NULL;
	uint8_t *p;

	note_wanted(h, h->data, h->length);
	if (h->stopping) {
		close_session(h, "the server is stopping");
		return;
	}
	if (utf8_valid(h->data, h->length)) {
		e = exports_find(h->config->exports, h->data, h->length);
	}
	if (!e) {
		close_session(h, "unknown export");
		return;
	}
	if (!export_allows(e, &h->peer)) {
		close_session(h, "the peer may not use the export");
		return;
	}
	if (is_full(h, e)) {
		close_session(h, "the export has its sessions");
		return;
	}
	p = grow(h, 10 + pad);
	if (p) {
		put_be64(p, e->size);
		put_be16(p + 8, session_flags(h, e));
		memset(p + 10, 0, pad);
		choose(h, e);
	}
}

/* What an INFO or GO option says, when it is well-formed. */
struct info_request {
	const uint8_t *name;
	uint32_t name_len;
	bool want_name, want_description; /* EXPORT and BLOCK_SIZE are always told */
};

/* Fills *r, or answers the error and returns false. The lengths are the peer's word: compare
 * before adding. */
static bool parse_info(struct handshake *h, struct info_request *r)
{
	uint32_t count;
	const uint8_t *types;

	memset(r, 0, sizeof *r);
	if (h->length < 6) {
		reply_error(h, NBD_REP_ERR_INVALID, "the option is too short");
		return false;
	}
	r->name_len = get_be32(h->data);
	if (r->name_len > h->length - 6) {
		reply_error(h, NBD_REP_ERR_INVALID, "the name is longer than the option");
		return false;
	}
	r->name = h->data + 4;
	note_wanted(h, r->name, r->name_len);
	count = get_be16(r->name + r->name_len);
	if (h->length != 6 + r->name_len + 2 * count) {
		reply_error(h, NBD_REP_ERR_INVALID,
			    "the number of information requests does not fit the option");
		return false;
	}
	if (r->name_len > NBD_NAME_MAX) {
		reply_error(h, NBD_REP_ERR_TOO_BIG, "export names have at most %d bytes",
			    NBD_NAME_MAX);
		return false;
	}
	if (!utf8_valid(r->name, r->name_len)) {
		reply_error(h, NBD_REP_ERR_INVALID,
			    "the export name is not UTF-8 or contains a NUL");
		return false;
	}
	types = r->name + r->name_len + 2;
	for (uint32_t i = 0; i < count; i++) {
		uint16_t type = get_be16(types + 2 * i);

		r->want_name |= type == NBD_INFO_NAME;
		r->want_description |= type == NBD_INFO_DESCRIPTION;
	}
	return true;
}

static void reply_info_text(struct handshake *h, uint16_t type, const char *text)
{
	size_t len = strnlen(text, NBD_NAME_MAX);
	uint8_t *p = reply_start(h, NBD_REP_INFO, 2 + len);

	if (p) {
		put_be16(p, type);
		memcpy(p + 2, text, len);
	}
}

static void reply_infos(struct handshake *h, const struct export *e, const struct info_request *r)
{
	uint8_t info[14];

	put_be16(info, NBD_INFO_EXPORT);
	put_be64(info + 2, e->size);
	put_be16(info + 10, session_flags(h, e));
	reply(h, NBD_REP_INFO, info, 12);
	if (r->want_name) {
		reply_info_text(h, NBD_INFO_NAME, e->name);
	}
	if (r->want_description) {
		reply_info_text(h, NBD_INFO_DESCRIPTION, e->description);
	}
	put_be16(info, NBD_INFO_BLOCK_SIZE);
	put_be32(info + 2, e->block_min);
	put_be32(info + 6, e->block_preferred);
	put_be32(info + 10, e->block_max);
	reply(h, NBD_REP_INFO, info, 14);
	reply_ack(h);
}

static void option_info_or_go(struct handshake *h)
{
	struct info_request r;
	const struct export *e;

	if (!parse_info(h, &r)) {
		return;
	}
	e = exports_find(h->config->exports, r.name, r.name_len);
	if (!e && !r.name_len) {
		reply_error(h, NBD_REP_ERR_UNKNOWN, "there is no default export: name one");
	} else if (!e) {
		reply_error(h, NBD_REP_ERR_UNKNOWN, "no export is named %s", h->wanted);
	} else if (!export_allows(e, &h->peer)) {
		reply_error(h, NBD_REP_ERR_POLICY, "you may not use the export %s", h->wanted);
	} else if (h->option == NBD_OPT_GO && is_full(h, e)) {
		reply_error(h, NBD_REP_ERR_POLICY,
			    "the export %s has as many clients as it may have", h->wanted);
	} else {
		reply_infos(h, e, &r);
		if (h->option == NBD_OPT_GO && h->state == HANDSHAKE_DATA) {
			choose(h, e);
		}
	}
}

static void option_list(struct handshake *h)
{
	const struct export_table *t = h->config->exports;

	if (!h->config->list) {
		reply_error(h, NBD_REP_ERR_POLICY, "this server does not list its exports");
		return;
	}
	for (uint32_t i = 0; i < t->count; i++) {
		const struct export *e = t->item[i];
		size_t name_len = strlen(e->name);
		size_t text_len = strnlen(e->description, NBD_NAME_MAX);
		uint8_t *p;

		if (!export_allows(e, &h->peer)) {
			continue;
		}
		p = reply_start(h, NBD_REP_SERVER, 4 + name_len + text_len);
		if (!p) {
			return;
		}
		put_be32(p, (uint32_t)name_len);
		memcpy(p + 4, e->name, name_len);
		memcpy(p + 4 + name_len, e->description, text_len);
	}
	reply_ack(h);
}

/* A repeated request is answered the same way: agreed is agreed. */
static void option_structured_reply(struct handshake *h)
{
	h->structured = true;
	reply_ack(h);
}

static void option_starttls(struct handshake *h)
{
	reply_error(h, NBD_REP_ERR_UNSUP, "TLS is not supported");
}

static void option_abort(struct handshake *h)
{
	reply_ack(h);
	if (h->state != HANDSHAKE_CLOSED) {
		close_session(h, "the client aborted");
	}
}

enum data_rule {
	DATA_KEPT,  /* has data that means something */
	DATA_NONE,  /* data makes it INVALID */
	DATA_EATEN, /* data is ignored */
};

static const struct option_kind {
	uint32_t option;
	enum data_rule data;
	void (*act)(struct handshake *h);
} option_kinds[] = {
	{NBD_OPT_EXPORT_NAME, DATA_KEPT, option_export_name},
	{NBD_OPT_ABORT, DATA_EATEN, option_abort},
	{NBD_OPT_LIST, DATA_NONE, option_list},
	{NBD_OPT_STARTTLS, DATA_NONE, option_starttls},
	{NBD_OPT_INFO, DATA_KEPT, option_info_or_go},
	{NBD_OPT_GO, DATA_KEPT, option_info_or_go},
	{NBD_OPT_STRUCTURED_REPLY, DATA_NONE, option_structured_reply},
};

static const struct option_kind *kind_of(uint32_t option)
{
	for (size_t i = 0; i < sizeof option_kinds / sizeof option_kinds[0]; i++) {
		if (option_kinds[i].option == option) {
			return &option_kinds[i];
		}
	}
	return NULL;
}

/* The option's data is complete: in data (DATA) or eaten (SKIP). Answer, and go on from there. */
static void act(struct handshake *h)
{
	const struct option_kind *kind = kind_of(h->option);
	bool is_abort = h->option == NBD_OPT_ABORT;

	if (h->stopping && !is_abort && h->option != NBD_OPT_EXPORT_NAME) {
		reply_error(h, NBD_REP_ERR_SHUTDOWN, "the server is stopping");
		if (h->state != HANDSHAKE_CLOSED) {
			close_session(h, "the server is stopping");
		}
		return;
	}
	if (h->length > HANDSHAKE_OPTION_MAX && !is_abort) {
		reply_error(h, NBD_REP_ERR_TOO_BIG, "the option has too much data");
	} else if (!kind) {
		reply_error(h, NBD_REP_ERR_UNSUP, "option %u is not supported", h->option);
	} else if (kind->data == DATA_NONE && h->length) {
		reply_error(h, NBD_REP_ERR_INVALID, "option %u takes no data", h->option);
	} else {
		kind->act(h);
	}
	if (h->state == HANDSHAKE_DATA || h->state == HANDSHAKE_SKIP) {
		move(h, HANDSHAKE_HEADER);
	}
}

/* ---- input --------------------------------------------------------------------------------- */

static void take_flags(struct handshake *h)
{
	uint32_t flags = get_be32(h->head);

	if (flags & ~(uint32_t)(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES)) {
		close_session(h, "unknown client flags");
		return;
	}
	h->fixed = flags & NBD_FLAG_FIXED_NEWSTYLE;
	h->no_zeroes = flags & NBD_FLAG_NO_ZEROES;
	move(h, HANDSHAKE_HEADER);
}

static void take_header(struct handshake *h)
{
	const struct option_kind *kind;

	h->option = get_be32(h->head + 8);
	h->length = get_be32(h->head + 12);
	kind = kind_of(h->option);
	if (get_be64(h->head) != NBD_IHAVEOPT) {
		close_session(h, "bad option magic");
	} else if (++h->options > HANDSHAKE_OPTIONS_MAX) {
		close_session(h, "too many options");
	} else if (h->length > HANDSHAKE_SKIP_MAX) {
		close_session(h, "an option with absurdly much data");
	} else if (!h->fixed && h->option != NBD_OPT_EXPORT_NAME) {
		/* Such a client would not understand an option reply. */
		close_session(h, "an option other than EXPORT_NAME without fixed newstyle");
	} else if (h->option == NBD_OPT_EXPORT_NAME && h->length > NBD_NAME_MAX) {
		close_session(h, "an export name that is too long");
	} else if (kind && kind->data == DATA_KEPT && h->length <= HANDSHAKE_OPTION_MAX) {
		uint8_t *data = malloc(h->length + 1);

		if (!data) {
			close_session(h, "out of memory");
			return;
		}
		move(h, HANDSHAKE_DATA);
		h->data = data;
	} else {
		move(h, HANDSHAKE_SKIP);
	}
}

/* Bytes that the present state still needs; 0: it has them all. */
static size_t missing(const struct handshake *h)
{
	switch (h->state) {
	case HANDSHAKE_FLAGS:
		return 4 - h->got;
	case HANDSHAKE_HEADER:
		return NBD_OPTION_HEADER_BYTES - h->got;
	case HANDSHAKE_DATA:
	case HANDSHAKE_SKIP:
		return h->length - h->got;
	case HANDSHAKE_READY:
	case HANDSHAKE_CLOSED:
		break;
	}
	CHECK(!"bytes are wanted in no other state");
	return 0;
}

static void keep(struct handshake *h, const uint8_t *p, size_t n)
{
	if (h->state == HANDSHAKE_DATA) {
		memcpy(h->data + h->got, p, n);
	} else if (h->state != HANDSHAKE_SKIP) {
		memcpy(h->head + h->got, p, n);
	}
	h->got += (uint32_t)n;
}

size_t handshake_input(struct handshake *h, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	size_t used = 0;

	while (handshake_next(h) == HANDSHAKE_WAIT) {
		size_t take = min_u64(missing(h), n - used);

		keep(h, p + used, take);
		used += take;
		if (missing(h)) {
			break;
		}
		if (h->state == HANDSHAKE_FLAGS) {
			take_flags(h);
		} else if (h->state == HANDSHAKE_HEADER) {
			take_header(h);
		} else {
			act(h);
			break;
		}
	}
	return used;
}

enum handshake_next handshake_next(const struct handshake *h)
{
	if (h->state == HANDSHAKE_READY) {
		return HANDSHAKE_SERVE;
	}
	return h->state == HANDSHAKE_CLOSED ? HANDSHAKE_CLOSE : HANDSHAKE_WAIT;
}

const void *handshake_output(const struct handshake *h, size_t *n)
{
	*n = h->out_len;
	return h->out;
}

void handshake_sent(struct handshake *h, size_t n)
{
	CHECK(n <= h->out_len);
	h->out_len -= n;
	memmove(h->out, h->out + n, h->out_len);
}

void handshake_stop(struct handshake *h)
{
	h->stopping = true;
	if (h->state == HANDSHAKE_READY) {
		close_session(h, "the server is stopping");
	}
}

void handshake_init(struct handshake *h, const struct handshake_config *config,
		    const struct access_peer *peer)
{
	uint8_t *p;

	memset(h, 0, sizeof *h);
	h->state = HANDSHAKE_FLAGS;
	h->config = config;
	h->peer = *peer;
	p = grow(h, NBD_GREETING_BYTES);
	if (p) {
		put_be64(p, NBD_MAGIC);
		put_be64(p + 8, NBD_IHAVEOPT);
		put_be16(p + 16, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	}
}

void handshake_release(struct handshake *h)
{
	free(h->data);
	free(h->out);
	h->data = h->out = NULL;
	h->out_len = h->out_cap = 0;
}
