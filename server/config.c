/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration as a value: its defaults, how it grows, how single values are read, and the
 * rules that need all of it. Where the words come from is not known here.
 */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raid/why.h"
#include "server/utf8.h"
#include "server/wire.h"

void config_init(struct config *c)
{
	*c = (struct config){
		.socket_mode = 0660,
		.loops = 1,
		.list = true,
		.log_level = LOG_LEVEL_INFO,
		.limits =
			{
				.connections = 1024,
				.handshake_ms = 10000,
				.drain_ms = 10000,
				.depth_max = 256,
				.payload_bytes = 64 << 20,
				.large_bytes = 128 << 20,
				.raid = RAID_LIMITS_DEFAULT,
			},
	};
}

static void strings_free(char **item, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		free(item[i]);
	}
	free(item);
}

void config_array_release(struct config_array *a)
{
	free(a->name);
	strings_free(a->member, a->members);
	strings_free(a->spare, a->spares);
	free(a->spare_group);
}

void config_release(struct config *c)
{
	for (uint32_t i = 0; i < c->arrays; i++) {
		config_array_release(&c->array[i]);
	}
	for (uint32_t i = 0; i < c->exports; i++) {
		free(c->export[i].name);
		free(c->export[i].array);
		free(c->export[i].description);
		free(c->export[i].allow);
	}
	free(c->array);
	free(c->export);
	strings_free(c->listen, c->listens);
	free(c->control);
	free(c->metrics);
	free(c->pid_file);
	free(c->user);
	free(c->group);
	memset(c, 0, sizeof *c);
}

struct config_array *config_add_array(struct config *c, const char *name)
{
	struct config_array *grown = reallocarray(c->array, c->arrays + 1, sizeof *grown);
	struct config_array *a;

	if (!grown) {
		return NULL;
	}
	c->array = grown;
	a = &grown[c->arrays];
	*a = (struct config_array){.readd = true};
	a->name = strdup(name);
	if (!a->name) {
		return NULL;
	}
	c->arrays++;
	return a;
}

struct config_export *config_add_export(struct config *c, const char *name, const char *array)
{
	struct config_export *grown = reallocarray(c->export, c->exports + 1, sizeof *grown);
	struct config_export *e;

	if (!grown) {
		return NULL;
	}
	c->export = grown;
	e = &grown[c->exports];
	memset(e, 0, sizeof *e);
	e->name = strdup(name);
	e->array = strdup(array);
	if (!e->name || !e->array) {
		free(e->name);
		free(e->array);
		return NULL;
	}
	c->exports++;
	return e;
}

static int add_string(char ***list, uint32_t *count, const char *text)
{
	char **grown = reallocarray(*list, *count + 1, sizeof *grown);

	if (!grown) {
		return -ENOMEM;
	}
	*list = grown;
	grown[*count] = strdup(text);
	if (!grown[*count]) {
		return -ENOMEM;
	}
	++*count;
	return 0;
}

int config_add_member(struct config_array *a, const char *path)
{
	return add_string(&a->member, &a->members, path);
}

int config_add_spare(struct config_array *a, const char *path)
{
	return add_string(&a->spare, &a->spares, path);
}

int config_add_rule(struct config_export *e, const struct access_rule *rule)
{
	struct access_rule *grown = reallocarray(e->allow, e->allows + 1, sizeof *grown);

	if (!grown) {
		return -ENOMEM;
	}
	e->allow = grown;
	grown[e->allows++] = *rule;
	return 0;
}

int config_add_listen(struct config *c, const char *address)
{
	return add_string(&c->listen, &c->listens, address);
}

int config_set_text(char **field, const char *text)
{
	char *copy = strdup(text);

	if (!copy) {
		return -ENOMEM;
	}
	free(*field);
	*field = copy;
	return 0;
}

/* ---- single values ------------------------------------------------------------------------- */

int config_parse_size(const char *text, uint64_t *out, char why[RAID_WHY_BYTES])
{
	static const char units[] = "KMGT";
	unsigned long long v;
	const char *unit;
	char *end;
	int shift = 0;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || errno) {
		return why_set(why, -EINVAL, "'%s' is not a size: a number with K, M, G or T",
			       text);
	}
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit || end[1]) {
			return why_set(why, -EINVAL,
				       "'%s' is not a size: a number with K, M, G or T", text);
		}
		shift = 10 * (int)(unit - units + 1);
	}
	if (v > (uint64_t)INT64_MAX >> shift) {
		return why_set(why, -EINVAL, "'%s' is too large", text);
	}
	*out = (uint64_t)v << shift;
	return 0;
}

int config_parse_number(const char *text, uint32_t min, uint32_t max, uint32_t *out,
			char why[RAID_WHY_BYTES])
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || errno || *end || v < min || v > max) {
		return why_set(why, -EINVAL, "'%s' is not a number from %u to %u", text, min, max);
	}
	*out = (uint32_t)v;
	return 0;
}

int config_parse_direct(const char *text, enum device_direct *out, char why[RAID_WHY_BYTES])
{
	static const char *const words[] = {
		[DEVICE_DIRECT_AUTO] = "auto",
		[DEVICE_DIRECT_ON] = "on",
		[DEVICE_DIRECT_OFF] = "off",
	};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (!strcmp(text, words[i])) {
			*out = (enum device_direct)i;
			return 0;
		}
	}
	return why_set(why, -EINVAL, "'%s' is not one of on, off, auto", text);
}

