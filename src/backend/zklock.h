/*-------------------------------------------------------------------------
 *
 * zklock.h
 *	  What the files of the backend side share.
 *
 * Calls go down only, from zklock.c and funcs.c to the client API (zkclient.h); src/README
 * has the order of the files.  All of it runs on the backend's own thread.
 *
 * IDENTIFICATION
 *	  src/backend/zklock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_H
#define ZKLOCK_H

#include <signal.h>

#include "compat.h"
#include "libpq/pqsignal.h"
#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "nodes/plannodes.h"
#include "zkclient.h"

/* A lock is lost; the class is outside the range reserved by the standard. */
#define ERRCODE_ZK_LOCK_LOST	MAKE_SQLSTATE('Z', 'K', 'L', '0', '1')

/*
 * What the data of a contender says about its owner; the columns that show that,
 * in this order, are the first ones.
 */
typedef enum OwnerField
{
	OWNER_CLUSTER,
	OWNER_HOST,
	OWNER_PORT,
	OWNER_DATABASE,
	OWNER_PID,
	OWNER_USER,
	OWNER_APPLICATION,
	OWNER_START,
	OWNER_INSTANCE,				/* see zklock_instance() */
	OWNER_FIRE_TIME,			/* of the job it runs */
	OWNER_TOKEN					/* of what was exclusive before */
} OwnerField;

#define OWNER_COLS			8
#define OWNER_FIELDS			11

/* Columns of a job: its last run, the fire time of this one, and who runs it. */
#define JOB_COLS				(4 + OWNER_COLS)

/*
 * How long a call whose time is up, or that has no connection, waits for its
 * contender to be gone.  It is deleted in any case; the caller should just not
 * see it any more.
 */
#define ZKLOCK_CLEANUP_TIMEOUT	ZK_MS(20)

/* A point in time that never comes. */
#define ZKLOCK_FOREVER			((ZkTime) PG_INT64_MAX)

typedef enum LockScope
{
	SCOPE_SESSION,				/* until released or the backend exits */
	SCOPE_TRANSACTION			/* until commit or rollback */
} LockScope;

/* Can it be proved that a lock is held? */
typedef enum HoldState
{
	HOLD_PROVED,				/* the last proof is recent enough */
	HOLD_UNPROVED,				/* it is not; a new one may yet succeed */
	HOLD_LOST
} HoldState;

/* What is asked for before a commit while locks are held. */
typedef enum CommitGuard
{
	GUARD_OFF,
	GUARD_SESSION,				/* a lease that is running */
	GUARD_QUORUM				/* the ensemble's word, in any case */
} CommitGuard;

/* What becomes of the statement that runs when a lock is lost. */
typedef enum LossAction
{
	LOSS_CANCEL,
	LOSS_REPORT
} LossAction;

/* What a backend waits for, as pg_stat_activity names it from PostgreSQL 17 on. */
typedef enum WaitPurpose
{
	WAIT_FOR_CONNECT,			/* a connection to the ensemble */
	WAIT_FOR_LOCK,				/* a lock to be granted */
	WAIT_FOR_RELEASE,			/* a contender to be gone */
	WAIT_FOR_PROOF,				/* a proof that locks are held */
	WAIT_FOR_READ				/* an answer about the contenders of others */
} WaitPurpose;

/* What stats.c counts. */
typedef enum StatCounter
{
	STAT_ATTEMPTS,				/* acquire calls */
	STAT_AT_ONCE,				/* granted without waiting for anybody */
	STAT_AFTER_WAIT,			/* granted after waiting for somebody */
	STAT_TIMEOUTS,				/* somebody else held a lock when time was up */
	STAT_CANCELS,				/* ended by a cancel, or with the backend */
	STAT_DEADLOCKS,
	STAT_ERRORS,				/* ended by any other error */
	STAT_LOST,					/* locks that turned out to be lost */
	STAT_SESSIONS,				/* ZooKeeper sessions begun */
	STAT_RECONNECTS,			/* connections lost and regained */
	STAT_EXPIRIES,				/* ZooKeeper sessions that have expired */
	STAT_WAIT_TIME				/* microseconds spent waiting for somebody */
} StatCounter;

#define STAT_COUNT			(STAT_WAIT_TIME + 1)
#define STAT_FIRST_OUTCOME	STAT_AT_ONCE
#define STAT_LAST_OUTCOME	STAT_ERRORS

/*
 * Waits are counted by their length: up to 1, 4, 16, ... ms, and those longer than
 * the last bound, which is 4^9 ms (four minutes).
 */
#define WAIT_BUCKETS			11

typedef struct LockStats
{
	int64		values[STAT_COUNT];
	int64		waits[WAIT_BUCKETS];
	TimestampTz reset_at;
} LockStats;

/* What a backend that waits for somebody else knows of it, for others to see. */
typedef struct Wait
{
	Oid			role;			/* who was authenticated */
	char		path[ZK_NODE_PATH_SIZE];	/* the lock, in UTF-8 */
	ZkMode		mode;
	TimestampTz since;			/* when the call first had to wait */
	int			position;		/* in the queue, from 1 on */
	int			ahead;			/* contenders that must go first */
	char		contender[ZK_NAME_SIZE];
	char		blocker[ZK_NAME_SIZE];	/* the one watched */
	int64		blocker_session;
	char		blocker_owner[ZK_OWNER_SIZE];
	char		holder[ZK_NAME_SIZE];	/* the first in the queue */
	int64		holder_session; /* 0 while unknown */
	TimestampTz seen_at;		/* when the queue was read last */
	char		holder_owner[ZK_OWNER_SIZE];
} Wait;

