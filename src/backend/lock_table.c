/*-------------------------------------------------------------------------
 *
 * lock_table.c
 *	  What this backend holds, by scope and by level of subtransaction.
 *
 * One entry for each lock path, in a hash table of the backend: up to two
 * contenders (an exclusive and a shared one) and counts: for each mode, of
 * session scope and for each level of subtransaction.  Acquisitions stack as
 * those of advisory locks do; the contender goes with the last one.
 *
 * Nothing that runs at the end of a transaction allocates, waits or can fail.
 * For that the room is made before a contender is asked for, and the lock
 * client takes orders without allocating (D2).  T3, T6 and T8 are in acquire.c,
 * T5 is in xact.c.
 *
 * T1. Whatever this backend holds never conflicts with what it asks for: the
 * client leaves contenders of its own on the same lock node out of account.
 *
 * T2. Holding exclusive grants shared at once: it is counted only.  Room for
 * the downgrade is made then.  When the last exclusive hold goes first, the
 * shared contender takes the exclusive one's place and number, so nobody who
 * waits can slip in.  It takes its token, too (F9).
 *
 * T4. Counts of a subtransaction go to its parent when it commits, and away
 * when it rolls back.
 *
 * T7. What was fenced in a subtransaction is fenced in its parent when it
 * commits, and not at all when it rolls back.  When the lock's entry goes, that
 * goes with it: an acquisition that begins after it has another token.
 *
 * T9. An entry is a lock's or a semaphore's, and then has a number of permits,
 * as long as it counts anything.  A backend has one permit of a semaphore at
 * most: contenders of the same backend do not exclude each other elsewhere, and
 * a second one could wait for the first without end.
 *
 * T10. The end of a subtransaction looks at those entries only that it may have
 * to do with: they are in a list, by falling nesting level (Lock.nesting).
 * Whoever does something to an entry puts it at the head of that
 * (zklock_lock_touch()), for no level is deeper than that of now.
 *
 * IDENTIFICATION
 *	  src/backend/lock_table.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "handover.h"
#include "lock_table.h"
#include "session.h"
#include "verdict.h"

/* Everything below lives in this context; NULL until the first lock. */
static MemoryContext table_context = NULL;
static HTAB *table = NULL;		/* of Lock by lock node */
static dlist_head locks = DLIST_STATIC_INIT(locks); /* the same, in order */
static int	lock_total = 0;

/*
 * Those that the transaction may have something of, by falling Lock.nesting:
 * what ends a subtransaction looks at no other.
 */
static dlist_head touched = DLIST_STATIC_INIT(touched);

/*
 * Make the table, once in a backend.  Should memory run out in the middle, the
 * next call finishes the work.  Throws 53200.
 */
