/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of start and stop, and nothing else: what is done in each step belongs to the other
 * files. Until serve() nothing has been written to any member and nobody has been accepted, so a
 * start that fails before it just ends.
 */
#include "server/daemon.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

#include "raid/why.h"
#include "server/admin.h"
#include "server/background.h"
#include "server/daemon_events.h"
#include "server/daemon_internal.h"
#include "server/daemon_notice.h"
#include "server/daemon_spares.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/metrics.h"
#include "server/wire.h"

static int no_memory(char why[RAID_WHY_BYTES])
{
	return why_set(why, -ENOMEM, "out of memory");
}

/* ---- signals and notices ------------------------------------------------------------------- */

static void on_terminate(evutil_socket_t number, short what, void *arg)
{
	struct daemon *d = arg;

	if (d->state == DAEMON_SERVING) {
		daemon_stop(d, number == SIGINT ? "SIGINT" : "SIGTERM");
	} else {
		daemon_hurry(d);
	}
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
	log_warning("SIGHUP: the configuration is not reloaded; restart the daemon");
}

static void on_child(evutil_socket_t number, short what, void *arg)
{
	struct daemon *d = arg;
	int status;

	if (captive_reap(&d->captive, &status)) {
		if (d->state == DAEMON_SERVING) {
			d->status = status;
		}
		daemon_stop(d, "the command has ended");
	}
}

static void on_session_ended(void *ctx, uint64_t session, const char *why)
{
	struct daemon *d = ctx;

	sessions_ended(&d->sessions, session, why);
}

/* -s: the one session is over. */
static void on_sessions_changed(void *ctx)
{
	struct daemon *d = ctx;

	if (d->cmd->single && !d->sessions.count) {
		daemon_stop(d, "the session has ended");
	}
}

/* ---- starting ------------------------------------------------------------------------------ */

/* stdin may be a file, which epoll does not take. */
static struct event_base *make_base(bool any_file)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	if (!config) {
		return NULL;
	}
	if (any_file) {
		event_config_require_features(config, EV_FEATURE_FDS);
	}
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

static int catch_signals(struct daemon *d)
{
	static const struct {
		int number;
		event_callback_fn run;
	} wanted[] = {{SIGTERM, on_terminate},
		      {SIGINT, on_terminate},
		      {SIGHUP, on_hangup},
		      {SIGCHLD, on_child}};

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		d->signal[i] = evsignal_new(d->base, wanted[i].number, wanted[i].run, d);
		if (!d->signal[i] || event_add(d->signal[i], NULL) < 0) {
			return -ENOMEM;
		}
	}
	return 0;
}

/* Every session is a descriptor: ask for as many as are configured, as far as we may. */
static void raise_descriptor_limit(const struct config *c)
{
	const rlim_t others = 256; /* members, rings, listeners, the control socket's peers */
	rlim_t wanted = c->limits.connections + others;
	struct rlimit have;

	for (uint32_t i = 0; i < c->arrays; i++) {
		wanted += c->array[i].members;
	}
	if (getrlimit(RLIMIT_NOFILE, &have) < 0 || have.rlim_cur >= wanted) {
		return;
	}
	have.rlim_cur = have.rlim_max < wanted ? have.rlim_max : wanted;
	if (setrlimit(RLIMIT_NOFILE, &have) < 0 || have.rlim_cur < wanted) {
		log_info("%u connections are configured, but only %llu descriptors are allowed "
			 "(LimitNOFILE, ulimit -n)",
			 c->limits.connections, (unsigned long long)have.rlim_cur);
	}
}

static int create_loops(struct daemon *d, char why[RAID_WHY_BYTES])
{
	const struct config *c = &d->cmd->config;

	d->loops = calloc(c->loops, sizeof(struct loop *));
	if (!d->loops) {
		return no_memory(why);
	}
	for (; d->loop_count < c->loops; d->loop_count++) {
		const struct loop_config lc = {
			.index = d->loop_count,
			.loops = c->loops,
			.payload_bytes = c->limits.payload_bytes,
			.large_bytes = c->limits.large_bytes,
			.depth_max = c->limits.depth_max,
			.on_session_end = notices_session_end,
			.on_raid_event = notices_raid_event,
			.ctx = d->notices,
		};
		int err = loop_create(&lc, &d->loops[d->loop_count], why);

		if (err) {
			return err;
		}
	}
	return 0;
}

