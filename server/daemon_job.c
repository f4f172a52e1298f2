/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread and one eventfd a job; there are few of them and they are rare. */
#include "server/daemon_job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "raid/base/check.h"

struct job {
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
	pthread_t thread;
	int finished_fd;
	struct event *finished;
};

static void job_free(struct job *j)
{
	if (j->finished) {
		event_free(j->finished);
	}
	if (j->finished_fd >= 0) {
		close(j->finished_fd);
	}
	free(j);
}

static void *job_main(void *arg)
{
	struct job *j = arg;

	j->work(j->arg);
	CHECK(eventfd_write(j->finished_fd, 1) == 0);
	return NULL;
}

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;
	void (*done)(void *arg) = j->done;
	void *done_arg = j->arg;

	pthread_join(j->thread, NULL);
	job_free(j);
	done(done_arg);
}

int job_start(struct event_base *base, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct job *j = calloc(1, sizeof *j);
	sigset_t all, old;
	int err;

	if (!j) {
		return -ENOMEM;
	}
	j->work = work;
	j->done = done;
	j->arg = arg;
	j->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	j->finished = j->finished_fd < 0 ? NULL
					 : event_new(base, j->finished_fd, EV_READ, on_finished, j);
	if (!j->finished || event_add(j->finished, NULL) < 0) {
		job_free(j);
		return -ENOMEM;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&j->thread, NULL, job_main, j);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		job_free(j);
	}
	return -err;
}

void job_run(struct event_base *base, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	if (job_start(base, work, done, arg)) {
		work(arg);
		done(arg);
	}
}
