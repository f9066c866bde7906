/*-------------------------------------------------------------------------
 *
 * awake.c
 *	  Keep all processors from halting, until killed.
 *
 * A request and its answer pass through some ten threads, of the client, the
 * servers and PostgreSQL, and each sleeps until then.  A processor without a running
 * thread halts.  A virtual one then returns to the host, which may use it, and its
 * caches, for other guests.  So a benchmark would measure how often threads sleep,
 * and the load of the neighbours.  The processors of a busy machine do not halt, and
 * neither do those of a machine that runs with idle=poll.
 *
 * Each processor gets a thread here that makes way for every other at once
 * (SCHED_IDLE) and is busy with nothing otherwise.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *
idler_main(void *arg)
{
	struct sched_param none = {0};

	(void) arg;
	if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
	{
		perror("awake: could not make way for others");
		exit(1);
	}
	for (;;)
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * Start a thread on that processor.
 */
static void
occupy(int processor)
{
	pthread_attr_t attr;
	pthread_t	thread;
	cpu_set_t	one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
	if (pthread_create(&thread, &attr, idler_main, NULL) != 0)
	{
		perror("awake: could not create a thread");
		exit(1);
	}
	pthread_attr_destroy(&attr);
}

int
main(void)
{
	cpu_set_t	all;

	/* not longer than its parent */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_getaffinity(0, sizeof(all), &all) != 0)
	{
		perror("awake: could not find the processors");
		return 1;
	}
	for (int processor = 0; processor < CPU_SETSIZE; processor++)
		if (CPU_ISSET(processor, &all))
			occupy(processor);
	for (;;)
		pause();
}
