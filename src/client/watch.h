/*-------------------------------------------------------------------------
 *
 * watch.h
 *	  Waiting for the contenders ahead: whom to watch, and what an event means.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WATCH_H
#define ZKLOCK_WATCH_H

#include "client.h"
#include "queue.h"

/* The watch on the contender before the one that is waited for (Q4). */
typedef enum SecondWatch
{
	SECOND_NONE,
	SECOND_LAST,				/* once that is deleted, one is left ahead */
	SECOND_OTHER,				/* once it is gone, a list has to tell */
	SECOND_GONE					/* it is gone: list while waiting */
} SecondWatch;

/*
 * Whom a contender waits for.  Paths and lists of names are malloc'd.  Written
 * by watch.c.  engine_lock.
 */
typedef struct Watching
{
	char	   *path;			/* of the nearest one ahead; or NULL */
	bool		last_ahead;		/* it is the only one ahead */
	bool		unbroken;		/* it is watched without a break since it was
								 * created: that it is deleted says that
								 * nothing has taken its place */
	bool		next_in_line;	/* only holders are ahead: keep the lease */
	bool		own_ahead;		/* only our own are ahead, of a semaphore */
	int			ahead;			/* how many there are */
	int			position;		/* in the queue, from 1 */
	char		holder[ZK_NAME_SIZE];	/* first in the queue */
	char		rival[ZK_NAME_SIZE];	/* makes an upgrade a deadlock; or
										 * empty */

	SecondWatch second;
	char	   *second_path;	/* of that one; or NULL */

	/* of a semaphore */
	bool		all;			/* waits for any of those ahead */
	char	   *names;			/* of those besides the nearest, each with a
								 * NUL, an empty one at the end; or NULL */
	int			asked;			/* bytes of them that were asked for */
	int			answered;		/* and answered */
	int32_t		version;		/* of the nearest one's data, as last seen */
} Watching;

extern void zk_watch_ahead(ZkClient *client, Contender *c,
						   const ZkQueueEntry *entries,
						   const ZkVerdict *verdict, bool upgrade);
extern void zk_watch_more(ZkClient *client, Contender *c);
extern void zk_watch_listing(Contender *c);
extern void zk_watch_disconnected(Contender *c);
extern void zk_unwatch(Contender *c);

#endif							/* ZKLOCK_WATCH_H */
