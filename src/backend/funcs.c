/*-------------------------------------------------------------------------
 *
 * funcs.c
 *	  The functions that SQL calls: arguments in, result out, no policy.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
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
#include "rights.h"
#include "row.h"
#include "session.h"
#include "snapshot.h"

PG_FUNCTION_INFO_V1(zk_lock_release);
PG_FUNCTION_INFO_V1(zk_lock_release_all);
PG_FUNCTION_INFO_V1(zk_lock_queue);
PG_FUNCTION_INFO_V1(zk_lock_tree);
PG_FUNCTION_INFO_V1(zk_job_begin_xact);
PG_FUNCTION_INFO_V1(zk_job_wait);
PG_FUNCTION_INFO_V1(zk_job_reset);
PG_FUNCTION_INFO_V1(zk_job_status);
PG_FUNCTION_INFO_V1(zk_locks);
PG_FUNCTION_INFO_V1(zk_semaphore_acquire_xact);
PG_FUNCTION_INFO_V1(zk_semaphore_wait);
PG_FUNCTION_INFO_V1(zk_session);
PG_FUNCTION_INFO_V1(zk_session_close);

/* Defines a function that SQL calls: returns the result, which is a Datum. */
#define SQL_FUNCTION(name, result) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		return (result); \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

/* A wait that another client reports is not longer: ten years. */
#define MAX_WAITED_MS	INT64CONST(315576000000)

/*
 * Adds the columns of a member of a listing, in that position from 1 on, with
 * what its data says about its owner.
 */
typedef void (*AddMember) (Row *row, const ZkQueueMember *member, int position,
						   const Datum *values, const bool *nulls);

static const char *const hold_names[] = {
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
 * Begins every function.  A parallel worker never has its leader's locks (S32);
 * only a function wrongly labelled parallel safe gets there.  Throws 25000.
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

/* Refuses a null argument.  Throws 22004. */
static void
check_not_null(FunctionCallInfo fcinfo, int argument, const char *message)
{
	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg_internal("%s", message)));
}

/*
 * Begins a function, and gets the lock that argument 0 names.  A null path is
 * an error, so that no caller believes to hold a lock.
 */
static LockName *
get_lock_name(FunctionCallInfo fcinfo)
{
	LockName   *name = palloc(sizeof(LockName));

	begin_call();
	check_not_null(fcinfo, 0, "lock path must not be null");
	zklock_name_lock(text_to_cstring(PG_GETARG_TEXT_PP(0)), name);
	return name;
}

/* The same for what not every role may do with every lock.  Throws 42501. */
static LockName *
get_admitted_lock(FunctionCallInfo fcinfo)
{
	LockName   *name = get_lock_name(fcinfo);

	zklock_rights_check_path(name, false);
	return name;
}

/*
 * Returns the interval in that argument, in microseconds; a month counts 30
 * days.  Null and what is too long are forever, negative ones -1.
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

/* Returns the timeout in that argument.  Throws 22023 if it is negative. */
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

/* Adds a lock to a list of count, unless there.  Returns the new count. */
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

/* Begins a function, and gets the locks in array argument 0, each once. */
static int
get_lock_names(FunctionCallInfo fcinfo, LockName **names)
{
	Datum	   *elements;
	bool	   *nulls;
	int			element_count;
	int			count = 0;
	LockName	name;

	begin_call();
	check_not_null(fcinfo, 0, "lock paths must not be null");
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
		zklock_rights_check_path(&name, false);
		count = add_lock_name(*names, count, &name);
	}
	return count;
}

/*
 * Warns after a call in transaction scope that was of no use: the client's
 * statement is a transaction of its own, and does nothing else.
 */
static void
warn_if_alone(FunctionCallInfo fcinfo, const char *function, const char *warning)
{
	if (zklock_statement_is_call(fcinfo->flinfo->fn_oid))
		ereport(WARNING,
				(errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
				 errmsg_internal("%s", warning),
				 errhint("Begin a transaction block before calling %s().", function)));
}

/*
 * Acquires the lock that argument 0 names, or several, with timeout and mode
 * from arguments 1 and 2.  A procedure gives up its snapshot before.
 */
