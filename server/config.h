/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon is told to do, as one value: built either from a configuration file (config_file)
 * or from the command line (cmdline), checked as a whole by config_finish(), never changed after
 * that. Pure: nothing here opens or looks at a file.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "raid/geometry.h"
#include "raid/raid.h"
#include "raid/types.h"
#include "server/access.h"
#include "server/device.h"
#include "server/log.h"

enum {
	CONFIG_LOOPS_MAX = 64,
	CONFIG_CONNECTIONS_MAX = 100000,
	CONFIG_LISTEN_MAX = 64,
};

#define CONFIG_FILE_DEFAULT    "/etc/nbd-raidd.conf"
#define CONFIG_CONTROL_DEFAULT "/run/nbd-raidd/control"

struct config_array {
	char *name;
	char **member;
	uint32_t members; /* 0: those block devices that carry uuid */
	bool have_uuid;
	uint8_t uuid[16];
	bool read_only, force;
	bool readd;	     /* members that were away come back at the start */
	bool force_write;    /* somebody said force for this start; no setting of the file does */
	bool volatile_cache; /* for tests: see member_dev */
	enum device_direct direct;
	enum geo_raid0_layout raid0_layout;

	char **spare; /* devices that become spares of it, whatever is on them or not */
	uint32_t spares;
	char *spare_group; /* arrays of one group share their spares; NULL: none */
	uint64_t sync_min_bps, sync_max_bps; /* 0: as config_limits say */

	/* Members without superblocks, as mdadm --build. */
	bool build;
	enum raid_level level;
	bool have_layout;
	uint32_t layout;
	uint64_t chunk_bytes, offset_bytes; /* 0: default, none */
};

struct config_export {
	char *name, *array;
	char *description; /* NULL: made from the array */
	bool read_only, is_default;
	bool restricted; /* only to peers that a rule fits */
	struct access_rule *allow;
	uint32_t allows;
	uint32_t connections; /* sessions at once, 0: no limit of its own */
};

struct config_limits {
	uint32_t connections;		     /* sessions, handshakes included */
	uint32_t handshake_ms;		     /* deadline of a handshake */
	uint32_t drain_ms;		     /* how long a stop waits for requests in flight */
	uint32_t depth_max;		     /* requests in flight of one session */
	uint64_t payload_bytes, large_bytes; /* of one loop: see loop_config */
	struct raid_limits raid;	     /* of one array */
};

struct config {
	struct config_array *array;
	uint32_t arrays;
	struct config_export *export; /* after config_finish(): every array has at least one */
	uint32_t exports;
	char **listen; /* "ADDR:PORT" or "unix:PATH" */
	uint32_t listens;
	mode_t socket_mode; /* of unix listeners */
	uint32_t loops;
	bool list;     /* LIST is answered */
	char *control; /* path of the control socket, NULL: none */
	char *metrics; /* "ADDR:PORT" or "unix:PATH" of the metrics, NULL: none */
	char *pid_file;
	char *user, *group; /* to run as, once everything is open; NULL: as started */
	enum log_level log_level;
	struct config_limits limits;
};

/* Defaults and no arrays. */
void config_init(struct config *c);
void config_release(struct config *c);

/* The new element, zero but for its name and defaults, or NULL without memory. */
struct config_array *config_add_array(struct config *c, const char *name);
struct config_export *config_add_export(struct config *c, const char *name, const char *array);

/* What a holds, not a itself. */
void config_array_release(struct config_array *a);

/* 0 or -ENOMEM. */
int config_add_member(struct config_array *a, const char *path);
int config_add_spare(struct config_array *a, const char *path);
int config_add_rule(struct config_export *e, const struct access_rule *rule);
int config_add_listen(struct config *c, const char *address);
int config_set_text(char **field, const char *text);

/*
 * Values as users write them; each fills *out and returns 0, or -EINVAL with the reason in why.
 * Sizes: a number with an optional K, M, G or T (of 1024).
 */
int config_parse_size(const char *text, uint64_t *out, char why[RAID_WHY_BYTES]);
int config_parse_number(const char *text, uint32_t min, uint32_t max, uint32_t *out,
			char why[RAID_WHY_BYTES]);
int config_parse_direct(const char *text, enum device_direct *out, char why[RAID_WHY_BYTES]);
int config_parse_uuid(const char *text, uint8_t out[16], char why[RAID_WHY_BYTES]);
int config_parse_mode(const char *text, mode_t *out, char why[RAID_WHY_BYTES]);
int config_check_name(const char *name, char why[RAID_WHY_BYTES]);

/*
 * The rules that need the whole: names are unique, exports name arrays that exist, one default at
 * most, no member twice. Adds an export of the same name for every array that has none.
 * 0, or -EINVAL/-ENOMEM with one line in why.
 */
int config_finish(struct config *c, char why[RAID_WHY_BYTES]);

/*
 * Parse the text of a configuration file (conf/nbd-raidd.conf(5)) into an initialised c; file is
 * its name for messages. 0, or -EINVAL with "FILE:LINE: …" in why: the first thing that is wrong.
 * config_finish() is the caller's.
 */
int config_parse(struct config *c, const char *file, const char *text, char why[RAID_WHY_BYTES]);

/* config_parse() of a file's content. Also -errno of reading it. */
int config_read(struct config *c, const char *path, char why[RAID_WHY_BYTES]);

#endif
