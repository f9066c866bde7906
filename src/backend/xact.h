/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  What PostgreSQL's transactions do to the lock table, and it to them.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/xact.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_XACT_H
#define ZKLOCK_XACT_H

#include "zklock.h"

extern int	zklock_commit_guard;
extern volatile sig_atomic_t zklock_committing;

extern void zklock_xact_watch(void);
extern void zklock_xact_go_first(bool safe);
extern void zklock_guard_transaction(const LockName *names, int count);
extern void zklock_guard_command(Deed deed);

#endif							/* ZKLOCK_XACT_H */
