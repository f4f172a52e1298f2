/* SPDX-License-Identifier: BSD-3-Clause */
#include "raid/tests/golden.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <zstd.h>

#include "raid/base/bytes.h"

enum { BLOCK_BYTES = 4096, TURN_BYTES = 16, PATH_BYTES = 4096 };

/* ---- files ------------------------------------------------------------------------------------
 */

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *data;

	if (!f || fstat(fileno(f), &st) < 0) {
		fail_msg("%s: %s", path, strerror(errno));
	}
	*size = (size_t)st.st_size;
	data = malloc(*size + 1);
	assert_non_null(data);
	if (fread(data, 1, *size, f) != *size) {
		fail_msg("%s: short read", path);
	}
	fclose(f);
	return data;
}

static void sha256(const void *data, size_t size, uint8_t out[32])
{
	assert_int_equal(EVP_Digest(data, size, out, NULL, EVP_sha256(), NULL), 1);
}

static void unhex(const char *text, uint8_t out[32])
{
	uint32_t i;

	assert_int_equal(strlen(text), 64);
	for (i = 0; i < 32; i++) {
		const char byte[3] = {text[2 * i], text[2 * i + 1], '\0'};

		out[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
}

static void unpack(const char *path, struct golden_member *m)
{
	size_t packed_size, got;
	uint8_t *packed = read_file(path, &packed_size);

	m->image = malloc(m->bytes);
	assert_non_null(m->image);
	got = ZSTD_decompress(m->image, m->bytes, packed, packed_size);
	if (ZSTD_isError(got) || got != m->bytes) {
		fail_msg("%s: %s", path, ZSTD_isError(got) ? ZSTD_getErrorName(got) : "too short");
	}
	free(packed);
}

/* ---- array.json -------------------------------------------------------------------------------
 */

static void text(const json_t *obj, const char *key, char out[GOLDEN_TEXT])
{
	const char *value = json_string_value(json_object_get(obj, key));

	snprintf(out, GOLDEN_TEXT, "%s", value ? value : "");
}

static uint64_t number(const json_t *obj, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(obj, key));
}

static bool has(const json_t *array, const char *word)
{
	const json_t *value;
	size_t i;

	json_array_foreach(array, i, value)
	{
		if (json_is_string(value) && !strcmp(json_string_value(value), word)) {
			return true;
		}
	}
	return false;
}

static uint16_t role(const json_t *value)
{
	const char *word = json_string_value(value);

	if (!word) {
		return (uint16_t)json_integer_value(value);
	}
	if (!strcmp(word, "faulty")) {
		return SB_ROLE_FAULTY;
	}
	return !strcmp(word, "journal") ? SB_ROLE_JOURNAL : SB_ROLE_SPARE;
}

static bool only_read(const json_t *features)
{
	static const char *const words[] = {"clustered", "journal", "ppl", "multiple-ppls"};
	uint32_t i;

	for (i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (has(features, words[i])) {
			return true;
		}
	}
	return false;
}

static enum golden_part part(const json_t *expect, const char *file)
{
	static const struct {
		const char *key;
		enum golden_part part;
	} parts[] = {
		{"ignore_members", GOLDEN_IGNORED}, {"spares", GOLDEN_SPARE},
		{"rebuilding", GOLDEN_REBUILDING},  {"replacement", GOLDEN_REPLACEMENT},
		{"journal", GOLDEN_JOURNAL},
	};
	uint32_t i;

	for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		const json_t *value = json_object_get(expect, parts[i].key);

		if (has(value, file) ||
		    (json_is_string(value) && !strcmp(json_string_value(value), file))) {
			return parts[i].part;
		}
	}
	return GOLDEN_IN_SYNC;
}

