/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Check for deadlocks while waiting: publish the wait, walk from holder to
 *	  holder, confirm, report.
 *
 * A backend that has waited for deadlock_timeout publishes what it waits for,
 * reads what others have published, with the queues concerned, and searches
 * for a cycle.  All this happens between two sleeps of the loop that waits
 * (acquire.c): orders to the lock client, and checks for its answer.  Nothing
 * here waits, and failures are logged and do not end the wait.  X3 and X7 are
 * in wait_edges.c, X5 is in waitgraph.c.
 *
 *    acquire.c: the wait continues all the time
 *        |
 *    takes part? -> publish -> read -> cycle? -> read -> the same? -> 40P01
 *        |no           ^         |no                |no
 *        v             |         v                  v
 *    check again in    +-- again when what is waited for, or the
 *    deadlock_timeout      connection, has changed
 *
 * X1. A waiter can be in a cycle only if others may wait for it, so it takes
 * part only if it also holds a lock, the shared side of an upgrade included;
 * or asks for several locks, of which some may be granted, and others have a
 * place in the queue; or a process waits in PostgreSQL for a lock that it
 * holds, which is checked every deadlock_timeout (lock->nRequested > nGranted
 * is a cheap test).  CREATE INDEX CONCURRENTLY, for one, waits for all, so no
 * waiter is exempt from that check.  The others neither publish nor walk.
 *
 * X2. The client creates, changes and deletes what is published like
 * contenders (Q5): orders that cannot fail, carried out over lost connections.
 * It names contenders, so being out of date does no harm: one that is granted
 * or gone waits for nothing.  Nor does what the ensemble has not heard yet: a
 * backend that has released a lock and asks for the next one sends the delete
 * before the create, or both when it has a connection again, long before it
 * publishes.  So a session that holds and waits in the ensemble's view did
 * both at one time.
 *
 * X4. Confirmation.  Everything is read again after the first reading has
 * ended, and each fact of the cycle has to be the same: the published wait
 * with the same mzxid, the two contenders, whose names are never reused, in
 * the same queue, the wait in PostgreSQL for the same lock with the same
 * start.  Each of these, seen twice, was true all the time in between: a znode
 * that was changed or created again has another mzxid, and a contender does
 * not come back.  So all were true together, at any moment between the
 * readings.  This requires that the server does not go back in time: both are
 * made within one connection, as a reconnect publishes the wait again, with
 * another mzxid.
 *
 * X6. The wait continues meanwhile.  The walk is a query of the client, and so
 * is the search for a holder (V5); they take turns.  A grant, a cancel or a
 * timeout that comes first is taken, and the query dropped.  Failures are
 * logged once and retried after deadlock_timeout.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "pgstat.h"
#include "postmaster/postmaster.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "zklock.h"
#include "auth_settings.h"
#include "deadlock.h"
#include "holder.h"
#include "lock_table.h"
#include "owner.h"
#include "session.h"
#include "wait_edges.h"

/* Below zklock.root: the parent of the published waits. */
#define WAITS_NODE	"/.zklock/waits"

/* Most bytes for what is waited for, to leave some for the waiter. */
#define MAX_TEXT	(ZK_WAIT_MAX_TEXT - 4096)

/*
 * A backend that processes in PostgreSQL wait for walks again after this time,
 * or deadlock_timeout if that is shorter: a cycle that is closed elsewhere is
 * to be detected soon after it was published.  But a walk is followed by a
 * pause that many times as long.
 */
#define WALK_PERIOD	ZK_MS(150)
#define WALK_PAUSE	4

struct DeadlockCheck
{
	MemoryContext context;		/* of all that is kept here */
	ZkTime		next;			/* when to check again for waiters */
	bool		takes_part;		/* others may wait for us */
	char	   *text;			/* what was published; NULL if nothing */
	int64		walked;			/* zxid of the publication that was walked
								 * from */
	bool		walking;		/* an answer is to come */
	ZkTime		began;			/* when the last walk did */
	ZkTime		took;			/* how long the one before took */
	bool		again;			/* walk once more */
	bool		failed;			/* the last walk did */
	bool		logged;			/* which the server log was told */
	WaitCycle  *seen;			/* by the last walk; NULL if none */
	MemoryContext reading;		/* of that; NULL if there was none */
};

/* Returns the parent of the published waits; palloc'd. */
static char *
waits_node(void)
{
	return psprintf("%s" WAITS_NODE, zklock_root);
}

