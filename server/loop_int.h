/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a loop, for its own files: loop.c (the thread and its turn), loop_array.c (arrays,
 * and what crosses between loops), loop_session.c (its connections), loop_mail.c (calls from other
 * threads).
 *
 * Who may touch what: everything here belongs to the loop's own thread, except what is marked
 * "shared". Before the thread runs it belongs to the caller of loop_create/loop_add_array.
 */
#ifndef SERVER_LOOP_INT_H
#define SERVER_LOOP_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/bufs.h"
#include "server/conn.h"
#include "server/export.h"
#include "server/handoff.h"
#include "server/loop.h"
#include "server/member_io.h"
#include "server/ring.h"
#include "server/xring.h"

enum {
	LOOP_REQUESTS = 16384,	     /* request objects of a loop */
	LOOP_READ_BYTES = 256 << 10, /* of one READ fragment */
	LOOP_EVENTS = 256,	     /* reaped at a time */
};

/* ---- arrays -------------------------------------------------------------------------------- */

enum xmsg_kind {
	XMSG_SUBMIT,  /* to the array's loop: a fragment */
	XMSG_RELEASE, /* … a READ whose data has been used */
	XMSG_DONE,    /* to the connection's loop */
	XMSG_FREED,
};

/* An array as one loop's sessions reach it. The owner's thread touches only the rings. */
struct array_link {
	struct loop_array *array;
	struct loop *loop; /* whose sessions */
	struct conn_port port;
	struct list link; /* of loop->links, once a session has come */
	struct tx_frag *frags;
	/* Shared, unless loop owns the array. Credits bound both: a fragment is on its way to the
	 * owner at most once at a time, and back as DONE and FREED. */
	struct xring to_owner, to_loop;
};

struct loop_array {
	struct list link; /* of owner->arrays */
	struct loop *owner;
	struct array_instance *ai;
	struct raid_array *raid;
	struct member_port *ports; /* RAID_MEMBERS_MAX of them, most without a device */
	bool input;		   /* since the last step */
	bool abandoned;		   /* removed while a member still holds I/O: its memory stays */
	uint64_t undone;	   /* fragments whose answer, or READ data, is still out */
	uint64_t unfreed;	   /* … that the engine may still name */
	uint64_t ios;		   /* that the ring has */
	struct list stops;	   /* raid_cmd.link: STOP that waits until undone is 0 */
	struct mail *leave;	   /* loop_remove_array() waits */
	uint32_t loops;
	struct array_link links[]; /* one for each loop */
};

/* ---- calls from other threads -------------------------------------------------------------- */

enum mail_kind {
	MAIL_HANDOFF,
	MAIL_ADD_ARRAY,
	MAIL_STATUS,
	MAIL_CONTROL,
	MAIL_ADD, /* a command too, answered a first time when the place is known */
	MAIL_CHECK,
	MAIL_DRAIN,  /* ai NULL: the whole loop */
	MAIL_FORGET, /* the sessions' side of an array */
	MAIL_REMOVE, /* the owner's side */
	MAIL_QUIT,
};

struct mail {
	struct list link;
	enum mail_kind kind;
	bool done;   /* under the loop's lock */
	bool placed; /* MAIL_ADD: place is known; likewise */
	struct handoff handoff;
	struct loop_array *array;
	const struct array_instance *ai;
	struct raid_status *status;
	struct raid_cmd *cmd;
	const struct member_port *port; /* MAIL_ADD: of the device that comes */
	uint32_t place;			/* … where the engine has put it, UINT32_MAX: nowhere */
	const char *text;
	uint64_t deadline_ns;
};

/* ---- the loop ------------------------------------------------------------------------------ */

/* loop_sched.c */
struct loop_sched {
	bool adapts; /* the policy is ours to change */
	bool batch;  /* … and is SCHED_BATCH now */
	bool may_spin;
	bool spin;	    /* in this window */
	uint32_t misses;    /* … spun for nothing */
	uint32_t rest;	    /* windows without spinning, still */
	uint32_t rest_next; /* … after the next window of misses */
	bool several;	    /* requests at once in this window */
	uint64_t requests;  /* at its beginning */
	uint64_t window_end_ns;
};

