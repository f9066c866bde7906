/*-------------------------------------------------------------------------
 *
 * zklock.h
 *	  What the files of the backend side share.
 *
 * Calls go down only, from zklock.c and funcs.c to the door (zkclient.h); src/README
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
typedef enum ZkOwnerField
{
	ZK_OWNER_CLUSTER,
	ZK_OWNER_HOST,
	ZK_OWNER_PORT,
	ZK_OWNER_DATABASE,
	ZK_OWNER_PID,
	ZK_OWNER_USER,
	ZK_OWNER_APPLICATION,
	ZK_OWNER_START,
	ZK_OWNER_INSTANCE,			/* see zklock_instance() */
	ZK_OWNER_FIRE_TIME,			/* of the job it runs */
	ZK_OWNER_TOKEN				/* of what was exclusive before */
} ZkOwnerField;

#define ZK_OWNER_COLS			8
#define ZK_OWNER_FIELDS			11

/* Columns of a job: its last run, the fire time of this one, and who runs it. */
#define ZK_JOB_COLS				(4 + ZK_OWNER_COLS)

/*
 * How long a call whose time is up, or that has no connection, waits for its
 * contender to be gone.  It is deleted in any case; the caller should just not
 * see it any more.
 */
#define ZKLOCK_CLEANUP_PATIENCE	ZK_MS(20)

/* A point in time that never comes. */
#define ZKLOCK_FOREVER			((ZkTime) PG_INT64_MAX)

typedef enum ZkScope
{
	ZK_SCOPE_SESSION,			/* until released or the backend exits */
	ZK_SCOPE_TRANSACTION		/* until commit or rollback */
} ZkScope;

/* Can it be proved that a lock is held? */
typedef enum ZkLease
{
	ZK_LEASE_RUNS,				/* the last proof is recent enough */
	ZK_LEASE_LAPSED,			/* it is not; a new one may yet succeed */
	ZK_LEASE_LOST
} ZkLease;

/* What is asked for before a commit while locks are held. */
typedef enum ZkCommitGuard
{
	ZK_GUARD_OFF,
	ZK_GUARD_SESSION,			/* a lease that is running */
	ZK_GUARD_QUORUM				/* the ensemble's word, in any case */
} ZkCommitGuard;

/* What becomes of the statement that runs when a lock is lost. */
typedef enum ZkLossAction
{
	ZK_LOSS_CANCEL,
	ZK_LOSS_REPORT
} ZkLossAction;

/* What a backend waits for, as pg_stat_activity names it from PostgreSQL 17 on. */
typedef enum ZkWaitEvent
{
	ZK_EVENT_CONNECT,			/* a connection to the ensemble */
	ZK_EVENT_LOCK,				/* a lock to be granted */
	ZK_EVENT_RELEASE,			/* a contender to be gone */
	ZK_EVENT_PROOF,				/* a proof that locks are held */
	ZK_EVENT_READ				/* an answer about the contenders of others */
} ZkWaitEvent;

/* What stats.c counts. */
typedef enum ZkStat
{
	ZK_STAT_ATTEMPTS,			/* acquire calls */
	ZK_STAT_AT_ONCE,			/* granted without waiting for anybody */
	ZK_STAT_AFTER_WAIT,			/* granted after waiting for somebody */
	ZK_STAT_TIMEOUTS,			/* somebody else held a lock when time was up */
	ZK_STAT_CANCELS,			/* ended by a cancel, or with the backend */
	ZK_STAT_DEADLOCKS,
	ZK_STAT_ERRORS,				/* ended by any other error */
	ZK_STAT_LOST,				/* locks that turned out to be lost */
	ZK_STAT_SESSIONS,			/* ZooKeeper sessions begun */
	ZK_STAT_RECONNECTS,			/* connections lost and regained */
	ZK_STAT_EXPIRIES,			/* ZooKeeper sessions that have expired */
	ZK_STAT_WAIT_TIME			/* microseconds spent waiting for somebody */
} ZkStat;

#define ZK_STAT_COUNT			(ZK_STAT_WAIT_TIME + 1)
#define ZK_STAT_FIRST_OUTCOME	ZK_STAT_AT_ONCE
#define ZK_STAT_LAST_OUTCOME	ZK_STAT_ERRORS