static int listen_default(struct daemon *d, char why[RAID_WHY_BYTES])
{
	/* Loopback only: without TLS and accounts, the network is the user's explicit word. */
	static const char *const addresses[] = {"127.0.0.1", "[::1]"};
	int err = 0;

	for (size_t i = 0; i < 2; i++) {
		char address[32];

		snprintf(address, sizeof address, "%s:%d", addresses[i], NBD_DEFAULT_PORT);
		err = listen_add(&d->listeners, address, 0, why);
		if (err && err != -EADDRNOTAVAIL && err != -EAFNOSUPPORT) {
			return err;
		}
	}
	return d->listeners.count ? 0 : err;
}

/* The control socket's default place is a folder under /run that may not be there yet. */
static void make_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash && slash != path ? strndup(path, (size_t)(slash - path)) : NULL;

	if (folder) {
		mkdir(folder, 0755); /* what is wrong with it, bind() says */
	}
	free(folder);
}

/* Bound, but nobody is accepted yet. */
static int bind_all(struct daemon *d, char why[RAID_WHY_BYTES])
{
	const struct config *c = &d->cmd->config;
	char address[128];
	int err = 0;

	if (d->cmd->run) {
		err = captive_prepare(&d->captive, why);
		if (!err) {
			snprintf(address, sizeof address, "unix:%s", d->captive.socket);
			err = listen_add(&d->listeners, address, 0600, why);
		}
	} else if (!d->cmd->single && !d->inherited) {
		for (uint32_t i = 0; !err && i < c->listens; i++) {
			err = listen_add(&d->listeners, c->listen[i], c->socket_mode, why);
		}
		if (!err && !c->listens) {
			err = listen_default(d, why);
		}
	}
	if (!err && c->control && !d->control.count) {
		make_parent(c->control);
		snprintf(address, sizeof address, "unix:%s", c->control);
		err = listen_add(&d->control, address, 0600, why);
	}
	if (!err && c->metrics) {
		char reason[RAID_WHY_BYTES];

		err = listen_add(&d->metrics_listeners, c->metrics, c->socket_mode, reason);
		if (err) {
			why_set(why, err, "metrics: %s", reason);
		}
	}
	return err;
}

static void on_accepted(void *ctx, int fd, const char *peer)
{
	struct daemon *d = ctx;
	struct access_peer who;

	listen_peer(fd, &who);
	sessions_start(&d->sessions, fd, fd, true, peer, &who);
}

/* The session of -s: its descriptors are moved away from 0 and 1, which the loop will close. */
static int start_single(struct daemon *d, char why[RAID_WHY_BYTES])
{
	int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO), type;
	socklen_t len = sizeof type;
	bool socket = !getsockopt(in, SOL_SOCKET, SO_TYPE, &type, &len);

	if (in < 0 || out < 0) {
		return why_set(why, -errno, "-s: stdin and stdout: %s", strerror(errno));
	}
	if (socket) {
		close(out);
		out = in;
	}
	sessions_start(&d->sessions, in, out, socket, "stdin",
		       &(struct access_peer){.kind = ACCESS_PARENT});
	return 0;
}

static int init_sessions(struct daemon *d)
{
	const struct config *c = &d->cmd->config;

	d->sessions.io.base = d->base;
	d->sessions.io.handshake.exports = &d->exports;
	d->sessions.io.handshake.list = c->list;
	d->sessions.io.deadline_ms = c->limits.handshake_ms;
	d->sessions.max = c->limits.connections;
	d->sessions.loops = d->loops;
	d->sessions.loop_count = d->loop_count;
	d->sessions.ended = on_sessions_changed;
	d->sessions.ctx = d;
	return sessions_init(&d->sessions);
}

