/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  A lock call from start to end: look into the lock table, request
 *	  contenders, wait, grant.
 *
 * A single lock is a set of one.
 *
 * T3. A backend that holds a lock in shared mode and asks for exclusive mode
 * adds a second contender, which waits for the other readers.  If a stranger's
 * exclusive contender stands between the two, each waits for the other: a
 * deadlock, reported after deadlock_timeout, before anything is published.  It
 * shows in the queue alone, whatever program the stranger is; only the later
 * one sees it that way, so there is one victim.
 *
 * T6. A wait that ends with an error leaves through PG_CATCH, which abandons
 * the contender.  A wait that ends with FATAL leaves through the exit
 * callback, which closes the ZooKeeper session.  There is no other way out.
 *
 * T8. Several locks are acquired as one: locks that are already held are judged
 * again when the last contender is granted, and nothing is counted before all
 * can be.  If one of them is lost in the meantime, the call is an error; only
 * locks lost before the call are acquired again.
 *
 * "False" means only that another client holds the lock.  When that is not
 * certain, the call is an error.
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
#include "lock_stats.h"
#include "lock_table.h"
#include "owner.h"
#include "release.h"
#include "rights.h"
#include "session.h"
#include "stats.h"
#include "verdict.h"
#include "wait_slots.h"
#include "xact.h"
#include "zk_check.h"

/* Bytes of an invalid path that a message shows. */
#define SHOWN_PATH_BYTES	200

/* Setting: the wait after a holder that did not release a lock, in ms. */
int			zklock_lock_delay = 0;

/*
 * When to look whom a call waits for, to show it, and again after twice that
 * time; no later than after deadlock_timeout.  The client does not wake it for
 * that, as most waits are over by then.
 */
#define PLACE_TIME		ZK_MS(250)

/* How often contenders of several locks may be deleted by strangers. */
#define MAX_VANISHED	10

/*
 * Checks a lock path, in the server encoding, and works out its lock node,
 * without network access.  Throws 22023.
 *
 * The root is taken as UTF-8 whatever the encoding of the database is, so that
 * it names the same lock nodes in all databases of a cluster.
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
		char	   *start = psprintf("%.*s%s", shown, path,
									 shown < length ? "..." : "");

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid lock path \"%s\"", start),
				 errdetail("%s", wrong),
				 path[0] != '\0' && path[0] != '/' ?
				 errhint("Write \"/%s\".", start) : 0));
	}

	name->path = path;
	snprintf(name->node, sizeof(name->node), "%s%s", zklock_root, utf8);
	name->root_len = (int) strlen(zklock_root);
	pfree(utf8);
}

/* Requests all contenders in one order.  Throws 54000, 53200, 08006. */
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

/* Gives up the contenders, in any state.  Cannot fail. */
static void
abandon_contenders(LockCall *call)
{
	for (int i = 0; i < call->wait_count; i++)
	{
		zk_contender_abandon(zklock_client, call->waits[i].id);
		call->waits[i].id = 0;
	}
}

/* Throws why a contender failed; returns if all have to queue again. */
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
 * Notes since when a contender has waited, for statistics and messages, also if
 * the wait is over by now.  A call that only tries does not wait.
 */
static void
note_wait(const LockCall *call, LockWait *wait)
{
	if (call->request.no_wait || wait->behind_since != 0 ||
		wait->status.behind_since == 0)
		return;
	wait->behind_since = wait->status.behind_since;
	zklock_stats_behind(wait->behind_since);
}

/*
 * Checks where a contender stands.  Returns HOLD_PROVED if its grant may be
 * reported; HOLD_UNPROVED if not yet, or if a new proof was requested;
 * HOLD_LOST if all have to queue again, also after a grant that was lost since
 * (S3).  Throws 57000 if it was broken: until the call ends it is a waiter.
 */
