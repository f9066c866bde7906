/*-------------------------------------------------------------------------
 *
 * release.h
 *	  A lock call that gives back: count down in the lock table, have the
 *	  contenders deleted that stand for nothing any more, and wait for that.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/release.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RELEASE_H
#define ZKLOCK_RELEASE_H

#include "zklock.h"
#include "zk_lock.h"

extern bool zklock_has_ended(ZkContenderId id, ZkContenderStatus *status);
extern bool zklock_await_end(ZkContenderId id, const char *doing,
							 const char *path, ZkTime *deadline,
							 ZkContenderStatus *status);
extern bool zklock_release(const LockName *name, bool exclusive, bool shared);
extern bool zklock_release_permit(const LockName *name);
extern int	zklock_release_all(void);
extern void zklock_discard_all(void);
extern void zklock_close(void);

#endif							/* ZKLOCK_RELEASE_H */
