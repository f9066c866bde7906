/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  A lock call from start to end: look into the lock table, ask for
 *	  contenders, wait, grant.
 *
 * One lock is several of which there is only one.
 *
 * Whatever ends a wait early, an error, a cancel or a timeout, the contenders
 * are released or abandoned before this file is left, and the lock client
 * finishes the work.  When all were granted only counts change, which cannot
 * fail.
 *
 * "False" from an acquire means one thing only: somebody else holds the lock.
 * When that is not known for certain, the call is an error.
 *
 * IDENTIFICATION
 *	  src/acquire.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "storage/proc.h"

#include "zklock.h"

/* Bytes of an invalid path that a message shows. */
#define SHOWN_PATH_BYTES	200

/* Bytes of what a contender says about itself that a message shows. */
#define SHOWN_OWNER_BYTES	255

/* How long to wait before looking how far replay is, at first and later. */
#define REPLAY_POLL_FIRST	ZK_MS(2)
#define REPLAY_POLL			ZK_MS(20)

/* How often contenders of several locks may be deleted by strangers. */
#define MAX_VANISHED	10

/* A contender on its way to being granted. */
typedef struct LockWait
{
	const ZkLockName *name;
	ZkLock	   *lock;
	ZkContenderId id;
	bool		upgrade;		/* the same lock is held shared */
	ZkTime		behind_since;	/* first seen behind another; 0 for not yet */
	bool		logged;			/* for log_lock_waits */
	bool		renewed;		/* a proof was asked for */
	ZkTime		replay_since;	/* first seen waiting for replay; or 0 */
	bool		replay_never;	/* which will not come, as was said */
	ZkPosition	wanted;			/* up to where, when last looked at */
	ZkPosition	have;
	ZkContenderStatus status;	/* as last looked at */
	ZkHolder	holder;			/* of the lock, as far as known */
} LockWait;

/* A call that acquires one lock or several. */
typedef struct LockCall
{
	ZkMode		mode;
	int			permits;		/* in ZK_PERMIT: how many there are; else 0 */
	const char *owner;			/* data for the contenders */
	bool		job;			/* the caller wants the lock's record */
	bool		handover;		/* what was committed is waited for and left */
	const LockWait *replaying;	/* all are granted, this one is not replayed */
	bool		try_once;		/* timeout 0: do not wait for others */
	ZkTime		deadline;		/* of the caller's timeout */
	ZkTime		lock_deadline;	/* of lock_timeout */
	ZkLink		link;
	int			vanished;		/* contenders deleted by strangers */
	int			wait_count;		/* locks that are to be queued for */
	LockWait   *waits;
	ZkAwaited  *awaited;		/* the same, for who looks for deadlocks */
	ZkDeadlockCheck *check;		/* NULL before there is reason to */
	int			covered_count;	/* locks that are only to be counted */
	ZkLock	  **covered;
} LockCall;

/*
 * Check a lock path as the caller wrote it, in the server encoding, and work
 * out its lock node.  Nothing is asked of the network.  Throws 22023.
 *
 * The root is taken as UTF-8 whatever the encoding of the database is: it
 * means the same lock nodes in all databases of a cluster.
 */
void
zklock_name_lock(const char *path, ZkLockName *name)
{
	int			length = (int) strlen(path);
	char	   *utf8 = zklock_convert(path, length, GetDatabaseEncoding(),
									  PG_UTF8);
	const char *wrong;

	if (utf8 == NULL)
		wrong = "It cannot be converted to UTF-8.";
	else
		wrong = zk_path_check(utf8, strlen(utf8));
	if (wrong == NULL &&
		strlen(zklock_root) + strlen(utf8) >= ZK_NODE_PATH_SIZE)
		wrong = psprintf("Together with \"zklock.root\" it is longer than %d bytes.",
						 ZK_NODE_PATH_SIZE - 1);
	if (wrong != NULL)
	{
		int			shown = pg_mbcliplen(path, length, SHOWN_PATH_BYTES);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid lock path \"%.*s%s\"", shown, path,
						shown < length ? "..." : ""),
				 errdetail("%s", wrong)));
	}

	name->path = path;
	snprintf(name->node, sizeof(name->node), "%s%s", zklock_root, utf8);
	pfree(utf8);
}

