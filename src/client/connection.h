/*-------------------------------------------------------------------------
 *
 * connection.h
 *	  The library's handle, and the events of its session.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONNECTION_H
#define ZKLOCK_CONNECTION_H

#include "client.h"

extern void zk_connection_settle(ZkClient *client);
extern void zk_connection_look(ZkClient *client);
extern void zk_connection_hurry(ZkClient *client);
extern void zk_connection_want(ZkClient *client, ZkTime until);
extern ZkTime zk_connection_due(const ZkClient *client);
extern bool zk_session_beginning(ZkClient *client);
extern void zk_connection_manage(ZkClient *client);
extern void zk_connection_end(ZkClient *client);

#endif							/* ZKLOCK_CONNECTION_H */
