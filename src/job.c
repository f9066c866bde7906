/*-------------------------------------------------------------------------
 *
 * job.c
 *	  Run once: a job that is due at the same time on several servers is run by one
 *	  of them.
 *
 * A job is a lock, and a run of it is named by its fire time: the time at which it
 * was due, which is the same on all servers, not the time at which one of them got
 * round to it.  The record of the lock has the fire time of the run that was ended
 * last; who is granted the lock and finds that it is not before the own one has
 * come too late.  So it does not matter how far clocks are apart, nor how short the
 * run was.  A run that was not ended is not in the record, and whoever is granted
 * the lock next takes it over.
 *
 * The end of a run is written by the transaction of the ensemble that deletes the
 * contender, and so only if the lock was held until then.  If the SQL transaction
 * has written something it is done when that has committed (xact.c).
 *
 * IDENTIFICATION
 *	  src/job.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "zklock.h"

/*
 * Who runs jobs here, for the record: cluster and host, in UTF-8, cut short if
 * need be.
 */
static void
name_runner(char *runner)
{
	const char *host = zklock_host();
	char	   *text;

	text = zklock_clean_name(cluster_name[0] != '\0' ?
							 psprintf("%s on %s", cluster_name, host) : host);
	strlcpy(runner, text,
			Min(ZK_RUNNER_SIZE,
				pg_encoding_mbcliplen(PG_UTF8, text, (int) strlen(text),
									  ZK_RUNNER_SIZE - 1) + 1));
}

/*
 * The data of a job's contender: what that of every contender says, and the fire
 * time.  Palloc'd.  Needs a transaction.
 */
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

/*
 * A job cannot be begun under a lock that this backend holds: the record would not
 * be read.  Throws 55000.
 */
static void
check_not_held(const ZkLockName *name)
{
	ZkLock	   *lock = zklock_lock_find(name);

	if (lock == NULL || zklock_lock_judge(lock) == ZK_LEASE_LOST)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 lock->job.state != ZK_JOB_NONE ?
			 errmsg("job \"%s\" has been begun by this backend already",
					name->path) :
			 errmsg("lock \"%s\" of the job is held by this backend already",
					name->path),
			 lock->job.state != ZK_JOB_NONE ?
			 errdetail("The fire time of that run is %s.",
					   timestamptz_to_str(lock->job.fire_time)) : 0));
}

/*
 * Begin the run of a job that was due at that time.  Returns false if somebody else
 * runs the job when the time is up, or has ended this run or a later one; then
 * nothing is held.  For the timeout see zklock_acquire().  Throws 22023 for a time
 * that is none, 55000 if this backend has the job or its lock already, else as
 * zklock_acquire().
 */
bool
zklock_job_begin(const ZkLockName *name, TimestampTz fire_time, ZkTime timeout)
{
	char		runner[ZK_RUNNER_SIZE];
	ZkRecord	record;
	ZkLock	   *lock;

	if (TIMESTAMP_NOT_FINITE(fire_time))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fire time must be finite")));
	check_not_held(name);
	name_runner(runner);
	if (!zklock_acquire_job(name, job_owner(fire_time), timeout))
		return false;

	lock = zklock_lock_find(name);
	(void) zk_contender_record(zklock_client, lock->contender[ZK_EXCLUSIVE],
							   &record);
	if (record.has_run && record.fire_time >= fire_time)
	{
		(void) zklock_release(name, true, false);
		return false;
	}
	lock->job.state = ZK_JOB_BEGUN;
	lock->job.fire_time = fire_time;
	memcpy(lock->job.runner, runner, sizeof(lock->job.runner));
	return true;
}

/*
 * The lock of a job was lost while it ran.  Throws ZKL01.
 */
pg_noreturn static void
report_lost(const ZkLockName *name, const ZkLock *lock)
{
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 errmsg("lock \"%s\" was lost while the job was running",
					name->path),
			 lock != NULL ? zklock_errdetail_lost(lock) : 0,
			 errhint("Unless zk_job_status() shows this run as the last one, it is not done, and another replica may have taken it over.")));
}

/*
 * The entry of a job that was begun here and can be ended.  Throws ZKL01 if its lock
 * was lost, which is forgotten with it; 55000 if there is no such job, or more
 * depends on its lock.
 */
static ZkLock *
find_job(const ZkLockName *name)
{
	ZkLock	   *lock = zklock_lock_find(name);

	if (lock != NULL && zklock_lock_judge(lock) == ZK_LEASE_LOST)
	{
		/* the entry itself goes when the (sub)transaction aborts */
		zklock_lock_uncount_all(lock, NULL);
		report_lost(name, lock);
	}
	if (lock == NULL || lock->job.state != ZK_JOB_BEGUN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 lock != NULL && lock->job.state == ZK_JOB_ENDING ?
				 errmsg("job \"%s\" ends with the transaction already",
						name->path) :
				 errmsg("job \"%s\" has not been begun by this backend",
						name->path)));
	if (lock->session_count[ZK_EXCLUSIVE] > 1 || lock->level_count > 0 ||
		zklock_lock_used(lock, ZK_SHARED))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lock \"%s\" of the job was acquired once more",
						name->path),
				 errhint("Release it as often first.")));
	return lock;
}

