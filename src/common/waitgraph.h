/*-------------------------------------------------------------------------
 *
 * waitgraph.h
 *	  Published waits, and cycles among those who wait: pure functions, no I/O.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAITGRAPH_H
#define ZKLOCK_WAITGRAPH_H

#include "zk_types.h"

/* A lock that a published wait is for; both borrowed, not NUL-terminated. */
typedef struct ZkWaitedFor
{
	const char *name;			/* of the contender */
	int			name_len;
	const char *node;			/* the lock node */
	int			node_len;
} ZkWaitedFor;

/*
 * One waits for another.  Local is what only the waiter's PostgreSQL knows of.
 */
typedef struct ZkWaitEdge
{
	int			from;			/* who waits, a number from 0 on */
	int			to;				/* for whom */
	bool		local;
} ZkWaitEdge;

extern int	zk_wait_owner_length(const char *text, int len);
extern bool zk_wait_next(const char *text, int len, int *at,
						 ZkWaitedFor *lock);
extern int	zk_cycle_find(const ZkWaitEdge *edges, int edge_count,
						  const int64_t *published, int count, int self,
						  int *cycle);

#endif							/* ZKLOCK_WAITGRAPH_H */
