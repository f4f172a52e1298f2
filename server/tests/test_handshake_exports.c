/* SPDX-License-Identifier: BSD-3-Clause */
/* What the handshake tells about exports, agreed features and a stopping server: rules 15 to 19. */
#include "server/tests/handshake_play.h"

static void rule15_second_structured_reply_is_acknowledged(void **state)
{
	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	put_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	put_go("data");
	play(HANDSHAKE_SERVE);
	expect_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK);
	expect_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK);
	expect_go();
	assert_true(hs.structured);
}

static void rule16_stopping_server_says_so(void **state)
{
	static const uint32_t options[] = {NBD_OPT_LIST, NBD_OPT_INFO, NBD_OPT_GO, 99};

	(void)state;
	for (size_t o = 0; o < 4; o++) {
		const void *bytes;

		put_flags(FIXED | NO_ZEROES);
		put_zeroes_option(options[o], 6);
		put_go("data");
		handshake_release(&hs);
		handshake_init(&hs, &config, &peer);
		used = handshake_input(&hs, in, 10);
		handshake_stop(&hs);
		used += handshake_input(&hs, in + used, in_len - used);
		assert_int_equal(handshake_next(&hs), HANDSHAKE_CLOSE);
		free(out);
		bytes = handshake_output(&hs, &out_len);
		out = malloc(out_len);
		assert_non_null(out);
		memcpy(out, bytes, out_len);
		at = NBD_GREETING_BYTES;
		expect_reply(options[o], NBD_REP_ERR_SHUTDOWN);
		expect_end();
	}
}

static void rule16_stopping_ends_a_ready_session_and_export_name(void **state)
{
	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_go("data");
	run(in_len);
	assert_int_equal(handshake_next(&hs), HANDSHAKE_SERVE);
	handshake_stop(&hs);
	assert_int_equal(handshake_next(&hs), HANDSHAKE_CLOSE);

	put_flags(FIXED);
	put_option(NBD_OPT_EXPORT_NAME, "data", 4);
	handshake_release(&hs);
	handshake_init(&hs, &config, &peer);
	handshake_stop(&hs);
	assert_int_equal(handshake_input(&hs, in, in_len), in_len);
	assert_int_equal(handshake_next(&hs), HANDSHAKE_CLOSE);
	handshake_output(&hs, &out_len);
	assert_int_equal(out_len, NBD_GREETING_BYTES);
}

static void rule17_df_needs_structured_replies(void **state)
{
	struct infos before, after;

	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_info(NBD_OPT_INFO, "data", 4, 0, NULL);
	put_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	put_info(NBD_OPT_INFO, "data", 4, 0, NULL);
	put_option(NBD_OPT_EXPORT_NAME, "data", 4);
	play(HANDSHAKE_SERVE);
	expect_infos(NBD_OPT_INFO, &before);
	expect_reply(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK);
	expect_infos(NBD_OPT_INFO, &after);
	assert_false(before.flags & NBD_FLAG_SEND_DF);
	assert_int_equal(after.flags, before.flags | NBD_FLAG_SEND_DF);
	assert_int_equal(get_be16(out + at + 8), after.flags);
}

static void rule17_flags_of_a_read_only_export(void **state)
{
	struct export *e = export_create("ro", "", &array, true);

	(void)state;
	assert_int_equal(e->flags, NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH |
					   NBD_FLAG_SEND_CACHE | NBD_FLAG_CAN_MULTI_CONN);
	assert_string_equal(e->description, "");
	export_free(e);
	assert_int_equal(table.item[0]->flags,
			 NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA |
				 NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES |
				 NBD_FLAG_CAN_MULTI_CONN | NBD_FLAG_SEND_CACHE |
				 NBD_FLAG_SEND_FAST_ZERO);
}

static void rule18_block_sizes(void **state)
{
	static const uint32_t chunk_sectors[] = {0, 1, 8, 24, 128, 1024, 1 << 16, 1 << 20};

	(void)state;
	for (size_t i = 0; i < sizeof chunk_sectors / sizeof chunk_sectors[0]; i++) {
		struct export *e;

		assembly.geometry.p.chunk_sectors = chunk_sectors[i];
		e = export_create("x", NULL, &array, false);
		assert_true(is_pow2_u64(e->block_min) && e->block_min <= 64 << 10);
		assert_true(is_pow2_u64(e->block_preferred) && e->block_preferred >= 4096);
		assert_true(e->block_max >= e->block_preferred && e->block_max >= 1 << 20);
		assert_int_equal(e->block_max, 32 << 20);
		assert_true(e->block_preferred == e->block_max ||
			    e->block_preferred >= chunk_sectors[i] * 512);
		assert_int_equal(e->size % e->block_min, 0);
		export_free(e);
	}
}