/* What a call waits for, for messages. */
static const char *
wait_purpose(const LockCall *call)
{
	static const char *const purposes[ZK_MODE_COUNT] = {
		[ZK_EXCLUSIVE] = "while waiting for exclusive lock",
		[ZK_SHARED] = "while waiting for shared lock",
		[ZK_PERMIT] = "while waiting for a permit of semaphore"
	};

	if (call->replaying != NULL)
		return "while waiting for replay of what was committed under lock";
	return purposes[call->mode];
}

/* The same in the log. */
static const char *
wanted(const LockCall *call)
{
	static const char *const names[ZK_MODE_COUNT] = {
		[ZK_EXCLUSIVE] = "exclusive lock",
		[ZK_SHARED] = "shared lock",
		[ZK_PERMIT] = "a permit of semaphore"
	};

	return names[call->mode];
}

/* What a call has failed to do, for messages. */
static const char *
failure(const LockCall *call)
{
	return call->mode == ZK_PERMIT ?
		"could not acquire semaphore" : "could not acquire lock";
}

/*
 * Who is behind a contender, in its own words (its data) and in parentheses;
 * empty if that is not known or not fit to print.  The words may have been cut
 * short, in the middle of a character.
 */
static const char *
describe_owner(const char *data)
{
	int			length = (int) strlen(data);
	char	   *owner;

	length = pg_encoding_mbcliplen(PG_UTF8, data, length,
								   Min(length, SHOWN_OWNER_BYTES));
	owner = zklock_convert(data, length, PG_UTF8, GetDatabaseEncoding());

	if (owner == NULL || owner[0] == '\0' || strpbrk(owner, "\r\n") != NULL)
		return "";
	return psprintf(" (%s)", owner);
}

/* How many must go first, by what is newer of what is known. */
static int
ahead_of(const LockWait *wait)
{
	return strcmp(wait->holder.blocker, wait->status.blocker) == 0 ?
		wait->holder.ahead : wait->status.ahead;
}

/* Whom a wait is for, or why that is not known, as a sentence; palloc'd. */
static char *
describe_wait(const LockCall *call, const LockWait *wait)
{
	if (call->replaying != NULL)
		return zklock_handover_describe(&wait->wanted, &wait->have);
	if (call->link.down_since != 0)
		return psprintf("There is no connection to ZooKeeper. %s",
						call->link.status.detail);
	if (wait->status.state == ZK_WATCHING && call->mode == ZK_PERMIT)
		return psprintf("Contender \"%s\" waits for one of the permits, of which there are %d, behind contender \"%s\"%s; %d must go first.",
						wait->status.name, call->permits, wait->status.blocker,
						describe_owner(wait->status.blocker_owner),
						ahead_of(wait));
	if (wait->status.state == ZK_WATCHING)
		return psprintf("Contender \"%s\" waits for contender \"%s\"%s; %d must go first.",
						wait->status.name, wait->status.blocker,
						describe_owner(wait->status.blocker_owner),
						ahead_of(wait));
	return pstrdup("ZooKeeper has not answered yet.");
}

/* The same for the server log: and who holds the lock; palloc'd. */
static char *
describe_long_wait(const LockCall *call, const LockWait *wait)
{
	const ZkHolder *holder = &wait->holder;
	bool		next = strcmp(holder->name, holder->blocker) == 0;
	char	   *text = describe_wait(call, wait);

	if (call->link.down_since != 0 || wait->status.state != ZK_WATCHING)
		return text;
	text = psprintf("%s Position in the queue: %d.", text, holder->position);
	if (holder->name[0] == '\0' || wait->status.deadlock)
		return text;
	return psprintf("%s First in the queue: \"%s\"%s.", text, holder->name,
					next ? "" : describe_owner(holder->owner));
}

/*
 * As log_lock_waits asks for: log that a wait has been, or was, a long one.
 */
