/*-------------------------------------------------------------------------
 *
 * zk_record.h
 *	  The record of a lock: what its holders leave for the next ones.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_RECORD_H
#define ZK_RECORD_H

#include "zk_types.h"

/* Clusters whose positions a record keeps. */
#define ZK_RECORD_POSITIONS	8

/* Databases whose runs a record keeps. */
#define ZK_RECORD_RUNS		4

/* Longest text that says who ended a run, terminating NUL included. */
#define ZK_RUNNER_SIZE		200

/* The end of a cluster's WAL when a lock was released. */
typedef struct ZkPosition
{
	uint64_t	system;			/* the cluster's system identifier */
	uint32_t	timeline;
	uint64_t	lsn;
} ZkPosition;

/*
 * The last run of a job that ended in a database.  Times are microseconds
 * since 2000.
 */
typedef struct ZkRun
{
	uint64_t	system;			/* the cluster's system identifier */
	uint32_t	database;		/* which has the row of the run; 0 if a
								 * standby ended it */
	uint32_t	timeline;		/* with lsn: end of the WAL at its end */
	uint64_t	lsn;
	int64_t		fire_time;
	int64_t		ended_at;
	char		ended_by[ZK_RUNNER_SIZE];	/* UTF-8, no control characters */
} ZkRun;

/*
 * The record of a lock, which its holders leave for the next ones.  An empty
 * one is all zeroes.
 */
typedef struct ZkRecord
{
	int64_t		token;			/* of the last recorded release */
	char		contender[ZK_NAME_SIZE];	/* and its contender; or empty */
	int			position_count;
	ZkPosition	positions[ZK_RECORD_POSITIONS]; /* one for each cluster,
												 * latest first */

	int			run_count;
	ZkRun		runs[ZK_RECORD_RUNS];	/* one for each database, latest first */

	/*
	 * Runs of the job that were due before reset_time count as ended; later
	 * ones count as not ended if a token up to reset_token ended them.
	 */
	bool		has_reset;
	int64_t		reset_time;
	int64_t		reset_token;
} ZkRecord;

/* The position of a cluster in a record, or NULL. */
extern const ZkPosition *zk_record_position(const ZkRecord *record,
											uint64_t system);

#endif							/* ZK_RECORD_H */