static void take_member(const json_t *obj, const json_t *expect, struct golden_member *m)
{
	const json_t *features = json_object_get(obj, "features");
	const json_t *resync = json_object_get(obj, "resync_offset_sectors");
	char metadata[GOLDEN_TEXT];

	text(obj, "file", m->file);
	text(obj, "metadata", metadata);
	snprintf(m->metadata, sizeof m->metadata, "%.7s", metadata);
	text(obj, "device_uuid", m->device_uuid);
	m->bytes = number(obj, "bytes");
	m->part = part(expect, m->file);
	m->csum_ok = json_is_true(json_object_get(obj, "csum_ok"));
	m->dev_number = (uint32_t)number(obj, "dev_number");
	m->role_own = role(json_object_get(obj, "role_own"));
	m->events = number(obj, "events");
	m->super_offset_bytes = number(obj, "super_offset_bytes");
	m->data_offset_bytes = number(obj, "data_offset_bytes");
	m->have_data_size = json_object_get(obj, "data_size_bytes") != NULL;
	m->data_size_bytes = number(obj, "data_size_bytes");
	m->resync_offset =
		json_is_integer(resync) ? (uint64_t)json_integer_value(resync) : SB_IN_SYNC;
	m->recovery_offset = number(obj, "recovery_offset_sectors");
	m->only_read = only_read(features) || !strcmp(m->metadata, "0.90");
	m->reshape = has(features, "reshape-active");
	m->journal = has(features, "journal");
	m->ppl = has(features, "ppl") || has(features, "multiple-ppls");
	m->bad_blocks = has(features, "bad-blocks");
}

static void take_expect(const json_t *expect, struct golden *g)
{
	const json_t *degraded = json_object_get(expect, "degraded"), *value;
	size_t i;

	g->assemble = json_is_true(json_object_get(expect, "assemble"));
	g->degraded = json_is_integer(degraded) ? (int32_t)json_integer_value(degraded) : -1;
	json_array_foreach(json_object_get(expect, "missing_roles"), i, value)
	{
		assert_in_range(json_integer_value(value), 0, RAID_SLOTS_MAX - 1);
		g->missing[json_integer_value(value)] = true;
	}
	json_array_foreach(json_object_get(expect, "unreadable"), i, value)
	{
		assert_in_range(i, 0, GOLDEN_RANGES - 1);
		g->unreadable[g->unreadables++] = (struct golden_range){
			512 * number(value, "sector"), 512 * number(value, "sectors")};
	}
}

static void take_bitmap(const json_t *bitmap, struct golden *g)
{
	g->bitmap = json_is_object(bitmap);
	g->bitmap_offset_bytes = number(bitmap, "offset_bytes");
	g->bitmap_chunk_bytes = (uint32_t)number(bitmap, "chunk_bytes");
	g->bitmap_bits = number(bitmap, "bits");
	g->bitmap_dirty_bits = number(bitmap, "dirty_bits");
	g->bitmap_first = number(bitmap, "dirty_first");
	g->bitmap_last = number(bitmap, "dirty_last");
	g->bitmap_events = number(bitmap, "events");
	g->bitmap_events_cleared = number(bitmap, "events_cleared");
	g->bitmap_sync_sectors = number(bitmap, "sync_sectors");
}

static void take_content(const json_t *content, struct golden *g)
{
	char hex[GOLDEN_TEXT];
	const json_t *value;
	size_t i;

	g->content_bytes = number(content, "bytes");
	text(content, "sha256", hex);
	unhex(hex, g->content_sha256);
	json_array_foreach(json_object_get(content, "segments"), i, value)
	{
		struct golden_segment *s = &g->segment[g->segments++];

		assert_in_range(i, 0, GOLDEN_SEGMENTS - 1);
		text(value, "seed", s->seed);
		s->offset = number(value, "offset");
		s->length = number(value, "length");
		assert_true(s->offset + s->length <= g->content_bytes);
	}
}