static void
log_wait(const LockCall *call, const LockWait *wait, const char *stage,
		 bool with_detail)
{
	ZkTime		waited = zk_now() - wait->behind_since;
	char	   *detail = with_detail ? describe_long_wait(call, wait) : NULL;

	ereport(LOG,
			(errmsg("process %d %s %s \"%s\" after %ld.%03d ms",
					MyProcPid, stage, wanted(call), wait->lock->path,
					(long) (waited / 1000), (int) (waited % 1000)),
			 detail != NULL ? errdetail_log("%s", detail) : 0));
}

/*
 * lock_timeout has passed.  Throws 55P03.
 */
pg_noreturn static void
report_lock_timeout(const LockCall *call, const LockWait *wait)
{
	char	   *detail = describe_wait(call, wait);

	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("canceling statement due to lock timeout"),
			 errdetail("%s", detail),
			 errcontext("%s \"%s\"", wait_purpose(call), wait->lock->path)));
}

/*
 * Two that hold a lock shared both want it exclusive, and the other one came
 * first (S25).  Throws 40P01.
 */
pg_noreturn static void
report_deadlock(const LockCall *call, const LockWait *wait)
{
	if (log_lock_waits)
		log_wait(call, wait, "detected deadlock while waiting for", true);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail("Process %d holds lock \"%s\" shared and waits for contender \"%s\" to have it exclusive, which waits for the shared lock to go.",
					   MyProcPid, wait->lock->path, wait->status.blocker),
			 errhint("Release the shared lock, or acquire the lock exclusive from the start.")));
}

/*
 * Ask for the contenders, of several locks for all at once.  Throws 54000,
 * 53200, 08006.
 */
static void
request_contenders(LockCall *call)
{
	ZkContenderWish wish = {
		.mode = call->mode,
		.permits = call->permits,
		.owner = call->owner,
		.owner_len = strlen(call->owner),
		.record_root = call->job || call->handover ? zklock_root : NULL
	};
	const char *nodes[ZK_MAX_GROUP];
	ZkContenderId ids[ZK_MAX_GROUP];
	ZkError		error;

	for (int i = 0; i < call->wait_count; i++)
		nodes[i] = call->waits[i].lock->node;
	if (!zk_contenders_request(zklock_client, &wish, call->wait_count, nodes,
							   ids, &error))
		zklock_report_error(error, "", failure(call),
							call->waits[0].lock->path);
	for (int i = 0; i < call->wait_count; i++)
	{
		call->waits[i].id = ids[i];
		call->waits[i].renewed = false;
		call->waits[i].replay_since = 0;
	}
}

/* Give up the contenders, in whatever state they are.  Cannot fail. */
static void
abandon_contenders(LockCall *call)
{
	for (int i = 0; i < call->wait_count; i++)
	{
		zk_contender_abandon(zklock_client, call->waits[i].id);
		call->waits[i].id = 0;
	}
}

/*
 * A contender has failed.  Returns if all are to queue anew, as one of several has
 * lost its place; else throws what the lock client reports.
 */
static void
check_failure(LockCall *call, const LockWait *wait)
{
	if (wait->status.error == ZK_ERR_UNQUEUED ||
		(wait->status.error == ZK_ERR_VANISHED &&
		 ++call->vanished <= MAX_VANISHED))
		return;
	zklock_report_error(wait->status.error, wait->status.detail,
						failure(call), wait->lock->path);
}

/*
 * Look where a contender stands: ZK_LEASE_RUNS if the caller may be told that it
 * was granted; ZK_LEASE_LAPSED if not yet, be it that its lease is over and a proof
 * was asked for; ZK_LEASE_LOST if all have to queue anew, which they have as well
 * if so much time has passed since the grant that it is lost again (S3).  Throws
 * as check_failure().
 */
