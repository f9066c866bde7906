/*-------------------------------------------------------------------------
 *
 * job_runs.c
 *	  The rows of runs: what became of them, in the database where they did their
 *	  work.
 *
 * J4. A mark says which database it came from: system identifier of the cluster
 * and OID.  A record has one mark for each of four databases; more make the one
 * with the earliest fire time go, which others make superfluous.  A standby
 * cannot write a row: its marks name no database, and count everywhere.  Who
 * ends a run replaces the mark of its database, also one with a later fire
 * time: that was lost.
 *
 * J6. Of one run only one row may say "done" (a unique index).  Of two
 * transactions that want to write it, as the lock was lost by one of them
 * between the guard and its commit, one waits for the other, and then fails
 * with ZKL01. (S267)
 *
 * J7. A run has a row from its beginning, "running", in the transaction that
 * begins it.  Whoever begins one later holds the lock, and so knows of all
 * others that they do not run any more: they have failed.  So does
 * zk_job_begin_xact(), whose commit says so.  A row that is locked is passed
 * by: its transaction has lost the lock, and may be on its way to ending its
 * run; J6 tells.  Whoever ends a run and finds that it has failed has been
 * taken over: ZKL01. (S265, S293)
 *
 * J9. zk_job_reset() has the record say from when on runs are not done, and up
 * to which token that concerns rows: those of other clusters are there still,
 * and are void.  Earlier runs count as done, as they did before.  Whoever
 * begins a run passes by rows that the transaction of a reset has locked, so as
 * not to wait for it with the lock held; who ends one has to know, and waits.
 * (S261, S279)
 *
 * When the ensemble is rebuilt with nothing in it, tokens begin anew.  So the
 * time of its beginning is part of what a row is known by; and a reset concerns
 * all rows of its own database, whatever their tokens are, as it holds the
 * lock.  Those of other databases that have higher tokens than the reset stand.
 * (S294)
 *
 * IDENTIFICATION
 *	  src/backend/job_runs.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "job_runs.h"
#include "session.h"
#include "tables.h"

/* The extension's table, in the schema that its functions are in. */
#define RUN_TABLE		"zk_job_runs"

/* Names and operators that are needed again and again. */
#define IS				" OPERATOR(pg_catalog.=) "
#define SINCE			" OPERATOR(pg_catalog.>=) "
#define UP_TO			" OPERATOR(pg_catalog.<=) "

/* $1 path, $2 fire time, $3 and $4 fire time and token of a reset, or null. */
static TableQuery find_query = {
	.text = "SELECT fire_time, token, begun_at, ended_at,"
	" role_name, cluster_name, host FROM %s"
	" WHERE path" IS "$1 AND fire_time" SINCE "$2 AND outcome" IS "'done'"
	" AND (fire_time" SINCE "$3 AND token" UP_TO "$4) IS NOT TRUE"
	" ORDER BY fire_time DESC LIMIT 1",
	.params = 4,
	.types = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID},
	.result = SPI_OK_SELECT
};

/*
 * Queries that change rows see their own changes, too (tables.c), so they ask
 * for the outcome that they change.
 */

/*
 * $1 path, $2 the time.  Who begins a run holds the lock, so nobody else runs
 * the job: but a transaction that has lost it may be about to end its run, and
 * is not waited for.
 */
static TableQuery fail_query = {
	.text = "WITH dead AS (SELECT fire_time, token, begun_at FROM %1$s"
	" WHERE path" IS "$1 AND outcome" IS "'running' FOR UPDATE SKIP LOCKED)"
	" UPDATE %1$s AS run SET outcome = 'failed', ended_at = $2 FROM dead"
	" WHERE run.path" IS "$1 AND run.fire_time" IS "dead.fire_time"
	" AND run.token" IS "dead.token AND run.begun_at" IS "dead.begun_at"
	" AND run.outcome" IS "'running'",
	.params = 2,
	.types = {TEXTOID, TIMESTAMPTZOID},
	.result = SPI_OK_UPDATE,
	.latest = true
};

/* $1 path, $2 and $3 fire time and token of a reset. */
#define WAS_RESET \
	"path" IS "$1 AND fire_time" SINCE "$2 AND token" UP_TO "$3" \
	" AND outcome" IS "'done'"

static TableQuery reset_query = {
	.text = "UPDATE %s SET outcome = 'reset' WHERE " WAS_RESET,
	.params = 3,
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID},
	.result = SPI_OK_UPDATE,
	.latest = true
};

