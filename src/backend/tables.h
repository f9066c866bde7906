/*-------------------------------------------------------------------------
 *
 * tables.h
 *	  Queries on the extension's own tables (tables.c).  For fence.c and
 *	  job_runs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TABLES_H
#define ZKLOCK_TABLES_H

#include "executor/spi.h"
#include "utils/relcache.h"

/* Most parameters of a query. */
#define TABLE_QUERY_PARAMS	10

/* A query on a table, with its plan once that was made. */
typedef struct TableQuery
{
	const char *text;			/* %s stands for the table */
	Oid			types[TABLE_QUERY_PARAMS];	/* of its parameters, then 0 */
	int			result;			/* what SPI returns */
	bool		latest;			/* finds what is committed now, whatever the
								 * transaction's isolation level is */
	SPIPlanPtr	plan;
	Oid			table;			/* which the plan is for */
} TableQuery;

extern Relation zklock_table_open(const char *name, Oid function, bool write);
extern void zklock_table_close(Relation table);
extern uint64 zklock_table_query(TableQuery *query, Relation table, Datum *values,
								 const char *nulls);
extern Datum zklock_table_value(int column, bool *isnull);

#endif							/* ZKLOCK_TABLES_H */