static bool
acquire(FunctionCallInfo fcinfo, bool several, LockScope scope, bool procedure)
{
	LockName   *names;
	int			count = 1;
	ZkTime		timeout;
	ZkLockRequest request = {
		.mode = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2) ? ZK_SHARED : ZK_EXCLUSIVE
	};

	if (several)
		count = get_lock_names(fcinfo, &names);
	else
		names = get_admitted_lock(fcinfo);
	timeout = get_timeout(fcinfo, 1);
	zklock_rights_check_scope(scope, "zk_lock_acquire_xact");
	if (procedure)
		zklock_snapshot_give_up(fcinfo->context);
	return count == 0 || zklock_acquire(names, count, &request, timeout, scope);
}

/* Acquires one lock or several at transaction level. */
static bool
acquire_xact(FunctionCallInfo fcinfo, bool several)
{
	bool		acquired = acquire(fcinfo, several, SCOPE_TRANSACTION, false);

	if (acquired)
		warn_if_alone(fcinfo, "zk_lock_acquire_xact",
					  "the lock is released with this statement");
	return acquired;
}

/* zk_lock_acquire(path text, timeout interval, shared boolean) */
SQL_FUNCTION(zk_lock_acquire,
			 BoolGetDatum(acquire(fcinfo, false, SCOPE_SESSION, false)));

/* zk_lock_acquire_xact(path text, timeout interval, shared boolean) */
SQL_FUNCTION(zk_lock_acquire_xact,
			 BoolGetDatum(acquire_xact(fcinfo, false)));

/* zk_lock_acquire(paths text[], timeout interval, shared boolean) */
SQL_FUNCTION(zk_lock_acquire_several,
			 BoolGetDatum(acquire(fcinfo, true, SCOPE_SESSION, false)));

/* zk_lock_acquire_xact(paths text[], timeout interval, shared boolean) */
SQL_FUNCTION(zk_lock_acquire_several_xact,
			 BoolGetDatum(acquire_xact(fcinfo, true)));

/* Returns the row with which a procedure says whether it has succeeded. */
static Datum
result_row(TupleDesc desc, bool success)
{
	Row			row = {0};

	row_add(&row, true, BoolGetDatum(success));
	return row_datum(desc, &row);
}

/* Acquires one lock or several without a snapshot.  Returns the row. */
static Datum
wait_for_locks(FunctionCallInfo fcinfo, bool several)
{
	TupleDesc	desc = row_type(fcinfo);

	return result_row(desc, acquire(fcinfo, several, SCOPE_SESSION, true));
}

/* zk_lock_wait(path text, timeout interval, shared boolean, INOUT acquired) */
SQL_FUNCTION(zk_lock_wait, wait_for_locks(fcinfo, false));

/* The same for paths text[]. */
SQL_FUNCTION(zk_lock_wait_several, wait_for_locks(fcinfo, true));

/* zk_lock_release(path text, shared boolean) */
Datum
zk_lock_release(PG_FUNCTION_ARGS)
{
	int			modes = PG_ARGISNULL(1) ? RELEASE_EXCLUSIVE | RELEASE_SHARED :
	PG_GETARG_BOOL(1) ? RELEASE_SHARED : RELEASE_EXCLUSIVE;

	PG_RETURN_BOOL(zklock_release(get_lock_name(fcinfo), modes));
}

/* zk_lock_release_all() */
Datum
zk_lock_release_all(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	begin_call();
	PG_RETURN_INT32(zklock_release_all());
}

/*
 * Acquires a permit; arguments are path, capacity, timeout.  A procedure gives
 * up its snapshot before.  Throws 22023.
 */
static bool
acquire_permit(FunctionCallInfo fcinfo, LockScope scope, bool procedure)
{
	const LockName *name = get_admitted_lock(fcinfo);
	ZkTime		timeout;
	ZkLockRequest request = {.mode = ZK_PERMIT};

	check_not_null(fcinfo, 1, "capacity must not be null");
	request.permits = PG_GETARG_INT32(1);
	if (request.permits < 1 || request.permits > ZK_MAX_PERMITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("capacity must be between 1 and %d",
						ZK_MAX_PERMITS)));
	zklock_rights_check_scope(scope, "zk_semaphore_acquire_xact");
	timeout = get_timeout(fcinfo, 2);
	if (procedure)
		zklock_snapshot_give_up(fcinfo->context);
	return zklock_acquire(name, 1, &request, timeout, scope);
}

