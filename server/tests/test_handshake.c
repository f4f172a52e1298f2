/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake against malformed, oversized and hostile options: rules 0 to 11. */
#include "server/tests/handshake_play.h"

static void rule00_greeting(void **state)
{
	(void)state;
	in_len = 0;
	run(1);
	assert_int_equal(out_len, NBD_GREETING_BYTES);
	assert_memory_equal(out, "NBDMAGICIHAVEOPT\0\3", NBD_GREETING_BYTES);
}

static void rule01_unknown_client_flags_drop(void **state)
{
	(void)state;
	for (int bit = 2; bit < 32; bit++) {
		put_flags(FIXED | NO_ZEROES | UINT32_C(1) << bit);
		put_go("data");
		play(HANDSHAKE_CLOSE);
		expect_end();
	}
}

static void rule01_flags_zero_allow_export_name_only(void **state)
{
	static const uint32_t others[] = {NBD_OPT_GO, NBD_OPT_LIST, NBD_OPT_STRUCTURED_REPLY, 77};

	(void)state;
	put_flags(0);
	put_option(NBD_OPT_EXPORT_NAME, "data", 4);
	play(HANDSHAKE_SERVE);
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		put_flags(0);
		put_zeroes_option(others[i], 6);
		play(HANDSHAKE_CLOSE);
		expect_end();
	}
}

static void rule02_zeroes_follow_export_name_unless_agreed(void **state)
{
	static const uint32_t flags[] = {0, FIXED, NO_ZEROES, FIXED | NO_ZEROES};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		size_t pad = flags[i] & NO_ZEROES ? 0 : NBD_EXPORT_NAME_PAD;

		put_flags(flags[i]);
		put_option(NBD_OPT_EXPORT_NAME, "data", 4);
		play(HANDSHAKE_SERVE);
		assert_int_equal(out_len - at, 10 + pad);
		assert_int_equal(get_be64(out + at), 2049 * 512);
		assert_int_equal(get_be16(out + at + 8), table.item[0]->flags);
		for (size_t k = 0; k < pad; k++) {
			assert_int_equal(out[at + 10 + k], 0);
		}
		assert_ptr_equal(hs.chosen, table.item[0]);
	}
	put_flags(FIXED);
	put_go("data");
	play(HANDSHAKE_SERVE);
	expect_go(); /* and nothing after it */
}

static void rule03_unknown_option_is_eaten(void **state)
{
	static const uint32_t lengths[] = {0, 1, 100, 64 << 10};
	static const uint32_t options[] = {0,
					   4,
					   NBD_OPT_LIST_META_CONTEXT,
					   NBD_OPT_SET_META_CONTEXT,
					   NBD_OPT_EXTENDED_HEADERS,
					   12,
					   UINT32_MAX};

	(void)state;
	for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
		for (size_t i = 0; i < 4; i++) {
			put_flags(FIXED | NO_ZEROES);
			put_zeroes_option(options[o], lengths[i]);
			put_zeroes_option(options[o], lengths[i]);
			put_go("data");
			play(HANDSHAKE_SERVE);
			expect_reply(options[o], NBD_REP_ERR_UNSUP);
			expect_reply(options[o], NBD_REP_ERR_UNSUP);
			expect_go();
		}
	}
}

static void rule04_data_where_none_belongs_is_invalid(void **state)
{
	static const uint32_t options[] = {NBD_OPT_LIST, NBD_OPT_STARTTLS,
					   NBD_OPT_STRUCTURED_REPLY};

	(void)state;
	for (size_t o = 0; o < 3; o++) {
		put_flags(FIXED | NO_ZEROES);
		put_zeroes_option(options[o], 9);
		put_go("data");
		play(HANDSHAKE_SERVE);
		expect_reply(options[o], NBD_REP_ERR_INVALID);
		expect_go();
		assert_false(hs.structured);
	}
}

static void rule05_abort_is_acknowledged(void **state)
{
	static const uint32_t lengths[] = {0, 10, HANDSHAKE_OPTION_MAX + 5};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		put_flags(FIXED);
		put_zeroes_option(NBD_OPT_ABORT, lengths[i]);
		play(HANDSHAKE_CLOSE);
		expect_reply(NBD_OPT_ABORT, NBD_REP_ACK);
		expect_end();
	}
}

static void rule06_export_name_unknown_closes_silently(void **state)
{
	(void)state;
	put_flags(FIXED);
	put_option(NBD_OPT_EXPORT_NAME, "nothing", 7);
	play(HANDSHAKE_CLOSE);
	expect_end();
	put_flags(FIXED);
	put_option(NBD_OPT_EXPORT_NAME, "data\0", 5);
	play(HANDSHAKE_CLOSE);
	expect_end();
}

