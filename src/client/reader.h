/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Reading queues, trees of locks, published waits and records for the
 *	  backend.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_READER_H
#define ZKLOCK_READER_H

#include "client.h"

extern Reader *zk_reader_create(void);
extern void zk_reader_clear(Reader *reader);
extern void zk_reader_advance(ZkClient *client);
extern void zk_reader_restart(ZkClient *client);
extern void zk_query_done(ZkClient *client, ZkQueueListing *listing);
extern void zk_query_failed(ZkClient *client, ZkError error,
							const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern ZkError zk_refused_error(const ZkClient *client, int rc);

#endif							/* ZKLOCK_READER_H */
