/*-------------------------------------------------------------------------
 *
 * job.c
 *	  Run once: a job that is due at the same time on several servers is run
 *	  by one of them.
 *
 * A job is a lock with a record of the runs that are done: a row in the
 * database where the work was done, written by the transaction that did it
 * (job_runs.c), and after its commit a mark in the lock's record, for other
 * clusters and for standbys.  A run's fire time is the time at which it was
 * due, the same on all servers, not the time at which one of them started it.
 * A run that was not ended is taken over by the next holder of the lock.  J4,
 * J6, J7 and J9 are in job_runs.c, J11 is in xact.c.
 *
 *    begin                  work, end           COMMIT          multi-op
 *    lock granted,            row: done           |               |
 *      record read              (uncommitted)     | row is there  | mark is
 *    row: running                                 |               | there, lock
 *                                                 |<-- window --->| is free
 *
 * J1. A run is named by its fire time, and "done" means that one with that or
 * a later fire time has ended.  So nothing depends on clocks, except what the
 * caller makes of them, or on how long a run takes.  The record is read with
 * the grant (R3), and rows after it with a snapshot of that moment, whatever
 * the isolation level: a new holder knows all runs that ended under the lock.
 * Rows are written in the same way: a statement that waits for the lock keeps
 * its first snapshot in REPEATABLE READ, and would always find the last
 * holder's row changed since (40001). (S111, S278)
 *
 * Under SERIALIZABLE, rows are read with a snapshot that takes no predicate
 * locks (SnapshotSelf, tables.c).  The lock orders the runs of a job; predicate
 * locks on a small table cover all jobs, so a transaction that begins a run and
 * lasts an hour would hardly ever commit while other jobs run.  Such a snapshot
 * can miss a row that changes just then.  Only the holder of the lock changes
 * the rows of a job, except a reset, whose record says which rows are void, and
 * a holder that has lost the lock (J6). (S296)
 *
 * J2. The row says "done" if and only if the transaction that did the work has
 * committed.  The mark follows the commit: like the release of a transaction's
 * lock (T5) it is an order, carried out by the multi-op that deletes the
 * contender (R1), so only while the lock is held.  That is so even if the
 * transaction has written nothing when zk_job_end() is called, as it may yet
 * write.  Until the commit the end belongs to its subtransaction (T7), and a
 * rollback undoes it; until then the lock may not be acquired again or released
 * (55006), which would keep the contender, or delete it without the mark.
 * (S262, S263)
 *
 * J3. No transaction covers both the database and the ensemble: between the
 * commit and the multi-op the run may be done and not marked, but never marked
 * and not done, except for J5.  A backend that exits in that window waits for
 * the multi-op as long as its session may last (zk_client_stop_at_exit), longer
 * than for anything else: those of pg_cron exit right after the commit, and
 * closing the session would let the next one in without the mark. (S179, S266,
 * S335)
 *
 * J5. In the database that a mark came from, the row counts, as the mark may be
 * of work that was lost: in a failover, or in a crash after an asynchronous
 * commit.  For the latest run that was due at the fire time or later:
 *
 *    row   mark                                    verdict
 *    ----  --------------------------------------  --------------------------
 *    done  of this database, the same              done
 *    done  of this database, another one, or none  done; the mark is written
 *    none  of this database                        lost: due, with a WARNING
 *    none  of this database, on a standby that     unknown: wait
 *          has not replayed the mark's position
 *    none  of this database, on a later timeline   done; this server was left
 *          than this server's, no standby          behind: a WARNING
 *    none  of another database or cluster, or a    done
 *          standby
 *    none  none                                    due
 *
 * In the unknown case the standby waits for replay within the timeout of the
 * call, but without the lock, which would keep all others from the next run:
 * it releases the lock, waits until it has replayed the mark's position or is
 * on a timeline without it, looks for the row, and begins again if there is
 * none.  So a standby that takes over finds that the work was lost.  At the
 * timeout the run counts as done. (S270, S271, S295)
 *
 * The mark's position does not replace the row: after a crash the same
 * positions are written again.  So deleting the row of the last run makes it
 * due again.  The row counts wherever it was written: it goes where its work
 * goes, by a dump, by pg_upgrade (which makes a new system identifier, so that
 * older marks count as another cluster's), or in a physical copy.
 *
 * J8. A run begun by a transaction that rolls back was not begun, whatever has
 * made the transaction fail, however late; the rollback takes back the row,
 * too.  zk_job_begin_xact() is beginning and end in one: its lock is of
 * transaction scope, and its row says "done" at once, as no other session sees
 * it before that is true. (S262, S264)
 *
 * J10. The lock of a job must not be held before it is begun, as no record
 * would be read; nor be held otherwise when it is ended, as the contender
 * would stay.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "acquire.h"
#include "admin.h"
#include "handover.h"
#include "held.h"
#include "job.h"
#include "job_runs.h"
#include "lock_table.h"
#include "owner.h"
#include "release.h"
#include "row.h"
#include "session.h"
#include "verdict.h"

/* How far ahead of this server's clock a run may be due, in microseconds. */
#define MAX_AHEAD		USECS_PER_HOUR

