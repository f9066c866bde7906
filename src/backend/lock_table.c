/*-------------------------------------------------------------------------
 *
 * lock_table.c
 *	  What this backend holds, by scope and by level of subtransaction.
 *
 * There is one entry for each lock path, in a hash table of the backend: up to
 * two contenders (one exclusive, one shared), and counts by mode, for session
 * scope and for each level of subtransaction.  Acquisitions stack as those of
 * advisory locks do; the contender is released with the last one.
 *
 * Nothing that runs at the end of a transaction allocates, waits or can fail.
 * Memory is therefore allocated before a contender is requested, and the lock
 * client takes orders without allocating (D2).  T3, T6 and T8 are in acquire.c,
 * T5 is in xact.c.
 *
 * T1. What this backend holds never conflicts with what it asks for: the client
 * ignores its own contenders of the same lock node.
 *
 * T2. A holder in exclusive mode gets shared mode immediately: it is only
 * counted, and a place for the downgrade is reserved.  When the last exclusive
 * acquisition is released first, the shared contender takes the exclusive one's
 * place, number and token (F9), so no waiter can slip in.
 *
 * T4. Counts of a subtransaction pass to its parent when it commits, and vanish
 * when it rolls back.
 *
 * T7. So does the note that a lock was fenced.  It is dropped with the lock's
 * entry: a later acquisition has another token.
 *
 * T9. An entry is either a lock's or a semaphore's, with a number of permits,
 * as long as it counts anything.  A backend has at most one permit of a
 * semaphore: contenders of one backend do not exclude each other elsewhere, and
 * a second one could wait for the first forever.
 *
 * T10. The end of a subtransaction looks only at entries that it may concern.
 * They are in a list by falling nesting level (Lock.nesting); any change to an
 * entry moves it to the head (zklock_lock_touch()), as no level is deeper than
 * the current one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "handover.h"
#include "lock_stats.h"
#include "lock_table.h"
#include "session.h"
#include "verdict.h"

/* What the table has of a lock, which is large, and mostly the only one. */
typedef struct TableEntry
{
	const char *node;			/* hash key: that of the lock */
	Lock	   *lock;
} TableEntry;

/* Everything below lives in this context; NULL until the first lock. */
static MemoryContext table_context = NULL;
static HTAB *table = NULL;		/* of TableEntry */
static dlist_head locks = DLIST_STATIC_INIT(locks); /* their locks, in order */
static int	lock_total = 0;

/* Entries that the transaction may have changed, by falling Lock.nesting. */
static dlist_head touched = DLIST_STATIC_INIT(touched);

/* Hash and comparison of keys, which are pointers to strings. */
static uint32
hash_node(const void *key, Size size)
{
	(void) size;
	return string_hash(*(const char *const *) key, ZK_NODE_PATH_SIZE);
}

