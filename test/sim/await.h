/*-------------------------------------------------------------------------
 *
 * await.h
 *	  What simulated backends wait for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef AWAIT_H
#define AWAIT_H

#include "sim.h"
#include "zk_inspect.h"
#include "zk_lock.h"

/* Whether there is what a backend waits for. */
typedef bool (*Seen) (ZkClient *client, void *argument);

/*
 * Waits until that is seen; false if it was not, after so long.  Looks before
 * each wait.  Runs in a task.
 */
extern bool await(ZkClient *client, Seen seen, void *argument, SimTime longest);

/* Contenders of one call. */
typedef struct Awaited
{
	int			count;
	const ZkContenderId *ids;
	ZkContenderStatus *status;	/* as they were seen last */
	bool		failed;			/* one of them has */
} Awaited;

/* Seen, of an Awaited: all are granted with running leases, or one has failed. */
extern bool seen_end(ZkClient *client, void *argument);

/* Seen, of an Awaited: they are gone, or cannot be deleted. */
extern bool seen_gone(ZkClient *client, void *argument);

/* Seen, of a pointer to a ZkQueueListing: the answer to a query. */
extern bool seen_listing(ZkClient *client, void *argument);

#endif							/* AWAIT_H */
