/*-------------------------------------------------------------------------
 *
 * acquire.h
 *	  Acquire locks (acquire.c).  For the files of backend/ that implement
 *	  SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACQUIRE_H
#define ZKLOCK_ACQUIRE_H

#include "zklock.h"
#include "zk_lock.h"

extern int	zklock_lock_delay;
extern void zklock_name_lock(const char *path, LockName *name);
extern bool zklock_acquire(const LockName *names, int count,
						   const ZkLockRequest *request, ZkTime timeout,
						   LockScope scope);
extern int64 zklock_token(const LockName *name, bool prove);
extern ZkTime zklock_lease(const LockName *name);

#endif							/* ZKLOCK_ACQUIRE_H */