static void
make_table(void)
{
	HASHCTL		control;

	if (table != NULL)
		return;
	if (table_context == NULL)
		table_context = AllocSetContextCreate(TopMemoryContext,
											  "zklock lock table",
											  ALLOCSET_DEFAULT_SIZES);
	control.keysize = ZK_NODE_PATH_SIZE;
	control.entrysize = sizeof(Lock);
	control.hcxt = table_context;
	table = hash_create("zklock locks", 16, &control,
						HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* The entry of a lock, or NULL if the backend has nothing to do with it. */
Lock *
zklock_lock_find(const LockName *name)
{
	if (lock_total == 0)
		return NULL;
	return (Lock *) hash_search(table, name->node, HASH_FIND, NULL);
}

/*
 * The transaction does something to this lock at the nesting level of now, so
 * the end of that level has to look at it.  Cannot fail.
 */
void
zklock_lock_touch(Lock *lock)
{
	int			nesting = GetCurrentTransactionNestLevel();

	if (lock->nesting == nesting)
		return;
	if (lock->nesting > 0)
		dlist_delete(&lock->touched_link);
	lock->nesting = nesting;
	dlist_push_head(&touched, &lock->touched_link);
}

/*
 * The entry of a lock, made if there is none.  A new one counts nothing: it is
 * to be forgotten should nothing come of it; after an error that is done when
 * the (sub)transaction aborts.  Throws 53200.
 */
Lock *
zklock_lock_make(const LockName *name)
{
	Lock	   *lock = zklock_lock_find(name);
	char	   *path;

	if (lock != NULL)
		return lock;
	make_table();
	path = MemoryContextStrdup(table_context, name->path);
	lock = (Lock *) hash_search(table, name->node, HASH_ENTER, NULL);
	memset((char *) lock + ZK_NODE_PATH_SIZE, 0,
		   sizeof(Lock) - ZK_NODE_PATH_SIZE);
	lock->path = path;
	dlist_push_tail(&locks, &lock->link);
	lock_total++;
	zklock_lock_touch(lock);
	return lock;
}

/* Remove an entry if it counts nothing.  Cannot fail. */
void
zklock_lock_forget(Lock *lock)
{
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		if (zklock_lock_used(lock, mode))
			return;
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		Assert(lock->contender[mode] == 0);
	pfree(lock->path);
	if (lock->levels != NULL)
		pfree(lock->levels);
	dlist_delete(&lock->link);
	if (lock->nesting > 0)
		dlist_delete(&lock->touched_link);
	lock_total--;
	(void) hash_search(table, lock->node, HASH_REMOVE, NULL);
}

/* Walk through the entries: the first for NULL, then the next, NULL at last. */
Lock *
zklock_lock_next(Lock *lock)
{
	if (lock == NULL)
		return dlist_is_empty(&locks) ? NULL :
			dlist_head_element(Lock, link, &locks);
	return dlist_has_next(&locks, &lock->link) ?
		dlist_container(Lock, link, dlist_next_node(&locks, &lock->link)) :
		NULL;
}

/* How many entries there are. */
int
zklock_lock_total(void)
{
	return lock_total;
}

/*
 * Does no entry have a contender?  Then nothing is lost with the ZooKeeper
 * session.
 */
bool
zklock_table_idle(void)
{
	for (Lock *lock = zklock_lock_next(NULL); lock != NULL;
		 lock = zklock_lock_next(lock))
		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
			if (lock->contender[mode] != 0)
				return false;
	return true;
}

/* A mode as users see it. */
const char *
zklock_mode_name(ZkMode mode)
{
	static const char *const names[ZK_MODE_COUNT] = {
		[ZK_EXCLUSIVE] = "exclusive",
		[ZK_SHARED] = "shared",
		[ZK_PERMIT] = "permit"
	};

	return names[mode];
}

/* Was a lock acquired in this mode, in whatever scope, and not given back? */
bool
zklock_lock_used(const Lock *lock, ZkMode mode)
{
	return lock->session_count[mode] > 0 || lock->transaction_count[mode] > 0;
}

/* Was a lock acquired in session scope, in whatever mode, and not given back? */
bool
zklock_lock_session_used(const Lock *lock)
{
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		if (lock->session_count[mode] > 0)
			return true;
	return false;
}

/* Is there a contender of its own for this mode? */
bool
zklock_lock_has_contender(const Lock *lock, ZkMode mode)
{
	return lock->contender[mode] != 0 && !(mode == ZK_SHARED && lock->reserved);
}

/* In which mode is the contender that stands for what is held in this one? */
ZkMode
zklock_lock_stands_for(const Lock *lock, ZkMode mode)
{
	return zklock_lock_has_contender(lock, mode) ? mode : ZK_EXCLUSIVE;
}

/* Does what is held grant this mode at once? */
bool
zklock_lock_covers(const Lock *lock, ZkMode mode)
{
	return zklock_lock_has_contender(lock, ZK_EXCLUSIVE) || zklock_lock_has_contender(lock, mode);
}

/*
 * Make room for one more acquisition, so that counting it cannot fail.  For a
 * shared one under an exclusive contender that includes a place for the
 * shared contender that will stand for it when the exclusive one goes.
 * Throws 53200, 54000.
 */
void
zklock_lock_make_room(Lock *lock, LockScope scope, ZkMode mode)
{
	if (lock->session_count[mode] == INT_MAX ||
		lock->transaction_count[mode] == INT_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 lock->permits > 0 ?
				 errmsg("semaphore \"%s\" was acquired too many times", lock->path) :
				 errmsg("lock \"%s\" was acquired too many times", lock->path)));

	zklock_lock_touch(lock);
	if (scope == SCOPE_TRANSACTION && lock->levels == NULL)
	{
		lock->levels = MemoryContextAlloc(table_context, 4 * sizeof(LockLevel));
		lock->level_capacity = 4;
	}
	else if (scope == SCOPE_TRANSACTION &&
			 lock->level_count == lock->level_capacity)
	{
		lock->levels = repalloc(lock->levels,
								2 * lock->level_capacity * sizeof(LockLevel));
		lock->level_capacity *= 2;
	}

	if (mode == ZK_SHARED && lock->contender[ZK_SHARED] == 0 &&
		lock->contender[ZK_EXCLUSIVE] != 0)
	{
		ZkError		error;
		ZkContenderId id = zk_contender_reserve(zklock_client,
												lock->contender[ZK_EXCLUSIVE],
												&error);

		if (id == 0)
			zklock_report_error(error, "", "could not acquire lock \"%s\"",
								lock->path);
		lock->contender[ZK_SHARED] = id;
		lock->reserved = true;
	}
}

/*
 * Count one more acquisition; zklock_lock_make_room() came before.  Cannot
 * fail.
 */
void
zklock_lock_count(Lock *lock, LockScope scope, ZkMode mode)
{
	int			nesting = GetCurrentTransactionNestLevel();
	LockLevel  *level;

	zklock_verdict_work();
	if (scope == SCOPE_SESSION)
	{
		lock->session_count[mode]++;
		return;
	}
	if (lock->level_count == 0 ||
		lock->levels[lock->level_count - 1].nesting != nesting)
	{
		Assert(lock->level_count < lock->level_capacity);
		level = &lock->levels[lock->level_count++];
		memset(level, 0, sizeof(*level));
		level->nesting = nesting;
	}
	lock->levels[lock->level_count - 1].count[mode]++;
	lock->transaction_count[mode]++;
}

/*
 * A contender of this mode was granted: it is the table's from now on.  If the
 * lock had been lost, it is no more, and what the session held of it is
 * forgotten.  Cannot fail.
 */
void
zklock_lock_granted(Lock *lock, ZkMode mode, ZkContenderId id,
					const char *contender_name)
{
	Assert(lock->contender[mode] == 0);
	if (lock->lost)
	{
		Assert(lock->level_count == 0);
		zklock_verdict_doom(lock, &lock->loss);
		lock->lost = false;
		lock->job.begun_nesting = 0;
		memset(lock->session_count, 0, sizeof(lock->session_count));
	}
	lock->contender[mode] = id;
	zk_contender_rely_on(zklock_client, id);
	lock->since[mode] = GetCurrentTimestamp();
	strlcpy(lock->name[mode], contender_name, sizeof(lock->name[mode]));
}

/*
 * The mode of the contender that says most of a lock that is held: the
 * exclusive one, if it has one.
 */
ZkMode
zklock_lock_main_mode(const Lock *lock)
{
	int			mode = ZK_EXCLUSIVE;

	while (mode < ZK_MODE_COUNT - 1 && !zklock_lock_has_contender(lock, mode))
		mode++;
	return mode;
}

/*
 * The token of a lock that is held: that of its exclusive contender, if it has
 * one.
 */
int64
zklock_lock_token(const Lock *lock)
{
	ZkContenderStatus status;

	zk_contender_status(zklock_client, lock->contender[zklock_lock_main_mode(lock)],
						&status);
	return status.token;
}

/*
 * Has the transaction taken this token past the lock's fence, and not rolled
 * that back?
 */
bool
zklock_lock_fenced(const Lock *lock, int64 token)
{
	return lock->fence_nesting > 0 && lock->fence_token == token;
}

/*
 * Note that the transaction has taken this token past the lock's fence, at the
 * nesting level of now.
 */
void
zklock_lock_set_fenced(Lock *lock, int64 token)
{
	lock->fence_token = token;
	lock->fence_nesting = GetCurrentTransactionNestLevel();
	zklock_lock_touch(lock);
}

/*
 * Note that the lock's fence was removed: the transaction has to pass it again.
 */
void
zklock_lock_clear_fenced(Lock *lock)
{
	lock->fence_nesting = 0;
}

/*
 * Does the transaction depend on this lock, whatever the session does?  Then it
 * has to roll back if the lock was lost.
 */
bool
zklock_lock_binds(const Lock *lock)
{
	return lock->level_count > 0 || lock->fence_nesting > 0;
}

/*
 * Note what the holder of a contender leaves in the lock's record when that
 * goes.  After a loss that is nothing.  Cannot fail.
 */
static void
leave_record(const Lock *lock, ZkMode mode)
{
	bool		job = mode == ZK_EXCLUSIVE && (lock->job.state == JOB_ENDED ||
											   lock->job.state == JOB_RESET);
	ZkRecord	note;

	if (lock->lost || !(lock->handover[mode] || job))
		return;
	memset(&note, 0, sizeof(note));
	if (lock->handover[mode])
		zklock_handover_note(&note);
	if (job && lock->job.state == JOB_ENDED)
	{
		note.run_count = 1;
		note.runs[0] = lock->job.run;
	}
	else if (job)
	{
		note.has_reset = true;
		note.reset_time = lock->job.run.fire_time;
		note.reset_token = zklock_lock_token(lock);
	}
	zk_contender_note(zklock_client, lock->contender[mode], &note);
}

/*
 * The contender of a mode has gone, with all that belongs to it.  Cannot fail.
 */
static void
forget_contender(Lock *lock, ZkMode mode)
{
	lock->contender[mode] = 0;
	lock->name[mode][0] = '\0';
	lock->handover[mode] = false;
	if (mode == ZK_SHARED)
		lock->reserved = false;
	else
	{
		lock->job.state = JOB_NONE;
		lock->job.begun_nesting = 0;
	}
}

/*
 * End the life of a contender: with somebody who waits for it, who finds it in
 * the list, or without.  Cannot fail.
 */
void
zklock_lock_end_contender(Lock *lock, ZkMode mode, ReleaseList *list)
{
	ZkContenderId id = lock->contender[mode];

	if (id == 0)
		return;
	leave_record(lock, mode);
	if (list == NULL || !zklock_lock_has_contender(lock, mode))
		zk_contender_abandon(zklock_client, id);
	else
	{
		zk_contender_release(zklock_client, id);
		list->items[list->count].id = id;
		list->items[list->count].lock = lock;
		list->count++;
	}
	forget_contender(lock, mode);
}

/*
 * After counts went down: end the contenders that stand for nothing any more.
 * The last exclusive acquisition before a shared one leaves no gap (S24).
 * With a list, which has room for two more, the caller waits for the ends.
 * Cannot fail.
 */
void
zklock_lock_settle(Lock *lock, ReleaseList *list)
{
	if (!zklock_lock_used(lock, ZK_EXCLUSIVE) &&
		lock->contender[ZK_EXCLUSIVE] != 0)
	{
		if (zklock_lock_used(lock, ZK_SHARED) && lock->reserved)
		{
			leave_record(lock, ZK_EXCLUSIVE);
			zk_contender_downgrade(zklock_client,
								   lock->contender[ZK_EXCLUSIVE],
								   lock->contender[ZK_SHARED]);
			lock->handover[ZK_SHARED] = lock->handover[ZK_EXCLUSIVE];
			forget_contender(lock, ZK_EXCLUSIVE);
			lock->reserved = false;
			lock->since[ZK_SHARED] = lock->since[ZK_EXCLUSIVE];
		}
		else
			zklock_lock_end_contender(lock, ZK_EXCLUSIVE, list);
	}
	if (!zklock_lock_used(lock, ZK_SHARED))
		zklock_lock_end_contender(lock, ZK_SHARED, list);
	if (!zklock_lock_used(lock, ZK_PERMIT))
		zklock_lock_end_contender(lock, ZK_PERMIT, list);
}

/*
 * What the record of a lock says of the last run of a job that was ended in
 * this database and so has a row there; or NULL.
 */
const ZkRun *
zklock_job_mark(const ZkRecord *record)
{
	for (int i = 0; i < record->run_count; i++)
		if (record->runs[i].system == GetSystemIdentifier() &&
			record->runs[i].database == MyDatabaseId)
			return &record->runs[i];
	return NULL;
}

/*
 * The run of a job has begun under a lock that was acquired for the session.
 * In transaction scope the transaction holds the lock from here on, and its
 * commit ends the run; zklock_lock_make_room() came before.  Cannot fail.
 */
void
zklock_lock_begin_job(Lock *lock, LockScope scope)
{
	lock->job.state = JOB_BEGUN;
	lock->job.begun_nesting = GetCurrentTransactionNestLevel();
	zklock_lock_touch(lock);
	if (scope != SCOPE_TRANSACTION)
		return;
	lock->session_count[ZK_EXCLUSIVE]--;
	zklock_lock_count(lock, SCOPE_TRANSACTION, ZK_EXCLUSIVE);
	lock->job.state = JOB_ENDING;
	lock->job.nesting = lock->job.begun_nesting;
}

/*
 * Between the end of a run and the commit that it waits for nothing may be done
 * to its lock.  Throws 55006.
 */
void
zklock_lock_check_job(const Lock *lock)
{
	if (lock->job.state == JOB_ENDING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("job \"%s\" ends with the transaction", lock->path),
				 errdetail("Until then, its lock can be neither acquired again nor released.")));
}

