/*-------------------------------------------------------------------------
 *
 * workers.c
 *	  Several processes share the work.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workers.h"

/* Does the work in a process of its own, which ends with this one. */
static pid_t
start(int number, void (*work) (int number))
{
	pid_t		parent = getpid();
	pid_t		pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		work(number);
	exit(getppid() == parent ? 0 : 1);
}

static void
kill_all(const pid_t *pids, int count)
{
	for (int i = 0; i < count; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
}

/* Forgets the one that has ended; its pid may be somebody else's. */
static void
forget(pid_t *pids, int count, pid_t ended)
{
	for (int i = 0; i < count; i++)
		if (pids[i] == ended)
			pids[i] = 0;
}

bool
workers_run(int count, void (*work) (int number))
{
	pid_t		pids[WORKERS_MAX] = {0};
	bool		succeeded = true;
	pid_t		ended;
	int			status;

	if (count == 1)
	{
		work(0);
		return true;
	}
	for (int i = 0; i < count; i++)
		succeeded &= (pids[i] = start(i, work)) > 0;
	while ((ended = wait(&status)) > 0)
	{
		forget(pids, count, ended);
		if (status != 0 || !succeeded)
		{
			kill_all(pids, count);
			succeeded = false;
		}
	}
	return succeeded;
}
