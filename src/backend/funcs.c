/*-------------------------------------------------------------------------
 *
 * funcs.c
 *	  The functions that SQL calls: arguments in, result out, no policy.
 *
 * IDENTIFICATION
 *	  src/backend/funcs.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "acquire.h"
#include "admin.h"
#include "auth_settings.h"
#include "fence.h"
#include "held.h"
#include "job.h"
#include "lock_table.h"
#include "loss.h"
#include "owner.h"
#include "release.h"
#include "session.h"
#include "snapshot.h"

PG_FUNCTION_INFO_V1(zk_lock_acquire);
PG_FUNCTION_INFO_V1(zk_lock_acquire_xact);
PG_FUNCTION_INFO_V1(zk_lock_acquire_several);
PG_FUNCTION_INFO_V1(zk_lock_acquire_several_xact);
PG_FUNCTION_INFO_V1(zk_lock_wait);
PG_FUNCTION_INFO_V1(zk_lock_wait_several);
PG_FUNCTION_INFO_V1(zk_lock_release);
PG_FUNCTION_INFO_V1(zk_lock_release_all);
PG_FUNCTION_INFO_V1(zk_semaphore_acquire);
PG_FUNCTION_INFO_V1(zk_semaphore_acquire_xact);
PG_FUNCTION_INFO_V1(zk_semaphore_release);
PG_FUNCTION_INFO_V1(zk_lock_token);
PG_FUNCTION_INFO_V1(zk_lock_verify);
PG_FUNCTION_INFO_V1(zk_lock_fence);
PG_FUNCTION_INFO_V1(zk_lock_fence_reset);
PG_FUNCTION_INFO_V1(zk_lock_queue);
PG_FUNCTION_INFO_V1(zk_lock_tree);
PG_FUNCTION_INFO_V1(zk_lock_revoke);
PG_FUNCTION_INFO_V1(zk_lock_break);
PG_FUNCTION_INFO_V1(zk_job_begin);
PG_FUNCTION_INFO_V1(zk_job_begin_xact);
PG_FUNCTION_INFO_V1(zk_job_end);
PG_FUNCTION_INFO_V1(zk_job_reset);
PG_FUNCTION_INFO_V1(zk_job_status);
PG_FUNCTION_INFO_V1(zk_locks);
PG_FUNCTION_INFO_V1(zk_session);
PG_FUNCTION_INFO_V1(zk_session_close);

/* Columns of the functions that return rows. */
#define LOCK_QUEUE_COLS	(10 + OWNER_COLS)
#define LOCK_TREE_COLS	(10 + OWNER_COLS)
#define ZK_LOCKS_COLS		9
#define ZK_SESSION_COLS		8

/* Adds one member of a listing, in that position from 1 on, as a row. */
typedef void (*PutMember) (ReturnSetInfo *result, const ZkQueueMember *member,
						   int position, TimestampTz now);

static const char *const lease_names[] = {
	[HOLD_PROVED] = "held",
	[HOLD_UNPROVED] = "unproved",
	[HOLD_LOST] = "lost"
};

static const char *const session_state_names[] = {
	[ZK_SESSION_CLOSED] = "closed",
	[ZK_SESSION_CONNECTING] = "connecting",
	[ZK_SESSION_CONNECTED] = "connected",
	[ZK_SESSION_SUSPENDED] = "suspended"
};

/*
 * Every function begins here.  A parallel worker has a lock client of its own
 * or none, but never the locks of its leader (S32); the functions are not
 * labelled parallel safe, so one only gets here from a function that wrongly
 * is.  Throws 25000.
 */
static void
begin_call(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot use ZooKeeper locks in a parallel worker")));
	zklock_drain_log();
	zklock_session_count();
}

/*
 * The lock that argument 0 names.  A null path is an error, lest somebody
 * thinks to hold a lock that was never asked for.  Throws 22004, 22023.
 */
static void
get_lock_name(FunctionCallInfo fcinfo, LockName *name)
{
	begin_call();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("lock path must not be null")));
	zklock_name_lock(text_to_cstring(PG_GETARG_TEXT_PP(0)), name);
}

