/*-------------------------------------------------------------------------
 *
 * sessions.h
 *	  What the leader knows of sessions, and what a follower has to tell it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SESSIONS_H
#define SESSIONS_H

#include "hash.h"
#include "sim.h"

/*
 * The leader's tracker: SessionTrackerImpl with its ExpiryQueue.  A session
 * ends with the tick after its timeout.  Times are those of a clock of its own.
 */
typedef struct Tracker
{
	HashTable	sessions;
	HashTable	buckets;		/* the sessions that end with one tick */
	int64_t		tick_ms;
	int64_t		next_ms;		/* when the next bucket is due */
} Tracker;

/* Who sends the requests of a session: the leader, or a follower's handler. */
typedef uint64_t Owner;

#define OWNER_NONE		UINT64_C(0)
#define OWNER_LEADER	UINT64_C(1)

extern void tracker_begin(Tracker *tracker, int64_t tick_ms, int64_t now_ms);
extern void tracker_end(Tracker *tracker);

/* The session exists from now on, if it did not. */
extern void tracker_track(Tracker *tracker, int64_t session, int timeout_ms, int64_t now_ms);

/* Returns false if there is no such session, or if it is being closed. */
extern bool tracker_touch(Tracker *tracker, int64_t session, int timeout_ms, int64_t now_ms);

/* Returns ZOK, ZSESSIONEXPIRED or ZSESSIONMOVED for a request of a session. */
extern int	tracker_check(Tracker *tracker, int64_t session, Owner owner);
extern void tracker_set_owner(Tracker *tracker, int64_t session, Owner owner);
extern void tracker_close(Tracker *tracker, int64_t session);
extern void tracker_remove(Tracker *tracker, int64_t session);

/*
 * Returns a session whose time is up, and closes it; 0 if there is none.  To be
 * called until it returns 0.
 */
extern int64_t tracker_expire(Tracker *tracker, int64_t now_ms);

/* A follower's touch table: the sessions heard of since the last ping. */
typedef struct Touch
{
	int64_t		session;
	int			timeout_ms;
} Touch;

typedef struct TouchTable
{
	HashTable	index;
	int			count;
	int			room;
	struct TouchEntry **entries;	/* in the order of the first touch */
} TouchTable;

extern void touches_add(TouchTable *table, int64_t session, int timeout_ms);
extern void touches_remove(TouchTable *table, int64_t session);

/* Returns what is in the table, to be freed, and empties it. */
extern Touch *touches_take(TouchTable *table, int *count);
extern void touches_end(TouchTable *table);

#endif							/* SESSIONS_H */
