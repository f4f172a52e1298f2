/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl inside: what the commands share. Each command is one function in its own ctl_*.c,
 * named in the table of ctl_main.c. Commands write only what they say they write, after every check
 * of every member has passed.
 *
 * Exit status: 0 done; 1 refused or failed (one line `refused: …` on stderr); 2 wrong usage.
 */
#ifndef SERVER_CTL_COMMON_H
#define SERVER_CTL_COMMON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "raid/sb.h"
#include "server/device.h"

enum ctl_exit { CTL_OK = 0, CTL_REFUSED = 1, CTL_USAGE = 2 };

enum { CTL_LOCK_WAIT_MS = 3000 }; /* long enough for udev to finish looking at a device */

#define CTL_CONTROL_PATH "/run/nbd-raidd/control"
#define CTL_MDADM_CONF	 "/etc/mdadm/mdadm.conf"

/* The commands; argv[0] is the command's own name. */
int ctl_create(int argc, char **argv);
int ctl_examine(int argc, char **argv);
int ctl_assemble(int argc, char **argv);
int ctl_status(int argc, char **argv);
int ctl_stop(int argc, char **argv);
int ctl_add(int argc, char **argv);
int ctl_readd(int argc, char **argv);
int ctl_remove(int argc, char **argv);
int ctl_fail(int argc, char **argv);
int ctl_replace(int argc, char **argv);
int ctl_check(int argc, char **argv);
int ctl_repair(int argc, char **argv);
int ctl_idle(int argc, char **argv);
int ctl_sync_speed(int argc, char **argv);
int ctl_set_bitmap(int argc, char **argv);
int ctl_self_check(int argc, char **argv);
int ctl_wait(int argc, char **argv);
int ctl_monitor(int argc, char **argv);
int ctl_claim(int argc, char **argv);
int ctl_zero_superblock(int argc, char **argv);

/* ---- saying (ctl_util.c) --------------------------------------------------------------------- */