static int
compare_nodes(const void *a, const void *b, Size size)
{
	(void) size;
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Returns the entry of a lock, or NULL if there is none. */
Lock *
zklock_lock_find(const LockName *name)
{
	const char *node = name->node;
	TableEntry *entry;

	if (lock_total == 0)
		return NULL;
	entry = (TableEntry *) hash_search(table, &node, HASH_FIND, NULL);
	return entry != NULL ? entry->lock : NULL;
}

/* Has the end of the current nesting level look at this lock.  Cannot fail. */
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
 * Returns the entry of a lock, making it if needed, and first the table; if
 * that fails half way, the next call finishes the work.  The caller forgets a
 * new entry that remains unused; after an error, the abort does.  Throws 53200.
 */
Lock *
zklock_lock_make(const LockName *name)
{
	Lock	   *lock = zklock_lock_find(name);
	HASHCTL		control = {
		.keysize = sizeof(char *),
		.entrysize = sizeof(TableEntry),
		.hash = hash_node,
		.match = compare_nodes
	};
	const char *node;
	TableEntry *entry;

	if (lock != NULL)
		return lock;
	if (table_context == NULL)
		table_context = AllocSetContextCreate(TopMemoryContext,
											  "zklock lock table",
											  ALLOCSET_DEFAULT_SIZES);
	control.hcxt = table_context;
	if (table == NULL)
		table = hash_create("zklock locks", 16, &control,
							HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	lock = MemoryContextAllocZero(table_context, sizeof(Lock));
	lock->path = MemoryContextStrdup(table_context, name->path);
	strlcpy(lock->node, name->node, sizeof(lock->node));
	node = lock->node;
	entry = (TableEntry *) hash_search(table, &node, HASH_ENTER, NULL);
	entry->lock = lock;
	lock->root_len = name->root_len;
	dlist_push_tail(&locks, &lock->link);
	lock_total++;
	zklock_lock_touch(lock);
	return lock;
}

/* Removes an entry if it counts nothing.  Cannot fail. */
void
zklock_lock_forget(Lock *lock)
{
	const char *node = lock->node;

	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		if (zklock_lock_used(lock, mode))
			return;
	pfree(lock->path);
	if (lock->levels != NULL)
		pfree(lock->levels);
	dlist_delete(&lock->link);
	if (lock->nesting > 0)
		dlist_delete(&lock->touched_link);
	lock_total--;
	(void) hash_search(table, &node, HASH_REMOVE, NULL);
	pfree(lock);
}

/* Walks through the entries: the first for NULL, NULL after the last. */
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

/* Returns the number of entries. */
int
zklock_lock_total(void)
{
	return lock_total;
}

/* Returns true if no entry has a contender. */
bool
zklock_table_idle(void)
{
	for (Lock *lock = NULL; (lock = zklock_lock_next(lock)) != NULL;)
		for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
			if (lock->contender[mode] != 0)
				return false;
	return true;
}

/* Returns the path of a lock in UTF-8; part of the entry. */
const char *
zklock_lock_utf8_path(const Lock *lock)
{
	return lock->node + lock->root_len;
}

/* Returns the name of a mode, as users see it. */
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

/* Returns true if a lock is acquired in this mode, in either scope. */
bool
zklock_lock_used(const Lock *lock, ZkMode mode)
{
	return lock->session_count[mode] > 0 || lock->transaction_count[mode] > 0;
}

/* Returns true if a lock is acquired in session scope, in any mode. */
bool
zklock_lock_session_used(const Lock *lock)
{
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		if (lock->session_count[mode] > 0)
			return true;
	return false;
}

/* Returns true if this mode has a contender of its own. */
bool
zklock_lock_has_contender(const Lock *lock, ZkMode mode)
{
	return lock->contender[mode] != 0 && !(mode == ZK_SHARED && lock->reserved);
}

/*
 * Makes room for one more acquisition, so that counting it cannot fail.  For
 * shared mode under an exclusive contender, reserves the one that takes its
 * place.  Throws 53200, 54000.
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
	if (scope == SCOPE_TRANSACTION &&
		lock->level_count == lock->level_capacity)
	{
		int			capacity = Max(2 * lock->level_capacity, 4);
		size_t		size = capacity * sizeof(LockLevel);

		lock->levels = lock->levels == NULL ?
			MemoryContextAlloc(table_context, size) :
			repalloc(lock->levels, size);
		lock->level_capacity = capacity;
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

/* Counts one more acquisition, after zklock_lock_make_room().  Cannot fail. */
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

/* Takes over a granted contender, and ends an earlier loss.  Cannot fail. */
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
	strlcpy(lock->note[mode], zklock_note, sizeof(lock->note[mode]));
	strlcpy(lock->name[mode], contender_name, sizeof(lock->name[mode]));
}

/* Returns the mode of a held lock's main contender: exclusive, if any. */
ZkMode
zklock_lock_main_mode(const Lock *lock)
{
	int			mode = ZK_EXCLUSIVE;

	while (mode < ZK_MODE_COUNT - 1 && !zklock_lock_has_contender(lock, mode))
		mode++;
	return mode;
}

/* Returns the token of a lock that is held: that of its main contender. */
int64
zklock_lock_token(const Lock *lock)
{
	ZkContenderStatus status;

	zk_contender_status(zklock_client, lock->contender[zklock_lock_main_mode(lock)],
						&status);
	return status.token;
}

/* Returns true if the transaction depends on this lock. */
bool
zklock_lock_binds(const Lock *lock)
{
	return lock->level_count > 0 || lock->fence_nesting > 0;
}

/* Notes what a contender leaves in the record at its end.  Cannot fail. */
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

/* Counts the hold of a contender that ends.  Cannot fail. */
static void
count_hold(const Lock *lock, ZkMode mode)
{
	TimestampTz end = lock->lost ? lock->loss.at : GetCurrentTimestamp();

	if (lock->contender[mode] != 0 && lock->since[mode] != 0)
		zklock_lock_stats_held(zklock_lock_utf8_path(lock), end - lock->since[mode]);
}

/* Counts the holds of a lock, which end with the process.  Cannot fail. */
void
zklock_lock_count_holds(const Lock *lock)
{
	for (int mode = 0; mode < ZK_MODE_COUNT; mode++)
		count_hold(lock, mode);
}

/* Forgets the contender of a mode, which is gone.  Cannot fail. */
static void
forget_contender(Lock *lock, ZkMode mode)
{
	count_hold(lock, mode);
	lock->contender[mode] = 0;
	if (!lock->lost)
		lock->since[mode] = 0;
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

/* Ends the contender of a mode; adds it to the list, if any.  Cannot fail. */
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
 * Ends the contenders that no count needs any more.  A downgrade leaves no gap
 * (S24).  With a list, which has room for two more, the caller waits for their
 * ends.  Cannot fail.
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
			lock->since[ZK_SHARED] = lock->since[ZK_EXCLUSIVE];
			lock->since[ZK_EXCLUSIVE] = 0;	/* one hold, which goes on */
			strlcpy(lock->note[ZK_SHARED], lock->note[ZK_EXCLUSIVE],
					sizeof(lock->note[ZK_SHARED]));
			forget_contender(lock, ZK_EXCLUSIVE);
			lock->reserved = false;
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
 * Notes that a run has begun under a session-scope lock.  In transaction scope
 * the transaction takes the lock over, for which there is room, and its commit
 * ends the run.  Cannot fail.
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

/* Refuses to touch a lock whose job ends with the transaction (55006). */
void
zklock_lock_check_job(const Lock *lock)
{
	if (lock->job.state == JOB_ENDING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("job \"%s\" ends with the transaction", lock->path),
				 errdetail("Until then, its lock can be neither acquired again nor released.")));
}

/* Ends a job with the commit, and releases its lock.  Cannot fail. */
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

/* Undoes what a (sub)transaction did to a job.  Cannot fail. */
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

/* Renews what the session's contenders leave at its exit.  Cannot fail. */
void
zklock_lock_renew_note(const Lock *lock)
{
	for (int mode = ZK_EXCLUSIVE; mode <= ZK_SHARED; mode++)
		if (zklock_lock_has_contender(lock, mode))
			leave_record(lock, mode);
}

/* Walks through the locks touched at this nesting level or deeper. */
Lock *
zklock_lock_next_touched(Lock *lock, int nesting)
{
	dlist_node *node = lock != NULL ? &lock->touched_link : &touched.head;

	if (dlist_is_empty(&touched) || !dlist_has_next(&touched, node))
		return NULL;
	lock = dlist_container(Lock, touched_link, node->next);
	return lock->nesting >= nesting ? lock : NULL;
}

/* Releases what belongs to this nesting level of a lock, or deeper. */
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

/* Moves a lock that lost its deeper levels to its place among the touched. */
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

/* Does drop_levels() for all locks, and forgets unused ones.  Cannot fail. */
void
zklock_locks_drop_levels(int nesting)
{
	Lock	   *lock;

	while ((lock = zklock_lock_next_touched(NULL, nesting)) != NULL)
	{
		drop_levels(lock, nesting);
		sink(lock);
		zklock_lock_settle(lock, NULL);
		zklock_lock_forget(lock);
	}
}

/* Passes what a lock has at this nesting level to the level above. */
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

/* Does pass_level_up() for all locks; their order stays.  Cannot fail. */
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