/* zk_semaphore_acquire(path text, capacity integer, timeout interval) */
SQL_FUNCTION(zk_semaphore_acquire,
			 BoolGetDatum(acquire_permit(fcinfo, SCOPE_SESSION, false)));

/* zk_semaphore_acquire_xact(path text, capacity integer, timeout interval) */
Datum
zk_semaphore_acquire_xact(PG_FUNCTION_ARGS)
{
	bool		acquired = acquire_permit(fcinfo, SCOPE_TRANSACTION, false);

	if (acquired)
		warn_if_alone(fcinfo, "zk_semaphore_acquire_xact",
					  "the permit is released with this statement");
	PG_RETURN_BOOL(acquired);
}

/* zk_semaphore_wait(path, capacity, timeout, INOUT acquired boolean) */
Datum
zk_semaphore_wait(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = row_type(fcinfo);

	return result_row(desc, acquire_permit(fcinfo, SCOPE_SESSION, true));
}

/* zk_semaphore_release(path text) */
SQL_FUNCTION(zk_semaphore_release,
			 BoolGetDatum(zklock_release(get_lock_name(fcinfo), RELEASE_PERMIT)));

/* zk_lock_token(path text) */
SQL_FUNCTION(zk_lock_token,
			 Int64GetDatum(zklock_token(get_lock_name(fcinfo), false)));

/* zk_lock_verify(path text) */
SQL_FUNCTION(zk_lock_verify,
			 Int64GetDatum(zklock_token(get_lock_name(fcinfo), true)));

/* Returns for how long it is certain that the lock of argument 0 is held. */
static Datum
lease_of_lock(FunctionCallInfo fcinfo)
{
	Interval   *lease = palloc0(sizeof(Interval));

	lease->time = zklock_lease(get_lock_name(fcinfo));
	return IntervalPGetDatum(lease);
}

/* zk_lock_lease(path text) */
SQL_FUNCTION(zk_lock_lease, lease_of_lock(fcinfo));

/* zk_lock_fence(path text) */
SQL_FUNCTION(zk_lock_fence,
			 Int64GetDatum(zklock_fence(get_lock_name(fcinfo), fcinfo->flinfo->fn_oid)));

/* zk_lock_fence_reset(path text) */
SQL_FUNCTION(zk_lock_fence_reset,
			 BoolGetDatum(zklock_fence_reset(get_lock_name(fcinfo),
											 fcinfo->flinfo->fn_oid)));

/* Returns text that another client wrote. */
static Datum
foreign_text(const char *data, int length)
{
	return CStringGetTextDatum(zklock_foreign_string(data, length));
}

/*
 * Returns the token of the contender's owner.  That is its czxid, unless it has
 * taken the place of an exclusive contender, whose lower token its data has.
 */
static int64
token_of(const ZkQueueMember *member, const Datum *values, const bool *nulls)
{
	if (member->mode != ZK_SHARED || nulls[OWNER_TOKEN])
		return member->czxid;
	return Min(DatumGetInt64(values[OWNER_TOKEN]), member->czxid);
}

/* Returns true if the contender's release is asked for (W4). */
static bool
is_revoked(const ZkQueueMember *member, const bool *nulls)
{
	return !nulls[OWNER_REVOKED] ||
		(member->data_len == (int) strlen(ZK_REVOCATION) &&
		 memcmp(member->data, ZK_REVOCATION, member->data_len) == 0);
}

/* Adds a point in time, and how long ago that was, by this server's clock. */
static void
add_time(Row *row, bool known, TimestampTz time)
{
	row_add(row, known, TimestampTzGetDatum(time));
	row_add(row, known,
			DirectFunctionCall2(timestamp_mi,
								TimestampTzGetDatum(GetCurrentTimestamp()),
								TimestampTzGetDatum(time)));
}

