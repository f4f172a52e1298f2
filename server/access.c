/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4 is a part of IPv6 here (::ffff:0:0/96), so that there is one comparison. */
#include "server/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/why.h"

enum { IPV4_PREFIX = 96 };

void access_map_ipv4(const void *ipv4, uint8_t addr[16])
{
	memset(addr, 0, 10);
	memset(addr + 10, 0xff, 2);
	memcpy(addr + 12, ipv4, 4);
}

/* A decimal number without sign, of the whole text. */
static bool parse_number(const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	if (text[0] < '0' || text[0] > '9') {
		return false;
	}
	errno = 0;
	*out = strtoul(text, &end, 10);
	return !*end && !errno && *out <= max;
}

static bool same_prefix(const uint8_t a[16], const uint8_t b[16], unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return !memcmp(a, b, whole) && (!rest || !((a[whole] ^ b[whole]) >> (8 - rest)));
}

static bool no_bits_behind(const uint8_t addr[16], unsigned prefix)
{
	for (unsigned bit = prefix; bit < 128; bit++) {
		if (addr[bit / 8] & 0x80 >> bit % 8) {
			return false;
		}
	}
	return true;
}

static int parse_unix(const char *rest, struct access_rule *out)
{
	unsigned long uid;

	out->kind = ACCESS_UNIX;
	if (!*rest) {
		out->any_uid = true;
		return 0;
	}
	if (*rest != ':' || !parse_number(rest + 1, UINT32_MAX - 1, &uid)) {
		return -EINVAL;
	}
	out->uid = (uint32_t)uid;
	return 0;
}

static int parse_network(const char *text, struct access_rule *out)
{
	char address[INET6_ADDRSTRLEN];
	size_t len = strcspn(text, "/");
	unsigned long prefix = 0, base = 0;
	struct in_addr ipv4;

	if (len >= sizeof address) {
		return -EINVAL;
	}
	memcpy(address, text, len);
	address[len] = '\0';
	out->kind = ACCESS_INET;
	if (inet_pton(AF_INET, address, &ipv4) == 1) {
		access_map_ipv4(&ipv4, out->addr);
		base = IPV4_PREFIX;
	} else if (inet_pton(AF_INET6, address, out->addr) != 1) {
		return -EINVAL;
	}
	if (text[len] && !parse_number(text + len + 1, 128 - base, &prefix)) {
		return -EINVAL;
	}
	out->prefix = (uint8_t)(text[len] ? base + prefix : 128);
	return 0;
}

int access_parse(const char *text, struct access_rule *out, char why[RAID_WHY_BYTES])
{
	int err;

	memset(out, 0, sizeof *out);
	err = strncmp(text, "unix", 4) ? parse_network(text, out) : parse_unix(text + 4, out);
	if (err) {
		return why_set(why, err,
			       "'%s' is neither an address nor ADDRESS/PREFIX, unix or unix:UID",
			       text);
	}
	if (out->kind == ACCESS_INET && !no_bits_behind(out->addr, out->prefix)) {
		return why_set(why, -EINVAL, "'%s' has bits set behind its prefix", text);
	}
	return 0;
}

bool access_allows(const struct access_rule *rule, uint32_t rules, const struct access_peer *peer)
{
	if (peer->kind == ACCESS_PARENT) {
		return true;
	}
	for (uint32_t i = 0; i < rules; i++) {
		const struct access_rule *r = &rule[i];

		if (r->kind != peer->kind) {
			continue;
		}
		if (r->kind == ACCESS_UNIX ? r->any_uid || r->uid == peer->uid
					   : same_prefix(r->addr, peer->addr, r->prefix)) {
			return true;
		}
	}
	return false;
}
