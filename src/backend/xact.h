/*-------------------------------------------------------------------------
 *
 * xact.h
 *	  Transactions and the lock table (xact.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_XACT_H
#define ZKLOCK_XACT_H

#include <signal.h>

#include "zklock.h"
#include "deed.h"

/* What a commit requires while locks are held. */
typedef enum CommitGuard
{
	GUARD_OFF,
	GUARD_LEASE,				/* a lease that is running */
	GUARD_QUORUM				/* a new answer of the ensemble */
} CommitGuard;

extern int	zklock_commit_guard;
extern bool zklock_release_at_exit;
extern volatile sig_atomic_t zklock_committing;

extern void zklock_xact_watch(void);
extern void zklock_xact_go_first(bool safe);
extern void zklock_guard_transaction(const LockName *names, int count);
extern void zklock_guard_command(Deed deed);

#endif							/* ZKLOCK_XACT_H */