/*
 * Adds token, since, age, since and for how long it is granted (W8), what the
 * owner says, contender, session, owner.
 */
static void
add_owner(Row *row, const ZkQueueMember *member, const Datum *values,
		  const bool *nulls)
{
	TimestampTz since = member->ctime_ms * 1000 -
	(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	int64		waited = nulls[OWNER_WAITED] ? 0 :
	Min(DatumGetInt64(values[OWNER_WAITED]), MAX_WAITED_MS) * 1000;

	row_add(row, !member->hidden,
			Int64GetDatum(token_of(member, values, nulls)));
	add_time(row, !member->hidden, since);
	add_time(row, !member->hidden && member->granted, since + waited);
	row_add_all(row, values, nulls, OWNER_COLS);
	row_add(row, true, foreign_text(member->name, (int) strlen(member->name)));
	row_add_session(row, member->session_id);
	row_add(row, member->data_len > 0, member->data_len == 0 ? (Datum) 0 :
			foreign_text(member->data, member->data_len));
}

/* Adds the columns of a contender in a queue. */
static void
add_queue_member(Row *row, const ZkQueueMember *member, int position,
				 const Datum *values, const bool *nulls)
{
	row_add(row, true, Int32GetDatum(position));
	row_add(row, true, CStringGetTextDatum(zklock_mode_name(member->mode)));
	row_add(row, true, BoolGetDatum(member->granted));
	row_add(row, true, BoolGetDatum(member->own));
	row_add(row, !member->hidden, BoolGetDatum(is_revoked(member, nulls)));
	add_owner(row, member, values, nulls);
}

/* Adds the columns of a lock in a tree, which do not include its position. */
static void
add_tree_member(Row *row, const ZkQueueMember *member, int position,
				const Datum *values, const bool *nulls)
{
	const char *path = member->node + strlen(zklock_root);

	(void) position;
	if (*path == '\0')
		path = "/";
	row_add(row, true, foreign_text(path, (int) strlen(path)));
	row_add(row, true, CStringGetTextDatum(zklock_mode_name(member->mode)));
	row_add(row, true, Int32GetDatum(member->holders));
	row_add(row, true, Int32GetDatum(member->waiters));
	add_owner(row, member, values, nulls);
}

/* Adds all members of a listing as rows, freeing memory after each. */
static void
put_members(FunctionCallInfo fcinfo, const ZkQueueListing *listing,
			AddMember add)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "zklock row",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);

	for (int i = 0; i < listing->count; i++)
	{
		const ZkQueueMember *member = &listing->members[i];
		Datum		values[OWNER_FIELDS];
		bool		nulls[OWNER_FIELDS];
		Row			row = {0};

		CHECK_FOR_INTERRUPTS();
		zklock_owner_fields(member->data, member->data_len, values, nulls);
		add(&row, member, i + 1, values, nulls);
		row_store((ReturnSetInfo *) fcinfo->resultinfo, &row);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/* zk_lock_queue(path text) returns setof record */
Datum
zk_lock_queue(PG_FUNCTION_ARGS)
{
	const LockName *name = get_admitted_lock(fcinfo);

	InitMaterializedSRF(fcinfo, 0);
	put_members(fcinfo, zklock_read_queue(name), add_queue_member);
	return (Datum) 0;
}

/* zk_lock_tree(path text) returns setof record */
Datum
zk_lock_tree(PG_FUNCTION_ARGS)
{
	const ZkQueueListing *listing;

	begin_call();
	InitMaterializedSRF(fcinfo, 0);
	listing = zklock_read_tree(PG_ARGISNULL(0) ? NULL :
							   text_to_cstring(PG_GETARG_TEXT_PP(0)));
	put_members(fcinfo, listing, add_tree_member);
	if (listing->forbidden > 0)
		ereport(WARNING,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg_plural("could not list %d znode; locks below it are not shown",
							   "could not list %d znodes; locks below them are not shown",
							   listing->forbidden, listing->forbidden),
				 errdetail("READ permission is required on znode \"%s\".",
						   zklock_foreign_string(listing->detail,
												 (int) strlen(listing->detail)))));
	return (Datum) 0;
}

