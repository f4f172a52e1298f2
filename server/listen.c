/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that listen. A failing accept never ends a listener: errors of one connection are passed
 * over, and when descriptors run out it pauses for a moment instead of spinning.
 */
#include "server/listen.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "raid/why.h"
#include "server/log.h"
#include "server/wire.h"

enum {
	BACKLOG = 1024,
	ACCEPTS_PER_TURN = 16,
	PAUSE_MS = 200,
	FIRST_INHERITED_FD = 3,
	KEEPALIVE_IDLE_S = 60,
	KEEPALIVE_INTERVAL_S = 15,
	KEEPALIVE_PROBES = 6,
	/* Also cuts a client that leaves its replies unread for so long: not too short. */
	USER_TIMEOUT_MS = 180 * 1000,
};

struct listener {
	int fd;
	char *path; /* unix: absolute, else NULL */
	bool bound; /* by us: the path is ours to remove */
	dev_t dev;
	ino_t ino;
	struct event *readable, *resume;
	listen_accepted accepted;
	void *ctx;
};

static void listener_free(struct listener *l)
{
	struct stat st;

	if (l->readable) {
		event_free(l->readable);
	}
	if (l->resume) {
		event_free(l->resume);
	}
	if (l->bound && l->path && !lstat(l->path, &st) && st.st_dev == l->dev &&
	    st.st_ino == l->ino) {
		unlink(l->path);
	}
	if (l->fd >= 0) {
		close(l->fd);
	}
	free(l->path);
	free(l);
}

void listen_release(struct listen_set *set)
{
	for (uint32_t i = 0; i < set->count; i++) {
		listener_free(set->item[i]);
	}
	free(set->item);
	set->item = NULL;
	set->count = 0;
}

/* Takes fd over, also on failure. */
static struct listener *add_listener(struct listen_set *set, int fd)
{
	struct listener **grown =
		reallocarray(set->item, set->count + 1, sizeof(struct listener *));
	struct listener *l;

	if (!grown) {
		close(fd);
		return NULL;
	}
	set->item = grown;
	l = calloc(1, sizeof *l);
	if (!l) {
		close(fd);
		return NULL;
	}
	l->fd = fd;
	grown[set->count++] = l;
	return l;
}

/* ---- unix sockets -------------------------------------------------------------------------- */

static char *absolute(const char *path)
{
	char *cwd, *out;
	int n;

	if (path[0] == '/') {
		return strdup(path);
	}
	cwd = getcwd(NULL, 0);
	n = cwd ? asprintf(&out, "%s/%s", cwd, path) : -1;
	free(cwd);
	return n < 0 ? NULL : out;
}

/* A socket that nobody answers on any more is left from a crash: remove it. */
static bool remove_stale(const struct sockaddr_un *sun)
{
	struct stat st;
	int fd, err;

	if (lstat(sun->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return false;
	}
	err = connect(fd, (const struct sockaddr *)sun, sizeof *sun) < 0 ? errno : 0;
	close(fd);
	return err == ECONNREFUSED && unlink(sun->sun_path) == 0;
}

/* The mode is there from the first moment on: set by the umask, not after the fact. */
static int bind_unix(int fd, const struct sockaddr_un *sun, mode_t mode)
{
	mode_t old = umask(0777 & ~mode);
	int err = bind(fd, (const struct sockaddr *)sun, sizeof *sun) < 0 ? -errno : 0;

	if (err == -EADDRINUSE && remove_stale(sun)) {
		err = bind(fd, (const struct sockaddr *)sun, sizeof *sun) < 0 ? -errno : 0;
	}
	umask(old);
	return err;
}

static int add_unix(struct listen_set *set, const char *path, mode_t mode, char why[RAID_WHY_BYTES])
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct listener *l;
	struct stat st;
	int fd, err;

	if (!path[0] || strlen(path) >= sizeof sun.sun_path) {
		return why_set(why, -ENAMETOOLONG,
			       "unix:%s: the path of a unix socket has 1 to %zu bytes", path,
			       sizeof sun.sun_path - 1);
	}
	memcpy(sun.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return why_set(why, -errno, "unix:%s: %s", path, strerror(errno));
	}
	err = bind_unix(fd, &sun, mode);
	if (err) {
		close(fd);
		return why_set(why, err, "unix:%s: %s", path,
			       err == -EADDRINUSE
				       ? "in use: another server answers there, or it is "
					 "no socket"
				       : strerror(-err));
	}
	l = add_listener(set, fd);
	if (!l) {
		unlink(path);
		return why_set(why, -ENOMEM, "out of memory");
	}
	l->path = absolute(path);
	if (!l->path || lstat(path, &st) < 0) {
		unlink(path);
		return why_set(why, -ENOMEM, "unix:%s: %s", path, strerror(errno));
	}
	l->bound = true;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	if (listen(fd, BACKLOG) < 0) {
		return why_set(why, -errno, "unix:%s: %s", path, strerror(errno));
	}
	return 0;
}

