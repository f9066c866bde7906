/*-------------------------------------------------------------------------
 *
 * server_timeout.h
 *	  For how long a server is waited for, and a session that nobody needs yet.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/server_timeout.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SERVER_TIMEOUT_H
#define ZKLOCK_SERVER_TIMEOUT_H

#include "client.h"

extern ZkTime zk_server_timeout_due(const ZkClient *client);
extern void zk_leader_answered(ZkClient *client, ZkTime sent_at);
extern void zk_server_timeout_connected(ZkClient *client, ZkTime begun);
extern bool zk_server_timeout_slow(const ZkClient *client);
extern void zk_server_timeout_proof_late(ZkClient *client, ZkTime sent_at);
extern void zk_server_timeout_check(ZkClient *client);
extern void zk_connect_begin(ZkClient *client, ZkTime until);
extern bool zk_connect_wanted(const ZkClient *client);
extern bool zk_session_beginning(ZkClient *client);
extern bool zk_session_awaited(ZkClient *client, ZkTime now);

#endif							/* ZKLOCK_SERVER_TIMEOUT_H */
