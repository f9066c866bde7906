/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  What is counted: acquire calls and how they end, locks that are lost,
 *	  ZooKeeper sessions.
 *
 * For the files of backend/.
 *
 * IDENTIFICATION
 *	  src/backend/stats.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_STATS_H
#define ZKLOCK_STATS_H

#include "zklock.h"

extern void zklock_stats_loaded(void);
extern size_t zklock_stats_shmem_size(void);
extern void zklock_stats_attach(void);
extern bool zklock_stats_shared(void);
extern void zklock_stats_count(StatCounter stat);
extern ZkTime zklock_stats_bucket_bound(int bucket);
extern void zklock_stats_begin(void);
extern void zklock_stats_behind(void);
extern void zklock_stats_granted(void);
extern void zklock_stats_failed(int sqlstate);
extern void zklock_stats_end(StatCounter outcome);
extern void zklock_stats_session(const ZkSessionStatus *status);
extern void zklock_stats_read(LockStats *stats);
extern void zklock_stats_reset(void);

#endif							/* ZKLOCK_STATS_H */
