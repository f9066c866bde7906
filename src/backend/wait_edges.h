/*-------------------------------------------------------------------------
 *
 * wait_edges.h
 *	  The graph of waits, as far as it can be seen from here (wait_edges.c).
 *	  For the files of backend/ that wait for locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAIT_EDGES_H
#define ZKLOCK_WAIT_EDGES_H

#include "zklock.h"
#include "zk_inspect.h"

/* A party of a cycle: a backend with a ZooKeeper session, or one without. */
typedef struct Waiter
{
	int64		session_id;		/* 0 if only the process is known */
	int64		mzxid;			/* since when its wait is published; 0 if not */
	int			pid;			/* of a process of this instance, else 0 */
	char	   *owner;			/* what it says about itself; NULL if nothing */
	int			owner_length;
} Waiter;

/* A waiter that waits for the next one: a fact that can be read again. */
typedef struct WaitStep
{
	Waiter		waiter;
	Waiter		blocker;
	bool		local;			/* within PostgreSQL */

	/* if not local */
	char	   *node;
	char	   *contender;
	char	   *ahead;			/* the contender that it waits for */
	ZkMode		mode;
	bool		held;			/* that one holds the lock */

	/* if local */
	LOCKTAG		tag;
	LOCKMODE	lock_mode;
	TimestampTz since;
} WaitStep;

typedef struct WaitCycle
{
	int			count;
	WaitStep   *steps;			/* from this backend back to it */
} WaitCycle;

extern bool zklock_waited_for_locally(void);
extern WaitCycle *zklock_find_cycle(const ZkQueueListing *listing,
									int64 session_id, int64 zxid);
extern bool zklock_same_cycle(const WaitCycle *a, const WaitCycle *b);

#endif							/* ZKLOCK_WAIT_EDGES_H */
