/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  What is counted: acquire calls and how they end, locks that are lost,
 *	  ZooKeeper sessions.
 *
 * The counters are those of the whole cluster, in shared memory, if the library
 * is in shared_preload_libraries, and else the backend's own.  To count is to
 * add to an atomic variable: it waits for nobody, and cannot fail.
 *
 * V1. Every acquire call counts as one attempt, however many locks it is for,
 * and as one outcome; a call is what zklock_acquire() is given, so wrong
 * arguments are none, and an empty array is none.  The outcome is counted where
 * the call ends: in its PG_CATCH, or in an exit callback if it is FATAL.  So
 * attempts are the sum of the outcomes and of the calls being made, after a
 * reset, too: that subtracts what it has read.  "At once" is without having had
 * to wait for anybody else.  Counters are atomic variables, and nobody waits to
 * count.
 *
 * V2. What happens to ZooKeeper sessions is known to the client's threads,
 * which must not touch shared memory.  The backend counts the difference
 * whenever it looks, at last when it exits.  Likewise a lock counts as lost
 * when its backend notices.
 *
 * IDENTIFICATION
 *	  src/backend/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "stats.h"

/* All that is counted. */
typedef struct Counters
{
	pg_atomic_uint64 values[STAT_COUNT];
	pg_atomic_uint64 waits[WAIT_BUCKETS];
	pg_atomic_uint64 reset_at;	/* a TimestampTz */
} Counters;

static Counters own;			/* this backend's */
static Counters *counters = &own;

/* The acquire call that is being made. */
static struct
{
	bool		open;
	ZkTime		behind_since;	/* waits for somebody since; 0 for does not */
}			call;

/* What was counted of the ZooKeeper sessions of the client that runs. */
static ZkSessionStatus counted;

static void
initialize(Counters *new)
{
	for (int i = 0; i < STAT_COUNT; i++)
		pg_atomic_init_u64(&new->values[i], 0);
	for (int i = 0; i < WAIT_BUCKETS; i++)
		pg_atomic_init_u64(&new->waits[i], 0);
	pg_atomic_init_u64(&new->reset_at, (uint64) GetCurrentTimestamp());
}

/* At module load: begin to count for this backend. */
void
zklock_stats_loaded(void)
{
	initialize(&own);
}

/* How much shared memory the counters take, in bytes. */
size_t
zklock_stats_shmem_size(void)
{
	return MAXALIGN(sizeof(Counters));
}

/*
 * Find the cluster's counters in shared memory, or make them; for the startup
 * hook, which holds AddinShmemInitLock.
 */
void
zklock_stats_attach(void)
{
	bool		found;

	counters = ShmemInitStruct("zklock statistics", sizeof(Counters), &found);
	if (!found)
		initialize(counters);
}

/* Are the counters those of the cluster? */
bool
zklock_stats_shared(void)
{
	return counters != &own;
}

/* Count something once.  Cannot fail. */
void
zklock_stats_count(StatCounter stat)
{
	pg_atomic_fetch_add_u64(&counters->values[stat], 1);
}

/*
 * Upper bound of a bucket of the histogram of waits, in microseconds; the last
 * one has none.
 */
ZkTime
zklock_stats_bucket_bound(int bucket)
{
	return ZK_MS((ZkTime) 1 << (2 * bucket));
}

/* A wait for somebody else, of so many microseconds, is over. */
static void
count_wait(ZkTime waited)
{
	int			bucket = 0;

	while (bucket < WAIT_BUCKETS - 1 &&
		   waited >= zklock_stats_bucket_bound(bucket))
		bucket++;
	pg_atomic_fetch_add_u64(&counters->waits[bucket], 1);
	pg_atomic_fetch_add_u64(&counters->values[STAT_WAIT_TIME], waited);
}

/*
 * The acquire call that is being made has ended like that.  Does nothing if
 * there is none.  Cannot fail.
 */
void
zklock_stats_end(StatCounter outcome)
{
	if (!call.open)
		return;
	call.open = false;
	if (call.behind_since != 0)
		count_wait(zk_now() - call.behind_since);
	zklock_stats_count(outcome);
}

