/*-------------------------------------------------------------------------
 *
 * wait_report.c
 *	  While a lock call waits for others: messages, the log, what other
 *	  backends see of it, and what it does after deadlock_timeout.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "storage/proc.h"

#include "zklock.h"
#include "auth_settings.h"
#include "deadlock.h"
#include "handover.h"
#include "holder.h"
#include "lock_call.h"
#include "owner.h"
#include "session.h"
#include "stats.h"
#include "wait_slots.h"

/* Returns what a call waits for, for messages: a format for the path. */
const char *
zklock_wait_purpose(const LockCall *call)
{
	static const char *const purposes[ZK_MODE_COUNT] = {
		[ZK_EXCLUSIVE] = "while waiting for exclusive lock \"%s\"",
		[ZK_SHARED] = "while waiting for shared lock \"%s\"",
		[ZK_PERMIT] = "while waiting for a permit of semaphore \"%s\""
	};

	if (call->replaying != NULL)
		return "while waiting for replay of the last commit under lock \"%s\"";
	return purposes[call->request.mode];
}

/* Returns what a call failed to do, for messages: a format for the path. */
const char *
zklock_wait_failure(const LockCall *call)
{
	return call->request.mode == ZK_PERMIT ?
		"could not acquire semaphore \"%s\"" : "could not acquire lock \"%s\"";
}

/* Returns how many must go first, as last known. */
static int
ahead_of(const LockWait *wait)
{
	return strcmp(wait->holder.blocker, wait->status.blocker) == 0 ?
		wait->holder.ahead : wait->status.ahead;
}

/* Describes whom a wait is for; all of it is for the log.  Palloc'd. */
static char *
describe_others(const LockCall *call, const LockWait *wait, bool all)
{
	const ZkContenderStatus *status = &wait->status;
	const Holder *holder = &wait->holder;
	int			ahead = ahead_of(wait);
	StringInfoData buf;

	initStringInfo(&buf);
	if (call->request.mode == ZK_PERMIT)
	{
		if (call->request.permits == 1)
			appendStringInfoString(&buf, "The only permit is in use.");
		else
			appendStringInfo(&buf, "All %d permits are in use.", call->request.permits);
		appendStringInfo(&buf, " The nearest contender ahead is that of %s.",
						 zklock_owner_describe(status->blocker_owner,
											   status->blocker_session, all));
	}
	else if (ahead > 1 && holder->owner[0] != '\0')
		appendStringInfo(&buf, "The lock is held by %s.",
						 zklock_owner_describe(holder->owner, holder->session, all));
	else
		appendStringInfo(&buf, ahead > 1 ? "The nearest contender ahead is that of %s." :
						 "The lock is held by %s.",
						 zklock_owner_describe(status->blocker_owner,
											   status->blocker_session, all));
	appendStringInfo(&buf, " %d must go first. Position in queue: %d.", ahead,
					 holder->position > 0 ? holder->position : status->position);
	if (all)
		appendStringInfo(&buf, " Contender \"%s\" waits for contender \"%s\".",
						 status->name, status->blocker);
	return buf.data;
}

/* Describes what a wait is for, as above, or why that is unknown.  Palloc'd. */
static char *
describe_wait(const LockCall *call, const LockWait *wait, bool all)
{
	if (call->replaying != NULL)
		return zklock_handover_describe(&wait->wanted, &wait->have);
	if (call->link.down_since != 0)
		return psprintf("There is no connection to ZooKeeper. %s",
						call->link.status.detail);
	if (wait->status.delayed)
		return pstrdup("The last holder did not release the lock. Waiting for \"zklock.lock_delay\".");
	if (wait->status.state == ZK_WATCHING)
		return describe_others(call, wait, all);
	return pstrdup("ZooKeeper has not responded yet.");
}

/*
 * Returns for how long a wait has been for other clients, in microseconds; 0 if
 * it never was.
 */
ZkTime
zklock_wait_time(const LockWait *wait)
{
	return wait->behind_since == 0 ? 0 : Max(zk_now() - wait->behind_since, 1);
}

/* Logs a long wait, as log_lock_waits asks for. */
void
zklock_wait_log(const LockCall *call, const LockWait *wait, WaitStage stage)
{
	static const char *const formats[][ZK_MODE_COUNT] = {
		[STAGE_WAITING] = {
			[ZK_EXCLUSIVE] = "process %d still waiting for exclusive lock \"%s\" after %ld.%03d ms",
			[ZK_SHARED] = "process %d still waiting for shared lock \"%s\" after %ld.%03d ms",
			[ZK_PERMIT] = "process %d still waiting for a permit of semaphore \"%s\" after %ld.%03d ms"
		},
		[STAGE_ACQUIRED] = {
			[ZK_EXCLUSIVE] = "process %d acquired exclusive lock \"%s\" after %ld.%03d ms",
			[ZK_SHARED] = "process %d acquired shared lock \"%s\" after %ld.%03d ms",
			[ZK_PERMIT] = "process %d acquired a permit of semaphore \"%s\" after %ld.%03d ms"
		},
		[STAGE_DEADLOCK] = {
			[ZK_EXCLUSIVE] = "process %d detected deadlock while waiting for exclusive lock \"%s\" after %ld.%03d ms"
		}
	};
	ZkTime		waited = zklock_wait_time(wait);

	ereport(LOG,
			(errmsg(formats[stage][call->request.mode],
					MyProcPid, wait->lock->path,
					(long) (waited / 1000), (int) (waited % 1000)),
			 stage == STAGE_ACQUIRED ? 0 :
			 errdetail_log("%s", describe_wait(call, wait, true))));
}