static ZkLease
look_at(LockCall *call, LockWait *wait)
{
	ZkLease		lease = ZK_LEASE_LOST;

	zk_contender_status(zklock_client, wait->id, &wait->status);
	if (wait->status.state == ZK_FAILED)
		check_failure(call, wait);
	else if (wait->status.state == ZK_HELD || wait->status.state == ZK_LOST)
	{
		lease = zklock_lease_judge(wait->id, &wait->status);
		if (lease == ZK_LEASE_LAPSED && !wait->renewed)
			zk_client_renew(zklock_client);
		wait->renewed |= lease == ZK_LEASE_LAPSED;
	}
	else
		lease = ZK_LEASE_LAPSED;
	return lease;
}

/*
 * Look where all contenders stand, and have them queue anew if need be.  Returns
 * one that is waited for, behind somebody else's if there is such a one; NULL if
 * all are granted.  *until is moved up to when to look again.  Throws as look_at()
 * and request_contenders().
 */
static LockWait *
look_around(LockCall *call, ZkTime *until)
{
	LockWait   *waited = NULL;

	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		ZkLease		lease = look_at(call, wait);

		if (lease == ZK_LEASE_LOST)
		{
			abandon_contenders(call);
			request_contenders(call);
			memset(&wait->status, 0, sizeof(wait->status));
			return wait;
		}
		if (lease == ZK_LEASE_RUNS)
			continue;
		if (wait->status.state == ZK_HELD)
			*until = Min(*until, wait->status.presumed_lost);
		if (waited == NULL || (waited->status.state != ZK_WATCHING &&
							   wait->status.state == ZK_WATCHING))
			waited = wait;
	}
	return waited;
}

/*
 * What the call builds on must not be lost: locks that are to be upgraded, and
 * those that are only to be counted.  Throws ZKL01.
 */
static void
check_held(const LockCall *call)
{
	for (int i = 0; i < call->wait_count; i++)
		if (call->waits[i].upgrade &&
			zklock_lock_judge(call->waits[i].lock) == ZK_LEASE_LOST)
			zklock_report_lost(call->waits[i].lock);
	for (int i = 0; i < call->covered_count; i++)
		if (zklock_lock_judge(call->covered[i]) == ZK_LEASE_LOST)
			zklock_report_lost(call->covered[i]);
}

/*
 * Let others see what the call waits for, at the moment.
 */
static void
show_wait(const LockCall *call, const LockWait *wait)
{
	const ZkContenderStatus *status = &wait->status;
	ZkWait		seen;

	zklock_stats_behind();
	if (zklock_waiting_places() == 0)
		return;
	zklock_waiting_session(call->link.status.session_id);
	memset(&seen, 0, sizeof(seen));
	strlcpy(seen.path, wait->lock->node + strlen(zklock_root),
			sizeof(seen.path));
	seen.mode = call->mode;
	seen.position = wait->holder.position;
	seen.ahead = wait->holder.ahead;
	strlcpy(seen.contender, status->name, sizeof(seen.contender));
	strlcpy(seen.blocker, status->blocker, sizeof(seen.blocker));
	seen.blocker_session = status->blocker_session;
	strlcpy(seen.blocker_owner, status->blocker_owner,
			sizeof(seen.blocker_owner));
	strlcpy(seen.holder, wait->holder.name, sizeof(seen.holder));
	seen.holder_session = wait->holder.session;
	seen.seen_at = wait->holder.seen_at;
	strlcpy(seen.holder_owner, wait->holder.owner, sizeof(seen.holder_owner));
	zklock_waiting_show(&seen);
}

/*
 * A wait has become a long one.  Is it known who holds the lock, if somebody wants
 * to know?  *next is moved up to when to ask again.
 */
static bool
holder_known(LockWait *wait, ZkTime *next)
{
	if (zklock_waiting_places() == 0 && (wait->logged || !log_lock_waits))
		return true;
	return zklock_holder_learn(&wait->holder, wait->lock, &wait->status,
							   wait->behind_since, next);
}

/*
 * Contenders have stood behind others for deadlock_timeout: look for a deadlock, as
 * far as that can be done now.  Returns and throws as check_long_waits().
 */