/*
 * Waits are counted by their length: up to 1, 4, 16, ... ms, and those longer than
 * the last bound, which is 4^9 ms (four minutes).
 */
#define ZK_WAIT_BUCKETS			11

typedef struct ZkStats
{
	int64		values[ZK_STAT_COUNT];
	int64		waits[ZK_WAIT_BUCKETS];
	TimestampTz reset_at;
} ZkStats;

/* What a backend that waits for somebody else knows of it, for others to see. */
typedef struct ZkWait
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
} ZkWait;

/* Who holds a lock that is waited for, see holder.c. */
typedef struct ZkHolder
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
} ZkHolder;

/* How far is a server, as to what the record of a lock asks for? */
typedef enum ZkReplay
{
	ZK_REPLAY_DONE,
	ZK_REPLAY_PENDING,
	ZK_REPLAY_NEVER				/* it is not in the history of this server */
} ZkReplay;

/* How far a job is that was begun under a lock. */
typedef enum ZkJobState
{
	ZK_JOB_NONE,
	ZK_JOB_BEGUN,
	ZK_JOB_ENDING,				/* when the transaction commits */
	ZK_JOB_ENDED,				/* to be recorded with the release */
	ZK_JOB_RESET				/* likewise, that runs are not done */
} ZkJobState;

/* A job; see job.c. */
typedef struct ZkJob
{
	ZkJobState	state;
	int			begun_nesting;	/* level of this transaction at which it was begun;
								 * 0 if an earlier one has begun it */
	int			nesting;		/* ENDING: level at which that was asked for */
	TimestampTz begun_at;
	ZkRun		run;			/* what the record will have */
} ZkJob;

/* What a run of a job is to be. */
typedef struct ZkJobCall
{
	TimestampTz fire_time;
	ZkTime		timeout;		/* of the call, see zklock_acquire() */
	ZkTime		max_runtime;	/* of the run, in microseconds; 0 for none */
	ZkScope		scope;			/* in TRANSACTION the commit ends the run */
	Oid			function;		/* the SQL function that was called */
} ZkJobCall;

/*
 * What a statement does, as far as a commit is concerned: what begins within one that
 * is beyond FRAME is a part of that.
 */
typedef enum ZkDeed
{
	ZK_DEED_NONE,				/* no statement runs */
	ZK_DEED_FRAME,				/* begins or ends a transaction or a part of one,
								 * or executes what was prepared */
	ZK_DEED_HARMLESS,			/* releases, looks at locks, or sets something: is
								 * never refused */
	ZK_DEED_LOCKING,			/* calls functions of this extension only */
	ZK_DEED_WORK,				/* anything else */
	ZK_DEED_OUTSIDE,			/* shows outside of the database at once */
	ZK_DEED_STEPS,				/* commits several times */
	ZK_DEED_AT_ONCE				/* takes effect before it commits */
} ZkDeed;

/* How a lock was lost. */
typedef struct ZkLossNote
{
	TimestampTz at;
	int64		token;
	ZkLoss		by;
	char		name[ZK_NAME_SIZE]; /* of its contender; maybe empty */
	char		why[ZK_DETAIL_SIZE];	/* a sentence */
	char		breaker[ZK_OWNER_SIZE]; /* who has broken it, in its own words;
										 * empty if that is not known */
} ZkLossNote;

/* A lock as the caller names it, and the lock node that stands for it. */
typedef struct ZkLockName
{
	const char *path;			/* in the server encoding */
	char		node[ZK_NODE_PATH_SIZE];	/* with the root, in UTF-8 */
} ZkLockName;

/* Transaction-scope acquisitions made at one nesting level. */
typedef struct ZkLevel
{
	int			nesting;
	int			count[ZK_MODE_COUNT];	/* by ZkMode */
} ZkLevel;

/*
 * What this backend holds of one lock; see lock_table.c for the rules.
 *
 * Counts say what the caller acquired, contenders what stands for it in the
 * queue.  An exclusive contender stands for shared acquisitions too; then the
 * shared one is absent, or only reserved for the day the exclusive one goes.  Of a
 * semaphore there is nothing but what is in mode ZK_PERMIT, of a lock everything
 * else.
 */