/* Who holds a lock that is waited for, see holder.c. */
typedef struct Holder
{
	char		blocker[ZK_NAME_SIZE];	/* the wait is for, when this was asked */
	ZkTime		ask_at;			/* when to read the queue again, or to give up
								 * reading it; 0 before the first time */
	TimestampTz seen_at;		/* when it was read last */
	int			position;		/* of the waiter in the queue, from 1 on */
	int			ahead;			/* contenders that must go before it */
	char		name[ZK_NAME_SIZE]; /* the holder's contender; maybe empty */
	int64		session;		/* its ZooKeeper session; 0 while unknown */
	char		owner[ZK_OWNER_SIZE];	/* its data, anybody's */
} Holder;

/* How far is a server, as to what the record of a lock asks for? */
typedef enum ReplayState
{
	REPLAY_DONE,
	REPLAY_PENDING,
	REPLAY_NEVER				/* it is not in the history of this server */
} ReplayState;

/* How far a job is that was begun under a lock. */
typedef enum JobState
{
	JOB_NONE,
	JOB_BEGUN,
	JOB_ENDING,					/* when the transaction commits */
	JOB_ENDED,					/* to be recorded with the release */
	JOB_RESET					/* likewise, that runs are not done */
} JobState;

/* A job; see job.c. */
typedef struct Job
{
	JobState	state;
	int			begun_nesting;	/* level of this transaction at which it was begun;
								 * 0 if an earlier one has begun it */
	int			nesting;		/* ENDING: level at which that was asked for */
	TimestampTz begun_at;
	ZkRun		run;			/* what the record will have */
} Job;

/* What a run of a job is to be. */
typedef struct JobCall
{
	TimestampTz fire_time;
	ZkTime		timeout;		/* of the call, see zklock_acquire() */
	ZkTime		max_runtime;	/* of the run, in microseconds; 0 for none */
	LockScope	scope;			/* in TRANSACTION the commit ends the run */
	Oid			function;		/* the SQL function that was called */
} JobCall;

/*
 * What a statement does, as far as a commit is concerned: what begins within one that
 * is beyond FRAME is a part of that.
 */
typedef enum Deed
{
	DEED_NONE,					/* no statement runs */
	DEED_FRAME,					/* begins or ends a transaction or a part of one,
									 * or executes what was prepared */
	DEED_HARMLESS,				/* releases, looks at locks, or sets something: is
									 * never refused */
	DEED_LOCKING,				/* calls functions of this extension only */
	DEED_WORK,					/* anything else */
	DEED_OUTSIDE,				/* shows outside of the database at once */
	DEED_STEPS,					/* commits several times */
	DEED_AT_ONCE				/* takes effect before it commits */
} Deed;

/* How a lock was lost. */
typedef struct LossNote
{
	TimestampTz at;
	int64		token;
	ZkLoss		by;
	char		name[ZK_NAME_SIZE]; /* of its contender; maybe empty */
	char		why[ZK_DETAIL_SIZE];	/* a sentence */
	char		breaker[ZK_OWNER_SIZE]; /* who has broken it, in its own words;
										 * empty if that is not known */
} LossNote;

/* A lock as the caller names it, and the lock node that stands for it. */
typedef struct LockName
{
	const char *path;			/* in the server encoding */
	char		node[ZK_NODE_PATH_SIZE];	/* with the root, in UTF-8 */
} LockName;

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
 * shared one is absent, or only reserved for the day the exclusive one goes.  Of a
 * semaphore there is nothing but what is in mode ZK_PERMIT, of a lock everything
 * else.
 */
typedef struct Lock
{
	char		node[ZK_NODE_PATH_SIZE];	/* hash key */
	dlist_node	link;			/* in order of creation */
	int			nesting;		/* the deepest level of this transaction that may
								 * have something of it; 0 for none */
	dlist_node	touched_link;	/* if not 0: by falling nesting */
	char	   *path;			/* as named when the entry was made */
	int			permits;		/* of a semaphore: how many there are; else 0 */

	/* by ZkMode, 0 for none; all 0 when lost */
	ZkContenderId contender[ZK_MODE_COUNT];
	bool		reserved;		/* contender[ZK_SHARED] is only reserved */
	ZkContenderId revoked[ZK_MODE_COUNT];	/* those the client was told are
											 * asked for */
	TimestampTz since[ZK_MODE_COUNT];	/* of the grant of contender[], for
										 * display */
	char		name[ZK_MODE_COUNT][ZK_NAME_SIZE];	/* of contender[], for messages;
													 * empty if unknown */

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

/*
 * What one call has seen of the connection.  It decides how long the call
 * puts up with having none.
 */
typedef struct Link
{
	ZkSessionStatus status;		/* as last looked at */
	bool		was_up;			/* connected at some time during this call */
	ZkTime		down_since;		/* start of this outage, as far as this call
								 * saw it; 0 when connected */
	int64		connections;	/* ever made, as last looked at */
} Link;

/* A contender of a call that waits. */
typedef struct Awaited
{
	const char *node;
	const char *name;			/* of the contender; empty while unknown */
} Awaited;

/* What a call that waits knows of deadlocks; see deadlock.c. */
typedef struct DeadlockCheck DeadlockCheck;

#endif							/* ZKLOCK_H */
