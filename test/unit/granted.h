/*-------------------------------------------------------------------------
 *
 * granted.h
 *	  The holders of a lock, computed for one contender at a time.
 *
 * zk_queue_all_granted() computes them for a whole queue; the tests compare it
 * with this simple version.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GRANTED_H
#define ZKLOCK_GRANTED_H

#include "queue.h"

/*
 * Does entry "which" of a sorted queue, one for a permit, hold it?
 */
static inline bool
permit_granted(const ZkQueueEntry *entries, int which)
{
	int			ahead = 0;

	for (; entries[ahead].sequence != entries[which].sequence; ahead++)
	{
		if (entries[ahead].permits != entries[which].permits)
			return false;
	}
	return ahead < entries[which].permits;
}

/*
 * Does entry "which" of a sorted queue hold the lock?  session_ids[i] is the
 * ephemeralOwner of entries[i]; see zk_queue_all_granted().
 */
static inline bool
is_granted(const ZkQueueEntry *entries, const int64_t *session_ids, int which)
{
	if (entries[which].mode == ZK_PERMIT)
		return permit_granted(entries, which);
	for (int i = 0; i < which; i++)
	{
		if (entries[i].sequence == entries[which].sequence)
			break;
		if (session_ids[i] != 0 && session_ids[i] == session_ids[which])
			continue;
		if (entries[i].mode != ZK_SHARED || entries[which].mode != ZK_SHARED)
			return false;
	}
	return true;
}

#endif							/* ZKLOCK_GRANTED_H */
