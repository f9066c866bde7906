/*-------------------------------------------------------------------------
 *
 * admin.c
 *	  The contenders of others: list a queue, or the locks below a path; revoke
 *	  or break a contender; report that an own one was revoked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "zklock.h"
#include "acquire.h"
#include "admin.h"
#include "auth_settings.h"
#include "lock_table.h"
#include "owner.h"
#include "rights.h"
#include "session.h"
#include "zk_check.h"

/* The child of zklock.root that holds no locks; see zk_path_check(). */
#define RESERVED_CHILD	".zklock"

/* Memory context callback: frees a listing. */
static void
free_listing(void *listing)
{
	zk_queue_free(listing);
}

/*
 * Waits for the answer to a query, which is freed with the current memory
 * context. doing and failed, for messages, are formats for the path.  Throws
 * 08001 or 08006 when ZooKeeper cannot be asked, 42501 when an ACL forbids it;
 * the query is dropped then.
 */
static const ZkQueueListing *
await_answer(const char *doing, const char *failed, const char *path)
{
	MemoryContextCallback *callback = palloc(sizeof(*callback));
	ZkQueueListing *volatile listing = NULL;
	Link		link;

	zklock_link_begin(&link);
	PG_TRY();
	{
		while ((listing = zk_queue_take(zklock_client)) == NULL)
		{
			ZkTime		deadline;

			zklock_link_look(&link);
			deadline = zklock_link_deadline(&link);
			if (zk_now() >= deadline)
				zklock_link_report(&link, failed, path);
			zklock_session_wait_for(link.down_since != 0 ?
									WAIT_FOR_CONNECT : WAIT_FOR_READ,
									deadline, doing, path);
		}
	}
	PG_CATCH();
	{
		zk_queue_cancel(zklock_client);
		PG_RE_THROW();
	}
	PG_END_TRY();

	callback->func = free_listing;
	callback->arg = listing;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	if (listing->error != ZK_OK)
		zklock_report_error(listing->error, listing->detail, failed, path);
	return listing;
}

/* Reads the queue of a lock.  Returns and throws as await_answer(). */
const ZkQueueListing *
zklock_read_queue(const LockName *name)
{
	zklock_session_open(zklock_table_idle());
	zk_query_request(zklock_client, ZK_QUERY_QUEUE, name->node, NULL);
	return await_answer("while reading the queue of lock \"%s\"",
						"could not read the queue of lock \"%s\"", name->path);
}

/* Reads the record of a lock, an empty one if there is none. */
void
zklock_read_record(const LockName *name, ZkRecord *record)
{
	zklock_session_open(zklock_table_idle());
	zk_record_request(zklock_client, name->node, zklock_root);
	*record = await_answer("while reading the record of lock \"%s\"",
						   "could not read the record of lock \"%s\"", name->path)->record;
}

/*
 * Reads the locks at and below a path, all of them for NULL or "/".  Throws
 * 42501 if the rules do not admit all of them (M1).
 */
const ZkQueueListing *
zklock_read_tree(const char *path)
{
	bool		everything = path == NULL || strcmp(path, "/") == 0;
	LockName	name = {.path = "/"};

	if (everything)
		strlcpy(name.node, zklock_root, sizeof(name.node));
	else
		zklock_name_lock(path, &name);
	zklock_rights_check_path(&name, true);
	zklock_session_open(zklock_table_idle());
	zk_query_request(zklock_client, ZK_QUERY_TREE, name.node, everything ? RESERVED_CHILD : NULL);
	return await_answer("while reading the locks below \"%s\"",
						"could not read the locks below \"%s\"", name.path);
}

/* Returns a contender's name in UTF-8, palloc'd.  Throws 22023. */
static char *
check_contender(const char *contender)
{
	char	   *utf8 = zklock_convert(contender, (int) strlen(contender),
									  GetDatabaseEncoding(), PG_UTF8);

	if (utf8 == NULL || strlen(utf8) >= NAME_MAX || !zk_contender_check(utf8))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid contender name: \"%s\"", contender),
				 errhint("Use zk_lock_queue() to list the contenders of a lock.")));
	return utf8;
}

