/*-------------------------------------------------------------------------
 *
 * query.h
 *	  What the backend wants of the contenders of others: to see them, to ask
 *	  for a lock back, to break one.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/query.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_QUERY_H
#define ZKLOCK_QUERY_H

#include "client.h"

extern void zk_errand_begin(ZkClient *client, Errand *errand);
extern void zk_errand_advance(ZkClient *client);
extern void zk_errand_restart(ZkClient *client);
extern ZkTime zk_errand_due(const ZkClient *client);

#endif							/* ZKLOCK_QUERY_H */