/*
 * Wait until a contender that was released is gone, or until it is clear how that
 * fails; false if the deadline passes first.  Unlike other releases, for which it is
 * enough that they are on their way, this one is waited for over reconnects.  Throws
 * what interrupts throw.
 */
static bool
await_record(const ZkLockName *name, ZkContenderId id, ZkTime deadline,
			 ZkContenderStatus *status)
{
	while (!zklock_has_ended(id, status))
	{
		if (zk_now() >= deadline)
			return false;
		zklock_session_wait_for(ZK_EVENT_RELEASE, deadline, "while ending job",
								name->path);
	}
	return true;
}

/*
 * Release the lock of a job, which writes the end of the run, and wait for that.
 * Throws ZKL01 if the lock was lost before, 08006 if there is no answer, 42501 or
 * another one if the record cannot be written, what interrupts throw.  The lock is
 * released even so, and the run may be recorded as ended yet if it is not known to
 * be lost.
 */
static void
end_now(const ZkLockName *name, ZkLock *lock)
{
	ZkTime		deadline = zk_now() + ZK_MS(zklock_connect_timeout);
	ZkReleaseList list = {.items = palloc(2 * sizeof(*list.items))};
	ZkContenderStatus status;
	volatile bool ended = false;

	lock->job.state = ZK_JOB_ENDED;
	lock->job.ended_at = GetCurrentTimestamp();
	(void) zklock_lock_uncount(lock, ZK_EXCLUSIVE, &list);
	zklock_lock_forget(lock);
	PG_TRY();
	{
		ended = await_record(name, list.items[0].id, deadline, &status);
	}
	PG_FINALLY();
	{
		zk_contender_abandon(zklock_client, list.items[0].id);
	}
	PG_END_TRY();

	if (!ended)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not record the end of job \"%s\": no answer from ZooKeeper in time",
						name->path),
				 errdetail("It is recorded when ZooKeeper answers, unless the ZooKeeper session is over by then.")));
	if (status.recorded)
		return;
	if (status.error != ZK_OK)
		zklock_report_error(status.error, status.detail,
							"could not record the end of job", name->path);
	report_lost(name, NULL);
}

/*
 * End the run of a job that was begun here, and release its lock: at once if the
 * transaction has written nothing, else when it commits, and then only.  Returns
 * true.  Throws as find_job() and end_now().
 */
bool
zklock_job_end(const ZkLockName *name)
{
	ZkLock	   *lock = find_job(name);

	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
	{
		lock->job.state = ZK_JOB_ENDING;
		lock->job.nesting = GetCurrentTransactionNestLevel();
		zklock_lock_touch(lock);
	}
	else
		end_now(name, lock);
	return true;
}

/*
 * Fill in the columns about who runs a job: the holder of its lock, if it says that
 * it runs it and what it says is not ended.  The others are null.
 */
static void
put_runner(const ZkQueueListing *queue, const ZkRecord *record, Datum *values,
		   bool *nulls)
{
	const ZkQueueMember *holder = queue->count > 0 ? queue->members : NULL;
	Datum		owner[ZK_OWNER_FIELDS];
	bool		missing[ZK_OWNER_FIELDS];

	if (holder == NULL || !holder->granted || holder->mode != ZK_EXCLUSIVE)
		return;
	zklock_owner_fields(holder->data, holder->data_len, owner, missing);
	if (missing[ZK_OWNER_FIRE_TIME] ||
		(record->has_run &&
		 record->fire_time >= DatumGetTimestampTz(owner[ZK_OWNER_FIRE_TIME])))
		return;
	nulls[0] = false;
	values[0] = owner[ZK_OWNER_FIRE_TIME];
	memcpy(values + 1, owner, sizeof(Datum) * ZK_OWNER_COLS);
	memcpy(nulls + 1, missing, sizeof(bool) * ZK_OWNER_COLS);
}

/*
 * Fill in the ZK_JOB_COLS columns that show a job: fire time of the last run that
 * was ended, when and by whom; fire time of the run under way, and who runs it.
 * What there is not is null.  Throws as zklock_read_queue().
 */
void
zklock_job_columns(const ZkLockName *name, Datum *values, bool *nulls)
{
	ZkQueueListing *volatile queue = zklock_read_queue(name);
	ZkRecord	record;
	char	   *runner;

	memset(nulls, true, sizeof(bool) * ZK_JOB_COLS);
	PG_TRY();
	{
		/* after the queue: what has ended in between does not run any more */
		zklock_read_record(name, &record);
		put_runner(queue, &record, values + 3, nulls + 3);
	}
	PG_FINALLY();
	{
		zk_queue_free(queue);
	}
	PG_END_TRY();

	if (!record.has_run || !IS_VALID_TIMESTAMP(record.fire_time) ||
		!IS_VALID_TIMESTAMP(record.ended_at))
		return;
	runner = zklock_convert(record.ended_by, (int) strlen(record.ended_by),
							PG_UTF8, GetDatabaseEncoding());
	nulls[0] = nulls[1] = false;
	values[0] = TimestampTzGetDatum(record.fire_time);
	values[1] = TimestampTzGetDatum(record.ended_at);
	nulls[2] = runner == NULL || runner[0] == '\0';
	if (!nulls[2])
		values[2] = CStringGetTextDatum(runner);
}
