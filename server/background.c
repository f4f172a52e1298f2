/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon forks first and detaches last: until it serves, its messages still reach the terminal
 * and its exit status the shell.
 */
#include "server/background.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/log.h"

static _Noreturn void wait_for_child(pid_t pid, int fd)
{
	char byte;
	ssize_t n;
	int status;

	do {
		n = read(fd, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1) {
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void background_guard_stdio(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0) {
		close(fd);
	}
}

int background_fork(void)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		return -errno;
	}
	pid = fork();
	if (pid < 0) {
		int err = -errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (pid > 0) {
		close(fds[1]);
		wait_for_child(pid, fds[0]);
	}
	close(fds[0]);
	setsid();
	return fds[1];
}

void background_ready(int ready_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ssize_t n;

	log_to_syslog();
	if (null >= 0) {
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
			dup2(null, fd);
		}
		close(null);
	}
	/* Nothing that is still needed is named relative to where we were started. */
	if (chdir("/") < 0) {
		log_warning("cannot leave the working directory: %s", strerror(errno));
	}
	n = write(ready_fd, "r", 1);
	(void)n; /* a parent that is gone needs no word */
	close(ready_fd);
}

void background_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof sun.sun_path) {
		return;
	}
	memcpy(sun.sun_path, path, len);
	if (sun.sun_path[0] == '@') {
		sun.sun_path[0] = '\0'; /* abstract */
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sun,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
		log_warning("cannot notify the service manager: %s", strerror(errno));
	}
	if (fd >= 0) {
		close(fd);
	}
}
