/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What PostgreSQL's transactions do to the lock table, and it to them.
 *
 * The commit guard vetoes the commit of a transaction that has lost a lock; what
 * belongs to a transaction, or a subtransaction, goes with it.
 *
 * Nothing that runs at the end of a transaction, behind the veto, allocates,
 * waits or can fail.
 *
 * IDENTIFICATION
 *	  src/xact.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "zklock.h"

/* Setting; see zklock.c for what it means. */
int			zklock_commit_guard = ZK_GUARD_SESSION;

/*
 * The guard has let a commit pass, which is not over.  For the handler of the
 * loss signal: nothing may be cancelled now, least of all the wait for a
 * synchronous standby.
 */
volatile sig_atomic_t zklock_committing = false;

/* A (sub)transaction that has ended, and whose own locks have not gone yet. */
typedef enum Ending
{
	ENDING_NOTHING,
	ENDING_IN_COMMIT,
	ENDING_OTHERWISE,			/* rolled back, or prepared */
	ENDING_SUBTRANSACTION		/* rolled back */
} Ending;

static Ending ending = ENDING_NOTHING;

/*
 * Before the commit record is written: may the transaction commit?  Throws
 * ZKL01 if a lock was lost.  Waits for a proof of all locks if the lease of one
 * has run out, or the setting asks for it.
 */
static void
guard_commit(void)
{
	ZkTime		asked = 0;
	ZkLock	   *lock = NULL;

	if (zklock_commit_guard != ZK_GUARD_OFF)
		lock = zklock_lock_next(NULL);
	for (; lock != NULL; lock = zklock_lock_next(lock))
		if (zklock_lock_assure(lock, ZKLOCK_FOREVER,
							   zklock_commit_guard == ZK_GUARD_QUORUM ?
							   &asked : NULL) == ZK_LEASE_LOST)
			zklock_report_lost(lock);
	zklock_committing = true;
}

/*
 * A prepared transaction outlives the backend, whose locks cannot: throws
 * 0A000 if the transaction holds any, or is to begin or to end a job.
 */
static void
refuse_prepare(void)
{
	for (ZkLock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		if (lock->level_count > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that holds ZooKeeper locks"),
					 errdetail("%s \"%s\" was acquired in transaction scope.",
							   lock->permits > 0 ? "Semaphore" : "Lock",
							   lock->path)));
		else if (lock->job.state == ZK_JOB_ENDING)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that ends a job"),
					 errdetail("Job \"%s\" was to end with it.", lock->path)));
		else if (lock->job.begun_nesting > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that begins a job"),
					 errdetail("Job \"%s\" was begun in it.", lock->path)));
}

/*
 * The transaction has committed: so the jobs have ended that were to end with it,
 * and their locks are given back.
 */
static void
end_jobs(void)
{
	for (ZkLock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		zklock_lock_commit_job(lock);
}

/*
 * The transaction has committed: note that for the records of the locks that the
 * session goes on to hold.  So it is left as well by a backend that just exits.
 */
static void
renew_notes(void)
{
	for (ZkLock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		zklock_lock_renew_note(lock);
}

/*
 * The one transaction callback.
 *
 * event			what it does							may it throw
 * PRE_COMMIT		commit guard							yes: this is the veto
 * PRE_PREPARE		refuse with transaction-scope locks,	yes
 *					else commit guard
 * COMMIT			note that it is; the rest is for		no: it would be PANIC
 *					release_callback()
 * ABORT, PREPARE	the same								no
 * PARALLEL_*		nothing: workers cannot lock
 *
 * When the process exits it does nothing: the ZooKeeper session is closed
 * next.  And it must not: a background worker with the default handler of
 * SIGTERM gets here from within that handler, which may have interrupted us
 * while we held the door's mutex.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	(void) arg;
	zklock_committing = false;
	if (zklock_lock_total() == 0 || proc_exit_inprogress)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			guard_commit();
			break;
		case XACT_EVENT_PRE_COMMIT:
			guard_commit();
			break;
		case XACT_EVENT_COMMIT:
			ending = ENDING_IN_COMMIT;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			ending = ENDING_OTHERWISE;
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

/*
 * The one subtransaction callback.  It throws nothing; for the exit see above.
 */
static void
subxact_callback(SubXactEvent event, SubTransactionId my_subid,
				 SubTransactionId parent_subid, void *arg)
{
	(void) my_subid;
	(void) parent_subid;
	(void) arg;
	if (zklock_lock_total() == 0 || proc_exit_inprogress)
		return;
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			zklock_locks_pass_level_up(GetCurrentTransactionNestLevel());
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			ending = ENDING_SUBTRANSACTION;
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

/*
 * The one callback for the release of resources, which comes for each resource
 * owner and so in other cases, too.  Behind the end of a (sub)transaction, the
 * first call of this phase for its owner, or one below that, finds all locks of
 * PostgreSQL released: ours follow.  It throws nothing.
 */
static void
release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
				 void *arg)
{
	Ending		what = ending;

	(void) is_commit;
	(void) arg;
	if (what == ENDING_NOTHING || phase != RESOURCE_RELEASE_AFTER_LOCKS ||
		is_top_level != (what != ENDING_SUBTRANSACTION) || proc_exit_inprogress)
		return;
	ending = ENDING_NOTHING;
	switch (what)
	{
		case ENDING_IN_COMMIT:
			end_jobs();
			zklock_locks_drop_levels(1);
			renew_notes();
			break;
		case ENDING_OTHERWISE:
			zklock_locks_drop_levels(1);
			break;
		case ENDING_SUBTRANSACTION:
			zklock_locks_drop_levels(GetCurrentTransactionNestLevel());
			break;
		case ENDING_NOTHING:
			break;
	}
}

/*
 * Register the callbacks, once in a backend; to be called before anything is
 * put into the lock table.  Should memory run out in the middle, the next call
 * finishes the work; that may register one twice, which does no harm.  Throws
 * 53200.
 */
void
zklock_xact_watch(void)
{
	static bool registered = false;

	if (registered)
		return;
	RegisterResourceReleaseCallback(release_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
	RegisterXactCallback(xact_callback, NULL);
	registered = true;
}