/* Breaks, or only revokes, the contender that arguments 0 and 1 name. */
static bool
break_contender(FunctionCallInfo fcinfo, bool only_revoke)
{
	const LockName *name = get_admitted_lock(fcinfo);

	check_not_null(fcinfo, 1, "contender must not be null");
	return zklock_break(name, text_to_cstring(PG_GETARG_TEXT_PP(1)),
						only_revoke);
}

/* The same, if argument 1 is the contender's token. */
static bool
break_token(FunctionCallInfo fcinfo, bool only_revoke)
{
	const LockName *name = get_admitted_lock(fcinfo);
	const ZkQueueListing *queue;

	check_not_null(fcinfo, 1, "token must not be null");
	queue = zklock_read_queue(name);
	for (int i = 0; i < queue->count; i++)
	{
		const ZkQueueMember *member = &queue->members[i];
		Datum		values[OWNER_FIELDS];
		bool		nulls[OWNER_FIELDS];

		zklock_owner_fields(member->data, member->data_len, values, nulls);
		if (!member->hidden && token_of(member, values, nulls) == PG_GETARG_INT64(1))
			return zklock_break(name, zklock_foreign_string(member->name,
															(int) strlen(member->name)),
								only_revoke);
	}
	return false;
}

/* zk_lock_revoke(path text, token bigint) */
SQL_FUNCTION(zk_lock_revoke_token, BoolGetDatum(break_token(fcinfo, true)));

/* zk_lock_break(path text, token bigint) */
SQL_FUNCTION(zk_lock_break_token, BoolGetDatum(break_token(fcinfo, false)));

/* zk_lock_revoke(path text, contender text) */
SQL_FUNCTION(zk_lock_revoke, BoolGetDatum(break_contender(fcinfo, true)));

/* zk_lock_break(path text, contender text) */
SQL_FUNCTION(zk_lock_break, BoolGetDatum(break_contender(fcinfo, false)));

/* Returns the fire time in argument 1.  Throws 22004. */
static TimestampTz
get_fire_time(FunctionCallInfo fcinfo)
{
	check_not_null(fcinfo, 1, "fire time must not be null");
	return PG_GETARG_TIMESTAMPTZ(1);
}

/* Returns max_runtime from argument 3; 0 for forever.  Throws 22023. */
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

/*
 * Begins a run; arguments are path, fire time, timeout, max_runtime.  A
 * procedure gives up its snapshot before.
 */
static bool
begin_job(FunctionCallInfo fcinfo, LockScope scope, bool procedure)
{
	const LockName *name = get_admitted_lock(fcinfo);
	JobCall		call = {
		.fire_time = get_fire_time(fcinfo),
		.timeout = get_timeout(fcinfo, 2),
		.max_runtime = get_max_runtime(fcinfo),
		.scope = scope,
		.function = fcinfo->flinfo->fn_oid
	};

	zklock_rights_check_scope(scope, "zk_job_begin_xact");
	if (procedure)
		zklock_snapshot_give_up(fcinfo->context);
	return zklock_job_begin(name, &call);
}

/* zk_job_begin(path text, fire_time, timeout, max_runtime interval) */
SQL_FUNCTION(zk_job_begin, BoolGetDatum(begin_job(fcinfo, SCOPE_SESSION, false)));

/* zk_job_wait(path, fire_time, timeout, max_runtime, INOUT begun boolean) */
Datum
zk_job_wait(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = row_type(fcinfo);

	return result_row(desc, begin_job(fcinfo, SCOPE_SESSION, true));
}

/* zk_job_begin_xact(path text, fire_time, timeout, max_runtime interval) */
Datum
zk_job_begin_xact(PG_FUNCTION_ARGS)
{
	bool		begun = begin_job(fcinfo, SCOPE_TRANSACTION, false);

	if (begun && zklock_statement_alone())
		ereport(WARNING,
				(errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
				 errmsg("the run of the job ends with this statement"),
				 errhint("Begin a transaction block before calling zk_job_begin_xact().")));
	PG_RETURN_BOOL(begun);
}