/* The same, but for rows that the transaction of a reset is about to write. */
static TableQuery reset_free_query = {
	.text = "WITH void AS (SELECT fire_time, token, begun_at FROM %1$s WHERE "
	WAS_RESET " FOR UPDATE SKIP LOCKED)"
	" UPDATE %1$s AS run SET outcome = 'reset' FROM void"
	" WHERE run.path" IS "$1 AND run.fire_time" IS "void.fire_time"
	" AND run.token" IS "void.token AND run.begun_at" IS "void.begun_at"
	" AND run.outcome" IS "'done'",
	.params = 3,
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID},
	.result = SPI_OK_UPDATE,
	.latest = true
};

/* $1 path, $2 fire time, $3 token, $4 when it was begun. */
#define IS_RUN \
	"path" IS "$1 AND fire_time" IS "$2 AND token" IS "$3 AND begun_at" IS "$4"

static TableQuery remove_query = {
	.text = "DELETE FROM %s WHERE " IS_RUN " AND outcome" IS "'running'",
	.params = 4,
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID},
	.result = SPI_OK_DELETE,
	.latest = true
};

/* The same; false if it was begun later, and that one has said that it failed. */
static TableQuery failed_query = {
	.text = "SELECT true FROM %s WHERE " IS_RUN,
	.params = 4,
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID},
	.result = SPI_OK_SELECT
};

/* The row: columns in their order. */
static TableQuery insert_query = {
	.text = "INSERT INTO %s (path, fire_time, token, begun_at, ended_at, outcome,"
	" role_name, cluster_name, host) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
	" ON CONFLICT (path, fire_time) WHERE outcome" IS "'done' DO NOTHING",
	.params = 9,
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
	TEXTOID, TEXTOID, TEXTOID, TEXTOID},
	.result = SPI_OK_INSERT,
	.latest = true
};

/*
 * Who runs a job, for the record, in UTF-8 and cut short if need be; palloc'd.
 * An argument in the server encoding may be NULL, or empty.
 */
static char *
name_runner(const char *role, const char *cluster, const char *host)
{
	StringInfoData text;
	int			length;
	char	   *clean;

	initStringInfo(&text);
	if (role != NULL && role[0] != '\0')
		appendStringInfo(&text, "user %s, ", role);
	if (cluster != NULL && cluster[0] != '\0')
		appendStringInfo(&text, "cluster %s, ", cluster);
	appendStringInfo(&text, "host %s", host != NULL ? host : "");
	clean = zklock_clean_name(text.data);
	length = pg_encoding_mbcliplen(PG_UTF8, clean, (int) strlen(clean),
								   ZK_RUNNER_SIZE - 1);
	clean[length] = '\0';
	return clean;
}

/* The role that runs jobs here; palloc'd. */
static char *
role_name(void)
{
	return GetUserNameFromId(GetSessionUserId(), false);
}

/* Who runs jobs here, as the record has it; palloc'd.  Needs a transaction. */
char *
zklock_job_runner(void)
{
	return name_runner(role_name(), cluster_name, zklock_host());
}

