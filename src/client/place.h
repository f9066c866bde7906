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

extern void zk_place_send_list(ZkClient *client, Contender *c);
extern void zk_place_relist(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_PLACE_H */
