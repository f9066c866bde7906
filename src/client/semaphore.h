/*-------------------------------------------------------------------------
 *
 * semaphore.h
 *	  Waiting for a permit of a semaphore: for one of several to go.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/semaphore.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SEMAPHORE_H
#define ZKLOCK_SEMAPHORE_H

#include "client.h"
#include "queue.h"
#include "request.h"

extern void zk_permit_wait(ZkClient *client, int slot,
						   const ZkQueueEntry *entries,
						   const ZkVerdict *verdict);
extern bool zk_send_watch(ZkClient *client, int slot, const char *path,
						  watcher_fn on_event, AnswerHandler handler);
extern void zk_watch_failed(ZkClient *client, int slot, int rc,
							const char *path);
extern void zk_permit_watch_more(ZkClient *client, int slot);

#endif							/* ZKLOCK_SEMAPHORE_H */