/* Everything that can be refused, before anything runs. */
static int prepare(struct daemon *d, char why[RAID_WHY_BYTES])
{
	const struct notices_config nc = {
		.sessions_max = d->cmd->config.limits.connections,
		.session_ended = on_session_ended,
		.raid_event = events_raid,
		.dropped = events_dropped,
		.ctx = d,
	};
	struct notices_config with_base = nc;
	int err;

	raise_descriptor_limit(&d->cmd->config);
	d->base = make_base(d->cmd->single);
	d->patience = d->base ? daemon_patience(d) : NULL;
	with_base.base = d->base;
	d->notices = d->patience ? notices_create(&with_base) : NULL;
	if (!d->notices || catch_signals(d)) {
		return no_memory(why);
	}
	err = privileges_resolve(d->cmd->config.user, d->cmd->config.group, &d->privileges, why);
	if (err) {
		return err;
	}
	err = listen_inherit(&d->listeners, &d->control, &d->inherited, why);
	if (!err) {
		err = arrays_open(&d->arrays, &d->cmd->config, why);
	}
	if (!err) {
		err = create_loops(d, why);
	}
	if (!err) {
		err = arrays_attach(d, why);
	}
	if (!err) {
		err = bind_all(d, why);
	}
	return !err && init_sessions(d) ? no_memory(why) : err;
}

/* Everything that needs the rights we were started with is open; go on with few. */
static int drop_privileges(struct daemon *d, char why[RAID_WHY_BYTES])
{
	const char *pid_file = d->cmd->config.pid_file;
	int err = 0;

	if (pid_file) {
		d->pid_file = fopen(pid_file, "we");
		if (!d->pid_file) {
			return why_set(why, -errno, "pid file %s: %s", pid_file, strerror(errno));
		}
		d->pid_path = realpath(pid_file, NULL);
	}
	if (d->privileges.change && d->cmd->run) {
		err = captive_give(&d->captive, d->privileges.uid, d->privileges.gid, why);
	}
	if (!err) {
		err = privileges_drop(&d->privileges, why);
	}
	if (!err && d->cmd->exit_with_parent) {
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* a change of user has cleared it */
	}
	return err;
}

