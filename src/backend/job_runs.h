/*-------------------------------------------------------------------------
 *
 * job_runs.h
 *	  Jobs: what job.c and job_runs.c share.
 *
 * IDENTIFICATION
 *	  src/backend/job_runs.h
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

/* What became of an attempt to write down that a run has ended. */
typedef enum JobRowEnd
{
	JOB_ROW_WRITTEN,
	JOB_ROW_TAKEN_OVER,			/* somebody who has begun it later says it
								 * failed */
	JOB_ROW_ENDED_BEFORE		/* somebody else has ended the same run */
} JobRowEnd;

/* in job_runs.c */
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
