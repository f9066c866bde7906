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

extern void zk_own_watch(ZkClient *client, int slot);
extern void zk_own_rewrite(ZkClient *client, int slot);
extern ZkTime zk_own_watch_due(const ZkClient *client);
extern void zk_own_watches_gone(ZkClient *client);

#endif							/* ZKLOCK_OWN_WATCH_H */
