/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Fencing: the transactions of a lock's holders commit in the order in
 *	  which the lock was granted.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/fence.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FENCE_H
#define ZKLOCK_FENCE_H

#include "zklock.h"

extern int64 zklock_fence(const LockName *name, Oid function);
extern bool zklock_fence_reset(const LockName *name, Oid function);

#endif							/* ZKLOCK_FENCE_H */
