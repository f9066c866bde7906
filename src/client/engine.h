/*-------------------------------------------------------------------------
 *
 * engine.h
 *	  The engine, as threads leave it, or ask for something to be done in it.
 *
 * For the files of client/; request.c has it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ENGINE_H
#define ZKLOCK_ENGINE_H

#include "client.h"

extern Engine *zk_engine_create(void (*advance) (ZkClient *client, Contender *c),
								void (*resume) (ZkClient *client),
								void (*take) (ZkClient *client));
extern void zk_engine_leave(ZkClient *client);
extern void zk_engine_ask(ZkClient *client);
extern void zk_contender_touch(ZkClient *client, Contender *c);
extern void zk_contenders_touch_all(ZkClient *client);

#endif							/* ZKLOCK_ENGINE_H */