/*
 * The interval in that argument, in microseconds; a month counts 30 days.  What
 * is too long to be counted is for ever, and so is null; -1 if it is negative.
 */
static ZkTime
get_interval(FunctionCallInfo fcinfo, int argument)
{
	const Interval *interval;
	int64		days;
	int64		time;

	if (PG_ARGISNULL(argument))
		return ZKLOCK_FOREVER;
	interval = PG_GETARG_INTERVAL_P(argument);
	days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &time) ||
		pg_add_s64_overflow(time, interval->time, &time))
		time = days < 0 ? -1 : ZKLOCK_FOREVER;
	return Max(time, -1);
}

/* The timeout in that argument, likewise.  Throws 22023 if it is negative. */
static ZkTime
get_timeout(FunctionCallInfo fcinfo, int argument)
{
	ZkTime		timeout = get_interval(fcinfo, argument);

	if (timeout < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return timeout;
}

/* Acquire as arguments 0 to 2 say: path, timeout, shared. */
static bool
acquire(FunctionCallInfo fcinfo, LockScope scope)
{
	LockName	name;
	bool		shared = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);

	get_lock_name(fcinfo, &name);
	return zklock_acquire(&name, 1, get_timeout(fcinfo, 1),
						  shared ? ZK_SHARED : ZK_EXCLUSIVE, scope);
}

/*
 * zk_lock_acquire(path text, timeout interval, shared boolean) returns boolean
 */
Datum
zk_lock_acquire(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(acquire(fcinfo, SCOPE_SESSION));
}

/*
 * zk_lock_acquire_xact(path text, timeout interval, shared boolean)
 * returns boolean
 */
Datum
zk_lock_acquire_xact(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(acquire(fcinfo, SCOPE_TRANSACTION));
}

/*
 * Add a lock to a list of count, unless it is in it.  Returns how many there
 * are then.  Throws 54000 if they are too many for one call.
 */
static int
add_lock_name(LockName *names, int count, const LockName *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i].node, name->node) == 0)
			return count;
	if (count == ZK_MAX_GROUP)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot acquire more than %d locks at once",
						ZK_MAX_GROUP)));
	names[count] = *name;
	return count + 1;
}

/*
 * The locks that the array in argument 0 names, of whatever dimensions it is,
 * each once.  Returns how many.  A null is an error, as for one lock.  Throws
 * 22004, 22023, 54000.
 */
static int
get_lock_names(FunctionCallInfo fcinfo, LockName **names)
{
	Datum	   *elements;
	bool	   *nulls;
	int			element_count;
	int			count = 0;
	LockName	name;

	begin_call();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("lock paths must not be null")));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false,
					  TYPALIGN_INT, &elements, &nulls, &element_count);
	*names = palloc(ZK_MAX_GROUP * sizeof(LockName));
	for (int i = 0; i < element_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("lock path must not be null")));
		zklock_name_lock(TextDatumGetCString(elements[i]), &name);
		count = add_lock_name(*names, count, &name);
	}
	return count;
}

/* Acquire as arguments 0 to 2 say: paths, timeout, shared. */
static bool
acquire_several(FunctionCallInfo fcinfo, LockScope scope)
{
	LockName   *names;
	int			count = get_lock_names(fcinfo, &names);
	ZkTime		timeout = get_timeout(fcinfo, 1);
	bool		shared = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);

	return count == 0 ||
		zklock_acquire(names, count, timeout,
					   shared ? ZK_SHARED : ZK_EXCLUSIVE, scope);
}

/*
 * zk_lock_acquire(paths text[], timeout interval, shared boolean)
 * returns boolean
 */
Datum
zk_lock_acquire_several(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(acquire_several(fcinfo, SCOPE_SESSION));
}

/*
 * zk_lock_acquire_xact(paths text[], timeout interval, shared boolean)
 * returns boolean
 */
Datum
zk_lock_acquire_several_xact(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(acquire_several(fcinfo, SCOPE_TRANSACTION));
}

/*
 * Acquire locks as a procedure does that waits without a snapshot: count of
 * them, in session scope; argument 2 says whether shared.  Returns its row,
 * which says whether they were acquired.  Throws as zklock_acquire() and
 * zklock_snapshot_give_up().
 */
