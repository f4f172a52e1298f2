/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd-raidd: arguments, then the daemon. No logic lives here. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/background.h"
#include "server/cmdline.h"
#include "server/daemon.h"
#include "server/log.h"

enum { EXIT_USAGE = 2 };

/* Someone watches us or waits for us: staying is what they want. */
static bool stays_in_foreground(const struct cmdline *c)
{
	return c->foreground || c->single || c->run || c->exit_with_parent ||
	       getenv("NOTIFY_SOCKET") || getenv("LISTEN_FDS");
}

static int run(const struct cmdline *c, pid_t parent)
{
	int ready_fd = -1;

	log_init(c->config.log_level);
	if (c->check) {
		return daemon_check(c);
	}
	if (c->exit_with_parent) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent) {
			return 1; /* it has gone before we could ask to be told */
		}
	}
	if (!stays_in_foreground(c)) {
		ready_fd = background_fork();
		if (ready_fd < 0) {
			fprintf(stderr, "refused: cannot become a daemon: %s\n",
				strerror(-ready_fd));
			return 1;
		}
	}
	return daemon_run(c, ready_fd);
}

int main(int argc, char **argv)
{
	pid_t parent = getppid();
	struct cmdline c;
	char why[RAID_WHY_BYTES];
	int status = 0;

	background_guard_stdio();
	switch (cmdline_parse(&c, argc, argv, why)) {
	case CMDLINE_RUN:
		status = run(&c, parent);
		break;
	case CMDLINE_HELP:
		cmdline_usage(stdout);
		break;
	case CMDLINE_VERSION:
		printf("nbd-raidd %s\n", NBD_RAIDD_VERSION);
		break;
	case CMDLINE_USAGE:
		fprintf(stderr, "nbd-raidd: %s\nSee nbd-raidd --help.\n", why);
		status = EXIT_USAGE;
		break;
	case CMDLINE_REFUSED:
		fprintf(stderr, "refused: %s\n", why);
		status = 1;
		break;
	}
	cmdline_release(&c);
	return status;
}
