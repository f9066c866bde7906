/*-------------------------------------------------------------------------
 *
 * verdict.c
 *	  What stands against the commit of the current transaction.
 *
 * A transaction that relied on a lock has no effect once another client may
 * hold it.  xact.c vetoes its commit, by what is known here; deed.c knows what
 * statements do.  Y2 is in xact.c, Y5 and Y6 are in deed.c.
 *
 * Y1. The point of no return of a transaction is its commit record; the veto
 * comes before that, in XACT_EVENT_PRE_COMMIT (L5).  Commands that take effect
 * before their commit, or commit more than once, cannot run in a transaction
 * block.  They are judged before they begin, by the same rule, in the hook for
 * utility commands.  From then on they are not refused, nor are their commits
 * in between: half a concurrent index build is worse than a whole one.  If a
 * lock was lost in the meantime, a WARNING says so before the last commit.
 * Commands that act in one stroke are not cancelled for a loss, either
 * (DEED_AT_ONCE); those that work in steps are, with on_lock_loss = cancel,
 * and leave what a manual cancel would: an invalid index, a partition being
 * detached.  The next commit is refused as usual. (S202, S203)
 *
 * Y3. A loss belongs to every transaction in which it happened: such a
 * transaction is doomed until its top level ends.  Anything that makes the
 * lock table let go of a lock that was lost, or cannot be proved to be held
 * (tap/033_clocks), dooms the transaction (zklock_lock_let_go()): a release,
 * zk_session_close(), zk_job_end(), a rollback to before its acquisition.  It
 * clears the loss for later transactions.  A doomed transaction acquires
 * nothing, as a session-scope lock would be held although the call has failed;
 * nor does one whose commit will fail for the loss of another lock.  (S207)
 *
 * Y4. What a transaction has done decides whether it may have relied on a lock:
 *
 *    unknown     nothing that the hooks have seen (Y6).  A loss found now
 *                existed before, and clearing it clears it for this
 *                transaction, too.
 *    harmless    has only released locks, looked at them, or set something.
 *                The same, and its commit is not judged: a release has to
 *                succeed whatever other locks were lost.
 *    work        anything else, or has a transaction ID, as PREPARE TRANSACTION
 *                gives to any transaction.  A loss dooms it.
 *    doomed      its commit is refused.
 *    effective   Y1: its commit is not refused any more.
 *
 * A query is harmless if it only calls functions of this extension that
 * release or look, and functions of PostgreSQL's that are not volatile; calls
 * of those that acquire are work from their end on.  So a lock lost while the
 * backend was idle can be acquired again by a statement that does nothing
 * else, but not by a function or a DO block, which may do anything.
 *
 * Y7. While a session is idle, PostgreSQL runs transactions of its own in it,
 * for invalidations and for LISTEN.  They rest on no lock, and an error in one
 * would end the connection ("protocol synchronization was lost"), so they are
 * not judged.  A loss asks for such a transaction, which writes the loss to the
 * server log at once, unless a transaction block is open. (S407)
 *
 * Nothing here allocates, waits or can fail, except the reports.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/tcopprot.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "deed.h"
#include "lock_table.h"
#include "owner.h"
#include "verdict.h"

static Conduct conduct = CONDUCT_UNKNOWN;

/* The deed of the outermost statement, or of an EXECUTE's query. */
static Deed statement = DEED_NONE;

/* For the handler of the loss signal: do not cancel the current statement. */
volatile sig_atomic_t zklock_shielded = false;

/* What doomed the transaction. */
static LostLock doom;

/* Returns what the transaction has done; a transaction ID shows writes. */
Conduct
zklock_verdict_conduct(void)
{
	return conduct < CONDUCT_WORK &&
		TransactionIdIsValid(GetTopTransactionIdIfAny()) ? CONDUCT_WORK : conduct;
}

/*
 * Returns true if the current transaction is PostgreSQL's own, in a session
 * that is idle (Y7): the hooks have seen nothing of it, and neither a query nor
 * a function call (Y6) is at work.
 */
bool
zklock_verdict_idle(void)
{
	return MyBackendType == B_BACKEND && debug_query_string == NULL &&
		zklock_verdict_conduct() == CONDUCT_UNKNOWN;
}

