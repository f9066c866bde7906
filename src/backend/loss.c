/*-------------------------------------------------------------------------
 *
 * loss.c
 *	  What the loss of a lock does to the current statement.
 *
 * "One loss" in src/README has the course of events.  PostgreSQL's own cancel
 * ends the statement, where that is safe; only an exception block for
 * query_canceled catches it, with a message that names the lock.
 *
 * L6. The cancel ends only the statement that runs when the loss becomes
 * known.  Mailbox.losses counts the losses not yet dealt with (by release or
 * abandonment); the handler acts only if there is one, and while a statement
 * runs.  A cancel that did not happen is taken back when the statement ends.
 * A loss that becomes known between two parts of one message (parsing,
 * planning, execution) counts in the next part; one that becomes known while
 * the backend is idle ends nothing.  (The hooks exist once the library is
 * loaded.  If its first use in a session is inside a PL/pgSQL function, the
 * "outermost" statement is that inner one, for once.
 * session_preload_libraries helps.) (S330)
 *
 * L7. No commit is disturbed once the guard has let it pass
 * (zklock_committing): it cannot be undone, and should not stop waiting for a
 * synchronous standby.  (S26)
 *
 * The handler, too, runs on the backend's thread.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/sinval.h"
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

/* The depth of nested statements. */
static volatile sig_atomic_t statements = 0;

/* A cancel was requested for a loss, and has not ended a statement. */
static volatile sig_atomic_t cancelling = false;

/*
 * The loss that ended the statement, as it was when that began: on the way out,
 * the rollback of a subtransaction may release the lock.
 */
static LostLock cause;

/*
 * When a loss became known for which no statement was cancelled; 0 for none.
 * Written by the handler, which interrupts only its reader.
 */
static volatile TimestampTz noted_at = 0;

/* Asks for a cancel of the current statement. */
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
	if (statements == 0 && MyBackendType == B_BACKEND)
		catchupInterruptPending = true; /* see Y7 */
	SetLatch(MyLatch);
	errno = save_errno;
}

/* Returns the lock that the cancel was for; NULL if it was released since. */
static Lock *
find_loss(void)
{
	Lock	   *found = NULL;

	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
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

/* For ereport: a job has exceeded its max_runtime. */
static int
errmsg_overtime(const char *path, const LossNote *loss)
{
	errmsg("canceling statement because job \"%s\" exceeded its max_runtime",
		   path);
	zklock_errdetail_loss(loss);
	return errhint("The run is not done, and another session may begin it again.");
}

/*
 * Error context callback: makes the cancel name the lock, but not the client
 * that broke it, which may need a look-up.  Its SQLSTATE stays.
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
	zklock_note_lost(&cause, lock, &lock->loss);
	if (lock->loss.by == ZK_LOST_OVERTIME)
		(void) errmsg_overtime(lock->path, &lock->loss);
	else if (lock->permits > 0)
		errmsg("canceling statement because semaphore \"%s\" was lost", lock->path);
	else
		errmsg("canceling statement because lock \"%s\" was lost", lock->path);
}

/* Reports a job that has exceeded its max_runtime.  Throws 57014. */
pg_noreturn static void
report_overtime(const char *path, const LossNote *loss)
{
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg_overtime(path, loss)));
}

/* Reports the lock that the cancel was for, unless it was released since. */
static void
report_loss(void)
{
	const Lock *lock = find_loss();

	if (lock == NULL)
		return;
	if (lock->loss.by == ZK_LOST_OVERTIME)
		report_overtime(lock->path, &lock->loss);
	zklock_report_lost(lock);
}

/* The same when it was released since.  Throws 57014 or ZKL01. */
pg_noreturn static void
report_cause(void)
{
	if (cause.path[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_ZK_LOCK_LOST),
				 errmsg("a lock was lost"),
				 errdetail("It has since been released.")));
	if (cause.loss.by == ZK_LOST_OVERTIME)
		report_overtime(cause.path, &cause.loss);
	zklock_report_note(&cause);
}

/*
 * A statement begins, maybe within another, in PG_TRY(), whose end removes our
 * error context. zklock_statement_failed() or zklock_statement_end() follows.
 * Throws 57014 if a lock was lost since the client sent it, and it can be
 * refused.
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
		cause.path[0] = '\0';
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
 * Returns true if the client's statement itself calls the current function, and
 * is a transaction of its own.  SPI, through which other functions call it,
 * knows whether it is connected. (Those in SQL run statements, or are inlined.)
 */
bool
zklock_statement_alone(void)
{
	return statements == 1 && !IsTransactionBlock() &&
		SPI_unregister_relation("zklock") == SPI_ERROR_UNCONNECTED;
}

/* Returns true if the client's query is nothing but a call of that function. */
bool
zklock_statement_is_call(Oid function)
{
	const Plan *plan;
	const Expr *result;

	if (!zklock_statement_alone() || ActivePortal == NULL ||
		list_length(ActivePortal->stmts) != 1)
		return false;
	plan = linitial_node(PlannedStmt, ActivePortal->stmts)->planTree;
	if (plan == NULL || !IsA(plan, Result) || plan->lefttree != NULL ||
		((const Result *) plan)->resconstantqual != NULL ||
		list_length(plan->targetlist) != 1)
		return false;
	result = linitial_node(TargetEntry, plan->targetlist)->expr;
	return IsA(result, FuncExpr) && ((const FuncExpr *) result)->funcid == function;
}

/*
 * The statement has ended: reports revocations, and makes our callback the
 * first one again.  Throws ZKL01 if it is the outermost one and was to be
 * cancelled, unless it has taken effect.
 */
void
zklock_statement_end(void)
{
	Deed		deed;

	if (zklock_lock_total() > 0 ||
		zklock_verdict_conduct() == CONDUCT_DOOMED)
		zklock_xact_go_first(statements > 1 || ActivePortal != NULL);
	statements--;
	HOLD_INTERRUPTS();
	zklock_report_revoked();
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
 * The statement has failed; called in PG_CATCH(), with the memory context from
 * before.  At the outermost one, throws ZKL01 in place of the cancel for a
 * loss, or 57014 with the name of a job that exceeded its max_runtime.
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
	report_cause();
}
