/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  What is counted: acquire calls and their outcomes, lost locks, ZooKeeper
 *	  sessions (stats.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATS_H
#define ZKLOCK_STATS_H

#include "zklock.h"
#include "zk_session.h"

/* What stats.c counts. */
typedef enum StatCounter
{
	STAT_ATTEMPTS,				/* acquire calls */
	STAT_AT_ONCE,				/* granted without waiting */
	STAT_AFTER_WAIT,			/* granted after waiting for another client */
	STAT_TIMEOUTS,				/* another client held a lock at the timeout */
	STAT_CANCELS,				/* ended by a cancel, or with the backend */
	STAT_DEADLOCKS,
	STAT_ERRORS,				/* ended by any other error */
	STAT_LOST,					/* locks that turned out to be lost */
	STAT_SESSIONS,				/* ZooKeeper sessions begun */
	STAT_RECONNECTS,			/* connections lost and regained */
	STAT_EXPIRIES,				/* ZooKeeper sessions that have expired */
	STAT_WAIT_TIME,				/* microseconds spent waiting for other
								 * clients */
	STAT_WAITS					/* waits in the first bucket, and so on */
} StatCounter;

/*
 * Waits are counted by their length: up to 1, 4, 16, ... ms, and those longer
 * than the last bound, which is 4^9 ms (four minutes).
 */
#define WAIT_BUCKETS			11

#define STAT_COUNT			(STAT_WAITS + WAIT_BUCKETS)
#define STAT_FIRST_OUTCOME	STAT_AT_ONCE
#define STAT_LAST_OUTCOME	STAT_ERRORS

typedef struct LockStats
{
	int64		values[STAT_COUNT];
	TimestampTz reset_at;
} LockStats;

extern void zklock_stats_loaded(void);
extern size_t zklock_stats_shmem_size(void);
extern void zklock_stats_attach(void);
extern bool zklock_stats_shared(void);
extern void zklock_stats_count(StatCounter stat);
extern ZkTime zklock_stats_bucket_bound(int bucket);
extern void zklock_stats_begin(void);
extern void zklock_stats_behind(ZkTime since);
extern void zklock_stats_granted(void);
extern void zklock_stats_failed(int sqlstate);
extern void zklock_stats_end(StatCounter outcome);
extern void zklock_stats_session(const ZkSessionStatus *status);
extern void zklock_stats_read(LockStats *stats);
extern void zklock_stats_reset(void);

#endif							/* ZKLOCK_STATS_H */
