/*-------------------------------------------------------------------------
 *
 * requests.h
 *	  Requests as libzookeeper writes them, and replies as it reads them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_REQUESTS_H
#define ZKLOCK_REQUESTS_H

#include <zookeeper/zookeeper.h>
#include <zookeeper/zookeeper.jute.h>

#include "reply.h"

/* Kinds of requests, numbered from 0 on, and those that can be part of a multi-op. */
#define REQUEST_KINDS	20
#define MULTI_KIND		0

extern struct oarchive *request_make(int kind, int32_t *xid, const uint8_t *ops, int count);
extern void reply_must_be_readable(const ZkSent *sent, const void *packet, size_t size);

#endif							/* ZKLOCK_REQUESTS_H */
