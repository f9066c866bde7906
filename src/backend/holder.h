/*-------------------------------------------------------------------------
 *
 * holder.h
 *	  Who holds a lock that is waited for.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/holder.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HOLDER_H
#define ZKLOCK_HOLDER_H

#include "zklock.h"

extern void zklock_holder_refresh(Holder *holder,
								  const ZkContenderStatus *status);
extern bool zklock_holder_learn(Holder *holder, const Lock *lock,
								const ZkContenderStatus *status, ZkTime since,
								ZkTime *next);
extern void zklock_holder_forget(const Holder *holder);
extern bool zklock_holder_pause(void);
extern void zklock_holder_resume(void);

#endif							/* ZKLOCK_HOLDER_H */
