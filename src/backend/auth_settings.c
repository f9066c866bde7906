/*-------------------------------------------------------------------------
 *
 * auth_settings.c
 *	  Who this backend is to ZooKeeper: the settings about it, and how their
 *	  values are kept from being seen.
 *
 * A4. Settings get around.  What PostgreSQL (15) does with the value of one
 * that is an extension's:
 *
 * - In a session that has not loaded the library it is a placeholder, and
 *   everybody sees it with SHOW, from the configuration file as well.  What an
 *   ordinary user set by then is refused when the library is loaded.
 * - On a reload the server writes parameters that have changed into its log,
 *   with their values.
 * - Values for databases, roles and functions are in catalogs that everybody
 *   can read.
 * - GUC_SUPERUSER_ONLY is for members of pg_read_all_settings, too, and the
 *   column reset_val of pg_settings does not ask a show hook.
 * - The message about a value that a check hook refuses quotes it, and so do
 *   the statement that the log has for each error and the context within a
 *   function.
 * - An error when a parallel worker takes over a value quotes it as context.
 *
 * So zklock.auth can be set where only a superuser's own session is concerned:
 * in a session, or by options of the connection.  The check hook refuses all
 * other sources.  GUC_NO_SHOW_ALL keeps it out of pg_settings, and the show
 * hook shows nobody more than that there is a value.  What is refused is thrown
 * as an error of our own, without value, statement and context (not while the
 * library is being loaded, which must not fail half-way); ALTER SYSTEM is seen
 * to before it reaches the hook.  What the hook accepts once it accepts always,
 * so a parallel worker has no reason to fail.
 *
 * What the statement that sets it shows is beyond us: log_statement, and
 * pg_stat_activity for members of pg_read_all_stats.  So is a session without
 * the library.  Hence zklock.auth_file, which is what doc speaks of: the
 * setting is a name, and the file is the server's user's alone.
 *
 * A6. Settings about access count as those about the connection do: when a
 * client is started, and a client that holds nothing is replaced when they have
 * changed, or the file has (its inode, size or times).  zklock.root is one of
 * them for a client that is somebody, as its user node is below that.  They are
 * compared by a hash, so that there is no second copy of a secret.
 *
 * IDENTIFICATION
 *	  src/backend/auth_settings.c
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
 * The library is being loaded.  Then a value that was set before that is
 * checked, and an error would leave the library half loaded.
 */
static bool loading = true;

/* The settings are defined.  Called at the end of module load. */
void
zklock_access_loaded(void)
{
	loading = false;
}

/*
 * Throw an error about an attempt to set something.  The value is in the
 * statement, so neither that nor a context that might quote it is told.
 */
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

/*
 * A GUC check hook does not accept a value: returns false with the reason.  If
 * the value comes from a session the error is thrown here, as refuse() does.
 */
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

/*
 * GUC check hook of zklock.auth: a credential, or empty for none, and only
 * where it does not leak.
 */
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

/* GUC show hook of zklock.auth: whether it is set, no more, whoever asks. */
const char *
zklock_show_auth(void)
{
	return zklock_auth[0] != '\0' ? "********" : "";
}

/*
 * GUC check hook of zklock.acl.  It has hashes of passwords, or what was
 * written in their place, so no message quotes it.
 */
bool
zklock_check_acl(char **newval, void **extra, GucSource source)
{
	char		wrong[ZK_DETAIL_SIZE];

	(void) extra;
	return zk_acl_check(*newval, wrong) ||
		reject(source, ERRCODE_INVALID_PARAMETER_VALUE,
			   "invalid value for parameter \"zklock.acl\"", wrong);
}

/*
 * A utility statement is about to be executed.  ALTER SYSTEM cannot set
 * zklock.auth.  The check hook would say so as well, but with the statement in
 * the server log.  Throws 55P02.
 */
void
zklock_access_screen(Node *statement)
{
	const VariableSetStmt *set;

	if (!IsA(statement, AlterSystemStmt))
		return;
	set = castNode(AlterSystemStmt, statement)->setstmt;
	if (set->kind == VAR_SET_VALUE && pg_strcasecmp(set->name, "zklock.auth") == 0)
		refuse(ERRCODE_CANT_CHANGE_RUNTIME_PARAM, SESSION_ONLY, NULL);
}

/*
 * A number that changes with the settings about access, and with the credential
 * file.  Keeps no secret, and needs no second copy of one.
 */
uint64
zklock_access_stamp(void)
{
	uint64		stamp = zklock_stamp_text(0, zklock_acl);

	stamp = zklock_stamp_text(stamp, zklock_auth);
	if (zklock_auth[0] != '\0' || zklock_auth_file[0] != '\0')
		stamp = zklock_stamp_text(stamp, zklock_root);
	if (zklock_auth_file[0] != '\0')
		stamp = zklock_stamp_file(stamp, zklock_auth_file);
	return stamp;
}

/*
 * Read the credential file: one line.  Returns a palloc'd string.  Throws as
 * zklock_file_read(), and F0000 for what is not a credential.
 */
static char *
read_credential_file(void)
{
	size_t		len;
	char	   *text = zklock_file_read("zklock.auth_file", zklock_auth_file,
										true, &len);
	const char *wrong;

	if (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	if (memchr(text, '\n', len) != NULL)
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
 * What to authenticate with, "user:password" as a palloc'd string to be given
 * to zklock_wipe(), or NULL if there is nothing.  Throws 55000 if the settings
 * contradict each other, and as read_credential_file().
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
	if (zk_acl_wants_creator(zklock_acl) && !zklock_secure_identifies())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"zklock.acl\" is \"creator\", but no credentials are configured"),
				 errhint("Set \"zklock.auth_file\".")));
	return NULL;
}
