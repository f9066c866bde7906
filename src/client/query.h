/*-------------------------------------------------------------------------
 *
 * query.h
 *	  What the backend wants of the contenders of others: to see them, to ask
 *	  for a lock back, to break one.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_QUERY_H
#define ZKLOCK_QUERY_H

#include "client.h"

extern bool zk_query_init(ZkClient *client);
extern void zk_query_free(ZkClient *client);
extern void zk_query_begin(ZkClient *client, Query *query);
extern void zk_query_advance(ZkClient *client);
extern void zk_query_restart(ZkClient *client);
extern ZkTime zk_query_due(const ZkClient *client);

#endif							/* ZKLOCK_QUERY_H */
