/*-------------------------------------------------------------------------
 *
 * access.c
 *	  Who this backend is to ZooKeeper: the settings about it, and how their
 *	  values are kept from being seen.
 *
 * A password in a setting can get into many places where others look.  So
 * zklock.auth can be set where that is not the case: in a session and by the
 * options of a connection, by a superuser.  It cannot be set in the
 * configuration file (whose values everybody sees with SHOW in a session that
 * has not loaded the library, and the server writes those that change into its
 * log), nor for a database, a role or a function (which are in catalogs that
 * everybody can read).  What is for all sessions goes into a file of its own,
 * zklock.auth_file.
 *
 * PostgreSQL's own message about a value that it does not accept quotes the
 * value, and the log quotes the statement of an error.  So what is wrong with
 * zklock.auth is reported here.
 *
 * IDENTIFICATION
 *	  src/access.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "nodes/parsenodes.h"
#include "storage/fd.h"

#include "zklock.h"

/* Bytes read of a credential file: more than a credential can have. */
#define FILE_SIZE	2048

#define SESSION_ONLY	"parameter \"zklock.auth\" can be set in a session only"
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

/*
 * The settings are defined.  Called at the end of module load.
 */
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
 * GUC check hook of zklock.auth: a credential, or empty for none, and only where
 * it does not leak.
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

/*
 * GUC show hook of zklock.auth: whether it is set, no more, whoever asks.
 */
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

/* The path of the credential file, palloc'd. */
static char *
credential_path(void)
{
	if (is_absolute_path(zklock_auth_file))
		return pstrdup(zklock_auth_file);
	return psprintf("%s/%s", DataDir, zklock_auth_file);
}

static uint64
mix(uint64 stamp, const void *data, size_t len)
{
	return hash_bytes_extended(data, (int) len, stamp);
}

/*
 * A number that changes with the settings about access, and with the credential
 * file.  Keeps no secret, and needs no second copy of one.
 */
uint64
zklock_access_stamp(void)
{
	uint64		stamp = mix(0, zklock_acl, strlen(zklock_acl));
	struct stat st;
	char	   *path;

	stamp = mix(stamp, zklock_auth, strlen(zklock_auth) + 1);
	if (zklock_auth[0] != '\0' || zklock_auth_file[0] != '\0')
		stamp = mix(stamp, zklock_root, strlen(zklock_root));
	if (zklock_auth_file[0] == '\0')
		return stamp;
	path = credential_path();
	stamp = mix(stamp, path, strlen(path) + 1);
	if (stat(path, &st) == 0)
	{
		stamp = mix(stamp, &st.st_dev, sizeof(st.st_dev));
		stamp = mix(stamp, &st.st_ino, sizeof(st.st_ino));
		stamp = mix(stamp, &st.st_size, sizeof(st.st_size));
		stamp = mix(stamp, &st.st_mtim, sizeof(st.st_mtim));
		stamp = mix(stamp, &st.st_ctim, sizeof(st.st_ctim));
	}
	pfree(path);
	return stamp;
}

/*
 * As part of an error: what is wrong with the credential file, if the message
 * does not say so, and for superusers and the server log only, which one it is.
 */
static int
errdetail_file(const char *path, const char *wrong)
{
	const char *blank = wrong[0] != '\0' ? " " : "";

	errdetail_log("%s%sThe file is \"%s\".", wrong, blank, path);
	if (superuser())
		errdetail("%s%sThe file is \"%s\".", wrong, blank, path);
	else if (wrong[0] != '\0')
		errdetail("%s", wrong);
	return 0;
}

/*
 * The credential file is not as it should be.  Throws F0000.
 */
pg_noreturn static void
report_file(const char *path, const char *wrong, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("could not use the file that \"zklock.auth_file\" names"),
			 errdetail_file(path, wrong),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/*
 * Open the credential file and see that nobody else can read it: the rule is
 * that for the server's private key.  Throws 58P01 and the like, F0000.
 */
static int
open_credential_file(const char *path)
{
	struct stat st;
	int			fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK);
	mode_t		forbidden = S_IRWXG | S_IRWXO;

	if (fd < 0 || fstat(fd, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open the file that \"zklock.auth_file\" names: %m"),
				 errdetail_file(path, "")));
	if (!S_ISREG(st.st_mode))
		report_file(path, "It is not a regular file.", NULL);
	if (st.st_uid == 0)
		forbidden = S_IWGRP | S_IXGRP | S_IRWXO;
	else if (st.st_uid != geteuid())
		report_file(path, "It belongs neither to the server's user nor to root.",
					NULL);
	if ((st.st_mode & forbidden) != 0)
		report_file(path, "Others than its owner have access to it.",
					"It should have permissions u=rw (0600) or less if owned by the server's user, or u=rw,g=r (0640) or less if owned by root.");
	return fd;
}

/*
 * Read the credential file: one line.  Returns a palloc'd string.  Throws as
 * open_credential_file(), and F0000 for what is not a credential.
 */
static char *
read_credential_file(void)
{
	char	   *path = credential_path();
	int			fd = open_credential_file(path);
	char	   *text = palloc0(FILE_SIZE);
	ssize_t		len = read(fd, text, FILE_SIZE - 1);
	const char *wrong;

	if (len < 0)
		report_file(path, "It cannot be read.", NULL);
	CloseTransientFile(fd);
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (memchr(text, '\n', len) != NULL)
		wrong = "It has more than one line.";
	else
		wrong = zk_credential_check(text, len);
	if (wrong != NULL)
	{
		explicit_bzero(text, FILE_SIZE);
		report_file(path, wrong,
					"It should have one line of the form user:password.");
	}
	text[len] = '\0';
	pfree(path);
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
	if (zk_acl_wants_creator(zklock_acl))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"zklock.acl\" is \"creator\", and there is nothing to authenticate with"),
				 errhint("Set \"zklock.auth_file\".")));
	return NULL;
}

/*
 * Wipe and free a credential; NULL is none.
 */
void
zklock_wipe(char *credential)
{
	if (credential == NULL)
		return;
	explicit_bzero(credential, strlen(credential));
	pfree(credential);
}
