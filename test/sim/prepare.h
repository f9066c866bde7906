/*-------------------------------------------------------------------------
 *
 * prepare.h
 *	  How the leader makes a transaction of a request: PrepRequestProcessor.
 *
 * A request is checked against the tree as it will be when all transactions
 * that are under way have been applied.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PREPARE_H
#define PREPARE_H

#include "sessions.h"
#include "tree.h"

/* A node as the transactions under way leave it. */
typedef struct Record Record;

typedef struct Prepare
{
	const Tree *tree;
	Tracker    *tracker;
	HashTable	records;		/* the newest for each path */
	Record	   *first;			/* in the order of their transactions */
	Record	   *last;
} Prepare;

/* Who asks; session 0 may do everything, and is not checked. */
typedef struct Asker
{
	int64_t		session;
	int32_t		cxid;
	Owner		owner;
	const Identities *identities;
} Asker;

extern void prepare_end(Prepare *prepare);

/* Returns the transaction of a write, which is an error if it must fail. */
extern Transaction *prepare_op(Prepare *prepare, const Op *op, const Asker *asker,
							   int64_t zxid, int64_t time_ms);

/* The end of a session; no check. */
extern Transaction *prepare_close(Prepare *prepare, const Asker *asker,
								  int64_t zxid, int64_t time_ms);

/* What the container manager asks for. */
extern Transaction *prepare_delete_container(Prepare *prepare, const char *path,
											 int64_t zxid, int64_t time_ms);

/* All transactions up to that one are in the tree. */
extern void prepare_applied(Prepare *prepare, int64_t zxid);

#endif							/* PREPARE_H */
