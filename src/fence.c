/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Fencing: the transactions of a lock's holders commit in the order in
 *	  which the lock was granted.
 *
 * A fence is the row of a lock in the extension's table zk_lock_fences.  It
 * keeps the highest token that came by.  A transaction passes the fence by
 * writing its token there, which fails when a higher one is there already,
 * and from then on has the row to itself until it ends.  src/README says why
 * that is enough, and why the row is written even when it has the token.
 *
 * Queries are run with the rights of the table's owner, as those of foreign
 * keys are: everybody may pass a fence, but by way of a lock only.  They name
 * table and operators in full, so search_path does not matter.
 *
 * IDENTIFICATION
 *	  src/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "zklock.h"

PG_FUNCTION_INFO_V1(zk_lock_fence_trigger);

/* The extension's table, in the schema that its functions are in. */
#define FENCE_TABLE		"zk_lock_fences"
/* Parameters of every query: path, token, since; as many as it takes. */
#define QUERY_PARAMS	3

/* A query on the table of fences, with its plan once that was made. */
typedef struct FenceQuery
{
	const char *text;			/* %s stands for the table */
	int			params;
	int			result;			/* what SPI returns */
	SPIPlanPtr	plan;
	Oid			table;			/* which the plan is for */
} FenceQuery;

/* Put up a token; no row comes of it if a higher one is there. */
static FenceQuery raise_query = {
	.text = "INSERT INTO %s AS fence (path, token, since) VALUES ($1, $2, $3)"
	" ON CONFLICT (path) DO UPDATE SET token = EXCLUDED.token,"
	" since = CASE WHEN fence.token OPERATOR(pg_catalog.=) EXCLUDED.token"
	" THEN fence.since ELSE EXCLUDED.since END"
	" WHERE fence.token OPERATOR(pg_catalog.<=) EXCLUDED.token",
	.params = 3,
	.result = SPI_OK_INSERT
};

static FenceQuery read_query = {
	.text = "SELECT token, since FROM %s WHERE path OPERATOR(pg_catalog.=) $1",
	.params = 1,
	.result = SPI_OK_SELECT
};

static FenceQuery remove_query = {
	.text = "DELETE FROM %s WHERE path OPERATOR(pg_catalog.=) $1"
	" RETURNING token, since",
	.params = 1,
	.result = SPI_OK_DELETE_RETURNING
};

/*
 * Open the table of fences for writing, and SPI.  function is one of the
 * extension's own, and shows which schema it lives in.  Throws 42P01.
 */
static Relation
open_fences(Oid function)
{
	Oid			table = get_relname_relid(FENCE_TABLE,
										  get_func_namespace(function));

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension \"zklock\" does not exist",
						FENCE_TABLE)));
	SPI_connect();
	return table_open(table, RowExclusiveLock);
}

/* The other end: the table stays locked until the transaction ends. */
static void
close_fences(Relation table)
{
	table_close(table, NoLock);
	SPI_finish();
}

/*
 * Make the plan of a query, to be kept.  One that was made before does if it is
 * for the same table under the same name, or the text of the query would have
 * to be another one; to know that, the table has to be locked by now.
 */
static void
prepare_query(FenceQuery *query, Relation table)
{
	static Oid	types[QUERY_PARAMS] = {TEXTOID, INT8OID, TIMESTAMPTZOID};
	char	   *schema = get_namespace_name(RelationGetNamespace(table));
	SPIPlanPtr	plan;

	if (query->plan != NULL)
	{
		if (query->table == RelationGetRelid(table) &&
			SPI_plan_is_valid(query->plan))
			return;
		SPI_freeplan(query->plan);
		query->plan = NULL;
	}
	plan = SPI_prepare(psprintf(query->text,
								quote_qualified_identifier(schema,
														   FENCE_TABLE)),
					   query->params, types);
	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_prepare failed for \"%s\"", query->text);
	query->plan = plan;
	query->table = RelationGetRelid(table);
}

/*
 * Run a query as the table's owner.  Returns the number of rows; the first one
 * is in SPI_tuptable if the query returns any.  Throws what the query throws:
 * the row may have to be waited for, which ends by interrupts, lock_timeout
 * and as a deadlock; 40001.  Whoever the user is then, the abort restores it.
 */
