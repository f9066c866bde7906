/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  A lock call from start to end: look into the lock table, ask for
 *	  contenders, wait, grant.
 *
 * One lock is several of which there is only one.
 *
 * T3. Holding shared and asking for exclusive adds a second contender, which
 * waits for the other readers.  A stranger's exclusive contender between the
 * two waits for us while we wait for it: that is a deadlock, reported after
 * deadlock_timeout, before anything is published.  (It can be told from the
 * queue alone, whatever program the stranger is; and only the one who came
 * later sees it that way, so there is one victim.)
 *
 * T6. A wait that ends by an error leaves through PG_CATCH, which abandons the
 * contender; one that ends by FATAL leaves through the exit callback, which
 * closes the ZooKeeper session.  There is no other way out.
 *
 * T8. Several locks are acquired as one: what is held already is judged again
 * when the last contender is granted, and nothing is counted before all can be.
 * What was held and is lost meanwhile makes the call an error; only what was
 * lost before it is acquired anew.
 *
 * "False" from an acquire means one thing only: somebody else holds the lock.
 * When that is not known for certain, the call is an error.
 *
 * IDENTIFICATION
 *	  src/backend/acquire.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "storage/proc.h"

#include "zklock.h"
#include "acquire.h"
#include "auth_settings.h"
#include "deadlock.h"
#include "handover.h"
#include "held.h"
#include "lock_call.h"
#include "lock_table.h"
#include "release.h"
#include "session.h"
#include "stats.h"
#include "verdict.h"
#include "wait_slots.h"
#include "xact.h"
#include "zk_check.h"

/* Bytes of an invalid path that a message shows. */
#define SHOWN_PATH_BYTES	200

/* Setting: how long to wait after a holder that did not release a lock, in ms. */
int			zklock_lock_delay = 0;

/* How often contenders of several locks may be deleted by strangers. */
#define MAX_VANISHED	10

/*
 * Check a lock path as the caller wrote it, in the server encoding, and work
 * out its lock node.  Nothing is asked of the network.  Throws 22023.
 *
 * The root is taken as UTF-8 whatever the encoding of the database is: it
 * means the same lock nodes in all databases of a cluster.
 */
void
zklock_name_lock(const char *path, LockName *name)
{
	int			length = (int) strlen(path);
	char	   *utf8 = zklock_convert(path, length, GetDatabaseEncoding(),
									  PG_UTF8);
	const char *wrong;

	if (utf8 == NULL)
		wrong = "The path cannot be converted to UTF-8.";
	else
		wrong = zk_path_check(utf8, strlen(utf8));
	if (wrong == NULL &&
		strlen(zklock_root) + strlen(utf8) >= ZK_NODE_PATH_SIZE)
		wrong = psprintf("The path is longer than %d bytes together with \"zklock.root\".",
						 ZK_NODE_PATH_SIZE - 1);
	if (wrong != NULL)
	{
		int			shown = pg_mbcliplen(path, length, SHOWN_PATH_BYTES);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid lock path \"%.*s%s\"", shown, path,
						shown < length ? "..." : ""),
				 errdetail("%s", wrong),
				 path[0] != '\0' && path[0] != '/' ?
				 errhint("Write \"/%.*s%s\".", shown, path,
						 shown < length ? "..." : "") : 0));
	}

	name->path = path;
	snprintf(name->node, sizeof(name->node), "%s%s", zklock_root, utf8);
	pfree(utf8);
}

/*
 * Ask for the contenders, of several locks for all at once.  Throws 54000,
 * 53200, 08006.
 */
