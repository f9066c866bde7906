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

extern bool zklock_job_begin(const LockName *name, const JobCall *call);
extern bool zklock_job_end(const LockName *name, Oid function);
extern bool zklock_job_reset(const LockName *name, TimestampTz fire_time,
							 Oid function);
extern void zklock_job_columns(const LockName *name, Oid function,
							   Datum *values, bool *nulls);

#endif							/* ZKLOCK_JOB_H */