typedef struct ZkLock
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
	int			level_room;
	ZkLevel    *levels;

	bool		handover[2];	/* its release leaves how far the WAL went */
	ZkJob		job;			/* of the exclusive contender */

	int64		fence_token;	/* last taken past the fence, and at which */
	int			fence_nesting;	/* level of this transaction; 0 for at none */

	bool		lost;
	ZkLossNote	loss;			/* valid only when lost */
} ZkLock;

/* Contenders being released by a call that waits for it. */
typedef struct ZkReleaseList
{
	int			count;
	struct
	{
		ZkContenderId id;
		ZkLock	   *lock;		/* stays in the table until forgotten */
	}		   *items;
} ZkReleaseList;

/*
 * What one call has seen of the connection.  It decides how long the call
 * puts up with having none.
 */
typedef struct ZkLink
{
	ZkSessionStatus status;		/* as last looked at */
	bool		was_up;			/* connected at some time during this call */
	ZkTime		down_since;		/* start of this outage, as far as this call
								 * saw it; 0 when connected */
	int64		connections;	/* ever made, as last looked at */
} ZkLink;

/* A contender of a call that waits. */
typedef struct ZkAwaited
{
	const char *node;
	const char *name;			/* of the contender; empty while unknown */
} ZkAwaited;

/* What a call that waits knows of deadlocks; see deadlock.c. */
typedef struct ZkDeadlockCheck ZkDeadlockCheck;

/* in auth_settings.c */
extern char *zklock_root;
extern char *zklock_acl;
extern char *zklock_auth;
extern char *zklock_auth_file;

extern void zklock_access_loaded(void);
extern bool zklock_check_auth(char **newval, void **extra, GucSource source);
extern const char *zklock_show_auth(void);
extern bool zklock_check_acl(char **newval, void **extra, GucSource source);
extern void zklock_access_screen(Node *statement);
extern uint64 zklock_access_stamp(void);
extern char *zklock_credential(void);

/* in tls_settings.c */
extern void zklock_secure_define(void);
extern bool zklock_secure_identifies(void);
extern uint64 zklock_secure_stamp(uint64 stamp);
extern void zklock_secure_config(ZkConfig *config);
extern void zklock_secure_wipe(const char **transport);

/* in secret_file.c */
extern void zklock_wipe(char *secret);
extern char *zklock_file_path(const char *file);
extern uint64 zklock_stamp_text(uint64 stamp, const char *text);
extern uint64 zklock_stamp_file(uint64 stamp, const char *file);
extern char *zklock_file_read(const char *setting, const char *file, bool secret,
							  size_t *len);
pg_noreturn extern void zklock_file_report(const char *setting, const char *file,
										   const char *wrong, const char *hint);

/* in stats.c */
extern void zklock_stats_loaded(void);
extern size_t zklock_stats_shmem_size(void);
extern void zklock_stats_attach(void);
extern bool zklock_stats_shared(void);
extern void zklock_stats_count(ZkStat stat);
extern ZkTime zklock_stats_bucket_bound(int bucket);
extern void zklock_stats_begin(void);
extern void zklock_stats_behind(void);
extern void zklock_stats_granted(void);
extern void zklock_stats_failed(int sqlstate);
extern void zklock_stats_end(ZkStat outcome);
extern void zklock_stats_session(const ZkSessionStatus *status);
extern void zklock_stats_read(ZkStats *stats);
extern void zklock_stats_reset(void);

/* in wait_slots.c */
extern void zklock_waiting_request_shmem(void);
extern void zklock_waiting_attach(void);
extern int	zklock_waiting_places(void);
extern void zklock_waiting_session(int64 session);
extern void zklock_waiting_show(ZkWait *wait);
extern void zklock_waiting_end(void);
extern int	zklock_waiting_read(int index, ZkWait *wait);
extern int	zklock_waiting_blockers(int pid, int *pids);

/* in session.c */
extern char *zklock_servers;
extern int	zklock_session_timeout;
extern int	zklock_connect_timeout;
extern int	zklock_znode_style;
extern pqsigfunc zklock_loss_handler;
extern ZkClient *zklock_client;

