/*-------------------------------------------------------------------------
 *
 * job.h
 *	  Jobs, run once across servers (job.c).  For funcs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_JOB_H
#define ZKLOCK_JOB_H

#include "zklock.h"
#include "row.h"

/* The arguments of a call that begins a run. */
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
extern void zklock_job_columns(const LockName *name, Oid function, Row *row);

#endif							/* ZKLOCK_JOB_H */
