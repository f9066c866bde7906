/*-------------------------------------------------------------------------
 *
 * held.c
 *	  Is a lock held that the lock table says is held?  And what is given back
 *	  before the transaction ends.
 *
 * A lock that was lost stays in the table, with its counts but without
 * contenders, and vetoes commits until its counts are gone: those of the
 * session through the caller, those of a transaction through its rollback.  Of
 * a transaction that may have relied on it the veto stays even then
 * (verdict.c).
 *
 * IDENTIFICATION
 *	  src/backend/held.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "zklock.h"
#include "held.h"
#include "lock_table.h"
#include "session.h"
#include "stats.h"
#include "verdict.h"

/* Why a lock was lost, as a sentence. */
static const char *
loss_sentence(const ZkContenderStatus *status)
{
	if (status->detail[0] != '\0')
		return status->detail;
	switch (status->loss)
	{
		case ZK_LOST_EXPIRED:
			return "The ZooKeeper session has expired.";
		case ZK_LOST_LEASE:
			return "ZooKeeper did not confirm it for a full session timeout.";
		case ZK_LOST_POISONED:
			return "The ZooKeeper client library has failed in this session.";
		case ZK_LOST_CONTENDER:
		case ZK_LOST_OVERTIME:
		case ZK_LOST_BROKEN:
		case ZK_NOT_LOST:
			break;
	}
	return "Its contender was deleted.";
}

/*
 * End every contender of a lock that turned out to be lost.  status is of the
 * one that shows it, which is that of mode.  Cannot fail; for the list see
 * zklock_lock_settle().
 */
static void
mark_lost(Lock *lock, ZkMode mode, const ZkContenderStatus *status,
		  const char *why, ReleaseList *list)
{
	/* a rollback gives up what was begun, though it was lost */
	int			begun_nesting = lock->job.begun_nesting;

	lock->loss.at = GetCurrentTimestamp();
	if (status->loss == ZK_LOST_LEASE && status->presumed_lost != 0)
		lock->loss.at -= Max(zk_now() - status->presumed_lost, 0);
	lock->loss.token = status->token;
	lock->loss.by = status->loss;
	strlcpy(lock->loss.name,
			status->name[0] != '\0' ? status->name : lock->name[mode],
			sizeof(lock->loss.name));
	strlcpy(lock->loss.why, why, sizeof(lock->loss.why));
	lock->loss.breaker[0] = '\0';
	if (status->loss == ZK_LOST_BROKEN)
		strlcpy(lock->loss.breaker, status->blocker_owner,
				sizeof(lock->loss.breaker));
	lock->lost = true;
	if (status->loss != ZK_NOT_LOST)
		zklock_stats_count(STAT_LOST);
	for (int i = 0; i < ZK_MODE_COUNT; i++)
		zklock_lock_end_contender(lock, i, list);
	lock->job.begun_nesting = begun_nesting;
}

/*
 * Judge whether a lock is held, without asking anybody.  If it is not, it is
 * lost from here on, whatever the ensemble may say later.
 */
HoldState
zklock_lock_judge(Lock *lock)
{
	ZkContenderStatus status;
	HoldState	worst = HOLD_PROVED;

	if (lock->lost)
		return HOLD_LOST;
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
	{
		if (!zklock_lock_has_contender(lock, mode) ||
			zk_contender_lease_runs(zklock_client, lock->contender[mode]))
			continue;
		worst = Max(worst, zklock_lease_judge(lock->contender[mode], &status));
		if (worst == HOLD_LOST)
		{
			mark_lost(lock, mode, &status, loss_sentence(&status), NULL);
			break;
		}
	}
	return worst;
}

/*
 * Judge whether a lock is held, and have it proved once if that cannot be
 * told.  If asked is not NULL it is proved in any case, by an operation that
 * was asked for at *asked, or is now if that is 0: so one serves many locks.
 * Waits at most until deadline, then returns HOLD_UNPROVED, and never longer
 * than the timeout of the ZooKeeper session.  Throws what interrupts throw.
 */
