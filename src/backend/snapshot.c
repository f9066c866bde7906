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
 * G1. At top level, the CALL's transaction has done nothing but take a snapshot
 * for the arguments.  It is committed in the way of SPI_commit(), and the wait
 * is another transaction's, which never has one.  It is not enough to give up
 * the snapshot: CREATE INDEX CONCURRENTLY notes the transactions that have one,
 * and waits for the end of each, whatever becomes of the snapshot
 * (WaitForOlderSnapshots(); a holder and a waiter deadlocked that way).  The
 * commit guard lets this commit pass: there is nothing to veto, and a lost lock
 * may be the one that is to be acquired again.  Behind another statement of a
 * pipeline the transaction is not the CALL's own: an error. (S283, S284)
 *
 * G2. Within a procedure the transaction goes on, with its locks of all kinds,
 * and every snapshot is given up: that of the portal, which PortalRunUtility()
 * has set, those of portals around it, the one that the portal holds for
 * results, and the catalogs'.  That is what COMMIT in a procedure does, so all
 * code around it can cope, and what the executor needs next it takes anew.  For
 * the moment before that, G1 is not met. (S281)
 *
 * G3. Whether that was all is told by MyProc->xmin, and not worked out.  If it
 * is still set, a cursor or the isolation level needs a snapshot, and the call
 * is an error.  So it is in an atomic context, where a query around it has one,
 * and with a transaction ID, which others would wait for. (S281, S282)
 *
 * G4. Looks into catalogs go on during the wait (names of roles, conversions).
 * They find the caches filled, as a rule; else each takes a catalog snapshot.
 * It is dropped whenever the backend goes to sleep (session_wait.c), as
 * PostgreSQL does before it waits for its client.
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
 * another one.  There is nothing for the commit guard to veto, and a lost lock
 * may be the one that is to be acquired again.  Throws what a commit throws.
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
 * For a procedure, whose fcinfo->context this is, that is about to wait: give
 * up every snapshot.  To be called with arguments evaluated and detoasted;
 * memory of the caller's context stays, and so does the transaction within a
 * procedure.  Throws 25001 if that cannot be done: in a transaction block or a
 * function, behind another statement of a pipeline, in a transaction that has
 * written, or if something else needs a snapshot (an open cursor, or the
 * isolation level); else what a commit throws.
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
		refuse("The transaction has already written.");
	if (top_level && (MyXactFlags & XACT_FLAGS_PIPELINING) != 0)
		refuse("The call follows another statement of the same transaction in a pipeline.");
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