static uint64
run_query(FenceQuery *query, Relation table, Datum *values)
{
	Oid			user;
	int			context;
	int			result;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(table->rd_rel->relowner,
						   context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	prepare_query(query, table);
	result = SPI_execute_plan(query->plan, values, NULL, false, 0);
	SetUserIdAndSecContext(user, context);
	if (result != query->result)
		elog(ERROR, "unexpected result %s of \"%s\"",
			 SPI_result_code_string(result), query->text);
	return SPI_processed;
}

/*
 * Token and since of the row that a query has returned.
 */
static int64
get_fence(TimestampTz *since)
{
	HeapTuple	row = SPI_tuptable->vals[0];
	TupleDesc	desc = SPI_tuptable->tupdesc;
	bool		isnull;

	*since = DatumGetTimestampTz(SPI_getbinval(row, desc, 2, &isnull));
	return DatumGetInt64(SPI_getbinval(row, desc, 1, &isnull));
}

/*
 * A higher token is at the fence, which this transaction has locked.  Throws
 * ZKL01.
 */
pg_noreturn static void
report_fenced_off(const ZkLock *lock, Relation table, Datum *values)
{
	TimestampTz since;
	int64		token;

	if (run_query(&read_query, table, values) != 1)
		elog(ERROR, "fence of lock \"%s\" has vanished", lock->path);
	token = get_fence(&since);
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 errmsg("lock \"%s\" has been fenced by a newer holder",
					lock->path),
			 errdetail("Token %lld has been there since %s; this backend's is %lld.",
					   (long long) token, timestamptz_to_str(since),
					   (long long) DatumGetInt64(values[1])),
			 errhint("If tokens have begun anew because the ensemble was rebuilt, have the fence removed with zk_lock_fence_reset().")));
}

/*
 * Pass the fence of a lock that is held, unless this transaction has done so.
 * Returns the token.  Throws ZKL01 if a newer holder came first, and as
 * run_query().
 */
static int64
pass_fence(ZkLock *lock, Oid function)
{
	int64		token = zklock_lock_token(lock);
	Datum		values[QUERY_PARAMS];
	Relation	table;

	if (zklock_lock_fenced(lock, token))
		return token;
	table = open_fences(function);
	values[0] = CStringGetTextDatum(lock->path);
	values[1] = Int64GetDatum(token);
	values[2] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (run_query(&raise_query, table, values) == 0)
		report_fenced_off(lock, table, values);
	close_fences(table);
	zklock_lock_set_fenced(lock, token);
	return token;
}

/*
 * The lock that is to be fenced is not held (NULL), or shared only, or it is a
 * semaphore.  written is the table that a trigger is for, else NULL.  Throws
 * 55000.
 */
pg_noreturn static void
report_not_exclusive(const ZkLockName *name, const ZkLock *lock,
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
			 errdetail("This backend has not acquired it, or has released it.") :
			 lock->permits > 0 ?
			 errdetail("It is a semaphore, whose permits are granted in any order and together.") :
			 errdetail("It is held in shared mode, in which others may hold it at the same time."),
			 written != NULL ? errtable(written) : 0));
}

/*
 * The lock to be fenced.  It has to be held exclusive: shared holders come in
 * any order, so there is none in which their transactions should commit.
 * Throws 55000 if it is not, see report_not_exclusive(), ZKL01 if it was lost.
 */
static ZkLock *
find_exclusive(const ZkLockName *name, Relation written)
{
	ZkLock	   *lock = zklock_lock_find(name);

	if (lock == NULL || !zklock_lock_used(lock, ZK_EXCLUSIVE))
		report_not_exclusive(name, lock, written);
	if (zklock_lock_assure(lock, ZKLOCK_FOREVER, NULL) == ZK_LEASE_LOST)
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
zklock_fence(const ZkLockName *name, Oid function)
{
	PreventCommandIfReadOnly("zk_lock_fence()");
	return pass_fence(find_exclusive(name, NULL), function);
}

/*
 * Remove the fence of a lock, whoever holds that, and say so in the server log.
 * function is the SQL function that was called.  Returns false if there is
 * none.  Throws 25006, and as run_query().
 */
bool
zklock_fence_reset(const ZkLockName *name, Oid function)
{
	Datum		path = CStringGetTextDatum(name->path);
	ZkLock	   *lock = zklock_lock_find(name);
	Relation	table;
	TimestampTz since;
	bool		found;

	PreventCommandIfReadOnly("zk_lock_fence_reset()");
	table = open_fences(function);
	found = run_query(&remove_query, table, &path) > 0;
	if (found)
	{
		int64		token = get_fence(&since);

		ereport(LOG,
				(errmsg("user \"%s\" removes the fence of lock \"%s\"",
						GetUserNameFromId(GetUserId(), false), name->path),
				 errdetail("Token %lld had been there since %s.",
						   (long long) token, timestamptz_to_str(since))));
	}
	close_fences(table);
	if (lock != NULL)
		zklock_lock_clear_fenced(lock);
	return found;
}

/*
 * Is the trigger function called as it should be?  Throws 39P01.
 */
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
	ZkLockName	name;

	check_trigger(fcinfo);
	zklock_drain_log();
	zklock_name_lock(data->tg_trigger->tgargs[0], &name);
	PreventCommandIfReadOnly("zk_lock_fence_trigger()");
	(void) pass_fence(find_exclusive(&name, data->tg_relation),
					  fcinfo->flinfo->fn_oid);
	PG_RETURN_POINTER(NULL);
}
