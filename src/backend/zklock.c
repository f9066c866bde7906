/*-------------------------------------------------------------------------
 *
 * zklock.c
 *	  Module entry: settings and hooks.
 *
 * zklock gives SQL the distributed locks of Apache ZooKeeper.  src/README has
 * the design, and the words: each has one meaning, in code, messages and
 * documentation.
 *
 * U1. The script of the first release, sql/zklock--1.0.sql, stays as it was
 * released.  What a later one changes is in a script for that step,
 * sql/zklock--A--B.sql, which stays, too: CREATE EXTENSION goes through all of
 * them, so each object is written down once.  A script for all of a version may
 * be added where that gets too long, and then has to make the same.
 * test/t/100_update.pl compares the catalogs.
 *
 * U2. A new module is there before ALTER EXTENSION UPDATE was called in each
 * database, and for who never calls it.  So a symbol stays for as long as a
 * script that names it, and a function that is to have other arguments or
 * another result gets a new symbol.  That test creates the oldest version with
 * the present module, which fails if a symbol is missing.
 *
 * U3. Shared memory is laid out by the postmaster's module, which all backends
 * then have: it is used with shared_preload_libraries only.  What is in
 * ZooKeeper is read by other versions, which may be older: what contenders say
 * about their owners is an object in which unknown keys mean nothing, and what
 * begins with an unknown word in a record is left alone (record.c).
 *
 * U4. Of what the extension keeps, the fences and the runs of jobs are the
 * database's, so they are dumped (F8, J5), and with pg_upgrade and a physical
 * copy they come along.  In logical replication what is applied does not pass a
 * fence: the transaction has passed that of the database where it was made, and
 * it is committed there, so there is nobody left to be fenced off.
 *
 * IDENTIFICATION
 *	  src/backend/zklock.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"

#include "zklock.h"
#include "acquire.h"
#include "auth_settings.h"
#include "deed.h"
#include "handover.h"
#include "loss.h"
#include "preconnect.h"
#include "release.h"
#include "session.h"
#include "stats.h"
#include "tls_settings.h"
#include "verdict.h"
#include "wait_slots.h"
#include "xact.h"
#include "zk_check.h"

PG_MODULE_MAGIC_EXT(.name = "zklock",.version = "1.0");

static const struct config_enum_entry commit_guard_options[] = {
	{"off", GUARD_OFF, false},
	{"session", GUARD_SESSION, false},
	{"quorum", GUARD_QUORUM, false},
	{NULL, 0, false}
};

static const struct config_enum_entry on_lock_loss_options[] = {
	{"cancel", LOSS_CANCEL, false},
	{"report", LOSS_REPORT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry znode_style_options[] = {
	{"curator", ZK_STYLE_CURATOR, false},
	{"curator_rw", ZK_STYLE_CURATOR_RW, false},
	{"kazoo", ZK_STYLE_KAZOO, false},
	{NULL, 0, false}
};

static ExecutorRun_hook_type previous_ExecutorRun = NULL;
static ExecutorFinish_hook_type previous_ExecutorFinish = NULL;
static ProcessUtility_hook_type previous_ProcessUtility = NULL;
static object_access_hook_type previous_object_access = NULL;
static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/*
 * GUC check hook: an absolute path that ZooKeeper accepts, with room for lock
 * paths below it.
 */
static bool
check_root(char **newval, void **extra, GucSource source)
{
	const char *wrong = zk_path_check(*newval, strlen(*newval));

	(void) extra;
	(void) source;
	if (wrong == NULL && strlen(*newval) >= ZK_NODE_PATH_SIZE / 2)
		wrong = "It is too long to leave room for lock paths.";
	if (wrong != NULL)
		GUC_check_errdetail("%s", wrong);
	return wrong == NULL;
}

/* GUC check hook: a list of servers, or empty for none. */
static bool
check_servers(char **newval, void **extra, GucSource source)
{
	char		wrong[ZK_DETAIL_SIZE] = "";

	(void) extra;
	(void) source;
	if ((*newval)[0] == '\0' || zk_servers_check(*newval, wrong))
		return true;
	GUC_check_errdetail("%s", wrong);
	return false;
}

/*
 * ExecutorRun hook: a statement runs that the loss of a lock can end.  It may
 * be the first one for which there is to be a ZooKeeper session.
 */