static ZkTime
check_deadlock(LockCall *call, ZkTime now)
{
	for (int i = 0; i < call->wait_count; i++)
	{
		call->awaited[i].node = call->waits[i].lock->node;
		call->awaited[i].name = call->waits[i].status.name;
	}
	return zklock_deadlock_check(&call->check, call->awaited, call->wait_count,
								 now);
}

/*
 * Contenders stand behind others: do what is due after deadlock_timeout.
 * Returns when to look again, at the latest.  Throws 40P01.
 */
static ZkTime
check_long_waits(LockCall *call, ZkTime now)
{
	ZkTime		next = ZKLOCK_FOREVER;
	bool		overdue = false;

	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		ZkTime		due;

		if (wait->status.state != ZK_WATCHING)
		{
			zklock_holder_forget(&wait->holder);
			continue;
		}
		zklock_holder_refresh(&wait->holder, &wait->status);
		if (wait->behind_since == 0)
			wait->behind_since = now;
		due = wait->behind_since + ZK_MS(DeadlockTimeout);
		if (now < due)
		{
			next = Min(next, due);
			continue;
		}
		if (wait->status.deadlock)
			report_deadlock(call, wait);
		overdue = true;
		if (!holder_known(wait, &next))
			continue;
		if (log_lock_waits && !wait->logged)
			log_wait(call, wait, "still waiting for", true);
		wait->logged = true;
	}
	return overdue ? Min(next, check_deadlock(call, now)) : next;
}

/*
 * Make sure that a lock that the table says is held really is, before it is
 * counted once more (S4).  Returns false if it was lost.  Throws 55P03, or
 * 08006 when that could not be told in time.
 */
static bool
still_held(LockCall *call, ZkLock *lock)
{
	LockWait	wait = {.lock = lock};
	ZkTime		deadline = Min(call->deadline, call->lock_deadline);

	switch (zklock_lock_assure(lock, deadline, NULL))
	{
		case ZK_LEASE_RUNS:
			return true;
		case ZK_LEASE_LOST:
			break;
		case ZK_LEASE_LAPSED:
			zklock_link_begin(&call->link);
			if (call->lock_deadline < call->deadline)
				report_lock_timeout(call, &wait);
			call->link.was_up = true;	/* when the lock was acquired */
			zklock_link_report(&call->link, failure(call), lock->path);
	}
	return false;
}

/*
 * All contenders are granted.  Do the locks that are only counted hold, too?
 * Returns false if that took some time, in which anything can have happened.
 * Throws ZKL01, and as still_held().
 */
static bool
covered_hold(LockCall *call)
{
	for (int i = 0; i < call->covered_count; i++)
	{
		if (zklock_lock_judge(call->covered[i]) == ZK_LEASE_RUNS)
			continue;
		if (!still_held(call, call->covered[i]))
			zklock_report_lost(call->covered[i]);
		return false;
	}
	return true;
}

/*
 * All contenders are granted.  Has this server replayed what their last holders have
 * left?  Returns a contender of which it has not; NULL if all is there, or never
 * will be, which is a WARNING.  *until is moved up to when to look again.
 */
static LockWait *
find_unreplayed(LockCall *call, ZkTime now, ZkTime *until)
{
	for (int i = 0; call->handover && i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		ZkRecord	record;
		ZkReplay	replay;

		(void) zk_contender_record(zklock_client, wait->id, &record);
		replay = zklock_handover_judge(&record, &wait->wanted, &wait->have);
		if (replay == ZK_REPLAY_NEVER && !wait->replay_never)
			zklock_handover_warn(wait->lock->path, &wait->wanted, &wait->have);
		wait->replay_never |= replay == ZK_REPLAY_NEVER;
		if (replay != ZK_REPLAY_PENDING)
			continue;
		if (wait->replay_since == 0)
			wait->replay_since = now;
		*until = Min(*until, now + Min(REPLAY_POLL_FIRST +
									   (now - wait->replay_since) / 8,
									   REPLAY_POLL));
		return wait;
	}
	return NULL;
}

/* Nobody else is waited for any more, nor asked about.  Cannot fail. */
static void
leave_queue(void)
{
	zklock_holder_forget(NULL);
	zklock_waiting_end();
}