/* Less time may bring no answer: then the lock is tried without waiting. */
#define SHORTEST_WAIT	ZK_MS(100)

/* Whether to begin a run, or to reset runs, when the lock was granted. */
typedef enum JobVerdict
{
	JOB_DUE,
	JOB_LOCKED,					/* another client has the lock */
	JOB_DONE,					/* that one, or a later one */
	JOB_UNMARKED,				/* done, but the record does not say so */
	JOB_UNREPLAYED,				/* not known yet on this standby */
	JOB_LOST,					/* it was done, but a failover lost that: it
								 * is due */
	JOB_LEFT_BEHIND				/* it was done, after a failover that left
								 * this server behind */
} JobVerdict;

/*
 * What a call does under the lock of a job, which was granted with that record.
 * The lock is kept if the result is JOB_DUE.
 */
typedef JobVerdict (*JobStep) (const LockName *name, const JobCall *call,
							   Lock *lock, const ZkRecord *record);

/* Returns the data of a job's contender, with the fire time; palloc'd. */
static char *
job_owner(TimestampTz fire_time)
{
	char	   *owner = zklock_owner_data();
	char		text[MAXDATELEN + 1];
	int			utc = 0;

	JsonEncodeDateTime(text, TimestampTzGetDatum(fire_time), TIMESTAMPTZOID,
					   &utc);
	return psprintf("%.*s,\"fire_time\":\"%s\"}", (int) strlen(owner) - 1, owner,
					text);
}

/* Refuses to begin a job whose lock this backend holds.  Throws 55000. */
static void
check_not_held(const LockName *name)
{
	Lock	   *lock = zklock_lock_find(name);

	if (lock == NULL || zklock_lock_judge(lock) == HOLD_LOST)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 lock->job.state != JOB_NONE ?
			 errmsg("job \"%s\" is already running in this session",
					name->path) :
			 errmsg("lock \"%s\" of the job is already held by this session",
					name->path),
			 lock->job.state != JOB_NONE ?
			 errdetail("The fire time of that run is %s.",
					   timestamptz_to_str(lock->job.run.fire_time)) : 0));
}

/* Checks that a fire time is finite.  Throws 22023. */
static void
check_finite(TimestampTz fire_time)
{
	if (TIMESTAMP_NOT_FINITE(fire_time))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fire time must be finite")));
}

/* Checks that a fire time is not far ahead.  Throws 22023. */
static void
check_fire_time(TimestampTz fire_time)
{
	TimestampTz now = GetCurrentTimestamp();

	check_finite(fire_time);
	if (fire_time <= now || fire_time - now <= MAX_AHEAD)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("fire time %s is more than one hour ahead",
					timestamptz_to_str(fire_time)),
			 errdetail("The clock of this server shows %s.",
					   pstrdup(timestamptz_to_str(now))),
			 errhint("Pass the time at which the run is due; once it is done, all earlier runs count as done.")));
}

