/*-------------------------------------------------------------------------
 *
 * held.h
 *	  Is a lock held that the lock table says is held?  And what is given back
 *	  before the transaction ends.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/held.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HELD_H
#define ZKLOCK_HELD_H

#include "zklock.h"

extern ZkLease zklock_lock_judge(ZkLock *lock);
extern ZkLease zklock_lock_assure(ZkLock *lock, ZkTime deadline,
								  ZkTime *asked);
extern void zklock_lock_let_go(ZkLock *lock);
extern bool zklock_lock_uncount(ZkLock *lock, ZkMode mode, ZkReleaseList *list);
extern void zklock_lock_uncount_all(ZkLock *lock, ZkReleaseList *list);
extern void zklock_lock_close(ZkLock *lock, ZkReleaseList *list);
pg_noreturn extern void zklock_report_lost(const ZkLock *lock);

#endif							/* ZKLOCK_HELD_H */
