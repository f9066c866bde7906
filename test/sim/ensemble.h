/*-------------------------------------------------------------------------
 *
 * ensemble.h
 *	  The simulated ensemble: servers that behave as ZooKeeper's do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ENSEMBLE_H
#define ENSEMBLE_H

#include "net.h"
#include "wire.h"

#define ENSEMBLE_MAX	7

typedef struct EnsembleConfig
{
	int			servers;		/* 1 to ENSEMBLE_MAX */
	int			tick_ms;		/* tickTime */
	int			init_limit;		/* in ticks */
	int			sync_limit;
	int			min_timeout_ms; /* minSessionTimeout; 0 for two ticks */
	int			max_timeout_ms; /* 0 for twenty ticks */
	bool		behaves_as_39;	/* ZooKeeper 3.9 where that differs from 3.8 */
	SimTime		container_check;	/* period of the container manager */
	SimTime		container_unused;	/* it deletes those never used after that
									 * time; 0 for never */
	uint64_t	throttle_one_in;	/* requests refused with ZTHROTTLEDOP; 0
									 * for none */
} EnsembleConfig;

extern void ensemble_begin(const EnsembleConfig *config);
extern void ensemble_end(void);

/* The machine of a server: stop, cut off, and so on.  0 to servers - 1. */
extern Host *ensemble_host(int server);

/* A machine without a server has this number: it refuses connections. */
extern void ensemble_add_host(int number, const char *name);

/* The process of a server ends, or starts; it keeps its log. */
extern void ensemble_crash(int server);
extern void ensemble_start(int server);

/*
 * The disk of a server that is down is empty when it starts again.  Does nothing
 * and returns false unless all others have all that is committed, else ZooKeeper
 * may lose data; and unless their logs reach back to the beginning, because a
 * leader sends no snapshots here.
 */
extern bool ensemble_wipe_server(int server);

/* All data are gone, as if the servers' disks had been wiped. */
extern void ensemble_wipe(void);

/* The leader, or -1 if there is none that works. */
extern int	ensemble_leader(void);

/* How many servers serve clients: the leader that works, and its followers. */
extern int	ensemble_serving(void);

/* The negotiated timeout for another one that was asked for. */
extern void ensemble_set_timeouts(int min_timeout_ms, int max_timeout_ms);

/* One in so many requests is refused with ZTHROTTLEDOP; 0 for none. */
extern void ensemble_throttle(uint64_t one_in);

/*
 * What is committed: for invariants.  Paths as the servers have them.  A view is
 * valid until the next call.
 */
typedef struct NodeView
{
	const char *path;
	const struct Stat *stat;
	const char *data;
	int			len;
} NodeView;

extern bool ensemble_node(const char *path, NodeView *view);
extern bool ensemble_child(const char *path, const char *name, NodeView *view);
extern void ensemble_children(const char *path,
							  void (*each) (const char *name, const NodeView *view,
											void *argument),
							  void *argument);
extern bool ensemble_session_lives(int64_t session);
extern bool ensemble_session_closed(int64_t session);	/* not expired: a client
														 * has asked for that */

/*
 * The shortest timeout, in milliseconds, with which it was resumed in place of a
 * longer one; INT_MAX if never.  Its client knows only if that was answered.
 */
extern int	ensemble_shortest_timeout(int64_t session);

/*
 * Commits something as if a client with no session had asked for it (other
 * programs, administrators); err as of the op.  False if there is no leader.
 * With more than one server it is committed when a majority has it, which is
 * after the call returns, or never if the leader fails before.
 */
extern bool ensemble_commit(const Op *op, int *err);

/* Counters, for the report. */
typedef struct EnsembleStats
{
	uint64_t	requests;
	uint64_t	transactions;
	uint64_t	elections;
	uint64_t	expired;
	uint64_t	events;
} EnsembleStats;

extern EnsembleStats ensemble_stats;

#endif							/* ENSEMBLE_H */