HoldState
zklock_lock_assure(Lock *lock, ZkTime deadline, ZkTime *asked)
{
	ZkContenderStatus status;
	HoldState	lease = zklock_lock_judge(lock);
	ZkTime		now = 0;

	if (lease == HOLD_LOST || (lease == HOLD_PROVED && asked == NULL))
		return lease;
	if (asked == NULL)
		asked = &now;
	if (*asked == 0)
		*asked = zklock_lease_ask();
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
	{
		if (!zklock_lock_has_contender(lock, mode))
			continue;
		lease = zklock_lease_prove(lock->contender[mode], *asked, deadline,
								   lock->path, &status);
		if (lease == HOLD_LOST)
			mark_lost(lock, mode, &status, loss_sentence(&status), NULL);
		if (lease != HOLD_PROVED)
			return lease;
	}
	return HOLD_PROVED;
}

/*
 * The transaction lets go of a lock before its end.  If the lock was lost, or
 * cannot be proved to be held at this moment, that is a loss for the
 * transaction.  Cannot fail.
 */
void
zklock_lock_let_go(Lock *lock)
{
	HoldState	lease = zklock_lock_judge(lock);
	LossNote	loss;

	if (lease == HOLD_LOST)
		zklock_verdict_doom(lock, &lock->loss);
	else if (lease == HOLD_UNPROVED)
	{
		memset(&loss, 0, sizeof(loss));
		loss.at = GetCurrentTimestamp();
		strlcpy(loss.why, "ZooKeeper had not confirmed it when it was released.",
				sizeof(loss.why));
		zklock_verdict_doom(lock, &loss);
	}
}

/*
 * Give back one session-scope acquisition.  Returns false if there is none in
 * this mode.  The entry stays until it is forgotten.  Cannot fail; for the
 * list see zklock_lock_settle().
 */
bool
zklock_lock_uncount(Lock *lock, ZkMode mode, ReleaseList *list)
{
	if (lock->session_count[mode] == 0)
		return false;
	zklock_lock_touch(lock);
	zklock_lock_let_go(lock);
	lock->session_count[mode]--;
	zklock_lock_settle(lock, list);
	return true;
}

/*
 * Give back all session-scope acquisitions, also of a lock that was lost.
 * The entry stays until it is forgotten.  Cannot fail; for the list see
 * zklock_lock_settle().
 */
void
zklock_lock_uncount_all(Lock *lock, ReleaseList *list)
{
	zklock_lock_touch(lock);
	if (zklock_lock_session_used(lock))
		zklock_lock_let_go(lock);
	memset(lock->session_count, 0, sizeof(lock->session_count));
	zklock_lock_settle(lock, list);
}

/*
 * The ZooKeeper session is about to be closed on request: end everything of
 * this lock.  What the session held is given back.  What the transaction holds
 * is lost, so that the transaction cannot commit as if it had held it to the
 * end.  Cannot fail; for the list see zklock_lock_settle().
 */
void
zklock_lock_close(Lock *lock, ReleaseList *list)
{
	ZkContenderStatus status;
	ZkMode		mode = zklock_lock_main_mode(lock);

	if (lock->level_count > 0 && !lock->lost)
	{
		zk_contender_status(zklock_client, lock->contender[mode], &status);
		mark_lost(lock, mode, &status,
				  "The ZooKeeper session was closed on request.", list);
	}
	zklock_lock_uncount_all(lock, list);
}

/* Report that a lock was lost.  Throws ZKL01. */
void
zklock_report_lost(const Lock *lock)
{
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 lock->permits > 0 ?
			 errmsg("semaphore \"%s\" was lost", lock->path) :
			 errmsg("lock \"%s\" was lost", lock->path),
			 zklock_errdetail_loss(&lock->loss),
			 zklock_lock_binds(lock) ?
			 errhint("Roll back the transaction.") :
			 lock->permits > 0 ?
			 errhint("Release the semaphore with zk_semaphore_release(), or acquire it again in a later transaction; until then, this session cannot commit.") :
			 errhint("Release the lock with zk_lock_release(), or acquire it again in a later transaction; until then, this session cannot commit.")));
}
