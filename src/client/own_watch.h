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

/* What Curator's Revoker writes into a contender, all of it. */
#define ZK_REVOCATION		"__REVOKE__"

/*
 * How long a contender stays in one place before it gets a watch on its own
 * znode, and how long far behind in a queue, where it will be looked for in a
 * list anyhow.
 */
#define ZK_WATCH_DELAY		ZK_MS(100)
#define ZK_FAR_WATCH_DELAY	ZK_MS(1000)

/*
 * The watch on a contender's own znode, and its data.  Written by own_watch.c.
 * engine_lock.
 */
typedef struct OwnWatch
{
	bool		watch;			/* it is being watched */
	bool		changed;		/* another client has changed its data */
	bool		revoked;		/* another client asks for the lock back */
	bool		rewrite;		/* its data is to be written once more: one
								 * behind may take it for a waiter, or a
								 * revocation has wiped it out */
	uint32_t	watch_serial;	/* of the get on its way; 0 for none */
	uint32_t	rewrite_serial; /* of the set on its way; or 0 */
	int32_t		version;		/* of its data, as last seen; -1 if that may
								 * not be read */
	ZkTime		watch_at;		/* not before then is it watched */
} OwnWatch;

extern void zk_own_watch_begin(Contender *c);
extern void zk_own_watch_in(Contender *c, ZkTime delay);
extern void zk_own_watch_announce(Contender *c, bool announce);
extern void zk_own_watch(ZkClient *client, int slot);
extern void zk_own_rewrite(ZkClient *client, int slot);
extern ZkTime zk_own_watch_due(const ZkClient *client);
extern void zk_own_watches_gone(ZkClient *client);

/* Returns true if data, len bytes, begin with the text.  Any thread. */
static inline bool
zk_begins_with(const char *data, int len, const char *text)
{
	return len >= (int) strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

#endif							/* ZKLOCK_OWN_WATCH_H */
