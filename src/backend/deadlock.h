/*-------------------------------------------------------------------------
 *
 * deadlock.h
 *	  Check for deadlocks while waiting (deadlock.c).  For the files of backend/
 *	  that wait for locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_DEADLOCK_H
#define ZKLOCK_DEADLOCK_H

#include "zklock.h"

/* A contender of a call that waits. */
typedef struct Awaited
{
	const char *node;
	const char *name;			/* of the contender; empty while unknown */
} Awaited;

/* What a call that waits knows of deadlocks; see deadlock.c. */
typedef struct DeadlockCheck DeadlockCheck;

extern ZkTime zklock_deadlock_check(DeadlockCheck **check,
									const Awaited *awaited, int count,
									ZkTime now);
extern void zklock_deadlock_end(DeadlockCheck **check);

#endif							/* ZKLOCK_DEADLOCK_H */
