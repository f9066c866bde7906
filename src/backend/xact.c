/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What PostgreSQL's transactions do to the lock table, and it to them.
 *
 * What belongs to a transaction, or a subtransaction, goes with it.  The commit
 * guard vetoes the commit of a transaction that has lost a lock; verdict.c has
 * the rest of the rules Y, lock_table.c that of T, lease.c of L, job.c of J.
 *
 * L5. At commit (PRE_COMMIT, zklock.commit_guard = session) each lock must have
 * a lease that is running, else it is asked as in L3, else the transaction
 * fails with ZKL01.  With "quorum" each is asked in any case, all of them at
 * once: as many renewals as that takes are sent before one is answered.  A lock
 * of session scope that was lost makes every commit fail until it is released
 * or acquired anew; see Y3 for what that does not help.
 *
 * What this does not close: the time between the check and the end of the
 * commit.  A process that is stopped just there, or waits for a standby, can
 * commit late, with either guard.  ("quorum" knows what no lease can: that
 * somebody has deleted a contender.)  Fencing (fence.c) closes it for the data
 * of one database.
 *
 * Y2. The veto comes before any other extension acts.  Callbacks are called in
 * the order in which they were registered, the last one first, and postgres_fdw
 * commits its remote transactions in one.  So ours is registered anew at the
 * end of each statement (zklock_xact_go_first()), those that run within others,
 * in procedures and in deferred triggers, too: behind whoever has registered
 * one by then.  The new registration is made before the old one is taken back,
 * so that no error leaves us without.  It must not be done while callbacks are
 * being called.  One case is not told from others: an extension that registers
 * a callback inside a procedure unseen by us, and then runs SQL in a callback
 * of its own before the commit. (S206)
 *
 * T5. Locks of transaction scope are released when PostgreSQL has released its
 * own: the commit is visible then, its invalidations have been sent, and row,
 * table and advisory locks are gone (release_callback(), behind the phase of
 * locks of the transaction's resource owner).  So whoever is granted the lock
 * finds nothing of the last holder in its way.  The same is true of a rollback,
 * and of one to a savepoint.  It is done by orders only, so nothing can fail
 * there.  What comes later still: files of dropped tables are deleted, and
 * listeners are woken, who see the commit when they look.  With
 * synchronous_commit = off the commit may not have been flushed by then.  To
 * flush it for the sake of the lock would take back what the user has asked
 * for, and would not help a lock of session scope; so that is left to who sets
 * synchronous_commit.
 *
 * J11. The client gives up the lock of a run that has taken longer than its
 * max_runtime, whatever the backend does.  But the guard may have seen the lock
 * held by then: so the backend tells the client when a commit begins, before
 * the guard looks, and when it is over (keep_locks()).  In between nothing is
 * given up for that reason, nor is what the backend has ordered to be released
 * by then, with the mark: the client's threads may look at the time before they
 * take that order.  All is decided under the mailbox's mutex
 * (zk_mailbox_end_hold()). (S277, S322)
 *
 * Nothing that runs at the end of a transaction, behind the veto, allocates,
 * waits or can fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "deed.h"
#include "held.h"
#include "lock_table.h"
#include "session.h"
#include "verdict.h"
#include "xact.h"

/* Setting; see zklock.c for what it means. */
int			zklock_commit_guard = GUARD_SESSION;

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

/* The argument of xact_callback() as it was registered first, and last. */
static uintptr_t first_registration = 1;
static uintptr_t last_registration = 0;

/*
 * Have no lock given up, while a commit goes on, because a job has run for too
 * long: the guard would have seen it held.  To be called before the guard
 * looks.  Takes no memory and cannot fail.
 */
static void
keep_locks(bool keep)
{
	static bool kept = false;

	if (keep == kept)
		return;
	kept = keep;
	if (zklock_client != NULL)
		zk_client_commit(zklock_client, keep);
}

/*
 * May the transaction commit?  Throws ZKL01 if it is doomed, or a lock was
 * lost.  Waits for a proof of all locks if the lease of one has run out, or the
 * setting asks for it.
 */
static void
judge(void)
{
	ZkTime		asked = 0;

	if (zklock_verdict_doomed())
		zklock_report_doom();
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		if (zklock_lock_assure(lock, ZKLOCK_FOREVER,
							   zklock_commit_guard == GUARD_QUORUM ?
							   &asked : NULL) == HOLD_LOST)
			zklock_report_lost(lock);
}

/*
 * A command has taken effect, and its last transaction is about to commit.
 * Tell which locks were lost since it began.  Nothing may end it any more.
 */
static void
warn_of_losses(void)
{
	HOLD_INTERRUPTS();
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		if (zklock_lock_judge(lock) == HOLD_LOST)
			ereport(WARNING,
					(errcode(ERRCODE_ZK_LOCK_LOST),
					 lock->permits > 0 ?
					 errmsg("semaphore \"%s\" was lost while the command ran", lock->path) :
					 errmsg("lock \"%s\" was lost while the command ran", lock->path),
					 zklock_errdetail_loss(&lock->loss),
					 errhint("Check the result of the command, which has taken effect.")));
	RESUME_INTERRUPTS();
}

/* Before the commit record is written: the veto.  Throws as judge(). */
static void
guard_commit(void)
{
	keep_locks(zklock_lock_total() > 0);
	if (zklock_commit_guard != GUARD_OFF)
	{
		if (!zklock_verdict_effective() && !zklock_verdict_harmless())
			judge();
		else if (zklock_verdict_effective() && !zklock_verdict_in_statement())
			warn_of_losses();
	}
	zklock_committing = true;
}

/*
 * Before a command that takes effect before its commit, or commits more than
 * once, or shows outside of the database: the veto comes now, and for the
 * former two it does not come again.  Throws as judge().
 */
void
zklock_guard_command(Deed deed)
{
	if (zklock_commit_guard != GUARD_OFF)
		judge();
	if (deed >= DEED_STEPS)
		zklock_verdict_take_effect(deed);
}

/*
 * Before locks are acquired, count of them, of which each may be acquired anew
 * if it was lost: does anything else forbid the transaction's commit already?
 * Throws ZKL01 then.  Asks nobody.
 */
void
zklock_guard_transaction(const LockName *names, int count)
{
	if (zklock_commit_guard == GUARD_OFF)
		return;
	if (zklock_verdict_doomed())
		zklock_report_doom();
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
	{
		bool		named = false;

		if (zklock_lock_judge(lock) != HOLD_LOST)
			continue;
		for (int i = 0; i < count; i++)
			named |= strcmp(lock->node, names[i].node) == 0;
		if (!named)
			zklock_report_lost(lock);
	}
}

/*
 * A prepared transaction outlives the backend, whose locks cannot: throws
 * 0A000 if the transaction holds any, or is to begin or to end a job.
 */
static void
refuse_prepare(void)
{
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		if (lock->level_count > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that holds ZooKeeper locks"),
					 lock->permits > 0 ?
					 errdetail("Semaphore \"%s\" was acquired at transaction level.", lock->path) :
					 errdetail("Lock \"%s\" was acquired at transaction level.", lock->path)));
		else if (lock->job.state == JOB_ENDING)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that ends a job"),
					 errdetail("Job \"%s\" ends with the transaction.", lock->path)));
		else if (lock->job.begun_nesting > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that begins a job"),
					 errdetail("Job \"%s\" was begun in the transaction.", lock->path)));
}

