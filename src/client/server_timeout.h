/*-------------------------------------------------------------------------
 *
 * server_timeout.h
 *	  How long the client waits for a server before it tries the next one.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SERVER_TIMEOUT_H
#define ZKLOCK_SERVER_TIMEOUT_H

#include "client.h"

extern ServerTimeout *zk_server_timeout_create(void);
extern ZkTime zk_server_timeout_due(const ZkClient *client);
extern void zk_leader_answered(ZkClient *client, ZkTime sent_at);
extern void zk_server_timeout_connected(ZkClient *client, ZkTime begun);
extern bool zk_server_timeout_slow(const ZkClient *client);
extern void zk_server_timeout_proof_late(ZkClient *client, ZkTime sent_at);
extern ZkTime zk_server_timeout_resolve_after(const ZkClient *client);
extern void zk_server_timeout_check(ZkClient *client);

#endif							/* ZKLOCK_SERVER_TIMEOUT_H */
