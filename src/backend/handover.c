/*-------------------------------------------------------------------------
 *
 * handover.c
 *	  Causal hand-over: what the last holder of a lock has committed is there
 *	  for the next one, on whichever server of a cluster that is.
 *
 * Who releases a lock leaves in its record how far the WAL of the cluster went
 * with the last commit of the backend.  Who acquires it on a standby of that
 * cluster waits until so much has been replayed.  Positions of other clusters
 * are passed on as they are, so that what was committed reaches its own cluster
 * again by way of others.
 *
 * H1. The position that is left is the end of the last commit of the backend
 * (XactLastCommitEnd), or what is flushed, if that is less.  It is the last
 * commit, not that of the transaction which has the lock: at worst somebody
 * waits for a commit that was made before.  A server in recovery has committed
 * nothing and leaves nothing of its own.
 *
 * H2. A position is of a cluster (its system identifier) and of a timeline.  Of
 * two the one on the higher timeline is later.  In a record there is one for
 * each cluster, and whoever writes it keeps those of others.  (A copy of a
 * cluster that goes its own way has the same identifier, and its timelines are
 * not told from those of the same number; PostgreSQL cannot, either.  It should
 * not use the same locks with hand-over.)
 *
 * H3. "Replayed" is: the server replays the timeline of the position, or one
 * whose history has the position's timeline up to the position at least; and it
 * has replayed so far.  A server on a lower timeline waits, as it may follow
 * the failover yet.  If the timeline has left that of the position before, and
 * so what was committed is lost, there is nothing to wait for.  A primary waits
 * for nothing.
 *
 * H4. The wait is behind the grant: the contender is held meanwhile, its lease
 * is kept, and nobody else gets the lock to see less.  For the caller it is a
 * wait like that for the holder.  If the lock is lost meanwhile the contender
 * queues anew.  PostgreSQL (15) wakes nobody when something is replayed, so it
 * is looked for, every 2 ms at first and every 20 ms later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/timeline.h"
#include "access/xlog.h"

#include "zklock.h"
#include "handover.h"

/* How long to wait before looking how far replay is, at first and later. */
#define REPLAY_POLL_FIRST	ZK_MS(2)
#define REPLAY_POLL			ZK_MS(20)

/* Setting; see zklock.c for what it means. */
bool		zklock_handover = false;

/*
 * How far the WAL went with the last commit of this backend, flushed or not;
 * all zeroes if it has made none.  Takes no memory and cannot fail: it may be
 * called after a commit, and when the process exits.
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

/* How far the WAL goes that this server has, or in recovery has replayed. */
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
 * Add to a note for the record how far the WAL went with the last commit of
 * this backend, if it has made one.  With synchronous_commit = off that may not
 * have been flushed, and what is not may be lost in a crash: then only so much
 * as is.  Takes no memory and cannot fail.
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
 * Does a timeline, other than that of the position itself and higher, have what
 * the position stands for?  If its history is not at hand that is believed: a
 * server that has got there by replication has the file.
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

/*
 * How far is this server, as to a position of its cluster?  *have says how far.
 */
ReplayState
zklock_handover_judge_position(const ZkPosition *wanted, ZkPosition *have)
{
	bool		recovery = RecoveryInProgress();
	TimeLineID	timeline;
	bool		replayed = true;

	*have = *wanted;
	if (recovery)
	{
		have->lsn = GetXLogReplayRecPtr(&timeline);
		replayed = have->lsn >= wanted->lsn;
	}
	else
		timeline = zklock_insertion_timeline();
	have->timeline = timeline;

	if (timeline < wanted->timeline)
		return recovery ? REPLAY_PENDING : REPLAY_NEVER;
	if (timeline > wanted->timeline && !history_includes(timeline, wanted))
		return REPLAY_NEVER;
	return replayed ? REPLAY_DONE : REPLAY_PENDING;
}

/*
 * How far is this server, as to what the record of a lock asks for?  If it has
 * not come so far, or never will, *wanted and *have say what is asked for and
 * what is there.
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

/*
 * When is it worth looking again how far replay is, for a call that has been
 * waiting for it since then?
 */
ZkTime
zklock_handover_look_at(ZkTime since, ZkTime now)
{
	return now + Min(REPLAY_POLL_FIRST + (now - since) / 8, REPLAY_POLL);
}

/* What a wait for replay is for, as a sentence; palloc'd. */
char *
zklock_handover_describe(const ZkPosition *wanted, const ZkPosition *have)
{
	return psprintf("The last holder committed up to %X/%X on timeline %u, and this server has replayed up to %X/%X on timeline %u.",
					LSN_FORMAT_ARGS(wanted->lsn), wanted->timeline,
					LSN_FORMAT_ARGS(have->lsn), have->timeline);
}

/* Tell that what was committed under a lock will never be there. */
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
