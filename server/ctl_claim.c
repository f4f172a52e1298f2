/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl claim: write the `ARRAY <ignore> UUID=…` line into mdadm.conf, so that neither boot
 * nor udev gives the array to the kernel while we serve it. Everything else in the file stays as it
 * is; the new file replaces the old one in one step. Claiming twice changes nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/ctl_common.h"

enum { CONF_MAX_BYTES = 4 << 20, CLAIMS_MAX = 64 };

enum claim_state { CLAIM_NEW, CLAIM_THERE, CLAIM_TAKEN };

struct claim {
	uint8_t uuid[16];
	enum claim_state state;
	int line; /* of what is there */
};

/* ---- what the file says ---------------------------------------------------------------------- */

/* Next word of a logical line: quotes are part of words and dropped, as mdadm reads them. */
static const char *next_word(const char *p, char *word, size_t size)
{
	size_t n = 0;
	char quote = '\0';

	while (*p == ' ' || *p == '\t') {
		p++;
	}
	for (; *p && *p != '\n' && (quote || (*p != ' ' && *p != '\t')); p++) {
		if (quote ? *p == quote : *p == '"' || *p == '\'') {
			quote = quote ? '\0' : *p;
		} else if (n + 1 < size) {
			word[n++] = *p;
		}
	}
	word[n] = '\0';
	return p;
}

/* mdadm takes keywords cut to three letters, in any case. */
static bool is_array_keyword(const char *word)
{
	size_t n = strlen(word);

	return n >= 3 && n <= 5 && strncasecmp(word, "array", n) == 0;
}

/* One ARRAY line (with its continuation lines joined): does it speak of a claimed uuid? */
static void match_line(const char *text, int line, struct claim *claims, int count)
{
	char word[256];
	uint8_t uuid[16];
	bool have_uuid = false, ignored = false;
	const char *p = next_word(text, word, sizeof word);

	if (!is_array_keyword(word)) {
		return;
	}
	for (;;) {
		p = next_word(p, word, sizeof word);
		if (!word[0] || word[0] == '#') {
			break;
		}
		if (strcmp(word, "<ignore>") == 0) {
			ignored = true;
		} else if (strncasecmp(word, "uuid=", 5) == 0) {
			have_uuid = sb_uuid_parse(word + 5, uuid) == 0;
		}
	}
	for (int i = 0; have_uuid && i < count; i++) {
		if (memcmp(uuid, claims[i].uuid, sizeof uuid) == 0 &&
		    claims[i].state != CLAIM_TAKEN) {
			claims[i].state = ignored ? CLAIM_THERE : CLAIM_TAKEN;
			claims[i].line = line;
		}
	}
}

/* A line that begins with white space goes on with the one before it. */
static int read_conf(const char *conf, struct claim *claims, int count)
{
	char *joined = strdup(conf), *line = joined;
	int number = 1, next = 1;

	if (!joined) {
		return -ENOMEM;
	}
	while (*line) {
		char *end = strchr(line, '\n');

		number = next++;
		while (end && (end[1] == ' ' || end[1] == '\t')) {
			*end = ' ';
			end = strchr(end, '\n');
			next++;
		}
		if (end) {
			*end = '\0';
		}
		match_line(line, number, claims, count);
		if (!end) {
			break;
		}
		line = end + 1;
	}
	free(joined);
	return 0;
}

/* Whole file as a string, empty if there is none; NULL after saying why. */
static char *load(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	char *text;
	ssize_t n = 1;

	if (fd < 0 && errno == ENOENT) {
		st->st_mode = 0644;
		st->st_uid = geteuid();
		st->st_gid = getegid();
		return strdup("");
	}
	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || st->st_size > CONF_MAX_BYTES) {
		ctl_refused("cannot read %s%s%s", path, fd < 0 ? ": " : "",
			    fd < 0 ? strerror(errno) : " as a configuration file");
		if (fd >= 0) {
			close(fd);
		}
		return NULL;
	}
	text = malloc((size_t)st->st_size + 1);
	while (text && n > 0 && have < (size_t)st->st_size) {
		n = read(fd, text + have, (size_t)st->st_size - have);
		have += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	if (!text || n < 0) {
		ctl_refused("cannot read %s", path);
		free(text);
		return NULL;
	}
	text[have] = '\0';
	return text;
}

/* ---- writing it ------------------------------------------------------------------------------ */

static void put_claims(FILE *f, const char *old, const struct claim *claims, int count)
{
	size_t n = strlen(old);
	char uuid[37];

	fwrite(old, 1, n, f);
	if (n && old[n - 1] != '\n') {
		fputc('\n', f);
	}
	fputs("# served by nbd-raidd: the kernel must leave it alone\n", f);
	for (int i = 0; i < count; i++) {
		if (claims[i].state == CLAIM_NEW) {
			fprintf(f, "ARRAY <ignore> UUID=%s\n", sb_uuid_text(claims[i].uuid, uuid));
		}
	}
}

