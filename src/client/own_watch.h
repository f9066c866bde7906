/*-------------------------------------------------------------------------
 *
 * own_watch.h
 *	  Watching over our own contenders: what others do to them.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/own_watch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_OWN_WATCH_H
#define ZKLOCK_OWN_WATCH_H

#include "client.h"

/* What Curator's Revoker writes into a contender, all of it. */
#define ZK_REVOCATION		"__REVOKE__"

extern void zk_own_watch(ZkClient *client, int slot);
extern void zk_own_rewrite(ZkClient *client, int slot);
extern ZkTime zk_own_watch_due(const ZkClient *client);
extern void zk_own_watches_gone(ZkClient *client);

/* Do the data of a znode, len bytes, begin with that text?  Any thread. */
static inline bool
zk_begins_with(const char *data, int len, const char *text)
{
	return len >= (int) strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

#endif							/* ZKLOCK_OWN_WATCH_H */
