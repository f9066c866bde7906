/*-------------------------------------------------------------------------
 *
 * run.h
 *	  Run a command under a lock (run.c).  For zklock.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RUN_H
#define ZKLOCK_RUN_H

#include "lock_connection.h"

/* Exit statuses of our own; all others are the command's. */
#define EXIT_UNREACHABLE	122
#define EXIT_LOST			123
#define EXIT_BUSY			124
#define EXIT_ERROR			125
#define EXIT_NOT_EXECUTABLE	126
#define EXIT_NOT_FOUND		127

typedef struct RunOptions
{
	Target		target;
	char	  **command;
	int			busy_status;	/* if the lock is not acquired */
	const char *const *keywords;	/* libpq's parameters */
	const char *const *values;
} RunOptions;

extern int	run(const RunOptions *options);

#endif							/* ZKLOCK_RUN_H */