/*
 * The transaction has committed: if it was to end the run of a job, that has
 * ended, and the lock is given back.  If it was to begin one, that has begun.
 * Cannot fail.
 */
void
zklock_lock_commit_job(Lock *lock)
{
	ZkPosition	position;

	lock->job.begun_nesting = 0;
	if (lock->job.state != JOB_ENDING)
		return;
	position = zklock_handover_commit();
	lock->job.state = JOB_ENDED;
	lock->job.run.ended_at = GetCurrentTimestamp();
	if (lock->job.run.database != 0)
	{
		lock->job.run.timeline = position.timeline;
		lock->job.run.lsn = position.lsn;
	}
	memset(lock->session_count, 0, sizeof(lock->session_count));
	zklock_lock_settle(lock, NULL);
}

/*
 * What was begun in a (sub)transaction that is rolled back: a run goes on that
 * was only to be ended there, and is given up if it was begun there.  Cannot
 * fail.
 */
static void
roll_back_job(Lock *lock, int nesting)
{
	if (lock->job.state == JOB_ENDING && lock->job.nesting >= nesting)
		lock->job.state = JOB_BEGUN;
	if (lock->job.begun_nesting < nesting)
		return;
	lock->job.state = JOB_NONE;
	lock->job.begun_nesting = 0;
	if (lock->session_count[ZK_EXCLUSIVE] > 0)
		lock->session_count[ZK_EXCLUSIVE]--;
}

