/*-------------------------------------------------------------------------
 *
 * group.h
 *	  Contenders that come into being together: several locks in one call.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GROUP_H
#define ZKLOCK_GROUP_H

#include "client.h"

/* A contender as a member of a group.  Written by group.c.  engine_lock. */
typedef struct Membership
{
	enum
	{
		MEMBER_NONE,
		MEMBER_IN_RING,			/* of a group that is to be created */
		MEMBER_LEFT				/* created with others, or not at all */
	}			state;
	uint16_t	next;			/* in the ring */
} Membership;

extern GroupCreate *zk_group_create(void);
extern void zk_group_handle_closed(ZkClient *client);
extern void zk_group_join(Contender *c, uint16_t next);
extern void zk_group_dissolve(ZkClient *client, Contender *c);
extern void zk_send_group(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_GROUP_H */
