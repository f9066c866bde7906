/*-------------------------------------------------------------------------
 *
 * loss.c
 *	  What the loss of a lock does to the statement that runs.
 *
 * The lock client's threads know of a loss first, and may call nothing of
 * PostgreSQL's.  They send a signal, a real-time one of which PostgreSQL knows
 * nothing, to the backend's thread; its handler looks whether there is a loss
 * still, and asks for a cancel as the handler of SIGINT does.  What ends the
 * statement is thus PostgreSQL's own cancel, at the places where it is safe,
 * and no exception block catches it but one for query_canceled, whose message
 * says which lock was lost.  When its error has come up to the outermost
 * statement, it is replaced: the client is told more of that.
 *
 * L6. The cancel ends no statement but the one that runs when the loss becomes
 * known.  Mailbox.losses counts the losses that are not dealt with yet (by
 * release or abandonment); the handler acts only if there is one, and only
 * while a statement runs.  What it has asked for and did not happen is taken
 * back when the statement ends.  A loss that becomes known between two parts of
 * one message (parsing, planning, execution) is noted and counts in the next
 * part; one that becomes known when the backend is idle ends nothing.  (The
 * hooks are there from the moment the library is loaded.  Where the first use
 * in a database session is inside a PL/pgSQL function, its "outermost"
 * statement is that inner one, for once.  session_preload_libraries helps.)
 * (S330)
 *
 * L7. No commit is disturbed once the guard has let it pass
 * (zklock_committing): neither can it be undone, nor should it stop to wait for
 * a synchronous standby. (S26)
 *
 * Everything runs on the backend's thread, the handler too: all signals are
 * blocked in the client's threads.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "storage/latch.h"
#include "tcop/pquery.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "admin.h"
#include "deed.h"
#include "held.h"
#include "lock_table.h"
#include "loss.h"
#include "session.h"
#include "verdict.h"
#include "xact.h"

/* Setting; see zklock.c for what it means. */
int			zklock_on_lock_loss = LOSS_CANCEL;

/* Statements that run, one inside the other. */
static volatile sig_atomic_t statements = 0;

/* A cancel was asked for because of a loss, and has not ended a statement. */
static volatile sig_atomic_t cancelling = false;

/*
 * When a loss became known that no statement was cancelled for; 0 for none.
 * The handler writes it, and it interrupts nobody but its reader.
 */
static volatile TimestampTz noted_at = 0;

/* Ask for a cancel of the statement that runs. */
static void
ask_cancel(void)
{
	cancelling = true;
	InterruptPending = true;
	QueryCancelPending = true;
}

/* The handler of the loss signal. */
void
zklock_handle_loss(SIGNAL_ARGS)
{
	int			save_errno = errno;

	(void) postgres_signal_arg;
	if (zklock_client != NULL &&
		((zklock_on_lock_loss == LOSS_CANCEL &&
		  zk_client_lost_any(zklock_client)) ||
		 zk_client_overtime(zklock_client)))
	{
		if (statements > 0 && !zklock_committing && !zklock_shielded)
			ask_cancel();
		else
			noted_at = GetCurrentTimestamp();
	}
	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * The lock that the statement was cancelled for; NULL if there is none any
 * more: it was released since.  Cannot fail.
 */
static Lock *
find_loss(void)
{
	Lock	   *found = NULL;

	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
	{
		if (zklock_lock_judge(lock) != HOLD_LOST)
			continue;
		if (zklock_on_lock_loss == LOSS_CANCEL ||
			lock->loss.by == ZK_LOST_OVERTIME)
			return lock;
		if (found == NULL)
			found = lock;
	}
	return found;
}

/* For ereport: a job has run for longer than it may. */
static int
errmsg_overtime(const Lock *lock)
{
	errmsg("canceling statement because job \"%s\" exceeded its max_runtime",
		   lock->path);
	zklock_errdetail_loss(&lock->loss);
	return errhint("The run is not done, and another session may begin it again.");
}

/*
 * Error context callback: if the error is the cancel because of a loss, have it
 * say so.  Its SQLSTATE stays.  Who has broken the lock is not said, as that
 * may have to be looked up.
 */
static void
explain_cancel(void *arg)
{
	const Lock *lock;

	(void) arg;
	if (!cancelling || geterrcode() != ERRCODE_QUERY_CANCELED)
		return;
	lock = find_loss();
	if (lock == NULL)
		return;
	if (lock->loss.by == ZK_LOST_OVERTIME)
		(void) errmsg_overtime(lock);
	else if (lock->permits > 0)
		errmsg("canceling statement because semaphore \"%s\" was lost", lock->path);
	else
		errmsg("canceling statement because lock \"%s\" was lost", lock->path);
}

/*
 * Report the lock that the statement was cancelled for.  Throws 57014 if that
 * was lost by the end of the time for which a job may run, else ZKL01.  Returns
 * if there is none any more.
 */
static void
report_loss(void)
{
	const Lock *lock = find_loss();

	if (lock == NULL)
		return;
	if (lock->loss.by != ZK_LOST_OVERTIME)
		zklock_report_lost(lock);
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg_overtime(lock)));
}

