/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  Queries on the extension's own tables.
 *
 * F7. Queries run with the rights of the table's owner, as those of foreign
 * keys do: only their execution, not the function around it; names of tables
 * and operators are qualified.  The table is the one in the schema of the
 * function that was called.  A saved plan is used again only for the same
 * table, and if nothing about it or its schema has changed: its name may be
 * another one's by then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "zklock.h"
#include "tables.h"

/*
 * Opens a table of the extension, and SPI. function is one of the extension's
 * own, and shows the schema.  Throws 42P01.
 */
Relation
zklock_table_open(const char *name, Oid function, bool write)
{
	Oid			table = get_relname_relid(name, get_func_namespace(function));

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension \"zklock\" does not exist",
						name)));
	SPI_connect();
	return table_open(table, write ? RowExclusiveLock : AccessShareLock);
}

/* Closes both; the table stays locked until the transaction ends. */
void
zklock_table_close(Relation table)
{
	table_close(table, NoLock);
	SPI_finish();
}

/* Makes and keeps the plan of a query for a locked table. */
static void
prepare_query(TableQuery *query, Relation table)
{
	char	   *schema = get_namespace_name(RelationGetNamespace(table));
	int			params = 0;
	SPIPlanPtr	plan;

	if (query->plan != NULL)
	{
		if (query->table == RelationGetRelid(table) &&
			SPI_plan_is_valid(query->plan))
			return;
		SPI_freeplan(query->plan);
		query->plan = NULL;
	}
	while (OidIsValid(query->types[params]))
		params++;
	plan = SPI_prepare(psprintf(query->text,
								quote_qualified_identifier(schema,
														   RelationGetRelationName(table))),
					   params, query->types);
	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_prepare failed for \"%s\"", query->text);
	query->plan = plan;
	query->table = RelationGetRelid(table);
}

/*
 * Runs a prepared query on what is committed now.  Under SERIALIZABLE it takes
 * no predicate locks, which are for pages or a whole small table, so that
 * unrelated transactions would fail (40001).  Plans that do not work with its
 * snapshot are disabled.
 */
static int
execute_now(const TableQuery *query, Datum *values, const char *nulls)
{
	bool		serializable = IsolationIsSerializable();
	int			nesting = NewGUCNestLevel();
	int			result;

	(void) set_config_option("enable_bitmapscan", "off", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_indexonlyscan", "off", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	result = SPI_execute_snapshot(query->plan, values, nulls,
								  serializable ? SnapshotSelf : GetLatestSnapshot(),
								  InvalidSnapshot,
								  query->result == SPI_OK_SELECT, true, 0);
	AtEOXact_GUC(true, nesting);
	return result;
}

/*
 * Runs a query as the table's owner; nulls is as for SPI.  Returns the number
 * of rows; the first one is in SPI_tuptable if the query returns any.  It may
 * wait for rows.  An abort restores the user.
 */
uint64
zklock_table_query(TableQuery *query, Relation table, Datum *values,
				   const char *nulls)
{
	Oid			user;
	int			context;
	int			result;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(table->rd_rel->relowner,
						   context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	prepare_query(query, table);
	if (query->result == SPI_OK_SELECT || query->latest)
		result = execute_now(query, values, nulls);
	else
		result = SPI_execute_plan(query->plan, values, nulls, false, 0);
	SetUserIdAndSecContext(user, context);
	if (result != query->result)
		elog(ERROR, "unexpected result %s of \"%s\"",
			 SPI_result_code_string(result), query->text);
	return SPI_processed;
}

/* Returns a column, from 1 on, of the first row that a query has returned. */
Datum
zklock_table_value(int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column,
						 isnull);
}