/* Refuses to break a contender of this backend.  Throws 55000. */
static void
check_not_own(const LockName *name, const char *contender)
{
	Lock	   *lock = zklock_lock_find(name);
	ZkContenderStatus status;

	for (int mode = 0; lock != NULL && mode < ZK_MODE_COUNT; mode++)
	{
		zk_contender_status(zklock_client, lock->contender[mode], &status);
		if (strcmp(status.name, contender) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 lock->permits > 0 ?
					 errmsg("contender \"%s\" of semaphore \"%s\" belongs to this session",
							contender, name->path) :
					 errmsg("contender \"%s\" of lock \"%s\" belongs to this session",
							contender, name->path),
					 lock->level_count > 0 ? errhint("End the transaction.") :
					 lock->permits > 0 ? errhint("Use zk_semaphore_release().") :
					 errhint("Use zk_lock_release().")));
	}
}

/* Logs that a contender was broken, or, if found is NULL, may have been. */
static void
log_break(const LockName *name, const char *contender, const char *user,
		  const ZkQueueListing *found)
{
	const ZkQueueMember *member = found != NULL ? found->members : NULL;
	char	   *owner = NULL;

	if (member != NULL)
		owner = zklock_owner_describe(member->data == NULL ? "" :
									  pnstrdup(member->data, member->data_len),
									  0, true);
	ereport(LOG,
			(member != NULL ?
			 errmsg("contender \"%s\" of lock \"%s\" was broken by user \"%s\"",
					contender, name->path, user) :
			 errmsg("user \"%s\" was interrupted while breaking contender \"%s\" of lock \"%s\"",
					user, contender, name->path),
			 member != NULL ?
			 errdetail_log("It belonged to %s, ZooKeeper session 0x%llx.", owner,
						   (unsigned long long) member->session_id) :
			 errdetail("It is unknown whether the contender was deleted.")));
}

/*
 * Breaks a contender, and logs that, or (only_revoke) asks its owner to release
 * the lock.  Returns false if there is no such contender.  Throws 22023, 55000
 * for this backend's own, 42501.
 */
bool
zklock_break(const LockName *name, const char *contender, bool only_revoke)
{
	char	   *utf8 = check_contender(contender);
	const char *user = GetUserNameFromId(GetUserId(), false);
	char	   *who;
	const ZkQueueListing *found;

	zklock_session_open(zklock_table_idle());
	check_not_own(name, utf8);
	who = zklock_owner_data();
	zk_queue_break(zklock_client, name->node, utf8, who, only_revoke);
	PG_TRY();
	{
		found = await_answer(only_revoke ?
							 "while revoking a contender of lock \"%s\"" :
							 "while breaking a contender of lock \"%s\"",
							 only_revoke ?
							 "could not revoke a contender of lock \"%s\"" :
							 "could not break a contender of lock \"%s\"",
							 name->path);
	}
	PG_CATCH();
	{
		if (!only_revoke)
			log_break(name, contender, user, NULL);
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (found->count > 0 && !only_revoke)
		log_break(name, contender, user, found);
	return found->count > 0;
}

/* Reports each revocation of a lock held here once, if messages may be sent. */
void
zklock_report_revoked(void)
{
	static int	reported = 0;
	int			revocations = zklock_client != NULL ?
	zk_client_revocations(zklock_client) : 0;

	if (revocations == reported)
		return;
	reported = revocations;
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		{
			ZkContenderStatus status;

			if (lock->lost || lock->contender[mode] == 0 ||
				lock->contender[mode] == lock->revoked[mode])
				continue;
			zk_contender_status(zklock_client, lock->contender[mode], &status);
			if (!status.revoked || status.state != ZK_HELD)
				continue;
			lock->revoked[mode] = lock->contender[mode];
			ereport(NOTICE,
					(lock->permits > 0 ?
					 errmsg("release of semaphore \"%s\" was requested", lock->path) :
					 errmsg("release of lock \"%s\" was requested", lock->path),
					 errdetail("Contender \"%s\" was revoked with zk_lock_revoke(), or by a Curator client.",
							   status.name)));
		}
}