/*
 * A statement begins, maybe within another; deed says what it does.  If it
 * fails from here on, zklock_statement_failed() is to be called, else
 * zklock_statement_end().  To be called within PG_TRY(), whose end takes our
 * error context away.  Throws 57014 if a lock was lost since the client sent
 * it, and it can be refused.
 */
void
zklock_statement_begin(Deed deed)
{
	static ErrorContextCallback context =
	{
		.callback = explain_cancel
	};
	TimestampTz noted;

	if (statements++ == 0)
	{
		context.previous = error_context_stack;
		error_context_stack = &context;
	}
	zklock_verdict_begin(deed);
	noted = noted_at;
	if (noted == 0)
		return;
	noted_at = 0;
	if (noted >= GetCurrentStatementStartTimestamp() && !zklock_shielded &&
		zklock_client != NULL && zk_client_lost_any(zklock_client))
	{
		ask_cancel();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Is the function that runs called by the client's statement itself, and not by
 * another function, and is that statement a transaction of its own?  SPI,
 * through which other functions call this one, knows whether anybody is
 * connected to it.  (Those in SQL run statements, or have become a part of this
 * one.)
 */
bool
zklock_statement_alone(void)
{
	return statements == 1 && !IsTransactionBlock() &&
		SPI_unregister_relation("zklock") == SPI_ERROR_UNCONNECTED;
}

/*
 * The statement has come to its end: a good time to tell the client who asks
 * for its locks, and to be the first again who is asked before a commit.
 * Throws ZKL01 if it was to be cancelled and it is the outermost one: the
 * client has not been told of its success.  But one that has taken effect is
 * let be.
 */
void
zklock_statement_end(void)
{
	Deed		deed;

	if (zklock_lock_total() > 0 || zklock_verdict_doomed())
		zklock_xact_go_first(statements > 1 || ActivePortal != NULL);
	statements--;
	HOLD_INTERRUPTS();
	zklock_tell_revoked();
	RESUME_INTERRUPTS();
	if (statements > 0)
		return;
	deed = zklock_verdict_end();
	if (!cancelling)
		return;
	cancelling = false;
	QueryCancelPending = false;
	if (deed < DEED_STEPS)
		report_loss();
}

/*
 * The statement has failed; to be called where the error was caught, with the
 * memory context from before.  If it is the cancel because of a loss, and this
 * is the outermost statement, throws ZKL01 in its place.
 */
void
zklock_statement_failed(MemoryContext context)
{
	statements--;
	if (statements > 0)
		return;
	(void) zklock_verdict_end();
	if (!cancelling)
		return;
	cancelling = false;
	QueryCancelPending = false;
	if (geterrcode() != ERRCODE_QUERY_CANCELED)
		return;
	MemoryContextSwitchTo(context);
	FlushErrorState();
	report_loss();
	ereport(ERROR,
			(errcode(ERRCODE_ZK_LOCK_LOST),
			 errmsg("a lock was lost"),
			 errdetail("It has since been released.")));
}
