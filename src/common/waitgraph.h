/*-------------------------------------------------------------------------
 *
 * waitgraph.h
 *	  Published waits, and cycles among them: pure functions (waitgraph.c).
 *
 * For backend/ and client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAITGRAPH_H
#define ZKLOCK_WAITGRAPH_H

#include "zk_types.h"

/*
 * A lock that a published wait is for; neither text is owned or NUL-terminated.
 */
typedef struct ZkWaitedFor
{
	const char *name;			/* of the contender */
	int			name_len;
	const char *node;			/* the lock node */
	int			node_len;
} ZkWaitedFor;

/*
 * An edge of the graph of waits.  Only the waiter's PostgreSQL knows a local
 * one.
 */
typedef struct ZkWaitEdge
{
	int			from;			/* number of the waiter, from 0 on */
	int			to;				/* number of what it waits for */
	bool		local;
} ZkWaitEdge;

extern int	zk_wait_line_length(const char *text, int len);
extern bool zk_wait_next(const char *text, int len, int *at,
						 ZkWaitedFor *lock);
extern int	zk_cycle_find(const ZkWaitEdge *edges, int edge_count,
						  const int64_t *published, int count, int self,
						  int *cycle);

#endif							/* ZKLOCK_WAITGRAPH_H */
