/*-------------------------------------------------------------------------
 *
 * admin.h
 *	  What concerns the contenders of others: to see a queue, or all those below
 *	  a path, to ask for a lock back, to break a contender; and being asked oneself.
 *
 * For the files of backend/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADMIN_H
#define ZKLOCK_ADMIN_H

#include "zklock.h"
#include "zk_inspect.h"
#include "zk_record.h"

extern ZkQueueListing *zklock_read_queue(const LockName *name);
extern ZkQueueListing *zklock_read_tree(const char *path);
extern void zklock_read_record(const LockName *name, ZkRecord *record);
extern bool zklock_break(const LockName *name, const char *contender,
						 bool only_revoke);
extern void zklock_tell_revoked(void);

#endif							/* ZKLOCK_ADMIN_H */