static HoldState
poll_contender(LockCall *call, LockWait *wait)
{
	HoldState	state = HOLD_LOST;

	zk_contender_status(zklock_client, wait->id, &wait->status);
	note_wait(call, wait);
	if (wait->status.state == ZK_FAILED)
		check_failure(call, wait);
	else if (wait->status.state == ZK_HELD || wait->status.state == ZK_LOST)
	{
		state = zklock_lease_judge(wait->id, &wait->status);
		if (state == HOLD_LOST && wait->status.loss == ZK_LOST_BROKEN)
			zklock_wait_broken(call, wait);
		if (state == HOLD_UNPROVED && !wait->renewed)
			zk_client_renew(zklock_client);
		wait->renewed |= state == HOLD_UNPROVED;
	}
	else
		state = HOLD_UNPROVED;
	return state;
}

/*
 * Polls all contenders, and requeues them if one is lost.  Returns one that
 * waits, if possible behind another client's; NULL if all are granted.  Moves
 * *until up to when to look again.
 */
static LockWait *
poll_contenders(LockCall *call, ZkTime *until)
{
	LockWait   *waited = NULL;

	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		HoldState	state = poll_contender(call, wait);

		if (state == HOLD_LOST)
		{
			abandon_contenders(call);
			request_contenders(call);
			memset(&wait->status, 0, sizeof(wait->status));
			return wait;
		}
		if (state == HOLD_PROVED)
			continue;
		if (wait->status.state == ZK_HELD)
			*until = Min(*until, wait->status.presumed_lost);
		if (waited == NULL || (!zklock_wait_behind(waited) &&
							   zklock_wait_behind(wait)))
			waited = wait;
	}
	return waited;
}

/* Checks that no lock that the call builds on is lost.  Throws ZKL01. */
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
 * Makes sure that a lock in the table is held before it is counted once more
 * (S4).  Returns false if it was lost.  Throws 55P03, or 08006 if it is
 * unknown.
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
 * Checks the locks that are only counted, when all contenders are granted.
 * Returns false if that took time, so that all is to be checked again.  Throws
 * ZKL01.
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
 * Returns a granted contender whose last holder's commits are not replayed
 * here, or NULL; warns of those that never will be.  Moves *until up to when to
 * look again.
 */
static LockWait *
find_unreplayed(LockCall *call, ZkTime now, ZkTime *until)
{
	for (int i = 0; call->handover && i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		ReplayState replay;
		ZkRecord	record;

		(void) zk_contender_record(zklock_client, wait->id, &record);
		replay = zklock_handover_judge(&record, &wait->wanted, &wait->have);
		if (replay == REPLAY_NEVER && !wait->replay_never)
			zklock_handover_warn(wait->lock->path, &wait->wanted, &wait->have);
		wait->replay_never |= replay == REPLAY_NEVER;
		if (replay != REPLAY_PENDING)
			continue;
		if (wait->replay_since == 0)
			wait->replay_since = now;
		*until = Min(*until, zklock_handover_look_at(wait->replay_since, now));
		return wait;
	}
	return NULL;
}

/*
 * Returns true if each contender knows its place.  Before that, one may turn
 * out to be of another kind than those ahead of it: an error in any case.
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
 * Waits until all contenders are granted (true), or it is certain at the
 * deadline that another client holds one of the locks (false).  It counts as
 * such during a lock delay, and until the last holder's commits are replayed.
 *
 * Throws 55P03 at lock_timeout, 40P01 for a deadlock, 08001 or 08006 when
 * ZooKeeper cannot be asked, ZKL01 when a lock to be upgraded was lost.
 */
static bool
wait_for_grants(LockCall *call)
{
	ZkTime		first_look = Min(PLACE_TIME, ZK_MS(DeadlockTimeout));
	ZkTime		place_time = first_look;

	for (;;)
	{
		ZkTime		now;
		ZkTime		until = Min(call->deadline, call->lock_deadline);
		ZkTime		link_deadline;
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
		link_deadline = zklock_link_deadline(&call->link);
		if (now >= link_deadline)
			zklock_link_report(&call->link, zklock_wait_failure(call), wait->lock->path);
		if (call->replaying != NULL)
			zklock_wait_end();
		else if (behind)
		{
			until = Min(until, zklock_wait_long(call, now));
			zklock_wait_show(call, wait);
			place_time = first_look;
		}
		else if (call->link.down_since == 0)
		{
			until = Min(until, now + place_time);
			place_time = Min(place_time * 2, ZK_MS(1000));
		}
		zklock_session_wait_for(call->link.down_since != 0 ?
								WAIT_FOR_CONNECT : WAIT_FOR_LOCK,
								Min(until, link_deadline),
								zklock_wait_purpose(call),
								wait->lock->path);
	}
}

