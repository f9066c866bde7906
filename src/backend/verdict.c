/*-------------------------------------------------------------------------
 *
 * verdict.c
 *	  What stands against the commit of the transaction that runs.
 *
 * A transaction that relied on a lock has no effect once another client may
 * hold it.  xact.c vetoes it; here we know what stands against its commit;
 * deed.c knows what its statements do.  Y2 is in xact.c, Y5 and Y6 are in
 * deed.c.
 *
 * Y1. The point of no return of a transaction is its commit record, and the
 * veto comes before that, in XACT_EVENT_PRE_COMMIT (L5).  Commands that take
 * effect before their commit, or commit more than once, cannot run in a
 * transaction block.  They are judged before they begin, in the hook for
 * utility commands, and by the same rule.  From then on they are not refused,
 * nor is what they commit in between: half a concurrent index build is worse
 * than a whole one.  If a lock was lost meanwhile a WARNING says so, before the
 * last commit.  Those that do their work with one stroke are not cancelled for
 * a loss, either (DEED_AT_ONCE); those that work in steps are, with
 * on_lock_loss = cancel, as if somebody had cancelled them by hand, and may
 * leave what that leaves: an invalid index, a partition that is being detached.
 * The next commit is refused as ever. (S202, S203)
 *
 * Y3. A loss belongs to every transaction in which it happened.  Such a
 * transaction is doomed until its top level ends.  Whatever makes the lock
 * table let go of a lock that was lost, or that cannot be proved to be held at
 * this moment (tap/033_clocks), dooms the transaction
 * (zklock_lock_let_go()): a release, zk_session_close(), zk_job_end(), a
 * rollback to before it was acquired.  It clears the loss for later
 * transactions.  In a doomed transaction nothing is acquired, for what is of
 * session scope would be held although the call has failed; nor is anything
 * where the commit will fail for the loss of another lock. (S207)
 *
 * Y4. What a transaction has done decides whether it may have relied on a lock:
 *
 *    unknown     nothing that the hooks have seen (Y6).  A loss that is found
 *                now was there before, and clearing it clears it for this
 *                transaction, too.
 *    harmless    has only given back locks, looked at them, or set something.
 *                Likewise, and its commit is not judged: a release has to
 *                succeed whatever other locks were lost.
 *    work        anything else, or has a transaction ID.  A loss dooms it.
 *    doomed      its commit is refused.
 *    effective   Y1: its commit is not refused any more.
 *
 * A query is harmless if all that it calls are functions of this extension that
 * give back or look, and functions of PostgreSQL's that are not volatile; calls
 * of those that acquire are work from their end on.  So a lock that was lost
 * while the backend was idle can be acquired anew by a statement that does
 * nothing else, and not by a function or a DO block around it, of which
 * anything can be expected.
 *
 * Nothing here allocates, waits or can fail, but for the reports.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "deed.h"
#include "lock_table.h"
#include "owner.h"
#include "verdict.h"

/* What the transaction that runs has done. */
typedef enum Conduct
{
	CONDUCT_UNKNOWN,			/* nothing that we have seen */
	CONDUCT_HARMLESS,			/* released and looked, and nothing else */
	CONDUCT_WORK,				/* something that may rest on its locks */
	CONDUCT_DOOMED,				/* that, and it lost one of them */
	CONDUCT_EFFECTIVE			/* a command that took effect by itself */
} Conduct;

static Conduct conduct = CONDUCT_UNKNOWN;

/* What the outermost statement does, or an EXECUTE's in its place. */
static Deed statement = DEED_NONE;

/*
 * For the handler of the loss signal: the statement that runs is not to be
 * cancelled.
 */
volatile sig_atomic_t zklock_shielded = false;

/*
 * What doomed the transaction.  A path in the server's encoding has at most two
 * bytes for each that it has in UTF-8.
 */
static struct
{
	bool		semaphore;
	char		path[2 * ZK_NODE_PATH_SIZE];
	LossNote	loss;
}			doom;

/* Has the transaction written, or done anything else that may rest on a lock? */
bool
zklock_verdict_worked(void)
{
	return conduct == CONDUCT_WORK || conduct == CONDUCT_DOOMED ||
		TransactionIdIsValid(GetTopTransactionIdIfAny());
}

/*
 * Has it only done what is never refused?  If it has written, it has not,
 * whether we have seen that or not: workers of replication write without a
 * statement.
 */
bool
zklock_verdict_harmless(void)
{
	return conduct == CONDUCT_HARMLESS &&
		!TransactionIdIsValid(GetTopTransactionIdIfAny());
}

/* Is it doomed? */
bool
zklock_verdict_doomed(void)
{
	return conduct == CONDUCT_DOOMED;
}

/* Was it for a command that has taken effect by itself? */
bool
zklock_verdict_effective(void)
{
	return conduct == CONDUCT_EFFECTIVE;
}

/* The transaction does something that may rest on its locks. */
void
zklock_verdict_work(void)
{
	if (conduct == CONDUCT_UNKNOWN || conduct == CONDUCT_HARMLESS)
		conduct = CONDUCT_WORK;
}

/* Is what a statement that begins now does of any concern? */
bool
zklock_verdict_open(void)
{
	return statement <= DEED_FRAME;
}

/* Does a statement run? */
bool
zklock_verdict_in_statement(void)
{
	return statement != DEED_NONE;
}

/* A statement begins.  Within another one, that one's deed counts. */
void
zklock_verdict_begin(Deed deed)
{
	if (!zklock_verdict_open())
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

/*
 * A function is called without a statement around it, which is no concern
 * within one.  As its end is not seen, a call that acquires is work from its
 * beginning on.
 */
void
zklock_verdict_call(Deed deed)
{
	if (statement != DEED_NONE)
		return;
	zklock_verdict_begin(deed);
	(void) zklock_verdict_end();
}

/*
 * The command that begins takes effect by itself: from here on it is not
 * refused, nor cancelled if it does that at once.
 */
void
zklock_verdict_take_effect(Deed deed)
{
	conduct = CONDUCT_EFFECTIVE;
	zklock_shielded = deed == DEED_AT_ONCE;
}

/* The outermost statement has ended.  Returns what it did. */
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

/*
 * A lock that was lost goes from the transaction's hands.  If the transaction
 * may have relied on it, the transaction is doomed.
 */
void
zklock_verdict_doom(const Lock *lock, const LossNote *loss)
{
	if (conduct == CONDUCT_DOOMED || conduct == CONDUCT_EFFECTIVE ||
		!zklock_verdict_worked())
		return;
	conduct = CONDUCT_DOOMED;
	doom.semaphore = lock->permits > 0;
	strlcpy(doom.path, lock->path, sizeof(doom.path));
	doom.loss = *loss;
}

/*
 * The transaction is over.  What runs on is a command that commits in between,
 * or a procedure of which anything can be expected.
 */
void
zklock_verdict_reset(void)
{
	if (conduct == CONDUCT_EFFECTIVE && statement != DEED_NONE)
		return;
	conduct = statement >= DEED_WORK ? CONDUCT_WORK : CONDUCT_UNKNOWN;
}

/*
 * How a lock was lost: as far as the current user may see, or all of it.
 * Palloc'd.
 */
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

/* Report what doomed the transaction.  Throws ZKL01. */
void
zklock_report_doom(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 doom.semaphore ?
			 errmsg("semaphore \"%s\" was lost in this transaction", doom.path) :
			 errmsg("lock \"%s\" was lost in this transaction", doom.path),
			 zklock_errdetail_loss(&doom.loss),
			 errhint("Roll back the transaction.")));
}
