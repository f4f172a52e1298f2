/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups first, the user last: afterwards there is no right left to change anything. glibc makes
 * the change in every thread; the kernel clears the capabilities with the last root id.
 */
#include "server/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raid/why.h"

static bool parse_id(const char *text, id_t *out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || v >= UINT32_MAX) {
		return false;
	}
	*out = (id_t)v;
	return true;
}

static int resolve_user(const char *user, struct privileges *out, char why[RAID_WHY_BYTES])
{
	const struct passwd *pw = getpwnam(user);
	id_t id;

	if (!pw && parse_id(user, &id)) {
		out->uid = id;
		pw = getpwuid(id);
	} else if (!pw) {
		return why_set(why, -ENOENT, "user '%s' is not known", user);
	}
	if (pw) {
		out->uid = pw->pw_uid;
		out->gid = pw->pw_gid;
		out->name = strdup(pw->pw_name);
		if (!out->name) {
			return why_set(why, -ENOMEM, "out of memory");
		}
	}
	return 0;
}

static int resolve_group(const char *group, struct privileges *out, char why[RAID_WHY_BYTES])
{
	const struct group *gr = getgrnam(group);
	id_t id;

	if (gr) {
		out->gid = gr->gr_gid;
	} else if (parse_id(group, &id)) {
		out->gid = id;
	} else {
		return why_set(why, -ENOENT, "group '%s' is not known", group);
	}
	return 0;
}

int privileges_resolve(const char *user, const char *group, struct privileges *out,
		       char why[RAID_WHY_BYTES])
{
	int err = 0;

	*out = (struct privileges){.uid = getuid(), .gid = getgid()};
	if (user) {
		err = resolve_user(user, out, why);
	}
	if (!err && group) {
		err = resolve_group(group, out, why);
	}
	if (err) {
		return err;
	}
	out->change = out->uid != getuid() || out->gid != getgid();
	if (out->change && geteuid() != 0) {
		return why_set(why, -EPERM, "only root can become another user or group");
	}
	return 0;
}

void privileges_release(struct privileges *p)
{
	free(p->name);
	p->name = NULL;
}

int privileges_drop(const struct privileges *p, char why[RAID_WHY_BYTES])
{
	if (!p->change) {
		return 0;
	}
	if ((p->name ? initgroups(p->name, p->gid) : setgroups(0, NULL)) < 0 ||
	    setresgid(p->gid, p->gid, p->gid) < 0 || setresuid(p->uid, p->uid, p->uid) < 0) {
		return why_set(why, -errno, "cannot become user %u, group %u: %s", p->uid, p->gid,
			       strerror(errno));
	}
	if (p->uid != 0 && setuid(0) == 0) {
		return why_set(why, -EPERM, "root was not given up");
	}
	return 0;
}
