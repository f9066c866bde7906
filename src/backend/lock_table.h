/*-------------------------------------------------------------------------
 *
 * lock_table.h
 *	  What this backend holds, by scope and by level of subtransaction.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/lock_table.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_TABLE_H
#define ZKLOCK_LOCK_TABLE_H

#include "zklock.h"

extern ZkLock *zklock_lock_find(const ZkLockName *name);
extern ZkLock *zklock_lock_make(const ZkLockName *name);
extern void zklock_lock_forget(ZkLock *lock);
extern ZkLock *zklock_lock_next(ZkLock *lock);
extern int	zklock_lock_total(void);
extern bool zklock_table_idle(void);
extern const char *zklock_mode_name(ZkMode mode);
extern const char *zklock_lock_noun(const ZkLock *lock);
extern bool zklock_lock_used(const ZkLock *lock, ZkMode mode);
extern bool zklock_lock_session_used(const ZkLock *lock);
extern ZkMode zklock_lock_stands_for(const ZkLock *lock, ZkMode mode);
extern bool zklock_lock_covers(const ZkLock *lock, ZkMode mode);
extern void zklock_lock_make_room(ZkLock *lock, ZkScope scope, ZkMode mode);
extern void zklock_lock_count(ZkLock *lock, ZkScope scope, ZkMode mode);
extern void zklock_lock_granted(ZkLock *lock, ZkMode mode, ZkContenderId id,
								const char *contender_name);
extern int64 zklock_lock_token(const ZkLock *lock);
extern bool zklock_lock_fenced(const ZkLock *lock, int64 token);
extern void zklock_lock_set_fenced(ZkLock *lock, int64 token);
extern void zklock_lock_clear_fenced(ZkLock *lock);
extern bool zklock_lock_binds(const ZkLock *lock);
extern const ZkRun *zklock_job_mark(const ZkRecord *record);
extern void zklock_lock_begin_job(ZkLock *lock, ZkScope scope);
extern void zklock_lock_check_job(const ZkLock *lock);
extern void zklock_lock_commit_job(ZkLock *lock);
extern void zklock_lock_renew_note(const ZkLock *lock);
extern bool zklock_lock_has_contender(const ZkLock *lock, ZkMode mode);
extern ZkMode zklock_lock_main_mode(const ZkLock *lock);
extern void zklock_lock_end_contender(ZkLock *lock, ZkMode mode,
									  ZkReleaseList *list);
extern void zklock_lock_settle(ZkLock *lock, ZkReleaseList *list);
extern void zklock_lock_touch(ZkLock *lock);
extern ZkLock *zklock_lock_next_touched(ZkLock *lock, int nesting);
extern void zklock_locks_drop_levels(int nesting);
extern void zklock_locks_pass_level_up(int nesting);

#endif							/* ZKLOCK_LOCK_TABLE_H */