static Datum
wait_for_locks(FunctionCallInfo fcinfo, const LockName *names, int count,
			   ZkTime timeout)
{
	bool		shared = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	bool		is_null = false;
	TupleDesc	desc;
	Datum		acquired;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	zklock_snapshot_give_up(fcinfo->context);
	acquired = BoolGetDatum(count == 0 ||
							zklock_acquire(names, count, timeout,
										   shared ? ZK_SHARED : ZK_EXCLUSIVE,
										   SCOPE_SESSION));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), &acquired,
											 &is_null));
}

/*
 * zk_lock_wait(path text, timeout interval, shared boolean,
 * INOUT acquired boolean)
 */
Datum
zk_lock_wait(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	return wait_for_locks(fcinfo, &name, 1, get_timeout(fcinfo, 1));
}

/*
 * zk_lock_wait(paths text[], timeout interval, shared boolean,
 * INOUT acquired boolean)
 */
Datum
zk_lock_wait_several(PG_FUNCTION_ARGS)
{
	LockName   *names;
	int			count = get_lock_names(fcinfo, &names);

	return wait_for_locks(fcinfo, names, count, get_timeout(fcinfo, 1));
}

/*
 * zk_lock_release(path text, shared boolean) returns boolean
 */
Datum
zk_lock_release(PG_FUNCTION_ARGS)
{
	LockName	name;
	bool		either = PG_ARGISNULL(1);
	bool		shared = !either && PG_GETARG_BOOL(1);

	get_lock_name(fcinfo, &name);
	PG_RETURN_BOOL(zklock_release(&name, either || !shared, either || shared));
}

/*
 * zk_lock_release_all() returns integer
 */
Datum
zk_lock_release_all(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	begin_call();
	PG_RETURN_INT32(zklock_release_all());
}

/*
 * Acquire a permit as arguments 0 to 2 say: path, permits, timeout.  A null
 * number of permits is an error, as a null path is.  Throws 22004, 22023.
 */
static bool
acquire_permit(FunctionCallInfo fcinfo, LockScope scope)
{
	LockName	name;
	int			permits;

	get_lock_name(fcinfo, &name);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("number of permits must not be null")));
	permits = PG_GETARG_INT32(1);
	if (permits < 1 || permits > ZK_MAX_PERMITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of permits must be between 1 and %d",
						ZK_MAX_PERMITS)));
	return zklock_acquire_permit(&name, permits, get_timeout(fcinfo, 2), scope);
}

/*
 * zk_semaphore_acquire(path text, permits integer, timeout interval)
 * returns boolean
 */
Datum
zk_semaphore_acquire(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(acquire_permit(fcinfo, SCOPE_SESSION));
}

/*
 * zk_semaphore_acquire_xact(path text, permits integer, timeout interval)
 * returns boolean
 */
Datum
zk_semaphore_acquire_xact(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(acquire_permit(fcinfo, SCOPE_TRANSACTION));
}

/*
 * zk_semaphore_release(path text) returns boolean
 */
Datum
zk_semaphore_release(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_BOOL(zklock_release_permit(&name));
}

/*
 * zk_lock_token(path text) returns bigint
 */
Datum
zk_lock_token(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_INT64(zklock_token(&name, false));
}

/*
 * zk_lock_verify(path text) returns bigint
 */
Datum
zk_lock_verify(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_INT64(zklock_token(&name, true));
}

/*
 * zk_lock_fence(path text) returns bigint
 */
Datum
zk_lock_fence(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_INT64(zklock_fence(&name, fcinfo->flinfo->fn_oid));
}

/*
 * zk_lock_fence_reset(path text) returns boolean
 */
Datum
zk_lock_fence_reset(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_BOOL(zklock_fence_reset(&name, fcinfo->flinfo->fn_oid));
}

/* A ZooKeeper session id in the form that ZooKeeper itself prints. */
static Datum
session_id_text(int64 session_id)
{
	return CStringGetTextDatum(psprintf("0x%llx", (unsigned long long) session_id));
}

static Datum
foreign_text(const char *data, int length)
{
	return CStringGetTextDatum(zklock_foreign_string(data, length));
}

