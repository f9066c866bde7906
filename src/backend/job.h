/*-------------------------------------------------------------------------
 *
 * job.h
 *	  Run once: a job that is due at the same time on several servers is run by one
 *	  of them.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/job.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_JOB_H
#define ZKLOCK_JOB_H

#include "zklock.h"

/* What a run of a job is to be. */
typedef struct JobCall
{
	TimestampTz fire_time;
	ZkTime		timeout;		/* of the call, see zklock_acquire() */
	ZkTime		max_runtime;	/* of the run, in microseconds; 0 for none */
	LockScope	scope;			/* in TRANSACTION the commit ends the run */
	Oid			function;		/* the SQL function that was called */
} JobCall;

extern bool zklock_job_begin(const LockName *name, const JobCall *call);
extern bool zklock_job_end(const LockName *name, Oid function);
extern bool zklock_job_reset(const LockName *name, TimestampTz fire_time,
							 Oid function);
extern void zklock_job_columns(const LockName *name, Oid function,
							   Datum *values, bool *nulls);

#endif							/* ZKLOCK_JOB_H */
