/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  Waiting without a snapshot.
 *
 * A query has a snapshot until it ends.  While one waits for a lock, VACUUM
 * cannot clean up, CREATE INDEX CONCURRENTLY waits, and on a standby either
 * replay waits for the query, or the query is cancelled.  Only a procedure can
 * do without: its CALL is a utility statement, and whatever a snapshot was set
 * for it is not needed any more once its arguments are evaluated.
 *
 * At top level, the transaction has done nothing but evaluate the arguments.  It is
 * committed, and the wait is another one's, which never has a snapshot.  That
 * matters: who has found a transaction with a snapshot, as CREATE INDEX CONCURRENTLY
 * does, waits for the end of the transaction, even if the snapshot goes before.
 *
 * Within a procedure the transaction goes on, with what it holds, and only the
 * snapshots are given up that COMMIT gives up there (SPI_commit()).
 *
 * A look into a catalog during the wait would take a snapshot of its own kind, which
 * is dropped before the backend sleeps (session_wait.c).  What is looked for as a rule
 * is in the caches by then.
 *
 * IDENTIFICATION
 *	  src/backend/snapshot.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "storage/proc.h"
#include "tcop/pquery.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

#include "zklock.h"
#include "session.h"
#include "snapshot.h"
#include "xact.h"

/*
 * Report why a call cannot wait without a snapshot: detail, a sentence.  Throws
 * 25001.
 */
pg_noreturn static void
refuse(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("cannot wait for a lock without a snapshot here"),
			 errdetail_internal("%s", detail),
			 errhint("Call zk_lock_wait() outside a transaction block, or in a procedure or DO block as the first statement or after COMMIT.")));
}

/*
 * Commit the transaction, which is that of a statement at top level, and begin
 * another one.  There is nothing for the commit guard to veto, and a lost lock may
 * be the one that is to be acquired again.  Throws what a commit throws.
 */
static void
begin_another_transaction(void)
{
	int			guard = zklock_commit_guard;

	pfree(zklock_owner_data()); /* its look-ups are made here */
	(void) SPI_connect_ext(SPI_OPT_NONATOMIC);
	zklock_commit_guard = GUARD_OFF;
	PG_TRY();
	{
		SPI_commit();
		SPI_start_transaction();	/* of use before 14.3 */
	}
	PG_FINALLY();
	{
		zklock_commit_guard = guard;
	}
	PG_END_TRY();
	(void) SPI_finish();
}

/*
 * Give up the snapshots that were set for the statement that runs, and for
 * procedures around it.  A background worker may have no portal.
 */
static void
drop_portal_snapshots(void)
{
	ForgetPortalSnapshots();
	if (ActivePortal != NULL && ActivePortal->holdSnapshot != NULL)
	{
		UnregisterSnapshotFromOwner(ActivePortal->holdSnapshot,
									ActivePortal->resowner);
		ActivePortal->holdSnapshot = NULL;
	}
	InvalidateCatalogSnapshot();
}

/*
 * For a procedure, whose fcinfo->context this is, that is about to wait: give up
 * every snapshot.  To be called with arguments evaluated and detoasted; memory
 * of the caller's context stays, and so does the transaction within a procedure.
 * Throws 25001 if that cannot be done: in a transaction block or a function, behind
 * another statement of a pipeline, in a transaction that has written, or if something
 * else needs a snapshot (an open cursor, or the isolation level); else what a commit
 * throws.
 */
void
zklock_snapshot_give_up(Node *context)
{
	MemoryContext caller = CurrentMemoryContext;
	bool		top_level = !SPI_inside_nonatomic_context();

	if (context == NULL || !IsA(context, CallContext) ||
		castNode(CallContext, context)->atomic)
		refuse("The call is inside a transaction block, a function, or a block with an EXCEPTION clause.");
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		refuse("The transaction has written something.");
	if (top_level && (MyXactFlags & XACT_FLAGS_PIPELINING) != 0)
		refuse("The call follows another statement in a pipeline, which is of the same transaction.");
	if (top_level)
		begin_another_transaction();
	else
		drop_portal_snapshots();
	MemoryContextSwitchTo(caller);
	if (!TransactionIdIsValid(MyProc->xmin))
		return;
	if (IsolationUsesXactSnapshot())
		refuse("Under the isolation level of the transaction, its snapshot is kept until it ends.");
	refuse("A cursor, or a query that has not ended, needs a snapshot.");
}