/*
 * Wait until all contenders are granted: true; or until it is certain that
 * somebody else holds one of the locks when time is up: false.  With hand-over a
 * lock counts as somebody else's until what that one has committed is here.
 *
 * Throws 55P03 at lock_timeout, 40P01 for a deadlock, 08001 or 08006 when
 * ZooKeeper cannot be asked, ZKL01 when a lock is to be upgraded and was
 * lost, what the lock client reports, what interrupts throw.
 */
static bool
wait_for_grants(LockCall *call)
{
	for (;;)
	{
		ZkTime		now;
		ZkTime		until = Min(call->deadline, call->lock_deadline);
		ZkTime		patience;
		LockWait   *wait;
		bool		behind;

		zklock_link_look(&call->link);
		wait = look_around(call, &until);
		call->replaying = NULL;
		if (wait == NULL && !covered_hold(call))
			continue;
		now = zk_now();
		if (wait == NULL)
			call->replaying = wait = find_unreplayed(call, now, &until);
		if (wait == NULL)
			return true;
		check_held(call);

		behind = call->replaying != NULL ||
			(wait->status.state == ZK_WATCHING && call->link.down_since == 0);
		if (behind && (call->try_once || now >= call->deadline))
			return false;
		if (now >= call->deadline)
			zklock_link_report(&call->link, failure(call), wait->lock->path);
		if (now >= call->lock_deadline)
			report_lock_timeout(call, wait);
		patience = zklock_link_patience(&call->link);
		if (now >= patience)
			zklock_link_report(&call->link, failure(call), wait->lock->path);
		if (behind && call->replaying == NULL)
		{
			until = Min(until, check_long_waits(call, now));
			show_wait(call, wait);
		}
		else if (call->replaying != NULL)
			leave_queue();
		zklock_session_wait_for(call->link.down_since != 0 ?
								ZK_EVENT_CONNECT : ZK_EVENT_LOCK,
								Min(until, patience), wait_purpose(call),
								wait->lock->path);
	}
}

/*
 * The wait has ended without a grant: delete the contenders, and wait a moment
 * for that.  Throws what interrupts throw.
 */
static void
withdraw(LockCall *call)
{
	ZkTime		deadline = zk_now() + ZKLOCK_CLEANUP_PATIENCE;

	for (int i = 0; i < call->wait_count; i++)
		zk_contender_release(zklock_client, call->waits[i].id);
	for (int i = 0; i < call->wait_count; i++)
		(void) zklock_await_end(call->waits[i].id, wait_purpose(call),
								call->waits[i].lock->path, &deadline,
								&call->waits[i].status);
	abandon_contenders(call);
}

/*
 * The contenders were granted: last reasons not to take them.  Throws 57014 if
 * the statement was cancelled in the same instant (S17), ZKL01 as check_held().
 */
static void
check_grants(const LockCall *call)
{
	CHECK_FOR_INTERRUPTS();
	check_held(call);
	for (int i = 0; i < call->wait_count; i++)
	{
		const LockWait *wait = &call->waits[i];

		if (wait->lock->lost)
			ereport(WARNING,
					(errcode(ERRCODE_ZK_LOCK_LOST),
					 errmsg("%s \"%s\" had been lost",
							zklock_lock_noun(wait->lock), wait->lock->path),
					 zklock_errdetail_lost(wait->lock)));
		if (wait->logged && log_lock_waits)
			log_wait(call, wait, "acquired", false);
	}
}

/*
 * Ask for contenders and wait for their grants; then they are the lock table's.
 * Returns false if somebody else holds one of the locks; no contender is left
 * then, nor after an error.  Throws as wait_for_grants() and
 * request_contenders().
 */
