/*-------------------------------------------------------------------------
 *
 * auth.h
 *	  Who the client is to the ensemble: its credential, and the ACLs of what
 *	  it creates.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/auth.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AUTH_H
#define ZKLOCK_AUTH_H

#include "client.h"

extern bool zk_identity_init(ZkIdentity *identity, const ZkConfig *config);
extern void zk_identity_free(ZkIdentity *identity);
extern bool zk_identity_present(ZkClient *client, zhandle_t *zh);
extern bool zk_identity_settled(const ZkIdentity *identity);
extern void zk_identity_leave_user(ZkClient *client);
extern bool zk_identity_wanted(ZkIdentity *identity, int rc);
#define ZK_IDENTITY_WANTED \
	"The ZooKeeper ensemble does not serve clients that have not authenticated."

#endif							/* ZKLOCK_AUTH_H */
