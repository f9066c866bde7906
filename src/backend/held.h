/*-------------------------------------------------------------------------
 *
 * held.h
 *	  Judge locks that the lock table has, and release them.  For the files of
 *	  backend/ that may include lock_table.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HELD_H
#define ZKLOCK_HELD_H

#include "zklock.h"
#include "lock_table.h"
#include "session.h"

extern HoldState zklock_lock_judge(Lock *lock);
extern HoldState zklock_lock_assure(Lock *lock, ZkTime deadline,
									ZkTime *asked);
extern void zklock_lock_let_go(Lock *lock);
extern bool zklock_lock_uncount(Lock *lock, ZkMode mode, ReleaseList *list);
extern void zklock_lock_uncount_all(Lock *lock, ReleaseList *list);
extern void zklock_lock_close(Lock *lock, ReleaseList *list);
extern void zklock_log_lost(void);
extern void zklock_warn_lost(const Lock *lock);
pg_noreturn extern void zklock_report_lost(const Lock *lock);

#endif							/* ZKLOCK_HELD_H */