/* One line on stderr; return CTL_REFUSED and CTL_USAGE. */
int ctl_refused(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int ctl_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What getopt_long() did not take, said by us (opterr is 0). */
int ctl_bad_option(const char *command, char **argv);

/* Print indented and free it. */
void ctl_print_json(json_t *value);

/* Text that may come from a disk or a peer: invalid UTF-8 and control characters become '?'. */
json_t *ctl_json_text(const char *text);
const char *ctl_clean_text(const char *text, char *buf, size_t size);

/* mdadm's sizes: KiB, or with a suffix s (sectors), K, M, G, T. Bytes; 0 or -EINVAL. */
int ctl_parse_size(const char *text, uint64_t *bytes);

/* " (11.00 MiB 11.53 MB)", empty below 5000 KiB, and "11.53MB": as mdadm prints sizes. */
const char *ctl_size_note(uint64_t bytes, char buf[64]);
const char *ctl_size_brief(uint64_t bytes, char buf[32]);

/* "Mon Nov 30 15:48:36 2026", local time. */
const char *ctl_time_text(uint64_t seconds, char buf[64]);

/* A line of examine: "          Label : text". */
__attribute__((format(printf, 2, 3))) void ctl_field(const char *label, const char *fmt, ...);

/* The line that keeps mdadm's hands off an array. */
void ctl_print_array_line(const uint8_t uuid[16]);

/* ---- superblocks (ctl_member.c) -------------------------------------------------------------- */

/* A superblock as found on a member, damaged ones included. */
struct ctl_found {
	struct sb_location loc;
	uint8_t raw[SB_BYTES_MAX];
	struct sb sb;		/* valid if err is 0 or -EBADMSG */
	int err;		/* 0, -EBADMSG (checksum), -EUCLEAN (see why), -EIO … */
	uint32_t csum_expected; /* v1.x with -EBADMSG */
	char why[RAID_WHY_BYTES];
};

/* All superblocks of a member (location by location), returns how many. */
uint32_t ctl_find_superblocks(const struct member_dev *dev,
			      struct ctl_found found[SB_LOCATIONS_MAX]);

/* The one that speaks for the member: the newest valid one, else a damaged one; NULL if none. */
const struct ctl_found *ctl_best_superblock(const struct ctl_found *found, uint32_t count);

/* Overwrite a superblock with zeroes. 0 or -errno. */
int ctl_wipe(const struct member_dev *dev, struct sb_location loc);

/* ---- mdadm.conf (ctl_claim.c) ---------------------------------------------------------------- */

/* Write the line that keeps mdadm away into conf; CTL_OK also if it is there. */
int ctl_claim_uuid(const char *conf, const uint8_t uuid[16], bool say);

/* ---- what examine prints (ctl_examine_*.c) --------------------------------------------------- */

struct ctl_examined {
	const struct member_dev *dev;
	const struct ctl_found *found;
	struct asm_candidate *cand; /* bad blocks */
};

/* The member's bitmap (ctl_examine_bitmap.c); false if there is none. why is set when it is damaged
 * or of a kind that is only recognised; bits and dirty are then 0. */
struct ctl_bitmap {
	struct bm_header header;
	uint64_t bits, dirty;
	char why[RAID_WHY_BYTES];
};
bool ctl_bitmap(const struct ctl_examined *e, struct ctl_bitmap *out);
json_t *ctl_bitmap_json(const struct ctl_examined *e);

void ctl_examine_v1(const struct ctl_examined *e);
void ctl_examine_v090(const struct ctl_examined *e);
json_t *ctl_examine_json(const struct ctl_examined *e);
void ctl_examine_export(const struct ctl_examined *e);

/* Array size in bytes as mdadm states it (component times data members), 0 if it does not. */
uint64_t ctl_array_bytes(const struct sb *sb);

/* "AA.A": A active, . missing, R replacing. */
const char *ctl_array_state(const struct sb *sb, char buf[SB_ROLES_MAX + 1]);

/* Layout in mdadm's words, empty where the level has none or none is recorded. */
const char *ctl_layout_text(const struct sb *sb, char buf[32]);

/* ---- the daemon (ctl_socket.c) --------------------------------------------------------------- */

/*
 * Send one request to the daemon's control socket and wait for the answer; takes the reference of
 * request. Returns the answer (also one with "ok": false), or NULL after saying why on stderr.
 */
json_t *ctl_ask(const char *control_path, json_t *request);

/* True if the answer says ok, else says the error on stderr as a refusal. */
bool ctl_answer_ok(const json_t *answer);

/* The daemon's status; NULL after saying why there is none. */
json_t *ctl_ask_status(const char *control_path);

/*
 * A connection on which more than one line comes. ctl_open() sends the request (and takes its
 * reference); NULL after saying why not. ctl_next() waits for the next line, as long as it takes
 * with wait_ms -1; NULL: none came, or not JSON, or the daemon has ended.
 */
struct ctl_stream;
struct ctl_stream *ctl_open(const char *control_path, json_t *request);
json_t *ctl_next(struct ctl_stream *s, int wait_ms);
void ctl_close(struct ctl_stream *s);

/* ---- reading answers (ctl_util.c) ------------------------------------------------------------ */

/* Members of an object that may lack them, or have them of another type: "-", 0, false then. */
const char *ctl_text(const json_t *o, const char *key);
unsigned long long ctl_number(const json_t *o, const char *key);
bool ctl_truth(const json_t *o, const char *key);

/* Does an array answer the question whether it is meant? names ends with NULL; none: all are. */
bool ctl_is_meant(const json_t *array, char *const *names);

/* ---- showing (ctl_detail.c) ------------------------------------------------------------------ */

/* "rebuild: 12.3 %, 98.7 MB/s, 0:12:34 left"; false: nothing is under way or to come. */
bool ctl_sync_text(const json_t *sync, char buf[64]);
void ctl_print_detail(const json_t *array);

/* ---- waiting (ctl_wait.c) -------------------------------------------------------------------- */

/* Until no check, repair, resync … of these arrays is under way; then says what was found. */
int ctl_wait_for_scrub(const char *control_path, char *const *names);

#endif
