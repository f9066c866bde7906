/*-------------------------------------------------------------------------
 *
 * parents.h
 *	  Creating the znodes above a contender, its marker or its record.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PARENTS_H
#define ZKLOCK_PARENTS_H

#include "client.h"
#include "request.h"

/* What could not be created, for want of the znodes above it. */
typedef enum ParentsOf
{
	PARENTS_OF_NONE,			/* nothing is missing, as far as is known */
	PARENTS_OF_CONTENDER,		/* the lock node, and containers above it */
	PARENTS_OF_MARKER,			/* the record, empty, and what is above it */
	PARENTS_OF_RECORD
} ParentsOf;

/* What is missing for a contender.  Written by parents.c.  engine_lock. */
typedef struct Parents
{
	ParentsOf	of;
	size_t		len;			/* bytes of the path of the one to create */
	bool		seen;			/* the znode above that one was there */
} Parents;

extern void zk_parents_missing(Contender *c, ParentsOf of);
extern bool zk_parent_answered(ZkClient *client, Contender *c, const Answer *answer);
extern void zk_send_parent(ZkClient *client, Contender *c, ContenderHandler handler);
extern void zk_send_lock_node(ZkClient *client, Contender *c);
extern bool zk_creation_denied(ZkClient *client, Contender *c, int rc, size_t len);

#endif							/* ZKLOCK_PARENTS_H */