/*
 * Note what the session leaves in the records of a lock that it goes on to
 * hold, should it just exit.  Cannot fail.
 */
void
zklock_lock_renew_note(const Lock *lock)
{
	for (int mode = ZK_EXCLUSIVE; mode <= ZK_SHARED; mode++)
		if (zklock_lock_has_contender(lock, mode))
			leave_record(lock, mode);
}

/*
 * Give back what was acquired of a lock at this nesting level or deeper, and
 * forget what was fenced there, or was to end a job.
 */
static void
drop_levels(Lock *lock, int nesting)
{
	while (lock->level_count > 0 &&
		   lock->levels[lock->level_count - 1].nesting >= nesting)
	{
		LockLevel  *level = &lock->levels[--lock->level_count];

		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
			lock->transaction_count[mode] -= level->count[mode];
	}
	if (lock->fence_nesting >= nesting)
		lock->fence_nesting = 0;
	roll_back_job(lock, nesting);
}

/*
 * Put a lock whose deeper levels have gone where it belongs among those that
 * the transaction has something of.
 */
static void
sink(Lock *lock)
{
	dlist_iter	iter;
	int			nesting = lock->fence_nesting;

	dlist_delete(&lock->touched_link);
	if (lock->level_count > 0)
		nesting = Max(nesting, lock->levels[lock->level_count - 1].nesting);
	nesting = Max(nesting, lock->job.begun_nesting);
	if (lock->job.state == JOB_ENDING)
		nesting = Max(nesting, lock->job.nesting);
	lock->nesting = nesting;
	if (nesting == 0)
		return;
	dlist_foreach(iter, &touched)
	{
		if (dlist_container(Lock, touched_link, iter.cur)->nesting > nesting)
			continue;
		dlist_insert_before(iter.cur, &lock->touched_link);
		return;
	}
	dlist_push_tail(&touched, &lock->touched_link);
}

