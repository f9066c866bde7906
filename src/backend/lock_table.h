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

extern Lock *zklock_lock_find(const LockName *name);
extern Lock *zklock_lock_make(const LockName *name);
extern void zklock_lock_forget(Lock *lock);
extern Lock *zklock_lock_next(Lock *lock);
extern int	zklock_lock_total(void);
extern bool zklock_table_idle(void);
extern const char *zklock_mode_name(ZkMode mode);
extern const char *zklock_lock_noun(const Lock *lock);
extern bool zklock_lock_used(const Lock *lock, ZkMode mode);
extern bool zklock_lock_session_used(const Lock *lock);
extern ZkMode zklock_lock_stands_for(const Lock *lock, ZkMode mode);
extern bool zklock_lock_covers(const Lock *lock, ZkMode mode);
extern void zklock_lock_make_room(Lock *lock, LockScope scope, ZkMode mode);
extern void zklock_lock_count(Lock *lock, LockScope scope, ZkMode mode);
extern void zklock_lock_granted(Lock *lock, ZkMode mode, ZkContenderId id,
								const char *contender_name);
extern int64 zklock_lock_token(const Lock *lock);
extern bool zklock_lock_fenced(const Lock *lock, int64 token);
extern void zklock_lock_set_fenced(Lock *lock, int64 token);
extern void zklock_lock_clear_fenced(Lock *lock);
extern bool zklock_lock_binds(const Lock *lock);
extern const ZkRun *zklock_job_mark(const ZkRecord *record);
extern void zklock_lock_begin_job(Lock *lock, LockScope scope);
extern void zklock_lock_check_job(const Lock *lock);
extern void zklock_lock_commit_job(Lock *lock);
extern void zklock_lock_renew_note(const Lock *lock);
extern bool zklock_lock_has_contender(const Lock *lock, ZkMode mode);
extern ZkMode zklock_lock_main_mode(const Lock *lock);
extern void zklock_lock_end_contender(Lock *lock, ZkMode mode,
									  ReleaseList *list);
extern void zklock_lock_settle(Lock *lock, ReleaseList *list);
extern void zklock_lock_touch(Lock *lock);
extern Lock *zklock_lock_next_touched(Lock *lock, int nesting);
extern void zklock_locks_drop_levels(int nesting);
extern void zklock_locks_pass_level_up(int nesting);

#endif							/* ZKLOCK_LOCK_TABLE_H */
