/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  The plan of a simulated world: how it is, what goes wrong, what each
 *	  client does.
 *
 * A plan is a list of lines of text: a word, and numbers with names.  Whoever
 * draws lots for a world (choose.c) writes them down here; what happens then is
 * done by the plan.  So a world can be had again from its plan, also after a
 * change of all that draws lots, and with lines left out: each line is optional,
 * and numbers that are not given are 0.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLAN_H
#define PLAN_H

#include "sim.h"

typedef enum PlanWord
{
	/* how the world is */
	PLAN_CHANCE,				/* the seed of all that the plan does not say */
	PLAN_ENSEMBLE,
	PLAN_SESSION,
	PLAN_CLIENTS,
	PLAN_LOCKS,
	PLAN_LOCK,
	PLAN_THROTTLE,
	PLAN_PREEMPT,
	PLAN_PAUSE,
	PLAN_WAKE,
	PLAN_CLOCKS,
	/* what is to follow belongs to this round */
	PLAN_ROUND,
	/* what goes wrong */
	PLAN_STOP_SERVER,
	PLAN_CRASH_SERVER,
	PLAN_CRASH_SERVERS,
	PLAN_OVERLOAD,
	PLAN_CUT_SERVERS,
	PLAN_CUT_CLIENT,
	PLAN_STOP_CLIENT,
	PLAN_KILL_CLIENT,
	PLAN_AMBUSH,
	PLAN_SPLIT_NETWORK,
	PLAN_SLOW_NETWORK,
	PLAN_SLOW_RESOLVER,
	PLAN_REFUSE_MEMORY,
	PLAN_CHANGE_TIMEOUT,
	/* and in calm times, too */
	PLAN_HANG_SERVER,
	PLAN_DELETE,
	PLAN_DENY,
	PLAN_REVOKE,
	/* what clients do */
	PLAN_ACQUIRE,
	PLAN_LIST,
	PLAN_HEAD,
	PLAN_TREE,
	PLAN_RECORD,
	PLAN_WAITS,
	PLAN_PUBLISH,
	PLAN_WITHDRAW,
	PLAN_CONNECT,
	PLAN_CROWD,
	PLAN_CLOSE,
	PLAN_WORDS
} PlanWord;

#define PLAN_FIRST_FAULT		PLAN_STOP_SERVER
#define PLAN_FIRST_OPERATION	PLAN_ACQUIRE

/* A line.  Times are microseconds, in a file seconds. */
typedef struct PlanLine
{
	PlanWord	word;
	int			round;			/* 0 before the first one; not in the file */
	int64_t		at;				/* since the round began; not before that */
	int64_t		client;
	int64_t		seed;
	int64_t		servers;
	int64_t		as_39;			/* of an ensemble: answers as 3.9 does */
	int64_t		sync_limit;		/* of an ensemble; 0 for 5 */
	int64_t		count;
	int64_t		identity;		/* of the clients: they have a credential */
	int64_t		locks;			/* a bit for each; in the file letters */
	int64_t		permits;
	int64_t		deep;			/* a lock: its node lies deeper */
	int64_t		timeout;
	int64_t		tls;			/* of the clients: only their I/O threads send */
	int64_t		one_in;
	int64_t		longest;
	int64_t		slow;			/* clocks: by so many millionths at most */
	int64_t		fast;
	int64_t		busy;			/* a round: for how long there are faults */
	int64_t		keeping;		/* a round: clients are kept at its end */

	int64_t		server;			/* from 1 on; 0 for the leader, or for all */
	int64_t		other;
	int64_t		lasts;
	int64_t		suspended;
	int64_t		wiped;			/* servers have lost their disks */
	int64_t		permissions;	/* that are left to anyone */
	int64_t		guarded;		/* from 1 on: a znode that is no lock's; 0 for
								 * a lock's */
	int64_t		cut;			/* an ambush: the client is not stopped */
	int64_t		reconnected;	/* an ambush: it is driven away first */
	int64_t		side;			/* a split: a bit for each server in one part */
	int64_t		clients;		/* and for each client */
	int64_t		pick;			/* which of those that are there then */
	int64_t		after;

	int64_t		shared;
	int64_t		no_wait;
	int64_t		recorded;
	int64_t		delay;			/* lock delay */
	int64_t		max_hold;
	int64_t		patience;		/* 0 for ever */
	int64_t		hold;
	int64_t		commits;		/* while it is held; proofs are asked for */
	int64_t		commit_after;
	int64_t		downgraded;		/* an exclusive lock becomes shared, for so
								 * long */
	int64_t		note_first;
	int64_t		note_last;
	int64_t		released;		/* and awaited for so long; 0: abandoned */
	int64_t		revoked;
	int64_t		broken;
	int64_t		hasty;			/* does not wait for the end of the session */
} PlanLine;

/* Forgets all lines. */
extern void plan_clear(void);

/* Adds a line, of the round that was added last.  It stays where it is. */
extern PlanLine *plan_add(PlanWord word);

/* Lines in their order; NULL behind the last one. */
extern PlanLine *plan_line(int number);

/* The number of the first lock of the line; -1 if it has none. */
extern int	plan_first_lock(const PlanLine *line);

/*
 * Reads a file, which must be there and right, or writes one: in the order of
 * rounds and times.
 */
extern void plan_read(const char *file);
extern void plan_write(const char *file);

/*
 * What a plan that was read expects of the trace, whose lines it is told: "expect
 * COUNT TEXT" of so many lines with that text, at least.  Check reports a violation
 * if there were fewer.
 */
extern bool plan_expects(void);
extern void plan_hear(const char *line);
extern void plan_check_expected(void);

#endif							/* PLAN_H */
