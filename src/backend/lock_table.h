/*-------------------------------------------------------------------------
 *
 * lock_table.h
 *	  The lock table: its entries, and what can be done to them (lock_table.c).
 *	  For the files of backend/ that acquire, release or judge locks; the
 *	  judging is in held.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_TABLE_H
#define ZKLOCK_LOCK_TABLE_H

#include "lib/ilist.h"

#include "zklock.h"
#include "owner.h"
#include "zk_record.h"

/* How far a job is that was begun under a lock. */
typedef enum JobState
{
	JOB_NONE,
	JOB_BEGUN,
	JOB_ENDING,					/* when the transaction commits */
	JOB_ENDED,					/* to be recorded with the release */
	JOB_RESET					/* reset, to be recorded with the release */
} JobState;

/* A job; see job.c. */
typedef struct Job
{
	JobState	state;
	int			begun_nesting;	/* level of this transaction at which it was
								 * begun; 0 if an earlier one has begun it */
	int			nesting;		/* ENDING: level at which that was asked for */
	TimestampTz begun_at;
	ZkRun		run;			/* what the record will have */
} Job;

/* How a lock was lost. */
typedef struct LossNote
{
	TimestampTz at;
	int64		token;
	ZkLoss		by;
	bool		logged;			/* while the session was idle */
	char		name[ZK_NAME_SIZE]; /* of its contender; maybe empty */
	char		why[ZK_DETAIL_SIZE];	/* a sentence */
	char		breaker[ZK_OWNER_SIZE]; /* data of the client that broke it;
										 * empty if unknown */
} LossNote;

/* Transaction-scope acquisitions made at one nesting level. */
typedef struct LockLevel
{
	int			nesting;
	int			count[ZK_MODE_COUNT];	/* by ZkMode */
} LockLevel;

/*
 * What this backend holds of one lock; see lock_table.c for the rules.
 *
 * Counts say what the caller acquired, contenders what stands for it in the
 * queue.  An exclusive contender stands for shared acquisitions too; then the
 * shared one is absent, or only reserved for the day the exclusive one goes.
 * Of a semaphore there is nothing but what is in mode ZK_PERMIT, of a lock
 * everything else.
 */
typedef struct Lock
{
	char		node[ZK_NODE_PATH_SIZE];
	dlist_node	link;			/* in order of creation */
	int			nesting;		/* the deepest level of this transaction that
								 * may have something of it; 0 for none */
	dlist_node	touched_link;	/* if not 0: by falling nesting */
	char	   *path;			/* as named when the entry was made */
	int			root_len;		/* of the root then, in node */
	int			permits;		/* of a semaphore: how many there are; else 0 */

	/* by ZkMode, 0 for none; all 0 when lost */
	ZkContenderId contender[ZK_MODE_COUNT];
	bool		reserved;		/* contender[ZK_SHARED] is only reserved */
	ZkContenderId revoked[ZK_MODE_COUNT];	/* the user was told that these
											 * were revoked */
	TimestampTz since[ZK_MODE_COUNT];	/* of the grant of contender[], for
										 * display; kept when lost, else 0
										 * without a contender */
	char		note[ZK_MODE_COUNT][NOTE_SIZE]; /* zklock.note then */
	char		name[ZK_MODE_COUNT][ZK_NAME_SIZE];	/* of contender[], for
													 * messages; empty if
													 * unknown */

	int			session_count[ZK_MODE_COUNT];
	int			transaction_count[ZK_MODE_COUNT];	/* sum over levels */
	int			level_count;	/* levels in use, by rising nesting */
	int			level_capacity;
	LockLevel  *levels;

	bool		handover[2];	/* its release leaves how far the WAL went */
	Job			job;			/* of the exclusive contender */

	int64		fence_token;	/* last taken past the fence, and at which */
	int			fence_nesting;	/* level of this transaction; 0 for at none */

	bool		lost;
	LossNote	loss;			/* valid only when lost */
} Lock;

/* Contenders being released by a call that waits for it. */
typedef struct ReleaseList
{
	int			count;
	struct
	{
		ZkContenderId id;
		Lock	   *lock;		/* stays in the table until forgotten */
	}		   *items;
} ReleaseList;

extern Lock *zklock_lock_find(const LockName *name);
extern Lock *zklock_lock_make(const LockName *name);
extern void zklock_lock_forget(Lock *lock);
extern Lock *zklock_lock_next(Lock *lock);
extern int	zklock_lock_total(void);
extern bool zklock_table_idle(void);
extern const char *zklock_lock_utf8_path(const Lock *lock);
extern const char *zklock_mode_name(ZkMode mode);
extern bool zklock_lock_used(const Lock *lock, ZkMode mode);
extern bool zklock_lock_session_used(const Lock *lock);
extern void zklock_lock_make_room(Lock *lock, LockScope scope, ZkMode mode);
extern void zklock_lock_count(Lock *lock, LockScope scope, ZkMode mode);
extern void zklock_lock_granted(Lock *lock, ZkMode mode, ZkContenderId id,
								const char *contender_name);
extern int64 zklock_lock_token(const Lock *lock);
extern bool zklock_lock_binds(const Lock *lock);
extern void zklock_lock_begin_job(Lock *lock, LockScope scope);
extern void zklock_lock_check_job(const Lock *lock);
extern void zklock_lock_commit_job(Lock *lock);
extern void zklock_lock_renew_note(const Lock *lock);
extern bool zklock_lock_has_contender(const Lock *lock, ZkMode mode);
extern ZkMode zklock_lock_main_mode(const Lock *lock);
extern void zklock_lock_end_contender(Lock *lock, ZkMode mode,
									  ReleaseList *list);
extern void zklock_lock_count_holds(const Lock *lock);
extern void zklock_lock_settle(Lock *lock, ReleaseList *list);
extern void zklock_lock_touch(Lock *lock);
extern Lock *zklock_lock_next_touched(Lock *lock, int nesting);
extern void zklock_locks_drop_levels(int nesting);
extern void zklock_locks_pass_level_up(int nesting);

#endif							/* ZKLOCK_LOCK_TABLE_H */