/* Returns a record's mark of this database, whose runs have rows; or NULL. */
static const ZkRun *
own_mark(const ZkRecord *record)
{
	for (int i = 0; i < record->run_count; i++)
		if (record->runs[i].system == GetSystemIdentifier() &&
			record->runs[i].database == MyDatabaseId)
			return &record->runs[i];
	return NULL;
}

/* Returns the WAL position at which a run did its work, from the record. */
static ZkPosition
run_position(const ZkRun *run)
{
	ZkPosition	position = {
		.system = run->system,
		.timeline = run->timeline,
		.lsn = run->lsn
	};

	return position;
}

/*
 * Judges a run of this database with a mark but no row: JOB_UNREPLAYED if it
 * may yet come, JOB_LEFT_BEHIND if a failover left this server behind, else
 * JOB_LOST.
 */
static JobVerdict
judge_missing_row(const ZkRun *mark)
{
	ZkPosition	wanted = run_position(mark);
	ZkPosition	have;
	ReplayState replay = zklock_handover_judge_position(&wanted, &have);

	if (replay == REPLAY_PENDING)
		return JOB_UNREPLAYED;
	return have.timeline < wanted.timeline ? JOB_LEFT_BEHIND : JOB_LOST;
}

/*
 * Returns true if a row needs a mark in place of that one (or NULL).  The mark
 * may be ahead on a standby, or on a server that was left behind.
 */
static bool
needs_mark(const JobRow *row, const ZkRun *mark)
{
	if (mark == NULL || mark->fire_time < row->fire_time)
		return true;
	return mark->fire_time > row->fire_time && !RecoveryInProgress() &&
		judge_missing_row(mark) == JOB_LOST;
}

/* Judges whether to begin a run; fills in *row for JOB_UNMARKED. */
static JobVerdict
judge_run(const LockName *name, TimestampTz fire_time,
		  const ZkRecord *record, Oid function, JobRow *row)
{
	const ZkRun *mark = own_mark(record);
	JobVerdict	without_row = JOB_DUE;

	/* before the rows are read, as replay continues */
	if (mark != NULL && mark->fire_time >= fire_time)
		without_row = judge_missing_row(mark);
	if (zklock_job_row_find(name->path, fire_time, record, function, row))
		return needs_mark(row, mark) ? JOB_UNMARKED : JOB_DONE;
	if (record->has_reset && fire_time < record->reset_time)
		return JOB_DONE;
	for (int i = 0; i < record->run_count; i++)
		if (&record->runs[i] != mark &&
			IS_VALID_TIMESTAMP(record->runs[i].fire_time) &&
			record->runs[i].fire_time >= fire_time)
			return JOB_DONE;
	return without_row;
}

/* Warns that the record has a run of which this cluster has no row. */
static void
warn_missing_row(const LockName *name, const ZkRun *mark, JobVerdict verdict)
{
	char	   *fire_time = pstrdup(timestamptz_to_str(mark->fire_time));
	char	   *by = zklock_foreign_string(mark->ended_by,
										   (int) strlen(mark->ended_by));

	ereport(WARNING,
			(verdict == JOB_LOST ?
			 errmsg("the run of job \"%s\" that was due at %s is missing from this cluster",
					name->path, fire_time) :
			 errmsg("the run of job \"%s\" that was due at %s was done after a failover that left this server behind",
					name->path, fire_time),
			 errdetail("It ended at %s (%s), at %X/%X on timeline %u.",
					   timestamptz_to_str(mark->ended_at), by,
					   LSN_FORMAT_ARGS(mark->lsn), mark->timeline),
			 verdict == JOB_LOST ?
			 errhint("Do the work again, because it was lost in a failover or a crash.") :
			 0));
}

/* Fills in the identity of a run of this cluster. */
static void
set_run(ZkRun *run, TimestampTz fire_time, const char *runner)
{
	memset(run, 0, sizeof(*run));
	run->system = GetSystemIdentifier();
	run->fire_time = fire_time;
	strlcpy(run->ended_by, runner, sizeof(run->ended_by));
}

