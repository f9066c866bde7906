/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Fencing (fence.c).  For funcs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_FENCE_H
#define ZKLOCK_FENCE_H

#include "zklock.h"

extern int64 zklock_fence(const LockName *name, Oid function);
extern bool zklock_fence_reset(const LockName *name, Oid function);

#endif							/* ZKLOCK_FENCE_H */
