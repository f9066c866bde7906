/*-------------------------------------------------------------------------
 *
 * lock_stats.c
 *	  Figures for each lock: grants, waits, holds, timeouts, losses, and the
 *	  last holder, as the sessions of this cluster have seen them.
 *
 * V8. The figures are in shared memory, if the library is in
 * shared_preload_libraries.  There is room for a fixed number of locks, those
 * that are used most; the figures of all others are summed up in one entry.
 * When a lock without an entry is used and there is no room, the least used
 * entry gives way, and all others lose a hundredth of their weight, so that
 * what was used much long ago gives way at last.
 *
 * As in pg_stat_statements, the lock in shared mode and the entry's spinlock
 * protect the figures of an entry, the lock in exclusive mode the table.  Both
 * are held for a moment only, nothing fails under them, and they are taken in
 * transaction callbacks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "lock_stats.h"

#define TRANCHE_NAME	"zklock_lock_stats"

/* The number of locks with an entry. */
#define MAX_ENTRIES		500

/* What remains of an entry's weight when another one gives way. */
#define REMAINING_WEIGHT	0.99

/* One entry of the table, whose key is the path. */
typedef struct Entry
{
	LockStat	stat;			/* path first; the rest under mutex */
	double		weight;			/* under mutex */
	slock_t		mutex;
} Entry;

/* In shared memory, besides the table. */
typedef struct Shared
{
	LWLock	   *lock;
	Entry		others;			/* of locks without an entry of their own */
} Shared;

/* NULL if the library was not preloaded. */
static Shared *shared = NULL;
static HTAB *table = NULL;

/* Asks for shared memory, in the hook for that. */
void
zklock_lock_stats_request(void)
{
	RequestAddinShmemSpace(add_size(MAXALIGN(sizeof(Shared)),
									hash_estimate_size(MAX_ENTRIES, sizeof(Entry))));
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

/* Makes an entry new. */
static void
initialize(Entry *entry)
{
	SpinLockInit(&entry->mutex);
	entry->weight = 0;
	entry->stat.since = GetCurrentTimestamp();
	memset(&entry->stat.figures, 0, sizeof(LockFigures));
	memset(&entry->stat.last, 0, sizeof(LastHolder));
}

/* Finds or creates the table in shared memory, in the startup hook. */
void
zklock_lock_stats_attach(void)
{
	HASHCTL		control = {
		.keysize = sizeof(((LockStat *) NULL)->path),
		.entrysize = sizeof(Entry)
	};
	bool		found;

	shared = ShmemInitStruct("zklock lock statistics", sizeof(Shared), &found);
	if (!found)
	{
		shared->lock = &GetNamedLWLockTranche(TRANCHE_NAME)->lock;
		shared->others.stat.path[0] = '\0';
		initialize(&shared->others);
	}
	table = ShmemInitHash("zklock locks with statistics", MAX_ENTRIES,
						  MAX_ENTRIES, &control, HASH_ELEM | HASH_STRINGS);
}

/* Adds the figures of an entry that gives way to those of the others. */
static void
add_to_others(const LockFigures *from)
{
	LockFigures *to = &shared->others.stat.figures;

	to->grants += from->grants;
	to->waits += from->waits;
	to->timeouts += from->timeouts;
	to->lost += from->lost;
	to->wait_time += from->wait_time;
	to->longest_wait = Max(to->longest_wait, from->longest_wait);
	to->hold_time += from->hold_time;
	to->longest_hold = Max(to->longest_hold, from->longest_hold);
}

/* Removes the least used entry.  The lock is held in exclusive mode. */
static void
remove_least_used(void)
{
	HASH_SEQ_STATUS scan;
	Entry	   *entry;
	Entry	   *least = NULL;

	hash_seq_init(&scan, table);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		entry->weight *= REMAINING_WEIGHT;
		if (least == NULL || entry->weight < least->weight)
			least = entry;
	}
	if (least == NULL)
		return;
	add_to_others(&least->stat.figures);
	(void) hash_search(table, least->stat.path, HASH_REMOVE, NULL);
}

/*
 * Returns the entry of a lock, made if necessary; that of the others if there
 * is no memory.  The lock is held in exclusive mode.
 */