/*
 * The transaction has committed: so the jobs have ended that were to end with
 * it, and their locks are given back.
 */
static void
end_jobs(void)
{
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		zklock_lock_commit_job(lock);
}

/*
 * The transaction has committed: note that for the records of the locks that
 * the session goes on to hold.  So it is left as well by a backend that just
 * exits.
 */
static void
renew_notes(void)
{
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
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
 * It may be registered more than once, see zklock_xact_go_first(); then the
 * last one counts, which is the first to be called.
 *
 * When the process exits it does nothing: the ZooKeeper session is closed
 * next.  And it must not: a background worker with the default handler of
 * SIGTERM gets here from within that handler, which may have interrupted us
 * while we held the mailbox's mutex.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	if ((uintptr_t) arg != last_registration)
		return;
	zklock_committing = false;
	if (proc_exit_inprogress)
		return;
	if (event != XACT_EVENT_COMMIT)
		keep_locks(false);
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
 * A subtransaction is rolled back, and what it holds of locks goes with it:
 * that is no way to get rid of a loss.
 */
static void
let_go(int nesting)
{
	for (Lock *lock = zklock_lock_next_touched(NULL, nesting); lock != NULL;
		 lock = zklock_lock_next_touched(lock, nesting))
		if (lock->job.begun_nesting >= nesting ||
			(lock->level_count > 0 &&
			 lock->levels[lock->level_count - 1].nesting >= nesting))
			zklock_lock_let_go(lock);
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
			let_go(GetCurrentTransactionNestLevel());
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
			zklock_verdict_reset();
			keep_locks(false);
			break;
		case ENDING_OTHERWISE:
			zklock_locks_drop_levels(1);
			zklock_verdict_reset();
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
	zklock_xact_go_first(true);
	registered = true;
}

/*
 * See to it that of all callbacks ours is called first: if others had been
 * registered since, they would act before us, as postgres_fdw does that commits
 * on other servers.  To be called when any may have been.
 *
 * To take our older registrations back is safe only if no callbacks are being
 * called at this moment, as that may be the one to be called next.  If the
 * caller cannot know, they stay until it does.  Throws 53200, and we are
 * registered even so.
 */
void
zklock_xact_go_first(bool safe)
{
	if (zklock_committing)
		return;					/* we have been called, and so were first */
	RegisterXactCallback(xact_callback, (void *) (last_registration + 1));
	last_registration++;
	for (uintptr_t i = last_registration - 1; safe && i >= first_registration; i--)
		UnregisterXactCallback(xact_callback, (void *) i);
	if (safe)
		first_registration = last_registration;
}
