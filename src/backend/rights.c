/*-------------------------------------------------------------------------
 *
 * rights.c
 *	  What this role may lock: which paths, how many at once, in which scope.
 *
 * SQL privileges say which functions a role may call.  These settings say with
 * what: ALTER ROLE ... SET and ALTER DATABASE ... SET give a role or a database
 * its own.  All are checked before any network traffic.
 *
 * M1. zklock.paths lists the paths that may be locked, listed, revoked and
 * broken, for jobs as for locks.  Only superusers set it.  With an asterisk as
 * its last component, a path stands for all below it.  An empty list admits
 * everything.  Like zklock.root it is UTF-8, whatever the encoding of the
 * database is.  What is held may be released, verified, fenced and ended
 * whatever the list says now: an end is never refused. (S388)
 *
 * A list of a role or a database that cannot be read admits nothing: PostgreSQL
 * would report a WARNING at the start of a session, and use the default.  M2,
 * for values that are older than the library, is in stored_settings.c. (S389)
 *
 * M3. zklock.max_locks bounds what a session holds at once: lock paths, with
 * those that it has lost but not released. (S390)
 *
 * M4. zklock.session_scope is no matter of trust: any user may change it.  It
 * keeps clients of a pooler in transaction mode from leaving a lock to the
 * server connection's next client by mistake. (S391)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/varlena.h"

#include "zklock.h"
#include "auth_settings.h"
#include "lock_table.h"
#include "rights.h"
#include "stored_settings.h"
#include "zk_check.h"

/* Settings; see above. */
char	   *zklock_paths = NULL;
int			zklock_max_locks = -1;
int			zklock_session_scope = SESSION_SCOPE_ON;

/* Returns the length of what stands before a last asterisk; -1 if none does. */
static int
prefix_length(const char *rule)
{
	int			length = (int) strlen(rule);

	return length >= 2 && strcmp(rule + length - 2, "/*") == 0 ? length - 2 : -1;
}

/* Returns what is wrong with a rule, fit for a DETAIL, or NULL. */
static const char *
check_rule(const char *rule)
{
	int			prefix = prefix_length(rule);
	int			length = prefix < 0 ? (int) strlen(rule) : prefix;

	if (memchr(rule, '*', length) != NULL)
		return "An asterisk can only be the whole last component of a path.";
	return prefix == 0 ? NULL : zk_path_check(pnstrdup(rule, length), length);
}

/*
 * Reads a list of rules; palloc'd.  Returns what is wrong with it, fit for a
 * DETAIL, or NULL.
 */
static const char *
read_rules(const char *value, List **rules)
{
	ListCell   *cell;

	if (!SplitGUCList(pstrdup(value), ',', rules))
		return "List syntax is invalid.";
	foreach(cell, *rules)
	{
		const char *rule = (const char *) lfirst(cell);
		const char *wrong = check_rule(rule);

		if (wrong != NULL)
			return psprintf("Path \"%s\" is invalid. %s", rule, wrong);
	}
	return NULL;
}

/* GUC check hook: a list of paths and prefixes; stored ones as they are. */
bool
zklock_check_paths(char **newval, void **extra, GucSource source)
{
	List	   *rules;
	const char *wrong;

	(void) extra;
	if (source >= PGC_S_GLOBAL && source <= PGC_S_DATABASE_USER)
		return true;
	wrong = read_rules(*newval, &rules);
	if (wrong != NULL)
		GUC_check_errdetail("%s", wrong);
	return wrong == NULL;
}

/* Returns the rules in force; NIL admits everything.  Throws 22023. */
static List *
current_rules(void)
{
	List	   *rules;
	const char *wrong = read_rules(zklock_paths, &rules);

	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"",
						"zklock.paths", zklock_paths),
				 errdetail("%s", wrong),
				 errhint("A superuser can correct it where it is set: see pg_db_role_setting and pg_settings.")));
	return rules;
}

/* Reports that the rules do not admit a path.  Throws 42501. */
pg_noreturn static void
refuse_path(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for lock \"%s\"", path),
			 errdetail("The setting \"%s\" admits only %s.", "zklock.paths", zklock_paths)));
}

/*
 * Checks that this role may use a lock, or (below) the locks at and below its
 * path, which is "/" for all (M1).  Throws 42501, 22023.
 */
void
zklock_rights_check_path(const LockName *name, bool below)
{
	const char *path = name->node + strlen(zklock_root);
	List	   *rules;
	ListCell   *cell;

	zklock_stored_settings_check();
	rules = current_rules();
	if (rules == NIL)
		return;
	if (below)
		path = psprintf("%s/", path);
	foreach(cell, rules)
	{
		const char *rule = (const char *) lfirst(cell);
		int			prefix = prefix_length(rule);

		if (prefix < 0 ? strcmp(rule, path) == 0 :
			strncmp(rule, path, prefix + 1) == 0)
			return;
	}
	refuse_path(name->path);
}

/* For ereport: why session scope is not for this session, and what is. */
static int
errdetail_scope(const char *value, const char *instead)
{
	errdetail("The setting \"%s\" is \"%s\", because clients of this session may change while the lock is held.",
			  "zklock.session_scope", value);
	return errhint("Use %s() in a transaction block.", instead);
}

/*
 * Checks that locks may be acquired in that scope (M4); instead names the
 * function for transaction scope.  Throws 55000.
 */
void
zklock_rights_check_scope(LockScope scope, const char *instead)
{
	if (scope != SCOPE_SESSION)
		return;
	if (zklock_session_scope == SESSION_SCOPE_OFF)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("session-level locks are disabled"),
				 errdetail_scope("off", instead)));
	if (zklock_session_scope == SESSION_SCOPE_WARN)
		ereport(WARNING,
				(errmsg("session-level locks are discouraged"),
				 errdetail_scope("warn", instead)));
}

/* Checks that the session may hold so many more locks (M3).  Throws 53400. */
void
zklock_rights_check_count(int more)
{
	if (zklock_max_locks < 0 || more == 0 ||
		zklock_lock_total() + more <= zklock_max_locks)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many locks in this session"),
			 errdetail("It holds %d, requests %d more, and the setting \"%s\" admits %d.",
					   zklock_lock_total(), more, "zklock.max_locks", zklock_max_locks),
			 errhint("Release locks that are not needed any more.")));
}
