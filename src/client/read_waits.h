/*-------------------------------------------------------------------------
 *
 * read_waits.h
 *	  Reading published waits, and the queues they are in, for a backend that
 *	  looks for a deadlock.
 *
 * For the files of client/.
 *
 * IDENTIFICATION
 *	  src/client/read_waits.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_READ_WAITS_H
#define ZKLOCK_READ_WAITS_H

#include "client.h"

extern void zk_waits_advance(ZkClient *client);

#endif							/* ZKLOCK_READ_WAITS_H */
