/*-------------------------------------------------------------------------
 *
 * held.c
 *	  Judge whether a lock in the table is still held, and release it.
 *
 * A lost lock stays in the table, with its counts but without contenders, and
 * vetoes commits until its counts are gone: those of the session by a release,
 * those of a transaction by its rollback.  The veto remains for a transaction
 * that may have relied on it (verdict.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "zklock.h"
#include "held.h"
#include "lock_stats.h"
#include "lock_table.h"
#include "session.h"
#include "stats.h"
#include "verdict.h"

/* Returns the reason for a loss, as a sentence. */
static const char *
loss_sentence(const ZkContenderStatus *status)
{
	if (status->detail[0] != '\0')
		return status->detail;
	if (status->loss == ZK_LOST_EXPIRED)
		return "The ZooKeeper session has expired.";
	if (status->loss == ZK_LOST_LEASE)
		return "ZooKeeper did not confirm it for a full session timeout.";
	if (status->loss == ZK_LOST_POISONED)
		return "The ZooKeeper client library has failed in this session.";
	return "Its contender was deleted.";
}

/*
 * Marks a lock as lost and ends its contenders; status is that of the contender
 * of mode.  Cannot fail; for the list see zklock_lock_settle().
 */
static void
mark_lost(Lock *lock, ZkMode mode, const ZkContenderStatus *status,
		  const char *why, ReleaseList *list)
{
	/* a rollback also gives up a run whose lock was lost */
	int			begun_nesting = lock->job.begun_nesting;
	ZkTime		lost_at = status->lost_at == 0 && status->loss == ZK_LOST_LEASE ?
	status->presumed_lost : status->lost_at;

	lock->loss.at = GetCurrentTimestamp();
	if (lost_at != 0)
		lock->loss.at -= Max(zk_now() - lost_at, 0);
	lock->loss.token = status->token;
	lock->loss.by = status->loss;
	strlcpy(lock->loss.name,
			status->name[0] != '\0' ? status->name : lock->name[mode],
			sizeof(lock->loss.name));
	strlcpy(lock->loss.why, why, sizeof(lock->loss.why));
	lock->loss.logged = false;
	lock->loss.breaker[0] = '\0';
	if (status->loss == ZK_LOST_BROKEN)
		strlcpy(lock->loss.breaker, status->blocker_owner,
				sizeof(lock->loss.breaker));
	lock->lost = true;
	if (status->loss != ZK_NOT_LOST)
	{
		zklock_stats_count(STAT_LOST);
		zklock_lock_stats_lost(zklock_lock_utf8_path(lock));
	}
	for (int i = 0; i < ZK_MODE_COUNT; i++)
		zklock_lock_end_contender(lock, i, list);
	lock->job.begun_nesting = begun_nesting;
}

/* Judges by the local clock whether a lock is held.  A loss is final. */
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
 * Judges whether a lock is held, and waits for a proof if that is unknown.
 * With asked, a proof requested at *asked is required; 0 requests one now, so
 * that one request serves many locks.  Returns HOLD_UNPROVED at the deadline;
 * waits for the ZooKeeper session's timeout at most.
 */
HoldState
zklock_lock_assure(Lock *lock, ZkTime deadline, ZkTime *asked)
{
	ZkContenderStatus status;
	HoldState	state = zklock_lock_judge(lock);
	ZkTime		now = 0;

	if (state == HOLD_LOST || (state == HOLD_PROVED && asked == NULL))
		return state;
	if (asked == NULL)
		asked = &now;
	if (*asked == 0)
	{
		*asked = zk_now();
		zk_client_renew(zklock_client);
	}
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
	{
		if (!zklock_lock_has_contender(lock, mode))
			continue;
		state = zklock_lease_prove(lock->contender[mode], *asked, deadline,
								   lock->path, &status);
		if (state == HOLD_LOST)
			mark_lost(lock, mode, &status, loss_sentence(&status), NULL);
		if (state != HOLD_PROVED)
			return state;
	}
	return HOLD_PROVED;
}

/* Dooms the transaction that releases a lock which is not proved to be held. */
void
zklock_lock_let_go(Lock *lock)
{
	HoldState	state = zklock_lock_judge(lock);
	LossNote	loss;

	if (state == HOLD_LOST)
		zklock_verdict_doom(lock, &lock->loss);
	else if (state == HOLD_UNPROVED)
	{
		memset(&loss, 0, sizeof(loss));
		loss.at = GetCurrentTimestamp();
		strlcpy(loss.why, "ZooKeeper had not confirmed it when it was released.",
				sizeof(loss.why));
		zklock_verdict_doom(lock, &loss);
	}
}

/*
 * Releases one session-scope acquisition; returns false if there is none.  The
 * caller forgets the entry.  Cannot fail; see zklock_lock_settle().
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

/* Releases all session-scope acquisitions; else as zklock_lock_uncount(). */
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
 * Releases a lock before the ZooKeeper session is closed.  What the transaction
 * holds is lost, so that it cannot commit.  Cannot fail; see
 * zklock_lock_settle().
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

/* Logs locks that were lost while the session was idle, each once (Y7). */
void
zklock_log_lost(void)
{
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
	{
		if (zklock_lock_judge(lock) != HOLD_LOST || lock->loss.logged)
			continue;
		lock->loss.logged = true;
		ereport(LOG,
				(errcode(ERRCODE_ZK_LOCK_LOST),
				 lock->permits > 0 ?
				 errmsg("semaphore \"%s\" was lost while the session was idle", lock->path) :
				 errmsg("lock \"%s\" was lost while the session was idle", lock->path),
				 zklock_errdetail_loss(&lock->loss)));
	}
}

/* Warns that a lock which is released, or acquired again, was already lost. */
void
zklock_warn_lost(const Lock *lock)
{
	ereport(WARNING,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 lock->permits > 0 ?
			 errmsg("semaphore \"%s\" was already lost", lock->path) :
			 errmsg("lock \"%s\" was already lost", lock->path),
			 zklock_errdetail_loss(&lock->loss)));
}

/* Reports that a lock was lost.  Throws ZKL01. */
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