static void
request_contenders(LockCall *call)
{
	const char *nodes[ZK_MAX_GROUP];
	ZkContenderId ids[ZK_MAX_GROUP];
	ZkError		error;

	for (int i = 0; i < call->wait_count; i++)
		nodes[i] = call->waits[i].lock->node;
	if (!zk_contenders_request(zklock_client, &call->request, call->wait_count, nodes,
							   ids, &error))
		zklock_report_error(error, "", zklock_wait_failure(call),
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
 * A contender has failed.  Returns if all are to queue anew, as one of several
 * has lost its place; else throws what the lock client reports.
 */
static void
check_failure(LockCall *call, const LockWait *wait)
{
	if (wait->status.error == ZK_ERR_UNQUEUED ||
		(wait->status.error == ZK_ERR_VANISHED &&
		 ++call->vanished <= MAX_VANISHED))
		return;
	if (wait->status.error == ZK_ERR_BROKEN)
		zklock_wait_broken(call, wait);
	zklock_report_error(wait->status.error, wait->status.detail,
						zklock_wait_failure(call), wait->lock->path);
}

/*
 * Look where a contender stands: HOLD_PROVED if the caller may be told that it
 * was granted; HOLD_UNPROVED if not yet, be it that its lease is over and a
 * proof was asked for; HOLD_LOST if all have to queue anew, which they have as
 * well if so much time has passed since the grant that it is lost again (S3).
 * Who is granted a lock and has it broken before the call is over is still a
 * waiter, and ends as one: throws 57000 then, else as check_failure().
 */
static HoldState
poll_contender(LockCall *call, LockWait *wait)
{
	HoldState	lease = HOLD_LOST;

	zk_contender_status(zklock_client, wait->id, &wait->status);
	if (wait->status.state == ZK_FAILED)
		check_failure(call, wait);
	else if (wait->status.state == ZK_HELD || wait->status.state == ZK_LOST)
	{
		lease = zklock_lease_judge(wait->id, &wait->status);
		if (lease == HOLD_LOST && wait->status.loss == ZK_LOST_BROKEN)
			zklock_wait_broken(call, wait);
		if (lease == HOLD_UNPROVED && !wait->renewed)
			zk_client_renew(zklock_client);
		wait->renewed |= lease == HOLD_UNPROVED;
	}
	else
		lease = HOLD_UNPROVED;
	return lease;
}

/*
 * Look where all contenders stand, and have them queue anew if need be.
 * Returns one that is waited for, behind somebody else's if there is such a
 * one; NULL if all are granted.  *until is moved up to when to look again.
 * Throws as poll_contender() and request_contenders().
 */
static LockWait *
poll_contenders(LockCall *call, ZkTime *until)
{
	LockWait   *waited = NULL;

	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		HoldState	lease = poll_contender(call, wait);

		if (lease == HOLD_LOST)
		{
			abandon_contenders(call);
			request_contenders(call);
			memset(&wait->status, 0, sizeof(wait->status));
			return wait;
		}
		if (lease == HOLD_PROVED)
			continue;
		if (wait->status.state == ZK_HELD)
			*until = Min(*until, wait->status.presumed_lost);
		if (waited == NULL || (!zklock_wait_behind(waited) &&
							   zklock_wait_behind(wait)))
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
			zklock_lock_judge(call->waits[i].lock) == HOLD_LOST)
			zklock_report_lost(call->waits[i].lock);
	for (int i = 0; i < call->already_held_count; i++)
		if (zklock_lock_judge(call->already_held[i]) == HOLD_LOST)
			zklock_report_lost(call->already_held[i]);
}

/*
 * Make sure that a lock that the table says is held really is, before it is
 * counted once more (S4).  Returns false if it was lost.  Throws 55P03, or
 * 08006 when that could not be told in time.
 */
static bool
still_held(LockCall *call, Lock *lock)
{
	LockWait	wait = {.lock = lock};
	ZkTime		deadline = Min(call->deadline, call->lock_deadline);

	switch (zklock_lock_assure(lock, deadline, NULL))
	{
		case HOLD_PROVED:
			return true;
		case HOLD_LOST:
			break;
		case HOLD_UNPROVED:
			zklock_link_begin(&call->link);
			if (call->lock_deadline < call->deadline)
				zklock_wait_timed_out(call, &wait);
			call->link.was_up = true;	/* when the lock was acquired */
			zklock_link_report(&call->link, zklock_wait_failure(call), lock->path);
	}
	return false;
}

/*
 * All contenders are granted.  Do the locks that are only counted hold, too?
 * Returns false if that took some time, in which anything can have happened.
 * Throws ZKL01, and as still_held().
 */
static bool
check_already_held(LockCall *call)
{
	for (int i = 0; i < call->already_held_count; i++)
	{
		if (zklock_lock_judge(call->already_held[i]) == HOLD_PROVED)
			continue;
		if (!still_held(call, call->already_held[i]))
			zklock_report_lost(call->already_held[i]);
		return false;
	}
	return true;
}

/*
 * How far is this server, as to what the last holder of a lock has committed?
 * If it will never have it, a WARNING says so.
 */
static ReplayState
judge_handover(const ZkRecord *record, LockWait *wait)
{
	ReplayState replay = zklock_handover_judge(record, &wait->wanted,
											   &wait->have);

	if (replay == REPLAY_NEVER && !wait->replay_never)
		zklock_handover_warn(wait->lock->path, &wait->wanted, &wait->have);
	wait->replay_never |= replay == REPLAY_NEVER;
	return replay;
}

/*
 * All contenders are granted.  Has this server replayed what their last holders
 * have left?  Returns a contender of which it has not; NULL if all is there, or
 * never will be.  *until is moved up to when to look again.
 */
static LockWait *
find_unreplayed(LockCall *call, ZkTime now, ZkTime *until)
{
	for (int i = 0; call->handover && i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		ZkRecord	record;

		(void) zk_contender_record(zklock_client, wait->id, &record);
		if (judge_handover(&record, wait) != REPLAY_PENDING)
			continue;
		if (wait->replay_since == 0)
			wait->replay_since = now;
		*until = Min(*until, zklock_handover_look_at(wait->replay_since, now));
		return wait;
	}
	return NULL;
}

/*
 * Does each contender know its place by now?  Before that one of them may yet
 * turn out to be of another kind than those ahead of it, which is an error
 * whatever the others wait for.
 */
static bool
all_placed(const LockCall *call)
{
	for (int i = 0; i < call->wait_count; i++)
	{
		const LockWait *wait = &call->waits[i];

		if (wait->status.state != ZK_HELD && !zklock_wait_behind(wait))
			return false;
	}
	return true;
}

/*
 * Wait until all contenders are granted: true; or until it is certain that
 * somebody else holds one of the locks when time is up: false.  With hand-over
 * a lock counts as somebody else's until what that one has committed is here,
 * and so it does while the lock delay runs.
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
		wait = poll_contenders(call, &until);
		call->replaying = NULL;
		if (wait == NULL && !check_already_held(call))
			continue;
		now = zk_now();
		if (wait == NULL)
			call->replaying = wait = find_unreplayed(call, now, &until);
		if (wait == NULL)
			return true;
		check_held(call);

		behind = call->replaying != NULL ||
			(zklock_wait_behind(wait) && call->link.down_since == 0);
		if (behind && (now >= call->deadline ||
					   (call->request.no_wait && all_placed(call))))
			return false;
		if (now >= call->deadline)
			zklock_link_report(&call->link, zklock_wait_failure(call), wait->lock->path);
		if (now >= call->lock_deadline)
			zklock_wait_timed_out(call, wait);
		patience = zklock_link_timeout(&call->link);
		if (now >= patience)
			zklock_link_report(&call->link, zklock_wait_failure(call), wait->lock->path);
		if (behind && call->replaying == NULL)
		{
			until = Min(until, zklock_wait_long(call, now));
			zklock_wait_show(call, wait);
		}
		else if (call->replaying != NULL)
			zklock_wait_end();
		zklock_session_wait_for(call->link.down_since != 0 ?
								WAIT_FOR_CONNECT : WAIT_FOR_LOCK,
								Min(until, patience), zklock_wait_purpose(call),
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
	ZkTime		deadline = zk_now() + ZKLOCK_CLEANUP_TIMEOUT;

	for (int i = 0; i < call->wait_count; i++)
		zk_contender_release(zklock_client, call->waits[i].id);
	for (int i = 0; i < call->wait_count; i++)
		(void) zklock_await_end(call->waits[i].id, zklock_wait_purpose(call),
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
					 wait->lock->permits > 0 ?
					 errmsg("semaphore \"%s\" was already lost", wait->lock->path) :
					 errmsg("lock \"%s\" was already lost", wait->lock->path),
					 zklock_errdetail_loss(&wait->lock->loss)));
		if (wait->logged && log_lock_waits)
			zklock_wait_log(call, wait, "acquired", false);
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
		zklock_wait_end();
		zklock_deadlock_end(&call->check);
		abandon_contenders(call);
		PG_RE_THROW();
	}
	PG_END_TRY();
	zklock_wait_end();

	if (granted)
		zklock_waiting_session(call->link.status.session_id);
	for (int i = 0; granted && i < call->wait_count; i++)
	{
		zklock_lock_granted(call->waits[i].lock, call->request.mode, call->waits[i].id,
							call->waits[i].status.name);
		call->waits[i].lock->handover[call->request.mode] = call->handover;
	}
	return granted;
}

/* Fix when a call that begins now has to end. */
static void
set_deadlines(LockCall *call, ZkTime timeout)
{
	ZkTime		now = zk_now();

	call->request.no_wait = timeout == 0;
	if (call->request.no_wait)
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
check_kind(const LockCall *call, const Lock *lock)
{
	const char *detail;

	if (lock->permits == call->request.permits)
		return;
	if (lock->permits > 0)
		detail = psprintf(ngettext("This session holds \"%s\" as a semaphore with %d permit.",
								   "This session holds \"%s\" as a semaphore with %d permits.",
								   lock->permits), lock->path, lock->permits);
	else
		detail = psprintf(_("This session holds \"%s\" as a lock."), lock->path);
	zklock_report_error(ZK_ERR_KIND, detail, zklock_wait_failure(call), lock->path);
}

/*
 * Sort out which locks have to be queued for, and which the backend holds
 * already and are only to be counted.  Throws ZKL01, see zklock_acquire(), and
 * as check_kind() and still_held().
 */
static void
sort_out(LockCall *call, const LockName *names, int count, LockScope scope)
{
	call->waits = palloc0(count * sizeof(LockWait));
	call->awaited = palloc(count * sizeof(Awaited));
	call->already_held = palloc(count * sizeof(Lock *));
	for (int i = 0; i < count; i++)
	{
		Lock	   *lock = zklock_lock_find(&names[i]);

		if (lock != NULL)
		{
			check_kind(call, lock);
			zklock_lock_check_job(lock);
		}
		if (lock != NULL && zklock_lock_judge(lock) != HOLD_LOST &&
			zklock_lock_covers(lock, call->request.mode) && still_held(call, lock))
		{
			call->already_held[call->already_held_count++] = lock;
			continue;
		}
		if (lock != NULL && lock->lost &&
			(zklock_lock_binds(lock) || scope == SCOPE_TRANSACTION ||
			 (zklock_commit_guard != GUARD_OFF && zklock_verdict_worked())))
			zklock_report_lost(lock);
		call->waits[call->wait_count++].name = &names[i];
	}
}

/* Put into the request what the settings say, and who asks if that is not there yet. */
static void
complete_request(LockCall *call)
{
	ZkLockRequest *request = &call->request;

	if (request->owner == NULL)
		request->owner = zklock_owner_data();
	request->root_len = strlen(zklock_root);
	request->record = call->job || call->handover;
	request->lock_delay = request->mode != ZK_PERMIT ? ZK_MS(zklock_lock_delay) : 0;
}

/*
 * Queue for the locks of a call, which are some.  Returns false if somebody
 * else holds one of them.  Throws as queue_up(), zklock_session_open() and
 * zklock_lock_make_room().
 */
static bool
acquire_missing(LockCall *call, LockScope scope)
{
	bool		granted;

	zklock_session_open(zklock_table_idle());
	zklock_link_begin(&call->link);
	zklock_xact_watch();
	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];

		wait->lock = zklock_lock_make(wait->name);
		wait->lock->permits = call->request.permits;
		zklock_lock_make_room(wait->lock, scope, call->request.mode);
		wait->upgrade = wait->lock->contender[ZK_SHARED] != 0;
	}
	complete_request(call);
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
acquire(LockCall *call, const LockName *names, int count, ZkTime timeout,
		LockScope scope)
{
	call->handover = zklock_handover && call->request.mode != ZK_PERMIT;
	set_deadlines(call, timeout);
	zklock_guard_transaction(names, count);
	sort_out(call, names, count, scope);

	/* of what is lost from here on nothing is acquired anew */
	for (int i = 0; i < call->already_held_count; i++)
		zklock_lock_make_room(call->already_held[i], scope, call->request.mode);
	if (call->wait_count == 0)
		check_held(call);
	else if (!acquire_missing(call, scope))
		return false;
	for (int i = 0; i < call->already_held_count; i++)
		zklock_lock_count(call->already_held[i], scope, call->request.mode);
	for (int i = 0; i < call->wait_count; i++)
		zklock_lock_count(call->waits[i].lock, scope, call->request.mode);
	return true;
}

/*
 * The same, counted: as one attempt, however many locks it is for, and one
 * outcome.
 */
static bool
acquire_counted(LockCall *call, const LockName *names, int count,
				ZkTime timeout, LockScope scope)
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
		zklock_stats_end(STAT_TIMEOUTS);
	return granted;
}

