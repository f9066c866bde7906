/*-------------------------------------------------------------------------
 *
 * read_queue.h
 *	  Reading a queue for somebody who wants to see it.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/read_queue.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_READ_QUEUE_H
#define ZKLOCK_READ_QUEUE_H

#include "client.h"
#include "refusal.h"
#include "request.h"

/* A queue being read for the backend.  engine_lock. */
struct QueueRead
{
	bool		listed;
	int			next;			/* first member whose data is not asked for */
	int			end;			/* nor is it from this one on */
	int			pending;		/* answers to come */
	Refusal		refusal;		/* to be explained; then it fails */
	ZkQueueListing *listing;
};

extern void zk_read_advance(ZkClient *client);
extern void zk_read_restart(ZkClient *client);
extern void zk_member_fill(ZkQueueMember *member, const char *value,
						   int value_len, const struct Stat *stat);
extern bool zk_query_sync(ZkClient *client, AnswerHandler handler);
extern bool zk_sync_refused(ZkClient *client, const Answer *answer);
extern void zk_query_done(ZkClient *client, ZkQueueListing *listing);
extern void zk_query_failed(ZkClient *client, ZkError error,
							const char *detail);

#endif							/* ZKLOCK_READ_QUEUE_H */
