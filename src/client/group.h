/*-------------------------------------------------------------------------
 *
 * group.h
 *	  Contenders that come into being together: several locks in one call.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/group.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GROUP_H
#define ZKLOCK_GROUP_H

#include "client.h"

extern GroupCreate *zk_group_create(void);
extern void zk_group_handle_closed(ZkClient *client);
extern void zk_group_dissolve(ZkClient *client, int slot);
extern void zk_send_group(ZkClient *client, int slot);

#endif							/* ZKLOCK_GROUP_H */
