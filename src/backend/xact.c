/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What PostgreSQL's transactions do to the lock table, and it to them.
 *
 * What belongs to a (sub)transaction ends with it.  The commit guard vetoes
 * the commit of a transaction that has lost a lock; verdict.c has the other
 * rules Y, lock_table.c those of T, lease.c of L, job.c of J.  Behind the
 * veto, nothing that runs at the end of a transaction allocates, waits or can
 * fail.
 *
 * L5. At commit (PRE_COMMIT, zklock.commit_guard = lease) each lock must have
 * a running lease, else a proof is requested as in L3, else the transaction
 * fails with ZKL01.  With "quorum" a proof is requested in any case, for all
 * locks at once.  A lost session-scope lock makes every commit fail until it is
 * released or acquired again; see Y3 for its limits.
 *
 * This leaves the time between the check and the end of the commit.  A process
 * that is stopped just there, or waits for a standby, can commit late, with
 * either guard.  ("quorum" detects what no lease can: that another client has
 * deleted a contender.)  Fencing (fence.c) closes the gap for the data of one
 * database.
 *
 * Y2. The veto comes before any other extension acts.  The callback registered
 * last is called first, and postgres_fdw commits its remote transactions in
 * one.  So ours is registered again at the end of each statement
 * (zklock_xact_go_first()), also of those within others, in procedures and in
 * deferred triggers.  The old registration is removed after the new one is
 * made, so that no error leaves us without, and not while callbacks are being
 * called.  One case is not detected: an extension that registers a callback
 * inside a procedure unseen by us, and runs SQL in a callback of its own
 * before the commit. (S206)
 *
 * T5. Locks of transaction scope are released after PostgreSQL's own: the
 * commit is visible, its invalidations have been sent, and row, table and
 * advisory locks are gone (release_callback(), after the lock phase of the
 * transaction's resource owner).  So nothing of the last holder blocks the
 * next one.  The same is true of a rollback, also to a savepoint.  It takes
 * only orders, so nothing can fail.  Later still, files of dropped tables are
 * deleted, and listeners woken, which see the commit.  With synchronous_commit
 * = off the commit may not have been flushed; flushing it for the lock would
 * override the user's choice, and would not help a lock of session scope.
 *
 * J11. The client gives up the lock of a run that exceeds its max_runtime,
 * whatever the backend does.  As the guard may have seen the lock held, the
 * backend tells the client when a commit begins, before the guard looks, and
 * when it is over (keep_locks()).  In between nothing is given up for that
 * reason, nor is what the backend has ordered to be released by then, with the
 * mark.  The mailbox's mutex protects that decision (zk_mailbox_end_hold()).
 * (S277, S322)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "utils/resowner.h"

#include "zklock.h"
#include "deed.h"
#include "held.h"
#include "lock_table.h"
#include "session.h"
#include "verdict.h"
#include "xact.h"

/* Settings; see zklock.c for what they mean. */
int			zklock_commit_guard = GUARD_LEASE;
bool		zklock_release_at_exit = true;

/*
 * The guard has let a commit pass that is not over.  The handler of the loss
 * signal cancels nothing now, least of all the wait for a synchronous standby.
 */
volatile sig_atomic_t zklock_committing = false;

/* A (sub)transaction that has ended, whose own locks are not yet released. */
typedef enum Ending
{
	ENDING_NOTHING,
	ENDING_IN_COMMIT,
	ENDING_OTHERWISE,			/* rolled back, or prepared */
	ENDING_SUBTRANSACTION		/* rolled back */
} Ending;

static Ending ending = ENDING_NOTHING;

/* The first and the last registered argument of xact_callback(). */
static uintptr_t first_registration = 1;
static uintptr_t last_registration = 0;

/* Tells the client that a commit is under way (J11).  Cannot fail. */
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
 * Refuses the commit with ZKL01 if the transaction is doomed or a lock was
 * lost.  Waits for proofs if a lease has run out or the setting asks for it.
 */
static void
judge(void)
{
	ZkTime		asked = 0;

	if (zklock_verdict_conduct() == CONDUCT_DOOMED)
		zklock_report_doom();
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		if (zklock_lock_assure(lock, ZKLOCK_FOREVER,
							   zklock_commit_guard == GUARD_QUORUM ?
							   &asked : NULL) == HOLD_LOST)
			zklock_report_lost(lock);
}

/*
 * Warns of locks lost while a command ran that has taken effect and is about to
 * commit for the last time.  Nothing may end it any more.
 */
static void
warn_of_losses(void)
{
	HOLD_INTERRUPTS();
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
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

/* The veto, before the commit record is written. */
static void
guard_commit(void)
{
	Conduct		conduct = zklock_verdict_conduct();

	keep_locks(zklock_lock_total() > 0);
	if (zklock_verdict_idle())
		zklock_log_lost();
	else if (zklock_commit_guard != GUARD_OFF)
	{
		if (conduct != CONDUCT_EFFECTIVE && conduct != CONDUCT_HARMLESS)
			judge();
		else if (conduct == CONDUCT_EFFECTIVE &&
				 zklock_verdict_statement() == DEED_NONE)
			warn_of_losses();
	}
	zklock_committing = true;
}

/*
 * The veto before a command that takes effect before its commit, commits more
 * than once, or acts outside of the database; for the former two it is final.
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
 * Refuses to acquire these locks if something other than their loss forbids the
 * transaction's commit.  Throws ZKL01.  Asks no server.
 */
void
zklock_guard_transaction(const LockName *names, int count)
{
	if (zklock_commit_guard == GUARD_OFF)
		return;
	if (zklock_verdict_conduct() == CONDUCT_DOOMED)
		zklock_report_doom();
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
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

/* Refuses to prepare a transaction that has locks, or begins or ends a job. */
static void
refuse_prepare(void)
{
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
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
 * The transaction callback.
 *
 * event			action								may it throw
 * PRE_COMMIT		commit guard						yes: this is the veto
 * PRE_PREPARE		refuse with transaction-scope		yes
 * 				locks, else commit guard
 * COMMIT			note it; the rest is for			no: it would be PANIC
 * 				release_callback()
 * ABORT, PREPARE	the same							no
 * PARALLEL_*		nothing: workers cannot lock
 *
 * Of several registrations, see zklock_xact_go_first(), the last one counts,
 * which is called first.
 *
 * It does nothing when the process exits, as the ZooKeeper session is closed
 * next; and it must not: a background worker with the default handler of
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
		default:
			break;				/* of a parallel worker */
	}
}

/* Lets go of the locks of a subtransaction that is rolled back. */
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

/* The subtransaction callback.  It throws nothing; for the exit see above. */
static void
subxact_callback(SubXactEvent event, SubTransactionId my_subid,
				 SubTransactionId parent_subid, void *arg)
{
	(void) my_subid;
	(void) parent_subid;
	(void) arg;
	if (zklock_lock_total() == 0 || proc_exit_inprogress)
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		zklock_locks_pass_level_up(GetCurrentTransactionNestLevel());
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		let_go(GetCurrentTransactionNestLevel());
		ending = ENDING_SUBTRANSACTION;
	}
}

/*
 * The callback for the release of resources.  After the end of a
 * (sub)transaction, the first call of this phase for its owner finds all of
 * PostgreSQL's locks released: ours follow.  It throws nothing.
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
	if (what == ENDING_SUBTRANSACTION)
	{
		zklock_locks_drop_levels(GetCurrentTransactionNestLevel());
		return;
	}
	if (what == ENDING_IN_COMMIT)
		for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
			zklock_lock_commit_job(lock);
	zklock_locks_drop_levels(1);
	if (what == ENDING_IN_COMMIT)
		for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
			zklock_lock_renew_note(lock);
	zklock_verdict_reset();
	keep_locks(false);
}

/*
 * Exit callback, after the abort: the holds of the session end.  But with
 * zklock.release_at_exit = off, locks that were not released outlast it.
 */
static void
leave_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		zklock_lock_count_holds(lock);
	if (!zklock_release_at_exit && !zklock_table_idle())
		zklock_session_leave();
}

/*
 * Registers the callbacks, once in a backend, before the lock table is used.
 * After an error the next call finishes the work, maybe with a harmless second
 * registration.
 */
void
zklock_xact_watch(void)
{
	static bool registered = false;

	if (registered)
		return;
	RegisterResourceReleaseCallback(release_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
	on_shmem_exit(leave_at_exit, 0);
	zklock_xact_go_first(true);
	registered = true;
}

/*
 * Makes our transaction callback the first again, before those registered
 * since.  Removes our older ones if safe: no callbacks are being called, one of
 * which may be the next.  An error leaves us registered.
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