/*
 * Under which token does, or will, the contender's owner hold the lock?  That
 * is its czxid, unless it has taken the place of an exclusive one, whose token
 * it then says.  That is earlier, and nothing else is believed.
 */
static int64
token_of(const ZkQueueMember *member, const Datum *values, const bool *nulls)
{
	int64		said;

	if (member->mode != ZK_SHARED || nulls[OWNER_TOKEN])
		return member->czxid;
	said = DatumGetInt64(values[OWNER_TOKEN]);
	return said < member->czxid ? said : member->czxid;
}

/*
 * Fill in what a contender itself says, from the token on: token, since, age,
 * owner, and the columns that show the latter; of a hidden one, nothing is
 * known.
 */
static void
put_owner(const ZkQueueMember *member, TimestampTz now, Datum *values,
		  bool *nulls)
{
	TimestampTz since = member->ctime_ms * 1000 -
	(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	Datum		said[OWNER_FIELDS];
	bool		unsaid[OWNER_FIELDS];

	zklock_owner_fields(member->data, member->data_len, said, unsaid);
	nulls[0] = nulls[1] = nulls[2] = member->hidden;
	values[0] = Int64GetDatum(token_of(member, said, unsaid));
	values[1] = TimestampTzGetDatum(since);
	values[2] = DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(now),
									TimestampTzGetDatum(since));
	nulls[3] = member->data_len == 0;
	if (!nulls[3])
		values[3] = foreign_text(member->data, member->data_len);
	memcpy(values + 4, said, sizeof(Datum) * OWNER_COLS);
	memcpy(nulls + 4, unsaid, sizeof(bool) * OWNER_COLS);
}

/* Add one contender as a row. */
static void
put_queue_member(ReturnSetInfo *result, const ZkQueueMember *member,
				 int position, TimestampTz now)
{
	Datum		values[LOCK_QUEUE_COLS] = {0};
	bool		nulls[LOCK_QUEUE_COLS] = {false};
	int			i = 0;

	values[i++] = Int32GetDatum(position);
	values[i++] = foreign_text(member->name, (int) strlen(member->name));
	values[i++] = CStringGetTextDatum(zklock_mode_name(member->mode));
	values[i++] = BoolGetDatum(member->granted);
	values[i++] = BoolGetDatum(member->own);
	nulls[i] = member->session_id == 0;
	values[i++] = session_id_text(member->session_id);
	put_owner(member, now, values + i, nulls + i);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Add one lock of a tree as a row, which does not show its position. */
static void
put_tree_member(ReturnSetInfo *result, const ZkQueueMember *member,
				int position, TimestampTz now)
{
	Datum		values[LOCK_TREE_COLS] = {0};
	bool		nulls[LOCK_TREE_COLS] = {false};
	const char *path = member->node + strlen(zklock_root);
	int			i = 0;

	(void) position;
	if (*path == '\0')
		path = "/";
	values[i++] = foreign_text(path, (int) strlen(path));
	values[i++] = CStringGetTextDatum(zklock_mode_name(member->mode));
	values[i++] = Int32GetDatum(member->holders);
	values[i++] = Int32GetDatum(member->waiters);
	values[i++] = foreign_text(member->name, (int) strlen(member->name));
	nulls[i] = member->session_id == 0;
	values[i++] = session_id_text(member->session_id);
	put_owner(member, now, values + i, nulls + i);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * Add all members of a listing as rows.  What one takes of memory is gone
 * before the next one.
 */
static void
put_members(ReturnSetInfo *result, const ZkQueueListing *listing, PutMember put)
{
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "zklock row",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(row);

	for (int i = 0; i < listing->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put(result, &listing->members[i], i + 1, now);
		MemoryContextReset(row);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(row);
}

/* The same, and free the listing. */
static void
put_listing(ReturnSetInfo *result, ZkQueueListing *listing, PutMember put)
{
	PG_TRY();
	{
		put_members(result, listing, put);
	}
	PG_CATCH();
	{
		zk_queue_free(listing);
		PG_RE_THROW();
	}
	PG_END_TRY();
	zk_queue_free(listing);
}

/*
 * zk_lock_queue(path text) returns setof record
 */
Datum
zk_lock_queue(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	InitMaterializedSRF(fcinfo, 0);
	put_listing((ReturnSetInfo *) fcinfo->resultinfo, zklock_read_queue(&name),
				put_queue_member);
	return (Datum) 0;
}

/*
 * zk_lock_tree(path text) returns setof record
 */
Datum
zk_lock_tree(PG_FUNCTION_ARGS)
{
	ZkQueueListing *listing;
	int			forbidden;
	char		znode[ZK_DETAIL_SIZE];

	begin_call();
	InitMaterializedSRF(fcinfo, 0);
	listing = zklock_read_tree(PG_ARGISNULL(0) ? NULL :
							   text_to_cstring(PG_GETARG_TEXT_PP(0)));
	forbidden = listing->forbidden;
	strlcpy(znode, listing->detail, sizeof(znode));
	put_listing((ReturnSetInfo *) fcinfo->resultinfo, listing, put_tree_member);
	if (forbidden > 0)
		ereport(WARNING,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg_plural("could not list %d znode; locks below it are not shown",
							   "could not list %d znodes; locks below them are not shown",
							   forbidden, forbidden),
				 errdetail("READ permission is required on znode \"%s\".",
						   zklock_foreign_string(znode, (int) strlen(znode)))));
	return (Datum) 0;
}

/* Break, or only revoke, the contender that arguments 0 and 1 name. */
static bool
break_contender(FunctionCallInfo fcinfo, bool only_revoke)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("contender must not be null")));
	return zklock_break(&name, text_to_cstring(PG_GETARG_TEXT_PP(1)),
						only_revoke);
}