/* Returns the lock path of a lock node, palloc'd. */
static char *
path_of_node(const char *node)
{
	size_t		root = strlen(zklock_root);
	char	   *path;

	if (strncmp(node, zklock_root, root) == 0)
		node += root;
	path = zklock_convert(node, (int) strlen(node), PG_UTF8,
						  GetDatabaseEncoding());
	return path != NULL ? path : pstrdup("?");
}

/* Fills in the fields of a process of this instance. */
static void
local_fields(int pid, Datum *values, bool *nulls)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	char	   *database = proc != NULL && OidIsValid(proc->databaseId) ?
	get_database_name(proc->databaseId) : NULL;

	memset(nulls, true, sizeof(bool) * OWNER_FIELDS);
	values[OWNER_CLUSTER] = CStringGetTextDatum(cluster_name);
	values[OWNER_HOST] = CStringGetTextDatum(zklock_host());
	values[OWNER_PORT] = Int32GetDatum(PostPortNumber);
	values[OWNER_PID] = Int32GetDatum(pid);
	nulls[OWNER_CLUSTER] = nulls[OWNER_HOST] = false;
	nulls[OWNER_PORT] = nulls[OWNER_PID] = false;
	if (database == NULL)
		return;
	values[OWNER_DATNAME] = CStringGetTextDatum(database);
	nulls[OWNER_DATNAME] = false;
}

/* Appends a description of a waiter, as far as it is known. */
static void
append_waiter(StringInfo buf, const Waiter *waiter)
{
	Datum		values[OWNER_FIELDS] = {0};
	bool		nulls[OWNER_FIELDS];

	if (waiter->owner != NULL)
		zklock_owner_fields(waiter->owner, waiter->owner_length, values, nulls);
	else
		local_fields(waiter->pid, values, nulls);
	if (nulls[OWNER_PID])
		appendStringInfo(buf, "process of ZooKeeper session 0x%llx",
						 (unsigned long long) waiter->session_id);
	else
		zklock_owner_append(buf, values, nulls);
}

/* Appends a line of the DETAIL: waiter, what it waits for, blocker. */
static void
append_step(StringInfo buf, const WaitStep *step)
{
	int			start;

	if (buf->len > 0)
		appendStringInfoChar(buf, '\n');
	start = buf->len;
	append_waiter(buf, &step->waiter);
	buf->data[start] = (char) pg_toupper((unsigned char) buf->data[start]);
	appendStringInfoString(buf, " waits for ");
	if (step->local)
	{
		appendStringInfo(buf, "%s on ",
						 GetLockmodeName(step->tag.locktag_lockmethodid,
										 step->lock_mode));
		DescribeLockTag(buf, &step->tag);
		appendStringInfoString(buf, "; blocked by ");
	}
	else
		appendStringInfo(buf, "%s lock \"%s\"; %s ",
						 zklock_mode_name(step->mode), path_of_node(step->node),
						 step->held ? "held by" : "queued behind");
	append_waiter(buf, &step->blocker);
	appendStringInfoChar(buf, '.');
}

/* This backend is the victim of a deadlock.  Throws 40P01. */
pg_noreturn static void
report_cycle(const WaitCycle *cycle)
{
	StringInfoData detail;
	const WaitStep *first = &cycle->steps[0];
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	initStringInfo(&detail);
	for (int i = 0; i < cycle->count; i++)
		append_step(&detail, &cycle->steps[i]);
	if (log_lock_waits)
		ereport(LOG,
				(errmsg("process %d detected deadlock while waiting for %s lock \"%s\"",
						MyProcPid, zklock_mode_name(first->mode),
						path_of_node(first->node)),
				 errdetail_log("%s", detail.data)));
	pgstat_report_deadlock();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 all ? errdetail_internal("%s", detail.data) :
			 errdetail("Process %d waits for %s lock \"%s\" in a cycle of %d. See the server log for details.",
					   MyProcPid, zklock_mode_name(first->mode),
					   path_of_node(first->node), cycle->count),
			 errdetail_log("%s", detail.data),
			 errhint("Acquire locks in a consistent order, or all of them in one call.")));
}

/* Returns what to publish, palloc'd; NULL if that is not possible. */
static char *
make_text(const Awaited *awaited, int count)
{
	StringInfoData buf;
	bool		nameless = false;

	initStringInfo(&buf);
	for (int i = 0; i < count; i++)
	{
		if (awaited[i].name[0] != '\0')
			appendStringInfo(&buf, "%s %s\n", awaited[i].name,
							 awaited[i].node);
		else
			nameless = true;
	}
	if (!nameless && buf.len < MAX_TEXT)
		return buf.data;
	pfree(buf.data);
	return NULL;
}

