/*-------------------------------------------------------------------------
 *
 * uuid.h
 *	  Random uuids, for the names of contenders.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_UUID_H
#define ZKLOCK_UUID_H

#include <stddef.h>

#include "queue.h"

/* Bytes of a uuid, and for how many of them the kernel is asked at a time. */
#define ZK_UUID_BYTES		16
#define ZK_UUIDS_AT_ONCE	64

/* Random bytes that were not used yet.  All zero at first. */
typedef struct ZkUuidSource
{
	size_t		left;			/* the first of them */
	unsigned char bytes[ZK_UUIDS_AT_ONCE][ZK_UUID_BYTES];
} ZkUuidSource;

extern void zk_uuid_make(ZkUuidSource *source, char *uuid);

#endif							/* ZKLOCK_UUID_H */