/*
 * Exit callback: a call that is ended with its process (57P01) ends nowhere
 * else.
 */
static void
end_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	zklock_stats_end(STAT_CANCELS);
}

/* An acquire call begins.  zklock_stats_end() has to follow. */
void
zklock_stats_begin(void)
{
	static bool callback_registered = false;

	if (!callback_registered)
	{
		on_shmem_exit(end_at_exit, 0);
		callback_registered = true;
	}
	call.open = true;
	call.behind_since = 0;
	zklock_stats_count(STAT_ATTEMPTS);
}

/*
 * The acquire call that is being made waits for somebody else, from now on if
 * not since before.
 */
void
zklock_stats_behind(void)
{
	if (call.behind_since == 0)
		call.behind_since = zk_now();
}

/* The acquire call was granted what it wants. */
void
zklock_stats_granted(void)
{
	zklock_stats_end(call.behind_since != 0 ?
					 STAT_AFTER_WAIT : STAT_AT_ONCE);
}

/* The acquire call ends by an error, of that SQLSTATE. */
void
zklock_stats_failed(int sqlstate)
{
	switch (sqlstate)
	{
		case ERRCODE_LOCK_NOT_AVAILABLE:
			zklock_stats_end(STAT_TIMEOUTS);
			break;
		case ERRCODE_T_R_DEADLOCK_DETECTED:
			zklock_stats_end(STAT_DEADLOCKS);
			break;
		case ERRCODE_QUERY_CANCELED:
		case ERRCODE_ADMIN_SHUTDOWN:
			zklock_stats_end(STAT_CANCELS);
			break;
		default:
			zklock_stats_end(STAT_ERRORS);
	}
}

/* Count how much one of the client's own counters has grown. */
static void
count_growth(StatCounter stat, int64 now, int64 before)
{
	if (now != before)
		pg_atomic_fetch_add_u64(&counters->values[stat], now - before);
}

/*
 * Count what has become of the client's ZooKeeper sessions since this was
 * called last.  NULL for a new client, which has had none.  Cannot fail.
 */
void
zklock_stats_session(const ZkSessionStatus *status)
{
	if (status == NULL)
	{
		memset(&counted, 0, sizeof(counted));
		return;
	}
	count_growth(STAT_SESSIONS, status->sessions, counted.sessions);
	count_growth(STAT_RECONNECTS, status->reconnects, counted.reconnects);
	count_growth(STAT_EXPIRIES, status->expiries, counted.expiries);
	counted.sessions = status->sessions;
	counted.reconnects = status->reconnects;
	counted.expiries = status->expiries;
}

/*
 * Read all counters.  What is counted meanwhile may be in one and not yet in
 * another.
 */
void
zklock_stats_read(LockStats *stats)
{
	for (int i = 0; i < STAT_COUNT; i++)
		stats->values[i] = (int64) pg_atomic_read_u64(&counters->values[i]);
	for (int i = 0; i < WAIT_BUCKETS; i++)
		stats->waits[i] = (int64) pg_atomic_read_u64(&counters->waits[i]);
	stats->reset_at = (TimestampTz) pg_atomic_read_u64(&counters->reset_at);
}

/*
 * Begin to count anew.  What is counted meanwhile is not lost, and the attempts
 * that have no outcome yet stay.
 */
void
zklock_stats_reset(void)
{
	LockStats	before;

	zklock_stats_read(&before);
	before.values[STAT_ATTEMPTS] = 0;
	for (int i = STAT_FIRST_OUTCOME; i <= STAT_LAST_OUTCOME; i++)
		before.values[STAT_ATTEMPTS] += before.values[i];
	for (int i = 0; i < STAT_COUNT; i++)
		pg_atomic_fetch_sub_u64(&counters->values[i], before.values[i]);
	for (int i = 0; i < WAIT_BUCKETS; i++)
		pg_atomic_fetch_sub_u64(&counters->waits[i], before.waits[i]);
	pg_atomic_write_u64(&counters->reset_at, (uint64) GetCurrentTimestamp());
}
