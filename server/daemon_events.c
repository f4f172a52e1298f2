/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon_events.h"

#include <stdio.h>
#include <string.h>

#include "server/admin.h"
#include "server/daemon_internal.h"
#include "server/daemon_spares.h"
#include "server/log.h"

/* ---- the log ------------------------------------------------------------------------------- */

static enum log_level event_level(enum raid_event_type type)
{
	switch (type) {
	case RAID_EV_DIRTY:
	case RAID_EV_CLEAN:
		return LOG_LEVEL_DEBUG;
	case RAID_EV_READ_REPAIRED:
	case RAID_EV_MEMBER_GONE:
	case RAID_EV_MEMBER_ADDED:
	case RAID_EV_MEMBER_REMOVED:
	case RAID_EV_SPARE_ACTIVE:
	case RAID_EV_SYNC_STARTED:
	case RAID_EV_SYNC_PROGRESS:
	case RAID_EV_SYNC_FINISHED:
		return LOG_LEVEL_INFO;
	case RAID_EV_READ_ERROR:
	case RAID_EV_WRITE_ERROR:
	case RAID_EV_DEADLINE:
	case RAID_EV_SB_ERROR:
	case RAID_EV_MISMATCH:
	case RAID_EV_BAD_BLOCK:
		return LOG_LEVEL_WARNING;
	case RAID_EV_MEMBER_FAILED:
	case RAID_EV_LAST_COPY_ERROR:
	case RAID_EV_FLUSH_LOST:
	case RAID_EV_READ_ONLY:
	case RAID_EV_BITMAP_ERROR:
	case RAID_EV_ROW_INCONSISTENT:
		break;
	}
	return LOG_LEVEL_ERROR;
}

static bool happens_once(enum raid_event_type type)
{
	return type == RAID_EV_MEMBER_FAILED || type == RAID_EV_MEMBER_GONE ||
	       type == RAID_EV_FLUSH_LOST || type == RAID_EV_READ_ONLY;
}

static void log_event(const struct array_instance *ai, const struct raid_event *ev)
{
	void (*say)(enum log_level level, const char *fmt, ...);
	const char *path = ev->member < ai->members ? ai->member[ev->member].path : NULL;
	char where[96] = "";

	if (ev->type == RAID_EV_SYNC_PROGRESS) {
		snprintf(where, sizeof where, " percent=%llu", (unsigned long long)ev->len);
	} else if (ev->type == RAID_EV_SYNC_FINISHED && ev->len) {
		snprintf(where, sizeof where, " mismatched_sectors=%llu",
			 (unsigned long long)ev->len);
	} else if (ev->len) {
		snprintf(where, sizeof where, " offset=%llu length=%llu",
			 (unsigned long long)ev->maddr, (unsigned long long)ev->len);
	}
	/* A failing disk can say this often, so it is limited as a hostile peer is; what happens
	 * once to a member or an array must not drown in it. */
	say = happens_once(ev->type) ? log_write : log_limited;
	say(event_level(ev->type), "%s array=%s%s%s%s%s%s%s%s%s", raid_event_name(ev->type),
	    ai->name, path ? " member=" : "", path ? path : "", where, ev->err ? " error=\"" : "",
	    ev->err ? strerror(-ev->err) : "", ev->err ? "\"" : "", ev->why ? ": " : "",
	    ev->why ? ev->why : "");
}

/* ---- what is remembered -------------------------------------------------------------------- */

static void remember_mismatch(struct served *s, const struct raid_event *ev)
{
	if (s->mismatches == SERVED_MISMATCHES_MAX) {
		s->mismatches_unlisted++;
		return;
	}
	s->mismatch[s->mismatches++] = (struct mismatch){ev->maddr, ev->len, ev->member};
}

static void remember(struct served *s, const struct raid_event *ev)
{
	const uint32_t m = ev->member;

	switch (ev->type) {
	case RAID_EV_MEMBER_ADDED:
		s->seen[m] = RAID_MEMBER_SPARE;
		break;
	case RAID_EV_SPARE_ACTIVE:
		s->seen[m] = RAID_MEMBER_IN_SYNC;
		break;
	case RAID_EV_MEMBER_FAILED:
		s->seen[m] = RAID_MEMBER_FAULTY;
		s->refused_bytes = 0;
		break;
	case RAID_EV_MISMATCH:
		remember_mismatch(s, ev);
		break;
	case RAID_EV_SYNC_STARTED:
		if (ev->why && (!strcmp(ev->why, "check") || !strcmp(ev->why, "repair"))) {
			s->mismatches = 0;
			s->mismatches_unlisted = 0;
		}
		break;
	default:
		break;
	}
}

static bool moves_spares(enum raid_event_type type)
{
	return type == RAID_EV_MEMBER_FAILED || type == RAID_EV_MEMBER_ADDED ||
	       type == RAID_EV_MEMBER_REMOVED || type == RAID_EV_SPARE_ACTIVE;
}

void events_raid(void *ctx, const struct array_instance *ai, const struct raid_event *ev)
{
	struct daemon *d = ctx;
	struct served *s = arrays_of(&d->arrays, ai);

	log_event(ai, ev);
	if (!s) {
		return;
	}
	admin_monitor_event(d, s, ev);
	remember(s, ev);
	if (moves_spares(ev->type)) {
		spares_look(d);
	}
}

void events_dropped(void *ctx, uint64_t events)
{
	log_limited(LOG_LEVEL_WARNING, "events of arrays were dropped count=%llu",
		    (unsigned long long)events);
}
