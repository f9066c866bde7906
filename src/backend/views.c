/*-------------------------------------------------------------------------
 *
 * views.c
 *	  What the statistics views show: the counters, and the waits of this
 *	  cluster.
 *
 * Nothing here asks the ensemble, or waits for anything.
 *
 *    backend A                shared memory               backend B
 *    acquire.c -- stats.c --> counters of the cluster <-- pg_stat_zklock
 *      |  \
 *      |   wait_slots.c ----> slot A: pid, ZooKeeper  <-- zk_lock_waits,
 *      |                      session, what it waits for   zk_blocking_pids()
 *    holder.c
 *      |  after deadlock_timeout, and each time the wait has doubled
 *      v
 *    list + get of the first contender
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/float.h"

#include "zklock.h"
#include "lock_stats.h"
#include "lock_table.h"
#include "owner.h"
#include "row.h"
#include "session.h"
#include "stats.h"
#include "wait_slots.h"

PG_FUNCTION_INFO_V1(zk_lock_waits);
PG_FUNCTION_INFO_V1(zk_blocking_pids);
PG_FUNCTION_INFO_V1(zk_stat);
PG_FUNCTION_INFO_V1(zk_stat_reset);
PG_FUNCTION_INFO_V1(zk_stat_waits);
PG_FUNCTION_INFO_V1(zk_stat_locks);
PG_FUNCTION_INFO_V1(zk_stat_locks_reset);

/* Of a contender's owner all is shown except the start. */
#define HOLDER_COLS		(OWNER_COLS - 1)

/* Refuses what is known only if the library was preloaded.  Throws 55000. */
static void
check_preloaded(const char *what)
{
	if (zklock_wait_slots_count() == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zklock must be loaded via \"shared_preload_libraries\" to use %s",
						what),
				 errhint("Add \"zklock\" to \"shared_preload_libraries\" and restart the server.")));
}

/* Adds another client's text, maybe cut short within a character. */
static void
add_text(Row *row, const char *text)
{
	int			length = (int) strlen(text);

	length = pg_encoding_mbcliplen(PG_UTF8, text, length, length);
	row_add(row, length > 0, length == 0 ? (Datum) 0 :
			CStringGetTextDatum(zklock_foreign_string(text, length)));
}

/* Adds holder, contender and blocker; others' data is for administrators. */
static void
add_others(Row *row, const Wait *wait, bool administrator)
{
	Datum		owner[OWNER_FIELDS];
	bool		unknown[OWNER_FIELDS];
	const char *holder_owner = administrator ? wait->holder.owner : "";

	zklock_owner_fields(holder_owner, (int) strlen(holder_owner), owner, unknown);
	row_add_all(row, owner, unknown, HOLDER_COLS);
	add_text(row, wait->contender);
	add_text(row, wait->holder.blocker);
	add_text(row, administrator ? wait->blocker_owner : "");
	add_text(row, wait->holder.name);
	add_text(row, holder_owner);
}

/* Adds a backend that waits as a row, with details if the role may see them. */
static void
put_wait(ReturnSetInfo *result, int pid, const Wait *wait, bool administrator)
{
	Row			row = {0};

	row_add(&row, true, Int32GetDatum(pid));
	if (administrator || has_privs_of_role(GetUserId(), wait->role))
	{
		add_text(&row, wait->path);
		row_add(&row, true, CStringGetTextDatum(zklock_mode_name(wait->mode)));
		row_add(&row, true, TimestampTzGetDatum(wait->since));
		row_add(&row, true, Int32GetDatum(wait->holder.position));
		row_add(&row, true, Int32GetDatum(wait->holder.ahead));
		row_add(&row, true, TimestampTzGetDatum(wait->holder.seen_at));
		add_text(&row, wait->note);
		add_others(&row, wait, administrator);
	}
	row_fill(&row, result->setDesc);
	row_store(result, &row);
}

/* zk_lock_waits() returns setof record; the view of the same name reads it */
Datum
zk_lock_waits(PG_FUNCTION_ARGS)
{
	bool		administrator = has_privs_of_role(GetUserId(),
												  ROLE_PG_READ_ALL_STATS);

	check_preloaded("zk_lock_waits");
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < zklock_wait_slots_count(); i++)
	{
		Wait		wait;
		int			pid = zklock_wait_slot_read(i, &wait);

		if (pid != 0)
			put_wait((ReturnSetInfo *) fcinfo->resultinfo, pid, &wait,
					 administrator);
	}
	return (Datum) 0;
}