static void take_array(const json_t *root, struct golden *g)
{
	const json_t *expect = json_object_get(root, "expect"), *value;
	size_t i;

	text(root, "name", g->name);
	text(root, "uuid", g->uuid);
	g->level = (int32_t)json_integer_value(json_object_get(root, "level_number"));
	g->layout = (uint32_t)number(root, "layout_number");
	g->chunk_bytes = (uint32_t)number(root, "chunk_bytes");
	g->raid_disks = (uint32_t)number(root, "raid_disks");
	g->array_bytes = number(root, "array_bytes");
	take_expect(expect, g);
	take_content(json_object_get(root, "content"), g);
	take_bitmap(json_object_get(root, "bitmap"), g);
	json_array_foreach(json_object_get(root, "members"), i, value)
	{
		assert_in_range(i, 0, RAID_SLOTS_MAX - 1);
		take_member(value, expect, &g->member[g->members++]);
	}
}

void golden_load(const char *folder, struct golden *g)
{
	char path[PATH_BYTES], hex[GOLDEN_TEXT];
	json_error_t error;
	json_t *root;
	uint32_t i;

	memset(g, 0, sizeof *g);
	snprintf(path, sizeof path, "%s/array.json", folder);
	root = json_load_file(path, 0, &error);
	if (!root) {
		fail_msg("%s:%d: %s", path, error.line, error.text);
	}
	take_array(root, g);
	for (i = 0; i < g->members; i++) {
		uint8_t want[32], got[32];

		snprintf(path, sizeof path, "%s/%s.zst", folder, g->member[i].file);
		unpack(path, &g->member[i]);
		text(json_array_get(json_object_get(root, "members"), i), "sha256", hex);
		unhex(hex, want);
		sha256(g->member[i].image, g->member[i].bytes, got);
		assert_memory_equal(got, want, 32);
	}
	json_decref(root);
}

void golden_free(struct golden *g)
{
	uint32_t i;

	for (i = 0; i < g->members; i++) {
		free(g->member[i].image);
		g->member[i].image = NULL;
	}
	g->members = 0;
}

/* ---- content ----------------------------------------------------------------------------------
 */

/* The keystream of AES-128-CTR, counter from 0, key = the first half of SHA-256(seed). */
static void keystream(const char *seed, uint8_t *out, uint64_t len)
{
	static const uint8_t iv[16];
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t key[32];
	int got;

	assert_non_null(ctx);
	assert_true(len <= INT32_MAX);
	sha256(seed, strlen(seed), key);
	memset(out, 0, len);
	assert_int_equal(EVP_EncryptInit_ex(ctx, EVP_aes_128_ctr(), NULL, key, iv), 1);
	assert_int_equal(EVP_EncryptUpdate(ctx, out, &got, out, (int)len), 1);
	assert_int_equal(got, len);
	EVP_CIPHER_CTX_free(ctx);
}

/* Block b is made from 16 bytes of keystream, which are turned by two bytes every sector. */
static void rotating(const char *seed, uint8_t *out, uint64_t len)
{
	uint64_t blocks = (len + BLOCK_BYTES - 1) / BLOCK_BYTES, at;
	uint8_t *key = malloc(TURN_BYTES * blocks + 1);

	assert_non_null(key);
	keystream(seed, key, TURN_BYTES * blocks);
	for (at = 0; at < len; at++) {
		uint64_t in_block = at % BLOCK_BYTES;

		out[at] = key[TURN_BYTES * (at / BLOCK_BYTES) +
			      (in_block + 2 * (in_block / 512)) % TURN_BYTES];
	}
	free(key);
}

uint8_t *golden_content(const struct golden *g)
{
	uint8_t *content = calloc(1, g->content_bytes + 1), got[32];
	uint32_t i;

	assert_non_null(content);
	for (i = 0; i < g->segments; i++) {
		const struct golden_segment *s = &g->segment[i];

		if (!strncmp(s->seed, "ctr-", 4)) {
			keystream(s->seed, content + s->offset, s->length);
		} else {
			assert_int_equal(strncmp(s->seed, "rot-", 4), 0);
			rotating(s->seed, content + s->offset, s->length);
		}
	}
	sha256(content, g->content_bytes, got);
	assert_memory_equal(got, g->content_sha256, 32);
	return content;
}

