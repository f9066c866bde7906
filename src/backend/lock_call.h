/*-------------------------------------------------------------------------
 *
 * lock_call.h
 *	  A lock call on its way, and its wait for others (wait_report.c).  For
 *	  acquire.c and wait_report.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_CALL_H
#define ZKLOCK_LOCK_CALL_H

#include "zklock.h"
#include "deadlock.h"
#include "holder.h"
#include "lock_table.h"
#include "session.h"

/* A contender on its way to being granted. */
typedef struct LockWait
{
	const LockName *name;
	Lock	   *lock;
	ZkContenderId id;
	bool		upgrade;		/* the same lock is held shared */
	ZkTime		behind_since;	/* of the first status with one; 0 before */
	bool		logged;			/* for log_lock_waits */
	bool		renewed;		/* a proof was asked for */
	ZkTime		replay_since;	/* first seen waiting for replay; or 0 */
	bool		replay_never;	/* which will not come, as was said */
	ZkPosition	wanted;			/* up to where, when last looked at */
	ZkPosition	have;
	ZkContenderStatus status;	/* as last looked at */
	Holder		holder;			/* of the lock, as far as known */
} LockWait;

/* A call that acquires one lock or several. */
typedef struct LockCall
{
	ZkLockRequest request;
	bool		handover;		/* what was committed is waited for and left */
	const LockWait *replaying;	/* all are granted, this one is not replayed */
	ZkTime		deadline;		/* of the caller's timeout */
	ZkTime		lock_deadline;	/* of lock_timeout */
	Link		link;
	const char *note;			/* zklock.note in UTF-8 */
	int			vanished;		/* contenders deleted by other clients */
	int			wait_count;		/* locks that are to be queued for */
	LockWait   *waits;
	Awaited    *awaited;		/* the same, for who looks for deadlocks */
	DeadlockCheck *check;		/* NULL before there is reason to */
	int			already_held_count; /* locks that are only to be counted */
	Lock	  **already_held;
} LockCall;

/* What is logged about a long wait. */
typedef enum WaitStage
{
	STAGE_WAITING,
	STAGE_ACQUIRED,
	STAGE_DEADLOCK
} WaitStage;

/* in wait_report.c */
extern bool zklock_wait_behind(const LockWait *wait);
extern ZkTime zklock_wait_time(const LockWait *wait);
extern const char *zklock_wait_purpose(const LockCall *call);
extern const char *zklock_wait_failure(const LockCall *call);
extern void zklock_wait_log(const LockCall *call, const LockWait *wait,
							WaitStage stage);
pg_noreturn extern void zklock_wait_timed_out(const LockCall *call,
											  const LockWait *wait);
pg_noreturn extern void zklock_wait_broken(const LockCall *call,
										   const LockWait *wait);
extern void zklock_wait_show(const LockCall *call, const LockWait *wait);
extern ZkTime zklock_wait_long(LockCall *call, ZkTime now);
extern void zklock_wait_end(void);

#endif							/* ZKLOCK_LOCK_CALL_H */
