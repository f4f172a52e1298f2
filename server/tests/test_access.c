/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may use an export: addresses are compared in binary, never as text (CVE-2013-6410). */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/access.h"

static char why[RAID_WHY_BYTES];

static struct access_peer inet_peer(const char *text)
{
	struct access_peer p = {.kind = ACCESS_INET};
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1) {
		access_map_ipv4(&ipv4, p.addr);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, p.addr), 1);
	}
	return p;
}

static bool allows(const char *rule_text, const char *peer_text)
{
	struct access_peer peer = inet_peer(peer_text);
	struct access_rule rule;

	assert_int_equal(access_parse(rule_text, &rule, why), 0);
	return access_allows(&rule, 1, &peer);
}

static void addresses_fit_exactly(void **state)
{
	(void)state;
	assert_true(allows("10.1.1.1", "10.1.1.1"));
	assert_false(allows("10.1.1.1", "10.1.1.10"));
	assert_false(allows("10.1.1.10", "10.1.1.1"));
	assert_false(allows("1.1.1.1", "11.1.1.1"));
	assert_true(allows("2001:db8::1", "2001:db8:0:0::1"));
	assert_false(allows("2001:db8::1", "2001:db8::10"));
	/* one host, two ways to write it */
	assert_true(allows("10.1.1.1", "::ffff:10.1.1.1"));
	assert_true(allows("::ffff:10.1.1.1", "10.1.1.1"));
}

static void networks_fit_to_the_bit(void **state)
{
	(void)state;
	assert_true(allows("192.0.2.0/24", "192.0.2.255"));
	assert_false(allows("192.0.2.0/24", "192.0.3.0"));
	assert_true(allows("192.0.2.128/25", "192.0.2.128"));
	assert_false(allows("192.0.2.128/25", "192.0.2.127"));
	assert_true(allows("0.0.0.0/0", "255.255.255.255"));
	assert_false(allows("0.0.0.0/0", "2001:db8::1"));
	assert_true(allows("::/0", "1.2.3.4"));
	assert_true(allows("2001:db8::/33", "2001:db8:7fff::1"));
	assert_false(allows("2001:db8::/33", "2001:db8:8000::1"));
	/* every prefix length: the last bit that counts decides */
	for (int prefix = 1; prefix <= 32; prefix++) {
		uint32_t bit = UINT32_C(1) << (32 - prefix), net = htonl(bit), off = htonl(0);
		char rule[32], inside[16], outside[16];

		inet_ntop(AF_INET, &net, inside, sizeof inside);
		inet_ntop(AF_INET, &off, outside, sizeof outside);
		snprintf(rule, sizeof rule, "%s/%d", inside, prefix);
		assert_true(allows(rule, inside));
		assert_false(allows(rule, outside));
	}
}

static void local_peers_fit_by_uid(void **state)
{
	struct access_peer root = {.kind = ACCESS_UNIX, .uid = 0};
	struct access_peer user = {.kind = ACCESS_UNIX, .uid = 1000};
	struct access_peer net = inet_peer("127.0.0.1");
	struct access_rule rule;

	(void)state;
	assert_int_equal(access_parse("unix", &rule, why), 0);
	assert_true(access_allows(&rule, 1, &root));
	assert_true(access_allows(&rule, 1, &user));
	assert_false(access_allows(&rule, 1, &net));
	assert_int_equal(access_parse("unix:1000", &rule, why), 0);
	assert_false(access_allows(&rule, 1, &root));
	assert_true(access_allows(&rule, 1, &user));
	assert_int_equal(access_parse("::/0", &rule, why), 0);
	assert_false(access_allows(&rule, 1, &root));
}

static void no_rules_and_unknown_peers(void **state)
{
	struct access_peer net = inet_peer("127.0.0.1"), unknown = {.kind = ACCESS_UNKNOWN};
	struct access_peer parent = {.kind = ACCESS_PARENT};
	struct access_rule rules[2];

	(void)state;
	assert_false(access_allows(NULL, 0, &net));
	assert_true(access_allows(NULL, 0, &parent));
	assert_int_equal(access_parse("::/0", &rules[0], why), 0);
	assert_int_equal(access_parse("unix", &rules[1], why), 0);
	assert_false(access_allows(rules, 2, &unknown));
	assert_true(access_allows(rules, 2, &net));
}

static void nonsense_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  "localhost",
					  "10.1.1",
					  "10.1.1.1.1",
					  "10.1.1.256",
					  "10.1.1.1/33",
					  "10.1.1.1/-1",
					  "10.1.1.1/",
					  "10.1.1.1/x",
					  "10.1.1.0/24 ",
					  "10.1.1.1/24",
					  "10.1.1.0/23",
					  "2001:db8::1/64",
					  "::/129",
					  "unixes",
					  "unix:",
					  "unix:-1",
					  "unix:root",
					  "unix:99999999999",
					  "1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8:9"};
	struct access_rule rule;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		why[0] = '\0';
		assert_int_equal(access_parse(bad[i], &rule, why), -EINVAL);
		assert_true(why[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_fit_exactly),
		cmocka_unit_test(networks_fit_to_the_bit),
		cmocka_unit_test(local_peers_fit_by_uid),
		cmocka_unit_test(no_rules_and_unknown_peers),
		cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
