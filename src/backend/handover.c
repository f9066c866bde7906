/*-------------------------------------------------------------------------
 *
 * handover.c
 *	  Causal hand-over: the next holder of a lock sees the last holder's
 *	  commits, on any server of the cluster.
 *
 * A release leaves in the lock's record how far the WAL of the cluster went
 * with the last commit of the backend.  An acquisition on a standby of that
 * cluster waits for its replay.
 *
 * H1. The position is the end of the last commit of the backend
 * (XactLastCommitEnd), or what is flushed, if that is less.  The commit need
 * not be that of the transaction that has the lock: at worst the next holder
 * waits for an earlier commit.  A server in recovery has committed nothing and
 * leaves no position of its own.
 *
 * H2. A position belongs to a cluster (its system identifier) and a timeline;
 * of two, the one on the higher timeline is later.  A record has one for each
 * cluster, and each writer keeps those of others.  (A copy of a cluster that
 * goes its own way has the same identifier, and timelines of the same numbers,
 * which PostgreSQL cannot distinguish, either.  It should not use the same
 * locks with hand-over.)
 *
 * H3. "Replayed" means that the server replays the position's timeline, or one
 * whose history includes it at least up to the position; and has replayed that
 * far.  A server on a lower timeline waits, as it may yet follow the failover.
 * If the timeline forked off before the position, so that the commit is lost,
 * there is nothing to wait for.  A primary does not wait.
 *
 * H4. The wait follows the grant: the contender is held, its lease is kept,
 * and no other client gets the lock to see less.  To the caller it is a wait
 * for the holder.  If the lock is lost, the contender requeues.  PostgreSQL
 * (15) wakes no process after replay, so we poll, every 2 ms at first and
 * every 20 ms later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/timeline.h"
#include "access/xlog.h"

#include "zklock.h"
#include "handover.h"

/* The interval of checks of the replay, at first and later. */
#define REPLAY_POLL_FIRST	ZK_MS(2)
#define REPLAY_POLL			ZK_MS(20)

/* Setting; see zklock.c for what it means. */
bool		zklock_handover = false;

/*
 * Returns how far the WAL went with the last commit of this backend, flushed or
 * not; all zeroes for none.  Cannot fail, even after a commit or at exit.
 */
ZkPosition
zklock_handover_commit(void)
{
	ZkPosition	position = {0};
	TimeLineID	timeline;

	if (XactLastCommitEnd == InvalidXLogRecPtr)
		return position;		/* nor may this be a server in recovery */
	(void) zklock_flushed_position(&timeline);
	position.system = GetSystemIdentifier();
	position.timeline = timeline;
	position.lsn = XactLastCommitEnd;
	return position;
}

/* Returns how far the WAL of this server goes, or in recovery is replayed. */
ZkPosition
zklock_handover_here(void)
{
	ZkPosition	position = {.system = GetSystemIdentifier()};
	TimeLineID	timeline;

	if (RecoveryInProgress())
		position.lsn = GetXLogReplayRecPtr(&timeline);
	else
	{
		timeline = zklock_insertion_timeline();
		position.lsn = GetXLogInsertRecPtr();
	}
	position.timeline = timeline;
	return position;
}

/*
 * Adds to a note for the record how far the WAL went with the last commit of
 * this backend, as far as it is flushed: the rest may be lost.  Cannot fail.
 */
void
zklock_handover_note(ZkRecord *note)
{
	ZkPosition	position = zklock_handover_commit();
	TimeLineID	timeline;

	if (position.lsn == InvalidXLogRecPtr)
		return;
	position.lsn = Min(position.lsn, zklock_flushed_position(&timeline));
	note->position_count = 1;
	note->positions[0] = position;
}

/*
 * Returns true if a higher timeline includes a position.  Without its history
 * that is assumed: a server that got there by replication has the file.
 */
static bool
history_includes(TimeLineID timeline, const ZkPosition *position)
{
	List	   *history;
	bool		found = false;
	ListCell   *cell;

	if (!existsTimeLineHistory(timeline))
		return true;
	history = readTimeLineHistory(timeline);
	foreach(cell, history)
	{
		TimeLineHistoryEntry *entry = lfirst(cell);

		/* the position is the end of a record, so the end is included */
		if (entry->tli == position->timeline)
			found = entry->end == InvalidXLogRecPtr ||
				position->lsn <= entry->end;
	}
	list_free_deep(history);
	return found;
}

/* Judges how far this server, at *have, is compared to a position. */
ReplayState
zklock_handover_judge_position(const ZkPosition *wanted, ZkPosition *have)
{
	bool		recovery = RecoveryInProgress();

	*have = zklock_handover_here();
	if (have->timeline < wanted->timeline)
		return recovery ? REPLAY_PENDING : REPLAY_NEVER;
	if (have->timeline > wanted->timeline &&
		!history_includes(have->timeline, wanted))
		return REPLAY_NEVER;
	return recovery && have->lsn < wanted->lsn ? REPLAY_PENDING : REPLAY_DONE;
}

/*
 * Judges how far this server is compared to the record of a lock.  Fills in
 * *wanted and *have unless there is nothing to wait for.
 */
ReplayState
zklock_handover_judge(const ZkRecord *record, ZkPosition *wanted,
					  ZkPosition *have)
{
	const ZkPosition *position = zk_record_position(record,
													GetSystemIdentifier());

	if (position == NULL)
		return REPLAY_DONE;
	*wanted = *position;
	return zklock_handover_judge_position(wanted, have);
}

/* Returns when to check again, for a call that has waited since then. */
ZkTime
zklock_handover_look_at(ZkTime since, ZkTime now)
{
	return now + Min(REPLAY_POLL_FIRST + (now - since) / 8, REPLAY_POLL);
}

/* Describes a wait for replay, as a sentence; palloc'd. */
char *
zklock_handover_describe(const ZkPosition *wanted, const ZkPosition *have)
{
	return psprintf("The last holder committed up to %X/%X on timeline %u, and this server has replayed up to %X/%X on timeline %u.",
					LSN_FORMAT_ARGS(wanted->lsn), wanted->timeline,
					LSN_FORMAT_ARGS(have->lsn), have->timeline);
}

/* Warns that a commit under a lock will never be replayed here. */
void
zklock_handover_warn(const char *path, const ZkPosition *wanted,
					 const ZkPosition *have)
{
	ereport(WARNING,
			(errmsg("last commit under lock \"%s\" is missing from this cluster",
					path),
			 errdetail("The last holder committed up to %X/%X on timeline %u, which timeline %u of this server does not include. The commit was lost in a failover, or this server follows an older timeline.",
					   LSN_FORMAT_ARGS(wanted->lsn), wanted->timeline,
					   have->timeline)));
}
