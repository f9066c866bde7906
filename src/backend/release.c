/*-------------------------------------------------------------------------
 *
 * release.c
 *	  A lock call that gives back: count down in the lock table, have the
 *	  contenders deleted that stand for nothing any more, and wait for that.
 *
 * Once something was given back in the lock table it is given back, whatever
 * ends the wait early: the lock client finishes the work.
 *
 * IDENTIFICATION
 *	  src/backend/release.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "zklock.h"
#include "held.h"
#include "lock_table.h"
#include "release.h"
#include "session.h"
#include "verdict.h"

/* Make a list with room for the contenders of so many locks. */
static ReleaseList
make_release_list(int lock_count)
{
	ReleaseList list;

	list.count = 0;
	list.items = palloc(Max(lock_count, 1) * 2 * sizeof(*list.items));
	return list;
}

/*
 * Read the state of a contender that was released.  Is that the end of it?
 * Until then it may read anything, LOST too, as its znode may still be there.
 */
bool
zklock_has_ended(ZkContenderId id, ZkContenderStatus *status)
{
	zk_contender_status(zklock_client, id, status);
	return status->state == ZK_GONE || status->state == ZK_NONE ||
		status->state == ZK_FAILED;
}

/*
 * Wait until a released contender is gone; false if *deadline passes first.
 * Without a connection that is moved up.  *status is what was last seen of the
 * contender; doing and path say in messages what the wait is for.  Throws what
 * interrupts throw.
 */
bool
zklock_await_end(ZkContenderId id, const char *doing, const char *path,
				 ZkTime *deadline, ZkContenderStatus *status)
{
	ZkSessionStatus session;

	while (!zklock_has_ended(id, status))
	{
		zk_client_status(zklock_client, &session);
		if (session.state != ZK_SESSION_CONNECTED)
			*deadline = Min(*deadline, zk_now() + ZKLOCK_CLEANUP_TIMEOUT);
		if (zk_now() >= *deadline)
			return false;
		zklock_session_wait_for(WAIT_FOR_RELEASE, *deadline, doing, path);
	}
	return true;
}

/*
 * Wait until the released contenders of a list are gone, for at most
 * zklock.connect_timeout in all, and hardly at all without a connection.  What
 * is not done then is done by the lock client as soon as it can, and a WARNING
 * says so.  Afterwards, or after an interrupt, whose error is thrown, the ids
 * are dead.
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
								  &deadline, &status))
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
						 errdetail("Contender \"%s\" remains until the ZooKeeper session ends. %s",
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

/* Tell that a lock which the session gives back had been lost. */
static void
warn_lost(const Lock *lock)
{
	ereport(WARNING,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 lock->permits > 0 ?
			 errmsg("semaphore \"%s\" was already lost", lock->path) :
			 errmsg("lock \"%s\" was already lost", lock->path),
			 zklock_errdetail_loss(&lock->loss)));
}

/*
 * For ereport: the DETAIL, and the HINT, about what cannot be released, if
 * there is anything to say; lock is the entry of that path, or NULL.
 */
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

/* Tell that a lock cannot be released because it was not acquired. */
static void
warn_not_held(const LockName *name, const Lock *lock, bool exclusive,
			  bool shared)
{
	ereport(WARNING,
			(exclusive && shared ?
			 errmsg("you don't own lock \"%s\"", name->path) :
			 errmsg("you don't own lock \"%s\" in %s mode", name->path,
					zklock_mode_name(exclusive ? ZK_EXCLUSIVE : ZK_SHARED)),
			 errdetail_not_held(lock, false)));
}

/*
 * If what the session holds of a lock, or of a semaphore if a permit is to be
 * released, was lost: tell so, forget it, and return true.
 */
static bool
release_lost(Lock *lock, bool permit)
{
	if (lock == NULL || (lock->permits > 0) != permit ||
		zklock_lock_judge(lock) != HOLD_LOST ||
		!zklock_lock_session_used(lock))
		return false;
	warn_lost(lock);
	zklock_lock_uncount_all(lock, NULL);
	zklock_lock_forget(lock);
	return true;
}

/*
 * Release one session-scope acquisition of a lock in one of the modes given,
 * exclusive first, and wait until the contender is gone if it was the last.
 * Returns false with a WARNING if there is none, or if the lock was lost,
 * which is forgotten with it.  Throws 55006 if a job ends with the transaction;
 * what interrupts throw, but the lock is released even so.
 */
bool
zklock_release(const LockName *name, bool exclusive, bool shared)
{
	Lock	   *lock = zklock_lock_find(name);
	ReleaseList list = make_release_list(1);

	if (release_lost(lock, false))
		return false;
	if (lock != NULL)
		zklock_lock_check_job(lock);
	if (lock == NULL ||
		(!(exclusive && zklock_lock_uncount(lock, ZK_EXCLUSIVE, &list)) &&
		 !(shared && zklock_lock_uncount(lock, ZK_SHARED, &list))))
	{
		warn_not_held(name, lock, exclusive, shared);
		return false;
	}
	await_ends(&list);
	zklock_lock_forget(lock);
	return true;
}

/*
 * Release one session-scope acquisition of a semaphore's permit; as
 * zklock_release().
 */
bool
zklock_release_permit(const LockName *name)
{
	Lock	   *lock = zklock_lock_find(name);
	ReleaseList list = make_release_list(1);

	if (release_lost(lock, true))
		return false;
	if (lock == NULL || !zklock_lock_uncount(lock, ZK_PERMIT, &list))
	{
		ereport(WARNING,
				(errmsg("you don't own a permit of semaphore \"%s\"", name->path),
				 errdetail_not_held(lock, true)));
		return false;
	}
	await_ends(&list);
	zklock_lock_forget(lock);
	return true;
}

/*
 * End every lock in one way or another, then wait for all contenders that
 * went.  Returns how many.  Throws what interrupts throw.
 */
static int
end_all(void (*end_lock) (Lock *lock, ReleaseList *list))
{
	ReleaseList list = make_release_list(zklock_lock_total());
	Lock	   *lock;
	Lock	   *next;

	for (lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		end_lock(lock, &list);
	await_ends(&list);
	for (lock = zklock_lock_next(NULL); lock != NULL; lock = next)
	{
		next = zklock_lock_next(lock);
		zklock_lock_forget(lock);
	}
	return list.count;
}

/* No job may end with the transaction.  Throws 55006. */
static void
check_jobs(void)
{
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		if (zklock_lock_judge(lock) != HOLD_LOST)
			zklock_lock_check_job(lock);
}

/*
 * Release every session-scope lock, lost ones with a WARNING.  Returns how
 * many contenders went.  Throws 55006 if a job ends with the transaction; what
 * interrupts throw, but the locks are released even so.
 */
int
zklock_release_all(void)
{
	check_jobs();
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		if (zklock_lock_session_used(lock) &&
			zklock_lock_judge(lock) == HOLD_LOST)
			warn_lost(lock);
	return end_all(zklock_lock_uncount_all);
}

/*
 * For DISCARD ALL: release every session-scope lock without waiting.  Cannot
 * fail.
 */
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
 * Release everything and close the ZooKeeper session.  What the transaction
 * holds counts as lost: it cannot commit any more.  Throws 55006 if a job ends
 * with the transaction, what interrupts throw; then the ZooKeeper session
 * stays.
 */
void
zklock_close(void)
{
	check_jobs();
	(void) end_all(zklock_lock_close);
	zklock_session_stop();
}
