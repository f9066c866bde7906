/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  Wait without a snapshot.
 *
 * While a query waits with its snapshot, VACUUM cannot clean up, CREATE INDEX
 * CONCURRENTLY waits, and a standby delays replay or cancels the query.  Only
 * CALL, a utility statement, needs no snapshot once its arguments are
 * evaluated.
 *
 * G1. At top level, the CALL's transaction has only taken a snapshot for the
 * arguments.  It is committed as SPI_commit() does, and the wait happens in
 * another transaction, which never has one.  Giving up the snapshot is not
 * enough: CREATE INDEX CONCURRENTLY waits for the end of each transaction that
 * had one (WaitForOlderSnapshots(); a holder and a waiter deadlocked that way).
 * The commit guard lets this commit pass: there is nothing to veto, and a lost
 * lock may be the one to be acquired again.  Behind another statement of a
 * pipeline the transaction is not the CALL's own: an error. (S283, S284)
 *
 * G2. Within a procedure the transaction continues, with its locks of all
 * kinds, and every snapshot is given up: that of the portal, set by
 * PortalRunUtility(), those of portals around it, the one that the portal
 * holds for results, and the catalogs'.  COMMIT in a procedure does the same,
 * so the code around it copes, and the executor takes new ones.  For the
 * moment before, G1 is not met. (S281)
 *
 * G3. MyProc->xmin tells whether that was all.  If it is still set, a cursor
 * or the isolation level needs a snapshot, and the call is an error; as it is
 * in an atomic context, where a query around it has a snapshot, and with a
 * transaction ID, which others would wait for. (S281, S282)
 *
 * G4. Catalogs are read during the wait (names of roles, conversions).  As a
 * rule the caches have the answer; else a catalog snapshot is taken.  It is
 * dropped whenever the backend goes to sleep (session_wait.c), as PostgreSQL
 * does before it waits for its client.
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
#include "owner.h"
#include "snapshot.h"
#include "xact.h"

/* Reports why a call cannot wait without a snapshot.  Throws 25001. */
pg_noreturn static void
refuse(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("cannot wait for a lock without a snapshot here"),
			 errdetail_internal("%s", detail),
			 errhint("Call the procedure outside a transaction block, or in a procedure or DO block as the first statement or after COMMIT.")));
}

/* Commits the transaction of a statement at top level, begins another (G1). */
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

/* Drops all snapshots (G2).  A background worker may have no portal. */
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
 * Gives up every snapshot, for a procedure about to wait, with that
 * fcinfo->context; its arguments are evaluated and detoasted.  Memory of the
 * caller's context stays.  Throws 25001 if that is impossible.
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