/* Deletes contenders that were not granted, and waits a moment for that. */
static void
withdraw(LockCall *call)
{
	ZkTime		deadline = zk_now() + ZKLOCK_CLEANUP_TIMEOUT;

	for (int i = 0; i < call->wait_count; i++)
		zk_contender_release(zklock_client, call->waits[i].id);
	for (int i = 0; i < call->wait_count; i++)
		(void) zklock_await_end(call->waits[i].id, zklock_wait_purpose(call),
								call->waits[i].lock->path, false, &deadline,
								&call->waits[i].status);
	abandon_contenders(call);
}

/* Last checks.  Throws 57014 if the statement was just cancelled (S17). */
static void
check_grants(const LockCall *call)
{
	CHECK_FOR_INTERRUPTS();
	check_held(call);
	for (int i = 0; i < call->wait_count; i++)
	{
		const LockWait *wait = &call->waits[i];

		if (wait->lock->lost)
			zklock_warn_lost(wait->lock);
		if (wait->logged && log_lock_waits)
			zklock_wait_log(call, wait, STAGE_ACQUIRED);
	}
}

/* Counts that the call ends before it has its locks.  Cannot fail. */
static void
count_timeouts(const LockCall *call)
{
	for (int i = 0; i < call->wait_count; i++)
		if (zklock_wait_behind(&call->waits[i]))
			zklock_lock_stats_timeout(zklock_lock_utf8_path(call->waits[i].lock),
									  zklock_wait_time(&call->waits[i]));
}

/*
 * Requests contenders, waits for their grants, and puts them into the lock
 * table.  Returns false if another client holds one of the locks.  Without a
 * grant no contender is left.
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
		{
			count_timeouts(call);
			withdraw(call);
		}
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE)
			count_timeouts(call);
		zklock_wait_end();
		zklock_deadlock_end(&call->check);
		abandon_contenders(call);
		PG_RE_THROW();
	}
	PG_END_TRY();
	zklock_wait_end();

	if (granted)
		zklock_wait_slot_session(call->link.status.session_id);
	for (int i = 0; granted && i < call->wait_count; i++)
	{
		Lock	   *lock = call->waits[i].lock;

		zklock_lock_granted(lock, call->request.mode, call->waits[i].id,
							call->waits[i].status.name);
		lock->handover[call->request.mode] = call->handover;
		zklock_lock_stats_granted(zklock_lock_utf8_path(lock), call->note,
								  zklock_wait_time(&call->waits[i]));
	}
	return granted;
}

/* Sets when a call that begins now has to end. */
static void
set_deadlines(LockCall *call, ZkTime timeout)
{
	call->request.no_wait = timeout == 0;
	if (call->request.no_wait)
		timeout = ZK_MS(zklock_connect_timeout);
	call->deadline = zklock_deadline(timeout);
	call->lock_deadline = zklock_lock_deadline();
}

/* Checks that the path is not held as another kind.  Throws 55000. */
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

/* Sorts out which locks to queue for, and which to count only. */
static void
sort_out(LockCall *call, const LockName *names, int count, LockScope scope)
{
	int			new_count = 0;

	call->waits = palloc0(count * sizeof(LockWait));
	call->awaited = palloc(count * sizeof(Awaited));
	call->already_held = palloc(count * sizeof(Lock *));
	for (int i = 0; i < count; i++)
	{
		Lock	   *lock = zklock_lock_find(&names[i]);

		new_count += lock == NULL;
		if (lock != NULL)
		{
			check_kind(call, lock);
			zklock_lock_check_job(lock);
		}
		if (lock != NULL && zklock_lock_judge(lock) != HOLD_LOST &&
			(zklock_lock_has_contender(lock, ZK_EXCLUSIVE) ||
			 zklock_lock_has_contender(lock, call->request.mode)) &&
			still_held(call, lock))
		{
			call->already_held[call->already_held_count++] = lock;
			continue;
		}
		if (lock != NULL && lock->lost &&
			(zklock_lock_binds(lock) || scope == SCOPE_TRANSACTION ||
			 (zklock_commit_guard != GUARD_OFF &&
			  zklock_verdict_conduct() >= CONDUCT_WORK)))
			zklock_report_lost(lock);
		call->waits[call->wait_count++].name = &names[i];
	}
	zklock_rights_check_count(new_count);
}