static void rule19_starttls_without_tls(void **state)
{
	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_option(NBD_OPT_STARTTLS, NULL, 0);
	put_go("data");
	play(HANDSHAKE_SERVE);
	expect_reply(NBD_OPT_STARTTLS, NBD_REP_ERR_UNSUP);
	expect_go();
}

static void list_names_every_export(void **state)
{
	(void)state;
	put_flags(FIXED);
	put_option(NBD_OPT_LIST, NULL, 0);
	put_option(NBD_OPT_ABORT, NULL, 0);
	play(HANDSHAKE_CLOSE);
	for (uint32_t i = 0; i < table.count; i++) {
		const struct export *e = table.item[i];
		uint32_t len;

		assert_int_equal(get_reply(NBD_OPT_LIST, &len), NBD_REP_SERVER);
		assert_int_equal(len, 4 + strlen(e->name) + strlen(e->description));
		assert_int_equal(get_be32(out + at - len), strlen(e->name));
		assert_memory_equal(out + at - len + 4, e->name, strlen(e->name));
	}
	expect_reply(NBD_OPT_LIST, NBD_REP_ACK);
	expect_reply(NBD_OPT_ABORT, NBD_REP_ACK);
	expect_end();
}

static void list_can_be_switched_off(void **state)
{
	(void)state;
	config.list = false;
	put_flags(FIXED | NO_ZEROES);
	put_option(NBD_OPT_LIST, NULL, 0);
	put_go("data");
	play(HANDSHAKE_SERVE);
	expect_reply(NBD_OPT_LIST, NBD_REP_ERR_POLICY);
	expect_go();
}

static void export_for_others_is_hidden_and_refused(void **state)
{
	static const struct access_rule rule = {
		.kind = ACCESS_INET, .addr = {[15] = 2}, .prefix = 128};
	uint32_t len;

	(void)state;
	assert_int_equal(export_restrict(table.item[0], &rule, 1), 0);
	put_flags(FIXED | NO_ZEROES);
	put_option(NBD_OPT_LIST, NULL, 0);
	put_info(NBD_OPT_INFO, "data", 4, 0, NULL);
	put_go("data");
	put_go("other");
	play(HANDSHAKE_SERVE);
	assert_int_equal(get_reply(NBD_OPT_LIST, &len), NBD_REP_SERVER);
	assert_memory_equal(out + at - len + 4, "other", 5);
	expect_reply(NBD_OPT_LIST, NBD_REP_ACK);
	expect_reply(NBD_OPT_INFO, NBD_REP_ERR_POLICY);
	expect_reply(NBD_OPT_GO, NBD_REP_ERR_POLICY);
	expect_go();

	put_flags(FIXED);
	put_option(NBD_OPT_EXPORT_NAME, "data", 4);
	play(HANDSHAKE_CLOSE);
	expect_end();
}

static void empty_rules_allow_nobody(void **state)
{
	(void)state;
	assert_int_equal(export_restrict(table.item[0], NULL, 0), 0);
	put_flags(FIXED | NO_ZEROES);
	put_go("data");
	put_option(NBD_OPT_ABORT, NULL, 0);
	play(HANDSHAKE_CLOSE);
	expect_reply(NBD_OPT_GO, NBD_REP_ERR_POLICY);
	expect_reply(NBD_OPT_ABORT, NBD_REP_ACK);
}

static bool first_is_full(void *ctx, const struct export *e)
{
	return e == table.item[0];
}

static void full_export_answers_info_but_not_go(void **state)
{
	struct infos i;

	(void)state;
	config.full = first_is_full;
	put_flags(FIXED | NO_ZEROES);
	put_info(NBD_OPT_INFO, "data", 4, 0, NULL);
	put_go("data");
	put_go("other");
	play(HANDSHAKE_SERVE);
	expect_infos(NBD_OPT_INFO, &i);
	expect_reply(NBD_OPT_GO, NBD_REP_ERR_POLICY);
	expect_go();
	put_flags(FIXED);
	put_option(NBD_OPT_EXPORT_NAME, "data", 4);
	play(HANDSHAKE_CLOSE);
	expect_end();
	config.full = NULL;
}