static Entry *
find_or_make(const char *path)
{
	Entry	   *entry = hash_search(table, path, HASH_FIND, NULL);

	if (entry != NULL)
		return entry;
	if (hash_get_num_entries(table) >= MAX_ENTRIES)
		remove_least_used();
	entry = hash_search(table, path, HASH_ENTER_NULL, NULL);
	if (entry == NULL)
		return &shared->others;
	initialize(entry);
	return entry;
}

/* Returns the entry of a lock, for leave(). */
static Entry *
enter(const char *path)
{
	Entry	   *entry;

	LWLockAcquire(shared->lock, LW_SHARED);
	entry = hash_search(table, path, HASH_FIND, NULL);
	if (entry == NULL)
	{
		LWLockRelease(shared->lock);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		entry = find_or_make(path);
	}
	SpinLockAcquire(&entry->mutex);
	entry->weight++;
	return entry;
}

static void
leave(Entry *entry)
{
	SpinLockRelease(&entry->mutex);
	LWLockRelease(shared->lock);
}

/* Counts a wait of that many microseconds; 0 for none. */
static void
count_wait(LockFigures *figures, int64 waited)
{
	if (waited <= 0)
		return;
	figures->waits++;
	figures->wait_time += waited;
	figures->longest_wait = Max(figures->longest_wait, waited);
}

/*
 * Counts that this session was granted a lock, with that note in UTF-8, after a
 * wait for other clients of that many microseconds; 0 for none.  Cannot fail.
 */
void
zklock_lock_stats_granted(const char *path, const char *note, int64 waited)
{
	LastHolder	last = {
		.pid = MyProcPid,
		.database = MyDatabaseId
	};
	Entry	   *entry;

	if (shared == NULL)
		return;
	last.granted_at = GetCurrentTimestamp();
	last.role = GetSessionUserId();
	strlcpy(last.application, application_name, sizeof(last.application));
	strlcpy(last.note, note, sizeof(last.note));
	entry = enter(path);
	entry->stat.figures.grants++;
	count_wait(&entry->stat.figures, waited);
	entry->stat.last = last;
	leave(entry);
}

/* Counts that a call for a lock reached its timeout, as above.  Cannot fail. */
void
zklock_lock_stats_timeout(const char *path, int64 waited)
{
	Entry	   *entry;

	if (shared == NULL)
		return;
	entry = enter(path);
	entry->stat.figures.timeouts++;
	count_wait(&entry->stat.figures, waited);
	leave(entry);
}

/* Counts the end of a hold of that many microseconds.  Cannot fail. */
void
zklock_lock_stats_held(const char *path, int64 held)
{
	Entry	   *entry;
	LockFigures *figures;

	if (shared == NULL)
		return;
	held = Max(held, 0);
	entry = enter(path);
	figures = &entry->stat.figures;
	figures->hold_time += held;
	figures->longest_hold = Max(figures->longest_hold, held);
	leave(entry);
}

/* Counts that this session lost a lock.  Cannot fail. */
void
zklock_lock_stats_lost(const char *path)
{
	Entry	   *entry;

	if (shared == NULL)
		return;
	entry = enter(path);
	entry->stat.figures.lost++;
	leave(entry);
}

/* Copies an entry. */
static void
copy(Entry *entry, LockStat *stat)
{
	SpinLockAcquire(&entry->mutex);
	*stat = entry->stat;
	SpinLockRelease(&entry->mutex);
}

/*
 * Returns copies of all entries, palloc'd, that of the others last; their
 * number is in *count.
 */
LockStat *
zklock_lock_stats_read(int *count)
{
	LockStat   *stats = palloc((MAX_ENTRIES + 1) * sizeof(LockStat));
	HASH_SEQ_STATUS scan;
	Entry	   *entry;

	*count = 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&scan, table);
	while ((entry = hash_seq_search(&scan)) != NULL)
		copy(entry, &stats[(*count)++]);
	copy(&shared->others, &stats[(*count)++]);
	LWLockRelease(shared->lock);
	return stats;
}

/* Forgets the figures of a lock, in UTF-8; of all for NULL. */
void
zklock_lock_stats_reset(const char *path)
{
	HASH_SEQ_STATUS scan;
	Entry	   *entry;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (path != NULL)
		(void) hash_search(table, path, HASH_REMOVE, NULL);
	else
	{
		hash_seq_init(&scan, table);
		while ((entry = hash_seq_search(&scan)) != NULL)
			(void) hash_search(table, entry->stat.path, HASH_REMOVE, NULL);
		initialize(&shared->others);
	}
	LWLockRelease(shared->lock);
}
