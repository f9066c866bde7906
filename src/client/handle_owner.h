/*-------------------------------------------------------------------------
 *
 * handle_owner.h
 *	  The client that has a handle: there is one at a time.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_HANDLE_OWNER_H
#define ZKLOCK_HANDLE_OWNER_H

#include "client.h"

extern bool zk_client_may_claim(void);
extern bool zk_client_claim(ZkClient *client);
extern void zk_client_disclaim(void);
extern ZkClient *zk_client_owner(void);
extern ZkClient *zk_client_enter(void);

#endif							/* ZKLOCK_HANDLE_OWNER_H */
