/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, unix sockets that were there before, socket activation, URIs. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "server/listen.h"

static struct listen_set set, control;
static char why[RAID_WHY_BYTES], folder[] = "/tmp/test_listen.XXXXXX", address[128];
static const char *path; /* of a unix socket in folder */

static int setup_folder(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(address, sizeof address, "unix:%s/socket", folder);
	path = address + strlen("unix:");
	return 0;
}

static int teardown_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static int teardown(void **state)
{
	(void)state;
	listen_release(&set);
	listen_release(&control);
	return 0;
}

static void tcp_addresses(void **state)
{
	static const char *const good[] = {"127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0"};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(listen_add(&set, good[i], 0, why), 0);
		assert_true(set.count >= 1);
		listen_release(&set);
	}
}

static void nonsense_is_refused_with_its_text(void **state)
{
	static const char *const bad[] = {
		"",    "127.0.0.1", "127.0.0.1:",  "::1:5",  "[::1:5", "[]5", "[::1]",
		"x:y", "unix:",	    "1.2.3.4.5:1", ":70000", "]:1",    "[:1"};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		why[0] = '\0';
		assert_true(listen_add(&set, bad[i], 0, why) < 0);
		assert_true(why[0]);
		assert_int_equal(set.count, 0);
	}
	memset(why, 0, sizeof why);
}

static void uris_say_where(void **state)
{
	char *uri;

	(void)state;
	assert_int_equal(listen_add(&set, "127.0.0.1:0", 0, why), 0);
	uri = listen_uri(&set, 0, "a b/%\xc3\xa4");
	assert_int_equal(strncmp(uri, "nbd://127.0.0.1:", 16), 0);
	assert_string_equal(strrchr(uri, ':') + strcspn(strrchr(uri, ':'), "/"),
			    "/a%20b/%25%C3%A4");
	assert_int_equal(strncmp(uri, "nbd://127.0.0.1:0/", 18) == 0, 0);
	free(uri);
	assert_int_equal(listen_add(&set, address, 0600, why), 0);
	uri = listen_uri(&set, 1, "x");
	assert_int_equal(strncmp(uri, "nbd+unix:///x?socket=/tmp/", 26), 0);
	free(uri);
}

static void unix_socket_has_its_mode_and_goes_with_us(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(listen_add(&set, address, 0620, why), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0620);
	listen_release(&set);
	assert_int_equal(stat(path, &st), -1);
}

static void stale_unix_socket_is_replaced(void **state)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
	close(fd);
	assert_int_equal(listen_add(&set, address, 0600, why), 0);
}

static void unix_socket_of_another_server_is_left_alone(void **state)
{
	struct listen_set second = {0};
	struct stat before, after;

	(void)state;
	assert_int_equal(listen_add(&set, address, 0600, why), 0);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(listen_add(&second, address, 0600, why), -EADDRINUSE);
	listen_release(&second);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
}

static void file_that_is_no_socket_is_left_alone(void **state)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	(void)state;
	close(fd);
	assert_true(listen_add(&set, address, 0600, why) < 0);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

/* Another program's socket at our path, when we go. */
static void release_removes_only_its_own(void **state)
{
	(void)state;
	assert_int_equal(listen_add(&set, address, 0600, why), 0);
	assert_int_equal(unlink(path), 0);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	listen_release(&set);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static int accepted_fd;
static char accepted_peer[LISTEN_PEER_BYTES];

static void on_accepted(void *ctx, int fd, const char *peer)
{
	struct event_base *base = ctx;

	accepted_fd = fd;
	snprintf(accepted_peer, sizeof accepted_peer, "%s", peer);
	event_base_loopbreak(base);
}

static void accepts_blocking_descriptors(void **state)
{
	struct event_base *base = event_base_new();
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
	assert_int_equal(listen_add(&set, address, 0600, why), 0);
	assert_int_equal(listen_start(&set, base, on_accepted, base), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof sun), 0);
	event_base_dispatch(base);
	assert_int_equal(fcntl(accepted_fd, F_GETFL) & O_NONBLOCK, 0);
	assert_true(fcntl(accepted_fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(strncmp(accepted_peer, "unix:pid=", 9), 0);
	close(accepted_fd);
	close(fd);
	listen_release(&set);
	event_base_free(base);
}

/* Descriptors 3 and 4 as a service manager passes them. */
static void activation_takes_what_it_is_given(void **state)
{
	char pid[16];
	uint32_t count;
	int saved[2] = {fcntl(3, F_DUPFD_CLOEXEC, 50), fcntl(4, F_DUPFD_CLOEXEC, 50)};

	(void)state;
	for (int fd = 3; fd <= 4; fd++) {
		int s = socket(AF_UNIX, SOCK_STREAM, 0);

		assert_int_equal(listen(s, 1), -1); /* unbound: autobind first */
		assert_int_equal(bind(s, (struct sockaddr *)&(struct sockaddr_un){AF_UNIX, ""},
				      sizeof(sa_family_t)),
				 0);
		assert_int_equal(listen(s, 1), 0);
		if (s != fd) {
			assert_int_equal(dup2(s, fd), fd);
			close(s);
		}
	}
	snprintf(pid, sizeof pid, "%ld", (long)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "2", 1);
	setenv("LISTEN_FDNAMES", "control:nbd", 1);
	assert_int_equal(listen_inherit(&set, &control, &count, why), 0);
	assert_int_equal(count, 2);
	assert_int_equal(set.count, 1);
	assert_int_equal(control.count, 1);
	assert_null(getenv("LISTEN_FDS"));
	listen_release(&set);
	listen_release(&control);
	for (int i = 0; i < 2; i++) {
		if (saved[i] >= 0) {
			dup2(saved[i], 3 + i);
			close(saved[i]);
		}
	}
}

static void activation_for_another_process_is_ignored(void **state)
{
	uint32_t count = 9;

	(void)state;
	setenv("LISTEN_PID", "1", 1);
	setenv("LISTEN_FDS", "2", 1);
	assert_int_equal(listen_inherit(&set, &control, &count, why), 0);
	assert_int_equal(count, 0);
	assert_int_equal(set.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(tcp_addresses, teardown),
		cmocka_unit_test_teardown(nonsense_is_refused_with_its_text, teardown),
		cmocka_unit_test_teardown(uris_say_where, teardown),
		cmocka_unit_test_teardown(unix_socket_has_its_mode_and_goes_with_us, teardown),
		cmocka_unit_test_teardown(stale_unix_socket_is_replaced, teardown),
		cmocka_unit_test_teardown(unix_socket_of_another_server_is_left_alone, teardown),
		cmocka_unit_test_teardown(file_that_is_no_socket_is_left_alone, teardown),
		cmocka_unit_test_teardown(release_removes_only_its_own, teardown),
		cmocka_unit_test_teardown(accepts_blocking_descriptors, teardown),
		cmocka_unit_test_teardown(activation_takes_what_it_is_given, teardown),
		cmocka_unit_test_teardown(activation_for_another_process_is_ignored, teardown),
	};

	return cmocka_run_group_tests(tests, setup_folder, teardown_folder);
}
