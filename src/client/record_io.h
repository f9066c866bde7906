/*-------------------------------------------------------------------------
 *
 * record_io.h
 *	  The record of a lock: read with a grant, written with the end of it.
 *
 * For the files of client/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_RECORD_IO_H
#define ZKLOCK_RECORD_IO_H

#include "client.h"
#include "request.h"

extern void zk_record_outdated(Contender *contender);
extern void zk_record_created(Contender *contender);
extern void zk_record_unanswered(Contender *contender, int rc);
extern bool zk_record_end_pending(ZkClient *client, const Contender *contender);
extern void zk_record_ended(ZkClient *client, const Contender *ended);
extern bool zk_record_ready(ZkClient *client, Contender *c);
extern void zk_record_op(ZkClient *client, Contender *contender, zoo_op_t *op,
						 char *path, char *text);
extern void zk_record_written(Contender *contender);
extern void zk_record_conflict(ZkClient *client, Contender *c, int err);
extern void zk_record_verify(Contender *contender);
extern void zk_send_record(ZkClient *client, Contender *c);
extern bool zk_record_flush(ZkClient *client, const Contender *contender);
extern bool zk_record_run_due(ZkClient *client, const Contender *contender);

#endif							/* ZKLOCK_RECORD_IO_H */