/* zk_job_end(path text) */
SQL_FUNCTION(zk_job_end,
			 BoolGetDatum(zklock_job_end(get_lock_name(fcinfo), fcinfo->flinfo->fn_oid)));

/* zk_job_reset(path text, fire_time timestamptz) */
Datum
zk_job_reset(PG_FUNCTION_ARGS)
{
	const LockName *name = get_admitted_lock(fcinfo);

	PG_RETURN_BOOL(zklock_job_reset(name, get_fire_time(fcinfo),
									fcinfo->flinfo->fn_oid));
}

/* zk_job_status(path text) returns record */
Datum
zk_job_status(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = row_type(fcinfo);
	Row			row = {0};

	zklock_job_columns(get_admitted_lock(fcinfo), fcinfo->flinfo->fn_oid, &row);
	row_fill(&row, desc);
	PG_RETURN_DATUM(row_datum(desc, &row));
}

/* Adds what is held of a lock in one mode as a row. */
static void
put_lock(ReturnSetInfo *result, const Lock *lock, ZkMode mode, HoldState state)
{
	/* an exclusive contender also stands for shared acquisitions */
	ZkMode		own = lock->since[mode] != 0 ? mode : ZK_EXCLUSIVE;
	int64		token = lock->loss.token;
	const char *contender = lock->loss.name;
	bool		revoked = false;
	ZkContenderStatus status;
	Row			row = {0};

	if (state != HOLD_LOST)
	{
		zk_contender_status(zklock_client, lock->contender[own], &status);
		token = status.token;
		contender = status.name;
		revoked = status.revoked;
	}
	row_add(&row, true, CStringGetTextDatum(lock->path));
	row_add(&row, true, CStringGetTextDatum(zklock_mode_name(mode)));
	row_add(&row, true, Int32GetDatum(lock->session_count[mode]));
	row_add(&row, true, Int32GetDatum(lock->transaction_count[mode]));
	row_add(&row, true, CStringGetTextDatum(hold_names[state]));
	row_add(&row, true, TimestampTzGetDatum(lock->since[own]));
	row_add(&row, state == HOLD_LOST, TimestampTzGetDatum(lock->loss.at));
	row_add(&row, token != 0, Int64GetDatum(token));
	row_add(&row, true, BoolGetDatum(revoked));
	row_add(&row, lock->note[own][0] != '\0', CStringGetTextDatum(lock->note[own]));
	row_add(&row, contender[0] != '\0', CStringGetTextDatum(contender));
	row_store(result, &row);
}

/* zk_locks() returns setof record; the view of the same name reads it */
Datum
zk_locks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	begin_call();
	InitMaterializedSRF(fcinfo, 0);
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
	{
		HoldState	state = zklock_lock_judge(lock);

		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
			if (zklock_lock_used(lock, mode))
				put_lock(result, lock, mode, state);
	}
	return (Datum) 0;
}

/* zk_session() returns record */
Datum
zk_session(PG_FUNCTION_ARGS)
{
	ZkSessionStatus status = {0};
	Interval	timeout = {0};
	Row			row = {0};

	begin_call();
	if (zklock_client != NULL)
		zk_client_status(zklock_client, &status);
	timeout.time = (TimeOffset) status.timeout_ms * 1000;

	row_add(&row, true, CStringGetTextDatum(session_state_names[status.state]));
	row_add_session(&row, status.session_id);
	row_add(&row, status.server[0] != '\0', CStringGetTextDatum(status.server));
	row_add(&row, status.timeout_ms != 0, IntervalPGetDatum(&timeout));
	row_add(&row, status.state_since != 0,
			TimestampTzGetDatum(GetCurrentTimestamp() -
								(zk_now() - status.state_since)));
	row_add(&row, true, Int64GetDatum(status.sessions));
	row_add(&row, true, Int64GetDatum(status.reconnects));
	row_add(&row, status.detail[0] != '\0', CStringGetTextDatum(status.detail));
	PG_RETURN_DATUM(row_datum(row_type(fcinfo), &row));
}

/* zk_session_close() */
Datum
zk_session_close(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	begin_call();
	zklock_close();
	PG_RETURN_VOID();
}