/* ---- TCP ----------------------------------------------------------------------------------- */

/* One resolved address. */
static int add_tcp(struct listen_set *set, const struct addrinfo *ai)
{
	const int on = 1;
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0) {
		return -errno;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (ai->ai_family == AF_INET6) {
		/* So that 0.0.0.0 and [::] can both be listened on. */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	}
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return add_listener(set, fd) ? 0 : -ENOMEM;
}

/* "HOST:PORT" with HOST in brackets if it contains colons, empty for all addresses. */
static int split_address(const char *address, char host[256], const char **port)
{
	const char *colon = strrchr(address, ':'), *end = colon;
	char *after;

	/* Checked here: getaddrinfo() takes 70000 for 4464. */
	if (!colon || !isdigit((unsigned char)colon[1]) || strtoul(colon + 1, &after, 10) > 65535 ||
	    *after) {
		return -EINVAL;
	}
	*port = colon + 1;
	if (address[0] == '[') {
		address++;
		end--;
		if (end < address || *end != ']') {
			return -EINVAL;
		}
	} else if (memchr(address, ':', (size_t)(colon - address))) {
		return -EINVAL;
	}
	if (end - address >= 256) {
		return -EINVAL;
	}
	memcpy(host, address, (size_t)(end - address));
	host[end - address] = '\0';
	return 0;
}

static int add_host(struct listen_set *set, const char *address, char why[RAID_WHY_BYTES])
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *found, *ai;
	char host[256];
	const char *port;
	uint32_t before = set->count;
	int err;

	if (split_address(address, host, &port)) {
		return why_set(why, -EINVAL,
			       "'%s' is no address: ADDR:PORT, [IPV6]:PORT, :PORT or unix:PATH",
			       address);
	}
	err = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
	if (err) {
		return why_set(why, -EINVAL, "%s: %s", address, gai_strerror(err));
	}
	err = 0;
	for (ai = found; ai && !err; ai = ai->ai_next) {
		err = add_tcp(set, ai);
		/* A machine without IPv6 still has its other addresses. */
		if ((err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL) &&
		    (ai->ai_next || set->count > before)) {
			err = 0;
		}
	}
	freeaddrinfo(found);
	return err ? why_set(why, err, "%s: %s", address, strerror(-err)) : 0;
}

int listen_add(struct listen_set *set, const char *address, mode_t socket_mode,
	       char why[RAID_WHY_BYTES])
{
	static const char unix_prefix[] = "unix:";

	if (!strncmp(address, unix_prefix, sizeof unix_prefix - 1)) {
		return add_unix(set, address + sizeof unix_prefix - 1, socket_mode, why);
	}
	return add_host(set, address, why);
}

/* ---- socket activation --------------------------------------------------------------------- */