extern void zklock_session_open(bool idle);
extern void zklock_session_stop(void);
extern void zklock_session_count(void);
extern void zklock_session_wait_for(ZkWaitEvent event, ZkTime until,
									const char *doing, const char *path);
extern void zklock_session_wait(ZkTime until, const char *doing,
								const char *path);
extern void zklock_session_wait_over(void);
extern void zklock_drain_log(void);
extern void zklock_link_begin(ZkLink *link);
extern void zklock_link_look(ZkLink *link);
extern ZkTime zklock_link_patience(const ZkLink *link);
pg_noreturn extern void zklock_link_report(const ZkLink *link, const char *what,
										   const char *path);
pg_noreturn extern void zklock_report_error(ZkError error, const char *detail,
											const char *what, const char *path);
extern ZkLease zklock_lease_judge(ZkContenderId id, ZkContenderStatus *status);
extern ZkTime zklock_lease_ask(void);
extern ZkLease zklock_lease_prove(ZkContenderId id, ZkTime asked,
								  ZkTime deadline, const char *path,
								  ZkContenderStatus *status);
extern char *zklock_clean_name(const char *name);
extern char *zklock_convert(const char *text, int length, int from, int to);
extern char *zklock_owner_data(void);
extern const char *zklock_host(void);
extern const char *zklock_instance(void);

/* in preconnect.c */
extern bool zklock_preconnect;
extern bool zklock_preconnect_due;

extern void zklock_assign_preconnect(bool newval, void *extra);
extern void zklock_preconnect_begin(void);
extern void zklock_preconnect_loaded(void);

/* in handover.c */
extern bool zklock_handover;

extern void zklock_handover_note(ZkRecord *note);
extern ZkPosition zklock_handover_commit(void);
extern ZkPosition zklock_handover_here(void);
extern ZkReplay zklock_handover_judge_position(const ZkPosition *wanted,
											   ZkPosition *have);
extern ZkReplay zklock_handover_judge(const ZkRecord *record,
									  ZkPosition *wanted, ZkPosition *have);
extern ZkTime zklock_handover_look_at(ZkTime since, ZkTime now);
extern char *zklock_handover_describe(const ZkPosition *wanted,
									  const ZkPosition *have);
extern void zklock_handover_warn(const char *path, const ZkPosition *wanted,
								 const ZkPosition *have);

/* in verdict.c */
extern volatile sig_atomic_t zklock_shielded;

extern bool zklock_verdict_worked(void);
extern bool zklock_verdict_harmless(void);
extern bool zklock_verdict_doomed(void);
extern bool zklock_verdict_effective(void);
extern void zklock_verdict_work(void);
extern bool zklock_verdict_open(void);
extern bool zklock_verdict_in_statement(void);
extern void zklock_verdict_begin(ZkDeed deed);
extern void zklock_verdict_call(ZkDeed deed);
extern void zklock_verdict_take_effect(ZkDeed deed);
extern ZkDeed zklock_verdict_end(void);
extern void zklock_verdict_doom(const ZkLock *lock, const ZkLossNote *loss);
extern void zklock_verdict_reset(void);
extern int	zklock_errdetail_loss(const ZkLossNote *loss);
pg_noreturn extern void zklock_report_doom(void);

/* in lock_table.c */
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

/* in held.c */
extern ZkLease zklock_lock_judge(ZkLock *lock);
extern ZkLease zklock_lock_assure(ZkLock *lock, ZkTime deadline,
								  ZkTime *asked);
extern void zklock_lock_let_go(ZkLock *lock);
extern bool zklock_lock_uncount(ZkLock *lock, ZkMode mode, ZkReleaseList *list);
extern void zklock_lock_uncount_all(ZkLock *lock, ZkReleaseList *list);
extern void zklock_lock_close(ZkLock *lock, ZkReleaseList *list);
pg_noreturn extern void zklock_report_lost(const ZkLock *lock);

/* in xact.c */
extern int	zklock_commit_guard;
extern volatile sig_atomic_t zklock_committing;

