/*-------------------------------------------------------------------------
 *
 * connection.h
 *	  The library's handle, and what its session tells.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/connection.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CONNECTION_H
#define ZKLOCK_CONNECTION_H

#include "client.h"

extern void zk_connection_settle(ZkClient *client);
extern void zk_connection_look(ZkClient *client);
extern void zk_connection_manage(ZkClient *client);
extern void zk_connection_end(ZkClient *client);

#endif							/* ZKLOCK_CONNECTION_H */
