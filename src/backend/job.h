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

extern bool zklock_job_begin(const ZkLockName *name, const ZkJobCall *call);
extern bool zklock_job_end(const ZkLockName *name, Oid function);
extern bool zklock_job_reset(const ZkLockName *name, TimestampTz fire_time,
							 Oid function);
extern void zklock_job_columns(const ZkLockName *name, Oid function,
							   Datum *values, bool *nulls);

#endif							/* ZKLOCK_JOB_H */
