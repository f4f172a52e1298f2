/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which peers may use an export. Rules and peers are binary values: no rule is ever compared as
 * text. Pure.
 */
#ifndef SERVER_ACCESS_H
#define SERVER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "raid/types.h"

enum access_kind {
	ACCESS_UNKNOWN, /* a peer we could not identify: no rule fits it */
	ACCESS_INET,	/* by address */
	ACCESS_UNIX,	/* by uid */
	ACCESS_PARENT,	/* who started us has given us the session (-s): always allowed */
};

struct access_peer {
	enum access_kind kind;
	uint8_t addr[16]; /* INET: IPv6; IPv4 as ::ffff:a.b.c.d */
	uint32_t uid;	  /* UNIX */
};

struct access_rule {
	enum access_kind kind; /* INET or UNIX */
	uint8_t addr[16];
	uint8_t prefix; /* INET: bits of addr that count, 0..128 */
	bool any_uid;	/* UNIX */
	uint32_t uid;
};

/*
 * "192.0.2.7", "192.0.2.0/24", "2001:db8::/32", "unix" (every local peer of a unix socket),
 * "unix:UID". A network with bits set behind its prefix is refused, as it is likely a mistake.
 * 0, or -EINVAL with the reason in why.
 */
int access_parse(const char *text, struct access_rule *out, char why[RAID_WHY_BYTES]);

/* Does one of the rules fit? Without rules: no. */
bool access_allows(const struct access_rule *rule, uint32_t rules, const struct access_peer *peer);

/* 4 bytes in network order, as access_peer.addr wants them. */
void access_map_ipv4(const void *ipv4, uint8_t addr[16]);

#endif