/*
 * Acquire locks, all or none: count of them, at most ZK_MAX_GROUP, no two of
 * which are the same.
 *
 * timeout, in microseconds, bounds the whole call: ZKLOCK_FOREVER waits as
 * long as lock_timeout allows, 0 does not wait for others.  Returns true when
 * the locks are held, false when somebody else holds one.
 *
 * A session-scope lock that was lost is acquired anew, with a WARNING.  Not so
 * in transaction scope, nor when the transaction itself has lost it, or may
 * have relied on it: what it did under the lock may have been overtaken, so it
 * has to roll back, or the session to see to its loss first.  For the same
 * reason nothing is acquired where the loss of another lock forbids the commit.
 * (Having fenced the lock it would even wait for the next holder, who waits at
 * the fence.)  Then throws ZKL01; else as acquire_missing().
 */
bool
zklock_acquire(const LockName *names, int count, ZkTime timeout,
			   ZkMode mode, LockScope scope)
{
	LockCall	call = {.request.mode = mode};

	return acquire_counted(&call, names, count, timeout, scope);
}

/*
 * Acquire a permit of a semaphore that has so many, at most ZK_MAX_PERMITS; a
 * backend has one at most, and acquiring it again is counted.  Throws 55000 if
 * the path is in use for a lock, or with another number of permits; else as
 * zklock_acquire().
 */