/* Queues for locks.  Returns false if another client holds one of them. */
static bool
acquire_missing(LockCall *call, LockScope scope)
{
	ZkLockRequest *request = &call->request;
	bool		granted;

	zklock_session_open(zklock_table_idle());
	zklock_link_begin(&call->link);
	zklock_xact_watch();
	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];

		wait->lock = zklock_lock_make(wait->name);
		wait->lock->permits = request->permits;
		zklock_lock_make_room(wait->lock, scope, request->mode);
		wait->upgrade = wait->lock->contender[ZK_SHARED] != 0;
		call->awaited[i].node = wait->lock->node;
		call->awaited[i].name = wait->status.name;
	}
	if (request->owner == NULL)
		request->owner = zklock_owner_data();
	call->note = zklock_clean_name(zklock_note);
	request->root_len = call->waits[0].name->root_len;
	request->record |= call->handover;
	request->lock_delay = request->mode != ZK_PERMIT ? ZK_MS(zklock_lock_delay) : 0;
	granted = queue_up(call);
	for (int i = 0; !granted && i < call->wait_count; i++)
		zklock_lock_forget(call->waits[i].lock);
	return granted;
}

/* Acquires the locks of a call, whose mode and permits are set. */
static bool
acquire(LockCall *call, const LockName *names, int count, ZkTime timeout,
		LockScope scope)
{
	call->handover = zklock_handover && call->request.mode != ZK_PERMIT;
	set_deadlines(call, timeout);
	zklock_guard_transaction(names, count);
	sort_out(call, names, count, scope);

	/* what is lost from here on is not acquired again */
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
 * Acquires locks, all or none: count of them, at most ZK_MAX_GROUP, all
 * different. timeout, in microseconds, bounds the whole call: ZKLOCK_FOREVER
 * waits as long as lock_timeout allows, 0 does not wait for others.  Returns
 * true when the locks are held, false when another client holds one.
 *
 * Of the request, the caller sets the mode; for a permit, of which a backend
 * has one at most, their number; and for a job, in exclusive mode and session
 * scope, owner, max_hold and record.
 *
 * A session-scope lock that was lost is acquired again, with a WARNING.  Throws
 * ZKL01 in transaction scope, and if the transaction itself lost the lock or
 * may have relied on it, as its work may have been overtaken; or if the loss of
 * another lock forbids the commit. (With a fence, it would even wait for the
 * next holder, which waits at the fence.)  Throws 55000 if a path is in use for
 * another kind of lock, or with another number of permits.
 */
bool
zklock_acquire(const LockName *names, int count, const ZkLockRequest *request,
			   ZkTime timeout, LockScope scope)
{
	LockCall	call = {.request = *request};
	bool		granted;

	zklock_stats_begin();
	PG_TRY();
	{
		granted = acquire(&call, names, count, timeout, scope);
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
 * Returns a lock that this session holds, perhaps after a proof requested by
 * this call.  Throws 55000 if it is not held, ZKL01 if it was lost.
 */
static Lock *
find_held(const LockName *name, bool prove)
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
	return lock;
}

/*
 * Returns the token of a lock held here, that of its exclusive contender if it
 * has one.  With prove, only after a proof.  Throws as find_held().
 */
int64
zklock_token(const LockName *name, bool prove)
{
	return zklock_lock_token(find_held(name, prove));
}

/*
 * Proves that a lock is held, and returns for how long, in microseconds from
 * now on, that is certain (L1).  Throws as find_held().
 */
ZkTime
zklock_lease(const LockName *name)
{
	const Lock *lock = find_held(name, true);
	ZkTime		end = ZKLOCK_FOREVER;
	ZkContenderStatus status;

	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
	{
		if (!zklock_lock_has_contender(lock, mode))
			continue;
		zk_contender_status(zklock_client, lock->contender[mode], &status);
		end = Min(end, status.lease_end);
	}
	return Max(end - zk_now(), 0);
}
