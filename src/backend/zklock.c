/*-------------------------------------------------------------------------
 *
 * zklock.c
 *	  Module entry: settings and hooks.
 *
 * zklock gives SQL the distributed locks of Apache ZooKeeper.  src/README has
 * the design and the words.
 *
 * U1. The script of the first release, sql/zklock--1.0.sql, stays as released.
 * Changes of later releases are in scripts for each step, sql/zklock--A--B.sql,
 * which stay, too: CREATE EXTENSION runs all of them, so each object is written
 * down once.  A full script of a later version may be added, and has to create
 * the same objects.  tap/100_update compares the catalogs.
 *
 * U2. A new module is in use before ALTER EXTENSION UPDATE was run in each
 * database, and where it never is.  So a symbol stays as long as a script
 * names it, and a function whose arguments or result change gets a new symbol.
 * The same test creates the oldest version with the present module, which
 * fails if a symbol is missing.
 *
 * U3. The postmaster's module lays out shared memory, and all backends share
 * it: it is used with shared_preload_libraries only.  Other versions, maybe
 * older ones, read what is in ZooKeeper: unknown keys in what contenders say
 * about their owners mean nothing, and lines of a record that begin with an
 * unknown word are left alone (record.c).
 *
 * U4. The fences and the runs of jobs belong to the database, so they are
 * dumped (F8, J5), and pg_upgrade and physical copies keep them.  Changes
 * applied by logical replication pass no fence: the transaction has passed the
 * fence of the database that made it, and has committed there.
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
#include "lock_stats.h"
#include "loss.h"
#include "preconnect.h"
#include "release.h"
#include "rights.h"
#include "session.h"
#include "stats.h"
#include "stored_settings.h"
#include "tls_settings.h"
#include "verdict.h"
#include "wait_slots.h"
#include "xact.h"
#include "zk_check.h"

PG_MODULE_MAGIC_EXT(.name = "zklock",.version = "1.0");

static const struct config_enum_entry commit_guard_options[] = {
	{"off", GUARD_OFF, false},
	{"lease", GUARD_LEASE, false},
	{"quorum", GUARD_QUORUM, false},
	{NULL, 0, false}
};

static const struct config_enum_entry on_lock_loss_options[] = {
	{"cancel", LOSS_CANCEL, false},
	{"report", LOSS_REPORT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry session_scope_options[] = {
	{"off", SESSION_SCOPE_OFF, false},
	{"warn", SESSION_SCOPE_WARN, false},
	{"on", SESSION_SCOPE_ON, false},
	{NULL, 0, false}
};

static const struct config_enum_entry znode_style_options[] = {
	{"curator", ZK_STYLE_CURATOR, false},
	{"curator_rw", ZK_STYLE_CURATOR_RW, false},
	{"kazoo", ZK_STYLE_KAZOO, false},
	{NULL, 0, false}
};

static ExecutorRun_hook_type next_ExecutorRun = standard_ExecutorRun;
static ExecutorFinish_hook_type next_ExecutorFinish = standard_ExecutorFinish;
static ProcessUtility_hook_type next_ProcessUtility = standard_ProcessUtility;
static object_access_hook_type previous_object_access = NULL;
static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* GUC check hook: a path that ZooKeeper accepts, with room for lock paths. */
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

/* GUC check hook: accepts a list of servers, or an empty string. */
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

/* ExecutorRun hook: a statement runs that the loss of a lock can end. */
static void
zklock_ExecutorRun(QueryDesc *query, ScanDirection direction,
				   uint64 count EXECUTE_ONCE_PARAMETER)
{
	if (zklock_preconnect_due)
		zklock_preconnect_begin();
	STATEMENT_BEGIN(zklock_deed_of_plan(query->plannedstmt));
	next_ExecutorRun(query, direction, count EXECUTE_ONCE_ARGUMENT);
	STATEMENT_END();
}

/* ExecutorFinish hook: the same, as it runs triggers. */
static void
zklock_ExecutorFinish(QueryDesc *query)
{
	STATEMENT_BEGIN(zklock_deed_of_plan(query->plannedstmt));
	next_ExecutorFinish(query);
	STATEMENT_END();
}

