/*-------------------------------------------------------------------------
 *
 * zk_record.h
 *	  What holders of a lock leave for the next ones.
 *
 * Part of the interface between the worlds: see zk_session.h.
 *
 * IDENTIFICATION
 *	  src/zkclient/zk_record.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZK_RECORD_H
#define ZK_RECORD_H

#include "zk_types.h"

/* Clusters of which a record has a position. */
#define ZK_RECORD_POSITIONS	8

/* Databases of which a record has a run. */
#define ZK_RECORD_RUNS		4

/* Longest text that says who ended a run, terminating NUL included. */
#define ZK_RUNNER_SIZE		200

/* How far a cluster's WAL went when a lock was released. */
typedef struct ZkPosition
{
	uint64_t	system;			/* the cluster's system identifier */
	uint32_t	timeline;
	uint64_t	lsn;
} ZkPosition;

/*
 * The run of a job that was ended last in a database.  Times are microseconds
 * since 2000.
 */
typedef struct ZkRun
{
	uint64_t	system;			/* the cluster's system identifier */
	uint32_t	database;		/* whose table has the row of the run; 0 if
								 * none has, because a standby ended it */
	uint32_t	timeline;		/* how far the WAL of the cluster went with it */
	uint64_t	lsn;
	int64_t		fire_time;
	int64_t		ended_at;
	char		ended_by[ZK_RUNNER_SIZE];	/* UTF-8, no control characters */
} ZkRun;

/*
 * What the holders of a lock leave for the next ones: its record.  An empty one
 * is all zeroes.
 */
typedef struct ZkRecord
{
	int64_t		token;			/* of the last release that was recorded */
	char		contender[ZK_NAME_SIZE];	/* and its contender; or empty */
	int			position_count;
	ZkPosition	positions[ZK_RECORD_POSITIONS]; /* one for a cluster, the most
												 * recent one first */

	int			run_count;
	ZkRun		runs[ZK_RECORD_RUNS];	/* one for a database, the most recent
										 * one first */

	/*
	 * Runs of the job that were due before that time count as ended; those
	 * due later count as not ended if a token up to that one ended them.
	 */
	bool		has_reset;
	int64_t		reset_time;
	int64_t		reset_token;
} ZkRecord;

/* The position of a cluster in a record, or NULL. */
extern const ZkPosition *zk_record_position(const ZkRecord *record,
											uint64_t system);

#endif							/* ZK_RECORD_H */
