/*-------------------------------------------------------------------------
 *
 * views.c
 *	  What the statistics views show: the counters, and who of this cluster waits
 *	  for whom.
 *
 * Nothing here asks the ensemble, or waits for anything.
 *
 *    backend A                shared memory               backend B
 *    acquire.c -- stats.c --> counters of the cluster <-- pg_stat_zklock
 *      |  \
 *      |   wait_slots.c ----> place A: pid, ZooKeeper  <-- zk_lock_waits,
 *      |                      session, what it waits for   zk_blocking_pids()
 *    holder.c
 *      |  after deadlock_timeout, and each time the wait has doubled
 *      v
 *    list + get of the first contender
 *
 * IDENTIFICATION
 *	  src/backend/views.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "zklock.h"
#include "lock_table.h"
#include "owner.h"
#include "session.h"
#include "stats.h"
#include "wait_slots.h"

PG_FUNCTION_INFO_V1(zk_lock_waits);
PG_FUNCTION_INFO_V1(zk_blocking_pids);
PG_FUNCTION_INFO_V1(zk_stat);
PG_FUNCTION_INFO_V1(zk_stat_reset);

/* Columns of the functions that return rows. */
#define LOCK_WAITS_COLS	19
#define STAT_COLS		16

/* Of a contender's owner all is shown but since when it has asked. */
#define ZK_HOLDER_COLS		(OWNER_COLS - 1)

/*
 * Refuse to show what is known only if the library was preloaded.  Throws
 * 55000.
 */
static void
check_preloaded(const char *what)
{
	if (zklock_waiting_places() == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zklock must be loaded via \"shared_preload_libraries\" to use %s",
						what),
				 errhint("Add \"zklock\" to \"shared_preload_libraries\" and restart the server.")));
}

/*
 * Text that may be foreign, and cut short in the middle of a character; null if
 * it is empty.
 */
static void
put_text(const char *text, Datum *value, bool *null)
{
	int			length = (int) strlen(text);

	length = pg_encoding_mbcliplen(PG_UTF8, text, length, length);
	*null = length == 0;
	if (!*null)
		*value = CStringGetTextDatum(zklock_foreign_string(text, length));
}

/*
 * Fill in who holds the lock, or is before the waiter, from the column of the
 * blocker on.  What these say of themselves is for administrators, as in
 * zk_lock_queue().
 */
static void
put_others(const Wait *wait, bool administrator, Datum *values, bool *nulls)
{
	Datum		owner[OWNER_COLS];
	bool		unknown[OWNER_COLS];

	put_text(wait->blocker, &values[0], &nulls[0]);
	put_text(wait->holder, &values[2], &nulls[2]);
	if (!administrator)
		return;
	put_text(wait->blocker_owner, &values[1], &nulls[1]);
	put_text(wait->holder_owner, &values[3], &nulls[3]);
	zklock_owner_columns(wait->holder_owner, (int) strlen(wait->holder_owner),
						 owner, unknown);
	memcpy(&values[4], owner, sizeof(Datum) * ZK_HOLDER_COLS);
	memcpy(&nulls[4], unknown, sizeof(bool) * ZK_HOLDER_COLS);
}

/*
 * Add a backend that waits as a row.  That it waits everybody may know, as in
 * pg_stat_activity; for what, those whom that shows its details.
 */
static void
put_wait(ReturnSetInfo *result, int pid, const Wait *wait, bool administrator)
{
	Datum		values[LOCK_WAITS_COLS] = {0};
	bool		nulls[LOCK_WAITS_COLS];
	int			i = 0;

	memset(nulls, true, sizeof(nulls));
	nulls[i] = false;
	values[i++] = Int32GetDatum(pid);
	if (administrator || has_privs_of_role(GetUserId(), wait->role))
	{
		memset(nulls + 1, false, sizeof(bool) * 7);
		put_text(wait->path, &values[i], &nulls[i]);
		i++;
		values[i++] = CStringGetTextDatum(zklock_mode_name(wait->mode));
		values[i++] = TimestampTzGetDatum(wait->since);
		values[i++] = Int32GetDatum(wait->position);
		values[i++] = Int32GetDatum(wait->ahead);
		values[i++] = TimestampTzGetDatum(wait->seen_at);
		values[i++] = CStringGetTextDatum(wait->contender);
		put_others(wait, administrator, values + i, nulls + i);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * zk_lock_waits() returns setof record; the view of the same name reads it
 */
Datum
zk_lock_waits(PG_FUNCTION_ARGS)
{
	bool		administrator = has_privs_of_role(GetUserId(),
												  ROLE_PG_READ_ALL_STATS);

	check_preloaded("zk_lock_waits");
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < zklock_waiting_places(); i++)
	{
		Wait		wait;
		int			pid = zklock_waiting_read(i, &wait);

		if (pid != 0)
			put_wait((ReturnSetInfo *) fcinfo->resultinfo, pid, &wait,
					 administrator);
	}
	return (Datum) 0;
}

/*
 * zk_blocking_pids(pid integer) returns integer[]
 */
Datum
zk_blocking_pids(PG_FUNCTION_ARGS)
{
	int		   *pids;
	Datum	   *elements;
	int			count;

	check_preloaded("zk_blocking_pids()");
	pids = palloc(sizeof(int) * zklock_waiting_places());
	elements = palloc(sizeof(Datum) * zklock_waiting_places());
	count = zklock_waiting_blockers(PG_GETARG_INT32(0), pids);
	for (int i = 0; i < count; i++)
		elements[i] = Int32GetDatum(pids[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(elements, count, INT4OID,
										  sizeof(int32), true, TYPALIGN_INT));
}

/* The histogram of waits: the bounds of its buckets, in milliseconds. */
static Datum
wait_bounds(void)
{
	Datum		bounds[WAIT_BUCKETS - 1];

	for (int i = 0; i < WAIT_BUCKETS - 1; i++)
		bounds[i] = Float8GetDatum(zklock_stats_bucket_bound(i) / 1000.0);
	return PointerGetDatum(construct_array(bounds, WAIT_BUCKETS - 1,
										   FLOAT8OID, sizeof(float8),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* And how many are in each. */
static Datum
wait_counts(const LockStats *stats)
{
	Datum		counts[WAIT_BUCKETS];

	for (int i = 0; i < WAIT_BUCKETS; i++)
		counts[i] = Int64GetDatum(stats->waits[i]);
	return PointerGetDatum(construct_array(counts, WAIT_BUCKETS, INT8OID,
										   sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

/* pg_stat_zklock() returns record; the view of the same name reads it */
Datum
zk_stat(PG_FUNCTION_ARGS)
{
	Datum		values[STAT_COLS] = {0};
	bool		nulls[STAT_COLS] = {false};
	bool		shared = zklock_stats_shared();
	LockStats	stats;
	TupleDesc	desc;
	int			i = 0;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	zklock_session_count();
	zklock_stats_read(&stats);
	values[i++] = CStringGetTextDatum(shared ? "cluster" : "backend");
	for (int stat = 0; stat < STAT_WAIT_TIME; stat++)
		values[i++] = Int64GetDatum(stats.values[stat]);
	values[i++] = Float8GetDatum(stats.values[STAT_WAIT_TIME] / 1000.0);
	values[i++] = wait_bounds();
	values[i++] = wait_counts(&stats);
	values[i++] = TimestampTzGetDatum(stats.reset_at);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/* pg_stat_zklock_reset() returns void */
Datum
zk_stat_reset(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	zklock_session_count();
	zklock_stats_reset();
	PG_RETURN_VOID();
}
