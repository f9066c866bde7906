/*-------------------------------------------------------------------------
 *
 * remove.h
 *	  Deleting a contender, and putting a shared one in its place.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REMOVE_H
#define ZKLOCK_REMOVE_H

#include "client.h"

extern void zk_send_delete(ZkClient *client, Contender *c);
extern void zk_send_downgrade(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_REMOVE_H */
