/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  What is counted: acquire calls and their outcomes, lost locks, ZooKeeper
 *	  sessions.
 *
 * The counters, atomic variables, are the cluster's if the library is in
 * shared_preload_libraries, and else the backend's own.
 *
 * V1. Every acquire call counts as one attempt, however many locks it is for,
 * and as one outcome.  A call is one of zklock_acquire(), so wrong arguments
 * and empty arrays do not count.  The outcome is counted where the call ends:
 * in its PG_CATCH, or in an exit callback if it is FATAL.  So attempts are the
 * sum of the outcomes and of the calls under way, also after a reset, which
 * subtracts what it has read.  "At once" means without waiting for another
 * client.
 *
 * V2. The client's threads know what happens to ZooKeeper sessions, but must
 * not touch shared memory.  The backend counts the difference whenever it
 * looks, at last when it exits.  A lock counts as lost when its backend
 * notices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "zklock.h"
#include "stats.h"

/* All that is counted. */
typedef struct Counters
{
	pg_atomic_uint64 values[STAT_COUNT];
	pg_atomic_uint64 reset_at;	/* a TimestampTz */
} Counters;

static Counters own;			/* this backend's */
static Counters *counters = &own;

/* The acquire call that is being made. */
static struct
{
	bool		open;
	ZkTime		behind_since;	/* waits for others since; 0 for not waiting */
}			call;

/* What was counted of the running client's ZooKeeper sessions. */
static ZkSessionStatus counted;

static void
initialize(Counters *new)
{
	for (int i = 0; i < STAT_COUNT; i++)
		pg_atomic_init_u64(&new->values[i], 0);
	pg_atomic_init_u64(&new->reset_at, (uint64) GetCurrentTimestamp());
}

/* Starts to count for this backend, at module load. */
void
zklock_stats_loaded(void)
{
	initialize(&own);
}

/* Returns the shared memory that the counters take, in bytes. */
size_t
zklock_stats_shmem_size(void)
{
	return MAXALIGN(sizeof(Counters));
}

/* Finds or creates the counters in shared memory, in the startup hook. */
void
zklock_stats_attach(void)
{
	bool		found;

	counters = ShmemInitStruct("zklock statistics", sizeof(Counters), &found);
	if (!found)
		initialize(counters);
}

/* Returns true if the counters are the cluster's. */
bool
zklock_stats_shared(void)
{
	return counters != &own;
}

/* Counts something once.  Cannot fail. */
void
zklock_stats_count(StatCounter stat)
{
	pg_atomic_fetch_add_u64(&counters->values[stat], 1);
}

/* Returns a bucket's upper bound in microseconds; the last one has none. */
ZkTime
zklock_stats_bucket_bound(int bucket)
{
	return ZK_MS((ZkTime) 1 << (2 * bucket));
}

/* Counts a wait of that many microseconds for other clients. */
static void
count_wait(ZkTime waited)
{
	int			bucket = 0;

	while (bucket < WAIT_BUCKETS - 1 &&
		   waited >= zklock_stats_bucket_bound(bucket))
		bucket++;
	zklock_stats_count(STAT_WAITS + bucket);
	pg_atomic_fetch_add_u64(&counters->values[STAT_WAIT_TIME], waited);
}

/* Counts the outcome of the acquire call under way, if any.  Cannot fail. */
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

/* Counts an acquire call that begins. zklock_stats_end() has to follow. */
void
zklock_stats_begin(void)
{
	call.open = true;
	call.behind_since = 0;
	zklock_stats_count(STAT_ATTEMPTS);
}

/* Notes that the acquire call under way has waited for others since then. */
void
zklock_stats_behind(ZkTime since)
{
	if (call.behind_since == 0 || since < call.behind_since)
		call.behind_since = since;
}

/* Counts that the current acquire call was granted. */
void
zklock_stats_granted(void)
{
	zklock_stats_end(call.behind_since != 0 ?
					 STAT_AFTER_WAIT : STAT_AT_ONCE);
}

/* Counts that the current acquire call failed, with that SQLSTATE. */
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

/* Counts by how much one of the client's own counters has grown. */
static void
count_growth(StatCounter stat, int64 now, int64 before)
{
	if (now != before)
		pg_atomic_fetch_add_u64(&counters->values[stat], now - before);
}

/* Counts what happened to the ZooKeeper sessions; NULL: of a new client. */
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

/* Reads all counters, one after the other. */
void
zklock_stats_read(LockStats *stats)
{
	for (int i = 0; i < STAT_COUNT; i++)
		stats->values[i] = (int64) pg_atomic_read_u64(&counters->values[i]);
	stats->reset_at = (TimestampTz) pg_atomic_read_u64(&counters->reset_at);
}

/* Resets the counters, except what is counted meanwhile or under way. */
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
	pg_atomic_write_u64(&counters->reset_at, (uint64) GetCurrentTimestamp());
}
