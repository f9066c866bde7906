/*-------------------------------------------------------------------------
 *
 * preconnect.c
 *	  Connect to ZooKeeper before the first lock.
 *
 * With zklock.preconnect the connection to the ensemble is requested as early
 * as possible, with a time limit (zk_client_connect()), and not waited for.
 * Errors are logged: a call that needs the connection will report them.  The
 * session stays as after a release, until zk_session_close(), or until the
 * connection is lost and not needed.
 *
 * B1. It is begun once each time the setting is turned on, by a flag, which is
 * all that statements look at otherwise.  The assign hook distinguishes turning
 * it on from assigning the same value, so that RESET ALL and a reload do not
 * undo zk_session_close().
 *
 * B2. It needs a transaction, as the catalogs say whether the role may lock.
 * So it happens at the end of module load while the backend starts
 * (InitPostgres() has applied the settings of role and database; before
 * PostgreSQL 15 libraries were loaded after its commit), and in the hooks of
 * statements.  ClientAuthentication_hook comes earlier, but does not know the
 * database.
 *
 * B3. An error ends in the server log.  It happens in a subtransaction, with
 * interrupts held off: nothing waits there, and a cancel must not be taken for
 * such an error.  The log gets no statement, which is unrelated and may set a
 * password.
 *
 * B4. A connection that is not used is given up: after the time limit, or at a
 * definite error.  Otherwise all idle backends would keep trying in an outage,
 * unlike those that have had a lock.
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
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "zklock.h"
#include "lock_table.h"
#include "preconnect.h"
#include "session.h"

/* Setting; see zklock.c for what it means. */
bool		zklock_preconnect = false;

/*
 * The setting was turned on, and nothing begun yet.  Tested with each
 * statement.
 */
bool		zklock_preconnect_due = false;

/* The functions that need a ZooKeeper session. */
static const char *const lock_functions[] = {
	"zk_lock_acquire",
	"zk_lock_acquire_xact",
	"zk_lock_wait",
	"zk_semaphore_acquire",
	"zk_semaphore_acquire_xact",
	"zk_semaphore_wait",
	"zk_job_begin",
	"zk_job_begin_xact",
	"zk_job_wait"
};

/* GUC assign hook (B1). */
void
zklock_assign_preconnect(bool newval, void *extra)
{
	(void) extra;
	zklock_preconnect_due = newval &&
		(zklock_preconnect_due || !zklock_preconnect);
}

/* Returns true if the role may call such a function in C (a superuser's). */
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

/* Returns true if the current role may lock anything in this database. */
static bool
may_lock(void)
{
	for (size_t i = 0; i < lengthof(lock_functions); i++)
		if (may_call(lock_functions[i]))
			return true;
	return false;
}

/* Logs an error, without the statement (B3). */
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

/* Connects if the role may lock, and logs errors (B3). */
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
		{
			zklock_session_open(zklock_table_idle());
			zk_client_connect(zklock_client, zklock_connect_timeout);
		}
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

/* Begins, if this is the time and the process.  Throws nothing. */
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

/* The library is loaded: begins if the backend is starting (B2). */
void
zklock_preconnect_loaded(void)
{
	if (zklock_preconnect_due && !process_shared_preload_libraries_in_progress &&
		IsInitProcessingMode())
		zklock_preconnect_begin();
}