static void
zklock_ExecutorRun(QueryDesc *query, ScanDirection direction,
				   uint64 count EXECUTE_ONCE_PARAMETER)
{
	MemoryContext context = CurrentMemoryContext;
	Deed		deed;

	if (zklock_preconnect_due)
		zklock_preconnect_begin();
	deed = zklock_deed_of_plan(query->plannedstmt);
	PG_TRY();
	{
		zklock_statement_begin(deed);
		if (previous_ExecutorRun != NULL)
			previous_ExecutorRun(query, direction, count EXECUTE_ONCE_ARGUMENT);
		else
			standard_ExecutorRun(query, direction, count EXECUTE_ONCE_ARGUMENT);
	}
	PG_CATCH();
	{
		zklock_statement_failed(context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	zklock_statement_end();
}

/* ExecutorFinish hook: likewise, as it runs triggers. */
static void
zklock_ExecutorFinish(QueryDesc *query)
{
	MemoryContext context = CurrentMemoryContext;
	Deed		deed = zklock_deed_of_plan(query->plannedstmt);

	PG_TRY();
	{
		zklock_statement_begin(deed);
		if (previous_ExecutorFinish != NULL)
			previous_ExecutorFinish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_CATCH();
	{
		zklock_statement_failed(context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	zklock_statement_end();
}

/*
 * ProcessUtility hook: likewise.  A command that takes effect before its commit
 * is judged before it begins.  And DISCARD ALL releases session-scope locks, as
 * it does advisory locks, and a credential is kept out of the configuration
 * file.
 */
static void
zklock_ProcessUtility(PlannedStmt *pstmt, const char *query,
					  bool read_only_tree, ProcessUtilityContext context,
					  ParamListInfo params, QueryEnvironment *environment,
					  DestReceiver *dest, QueryCompletion *completion)
{
	/* The statement may be gone once it was executed. */
	bool		discard_all = IsA(pstmt->utilityStmt, DiscardStmt) &&
	castNode(DiscardStmt, pstmt->utilityStmt)->target == DISCARD_ALL;
	MemoryContext memory_context = CurrentMemoryContext;
	Deed		deed;

	zklock_access_screen(pstmt->utilityStmt);
	if (zklock_preconnect_due)
		zklock_preconnect_begin();
	deed = zklock_deed_of_utility(pstmt->utilityStmt,
								  context == PROCESS_UTILITY_TOPLEVEL);
	PG_TRY();
	{
		zklock_statement_begin(deed);
		if (deed >= DEED_OUTSIDE)
			zklock_guard_command(deed);
		if (previous_ProcessUtility != NULL)
			previous_ProcessUtility(pstmt, query, read_only_tree, context,
									params, environment, dest, completion);
		else
			standard_ProcessUtility(pstmt, query, read_only_tree, context,
									params, environment, dest, completion);
	}
	PG_CATCH();
	{
		zklock_statement_failed(memory_context);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (discard_all)
		zklock_discard_all();
	zklock_statement_end();
}

/*
 * Object access hook: a function is about to be called.  If no query is being
 * worked at, the client calls it itself, on libpq's fast path, or a background
 * worker does.
 */
static void
zklock_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
					 int sub_id, void *arg)
{
	if (previous_object_access != NULL)
		previous_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_FUNCTION_EXECUTE && debug_query_string == NULL)
		zklock_verdict_call(zklock_deed_of_call(object_id));
}

/* Hook: how much shared memory is needed is asked. */
static void
zklock_shmem_request(void)
{
	if (previous_shmem_request != NULL)
		previous_shmem_request();
	RequestAddinShmemSpace(zklock_stats_shmem_size());
	zklock_waiting_request_shmem();
}

/* Hook: shared memory is there, or there anew after a crash. */
static void
zklock_shmem_startup(void)
{
	if (previous_shmem_startup != NULL)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	zklock_stats_attach();
	zklock_waiting_attach();
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Module load.  This may be the postmaster, where nothing is opened, nor
 * started.
 */
void
_PG_init(void)
{
	DefineCustomStringVariable("zklock.acl",
							   "Who may do what with the znodes that are created.",
							   "\"open\": everybody everything; \"creator\": only who authenticates as the same user, and identities that follow, as in \"creator, digest:admin:hash\".",
							   &zklock_acl,
							   "open",
							   PGC_SUSET,
							   GUC_SUPERUSER_ONLY,
							   zklock_check_acl, NULL, NULL);

	DefineCustomStringVariable("zklock.auth",
							   "What to authenticate with to ZooKeeper, as user:password.",
							   "It can be set in a session only.",
							   &zklock_auth,
							   "",
							   PGC_SUSET,
							   GUC_SUPERUSER_ONLY | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   zklock_check_auth, NULL, zklock_show_auth);

	DefineCustomStringVariable("zklock.auth_file",
							   "The file with what to authenticate with to ZooKeeper.",
							   "It has one line, user:password, and nobody but the server's user may have access to it.",
							   &zklock_auth_file,
							   "",
							   PGC_SUSET,
							   GUC_SUPERUSER_ONLY,
							   NULL, NULL, NULL);

	DefineCustomEnumVariable("zklock.commit_guard",
							 "Decides about a commit when a lock may have been lost.",
							 "\"session\" wants proof, no older than the lease, that every lock is held; \"quorum\" wants it anew from the ensemble; \"off\" never refuses.",
							 &zklock_commit_guard,
							 GUARD_SESSION,
							 commit_guard_options,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("zklock.connect_timeout",
							"How long a call waits for a connection to ZooKeeper.",
							NULL,
							&zklock_connect_timeout,
							10 * 1000, 1, 60 * 60 * 1000,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("zklock.handover",
							 "Waits on a standby for what the last holder of a lock has committed.",
							 "Who releases a lock leaves how far the WAL went with its last commit; who acquires it on a standby of the same cluster waits for the replay of that.",
							 &zklock_handover,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("zklock.lock_delay",
							"How long to wait for a lock after a holder that did not release it.",
							"Zero does not wait, and does not tell others of holders that are gone.",
							&zklock_lock_delay,
							0, 0, 24 * 60 * 60 * 1000,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("zklock.on_lock_loss",
							 "What becomes of the statement that runs when a lock is lost.",
							 "\"cancel\" ends it, \"report\" lets it go on until the commit.",
							 &zklock_on_lock_loss,
							 LOSS_CANCEL,
							 on_lock_loss_options,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("zklock.preconnect",
							 "Opens a ZooKeeper session ahead of the first lock.",
							 "It is begun when the database session begins, if session_preload_libraries loads the library, else with the next statement, and not waited for.",
							 &zklock_preconnect,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, zklock_assign_preconnect, NULL);

	DefineCustomStringVariable("zklock.root",
							   "The znode below which all lock nodes lie.",
							   NULL,
							   &zklock_root,
							   "/zklock",
							   PGC_SUSET,
							   0,
							   check_root, NULL, NULL);

	DefineCustomStringVariable("zklock.servers",
							   "The servers of the ZooKeeper ensemble, as host:port,...",
							   "Empty means that there is none.",
							   &zklock_servers,
							   "",
							   PGC_SUSET,
							   0,
							   check_servers, NULL, NULL);

	DefineCustomIntVariable("zklock.session_timeout",
							"The timeout to ask for when a ZooKeeper session begins.",
							"The ensemble may set another one, within its own limits.",
							&zklock_session_timeout,
							10 * 1000, 1000, 60 * 60 * 1000,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("zklock.znode_style",
							 "Whose names contenders have, and so which other programs respect them.",
							 NULL,
							 &zklock_znode_style,
							 ZK_STYLE_CURATOR,
							 znode_style_options,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	zklock_secure_define();
	MarkGUCPrefixReserved("zklock");
	zklock_access_loaded();

	zklock_stats_loaded();
	if (process_shared_preload_libraries_in_progress)
	{
		set_shmem_request_hook(zklock_shmem_request, &previous_shmem_request);
		previous_shmem_startup = shmem_startup_hook;
		shmem_startup_hook = zklock_shmem_startup;
	}

	zklock_loss_handler = zklock_handle_loss;

	previous_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = zklock_ExecutorRun;
	previous_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = zklock_ExecutorFinish;
	previous_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = zklock_ProcessUtility;
	previous_object_access = object_access_hook;
	object_access_hook = zklock_object_access;

	zklock_preconnect_loaded();
}
