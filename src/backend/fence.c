/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Fencing: the transactions of a lock's holders commit in the order in
 *	  which the lock was granted.
 *
 * A fence is a row of zk_lock_fences: a lock path, the highest token that a
 * transaction has come by with, and since when, in this database (S336).  To
 * pass it (zk_lock_fence(), or the trigger) a transaction writes its own token
 * there, which fails with ZKL01 if a higher one is there.  Everybody may pass a
 * fence, but by way of a lock only (F7, tables.c).  F9 is in remove.c.
 *
 * F1. Whoever passes has the row to itself until its transaction ends.  So of
 * two holders one waits for the other to commit or roll back.  If the older one
 * passed first, all it does is committed before the newer one goes on.  If the
 * newer one did and commits, the older one fails.  There is no time between a
 * check and a commit: the row is held through both. (S26)
 *
 * F2. Tokens are those of exclusive contenders, which have the order in which
 * they are granted.  Shared ones are granted in any order and together, so
 * there is nothing to put in order, and a shared lock cannot be fenced.  Who
 * may choose the ensemble could pass with any token, so zklock.servers and
 * zklock.root are for superusers.
 *
 * F3. The row is written by each transaction that passes, also when it has the
 * token already.  Merely locked it would keep others waiting as well, but a
 * waiter in REPEATABLE READ would then go on with a snapshot older than the
 * commit it waited for; as it is it gets 40001.  In READ COMMITTED the
 * statement after the one that waited sees that commit.  The statement that
 * fires the trigger does not, so who reads before writing has to call
 * zk_lock_fence() before that.
 *
 * F4. A transaction passes once.  The lock table remembers the token and the
 * level of subtransaction (T7), for a rollback takes the token out of the row
 * and gives the row free.  A prepared transaction keeps the row, and the
 * backend goes on with another: it has passed nothing.
 *
 * F5. A transaction that has passed and has lost the lock cannot acquire it
 * anew: the next holder may be waiting at the fence for this transaction, which
 * would be waiting for the lock.
 *
 * F6. The row is found by the lock path as it was named, whatever zklock.root
 * is: different roots for one database keep nobody apart, and this way that
 * shows.
 *
 * F8. The table is logged.  After a crash there is no holder here to be fenced
 * off and it might as well be empty; but a backend that holds a lock on a
 * standby lives on when that is promoted, and the rows must be there then.  A
 * dump carries them, for pg_upgrade among others.  Rows that come from
 * elsewhere, or from before the ensemble was rebuilt, may be too high: that is
 * an error and no hazard, and what zk_lock_fence_reset() is for.
 *
 * IDENTIFICATION
 *	  src/backend/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "acquire.h"
#include "fence.h"
#include "held.h"
#include "lock_table.h"
#include "session.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(zk_lock_fence_trigger);

/* The extension's table, in the schema that its functions are in. */
#define FENCE_TABLE		"zk_lock_fences"

/* Put up a token; no row comes of it if a higher one is there. */
static TableQuery raise_query = {
	.text = "INSERT INTO %s AS fence (path, token, since) VALUES ($1, $2, $3)"
	" ON CONFLICT (path) DO UPDATE SET token = EXCLUDED.token,"
	" since = CASE WHEN fence.token OPERATOR(pg_catalog.=) EXCLUDED.token"
	" THEN fence.since ELSE EXCLUDED.since END"
	" WHERE fence.token OPERATOR(pg_catalog.<=) EXCLUDED.token",
	.params = 3,
	.types = {TEXTOID, INT8OID, TIMESTAMPTZOID},
	.result = SPI_OK_INSERT
};

static TableQuery read_query = {
	.text = "SELECT token, since FROM %s WHERE path OPERATOR(pg_catalog.=) $1",
	.params = 1,
	.types = {TEXTOID},
	.result = SPI_OK_SELECT
};

static TableQuery remove_query = {
	.text = "DELETE FROM %s WHERE path OPERATOR(pg_catalog.=) $1"
	" RETURNING token, since",
	.params = 1,
	.types = {TEXTOID},
	.result = SPI_OK_DELETE_RETURNING
};

/* Token and since of the row that a query has returned. */
static int64
get_fence(TimestampTz *since)
{
	bool		isnull;

	*since = DatumGetTimestampTz(zklock_table_value(2, &isnull));
	return DatumGetInt64(zklock_table_value(1, &isnull));
}

/*
 * A higher token is at the fence, which this transaction has locked.  Throws
 * ZKL01.
 */
pg_noreturn static void
report_fenced_off(const Lock *lock, Relation table, Datum *values)
{
	TimestampTz since;
	int64		token;

	if (zklock_table_query(&read_query, table, values, NULL) != 1)
		elog(ERROR, "fence of lock \"%s\" has vanished", lock->path);
	token = get_fence(&since);
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 errmsg("lock \"%s\" was fenced by a newer holder",
					lock->path),
			 errdetail("The fence has had token %lld since %s; this session's token is %lld.",
					   (long long) token, timestamptz_to_str(since),
					   (long long) DatumGetInt64(values[1])),
			 errhint("If the ensemble was rebuilt and tokens restarted, remove the fence with zk_lock_fence_reset().")));
}

