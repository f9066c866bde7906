/*-------------------------------------------------------------------------
 *
 * holder.h
 *	  The holder of a lock that is waited for (holder.c).  For the files of
 *	  backend/ that wait for locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HOLDER_H
#define ZKLOCK_HOLDER_H

#include "zklock.h"
#include "lock_table.h"
#include "zk_lock.h"

/* The holder of a lock that is waited for, see holder.c. */
typedef struct Holder
{
	char		blocker[ZK_NAME_SIZE];	/* the wait is for, when this was
										 * asked */
	ZkTime		ask_at;			/* when to read the queue again, or to give up
								 * reading it; 0 before the first time */
	TimestampTz seen_at;		/* when it was read last */
	int			position;		/* of the waiter in the queue, from 1 on */
	int			ahead;			/* contenders that must go before it */
	char		name[ZK_NAME_SIZE]; /* the holder's contender; maybe empty */
	int64		session;		/* its ZooKeeper session; 0 while unknown */
	char		owner[ZK_OWNER_SIZE];	/* its data, anybody's */
} Holder;

extern void zklock_holder_refresh(Holder *holder,
								  const ZkContenderStatus *status);
extern bool zklock_holder_learn(Holder *holder, const Lock *lock,
								const ZkContenderStatus *status, ZkTime since,
								bool needed, ZkTime *next);
extern void zklock_holder_forget(const Holder *holder);
extern bool zklock_holder_pause(void);
extern void zklock_holder_resume(void);

#endif							/* ZKLOCK_HOLDER_H */