/*
 * zk_lock_revoke(path text, contender text) returns boolean
 */
Datum
zk_lock_revoke(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(break_contender(fcinfo, true));
}

/*
 * zk_lock_break(path text, contender text) returns boolean
 */
Datum
zk_lock_break(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(break_contender(fcinfo, false));
}

/* The fire time in argument 1.  Throws 22004. */
static TimestampTz
get_fire_time(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("fire time must not be null")));
	return PG_GETARG_TIMESTAMPTZ(1);
}

/*
 * For how long a run may go on, in argument 3; 0 for ever.  Throws 22023 if
 * that is not at all.
 */
static ZkTime
get_max_runtime(FunctionCallInfo fcinfo)
{
	ZkTime		max_runtime = get_interval(fcinfo, 3);

	if (max_runtime <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_runtime must be positive")));
	/* so that it can be added to a point in time */
	return max_runtime > ZKLOCK_FOREVER / 2 ? 0 : max_runtime;
}

/* Begin a run as arguments 0 to 3 say: path, fire time, timeout, max_runtime. */
static bool
begin_job(FunctionCallInfo fcinfo, LockScope scope)
{
	LockName	name;
	JobCall		call = {.scope = scope,.function = fcinfo->flinfo->fn_oid};

	get_lock_name(fcinfo, &name);
	call.fire_time = get_fire_time(fcinfo);
	call.timeout = get_timeout(fcinfo, 2);
	call.max_runtime = get_max_runtime(fcinfo);
	return zklock_job_begin(&name, &call);
}

/*
 * zk_job_begin(path text, fire_time timestamptz, timeout interval,
 * max_runtime interval) returns boolean
 */
Datum
zk_job_begin(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(begin_job(fcinfo, SCOPE_SESSION));
}

/*
 * zk_job_begin_xact(path text, fire_time timestamptz, timeout interval,
 * max_runtime interval) returns boolean
 */
Datum
zk_job_begin_xact(PG_FUNCTION_ARGS)
{
	bool		begun = begin_job(fcinfo, SCOPE_TRANSACTION);

	if (begun && zklock_statement_alone())
		ereport(WARNING,
				(errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
				 errmsg("the run of the job ends with this statement"),
				 errhint("Begin a transaction block before calling zk_job_begin_xact().")));
	PG_RETURN_BOOL(begun);
}

/*
 * zk_job_end(path text) returns boolean
 */
Datum
zk_job_end(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_BOOL(zklock_job_end(&name, fcinfo->flinfo->fn_oid));
}

/*
 * zk_job_reset(path text, fire_time timestamptz) returns boolean
 */
Datum
zk_job_reset(PG_FUNCTION_ARGS)
{
	LockName	name;

	get_lock_name(fcinfo, &name);
	PG_RETURN_BOOL(zklock_job_reset(&name, get_fire_time(fcinfo),
									fcinfo->flinfo->fn_oid));
}

/*
 * zk_job_status(path text) returns record
 */
Datum
zk_job_status(PG_FUNCTION_ARGS)
{
	Datum		values[JOB_COLS] = {0};
	bool		nulls[JOB_COLS];
	LockName	name;
	TupleDesc	desc;

	get_lock_name(fcinfo, &name);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	zklock_job_columns(&name, fcinfo->flinfo->fn_oid, values, nulls);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/* Add what is held of a lock in one mode as a row. */
static void
put_lock(ReturnSetInfo *result, const Lock *lock, ZkMode mode, HoldState state)
{
	Datum		values[ZK_LOCKS_COLS] = {0};
	bool		nulls[ZK_LOCKS_COLS] = {false};
	TimestampTz since = lock->loss.at;
	int64		token = lock->loss.token;
	const char *contender = lock->loss.name;
	bool		revoked = false;
	ZkContenderStatus status;
	int			i = 0;

	if (state != HOLD_LOST)
	{
		ZkMode		own = zklock_lock_has_contender(lock, mode) ?
		mode : ZK_EXCLUSIVE;

		zk_contender_status(zklock_client, lock->contender[own], &status);
		since = lock->since[own];
		token = status.token;
		contender = status.name;
		revoked = status.revoked;
	}
	values[i++] = CStringGetTextDatum(lock->path);
	values[i++] = CStringGetTextDatum(zklock_mode_name(mode));
	values[i++] = Int32GetDatum(lock->session_count[mode]);
	values[i++] = Int32GetDatum(lock->transaction_count[mode]);
	nulls[i] = contender[0] == '\0';
	values[i++] = CStringGetTextDatum(contender);
	nulls[i] = token == 0;
	values[i++] = Int64GetDatum(token);
	values[i++] = CStringGetTextDatum(lease_names[state]);
	values[i++] = TimestampTzGetDatum(since);
	values[i++] = BoolGetDatum(revoked);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * zk_locks() returns setof record; the view of the same name reads it
 */
Datum
zk_locks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	begin_call();
	InitMaterializedSRF(fcinfo, 0);
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
	{
		HoldState	state = zklock_lock_judge(lock);

		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
			if (zklock_lock_used(lock, mode))
				put_lock(result, lock, mode, state);
	}
	return (Datum) 0;
}

/* A span of milliseconds as an interval. */
static Datum
interval_of_ms(int ms)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = (TimeOffset) ms * 1000;
	return IntervalPGetDatum(interval);
}

/*
 * zk_session() returns record
 */
Datum
zk_session(PG_FUNCTION_ARGS)
{
	Datum		values[ZK_SESSION_COLS] = {0};
	bool		nulls[ZK_SESSION_COLS] = {false};
	ZkSessionStatus status;
	TupleDesc	desc;
	int			i = 0;

	begin_call();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	memset(&status, 0, sizeof(status));
	if (zklock_client != NULL)
		zk_client_status(zklock_client, &status);

	values[i++] = CStringGetTextDatum(session_state_names[status.state]);
	nulls[i] = status.session_id == 0;
	values[i++] = session_id_text(status.session_id);
	nulls[i] = status.server[0] == '\0';
	values[i++] = CStringGetTextDatum(status.server);
	nulls[i] = status.timeout_ms == 0;
	values[i++] = interval_of_ms(status.timeout_ms);
	nulls[i] = status.state_since == 0;
	values[i++] = TimestampTzGetDatum(GetCurrentTimestamp() -
									  (zk_now() - status.state_since));
	values[i++] = Int64GetDatum(status.sessions);
	values[i++] = Int64GetDatum(status.reconnects);
	nulls[i] = status.detail[0] == '\0';
	values[i++] = CStringGetTextDatum(status.detail);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * zk_session_close() returns void
 */
Datum
zk_session_close(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	begin_call();
	zklock_close();
	PG_RETURN_VOID();
}
