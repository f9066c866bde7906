/*-------------------------------------------------------------------------
 *
 * lock_stats.h
 *	  Figures for each lock (lock_stats.c).  For the files of backend/ that
 *	  acquire, judge and release locks, and for the view.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_LOCK_STATS_H
#define ZKLOCK_LOCK_STATS_H

#include "datatype/timestamp.h"

#include "zklock.h"
#include "owner.h"

/* What is counted.  Times are in microseconds. */
typedef struct LockFigures
{
	int64		grants;
	int64		waits;			/* for other clients, also in vain */
	int64		timeouts;
	int64		lost;
	int64		wait_time;
	int64		longest_wait;
	int64		hold_time;		/* of holds that have ended */
	int64		longest_hold;
} LockFigures;

/* The session of this cluster that was granted a lock last. */
typedef struct LastHolder
{
	TimestampTz granted_at;		/* 0 for none */
	int			pid;
	Oid			database;
	Oid			role;
	char		application[NAMEDATALEN];	/* ASCII */
	char		note[NOTE_SIZE];	/* in UTF-8, maybe cut */
} LastHolder;

/* The figures of one lock. */
typedef struct LockStat
{
	char		path[ZK_NODE_PATH_SIZE];	/* in UTF-8; empty: of all others */
	TimestampTz since;			/* counted since then */
	LockFigures figures;
	LastHolder	last;
} LockStat;

extern void zklock_lock_stats_request(void);
extern void zklock_lock_stats_attach(void);
extern void zklock_lock_stats_granted(const char *path, const char *note,
									  int64 waited);
extern void zklock_lock_stats_timeout(const char *path, int64 waited);
extern void zklock_lock_stats_held(const char *path, int64 held);
extern void zklock_lock_stats_lost(const char *path);
extern LockStat *zklock_lock_stats_read(int *count);
extern void zklock_lock_stats_reset(const char *path);

#endif							/* ZKLOCK_LOCK_STATS_H */
