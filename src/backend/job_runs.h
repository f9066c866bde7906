/*-------------------------------------------------------------------------
 *
 * job_runs.h
 *	  The rows of runs, in the table zk_job_runs (job_runs.c).  For job.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_JOB_RUNS_H
#define ZKLOCK_JOB_RUNS_H

#include "zklock.h"
#include "zk_record.h"

/* A run of a job, as the extension's table zk_job_runs has it. */
typedef struct JobRow
{
	const char *path;
	TimestampTz fire_time;
	int64		token;
	TimestampTz begun_at;
	TimestampTz ended_at;		/* DT_NOBEGIN for null: with its transaction */
	char	   *ended_by;		/* for the record: UTF-8, palloc'd */
} JobRow;

/* The result of writing down that a run has ended. */
typedef enum JobRowEnd
{
	JOB_ROW_WRITTEN,
	JOB_ROW_TAKEN_OVER,			/* a later run of the job has marked it failed */
	JOB_ROW_ENDED_BEFORE		/* another session has ended the same run */
} JobRowEnd;

extern char *zklock_job_runner(void);
extern bool zklock_job_row_find(const char *path, TimestampTz fire_time,
								const ZkRecord *record, Oid function,
								JobRow *row);
extern void zklock_job_row_begin(const JobRow *row, const ZkRecord *record,
								 Oid function);
extern JobRowEnd zklock_job_row_end(const JobRow *row, const ZkRecord *record,
									Oid function);
extern void zklock_job_rows_reset(const char *path, TimestampTz fire_time,
								  Oid function);

#endif							/* ZKLOCK_JOB_RUNS_H */