/* ---- members ----------------------------------------------------------------------------------
 */

static void read_bad_blocks(const struct golden_member *m, struct asm_candidate *c)
{
	uint64_t at = 512 * (c->sb.super_offset + (uint64_t)(int64_t)c->sb.bblog_offset);

	if (c->sb.feature_map & SB_FEATURE_BAD_BLOCKS) {
		c->load_err = bb_decode(m->image + at, 512 * c->sb.bblog_size, c->sb.bblog_shift,
					c->dev_sectors, &c->bad, c->why);
	}
}

static void read_bitmap_header(const struct golden_member *m, struct asm_candidate *c)
{
	uint64_t at = 512 * (c->sb.super_offset + (uint64_t)(int64_t)c->sb.bitmap_offset);

	if (c->sb.feature_map & SB_FEATURE_BITMAP) {
		memcpy(c->bitmap.header, m->image + at, BM_HEADER_BYTES);
	}
}

void golden_candidate(const struct golden_member *m, struct asm_candidate *c)
{
	struct sb_location loc[SB_LOCATIONS_MAX];
	uint32_t n = sb_locations(m->bytes / 512, loc), i;

	memset(c, 0, sizeof *c);
	c->name = m->file;
	c->dev_sectors = m->bytes / 512;
	c->load_err = -ENOENT;
	for (i = 0; i < n; i++) {
		char why[RAID_WHY_BYTES];
		struct sb sb;
		int err =
			sb_decode(m->image + 512 * loc[i].sector, loc[i], c->dev_sectors, &sb, why);

		if (!err && (c->load_err || sb.ctime_s > c->sb.ctime_s)) {
			c->sb = sb;
			c->load_err = 0;
			c->why[0] = '\0';
		} else if (err != -ENOENT && c->load_err == -ENOENT) {
			c->load_err = err;
			snprintf(c->why, sizeof c->why, "%s", why);
		}
	}
	if (!c->load_err) {
		read_bad_blocks(m, c);
		read_bitmap_header(m, c);
	}
}

/* ---- folders ----------------------------------------------------------------------------------
 */

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

uint32_t golden_list(const char *top, char ***folders)
{
	struct dirent **entry;
	int n = scandir(top, &entry, is_visible, alphasort), i;
	uint32_t count = 0;

	*folders = calloc(n > 0 ? (size_t)n : 1, sizeof **folders);
	for (i = 0; i < n; i++) {
		char path[PATH_BYTES];
		struct stat st;

		snprintf(path, sizeof path, "%s/%s/array.json", top, entry[i]->d_name);
		if (*folders && !stat(path, &st)) {
			path[strlen(path) - strlen("/array.json")] = '\0';
			(*folders)[count++] = strdup(path);
		}
		free(entry[i]);
	}
	if (n >= 0) {
		free(entry);
	}
	return count;
}

const char *golden_top(void)
{
	const char *dir = getenv("GOLDEN_DIR");

	return dir && dir[0] ? dir : "raid/tests/golden";
}

int golden_run(const char *group, void (*test)(void **state))
{
	char **folders;
	uint32_t n = golden_list(golden_top(), &folders), i;
	struct CMUnitTest *tests = calloc(n + 1, sizeof *tests);
	int failed;

	if (!n || !tests) {
		fprintf(stderr, "no golden arrays in %s\n", golden_top());
		return 1;
	}
	for (i = 0; i < n; i++) {
		tests[i] = (struct CMUnitTest){
			.name = strrchr(folders[i], '/') + 1,
			.test_func = test,
			.initial_state = folders[i],
		};
	}
	failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
	for (i = 0; i < n; i++) {
		free(folders[i]);
	}
	free(folders);
	free(tests);
	return failed;
}