/*
 * ProcessUtility hook: the same.  A command that takes effect before its commit
 * is judged first, DISCARD ALL releases session-scope locks, and a credential
 * is kept out of the configuration file.
 */
static void
zklock_ProcessUtility(PlannedStmt *pstmt, const char *query,
					  bool read_only_tree, ProcessUtilityContext context,
					  ParamListInfo params, QueryEnvironment *environment,
					  DestReceiver *dest, QueryCompletion *completion)
{
	/* the statement may be gone after its execution */
	bool		discard_all = IsA(pstmt->utilityStmt, DiscardStmt) &&
	castNode(DiscardStmt, pstmt->utilityStmt)->target == DISCARD_ALL;
	Deed		deed;

	zklock_auth_screen(pstmt->utilityStmt);
	if (zklock_preconnect_due)
		zklock_preconnect_begin();
	deed = zklock_deed_of_utility(pstmt->utilityStmt,
								  context == PROCESS_UTILITY_TOPLEVEL);
	STATEMENT_BEGIN(deed);
	if (deed >= DEED_OUTSIDE)
		zklock_guard_command(deed);
	next_ProcessUtility(pstmt, query, read_only_tree, context, params,
						environment, dest, completion);
	if (discard_all)
		zklock_discard_all();
	STATEMENT_END();
}

/*
 * Object access hook: a function is about to be called.  If no query is at
 * work, libpq's fast path or a background worker calls it.
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

/* Hook: asks for shared memory. */
static void
zklock_shmem_request(void)
{
	if (previous_shmem_request != NULL)
		previous_shmem_request();
	RequestAddinShmemSpace(zklock_stats_shmem_size());
	zklock_wait_slots_request();
	zklock_lock_stats_request();
}

/* Hook: finds or creates what is in shared memory, also after a crash. */
static void
zklock_shmem_startup(void)
{
	if (previous_shmem_startup != NULL)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	zklock_stats_attach();
	zklock_wait_slots_attach();
	zklock_lock_stats_attach();
	LWLockRelease(AddinShmemInitLock);
}

