/*-------------------------------------------------------------------------
 *
 * guardian.h
 *	  The process that runs the command (guardian.c).  For run.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GUARDIAN_H
#define ZKLOCK_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A point in time, or a length, in microseconds, by CLOCK_BOOTTIME. */
typedef int64_t Time;

#define FOREVER		INT64_MAX
#define MS(ms)		((Time) (ms) * 1000)

/* What the guardian is told; each is one packet of its socket. */
typedef enum OrderKind
{
	ORDER_START,				/* run the command */
	ORDER_LEASE,				/* the lock is held for longer */
	ORDER_SIGNAL,				/* forward a signal to the command */
	ORDER_END					/* the lock is lost, or no longer wanted */
} OrderKind;

typedef struct Order
{
	OrderKind	kind;
	int			signal;			/* of ORDER_SIGNAL */
	Time		end;			/* the lease: then SIGTERM */
	Time		kill;			/* SIGKILL */
	char		token[24];		/* of ORDER_START, for ZKLOCK_TOKEN */
} Order;

/* The command runs; or how it ended, when nothing of it runs any more. */
typedef struct Report
{
	bool		runs;
	bool		started;
	int			status;			/* of waitpid(); errno if it was not started */
	bool		ended_by_us;	/* because of ORDER_END, or of the lease */
} Report;

extern Time now(void);
extern pid_t guardian_start(char **command, const char *path, int *socket);

#endif							/* ZKLOCK_GUARDIAN_H */
