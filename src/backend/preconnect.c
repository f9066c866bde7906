/*-------------------------------------------------------------------------
 *
 * preconnect.c
 *	  Open a ZooKeeper session ahead of the first lock.
 *
 * Who connects to the database to lock something waits for two connections, one
 * after the other: this one's, and then, with the first lock, that to the
 * ensemble.  With zklock.preconnect the second one is begun as early as can be,
 * and not waited for, so that the first lock finds it there or on its way.
 *
 * With session_preload_libraries that is at the end of module load; a library
 * that is loaded by the postmaster has no place before the first statement
 * where it could ask the catalogs.  What is wrong is told to the server log:
 * nobody has asked for anything yet, and who does is told by that call.
 *
 * From then on the session is what it is after a lock was released: it stays
 * until zk_session_close(), or until the connection is lost and nobody needs
 * another one.
 *
 * A client connects when something is asked for (zk_ensemble_needed(),
 * protocol.c).  Here the backend asks for a session as such
 * (zk_client_connect()), with a time limit, and goes on; the rest is the
 * helper's business.
 *
 * B1. It is begun once for each time that the setting is turned on, and the
 * flag that says so is all that statements look at otherwise.  The assign hook
 * tells turning on from assigning the same value again, so that RESET ALL and a
 * reload do not undo zk_session_close().
 *
 * B2. The places are those where extension code runs in a transaction: the end
 * of module load while the backend starts (InitPostgres() has applied the
 * settings of role and database by then, and commits after it; before
 * PostgreSQL 15 libraries were loaded after that), and the hooks of statements.
 * A transaction it has to be, as the catalogs tell whether the role may lock,
 * and superuser() reads them, too.  ClientAuthentication_hook is earlier, but
 * there the database is not known yet.
 *
 * B3. An error ends in the server log.  It happens in a subtransaction, with
 * interrupts held off: nothing waits there, and a cancel must not be taken for
 * such an error.  The log gets no statement, as the one that runs is not to
 * blame, and may be the one that sets a password.
 *
 * B4. A wish that nobody uses ends: with the time limit, or with a definite
 * error, as that is for who asks for a lock to be told.  Else in an outage all
 * idle backends would knock all the time, where those that have had a lock do
 * not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "utils/acl.h"
#include "utils/catcache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "zklock.h"
#include "lock_table.h"
#include "preconnect.h"
#include "session.h"

/* Setting; see zklock.c for what it means. */
bool		zklock_preconnect = false;

/*
 * The setting was turned on, and nothing has come of that yet.  Tested with
 * each statement.
 */
bool		zklock_preconnect_due = false;

/* The functions that take what only a ZooKeeper session can give. */
static const char *const lock_functions[] = {
	"zk_lock_acquire",
	"zk_lock_acquire_xact",
	"zk_semaphore_acquire",
	"zk_semaphore_acquire_xact",
	"zk_job_begin"
};

/*
 * GUC assign hook.  A value that is assigned again (RESET ALL, a reload) is no
 * reason to begin again: the session may have been closed on purpose.
 */
void
zklock_assign_preconnect(bool newval, void *extra)
{
	(void) extra;
	zklock_preconnect_due = newval &&
		(zklock_preconnect_due || !zklock_preconnect);
}

/*
 * Is there a function of that name that the current role may call?  One in C,
 * which only a superuser can have made: a namesake of somebody's is not ours.
 * Needs a transaction.
 */
static bool
may_call(const char *name)
{
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP,
										   CStringGetDatum(name));
	Oid			role = GetUserId();
	bool		found = false;

	for (int i = 0; i < list->n_members && !found; i++)
	{
		Form_pg_proc function =
		(Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		found = function->prolang == ClanguageId &&
			object_aclcheck(NamespaceRelationId, function->pronamespace, role,
							ACL_USAGE) == ACLCHECK_OK &&
			object_aclcheck(ProcedureRelationId, function->oid, role,
							ACL_EXECUTE) == ACLCHECK_OK;
	}
	ReleaseSysCacheList(list);
	return found;
}

/*
 * May the current role lock anything, in this database?  Not where the
 * extension is not installed.
 */
static bool
may_lock(void)
{
	for (size_t i = 0; i < lengthof(lock_functions); i++)
		if (may_call(lock_functions[i]))
			return true;
	return false;
}

/* Have the client, and have it connect.  Throws as zklock_session_open(). */
static void
connect_ahead(void)
{
	zklock_session_open(zklock_table_idle());
	zk_client_connect(zklock_client, zklock_connect_timeout);
}

/*
 * Write into the server log why there is no session.  Without the statement
 * that happens to run, which has nothing to do with it and may have a password
 * in it.
 */
static void
log_failure(const ErrorData *error)
{
	const char *detail = error->detail_log != NULL ? error->detail_log :
	error->detail;

	ereport(LOG_SERVER_ONLY,
			(errcode(error->sqlerrcode),
			 errmsg("could not preconnect to ZooKeeper: %s",
					error->message),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 error->hint != NULL ? errhint("%s", error->hint) : 0,
			 errhidestmt(true), errhidecontext(true)));
}

/*
 * Do that, if the role may lock; in a subtransaction, so that an error can be
 * left behind.  No interrupt is served meanwhile, for a cancel is not to be
 * left behind with it; nothing here waits.
 */
static void
try_to_connect(void)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *error;

	BeginInternalSubTransaction(NULL);
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		if (may_lock())
			connect_ahead();
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		RESUME_INTERRUPTS();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		log_failure(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
}

/*
 * It is due: begin, unless this cannot be the time, or the process.  It is not
 * where no servers are set: they may be yet.  And it is for client backends
 * only, as workers do one thing each, and parallel ones have the settings of
 * their leader.
 *
 * Never throws for want of a session.
 */
void
zklock_preconnect_begin(void)
{
	if (MyBackendType != B_BACKEND)
	{
		zklock_preconnect_due = false;
		return;
	}
	if (zklock_servers[0] == '\0' || !OidIsValid(MyDatabaseId) ||
		!IsTransactionState() || IsInParallelMode())
		return;
	zklock_preconnect_due = false;
	try_to_connect();
}

/*
 * The library is loaded.  If that is while the backend starts, which is in a
 * transaction from PostgreSQL 15 on, there is nothing to wait for; a statement
 * that runs is left alone.
 */
void
zklock_preconnect_loaded(void)
{
	if (zklock_preconnect_due && !process_shared_preload_libraries_in_progress &&
		IsInitProcessingMode())
		zklock_preconnect_begin();
}