/* Returns the deed of the outermost statement. */
Deed
zklock_verdict_statement(void)
{
	return statement;
}

/* Notes that the transaction does something that may rest on its locks. */
void
zklock_verdict_work(void)
{
	if (conduct == CONDUCT_UNKNOWN || conduct == CONDUCT_HARMLESS)
		conduct = CONDUCT_WORK;
}

/* A statement begins.  Within another one, that one's deed counts. */
void
zklock_verdict_begin(Deed deed)
{
	if (statement > DEED_FRAME)
		return;
	statement = deed;
	zklock_shielded = deed <= DEED_HARMLESS;
	if (deed == DEED_FRAME)
		return;
	if (conduct == CONDUCT_EFFECTIVE)
		conduct = CONDUCT_WORK;
	if (deed >= DEED_WORK || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		zklock_verdict_work();
	else if (deed == DEED_HARMLESS && conduct == CONDUCT_UNKNOWN)
		conduct = CONDUCT_HARMLESS;
}

/* A function is called without a statement (Y6). */
void
zklock_verdict_call(Deed deed)
{
	if (statement != DEED_NONE)
		return;
	zklock_verdict_begin(deed);
	(void) zklock_verdict_end();
}

/* A command that takes effect by itself begins (Y1). */
void
zklock_verdict_take_effect(Deed deed)
{
	conduct = CONDUCT_EFFECTIVE;
	zklock_shielded = deed == DEED_AT_ONCE;
}

/* The outermost statement has ended.  Returns its deed. */
Deed
zklock_verdict_end(void)
{
	Deed		deed = statement;

	if (deed == DEED_LOCKING)
		zklock_verdict_work();
	statement = DEED_NONE;
	zklock_shielded = false;
	return deed;
}

/* Notes how a lock was lost. */
void
zklock_note_lost(LostLock *lost, const Lock *lock, const LossNote *loss)
{
	lost->semaphore = lock->permits > 0;
	strlcpy(lost->path, lock->path, sizeof(lost->path));
	lost->loss = *loss;
}

/* A lost lock is let go: dooms the transaction if it may have relied on it. */
void
zklock_verdict_doom(const Lock *lock, const LossNote *loss)
{
	if (zklock_verdict_conduct() != CONDUCT_WORK)
		return;
	conduct = CONDUCT_DOOMED;
	zklock_note_lost(&doom, lock, loss);
}

/* The transaction is over; a statement that continues may do anything. */
void
zklock_verdict_reset(void)
{
	if (conduct == CONDUCT_EFFECTIVE && statement != DEED_NONE)
		return;
	conduct = statement >= DEED_WORK ? CONDUCT_WORK : CONDUCT_UNKNOWN;
}

/* Describes a loss: what the current user may see, or all of it.  Palloc'd. */
static char *
describe_loss(const LossNote *loss, bool all)
{
	const char *why = loss->breaker[0] == '\0' ? loss->why :
	zklock_broken_sentence(loss->breaker, all);

	if (loss->name[0] == '\0')
		return psprintf("%s It was lost at %s.", why,
						timestamptz_to_str(loss->at));
	if (!all)
		return psprintf("%s It had token %lld and was lost at %s.", why,
						(long long) loss->token, timestamptz_to_str(loss->at));
	return psprintf("%s It had token %lld and was lost at %s. Its contender was \"%s\".",
					why, (long long) loss->token, timestamptz_to_str(loss->at),
					loss->name);
}

/* For ereport: the DETAIL about the loss of a lock. */
int
zklock_errdetail_loss(const LossNote *loss)
{
	errdetail("%s", describe_loss(loss, false));
	return errdetail_log("%s", describe_loss(loss, true));
}

/* Reports a lock that was lost in this transaction.  Throws ZKL01. */
void
zklock_report_note(const LostLock *lost)
{
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 lost->semaphore ?
			 errmsg("semaphore \"%s\" was lost in this transaction", lost->path) :
			 errmsg("lock \"%s\" was lost in this transaction", lost->path),
			 zklock_errdetail_loss(&lost->loss),
			 errhint("Roll back the transaction.")));
}

/* Reports what doomed the transaction.  Throws ZKL01. */
void
zklock_report_doom(void)
{
	zklock_report_note(&doom);
}