struct conn_slot {
	struct conn *conn;
	uint32_t generation, next_free;
};

struct loop {
	struct loop_config config;
	struct ring *ring;
	struct bufs bufs;
	struct conn_env env;
	struct tx_request *requests;
	struct member_io members;
	struct list arrays; /* loop_array.link */
	struct list links;  /* array_link.link: arrays whose sessions we have */
	uint64_t served;    /* env.tx.returned when waiting sessions were last served */
	struct ring_event events[LOOP_EVENTS];
	struct raid_now now;
	struct loop_sched sched;
	bool wake_armed, quit;
	bool *knock; /* for each loop: something has gone there in this turn */

	/* sessions */
	struct conn_slot *slots;
	uint32_t slot_count, first_free;
	struct list conns;
	bool draining;
	uint64_t starving_ns; /* since when a session that holds nothing finds no room */
	struct list drains;   /* mail.link */

	/* shared */
	pthread_t thread;
	bool running; /* written before sessions and commands can come */
	struct loop **peers;
	int wake_fd;
	_Atomic uint32_t posted;   /* something has been put where we look only if this is set */
	_Atomic uint32_t sleeping; /* wake_fd must be written to */
	_Atomic uint32_t hurry;
	pthread_mutex_t lock; /* for the two below and mail.done */
	pthread_cond_t answered;
	struct list mail;
	int start_err;
	char *start_why;

	/* shared, for loop_get_stats() */
	_Atomic uint64_t stat_sessions, stat_sessions_total, stat_requests, stat_read_bytes,
		stat_write_bytes, stat_errors, stat_payload_bytes, stat_large_bytes;
};

/* loop.c */
void loop_wake(struct loop *l); /* any thread: after something has been put */
struct raid_now loop_now(void);

/* loop_array.c */
int array_new(struct loop *owner, struct array_instance *ai, const struct raid_limits *limits,
	      char why[RAID_WHY_BYTES]);
void array_destroy(struct loop_array *a); /* nothing is out */
struct array_link *array_link_for(struct loop *l, const struct array_instance *ai);
void array_collect(struct loop *l, struct conn *c); /* a connection's submits and releases */
void array_forget(struct loop *l, struct loop_array *a);
void array_control(struct loop *l, struct loop_array *a, struct raid_cmd *cmd);
/* ADD: returns the place, where *port (copied) now is; UINT32_MAX: none. */
uint32_t array_add(struct loop *l, struct loop_array *a, struct raid_cmd *cmd,
		   const struct member_port *port);
void arrays_result(struct loop *l, const struct member_result *r);
void arrays_cross(struct loop *l); /* take in what came from other loops */
void arrays_step(struct loop *l);
void arrays_knock(struct loop *l);		/* wake the loops to which something has gone */
uint64_t arrays_deadline(const struct loop *l); /* 0: one has input already */
void arrays_leave(struct loop *l);		/* removals that waited */

/* loop_session.c */
void session_new(struct loop *l, const struct handoff *h);
struct conn *session_find(struct loop *l, const struct ring_user *user);
void sessions_pump(struct loop *l);    /* let the touched go on */
void sessions_collect(struct loop *l); /* … and take what that gave */
void sessions_flush(struct loop *l);
void sessions_drain(struct loop *l, struct mail *m);
uint64_t sessions_deadline(struct loop *l); /* also carries out what is due */

/* loop_sched.c */
void sched_start(struct loop *l);
void sched_turn(struct loop *l); /* after connections have been fed */
/* Before waiting for wait_ns: maybe look for an event without sleeping. Returns what is left to
 * wait; 0: there is one. */
uint64_t sched_spin(struct loop *l, uint64_t wait_ns);

/* loop_mail.c */
void mail_take(struct loop *l);
void mail_answer(struct loop *l, struct mail *m);

#endif