bool
zklock_acquire_permit(const LockName *name, int permits, ZkTime timeout,
					  LockScope scope)
{
	LockCall	call = {.request = {.mode = ZK_PERMIT,.permits = permits}};

	return acquire_counted(&call, name, 1, timeout, scope);
}

/*
 * Acquire the lock of a job, exclusive and for the session, with the record,
 * which tells about its last runs.  The contender's data is owner.  After
 * max_hold, if that is not 0, the lock is lost.  timeout and result are those
 * of zklock_acquire(), and so is what it throws.
 */
bool
zklock_acquire_job(const LockName *name, const char *owner,
				   ZkTime max_hold, ZkTime timeout)
{
	LockCall	call = {
		.request = {.mode = ZK_EXCLUSIVE,.owner = owner,.max_hold = max_hold},
		.job = true
	};

	return acquire_counted(&call, name, 1, timeout, SCOPE_SESSION);
}

/*
 * The token of a lock held here, of its exclusive contender if it has one.
 * With prove, only after a proof that began after this call.  Throws 55000 if
 * the lock is not held, ZKL01 if it was lost.
 */
int64
zklock_token(const LockName *name, bool prove)
{
	Lock	   *lock = zklock_lock_find(name);
	ZkTime		asked = 0;

	if (lock == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lock \"%s\" is not held", name->path),
				 errdetail("This session did not acquire it, or has released it.")));
	if (zklock_lock_assure(lock, ZKLOCK_FOREVER,
						   prove ? &asked : NULL) == HOLD_LOST)
		zklock_report_lost(lock);
	return zklock_lock_token(lock);
}