/* Loops run, then clients are accepted. */
static int serve(struct daemon *d, char why[RAID_WHY_BYTES])
{
	sigset_t all, old;
	int err = 0;

	/* Signals are for this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (uint32_t i = 0; !err && i < d->loop_count; i++) {
		err = loop_start(d->loops[i], d->loops, why);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err) {
		err = drop_privileges(d, why);
	}
	if (err) {
		return err;
	}
	if (listen_start(&d->listeners, d->base, on_accepted, d)) {
		return no_memory(why);
	}
	d->admin = admin_create(d);
	if (!d->admin) {
		return no_memory(why);
	}
	if (d->metrics_listeners.count) {
		d->metrics = metrics_start(d);
		err = d->metrics ? 0 : no_memory(why);
	}
	return err;
}

/* The export that the ready lines and the captive command name. */
static const char *first_export(const struct daemon *d)
{
	const struct export *e = exports_default(&d->exports);

	if (!e && d->exports.count) {
		e = d->exports.item[0];
	}
	return e ? e->name : "";
}

static int start_captive(struct daemon *d, char why[RAID_WHY_BYTES])
{
	char *uri = listen_uri(&d->listeners, 0, first_export(d));
	int err = uri ? captive_start(&d->captive, d->cmd->run, uri, first_export(d), why)
		      : no_memory(why);

	free(uri);
	return err;
}

static void announce_metrics(const struct daemon *d, bool told)
{
	for (uint32_t i = 0; i < d->metrics_listeners.count; i++) {
		char *where = listen_where(&d->metrics_listeners, i);

		if (told) {
			log_info("metrics are served at=%s", where ? where : "");
		} else {
			printf("metrics: %s\n", where ? where : "");
		}
		free(where);
	}
}

/* Tell everyone who waits, the pid file last. */
static int announce(struct daemon *d, int ready_fd, char why[RAID_WHY_BYTES])
{
	/* Who runs us captive, or passed the sockets, knows where they are. */
	const bool told = d->cmd->run || d->cmd->single || d->inherited;

	for (uint32_t i = 0; !told && i < d->listeners.count; i++) {
		char *uri = listen_uri(&d->listeners, i, first_export(d));

		printf("ready: %s\n", uri ? uri : "");
		free(uri);
	}
	announce_metrics(d, told);
	fflush(stdout);
	background_notify("READY=1");
	if (d->pid_file &&
	    (fprintf(d->pid_file, "%ld\n", (long)getpid()) < 0 || fflush(d->pid_file) != 0)) {
		return why_set(why, -errno, "pid file %s: %s", d->cmd->config.pid_file,
			       strerror(errno));
	}
	if (ready_fd >= 0) {
		background_ready(ready_fd);
	}
	return 0;
}

static int start(struct daemon *d, int ready_fd, char why[RAID_WHY_BYTES])
{
	int err = prepare(d, why);

	if (!err) {
		err = serve(d, why);
	}
	if (!err && d->cmd->single) {
		err = start_single(d, why);
	}
	if (!err && d->cmd->run) {
		err = start_captive(d, why);
	}
	if (!err) {
		err = announce(d, ready_fd, why);
	}
	if (err) {
		return err;
	}
	d->state = DAEMON_SERVING;
	for (uint32_t i = 0; i < d->arrays.count; i++) {
		spares_array_runs(d, d->arrays.item[i]);
	}
	return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Also after a start that was refused: nothing has been written and nobody served then. */
static void release(struct daemon *d)
{
	metrics_release(d->metrics);
	admin_release(d->admin);
	listen_release(&d->metrics_listeners);
	listen_release(&d->control);
	listen_release(&d->listeners);
	for (uint32_t i = 0; i < d->loop_count; i++) {
		loop_destroy(d->loops[i]);
	}
	free(d->loops);
	arrays_release(&d->arrays);
	exports_release(&d->exports);
	sessions_release(&d->sessions);
	captive_release(&d->captive);
	notices_free(d->notices);
	for (size_t i = 0; i < sizeof d->signal / sizeof d->signal[0]; i++) {
		if (d->signal[i]) {
			event_free(d->signal[i]);
		}
	}
	if (d->patience) {
		event_free(d->patience);
	}
	if (d->base) {
		event_base_free(d->base);
	}
	libevent_global_shutdown();
}

/* The user we have become may not be allowed to remove it: then it is at least empty. */
static void remove_pid_file(struct daemon *d)
{
	if (d->pid_file) {
		if ((!d->pid_path || unlink(d->pid_path) < 0) &&
		    ftruncate(fileno(d->pid_file), 0) < 0) {
			log_warning("pid file %s stays: %s", d->cmd->config.pid_file,
				    strerror(errno));
		}
		fclose(d->pid_file);
		free(d->pid_path);
	}
}

int daemon_run(const struct cmdline *cmd, int ready_fd)
{
	struct daemon d = {.cmd = cmd, .state = DAEMON_STARTING, .started_s = time(NULL)};
	char why[RAID_WHY_BYTES] = "";

	if (start(&d, ready_fd, why)) {
		fprintf(stderr, "refused: %s\n", why);
		d.status = 1;
	} else {
		event_base_dispatch(d.base);
		log_info(d.state == DAEMON_ENDED ? "stopped"
						 : "ended before every member has answered");
	}
	if (d.state == DAEMON_STARTING || d.state == DAEMON_ENDED) {
		release(&d);
	} else {
		/* Threads still work on the rest. */
		listen_release(&d.control);
		listen_release(&d.metrics_listeners);
		captive_release(&d.captive);
	}
	remove_pid_file(&d);
	privileges_release(&d.privileges);
	return d.status;
}
