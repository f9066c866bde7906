/*-------------------------------------------------------------------------
 *
 * place.h
 *	  A contender's place in its queue: list, and decide.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_PLACE_H
#define ZKLOCK_PLACE_H

#include "client.h"
#include "request.h"

extern void zk_send_children(ZkClient *client, int slot, AnswerHandler handler);
extern void zk_place_send_list(ZkClient *client, int slot);
extern void zk_place_relist(ZkClient *client, int slot);

#endif							/* ZKLOCK_PLACE_H */