static int inherit_one(struct listen_set *set, int fd, char why[RAID_WHY_BYTES])
{
	struct sockaddr_un sun;
	socklen_t len = sizeof sun;
	int listening = 0, flags;
	struct listener *l;

	socklen_t int_len = sizeof listening;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &int_len) < 0 || !listening) {
		return why_set(why, -EINVAL, "LISTEN_FDS: descriptor %d is no listening socket",
			       fd);
	}
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		return why_set(why, -errno, "LISTEN_FDS: descriptor %d: %s", fd, strerror(errno));
	}
	l = add_listener(set, fd);
	if (!l) {
		return why_set(why, -ENOMEM, "out of memory");
	}
	memset(&sun, 0, sizeof sun);
	if (!getsockname(fd, (struct sockaddr *)&sun, &len) && sun.sun_family == AF_UNIX) {
		l->path = strndup(sun.sun_path, sizeof sun.sun_path);
	}
	return 0;
}

int listen_inherit(struct listen_set *set, struct listen_set *control, uint32_t *count,
		   char why[RAID_WHY_BYTES])
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	char *list = strdup(names ? names : ""), *rest = list;
	int err = 0, n = 0;

	*count = 0;
	if (pid && fds && strtol(pid, NULL, 10) == getpid()) {
		n = (int)strtol(fds, NULL, 10);
	}
	for (int i = 0; list && !err && i < n; i++) {
		const char *name = rest ? strsep(&rest, ":") : "";

		err = inherit_one(strcmp(name, "control") ? set : control, FIRST_INHERITED_FD + i,
				  why);
		*count += !err;
	}
	free(list);
	/* What we start must not take them for its own. */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return err;
}

/* ---- accepting ----------------------------------------------------------------------------- */

static void describe_peer(int fd, const struct sockaddr *sa, socklen_t len,
			  char peer[LISTEN_PEER_BYTES])
{
	char host[64], port[16];
	struct ucred cred;
	socklen_t cred_len = sizeof cred;

	if (sa->sa_family == AF_UNIX) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0) {
			snprintf(peer, LISTEN_PEER_BYTES, "unix");
		} else {
			snprintf(peer, LISTEN_PEER_BYTES, "unix:pid=%ld,uid=%ld", (long)cred.pid,
				 (long)cred.uid);
		}
	} else if (getnameinfo(sa, len, host, sizeof host, port, sizeof port,
			       NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(peer, LISTEN_PEER_BYTES, "unknown");
	} else {
		snprintf(peer, LISTEN_PEER_BYTES, sa->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
			 host, port);
	}
}

void listen_peer(int fd, struct access_peer *out)
{
	struct sockaddr_storage ss = {0};
	const struct sockaddr_in *in = (const struct sockaddr_in *)&ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&ss;
	socklen_t len = sizeof ss;
	struct ucred cred;
	socklen_t cred_len = sizeof cred;

	memset(out, 0, sizeof *out);
	if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0) {
		return;
	}
	if (ss.ss_family == AF_INET) {
		out->kind = ACCESS_INET;
		access_map_ipv4(&in->sin_addr, out->addr);
	} else if (ss.ss_family == AF_INET6) {
		out->kind = ACCESS_INET;
		memcpy(out->addr, &in6->sin6_addr, sizeof out->addr);
	} else if (ss.ss_family == AF_UNIX &&
		   !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len)) {
		out->kind = ACCESS_UNIX;
		out->uid = cred.uid;
	}
}

/* Small replies leave at once, and a peer that is gone is noticed. */
static void tune_tcp(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
	};

	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
	}
}

static void pause_accepting(struct listener *l)
{
	const struct timeval tv = {.tv_usec = PAUSE_MS * 1000};

	log_limited(LOG_LEVEL_WARNING, "cannot accept a connection: %s", strerror(errno));
	event_del(l->readable);
	event_add(l->resume, &tv);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;

	event_add(l->readable, NULL);
}