/*
 * The first lock that the transaction has something of at this nesting level or
 * deeper; NULL if there is none.
 */
static Lock *
first_touched(int nesting)
{
	Lock	   *lock;

	if (dlist_is_empty(&touched))
		return NULL;
	lock = dlist_head_element(Lock, touched_link, &touched);
	return lock->nesting >= nesting ? lock : NULL;
}

/*
 * Walk through the locks that the transaction may have something of at this
 * nesting level or deeper: the first for NULL, then the next, NULL at last.
 */
Lock *
zklock_lock_next_touched(Lock *lock, int nesting)
{
	if (lock == NULL)
		return first_touched(nesting);
	if (!dlist_has_next(&touched, &lock->touched_link))
		return NULL;
	lock = dlist_container(Lock, touched_link,
						   dlist_next_node(&touched, &lock->touched_link));
	return lock->nesting >= nesting ? lock : NULL;
}

/*
 * Of all locks, give back what was acquired at this nesting level or deeper,
 * and forget what was fenced there, or was to end a job.  Entries go with the
 * last of their counts.  Cannot fail.
 */
void
zklock_locks_drop_levels(int nesting)
{
	Lock	   *lock;

	while ((lock = first_touched(nesting)) != NULL)
	{
		drop_levels(lock, nesting);
		sink(lock);
		zklock_lock_settle(lock, NULL);
		zklock_lock_forget(lock);
	}
}