/*
 * Pass the fence of a lock that is held, unless this transaction has done so.
 * Returns the token.  Throws ZKL01 if a newer holder came first, and as
 * zklock_table_query().
 */
static int64
pass_fence(Lock *lock, Oid function)
{
	int64		token = zklock_lock_token(lock);
	Datum		values[3];		/* path, token, since */
	Relation	table;

	if (zklock_lock_fenced(lock, token))
		return token;
	table = zklock_table_open(FENCE_TABLE, function, true);
	values[0] = CStringGetTextDatum(lock->path);
	values[1] = Int64GetDatum(token);
	values[2] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (zklock_table_query(&raise_query, table, values, NULL) == 0)
		report_fenced_off(lock, table, values);
	zklock_table_close(table);
	zklock_lock_set_fenced(lock, token);
	return token;
}

/*
 * The lock that is to be fenced is not held (NULL), or shared only, or it is a
 * semaphore.  written is the table that a trigger is for, else NULL.  Throws
 * 55000.
 */
pg_noreturn static void
report_not_exclusive(const LockName *name, const Lock *lock,
					 Relation written)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 written != NULL ?
			 errmsg("cannot write to table \"%s\" without holding lock \"%s\" in exclusive mode",
					RelationGetRelationName(written), name->path) :
			 lock != NULL && lock->permits > 0 ?
			 errmsg("cannot fence semaphore \"%s\"", name->path) :
			 errmsg("lock \"%s\" is not held in exclusive mode", name->path),
			 lock == NULL ?
			 errdetail("This session did not acquire it, or has released it.") :
			 lock->permits > 0 ?
			 errdetail("Permits of a semaphore are granted concurrently and have no order.") :
			 errdetail("This session holds it in shared mode."),
			 written != NULL ? errtable(written) : 0));
}

/*
 * The lock to be fenced.  It has to be held exclusive: shared holders come in
 * any order, so there is none in which their transactions should commit.
 * Throws 55000 if it is not, see report_not_exclusive(), ZKL01 if it was lost.
 */
static Lock *
find_exclusive(const LockName *name, Relation written)
{
	Lock	   *lock = zklock_lock_find(name);

	if (lock == NULL || !zklock_lock_used(lock, ZK_EXCLUSIVE))
		report_not_exclusive(name, lock, written);
	if (zklock_lock_assure(lock, ZKLOCK_FOREVER, NULL) == HOLD_LOST)
		zklock_report_lost(lock);
	return lock;
}

/*
 * Fence a lock that this backend holds: from now until this transaction ends
 * no other holder passes, and if a newer one came first, this one does not.
 * function is the SQL function that was called.  Returns the token.  Throws
 * 25006 in a read-only transaction or in recovery, and as find_exclusive() and
 * pass_fence().
 */
int64
zklock_fence(const LockName *name, Oid function)
{
	PreventCommandIfReadOnly("zk_lock_fence()");
	return pass_fence(find_exclusive(name, NULL), function);
}

/*
 * Remove the fence of a lock, whoever holds that, and say so in the server log.
 * function is the SQL function that was called.  Returns false if there is
 * none.  Throws 25006, and as zklock_table_query().
 */
bool
zklock_fence_reset(const LockName *name, Oid function)
{
	Datum		path = CStringGetTextDatum(name->path);
	Lock	   *lock = zklock_lock_find(name);
	Relation	table;
	TimestampTz since;
	bool		found;

	PreventCommandIfReadOnly("zk_lock_fence_reset()");
	table = zklock_table_open(FENCE_TABLE, function, true);
	found = zklock_table_query(&remove_query, table, &path, NULL) > 0;
	if (found)
	{
		int64		token = get_fence(&since);

		ereport(LOG,
				(errmsg("fence of lock \"%s\" was removed by user \"%s\"",
						name->path, GetUserNameFromId(GetUserId(), false)),
				 errdetail("The fence had had token %lld since %s.",
						   (long long) token, timestamptz_to_str(since))));
	}
	zklock_table_close(table);
	if (lock != NULL)
		zklock_lock_clear_fenced(lock);
	return found;
}

/* Is the trigger function called as it should be?  Throws 39P01. */
static void
check_trigger(FunctionCallInfo fcinfo)
{
	static const char function[] = "zk_lock_fence_trigger";
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager",
						function)));
	if (!TRIGGER_FIRED_BEFORE(data->tg_event) ||
		!TRIGGER_FIRED_FOR_STATEMENT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired BEFORE STATEMENT",
						function)));
	if (data->tg_trigger->tgnargs != 1)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be given one argument, the lock path",
						function)));
}

/*
 * zk_lock_fence_trigger() returns trigger
 *
 * Lets a statement write to its table only if the lock that the argument names
 * is held, and fences the transaction.  Throws 22023, and as check_trigger()
 * and zklock_fence().
 */
Datum
zk_lock_fence_trigger(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	LockName	name;

	check_trigger(fcinfo);
	zklock_drain_log();
	zklock_name_lock(data->tg_trigger->tgargs[0], &name);
	PreventCommandIfReadOnly("zk_lock_fence_trigger()");
	(void) pass_fence(find_exclusive(&name, data->tg_relation),
					  fcinfo->flinfo->fn_oid);
	PG_RETURN_POINTER(NULL);
}