static void default_export(void **state)
{
	static const uint16_t want_name = NBD_INFO_NAME;
	struct infos i;

	(void)state;
	/* Two exports, none configured. */
	put_flags(FIXED | NO_ZEROES);
	put_go("");
	put_option(NBD_OPT_EXPORT_NAME, "", 0);
	play(HANDSHAKE_CLOSE);
	expect_reply(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN);
	expect_end();

	/* The configured one; its canonical name is told. */
	add("third", true);
	put_flags(FIXED | NO_ZEROES);
	put_info(NBD_OPT_GO, "", 0, 1, &want_name);
	play(HANDSHAKE_SERVE);
	expect_infos(NBD_OPT_GO, &i);
	assert_string_equal(i.name, "third");

	/* The only one. */
	exports_release(&table);
	add("alone", false);
	put_flags(FIXED | NO_ZEROES);
	put_option(NBD_OPT_EXPORT_NAME, "", 0);
	play(HANDSHAKE_SERVE);
	assert_string_equal(hs.chosen->name, "alone");
}

static void bad_magic_drops(void **state)
{
	(void)state;
	put_flags(FIXED);
	put_go("data");
	in[4] ^= 1;
	play(HANDSHAKE_CLOSE);
	expect_end();
}

/* Requests in the same segment as GO belong to the transmission phase, wherever it is cut. */
static void bytes_after_go_are_left_alone(void **state)
{
	size_t handshake_len;

	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	put_go("data");
	handshake_len = in_len;
	for (int i = 0; i < 8 * NBD_REQUEST_BYTES; i++) {
		in[in_len++] = (uint8_t)(i * 7);
	}
	for (size_t cut = 1; cut < in_len; cut++) {
		size_t n = 0, took;

		handshake_release(&hs);
		handshake_init(&hs, &config, &peer);
		for (size_t limit = cut; handshake_next(&hs) == HANDSHAKE_WAIT;) {
			took = handshake_input(&hs, in + n, limit - n);
			n += took;
			if (!took || n == limit) {
				limit = in_len;
			}
		}
		assert_int_equal(n, handshake_len);
		assert_int_equal(handshake_input(&hs, in + n, in_len - n), 0);
	}
}

/* Options in any order end in the same place (CVE-2019-14851: an assertion on the order). */
static void option_order_is_free(void **state)
{
	static const uint32_t options[] = {NBD_OPT_LIST, NBD_OPT_STRUCTURED_REPLY, NBD_OPT_STARTTLS,
					   NBD_OPT_SET_META_CONTEXT};

	(void)state;
	for (int order = 0; order < 256; order++) {
		put_flags(FIXED | NO_ZEROES);
		for (int k = 0; k < 4; k++) {
			put_option(options[order >> 2 * k & 3], NULL, 0);
			put_info(NBD_OPT_INFO, "data", 4, 0, NULL);
		}
		put_go("data");
		play(HANDSHAKE_SERVE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(rule15_second_structured_reply_is_acknowledged, setup),
		cmocka_unit_test_setup(rule16_stopping_server_says_so, setup),
		cmocka_unit_test_setup(rule16_stopping_ends_a_ready_session_and_export_name, setup),
		cmocka_unit_test_setup(rule17_df_needs_structured_replies, setup),
		cmocka_unit_test_setup(rule17_flags_of_a_read_only_export, setup),
		cmocka_unit_test_setup(rule18_block_sizes, setup),
		cmocka_unit_test_setup(rule19_starttls_without_tls, setup),
		cmocka_unit_test_setup(list_names_every_export, setup),
		cmocka_unit_test_setup(list_can_be_switched_off, setup),
		cmocka_unit_test_setup(export_for_others_is_hidden_and_refused, setup),
		cmocka_unit_test_setup(empty_rules_allow_nobody, setup),
		cmocka_unit_test_setup(full_export_answers_info_but_not_go, setup),
		cmocka_unit_test_setup(default_export, setup),
		cmocka_unit_test_setup(bad_magic_drops, setup),
		cmocka_unit_test_setup(bytes_after_go_are_left_alone, setup),
		cmocka_unit_test_setup(option_order_is_free, setup),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