static bool
queue_up(LockCall *call)
{
	bool		granted;

	request_contenders(call);
	PG_TRY();
	{
		granted = wait_for_grants(call);
		zklock_deadlock_end(&call->check);
		if (granted)
			check_grants(call);
		else
			withdraw(call);
	}
	PG_CATCH();
	{
		leave_queue();
		zklock_deadlock_end(&call->check);
		abandon_contenders(call);
		PG_RE_THROW();
	}
	PG_END_TRY();
	leave_queue();

	if (granted)
		zklock_waiting_session(call->link.status.session_id);
	for (int i = 0; granted && i < call->wait_count; i++)
	{
		zklock_lock_granted(call->waits[i].lock, call->mode, call->waits[i].id,
							call->waits[i].status.name);
		call->waits[i].lock->handover[call->mode] = call->handover;
	}
	return granted;
}

/*
 * Fix when a call that begins now has to end.
 */
static void
set_deadlines(LockCall *call, ZkTime timeout)
{
	ZkTime		now = zk_now();

	call->try_once = timeout == 0;
	if (call->try_once)
		timeout = ZK_MS(zklock_connect_timeout);
	call->deadline = timeout > ZKLOCK_FOREVER - now ?
		ZKLOCK_FOREVER : now + timeout;
	call->lock_deadline = LockTimeout > 0 ?
		now + ZK_MS(LockTimeout) : ZKLOCK_FOREVER;
}

/*
 * What the backend has of a path must be what is asked for now: a lock, or a
 * semaphore with as many permits.  Throws 55000.
 */
static void
check_kind(const LockCall *call, const ZkLock *lock)
{
	const char *detail = "This backend has it as a lock.";

	if (lock->permits == call->permits)
		return;
	if (lock->permits > 0)
		detail = psprintf(ngettext("This backend has it as a semaphore with %d permit.",
								   "This backend has it as a semaphore with %d permits.",
								   lock->permits), lock->permits);
	zklock_report_error(ZK_ERR_KIND, detail, failure(call), lock->path);
}

/*
 * Sort out which locks have to be queued for, and which the backend holds already
 * and are only to be counted.  Throws ZKL01, see zklock_acquire(), and as
 * check_kind() and still_held().
 */
static void
sort_out(LockCall *call, const ZkLockName *names, int count, ZkScope scope)
{
	call->waits = palloc0(count * sizeof(LockWait));
	call->awaited = palloc(count * sizeof(ZkAwaited));
	call->covered = palloc(count * sizeof(ZkLock *));
	for (int i = 0; i < count; i++)
	{
		ZkLock	   *lock = zklock_lock_find(&names[i]);

		if (lock != NULL)
			check_kind(call, lock);
		if (lock != NULL && zklock_lock_judge(lock) != ZK_LEASE_LOST &&
			zklock_lock_covers(lock, call->mode) && still_held(call, lock))
		{
			call->covered[call->covered_count++] = lock;
			continue;
		}
		if (lock != NULL && lock->lost &&
			(zklock_lock_binds(lock) || scope == ZK_SCOPE_TRANSACTION))
			zklock_report_lost(lock);
		call->waits[call->wait_count++].name = &names[i];
	}
}

/*
 * Queue for the locks of a call, which are some.  Returns false if somebody else
 * holds one of them.  Throws as queue_up(), zklock_session_open() and
 * zklock_lock_make_room().
 */
static bool
acquire_missing(LockCall *call, ZkScope scope)
{
	bool		granted;

	zklock_session_open(zklock_table_idle());
	zklock_link_begin(&call->link);
	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];

		wait->lock = zklock_lock_make(wait->name);
		wait->lock->permits = call->permits;
		zklock_lock_make_room(wait->lock, scope, call->mode);
		wait->upgrade = wait->lock->contender[ZK_SHARED] != 0;
	}
	if (call->owner == NULL)
		call->owner = zklock_owner_data();
	granted = queue_up(call);
	for (int i = 0; !granted && i < call->wait_count; i++)
		zklock_lock_forget(call->waits[i].lock);
	return granted;
}

/*
 * Acquire what a call is for, which has mode and permits; the rest is as for
 * zklock_acquire().
 */