extern void zklock_xact_watch(void);
extern void zklock_xact_go_first(bool safe);
extern void zklock_guard_transaction(const ZkLockName *names, int count);
extern void zklock_guard_command(ZkDeed deed);

/* in holder.c */
extern void zklock_holder_refresh(ZkHolder *holder,
								  const ZkContenderStatus *status);
extern bool zklock_holder_learn(ZkHolder *holder, const ZkLock *lock,
								const ZkContenderStatus *status, ZkTime since,
								ZkTime *next);
extern void zklock_holder_forget(const ZkHolder *holder);
extern bool zklock_holder_pause(void);
extern void zklock_holder_resume(void);

/* in acquire.c */
extern int	zklock_lock_delay;
extern void zklock_name_lock(const char *path, ZkLockName *name);
extern bool zklock_acquire(const ZkLockName *names, int count, ZkTime timeout,
						   ZkMode mode, ZkScope scope);
extern bool zklock_acquire_permit(const ZkLockName *name, int permits,
								  ZkTime timeout, ZkScope scope);
extern bool zklock_acquire_job(const ZkLockName *name, const char *owner,
							   ZkTime max_hold, ZkTime timeout);
extern int64 zklock_token(const ZkLockName *name, bool prove);

/* in snapshot.c */
extern void zklock_snapshot_give_up(Node *context);

/* in release.c */
extern bool zklock_has_ended(ZkContenderId id, ZkContenderStatus *status);
extern bool zklock_await_end(ZkContenderId id, const char *doing,
							 const char *path, ZkTime *deadline,
							 ZkContenderStatus *status);
extern bool zklock_release(const ZkLockName *name, bool exclusive, bool shared);
extern bool zklock_release_permit(const ZkLockName *name);
extern int	zklock_release_all(void);
extern void zklock_discard_all(void);
extern void zklock_close(void);

/* in admin.c */
extern ZkQueueListing *zklock_read_queue(const ZkLockName *name);
extern ZkQueueListing *zklock_read_tree(const char *path);
extern void zklock_read_record(const ZkLockName *name, ZkRecord *record);
extern bool zklock_break(const ZkLockName *name, const char *contender,
						 bool only_revoke);
extern void zklock_tell_revoked(void);

/* in deadlock.c */
extern ZkTime zklock_deadlock_check(ZkDeadlockCheck **check,
									const ZkAwaited *awaited, int count,
									ZkTime now);
extern void zklock_deadlock_end(ZkDeadlockCheck **check);

/* in owner.c */
extern char *zklock_foreign_string(const char *data, int length);
extern void zklock_owner_fields(const char *data, int length, Datum *values,
								bool *nulls);
extern void zklock_owner_columns(const char *data, int length, Datum *values,
								 bool *nulls);
extern void zklock_owner_append(StringInfo buf, const Datum *values,
								const bool *nulls);
extern char *zklock_owner_describe(const char *data, int64 session_id, bool all);
extern char *zklock_broken_sentence(const char *by, bool all);

/* in job.c */
extern bool zklock_job_begin(const ZkLockName *name, const ZkJobCall *call);
extern bool zklock_job_end(const ZkLockName *name, Oid function);
extern bool zklock_job_reset(const ZkLockName *name, TimestampTz fire_time,
							 Oid function);
extern void zklock_job_columns(const ZkLockName *name, Oid function,
							   Datum *values, bool *nulls);

/* in deed.c */
extern ZkDeed zklock_deed_of_call(Oid function);
extern ZkDeed zklock_deed_of_plan(const PlannedStmt *plan);
extern ZkDeed zklock_deed_of_utility(Node *command, bool top_level);

/* in loss.c */
extern int	zklock_on_lock_loss;

extern void zklock_handle_loss(SIGNAL_ARGS);
extern void zklock_statement_begin(ZkDeed deed);
extern bool zklock_statement_alone(void);
extern void zklock_statement_end(void);
extern void zklock_statement_failed(MemoryContext context);

/* in fence.c */
extern int64 zklock_fence(const ZkLockName *name, Oid function);
extern bool zklock_fence_reset(const ZkLockName *name, Oid function);

#endif							/* ZKLOCK_H */
