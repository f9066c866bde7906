/*-------------------------------------------------------------------------
 *
 * lock_connection.h
 *	  The connection that holds the lock (lock_connection.c).  For run.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_CONNECTION_H
#define ZKLOCK_LOCK_CONNECTION_H

#include "events.h"

/* How a query, or the attempt to connect, has ended. */
typedef enum Outcome
{
	OUTCOME_DONE,
	OUTCOME_REFUSED,			/* an error that PostgreSQL reports */
	OUTCOME_LOST,				/* the same: the lock was lost */
	OUTCOME_UNREACHABLE,		/* no connection to PostgreSQL or ZooKeeper */
	OUTCOME_INTERRUPTED			/* by a signal */
} Outcome;

/* What to lock; strings as PostgreSQL reads them. */
typedef struct Target
{
	const char *path;
	bool		shared;
	const char *permits;		/* of a semaphore; NULL for a lock */
	const char *fire_time;		/* of a job; NULL for a lock */
	const char *timeout;		/* NULL for none */
	const char *note;			/* for zklock.note; NULL for none */
} Target;

/* The lock as it was last proved. */
typedef struct Lease
{
	Time		proved_at;
	Time		end;
	Time		session_timeout;
	char		token[24];
} Lease;

extern Outcome connection_open(const char *const *keywords, const char *const *values);
extern Outcome connection_acquire(const Target *target, bool *acquired);
extern Outcome connection_prove(const Target *target, Lease *lease, Time until);
extern Outcome connection_release(const Target *target, bool success, bool *held, Time until);
extern bool connection_is_up(void);
extern void connection_close(void);
extern const char *connection_error(void);

#endif							/* ZKLOCK_LOCK_CONNECTION_H */