static void rule07_malformed_info_is_invalid(void **state)
{
	static const struct {
		const char *data;
		uint32_t len;
	} bad[] = {
		{"", 0},
		{"\0\0\0\4data", 8},		  /* no count */
		{"\0\0\0\5data\0\0", 10},	  /* name one byte too long for the option */
		{"\0\0\1\0data\0\0", 10},	  /* far too long */
		{"\377\377\377\377data\0\0", 10}, /* wraps if added to */
		{"\377\377\377\372data\0\0", 10}, /* so does this with the 6 */
		{"\0\0\0\4data\0\0x", 11},	  /* trailing byte */
		{"\0\0\0\4data\0\1", 10},	  /* one type promised, none there */
		{"\0\0\0\4data\0\1\0", 11},	  /* half a type */
		{"\0\0\0\4data\377\377\0\3", 12}, /* 65535 promised */
		{"\0\0\0\4data\0\1\0\3\0\3", 14}, /* two where one is promised */
		{"\0\0\0\4da\0a\0\0", 10},	  /* NUL */
		{"\0\0\0\4da\377a\0\0", 10},	  /* never in UTF-8 */
		{"\0\0\0\4da\355\240\0\0", 10},	  /* half a surrogate */
		{"\0\0\0\4da\300\200\0\0", 10},	  /* overlong NUL */
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		for (uint32_t option = NBD_OPT_INFO; option <= NBD_OPT_GO; option++) {
			put_flags(FIXED | NO_ZEROES);
			put_option(option, bad[i].data, bad[i].len);
			put_go("data");
			play(HANDSHAKE_SERVE);
			expect_reply(option, NBD_REP_ERR_INVALID);
			expect_go();
		}
	}
}

static void rule07_unknown_export_leaves_the_session_alive(void **state)
{
	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_go("nothing");
	put_info(NBD_OPT_INFO, "dat", 3, 0, NULL);
	put_info(NBD_OPT_INFO, "dataa", 5, 0, NULL);
	put_go("other");
	play(HANDSHAKE_SERVE);
	expect_reply(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN);
	expect_reply(NBD_OPT_INFO, NBD_REP_ERR_UNKNOWN);
	expect_reply(NBD_OPT_INFO, NBD_REP_ERR_UNKNOWN);
	expect_go();
	assert_string_equal(hs.chosen->name, "other");
}

static void rule08_info_and_go_say_the_same(void **state)
{
	static const uint16_t types[] = {NBD_INFO_NAME,	       NBD_INFO_NAME,	    500,
					 NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE, 0};
	struct infos info, go;

	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_info(NBD_OPT_INFO, "data", 4, 6, types);
	put_info(NBD_OPT_GO, "data", 4, 6, types);
	play(HANDSHAKE_SERVE);
	expect_infos(NBD_OPT_INFO, &info);
	expect_infos(NBD_OPT_GO, &go);
	expect_end();
	assert_memory_equal(&info, &go, sizeof go);
	assert_string_equal(go.name, "data");
	assert_string_equal(go.description, "raid10 array of 4 members, chunk 64 KiB");
	assert_int_equal(go.size, 2049 * 512);
}

static void rule08_name_and_description_only_if_asked(void **state)
{
	struct infos i;

	(void)state;
	put_flags(FIXED | NO_ZEROES);
	put_go("data");
	play(HANDSHAKE_SERVE);
	expect_infos(NBD_OPT_GO, &i);
	assert_false(i.have_name);
	assert_false(i.have_description);
}

static void rule09_name_lengths(void **state)
{
	char name[NBD_NAME_MAX + 2];

	(void)state;
	memset(name, '\\', sizeof name); /* doubled when quoted: CVE-2020-10761 */
	name[NBD_NAME_MAX] = '\0';
	put_flags(FIXED | NO_ZEROES);
	put_info(NBD_OPT_INFO, name, NBD_NAME_MAX, 0, NULL);
	name[NBD_NAME_MAX] = 'x';
	put_info(NBD_OPT_INFO, name, NBD_NAME_MAX + 1, 0, NULL);
	put_go("data");
	play(HANDSHAKE_SERVE);
	expect_reply(NBD_OPT_INFO, NBD_REP_ERR_UNKNOWN);
	expect_reply(NBD_OPT_INFO, NBD_REP_ERR_TOO_BIG);
	expect_go();

	name[NBD_NAME_MAX] = '\0';
	add(name, false);
	put_flags(FIXED | NO_ZEROES);
	put_go(name);
	play(HANDSHAKE_SERVE);
	expect_go();
	assert_int_equal(strlen(hs.chosen->name), NBD_NAME_MAX);

	put_flags(FIXED);
	put_option(NBD_OPT_EXPORT_NAME, NULL, NBD_NAME_MAX + 1);
	play(HANDSHAKE_CLOSE);
	expect_end();
}

