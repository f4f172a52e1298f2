/* SPDX-License-Identifier: BSD-3-Clause */
/* Between fork and exec only calls that are safe in a process whose other threads are gone. */
#include "server/captive.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raid/why.h"

enum { EXIT_NOT_EXECUTABLE = 126 };

int captive_prepare(struct captive *c, char why[RAID_WHY_BYTES])
{
	const char *tmp = getenv("TMPDIR");

	if (asprintf(&c->folder, "%s/nbd-raidd.XXXXXX", tmp && tmp[0] ? tmp : "/tmp") < 0) {
		c->folder = NULL;
		return why_set(why, -ENOMEM, "out of memory");
	}
	if (!mkdtemp(c->folder)) {
		int err = why_set(why, -errno, "--run: %s: %s", c->folder, strerror(errno));

		free(c->folder);
		c->folder = NULL;
		return err;
	}
	if (asprintf(&c->socket, "%s/socket", c->folder) < 0) {
		c->socket = NULL;
		return why_set(why, -ENOMEM, "out of memory");
	}
	return 0;
}

int captive_give(const struct captive *c, uid_t uid, gid_t gid, char why[RAID_WHY_BYTES])
{
	if (chown(c->folder, uid, gid) < 0 || chown(c->socket, uid, gid) < 0) {
		return why_set(why, -errno, "--run: %s: %s", c->folder, strerror(errno));
	}
	return 0;
}

static int set_environment(const struct captive *c, const char *uri, const char *export_name)
{
	char *nbd;
	int err;

	if (asprintf(&nbd, "nbd:unix:%s", c->socket) < 0) {
		return -ENOMEM;
	}
	err = setenv("uri", uri, 1) || setenv("unixsocket", c->socket, 1) ||
			      setenv("nbd", nbd, 1) || setenv("exportname", export_name, 1)
		      ? -ENOMEM
		      : 0;
	free(nbd);
	return err;
}

static _Noreturn void child(pid_t parent, char *const argv[])
{
	sigset_t none;

	/* Ignored signals and masks are inherited; the command expects an ordinary world. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent) {
		execv(argv[0], argv);
	}
	_exit(EXIT_NOT_EXECUTABLE);
}

int captive_start(struct captive *c, const char *command, const char *uri, const char *export_name,
		  char why[RAID_WHY_BYTES])
{
	char shell[] = "/bin/sh", flag[] = "-c", *text = strdup(command);
	char *argv[] = {shell, flag, text, NULL};
	pid_t parent = getpid(), pid;

	if (!text || set_environment(c, uri, export_name)) {
		free(text);
		return why_set(why, -ENOMEM, "out of memory");
	}
	pid = fork();
	if (pid == 0) {
		child(parent, argv);
	}
	free(text);
	if (pid < 0) {
		return why_set(why, -errno, "--run: %s", strerror(errno));
	}
	c->pid = pid;
	return 0;
}

bool captive_reap(struct captive *c, int *status)
{
	int wait_status;

	if (!c->pid || waitpid(c->pid, &wait_status, WNOHANG) != c->pid) {
		return false;
	}
	c->pid = 0;
	*status = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
	return true;
}

void captive_terminate(const struct captive *c)
{
	if (c->pid) {
		kill(c->pid, SIGTERM);
	}
}

void captive_release(struct captive *c)
{
	if (c->pid) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
		c->pid = 0;
	}
	if (c->folder) {
		rmdir(c->folder);
	}
	free(c->folder);
	free(c->socket);
	c->folder = c->socket = NULL;
}