/*
 * Hand what was acquired and fenced of a lock, and what is to end a job, at
 * this nesting level to the one above.
 */
static void
pass_level_up(Lock *lock, int nesting)
{
	LockLevel  *level;

	if (lock->fence_nesting == nesting)
		lock->fence_nesting = nesting - 1;
	if (lock->job.nesting == nesting)
		lock->job.nesting = nesting - 1;
	if (lock->job.begun_nesting == nesting)
		lock->job.begun_nesting = nesting - 1;
	if (lock->level_count == 0)
		return;
	level = &lock->levels[lock->level_count - 1];
	if (level->nesting != nesting)
		return;
	if (lock->level_count > 1 && level[-1].nesting == nesting - 1)
	{
		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
			level[-1].count[mode] += level->count[mode];
		lock->level_count--;
	}
	else
		level->nesting = nesting - 1;
}

/*
 * The same of all locks.  Their order by nesting level stays as it is.  Cannot
 * fail.
 */
void
zklock_locks_pass_level_up(int nesting)
{
	dlist_iter	iter;

	dlist_foreach(iter, &touched)
	{
		Lock	   *lock = dlist_container(Lock, touched_link, iter.cur);

		if (lock->nesting < nesting)
			break;
		pass_level_up(lock, nesting);
		lock->nesting = nesting - 1;
	}
}
