/*-------------------------------------------------------------------------
 *
 * publish_wait.h
 *	  Publishing what this client waits for.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PUBLISH_WAIT_H
#define ZKLOCK_PUBLISH_WAIT_H

#include "client.h"

extern bool zk_publish_init(ZkClient *client);
extern void zk_publish_free(ZkClient *client);
extern void zk_publish_begin(ZkClient *client, WaitText *wait);
extern void zk_publish_advance(ZkClient *client);
extern void zk_publish_interrupted(ZkClient *client);
extern void zk_publish_session_over(ZkClient *client);
extern bool zk_publish_needs_ensemble(const ZkClient *client);
extern bool zk_publish_settled(const ZkClient *client);
extern ZkTime zk_publish_due(const ZkClient *client);

#endif							/* ZKLOCK_PUBLISH_WAIT_H */
