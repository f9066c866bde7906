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
 * What is given up here is what COMMIT in a procedure gives up (SPI_commit()),
 * but for the transaction: that goes on, with what it holds.  Only at top
 * level, under an isolation level at which a transaction keeps one snapshot to
 * its end, the transaction is committed and another one begins.  It has done
 * nothing.
 *
 * A look into a catalog during the wait takes a snapshot of its own kind, which
 * is dropped before the backend sleeps (doorbell.c).
 *
 * IDENTIFICATION
 *	  src/snapshot.c
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
 * another one.  Throws what a commit throws.
 */
static void
begin_another_transaction(void)
{
	(void) SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	SPI_start_transaction();	/* of use before 14.3 */
	(void) SPI_finish();
}

/*
 * Give up the snapshots that were set for the statement that runs, and for
 * procedures around it.
 */
static void
drop_portal_snapshots(void)
{
	ForgetPortalSnapshots();
	if (ActivePortal->holdSnapshot != NULL)
		UnregisterSnapshotFromOwner(ActivePortal->holdSnapshot,
									ActivePortal->resowner);
	ActivePortal->holdSnapshot = NULL;
	InvalidateCatalogSnapshot();
}

/*
 * For a procedure, whose fcinfo->context this is, that is about to wait: give up
 * every snapshot.  To be called with arguments evaluated and detoasted; memory
 * of the caller's context stays, and so does the transaction, except as said
 * above.  Throws 25001 if that cannot be done: in a transaction block or a
 * function, in a transaction that has written, or if something else needs a
 * snapshot (an open cursor, or the isolation level); else what a commit throws.
 */
void
zklock_snapshot_give_up(Node *context)
{
	MemoryContext caller = CurrentMemoryContext;

	if (context == NULL || !IsA(context, CallContext) ||
		castNode(CallContext, context)->atomic)
		refuse("The call is inside a transaction block, a function, or a block with an EXCEPTION clause.");
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		refuse("The transaction has written something.");
	if (IsolationUsesXactSnapshot() && !SPI_inside_nonatomic_context())
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
