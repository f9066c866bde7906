/*-------------------------------------------------------------------------
 *
 * release.c
 *	  A lock call that releases: count down in the lock table, delete the
 *	  contenders that are not needed any more, and wait for that.
 *
 * A lock that was released in the lock table stays released, whatever ends the
 * wait early: the lock client finishes the work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "zklock.h"
#include "held.h"
#include "lock_table.h"
#include "release.h"
#include "session.h"

/*
 * Waits until a released contender is gone, which may read as any state until
 * then, even LOST.  Returns false if *deadline passes, which is moved up
 * without a connection, unless patient.  *status is what was last seen of the
 * contender; doing and path say in messages what the wait is for.
 */
bool
zklock_await_end(ZkContenderId id, const char *doing, const char *path,
				 bool patient, ZkTime *deadline, ZkContenderStatus *status)
{
	for (;;)
	{
		ZkSessionStatus session;

		zk_contender_status(zklock_client, id, status);
		if (status->state == ZK_GONE || status->state == ZK_NONE ||
			status->state == ZK_FAILED)
			return true;
		zk_client_status(zklock_client, &session);
		if (session.state != ZK_SESSION_CONNECTED && !patient)
			*deadline = Min(*deadline, zk_now() + ZKLOCK_CLEANUP_TIMEOUT);
		if (zk_now() >= *deadline)
			return false;
		zklock_session_wait_for(WAIT_FOR_RELEASE, *deadline, doing, path);
	}
}

/*
 * Waits until the released contenders of a list are gone, for at most
 * zklock.connect_timeout in all, and hardly at all without a connection.  A
 * WARNING reports what the lock client has yet to do.  Their ids are dead then.
 */
static void
await_ends(ReleaseList *list)
{
	ZkTime		deadline = zk_now() + ZK_MS(zklock_connect_timeout);

	PG_TRY();
	{
		for (int i = 0; i < list->count; i++)
		{
			const Lock *lock = list->items[i].lock;
			const char *doing = lock->permits > 0 ?
			"while releasing semaphore \"%s\"" : "while releasing lock \"%s\"";
			int			others = list->count - i - 1;
			ZkContenderStatus status;

			if (!zklock_await_end(list->items[i].id, doing, lock->path,
								  false, &deadline, &status))
			{
				ereport(WARNING,
						(lock->permits > 0 ?
						 errmsg("semaphore \"%s\" could not be released yet", lock->path) :
						 errmsg("lock \"%s\" could not be released yet", lock->path),
						 others == 0 ?
						 errdetail("It becomes free when ZooKeeper can be reached, or when the ZooKeeper session expires.") :
						 errdetail_plural("It becomes free when ZooKeeper can be reached, or when the ZooKeeper session expires; %d other lock is affected as well.",
										  "It becomes free when ZooKeeper can be reached, or when the ZooKeeper session expires; %d other locks are affected as well.",
										  others, others)));
				break;
			}
			if (status.state == ZK_GONE && status.error != ZK_OK)
				ereport(WARNING,
						(errmsg("could not write to the record of lock \"%s\"",
								lock->path),
						 errdetail_internal("%s", status.detail)));
			if (status.state == ZK_FAILED)
				ereport(WARNING,
						(lock->permits > 0 ?
						 errmsg("could not delete the contender of semaphore \"%s\"", lock->path) :
						 errmsg("could not delete the contender of lock \"%s\"", lock->path),
						 errdetail("Contender \"%s\" remains until its deletion is permitted or the ZooKeeper session ends. %s",
								   status.name, status.detail)));
		}
	}
	PG_FINALLY();
	{
		for (int i = 0; i < list->count; i++)
			zk_contender_abandon(zklock_client, list->items[i].id);
	}
	PG_END_TRY();
}

/* For ereport: why this cannot be released. lock may be NULL. */
static int
errdetail_not_held(const Lock *lock, bool permit)
{
	if (lock == NULL)
		return 0;
	if (permit && lock->permits == 0)
	{
		errdetail("This session holds lock \"%s\".", lock->path);
		return errhint("Use zk_lock_release().");
	}
	if (!permit && lock->permits > 0)
	{
		errdetail("This session holds a permit of semaphore \"%s\".", lock->path);
		return errhint("Use zk_semaphore_release().");
	}
	if (lock->level_count > 0)
		return errdetail("It is a transaction-level lock, which is released at the end of the transaction.");
	return 0;
}

