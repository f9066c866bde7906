/*-------------------------------------------------------------------------
 *
 * parents.h
 *	  Creating the lock node of a contender, and the containers above it.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PARENTS_H
#define ZKLOCK_PARENTS_H

#include "client.h"

/* What of a lock node is missing.  Written by parents.c.  engine_lock. */
typedef struct Parents
{
	bool		needed;			/* the lock node was not there */
	bool		seen;			/* the znode above the one to create was there */
	uint16_t	len;			/* bytes of the path of that one */
} Parents;

extern void zk_parents_missing(Contender *c);
extern void zk_send_parent(ZkClient *client, int slot);
extern bool zk_creation_denied(ZkClient *client, int slot, int rc, size_t len);

#endif							/* ZKLOCK_PARENTS_H */
