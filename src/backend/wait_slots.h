/*-------------------------------------------------------------------------
 *
 * wait_slots.h
 *	  The waits of this cluster, in shared memory (wait_slots.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_WAIT_SLOTS_H
#define ZKLOCK_WAIT_SLOTS_H

#include "zklock.h"
#include "holder.h"
#include "owner.h"

/* A backend's wait for others, as all backends can see it. */
typedef struct Wait
{
	Oid			role;			/* who was authenticated */
	char		path[ZK_NODE_PATH_SIZE];	/* the lock, in UTF-8 */
	ZkMode		mode;
	TimestampTz since;			/* when the call first had to wait */
	char		note[NOTE_SIZE];	/* zklock.note of the waiter, in UTF-8 */
	char		contender[ZK_NAME_SIZE];
	int64		blocker_session;	/* of the contender watched */
	char		blocker_owner[ZK_OWNER_SIZE];
	Holder		holder;			/* the first in the queue */
} Wait;

extern void zklock_wait_slots_request(void);
extern void zklock_wait_slots_attach(void);
extern int	zklock_wait_slots_count(void);
extern void zklock_wait_slot_session(int64 session);
extern void zklock_wait_slot_show(Wait *wait);
extern void zklock_wait_slot_clear(void);
extern int	zklock_wait_slot_read(int index, Wait *wait);
extern int	zklock_wait_slots_blockers(int pid, int *pids);

#endif							/* ZKLOCK_WAIT_SLOTS_H */