/* Defines the settings.  Module load. */
static void
define_settings(void)
{
	DefineCustomStringVariable("zklock.acl",
							   "Sets the ACL of znodes that zklock creates.",
							   "\"open\" admits all clients; \"creator\" admits clients that authenticate as the same user, and listed identities, as in \"creator, digest:admin:hash\".",
							   &zklock_acl, "open",
							   PGC_SUSET, GUC_SUPERUSER_ONLY,
							   zklock_check_acl, NULL, NULL);
	DefineCustomStringVariable("zklock.auth",
							   "Sets the ZooKeeper user name and password.",
							   "Has the form user:password. Can only be set within a session.",
							   &zklock_auth, "",
							   PGC_SUSET,
							   GUC_SUPERUSER_ONLY | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   zklock_check_auth, NULL, zklock_show_auth);
	DefineCustomStringVariable("zklock.auth_file",
							   "Sets the file with the ZooKeeper user name and password.",
							   "The file has one line, user:password, and only the server's user may have access to it.",
							   &zklock_auth_file, "",
							   PGC_SUSET, GUC_SUPERUSER_ONLY,
							   NULL, NULL, NULL);
	DefineCustomEnumVariable("zklock.commit_guard",
							 "Sets how a commit checks that locks are still held.",
							 "\"lease\" checks the lease, \"quorum\" asks the ensemble, \"off\" does not check.",
							 &zklock_commit_guard, GUARD_LEASE,
							 commit_guard_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.connect_timeout",
							"Sets the maximum time to wait for a connection to ZooKeeper.",
							NULL,
							&zklock_connect_timeout,
							10 * 1000, 1, 60 * 60 * 1000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("zklock.handover",
							 "Waits on a standby until the last holder's commits are replayed.",
							 "Releasing a lock records the WAL position of the last commit; acquiring it on a standby of the same cluster waits for that position to be replayed.",
							 &zklock_handover, false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.lock_delay",
							"Sets how long to wait after a holder failed to release a lock.",
							"Zero means no wait, and leaves no unclean marker for other sessions to find.",
							&zklock_lock_delay,
							0, 0, 24 * 60 * 60 * 1000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.max_locks",
							"Sets the maximum number of locks that a session may hold.",
							"-1 means no limit.",
							&zklock_max_locks,
							-1, -1, ZK_MAX_CONTENDERS,
							PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomStringVariable("zklock.note",
							   "Sets a note that others see beside this session's locks and waits.",
							   NULL,
							   &zklock_note, "",
							   PGC_USERSET, 0,
							   zklock_check_note, NULL, NULL);
	DefineCustomEnumVariable("zklock.on_lock_loss",
							 "Sets the action on the running statement when a lock is lost.",
							 "\"cancel\" ends it, \"report\" lets it continue until the commit.",
							 &zklock_on_lock_loss, LOSS_CANCEL,
							 on_lock_loss_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomStringVariable("zklock.paths",
							   "Sets the locks that may be used, as a comma-separated list of paths.",
							   "\"/app/*\" stands for all locks below \"/app\". If the list is empty, all locks may be used.",
							   &zklock_paths, "",
							   PGC_SUSET, GUC_LIST_INPUT,
							   zklock_check_paths, NULL, NULL);
	DefineCustomBoolVariable("zklock.preconnect",
							 "Connects to ZooKeeper when a session starts.",
							 "Connects at the next statement if session_preload_libraries does not load zklock. No statement waits for the connection.",
							 &zklock_preconnect, false,
							 PGC_USERSET, 0,
							 NULL, zklock_assign_preconnect, NULL);
	DefineCustomBoolVariable("zklock.release_at_exit",
							 "Releases the locks of a session that ends.",
							 "If off, locks that were not released become free when the ZooKeeper session expires.",
							 &zklock_release_at_exit, true,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomStringVariable("zklock.root",
							   "Sets the znode that contains all locks.",
							   NULL,
							   &zklock_root, "/zklock",
							   PGC_SUSET, 0,
							   check_root, NULL, NULL);
	DefineCustomStringVariable("zklock.servers",
							   "Sets the ZooKeeper servers, as a comma-separated list of host:port.",
							   "If empty, no lock can be acquired.",
							   &zklock_servers, "",
							   PGC_SUSET, 0,
							   check_servers, NULL, NULL);
	DefineCustomEnumVariable("zklock.session_scope",
							 "Sets whether locks may be acquired at session level.",
							 "\"off\" makes that an error, \"warn\" causes a warning: for sessions behind a pooler in transaction mode.",
							 &zklock_session_scope, SESSION_SCOPE_ON,
							 session_scope_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.session_timeout",
							"Sets the ZooKeeper session timeout to request.",
							"The ensemble may grant a different one, within its own limits.",
							&zklock_session_timeout,
							10 * 1000, 1000, 60 * 60 * 1000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("zklock.znode_style",
							 "Sets the naming of contenders, for interoperation with other clients.",
							 NULL,
							 &zklock_znode_style, ZK_STYLE_CURATOR,
							 znode_style_options, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	zklock_transport_define();
	MarkGUCPrefixReserved("zklock");
}

/* Module load. The postmaster comes here, too, so nothing is opened. */
void
_PG_init(void)
{
	zklock_stored_settings_note();
	define_settings();
	zklock_auth_loaded();
	zklock_stats_loaded();
	if (process_shared_preload_libraries_in_progress)
	{
		set_shmem_request_hook(zklock_shmem_request, &previous_shmem_request);
		previous_shmem_startup = shmem_startup_hook;
		shmem_startup_hook = zklock_shmem_startup;
	}
	zklock_loss_handler = zklock_handle_loss;

	if (ExecutorRun_hook != NULL)
		next_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = zklock_ExecutorRun;
	if (ExecutorFinish_hook != NULL)
		next_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = zklock_ExecutorFinish;
	if (ProcessUtility_hook != NULL)
		next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = zklock_ProcessUtility;
	previous_object_access = object_access_hook;
	object_access_hook = zklock_object_access;

	zklock_preconnect_loaded();
}
