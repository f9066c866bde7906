/*-------------------------------------------------------------------------
 *
 * own_watch.h
 *	  Watching over our own contenders: what others do to them.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWN_WATCH_H
#define ZKLOCK_OWN_WATCH_H

#include "client.h"

/*
 * How long a contender stays in one place before it gets a watch on its own
 * znode (W1).
 */
#define ZK_WATCH_DELAY		ZK_MS(250)

/*
 * The watch on a contender's own znode:
 *
 *    UNWATCHED ---get---> ASKED ---answered---> WATCHED
 *        ^                 | |                     |
 *        |                 | +--not permitted--> HIDDEN
 *        +---not answered--+                       |
 *        +----event, or the handle is closed-------+ (not from HIDDEN)
 */
typedef enum OwnWatchState
{
	OWN_UNWATCHED,
	OWN_ASKED,
	OWN_WATCHED,
	OWN_HIDDEN					/* the next renewal sees to that */
} OwnWatchState;

/*
 * The watch on a contender's own znode, and its data.  The flags are
 * independent: others may change the data in any way at any time, a revocation
 * remains when it was read and replaced, and one that is granted may have to
 * write its data though nobody else has.  Written by own_watch.c.  engine_lock.
 */
typedef struct OwnWatch
{
	OwnWatchState state;
	bool		changed;		/* another client has changed its data */
	bool		revoked;		/* another client asks for the lock back */
	bool		rewrite;		/* its data is to be written once more: one
								 * behind may take it for a waiter, a
								 * revocation has wiped it out, or it is held
								 * for long after a long wait */
	bool		long_held;		/* which its data says */
	uint32_t	watch_serial;	/* of the get, in ASKED */
	uint32_t	rewrite_serial; /* of the set on its way; or 0 */
	int32_t		version;		/* of its data, as last seen; -1 in HIDDEN */
	ZkTime		watch_at;		/* not before then is it watched */
	ZkTime		queued_at;		/* when it was begun */
	bool		behind;			/* it has been behind others since */
} OwnWatch;

extern void zk_own_watch_begin(Contender *c);
extern void zk_own_watch_soon(ZkClient *client, Contender *c);
extern void zk_own_watch_far(ZkClient *client, Contender *c, int ahead);
extern void zk_own_watch_announce(Contender *c);
extern void zk_own_watch_end(ZkClient *client, Contender *c);
extern void zk_own_watch(ZkClient *client, Contender *c);
extern void zk_own_rewrite(ZkClient *client, Contender *c);
extern ZkTime zk_own_watch_due(const ZkClient *client);
extern void zk_own_watches_gone(ZkClient *client);

/* Returns true if data, len bytes, begin with the text.  Any thread. */
static inline bool
zk_begins_with(const char *data, int len, const char *text)
{
	return len >= (int) strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

#endif							/* ZKLOCK_OWN_WATCH_H */