/* The same of a row of a done run, with its end. */
static void
set_done_run(ZkRun *run, const JobRow *row)
{
	set_run(run, row->fire_time, row->ended_by);
	run->ended_at = TIMESTAMP_IS_NOBEGIN(row->ended_at) ? row->begun_at :
		row->ended_at;
}

/* Makes the release mark the last run, whose row the WAL has by now. */
static void
leave_mark(Lock *lock, const JobRow *row)
{
	ZkPosition	position = zklock_handover_here();

	set_done_run(&lock->job.run, row);
	lock->job.run.database = MyDatabaseId;
	lock->job.run.timeline = position.timeline;
	lock->job.run.lsn = position.lsn;
	lock->job.state = JOB_ENDED;
}

/* Returns the row of the run that this backend has begun. */
static JobRow
run_row(const LockName *name, const Lock *lock)
{
	JobRow		row = {
		.path = name->path,
		.fire_time = lock->job.run.fire_time,
		.token = zklock_lock_token(lock),
		.begun_at = lock->job.begun_at,
		.ended_at = DT_NOBEGIN
	};

	return row;
}

/*
 * Writes the row that says that a run is done, except in recovery, where the
 * mark alone counts. ended_at is DT_NOBEGIN for the end of the transaction.
 * Returns false if another transaction has ended the run.  Throws ZKL01 if it
 * was taken over, 25006.
 */
static bool
write_end(const LockName *name, Lock *lock, TimestampTz ended_at,
		  Oid function)
{
	JobRow		row = run_row(name, lock);
	ZkRecord	record;
	JobRowEnd	end;

	lock->job.run.database = 0;
	if (RecoveryInProgress())
		return true;
	PreventCommandIfReadOnly(TIMESTAMP_IS_NOBEGIN(ended_at) ?
							 "zk_job_begin_xact()" : "zk_job_end()");
	row.ended_at = ended_at;
	(void) zk_contender_record(zklock_client, lock->contender[ZK_EXCLUSIVE],
							   &record);
	end = zklock_job_row_end(&row, &record, function);
	if (end == JOB_ROW_TAKEN_OVER)
		ereport(ERROR,
				(errcode(ERRCODE_ZK_LOCK_LOST),
				 errmsg("job \"%s\" was taken over by another session",
						name->path),
				 errhint("Roll back the transaction.")));
	lock->job.run.database = MyDatabaseId;
	return end == JOB_ROW_WRITTEN;
}

/*
 * Begins a run, whose lock was granted with that record, if it is due
 * (JOB_DUE).  Otherwise the release of the lock may write the mark of the last
 * run.  JOB_UNREPLAYED if the record is ahead of this standby.
 */
static JobVerdict
begin_run(const LockName *name, const JobCall *call, Lock *lock,
		  const ZkRecord *record)
{
	Job		   *job = &lock->job;
	JobVerdict	verdict;
	JobRow		row;

	verdict = judge_run(name, call->fire_time, record, call->function, &row);
	if (verdict == JOB_LOST || verdict == JOB_LEFT_BEHIND)
		warn_missing_row(name, own_mark(record), verdict);
	if (verdict == JOB_UNMARKED)
		leave_mark(lock, &row);
	if (verdict != JOB_DUE && verdict != JOB_LOST)
		return verdict;

	set_run(&job->run, call->fire_time, zklock_job_runner());
	job->begun_at = GetCurrentTimestamp();
	row = run_row(name, lock);
	if (call->scope == SCOPE_TRANSACTION)
	{
		zklock_lock_make_room(lock, SCOPE_TRANSACTION, ZK_EXCLUSIVE);
		if (!write_end(name, lock, DT_NOBEGIN, call->function))
			return JOB_DONE;
	}
	else if (!XactReadOnly)
		zklock_job_row_begin(&row, record, call->function);
	zklock_lock_begin_job(lock, call->scope);
	return JOB_DUE;
}

/*
 * Acquires the lock of a job, with a contender of that data, and takes a step
 * under it.  Returns JOB_LOCKED if another client holds the lock, or what the
 * step returned.  Unless that is JOB_DUE nothing is held; after an error, the
 * release is not waited for.
 */
