/*-------------------------------------------------------------------------
 *
 * row.h
 *	  A row that a SQL function returns, built column by column.  For the files
 *	  of backend/ that implement SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ROW_H
#define ZKLOCK_ROW_H

#include "access/htup_details.h"
#include "utils/builtins.h"

#include "zklock.h"

/* Most columns of a row. */
#define ROW_COLS	28

typedef struct Row
{
	int			count;
	Datum		values[ROW_COLS];
	bool		nulls[ROW_COLS];
} Row;

/* Adds a column, which is null if the value is not known. */
static inline void
row_add(Row *row, bool known, Datum value)
{
	Assert(row->count < ROW_COLS);
	row->nulls[row->count] = !known;
	row->values[row->count++] = value;
}

/* Adds several columns. */
static inline void
row_add_all(Row *row, const Datum *values, const bool *nulls, int count)
{
	for (int i = 0; i < count; i++)
		row_add(row, !nulls[i], values[i]);
}

/* Adds nulls for the columns that are missing at the end. */
static inline void
row_fill(Row *row, TupleDesc desc)
{
	while (row->count < desc->natts)
		row_add(row, false, (Datum) 0);
}

/* Adds a ZooKeeper session id in ZooKeeper's own form; null for 0. */
static inline void
row_add_session(Row *row, int64 session_id)
{
	row_add(row, session_id != 0,
			CStringGetTextDatum(psprintf("0x%llx",
										 (unsigned long long) session_id)));
}

/* Adds the row to the result of a set-returning function. */
static inline void
row_store(ReturnSetInfo *result, Row *row)
{
	tuplestore_putvalues(result->setResult, result->setDesc, row->values,
						 row->nulls);
}

/* Returns the row type of the function's result, blessed. */
static inline TupleDesc
row_type(FunctionCallInfo fcinfo)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return BlessTupleDesc(desc);
}

/* Returns the row as the function's result. */
static inline Datum
row_datum(TupleDesc desc, Row *row)
{
	return HeapTupleGetDatum(heap_form_tuple(desc, row->values, row->nulls));
}

#endif							/* ZKLOCK_ROW_H */