static void on_readable(evutil_socket_t listen_fd, short what, void *arg)
{
	struct listener *l = arg;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage ss = {0};
		socklen_t len = sizeof ss;
		char peer[LISTEN_PEER_BYTES];
		int fd = accept4(listen_fd, (struct sockaddr *)&ss, &len, SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM) {
				pause_accepting(l);
			}
			return;
		}
		if (ss.ss_family != AF_UNIX) {
			tune_tcp(fd);
		}
		describe_peer(fd, (const struct sockaddr *)&ss, len, peer);
		l->accepted(l->ctx, fd, peer);
	}
}

int listen_start(struct listen_set *set, struct event_base *base, listen_accepted accepted,
		 void *ctx)
{
	for (uint32_t i = 0; i < set->count; i++) {
		struct listener *l = set->item[i];

		l->accepted = accepted;
		l->ctx = ctx;
		l->readable = event_new(base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
		l->resume = event_new(base, -1, 0, on_resume, l);
		if (!l->readable || !l->resume || event_add(l->readable, NULL) < 0) {
			return -ENOMEM;
		}
	}
	return 0;
}

/* ---- URIs ---------------------------------------------------------------------------------- */

/* RFC 3986: what is not unreserved (or in keep) is written as %XX. Returns the end. */
static char *escape(char *to, const char *text, const char *keep)
{
	static const char hex[] = "0123456789ABCDEF";
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";

	for (; *text; text++) {
		if (strchr(plain, *text) || strchr(keep, *text)) {
			*to++ = *text;
		} else {
			*to++ = '%';
			*to++ = hex[(unsigned char)*text >> 4];
			*to++ = hex[(unsigned char)*text & 15];
		}
	}
	*to = '\0';
	return to;
}

/* Without the port if that is what clients take anyway (0: always with it). */
static void host_and_port(int fd, unsigned long default_port, char *host, size_t size)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof ss;
	char name[64], port[16];
	const struct sockaddr_in *in = (const struct sockaddr_in *)&ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&ss;
	bool any;

	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
	    getnameinfo((const struct sockaddr *)&ss, len, name, sizeof name, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(host, size, "unknown");
		return;
	}
	any = ss.ss_family == AF_INET ? in->sin_addr.s_addr == INADDR_ANY
				      : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
	if (any) {
		snprintf(name, sizeof name, "localhost");
	}
	if (strtoul(port, NULL, 10) == default_port) {
		snprintf(host, size, strchr(name, ':') ? "[%s]" : "%s", name);
	} else {
		snprintf(host, size, strchr(name, ':') ? "[%s]:%s" : "%s:%s", name, port);
	}
}

int listen_fd(const struct listen_set *set, uint32_t i)
{
	return set->item[i]->fd;
}

char *listen_where(const struct listen_set *set, uint32_t i)
{
	const struct listener *l = set->item[i];
	char host[96], *where;
	int n;

	if (l->path) {
		n = asprintf(&where, "unix:%s", l->path);
	} else {
		host_and_port(l->fd, 0, host, sizeof host);
		n = asprintf(&where, "%s", host);
	}
	return n < 0 ? NULL : where;
}

char *listen_uri(const struct listen_set *set, uint32_t i, const char *export_name)
{
	const struct listener *l = set->item[i];
	size_t size = 3 * strlen(export_name) + 3 * (l->path ? strlen(l->path) : 0) + 160;
	char *uri = malloc(size), host[96], *end;

	if (!uri) {
		return NULL;
	}
	if (l->path) {
		end = uri + snprintf(uri, size, "nbd+unix:///");
		end = escape(end, export_name, "/");
		end += snprintf(end, size - (size_t)(end - uri), "?socket=");
		escape(end, l->path, "/");
	} else {
		host_and_port(l->fd, NBD_DEFAULT_PORT, host, sizeof host);
		end = uri + snprintf(uri, size, "nbd://%s/", host);
		escape(end, export_name, "/");
	}
	return uri;
}
