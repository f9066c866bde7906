/*-------------------------------------------------------------------------
 *
 * descendants.c
 *	  All processes that come from this one, also those that have left their
 *	  process group, their session or their parent.
 *
 * E5. A process that loses its parent becomes a child of the nearest ancestor
 * that adopts (PR_SET_CHILD_SUBREAPER), and not of init.  So the tree of
 * /proc/PID/task/TID/children has all descendants, and when this process has
 * no child left, nothing of them runs.  What another process starts on their
 * behalf (a service manager, a database server) is none of them.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "descendants.h"

/* Nobody nests processes deeper; it ends a walk through a moving tree. */
#define MAX_DEPTH	1000

/* From now on this process adopts.  Returns false, with errno, if it cannot. */
bool
descendants_adopt(void)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/* The signal that is being sent, and to which process group; 0 for all. */
static int	signal_sent;
static pid_t group_sent;

static void signal_children(pid_t pid, int depth);

/* Sends the signal to the children of one thread, and to theirs. */
static void
signal_children_of_thread(pid_t pid, const char *thread, int depth)
{
	char		path[300];
	char		number[16];
	FILE	   *children;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int) pid, thread);
	children = fopen(path, "re");
	if (children == NULL)
		return;					/* it has ended */
	while (fscanf(children, "%15s", number) == 1)
	{
		pid_t		child = (pid_t) strtol(number, NULL, 10);

		/* first itself: what it starts before that is among its children */
		if (group_sent == 0 || getpgid(child) == group_sent)
			(void) kill(child, signal_sent);
		signal_children(child, depth + 1);
	}
	(void) fclose(children);
}

/* The same for all threads of a process. */
static void
signal_children(pid_t pid, int depth)
{
	char		path[64];
	DIR		   *threads;
	const struct dirent *entry;

	if (depth > MAX_DEPTH)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
	threads = opendir(path);
	if (threads == NULL)
		return;
	while ((entry = readdir(threads)) != NULL)
		if (entry->d_name[0] != '.')
			signal_children_of_thread(pid, entry->d_name, depth);
	(void) closedir(threads);
}

/*
 * Sends a signal to all descendants that exist, or to those of a process group.
 * While they may start others, the caller repeats it.
 */
void
descendants_signal(int signal_number, pid_t group)
{
	signal_sent = signal_number;
	group_sent = group;
	signal_children(getpid(), 0);
}