static void sync_dir(const char *path)
{
	char copy[PATH_MAX];
	int fd;

	snprintf(copy, sizeof copy, "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

static int replace(const char *path, const char *old, const struct stat *st,
		   const struct claim *claims, int count)
{
	char tmp[PATH_MAX];
	FILE *f;
	int fd;

	if ((size_t)snprintf(tmp, sizeof tmp, "%s.XXXXXX", path) >= sizeof tmp) {
		return -ENAMETOOLONG;
	}
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	f = fdopen(fd, "w");
	if (!f) {
		int err = errno;

		close(fd);
		unlink(tmp);
		return -err;
	}
	put_claims(f, old, claims, count);
	if (fchmod(fd, st->st_mode & 07777) < 0 ||
	    (fchown(fd, st->st_uid, st->st_gid) < 0 && geteuid() == 0) || fflush(f) != 0 ||
	    fsync(fd) < 0 || rename(tmp, path) < 0) {
		int err = errno;

		fclose(f);
		unlink(tmp);
		return -err;
	}
	fclose(f);
	sync_dir(path);
	return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A uuid, or a member that carries it. */
static bool uuid_of(const char *arg, uint8_t uuid[16])
{
	struct device_options opt = {.unlocked = true};
	struct asm_candidate *cand;
	struct member_dev dev;
	char why[RAID_WHY_BYTES];
	bool ok = false;

	if (sb_uuid_parse(arg, uuid) == 0) {
		return true;
	}
	cand = calloc(1, sizeof *cand);
	if (!cand || device_open(arg, &opt, &dev, why) < 0) {
		ctl_refused("%s (and it is no uuid)", cand ? why : "out of memory");
		free(cand);
		return false;
	}
	device_candidate(&dev, cand);
	if (cand->load_err) {
		ctl_refused("%s: %s", arg, cand->why);
	} else {
		memcpy(uuid, cand->sb.set_uuid, 16);
		ok = true;
	}
	device_close(&dev);
	free(cand);
	return ok;
}

static int collect(char **args, int n, struct claim *claims, int *count)
{
	*count = 0;
	for (int i = 0; i < n; i++) {
		struct claim *c = &claims[*count];
		int k = 0;

		if (!uuid_of(args[i], c->uuid)) {
			return CTL_REFUSED;
		}
		c->state = CLAIM_NEW;
		while (memcmp(claims[k].uuid, c->uuid, sizeof c->uuid) != 0) {
			k++;
		}
		*count += k == *count; /* members of one array are one claim */
	}
	return CTL_OK;
}

static int claim_in(const char *conf, struct claim *claims, int count, bool say)
{
	struct stat st;
	char real[PATH_MAX];
	/* through a symbolic link the file itself is replaced, not the link */
	const char *path = realpath(conf, real) ? real : conf;
	char *old = load(path, &st), uuid[37];
	int rc, fresh = 0;

	if (!old) {
		return CTL_REFUSED;
	}
	rc = read_conf(old, claims, count);
	for (int i = 0; i < count && rc == 0; i++) {
		if (claims[i].state == CLAIM_TAKEN) {
			free(old);
			return ctl_refused("%s line %d gives array %s to the kernel; remove that "
					   "line first",
					   path, claims[i].line,
					   sb_uuid_text(claims[i].uuid, uuid));
		}
		fresh += claims[i].state == CLAIM_NEW;
	}
	if (rc == 0 && fresh) {
		rc = replace(path, old, &st, claims, count);
	}
	free(old);
	if (rc < 0) {
		return ctl_refused("cannot write %s: %s", path, strerror(-rc));
	}
	for (int i = 0; say && i < count; i++) {
		printf("%s: %s\n", sb_uuid_text(claims[i].uuid, uuid),
		       claims[i].state == CLAIM_THERE ? "claimed before" : "claimed");
	}
	if (say && fresh && strncmp(path, "/etc/", 5) == 0) {
		printf("%s is copied into the initramfs: run `update-initramfs -u` so that it "
		       "holds at boot too\n",
		       path);
	}
	return CTL_OK;
}

int ctl_claim_uuid(const char *conf, const uint8_t uuid[16], bool say)
{
	struct claim claim = {.state = CLAIM_NEW};

	memcpy(claim.uuid, uuid, sizeof claim.uuid);
	return claim_in(conf, &claim, 1, say);
}

int ctl_claim(int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, 'c'},
						{NULL, 0, NULL, 0}};
	const char *path = CTL_MDADM_CONF;
	struct claim claims[CLAIMS_MAX + 1];
	int c, count, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		if (c == '?') {
			return ctl_bad_option("claim", argv);
		}
		path = optarg;
	}
	if (optind == argc || argc - optind > CLAIMS_MAX) {
		return ctl_usage("claim", "name 1 to %d uuids or members", CLAIMS_MAX);
	}
	memset(claims, 0, sizeof claims);
	rc = collect(argv + optind, argc - optind, claims, &count);
	if (rc != CTL_OK) {
		return rc;
	}
	return claim_in(path, claims, count, true);
}