static JobVerdict
take_step(const LockName *name, const JobCall *call, const char *owner,
		  ZkTime timeout, JobStep step, ZkRecord *record)
{
	ZkLockRequest request = {
		.mode = ZK_EXCLUSIVE,
		.owner = owner,
		.max_hold = call->max_runtime,
		.record = true
	};
	Lock	   *lock;
	volatile JobVerdict verdict = JOB_DONE;

	if (!zklock_acquire(name, 1, &request, timeout, SCOPE_SESSION))
		return JOB_LOCKED;
	lock = zklock_lock_find(name);
	PG_TRY();
	{
		(void) zk_contender_record(zklock_client, lock->contender[ZK_EXCLUSIVE],
								   record);
		verdict = step(name, call, lock, record);
	}
	PG_CATCH();
	{
		(void) zklock_lock_uncount(lock, ZK_EXCLUSIVE, NULL);
		zklock_lock_forget(lock);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (verdict != JOB_DUE)
		(void) zklock_release(name, RELEASE_EXCLUSIVE);
	return verdict;
}

/*
 * Waits until this standby has replayed a mark, or its timeline excludes it.
 * Returns false at the deadline.  Throws 55P03 at lock_timeout.
 */
static bool
await_replay(const LockName *name, const ZkRun *mark, ZkTime deadline)
{
	ZkPosition	wanted = run_position(mark);
	ZkPosition	have;
	ZkTime		since = zk_now();
	ZkTime		now = since;
	ZkTime		lock_deadline = zklock_lock_deadline();

	while (zklock_handover_judge_position(&wanted, &have) == REPLAY_PENDING)
	{
		if (now >= deadline)
			return false;
		if (now >= lock_deadline)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("canceling statement due to lock timeout"),
					 errdetail("%s", zklock_handover_describe(&wanted, &have)),
					 errcontext("while beginning job \"%s\"", name->path)));
		zklock_session_wait_for(WAIT_FOR_LOCK,
								Min(Min(deadline, lock_deadline),
									zklock_handover_look_at(since, now)),
								"while beginning job \"%s\"", name->path);
		now = zk_now();
	}
	return true;
}

/*
 * Begins the run of a job, in session scope, or in transaction scope, where the
 * commit ends it.  Returns false, with nothing held, if another session runs
 * the job at the timeout, if this run or a later one is done, or if that is
 * still unknown on this standby, which waits for replay without the lock.
 * Throws 22023 for an invalid fire time, 55000 if this backend has the lock.
 */
bool
zklock_job_begin(const LockName *name, const JobCall *call)
{
	ZkTime		deadline = zklock_deadline(call->timeout);
	ZkTime		timeout = call->timeout;
	ZkRecord	record;
	JobVerdict	verdict;
	JobRow		row;

	check_fire_time(call->fire_time);
	check_not_held(name);
	for (;;)
	{
		verdict = take_step(name, call, job_owner(call->fire_time), timeout,
							begin_run, &record);
		if (verdict != JOB_UNREPLAYED)
			return verdict == JOB_DUE;
		if (!await_replay(name, own_mark(&record), deadline) ||
			zklock_job_row_find(name->path, call->fire_time, &record,
								call->function, &row))
			return false;
		if (deadline != ZKLOCK_FOREVER)
			timeout = deadline - zk_now() < SHORTEST_WAIT ? 0 :
				deadline - zk_now();
	}
}

/* Reports that the lock of a job was lost while it ran.  Throws ZKL01. */
pg_noreturn static void
report_lost(const LockName *name, const Lock *lock)
{
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 errmsg("lock \"%s\" was lost while the job was running",
					name->path),
			 lock != NULL ? zklock_errdetail_loss(&lock->loss) : 0,
			 errhint("Check zk_job_status(). Unless it shows this run, another server may run the job again.")));
}

/*
 * Returns the lock of a job that can be ended here.  Throws ZKL01 if it was
 * lost, and forgets it; 55000 if there is none, or it is held more than once.
 */
