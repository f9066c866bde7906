/*-------------------------------------------------------------------------
 *
 * admin.h
 *	  Queues, trees and contenders of others (admin.c).  For the files of
 *	  backend/ that implement SQL functions, and loss.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ADMIN_H
#define ZKLOCK_ADMIN_H

#include "zklock.h"
#include "zk_inspect.h"
#include "zk_record.h"

extern const ZkQueueListing *zklock_read_queue(const LockName *name);
extern const ZkQueueListing *zklock_read_tree(const char *path);
extern void zklock_read_record(const LockName *name, ZkRecord *record);
extern bool zklock_break(const LockName *name, const char *contender,
						 bool only_revoke);
extern void zklock_report_revoked(void);

#endif							/* ZKLOCK_ADMIN_H */