/* Publishes the wait, unless it is already. */
static void
publish(DeadlockCheck *check, const Awaited *awaited, int count)
{
	char	   *text = make_text(awaited, count);
	char	   *whole;

	if (text == NULL)
		return;
	if (check->text != NULL && strcmp(text, check->text) == 0)
	{
		pfree(text);
		return;
	}
	whole = psprintf("%s\n%s", zklock_owner_data(), text);
	check->text = text;
	check->seen = NULL;
	zk_wait_publish(zklock_client, waits_node(), whole, strlen(whole));
}

/* Takes the result of a walk; a cycle counts when read twice.  Throws 40P01. */
static void
take_listing(DeadlockCheck *check, const ZkQueueListing *listing, int64 zxid)
{
	ZkSessionStatus status;
	WaitCycle  *seen = check->seen;
	MemoryContext earlier = check->reading;

	check->seen = NULL;
	check->failed = listing->error != ZK_OK;
	if (check->failed)
	{
		if (!check->logged)
			ereport(LOG,
					(errmsg("could not check for deadlocks"),
					 errdetail_internal("%s", listing->detail)));
		check->logged = true;
		return;
	}
	zk_client_status(zklock_client, &status);
	check->reading = AllocSetContextCreate(check->context,
										   "zklock published waits",
										   ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(check->reading);
	check->seen = zklock_find_cycle(listing, status.session_id, zxid);
	if (seen != NULL && check->seen != NULL &&
		zklock_same_cycle(seen, check->seen))
		report_cycle(seen);
	MemoryContextSwitchTo(check->context);
	if (earlier != NULL)
		MemoryContextDelete(earlier);
}

/*
 * Continues the walk, or begins one if the wait was published (again),
 * processes wait for us in PostgreSQL, or a cycle has to be confirmed.
 */
static void
walk(DeadlockCheck *check)
{
	int64		zxid = zk_wait_zxid(zklock_client);
	char	   *node;

	if (check->walking)
	{
		ZkQueueListing *listing = zk_queue_take(zklock_client);

		if (listing == NULL)
			return;
		check->walking = false;
		zklock_holder_resume();
		check->took = zk_now() - check->began;
		PG_TRY();
		{
			take_listing(check, listing, zxid);
		}
		PG_CATCH();
		{
			zk_queue_free(listing);
			PG_RE_THROW();
		}
		PG_END_TRY();
		zk_queue_free(listing);
	}
	if (zxid == 0 ||
		(zxid == check->walked && !check->again && check->seen == NULL) ||
		!zklock_holder_pause())
		return;
	check->again = false;
	check->walked = zxid;
	check->walking = true;
	check->began = zk_now();
	node = waits_node();
	zk_query_request(zklock_client, ZK_QUERY_WAITS, node, NULL);
	pfree(node);
}

/* Checks whether others may wait for us, and sets the next check. */
static void
look_for_waiters(DeadlockCheck *check, int count, ZkTime now)
{
	bool		waited_for = zklock_waited_for_locally();
	ZkTime		period = ZK_MS(DeadlockTimeout);

	if (waited_for)
		period = Max(Min(period, WALK_PERIOD), WALK_PAUSE * check->took);
	check->next = now + period;

	check->takes_part = check->takes_part || waited_for || count > 1 ||
		!zklock_table_idle();
	check->again = check->again || waited_for || check->failed;
}

/*
 * Checks whether a call that has waited for deadlock_timeout for these locks is
 * the victim of a deadlock: throws 40P01 then.  *check is NULL at first.
 * Returns when to call again, at the latest. zklock_deadlock_end() is due after
 * the wait.
 */
ZkTime
zklock_deadlock_check(DeadlockCheck **check, const Awaited *awaited,
					  int count, ZkTime now)
{
	DeadlockCheck *this = *check;
	MemoryContext old_context;

	if (this == NULL)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
													  "zklock deadlock check",
													  ALLOCSET_SMALL_SIZES);

		this = *check = MemoryContextAllocZero(context, sizeof(*this));
		this->context = context;
	}
	old_context = MemoryContextSwitchTo(this->context);
	if (now >= this->next)
		look_for_waiters(this, count, now);
	if (this->takes_part)
	{
		publish(this, awaited, count);
		walk(this);
	}
	MemoryContextSwitchTo(old_context);
	return this->next;
}

/* Removes what is published, after the wait.  Cannot fail. */
void
zklock_deadlock_end(DeadlockCheck **check)
{
	DeadlockCheck *this = *check;

	if (this == NULL)
		return;
	*check = NULL;
	if (this->walking)
	{
		zk_queue_cancel(zklock_client);
		zklock_holder_resume();
	}
	if (this->text != NULL)
		zk_wait_withdraw(zklock_client);
	MemoryContextDelete(this->context);
}