int config_parse_uuid(const char *text, uint8_t out[16], char why[RAID_WHY_BYTES])
{
	uint32_t nibbles = 0;

	memset(out, 0, 16);
	for (const char *p = text; *p; p++) {
		int digit;

		if (*p == '-' || *p == ':') {
			continue;
		}
		if (!isxdigit((unsigned char)*p) || nibbles == 32) {
			nibbles = 0;
			break;
		}
		digit = isdigit((unsigned char)*p) ? *p - '0'
						   : tolower((unsigned char)*p) - 'a' + 10;
		out[nibbles / 2] |= (uint8_t)(digit << (nibbles % 2 ? 0 : 4));
		nibbles++;
	}
	if (nibbles != 32) {
		return why_set(why, -EINVAL, "'%s' is not a UUID of 32 hexadecimal digits", text);
	}
	return 0;
}

int config_parse_mode(const char *text, mode_t *out, char why[RAID_WHY_BYTES])
{
	char *end;
	unsigned long v = strtoul(text, &end, 8);

	if (!isdigit((unsigned char)text[0]) || *end || v > 0777) {
		return why_set(why, -EINVAL, "'%s' is not an octal mode up to 0777", text);
	}
	*out = (mode_t)v;
	return 0;
}

int config_check_name(const char *name, char why[RAID_WHY_BYTES])
{
	if (strlen(name) > NBD_NAME_MAX) {
		return why_set(why, -EINVAL, "a name has at most %d bytes", NBD_NAME_MAX);
	}
	if (!utf8_valid(name, strlen(name))) {
		return why_set(why, -EINVAL, "a name must be UTF-8");
	}
	return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* What an array is to do while it runs. */
static int check_wishes(const struct config *c, const struct config_array *a,
			char why[RAID_WHY_BYTES])
{
	const struct raid_limits *l = &c->limits.raid;
	uint64_t min_bps = a->sync_min_bps ? a->sync_min_bps : l->sync_min_bps;
	uint64_t max_bps = a->sync_max_bps ? a->sync_max_bps : l->sync_max_bps;

	if ((a->spares || a->spare_group) && (a->build || a->read_only)) {
		return why_set(why, -EINVAL,
			       "array '%s' is %s: it takes no spares and has no spare-group",
			       a->name, a->build ? "without metadata" : "read-only");
	}
	if (max_bps && min_bps > max_bps) {
		return why_set(why, -EINVAL, "array '%s': sync-min is more than sync-max", a->name);
	}
	return 0;
}

static int check_array(const struct config *c, uint32_t index, char why[RAID_WHY_BYTES])
{
	const struct config_array *a = &c->array[index];

	if (!a->name[0]) {
		return why_set(why, -EINVAL, "an array has no name");
	}
	if (config_check_name(a->name, why)) {
		return -EINVAL;
	}
	if (!a->members && (!a->have_uuid || a->build)) {
		return why_set(why, -EINVAL, "array '%s' has no members%s", a->name,
			       a->build ? "" : " and no uuid");
	}
	if (a->members > RAID_MEMBERS_MAX) {
		return why_set(why, -EINVAL, "array '%s' has %u members; at most %d are possible",
			       a->name, a->members, RAID_MEMBERS_MAX);
	}
	for (uint32_t i = 0; i < index; i++) {
		if (!strcmp(c->array[i].name, a->name)) {
			return why_set(why, -EINVAL, "two arrays are named '%s'", a->name);
		}
	}
	for (uint32_t i = 0; i < a->members + a->spares; i++) {
		const char *path = i < a->members ? a->member[i] : a->spare[i - a->members];

		if (!path[0]) {
			return why_set(why, -EINVAL, "array '%s' has a member without a name",
				       a->name);
		}
	}
	return check_wishes(c, a, why);
}

static bool array_known(const struct config *c, const char *name)
{
	for (uint32_t i = 0; i < c->arrays; i++) {
		if (!strcmp(c->array[i].name, name)) {
			return true;
		}
	}
	return false;
}

static int check_export(const struct config *c, uint32_t index, char why[RAID_WHY_BYTES])
{
	const struct config_export *e = &c->export[index];

	if (config_check_name(e->name, why)) {
		return -EINVAL;
	}
	if (!array_known(c, e->array)) {
		return why_set(why, -EINVAL, "export '%s' names the array '%s', which is not there",
			       e->name, e->array);
	}
	for (uint32_t i = 0; i < index; i++) {
		if (!strcmp(c->export[i].name, e->name)) {
			return why_set(why, -EINVAL, "two exports are named '%s'", e->name);
		}
		if (c->export[i].is_default && e->is_default) {
			return why_set(why, -EINVAL, "exports '%s' and '%s' are both the default",
				       c->export[i].name, e->name);
		}
	}
	return 0;
}

static bool is_exported(const struct config *c, const char *array)
{
	for (uint32_t i = 0; i < c->exports; i++) {
		if (!strcmp(c->export[i].array, array)) {
			return true;
		}
	}
	return false;
}

int config_finish(struct config *c, char why[RAID_WHY_BYTES])
{
	for (uint32_t i = 0; i < c->arrays; i++) {
		if (check_array(c, i, why)) {
			return -EINVAL;
		}
		if (!is_exported(c, c->array[i].name) &&
		    !config_add_export(c, c->array[i].name, c->array[i].name)) {
			return why_set(why, -ENOMEM, "out of memory");
		}
	}
	for (uint32_t i = 0; i < c->exports; i++) {
		if (check_export(c, i, why)) {
			return -EINVAL;
		}
	}
	return 0;
}
