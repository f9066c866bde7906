/*-------------------------------------------------------------------------
 *
 * job_runs.c
 *	  The rows of runs, in the database where they did their work.
 *
 * J4. A mark names the database it came from: system identifier of the cluster
 * and OID.  A record has one mark for each of four databases; a fifth replaces
 * the one with the earliest fire time, which others make superfluous.  A
 * standby cannot write a row: its marks name no database, and count
 * everywhere.  A session that ends a run replaces the mark of its database,
 * even if that has a later fire time: that run was lost.
 *
 * J6. Only one row of a run may say "done" (a unique index).  If two
 * transactions want to write it, because one of them lost the lock between the
 * guard and its commit, one waits for the other, and then fails with ZKL01.
 * (S267)
 *
 * J7. A run has a row from its beginning, "running", written by the transaction
 * that begins it.  A session that begins a later run holds the lock, so all
 * others have ended: it marks them failed, as zk_job_begin_xact() does with its
 * commit.  A row that is locked is skipped: its transaction has lost the lock,
 * and may be about to end its run; J6 decides.  A session that ends a run which
 * is marked failed was taken over: ZKL01. (S265, S293)
 *
 * J9. zk_job_reset() notes in the record from which fire time on runs are not
 * done, and up to which token rows are void: rows of other clusters still
 * exist.  Earlier runs count as done, as before.  A session that begins a run
 * skips rows locked by the transaction of a reset, so as not to wait for it
 * with the lock held; one that ends a run has to know, and waits. (S261, S279)
 *
 * When the ensemble is rebuilt empty, tokens restart.  So a row is identified
 * by the time of its beginning, too; and a reset voids all rows of its own
 * database whatever their tokens, as it holds the lock.  Rows of other
 * databases with tokens above that of the reset stand. (S294)
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
#include "owner.h"
#include "tables.h"

/* The extension's table, in the schema that its functions are in. */
#define RUN_TABLE		"zk_job_runs"

/* Operators, with their schema (F7). */
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
	.types = {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID},
	.result = SPI_OK_SELECT
};

/*
 * Queries that change rows also see their own changes (tables.c), so they test
 * the outcome that they change.
 */

/*
 * $1 path, $2 the time.  A session that begins a run holds the lock, so nothing
 * else runs the job; but a transaction that has lost the lock may be about to
 * end its run, and is not waited for.
 */
static TableQuery fail_query = {
	.text = "WITH dead AS (SELECT fire_time, token, begun_at FROM %1$s"
	" WHERE path" IS "$1 AND outcome" IS "'running' FOR UPDATE SKIP LOCKED)"
	" UPDATE %1$s AS run SET outcome = 'failed', ended_at = $2 FROM dead"
	" WHERE run.path" IS "$1 AND run.fire_time" IS "dead.fire_time"
	" AND run.token" IS "dead.token AND run.begun_at" IS "dead.begun_at"
	" AND run.outcome" IS "'running'",
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
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID},
	.result = SPI_OK_UPDATE,
	.latest = true
};

/*
 * The same, except for rows that the transaction of a reset is about to write.
 */
static TableQuery reset_free_query = {
	.text = "WITH void AS (SELECT fire_time, token, begun_at FROM %1$s WHERE "
	WAS_RESET " FOR UPDATE SKIP LOCKED)"
	" UPDATE %1$s AS run SET outcome = 'reset' FROM void"
	" WHERE run.path" IS "$1 AND run.fire_time" IS "void.fire_time"
	" AND run.token" IS "void.token AND run.begun_at" IS "void.begun_at"
	" AND run.outcome" IS "'done'",
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID},
	.result = SPI_OK_UPDATE,
	.latest = true
};

/* $1 path, $2 fire time, $3 token, $4 when it was begun. */
#define IS_RUN \
	"path" IS "$1 AND fire_time" IS "$2 AND token" IS "$3 AND begun_at" IS "$4"

static TableQuery remove_query = {
	.text = "DELETE FROM %s WHERE " IS_RUN " AND outcome" IS "'running'",
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID},
	.result = SPI_OK_DELETE,
	.latest = true
};

/* The same; finds the row if a later run has marked it failed. */
static TableQuery failed_query = {
	.text = "SELECT true FROM %s WHERE " IS_RUN,
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID},
	.result = SPI_OK_SELECT
};

/* The row: columns in their order. */
static TableQuery insert_query = {
	.text = "INSERT INTO %s (path, fire_time, token, begun_at, ended_at, outcome,"
	" role_name, cluster_name, host) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
	" ON CONFLICT (path, fire_time) WHERE outcome" IS "'done' DO NOTHING",
	.types = {TEXTOID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
	TEXTOID, TEXTOID, TEXTOID, TEXTOID},
	.result = SPI_OK_INSERT,
	.latest = true
};

/* Returns a runner for the record, in UTF-8, palloc'd.  Any may be NULL. */
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

/* Returns the role that runs jobs here; palloc'd. */
static char *
role_name(void)
{
	return GetUserNameFromId(GetSessionUserId(), false);
}

/* Returns the runner of jobs here, for the record; palloc'd. */
char *
zklock_job_runner(void)
{
	return name_runner(role_name(), cluster_name, zklock_host());
}

/* Returns a column of the row that was found, palloc'd; NULL if it is null. */
static char *
text_value(int column)
{
	bool		isnull;
	Datum		value = zklock_table_value(column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* Returns a column of the row that was found; DT_NOBEGIN if it is null. */
static TimestampTz
time_value(int column)
{
	bool		isnull;
	Datum		value = zklock_table_value(column, &isnull);

	return isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

/*
 * Finds the last done run of a job in this database, due at that time or later,
 * and not reset.  Sees what is committed now, whatever the isolation level.
 * Returns false if there is none.
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

/* Fills in the key of a row, with the time (J9). */
static void
put_key(const JobRow *row, Datum *values)
{
	values[0] = CStringGetTextDatum(row->path);
	values[1] = TimestampTzGetDatum(row->fire_time);
	values[2] = Int64GetDatum(row->token);
	values[3] = TimestampTzGetDatum(row->begun_at);
}

/* Inserts a row.  Returns false if the run is already done. */
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

/* Marks done rows from that time on, with tokens up to that, as reset. */
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

/* Marks rows of a job that say "running" as failed. */
static void
fail_rows(const char *path, Relation table)
{
	Datum		values[2];

	values[0] = CStringGetTextDatum(path);
	values[1] = TimestampTzGetDatum(GetCurrentTimestamp());
	(void) zklock_table_query(&fail_query, table, values, NULL);
}

/* Writes the row of a run that begins, and marks other running ones failed. */
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
 * Writes that a run is done, with this transaction; if it began in it, marks
 * other running ones failed.  Waits for another transaction that ends the same
 * run.
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

/* Marks done rows from that time on as reset, whatever their tokens (J9). */
void
zklock_job_rows_reset(const char *path, TimestampTz fire_time, Oid function)
{
	Relation	table = zklock_table_open(RUN_TABLE, function, true);

	reset_rows(&reset_query, path, fire_time, PG_INT64_MAX, table);
	zklock_table_close(table);
}
