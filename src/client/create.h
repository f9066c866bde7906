/*-------------------------------------------------------------------------
 *
 * create.h
 *	  Bringing a contender into being, for certain and only once.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_CREATE_H
#define ZKLOCK_CREATE_H

#include "client.h"

extern void zk_create_adopt(ZkClient *client, Contender *c, const char *name,
							const struct Stat *stat, ZkProof proof);
extern void zk_create_failed(ZkClient *client, Contender *c, int rc);
extern void zk_send_create(ZkClient *client, Contender *c);
extern void zk_send_find(ZkClient *client, Contender *c);
extern void zk_send_stat(ZkClient *client, Contender *c);

#endif							/* ZKLOCK_CREATE_H */