static bool
acquire(LockCall *call, const ZkLockName *names, int count, ZkTime timeout,
		ZkScope scope)
{
	call->handover = zklock_handover && call->mode != ZK_PERMIT;
	set_deadlines(call, timeout);
	sort_out(call, names, count, scope);

	/* of what is lost from here on nothing is acquired anew */
	for (int i = 0; i < call->covered_count; i++)
		zklock_lock_make_room(call->covered[i], scope, call->mode);
	if (call->wait_count == 0)
		check_held(call);
	else if (!acquire_missing(call, scope))
		return false;
	for (int i = 0; i < call->covered_count; i++)
		zklock_lock_count(call->covered[i], scope, call->mode);
	for (int i = 0; i < call->wait_count; i++)
		zklock_lock_count(call->waits[i].lock, scope, call->mode);
	return true;
}

/*
 * The same, counted: as one attempt, however many locks it is for, and one outcome.
 */
static bool
acquire_counted(LockCall *call, const ZkLockName *names, int count,
				ZkTime timeout, ZkScope scope)
{
	bool		granted;

	zklock_stats_begin();
	PG_TRY();
	{
		granted = acquire(call, names, count, timeout, scope);
	}
	PG_CATCH();
	{
		zklock_stats_failed(geterrcode());
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (granted)
		zklock_stats_granted();
	else
		zklock_stats_end(ZK_STAT_TIMEOUTS);
	return granted;
}

/*
 * Acquire locks, all or none: count of them, at most ZK_MAX_GROUP, no two of which
 * are the same.
 *
 * timeout, in microseconds, bounds the whole call: ZKLOCK_FOREVER waits as
 * long as lock_timeout allows, 0 does not wait for others.  Returns true when
 * the locks are held, false when somebody else holds one.
 *
 * A session-scope lock that was lost is acquired anew, with a WARNING.  Not so
 * in transaction scope, nor when the transaction itself has lost it: what it
 * did under the lock may have been overtaken, so it has to roll back, or the
 * session to see to its loss first.  (Having fenced the lock it would even wait
 * for the next holder, who waits at the fence.)  Then throws ZKL01; else as
 * acquire_missing().
 */
bool
zklock_acquire(const ZkLockName *names, int count, ZkTime timeout,
			   ZkMode mode, ZkScope scope)
{
	LockCall	call = {.mode = mode};

	return acquire_counted(&call, names, count, timeout, scope);
}

/*
 * Acquire a permit of a semaphore that has so many, at most ZK_MAX_PERMITS; a
 * backend has one at most, and acquiring it again is counted.  Throws 55000 if the
 * path is in use for a lock, or with another number of permits; else as
 * zklock_acquire().
 */
bool
zklock_acquire_permit(const ZkLockName *name, int permits, ZkTime timeout,
					  ZkScope scope)
{
	LockCall	call = {.mode = ZK_PERMIT,.permits = permits};

	return acquire_counted(&call, name, 1, timeout, scope);
}

/*
 * Acquire the lock of a job, exclusive and for the session, with the record, which
 * tells about its last run.  The contender's data is owner.  timeout and result are
 * those of zklock_acquire(), and so is what it throws.
 */
bool
zklock_acquire_job(const ZkLockName *name, const char *owner, ZkTime timeout)
{
	LockCall	call = {.mode = ZK_EXCLUSIVE,.owner = owner,.job = true};

	return acquire_counted(&call, name, 1, timeout, ZK_SCOPE_SESSION);
}

/*
 * The token of a lock held here, of its exclusive contender if it has one.
 * With prove, only after a proof that began after this call.  Throws 55000 if
 * the lock is not held, ZKL01 if it was lost.
 */
int64
zklock_token(const ZkLockName *name, bool prove)
{
	ZkLock	   *lock = zklock_lock_find(name);
	ZkTime		asked = 0;

	if (lock == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lock \"%s\" is not held", name->path),
				 errdetail("This backend has not acquired it, or has released it.")));
	if (zklock_lock_assure(lock, ZKLOCK_FOREVER,
						   prove ? &asked : NULL) == ZK_LEASE_LOST)
		zklock_report_lost(lock);
	return zklock_lock_token(lock);
}