/* zk_blocking_pids(pid integer) returns integer[] */
Datum
zk_blocking_pids(PG_FUNCTION_ARGS)
{
	int		   *pids;
	Datum	   *elements;
	int			count;

	check_preloaded("zk_blocking_pids()");
	pids = palloc(sizeof(int) * zklock_wait_slots_count());
	elements = palloc(sizeof(Datum) * zklock_wait_slots_count());
	count = zklock_wait_slots_blockers(PG_GETARG_INT32(0), pids);
	for (int i = 0; i < count; i++)
		elements[i] = Int32GetDatum(pids[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(elements, count, INT4OID,
										  sizeof(int32), true, TYPALIGN_INT));
}

/* pg_stat_zklock() returns record; the view of the same name reads it */
Datum
zk_stat(PG_FUNCTION_ARGS)
{
	LockStats	stats;
	Row			row = {0};

	zklock_session_count();
	zklock_stats_read(&stats);
	row_add(&row, true,
			CStringGetTextDatum(zklock_stats_shared() ? "cluster" : "backend"));
	for (int stat = 0; stat < STAT_WAIT_TIME; stat++)
		row_add(&row, true, Int64GetDatum(stats.values[stat]));
	row_add(&row, true, Float8GetDatum(stats.values[STAT_WAIT_TIME] / 1000.0));
	row_add(&row, true, TimestampTzGetDatum(stats.reset_at));
	PG_RETURN_DATUM(row_datum(row_type(fcinfo), &row));
}

/* pg_stat_zklock_waits() returns setof record, for the view of that name */
Datum
zk_stat_waits(PG_FUNCTION_ARGS)
{
	LockStats	stats;
	double		from = 0;

	InitMaterializedSRF(fcinfo, 0);
	zklock_stats_read(&stats);
	for (int i = 0; i < WAIT_BUCKETS; i++)
	{
		double		to = i == WAIT_BUCKETS - 1 ? get_float8_infinity() :
		zklock_stats_bucket_bound(i) / 1000.0;
		Row			row = {0};

		row_add(&row, true, Float8GetDatum(from));
		row_add(&row, true, Float8GetDatum(to));
		row_add(&row, true, Int64GetDatum(stats.values[STAT_WAITS + i]));
		row_store((ReturnSetInfo *) fcinfo->resultinfo, &row);
		from = to;
	}
	return (Datum) 0;
}

/* Adds a name, null if there is none. */
static void
add_name(Row *row, const char *name)
{
	row_add(row, name != NULL, name != NULL ? CStringGetTextDatum(name) : (Datum) 0);
}

/* Adds the session that was granted a lock last, with what still has a name. */
static void
add_last_holder(Row *row, const LastHolder *last)
{
	if (last->granted_at == 0)
		return;
	row_add(row, true, TimestampTzGetDatum(last->granted_at));
	row_add(row, true, Int32GetDatum(last->pid));
	add_name(row, OidIsValid(last->database) ? get_database_name(last->database) : NULL);
	add_name(row, OidIsValid(last->role) ? GetUserNameFromId(last->role, true) : NULL);
	add_text(row, last->application);
	add_text(row, last->note);
}

/* Adds the figures of a lock as a row. */
static void
put_lock_stat(ReturnSetInfo *result, const LockStat *stat)
{
	const LockFigures *figures = &stat->figures;
	Row			row = {0};

	add_text(&row, stat->path);
	row_add(&row, true, Int64GetDatum(figures->grants));
	row_add(&row, true, Int64GetDatum(figures->waits));
	row_add(&row, true, Int64GetDatum(figures->timeouts));
	row_add(&row, true, Int64GetDatum(figures->lost));
	row_add(&row, true, Float8GetDatum(figures->wait_time / 1000.0));
	row_add(&row, true, Float8GetDatum(figures->longest_wait / 1000.0));
	row_add(&row, true, Float8GetDatum(figures->hold_time / 1000.0));
	row_add(&row, true, Float8GetDatum(figures->longest_hold / 1000.0));
	row_add(&row, true, TimestampTzGetDatum(stat->since));
	add_last_holder(&row, &stat->last);
	row_fill(&row, result->setDesc);
	row_store(result, &row);
}

/* pg_stat_zklock_locks() returns setof record, for the view of that name */
Datum
zk_stat_locks(PG_FUNCTION_ARGS)
{
	LockStat   *stats;
	int			count;

	check_preloaded("pg_stat_zklock_locks");
	InitMaterializedSRF(fcinfo, 0);
	stats = zklock_lock_stats_read(&count);
	for (int i = 0; i < count; i++)
		put_lock_stat((ReturnSetInfo *) fcinfo->resultinfo, &stats[i]);
	pfree(stats);
	return (Datum) 0;
}

/* pg_stat_zklock_locks_reset(path text) returns void */
Datum
zk_stat_locks_reset(PG_FUNCTION_ARGS)
{
	char	   *path = NULL;

	check_preloaded("pg_stat_zklock_locks_reset()");
	if (!PG_ARGISNULL(0))
	{
		text	   *argument = PG_GETARG_TEXT_PP(0);

		path = zklock_convert(VARDATA_ANY(argument), VARSIZE_ANY_EXHDR(argument),
							  GetDatabaseEncoding(), PG_UTF8);
		if (path == NULL)
			PG_RETURN_VOID();	/* no lock has such a path */
	}
	zklock_lock_stats_reset(path);
	PG_RETURN_VOID();
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