static Lock *
find_job(const LockName *name)
{
	Lock	   *lock = zklock_lock_find(name);

	if (lock != NULL && zklock_lock_judge(lock) == HOLD_LOST)
	{
		/* the entry itself goes when the (sub)transaction aborts */
		zklock_lock_uncount_all(lock, NULL);
		report_lost(name, lock);
	}
	if (lock == NULL || lock->job.state != JOB_BEGUN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 lock != NULL && lock->job.state == JOB_ENDING ?
				 errmsg("job \"%s\" already ends with this transaction",
						name->path) :
				 errmsg("job \"%s\" is not running in this session",
						name->path)));
	if (lock->session_count[ZK_EXCLUSIVE] > 1 || lock->level_count > 0 ||
		zklock_lock_used(lock, ZK_SHARED))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lock \"%s\" of the job is held more than once",
						name->path),
				 errhint("Release the additional acquisitions first.")));
	return lock;
}

/*
 * Ends the run of a job that was begun here, when the transaction commits; the
 * release of its lock marks it.  Returns true.  Throws ZKL01 if another session
 * has ended the same run.
 */
bool
zklock_job_end(const LockName *name, Oid function)
{
	Lock	   *lock = find_job(name);

	if (!write_end(name, lock, GetCurrentTimestamp(), function))
		ereport(ERROR,
				(errcode(ERRCODE_ZK_LOCK_LOST),
				 errmsg("this run of job \"%s\" was ended by another session",
						name->path),
				 errhint("Roll back the transaction.")));
	lock->job.state = JOB_ENDING;
	lock->job.nesting = GetCurrentTransactionNestLevel();
	zklock_lock_touch(lock);
	return true;
}

/*
 * Releases the lock of a job, which writes to its record, and waits for that,
 * also over reconnects.  Throws ZKL01 if the lock was lost before, 08006
 * without an answer, 42501 or others if the record cannot be written.  The lock
 * is released even then, and the record may yet be written.
 */
static void
release_recorded(const LockName *name, Lock *lock)
{
	ZkTime		deadline = zk_now() + ZK_MS(zklock_connect_timeout);
	ReleaseList list = {.items = palloc(2 * sizeof(*list.items))};
	ZkContenderStatus status;
	volatile bool ended = false;

	(void) zklock_lock_uncount(lock, ZK_EXCLUSIVE, &list);
	zklock_lock_forget(lock);
	PG_TRY();
	{
		ended = zklock_await_end(list.items[0].id,
								 "while resetting job \"%s\"", name->path,
								 true, &deadline, &status);
	}
	PG_FINALLY();
	{
		zk_contender_abandon(zklock_client, list.items[0].id);
	}
	PG_END_TRY();

	if (!ended)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not reset job \"%s\": timed out waiting for ZooKeeper",
						name->path)));
	if (status.recorded)
		return;
	if (status.error != ZK_OK)
		zklock_report_error(status.error, status.detail, "could not reset job \"%s\"",
							name->path);
	report_lost(name, NULL);
}

/* Resets the runs due at that time or later: JOB_DUE; JOB_DONE if none. */
static JobVerdict
reset_runs(const LockName *name, const JobCall *call, Lock *lock,
		   const ZkRecord *record)
{
	JobRow		row;
	bool		found = zklock_job_row_find(name->path, call->fire_time, record,
											call->function, &row);

	(void) lock;
	for (int i = 0; i < record->run_count; i++)
		found |= record->runs[i].fire_time >= call->fire_time;
	if (record->has_reset && record->reset_time > call->fire_time)
		found = true;
	if (found && !XactReadOnly)
		zklock_job_rows_reset(name->path, call->fire_time, call->function);
	return found ? JOB_DUE : JOB_DONE;
}

/*
 * Makes the runs of a job that were due at that time or later count as not
 * done, wherever they ended, and logs that.  This holds even if the transaction
 * rolls back.  Returns false if there are none.  Throws 22023, 55006 if another
 * session runs the job.
 */