static void rule10_absurd_option_length_drops_without_memory(void **state)
{
	static const uint32_t lengths[] = {HANDSHAKE_SKIP_MAX + 1, 0x7fffffff, 0xffffffff};
	static const uint32_t options[] = {NBD_OPT_EXPORT_NAME, NBD_OPT_ABORT, NBD_OPT_LIST,
					   NBD_OPT_INFO,	NBD_OPT_GO,    99};

	(void)state;
	for (size_t o = 0; o < 6; o++) {
		for (size_t i = 0; i < 3; i++) {
			put_flags(FIXED);
			put_option(options[o], NULL, lengths[i]);
			play(HANDSHAKE_CLOSE);
			expect_end();
			assert_null(hs.data);
		}
	}
}

static void rule10_too_big_option_is_eaten(void **state)
{
	static const uint32_t lengths[] = {HANDSHAKE_OPTION_MAX + 1, HANDSHAKE_SKIP_MAX};
	static const uint32_t options[] = {NBD_OPT_LIST, NBD_OPT_INFO, NBD_OPT_GO, 99};

	(void)state;
	for (size_t o = 0; o < 4; o++) {
		for (size_t i = 0; i < 2; i++) {
			put_flags(FIXED | NO_ZEROES);
			put_zeroes_option(options[o], lengths[i]);
			put_go("data");
			play(HANDSHAKE_SERVE);
			expect_reply(options[o], NBD_REP_ERR_TOO_BIG);
			expect_go();
		}
	}
}

static void rule11_option_flood_is_bounded(void **state)
{
	(void)state;
	put_flags(FIXED | NO_ZEROES);
	for (int i = 0; i < 400; i++) {
		put_info(NBD_OPT_INFO, "data", 4, 0, NULL);
	}
	play(HANDSHAKE_CLOSE);
	for (int i = 0; i < HANDSHAKE_OPTIONS_MAX; i++) {
		struct infos infos;

		expect_infos(NBD_OPT_INFO, &infos);
	}
	expect_end();
}

static void rule11_output_waits_for_the_reader(void **state)
{
	size_t n;

	(void)state;
	put_flags(FIXED | NO_ZEROES);
	for (int i = 0; i < 50; i++) {
		put_option(NBD_OPT_LIST, NULL, 0);
	}
	handshake_release(&hs);
	handshake_init(&hs, &config, &peer);
	used = handshake_input(&hs, in, in_len);
	assert_int_equal(used, 4 + NBD_OPTION_HEADER_BYTES);
	handshake_output(&hs, &n);
	assert_true(n < 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(rule00_greeting, setup),
		cmocka_unit_test_setup(rule01_unknown_client_flags_drop, setup),
		cmocka_unit_test_setup(rule01_flags_zero_allow_export_name_only, setup),
		cmocka_unit_test_setup(rule02_zeroes_follow_export_name_unless_agreed, setup),
		cmocka_unit_test_setup(rule03_unknown_option_is_eaten, setup),
		cmocka_unit_test_setup(rule04_data_where_none_belongs_is_invalid, setup),
		cmocka_unit_test_setup(rule05_abort_is_acknowledged, setup),
		cmocka_unit_test_setup(rule06_export_name_unknown_closes_silently, setup),
		cmocka_unit_test_setup(rule07_malformed_info_is_invalid, setup),
		cmocka_unit_test_setup(rule07_unknown_export_leaves_the_session_alive, setup),
		cmocka_unit_test_setup(rule08_info_and_go_say_the_same, setup),
		cmocka_unit_test_setup(rule08_name_and_description_only_if_asked, setup),
		cmocka_unit_test_setup(rule09_name_lengths, setup),
		cmocka_unit_test_setup(rule10_absurd_option_length_drops_without_memory, setup),
		cmocka_unit_test_setup(rule10_too_big_option_is_eaten, setup),
		cmocka_unit_test_setup(rule11_option_flood_is_bounded, setup),
		cmocka_unit_test_setup(rule11_output_waits_for_the_reader, setup),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