/* Reports that lock_timeout has passed.  Throws 55P03. */
void
zklock_wait_timed_out(const LockCall *call, const LockWait *wait)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("canceling statement due to lock timeout"),
			 errdetail("%s", describe_wait(call, wait, false)),
			 errdetail_log("%s", describe_wait(call, wait, true)),
			 errcontext(zklock_wait_purpose(call), wait->lock->path)));
}

/* Reports that a contender of the call was broken.  Throws 57000. */
void
zklock_wait_broken(const LockCall *call, const LockWait *wait)
{
	const char *by = wait->status.blocker_owner;

	ereport(ERROR,
			(errcode(ERRCODE_OPERATOR_INTERVENTION),
			 errmsg("%s: contender was removed by zk_lock_break()",
					psprintf(zklock_wait_failure(call), wait->lock->path)),
			 by[0] == '\0' ? errdetail("%s", wait->status.detail) :
			 errdetail("%s", zklock_broken_sentence(by, false)),
			 by[0] == '\0' ? 0 :
			 errdetail_log("%s", zklock_broken_sentence(by, true))));
}

/* Another session waits for the upgrade, and came first (S25): 40P01. */
pg_noreturn static void
report_deadlock(const LockCall *call, const LockWait *wait)
{
	if (log_lock_waits)
		zklock_wait_log(call, wait, STAGE_DEADLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail("Process %d and the owner of contender \"%s\" both hold lock \"%s\" in shared mode and wait for exclusive mode.",
					   MyProcPid, wait->status.blocker, wait->lock->path),
			 errhint("Acquire the lock in exclusive mode from the start.")));
}

/*
 * Returns true if another client holds the lock, as last seen, or a lock delay
 * runs.  A permit that this backend has just released does not count.
 */
bool
zklock_wait_behind(const LockWait *wait)
{
	return (wait->status.state == ZK_WATCHING && !wait->status.own_ahead) ||
		wait->status.delayed;
}

/* Shows this cluster what the call waits for; nothing during a lock delay. */
void
zklock_wait_show(const LockCall *call, const LockWait *wait)
{
	const ZkContenderStatus *status = &wait->status;
	Wait		seen;

	if (wait->status.delayed)
		zklock_wait_slot_clear();
	if (wait->status.delayed || zklock_wait_slots_count() == 0)
		return;
	zklock_wait_slot_session(call->link.status.session_id);
	memset(&seen, 0, sizeof(seen));
	strlcpy(seen.path, wait->lock->node + strlen(zklock_root),
			sizeof(seen.path));
	seen.mode = call->request.mode;
	seen.since = GetCurrentTimestamp() - zklock_wait_time(wait);
	strlcpy(seen.note, call->note, sizeof(seen.note));
	strlcpy(seen.contender, status->name, sizeof(seen.contender));
	seen.blocker_session = status->blocker_session;
	strlcpy(seen.blocker_owner, status->blocker_owner,
			sizeof(seen.blocker_owner));
	seen.holder = wait->holder;
	seen.holder.ask_at = 0;		/* which is for this process only */
	zklock_wait_slot_show(&seen);
}

/* Returns true if the holder is known, or not needed; moves *next up. */
static bool
holder_known(LockWait *wait, ZkTime *next)
{
	bool		to_be_logged = log_lock_waits && !wait->logged;

	if (zklock_wait_slots_count() == 0 && !to_be_logged)
		return true;
	return zklock_holder_learn(&wait->holder, wait->lock, &wait->status,
							   wait->behind_since, to_be_logged, next);
}

/*
 * Does what is due for contenders that have waited for deadlock_timeout.
 * Returns when to look again, at the latest.  Throws 40P01.
 */
ZkTime
zklock_wait_long(LockCall *call, ZkTime now)
{
	ZkTime		next = ZKLOCK_FOREVER;
	bool		overdue = false;

	for (int i = 0; i < call->wait_count; i++)
	{
		LockWait   *wait = &call->waits[i];
		ZkTime		due;

		if (wait->status.state != ZK_WATCHING || wait->behind_since == 0)
		{
			zklock_holder_forget(&wait->holder);
			continue;
		}
		zklock_holder_refresh(&wait->holder, &wait->status);
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
			zklock_wait_log(call, wait, STAGE_WAITING);
		wait->logged = true;
	}

	/* any holder may release a permit: no cycle proves a deadlock */
	if (overdue && call->request.mode != ZK_PERMIT)
		next = Min(next, zklock_deadlock_check(&call->check, call->awaited,
											   call->wait_count, now));
	return next;
}

/* Ends what other backends see of the wait.  Cannot fail. */
void
zklock_wait_end(void)
{
	zklock_holder_forget(NULL);
	zklock_wait_slot_clear();
}
