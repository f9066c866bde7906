/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Fencing: the transactions of a lock's holders commit in the order in
 *	  which the lock was granted.
 *
 * A fence is a row of zk_lock_fences, for one lock path in this database: the
 * highest token of a transaction that has passed it, and since when (S336).  To
 * pass it (zk_lock_fence(), or the trigger) a transaction writes its own token
 * there, which fails with ZKL01 if a higher one is there.  Any role may pass a
 * fence, but only with a lock (F7, tables.c).  F9 is in remove.c.
 *
 * F1. A transaction that passes owns the row until it ends.  So of two holders
 * one waits for the other to commit or roll back.  If the older one passed
 * first, all its work is committed before the newer one continues.  If the
 * newer one passed first and commits, the older one fails.  There is no gap
 * between check and commit: the row is held through both. (S26)
 *
 * F2. Tokens are those of exclusive contenders, which rise with each grant.
 * Shared ones are granted in any order and concurrently, so a shared lock
 * cannot be fenced.  A role that could choose the ensemble could pass with any
 * token, so zklock.servers and zklock.root are for superusers.
 *
 * F3. Each transaction that passes writes the row, even if its token is there
 * already.  A row lock would also make others wait, but a waiter in REPEATABLE
 * READ would then continue with a snapshot older than the commit it waited for;
 * now it gets 40001.  In READ COMMITTED the statement after the one that waited
 * sees that commit.  The statement that fires the trigger does not, so a
 * transaction that reads before it writes calls zk_lock_fence() first.
 *
 * F4. A transaction passes once.  The lock table remembers the token and the
 * level of subtransaction (T7), as a rollback takes the token out of the row
 * and releases it.  A prepared transaction keeps the row; the backend's next
 * transaction has passed nothing.
 *
 * F5. A transaction that has passed and lost the lock cannot acquire it again:
 * the next holder may be waiting at the fence for this transaction, which would
 * wait for the lock.
 *
 * F6. The row is found by the lock path, whatever zklock.root is: different
 * roots for one database separate no holders, and this shows it.
 *
 * F8. The table is logged.  After a crash there is no holder to be fenced off;
 * but a backend that holds a lock on a standby survives its promotion, and the
 * rows must exist then.  Dumps include them, also for pg_upgrade.  Rows from
 * elsewhere, or from before the ensemble was rebuilt, may be too high: an
 * error, but safe, and the reason for zk_lock_fence_reset().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
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

/* Writes a token; returns no row if a higher one is there. */
static TableQuery raise_query = {
	.text = "INSERT INTO %s AS fence (path, token, since) VALUES ($1, $2, $3)"
	" ON CONFLICT (path) DO UPDATE SET token = EXCLUDED.token,"
	" since = CASE WHEN fence.token OPERATOR(pg_catalog.=) EXCLUDED.token"
	" THEN fence.since ELSE EXCLUDED.since END"
	" WHERE fence.token OPERATOR(pg_catalog.<=) EXCLUDED.token",
	.types = {TEXTOID, INT8OID, TIMESTAMPTZOID},
	.result = SPI_OK_INSERT
};

static TableQuery read_query = {
	.text = "SELECT token, since FROM %s WHERE path OPERATOR(pg_catalog.=) $1",
	.types = {TEXTOID},
	.result = SPI_OK_SELECT
};

static TableQuery remove_query = {
	.text = "DELETE FROM %s WHERE path OPERATOR(pg_catalog.=) $1"
	" RETURNING token, since",
	.types = {TEXTOID},
	.result = SPI_OK_DELETE_RETURNING
};

/* Returns token and since of the row that a query has returned. */
static int64
get_fence(TimestampTz *since)
{
	bool		isnull;

	*since = DatumGetTimestampTz(zklock_table_value(2, &isnull));
	return DatumGetInt64(zklock_table_value(1, &isnull));
}

/* A higher token is at the fence, whose row is locked.  Throws ZKL01. */
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

/* Passes the fence of a lock, once in a transaction.  Returns the token. */
static int64
pass_fence(Lock *lock, Oid function)
{
	int64		token = zklock_lock_token(lock);
	Datum		values[3];		/* path, token, since */
	Relation	table;

	if (lock->fence_nesting > 0 && lock->fence_token == token)
		return token;
	table = zklock_table_open(FENCE_TABLE, function, true);
	values[0] = CStringGetTextDatum(lock->path);
	values[1] = Int64GetDatum(token);
	values[2] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (zklock_table_query(&raise_query, table, values, NULL) == 0)
		report_fenced_off(lock, table, values);
	zklock_table_close(table);
	lock->fence_token = token;
	lock->fence_nesting = GetCurrentTransactionNestLevel();
	zklock_lock_touch(lock);
	return token;
}

/*
 * The lock to be fenced is not held in exclusive mode (NULL: not at all).
 * written is the table of a trigger, or NULL.  Throws 55000.
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

/* Returns the lock to be fenced, held in exclusive mode. */
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
 * Fences a lock that this backend holds: until this transaction ends no other
 * holder passes, and if a newer one came first, this one does not.  Returns the
 * token.  Throws 25006 in a read-only transaction or in recovery.
 */
int64
zklock_fence(const LockName *name, Oid function)
{
	PreventCommandIfReadOnly("zk_lock_fence()");
	return pass_fence(find_exclusive(name, NULL), function);
}

/* Removes a fence, and logs that.  Returns false if there is none. */
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
		lock->fence_nesting = 0;
	return found;
}

/* Checks how the trigger function was called.  Throws 39P01. */
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
 * is held, and fences the transaction.  Throws 22023.
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
