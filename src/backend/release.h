/*-------------------------------------------------------------------------
 *
 * release.h
 *	  Release locks (release.c).  For the files of backend/ that implement SQL
 *	  functions, acquire.c and zklock.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RELEASE_H
#define ZKLOCK_RELEASE_H

#include "zklock.h"
#include "zk_lock.h"

/* Modes to release, as a set. */
#define RELEASE_EXCLUSIVE	(1 << ZK_EXCLUSIVE)
#define RELEASE_SHARED		(1 << ZK_SHARED)
#define RELEASE_PERMIT		(1 << ZK_PERMIT)

extern bool zklock_await_end(ZkContenderId id, const char *doing,
							 const char *path, bool patient, ZkTime *deadline,
							 ZkContenderStatus *status);
extern bool zklock_release(const LockName *name, int modes);
extern int	zklock_release_all(void);
extern void zklock_discard_all(void);
extern void zklock_close(void);

#endif							/* ZKLOCK_RELEASE_H */