/* Warns that a lock, or a permit, cannot be released as it is not held. */
static void
warn_not_held(const LockName *name, const Lock *lock, int modes)
{
	ereport(WARNING,
			(modes == RELEASE_PERMIT ?
			 errmsg("you don't own a permit of semaphore \"%s\"", name->path) :
			 modes == (RELEASE_EXCLUSIVE | RELEASE_SHARED) ?
			 errmsg("you don't own lock \"%s\"", name->path) :
			 errmsg("you don't own lock \"%s\" in %s mode", name->path,
					zklock_mode_name(modes == RELEASE_SHARED ?
									 ZK_SHARED : ZK_EXCLUSIVE)),
			 errdetail_not_held(lock, modes == RELEASE_PERMIT)));
}

/* If what the session holds was lost: warns, forgets it, returns true. */
static bool
release_lost(Lock *lock, bool permit)
{
	if (lock == NULL || (lock->permits > 0) != permit ||
		zklock_lock_judge(lock) != HOLD_LOST ||
		!zklock_lock_session_used(lock))
		return false;
	zklock_warn_lost(lock);
	zklock_lock_uncount_all(lock, NULL);
	zklock_lock_forget(lock);
	return true;
}

/*
 * Releases one session-scope acquisition of a lock in one of the modes given,
 * exclusive first, or of a permit, and waits for the end of the contender if it
 * was the last.  Returns false with a WARNING if there is none, or if the lock
 * was lost, which is forgotten.  Throws 55006 if a job ends with the
 * transaction.  An interrupted wait does not undo the release.
 */
bool
zklock_release(const LockName *name, int modes)
{
	bool		released = false;
	Lock	   *lock = zklock_lock_find(name);
	ReleaseList list = {.items = palloc(2 * sizeof(*list.items))};

	if (release_lost(lock, modes == RELEASE_PERMIT))
		return false;
	if (lock != NULL && modes != RELEASE_PERMIT)
		zklock_lock_check_job(lock);
	for (int mode = 0; mode < ZK_MODE_COUNT && lock != NULL && !released; mode++)
		released = (modes & (1 << mode)) != 0 &&
			zklock_lock_uncount(lock, mode, &list);
	if (!released)
	{
		warn_not_held(name, lock, modes);
		return false;
	}
	await_ends(&list);
	zklock_lock_forget(lock);
	return true;
}

/* Ends every lock, and waits for the ends of contenders.  Returns how many. */
static int
end_all(void (*end_lock) (Lock *lock, ReleaseList *list))
{
	int			room = 2 * Max(zklock_lock_total(), 1);
	ReleaseList list = {.items = palloc(room * sizeof(*list.items))};
	Lock	   *next;

	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		end_lock(lock, &list);
	await_ends(&list);
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL; lock = next)
	{
		next = zklock_lock_next(lock);
		zklock_lock_forget(lock);
	}
	return list.count;
}

/* Checks that no job ends with the transaction.  Throws 55006. */
static void
check_jobs(void)
{
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		if (zklock_lock_judge(lock) != HOLD_LOST)
			zklock_lock_check_job(lock);
}

/*
 * Releases every session-scope lock, with a WARNING for lost ones.  Returns how
 * many contenders were released.  Throws 55006 if a job ends with the
 * transaction.
 */
int
zklock_release_all(void)
{
	check_jobs();
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		if (zklock_lock_session_used(lock) &&
			zklock_lock_judge(lock) == HOLD_LOST)
			zklock_warn_lost(lock);
	return end_all(zklock_lock_uncount_all);
}

/* Releases every session-scope lock, for DISCARD ALL.  Cannot fail. */
void
zklock_discard_all(void)
{
	Lock	   *lock;
	Lock	   *next;

	for (lock = zklock_lock_next(NULL); lock != NULL; lock = next)
	{
		next = zklock_lock_next(lock);
		zklock_lock_uncount_all(lock, NULL);
		zklock_lock_forget(lock);
	}
}

/*
 * Releases everything and closes the ZooKeeper session.  What the transaction
 * holds is lost.  Throws 55006 if a job ends with the transaction.
 */
void
zklock_close(void)
{
	check_jobs();
	(void) end_all(zklock_lock_close);
	zklock_session_stop();
}
