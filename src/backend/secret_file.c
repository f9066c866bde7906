/*-------------------------------------------------------------------------
 *
 * secret_file.c
 *	  Files that settings name: with a password, a key, or certificates.
 *
 * Relative names refer to the data directory.  A file with a secret must not be
 * readable by others; the rule is that for the server's private key.  Errors
 * name the file to superusers and in the server log, and only the setting to
 * others.
 *
 * Files are read when a client is started, so changes take effect with the next
 * ZooKeeper session: the stamps below change with them.
 *
 * A5. The credential file is read when a client is started, on the main
 * thread.  The copy is wiped once the client has its own, which is wiped with
 * the client; the library keeps one as long as the handle lives, and never
 * logs it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "zklock.h"
#include "secret_file.h"

/* Most bytes of a file; those of a CA can be long. */
#define MAX_FILE	(4 * 1024 * 1024)

/* Returns the path of a file, palloc'd. */
char *
zklock_file_path(const char *file)
{
	if (is_absolute_path(file))
		return pstrdup(file);
	return psprintf("%s/%s", DataDir, file);
}

/* Returns a number that changes with the stamp and the text. */
uint64
zklock_stamp_text(uint64 stamp, const char *text)
{
	return hash_bytes_extended((const unsigned char *) text,
							   (int) strlen(text) + 1, stamp);
}

/* Returns a number that changes with the stamp, and the file or its name. */
uint64
zklock_stamp_file(uint64 stamp, const char *file)
{
	char	   *path = zklock_file_path(file);
	struct stat st;

	stamp = zklock_stamp_text(stamp, path);
	if (stat(path, &st) == 0)
	{
		int64		facts[] = {
			st.st_dev, st.st_ino, st.st_size,
			st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			st.st_ctim.tv_sec, st.st_ctim.tv_nsec
		};

		stamp = hash_bytes_extended((const unsigned char *) facts,
									sizeof(facts), stamp);
	}
	pfree(path);
	return stamp;
}

/* For ereport: what is wrong with a file, which only superusers see. */
static int
errdetail_file(const char *file, const char *wrong)
{
	char	   *path = zklock_file_path(file);
	const char *blank = wrong[0] != '\0' ? " " : "";

	errdetail_log("%s%sThe file is \"%s\".", wrong, blank, path);
	if (superuser())
		errdetail("%s%sThe file is \"%s\".", wrong, blank, path);
	else if (wrong[0] != '\0')
		errdetail("%s", wrong);
	return 0;
}

/* Reports what is wrong with a file; hint may be NULL.  Throws F0000. */
pg_noreturn void
zklock_file_report(const char *setting, const char *file, const char *wrong,
				   const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("could not use file specified by \"%s\"", setting),
			 errdetail_file(file, wrong),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* Checks that others cannot read a file.  Throws F0000. */
static void
check_owner(const char *setting, const char *file, const struct stat *st)
{
	mode_t		forbidden = S_IRWXG | S_IRWXO;

	if (st->st_uid == 0)
		forbidden = S_IWGRP | S_IXGRP | S_IRWXO;
	else if (st->st_uid != geteuid())
		zklock_file_report(setting, file,
						   "The file is owned neither by the database user nor by root.",
						   NULL);
	if ((st->st_mode & forbidden) != 0)
		zklock_file_report(setting, file,
						   "The file has group or world access.",
						   "File must have permissions u=rw (0600) or less if owned by the database user, or permissions u=rw,g=r (0640) or less if owned by root.");
}

/* Opens a file, maybe a secret one.  Fills *size.  Throws 58P01..., F0000. */
static int
open_file(const char *setting, const char *file, bool secret, size_t *size)
{
	char	   *path = zklock_file_path(file);
	struct stat st;
	int			fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file specified by \"%s\": %m", setting),
				 errdetail_file(file, "")));
	pfree(path);
	if (!S_ISREG(st.st_mode))
		zklock_file_report(setting, file, "It is not a regular file.", NULL);
	if (secret)
		check_owner(setting, file, &st);
	if (st.st_size > MAX_FILE)
		zklock_file_report(setting, file, "It is too long.", NULL);
	*size = (size_t) st.st_size;
	return fd;
}

/*
 * Reads a file, maybe a secret one.  Returns its content, palloc'd and
 * NUL-terminated, and its length.  Throws 58P01 and the like, F0000.
 */
char *
zklock_file_read(const char *setting, const char *file, bool secret, size_t *len)
{
	size_t		size;
	int			fd = open_file(setting, file, secret, &size);
	char	   *text = palloc0(size + 1);
	ssize_t		got = read(fd, text, size);

	if (got < 0)
		zklock_file_report(setting, file, "It cannot be read.", NULL);
	CloseTransientFile(fd);
	*len = (size_t) got;
	return text;
}

/* Wipes and frees a secret; does nothing for NULL. */
void
zklock_wipe(char *secret)
{
	if (secret == NULL)
		return;
	explicit_bzero(secret, strlen(secret));
	pfree(secret);
}
