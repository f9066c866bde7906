/*-------------------------------------------------------------------------
 *
 * queue.h
 *	  The names below a lock node: pure functions (queue.c).
 *
 * For backend/ and client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include "zk_types.h"

/* Bytes of a request's identity in names: 36 of a uuid and the NUL. */
#define ZK_UUID_SIZE	37

/* A contender found in a list of children, which owns the name. */
typedef struct ZkQueueEntry
{
	const char *name;
	int64_t		sequence;		/* the number at its end, signed */
	ZkMode		mode;
	int			permits;		/* of a semaphore: how many there are; else 0 */
	bool		may_downgrade;	/* its client may put a shared contender with
								 * the same number in its place without a
								 * trace (Curator's read-write lock) */
} ZkQueueEntry;

typedef enum ZkDecision
{
	ZK_DECIDE_GRANTED,			/* none that conflicts is ahead */
	ZK_DECIDE_WAIT,				/* watch the contender named by watch */
	ZK_DECIDE_MISSING,			/* own contender is not in the list */
	ZK_DECIDE_TIED,				/* a stranger has our number: see watch */
	ZK_DECIDE_MIXED,			/* one of another kind is ahead: see watch */
	ZK_DECIDE_SEQUENCE			/* own number is negative or near the end */
} ZkDecision;

typedef struct ZkVerdict
{
	ZkDecision	decision;
	int			watch;			/* index of the entry to watch; -1 if none */
	int			ahead;			/* contenders that must go first */
	int			self;			/* index of our own entry; -1 if MISSING */
	int			first;			/* index of the first stranger; -1 if none is
								 * ahead */

	/* WAIT: once that entry is deleted none that conflicts can be ahead */
	bool		last_ahead;

	/*
	 * WAIT: index of the entry to look out for, the nearest conflicting one
	 * ahead of that; -1 if there is none, or it is of no use to know when it
	 * goes
	 */
	int			second_watch;

	/* ... once that one is deleted, last_ahead holds */
	bool		last_second_watch;

	/* WAIT: index of an entry that makes an upgrade a deadlock; -1 if none */
	int			deadlock;

	/* WAIT for a permit: watch all up to that entry, each of which holds one */
	bool		first_waiter;

	/* ... all that must go first are our own, which are about to be deleted */
	bool		own_ahead;

	/* GRANTED, a permit: one behind may still take us for a waiter */
	bool		announce;
} ZkVerdict;

extern int	zk_queue_base_name(char *base, size_t size, ZkZnodeStyle style,
							   ZkMode mode, int permits, const char *uuid);
extern int	zk_queue_take_place(char *name, size_t size, const char *base,
								const char *exclusive);
extern bool zk_queue_parse(const char *name, ZkQueueEntry *entry);
extern int	zk_queue_sort(int64_t last, const char *const *names, int count,
						  ZkQueueEntry *entries, const char **ignored);
extern void zk_queue_decide(const ZkQueueEntry *entries, int count,
							const char *self, const char *const *own,
							int own_count, ZkVerdict *verdict);
extern int	zk_queue_all_granted(const ZkQueueEntry *entries,
								 const int64_t *session_ids, int count,
								 bool *granted);

extern int	zk_queue_blockers(const ZkQueueEntry *entries, int which);
extern int	zk_queue_front(const ZkQueueEntry *entries, int count);

#endif							/* ZKLOCK_QUEUE_H */
