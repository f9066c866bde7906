/*-------------------------------------------------------------------------
 *
 * auth_settings.c
 *	  The settings about access to ZooKeeper, and how their values are kept
 *	  secret.
 *
 * A4. Settings are widely visible.  What PostgreSQL (15) does with the value of
 * an extension's setting:
 *
 * - In a session that has not loaded the library it is a placeholder that any
 *   role sees with SHOW, also from the configuration file.  A value set by an
 *   ordinary user is refused when the library is loaded.
 * - On a reload the server logs changed parameters with their values.
 * - Values for databases, roles and functions are in catalogs that any role can
 *   read.
 * - GUC_SUPERUSER_ONLY also admits members of pg_read_all_settings, and the
 *   column reset_val of pg_settings does not ask a show hook.
 * - The message about a value that a check hook refuses quotes it; so do the
 *   statement logged with each error, and the context within a function.
 * - An error when a parallel worker takes over a value quotes it as context.
 *
 * So zklock.auth can only be set by a superuser for the own session, with SET
 * or connection options; the check hook refuses all other sources.
 * GUC_NO_SHOW_ALL keeps it out of pg_settings, and the show hook only shows
 * that there is a value.  A refusal is thrown as an error of our own, without
 * value, statement and context (not during module load, which must not fail
 * half way); ALTER SYSTEM is refused before it reaches the hook.  A value
 * accepted once is always accepted, so a parallel worker cannot fail.
 *
 * The statement that sets it remains visible to log_statement, to
 * pg_stat_activity for members of pg_read_all_stats, and in sessions without
 * the library.  Hence zklock.auth_file, which the documentation recommends:
 * the setting is a name, and the file belongs to the server's user.
 *
 * A6. Settings about access take effect like those about the connection: when a
 * client is started; and a client that holds nothing is replaced when they have
 * changed, or the file has (its inode, size or times).  With a credential,
 * zklock.root is one of them, as the user node is below it.  They are compared
 * by a hash, which avoids a second copy of a secret.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/parsenodes.h"

#include "zklock.h"
#include "auth_settings.h"
#include "secret_file.h"
#include "tls_settings.h"
#include "zk_check.h"

#define SESSION_ONLY	"parameter \"zklock.auth\" can only be set within a session"
#define USE_FILE_HINT	"Use \"zklock.auth_file\"."

/* Settings; see zklock.c for what they mean. */
char	   *zklock_root = NULL;
char	   *zklock_acl = NULL;
char	   *zklock_auth = NULL;
char	   *zklock_auth_file = NULL;

/*
 * The library is being loaded: an error about a value set before would leave it
 * half loaded.
 */
static bool loading = true;

/* Notes the end of module load: the settings are defined. */
void
zklock_auth_loaded(void)
{
	loading = false;
}

/* Throws without the statement and the context, which may quote the value. */
pg_noreturn static void
refuse(int sqlstate, const char *message, const char *detail)
{
	error_context_stack = NULL;
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("%s", message),
			 detail != NULL ? errdetail("%s", detail) : 0,
			 detail == NULL ? errhint(USE_FILE_HINT) : 0,
			 errhidestmt(true)));
}

/* Rejects a value in a GUC check hook, with refuse() if a session set it. */
static bool
reject(GucSource source, int sqlstate, const char *message, const char *detail)
{
	if (!loading && source >= PGC_S_CLIENT)
		refuse(sqlstate, message, detail);
	GUC_check_errcode(sqlstate);
	GUC_check_errmsg("%s", message);
	if (detail != NULL)
		GUC_check_errdetail("%s", detail);
	else
		GUC_check_errhint(USE_FILE_HINT);
	return false;
}

/* GUC check hook of zklock.auth: a credential or "", where it cannot leak. */
bool
zklock_check_auth(char **newval, void **extra, GucSource source)
{
	size_t		len = strlen(*newval);
	const char *wrong = zk_credential_check(*newval, len);

	(void) extra;
	if (len == 0)
		return true;
	if (source < PGC_S_CLIENT || source == PGC_S_TEST)
	{
		explicit_bzero(*newval, len);
		return reject(source, ERRCODE_CANT_CHANGE_RUNTIME_PARAM,
					  SESSION_ONLY, NULL);
	}
	if (wrong == NULL)
		return true;
	explicit_bzero(*newval, len);
	return reject(source, ERRCODE_INVALID_PARAMETER_VALUE,
				  "invalid value for parameter \"zklock.auth\"", wrong);
}

/* GUC show hook of zklock.auth: shows only whether it is set. */
const char *
zklock_show_auth(void)
{
	return zklock_auth[0] != '\0' ? "********" : "";
}

/* GUC check hook of zklock.acl, whose hashes no message may quote. */
bool
zklock_check_acl(char **newval, void **extra, GucSource source)
{
	char		wrong[ZK_DETAIL_SIZE];

	(void) extra;
	return zk_acl_check(*newval, wrong) ||
		reject(source, ERRCODE_INVALID_PARAMETER_VALUE,
			   "invalid value for parameter \"zklock.acl\"", wrong);
}

/* Refuses ALTER SYSTEM of zklock.auth, and hides it from the log (55P02). */
void
zklock_auth_screen(Node *statement)
{
	const VariableSetStmt *set;

	if (!IsA(statement, AlterSystemStmt))
		return;
	set = castNode(AlterSystemStmt, statement)->setstmt;
	if (set->kind == VAR_SET_VALUE && pg_strcasecmp(set->name, "zklock.auth") == 0)
		refuse(ERRCODE_CANT_CHANGE_RUNTIME_PARAM, SESSION_ONLY, NULL);
}

/* Returns a number that changes with access settings and credential file. */
uint64
zklock_auth_stamp(void)
{
	uint64		stamp = zklock_stamp_text(0, zklock_acl);

	stamp = zklock_stamp_text(stamp, zklock_auth);
	if (zklock_auth[0] != '\0' || zklock_auth_file[0] != '\0')
		stamp = zklock_stamp_text(stamp, zklock_root);
	if (zklock_auth_file[0] != '\0')
		stamp = zklock_stamp_file(stamp, zklock_auth_file);
	return stamp;
}

/* Reads the credential file, one line; palloc'd.  Throws F0000. */
static char *
read_credential_file(void)
{
	size_t		len;
	char	   *text = zklock_file_read("zklock.auth_file", zklock_auth_file,
										true, &len);
	const char *wrong;

	if (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	if (len == 0)
		wrong = "The file is empty.";
	else if (memchr(text, '\n', len) != NULL)
		wrong = "It has more than one line.";
	else
		wrong = zk_credential_check(text, len);
	if (wrong != NULL)
	{
		explicit_bzero(text, len);
		zklock_file_report("zklock.auth_file", zklock_auth_file, wrong,
						   "File must have one line of the form user:password.");
	}
	return text;
}

/*
 * Returns the credential, "user:password", palloc'd and to be given to
 * zklock_wipe(); NULL if there is none.  Throws 55000 if settings contradict
 * each other.
 */
char *
zklock_credential(void)
{
	if (zklock_auth[0] != '\0' && zklock_auth_file[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("both \"zklock.auth\" and \"zklock.auth_file\" are set"),
				 errhint("Set one of them to an empty string.")));
	if (zklock_auth_file[0] != '\0')
		return read_credential_file();
	if (zklock_auth[0] != '\0')
		return pstrdup(zklock_auth);
	if (zk_acl_wants_creator(zklock_acl) && !zklock_transport_identifies())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"zklock.acl\" is \"creator\", but no credentials are configured"),
				 errhint("Set \"zklock.auth_file\".")));
	return NULL;
}