/* A column of the row that was found; NULL if it is null.  Palloc'd. */
static char *
text_value(int column)
{
	bool		isnull;
	Datum		value = zklock_table_value(column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* A point in time of the row that was found. */
static TimestampTz
time_value(int column)
{
	bool		isnull;
	Datum		value = zklock_table_value(column, &isnull);

	return isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

/*
 * The last of the runs of a job that are done in this database, if it was due
 * at that time or later and was not reset.  Sees all that is committed now,
 * whatever the isolation level.  Returns false if there is none.  function is
 * the SQL function that was called.  Throws 42P01.
 */
bool
zklock_job_row_find(const char *path, TimestampTz fire_time,
					const ZkRecord *record, Oid function, JobRow *row)
{
	MemoryContext context = CurrentMemoryContext;
	Datum		values[4];
	const char *nulls = record->has_reset ? NULL : "  nn";
	Relation	table = zklock_table_open(RUN_TABLE, function, false);
	bool		found;
	bool		isnull;

	values[0] = CStringGetTextDatum(path);
	values[1] = TimestampTzGetDatum(fire_time);
	values[2] = TimestampTzGetDatum(record->reset_time);
	values[3] = Int64GetDatum(record->reset_token);
	found = zklock_table_query(&find_query, table, values, nulls) > 0;
	if (found)
	{
		row->path = path;
		row->fire_time = time_value(1);
		row->token = DatumGetInt64(zklock_table_value(2, &isnull));
		row->begun_at = time_value(3);
		row->ended_at = time_value(4);
		row->ended_by = MemoryContextStrdup(context,
											name_runner(text_value(5),
														text_value(6),
														text_value(7)));
	}
	zklock_table_close(table);
	return found;
}

/*
 * What a row is known by.  The time is a part of it: when the ensemble was
 * rebuilt, tokens begin anew.
 */
static void
put_key(const JobRow *row, Datum *values)
{
	values[0] = CStringGetTextDatum(row->path);
	values[1] = TimestampTzGetDatum(row->fire_time);
	values[2] = Int64GetDatum(row->token);
	values[3] = TimestampTzGetDatum(row->begun_at);
}

/* Insert a row.  Returns false if the run is done already. */
static bool
insert_row(const JobRow *row, const char *outcome, Relation table)
{
	Datum		values[9];
	char		nulls[] = "         ";

	put_key(row, values);
	values[4] = TimestampTzGetDatum(row->ended_at);
	nulls[4] = TIMESTAMP_IS_NOBEGIN(row->ended_at) ? 'n' : ' ';
	values[5] = CStringGetTextDatum(outcome);
	values[6] = CStringGetTextDatum(role_name());
	values[7] = CStringGetTextDatum(cluster_name);
	nulls[7] = cluster_name[0] == '\0' ? 'n' : ' ';
	values[8] = CStringGetTextDatum(zklock_host());
	return zklock_table_query(&insert_query, table, values, nulls) > 0;
}

/*
 * See that rows of runs that were due at that time or later, and begun with
 * that token or a lower one, say that they were reset, by one of the queries
 * for that.
 */
static void
reset_rows(TableQuery *query, const char *path, TimestampTz fire_time, int64 token,
		   Relation table)
{
	Datum		values[3];

	values[0] = CStringGetTextDatum(path);
	values[1] = TimestampTzGetDatum(fire_time);
	values[2] = Int64GetDatum(token);
	(void) zklock_table_query(query, table, values, NULL);
}

/* Runs of a job that say that they are running, and do not, have failed. */
static void
fail_rows(const char *path, Relation table)
{
	Datum		values[2];

	values[0] = CStringGetTextDatum(path);
	values[1] = TimestampTzGetDatum(GetCurrentTimestamp());
	(void) zklock_table_query(&fail_query, table, values, NULL);
}

/*
 * The lock of a job was granted, with that record: write down that a run is
 * running, and that others of the job are not.  Throws as zklock_table_query().
 */
void
zklock_job_row_begin(const JobRow *row, const ZkRecord *record, Oid function)
{
	Relation	table = zklock_table_open(RUN_TABLE, function, true);

	if (record->has_reset)
		reset_rows(&reset_free_query, row->path, record->reset_time,
				   record->reset_token, table);
	fail_rows(row->path, table);
	(void) insert_row(row, "running", table);
	zklock_table_close(table);
}

/*
 * Write down that a run is done, when this transaction commits; and that others
 * of the job are not running, if it is that which has begun it.  If another
 * transaction is about to end the same run, waits for it.  Throws as
 * zklock_table_query().
 */
JobRowEnd
zklock_job_row_end(const JobRow *row, const ZkRecord *record, Oid function)
{
	Relation	table = zklock_table_open(RUN_TABLE, function, true);
	JobRowEnd	end = JOB_ROW_WRITTEN;
	Datum		key[4];

	put_key(row, key);
	if (record->has_reset)
		reset_rows(&reset_query, row->path, record->reset_time,
				   record->reset_token, table);
	if (TIMESTAMP_IS_NOBEGIN(row->ended_at))
		fail_rows(row->path, table);
	if (zklock_table_query(&remove_query, table, key, NULL) == 0 &&
		zklock_table_query(&failed_query, table, key, NULL) > 0)
		end = JOB_ROW_TAKEN_OVER;
	else if (!insert_row(row, "done", table))
		end = JOB_ROW_ENDED_BEFORE;
	zklock_table_close(table);
	return end;
}

/*
 * The lock of a job was granted, and its runs that were due at that time or
 * later are reset: see that their rows say so, whatever their tokens, which may
 * be of before the ensemble was rebuilt.  Throws as zklock_table_query().
 */
void
zklock_job_rows_reset(const char *path, TimestampTz fire_time, Oid function)
{
	Relation	table = zklock_table_open(RUN_TABLE, function, true);

	reset_rows(&reset_query, path, fire_time, PG_INT64_MAX, table);
	zklock_table_close(table);
}