bool
zklock_job_reset(const LockName *name, TimestampTz fire_time, Oid function)
{
	JobCall		call = {.fire_time = fire_time,.function = function};
	ZkRecord	record;
	JobVerdict	verdict;
	Lock	   *lock;

	check_finite(fire_time);
	check_not_held(name);
	verdict = take_step(name, &call, zklock_owner_data(), 0, reset_runs, &record);
	if (verdict == JOB_LOCKED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("job \"%s\" is running", name->path),
				 errdetail("Another session holds its lock.")));
	if (verdict != JOB_DUE)
		return false;
	ereport(LOG,
			(errmsg("user \"%s\" reset the runs of job \"%s\" that were due at %s or later",
					GetUserNameFromId(GetUserId(), false), name->path,
					timestamptz_to_str(fire_time))));
	lock = zklock_lock_find(name);
	lock->job.state = JOB_RESET;
	lock->job.run.fire_time = fire_time;
	release_recorded(name, lock);
	return true;
}

/*
 * Adds the columns of the run under way, if the holder's data has one that is
 * later than the last run (NULL for none).
 */
static void
add_runner(Row *row, const ZkQueueListing *queue, const ZkRun *last)
{
	const ZkQueueMember *holder = queue->count > 0 ? queue->members : NULL;
	Datum		owner[OWNER_FIELDS];
	bool		missing[OWNER_FIELDS];

	if (holder == NULL || !holder->granted || holder->mode != ZK_EXCLUSIVE)
		return;
	zklock_owner_fields(holder->data, holder->data_len, owner, missing);
	if (missing[OWNER_FIRE_TIME] ||
		(last != NULL &&
		 last->fire_time >= DatumGetTimestampTz(owner[OWNER_FIRE_TIME])))
		return;
	row_add(row, true, owner[OWNER_FIRE_TIME]);
	row_add_all(row, owner, missing, OWNER_COLS);
}

/*
 * Finds the last run that was ended, here or elsewhere.  A mark of this
 * database without a row does not count, unless the row may yet be replayed.
 * Returns false if there is none.
 */
static bool
find_last_run(const LockName *name, const ZkRecord *record, Oid function,
			  ZkRun *last)
{
	const ZkRun *mark = own_mark(record);

	/* before the rows are read, as replay continues */
	bool		lost = mark != NULL && judge_missing_row(mark) == JOB_LOST;
	bool		found = false;
	JobRow		row;

	if (zklock_job_row_find(name->path, DT_NOBEGIN, record, function, &row))
	{
		set_done_run(last, &row);
		found = true;
	}
	for (int i = 0; i < record->run_count; i++)
	{
		const ZkRun *run = &record->runs[i];

		if (!IS_VALID_TIMESTAMP(run->fire_time) ||
			!IS_VALID_TIMESTAMP(run->ended_at) ||
			(found && run->fire_time < last->fire_time) ||
			(run == mark && !(found && run->fire_time == last->fire_time) &&
			 lost))
			continue;
		*last = *run;
		found = true;
	}
	return found;
}

/*
 * Adds the columns that show a job: fire time, end and runner of the last run
 * that ended; fire time of the run under way, and its runner.  Those at the end
 * of the row that are unknown are missing.
 */
void
zklock_job_columns(const LockName *name, Oid function, Row *row)
{
	const ZkQueueListing *queue = zklock_read_queue(name);
	bool		found;
	ZkRecord	record;
	ZkRun		last = {0};
	char	   *by;

	/* after the queue, so that a run that ends in between is not shown */
	zklock_read_record(name, &record);
	found = find_last_run(name, &record, function, &last);
	by = zklock_convert(last.ended_by, (int) strlen(last.ended_by), PG_UTF8,
						GetDatabaseEncoding());
	row_add(row, found, TimestampTzGetDatum(last.fire_time));
	row_add(row, found, TimestampTzGetDatum(last.ended_at));
	if (by != NULL && by[0] != '\0')
		row_add(row, found, CStringGetTextDatum(by));
	else
		row_add(row, false, (Datum) 0);
	add_runner(row, queue, found ? &last : NULL);
}
